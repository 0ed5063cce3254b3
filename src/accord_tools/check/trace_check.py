"""Checks recorded traffic: monitors judge the records, and a report is made of it."""

from collections.abc import Callable, Collection, Iterable
from typing import Final

import msgspec

from accord.errors import TraceError
from accord.protocol.catalogue import requirements
from accord.protocol.monitor import Monitor
from accord.protocol.party import Bounded
from accord.protocol.violation import Violation
from accord.trace import HttpFacts, Party, Record
from accord.types import RequestId, RevisionId
from accord_tools.check.verdicts import is_chosen, sum_tallies
from accord_tools.reports.report import Report, Setting, ViolationGroups, build_report

# Requests without a response that are remembered; with more, responses stay unrelated.
_MOST_OPEN: Final = 256
# Every request of HTTP/1.1 has Host, every response Date. A recorder that keeps these, or both of
# the others in a POST, keeps the headers of MCP too.
_HOST: Final = "host"
_POSTED: Final = frozenset({"accept", "content-type"})
_DATE: Final = "date"
# Secrets are not among them: recorders often leave out tokens and session ids.
_KEPT: Final[dict[Party, frozenset[str]]] = {
    "client": _POSTED | {"last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version"},
    "server": frozenset({"content-type", "www-authenticate", "x-accel-buffering"}),
}


class _Envelope(msgspec.Struct):
    id: RequestId | None = None
    method: str | None = None


class _OpenRequest(msgspec.Struct):
    """A request that was recorded without its response.

    `key` names the exchange; `id` is that of the posted JSON-RPC request, None for other bodies.
    """

    key: str
    method: str
    id: RequestId | None
    has_head: bool = False


class FactInference:
    """Adds to each record of one recording what the records before it and its headers show."""

    def __init__(self) -> None:
        self._names_headers = False
        self._names_exchanges = False
        self._seen: dict[Party, set[str]] = {"client": set(), "server": set()}
        self._open: list[_OpenRequest] = []
        self._count = 0

    def complete(self, record: Record) -> Record:
        """Return a record with the facts that can be inferred; the same record if none can."""
        facts = record.http
        if record.transport != "http":
            return record
        if facts is None:
            self._relate(record, HttpFacts())
            return record
        # A recording that names some of these means what it leaves out.
        self._names_headers |= bool(facts.recorded)
        self._names_exchanges |= facts.exchange is not None or facts.stream is not None
        recorded = (
            facts.recorded if self._names_headers else self._recorded_headers(record.sender, facts)
        )
        exchange = facts.exchange if self._names_exchanges else self._relate(record, facts)
        if recorded == facts.recorded and exchange == facts.exchange:
            return record
        http = msgspec.structs.replace(facts, recorded=recorded, exchange=exchange)
        return msgspec.structs.replace(record, http=http)

    def _recorded_headers(self, sender: Party, facts: HttpFacts) -> tuple[str, ...]:
        """Return the headers that would be in a record if they had been sent."""
        seen, names = self._seen[sender], facts.headers.keys()
        seen.update(names)
        if sender == "server":
            is_whole = _DATE in names
        else:
            is_whole = _HOST in names or names >= _POSTED
        if is_whole:
            return tuple(sorted(seen | _KEPT[sender]))
        # The recorder keeps what it kept before, unless it kept no header of this one at all.
        return tuple(sorted(seen)) if names else ()

    def _relate(self, record: Record, facts: HttpFacts) -> str | None:
        """Return a name for the exchange of a record; None if it is not certain."""
        envelope = _envelope_of(record)
        if record.sender == "client":
            self._count += 1
            key = f"request {self._count}"
            id = envelope.id if envelope is not None and envelope.method is not None else None
            if len(self._open) < _MOST_OPEN:
                self._open.append(_OpenRequest(key, (facts.method or "").upper(), id))
            return key
        found = self._find(envelope, facts)
        if found is None:
            return None
        found.has_head |= facts.status is not None
        is_answer = envelope is not None and envelope.method is None
        if is_answer or (found.has_head and found.id is None):
            self._open.remove(found)
        # Of a stream some events would be missing: those that say nothing of their request.
        return found.key if facts.status is not None and facts.event is None else None

    def _find(self, envelope: _Envelope | None, facts: HttpFacts) -> _OpenRequest | None:
        """Return the request that a record of the server belongs to, if only one can be meant."""
        open = [
            each
            for each in self._open
            if facts.method is None or each.method in ("", facts.method.upper())
        ]
        if envelope is not None and envelope.method is None and envelope.id is not None:
            open = [each for each in open if each.id == envelope.id]
        elif facts.status is None or len(self._open) == _MOST_OPEN:
            return None
        else:
            open = [each for each in open if not each.has_head]
        return open[0] if len(open) == 1 else None


def _envelope_of(record: Record) -> _Envelope | None:
    """Return id and method of a message; None for anything else, such as a batch."""
    if record.message is None:
        return None
    try:
        return msgspec.json.decode(record.message, type=_Envelope)
    except (ValueError, RecursionError):
        return None


_SESSION: Final = "mcp-session-id"
_LOST: Final = 404
_EXCHANGES: Final = 1024


def replay(
    records: Iterable[Record],
    *,
    target: str,
    revision: RevisionId | None = None,
    only: Collection[str] = (),
    seen: Callable[[int], None] | None = None,
    setting: Setting | None = None,
) -> Report:
    """Judge a recording; only one record is in memory at a time.

    If a client lost its session and began again, the recording has several conversations.

    Args:
        records: the records, in order.
        target: the name of the recording in the report.
        revision: the revision to judge by; by default the one that the parties agreed on.
        only: ids of requirements to report on, or their beginnings; empty reports on all.
        seen: called with the number of records after each one.
        setting: how the check is made; the transport is filled in.

    Raises:
        TraceError: it has no messages.
    """
    conversations = TraceConversations(lambda: Monitor(revision=revision))
    groups = ViolationGroups()
    messages = 0
    transports: set[str] = set()

    def add(violations: Iterable[Violation]) -> None:
        for violation in violations:
            if is_chosen(violation.requirement, only):
                groups.add(violation)

    for count, record in enumerate(map(FactInference().complete, records), 1):
        messages += record.message is not None or record.raw is not None
        transports.add(record.transport)
        add(conversations.of(record).observe(record))
        if seen is not None:
            seen(count)
    if not messages:
        raise TraceError("no message in this recording")
    add(conversations.close())
    monitor = conversations.current
    judged_by = monitor.conversation.current.id
    return build_report(
        [each for each in monitor.verdicts() if is_chosen(each.id, only)],
        target=target,
        revision=monitor.revision,
        judged_by=judged_by,
        decidable=decidable(judged_by),
        violations=groups.failures_first(),
        setting=msgspec.structs.replace(
            setting or Setting(), transport=" and ".join(sorted(transports))
        ),
    )


class _Head(msgspec.Struct):
    method: str | None = None


class TraceConversations:
    """The conversations of one recording, usually one, with a monitor for each.

    Args:
        make_monitor: returns a new monitor.

    Attributes:
        current: the monitor of the newest conversation.
    """

    def __init__(self, make_monitor: Callable[[], Monitor]) -> None:
        self._make_monitor = make_monitor
        self.current = make_monitor()
        self._all = [self.current]
        self._by_session: dict[str, Monitor] = {}
        # A late answer belongs to the conversation of its request.
        self._by_exchange: Bounded[str | None, Monitor] = Bounded(_EXCHANGES)
        self._is_open = False
        self._is_lost = False

    def of(self, record: Record) -> Monitor:
        """Return the monitor for the conversation of a record."""
        method = None
        if record.sender == "client" and record.message is not None:
            method = opening_method(bytes(record.message))
        http = record.http
        session = None if http is None else http.header(_SESSION)
        if method == "initialize" and self._is_open and self._begins_again(record, session):
            self.current = self._make_monitor()
            self._all.append(self.current)
            self._is_open = self._is_lost = False
        elif method == "notifications/initialized":
            self._is_open = True
        if record.sender == "server" and http is not None:
            self._is_lost |= http.status == _LOST
        exchange = None if http is None else http.exchange
        if record.sender == "server" and exchange in self._by_exchange:
            found = self._by_exchange[exchange]
        else:
            found = self.current
        if session is not None:
            found = self._by_session.setdefault(session, found)
        if exchange is not None:
            self._by_exchange[exchange] = found
        return found

    def _begins_again(self, record: Record, session: str | None) -> bool:
        """Return whether an initialize begins a new conversation, not a second time in this one."""
        has_headers = record.http is not None and bool(record.http.headers)
        return record.transport == "http" and session is None and (has_headers or self._is_lost)

    def close(self) -> list[Violation]:
        """End all conversations, and add up their counts in the last one."""
        late = [violation for each in self._all for violation in each.close()]
        if len(self._all) > 1:
            ids = dict.fromkeys(id for each in self._all for id in each.tallies)
            total = {id: sum_tallies(each.tallies.get(id) for each in self._all) for id in ids}
            self.current.tallies.update(total)
        return late


def opening_method(message: bytes) -> str | None:
    """Return the method of a client message that may open a conversation."""
    if b"initialize" not in message:
        return None
    try:
        return msgspec.json.decode(message, type=_Head).method
    except (ValueError, RecursionError):
        return None


def decidable(revision: RevisionId) -> set[str]:
    """Return the requirements that recorded traffic can show."""
    return {row.id for row in requirements(revision=revision) if row.recording is not None}
