"""Messages above the size limit of either side fail the one call they belong to, at once."""

import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accord import Limits, connect
from accord.errors import MessageTooLarge, RemoteProtocolError, RequestError
from interaction.servers import sizes
from support.http_server import bounded
from support.processes import Child, python
from support.waiting import LONG, in_loop

SERVER = Path(sizes.__file__)
ID_LAST = SERVER.with_name("id_last.py")
SMALL = 100_000
LARGE = 1_000_000
ENV = {"PYTHONPATH": os.pathsep.join(sys.path)}


@asynccontextmanager
async def joined(transport: str, *, server: int, client: int) -> Any:
    """Connect a client to the server, each with its own limit."""
    options: Any = {"timeout": 5 * LONG, "limits": Limits(message_bytes=client), "env": ENV}
    if transport == "http":
        with bounded(sizes.make(server).asgi()) as port:
            async with connect(f"http://127.0.0.1:{port}/mcp", **options) as connected:
                yield connected
    else:
        command = [sys.executable, str(SERVER), str(server)]
        target: Any = sizes.make(server) if transport == "memory" else command
        async with connect(target, **options) as connected:
            yield connected


@pytest.mark.parametrize("transport", ["stdio", "memory", "http"])
@in_loop
async def test_an_answer_above_the_limit_of_the_server_is_an_error_that_names_it(
    transport: str,
) -> None:
    async with joined(transport, server=SMALL, client=LARGE) as client:
        for work, name in (
            (client.call_tool("give", {"size": SMALL}), "tool give"),
            (client.call_tool("give_async", {"size": SMALL}), "tool give_async"),
            (client.call_tool("give_inline", {"size": SMALL}), "tool give_inline"),
            (client.call_tool("refuse", {"size": SMALL}), "tool refuse"),
            (client.read_resource(f"text://{SMALL}"), "resource text://{size}"),
            (client.get_prompt("words", {"size": str(SMALL)}), "prompt words"),
        ):
            with pytest.raises(RequestError) as caught:
                await work
            text = caught.value.message
            assert text.startswith(f"{name}: the answer has 100")
            assert text.endswith(f"more than the limit of {SMALL} (message_bytes)")
        result = await client.call_tool("give", {"size": SMALL // 4})
        assert len(result.content[0].text) == SMALL // 4


@pytest.mark.parametrize("tool", ["give", "give_async"])
@pytest.mark.parametrize("command", ["accord", "id last"])
@in_loop
async def test_an_answer_above_the_limit_of_the_client_fails_its_call(
    command: str, tool: str
) -> None:
    files = {"accord": [str(SERVER), str(LARGE)], "id last": [str(ID_LAST)]}
    target = [sys.executable, *files[command]]
    limits = Limits(message_bytes=SMALL)
    async with connect(target, timeout=5 * LONG, limits=limits, env=ENV) as client:
        for _ in range(2):
            with pytest.raises(RemoteProtocolError) as caught:
                await client.call_tool(tool, {"size": 3 * SMALL})
            assert str(caught.value) == (
                f"tools/call: the answer exceeds the limit of {SMALL} bytes (message_bytes); "
                "connect(..., limits=Limits(message_bytes=...)) raises it"
            )
            await client.ping()


@pytest.mark.parametrize("transport", ["stdio", "memory", "http"])
@in_loop
async def test_arguments_above_the_limit_of_the_client_are_not_sent(transport: str) -> None:
    async with joined(transport, server=LARGE, client=SMALL) as client:
        with pytest.raises(MessageTooLarge) as caught:
            await client.call_tool("take", {"text": "x" * SMALL})
        assert str(caught.value).startswith("tools/call: the message has 100")
        assert f"the limit of {SMALL} (message_bytes)" in str(caught.value)
        result = await client.call_tool("take", {"text": "x" * (SMALL // 2)})
        assert result.content[0].text == str(SMALL // 2)


@pytest.mark.parametrize("transport", ["stdio", "memory"])
@in_loop
async def test_arguments_above_the_limit_of_the_server_fail_their_call(transport: str) -> None:
    async with joined(transport, server=SMALL, client=LARGE) as client:
        for size in (SMALL, 4 * SMALL):
            with pytest.raises(RequestError, match=r"message_bytes") as caught:
                await client.call_tool("take", {"text": "x" * size})
            assert caught.value.code == -32600
            await client.ping()


@pytest.mark.parametrize("is_late", [False, True], ids=["id first", "id last"])
def test_a_line_above_the_limit_is_answered_by_its_id(is_late: bool) -> None:
    with Child(*python(SERVER, str(SMALL)), env=ENV) as child:
        child.open()
        params = {"name": "take", "arguments": {"text": "x" * 3 * SMALL}}
        message = {"jsonrpc": "2.0", "id": "mine", "method": "tools/call", "params": params}
        if is_late:
            message = dict(sorted(message.items(), key=lambda item: item[0] == "id"))
        child.send(message)
        error = child.answer_to("mine")["error"]
        assert error["code"] == -32600
        assert f"{SMALL} bytes (message_bytes)" in error["message"]
        child.request(2, "ping")
        assert child.answer_to(2)["result"] == {}


def test_a_batch_with_answers_that_are_too_large_together_is_answered() -> None:
    with Child(*python(SERVER, str(SMALL)), env=ENV) as child:
        child.open("2025-03-26")
        params = {"name": "give_inline", "arguments": {"size": SMALL // 3}}
        child.send(
            [
                {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
                for id in range(50)
            ]
        )
        answers = child.receive()
        assert sorted(each["id"] for each in answers) == list(range(50))
        assert sum("result" in each for each in answers) == 2
        assert len(child.output[-1]) < 2 * SMALL
