"""What clients accept of servers that are newer, older or other than ours."""

import asyncio
import json
import socket
from typing import Any

import pytest

from accord import connect
from accord.errors import RemoteProtocolError, ResourceNotFound
from accord.types import ResourceLink
from interaction.servers import noisy, tools
from support.http_server import bounded
from support.links import over, text
from support.modern import PREFIX, REVISION, meta
from support.raw import RawServer
from support.raw_http import Reply, Request, StatelessServer
from support.waiting import until

pytestmark = over("memory", revisions=(REVISION,))
ALL = {"tools": {}, "prompts": {}, "resources": {}}
HINTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
DISCOVERED = {**HINTS, "supportedVersions": [REVISION], "capabilities": ALL}
DISCOVERED["_meta"] = {f"{PREFIX}serverInfo": {"name": "raw", "version": "1"}}


def serving(allow: tuple[str, ...] = (), **answers: Any) -> RawServer:
    """A server of the newest revision whose answers are given by method."""
    named = {name.replace("__", "/"): answer for name, answer in answers.items()}
    return RawServer({"server/discover": DISCOVERED, **named}, allow=("practice.*", *allow))


VALUES = [
    ({"type": "array", "items": {"type": "integer"}}, [1, 2], ["one"]),
    ({"type": ["string", "null"]}, None, 3),
    ({"type": "boolean"}, False, "no"),
    ({"oneOf": [{"type": "string"}, {"type": "number"}]}, 2.5, {}),
    ({}, "anything", ...),
]


@pytest.mark.requirement("tools.output-schema.any-type", "tools.structured-content.any-json")
@pytest.mark.parametrize(("schema", "good", "bad"), VALUES)
async def test_output_may_have_any_schema_and_be_any_json(
    accord_link: Any, schema: Any, good: Any, bad: Any
) -> None:
    answers = [good] if bad is ... else [good, bad]

    def answer(server: RawServer, message: Any) -> None:
        result = {"resultType": "complete", "content": [], "structuredContent": answers.pop(0)}
        server.put(id=message["id"], result=result)

    listed = {"name": "any", "inputSchema": {"type": "object"}, "outputSchema": schema}
    server = serving(tools__list={**HINTS, "tools": [listed]}, tools__call=answer)
    async with connect(server, revision=REVISION) as client:
        (tool,) = (await client.list_tools()).tools
        assert tool.output_schema == schema
        assert (await client.call_tool("any")).structured_content == good
        if answers:
            with pytest.raises(RemoteProtocolError, match="any"):
                await client.call_tool("any")


@pytest.mark.requirement("tools.schema.client-follows-ref-rules")
async def test_a_reference_out_of_a_schema_is_not_fetched(
    accord_link: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect_anywhere(*given: Any) -> None:
        pytest.fail(f"fetches {given}")

    schema = {"$ref": "http://127.0.0.1:9/schema.json"}
    listed = {"name": "far", "inputSchema": {"type": "object"}, "outputSchema": schema}
    result = {"resultType": "complete", "content": [], "structuredContent": {"a": 1}}
    server = serving(tools__list={**HINTS, "tools": [listed]}, tools__call=result)
    async with connect(server, revision=REVISION) as client:
        await client.list_tools()
        monkeypatch.setattr(socket.socket, "connect", connect_anywhere)
        with pytest.raises(RemoteProtocolError, match=r"far.* cannot be used"):
            await client.call_tool("far")


@pytest.mark.requirement("result.type.absent-means-complete")
async def test_a_result_without_a_type_is_complete(accord_link: Any) -> None:
    content = [{"type": "text", "text": "plain"}]
    async with connect(serving(tools__call={"content": content}), revision=REVISION) as client:
        assert text(await client.call_tool("any")) == "plain"


@pytest.mark.requirement("pagination.empty-cursor-is-a-cursor")
async def test_an_empty_cursor_leads_to_the_next_page(accord_link: Any) -> None:
    def page(server: RawServer, message: Any) -> None:
        cursor = message["params"].get("cursor")
        name, more = ("first", {"nextCursor": ""}) if cursor is None else ("second", {})
        listed = {"name": name, "inputSchema": {"type": "object"}}
        server.put(id=message["id"], result={**HINTS, "tools": [listed], **more})

    server = serving(tools__list=page)
    async with connect(server, revision=REVISION) as client:
        assert [tool.name async for tool in client.tools()] == ["first", "second"]
    asked = [each["params"] for each in server.heard if each["method"] == "tools/list"]
    assert ["cursor" in each for each in asked] == [False, True]
    server.check()


@pytest.mark.requirement("resources.read.client-accepts-32002")
async def test_the_older_code_of_a_missing_resource_is_understood(accord_link: Any) -> None:
    def refuse(server: RawServer, message: Any) -> None:
        error = {"code": -32002, "message": "resource not found", "data": {"uri": "a://b"}}
        server.put(id=message["id"], error=error)

    async with connect(serving(resources__read=refuse), revision=REVISION) as client:
        with pytest.raises(ResourceNotFound) as caught:
            await client.read_resource("a://b")
    assert caught.value.data == {"uri": "a://b"}


@pytest.mark.requirement("prompts.content.resource-link-accepted")
async def test_a_prompt_may_hold_links(accord_link: Any) -> None:
    link = {"type": "resource_link", "uri": "note://one", "name": "one"}
    result = {"resultType": "complete", "messages": [{"role": "user", "content": link}]}
    async with connect(serving(prompts__get=result), revision=REVISION) as client:
        (message,) = (await client.get_prompt("any")).messages
    assert message.content == ResourceLink(uri="note://one", name="one")


@pytest.mark.requirement("stdio.stderr-not-an-error-signal")
@over("stdio:2025-11-25", "stdio:2026-07-28")
async def test_lines_on_stderr_do_not_end_the_connection(connect_to: Any) -> None:
    heard: list[str] = []
    async with connect_to(noisy.make, stderr=heard.append) as client:
        assert text(await client.call_tool("shout")) == "fine"
        await until(lambda: "fatal error" in heard)
        assert text(await client.call_tool("shout")) == "fine"
    assert heard[0] == "ERROR: everything is lost"


# -- names of headers


@pytest.mark.requirement("http.headers.names-case-insensitive")
@pytest.mark.parametrize(
    ("written", "method", "status"),
    [
        (str.upper, "tools/list", b"200"),
        (str.lower, "tools/list", b"200"),
        (str.title, "tools/list", b"200"),
        (str.title, "TOOLS/LIST", b"400"),
    ],
)
async def test_names_of_headers_may_be_written_in_any_case_and_values_not(
    accord_link: Any, written: Any, method: str, status: bytes
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}}
    body = json.dumps(message).encode()
    headers = {
        "host": "127.0.0.1",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": REVISION,
        "mcp-method": method,
        "connection": "close",
    }
    head = "".join(f"{written(name)}: {value}\r\n" for name, value in headers.items())
    with bounded(tools.make().asgi()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        assert (await reader.readline()).split()[1] == status
        await reader.read()
        writer.close()


@pytest.mark.requirement("http.headers.names-case-insensitive")
@pytest.mark.parametrize("written", [str.upper, str.lower])
async def test_a_client_reads_headers_in_any_case(accord_link: Any, written: Any) -> None:
    def answer(request: Request, reply: Reply) -> None:
        body = json.dumps(
            {"jsonrpc": "2.0", "id": request.message["id"], "result": server.result(request)}
        ).encode()
        names = {"content-type": "application/json", "content-length": str(len(body))}
        head = "".join(f"{written(name)}: {value}\r\n" for name, value in names.items())
        reply.raw(f"HTTP/1.1 200 OK\r\n{head}\r\n".encode() + body)

    server = StatelessServer(tools__list=answer)
    server.tools = [{"name": "one", "inputSchema": {"type": "object"}}]
    async with server, connect(server.url, revision=REVISION) as client:
        assert [tool.name async for tool in client.tools()] == ["one"]
