"""How much the listener keeps for clients that send more than it can serve."""

import asyncio
import tracemalloc

import pytest

from accord.http.settings import HttpLimits
from support.http_offer import offer
from support.listened import call_body, call_lines, head, post
from support.listened_here import run_on, serving
from support.waiting import until


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request):
    return request.param


def call(tool, *lines, **arguments):
    """A call that stands on its own, as bytes."""
    return post(*call_lines(tool), *lines, body=call_body(tool, **arguments))


async def never(scope, receive, send):
    """Serve nothing, and read nothing."""
    await asyncio.Event().wait()


def test_many_small_parts_of_a_body_take_no_more_than_one_large_part(loop):
    async def check():
        async with serving(never) as here, await here.connect() as client:
            client.send(head("Transfer-Encoding: chunked"))
            await until(lambda: here.listener._tasks)
            tracemalloc.start()
            try:
                for _ in range(40):
                    client.send(b"2\r\nab\r\n" * 1000)
                    await asyncio.sleep(0)
                await until(lambda: here.listener.held > 65_536)
                size, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert size < 8 * here.listener.held

    run_on(loop, check())


def test_heads_of_waiting_requests_count(loop):
    async def check():
        async with serving(never) as here, await here.connect() as client:
            client.send(head(method="GET"))
            client.send(head(*(f"X-{number}: {'y' * 100}" for number in range(100))) * 5)
            await until(lambda: here.listener.held > 50_000, seconds=3)
        await until(lambda: not len(here.listener))
        assert here.listener.held == 0

    run_on(loop, check())


def test_a_connection_that_ends_keeps_nothing(loop):
    async def check():
        async with serving(offer().asgi()) as here, await here.connect() as client:
            client.send(head("Content-Length: 9000000", path="/nothing") + bytes(50_000))
            assert (await client.answer()).status == 404
            # The client has not ended the connection yet.
            assert len(here.listener) == 1
            assert here.listener.held == 0

    run_on(loop, check())


def test_requests_that_are_stuck_make_room_for_others(loop):
    app = offer().asgi(limits=HttpLimits(bodies_bytes=160_000, body_timeout=0.4))

    async def check():
        async with serving(app) as here:
            stuck = [await here.connect() for _ in range(2)]
            for each in stuck:
                each.send(call("wait", name="never") + call("note", text="x" * 70_000))
            await until(lambda: here.listener.held > 120_000, seconds=10)
            begun = here.listener.now
            await until(lambda: here.listener.now > begun + 1.1)
            async with await here.connect() as client:
                client.send(call("wait", name="a") + call("note", text="x" * 80_000))
                await until(lambda: here.listener.held > 80_000, seconds=10)
                async with await here.connect() as other:
                    await other.ask(call("free", name="a"))
                assert (await client.answer()).status == 200
                assert (await client.answer()).status == 200
            async with await here.connect() as other:
                await other.ask(call("free", name="never"))
            for each in stuck:
                each.leave()

    run_on(loop, check())
