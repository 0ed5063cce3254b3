"""Bytes to frames and back, within limits.

One strict decode serves every well-formed message. Only when it fails is the input looked at again,
to say what is wrong and where. Nothing here knows revisions: the receiver of a batch decides
whether it is welcome.
"""

import re
from functools import lru_cache, partial
from math import isfinite
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from accord.errors import MessageTooLarge
from accord.protocol.json_text import (
    FRAGMENT,
    balance,
    count_levels,
    count_values,
    holds_more_values,
    nests_deeper,
    read_envelope,
    repeated_member,
)
from accord.protocol.jsonrpc import (
    FAULT,
    ID_RANGE,
    NOTIFICATION,
    PARSE_ERROR,
    REQUEST,
    RESULT,
    VERSION_2_0,
    Batch,
    BeyondLimits,
    ErrorBody,
    Frame,
    Kind,
    MalformedMessage,
)
from accord.types._base import RequestId

_WHITESPACE: Final = " \t\r\n"

# The bytes of the shortest envelope around a method and params, or around a result, with an id of
# one byte; and what the shortest member that occurs twice adds to it, `"id":1,`.
_REPEATED: Final = len('"id":1,')
_REQUEST: Final = len('{"jsonrpc":"2.0","id":1,"method":""}') + _REPEATED
_NOTIFICATION: Final = len('{"jsonrpc":"2.0","method":""}') + _REPEATED
_RESULT: Final = len('{"jsonrpc":"2.0","id":1,"result":}') + _REPEATED
_PARAMS: Final = len(',"params":')
_SHORT: Final = 4096
_ARRAY: Final = ord("[")  # a byte is found six times as fast as bytes of length one


class Limits(msgspec.Struct, frozen=True):
    """What one message may cost.

    Larger payloads belong into resources; the default leaves room for a 10 MB image in base64. Real
    tool schemas nest some 30 deep. A batch is answered as one array, so its length is bounded too.

    `message_values` counts commas and opening brackets outside of strings: each stands for a value
    that has to be made. A value may take 100 bytes of memory where it takes 3 in the message, so
    the default keeps one message below some 30 MB and 0.1 s; long texts count as one value.
    """

    message_bytes: int = 16 * 1024 * 1024
    depth: int = 128
    batch_length: int = 256
    message_values: int = 250_000


class Codec:
    """Decodes and encodes messages under given limits."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._frame = msgspec.json.Decoder(Frame).decode
        most = min(self.limits.message_bytes, self.limits.message_values)
        # A message this short cannot nest too deep: each level opens and closes, `[]`, and the
        # level of an object needs a name as well, `{"":}`.
        self.surely_fine = min(2 * self.limits.depth, most)
        self._fine_without_arrays = min(5 * self.limits.depth, most)
        self._depth = self.limits.depth
        self._countable = min(_SHORT, most)

    def decode(self, data: bytes) -> Frame | Batch:
        """Read one message or batch.

        Raises:
            MalformedMessage: the one error for any input that is not a message; it says what is
                wrong and where.
        """
        # In what is not long, counting is quicker than following the nesting; most requests that
        # stand on their own hold no array, and looking for one is quicker still.
        if not data.isascii() or (
            len(data) > self.surely_fine
            and (len(data) > self._fine_without_arrays or _ARRAY in data)
            and (len(data) > self._countable or data.count(b"{") + data.count(b"[") > self._depth)
        ):
            self._refuse_excess(data)
        try:
            frame = self._frame(data)
        except (ValueError, RecursionError):
            return self._second_look(data)
        # What is hardly longer than its members has none of them twice.
        method, id, result = frame.method, frame.id, frame.result
        if method is not UNSET:
            if id is not None and result is UNSET and frame.error is UNSET:
                params = frame.params
                rest = len(data) - len(method)
                if params is not UNSET:
                    rest -= len(params) + _PARAMS
                if rest < (_NOTIFICATION if id is UNSET else _REQUEST):
                    return frame
                if id.__class__ is str and rest - len(id) - 1 < _REQUEST:  # with two quotes
                    return frame
                return _without_repetition(frame, data)
        elif frame.error is UNSET:
            if result is not UNSET and id is not UNSET and id is not None:
                if len(data) - len(result) < _RESULT:
                    return frame
                return _without_repetition(frame, data)
        elif result is UNSET:
            return _without_repetition(frame, data)
        return self._second_look(data)

    def check_size(
        self, data: bytes, name: str, *, size: int = 0, values: int = 0, levels: int = 0
    ) -> bytes:
        """Return a message of ours unless it is beyond a limit.

        One that leaves alone, and is no longer than `surely_fine`, need not be looked at.

        Args:
            data: the message.
            name: its method.
            size: bytes that leave with it, as the other answers to a batch do.
            values: the values in those.
            levels: how deep it stands in what leaves.

        Raises:
            MessageTooLarge: it is.
        """
        limits = self.limits
        # Most messages are short enough for all limits but the depth.
        if (
            len(data) <= self._countable
            and not levels
            and not size
            and (data.count(b"{") + data.count(b"[") <= limits.depth)
        ):
            return data
        what, size = f"{name}: the message", size + len(data)
        if size > limits.message_bytes:
            raise MessageTooLarge(what, size=size, limit=limits.message_bytes)
        if holds_more_values(data, max(limits.message_values - values, 0)):
            found, limit = values + count_values(data), limits.message_values
            raise MessageTooLarge(what, size=found, limit=limit, setting="message_values")
        depth = limits.depth - levels
        if nests_deeper(data, depth):
            found = levels + count_levels(data)
            raise MessageTooLarge(what, size=found, limit=limits.depth, setting="depth")
        return data

    def _refuse_excess(self, data: bytes) -> None:
        size, limits = len(data), self.limits
        if size > limits.message_bytes:
            most = limits.message_bytes
            why = f"of {size} bytes exceeds the limit of {most} bytes (message_bytes)"
            raise _beyond(data, why, "message_bytes")
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError as error:
                raise MalformedMessage(
                    f"invalid UTF-8 at byte {error.start}: {error.reason}",
                    code=PARSE_ERROR,
                    requirement="jsonrpc.encoding.utf8",
                ) from None
        most, depth = limits.message_values, limits.depth
        if size > most and holds_more_values(data, most):
            _refuse_unbalanced(data)
            raise _beyond(data, f"holds more than {most} values (message_values)", "message_values")
        if nests_deeper(data, depth):
            _refuse_unbalanced(data)
            raise _beyond(data, f"nests deeper than {depth} levels (depth)", "depth")

    def _second_look(self, data: bytes) -> Frame | Batch:
        try:
            if data.lstrip().startswith(b"["):
                return self._batch(data)
            return _examine(parse(data), data)
        except RecursionError:
            id, kind = read_envelope(data[:FRAGMENT], data[-FRAGMENT:])
            why = "message nests too deep to be read"
            raise MalformedMessage(why, id=id, kind=kind) from None

    def _batch(self, data: bytes) -> Batch:
        try:
            elements = _ELEMENTS(data)
        except ValueError:
            elements = []  # parsing reports the fault
        if len(elements) > self.limits.batch_length:
            raise MalformedMessage(
                f"batch of {len(elements)} messages exceeds the limit of "
                f"{self.limits.batch_length} (batch_length)"
            )
        if not parse(data):
            raise MalformedMessage("batch is empty", requirement="jsonrpc.batch.send-optional")
        return Batch([(self._element(bytes(raw)), raw) for raw in elements])

    def _element(self, data: bytes) -> Frame | MalformedMessage:
        try:
            frame = _examine([], data) if data.startswith(b"[") else self.decode(data)
        except MalformedMessage as malformed:
            return malformed
        assert isinstance(frame, Frame)
        return frame


def skip_size_check(
    data: bytes, name: str, *, size: int = 0, values: int = 0, levels: int = 0
) -> bytes:
    """Return a message of ours, whatever its size."""
    return data


@lru_cache(maxsize=64)
def codec_for(limits: Limits) -> Codec:
    """Return the codec for these limits; it keeps nothing between messages, so all share it."""
    return Codec(limits)


class _ResultFrame(msgspec.Struct, gc=False):
    jsonrpc: str
    id: RequestId
    result: object


def encode_result(id: RequestId, result: object) -> bytes:
    """Make a response from a result, or from one that is already encoded."""
    if result.__class__ is bytes:
        result = Raw(result)
    return _encode(_ResultFrame("2.0", id, result))


def encode_error(id: RequestId | None, error: ErrorBody) -> bytes:
    """Make an error response; its id is null where that of the request could not be read."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_encode_id(id), _encode(error))


class _RequestFrame(msgspec.Struct, gc=False):
    jsonrpc: str
    id: RequestId | UnsetType
    method: str
    params: object


def encode_request(id: RequestId | UnsetType, method: str, params: object) -> bytes:
    """Make a request from params, from params that are already encoded, or from None."""
    if params is None:
        params = UNSET
    elif params.__class__ is bytes:
        params = Raw(params)
    return _encode(_RequestFrame("2.0", id, method, params))


def encode_notification(method: str, params: object) -> bytes:
    """Make a notification; the params are as those of requests."""
    return encode_request(UNSET, method, params)


def decode(data: bytes) -> Frame | Batch:
    """Read one message or batch under the usual limits; raises as `Codec.decode` does."""
    return codec_for(Limits()).decode(data)


def encode(frame: Frame) -> bytes:
    """Write a frame as it was read."""
    return _encode(frame)


# Constants that Python reads as numbers and JSON lacks, and strings, in which they are text.
_CONSTANT: Final = r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)'
_encode: Final = msgspec.json.Encoder().encode
_ELEMENTS: Final = msgspec.json.Decoder(list[Raw]).decode
_MEMBERS: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def _encode_id(id: RequestId | None) -> bytes:
    return b"%d" % id if id.__class__ is int else _encode(id)


def _beyond(data: bytes, excess: str, setting: str) -> BeyondLimits:
    """Return the error for a message beyond a limit, by the id and kind that its ends show."""
    id, kind = read_envelope(data[:FRAGMENT], data[-FRAGMENT:])
    return BeyondLimits(excess, setting, id=id, kind=kind)


def _refuse_unbalanced(data: bytes) -> None:
    """Refuse a message that its brackets show not to be JSON for that, whatever its limits."""
    left_open = balance(data)
    if left_open:
        wrong = "not closed" if left_open > 0 else "closed, but not opened"
        why = f"not JSON: {abs(left_open)} brackets are {wrong}"
        raise MalformedMessage(why, code=PARSE_ERROR)


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
        raise MalformedMessage("empty message", code=PARSE_ERROR)
    if stripped.startswith("\ufeff"):
        raise MalformedMessage("not JSON at byte 0: a byte order mark", code=PARSE_ERROR)
    import json  # takes 2 ms, and only invalid JSON gets here

    try:
        value = json.loads(text, parse_int=_integer, parse_constant=partial(_refuse, text))
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        # Python counts characters; the sender counts bytes.
        offset = len(text[: error.pos].encode())
        cut = " (message ends too early)" if error.pos >= len(text.rstrip(_WHITESPACE)) else ""
        raise MalformedMessage(
            f"not JSON at byte {offset}: {error.msg.lower()}{cut}", code=PARSE_ERROR
        ) from None
    except UnicodeEncodeError as error:
        surrogate = f"U+{ord(error.object[error.start]):04X}"
        raise MalformedMessage(
            f"not JSON: lone surrogate {surrogate} in a string", code=PARSE_ERROR
        ) from None
    return value


def _integer(digits: str) -> float:
    try:
        return int(digits)
    except ValueError:  # Python reads 4,300 digits and no more
        return float(digits)


def _refuse(text: str, name: str) -> None:
    outside = (each for each in re.finditer(_CONSTANT, text, re.DOTALL) if each[1])
    offset = len(text[: next(outside).start()].encode())
    raise MalformedMessage(
        f"not JSON at byte {offset}: {name} is not a JSON value", code=PARSE_ERROR
    )


def _without_repetition(frame: Frame, data: bytes) -> Frame:
    """Return a frame, unless a member of its envelope occurs twice in the text."""
    # Nearly all frames have params.
    body = bytes(frame.params if frame.params is not UNSET else frame.body or b"")
    # Each member has a name in quotes, however it is written.
    if data.count(b'"') - body.count(b'"') <= _quotes_around(frame):
        return frame
    _refuse_repetition(data, body, None if frame.id is UNSET else frame.id, frame.kind)
    return frame


def _quotes_around(frame: Frame) -> int:
    """Return how many quotes the envelope of a frame has, if it has each member once."""
    members = 1 + (frame.id is not UNSET) + (frame.params is not UNSET)
    strings = 1 + isinstance(frame.id, str)
    if frame.method is not UNSET:
        members, strings = members + 1, strings + 1
    elif frame.error is UNSET:
        members += 1
    else:
        members, strings = members + 3, strings + 1  # error, and in it code and message
    return 2 * (members + strings)


def _refuse_repetition(data: bytes, body: bytes, id: RequestId | None, kind: Kind | None) -> None:
    # One reader takes the first of two members, another the last (RFC 8259, section 4).
    name = ""
    try:
        name = repeated_member(data, body) or ""
        why = name and f"member {name} occurs twice"
    except (ValueError, RecursionError) as error:
        why = str(error)
    if why:
        raise MalformedMessage(why, id=None if name == "id" else id, kind=kind)


def _examine(value: object, data: bytes) -> Frame:
    """Make a frame of parsed JSON and its text, or say which member keeps it from being one."""
    if not isinstance(value, dict):
        raise MalformedMessage(f"message is {_name(value)}, expected an object")
    id = _readable_id(value.get("id"))
    kind = _kind(value)
    _refuse_repetition(data, b"", id, kind)

    def refuse(requirement: str, message: str) -> MalformedMessage:
        return MalformedMessage(message, requirement=requirement, id=id, kind=kind)

    if value.get("jsonrpc") != "2.0":
        got = _name(value["jsonrpc"]) if "jsonrpc" in value else "missing"
        raise refuse(VERSION_2_0, f'member jsonrpc is {got}, expected "2.0"')
    if "method" in value and ("result" in value or "error" in value):
        raise refuse(VERSION_2_0, "message is a request and a response at once")
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
        if value["method"].startswith("notifications/"):
            return "jsonrpc.notification.no-id", "a notification has a member id"
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


def _readable_id(value: object) -> RequestId | None:
    """Return the id if it is one; 1.0 is read as 1."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        return value if value in ID_RANGE else None
    return value if isinstance(value, str) else None


def _name(value: object) -> str:
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
