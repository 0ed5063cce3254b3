"""Recordings of traffic, judged while it is recorded, and the files they are saved to."""

import errno
import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import chain, count
from os import PathLike
from pathlib import Path
from stat import S_ISREG
from time import monotonic
from typing import IO, Any, Final, Protocol

import msgspec

from accord import trace
from accord.protocol.catalogue import catalogue
from accord.protocol.exchange import Exchange
from accord.protocol.monitor import Monitor
from accord.protocol.verdict import Verdict
from accord.protocol.violation import Violation
from accord.runtime.wire import Lost, Receive, Wire, WireListener
from accord.secrets.masks import Secrets
from accord.trace import HttpFacts, Party, Record, Transport

# The verdict on several conversations is the last of theirs in this order.
_RISING: Final = ("not-applicable", "not-recorded", "not-exercised", "pass", "warn", "fail")

_PRIVATE: Final = 0o600
# Without it Windows translates line ends.
_BINARY: Final = getattr(os, "O_BINARY", 0)
# The most names that are tried.
_MOST: Final = 10_000


class ProtocolBroken(AssertionError):
    """The traffic broke the protocol; `violations` has the details."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = tuple(violations)
        super().__init__(_report(self.violations))


class Observer(Protocol):
    """Takes what passes over a tapped wire, in the order that the client sees.

    Attributes:
        transport: the transport of the next messages; a tap sets it when it is known.
    """

    transport: Transport

    def observe(self, sender: Party, data: bytes | None, *, http: HttpFacts | None = None) -> None:
        """Take what a party sends; `data` is None for HTTP without a body."""

    def begin_anew(self) -> None:
        """Take the next messages as another conversation."""


class Recording:
    """The messages of one session in order, and the violations that a monitor found in them.

    Args:
        transport: the transport that the trace file names.
    """

    def __init__(self, *, transport: Transport = "stdio") -> None:
        self.transport: Transport = transport
        self.records: list[Record] = []
        self.violations: list[Violation] = []
        self._monitor = Monitor()
        self._earlier: list[list[Verdict]] = []
        self._start = monotonic()
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Recording of {len(self.records)} messages, {len(self.violations)} violations>"

    def observe(self, sender: Party, data: bytes | None, *, http: HttpFacts | None = None) -> None:
        """Record what a party sends: one message, or a line that is not a message.

        Args:
            sender: the party.
            data: the bytes; None for a request or response without a body.
            http: method, status and headers, over HTTP.
        """
        text, raw = (None, None) if data is None else parse_line(data)
        record = Record(
            sender=sender,
            t=round(monotonic() - self._start, 6),
            transport=self.transport,
            message=text,
            raw=raw,
            http=http,
            number=len(self.records) + 1,
        )
        self.records.append(record)
        self.violations += self._monitor.observe(record)

    def begin_anew(self) -> None:
        """Judge the next messages as another conversation: the server has lost the session."""
        self.violations += self._monitor.close()
        self._earlier.append(self._monitor.verdicts())
        self._monitor = Monitor()

    def close(self) -> None:
        """End the session and judge what can only be judged at the end. May be repeated."""
        if not self._is_closed:
            self._is_closed = True
            self.violations += self._monitor.close()

    def messages(self, sender: Party | None = None, method: str | None = None) -> list[Any]:
        """Return the messages as plain JSON, of one party or with one method if given."""
        return [
            message
            for record in self.records
            if record.message is not None and sender in (None, record.sender)
            for message in _as_batch(msgspec.json.decode(record.message))
            if method is None or (isinstance(message, dict) and message.get("method") == method)
        ]

    def verdicts(self) -> list[Verdict]:
        """Return the verdict on each requirement of the revision, for the session so far."""
        worst: dict[str, Verdict] = {}
        for verdict in chain(self._monitor.verdicts(), *self._earlier):
            known = worst.setdefault(verdict.id, verdict)
            if _RISING.index(verdict.verdict) > _RISING.index(known.verdict):
                worst[verdict.id] = verdict
        return list(worst.values())

    def save(self, path: str | PathLike[str]) -> None:
        """Write a trace file, which `accord check trace` reads; secrets in it are masked.

        Only its owner may read it: masks recognise most secrets, but not all.
        """
        masks = Secrets()
        with open_private(path) as file:
            for record in self.records:
                trace.write(file, masks.apply(record))

    def broken(self, *, allow: Iterable[str] = ()) -> list[Violation]:
        """Return the violations of requirements that must not be broken.

        Args:
            allow: ids of requirements that may be broken; `*` matches any part of an id.
        """
        patterns = tuple(allow)
        return [
            violation
            for violation in self.violations
            if not any(fnmatchcase(violation.requirement, pattern) for pattern in patterns)
        ]


def parse_line(data: bytes) -> tuple[msgspec.Raw | None, str | None]:
    """Return what travelled as JSON, or as text if it is not JSON: `message` and `raw`."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None, data.decode(errors="surrogateescape")
    return msgspec.Raw(data), None


def _as_batch(message: object) -> list[object]:
    return message if isinstance(message, list) else [message]


def _report(violations: tuple[Violation, ...]) -> str:
    count = "once" if len(violations) == 1 else f"{len(violations)} times"
    lines = [f"the traffic broke the protocol {count}:"]
    for requirement in dict.fromkeys(each.requirement for each in violations):
        row = catalogue().get(requirement)
        lines += [f"- {requirement}: {row.text if row else 'not in the catalogue'}"]
        evidence: str | None = None
        for violation in violations:
            if violation.requirement == requirement:
                lines.append(f"  {violation.party} {violation.why}")
                if violation.evidence and violation.evidence != evidence:
                    evidence = violation.evidence
                    place = "" if violation.place is None else f", at {violation.place}"
                    lines.append(f"    message {violation.number or '?'}{place}: {evidence}")
        if row is not None:
            lines.append(f"  mend: {row.mend}")
    return "\n".join(lines)


# -- files, readable by their owner only


def open_private(path: str | PathLike[str]) -> IO[bytes]:
    """Open a file for writing; a new file can be read by its owner only."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY
    return os.fdopen(os.open(path, flags, _PRIVATE), "wb")


def create_next(path: Path) -> tuple[Path, IO[bytes]]:
    """Create a file, or if it exists the first of `name-2`, `name-3` ... that does not exist.

    Creation is atomic: two processes never get the same file. A device or a pipe is opened as it
    is.

    Returns:
        the path, and the file, open for writing and readable by its owner only.

    Raises:
        OSError: the file cannot be created.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
    for number in count(1):
        chosen = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            return chosen, os.fdopen(os.open(chosen, flags, _PRIVATE), "wb")
        except FileExistsError:
            if number == 1 and _is_special(path):
                return path, path.open("wb")
        if number == _MOST:
            break
    raise OSError(errno.EEXIST, f"there are {_MOST} recordings already", str(path))


def _is_special(path: Path) -> bool:
    try:
        return not S_ISREG(path.stat().st_mode) and not path.is_dir()
    except OSError:  # a broken link
        return False


class TappedWire:
    """A wire that passes everything on unchanged, and records it first."""

    def __init__(self, inner: Wire, recording: Observer) -> None:
        self.inner = inner
        self._recording = recording

    def report_to(self, listener: WireListener) -> None:
        """Pass the listener on, if the inner wire takes one."""
        if hasattr(self.inner, "report_to"):
            self.inner.report_to(listener)

    @property
    def is_congested(self) -> bool:
        """Whether the server is slow to read."""
        return self.inner.is_congested

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Make the connection."""
        recording = self._recording

        def record_and_receive(data: bytes) -> None:
            recording.observe("server", data)
            receive(data)

        await self.inner.open(record_and_receive, lost)

    def write(self, data: bytes, exchange: Exchange | None = None) -> None:
        """Send one message."""
        # Before it is sent: in memory the answer arrives before the call returns.
        self._recording.observe("client", data)
        self.inner.write(data, exchange)

    async def writable(self) -> None:
        """Wait until the server has read most of the sent data."""
        await self.inner.writable()

    async def close(self) -> None:
        """Close the connection in an orderly way."""
        await self.inner.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self.inner.abort()
