"""Recorded traffic: one observed message with the facts of its transport, as JSON lines in and out.

Every line is `{"t", "from", "transport", "message", "raw", "http"}`. The text of a message is kept
as it travelled, so that what a decoder would forgive can still be judged. Nothing is judged here.

Over HTTP a line may also be a request or a response without a message, an event that is not a
message, or the end of a response. What was not recorded is unknown, never absent.
"""

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import IO, Final, Literal, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from accord.errors import TraceError, lower_first

__all__ = [
    "ALL",
    "LINE_LIMIT",
    "MASK",
    "SHOWN_HEADERS",
    "HttpFacts",
    "Party",
    "Record",
    "Transport",
    "is_masked",
    "read",
    "write",
]

Party: TypeAlias = Literal["client", "server"]
Transport: TypeAlias = Literal["stdio", "http", "sse"]

# Tool results carry images and documents as base64; a longer line is a mistake.
LINE_LIMIT: Final = 64 * 1024 * 1024
# Headers that are not secret; any other may be a custom key.
SHOWN_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "allow",
        "cache-control",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "host",
        "last-event-id",
        "mcp-method",
        "mcp-protocol-version",
        "origin",
        "retry-after",
        "server",
        "transfer-encoding",
        "user-agent",
        "vary",
        "x-accel-buffering",
    }
)
ALL: Final = "all"
"""In place of the names of headers: every header was recorded, so one that is missing was not sent.
"""
# What stands in a recording in place of a secret, with a number for each.
MASK: Final = re.compile(r"\bmasked-\d+\b")


def is_masked(*values: object) -> bool:
    """Return whether a part of a value was replaced in the recording, so that it is not known."""
    for each in values:
        if isinstance(each, str) and MASK.search(each):
            return True
        if isinstance(each, dict | list):
            inner = each.values() if isinstance(each, dict) else each
            if is_masked(*inner):
                return True
    return False


class HttpFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What HTTP said about a message: a request has a method, a response a status.

    Attributes:
        method: of the request; also in the records of its response.
        status: of the response.
        headers: by lower-case name.
        stream: names the event stream of the message; a resumed stream keeps its name.
        recorded: the names of the headers that would be here if they had been sent, or "all".
        exchange: a name that a request shares with all records of its response.
        path: what was asked for, without the query.
        query: the query string.
        event: the name of an event; "message" where it has none.
        id: of the event.
        retry: milliseconds, as the event says.
        data: of an event that is not a message, or a body that is not one, such as metadata.
        size: the length of the body in bytes, unless it is an event stream.
        ended: the party that ended the response, in the record of its end.
    """

    method: str | None = None
    status: int | None = None
    headers: Mapping[str, str] = {}
    stream: str | None = None
    recorded: Literal["all"] | tuple[str, ...] = ()
    exchange: str | None = None
    path: str | None = None
    query: str | None = None
    event: str | None = None
    id: str | None = None
    retry: int | None = None
    data: str | None = None
    size: int | None = None
    ended: Party | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "headers", {name.lower(): text for name, text in self.headers.items()})
        if isinstance(self.recorded, tuple) and self.recorded:
            force_setattr(self, "recorded", tuple(name.lower() for name in self.recorded))

    @property
    def is_refusal(self) -> bool:
        """Whether the request was refused as such; an error in the body then has no id."""
        return self.status is not None and self.status >= 400

    def header(self, name: str) -> str | None:
        """Return a header by its name in any case."""
        return self.headers.get(name.lower())

    def knows(self, name: str) -> bool:
        """Whether it is known if a header was sent."""
        key = name.lower()
        return self.recorded == ALL or key in self.headers or key in self.recorded

    def lacks(self, name: str) -> bool:
        """Whether a header was certainly not sent; one that was not recorded may have been."""
        return name.lower() not in self.headers and self.knows(name)


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One observed message.

    Attributes:
        sender: the party that sent it; the key is `from`.
        t: seconds since any fixed moment.
        message: a JSON-RPC message or batch as it travelled; None without one.
        raw: the text that travelled, if it was not JSON.
        number: its line in the recording, from 1.
    """

    sender: Party
    t: float | None = None
    transport: Transport = "stdio"
    message: msgspec.Raw | None = None
    raw: str | None = None
    http: HttpFacts | None = None
    number: int = 0

    def encode(self) -> bytes:
        """Return the line of this record, without its newline."""
        line: dict[str, object] = {} if self.t is None else {"t": self.t}
        line |= {"from": self.sender, "transport": self.transport, "message": self._on_one_line()}
        if self.raw is not None:
            # As ASCII: bytes that are not text may stand in it as halves of surrogate pairs.
            line["raw"] = msgspec.Raw(json.dumps(self.raw).encode())
        if self.http is not None:
            line["http"] = self.http
        return msgspec.json.encode(line)

    def _on_one_line(self) -> msgspec.Raw | None:
        # Inside JSON a raw line break can only be white space between two tokens.
        if self.message is None:
            return None
        return msgspec.Raw(bytes(self.message).translate(_NO_BREAKS))


class _Line(msgspec.Struct):
    sender: Party = msgspec.field(name="from")
    t: float | None = None
    transport: Transport = "stdio"
    message: msgspec.Raw = msgspec.Raw()
    raw: str | None = None
    http: HttpFacts | None = None


_NO_BREAKS: Final = bytes.maketrans(b"\r\n", b"  ")
_NO_MESSAGE: Final = (b"", b"null")
_decoder: Final = msgspec.json.Decoder(_Line)


def write(file: IO[bytes], record: Record) -> None:
    """Append a record to a recording."""
    file.write(record.encode() + b"\n")


def read(
    source: str | PathLike[str] | IO[bytes], *, line_limit: int = LINE_LIMIT
) -> Iterator[Record]:
    """Yield the records of a recording one by one; blank lines are skipped.

    Args:
        source: a path, or a file opened for reading bytes.
        line_limit: the length in bytes above which a line is refused.

    Raises:
        TraceError: the recording cannot be opened, is empty, or has a broken line.
    """
    try:
        if isinstance(source, str | PathLike):
            with open(source, "rb") as file:
                yield from _records(file, line_limit)
        else:
            yield from _records(source, line_limit)
    except OSError as error:
        raise TraceError(lower_first(error.strerror or error)) from error


def _records(file: IO[bytes], line_limit: int) -> Iterator[Record]:
    number = found = 0
    while line := file.readline(line_limit + 1):
        number += 1
        if len(line) > line_limit:
            raise TraceError(f"longer than {line_limit} bytes", line=number)
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if text.isspace() or not text:
            continue
        yield _parse(text, number)
        found += 1
    if not found:
        raise TraceError("the recording is empty")


def _parse(text: bytes, number: int) -> Record:
    try:
        text.decode()
        line = _decoder.decode(text)
    except UnicodeDecodeError as error:
        raise TraceError(f"not UTF-8 at byte {error.start}", line=number) from error
    except msgspec.ValidationError as error:
        raise TraceError(_misshapen(str(error)), line=number) from error
    except (msgspec.DecodeError, RecursionError):
        line = _parse_leniently(text, number)
    message = None if bytes(line.message) in _NO_MESSAGE else line.message
    if message is None and line.raw is None and line.http is None:
        raise TraceError('neither "message" nor "raw" nor "http" is given', line=number)
    return Record(
        sender=line.sender,
        t=line.t,
        transport=line.transport,
        message=message,
        raw=line.raw,
        http=line.http,
        number=number,
    )


def _misshapen(detail: str) -> str:
    expected = {
        "$.from": 'expected "client" or "server"',
        "$.transport": 'expected "stdio", "http" or "sse"',
    }
    for place, hint in expected.items():
        if place in detail:
            return f"{lower_first(detail)}: {hint}"
    return lower_first(detail)


def _parse_leniently(text: bytes, number: int) -> _Line:
    """Read a line with half a surrogate pair in it, which JSON allows and the decoder does not."""
    try:
        members = json.loads(text, parse_constant=_refuse)
        message = msgspec.Raw(json.dumps(members.pop("message", None)).encode())
        line = msgspec.convert(members, _Line)
    except msgspec.ValidationError as error:
        raise TraceError(_misshapen(str(error)), line=number) from error
    except json.JSONDecodeError as error:
        raise TraceError(_not_json(text, error), line=number) from error
    except RecursionError as error:
        raise TraceError("nested too deeply", line=number) from error
    except ValueError as error:
        raise TraceError(f"cannot be decoded: {lower_first(error)}", line=number) from error
    line.message = message
    return line


def _refuse(constant: str) -> None:
    raise ValueError(f"the constant {constant} is not JSON")


def _not_json(text: bytes, error: json.JSONDecodeError) -> str:
    # The decoder counts characters; people look for bytes.
    position = len(error.doc[: error.pos].encode())
    cut = "" if text.endswith(b"\n") else " (the line has no end: the recording may be cut off)"
    return f"not JSON at byte {position}: {lower_first(error.msg)}{cut}"
