"""The id and the kind of messages that are cut off."""

import json

from hypothesis import given
from hypothesis import strategies as st

from accord.protocol.json_text import FRAGMENT, may_be_message, read_envelope
from accord.protocol.jsonrpc import FAULT, NOTIFICATION, REQUEST, RESULT
from support.tables import cases

LARGE = "x" * (4 * FRAGMENT)
DEEP = {"id": 9, "text": 'a "quoted" {bracket', "list": [1, {"id": 8}, "]"]}


def ends(message: object, **options: object) -> tuple[bytes, bytes]:
    data = json.dumps(message, **options).encode()  # type: ignore[arg-type]
    return data[:FRAGMENT], data[-FRAGMENT:]


@cases("separators", [(",", ":"), (" , ", " : ")], ids=["compact", "spaced"])
@cases("id", [0, -3, 17, "seven", 'with "quotes" and {', "é", ""])
@cases(
    ("message", "kind"),
    [
        ({"jsonrpc": "2.0", "id": None, "result": {"text": LARGE}}, RESULT),
        ({"result": {"text": LARGE}, "jsonrpc": "2.0", "id": None}, RESULT),
        ({"result": {"text": LARGE}, "id": None, "jsonrpc": "2.0"}, RESULT),
        ({"result": [LARGE, {"id": 5}], "jsonrpc": "2.0", "id": None}, RESULT),
        ({"error": {"code": 1, "message": LARGE}, "id": None, "jsonrpc": "2.0"}, FAULT),
        ({"jsonrpc": "2.0", "id": None, "method": "x", "params": {"id": 4, "a": LARGE}}, REQUEST),
        ({"method": "x", "params": {"id": 4, "a": LARGE}, "jsonrpc": "2.0", "id": None}, REQUEST),
        ({"params": {"a": LARGE, "id": 4}, "method": "x", "id": None, "jsonrpc": "2.0"}, REQUEST),
        ({"params": DEEP, "method": "x", "id": None, "more": LARGE}, REQUEST),
        ({"more": [], "id": None, "params": LARGE}, REQUEST),
    ],
)
def test_the_id_is_found_at_either_end(message, kind, id, separators) -> None:
    message = {name: id if name == "id" else value for name, value in message.items()}
    assert read_envelope(*ends(message, separators=separators)) == (id, kind)


@cases(
    ("message", "expected"),
    [
        ({"jsonrpc": "2.0", "method": "x", "params": {"a": LARGE, "id": 4}}, (None, NOTIFICATION)),
        ({"method": "x", "params": {"id": 4, "a": LARGE}}, (None, NOTIFICATION)),
        ({"id": 1.5, "result": LARGE}, (None, RESULT)),
        ({"id": True, "result": LARGE}, (None, RESULT)),
        ({"id": None, "result": LARGE}, (None, RESULT)),
        ({"id": [1], "result": LARGE}, (None, RESULT)),
        ({"id": 2**70, "result": LARGE}, (None, RESULT)),
        ({"id": "x" * FRAGMENT, "result": 1}, (None, None)),
        ({"jsonrpc": "2.0", "other": LARGE}, (None, None)),
        ([{"id": 1, "result": LARGE}], (None, None)),
        (LARGE, (None, None)),
        ({}, (None, None)),
    ],
)
def test_a_message_without_a_readable_id_has_none(message, expected) -> None:
    assert read_envelope(*ends(message)) == expected


def test_before_its_end_a_message_without_id_may_still_have_one() -> None:
    head, tail = ends({"method": "x", "params": LARGE, "id": 3})
    assert read_envelope(head) == (None, None)
    assert read_envelope(head, tail) == (3, REQUEST)


@cases("head", [b'{"id" 1', b'{"id":', b'{"a":"', b'{"a":{"b', b'{"a":]', b'{"a":?,"id":1}', b"{"])
def test_text_that_is_not_json_is_not_a_message(head: bytes) -> None:
    assert read_envelope(head, head)[1] is None


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_are_read(head: bytes, tail: bytes) -> None:
    read_envelope(head, tail)
    read_envelope(b'{"' + head, tail + b',"id":1}')


def test_only_an_object_may_be_a_message() -> None:
    assert may_be_message(b'  {"a"')
    assert not may_be_message(b"[{")
    assert not may_be_message(b"")
