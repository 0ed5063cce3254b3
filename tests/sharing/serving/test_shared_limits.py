"""`rate_limit` where several workers serve together: one limit for all of them."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

from accord import Context, Principal, Server
from accord.errors import RequestError
from accord.middleware import rate_limit
from accord.testing import connected
from support.shared import in_virtual_time, serve_shared
from support.together import Mate, in_bounded_virtual_time, loop_clock, serve_together

CORE = "2025-11-25"


def limit(*args: Any, **settings: Any) -> Any:
    return rate_limit(*args, clock=loop_clock, **settings)


def make(*layers: Any, **settings: Any) -> Server[Any]:
    server: Server[Any] = Server("desk", middleware=layers, **settings)

    @server.tool
    async def add(a: int = 0) -> int:
        """Add."""
        return a

    @server.tool
    async def other() -> str:
        """Return."""
        return "x"

    @server.resource("note://today")
    async def today() -> str:
        return "sun"

    return server


def together(*limits: Any, count: int = 2, **settings: Any) -> Any:
    """Serve together, each with limits of its own that are the same; each a pair of arguments."""

    def build() -> Server[Any]:
        return make(*(limit(*args, **more) for args, more in limits), **settings)

    return serve_together(build, count, lease=1_000)


async def connect_all(stack: AsyncExitStack, mates: Sequence[Mate]) -> list[Any]:
    return [
        await stack.enter_async_context(connected(mate.server, revision=CORE)) for mate in mates
    ]


async def count_granted(clients: Sequence[Any], count: int, tool: str = "add") -> int:
    """Call a tool so often, through one client after the other; return how often it was granted."""
    results = [await clients[number % len(clients)].call_tool(tool) for number in range(count)]
    return sum(not result.is_error for result in results)


def takes(mate: Mate) -> int:
    return mate.backend.calls.count("take")


@in_bounded_virtual_time
async def test_workers_share_a_limit() -> None:
    async with (
        together((("10/minute",), {}), principal=Principal("ann")) as mates,
        AsyncExitStack() as stack,
    ):
        clients = await connect_all(stack, mates)
        assert await count_granted(clients, 20) == 10
        refused = await clients[1].call_tool("add")
        assert refused.text == (
            "tool add was refused: more than 10/minute (rate_limit); try again in 6 s"
        )
        await asyncio.sleep(6)
        assert await count_granted(clients, 4) == 1


@in_bounded_virtual_time
async def test_a_limit_of_a_hundred_a_second_holds_for_three_workers() -> None:
    async with (
        together(((100,), {"burst": 10}), count=3, principal=Principal("ann")) as mates,
        AsyncExitStack() as stack,
    ):
        clients = await connect_all(stack, mates)
        granted, seconds = 0, 10
        for _ in range(seconds * 100):
            granted += await count_granted(clients, 3)
            await asyncio.sleep(0.01)
        assert 0.95 * 100 * seconds <= granted <= 1.05 * 100 * seconds + 10


@in_bounded_virtual_time
async def test_a_caller_that_is_refused_costs_the_store_nothing() -> None:
    async with (
        together((("2/minute",), {}), principal=Principal("ann")) as mates,
        AsyncExitStack() as stack,
    ):
        clients = await connect_all(stack, mates)
        assert await count_granted(clients, 100) == 2
        assert sum(map(takes, mates)) <= 4


@in_bounded_virtual_time
async def test_a_fast_caller_takes_several_tokens_at_once_and_gets_no_more_than_others() -> None:
    async with (
        together(((1_000,), {}), principal=Principal("ann")) as mates,
        AsyncExitStack() as stack,
    ):
        clients = await connect_all(stack, mates)
        # All in one moment: no token flows in.
        assert 900 <= await count_granted(clients, 1_500) <= 1_000
        assert sum(map(takes, mates)) < 150


@in_bounded_virtual_time
async def test_a_slow_caller_takes_one_token_at_a_time() -> None:
    async with (
        together(((1_000,), {}), principal=Principal("ann")) as mates,
        AsyncExitStack() as stack,
    ):
        clients = await connect_all(stack, mates)
        for _ in range(5):
            assert await count_granted(clients[:1], 1) == 1
            await asyncio.sleep(1)
        assert takes(mates[0]) == 5


@in_bounded_virtual_time
async def test_each_principal_has_its_own_bucket() -> None:
    def build(name: str) -> Any:
        return lambda: make(limit("3/minute"), principal=Principal(name))

    users = iter(["ann", "ben", "ann"])
    async with (
        serve_together(lambda: build(next(users))(), 3, lease=1_000) as mates,
        AsyncExitStack() as stack,
    ):
        clients = await connect_all(stack, mates)
        assert await count_granted([clients[0], clients[2]], 6) == 3
        assert await count_granted([clients[1]], 6) == 3


@in_bounded_virtual_time
async def test_a_limit_by_tool_is_one_for_all_callers_and_workers() -> None:
    async with together((("3/minute",), {"by": "tool"})) as mates, AsyncExitStack() as stack:
        clients = await connect_all(stack, mates)
        assert await count_granted(clients, 6) == 3
        assert await count_granted(clients, 6, "other") == 3


@in_bounded_virtual_time
async def test_keys_of_a_function_are_shared_where_they_are_plain() -> None:
    def by_plan(ctx: Context) -> Any:
        return ("plan", 5, None, b"x")

    async with together((("3/minute",), {"by": by_plan})) as mates, AsyncExitStack() as stack:
        clients = await connect_all(stack, mates)
        assert await count_granted(clients, 6) == 3


@in_bounded_virtual_time
async def test_a_key_that_only_this_process_knows_is_limited_here() -> None:
    thing = object()

    async with (
        together((("3/minute",), {"by": lambda ctx: thing})) as mates,
        AsyncExitStack() as stack,
    ):
        clients = await connect_all(stack, mates)
        assert await count_granted(clients, 12) == 6
        assert sum(map(takes, mates)) == 0


@in_bounded_virtual_time
async def test_equal_limits_of_one_server_are_counted_apart() -> None:
    once: Any = (("4/minute",), {})
    async with (
        together(once, once, principal=Principal("ann")) as mates,
        AsyncExitStack() as stack,
    ):
        clients = await connect_all(stack, mates)
        assert await count_granted(clients, 10) == 4


@in_bounded_virtual_time
async def test_a_limit_may_stay_one_of_each_worker() -> None:
    async with (
        together((("3/minute",), {"shared": False}), principal=Principal("ann")) as mates,
        AsyncExitStack() as stack,
    ):
        clients = await connect_all(stack, mates)
        assert await count_granted(clients, 12) == 6
        assert sum(map(takes, mates)) == 0


@in_bounded_virtual_time
async def test_other_requests_are_refused_by_an_error_of_all_workers() -> None:
    async with (
        together((("1/minute",), {"methods": ["resources/read"]}), principal=Principal("ann")) as (
            one,
            two,
        ),
        AsyncExitStack() as stack,
    ):
        here, there = await connect_all(stack, [one, two])
        await here.read_resource("note://today")
        with pytest.raises(RequestError, match="note://today was refused") as caught:
            await there.read_resource("note://today")
        assert caught.value.data == {"retryAfter": 60}


@in_bounded_virtual_time
async def test_the_middleware_of_a_mounted_server_shares_its_limit() -> None:
    def build() -> Server[Any]:
        outer: Server[Any] = Server("outer", principal=Principal("ann"))
        outer.mount(make(limit("3/minute")), prefix="desk")
        return outer

    async with serve_together(build, 2, lease=1_000) as mates, AsyncExitStack() as stack:
        clients = await connect_all(stack, mates)
        assert await count_granted(clients, 8, "desk_add") == 3


@in_virtual_time
async def test_a_session_has_one_limit_on_all_workers() -> None:
    def build() -> Server[Any]:
        return make(limit("3/minute", by="session"))

    async with serve_shared(build, 3) as crew:
        first, second = await crew.open(CORE, at=0), await crew.open(CORE, at=1)
        answers = [await first.call(number % 3, "add") for number in range(9)]
        assert answers.count("0") == 3
        assert [await second.call(number % 3, "add") for number in range(3)] == ["0"] * 3


# -- a store that does not answer


@in_bounded_virtual_time
async def test_each_worker_has_its_part_of_the_limit_while_the_store_is_away() -> None:
    async with (
        together((("12/minute",), {}), count=3, principal=Principal("ann")) as mates,
        AsyncExitStack() as stack,
    ):
        clients = await connect_all(stack, mates)
        assert await count_granted(clients, 3) == 3
        await asyncio.sleep(1)  # the workers are counted
        for mate in mates:
            mate.backend.is_cut = True
        assert await count_granted(clients, 60) == 12
        await asyncio.sleep(60)
        for mate in mates:
            mate.backend.is_cut = False
            mate.worker.is_connected = True
        assert await count_granted(clients, 60) == 12


@in_bounded_virtual_time
async def test_a_limit_may_refuse_everything_while_the_store_is_away() -> None:
    closed: Any = {"when_store_is_away": "refuse", "methods": ["tools/call", "resources/read"]}
    async with (
        together((("12/minute",), closed), principal=Principal("ann")) as mates,
        AsyncExitStack() as stack,
    ):
        (client,) = await connect_all(stack, mates[:1])
        mates[0].backend.is_cut = True
        refused = await client.call_tool("add")
        assert refused.text == (
            "tool add was refused: the store that counts requests does not answer (rate_limit); "
            "try again"
        )
        with pytest.raises(RequestError, match="note://today was refused: the store") as caught:
            await client.read_resource("note://today")
        assert caught.value.data == {"reason": "store-unavailable"}
        mates[0].backend.is_cut = False
        assert await count_granted([client], 1) == 1


@in_bounded_virtual_time
async def test_a_worker_that_knows_that_the_store_is_away_does_not_wait_for_it() -> None:
    async with (
        together((("12/minute",), {}), principal=Principal("ann")) as mates,
        AsyncExitStack() as stack,
    ):
        (client,) = await connect_all(stack, mates[:1])
        mates[0].worker.is_connected = False
        assert await count_granted([client], 3) == 3
        assert takes(mates[0]) == 0


def test_a_way_to_go_on_without_a_store_that_does_not_exist_is_refused() -> None:
    wrong: Any = "open"
    with pytest.raises(ValueError, match="when_store_is_away is 'open', expected 'local' or"):
        rate_limit(5, when_store_is_away=wrong)
