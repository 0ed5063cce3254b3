"""Two versions of the library side by side, and keys that are changed, during a rolling restart."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from accord.sharing.backends.sealed_backend import KeyRing, SealedBackend
from accord.sharing.backends.urls import open_backend
from accord.sharing.workers import names
from support.scale.fleet import WORKERS, Fleet, in_thread, running_fleet
from support.scale.processes import KEYS
from support.scale.raw_client import RawClient
from support.scale.served_tools import NAME
from support.scale.stores import KINDS
from support.waiting import in_loop, run, until

pytestmark = pytest.mark.integration

LATER = 99
"""A format that no version knows."""


@asynccontextmanager
async def looking_into(fleet: Fleet) -> AsyncIterator[SealedBackend]:
    """The store as a worker sees it."""
    backend = SealedBackend(open_backend(fleet.store.url, namespace=NAME), KeyRing(KEYS))
    await backend.open()
    try:
        yield backend
    finally:
        await backend.close()


async def new_session(fleet: Fleet, backend: SealedBackend, client: RawClient, worker: int) -> str:
    """Open a session on a worker; return its name in the store."""
    before = set(await backend.members(names.SESSIONS, limit=10_000))
    await client.open(worker=worker)
    (sid,) = set(await backend.members(names.SESSIONS, limit=10_000)) - before
    return sid


async def change_record(backend: SealedBackend, name: str, **members: object) -> None:
    """Write a record as another version would."""
    stored = await backend.get(name)
    assert stored is not None
    value = {**msgspec.msgpack.decode(stored.value), **members}
    await backend.put(name, msgspec.msgpack.encode(value), ttl=600.0, expect=stored.version)


async def read_record(backend: SealedBackend, name: str) -> dict[str, object]:
    stored = await backend.get(name)
    assert stored is not None
    found: dict[str, object] = msgspec.msgpack.decode(stored.value)
    return found


@in_loop
async def test_a_session_keeps_what_a_later_version_added_to_it(fleet: Fleet) -> None:
    async with fleet.scenario() as scenario, looking_into(fleet) as backend:
        client = scenario.client()
        name = names.session_of(await new_session(fleet, backend, client, 0))
        await change_record(backend, name, colour="blue")
        for worker in range(WORKERS):
            call = await client.call("count", f"{client.name}/{worker}", worker=worker)
            assert call.text == str(worker + 1)
            await client.request("logging/setLevel", {"level": "error"}, worker=worker)
        record = await read_record(backend, name)
        assert record["colour"] == "blue"
        assert record["log_level"] == "error"


@in_loop
async def test_a_session_that_needs_a_later_version_is_left_to_its_workers(fleet: Fleet) -> None:
    async with fleet.scenario(has_faults=True) as scenario, looking_into(fleet) as backend:
        client = scenario.client()
        name = names.session_of(await new_session(fleet, backend, client, 0))
        await change_record(backend, name, needs=LATER, holders=[], log_level="noise")
        before = await read_record(backend, name)
        for worker in range(1, WORKERS):
            message = {"jsonrpc": "2.0", "id": worker, "method": "ping"}
            sent = await client.send("POST", message, what="ping", worker=worker)
            await sent.body()
            assert sent.status == 503
            assert "retry-after" in sent.reply.headers
        assert await read_record(backend, name) == before


@in_loop
async def test_a_call_of_a_later_version_is_not_run_again_by_this_one(fleet: Fleet) -> None:
    async with fleet.scenario(has_faults=True) as scenario, looking_into(fleet) as backend:
        client = scenario.client()
        sid = await new_session(fleet, backend, client, 1)
        key = f"{client.name}/r"
        call = client.begin("repeatable", key, worker=0, steps=100, pause=0.05)
        await until(lambda: len(call.view.marks) > 2)
        assert call.view.last_id is not None
        label = call.view.last_id.partition("-")[0]
        await change_record(backend, names.call_of(sid, label), needs=LATER)
        await in_thread(fleet.processes.kill, 0)
        assert call.task is not None
        await call.task
        assert call.reason == "worker-lost", call.excerpt()
        assert len({step.run for step in fleet.ledger.steps(key)}) == 1


# -- keys

OTHER_KEY = "f" * 32
WITH_KEYS = 2
RINGS = [[*KEYS, OTHER_KEY], [OTHER_KEY, *KEYS], [OTHER_KEY]]
"""The new key is known everywhere before it seals, and the old one goes when nothing has it."""


@pytest.fixture(params=KINDS)
def keyed_fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    with running_fleet(request.param, tmp_path, workers=WITH_KEYS, users=True) as fleet:
        yield fleet


def change_keys(fleet: Fleet, ring: list[str]) -> None:
    """Restart the workers one after the other with other keys."""
    processes = fleet.processes
    for number in range(WITH_KEYS):
        processes.own_options[number]["store_keys"] = ring
        processes.terminate(number)
        processes.wait_for_end(number)
        processes.restart(number)


@pytest.mark.thorough
def test_sessions_and_rounds_go_on_while_keys_are_changed(keyed_fleet: Fleet) -> None:
    fleet = keyed_fleet

    async def scenario() -> None:
        async with fleet.scenario(has_faults=True) as scenario:
            client, modern = await scenario.open(), scenario.modern(user="ann")
            for number, ring in enumerate(RINGS[:2]):
                asked = await modern.call_once("ask", f"{modern.name}/{number}")
                streamed = await client.call("stream", f"{client.name}/{number}")
                await in_thread(change_keys, fleet, ring)
                round = modern.answer_round(asked.response["result"])
                done = await modern.call_once("ask", f"{modern.name}/{number}", round=round)
                assert "result" in done.response, done.excerpt()
                counted = await client.call("count", f"{client.name}/c{number}")
                assert counted.text == str(number + 1)
                first = streamed.view.seen[0].id
                assert first is not None
                again = await client.send("GET", what="again", Last_Event_ID=first)
                assert again.status == 200
                await again.body()
            new = await scenario.open()
            await in_thread(change_keys, fleet, RINGS[2])
            assert (await new.call("count", f"{new.name}/c")).text == "1"
            # What only the old key has sealed is unknown now.
            refused = await client.call("quick", f"{client.name}/q")
            assert refused.status == 404
            client.is_deleted = True
            client.calls.remove(refused)
            await asyncio.sleep(0)

    run(scenario())
