"""The messages of one connection: recorded, and judged by a monitor as they travel."""

from collections import deque
from collections.abc import Iterable
from functools import partial
from time import monotonic
from typing import Any, Final

import msgspec

from accord.check.probing.messages import decode_json, is_same_id, objects_in, shorten
from accord.protocol.monitor import Monitor
from accord.protocol.verdict import Evidence
from accord.trace import HttpFacts, Party, Record, Transport

# Evidence needs only the last messages, and a flood must not fill the memory.
_KEPT: Final = 400
_EXCERPT: Final = 400
_LAST: Final = 4
# The headers that a violation may be about; none of them is secret.
_SHOWN_HEADERS: Final = frozenset(
    {"accept", "content-type", "host", "mcp-protocol-version", "origin"}
)
_LARGEST: Final = 64 * 1024


class MessageLog:
    """The records of one connection: all of them are judged, the newest are kept.

    Args:
        transport: the transport of the connection.
        judged: the party under check.
        is_judged: False if the checker itself breaks rules, so that answers prove nothing.
    """

    def __init__(self, transport: Transport, judged: Party, *, is_judged: bool = True) -> None:
        self.transport = transport
        self._judged = judged
        self.records: deque[Record] = deque(maxlen=_KEPT)
        self.count = 0
        self._monitor = partial(Monitor, judged=judged)
        self.monitor = self._monitor() if is_judged else None
        self._is_whole = True
        self._start = monotonic()

    def take(self, sender: Party, data: bytes, http: HttpFacts | None = None) -> object:
        """Record the message of a party; return it decoded, or None if it is not JSON."""
        message: object = None
        is_json = True
        try:
            message = msgspec.json.decode(data)
        except (ValueError, RecursionError):
            # jsonrpc.encoding.utf8: a message in another encoding is still judged as a message.
            text = data.decode(errors="replace")
            is_json = text.encode() != data and decode_json(text) is not None
        self.count += 1
        record = Record(
            sender=sender,
            t=round(monotonic() - self._start, 6),
            transport=self.transport,
            message=msgspec.Raw(data) if is_json else None,
            raw=None if is_json else data.decode(errors="replace"),
            http=http,
            number=self.count,
        )
        is_kept = len(data) <= _LARGEST
        self._is_whole = self._is_whole and is_kept and self.count <= _KEPT
        self.records.append(record if is_kept else _cut(record, data))
        if self.monitor is not None:
            self.monitor.observe(record)
        return message

    def judge(self) -> bool:
        """Begin to judge, from the first record on; return False if some were not kept."""
        if self._is_whole:
            self.monitor = self._monitor()
            for record in self.records:
                self.monitor.observe(record)
        return self._is_whole

    def close(self) -> None:
        """End the recording; the monitor judges the records it held back."""
        if self.monitor is not None:
            self.monitor.close()

    def last(self) -> list[Evidence]:
        """Return the newest records as evidence, in order."""
        return [_evidence(record) for record in list(self.records)[-_LAST:]]

    def evidence_of_exchange(self, id: object) -> list[Evidence]:
        """Return a request and its answer as evidence."""
        return [
            _evidence(record)
            for record in self.records
            if any(
                is_same_id(each.get("id"), id)
                and ("method" in each) is (record.sender != self._judged)
                for each in objects_in(_decode(record))
            )
        ]

    def evidence_of(self, messages: Iterable[object]) -> list[Evidence]:
        """Return the last record of each of these messages as evidence.

        A message may be raw bytes, a batch, or a part of a batch.
        """
        wanted = list(messages)
        found: list[Record] = []
        for record in reversed(self.records):
            decoded = _decode(record)
            parts = [decoded, *(decoded if isinstance(decoded, list) else ()), _bytes_of(record)]
            matched = [each for each in wanted if each is not None and each in parts]
            if matched:
                found.append(record)
                wanted = [each for each in wanted if each not in matched]
        return [_evidence(record) for record in reversed(found)]

    def evidence_since(self, number: int) -> list[Evidence]:
        """Return the first records from this number on, as evidence."""
        return [_evidence(each) for each in self.records if (each.number or 0) >= number][:_LAST]


def _bytes_of(record: Record) -> bytes:
    if record.message is not None:
        return bytes(record.message)
    return (record.raw or "").encode(errors="surrogatepass")


def _decode(record: Record) -> Any:
    return None if record.message is None else decode_json(bytes(record.message))


def _cut(record: Record, data: bytes) -> Record:
    return msgspec.structs.replace(
        record, message=None, raw=data[:_EXCERPT].decode(errors="replace")
    )


def _evidence(record: Record) -> Evidence:
    http = record.http
    head = ""
    if http is not None:
        headers = ", ".join(
            f"{key}: {text}" for key, text in http.headers.items() if key in _SHOWN_HEADERS
        )
        head = f"HTTP {http.status or http.method} " + (f"({headers}) " if headers else "")
    text = _bytes_of(record).decode(errors="replace") or "(no body)"
    return Evidence(f"{head}message", record.sender, record.number, shorten(text, _EXCERPT))
