"""An endpoint sends members that no revision defines, where they are passed on."""

import json

import msgspec

from accord.protocol.endpoint import Endpoint
from accord.protocol.exchange import Exchange
from accord.protocol.revisions import REVISIONS
from accord.protocol.unknown import find_unknown
from accord.types import CallToolParams, CallToolResult

PARAMS = b'{"name":"t","arguments":{},"vendor":1}'
RESULT = b'{"content":[],"isError":false,"vendor":2}'


def test_unknown_members_leave_with_a_request() -> None:
    client = Endpoint("client", enforce=False)
    params = msgspec.json.decode(PARAMS, type=CallToolParams)
    _, data = client.request("tools/call", params, unknown=find_unknown(PARAMS, params))
    assert json.loads(data)["params"] == json.loads(PARAMS)


def test_unknown_members_leave_with_a_result() -> None:
    server = Endpoint("server", enforce=False)
    row = REVISIONS["2025-06-18"]
    exchange = Exchange(1, "tools/call", "client", row, row.requests["client"]["tools/call"])
    server.conversation.request(exchange, msgspec.json.decode(PARAMS, type=CallToolParams), None)
    result = msgspec.json.decode(RESULT, type=CallToolResult)
    exchange.unknown = find_unknown(RESULT, result)
    reply = server.respond(exchange, result)
    assert json.loads(reply or b"")["result"] == json.loads(RESULT)
