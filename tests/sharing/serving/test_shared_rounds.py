"""Rounds of one request on different workers: any of them takes the answers, and one of them."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from accord import Context, Server
from accord.server import Proceed
from accord.sharing import MemoryBackend
from support.modern import ModernClient, accept, meta
from support.together import KEY, in_bounded_virtual_time, loop_clock, serve_together

NEW_KEY = "another key, which takes the place of the old one"
USED = "it was used before"


class Desk:
    """The tools of all workers, and what they did."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.made: list[str] = []

    def make(self, **settings: Any) -> Server[Any]:
        server: Server[Any] = Server("desk", **settings)

        @server.tool
        async def delete(ctx: Context, name: str = "a") -> str:
            """Delete a file, if the user agrees."""
            if await ctx.elicit(f"Delete {name}?", bool):
                self.deleted.append(name)
            return f"deleted {name}"

        @server.tool
        def delete_in_thread(ctx: Context, name: str = "a") -> str:
            """Delete a file, if the user agrees."""
            if ctx.wait(ctx.elicit(f"Delete {name}?", bool)):
                self.deleted.append(name)
            return f"deleted {name}"

        @server.tool
        async def slow(ctx: Context) -> str:
            """Ask, then take long."""
            await ctx.elicit("Begin?", bool)
            self.deleted.append("begun")
            await asyncio.sleep(100)
            return "done"

        @server.tool
        async def sometimes(ctx: Context) -> str:
            """Ask in the first round alone."""
            self.made.append("round")
            if len(self.made) == 1:
                await ctx.elicit("Sure?", bool)
            return "done"

        @server.tool
        async def order(ctx: Context) -> str:
            """Order once, whatever is asked."""
            number = await ctx.once("order", lambda: self.made.append("order") or 7)
            return f"{number} {await ctx.elicit('Pay?', bool)}"

        @server.prompt
        async def letter(ctx: Context) -> str:
            """Write a letter."""
            return f"Dear {await ctx.elicit('To whom?', str)}"

        @server.resource("desk://note")
        async def note(ctx: Context) -> str:
            """Read a note."""
            return f"by {await ctx.elicit('Author?', str)}"

        return server


def together(desk: Desk, count: int = 2, **options: Any) -> Any:
    settings = options.pop("settings", {})
    return serve_together(lambda: desk.make(**settings), count, lease=1_000, **options)


async def clients(stack: AsyncExitStack, mates: Any) -> list[ModernClient]:
    return [await stack.enter_async_context(ModernClient(mate.server)) for mate in mates]


def text_of(result: Any) -> str:
    return str(result["content"][0]["text"])


@pytest.mark.parametrize("tool", ["delete", "delete_in_thread"])
@in_bounded_virtual_time
async def test_the_answer_may_come_to_another_worker(tool: str) -> None:
    desk = Desk()
    async with together(desk) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, mates)
        asked = await here.call(tool)
        assert text_of(await there.again(tool, asked, True)) == "deleted a"
        assert desk.deleted == ["a"]


@in_bounded_virtual_time
async def test_prompts_and_resources_take_answers_on_another_worker() -> None:
    desk = Desk()
    async with together(desk) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, mates)
        requests: list[tuple[str, dict[str, Any]]] = [
            ("prompts/get", {"name": "letter"}),
            ("resources/read", {"uri": "desk://note"}),
        ]
        for method, params in requests:
            asked = (await here.send_modern(method, **params))["result"]
            more = {
                "inputResponses": accept(asked, "Ann"),
                "requestState": asked["requestState"],
            }
            done = await there.send_modern(method, **params, **more)
            assert "Ann" in str(done["result"])
            again = await here.send_modern(method, **params, **more)
            assert USED in again["error"]["message"]


@in_bounded_virtual_time
async def test_a_state_serves_one_request_of_all_workers() -> None:
    desk = Desk()
    async with together(desk, 3) as mates, AsyncExitStack() as stack:
        everyone = await clients(stack, mates)
        asked = await everyone[0].call("delete")
        answers = await asyncio.gather(*(each.again("delete", asked, True) for each in everyone))
        refused = [each["message"] for each in answers if "message" in each]
        assert len(refused) == 2
        assert all(USED in message for message in refused)
        assert desk.deleted == ["a"]


@in_bounded_virtual_time
async def test_a_state_is_used_even_if_nothing_is_asked_in_the_round() -> None:
    desk = Desk()
    async with together(desk) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, mates)
        asked = await here.call("sometimes")
        assert text_of(await here.again("sometimes", asked, True)) == "done"
        assert USED in (await there.again("sometimes", asked, True))["message"]
        assert len(desk.made) == 2


@in_bounded_virtual_time
async def test_a_value_kept_by_once_travels_to_another_worker() -> None:
    desk = Desk()
    async with together(desk) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, mates)
        asked = await here.call("order")
        assert text_of(await there.again("order", asked, True)) == "7 True"
        assert desk.made == ["order"]


@in_bounded_virtual_time
async def test_middleware_sees_nothing_of_a_state_that_was_used() -> None:
    seen: list[object] = []
    desk = Desk()

    async def remember(ctx: Context, proceed: Proceed) -> Any:
        if ctx.method == "tools/call":
            seen.append(await ctx.once("number", lambda: len(seen)))
        return await proceed()

    settings = {"middleware": [remember]}
    async with together(desk, settings=settings) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, mates)
        asked = await here.call("delete")
        assert text_of(await here.again("delete", asked, True)) == "deleted a"
        assert USED in (await there.again("delete", asked, True))["message"]
        assert seen == [0, 0]


@in_bounded_virtual_time
async def test_a_request_that_is_cancelled_gives_its_state_back() -> None:
    desk = Desk()
    async with together(desk) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, mates)
        asked = await here.call("slow")
        params = {
            "_meta": meta(),
            "name": "slow",
            "inputResponses": accept(asked, True),
            "requestState": asked["requestState"],
        }
        here.send({"jsonrpc": "2.0", "id": "late", "method": "tools/call", "params": params})
        while not desk.deleted:
            await asyncio.sleep(0.01)
        here.notify("notifications/cancelled", {"requestId": "late"})
        await asyncio.sleep(1)
        assert text_of(await there.again("slow", asked, True)) == "done"


@in_bounded_virtual_time
async def test_marks_of_used_states_expire() -> None:
    desk = Desk()
    backend = MemoryBackend(clock=loop_clock)
    options: Any = {"backend": backend, "settings": {"state_lifetime": 60.0}}
    async with together(desk, **options) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, mates)
        asked = await here.call("delete")
        await there.again("delete", asked, True)
        assert [key for key in backend._records if key.startswith("{n")]
        await asyncio.sleep(150)
        await backend.get("anything")
        assert not [key for key in backend._records if key.startswith("{n")]


# -- keys


@in_bounded_virtual_time
async def test_keys_are_rotated_while_rounds_are_open() -> None:
    desk = Desk()
    # The new key is added behind the old one, then put before it, then the old one is taken away.
    keys = [[KEY], [KEY, NEW_KEY], [NEW_KEY, KEY], [NEW_KEY]]
    async with together(desk, 4, keys=keys) as mates, AsyncExitStack() as stack:
        everyone = await clients(stack, mates)
        for older, newer in ((0, 1), (1, 2), (2, 3)):
            asked = await everyone[older].call("delete")
            done = await everyone[newer].again("delete", asked, True)
            # The last step may be taken once nothing is open that the old key has sealed.
            assert text_of(done) == "deleted a"
        asked = await everyone[0].call("delete")
        refused = await everyone[3].again("delete", asked, True)
        assert "sealed with a key that is not known here" in refused["message"]


@in_bounded_virtual_time
async def test_keys_that_the_author_gave_take_the_place_of_those_of_the_store() -> None:
    desk = Desk()
    settings = {"state_keys": ["k" * 32]}
    keys = [[KEY], [NEW_KEY]]
    async with together(desk, settings=settings, keys=keys) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, mates)
        asked = await here.call("delete")
        assert text_of(await there.again("delete", asked, True)) == "deleted a"
        assert USED in (await here.again("delete", asked, True))["message"]


# -- a store that does not answer


@in_bounded_virtual_time
async def test_a_state_is_refused_while_the_store_is_away_and_works_later() -> None:
    desk = Desk()
    async with together(desk) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, mates)
        asked = await here.call("delete")
        mates[1].backend.is_cut = True
        refused = await there.again("delete", asked, True)
        assert refused["data"] == {"reason": "store-unavailable"}
        assert "does not answer; try again" in refused["message"]
        # A request without a state needs nothing of the store.
        assert (await there.call("delete"))["resultType"] == "input_required"
        assert desk.deleted == []
        mates[1].backend.is_cut = False
        await asyncio.sleep(10)
        assert text_of(await there.again("delete", asked, True)) == "deleted a"


@in_bounded_virtual_time
async def test_a_claim_whose_acknowledgement_is_lost_is_given_back() -> None:
    desk = Desk()
    async with together(desk) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, mates)
        asked = await here.call("delete")
        put = mates[1].backend._backend.put

        async def put_and_lose(*args: Any, **keywords: Any) -> Any:
            await put(*args, **keywords)
            mates[1].backend.is_cut = True
            return await mates[1].backend.now()

        mates[1].backend.put = put_and_lose
        refused = await there.again("delete", asked, True)
        assert refused["data"] == {"reason": "store-unavailable"}
        mates[1].backend.is_cut = False
        await asyncio.sleep(30)
        assert text_of(await here.again("delete", asked, True)) == "deleted a"
        assert desk.deleted == ["a"]


# -- without workers


@in_bounded_virtual_time
async def test_a_server_on_its_own_asks_no_store() -> None:
    desk = Desk()
    server = desk.make()
    async with ModernClient(server) as client:
        asked = await client.call("delete")
        assert text_of(await client.again("delete", asked, True)) == "deleted a"
        assert not server._core.state_seal.is_shared
        assert USED in (await client.again("delete", asked, True))["message"]
