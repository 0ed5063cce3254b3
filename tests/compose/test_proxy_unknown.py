"""Members that no revision defines pass a proxy in both directions; newer ones do not."""

from typing import Any

from accord import Server
from accord.compose import proxy
from support.raw import RawClient, RawServer
from support.waiting import in_loop

TOOL = {
    "name": "work",
    "title": "Newer than 2024-11-05",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True, "x-hint": 1},
    "x-tool": {"deep": [1, 2.5]},
}
RESULT = {
    "content": [
        {"type": "text", "text": "done", "x-part": True},
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav", "x-part": 2},
    ],
    "isError": False,
    "structuredContent": {"n": 1},
    "_meta": {"vendor/known": 1},
    "x-top": {"a": None},
}


def hub_before(server: RawServer, prefix: str | None = None) -> Server[Any]:
    hub: Server[Any] = Server("hub")
    hub.mount(proxy(server, name="raw", connections="shared"), prefix=prefix)
    return hub


async def talk(revision: str, prefix: str | None = None) -> tuple[RawServer, Any, Any]:
    """Return the server, and the tool and the result that a client of a revision gets."""
    server = RawServer({"tools/list": {"tools": [TOOL]}, "tools/call": RESULT})
    name = f"{prefix}_work" if prefix else "work"
    async with RawClient(hub_before(server, prefix), allow=("*",)) as raw:
        await raw.open(revision)
        listed = await raw.ask(1, "tools/list")
        params = {"name": name, "arguments": {"a": 1}, "x-param": [1]}
        meta = {"progressToken": 7, "vendor/trace": "t", "io.modelcontextprotocol/own": 1}
        called = await raw.ask(2, "tools/call", {**params, "_meta": meta})
    return server, listed["result"]["tools"][0], called["result"]


@in_loop
async def test_unknown_members_of_tools_and_results_reach_the_client() -> None:
    _, tool, result = await talk("2025-06-18")
    assert tool == TOOL
    assert result == RESULT


@in_loop
async def test_unknown_members_of_params_and_meta_reach_the_server() -> None:
    server, _, _ = await talk("2025-06-18")
    (sent,) = [each["params"] for each in server.heard if each.get("method") == "tools/call"]
    assert sent["x-param"] == [1]
    assert sent["arguments"] == {"a": 1}
    assert sent["_meta"]["vendor/trace"] == "t"
    assert "io.modelcontextprotocol/own" not in sent["_meta"]
    assert sent["_meta"]["progressToken"] != 7  # each side has tokens of its own


@in_loop
async def test_members_that_the_revision_of_the_client_lacks_are_dropped() -> None:
    _, tool, result = await talk("2024-11-05")
    assert tool == {"name": "work", "inputSchema": {"type": "object"}, "x-tool": TOOL["x-tool"]}
    assert result == {
        "content": [
            {"type": "text", "text": "done", "x-part": True},
            {"type": "text", "text": "[audio: audio/wav, 3 bytes]"},
        ],
        "isError": False,
        "_meta": {"vendor/known": 1},
        "x-top": {"a": None},
    }


@in_loop
async def test_unknown_members_pass_under_another_name_too() -> None:
    _, tool, result = await talk("2025-06-18", prefix="raw")
    assert tool == {**TOOL, "name": "raw_work"}
    assert result == RESULT
