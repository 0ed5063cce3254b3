"""What travelled on one line: kept as records, judged by a monitor while it travels."""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import Any, Final

import msgspec

from accord.protocol.monitor import Evidence, Monitor
from accord.trace import HttpFacts, Party, Record, Transport
from accord.types import RevisionId

# Evidence needs the last few messages; a flood must cost no more than this.
_KEPT: Final = 400
_SHOWN: Final = 400
_LAST: Final = 4
# What an HTTP head says that a breach may be about; none of it is secret.
_TOLD: Final = frozenset({"accept", "content-type", "host", "mcp-protocol-version", "origin"})
_LARGEST: Final = 64 * 1024


class MessageLog:
    """The records of one line, the newest of them kept, all of them judged.

    Args:
        transport: what the line runs over.
        judged: the party under check.
        revision: judge by this one; None finds it in the handshake.
        is_judged: False where the checker itself breaks the rules, so that answers prove nothing.
    """

    def __init__(
        self,
        transport: Transport,
        judged: Party,
        *,
        revision: RevisionId | None = None,
        is_judged: bool = True,
    ) -> None:
        self.transport = transport
        self._judged = judged
        self.records: deque[Record] = deque(maxlen=_KEPT)
        self.count = 0
        self._monitor = partial(Monitor, revision=revision, judged=judged)
        self.monitor = self._monitor() if is_judged else None
        self._is_whole = True
        self._start = monotonic()

    def take(self, sender: Party, data: bytes, http: HttpFacts | None = None) -> Any:
        """Keep what a party sent; returns it decoded, None where it is no JSON."""
        message: Any = None
        is_json = True
        try:
            message = msgspec.json.decode(data)
        except (ValueError, RecursionError):
            # jsonrpc.encoding.utf8: a message but for its bytes is judged as one.
            is_json = _is_json(data.decode(errors="replace")) and not _is_text(data)
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
        """Begin to judge, from the first record on; False where not all of them were kept."""
        if self._is_whole:
            self.monitor = self._monitor()
            for record in self.records:
                self.monitor.observe(record)
        return self._is_whole

    def close(self) -> None:
        """End the recording: what was held back is judged now."""
        if self.monitor is not None:
            self.monitor.close()

    def last(self, count: int = _LAST) -> list[Evidence]:
        """Return the newest records as evidence, in the order they travelled."""
        return [_shown(record) for record in list(self.records)[-count:]]

    def evidence_of_exchange(self, id: Any) -> list[Evidence]:
        """Return a request and what answers it, as evidence."""
        return self._chosen(
            lambda record, message: (
                message.get("id") == id
                and type(message.get("id")) is type(id)
                and ("method" in message) is (record.sender != self._judged)
            )
        )

    def evidence_of(self, messages: Iterable[Any]) -> list[Evidence]:
        """Return these messages as evidence, each as it travelled last.

        A message may be bytes that are none, a batch, or one that is part of a batch.
        """
        wanted = list(messages)
        found: list[Record] = []
        for record in reversed(self.records):
            decoded = _decoded(record)
            parts = [decoded, *(decoded if isinstance(decoded, list) else ()), _bytes_of(record)]
            meant = [each for each in wanted if each is not None and each in parts]
            if meant:
                found.append(record)
                wanted = [each for each in wanted if each not in meant]
        return [_shown(record) for record in reversed(found)]

    def evidence_since(self, number: int) -> list[Evidence]:
        """Return what travelled from a record on, as evidence: the first ones count."""
        return [_shown(each) for each in self.records if (each.number or 0) >= number][:_LAST]

    def _chosen(self, is_meant: Callable[[Record, dict[str, Any]], bool]) -> list[Evidence]:
        found = []
        for record in self.records:
            message = _decoded(record)
            for each in message if isinstance(message, list) else [message]:
                if isinstance(each, dict) and is_meant(record, each):
                    found.append(_shown(record))
                    break
        return found


def _bytes_of(record: Record) -> bytes:
    if record.message is not None:
        return bytes(record.message)
    return (record.raw or "").encode(errors="surrogatepass")


def _decoded(record: Record) -> Any:
    try:
        return None if record.message is None else msgspec.json.decode(record.message)
    except (ValueError, RecursionError):
        return None


def _cut(record: Record, data: bytes) -> Record:
    return msgspec.structs.replace(record, message=None, raw=data[:_SHOWN].decode(errors="replace"))


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(record: Record) -> Evidence:
    http = record.http
    head = ""
    if http is not None:
        told = ", ".join(f"{key}: {text}" for key, text in http.headers.items() if key in _TOLD)
        head = f"HTTP {http.status or http.method} " + (f"({told}) " if told else "")
    text = _bytes_of(record).decode(errors="replace") or "(no body)"
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return Evidence(f"{head}message", record.sender, record.number, shown)
