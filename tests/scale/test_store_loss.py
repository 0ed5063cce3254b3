"""A store that is away, stands still, or cannot be reached by one worker (scenarios 10 to 12)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.scale.fleet import (
    REVISIONS,
    WORKERS,
    Fleet,
    Scenario,
    in_thread,
    running_fleet,
)
from support.scale.http_wire import WireBroken
from support.scale.modern_client import ModernClient
from support.scale.raw_client import RawClient
from support.scale.stores import ValkeyStore
from support.waiting import in_loop, until, until_sync

pytestmark = pytest.mark.integration

LINKED = 1
SHORT, LONG_ENOUGH = 0.7, 3.5
"""Seconds that the store is away: less and more than the workers' patience of 2 s."""


async def disturb(fleet: Fleet, seconds: float, *, is_gentle: bool = False) -> None:
    """Let the store be away for a while: killed, unless it is a file, or gently stopped."""
    store = fleet.store
    if isinstance(store, ValkeyStore) and not is_gentle:
        await in_thread(store.kill)
        await asyncio.sleep(seconds)
        await in_thread(store.start)
    else:
        await in_thread(store.pause)
        await asyncio.sleep(seconds)
        await in_thread(store.resume)


async def stream_during(scenario: Scenario, fleet: Fleet, *, is_gentle: bool) -> None:
    """Let streams run while the store is away for a moment; all of them go on afterwards."""
    clients = [await scenario.open(revision) for revision in REVISIONS]
    calls = [
        client.begin("repeatable", f"{client.name}/{number}", steps=25, pause=0.05)
        for client in clients
        for number in range(2)
    ]
    await until(lambda: all(len(call.view.marks) > 2 for call in calls))
    await disturb(fleet, SHORT, is_gentle=is_gentle)
    await asyncio.gather(*(call.task for call in calls if call.task is not None))
    for call in calls:
        assert call.text.startswith(call.key), call.excerpt()
        assert len({mark.run for mark in call.view.marks}) == 1, call.excerpt()


@in_loop
async def test_streams_wait_for_a_store_that_is_away_for_a_moment(fleet: Fleet) -> None:
    async with fleet.scenario(has_faults=True) as scenario:
        await stream_during(scenario, fleet, is_gentle=False)


@pytest.mark.thorough
@in_loop
async def test_streams_wait_for_a_store_that_stands_still_for_a_moment(fleet: Fleet) -> None:
    async with fleet.scenario(has_faults=True) as scenario:
        await stream_during(scenario, fleet, is_gentle=True)


async def lose_store(fleet: Fleet, *, is_gentle: bool) -> None:
    """Let the store be away for long: what needs it is refused, the rest goes on; all recovers."""
    async with fleet.scenario(has_faults=True) as scenario:
        client, modern = await scenario.open(), scenario.modern()
        for worker in range(WORKERS):  # each knows the session
            await client.call("quick", f"{client.name}/{worker}", worker=worker)
        away = asyncio.create_task(disturb(fleet, LONG_ENOUGH, is_gentle=is_gentle))
        refusals, served = await asyncio.gather(
            open_until_refused(scenario, away), use_without_store(client, modern, away)
        )
        await away
        assert refusals, "no new session was refused with 503 while the store was away"
        assert served > 2
        for number in range(WORKERS):
            await in_thread(fleet.processes.wait_until_ready, number)
        for worker in range(WORKERS):
            call = await client.call("stream", f"{client.name}/s{worker}", worker=worker)
            assert call.text.startswith(call.key), call.excerpt()
        new = await scenario.open()
        assert (await new.call("stream", f"{new.name}/1")).outcome == "answered"
        assert modern.recorder.report() == []


async def use_without_store(
    client: RawClient, modern: ModernClient, away: "asyncio.Task[None]"
) -> int:
    """Make calls that need no store; return how many rounds of them."""
    served = 0
    while not away.done():
        served += 1
        plain = await modern.call("quick", f"{modern.name}/{served}")
        assert plain.text == f"{plain.key}:1"
        streamed = await modern.call("stream", f"{modern.name}/s{served}", steps=2)
        assert len(streamed.view.marks) == 2
        legacy = await client.call("quick", f"{client.name}/q{served}")
        assert legacy.outcome == "answered", legacy.excerpt()
        await asyncio.sleep(0.02)
    return served


@in_loop
async def test_workers_refuse_and_recover_while_the_store_is_away_for_long(fleet: Fleet) -> None:
    await lose_store(fleet, is_gentle=False)


@pytest.mark.thorough
@in_loop
async def test_workers_refuse_and_recover_while_the_store_stands_still(fleet: Fleet) -> None:
    await lose_store(fleet, is_gentle=True)


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


@pytest.fixture
def linked_fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Two workers, one of which reaches its store over a network that can be cut."""
    with running_fleet("valkey", tmp_path, workers=LINKED + 1, store_patience=2.0) as fleet:
        yield fleet


@in_loop
async def test_a_worker_cut_off_from_the_store_leaves_service_until_it_is_back(
    linked_fleet: Fleet,
) -> None:
    fleet, link, processes = linked_fleet, linked_fleet.link, linked_fleet.processes
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
