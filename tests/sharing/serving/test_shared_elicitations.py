"""Pages that users visit: the web application that serves them may call any worker."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from accord import Context, Principal, Server
from accord.errors import StoreUnavailable, UrlElicitationRequired
from accord.testing import connected
from accord.types import ElicitParams
from support.modern import ModernClient, accept
from support.shared import Crew, eventually, in_virtual_time, serve_shared
from support.together import Mate, in_bounded_virtual_time, serve_together

PAGE = "https://desk.example/link/{elicitation_id}"
CORE = "2025-11-25"


class Desk:
    """The tools of all workers, and the pages that their users were asked to visit."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.done: list[str] = []

    def make(self, **settings: Any) -> Server[Any]:
        server: Server[Any] = Server("desk", **settings)

        @server.tool
        async def link(ctx: Context) -> str:
            """Ask, and wait until the page is complete."""
            page = await ctx.elicit_url("Link your account", PAGE)
            self.ids.append(page.id)
            await page.wait()
            self.done.append(page.id)
            return "linked"

        @server.tool
        async def balance(ctx: Context) -> str:
            """Need a page, which an earlier round may have asked for."""
            page = ctx.prepare_url("Link your account", PAGE)
            self.ids.append(page.id)
            if not page.is_complete:
                raise UrlElicitationRequired("no account", elicitations=[page])
            return "12 EUR"

        return server


def together(desk: Desk, count: int = 2, **settings: Any) -> Any:
    return serve_together(lambda: desk.make(**settings), count, lease=1_000)


def visit(params: ElicitParams) -> bool:
    return True


def link(mate: Mate, heard: list[str]) -> Any:
    return connected(
        mate.server,
        revision=CORE,
        transport="http-stream",
        on_elicit_url=visit,
        on_elicitation_complete=heard.append,
    )


@in_bounded_virtual_time
async def test_a_page_is_completed_on_another_worker_once() -> None:
    desk, heard = Desk(), list[str]()
    async with together(desk, 3) as mates, link(mates[0], heard) as client:
        call = asyncio.ensure_future(client.call_tool("link"))
        await eventually(lambda: desk.ids)
        (id,) = desk.ids
        others = [mates[1].server, mates[2].server]
        firsts = await asyncio.gather(*(each.complete_elicitation(id) for each in others))
        assert sorted(firsts) == [False, True]
        assert (await call).text == "linked"
        assert await mates[0].server.complete_elicitation(id) is False
        await eventually(lambda: heard)
        await asyncio.sleep(5)
        assert heard == [id]


@in_bounded_virtual_time
async def test_an_unknown_page_is_complete_on_no_worker() -> None:
    desk = Desk()
    async with together(desk) as mates:
        for id in ("unknown", "{braces}\n", "x" * 10_000):
            assert await mates[0].server.complete_elicitation(id) is False
            assert await mates[0].server.elicitations.fetch(id) is None
            assert mates[0].server.elicitations.find(id) is None


@in_bounded_virtual_time
async def test_a_thread_learns_whether_the_page_of_another_worker_was_open() -> None:
    desk, heard = Desk(), list[str]()
    async with together(desk) as mates, link(mates[0], heard) as client:
        call = asyncio.ensure_future(client.call_tool("link"))
        await eventually(lambda: desk.ids)
        completed = mates[1].server.elicitation_completed
        answers = [await asyncio.to_thread(completed, desk.ids[0]) for _ in range(2)]
        assert answers == [True, False]
        assert await asyncio.to_thread(completed, "unknown") is False
        assert (await call).text == "linked"


@in_bounded_virtual_time
async def test_a_page_is_passed_on_from_the_loop_of_another_worker() -> None:
    desk, heard = Desk(), list[str]()
    async with together(desk) as mates, link(mates[0], heard) as client:
        call = asyncio.ensure_future(client.call_tool("link"))
        await eventually(lambda: desk.ids)
        assert mates[1].server.elicitation_completed(desk.ids[0]) is True
        assert (await call).text == "linked"
        assert desk.done == desk.ids


@in_bounded_virtual_time
async def test_the_handler_of_a_page_sees_its_principal_on_any_worker() -> None:
    desk = Desk()
    principal = Principal("ann", issuer="https://id.example", claims={"plan": "paid"})
    async with (
        together(desk, principal=principal) as mates,
        connected(mates[0].server, revision=CORE, on_elicit_url=visit) as client,
    ):
        call = asyncio.ensure_future(client.call_tool("link"))
        await eventually(lambda: desk.ids)
        (id,) = desk.ids
        pages = [await mate.server.elicitations.fetch(id) for mate in mates]
        assert mates[1].server.elicitations.find(id) is None
        for page in pages:
            assert page is not None
            assert page.principal == principal
            assert page.principal is not None
            assert page.principal.claims == {"plan": "paid"}
            assert (page.id, page.message) == (id, "Link your account")
            assert page.url == PAGE.replace("{elicitation_id}", id)
            assert not page.is_complete
        assert pages[1] is not None
        assert pages[1].complete() is True
        assert (await call).text == "linked"
        assert pages[1].complete() is False
        assert [await mate.server.elicitations.fetch(id) for mate in mates] == [None, None]


@in_bounded_virtual_time
async def test_a_page_that_its_own_worker_completes_is_complete_for_all() -> None:
    desk, heard = Desk(), list[str]()
    async with together(desk) as mates, link(mates[0], heard) as client:
        call = asyncio.ensure_future(client.call_tool("link"))
        await eventually(lambda: desk.ids)
        assert mates[0].server.elicitation_completed(desk.ids[0]) is True
        assert (await call).text == "linked"
        await asyncio.sleep(1)
        assert await mates[1].server.complete_elicitation(desk.ids[0]) is False


@in_bounded_virtual_time
async def test_a_page_that_the_user_refuses_is_forgotten_by_all() -> None:
    shown: list[str] = []

    def refuse(params: ElicitParams) -> bool:
        shown.append(str(params.elicitation_id))
        return False

    desk = Desk()
    async with (
        together(desk) as mates,
        connected(mates[0].server, revision=CORE, on_elicit_url=refuse) as client,
    ):
        assert (await client.call_tool("link")).is_error
        await asyncio.sleep(1)
        assert await mates[1].server.elicitations.fetch(shown[0]) is None
        assert await mates[1].server.complete_elicitation(shown[0]) is False


# -- rounds of one request on different workers


@in_bounded_virtual_time
async def test_a_page_of_one_round_is_found_complete_in_the_next() -> None:
    desk = Desk()
    async with together(desk, 3) as mates, AsyncExitStack() as stack:
        here, there, third = [
            await stack.enter_async_context(ModernClient(mate.server)) for mate in mates
        ]
        asked = await here.call("balance")
        again = await there.again("balance", asked, {})  # agreed, but not done
        assert again["resultType"] == "input_required"
        await asyncio.sleep(1)  # the user takes longer than the store
        assert await mates[2].server.complete_elicitation(desk.ids[0])
        await asyncio.sleep(1)
        done = await third.again("balance", again, {})
        assert done["content"][0]["text"] == "12 EUR"
        assert len(set(desk.ids)) == 1


@in_bounded_virtual_time
async def test_a_handler_waits_on_the_worker_of_its_last_round() -> None:
    desk = Desk()
    async with together(desk, 3) as mates, AsyncExitStack() as stack:
        here, there = [
            await stack.enter_async_context(ModernClient(mate.server)) for mate in mates[:2]
        ]
        asked = await here.call("link")
        call = asyncio.ensure_future(there.again("link", asked, {}))
        await eventually(lambda: desk.ids)
        assert await mates[2].server.complete_elicitation(desk.ids[0])
        assert (await call)["content"][0]["text"] == "linked"


@in_bounded_virtual_time
async def test_a_page_that_is_complete_before_the_next_round_is_not_waited_for() -> None:
    desk = Desk()
    async with together(desk) as mates, AsyncExitStack() as stack:
        here, there = [await stack.enter_async_context(ModernClient(mate.server)) for mate in mates]
        asked = await here.call("link")
        (question,) = asked["inputRequests"].values()
        id = question["params"]["url"].rpartition("/")[2]
        assert await mates[0].server.complete_elicitation(id)
        done = await there.call(
            "link", inputResponses=accept(asked, {}), requestState=asked["requestState"]
        )
        assert done["content"][0]["text"] == "linked"


# -- mounted servers


@in_bounded_virtual_time
async def test_a_page_of_a_mounted_server_is_completed_on_another_worker() -> None:
    desk, inner = Desk(), list[Server[Any]]()

    def make() -> Server[Any]:
        outer: Server[Any] = Server("outer")
        inner.append(desk.make())
        outer.mount(inner[-1], prefix="desk")
        return outer

    async with (
        serve_together(make, 2, lease=1_000) as mates,
        connected(mates[0].server, revision=CORE, on_elicit_url=visit) as client,
    ):
        call = asyncio.ensure_future(client.call_tool("desk_link"))
        await eventually(lambda: desk.ids)
        assert await inner[1].complete_elicitation(desk.ids[0])
        assert (await call).text == "linked"


# -- workers that are lost, and stores


async def need_page(crew: Crew, desk: Desk, *, at: int) -> Any:
    client = await crew.open(at=at, elicitation={"url": {}})
    answer = await client.ask(at, "tools/call", name="balance", arguments={})
    assert answer["error"]["code"] == -32042
    return client


@pytest.mark.parametrize("is_killed", [False, True])
@in_virtual_time
async def test_a_client_hears_of_its_page_whether_its_worker_lives_or_not(is_killed: bool) -> None:
    desk = Desk()
    async with serve_shared(desk.make, 3) as crew:
        client = await need_page(crew, desk, at=0)
        await asyncio.sleep(1)
        if is_killed:
            crew[0].kill()
            await asyncio.sleep(10)
        stream = await client.listen(1)
        assert await crew[2].server.complete_elicitation(desk.ids[0]) is True
        await eventually(lambda: stream.messages)
        (message,) = stream.messages
        assert message["method"] == "notifications/elicitation/complete"
        assert message["params"] == {"elicitationId": desk.ids[0]}
        assert await crew[1].server.complete_elicitation(desk.ids[0]) is False


@in_bounded_virtual_time
async def test_a_page_is_shared_once_the_store_answers_again() -> None:
    desk, heard = Desk(), list[str]()
    async with together(desk) as mates, link(mates[0], heard) as client:
        mates[0].backend.is_cut = True
        call = asyncio.ensure_future(client.call_tool("link"))
        await eventually(lambda: desk.ids)
        (id,) = desk.ids
        assert await mates[1].server.complete_elicitation(id) is False
        mates[0].backend.is_cut = False
        await asyncio.sleep(30)
        assert await mates[1].server.complete_elicitation(id) is True
        assert (await call).text == "linked"


@in_bounded_virtual_time
async def test_a_page_of_the_worker_itself_is_completed_while_the_store_is_away() -> None:
    desk, heard = Desk(), list[str]()
    async with together(desk) as mates, link(mates[0], heard) as client:
        call = asyncio.ensure_future(client.call_tool("link"))
        await eventually(lambda: desk.ids)
        (id,) = desk.ids
        mates[0].backend.is_cut = mates[1].backend.is_cut = True
        with pytest.raises(StoreUnavailable):
            await mates[1].server.complete_elicitation(id)
        assert await mates[0].server.complete_elicitation(id) is True
        assert (await call).text == "linked"
        mates[0].backend.is_cut = mates[1].backend.is_cut = False
        await asyncio.sleep(60)
        assert await mates[1].server.complete_elicitation(id) is False


@in_bounded_virtual_time
async def test_a_server_on_its_own_completes_its_pages_by_the_same_methods() -> None:
    desk, heard = Desk(), list[str]()
    server = desk.make()
    async with connected(
        server, revision=CORE, on_elicit_url=visit, on_elicitation_complete=heard.append
    ) as client:
        call = asyncio.ensure_future(client.call_tool("link"))
        await eventually(lambda: desk.ids)
        page = await server.elicitations.fetch(desk.ids[0])
        assert page is server.elicitations.find(desk.ids[0])
        assert await server.complete_elicitation(desk.ids[0]) is True
        assert await server.complete_elicitation(desk.ids[0]) is False
        assert (await call).text == "linked"
