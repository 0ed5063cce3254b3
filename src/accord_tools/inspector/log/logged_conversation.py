"""One connection as the log sees it: its messages are masked, described, judged and recorded.

Rows are linked to each other, to calls of a person and to standing answers; the opening is kept.
"""

import logging
from collections.abc import Iterable
from contextvars import ContextVar
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from accord.protocol.exchange import META_CAPABILITIES, META_SERVER
from accord.protocol.monitor import Monitor
from accord.protocol.party import META_CLIENT, Bounded
from accord.protocol.violation import Violation
from accord.secrets.masks import Secrets
from accord.testing.recording import parse_line
from accord.trace import HttpFacts, Party, Record, Transport
from accord.types import JsonObject, RevisionId
from accord_tools.inspector.log.log_entry import (
    EntryKind,
    EntrySender,
    LogEntry,
    RowBreach,
    Sketch,
    brief_of_http,
    describe_result,
    shorten,
    sketch_message,
)

if TYPE_CHECKING:
    from accord.types import RequestId
    from accord_tools.inspector.log.message_log import InspectedLog


log = logging.getLogger("accord_tools.inspector")


# Calls whose next message carries a standing answer.
_CALLS_MOST: Final = 1_000

current_call: Final[ContextVar[str | None]] = ContextVar("accord_current_call", default=None)
"""The id of a call; messages of the client that are sent in its context belong to it."""

_answering_rule: Final[ContextVar[str]] = ContextVar("accord_answering_rule", default="")


class RuleAnswers:
    """Which standing answers travel with the next messages.

    The answer to a request of the server is sent in the context that asked for it. Where questions
    come as results of a call, they are asked in other contexts than that of its next request.
    """

    def __init__(self) -> None:
        self._by_call: Bounded[str, str] = Bounded(_CALLS_MOST)

    def note(self, rule: str) -> None:
        """Note that a question of the current context is answered by a rule."""
        call = current_call.get()
        if call is None:
            _answering_rule.set(rule)
        else:
            self._by_call[call] = rule

    def take(self) -> str:
        """Return the rule that a message of the current context carries, once; empty without."""
        rule, call = _answering_rule.get(), current_call.get()
        if rule:
            _answering_rule.set("")
            return rule
        return "" if call is None else self._by_call.pop(call, "")


# Requests, tokens, exchanges and tasks of one connection that are remembered.
_REMEMBERED: Final = 10_000
_EXCHANGES: Final = 5_000
_CANCELLED: Final = 1_000
_OTHER: Final[dict[EntrySender, EntrySender]] = {"client": "server", "server": "client"}


class _Origin(msgspec.Struct, frozen=True, gc=False):
    """A request as its answers need it: its row, time, method and call."""

    number: int
    root: int
    t: float | None
    method: str
    call: str | None
    task: str = ""
    token: "RequestId | None" = None


class Links:
    """The ties between the rows of one connection."""

    def __init__(self) -> None:
        self._open: Bounded[tuple[EntrySender, RequestId], _Origin] = Bounded(_REMEMBERED)
        self._tokens: Bounded[tuple[EntrySender, RequestId], _Origin] = Bounded(_REMEMBERED)
        # Their answers may still come.
        self._cancelled: Bounded[tuple[EntrySender, RequestId], _Origin] = Bounded(_CANCELLED)
        self._exchanges: Bounded[str, _Origin] = Bounded(_EXCHANGES)
        self._tasks: Bounded[str, _Origin] = Bounded(_REMEMBERED)

    @property
    def unanswered_count(self) -> int:
        """How many requests wait for their answers."""
        return len(self._open)

    def connect(self, entry: LogEntry, sketch: Sketch) -> None:
        """Fill in what a row belongs to; the answer of a request is described here."""
        over = self._exchange_of(entry)
        if over is not None:
            entry.root, entry.call = over.root, over.call or entry.call
        for part in sketch.parts or (sketch,):
            self._connect_one(entry, part)
        entry.root = entry.root or (entry.number if sketch.kind in ("request", "batch") else 0)
        self._remember_exchange(entry)

    def _connect_one(self, entry: LogEntry, sketch: Sketch) -> None:
        if sketch.kind == "request":
            self._open_request(entry, sketch)
        elif sketch.kind in ("result", "error"):
            self._answer(entry, sketch)
        else:
            self._tie(entry, self._subject_of(entry.sender, sketch))

    def _tie(self, entry: LogEntry, origin: _Origin | None) -> None:
        if origin is not None:
            entry.root = origin.root
            entry.call = origin.call or entry.call

    def _open_request(self, entry: LogEntry, sketch: Sketch) -> None:
        if entry.root == 0 and sketch.task:
            self._tie(entry, self._tasks.get(sketch.task))
        root = entry.root or entry.number
        origin = _Origin(
            entry.number, root, entry.t, sketch.method, entry.call, sketch.task, sketch.token
        )
        if sketch.key is not None:
            self._open[entry.sender, sketch.key] = origin
        if sketch.token is not None:
            self._tokens[entry.sender, sketch.token] = origin

    def _answer(self, entry: LogEntry, sketch: Sketch) -> None:
        asker = _OTHER[entry.sender]
        origin = None
        if sketch.key is not None:
            key = (asker, sketch.key)
            origin = self._open.pop(key, None) or self._cancelled.pop(key, None)
        method, names_task = "" if origin is None else origin.method, False
        if sketch.kind == "result":
            brief, task = describe_result(method, sketch.result)
            entry.brief = entry.brief or brief
            if task and origin is not None and not origin.task:
                self._tasks[task], names_task = origin, True
        if origin is None:
            return
        if origin.token is not None and not names_task:
            # Progress may go on if the request became a task.
            self._tokens.pop((asker, origin.token), None)
        entry.method = entry.method or method
        self._tie(entry, origin)
        entry.pair = entry.pair or origin.number
        if entry.took is None and entry.t is not None and origin.t is not None:
            entry.took = round(entry.t - origin.t, 6)

    def _subject_of(self, sender: EntrySender, sketch: Sketch) -> _Origin | None:
        """Return the request that a notification is about."""
        other = _OTHER[sender]
        if sketch.subject is not None:
            own = self._open.pop((sender, sketch.subject), None)
            if own is not None:
                self._cancelled[sender, sketch.subject] = own
            return own or self._open.get((other, sketch.subject))
        if sketch.token is not None:
            return self._tokens.get((other, sketch.token))
        return self._tasks.get(sketch.task) if sketch.task else None

    # -- exchanges over HTTP

    def _exchange_of(self, entry: LogEntry) -> _Origin | None:
        name = None if entry.http is None else entry.http.exchange
        if name is None or entry.sender == "client":
            return None
        origin = self._exchanges.get(name)
        # The stream of a GET carries messages that have nothing to do with each other.
        if origin is not None and origin.method == "GET" and entry.kind != "http":
            return None
        return origin

    def _remember_exchange(self, entry: LogEntry) -> None:
        name = None if entry.http is None else entry.http.exchange
        if name is None or entry.sender != "client":
            return
        assert entry.http is not None
        if entry.kind == "http" and entry.root == 0:
            entry.root = entry.number
        method = entry.http.method or ""
        root = entry.root or entry.number
        self._exchanges[name] = _Origin(entry.number, root, entry.t, method, entry.call)


_OPENINGS: Final = frozenset({"initialize", "server/discover"})
# Without a handshake every request introduces its client; so many are looked at.
_LOOKED_AT: Final = 50


class _Request(msgspec.Struct):
    params: dict[str, Raw] = {}


class _Answer(msgspec.Struct):
    result: dict[str, Raw] = {}


class ObservedOpening:
    """The introductions of both parties; texts hold JSON with secrets masked.

    Attributes:
        client: the `clientInfo`.
        client_capabilities: as JSON.
        server: the `serverInfo`.
        server_capabilities: as JSON.
        instructions: of the server.
        began_at: seconds since the epoch, of the first message.
        took: seconds from the opening request to its answer.
    """

    def __init__(self) -> None:
        self.client: JsonObject | None = None
        self.client_capabilities = ""
        self.server: JsonObject | None = None
        self.server_capabilities = ""
        self.instructions = ""
        self.began_at: float | None = None
        self.took: float | None = None
        self._looked_at = 0

    def note(self, entry: LogEntry) -> None:
        """Look at a row."""
        if self.began_at is None:
            self.began_at = entry.at
        if entry.method in _OPENINGS:
            if entry.kind == "request":
                self._note_request(entry.body)
            elif entry.kind == "result":
                self._note_answer(entry)
        elif self.client is None and entry.kind == "request" and self._looked_at < _LOOKED_AT:
            self._looked_at += 1
            self._note_request(entry.body)

    def _note_request(self, body: bytes) -> None:
        try:
            params = msgspec.json.decode(body, type=_Request).params
            meta = msgspec.json.decode(params.get("_meta", b"{}"), type=dict[str, Raw])
        except (ValueError, RecursionError):
            return
        client = params.get("clientInfo") or meta.get(META_CLIENT)
        declared = params.get("capabilities") or meta.get(META_CAPABILITIES)
        if client:
            self.client = _as_object(client)
        if declared:
            self.client_capabilities = bytes(declared).decode(errors="replace")

    def _note_answer(self, entry: LogEntry) -> None:
        try:
            result = msgspec.json.decode(entry.body, type=_Answer).result
            instructions: Any = msgspec.json.decode(result.get("instructions", b'""'))
            meta = msgspec.json.decode(result.get("_meta", b"{}"), type=dict[str, Raw])
        except (ValueError, RecursionError):
            return
        self.took = entry.took
        server = result.get("serverInfo") or meta.get(META_SERVER)
        if server:
            self.server = _as_object(server)
        if "capabilities" in result:
            self.server_capabilities = bytes(result["capabilities"]).decode(errors="replace")
        if isinstance(instructions, str):
            self.instructions = instructions


def _as_object(text: Raw) -> JsonObject | None:
    found = msgspec.json.decode(text)
    return found if isinstance(found, dict) else None


# The first status of a refusal.
_REFUSED: Final = 400


class LoggedConversation:
    """Takes what travels over one connection; an `Observer` for the taps of `accord.testing`.

    Args:
        owner: the log.
        name: of the conversation, such as `main`.
        transport: of the next messages; a tap sets it when it is known.
        part: counts the connections of this conversation.
    """

    def __init__(
        self, owner: "InspectedLog", name: str, transport: Transport, *, part: int = 1
    ) -> None:
        self.transport: Transport = transport
        self.name = name
        self.part = part
        self.masks = Secrets(owner.secrets)
        self.opening = ObservedOpening()
        self._owner = owner
        self._links = Links()
        self._monitor = self._new_monitor()
        self._is_judged = True
        self._is_closed = False

    def _new_monitor(self) -> Monitor:
        return Monitor(passed=self._owner.note_passed)

    @property
    def revision(self) -> RevisionId | None:
        """The revision of the conversation; None until it is named."""
        return self._monitor.revision

    @property
    def judged_by(self) -> RevisionId:
        """The revision that the next message is judged by."""
        return self._monitor.conversation.current.id

    @property
    def unanswered_count(self) -> int:
        """How many requests wait for their answers."""
        return self._links.unanswered_count

    # -- taking in

    def observe(self, sender: Party, data: bytes | None, *, http: HttpFacts | None = None) -> None:
        """Take what a party sends: a message, a line that is not one, or HTTP without a body."""
        message, raw = (None, None) if data is None else parse_line(data)
        record = Record(
            sender=sender,
            t=round(monotonic() - self._owner.started, 6),
            transport=self.transport,
            message=message,
            raw=raw,
            http=http,
        )
        entry = self.add(record, at=time(), call=current_call.get() if sender == "client" else None)
        if sender == "client" and data is not None:
            entry.rule = self._owner.rule_answers.take()

    def add(
        self,
        record: Record,
        *,
        at: float | None = None,
        call: str | None = None,
        monitor: Monitor | None = None,
        judged: Record | None = None,
    ) -> LogEntry:
        """Take a record, and judge it.

        Args:
            record: what travelled; it gets the next number.
            at: seconds since the epoch.
            call: the call of the page that sent it.
            monitor: judges it in place of that of this conversation.
            judged: the record with facts that other records of the recording show.
        """
        number = self._owner.next_number
        entry, sketch, facts = self._enter(record, number, at, call)
        self._links.connect(entry, sketch)
        self._owner.append(entry)
        self.opening.note(entry)
        if self._is_judged:
            seen = replace(judged or record, number=number)
            if seen.http is not None and judged is None:
                # The facts as they are recorded, so that the recording gets the same verdicts.
                seen = replace(seen, http=facts)
            self._judge(monitor or self._monitor, seen)
        self._owner.keep_within_limits()
        return entry

    def _enter(
        self, record: Record, number: int, at: float | None, call: str | None
    ) -> tuple[LogEntry, Sketch, HttpFacts | None]:
        body = _bytes_of(record)
        masked = self.masks.apply(record)
        shown, facts = _bytes_of(masked) or b"", masked.http
        if body is None:
            assert facts is not None
            kind: EntryKind = "refusal" if _is_refusal(facts) else "http"
            sketch = Sketch(kind, method=facts.method or "", brief=brief_of_http(facts))
        elif record.message is not None:
            sketch = sketch_message(shown)
        else:
            text = shown[:1000].decode(errors="replace")
            sketch = Sketch("text", brief=shorten(text))
        keeps = self._owner.options.shows_secrets
        is_hidden = body is not None and shown != body
        is_hidden_in_http = facts != record.http
        entry = LogEntry(
            number,
            at,
            record.t,
            record.sender,
            self.name,
            self.part,
            record.transport,
            kind=sketch.kind,
            method=sketch.method,
            id=sketch.id,
            size=len(body or b"") if body is not None else _http_size(facts),
            brief=sketch.brief,
            body=shown,
            original=body if keeps and is_hidden else None,
            is_json=record.message is not None,
            http=facts,
            original_http=record.http if keeps and is_hidden_in_http else None,
            call=call,
        )
        return entry, sketch, facts

    # -- judging

    def _judge(self, monitor: Monitor, record: Record) -> None:
        try:
            self.report(monitor.observe(record))
        except Exception as error:
            # A mistake of a rule must not end the connection of the person.
            log.exception("a message could not be judged")
            self._is_judged = False
            self._owner.trouble = (
                f"row {record.number} and the rows after it are not judged, because a rule failed: "
                f"{type(error).__name__}: {error}"
            )

    def report(self, violations: Iterable[Violation]) -> None:
        """Add breaches to their rows, which may be earlier ones."""
        for each in violations:
            hide = self.masks.mask_text
            place = each.place and hide(each.place)
            breach = RowBreach(
                each.requirement, each.severity or "fail", each.party, hide(each.why), place
            )
            self._owner.add_breach(each.number or 0, breach)

    def begin_anew(self) -> None:
        """Judge the next messages as another conversation: the server has lost the session."""
        self._end_judging()
        if self.transport == "stdio":
            # Over stdio a trace has one conversation only.
            self.part = self._owner.count_part(self.name)
        self._monitor = self._new_monitor()
        self._links = Links()

    def close(self) -> None:
        """End the conversation, and judge what can only be judged at the end. May be repeated."""
        if not self._is_closed:
            self._is_closed = True
            self._end_judging()
            self._owner.end_part(self)

    def _end_judging(self) -> None:
        if self._is_judged:
            self.report(self._monitor.close())

    def make_monitor(self) -> Monitor:
        """Return a monitor for messages of this conversation; its revision is that of all."""
        self._monitor = self._new_monitor()
        return self._monitor


def _bytes_of(record: Record) -> bytes | None:
    """Return what travelled; None where HTTP came without a body."""
    if record.message is not None:
        return bytes(record.message)
    if record.raw is None:
        return None
    try:
        return record.raw.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return record.raw.encode(errors="surrogatepass")


def _is_refusal(facts: HttpFacts) -> bool:
    """Whether a message was refused by HTTP alone; people look for an answer there."""
    return facts.method == "POST" and facts.status is not None and facts.status >= _REFUSED


def _http_size(facts: HttpFacts | None) -> int:
    return 0 if facts is None else facts.size or len(facts.data or "")
