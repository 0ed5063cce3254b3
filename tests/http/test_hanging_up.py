"""Responses that end before the answer, which the client fetches later."""

import asyncio
import json
import re

import pytest

from accord import Context, Server
from accord.http.rules.sse import Decoder
from accord.testing import connected, run_in_virtual_time
from support.asgi import Asgi
from support.http_talk import call, text_of
from support.stateless import Modern
from support.stored_apps import in_one_process
from support.tables import cases
from support.waiting import run


def desk(said):
    server = Server("desk")

    @server.tool
    async def work(
        ctx: Context, retry: int | None = None, delay: float = 1.0, before: int = 0
    ) -> str:
        """Hang up, and go on with the work."""
        for step in range(before):
            await ctx.progress(step)
        if before:
            await asyncio.sleep(0.1)
        said.append(ctx.hang_up(retry=retry))
        await asyncio.sleep(delay)
        await ctx.progress(99)
        await asyncio.sleep(delay)
        return "done"

    @server.tool
    def work_in_thread(ctx: Context) -> str:
        """Hang up from a thread."""
        said.append(ctx.hang_up(retry=10))
        ctx.wait(asyncio.sleep(0.05))
        return "done"

    @server.tool(inline=True)
    def at_once(ctx: Context) -> str:
        """Answer before the connection could be closed."""
        said.append(ctx.hang_up())
        return "done"

    return server


def serve(scenario, *, revision="2025-11-25", in_time=run_in_virtual_time, **options):
    said = []

    async def whole():
        app = desk(said).asgi(**options)
        client = Asgi(app)
        await client.open(revision)
        try:
            await scenario(client)
        finally:
            await app.stop()

    in_time(whole())
    return said


def retries(exchange):
    lines = exchange.body.split(b"\n")
    return [int(line.removeprefix(b"retry: ")) for line in lines if line.startswith(b"retry:")]


def ids(exchange):
    return re.findall(r"^id: (.*)$", exchange.body.decode(), re.MULTILINE)


def messages(exchange):
    return [json.loads(event.data) for event in Decoder().feed(exchange.body) if event.data]


@in_one_process
@pytest.mark.requirement(
    "http.sse.priming-event", "http.sse.retry-before-close", "http.sse.resume-by-get-any-origin"
)
@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("retry", [None, 250])
def test_the_answer_is_fetched_after_the_response_has_ended(retry, before):
    async def scenario(client):
        first = await client.post(call(1, "work", token="t", retry=retry, before=before))
        assert first.headers["content-type"] == "text/event-stream"
        assert b"id: 1-0\ndata: \n\n" in first.body[:60]
        assert len(messages(first)) == before
        assert retries(first) == [1000] + ([] if retry is None else [retry])
        again = client.start("GET", b"", last_event_id=ids(first)[-1], accept="text/event-stream")
        await again.done()
        assert [each.get("method") for each in messages(again)] == ["notifications/progress", None]
        assert text_of(messages(again)[-1]) == "done"
        # The events of the second response are those that follow the first, and none twice.
        assert not {*ids(first)} & {*ids(again)}

    assert serve(scenario) == [True]


def test_the_answer_waits_for_a_client_that_comes_late():
    async def scenario(client):
        first = await client.post(call(1, "work", delay=0.1))
        await asyncio.sleep(5)
        again = await client.start("GET", b"", last_event_id=ids(first)[-1]).done()
        assert text_of(messages(again)[-1]) == "done"

    assert serve(scenario) == [True]


def test_an_answer_that_is_there_at_once_is_sent_at_once():
    async def scenario(client):
        response = await client.post(call(1, "at_once"))
        assert text_of(messages(response)[-1]) == "done"

    assert serve(scenario) == [True]


def test_a_thread_may_hang_up():
    async def scenario(client):
        first = await client.post(call(1, "work_in_thread"))
        again = await client.start("GET", b"", last_event_id=ids(first)[-1]).done()
        assert text_of(messages(again)[-1]) == "done"

    assert serve(scenario, in_time=run) == [True]  # a thread takes real time


@cases(
    ("revision", "options", "headers"),
    [
        ("2025-06-18", {}, {}),
        ("2025-11-25", {"resumable": False}, {}),
        ("2025-11-25", {"answers": "json"}, {}),
        ("2025-11-25", {}, {"accept": "application/json"}),
    ],
)
def test_a_client_that_could_not_come_back_is_not_left(revision, options, headers):
    async def scenario(client):
        response = await client.post(call(1, "work", token="t"), **headers)
        found = messages(response) or [response.json]
        assert text_of(found[-1]) == "done"

    assert serve(scenario, revision=revision, **options) == [False]


@pytest.mark.requirement("http.sse.no-event-ids")
def test_a_request_that_stands_on_its_own_is_not_left():
    said = []

    async def scenario():
        client = Modern(desk(said).asgi())
        assert await client.call("work") == "done"
        await client.app.stop()

    run_in_virtual_time(scenario())
    assert said == [False]


def test_without_http_there_is_nothing_to_hang_up():
    said = []

    async def scenario():
        async with connected(desk(said)) as client:
            assert (await client.call_tool("work")).content[0].text == "done"

    run_in_virtual_time(scenario())
    assert said == [False]
