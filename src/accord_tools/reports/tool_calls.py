"""Which tools a check calls and how they answer, as reports and plans show it."""

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Final

import msgspec

from accord.cli.terminal import escape_unprintable

# In a reason: names the tool where the reason is shown for one alone.
ANY_TOOL: Final = "--tool NAME"


class CallPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that a check will call, reported before its first call.

    Attributes:
        calls: the limit of calls for each tool, in the whole check.
        called: the tools that will be called.
        not_called: the tools that will not be called, with the reasons.
        cases: the tools that the user's own cases call, with the number of calls.
    """

    calls: int
    called: tuple[str, ...] = ()
    not_called: Mapping[str, str] = {}
    cases: Mapping[str, int] = {}


class ToolCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How often a tool was called, and how its calls were answered.

    Attributes:
        name: the tool.
        calls: all calls, with valid arguments or invalid ones.
        succeeded: calls that returned a result without isError.
        refused: calls that returned an error, or a result with isError.
    """

    name: str
    calls: int = 0
    succeeded: int = 0
    refused: int = 0

    @property
    def never_succeeded(self) -> bool:
        """Whether it was called, and every answer was an error."""
        return self.refused > 0 and not self.succeeded


def names_by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the tools that are not called, by the reason that they share."""
    found: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        found.setdefault(reason, []).append(name)
    return found


def refusal_reason(reason: str, names: Sequence[str]) -> str:
    """Return why tools are not called, with the option that calls the only one."""
    if len(names) == 1:
        reason = reason.replace(ANY_TOOL, f"--tool {quote(names[0])}")
    return escape_unprintable(reason)
