"""Duties of clients, against servers made of plain messages and wayward processes."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from accord import connect
from accord.errors import LocalProtocolError, RemoteProtocolError, RequestError
from accord.types import CreateMessageResult, TextContent
from support.links import MISSION, over
from support.raw import RawServer
from support.waiting import until_sync

pytestmark = over("memory", revisions=MISSION)

SAMPLING = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
    "maxTokens": 5,
}


@pytest.mark.requirement("roots.errors", "sampling.errors", "errors.code.method-not-found")
@pytest.mark.parametrize("method", ["roots/list", "sampling/createMessage", "no/such"])
async def test_a_client_refuses_requests_for_undeclared_capabilities(
    accord_link: Any, method: str
) -> None:
    server = RawServer({"ping": {}})
    async with connect(server, revision=accord_link.revision) as client:
        params = SAMPLING if method.startswith("sampling") else None
        answer = await server.ask("q", method, params)
        assert answer["error"]["code"] == -32601
        await client.ping()
    server.check()


@pytest.mark.requirement("roots.errors", "sampling.errors", "errors.code.internal-error")
async def test_a_callback_that_fails_is_an_internal_error_without_its_text(
    accord_link: Any,
) -> None:
    def fail(*params: Any) -> Any:
        raise OSError("/home/ann/.secret")

    server = RawServer({"ping": {}})
    async with connect(server, revision=accord_link.revision, roots=fail, on_sample=fail) as client:
        for id, method, params in (
            ("a", "roots/list", None),
            ("b", "sampling/createMessage", SAMPLING),
        ):
            answer = await server.ask(id, method, params)
            assert answer["error"]["code"] == -32603
            assert "secret" not in json.dumps(answer)
        await client.ping()
    server.check()


@pytest.mark.requirement("errors.code.invalid-params", "errors.invalid-params.data-details")
async def test_a_malformed_question_is_an_invalid_parameter(accord_link: Any) -> None:
    async def model(params: Any) -> CreateMessageResult:
        return CreateMessageResult("assistant", TextContent("yes"), "tiny")

    server = RawServer()
    async with connect(server, revision=accord_link.revision, on_sample=model):
        answer = await server.ask("q", "sampling/createMessage", {"messages": "hi"})
        assert answer["error"]["code"] == -32602
        assert "messages" in answer["error"]["message"]
    server.check()


@pytest.mark.requirement("ping.request.either-party", "ping.response.prompt")
async def test_a_client_answers_pings_while_it_waits(accord_link: Any) -> None:
    server = RawServer()
    async with connect(server, revision=accord_link.revision) as client:
        waiting = asyncio.ensure_future(client.call_tool("slow"))
        assert (await server.ask("p", "ping"))["result"] == {}
        waiting.cancel()
        await asyncio.wait([waiting])
    server.check()


@pytest.mark.requirement("stdio.client.stdin-only-messages", "jsonrpc.notification.not-answered")
@pytest.mark.parametrize(
    "sent",
    [
        b"warming up...",
        b"{",
        b"[]",
        b'{"jsonrpc":"2.0","method":"notifications/nonsense"}',
        b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}',
        b'{"jsonrpc":"1.0","id":5,"method":"ping"}',
    ],
)
async def test_a_client_survives_invalid_messages_and_never_answers_them(
    accord_link: Any, sent: bytes
) -> None:
    server = RawServer({"ping": {}})
    async with connect(server, revision=accord_link.revision) as client:
        await client.ping()
        before = len(server.heard)
        asyncio.get_running_loop().call_soon(server._receive, sent)
        await client.ping()
        await asyncio.sleep(0)
        assert [each["method"] for each in server.heard[before:]] == ["ping"]
    server.check()


@pytest.mark.requirement(
    "tools.call.structured-conforms", "tools.structured-content.client-validates"
)
@over("memory", revisions=("2025-06-18",))
async def test_structured_results_that_break_their_schema_are_refused(accord_link: Any) -> None:
    tool = {
        "name": "count",
        "description": "Count.",
        "inputSchema": {"type": "object"},
        "outputSchema": {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
        },
    }
    results = iter(
        [
            {"content": [], "structuredContent": {"n": 1}, "isError": False},
            {"content": [], "structuredContent": {"n": "one"}, "isError": False},
            {"content": [], "isError": False},
        ]
    )
    server = RawServer(
        {
            "tools/list": {"tools": [tool]},
            "tools/call": lambda raw, message: raw.put(id=message["id"], result=next(results)),
        }
    )
    async with connect(server, revision="2025-06-18") as client:
        await client.list_tools()
        assert (await client.call_tool("count")).structured_content == {"n": 1}
        for _ in range(2):
            with pytest.raises(RemoteProtocolError, match="count"):
                await client.call_tool("count")


@pytest.mark.requirement("pagination.no-cross-session-cursors", "pagination.cursor.opaque")
async def test_iteration_sends_each_cursor_unchanged_and_begins_anew_in_a_new_session(
    accord_link: Any,
) -> None:
    def page(raw: RawServer, message: Any) -> None:
        cursor = message["params"].get("cursor")
        tool = {"name": f"t{cursor}", "description": "x", "inputSchema": {"type": "object"}}
        following = {None: "ü /+=", "ü /+=": ""}.get(cursor)
        more = {} if following is None else {"nextCursor": following}
        raw.put(id=message["id"], result={"tools": [tool], **more})

    for _ in range(2):
        server = RawServer({"tools/list": page})
        async with connect(server, revision=accord_link.revision) as client:
            names = [tool.name async for tool in client.tools()]
        assert names == ["tNone", "tü /+=", "t"]
        server.check()


async def test_a_list_without_end_is_refused(accord_link: Any) -> None:
    def page(raw: RawServer, message: Any) -> None:
        raw.put(id=message["id"], result={"tools": [], "nextCursor": "again"})

    async with connect(RawServer({"tools/list": page}), revision=accord_link.revision) as client:
        with pytest.raises(RemoteProtocolError, match="no end"):
            async for _ in client.tools():
                pass


async def test_an_error_of_the_server_is_raised_with_its_code_and_data(accord_link: Any) -> None:
    def fail(raw: RawServer, message: Any) -> None:
        raw.put(id=message["id"], error={"code": -32099, "message": "no", "data": {"a": 1}})

    async with connect(RawServer({"tools/call": fail}), revision=accord_link.revision) as client:
        with pytest.raises(RequestError, match="no") as caught:
            await client.call_tool("x")
    assert (caught.value.code, caught.value.data) == (-32099, {"a": 1})


async def test_an_undeclared_capability_is_not_used(accord_link: Any) -> None:
    server = RawServer(capabilities={"resources": {}})
    async with connect(server, revision=accord_link.revision) as client:
        before = len(server.heard)
        with pytest.raises(LocalProtocolError, match=r"resources\.subscribe"):
            await client.subscribe("a://b")
        with pytest.raises(LocalProtocolError, match="logging"):
            await client.set_log_level("debug")
        assert len(server.heard) == before
    server.check()


# -- processes


@pytest.mark.requirement(
    "stdio.client.launches-server",
    "stdio.server.reads-stdin-writes-stdout",
    "stdio.framing.newline-delimited",
    "stdio.framing.no-embedded-newline",
    "stdio.client.stdin-only-messages",
    "jsonrpc.encoding.utf8",
    "lifecycle.shutdown.stdio-close-stdin",
)
@over("memory", revisions=("2025-06-18",))
async def test_a_client_launches_a_server_sends_lines_and_closes_its_input(
    accord_link: Any, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    server = tmp_path / "server.py"
    server.write_text(
        f"""
import json, sys
with open({str(heard)!r}, "wb") as heard:
    for line in sys.stdin.buffer:
        heard.write(line)
        message = json.loads(line)
        if "id" in message:
            result = {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}},
                      "serverInfo": {{"name": "plain", "version": "1"}}}}
            if message["method"] != "initialize":
                result = {{"content": [{{"type": "text", "text": "ok"}}], "isError": False}}
            answer = {{"jsonrpc": "2.0", "id": message["id"], "result": result}}
            sys.stdout.write(json.dumps(answer) + "\\n")
            sys.stdout.flush()
    heard.write(b"END OF INPUT")
"""
    )
    async with connect(
        [sys.executable, str(server)], revision="2025-06-18", exit_grace=30
    ) as client:
        await client.call_tool("note", {"text": "grün\nund\u2028blau"})
    *lines, last = heard.read_bytes().split(b"\n")
    assert last == b"END OF INPUT"
    messages = [json.loads(line.decode()) for line in lines]
    assert [each.get("method") for each in messages] == [
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    assert messages[-1]["params"]["arguments"] == {"text": "grün\nund\u2028blau"}


@pytest.mark.requirement("stdio.shutdown.escalates")
@over("memory", revisions=("2025-06-18",))
async def test_a_server_that_does_not_exit_is_ended(accord_link: Any, tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(
        f"""
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open({str(tmp_path / "pids")!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
sys.stdin.readline()
print('{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"2025-06-18","capabilities":{{}},'
      '"serverInfo":{{"name":"stubborn","version":"1"}}}}}}', flush=True)
time.sleep(60)
"""
    )
    async with connect(
        [sys.executable, str(server)],
        revision="2025-06-18",
        exit_grace=0.1,
        terminate_grace=0.1,
    ) as client:
        assert client.server_info.name == "stubborn"
    for pid in (tmp_path / "pids").read_text().split():
        stat = Path(f"/proc/{pid}/stat")
        until_sync(lambda stat=stat: not stat.exists() or stat.read_text().split()[2] == "Z")
