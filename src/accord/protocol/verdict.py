"""Verdicts of a monitor: what they rest on, which requirements are in scope, and which overlap."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from accord.protocol.catalogue import Level, Requirement, catalogue
from accord.protocol.excerpt import Excerpt, Mark, excerpt
from accord.protocol.exchange import META_VERSION, meta_of
from accord.protocol.violation import CLIENT, FAIL, SERVER, Party, Severity, Violation
from accord.trace import HttpFacts, Record
from accord.types._base import REVISION_IDS, JsonObject, RevisionId

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

# Headers by which requests are judged, and which hold no secrets.
_TELLING: Final = frozenset(
    {"accept", "allow", "content-type", "last-event-id", "mcp-method", "mcp-protocol-version"}
)

VerdictName: TypeAlias = Literal[
    "pass", "fail", "warn", "not-applicable", "not-exercised", "not-recorded"
]


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
