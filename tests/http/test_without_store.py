"""Several processes that share clients and have no store: what is wrong is named at once."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from accord import connect
from support.http_talk import request
from support.scale.balancer import Balancer
from support.uvicorn_process import running_uvicorn
from support.waiting import in_loop, until

DESK = """
from accord import Context, Server

server = Server("desk")

@server.tool
async def book(ctx: Context) -> str:
    'Ask.'
    return await ctx.elicit("Where?", str)

app = server.asgi(sse=True)
"""
NAMED = "several processes need a store, as in server.asgi(store="


@asynccontextmanager
async def two_processes(folder):
    """Serve with two processes behind a balancer."""
    (folder / "desk.py").write_text(DESK)
    with (
        running_uvicorn(folder, "desk:app", "log0") as first,
        running_uvicorn(folder, "desk:app", "log1") as second,
    ):
        async with Balancer([first, second]) as balancer:
            yield balancer


def logs(folder, number):
    return (folder / f"log{number}").read_text().count(NAMED)


async def wait_until_sessions_are_new(talk, balancer):
    """A session says in which second it was opened: one of the start may be of a predecessor."""
    async with talk(balancer.port) as client:
        for _ in range(1_000):
            balancer.choose = lambda _: 0
            await client.open()
            balancer.choose = lambda _: 1
            response = await client.post(request(2, "ping"))
            assert response.status == 404
            why = await response.error()
            if NAMED in why:
                return
            assert why == "the session is unknown or has ended; initialize anew"
            client.session = None
    raise AssertionError("another process is not named")


@in_loop
async def test_an_answer_at_another_process_names_the_store_in_both_logs(talk, tmp_path, caplog):
    async with two_processes(tmp_path) as balancer:
        await wait_until_sessions_are_new(talk, balancer)
        assert (logs(tmp_path, 0), logs(tmp_path, 1)) == (0, 1)
        # Answers to questions go to one process, and everything else to the other.
        balancer.choose = lambda each: int(
            each.method == "POST" and "result" in json.loads(each.body)
        )

        async with connect(
            f"http://127.0.0.1:{balancer.port}/mcp",
            revision="2025-11-25",
            on_elicit=lambda _: {"value": "here"},
        ) as client:
            calling = asyncio.create_task(client.call_tool("book"))
            await until(lambda: NAMED in caplog.text)
            assert "an answer did not reach the server" in caplog.text
            assert not calling.done()
            calling.cancel()
        assert (logs(tmp_path, 0), logs(tmp_path, 1)) == (0, 1)


@in_loop
async def test_a_session_of_another_process_is_refused_with_the_remedy(talk, tmp_path):
    async with two_processes(tmp_path) as balancer:
        await wait_until_sessions_are_new(talk, balancer)
        async with talk(balancer.port) as client:
            balancer.choose = lambda _: 0
            await client.open()
            balancer.choose = lambda _: 1
            for response in (await client.get(), await client.send("DELETE")):
                assert (response.status, NAMED in await response.error()) == (404, True)
        assert logs(tmp_path, 1) == 1


@pytest.mark.parametrize(
    "change", [lambda made: ("B" if made[0] == "A" else "A") + made[1:], lambda made: "made-up"]
)
@in_loop
async def test_an_id_that_no_process_made_is_unknown(talk, port, change):
    async with talk(port) as client:
        await client.open()
        client.session = change(client.session)
        response = await client.post(request(2, "ping"))
        assert await response.error() == "the session is unknown or has ended; initialize anew"


@in_loop
async def test_a_session_that_has_ended_is_not_taken_for_one_of_another_process(talk, port):
    async with talk(port) as client:
        await client.open()
        assert (await client.send("DELETE")).status == 204
        response = await client.post(request(2, "ping"))
        assert await response.error() == "the session is unknown or has ended; initialize anew"
