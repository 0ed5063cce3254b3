"""Which tools a check may call, and how often: the decision, the plan and the limit."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from accord.errors import AccordError
from accord.types import JsonObject
from accord_tools.arguments.samples import short_durations
from accord_tools.check.probing.messages import objects_in, params_of
from accord_tools.reports.tool_calls import ANY_TOOL, ToolCounts

# A full check of five revisions calls a tool some 80 times, one that asks questions some 120 times.
DEFAULT_CALLS: Final = 150
# How much longer than others a call takes that has to go on for a while, also on a busy machine.
PROLONGED: Final = 8


class CallRefused(AccordError):
    """A tool was not called: it is not allowed, or its calls are used up."""


class ToolCall(msgspec.Struct, frozen=True):
    """A tool that may be called, with plain valid arguments."""

    tool: JsonObject
    arguments: JsonObject

    @property
    def name(self) -> str:
        """The name of the tool."""
        return str(self.tool["name"])

    @property
    def params(self) -> JsonObject:
        """The parameters of the call."""
        return {"name": self.name, "arguments": self.arguments}

    def with_progress(self, token: object) -> JsonObject:
        """Return the parameters of a call that asks for progress."""
        return self.params | {"_meta": {"progressToken": token}}

    def prolong(self) -> "ToolCall | None":
        """Return a call that takes `PROLONGED` times as long; None where that cannot be chosen."""
        longer = short_durations(self.tool.get("inputSchema"), times=PROLONGED)
        return replace(self, arguments=self.arguments | longer) if longer else None


class CallLimit:
    """Counts the calls of each tool and refuses those that the plan does not allow.

    Every call of a check passes through it, so that no scenario can exceed the plan.

    Args:
        calls: the limit of calls for each tool.

    Attributes:
        calls: the same.
        made: how many calls each tool got.
    """

    def __init__(self, calls: int = DEFAULT_CALLS) -> None:
        self.calls = calls
        self.made: Counter[str] = Counter()
        self._succeeded: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._reserved: Counter[str] = Counter()
        self._refused: dict[str, str] = {}
        self._listed: dict[str, None] = {}
        # A server may ignore case, so a name in other case counts as a call of the tool.
        self._folded: dict[str, str] = {}

    def decide(self, names: Iterable[str], refused: Mapping[str, str]) -> None:
        """Set the tools of a server, and the reasons why some may not be called."""
        self._refused = dict(refused)
        self._listed.update(dict.fromkeys(names))
        self._folded = {name.casefold(): name for name in self._listed}

    def reserve(self, name: str) -> None:
        """Keep a call of a tool for `claim_reserved`."""
        self._reserved[name] += 1

    def calls_left(self, name: str) -> int:
        """Return how many calls of a tool are left, without the reserved ones."""
        return max(self.calls - self.made[name] - self._reserved[name], 0)

    def exhausted_text(self, names: Iterable[str]) -> str:
        """Return the message that the calls of these tools are used up."""
        return f"the calls of {', '.join(names)} are used up (--calls {self.calls})"

    def claim(self, name: str) -> None:
        """Count a call that is about to be made.

        Raises:
            CallRefused: the tool may not be called, or has no calls left.
        """
        tool = name if name in self._listed else self._folded.get(name.casefold())
        if tool is None:
            return
        if tool in self._refused:
            raise CallRefused(f"{tool} is not called: {self._refused[tool]}")
        if not self.calls_left(tool):
            raise CallRefused(self.exhausted_text([tool]))
        self.made[tool] += 1

    def claim_reserved(self, name: str) -> None:
        """Count a call that `reserve` kept.

        Raises:
            CallRefused: no calls are left.
        """
        self._reserved[name] = max(self._reserved[name] - 1, 0)
        if self.made[name] >= self.calls:
            raise CallRefused(self.exhausted_text([name]))
        self.made[name] += 1

    def note_answer(self, name: str, *, is_error: bool) -> None:
        """Count the answer to a call; names that the server does not list are left out."""
        if name in self._listed or name in self.made:
            (self._failed if is_error else self._succeeded)[name] += 1

    def counts(self, name: str) -> ToolCounts:
        """Return how often a tool was called, and how its calls were answered."""
        return ToolCounts(
            name=name,
            calls=self.made[name],
            succeeded=self._succeeded[name],
            refused=self._failed[name],
        )

    def all_counts(self) -> list[ToolCounts]:
        """Return the counts of every tool that is listed or was called."""
        return [self.counts(name) for name in {**self._listed, **self.made}]

    def claim_all(self, message: object) -> None:
        """Count the calls in a message or batch that is about to be sent.

        Raises:
            CallRefused: one of them is not allowed.
        """
        for name in _called_names(message):
            self.claim(name)


def _called_names(message: object) -> Iterator[str]:
    for each in objects_in(message):
        if each.get("method") == "tools/call":
            name = params_of(each).get("name")
            if isinstance(name, str):
                yield name


def _words(line: str) -> frozenset[str]:
    return frozenset(line.split())


# A name promises a read-only tool only if it begins with one of these.
_READS: Final = _words("count describe find get list lookup read search show view")
# Any later word of these breaks the promise: get_and_lock, list_for_sale. Nouns that are spelled
# like verbs are included (get_update): a refusal costs coverage, a call may cost data.
_CHANGES: Final = _words(
    "accept ack acknowledge activate add alter and append apply approve archive assign attach ban"
    " block book buy call cancel change charge checkout claim cleanup clear clone close commit"
    " configure confirm consume convert copy create deactivate decrement deduct delete deny deploy"
    " dequeue destroy detach disable discard dispatch do drop edit emit enable enqueue erase eval"
    " evaluate exec execute expire export fire fix flush force format generate grant import"
    " increment init insert install invalidate invite invoke kill launch load lock login logout"
    " make mark merge migrate modify move mutate mute new next notify open or overwrite patch"
    " pause pay perform pop post print provision publish pull purchase purge push put reboot"
    " rebuild redeem refresh refund register reject reload remove rename renew reopen replace"
    " reply rerun reserve reset resolve restart restore resume retry revert revoke rm rollback"
    " rotate run sale save sell send set share shell shutdown sign spawn spend start stop store"
    " submit subscribe swap switch sync take terminate then toggle touch trade transfer trash"
    " trigger truncate uninstall unlink unlock unset unsubscribe update upgrade upload upsert vote"
    " wipe withdraw write"
)
_DESTROYS: Final = _words("delete destroy drop erase purge remove rm trash truncate uninstall wipe")
# snake_case, kebab-case, camelCase, PascalCase, dots, digits, and acronyms before a word.
_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_ALLOW: Final = f"run with {ANY_TOOL} or --allow-writes to call it"
_CHOOSE: Final = f"run with {ANY_TOOL} to call it"


def tool_refusal(
    tool: Mapping[str, object],
    *,
    allow_writes: bool = False,
    chosen: Collection[str] = (),
    is_remote: bool = False,
) -> str | None:
    """Return why a tool is not called; None if it may be called.

    Annotations decide first. Without them the name decides, and only for a server that the check
    launches: a server behind a URL may be in use by others.

    Args:
        tool: as the server lists it.
        allow_writes: whether tools that change something may be called, unless they destroy it.
        chosen: the only tools that may be called, as the user named them.
        is_remote: whether the server is behind a URL, not launched by the check.
    """
    name = str(tool.get("name"))
    if chosen:
        return None if name in chosen else "it was not chosen"
    notes = tool.get("annotations")
    notes = notes if isinstance(notes, dict) else {}
    reads, destroys = notes.get("readOnlyHint"), notes.get("destructiveHint")
    # If both hints are set they contradict each other, and the dangerous one counts.
    if destroys not in (None, False):
        return f"it says that it may destroy something (destructiveHint); {_CHOOSE}"
    if reads is True:
        return None
    is_destructive = destroys is None and not _DESTROYS.isdisjoint(split_name(name))
    if allow_writes:
        return (
            f"its name suggests that it destroys something; {_CHOOSE}" if is_destructive else None
        )
    if reads is not None:
        why = "it says that it changes something (readOnlyHint: false)"
    elif is_remote:
        why = "over a URL only tools with readOnlyHint: true are called"
    elif (reason := _why_may_change(name)) is not None:
        why = reason
    else:
        return None
    return f"{why}; {_CHOOSE if is_destructive else _ALLOW}"


def split_name(name: str) -> list[str]:
    """Return the words of a name in lower case.

    >>> split_name("getHTTPResponse2_and-lock")
    ['get', 'http', 'response', '2', 'and', 'lock']
    """
    return [word.lower() for word in _WORD.findall(name)]


def _why_may_change(name: str) -> str | None:
    """Return why the name of a tool does not promise a read-only tool; None if it does."""
    words = split_name(name)
    # The lists hold ASCII words only.
    if not name.isascii() or not words or words[0] not in _READS:
        return "it might change data (no readOnlyHint)"
    changing = next((word for word in words[1:] if word in _CHANGES), None)
    return None if changing is None else f"a word of its name ({changing}) may mean a change"
