"""Streams that stay open, changes, and the end of sessions (scenarios 13 to 17)."""

import asyncio
import json

import pytest

from support.scale.balancer import Fault
from support.scale.fleet import REVISIONS, WORKERS, Fleet, in_thread
from support.scale.raw_client import Listener, RawClient
from support.waiting import LONG, in_loop, until

pytestmark = pytest.mark.integration

TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
UPDATED = "notifications/resources/updated"


async def listen(client: RawClient, worker: int | None = None) -> Listener:
    """Open the standing stream."""
    listener = client.listen(worker=worker)
    await until(lambda: listener.is_open.is_set())
    return listener


@in_loop
async def test_a_second_stream_takes_over_from_one_that_is_half_dead(fleet: Fleet) -> None:
    async with fleet.scenario() as scenario:
        client, other = await scenario.open(), await scenario.open()
        scenario.balancer.inject = lambda exchange: (
            Fault(freeze_after_events=0) if exchange.method == "GET" else None
        )
        client.silence = 600.0  # it does not notice
        first = await listen(client, 0)
        scenario.balancer.inject = None
        second = await listen(client, 1)
        for number in range(1, 4):
            await other.call("change", f"{other.name}/{number}", worker=number)
            wanted = [TOOLS] * number
            await until(lambda wanted=wanted: second.methods == wanted)
        assert first.methods == []


@in_loop
async def test_each_stream_has_each_list_change_once_also_across_a_cut(fleet: Fleet) -> None:
    async with fleet.scenario(policy="round robin") as scenario:
        revisions = [REVISIONS[number % len(REVISIONS)] for number in range(12)]
        clients = [await scenario.open(revision) for revision in revisions]
        listeners = [await listen(client) for client in clients]
        caller = clients[0]
        for number in range(4):
            # Changes of one moment are joined, so that each waits for the one before it.
            await caller.call("change", f"{caller.name}/{number}", worker=number % WORKERS)
            wanted = [TOOLS] * (number + 1)
            await until(lambda wanted=wanted: all(each.methods == wanted for each in listeners))

        scenario.balancer.inject = lambda exchange: (
            Fault(delay=0.3) if exchange.method == "GET" else None
        )
        for listener in listeners:
            listener.cut()
        await until(lambda: not any(each.is_open.is_set() for each in listeners))
        await caller.call("change", f"{caller.name}/p", kind="prompts", worker=1)
        wanted = [TOOLS] * 4 + [PROMPTS]
        await until(lambda: all(each.methods == wanted for each in listeners))
        scenario.balancer.inject = None
        await caller.call("change", f"{caller.name}/t", worker=2)
        wanted.append(TOOLS)
        await until(lambda: all(each.methods == wanted for each in listeners))


@pytest.mark.parametrize("revision", REVISIONS)
@in_loop
async def test_only_subscribers_are_notified_of_an_update_wherever_it_happens(
    fleet: Fleet, revision: str
) -> None:
    async with fleet.scenario() as scenario:
        client, other = await scenario.open(revision), await scenario.open(revision)
        mine, theirs = await listen(client, 2), await listen(other, 3)
        uri = f"note://{client.name}"
        subscribed = await client.request("resources/subscribe", {"uri": uri}, worker=0)
        assert subscribed.outcome == "answered", subscribed.excerpt()
        await other.request("resources/subscribe", {"uri": f"note://{other.name}"}, worker=1)

        await other.call("touch", f"{other.name}/1", uri=uri, worker=1)
        await until(lambda: mine.methods == [UPDATED])
        await other.call("touch", f"{other.name}/2", uri=f"note://{other.name}", worker=2)
        await until(lambda: theirs.methods == [UPDATED])
        assert theirs.view.seen[-1].message["params"]["uri"] == f"note://{other.name}"

        await client.request("resources/unsubscribe", {"uri": uri}, worker=3)
        await other.call("touch", f"{other.name}/3", uri=uri, worker=1)
        await other.call("change", f"{other.name}/4", worker=1)
        await until(lambda: mine.methods[-1:] == [TOOLS])
        assert mine.methods == [UPDATED, TOOLS]


@in_loop
async def test_log_levels_hold_on_every_worker(fleet: Fleet) -> None:
    async with fleet.scenario() as scenario:
        client = await scenario.open(worker=0)
        level = await client.request("logging/setLevel", {"level": "error"}, worker=1)
        assert level.outcome == "answered", level.excerpt()
        for worker in range(WORKERS):
            call = await client.call("repeatable", f"{client.name}/{worker}", worker=worker)
            client.calls.remove(call)  # the audit expects the messages that were not wanted
            assert call.view.marks == [], call.excerpt()
        await client.request("logging/setLevel", {"level": "debug"}, worker=2)
        for worker in range(WORKERS):
            await client.call("repeatable", f"{client.name}/{worker}b", worker=worker)


@in_loop
async def test_ending_a_session_on_one_worker_ends_its_calls_and_streams_everywhere(
    fleet: Fleet,
) -> None:
    async with fleet.scenario() as scenario:
        client = await scenario.open(worker=0)
        listener = await listen(client, 2)
        key = f"{client.name}/s"
        call = client.begin("stream", key, steps=10_000, worker=1)
        await until(lambda: call.view.seen)
        client.calls.remove(call)  # it has no answer
        assert await client.delete(worker=3) == 204
        await until(lambda: fleet.ledger.has(key, "cancel"))
        await until(lambda: listener.is_over)
        assert call.task is not None
        await call.task
        for worker in range(WORKERS):
            refused = await client.call("quick", f"{client.name}/{worker}", worker=worker)
            assert (refused.outcome, refused.status) == ("refused", 404)
            client.calls.remove(refused)
            sent = await client.send("GET", what="listen", worker=worker)
            await sent.body()
            assert sent.status == 404


@in_loop
async def test_a_session_of_one_caller_is_unknown_to_another_on_every_worker(fleet: Fleet) -> None:
    async with fleet.scenario() as scenario:
        client = await scenario.open(user="ann", worker=0)
        call = await client.call("stream", f"{client.name}/s", worker=0)
        stranger = scenario.client(user="bob")
        stranger.session, stranger.is_deleted = client.session, True
        for worker in range(WORKERS):
            refused = await stranger.call("quick", f"{stranger.name}/{worker}", worker=worker)
            assert (refused.outcome, refused.status) == ("refused", 404), refused.excerpt()
            stranger.calls.remove(refused)
            for id in (None, call.view.last_id):
                given = {} if id is None else {"Last_Event_ID": id}
                sent = await stranger.send("GET", what="steal", worker=worker, **given)
                await sent.body()
                assert sent.status == 404
            sent = await stranger.send("DELETE", what="end", worker=worker)
            await sent.body()
            assert sent.status == 404


@in_loop
async def test_a_stream_cannot_be_resumed_by_another_session(fleet: Fleet) -> None:
    async with fleet.scenario() as scenario:
        client, stranger = await scenario.open(worker=0), await scenario.open(worker=1)
        call = await client.call("stream", f"{client.name}/s", worker=0)
        stranger.is_deleted = True  # 404 is right here
        for worker in range(WORKERS):
            for seen in call.view.seen[:3]:
                assert seen.id is not None
                sent = await stranger.send(
                    "GET", what="steal", worker=worker, Last_Event_ID=seen.id
                )
                body = await sent.body()
                assert sent.status in (400, 404), body


@in_loop
async def test_messages_of_the_older_form_may_go_to_any_worker(fleet: Fleet) -> None:
    async with fleet.scenario() as scenario:
        client = scenario.older()
        await client.open(worker=0)
        for worker in range(WORKERS):
            key = f"{client.name}/{worker}"
            assert (await client.call("quick", f"{key}q", worker=worker)).text == f"{key}q:1"
            await client.call("repeatable", f"{key}r", steps=3, worker=worker)
            marks = [mark.number for mark in client.view.marks if mark.key == f"{key}r"]
            assert marks == [1, 2, 3]
            asked = await client.call("ask", f"{key}a", kind="sample", worker=worker)
            assert json.loads(asked.text)[0].endswith(f"@{client.name}")
        assert client.recorder.report() == []
        assert client.statuses == [202] * len(client.statuses)


@in_loop
async def test_a_session_of_the_older_form_ends_with_the_worker_of_its_stream(
    fleet: Fleet,
) -> None:
    async with fleet.scenario() as scenario:
        client = scenario.older()
        await client.open(worker=0)
        await in_thread(fleet.processes.kill, 0)
        await until(lambda: client.is_broken)
        again = scenario.older()
        await again.open(worker=1)
        assert (await again.call("quick", f"{again.name}/q", worker=2)).text == f"{again.name}/q:1"

        async def is_unknown() -> bool:
            message = {"jsonrpc": "2.0", "id": 99, "method": "ping"}
            return await client.post(message, "ping", worker=3) == 404

        async with asyncio.timeout(LONG):
            while not await is_unknown():
                await asyncio.sleep(0.1)
