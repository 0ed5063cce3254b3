"""One row of the log as it is kept: what travelled, what it belongs to, and the verdicts."""

from typing import Final, Literal, TypeAlias

import msgspec

from accord.protocol.violation import Party, Severity
from accord.trace import HttpFacts, Record, Transport

EntrySender: TypeAlias = Literal["client", "server", "stderr"]
EntryKind: TypeAlias = Literal[
    "request", "result", "error", "notification", "batch", "http", "refusal", "text", "stderr"
]

# What an entry takes beside its texts, measured with entries of small messages.
ENTRY_BYTES: Final = 700
_HTTP_BYTES: Final = 900
_BREACH_BYTES: Final = 300


class RowBreach(msgspec.Struct, frozen=True, gc=False):
    """A clause that a message breaks; secrets in the texts are masked."""

    requirement: str
    severity: Severity
    party: Party
    why: str
    place: str | None = None


class LogEntry(msgspec.Struct, gc=False):
    """One row of the log.

    Attributes:
        number: counts the rows of all conversations, from 1.
        at: seconds since the epoch; None in a recording that does not say it.
        t: seconds since the session or the recording began; None if a recording does not say it.
        part: counts the connections of the conversation, from 1.
        id: of the message, as short text.
        brief: what the message is about, in a few words.
        body: what travelled, with secrets masked.
        original: what travelled, if a mask changed it and secrets may be shown.
        is_json: whether what travelled is JSON.
        http: what HTTP said, with secrets masked.
        original_http: what HTTP said, if a mask changed it and secrets may be shown.
        root: the row of the request that this one is about; its own number for a request.
        pair: the row of the answer, or of the request that this one answers; 0 without one.
        took: seconds from the request to the answer.
        passed: the requirements of the rules that held.
        rule: the id of the standing answer that it carries; empty without one.
    """

    number: int
    at: float | None
    t: float | None
    sender: EntrySender
    conversation: str
    part: int
    transport: Transport
    kind: EntryKind = "text"
    method: str = ""
    id: str = ""
    size: int = 0
    brief: str = ""
    body: bytes = b""
    original: bytes | None = None
    is_json: bool = False
    http: HttpFacts | None = None
    original_http: HttpFacts | None = None
    call: str | None = None
    root: int = 0
    pair: int = 0
    took: float | None = None
    severity: Severity | None = None
    breaches: tuple[RowBreach, ...] = ()
    passed: tuple[str, ...] = ()
    rule: str = ""

    @property
    def has_body(self) -> bool:
        """Whether something travelled beside what HTTP said."""
        return self.kind not in ("http", "refusal", "stderr")

    @property
    def cost(self) -> int:
        """Bytes that the entry takes in memory, about."""
        size = ENTRY_BYTES + len(self.body) + len(self.original or b"")
        for facts in (self.http, self.original_http):
            if facts is not None:
                size += _HTTP_BYTES + len(facts.data or "")
                size += sum(len(name) + len(text) for name, text in facts.headers.items())
        return size + _BREACH_BYTES * len(self.breaches)

    @property
    def kept_clauses(self) -> tuple[str, ...]:
        """The requirements that it was held to and did not break."""
        if not self.breaches:
            return self.passed
        broken = {each.requirement for each in self.breaches}
        return tuple(each for each in self.passed if each not in broken)

    def to_record(self) -> Record:
        """Return the line of a trace for this row, with secrets masked."""
        assert self.sender != "stderr"
        message = raw = None
        if self.has_body:
            if self.is_json:
                message = msgspec.Raw(self.body)
            else:
                raw = self.body.decode(errors="surrogateescape")
        return Record(
            sender=self.sender,
            t=self.t,
            transport=self.transport,
            message=message,
            raw=raw,
            http=self.http,
            number=self.number,
        )
