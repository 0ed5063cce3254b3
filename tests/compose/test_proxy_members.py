"""Members that no revision defines pass a proxy in both directions; others fit the revision."""

from typing import Any

from compose.proxied import hub_of
from support.modern import ModernClient
from support.raw import RawClient, RawServer
from support.running import on_a_loop

TOOL = {
    "name": "find",
    "title": "Find",
    "inputSchema": {"type": "object", "x-form": {"a": 1}},
    "annotations": {"readOnlyHint": True, "costHint": 3},
    "weight": 2.5,
}
RESULT = {
    "content": [
        {"type": "text", "text": "a", "tone": "warm", "annotations": {"priority": 1, "mood": "x"}},
        {"type": "resource", "resource": {"uri": "a:b", "text": "c", "hash": "d"}, "seen": True},
    ],
    "isError": False,
    "confidence": {"value": 0.5},
    "_meta": {"org.example/trace": "t"},
}
RESOURCE = {"uri": "note://a", "name": "a", "owner": "ann"}
TEMPLATE = {"uriTemplate": "note://{name}", "name": "n", "owner": "bob"}
PROMPT = {"name": "greet", "arguments": [{"name": "who", "hint": "a name"}], "mood": "x"}


def raw_server(**more: Any) -> RawServer:
    answers = {
        "tools/list": {"tools": [TOOL]},
        "resources/list": {"resources": [RESOURCE]},
        "resources/templates/list": {"resourceTemplates": [TEMPLATE]},
        "prompts/list": {"prompts": [PROMPT]},
        "tools/call": RESULT,
        "resources/read": {"contents": [{"uri": "note://a", "text": "x", "hash": "d"}], "age": 3},
        "prompts/get": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "x", "tone": "y"}}],
            "score": 1,
        },
        "completion/complete": {"completion": {"values": ["x"], "kinds": ["y"]}, "speed": 1},
        **more,
    }
    capabilities = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}
    return RawServer(answers, capabilities=capabilities)


def heard(server: RawServer, method: str) -> Any:
    return [each for each in server.heard if each.get("method") == method][-1]["params"]


@on_a_loop
async def test_unknown_members_of_lists_reach_the_client() -> None:
    server = raw_server()
    async with RawClient(hub_of(server)) as client:
        await client.open("2025-06-18")
        tools = (await client.ask(1, "tools/list"))["result"]["tools"]
        resources = (await client.ask(2, "resources/list"))["result"]["resources"]
        templates = (await client.ask(3, "resources/templates/list"))["result"]
        prompts = (await client.ask(4, "prompts/list"))["result"]["prompts"]
    assert tools == [TOOL]
    assert resources == [RESOURCE]
    assert templates["resourceTemplates"] == [TEMPLATE]
    assert prompts == [PROMPT]
    server.check()


@on_a_loop
async def test_unknown_members_of_lists_survive_a_prefix() -> None:
    async with RawClient(hub_of(raw_server(), prefix="up")) as client:
        await client.open("2025-06-18")
        (tool,) = (await client.ask(1, "tools/list"))["result"]["tools"]
    assert tool == {**TOOL, "name": "up_find"}


@on_a_loop
async def test_unknown_members_of_results_reach_the_client() -> None:
    server = raw_server()
    async with RawClient(hub_of(server)) as client:
        await client.open("2025-06-18")
        called = await client.ask(1, "tools/call", {"name": "find", "arguments": {}})
        read = await client.ask(2, "resources/read", {"uri": "note://a"})
        got = await client.ask(3, "prompts/get", {"name": "greet", "arguments": {"who": "x"}})
        reference = {"type": "ref/prompt", "name": "greet"}
        argument = {"name": "who", "value": ""}
        completed = await client.ask(
            4, "completion/complete", {"ref": reference, "argument": argument}
        )
    assert called["result"] == RESULT
    assert read["result"] == server.answers["resources/read"]
    assert got["result"] == server.answers["prompts/get"]
    assert completed["result"] == server.answers["completion/complete"]


@on_a_loop
async def test_unknown_members_of_params_reach_the_server() -> None:
    server = raw_server()
    meta = {"org.example/trace": "t", "traceparent": "00-a"}
    async with RawClient(hub_of(server)) as client:
        await client.open("2025-06-18")
        arguments = {"deep": [{"er": None}], "number": 1.5}
        params = {"name": "find", "arguments": arguments, "hurry": True, "_meta": meta}
        await client.ask(1, "tools/call", params)
        await client.ask(2, "resources/read", {"uri": "note://a", "range": [1, 2]})
    sent = heard(server, "tools/call")
    assert (sent["arguments"], sent["hurry"]) == (arguments, True)
    assert meta.items() <= sent["_meta"].items()
    assert heard(server, "resources/read")["range"] == [1, 2]


@on_a_loop
async def test_members_that_the_revision_of_the_client_lacks_are_dropped() -> None:
    result = {**RESULT, "structuredContent": {"a": 1}}
    server = raw_server(**{"tools/call": result})
    async with RawClient(hub_of(server)) as client:
        await client.open("2024-11-05")
        (tool,) = (await client.ask(1, "tools/list"))["result"]["tools"]
        called = (await client.ask(2, "tools/call", {"name": "find", "arguments": {}}))["result"]
    assert tool == {key: TOOL[key] for key in ("name", "inputSchema", "weight")}
    assert "structuredContent" not in called
    assert called["confidence"] == {"value": 0.5}


@on_a_loop
async def test_unknown_members_reach_a_client_without_a_handshake() -> None:
    server = raw_server()
    async with ModernClient(hub_of(server)) as client:
        answer = await client.send_modern("tools/list")
        (tool,) = answer["result"]["tools"]
        called = await client.call("find", arguments={}, hurry=True)
    assert (tool["weight"], tool["annotations"]["costHint"]) == (2.5, 3)
    assert called["confidence"] == {"value": 0.5}
    assert called["content"][0]["tone"] == "warm"
    assert called["resultType"] == "complete"
    assert called["_meta"]["org.example/trace"] == "t"
    assert heard(server, "tools/call")["hurry"] is True
    assert not [name for name in heard(server, "tools/call")["_meta"] if "protocolVersion" in name]


@on_a_loop
async def test_unknown_members_of_errors_data_reach_the_client() -> None:
    def fail(server: RawServer, message: Any) -> None:
        error = {"code": -31999, "message": "no", "data": {"why": [1, {"x": None}]}}
        server.put(id=message["id"], error=error)

    async with RawClient(hub_of(raw_server(**{"tools/call": fail}))) as client:
        await client.open("2025-06-18")
        answer = await client.ask(1, "tools/call", {"name": "find", "arguments": {}})
    assert answer["error"] == {"code": -31999, "message": "no", "data": {"why": [1, {"x": None}]}}
