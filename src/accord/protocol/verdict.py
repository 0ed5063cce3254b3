"""Verdicts of a monitor: what they rest on, which requirements are in scope, and which overlap."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import msgspec

from accord.protocol.catalogue import Level, Requirement, catalogue
from accord.protocol.exchange import META_VERSION, meta_of
from accord.protocol.violation import CLIENT, FAIL, SERVER, Party, Severity, Violation
from accord.trace import HttpFacts, Record
from accord.types._base import REVISION_IDS, JsonObject, RevisionId

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation


# Enough to recognize a message in a report.
_WHOLE: Final = 400
# The longest excerpt around a value, and the longest value in it.
_LONGEST: Final = 600
_VALUE: Final = 240
# Siblings of the marked value are shown up to these lengths, as long as everything fits.
_SIBLINGS: Final = (60, 24, 0)
_NEAREST: Final = 4
# Strings are shown whole or not at all: a part of a secret could not be recognized and masked.
_LEFT_OUT: Final = {"{": "{...}", "[": "[...]", '"': '"..."'}

_SPACE: Final = re.compile(r"[ \t\n\r]*")
# Numbers stay text, because Python refuses to read very long ones.
_scan: Final = json.JSONDecoder(
    strict=False, parse_int=str, parse_float=str, parse_constant=str
).raw_decode

Mark: TypeAlias = tuple[int, int]
"""Where a value begins and ends in a text."""

# Headers by which requests are judged, and which hold no secrets.
_TELLING: Final = frozenset(
    {"accept", "allow", "content-type", "last-event-id", "mcp-method", "mcp-protocol-version"}
)

VerdictName: TypeAlias = Literal[
    "pass", "fail", "warn", "not-applicable", "not-exercised", "not-recorded"
]


class Excerpt(NamedTuple):
    """A message or a part of it, and where the value in question is in this text."""

    text: str
    mark: Mark | None = None


class Tally(msgspec.Struct):
    """How often one requirement was tested and broken, with the first violations.

    `hint` is the first breach of something that is only recommended.
    """

    exercised: int = 0
    breaches: int = 0
    worst: Severity | None = None
    kept: list[Violation] = []
    hint: str | None = None

    @property
    def held_text(self) -> str:
        """The message for a requirement that was exercised and held."""
        text = f"held {self.exercised} times" if self.exercised > 1 else "held"
        return text if self.hint is None else f"{text}; {self.hint}, which is optional"


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that shows a violation, and why.

    Attributes:
        why: what the party does with it.
        party: the sender.
        number: of its record.
        message: an excerpt.
        pointer: a JSON pointer to the value in question.
        mark: where this value begins and ends in the excerpt.
    """

    why: str
    party: Party
    number: int | None = None
    message: str | None = None
    pointer: str | None = None
    mark: Mark | None = None


class Verdict(msgspec.Struct, frozen=True):
    """The final word on one requirement."""

    id: str
    level: Level
    party: str
    revisions: tuple[str, ...]
    verdict: VerdictName
    message: str
    evidence: list[Evidence]


_CAPABILITY: Final[dict[str, tuple[tuple[Party, str], ...]]] = {
    "tools": ((SERVER, "tools"),),
    "resources": ((SERVER, "resources"),),
    "prompts": ((SERVER, "prompts"),),
    "logging": ((SERVER, "logging"),),
    "completion": ((SERVER, "completions"),),
    "roots": ((CLIENT, "roots"),),
    "sampling": ((CLIENT, "sampling"),),
    "elicitation": ((CLIENT, "elicitation"),),
    "tasks": ((SERVER, "tasks"), (CLIENT, "tasks")),
    "pagination": ((SERVER, "tools"), (SERVER, "resources"), (SERVER, "prompts")),
}
"""Areas that are in play only where one of these capabilities was declared."""

_TRANSPORTS: Final[dict[str, frozenset[str]]] = {
    "http": frozenset({"http"}),
    "session": frozenset({"http"}),
    "auth": frozenset({"http", "sse"}),
    "sse": frozenset({"sse"}),
    "stdio": frozenset({"stdio"}),
}

SUPERSEDED_BY: Final[dict[str, frozenset[str]]] = {
    "http.post.accepted-202": frozenset({"http.post.refused-status"}),
    "jsonrpc.client-only-initiates": frozenset(
        {
            "http.sse.no-requests",
            "mrtr.server-asks-only-this-way",
            "elicitation.asked-by-mrtr",
            "roots.asked-by-mrtr",
        }
    ),
    "mrtr.server-asks-only-this-way": frozenset(
        {"elicitation.asked-by-mrtr", "roots.asked-by-mrtr"}
    ),
    "sampling.context.avoid": frozenset(
        {"sampling.context.needs-capability", "deprecated.include-context.not-used"}
    ),
    "sampling.create.request-fields": frozenset({"sampling.message.role-and-content"}),
    "sampling.tool-use.balanced": frozenset({"sampling.tool-result.id-matches"}),
    "meta.listen.subscription-id": frozenset(
        {"subscriptions.ack-carries-id", "subscriptions.graceful-end-carries-id"}
    ),
    "cancellation.names-own-pending": frozenset({"tasks-ext.cancel.not-by-notification"}),
    "jsonrpc.error.id-echoed-or-unreadable": frozenset({"jsonrpc.client-no-responses"}),
    "jsonrpc.request.answered": frozenset({"jsonrpc.client-no-responses"}),
    "http.sse.listen-excludes-request-scoped": frozenset({"logging.own-stream-only"}),
    "lifecycle.initialize.first": frozenset(
        {"lifecycle.initialize.method-name", "lifecycle.version.client-sends-supported"}
    ),
    "lifecycle.initialize-result.protocol-version": frozenset({"jsonrpc.response.result-member"}),
    "ping.response.empty": frozenset({"jsonrpc.response.result-member"}),
    "cancellation.request-id.previously-issued": frozenset(
        {"cancellation.request-id.present", "cancellation.request-id-required"}
    ),
    "progress.stops-after-completion": frozenset(
        {"progress.notification.active-only", "progress.value.increases"}
    ),
    "progress.notification.active-only": frozenset(
        {
            "progress.notification.token",
            "progress.server-only",
            "progress.task.same-token",
            "progress.token.type",
        }
    ),
    "lifecycle.capabilities.only-declared": frozenset(
        {"lifecycle.capabilities.declared", "lifecycle.capabilities.respected"}
    ),
    "lifecycle.capabilities.respected": frozenset(
        {"lifecycle.capabilities.declared", "lifecycle.initialize.first"}
    ),
}
"""A requirement is not reported beside one of these, which say the same more exactly."""

# Requirements on every message, from the least specific; the other areas are about one feature.
_GENERAL_AREAS: Final = (
    *("practice", "base", "jsonrpc", "transport", "result", "meta", "errors", "capability"),
    *("lifecycle", "stateless", "versioning", "schema"),
)


def specificity(requirement: str, revision: RevisionId) -> tuple[int, int, int]:
    """Return the place of a requirement among those that one breach fits; the smallest is first.

    A requirement on one feature or method says more than one on all messages, a strict one more
    than advice, and one of a new revision more than an older one.
    """
    row = catalogue().get(requirement)
    if row is None:
        return len(_GENERAL_AREAS) + 1, 1, 0
    generality = 0
    if row.area in _GENERAL_AREAS:
        generality = len(_GENERAL_AREAS) - _GENERAL_AREAS.index(row.area)
    stated = [REVISION_IDS.index(each) for each in row.revisions if each != "practice"]
    return generality, row.severity_in(revision) != FAIL, -min(stated, default=0)


def most_specific(found: Sequence[Violation]) -> list[Violation]:
    """Return the breaches of one message; what says the same less exactly is named beside it."""
    broken = {violation.requirement for violation in found}
    kept: list[Violation] = []
    beside: list[Violation] = []
    for violation in found:
        is_kept = broken.isdisjoint(SUPERSEDED_BY.get(violation.requirement, ()))
        (kept if is_kept else beside).append(violation)
    if not beside:
        return kept
    return [
        msgspec.structs.replace(violation, also=_find_superseded(violation, beside))
        for violation in kept
    ]


def _find_superseded(violation: Violation, beside: Sequence[Violation]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            each.requirement
            for each in beside
            if violation.requirement in SUPERSEDED_BY[each.requirement]
        )
    )


def out_of_scope(
    row: Requirement, conversation: "Conversation", transports: set[str]
) -> str | None:
    """Say why a requirement cannot apply to this conversation; None where it can."""
    needed = _TRANSPORTS.get(row.area)
    if needed is not None and transports and transports.isdisjoint(needed):
        return f"the conversation does not run over {' or '.join(sorted(needed))}"
    if row.id.endswith("capability.declared") or ".capability-" in row.id:
        return None
    providers = _CAPABILITY.get(row.area, ())
    known = [
        (party, capability, conversation.party(party).capabilities)
        for party, capability in providers
    ]
    if not known or any(
        declared is None or capability in declared for _, capability, declared in known
    ):
        return None
    return " and ".join(
        f"the {party} did not declare {capability}" for party, capability, _ in known
    )


def plain_messages(record: Record) -> Iterator[JsonObject]:
    """Decode the messages of a record, one or a batch; none where it holds no JSON."""
    try:
        value = None if record.message is None else msgspec.json.decode(record.message)
    except (ValueError, RecursionError):
        return
    for message in value if isinstance(value, list) else [value]:
        if isinstance(message, dict):
            yield message


def without_opening(records: list[Record]) -> list[Record]:
    """Leave out `initialize` and its answer, which belong to no revision without a handshake."""
    opened = {
        message.get("id")
        for record in records
        for message in plain_messages(record)
        if is_opening(message)
    }
    return [
        record
        for record in records
        if not any(
            is_opening(message) or ("method" not in message and message.get("id") in opened)
            for message in plain_messages(record)
        )
    ]


def is_opening(message: JsonObject) -> bool:
    """Tell whether a message opens a conversation by a handshake."""
    return message.get("method") == "initialize" and META_VERSION not in meta_of(
        message.get("params")
    )


def text_of(record: Record) -> bytes | None:
    """Return what travelled, whether it is a message or not; None where no text did."""
    if record.message is not None:
        return bytes(record.message)
    if record.raw is None or not record.raw.strip():
        return None
    return record.raw.encode(errors="surrogatepass")


def describe_http(facts: HttpFacts) -> str:
    """Return what HTTP said in one line, with the headers that are never secret."""
    parts = ["HTTP"] + ([] if facts.method is None else [facts.method])
    parts += [] if facts.path is None else [facts.path]
    parts += [] if facts.status is None else [f"status {facts.status}"]
    parts += [] if facts.event is None else [f"event {facts.event!r} {facts.data or ''}".rstrip()]
    parts += [] if facts.ended is None else [f"ended by the {facts.ended}"]
    shown = {name: text for name, text in facts.headers.items() if name in _TELLING}
    return ", ".join([" ".join(parts), *(f"{name}: {text}" for name, text in shown.items())])


def excerpt_of(record: Record, pointer: str | None = None) -> Excerpt:
    """Return what travelled, shortened around a value, to show it in a report."""
    text = (text_of(record) or b"").decode(errors="replace")
    if not text and record.http is not None:
        text = describe_http(record.http)
    return excerpt(text, pointer)


def evidence_of(violation: Violation) -> Evidence:
    """Return the message of a violation as evidence."""
    return Evidence(
        violation.why,
        violation.party,
        violation.number,
        violation.evidence,
        violation.place,
        violation.mark,
    )


# -- excerpts: a long message is shortened around the value that a violation is about
#
# The value is named by a JSON pointer (RFC 6901), such as `/result/tools/3/inputSchema`. What is
# left of the message is its own text, not parsed and written again; only what is left out is
# replaced, by `...` or by the number of items.


class _Entry(NamedTuple):
    """One member of an object, or one element of an array, by the positions of its text."""

    name: str
    begin: int
    start: int
    end: int


def make_pointer(names: Sequence[str | int]) -> str:
    """Return the JSON pointer to a value.

    >>> make_pointer(["result", "tools", 3, "a/b"])
    '/result/tools/3/a~1b'
    """
    return "".join(f"/{str(name).replace('~', '~0').replace('/', '~1')}" for name in names)


def split_pointer(pointer: str) -> list[str]:
    """Return the names in a JSON pointer."""
    return [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]


def excerpt(text: str, pointer: str | None = None) -> Excerpt:
    """Return a message, shortened around a value if it is long.

    Args:
        text: the message as it travelled.
        pointer: the value; without it, or if the message has no such value, a long message is cut.
    """
    if pointer:
        try:
            return _excerpt_around(text, split_pointer(pointer))
        except (LookupError, ValueError, RecursionError):
            # Not such a value, or not JSON.
            pass
    return Excerpt(text if len(text) <= _WHOLE else f"{text[:_WHOLE]}...")


def _excerpt_around(text: str, names: list[str]) -> Excerpt:
    start = _skip_space(text, 0)
    if len(text) <= _WHOLE:
        return Excerpt(text, _find(text, start, names))
    found = Excerpt("")
    for longest in _SIBLINGS:
        found = _shorten(text, start, names, longest)
        if len(found.text) <= _LONGEST:
            return found
    return _crop(found)


def _crop(shown: Excerpt) -> Excerpt:
    """Return the value and what is nearest to it."""
    start, end = shown.mark or (0, 0)
    beside = (_LONGEST - (end - start)) // 2
    first, last = max(0, start - beside), end + beside
    head, tail = "..." if first else "", "..." if last < len(shown.text) else ""
    moved = len(head) - first
    return Excerpt(f"{head}{shown.text[first:last]}{tail}", (start + moved, end + moved))


def _skip_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return position if found is None else found.end()


def _entries(text: str, start: int) -> Iterator[_Entry]:
    """Yield the members of an object or the elements of an array; nothing for another value."""
    if text[start] not in "{[":
        return
    is_object, index = text[start] == "{", 0
    position = _skip_space(text, start + 1)
    while text[position] not in "}]":
        begin, name = position, str(index)
        if is_object:
            name, position = _scan(text, position)
            position = _skip_space(text, _skip_space(text, position) + 1)
        _, end = _scan(text, position)
        yield _Entry(name, begin, position, end)
        index += 1
        position = _skip_space(text, end)
        if text[position] == ",":
            position = _skip_space(text, position + 1)


def _place_of(entries: Sequence[_Entry], name: str) -> int:
    """Return the place of an entry; of equal names the last one counts, as it does for decoders."""
    places = [place for place, entry in enumerate(entries) if entry.name == name]
    return places[-1]


def _find(text: str, start: int, names: Sequence[str]) -> Mark:
    for name in names:
        entries = list(_entries(text, start))
        start = entries[_place_of(entries, name)].start
    return start, _scan(text, start)[1]


def _shorten(text: str, start: int, names: Sequence[str], longest: int) -> Excerpt:
    if not names:
        shown = _shorten_value(text, start, _scan(text, start)[1], _VALUE)
        return Excerpt(shown, (0, len(shown)))
    entries = list(_entries(text, start))
    place = _place_of(entries, names[0])
    inner = _shorten(text, entries[place].start, names[1:], longest)
    if text[start] == "[":
        before, after = _count(place), _count(len(entries) - place - 1)
    else:
        # The nearest siblings, and the first ones, such as the name of a tool.
        first = entries[: max(0, place - _NEAREST)]
        before = [*_siblings(text, first[:_NEAREST], longest)]
        before += ["..."] if len(first) > _NEAREST else []
        before += _siblings(text, entries[max(0, place - _NEAREST) : place], longest)
        rest = entries[place + 1 :]
        after = [*_siblings(text, rest[:_NEAREST], longest)]
        after += ["..."] if len(rest) > _NEAREST else []
    head = "".join(f"{each}," for each in before)
    head = f"{text[start]}{head}{text[entries[place].begin : entries[place].start]}"
    tail = "".join(f",{each}" for each in after) + ("]" if text[start] == "[" else "}")
    mark = inner.mark or (0, 0)
    return Excerpt(f"{head}{inner.text}{tail}", (mark[0] + len(head), mark[1] + len(head)))


def _count(items: int) -> list[str]:
    return [f"({items} more)"] if items else []


def _siblings(text: str, entries: Sequence[_Entry], longest: int) -> list[str]:
    shown = [_shorten_sibling(text, entry, longest) for entry in entries]
    # Without room for any of them, one sign stands for all.
    return ["..."] if shown and not any(shown) else [each or "..." for each in shown]


def _shorten_sibling(text: str, entry: _Entry, longest: int) -> str:
    if entry.end - entry.begin <= longest:
        return text[entry.begin : entry.end]
    head = text[entry.begin : entry.start]
    return f"{head}{_LEFT_OUT.get(text[entry.start], '...')}" if len(head) <= longest else ""


def _shorten_value(text: str, start: int, end: int, longest: int) -> str:
    """Return a value, or the beginning of a long one."""
    if end - start <= longest:
        return text[start:end]
    if text[start] not in "{[":
        closing = '"' if text[start] == '"' else ""
        return f"{text[start : start + longest]}...{closing}"
    shown, room = [], longest
    entries = list(_entries(text, start))
    for place, entry in enumerate(entries):
        part = _shorten_sibling(text, entry, _SIBLINGS[0])
        room -= len(part) + 1
        if not part or room < 0 or (text[start] == "[" and place == _NEAREST):
            shown += _count(len(entries) - place)
            break
        shown.append(part)
    return f"{text[start]}{','.join(shown)}{text[end - 1]}"
