"""What workers forget together, and lists that are the same on each of them."""

import asyncio
import threading
from contextlib import AsyncExitStack
from typing import Any

from accord import Server
from accord.middleware import cache
from accord.server.caching import CacheHints
from accord.sharing import MemoryBackend
from accord.sharing.workers import names
from accord.testing import connected
from support.modern import ModernClient
from support.shared import eventually
from support.together import KEY, Mate, in_bounded_virtual_time, loop_clock, serve_together

NEW_KEY = "another key, which takes the place of the old one"


class Prices:
    """What the servers of all workers read, and how often."""

    def __init__(self) -> None:
        self.price = 1
        self.reads = 0
        self.caches: list[Any] = []
        self.inner: list[Server[Any]] = []

    def make(self, name: str = "desk", **settings: Any) -> Server[Any]:
        kept = cache(1_000, by="all", methods=["tools/call", "resources/read", "tools/list"])
        self.caches.append(kept)
        server: Server[Any] = Server(name, middleware=[kept], **settings)

        @server.tool(annotations={"readOnlyHint": True})
        async def quote(symbol: str = "a") -> int:
            """Return a price."""
            self.reads += 1
            return self.price

        @server.resource("prices://today")
        async def today() -> str:
            self.reads += 1
            return str(self.price)

        return server

    def make_outer(self) -> Server[Any]:
        outer: Server[Any] = Server("outer")
        self.inner.append(self.make("inner"))
        outer.mount(self.inner[-1], prefix="in")
        return outer


def together(make: Any, count: int = 2, **options: Any) -> Any:
    return serve_together(make, count, lease=1_000, **options)


async def connect_all(stack: AsyncExitStack, mates: list[Mate]) -> list[Any]:
    return [await stack.enter_async_context(connected(mate.server)) for mate in mates]


async def read_all(clients: list[Any], uri: str = "prices://today") -> list[str]:
    return [(await client.read_resource(uri)).contents[0].text for client in clients]


@in_bounded_virtual_time
async def test_a_resource_that_changes_on_one_worker_is_read_anew_on_all() -> None:
    prices = Prices()
    async with together(prices.make, 3) as mates, AsyncExitStack() as stack:
        clients = await connect_all(stack, mates)
        assert await read_all(clients) == ["1"] * 3
        assert await read_all(clients) == ["1"] * 3
        assert prices.reads == 3
        prices.price = 2
        mates[1].server.resource_updated("prices://today")
        # Where it was published, it is known at once.
        assert await read_all(clients[1:2]) == ["2"]
        await asyncio.sleep(1)
        assert await read_all(clients) == ["2"] * 3


@in_bounded_virtual_time
async def test_a_change_is_known_where_it_was_made_while_the_store_is_away() -> None:
    prices = Prices()
    async with together(prices.make) as mates, AsyncExitStack() as stack:
        clients = await connect_all(stack, mates)
        await read_all(clients)
        mates[0].backend.is_cut = True
        prices.price = 2
        mates[0].server.resource_updated("prices://today")
        assert await read_all(clients) == ["2", "1"]
        mates[0].backend.is_cut = False
        await asyncio.sleep(60)
        assert await read_all(clients) == ["2", "2"]


@in_bounded_virtual_time
async def test_a_list_that_changes_on_one_worker_is_read_anew_on_all() -> None:
    prices = Prices()
    async with together(prices.make) as mates, AsyncExitStack() as stack:
        clients = await connect_all(stack, mates)
        for client in clients:
            assert (await client.call_tool("quote")).structured_content == {"result": 1}
            await client.list_tools()
        assert len(prices.caches[1]) == 2
        prices.price = 2
        mates[0].server.add_tool(lambda: "x", name="more", description="More.")
        await eventually(lambda: not len(prices.caches[1]))
        assert (await clients[1].call_tool("quote")).structured_content == {"result": 2}


@in_bounded_virtual_time
async def test_clear_forgets_the_results_of_all_workers() -> None:
    prices = Prices()
    async with together(prices.make, 3) as mates, AsyncExitStack() as stack:
        clients = await connect_all(stack, mates)
        await read_all(clients)
        assert [len(each) for each in prices.caches] == [1, 1, 1]
        clearing = threading.Thread(target=prices.caches[0].clear)
        clearing.start()
        await asyncio.to_thread(clearing.join)
        await eventually(lambda: not any(map(len, prices.caches)))


@in_bounded_virtual_time
async def test_clear_reaches_others_from_a_worker_that_has_served_nothing() -> None:
    prices = Prices()
    async with together(prices.make) as mates, AsyncExitStack() as stack:
        clients = await connect_all(stack, mates[1:])
        await read_all(clients)
        prices.caches[0].clear()
        await eventually(lambda: not len(prices.caches[1]))


@in_bounded_virtual_time
async def test_clear_is_sent_once_the_store_answers_again() -> None:
    prices = Prices()
    async with together(prices.make) as mates, AsyncExitStack() as stack:
        clients = await connect_all(stack, mates)
        await read_all(clients)
        mates[0].backend.is_cut = True
        prices.caches[0].clear()
        assert [len(each) for each in prices.caches] == [0, 1]
        await asyncio.sleep(1)
        mates[0].backend.is_cut = False
        await eventually(lambda: not len(prices.caches[1]))


@in_bounded_virtual_time
async def test_the_cache_of_another_server_is_left_alone() -> None:
    prices = Prices()
    served = iter(["desk", "other"])
    async with together(lambda: prices.make(next(served))) as mates, AsyncExitStack() as stack:
        await read_all(await connect_all(stack, mates))
        prices.caches[0].clear()
        await asyncio.sleep(5)
        assert [len(each) for each in prices.caches] == [0, 1]


@in_bounded_virtual_time
async def test_a_cache_that_is_added_later_hears_of_other_workers() -> None:
    prices = Prices()

    def make() -> Server[Any]:
        server: Server[Any] = Server("desk")

        @server.resource("prices://today")
        async def today() -> str:
            return str(prices.price)

        return server

    async with together(make) as mates, AsyncExitStack() as stack:
        clients = await connect_all(stack, mates)
        for mate in mates:
            prices.caches.append(cache(1_000, by="all"))
            mate.server.add_middleware(prices.caches[-1])
        await read_all(clients)
        prices.caches[0].clear()
        await eventually(lambda: not len(prices.caches[1]))


@in_bounded_virtual_time
async def test_changes_of_a_mounted_server_reach_its_caches_on_all_workers() -> None:
    prices = Prices()
    async with together(prices.make_outer) as mates, AsyncExitStack() as stack:
        clients = await connect_all(stack, mates)
        uri = "prices://in/today"
        assert await read_all(clients, uri) == ["1", "1"]
        assert await read_all(clients, uri) == ["1", "1"]
        assert prices.reads == 2
        prices.price = 2
        prices.inner[0].resource_updated("prices://today")
        assert await read_all(clients[:1], uri) == ["2"]
        await asyncio.sleep(1)
        assert await read_all(clients, uri) == ["2", "2"]
        prices.price = 3
        prices.caches[1].clear()
        await asyncio.sleep(1)
        assert await read_all(clients, uri) == ["3", "3"]


@in_bounded_virtual_time
async def test_a_worker_that_may_have_missed_something_forgets_everything() -> None:
    prices = Prices()
    backend = MemoryBackend(clock=loop_clock)
    async with together(prices.make, backend=backend) as mates, AsyncExitStack() as stack:
        clients = await connect_all(stack, mates)
        await read_all(clients)
        # The store loses what it had.
        await mates[0].worker.publish("anything", b"x")
        await asyncio.sleep(2)
        await backend.drop(names.BROADCAST)
        await eventually(lambda: not any(map(len, prices.caches)))


# -- lists


def make_desk(**settings: Any) -> Server[Any]:
    server: Server[Any] = Server("desk", **settings)
    for number in range(10):
        server.add_tool(lambda: "x", name=f"tool{number}", description="A tool.")
    for number in range(10):
        server.add_resource(f"note://{number}", lambda: "x", name=f"note{number}")
    return server


async def read_pages(clients: list[ModernClient], method: str, member: str) -> list[str]:
    """Read a list page by page, each page from the next worker."""
    found: list[str] = []
    cursor: Any = None
    for turn in range(20):
        params = {} if cursor is None else {"cursor": cursor}
        answer = await clients[turn % len(clients)].send_modern(method, **params)
        found += [each["name"] for each in answer["result"][member]]
        cursor = answer["result"].get("nextCursor")
        if cursor is None:
            return found
    raise AssertionError("the list has no end")


@in_bounded_virtual_time
async def test_the_cursor_of_one_worker_leads_on_at_another() -> None:
    async with together(lambda: make_desk(page_size=3), 3) as mates, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(ModernClient(mate.server)) for mate in mates]
        tools = await read_pages(clients, "tools/list", "tools")
        assert tools == [f"tool{number}" for number in range(10)]
        notes = await read_pages(clients, "resources/list", "resources")
        assert notes == [f"note{number}" for number in range(10)]


@in_bounded_virtual_time
async def test_the_cursor_of_one_list_is_refused_by_another() -> None:
    async with together(lambda: make_desk(page_size=3), 2) as mates, AsyncExitStack() as stack:
        here, there = [await stack.enter_async_context(ModernClient(mate.server)) for mate in mates]
        page = await here.send_modern("tools/list")
        cursor = page["result"]["nextCursor"]
        answer = await there.send_modern("resources/list", cursor=cursor)
        assert answer["error"]["code"] == -32602


@in_bounded_virtual_time
async def test_cursors_outlive_a_change_of_keys() -> None:
    keys = [[KEY], [NEW_KEY, KEY]]
    async with (
        together(lambda: make_desk(page_size=5), keys=keys) as mates,
        AsyncExitStack() as stack,
    ):
        here, there = [await stack.enter_async_context(ModernClient(mate.server)) for mate in mates]
        assert len(await read_pages([here, there], "tools/list", "tools")) == 10


@in_bounded_virtual_time
async def test_pages_and_their_hints_are_the_same_on_all_workers() -> None:
    hints = CacheHints(tools=60, resources=30, discover=10, scope="public")
    settings: Any = {"page_size": 4, "cache": hints}
    async with together(lambda: make_desk(**settings), 2) as mates, AsyncExitStack() as stack:
        here, there = [await stack.enter_async_context(ModernClient(mate.server)) for mate in mates]
        for method in ("tools/list", "resources/list", "server/discover", "prompts/list"):
            first, second = await here.send_modern(method), await there.send_modern(method)
            assert first.get("result") == second.get("result")
            assert first.get("error") == second.get("error")
