"""Bytes to frames and back, within limits.

One strict decode serves every well-formed message. Only when it fails is the input looked at again,
to say what is wrong and where. Nothing here knows revisions: whether a batch is welcome is decided
by whoever receives it.
"""

import re
from array import array
from functools import lru_cache, partial
from itertools import accumulate
from math import isfinite
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from accord.errors import MessageTooLarge
from accord.protocol.envelope import FRAGMENT, read_envelope
from accord.protocol.jsonrpc import (
    FAULT,
    ID_RANGE,
    INVALID_REQUEST,
    NOTIFICATION,
    PARSE_ERROR,
    REQUEST,
    RESULT,
    Batch,
    ErrorBody,
    Frame,
    Kind,
    MalformedMessage,
)
from accord.types._base import RequestId

# Possessive, and a string without an end reaches to the end: otherwise every quote in it would be
# tried as a beginning.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_WHITESPACE: Final = " \t\r\n"
_STEPS_AT_ONCE: Final = 64 * 1024


class Limits(msgspec.Struct, frozen=True):
    """What one message may cost.

    Larger payloads belong into resources; the default leaves room for a 10 MB image in base64. Real
    tool schemas nest some 30 deep. A batch is answered as one array, so its length is bounded too.
    """

    message_bytes: int = 16 * 1024 * 1024
    depth: int = 128
    batch_length: int = 256


class Codec:
    """Decodes and encodes messages under given limits."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._frame = msgspec.json.Decoder(Frame).decode
        # A message this short cannot nest too deep: every level opens and closes.
        self._surely_fine = min(2 * self.limits.depth, self.limits.message_bytes)

    def decode(self, data: bytes) -> Frame | Batch:
        """Read one message or batch.

        Raises:
            MalformedMessage: the one error for any input that is not a message; it says what is
                wrong and where.
        """
        if len(data) > self._surely_fine or not data.isascii():
            self._refuse_excess(data)
        try:
            frame = self._frame(data)
        except (ValueError, RecursionError):
            return self._second_look(data)
        if frame.method is not UNSET:
            if frame.id is not None and frame.result is UNSET and frame.error is UNSET:
                return frame
        elif frame.error is UNSET:
            if frame.result is not UNSET and frame.id is not UNSET and frame.id is not None:
                return frame
        elif frame.result is UNSET:
            return frame
        return self._second_look(data)

    def sized(self, data: bytes, name: str, before: int = 0) -> bytes:
        """Return a message of ours unless it is larger than the limit.

        Args:
            data: the message.
            name: its method.
            before: bytes that leave with it, as the other answers to a batch do.

        Raises:
            MessageTooLarge: it is.
        """
        if len(data) + before > self.limits.message_bytes:
            size, limit = len(data) + before, self.limits.message_bytes
            raise MessageTooLarge(f"{name}: the message", size=size, limit=limit)
        return data

    def _refuse_excess(self, data: bytes) -> None:
        size = len(data)
        if size > self.limits.message_bytes:
            id, kind = read_envelope(data[:FRAGMENT], data[-FRAGMENT:])
            raise MalformedMessage(
                f"message of {size} bytes exceeds the limit of {self.limits.message_bytes} bytes "
                "(message_bytes)",
                code=INVALID_REQUEST,
                requirement="jsonrpc.message.version-2-0",
                id=id,
                kind=kind,
            )
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError as error:
                raise MalformedMessage(
                    f"invalid UTF-8 at byte {error.start}: {error.reason}",
                    code=PARSE_ERROR,
                    requirement="jsonrpc.encoding.utf8",
                ) from None
        if nests_deeper(data, self.limits.depth):
            raise _malformed(
                f"message nests deeper than {self.limits.depth} levels (depth)",
                code=INVALID_REQUEST,
            )

    def _second_look(self, data: bytes) -> Frame | Batch:
        try:
            value = parse(data)
            if isinstance(value, list):
                return self._batch(data, len(value))
            return _examine(value, data)
        except RecursionError:
            raise _malformed("message nests too deep to be read", code=INVALID_REQUEST) from None

    def _batch(self, data: bytes, length: int) -> Batch:
        if length == 0:
            raise MalformedMessage(
                "batch is empty", code=INVALID_REQUEST, requirement="jsonrpc.batch.send-optional"
            )
        if length > self.limits.batch_length:
            raise _malformed(
                f"batch of {length} messages exceeds the limit of {self.limits.batch_length} "
                "(batch_length)",
                code=INVALID_REQUEST,
            )
        return Batch([(self._element(bytes(raw)), raw) for raw in _ELEMENTS(data)])

    def _element(self, data: bytes) -> Frame | MalformedMessage:
        try:
            frame = _examine([], data) if data.startswith(b"[") else self.decode(data)
        except MalformedMessage as malformed:
            return malformed
        assert isinstance(frame, Frame)
        return frame


def unsized(data: bytes, name: str, before: int = 0) -> bytes:
    """Return a message of ours, whatever its size."""
    return data


@lru_cache(maxsize=64)
def codec_for(limits: Limits) -> Codec:
    """Return the codec for these limits; it keeps nothing between messages, so all share it."""
    return Codec(limits)


def nests_deeper(data: bytes, depth: int) -> bool:
    """Tell whether JSON text nests deeper than `depth`, at the speed of C.

    Without its strings a JSON text is brackets and filler; the brackets are steps up and down.
    """
    if not _opens_more_often(data, depth):
        return False
    steps = array("b", _STRING.sub(b"", data).translate(_STEPS, _NOT_BRACKETS))
    level = 0
    for start in range(0, len(steps), _STEPS_AT_ONCE):
        levels = list(accumulate(steps[start : start + _STEPS_AT_ONCE], initial=level))
        if max(levels) > depth:
            return True
        level = levels[-1]
    return False


def _opens_more_often(data: bytes, times: int) -> bool:
    """Count by searching: where brackets are rare, as in long texts, that takes a tenth."""
    for bracket in (b"[", b"{"):
        at = data.find(bracket)
        while at >= 0:
            if times == 0:
                return True
            times -= 1
            at = data.find(bracket, at + 1)
    return False


class _ResultFrame(msgspec.Struct, gc=False):
    jsonrpc: str
    id: RequestId
    result: Any


def encode_result(id: RequestId, result: Any) -> bytes:
    """Make a response from a result, or from one that is already encoded."""
    if result.__class__ is bytes:
        result = Raw(result)
    return _encode(_ResultFrame("2.0", id, result))


def encode_error(id: RequestId | None, error: ErrorBody) -> bytes:
    """Make an error response; its id is null where that of the request could not be read."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_encode_id(id), _encode(error))


def encode_request(id: RequestId, method: str, params: bytes | None) -> bytes:
    """Make a request from encoded params."""
    if params is None:
        return b'{"jsonrpc":"2.0","id":%b,"method":%b}' % (_encode_id(id), _encode(method))
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (
        _encode_id(id),
        _encode(method),
        params,
    )


def encode_notification(method: str, params: bytes | None) -> bytes:
    """Make a notification from encoded params."""
    if params is None:
        return b'{"jsonrpc":"2.0","method":%b}' % _encode(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (_encode(method), params)


def encode(frame: Frame) -> bytes:
    """Write a frame as it was read."""
    return _encode(frame)


# Numbers that are none, and strings, in which they are nothing but text.
_CONSTANT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)', re.DOTALL)
_encode: Final = msgspec.json.Encoder().encode
_ELEMENTS: Final = msgspec.json.Decoder(list[Raw]).decode
_MEMBERS: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def _encode_id(id: RequestId | None) -> bytes:
    return b"%d" % id if id.__class__ is int else _encode(id)


def _malformed(message: str, *, code: int) -> MalformedMessage:
    return MalformedMessage(message, code=code, requirement="jsonrpc.message.version-2-0")


def parse(data: bytes) -> Any:
    """Parse JSON; numbers that are too large to be read become infinite.

    Raises:
        MalformedMessage: it is not JSON; says from which byte on.
    """
    try:
        return msgspec.json.decode(data)
    except ValueError:
        text = data.decode()
    stripped = text.strip(_WHITESPACE)
    if not stripped:
        raise _malformed("empty message", code=PARSE_ERROR)
    if stripped.startswith("\ufeff"):
        raise _malformed("not JSON at byte 0: a byte order mark", code=PARSE_ERROR)
    import json  # takes 2 ms, and only what is no JSON gets here

    try:
        value = json.loads(text, parse_int=_integer, parse_constant=partial(_refuse, text))
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        # Python counts characters; the sender counts bytes.
        offset = len(text[: error.pos].encode())
        cut = " (message ends too early)" if error.pos >= len(text.rstrip(_WHITESPACE)) else ""
        raise _malformed(
            f"not JSON at byte {offset}: {error.msg.lower()}{cut}", code=PARSE_ERROR
        ) from None
    except UnicodeEncodeError as error:
        surrogate = f"U+{ord(error.object[error.start]):04X}"
        raise _malformed(
            f"not JSON: lone surrogate {surrogate} in a string", code=PARSE_ERROR
        ) from None
    return value


def _integer(digits: str) -> float:
    try:
        return int(digits)
    except ValueError:  # Python reads 4,300 digits and no more
        return float(digits)


def _refuse(text: str, name: str) -> None:
    outside = (each for each in _CONSTANT.finditer(text) if each[1])
    offset = len(text[: next(outside).start()].encode())
    raise _malformed(f"not JSON at byte {offset}: {name} is no JSON value", code=PARSE_ERROR)


def _examine(value: Any, data: bytes) -> Frame:
    """Make a frame of parsed JSON and its text, or say which member keeps it from being one."""
    if not isinstance(value, dict):
        raise _malformed(f"message is {_name(value)}, expected an object", code=INVALID_REQUEST)
    id = _readable_id(value.get("id"))
    kind = _kind(value)

    def refuse(requirement: str, message: str) -> MalformedMessage:
        return MalformedMessage(
            message, code=INVALID_REQUEST, requirement=requirement, id=id, kind=kind
        )

    if value.get("jsonrpc") != "2.0":
        got = _name(value["jsonrpc"]) if "jsonrpc" in value else "missing"
        raise refuse("jsonrpc.message.version-2-0", f'member jsonrpc is {got}, expected "2.0"')
    if "method" in value and ("result" in value or "error" in value):
        raise refuse("jsonrpc.message.version-2-0", "message is a request and a response at once")
    if kind is None:
        if "id" in value and "params" not in value:
            raise refuse(
                "jsonrpc.response.result-xor-error", "message has neither method, result nor error"
            )
        lacking = "request" if "id" in value else "notification"
        raise refuse(f"jsonrpc.{lacking}.method-string", "member method is missing")
    fault = _request_fault(value, id) if "method" in value else _response_fault(value, id)
    if fault:
        raise refuse(*fault)
    return _frame(value, id, _MEMBERS(data))


def _kind(value: dict[str, Any]) -> Kind | None:
    if "method" in value:
        return REQUEST if "id" in value else NOTIFICATION
    if "error" in value:
        return FAULT
    return RESULT if "result" in value else None


def _request_fault(value: dict[str, Any], id: RequestId | None) -> tuple[str, str] | None:
    kind = "request" if "id" in value else "notification"
    if not isinstance(value["method"], str):
        return f"jsonrpc.{kind}.method-string", (
            f"member method is {_name(value['method'])}, expected a string"
        )
    if "id" in value and id is None:
        if value["id"] is None:
            return "jsonrpc.request.id-not-null", "member id is null, expected a string or integer"
        return "jsonrpc.request.id-string-or-integer", (
            f"member id is {_name(value['id'])}, expected a string or an integer of 64 bits"
        )
    return None


def _response_fault(value: dict[str, Any], id: RequestId | None) -> tuple[str, str] | None:
    if "result" in value and "error" in value:
        return "jsonrpc.response.result-xor-error", "message has both result and error"
    if id is None and ("result" in value or value.get("id") is not None):
        got = _name(value["id"]) if "id" in value else "missing"
        return "jsonrpc.response.id-echo", f"member id is {got}, expected the id of the request"
    if "result" in value:
        return None
    error = value["error"]
    if not isinstance(error, dict):
        return (
            "jsonrpc.error.code-and-message",
            f"member error is {_name(error)}, expected an object",
        )
    if "code" not in error or "message" not in error:
        lacking = "code" if "code" not in error else "message"
        return "jsonrpc.error.code-and-message", f"error has no {lacking}"
    if _readable_id(error["code"]) is None or isinstance(error["code"], str):
        return "jsonrpc.error.code-integer", (
            f"error code is {_name(error['code'])}, expected an integer"
        )
    if not isinstance(error["message"], str):
        return "jsonrpc.error.code-and-message", (
            f"error message is {_name(error['message'])}, expected a string"
        )
    return None


def _frame(value: dict[str, Any], id: RequestId | None, members: dict[str, Raw]) -> Frame:
    frame = Frame("2.0", id=id if "id" in value else UNSET)
    if "method" in value:
        frame.method = value["method"]
        frame.params = members.get("params", UNSET)
    elif "result" in value:
        frame.result = members["result"]
    else:
        error = value["error"]
        frame.error = ErrorBody(int(error["code"]), error["message"], error.get("data", UNSET))
    return frame


def _readable_id(value: Any) -> RequestId | None:
    """Return the id if it is one; 1.0 is read as 1."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        return value if value in ID_RANGE else None
    return value if isinstance(value, str) else None


def _name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer" if value in ID_RANGE else "an integer beyond 64 bits"
        case float():
            return "a fraction" if isfinite(value) else "a number out of range"
        case str():
            return f'"{value[:20]}"'
        case list():
            return "an array"
        case _:
            return "an object"
