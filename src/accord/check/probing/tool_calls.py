"""Which tools a check calls and how often: the plan, and the count that keeps to it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from accord.errors import AccordError

# A full check of four revisions calls a tool some 45 times, one that asks questions some 60 times.
DEFAULT_CALLS: Final = 100


class CallRefused(AccordError):
    """A tool was not called: it may not be, or its calls are used up. The message says which."""


class CallPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a check will call, told before its first call.

    Attributes:
        calls: how many calls each tool gets at most, in all of the check.
        called: the tools that will be called.
        not_called: the tools that will not be called, with the reasons.
        cases: the tools that the user's own cases call, with the number of calls.
    """

    calls: int
    called: tuple[str, ...] = ()
    not_called: Mapping[str, str] = {}
    cases: Mapping[str, int] = {}


class CallLimit:
    """Counts the calls of each tool and refuses those that the plan does not allow.

    Every call of a check passes here on its way out, so that no scenario can exceed the plan.

    Args:
        calls: how many calls each tool gets at most.

    Attributes:
        calls: the same.
        made: how many calls each tool got.
    """

    def __init__(self, calls: int = DEFAULT_CALLS) -> None:
        self.calls = calls
        self.made: Counter[str] = Counter()
        self._reserved: Counter[str] = Counter()
        self._refused: dict[str, str] = {}
        self._listed: set[str] = set()
        # A server may not care about case: a name in other case counts as the tool's own.
        self._folded: dict[str, str] = {}

    def decide(self, names: Iterable[str], refused: Mapping[str, str]) -> None:
        """Note the tools of a server, and which of them may not be called, with the reasons."""
        self._refused = dict(refused)
        self._listed.update(names)
        self._folded = {name.casefold(): name for name in self._listed}

    def reserve(self, name: str) -> None:
        """Keep a call of a tool for `claim_reserved`."""
        self._reserved[name] += 1

    def remaining(self, name: str) -> int:
        """Return how many calls of a tool may still be made, but for those that are reserved."""
        return max(self.calls - self.made[name] - self._reserved[name], 0)

    def exhausted_text(self, names: Iterable[str]) -> str:
        """Say that the calls of these tools are used up."""
        return f"the calls of {', '.join(names)} are used up (--calls {self.calls})"

    def claim(self, name: str) -> None:
        """Count a call that is about to be made.

        Raises:
            CallRefused: it may not be made.
        """
        tool = self._tool(name)
        if tool is None:
            return
        if tool in self._refused:
            raise CallRefused(f"{tool} is not called: {self._refused[tool]}")
        if not self.remaining(tool):
            raise CallRefused(self.exhausted_text([tool]))
        self.made[tool] += 1

    def claim_reserved(self, name: str) -> None:
        """Count a call that the user asked for by name, and for which one was reserved.

        Raises:
            CallRefused: no calls are left.
        """
        self._reserved[name] = max(self._reserved[name] - 1, 0)
        if self.made[name] >= self.calls:
            raise CallRefused(self.exhausted_text([name]))
        self.made[name] += 1

    def claim_all(self, message: Any) -> None:
        """Count the calls in a message or batch that is about to be sent.

        Raises:
            CallRefused: one of them may not be made.
        """
        for name in _called_in(message):
            self.claim(name)

    def _tool(self, name: str) -> str | None:
        """Return the tool that a name reaches; None where the server lists no such tool."""
        return name if name in self._listed else self._folded.get(name.casefold())


def _called_in(message: Any) -> Iterator[str]:
    for each in message if isinstance(message, list) else [message]:
        if isinstance(each, dict) and each.get("method") == "tools/call":
            params = each.get("params")
            name = params.get("name") if isinstance(params, dict) else None
            if isinstance(name, str):
                yield name
