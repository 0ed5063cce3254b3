"""Infers facts of HTTP that a recording shows without naming them.

Recordings of accord name the headers that they keep, and the request that a response belongs to.
Recordings of other tools only list headers and statuses. Facts that stay unknown accuse no party.
"""

from typing import Final

import msgspec

from accord.trace import HttpFacts, Party, Record
from accord.types import RequestId

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
