"""The pure path of one tools/call, as ratios in one run.

Compared: bare msgspec (typed decode of the request, the work, typed encode of the result), the
whole sans-I/O path of accord (decode, rules, params, arguments, reply, narrowing, encode), and what
the official SDK does with the same message (envelope, request by revision, argument model, result
by revision, envelope). CPU time, best of many rounds, interleaved.
"""

import sys
import time
from collections.abc import Callable

import msgspec

from accord import types as t
from accord.protocol.endpoint import Endpoint
from accord.protocol.exchange import RequestReceived
from accord.types._base import constructor

ROUNDS, CALLS = 40, 2_000
REVISION = "2025-06-18"
CALL = (
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call",'
    b'"params":{"name":"add","arguments":{"a":1,"b":2}}}'
)


class Arguments(msgspec.Struct):
    a: int
    b: int


def bare() -> Callable[[bytes], bytes]:
    class Params(msgspec.Struct):
        name: str
        arguments: Arguments

    class Request(msgspec.Struct):
        jsonrpc: str
        id: int
        method: str
        params: Params

    class Text(msgspec.Struct, tag="text", tag_field="type"):
        text: str

    class Result(msgspec.Struct, rename="camel"):
        content: list[Text]
        is_error: bool

    class Response(msgspec.Struct):
        jsonrpc: str
        id: int
        result: Result

    decode = msgspec.json.Decoder(Request).decode
    encode = msgspec.json.Encoder().encode

    def call(message: bytes) -> bytes:
        request = decode(message)
        arguments = request.params.arguments
        text = Text(str(arguments.a + arguments.b))
        return encode(Response("2.0", request.id, Result([text], is_error=False)))

    return call


def connected() -> Endpoint:
    server = Endpoint("server")
    client = Endpoint("client")
    _, opening = client.request(
        "initialize",
        t.InitializeParams(REVISION, t.ClientCapabilities(), t.Implementation("bench", "1")),
    )
    (event,) = server.receive(opening)
    assert isinstance(event, RequestReceived)
    capabilities = t.ServerCapabilities(tools=t.ToolsCapability())
    info = t.Implementation("bench", "1")
    answer = server.respond(event.exchange, t.InitializeResult(REVISION, capabilities, info))
    assert answer
    client.receive(answer)
    server.receive(client.notify("notifications/initialized"))
    return server


def accord() -> Callable[[bytes], bytes]:
    endpoint = connected()
    decode = msgspec.json.Decoder(Arguments).decode
    # As the server makes its results.
    make_result, make_text = constructor(t.CallToolResult), constructor(t.TextContent)

    def call(message: bytes) -> bytes:
        event = endpoint.receive(message)[0]
        arguments = decode(event.params.arguments)  # type: ignore[union-attr]
        result = make_result([make_text(str(arguments.a + arguments.b))])
        return endpoint.respond(event.exchange, result)  # type: ignore[union-attr,return-value]

    return call


def official() -> Callable[[bytes], bytes] | None:
    try:
        from mcp import types
        from mcp_types import methods
        from pydantic import BaseModel
    except ImportError:
        return None

    class Model(BaseModel):
        a: int
        b: int

    def call(message: bytes) -> bytes:
        request = types.jsonrpc_message_adapter.validate_json(message, by_name=False)
        parsed = methods.parse_client_request(request.method, REVISION, request.params)
        arguments = Model.model_validate(parsed.params.arguments)
        text = types.TextContent(type="text", text=str(arguments.a + arguments.b))
        result = types.CallToolResult(content=[text], is_error=False)
        dumped = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        dumped = methods.serialize_server_result(request.method, REVISION, dumped)
        response = types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result=dumped)
        return response.model_dump_json(by_alias=True, exclude_unset=True).encode()

    return call


def measure(calls: dict[str, Callable[[bytes], bytes]]) -> dict[str, float]:
    messages = [CALL % number for number in range(CALLS)]
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.thread_time()
            for message in messages:
                call(message)
            best[name] = min(best[name], (time.thread_time() - start) / CALLS)
    return best


def main() -> int:
    calls: dict[str, Callable[[bytes], bytes]] = {"bare": bare(), "accord": accord()}
    peer = official()
    if peer is not None:
        calls["official SDK"] = peer
    answers = {name: msgspec.json.decode(call(CALL % 1)) for name, call in calls.items()}
    assert all(answer == answers["bare"] for answer in answers.values()), answers
    best = measure(calls)
    print("one tools/call without I/O, CPU time")
    for name, seconds in best.items():
        print(f"  {name:14}{seconds * 1e6:8.2f} µs")
    to_bare = best["accord"] / best["bare"]
    print(f"  accord / bare msgspec      {to_bare:6.2f}   (aim: at most 5)")
    reached = to_bare <= 5
    if peer is None:
        print("  official SDK is not installed here: make bench brings it")
    else:
        to_peer = best["official SDK"] / best["accord"]
        print(f"  official SDK / accord      {to_peer:6.2f}   (aim: at least 8)")
        reached = reached and to_peer >= 8
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
