"""Every way in which bytes can fail to be a message has one defined answer, and spoils no more."""

import json

import msgspec
import pytest
from msgspec import UNSET

from accord.errors import MessageTooLarge
from accord.protocol import codec
from accord.protocol.codec import Codec, Limits
from accord.protocol.jsonrpc import (
    FAULT,
    NOTIFICATION,
    REQUEST,
    RESULT,
    Batch,
    ErrorBody,
    Frame,
    MalformedMessage,
)
from support.tables import cases

VERSION = "jsonrpc.message.version-2-0"
UTF8 = "jsonrpc.encoding.utf8"
REQUEST_METHOD = "jsonrpc.request.method-string"
NOTIFICATION_METHOD = "jsonrpc.notification.method-string"
ID_TYPE = "jsonrpc.request.id-string-or-integer"
ID_NULL = "jsonrpc.request.id-not-null"
NO_ID = "jsonrpc.notification.no-id"
ONE_OF_TWO = "jsonrpc.response.result-xor-error"
ECHO = "jsonrpc.response.id-echo"
ERROR_MEMBERS = "jsonrpc.error.code-and-message"
ERROR_CODE = "jsonrpc.error.code-integer"

DIGITS = b"9" * 5_000


def malformed(data: bytes, limits: Limits | None = None) -> MalformedMessage:
    with pytest.raises(MalformedMessage) as caught:
        Codec(limits).decode(data)
    return caught.value


def decoded(data: bytes) -> Frame:
    frame = Codec().decode(data)
    assert isinstance(frame, Frame)
    return frame


def request(members: bytes) -> bytes:
    return b'{"jsonrpc":"2.0",%b}' % members


NOT_JSON = {
    "nothing": (b"", "empty message"),
    "white space": (b" \r\n\t", "empty message"),
    "text": (b"Starting up", "not JSON at byte 0: expecting value"),
    "cut off in a string": (b'{"jsonrpc":"2', "not JSON at byte 11: unterminated string"),
    "cut off after a member": (
        b'{"jsonrpc":"2.0" \n',
        "not JSON at byte 18: expecting ',' delimiter (message ends too early)",
    ),
    "cut off in an array": (b"[1,", "(message ends too early)"),
    "two messages in one": (b'{"jsonrpc":"2.0"} {}', "not JSON at byte 18: extra data"),
    "bytes are counted, not characters": ('{"é":é}'.encode(), "not JSON at byte 6"),
    "single quotes": (b"{'jsonrpc':'2.0'}", "not JSON at byte 1"),
    "control character in a string": (
        request(b'"method":"a\nb"'),
        "not JSON at byte 28: invalid control character",
    ),
    "leading zero": (request(b'"id":01'), "not JSON at byte 23"),
    "NUL bytes as UTF-16 has them": (b'{\0"\0a\0"\0:\x001\0}\0', "not JSON at byte 1"),
    "NaN in params": (
        request(b'"id":1,"method":"NaN\\"","params":{"a":NaN}'),
        "not JSON at byte 55: NaN is not a JSON value",
    ),
    "Infinity as id": (request(b'"id":Infinity,"method":"x"'), "Infinity is not a JSON value"),
    "-Infinity in a result": (request(b'"id":1,"result":-Infinity'), "-Infinity is not a JSON"),
    "NaN in a batch": (
        b"[%b,%b]" % (request(b'"id":1,"method":"x"'), request(b'"id":NaN,"method":"x"')),
        "not JSON at byte 61: NaN is not a JSON value",
    ),
    "lone high surrogate": (
        request(b'"id":1,"method":"x","params":{"a":"\\ud83d"}'),
        "not JSON: lone surrogate U+D83D in a string",
    ),
    "lone low surrogate in a key": (
        request(b'"id":1,"result":{"\\udc00":1}'),
        "not JSON: lone surrogate U+DC00 in a string",
    ),
    "lone surrogate as id": (request(b'"id":"\\ud800","method":"x"'), "lone surrogate U+D800"),
    "byte order mark": (
        b"\xef\xbb\xbf" + request(b'"method":"x"'),
        "not JSON at byte 0: a byte order mark",
    ),
}


@cases(("data", "why"), NOT_JSON.values(), ids=NOT_JSON)
def test_invalid_json_is_answered_with_a_parse_error_that_says_where(data, why):
    error = malformed(data)
    assert (error.code, error.id, error.requirement) == (-32700, None, VERSION)
    assert why in str(error)


NOT_UTF8 = {
    "latin-1": (request(b'"method":"caf\xe9"'), 30),
    "encoded surrogate": (request(b'"method":"\xed\xa0\x80"'), 27),
    "cut off inside a character": (b'{"jsonrpc":"\xf0\x9f', 12),
    "overlong slash": (b'"\xc0\xaf"', 1),
    "UTF-16": ('{"jsonrpc":"2.0"}'.encode("utf-16"), 0),
}


@pytest.mark.requirement(UTF8)
@cases(("data", "position"), NOT_UTF8.values(), ids=NOT_UTF8)
def test_invalid_utf8_is_refused_with_the_position_of_the_byte(data, position):
    error = malformed(data)
    assert (error.code, error.id, error.requirement) == (-32700, None, UTF8)
    assert f"invalid UTF-8 at byte {position}: " in str(error)


NO_MESSAGE = {
    "number": (b"1", VERSION, None, "message is an integer, expected an object"),
    "fraction": (b"1.5", VERSION, None, "message is a fraction, expected an object"),
    "string": (b'"ping"', VERSION, None, 'message is "ping", expected an object'),
    "null": (b"null", VERSION, None, "message is null, expected an object"),
    "boolean": (b"true", VERSION, None, "message is a boolean, expected an object"),
    "empty batch": (b"[]", "jsonrpc.batch.send-optional", None, "batch is empty"),
    "empty object": (b"{}", VERSION, None, 'member jsonrpc is missing, expected "2.0"'),
    "jsonrpc missing": (
        b'{"id":7,"method":"ping"}',
        VERSION,
        7,
        'member jsonrpc is missing, expected "2.0"',
    ),
    "jsonrpc 1.0": (
        b'{"jsonrpc":"1.0","id":"a","method":"ping"}',
        VERSION,
        "a",
        'member jsonrpc is "1.0", expected "2.0"',
    ),
    "jsonrpc a number": (
        b'{"jsonrpc":2.0,"id":7,"method":"ping"}',
        VERSION,
        7,
        'member jsonrpc is a fraction, expected "2.0"',
    ),
    "method an integer": (
        request(b'"id":7,"method":1'),
        REQUEST_METHOD,
        7,
        "member method is an integer, expected a string",
    ),
    "method null in a notification": (
        request(b'"method":null'),
        NOTIFICATION_METHOD,
        None,
        "member method is null, expected a string",
    ),
    "method missing beside params": (
        request(b'"id":7,"params":{}'),
        REQUEST_METHOD,
        7,
        "member method is missing",
    ),
    "nothing but the version": (request(b'"x":1'), NOTIFICATION_METHOD, None, "is missing"),
    "neither method, result nor error": (
        request(b'"id":7'),
        ONE_OF_TWO,
        7,
        "message has neither method, result nor error",
    ),
    "both result and error": (
        request(b'"id":7,"result":{},"error":{"code":1,"message":""}'),
        ONE_OF_TWO,
        7,
        "message has both result and error",
    ),
    "error null beside a result": (
        request(b'"id":7,"result":{},"error":null'),
        ONE_OF_TWO,
        7,
        "message has both result and error",
    ),
    "request and response at once": (
        request(b'"id":7,"method":"x","result":{}'),
        VERSION,
        7,
        "message is a request and a response at once",
    ),
    "request and error at once": (
        request(b'"id":7,"method":"x","error":{"code":1,"message":"m"}'),
        VERSION,
        7,
        "message is a request and a response at once",
    ),
    "id null": (
        request(b'"id":null,"method":"x"'),
        ID_NULL,
        None,
        "member id is null, expected a string or integer",
    ),
    "id boolean": (request(b'"id":true,"method":"x"'), ID_TYPE, None, "member id is a boolean"),
    "id fraction": (request(b'"id":1.5,"method":"x"'), ID_TYPE, None, "member id is a fraction"),
    "id object": (request(b'"id":{},"method":"x"'), ID_TYPE, None, "member id is an object"),
    "id array": (request(b'"id":[1],"method":"x"'), ID_TYPE, None, "member id is an array"),
    "id beyond 64 bits": (
        request(b'"id":9223372036854775808,"method":"x"'),
        ID_TYPE,
        None,
        "member id is an integer beyond 64 bits",
    ),
    "id of 5,000 digits": (
        request(b'"id":%b,"method":"x"' % DIGITS),
        ID_TYPE,
        None,
        "member id is a number out of range, expected a string or an integer of 64 bits",
    ),
    "id beyond every float": (
        request(b'"id":1e400,"method":"x"'),
        ID_TYPE,
        None,
        "member id is a number out of range",
    ),
    "result without id": (request(b'"result":{}'), ECHO, None, "member id is missing"),
    "notification with id null": (
        request(b'"id":null,"method":"notifications/initialized"'),
        NO_ID,
        None,
        "a notification has a member id",
    ),
    "result with id null": (request(b'"id":null,"result":{}'), ECHO, None, "member id is null"),
    "result with id true": (
        request(b'"id":true,"result":{}'),
        ECHO,
        None,
        "member id is a boolean, expected the id of the request",
    ),
    "error with a fraction as id": (
        request(b'"id":0.5,"error":{"code":1,"message":""}'),
        ECHO,
        None,
        "member id is a fraction",
    ),
    "error a string": (
        request(b'"id":7,"error":"broken"'),
        ERROR_MEMBERS,
        7,
        'member error is "broken", expected an object',
    ),
    "error without code": (
        request(b'"id":7,"error":{"message":"x"}'),
        ERROR_MEMBERS,
        7,
        "error has no code",
    ),
    "error without message": (
        request(b'"id":7,"error":{"code":-1}'),
        ERROR_MEMBERS,
        7,
        "error has no message",
    ),
    "error message a number": (
        request(b'"id":7,"error":{"code":-1,"message":2}'),
        ERROR_MEMBERS,
        7,
        "error message is an integer, expected a string",
    ),
    "error code a fraction": (
        request(b'"id":7,"error":{"code":-1.5,"message":""}'),
        ERROR_CODE,
        7,
        "error code is a fraction, expected an integer",
    ),
    "error code a string": (
        request(b'"id":7,"error":{"code":"-1","message":""}'),
        ERROR_CODE,
        7,
        'error code is "-1", expected an integer',
    ),
    "error code of 5,000 digits": (
        request(b'"id":7,"error":{"code":%b,"message":""}' % DIGITS),
        ERROR_CODE,
        7,
        "error code is a number out of range",
    ),
}


@pytest.mark.requirement(
    VERSION,
    REQUEST_METHOD,
    NOTIFICATION_METHOD,
    ID_TYPE,
    ID_NULL,
    NO_ID,
    ONE_OF_TWO,
    ECHO,
    ERROR_MEMBERS,
    ERROR_CODE,
)
@cases(("data", "requirement", "id", "why"), NO_MESSAGE.values(), ids=NO_MESSAGE)
def test_json_that_is_not_a_message_is_an_invalid_request_under_its_readable_id(
    data, requirement, id, why
):
    error = malformed(data)
    assert (error.code, error.id, error.requirement) == (-32600, id, requirement)
    assert why in str(error)


@cases(
    ("data", "kind"),
    [
        (b'{"id":1,"method":"x"}', REQUEST),
        (b'{"method":"x"}', NOTIFICATION),
        (b'{"id":1,"result":{}}', RESULT),
        (b'{"id":1,"error":{}}', FAULT),
        (b'{"id":1}', None),
        (b"1", None),
    ],
    ids=lambda value: value.decode() if isinstance(value, bytes) else None,
)
def test_a_malformed_message_shows_what_it_was_meant_to_be(data, kind):
    assert malformed(data).kind == kind


MESSAGES = {
    "request": (request(b'"id":1,"method":"x"'), REQUEST),
    "request with params": (request(b'"id":"a","method":"x","params":{}'), REQUEST),
    "request with params that are not an object": (
        request(b'"id":1,"method":"x","params":[1]'),
        REQUEST,
    ),
    "notification": (request(b'"method":"x"'), NOTIFICATION),
    "result": (request(b'"id":1,"result":{}'), RESULT),
    "result null": (request(b'"id":1,"result":null'), RESULT),
    "error": (request(b'"id":1,"error":{"code":1,"message":""}'), FAULT),
    "error with id null": (request(b'"id":null,"error":{"code":1,"message":""}'), FAULT),
    "error without id": (request(b'"error":{"code":1,"message":""}'), FAULT),
    "error with a whole code written as a fraction": (
        request(b'"id":1,"error":{"code":1.0,"message":""}'),
        FAULT,
    ),
    "unknown members": (request(b'"id":1,"method":"x","more":{"a":[]}'), REQUEST),
    "white space around it": (b" \n" + request(b'"id":1 , "method" : "x"') + b"\r\n", REQUEST),
}


@cases(("data", "kind"), MESSAGES.values(), ids=MESSAGES)
def test_every_kind_of_message_is_recognized(data, kind):
    assert decoded(data).kind == kind


IDS = {
    "integer": (b"1", 1),
    "string of the same digits": (b'"1"', "1"),
    "string with a zero before": (b'"01"', "01"),
    "empty string": (b'""', ""),
    "negative": (b"-5", -5),
    "whole number written as a fraction": (b"1.0", 1),
    "whole number with an exponent": (b"1e3", 1000),
    "least of 64 bits": (b"-9223372036854775808", -(2**63)),
    "greatest of 64 bits": (b"9223372036854775807", 2**63 - 1),
    "unicode": ('"é🙂"'.encode(), "é🙂"),
}


@cases(("text", "id"), IDS.values(), ids=IDS)
def test_ids_keep_their_type_and_value(text, id):
    frame = decoded(request(b'"id":%b,"method":"x"' % text))
    assert frame.id == id
    assert type(frame.id) is type(id)


@pytest.mark.parametrize("member", ["params", "result"])
def test_bodies_stay_as_they_travelled(member):
    text = b'{ "n":1.50, "a":1,"a":2, "huge":%b, "far":1e400 }' % DIGITS
    envelope = b'"method":"x","params"' if member == "params" else b'"result"'
    for id in (b"1", b"1.0"):
        frame = decoded(request(b'"id":%b,%b:%b' % (id, envelope, text)))
        assert frame.body is not None
        assert bytes(frame.body) == text


def test_a_frame_without_params_has_no_body():
    assert decoded(request(b'"method":"x"')).body is None
    assert decoded(request(b'"id":1.0,"method":"x"')).body is None


def test_the_data_of_an_error_is_read_and_its_absence_differs_from_null():
    plain = b'"id":1,"error":{"code":%b,"message":"m"%b}'
    for code in (b"-5", b"-5.0"):
        assert decoded(request(plain % (code, b""))).error == ErrorBody(-5, "m", UNSET)
        assert decoded(request(plain % (code, b',"data":null'))).error == ErrorBody(-5, "m", None)
    data = decoded(request(plain % (b"-5", b',"data":{"n":%b}' % DIGITS))).error
    assert data == ErrorBody(-5, "m", {"n": float("inf")})


def test_a_batch_keeps_its_elements_with_their_bytes():
    first, second = request(b'"id":1,"method":"x"'), request(b'"method":"y","params":{"a":1e400}')
    batch = Codec().decode(b" [%b , %b]" % (first, second))
    assert isinstance(batch, Batch)
    assert [frame.method for frame, _ in batch.parts] == ["x", "y"]
    assert [bytes(raw) for _, raw in batch.parts] == [first, second]


def test_a_malformed_element_spoils_nothing_but_itself():
    elements = [
        request(b'"id":1,"method":"x"'),
        b"1",
        b'{"jsonrpc":"2.0","id":9}',
        request(b'"id":%b,"method":"x"' % DIGITS),
        b"[]",
        b"[%b]" % request(b'"id":2,"method":"x"'),
        request(b'"id":1.0,"method":"y"'),
    ]
    batch = Codec().decode(b"[%b]" % b",".join(elements))
    assert isinstance(batch, Batch)
    found = [
        (part.code, part.id, str(part)) if isinstance(part, MalformedMessage) else part.method
        for part, _ in batch.parts
    ]
    assert found == [
        "x",
        (-32600, None, "message is an integer, expected an object"),
        (-32600, 9, "message has neither method, result nor error"),
        (
            -32600,
            None,
            "member id is a number out of range, expected a string or an integer of 64 bits",
        ),
        (-32600, None, "message is an array, expected an object"),
        (-32600, None, "message is an array, expected an object"),
        "y",
    ]


# Limits


def nested(depth: int) -> bytes:
    """A request that nests this deep, counting its own object."""
    return request(b'"id":1,"method":"x","params":%b%b' % (b"[" * (depth - 1), b"]" * (depth - 1)))


@pytest.mark.parametrize("method", ["x", "é"])
def test_a_message_at_the_limit_of_bytes_passes_and_one_byte_more_is_refused(method):
    data = request(b'"id":1,"method":"%b"' % method.encode())
    assert Codec(Limits(message_bytes=len(data))).decode(data)
    error = malformed(data, Limits(message_bytes=len(data) - 1))
    assert (error.code, error.id, error.kind) == (-32600, 1, REQUEST)
    assert str(error) == (
        f"message of {len(data)} bytes exceeds the limit of {len(data) - 1} bytes (message_bytes)"
    )


def nested_objects(depth: int) -> bytes:
    """The same without arrays."""
    inner = b'{"":' * (depth - 2) + b"{}" + b"}" * (depth - 2)
    return request(b'"id":1,"method":"x","params":%b' % inner)


@cases("nested", [nested, nested_objects])
@cases("depth", [3, 64, 128])
def test_a_message_at_the_limit_of_depth_passes_and_one_level_more_is_refused(depth, nested):
    limits = Limits(depth=depth)
    assert Codec(limits).decode(nested(depth))
    error = malformed(nested(depth + 1), limits)
    assert (error.code, error.id, error.kind) == (-32600, 1, REQUEST)
    assert str(error) == f"message nests deeper than {depth} levels (depth)"


def test_a_batch_at_the_limit_of_its_length_passes_and_one_message_more_is_refused():
    element, limits = request(b'"id":1,"method":"x"'), Limits(batch_length=3)
    batch = Codec(limits).decode(b"[%b]" % b",".join([element] * 3))
    assert isinstance(batch, Batch)
    assert len(batch.parts) == 3
    error = malformed(b"[%b]" % b",".join([element] * 4), limits)
    assert (error.code, error.id) == (-32600, None)
    assert str(error) == "batch of 4 messages exceeds the limit of 3 (batch_length)"


@cases(
    ("data", "limit"),
    [
        (b" " * (16 * 1024 * 1024 + 1), "the limit of 16777216 bytes"),
        (nested(129), "deeper than 128 levels"),
        (b"[%b]" % b",".join([b"1"] * 257), "the limit of 256 (batch_length)"),
        (b"[%b]" % b",".join([b"1"] * 250_001), "more than 250000 values"),
    ],
    ids=["bytes", "depth", "batch", "values"],
)
def test_there_are_limits_by_default(data, limit):
    assert limit in str(malformed(data))


DEEP = {
    "arrays": b"[" * 100_000 + b"]" * 100_000,
    "objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "strings": b"[" * 200 + b'"' + b'\\"' * 500_000 + b'"' + b"]" * 200,
}


@pytest.mark.parametrize("data", DEEP.values(), ids=DEEP)
def test_a_closed_message_that_nests_too_deep_is_refused_for_its_depth(data):
    error = malformed(data)
    assert (error.code, error.id) == (-32600, None)
    assert str(error) == "message nests deeper than 128 levels (depth)"


UNBALANCED = {
    "arrays": (b"[" * 100_000, "100000 brackets are not closed"),
    "more arrays than values": (b"[" * 1_000_000, "1000000 brackets are not closed"),
    "objects": (b'{"a":' * 100_000, "100000 brackets are not closed"),
    "one missing": (b"[" * 100_000 + b"]" * 99_999, "1 brackets are not closed"),
    "one too many": (b"[" * 200 + b"]" * 201, "1 brackets are closed, but not opened"),
    "a string of escaped quotes without an end": (
        b"[" * 200 + b'"' + b'\\"' * 500_000,
        "200 brackets are not closed",
    ),
    "strings without end one after another": (
        b"[" * 200 + b'"\\' * 500_000,
        "200 brackets are not closed",
    ),
}


@cases(("data", "why"), UNBALANCED.values(), ids=UNBALANCED)
def test_brackets_that_are_not_closed_are_a_parse_error_however_deep(data, why):
    error = malformed(data)
    assert (error.code, error.id) == (-32700, None)
    assert str(error) == f"not JSON: {why}"


MANY = {
    "arrays": (b"[],", b"[]"),
    "objects": (b'{"a":1},', b"{}"),
    "numbers": (b"1,", b"1"),
    "strings": (b'"a",', b'"a"'),
    "strings with escapes": (b'"\\"\\\\",', b'"a"'),
    "names": (b'{"a:b":"c:d"},', b"{}"),
}


@cases("batch", [False, True], ids=["in params", "as a batch"])
@cases(("value", "last"), MANY.values(), ids=MANY)
def test_a_message_of_very_many_values_is_refused_before_it_is_decoded(value, last, batch):
    array = b"[" + value * (1_000_000 // len(value)) + last + b"]"
    data = array if batch else request(b'"id":1,"method":"x","params":{"a":%b}' % array)
    error = malformed(data, Limits(message_values=20_000))
    assert (error.code, error.id) == (-32600, None if batch else 1)
    assert str(error) == "message holds more than 20000 values (message_values)"


def test_a_message_at_the_limit_of_its_values_passes_and_one_value_more_is_refused():
    def message(values: int) -> bytes:
        array = b",".join([b'"a, b"'] * values)
        return request(b'"id":1,"method":"x","params":{"a":[%b]}' % array)

    # The brackets of the message, of params and of the array, and the commas between them.
    limits = Limits(message_values=1_006, depth=4)
    assert isinstance(Codec(limits).decode(message(1_001)), Frame)
    assert "message_values" in str(malformed(message(1_002), limits))
    codec = Codec(limits)
    assert codec.check_size(message(1_001), "x")
    with pytest.raises(MessageTooLarge, match=r"holds 1007 values, more than the limit of 1006 "):
        codec.check_size(message(1_002), "x")


@cases("nested", [nested, nested_objects])
@cases("depth", [3, 64, 2_000])
def test_a_message_of_ours_that_nests_too_deep_is_refused_with_its_depth(depth, nested):
    codec = Codec(Limits(depth=depth))
    assert codec.check_size(nested(depth), "x")
    with pytest.raises(MessageTooLarge, match="x: the message nests") as caught:
        codec.check_size(nested(depth + 1), "x")
    error = caught.value
    assert (error.size, error.limit, error.setting) == (depth + 1, depth, "depth")
    assert str(error).endswith("limits=Limits(depth=...) raises it")


def test_a_message_of_ours_is_refused_together_with_what_leaves_with_it():
    codec = Codec(Limits(message_bytes=100, depth=3, message_values=10))
    data = b'{"a":[1,2,3]}'
    assert codec.check_size(data, "x", size=80, values=4, levels=1)
    for around in ({"size": 90}, {"values": 7}, {"values": 70}, {"levels": 2}):
        with pytest.raises(MessageTooLarge):
            codec.check_size(data, "x", **around)


@cases("wide", [b"[%b]" % (b"0," * 4_000 + b"0"), b"[" * 9 + b"]" * 9])
@cases("late", [False, True], ids=["id first", "id last"])
def test_a_result_beyond_a_limit_is_refused_by_its_id(wide, late):
    parts = [b'"jsonrpc":"2.0"', b'"id":"a"', b'"result":{"x":%b}' % wide]
    if late:
        parts.append(parts.pop(1))
    error = malformed(b"{%b}" % b",".join(parts), Limits(message_values=3_000, depth=8))
    assert (error.id, error.kind) == ("a", RESULT)


def test_a_long_text_is_one_value():
    text = msgspec.json.encode('a, b: "[{' * 100_000)
    frame = decoded(request(b'"id":1,"method":"x","params":{"a":%b}' % text))
    assert len(frame.params) > 900_000


@cases("tail", [b"", b'"\\ud800"'], ids=["plain", "lone surrogate inside"])
@cases("head", [b'{"jsonrpc":"2.0","id":1.0,"result":', b"[["], ids=["result", "batch"])
def test_depth_beyond_what_the_machine_can_read_is_refused_and_does_no_harm(head, tail):
    data = head + b"[" * 100_000 + tail + b"]" * 100_000 + (b"]]" if head == b"[[" else b"}")
    error = malformed(data, Limits(depth=1_000_000))
    assert (error.code, str(error)) == (-32600, "message nests too deep to be read")


def test_limits_that_hold_for_one_message_do_not_touch_the_next():
    reader = Codec(Limits(message_bytes=60, depth=2, batch_length=1))
    good = request(b'"id":1,"method":"x"')
    for bad in (b"x", b"\xff", b"[[[[]]]]", b"[1,2]", b'"' + b"a" * 60 + b'"'):
        with pytest.raises(MalformedMessage):
            reader.decode(bad)
        assert reader.decode(good) == decoded(good)


# Members that occur twice


TWICE = {
    "method": b'{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}',
    "method, apart": b'{"method":"a","jsonrpc":"2.0","id":1,"params":{},"method":"b"}',
    "method of a notification": b'{"jsonrpc":"2.0","method":"a","method":"b"}',
    "version": b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"a"}',
    "another version": b'{"jsonrpc":"1.0","jsonrpc":"2.0","id":1,"method":"a"}',
    "params": b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1},"params":{}}',
    "the same params": b'{"jsonrpc":"2.0","id":1,"method":"a","params":{},"params":{}}',
    "params of a notification": b'{"jsonrpc":"2.0","method":"a","params":0,"params":{}}',
    "params that are a number": b'{"jsonrpc":"2.0","id":1,"method":"a","params":1,"params":12}',
    "result": b'{"jsonrpc":"2.0","id":1,"result":{},"result":{"a":1}}',
    "error": b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""},'
    b'"error":{"code":2,"message":""}}',
    "escaped": b'{"jsonrpc":"2.0","id":1,"me\\u0074hod":"a","method":"b"}',
    "escaped, the last": b'{"jsonrpc":"2.0","id":1,"method":"a","\\u006dethod":"b"}',
    "with space": b' { "jsonrpc" : "2.0" , "id" : 1 , "method" : "a" , "method" : "b" } ',
    "beside an unknown one": b'{"jsonrpc":"2.0","id":1,"x":[{"a":"}"}],"method":"a","method":"b"}',
    "in a malformed message": b'{"id":1,"method":"a","method":"b"}',
    "before a large number": b'{"jsonrpc":"2.0","id":1,"method":"a","x":%b,"method":"b"}' % DIGITS,
}


@cases("data", TWICE.values(), ids=TWICE)
def test_a_member_that_occurs_twice_is_refused(data):
    error = malformed(data)
    assert (error.code, error.requirement) == (-32600, VERSION)
    assert str(error).startswith("member ")
    assert str(error).endswith(" occurs twice")
    assert error.id == (1 if b'"id"' in data else None)


@cases(
    ("data", "kind"),
    [
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}', REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"id":1,"method":"a","params":{}}', REQUEST),
        (b'{"jsonrpc":"2.0","id":1,"i\\u0064":2,"method":"a"}', REQUEST),
        (b'{"jsonrpc":"2.0","id":"a","id":2,"result":{}}', RESULT),
        (b'{"jsonrpc":"2.0","id":2,"id":1.0,"result":{}}', RESULT),
        (b'{"jsonrpc":"2.0","id":null,"id":1,"error":{"code":1,"message":""}}', FAULT),
    ],
)
def test_an_id_that_occurs_twice_is_not_answered(data, kind):
    error = malformed(data)
    assert (error.id, error.kind, str(error)) == (None, kind, "member id occurs twice")


ONCE = {
    "an id of many digits": b'{"jsonrpc":"2.0","id":1234567890123456789,"method":"a"}',
    "an id that is text": b'{"jsonrpc":"2.0","id":"0b0e2a3c-6d5f-4b44","method":"a","params":{}}',
    "space": b'{ "jsonrpc": "2.0", "id": 1, "method": "a", "params": { "id": 1, "id": 2 } }',
    "unknown members, twice": b'{"jsonrpc":"2.0","id":1,"method":"a","x":1,"x":2}',
    "the name as a value": b'{"jsonrpc":"2.0","id":"method","method":"id","x":"method"}',
    "the name within": b'{"jsonrpc":"2.0","id":1,"method":"a","x":{"method":1,"id":2}}',
    "an escaped value": b'{"jsonrpc":"2.0","id":1,"method":"\\"id\\":","params":{}}',
    "an empty object before": b'{"x":{},"jsonrpc":"2.0","id":1,"method":"a","params":{}}',
    "an error with data": b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":{"id":1}'
    b"}}",
    "an error without": b'{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"no"}}',
    "a spaced result": b'{"jsonrpc": "2.0",   "id": 1,   "result": {"result": 1, "result": 2}}',
}


@cases("data", ONCE.values(), ids=ONCE)
def test_text_that_only_looks_like_a_repeated_member_is_read(data):
    frame = decoded(data)
    assert frame.id == json.loads(data)["id"]


def test_a_member_that_occurs_twice_in_a_part_spoils_that_part_of_a_batch():
    good = request(b'"id":1,"method":"x"')
    bad = request(b'"id":2,"method":"x","method":"y"')
    batch = Codec().decode(b"[%b,%b]" % (good, bad))
    assert isinstance(batch, Batch)
    (first, _), (second, _) = batch.parts
    assert isinstance(first, Frame)
    assert isinstance(second, MalformedMessage)
    assert second.id == 2


def test_a_message_with_very_many_members_is_refused():
    members = b",".join(b'"m%d":0' % number for number in range(300))
    error = malformed(request(b'"id":1,"method":"x",%b' % members))
    assert (error.code, error.id) == (-32600, 1)
    assert str(error) == "message has more than 256 members"


# Writing


def test_messages_are_written_in_the_usual_order_and_without_space():
    error = ErrorBody(-1, "é", {"a": None})
    assert codec.encode_request(1, "x", None) == b'{"jsonrpc":"2.0","id":1,"method":"x"}'
    assert codec.encode_request("a", "x", b"{}") == (
        b'{"jsonrpc":"2.0","id":"a","method":"x","params":{}}'
    )
    assert codec.encode_notification("x", None) == b'{"jsonrpc":"2.0","method":"x"}'
    assert codec.encode_notification("x", b"{}") == b'{"jsonrpc":"2.0","method":"x","params":{}}'
    assert codec.encode_result(1, {"a": 1}) == b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}'
    assert codec.encode_result("1", b"[]") == b'{"jsonrpc":"2.0","id":"1","result":[]}'
    assert codec.encode_error(None, error) == (
        '{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"é","data":{"a":null}}}'.encode()
    )
    assert codec.encode_error("a", ErrorBody(-1, "")) == (
        b'{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":""}}'
    )


@cases("data", [data for data, _ in MESSAGES.values()], ids=MESSAGES)
def test_a_frame_is_written_as_it_was_read(data):
    known = {"jsonrpc", "id", "method", "params", "result", "error"}
    expected = {key: value for key, value in json.loads(data).items() if key in known}
    assert msgspec.json.decode(codec.encode(decoded(data))) == expected
