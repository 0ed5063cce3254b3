"""Many requests at once, none of which waits for another."""

import asyncio
import logging
from typing import Any

import pytest

from accord.errors import RequestError
from interaction.servers import working
from support.links import (
    EVERYWHERE,
    HANDSHAKE,
    HTTP,
    IN_MEMORY,
    IN_PROCESS,
    STDIO,
    everywhere,
    over,
    text,
    within,
)

pytestmark = EVERYWHERE


async def until_seen(client: Any, *wanted: str) -> None:
    while not set(wanted) <= set(await client.call_tool("events", result_type=list[str])):
        pass


async def has_room(client: Any) -> bool:
    try:
        return text(await client.call_tool("open_gate", {"name": "c"})) == "open"
    except RequestError:
        return False


@pytest.mark.requirement("ping.request.either-party", "ping.response.prompt", "ping.response.empty")
async def test_pings_are_answered_while_tools_are_slow(connect_to: Any) -> None:
    async with connect_to(working.make) as client:
        slow = [
            asyncio.ensure_future(client.call_tool("wait", {"name": "a"})),
            asyncio.ensure_future(client.call_tool("nap", {"seconds": 0.1})),
        ]
        await until_seen(client, "waiting a")
        await client.ping()
        assert not slow[0].done()
        await client.call_tool("open_gate", {"name": "a"})
        assert [text(each) for each in await asyncio.gather(*slow)] == ["a", "awake"]


@pytest.mark.requirement("jsonrpc.request.answered", "jsonrpc.response.result-xor-error")
async def test_answers_in_any_order_reach_their_callers(connect_to: Any) -> None:
    names = [f"gate {number}" for number in range(50)]
    async with connect_to(working.make) as client:
        calls = [asyncio.ensure_future(client.call_tool("wait", {"name": each})) for each in names]
        await until_seen(client, *(f"waiting {each}" for each in names))
        for name in reversed(names):
            await client.call_tool("open_gate", {"name": name})
        assert [text(each) for each in await asyncio.gather(*calls)] == names


@pytest.mark.requirement("tools.server.rate-limited")
# Over HTTP a request without a session belongs to no client whose requests could be counted:
# `connections` of the app limits all of them (tests/http/test_stateless.py).
@over("memory", *STDIO, *within(HTTP, HANDSHAKE))
async def test_above_its_limit_a_server_refuses_but_still_answers_pings(connect_to: Any) -> None:
    async with connect_to(working.make_small) as client:
        # Which of them comes last is not certain: over HTTP each has a connection of its own.
        calls = {asyncio.ensure_future(client.call_tool("wait", {"name": "a"})) for _ in range(3)}
        (refused,), calls = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(RequestError, match="busy: 2 requests") as caught:
            await refused
        assert caught.value.code == -32603
        await client.ping()
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        while not await has_room(client):
            await asyncio.sleep(0.01)


@everywhere("2025-06-18")
async def test_sync_tools_run_beside_each_other_and_inline_ones_on_the_loop(
    connect_to: Any,
) -> None:
    async with connect_to(working.make) as client:
        met = await asyncio.gather(*(client.call_tool("meet") for _ in range(10)))
        assert [text(each) for each in met] == ["met"] * 10
        assert text(await client.call_tool("thread_name")) == "MainThread"


@IN_MEMORY
async def test_an_async_tool_that_blocks_the_loop_is_named_in_a_warning(
    connect_to: Any, caplog: Any
) -> None:
    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "blocked" in record.getMessage():
                working.noticed.set()

    listener = Listener()
    logging.getLogger("accord").addHandler(listener)
    try:
        async with connect_to(working.make) as client:
            await client.call_tool("block")
    finally:
        logging.getLogger("accord").removeHandler(listener)
    warnings = [each.getMessage() for each in caplog.records if "blocked" in each.getMessage()]
    assert len(warnings) == 1
    assert warnings[0].startswith("tool block has blocked the event loop")
    assert "working.py" in warnings[0]


@IN_PROCESS
async def test_several_clients_share_a_server_and_nothing_else(connect_to: Any) -> None:
    server = working.make()
    heard: list[str] = []
    async with (
        connect_to(server, on_log=lambda each: heard.append(f"one {each.level}")) as one,
        connect_to(server, on_log=lambda each: heard.append(f"two {each.level}")) as two,
    ):
        await one.set_log_level("emergency")
        await two.set_log_level("alert")
        await asyncio.gather(one.call_tool("speak"), two.call_tool("speak"))
        await asyncio.gather(one.ping(), two.ping())
    assert sorted(heard) == ["one emergency", "two alert", "two emergency"]
