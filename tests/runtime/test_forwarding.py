"""Requests that are passed on: the result, and the exchange with what was received."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from accord import types as t
from accord.errors import ConnectionClosed, InvalidParams, RequestTimeout
from accord.protocol.unknown import UnknownMembers
from support.running import in_virtual_time
from support.waiting import in_loop, run

TEXT = t.CallToolResult([t.TextContent("done")])


def call(**meta: Any) -> t.CallToolParams:
    return t.CallToolParams("any", meta=meta or None)


@in_loop
async def test_a_forwarded_request_returns_the_result_as_it_was_received(party, join) -> None:
    client, _ = await join(server=party("server", tools_call=TEXT))
    result, exchange = await client.forward("tools/call", call())
    assert result == TEXT
    assert json.loads(bytes(exchange.raw))["content"] == [{"type": "text", "text": "done"}]


@in_loop
async def test_a_forwarded_request_has_the_unknown_members_of_the_first(party, join) -> None:
    one, two = party("client"), party("server", tools_call=TEXT)
    client, _ = await join(client=one, server=two)
    unknown = UnknownMembers(t.CallToolParams, {"x": msgspec.Raw(b'{"a":1}')}, {})
    await client.forward("tools/call", call(), unknown=unknown)
    assert one.sent[-1]["params"] == {"name": "any", "x": {"a": 1}}


def test_progress_of_a_forwarded_request_is_passed_on(party, join) -> None:
    heard: list[float] = []

    async def main() -> None:
        server = party("server")

        async def work(params: Any) -> t.CallToolResult:
            progress = t.ProgressParams(progress_token=7, progress=1)
            server.dispatcher.notify("notifications/progress", progress)
            return TEXT

        server.answers["tools_call"] = work
        client, _ = await join(server=server)
        await client.forward(
            "tools/call",
            call(progressToken=7),
            on_progress=lambda each: heard.append(each.progress),
        )

    run(main())
    assert heard == [1]


@in_loop
async def test_the_error_of_a_forwarded_request_is_raised(party, join) -> None:
    def refuse(params: Any) -> Any:
        raise InvalidParams("no", data={"a": 1})

    client, _ = await join(server=party("server", tools_call=refuse))
    with pytest.raises(Exception, match="no") as raised:
        await client.forward("tools/call", call())
    assert (raised.value.code, raised.value.data) == (-32602, {"a": 1})


@in_loop
async def test_a_forwarded_request_that_is_cancelled_is_cancelled_there(party, join) -> None:
    async def sleep(params: Any) -> t.CallToolResult:
        await asyncio.sleep(3600)
        return TEXT

    one = party("client")
    client, server = await join(client=one, server=party("server", tools_call=sleep))
    work = asyncio.ensure_future(client.forward("tools/call", call()))
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert one.sent[-1]["method"] == "notifications/cancelled"
    await asyncio.sleep(0.01)
    assert not server.running


@in_virtual_time
async def test_a_forwarded_request_is_given_up_after_its_time(party, join) -> None:
    async def sleep(params: Any) -> t.CallToolResult:
        await asyncio.sleep(3600)
        return TEXT

    client, _ = await join(server=party("server", tools_call=sleep))
    with pytest.raises(RequestTimeout):
        await client.forward("tools/call", call(), timeout=5)


@in_loop
async def test_nothing_is_forwarded_on_a_closed_connection(party, join) -> None:
    client, _ = await join(server=party("server", tools_call=TEXT))
    client.close(ConnectionClosed("gone"))
    with pytest.raises(ConnectionClosed, match="gone"):
        await client.forward("tools/call", call())
