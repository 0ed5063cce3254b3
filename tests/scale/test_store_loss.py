"""A store that is away, stands still, or cannot be reached by one worker (scenarios 10 to 12)."""

import asyncio
import time

import pytest

from support.scale.fleet import LINKED, REVISIONS, WORKERS, Fleet, Scenario, in_thread
from support.scale.http_wire import WireBroken
from support.scale.raw_client import RawClient
from support.scale.stores import ValkeyStore
from support.waiting import in_loop, until, until_sync

SHORT, LONG_ENOUGH = 0.7, 4.0
"""Seconds that the store is away: less and more than the workers' patience of 2 s."""

# A file cannot be killed.
each_way = pytest.mark.parametrize(
    ("shared_fleet", "how"),
    [("sqlite", "pause"), ("valkey", "pause"), ("valkey", "kill")],
    indirect=["shared_fleet"],
)
over_network = pytest.mark.parametrize("shared_fleet", ["valkey"], indirect=True)


async def disturb(fleet: Fleet, how: str, seconds: float) -> None:
    """Let the store be away for a while."""
    store = fleet.store
    if how == "kill":
        assert isinstance(store, ValkeyStore)
        await in_thread(store.kill)
        await asyncio.sleep(seconds)
        await in_thread(store.start)
    else:
        await in_thread(store.pause)
        await asyncio.sleep(seconds)
        await in_thread(store.resume)


async def stream_during(scenario: Scenario, fleet: Fleet, how: str, seconds: float) -> None:
    """Let streams run while the store is away; all of them go on afterwards."""
    clients = [await scenario.open(revision) for revision in REVISIONS]
    calls = [
        client.begin("repeatable", f"{client.name}/{number}", steps=40, pause=0.05)
        for client in clients
        for number in range(2)
    ]
    await until(lambda: all(len(call.view.marks) > 2 for call in calls))
    await disturb(fleet, how, seconds)
    await asyncio.gather(*(call.task for call in calls if call.task is not None))
    for call in calls:
        assert call.text.startswith(call.key), call.excerpt()
        if seconds == SHORT:
            assert len({mark.run for mark in call.view.marks}) == 1, call.excerpt()


@each_way
@in_loop
async def test_streams_wait_for_a_store_that_is_away_for_a_moment(fleet: Fleet, how: str) -> None:
    async with fleet.scenario(has_faults=True) as scenario:
        await stream_during(scenario, fleet, how, SHORT)


@each_way
@in_loop
async def test_workers_recover_from_a_store_that_was_away_for_long(fleet: Fleet, how: str) -> None:
    async with fleet.scenario(has_faults=True) as scenario:
        old = await scenario.open()
        away = asyncio.create_task(disturb(fleet, how, LONG_ENOUGH))
        refusals = await open_until_refused(scenario, away)
        await away
        assert refusals, "no new session was refused with 503 while the store was away"
        for number in range(WORKERS):
            await in_thread(fleet.processes.wait_until_ready, number)
        for worker in range(WORKERS):
            call = await old.call("stream", f"{old.name}/{worker}", worker=worker)
            assert call.text.startswith(call.key), call.excerpt()
        new = await scenario.open()
        assert (await new.call("stream", f"{new.name}/1")).outcome == "answered"


async def open_until_refused(scenario: Scenario, away: "asyncio.Task[None]") -> list[int]:
    """Ask for new sessions while the store is away; return the statuses of refusals."""
    statuses: list[int] = []
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "refused", "version": "1"},
        },
    }
    client = RawClient(scenario.balancer.port, name="refused")
    client.head_within = 2 * LONG_ENOUGH
    while not away.done():
        try:
            sent = await client.send("POST", message, what="initialize")
        except WireBroken:
            continue
        await sent.body()
        if sent.status == 503:
            assert "retry-after" in sent.reply.headers, sent.reply.headers
            statuses.append(503)
        else:
            assert sent.status == 200
        await asyncio.sleep(0.05)
    return statuses


@each_way
@in_loop
async def test_requests_that_need_no_store_go_on_while_it_is_away(fleet: Fleet, how: str) -> None:
    async with fleet.scenario(has_faults=True) as scenario:
        client, modern = await scenario.open(), scenario.modern()
        for worker in range(WORKERS):  # each knows the session
            await client.call("quick", f"{client.name}/{worker}", worker=worker)
        away = asyncio.create_task(disturb(fleet, how, LONG_ENOUGH))
        began, served = time.monotonic(), 0
        while not away.done():
            served += 1
            plain = await modern.call("quick", f"{modern.name}/{served}")
            assert plain.text == f"{plain.key}:1"
            streamed = await modern.call("stream", f"{modern.name}/s{served}", steps=2)
            assert len(streamed.view.marks) == 2
            legacy = await client.call("quick", f"{client.name}/q{served}")
            assert legacy.outcome == "answered", legacy.excerpt()
        await away
        assert served > 2, f"{served} calls in {time.monotonic() - began:.1f} s"
        assert modern.recorder.report() == []


@over_network
@in_loop
async def test_a_worker_cut_off_from_the_store_leaves_service_until_it_is_back(
    fleet: Fleet,
) -> None:
    link, processes = fleet.link, fleet.processes
    assert link is not None
    async with fleet.scenario(has_faults=True) as scenario:
        client = await scenario.open(worker=0)
        calls = [
            client.begin("repeatable", f"{client.name}/r", worker=LINKED, steps=60, pause=0.05),
            client.begin("stream", f"{client.name}/s", worker=LINKED, steps=60, pause=0.05),
        ]
        await until(lambda: all(len(call.view.marks) > 3 for call in calls))
        link.blackhole()
        try:
            await in_thread(_wait_until_unready, fleet, LINKED)
            scenario.balancer.away.add(LINKED)
            scenario.balancer.cut_all()
            await asyncio.gather(*(call.task for call in calls if call.task is not None))
        finally:
            link.heal()
        assert calls[0].reason is None
        assert calls[0].text.startswith(calls[0].key)
        assert calls[1].reason == "worker-lost", calls[1].excerpt()
        await in_thread(processes.wait_until_ready, LINKED)
        call = await client.call("stream", f"{client.name}/again", worker=LINKED)
        assert call.text.startswith(call.key)


def _wait_until_unready(fleet: Fleet, number: int) -> None:
    until_sync(lambda: not fleet.processes.is_ready(number))
