"""Members that no revision defines: found in what was received, and put back into what is sent."""

import doctest
import json
from typing import Any

import msgspec
import pytest

from accord.protocol import error_codes, shape
from accord.protocol.endpoint import Endpoint
from accord.protocol.error_codes import translate_code
from accord.protocol.exchange import Exchange
from accord.protocol.revisions import REVISIONS
from accord.protocol.unknown import find_unknown
from accord.types import CallToolParams, CallToolResult, ListToolsResult, Tool


def passed(message: Any, kind: Any, revision: Any = "2025-06-18") -> Any:
    """Return a message as a proxy sends it on in a revision."""
    raw = json.dumps(message).encode()
    typed = msgspec.json.decode(raw, type=kind)
    shaped = shape.narrow(typed, revision)
    unknown = find_unknown(raw, typed)
    data = msgspec.json.encode(shaped) if unknown is None else unknown.encode(shaped)
    return json.loads(data)


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(error_codes).failed == 0


def test_a_message_without_unknown_members_has_none() -> None:
    raw = b'{"content":[{"type":"text","text":"hi"}],"isError":false}'
    assert find_unknown(raw, msgspec.json.decode(raw, type=CallToolResult)) is None


def test_white_space_and_explicit_defaults_are_not_unknown_members() -> None:
    raw = b'{ "content": [ {"type": "text", "text": "hi"} ], "isError": false }'
    assert find_unknown(raw, msgspec.json.decode(raw, type=CallToolResult)) is None


def test_members_are_kept_at_every_depth() -> None:
    message = {
        "content": [
            {"type": "text", "text": "plain"},
            {"type": "text", "text": "hi", "vendor": {"deep": [1, 2.50]}},
        ],
        "structuredContent": {"n": 1, "more": {"kept": True}},
        "isError": False,
        "_meta": {"vendor/key": 1},
        "vendorTop": None,
    }
    assert passed(message, CallToolResult) == message


def test_members_of_listed_items_are_kept() -> None:
    tool = {"name": "t", "inputSchema": {"type": "object"}, "x-cost": 3}
    assert passed({"tools": [tool], "y": 1}, ListToolsResult) == {"tools": [tool], "y": 1}


def test_members_of_another_revision_are_known_and_dropped() -> None:
    tool = {
        "name": "t",
        "title": "Newer",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"},
        "vendor": 1,
    }
    assert passed(tool, Tool, "2024-11-05") == {
        "name": "t",
        "inputSchema": {"type": "object"},
        "vendor": 1,
    }


def test_a_part_that_became_another_one_is_left_alone() -> None:
    audio = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav", "vendor": 1}
    (block,) = passed({"content": [audio]}, CallToolResult, "2024-11-05")["content"]
    assert block == {"type": "text", "text": "[audio: audio/wav, 3 bytes]"}


def test_a_part_that_is_gone_takes_its_members_along() -> None:
    tool = {
        "name": "t",
        "inputSchema": {"type": "object"},
        "annotations": {"title": "x", "vendor": 1},
    }
    assert passed(tool, Tool, "2024-11-05") == {"name": "t", "inputSchema": {"type": "object"}}


def test_fewer_items_than_were_received_get_the_members_that_remain() -> None:
    raw = b'{"content":[{"type":"text","text":"a"},{"type":"text","text":"b","x":1}]}'
    typed = msgspec.json.decode(raw, type=CallToolResult)
    unknown = find_unknown(raw, typed)
    assert unknown is not None
    shorter = msgspec.structs.replace(typed, content=typed.content[:1])
    assert json.loads(unknown.encode(shorter))["content"] == [{"type": "text", "text": "a"}]


def test_an_endpoint_sends_them_with_requests_and_results() -> None:
    client = Endpoint("client", enforce=False)
    raw = b'{"name":"t","arguments":{},"vendor":1}'
    params = msgspec.json.decode(raw, type=CallToolParams)
    _, data = client.request("tools/call", params, unknown=find_unknown(raw, params))
    assert json.loads(data)["params"] == {"name": "t", "arguments": {}, "vendor": 1}
    server = Endpoint("server", enforce=False)
    row = REVISIONS["2025-06-18"]
    exchange = Exchange(1, "tools/call", "client", row, row.requests["client"]["tools/call"])
    server.conversation.request(exchange, params, None)
    received = b'{"content":[],"isError":false,"vendor":2}'
    result = msgspec.json.decode(received, type=CallToolResult)
    exchange.unknown = find_unknown(received, result)
    reply = server.respond(exchange, result)
    assert json.loads(reply or b"")["result"] == json.loads(received)


@pytest.mark.parametrize(
    ("code", "revision", "own"),
    [
        (-32002, "2025-06-18", -32002),
        (-32002, "2026-07-28", -32602),
        (-32050, "2025-06-18", -32050),
        (-32050, "2026-07-28", -32603),
        (-32602, "2026-07-28", -32602),
    ],
)
def test_codes_are_those_of_the_revision(code: int, revision: Any, own: int) -> None:
    assert translate_code(code, REVISIONS[revision]) == own
