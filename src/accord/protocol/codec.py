"""Bytes to frames and back, within limits.

One strict decode serves every well-formed message. Only when it fails is the input looked at again,
to say what is wrong and where. Nothing here knows revisions: whether a batch is welcome is decided
by whoever receives it.
"""

import json
import re
from array import array
from itertools import accumulate
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from accord.protocol.jsonrpc import (
    ID_RANGE,
    INVALID_REQUEST,
    PARSE_ERROR,
    Batch,
    ErrorBody,
    Frame,
    MalformedMessage,
)
from accord.types._base import RequestId

# Possessive, and a string without an end reaches to the end: otherwise every quote in it would be
# tried as a beginning.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_STEPS: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_WHITESPACE: Final = b" \t\r\n"
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
        self._parts = msgspec.json.Decoder(list[Raw]).decode
        # A message this short cannot nest too deep: every level costs an opening and a closing
        # byte.
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

    def _refuse_excess(self, data: bytes) -> None:
        size = len(data)
        if size > self.limits.message_bytes:
            raise _malformed(
                f"message of {size} bytes exceeds the limit of {self.limits.message_bytes} bytes "
                "(message_bytes)",
                code=INVALID_REQUEST,
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
        if data.lstrip(_WHITESPACE).startswith(b"["):
            return self._batch(data)
        return examine(_parse(data))

    def _batch(self, data: bytes) -> Batch:
        try:
            elements = self._parts(data)
        except (ValueError, RecursionError):
            elements = [Raw(_encode(each)) for each in _parse(data)]
        if not elements:
            raise _malformed("batch is empty", code=INVALID_REQUEST)
        if len(elements) > self.limits.batch_length:
            raise _malformed(
                f"batch of {len(elements)} messages exceeds the limit of "
                f"{self.limits.batch_length} (batch_length)",
                code=INVALID_REQUEST,
            )
        return Batch([(self._element(bytes(each)), each) for each in elements])

    def _element(self, data: bytes) -> Frame | MalformedMessage:
        try:
            if data.startswith(b"["):
                return examine([])
            frame = self.decode(data)
        except MalformedMessage as malformed:
            return malformed
        assert isinstance(frame, Frame)
        return frame


def nests_deeper(data: bytes, depth: int) -> bool:
    """Tell whether JSON text nests deeper than `depth`, at the speed of C.

    Without its strings a JSON text is brackets and filler; the brackets are steps up and down.
    """
    if data.count(b"[") + data.count(b"{") <= depth:
        return False
    steps = array("b", _STRING.sub(b"", data).translate(_STEPS, _NOT_BRACKETS))
    return max(accumulate(steps), default=0) > depth


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


_encode: Final = msgspec.json.Encoder().encode


def _encode_id(id: RequestId | None) -> bytes:
    return b"%d" % id if id.__class__ is int else _encode(id)


def _malformed(message: str, *, code: int) -> MalformedMessage:
    return MalformedMessage(message, code=code, requirement="jsonrpc.message.version-2-0")


def _parse(data: bytes) -> Any:
    """Parse what the strict decoder refused, or say at which byte it stops being JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    stripped = data.strip(_WHITESPACE)
    if not stripped:
        raise _malformed("empty message", code=PARSE_ERROR)
    if stripped.startswith(b"\xef\xbb\xbf"):
        raise _malformed("not JSON at byte 0: a byte order mark", code=PARSE_ERROR)
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
    except RecursionError:
        raise _malformed("message nests too deep to be read", code=INVALID_REQUEST) from None
    except json.JSONDecodeError as error:
        # Python counts characters; up to the fault they are what the sender wrote.
        offset = len(data.decode()[: error.pos].encode())
        cut = " (message ends too early)" if offset >= len(data.rstrip(_WHITESPACE)) else ""
        raise _malformed(
            f"not JSON at byte {offset}: {error.msg.lower()}{cut}", code=PARSE_ERROR
        ) from None
    except ValueError as error:
        raise _malformed(f"not JSON: {error}", code=PARSE_ERROR) from None
    if surrogate := _lone_surrogate(value):
        raise _malformed(f"not JSON: lone surrogate {surrogate} in a string", code=PARSE_ERROR)
    raise _malformed("not JSON: a number is out of range or a literal is wrong", code=PARSE_ERROR)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON value")


def _lone_surrogate(value: Any) -> str | None:
    if isinstance(value, str):
        return next((f"U+{ord(c):04X}" for c in value if "\ud800" <= c <= "\udfff"), None)
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        return next(filter(None, map(_lone_surrogate, value)), None)
    return None


def examine(value: Any, where: str = "") -> Frame:
    """Make a frame of parsed JSON, or say which member keeps it from being one."""
    if not isinstance(value, dict):
        raise _malformed(
            f"{where or 'message '}is {_name(value)}, expected an object", code=INVALID_REQUEST
        )
    id = _readable_id(value.get("id"))
    is_response = "result" in value or "error" in value

    def refuse(requirement: str, message: str) -> MalformedMessage:
        return MalformedMessage(
            where + message, code=INVALID_REQUEST, requirement=requirement, id=id
        )

    if value.get("jsonrpc") != "2.0":
        got = _name(value["jsonrpc"]) if "jsonrpc" in value else "nothing"
        raise refuse("jsonrpc.message.version-2-0", f'member jsonrpc is {got}, expected "2.0"')
    if "method" in value and is_response:
        raise refuse("jsonrpc.message.version-2-0", "is a request and a response at once")
    if "method" not in value and not is_response:
        if "id" in value and "params" not in value:
            raise refuse(
                "jsonrpc.response.result-xor-error", "has neither method, result nor error"
            )
        kind = "request" if "id" in value else "notification"
        raise refuse(f"jsonrpc.{kind}.method-string", "member method is missing")
    fault = _response_fault(value, id) if is_response else _request_fault(value, id)
    if fault:
        raise refuse(*fault)
    return _frame(value, id)


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
        return "jsonrpc.response.result-xor-error", "has both result and error"
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


def _frame(value: dict[str, Any], id: RequestId | None) -> Frame:
    frame = Frame("2.0", id=id if "id" in value else UNSET)
    if "method" in value:
        frame.method = value["method"]
        if "params" in value:
            frame.params = Raw(_encode(value["params"]))
    elif "result" in value:
        frame.result = Raw(_encode(value["result"]))
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
            return "a fraction"
        case str():
            return f'"{value[:20]}"'
        case list():
            return "an array"
        case _:
            return "an object"
