"""One connection as the log sees it: its messages are masked, described, judged and recorded."""

import logging
from collections.abc import Iterable
from time import monotonic, time
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from accord.protocol.monitor import Monitor
from accord.protocol.violation import Violation
from accord.testing.masking import Masks
from accord.testing.recording import parse_line
from accord.trace import HttpFacts, Party, Record, Transport
from accord.types import RevisionId
from accord_tools.inspector.log.call_tag import current_call
from accord_tools.inspector.log.entry import EntryKind, LogEntry, RowBreach
from accord_tools.inspector.log.links import Links
from accord_tools.inspector.log.opening import ObservedOpening
from accord_tools.inspector.log.sketch import Sketch, brief_of_http, shorten, sketch_message

if TYPE_CHECKING:
    from accord_tools.inspector.log.message_log import InspectedLog

log = logging.getLogger("accord_tools.inspector")

# The first status of a refusal.
_REFUSED: Final = 400
_UNMASKED: Final = b"(nested too deeply to be searched for secrets)"


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
        self.masks = Masks()
        self._secrets = [
            (text, self.masks.learn(secret).encode())
            for secret in owner.secrets
            for text in {secret.encode(), msgspec.json.encode(secret)[1:-1]}
        ]
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
        shown, facts = self._mask(record, body)
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

    def _mask(self, record: Record, body: bytes | None) -> tuple[bytes, HttpFacts | None]:
        """Return what travelled and what HTTP said, without secrets."""
        try:
            masked = self.masks.apply(record)
        except (RecursionError, ValueError):
            http = replace(record, message=None, raw=None)
            return _UNMASKED, self.masks.apply(http).http
        shown = body if masked is record else _bytes_of(masked)
        return self._hide_given(shown or b""), masked.http

    def _hide_given(self, text: bytes) -> bytes:
        """Mask the credentials that the user gave for the server: a server may repeat them."""
        for secret, mask in self._secrets:
            if secret in text:
                text = text.replace(secret, mask)
        return text

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
