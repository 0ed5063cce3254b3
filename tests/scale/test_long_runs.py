"""What takes minutes: very many requests, streams and events; clients of others under faults."""

import asyncio
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.scale.chaos import Chaos
from support.scale.fleet import REVISIONS, WORKERS, Fleet, in_thread, running_fleet
from support.scale.raw_client import RawClient
from support.scale.stores import KINDS
from support.waiting import LONG, run, until

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(2400)]

ROOT = Path(__file__).parents[2]
FOREIGN = ROOT / ".venv-interop" / "bin" / "python"
SDK_CLIENT = ROOT / "tests" / "support" / "scale" / "official_client.py"
TOOLS = "notifications/tools/list_changed"
GIVEN_UP = "reconnection attempts were exhausted"


def test_a_hundred_thousand_requests_survive_ten_minutes_of_faults(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("ACCORD_SCALE_SEED") or random.SystemRandom().randrange(100_000))
    chaos = Chaos(fleet, seed, seconds=1800.0, clients=40, requests=100_000)
    run(chaos.run(), seconds=2300.0)
    with capsys.disabled():
        print(f"\n{fleet.store.kind}: {chaos.summary()}")
    assert chaos.balancer.count >= 100_000


STREAMS = 1000


def test_a_thousand_streams_have_each_change_once(fleet: Fleet) -> None:
    async def scenario() -> None:
        async with fleet.scenario() as scenario:
            clients = []
            for number in range(STREAMS):
                # Without the balancer, which needs two sockets more for each.
                port = fleet.ports[number % WORKERS]
                client = RawClient(port, revision=REVISIONS[number % 3], name=f"many{number}")
                client.silence = 10.0
                await client.open()
                clients.append(client)
            scenario.clients += clients
            listeners = [client.listen() for client in clients]
            await until(lambda: all(each.is_open.is_set() for each in listeners))
            caller = await scenario.open()
            for number in range(100):
                worker = random.randrange(WORKERS)
                await caller.call("change", f"{caller.name}/{number}", worker=worker)
                if number == 50:
                    for listener in listeners:
                        listener.cut()
                await until(
                    lambda number=number: all(
                        len(each.methods) == number + 1 for each in listeners
                    ),
                    seconds=2 * LONG,
                )
            assert {method for each in listeners for method in each.methods} == {TOOLS}

    run(scenario(), seconds=1200.0)


EVENTS, KEPT = 100_000, 1_000


@pytest.fixture(params=KINDS)
def trimming_fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Workers that keep the last thousand events of a stream."""
    with running_fleet(request.param, tmp_path, workers=2, stream_entries=KEPT) as fleet:
        yield fleet


def resident_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def test_a_log_of_a_hundred_thousand_events_is_trimmed(trimming_fleet: Fleet) -> None:
    fleet = trimming_fleet

    async def scenario() -> None:
        async with fleet.scenario() as scenario:
            client = await scenario.open(worker=0)
            await client.call("stream", f"{client.name}/warm", worker=0)
            before = resident_megabytes(fleet.processes.pid(0))
            client.patience = client.silence = 600.0
            call = await client.call("flood", f"{client.name}/f", worker=0, steps=EVENTS)
            client.calls.remove(call)  # the ledger has no line for each event
            assert call.outcome == "answered", call.view.attempts
            assert [mark.number for mark in call.view.marks] == list(range(1, EVENTS + 1))
            after = resident_megabytes(fleet.processes.pid(0))
            assert after - before < 60, f"the worker grew from {before:.0f} to {after:.0f} MB"
            assert await in_thread(fleet.store.entries) < 3 * KEPT

            ids = [seen.id for seen in call.view.seen if seen.id is not None]
            for worker in range(2):
                for id in (ids[0], ids[-KEPT - 10]):
                    sent = await client.send("GET", what="late", worker=worker, Last_Event_ID=id)
                    await sent.body()
                    assert sent.status == 400
                last = ids[-KEPT // 2]
                sent = await client.send("GET", what="again", worker=worker, Last_Event_ID=last)
                body = (await sent.body()).decode()
                found = [line[4:] for line in body.splitlines() if line.startswith("id: ")]
                assert found == ids[-KEPT // 2 + 1 :]

    run(scenario(), seconds=1200.0)


def test_clients_of_the_official_sdk_finish_while_workers_are_replaced(fleet: Fleet) -> None:
    assert FOREIGN.exists(), "`make .venv-interop/ready` installs the official SDK"

    async def scenario() -> None:
        async with fleet.scenario(has_faults=True) as scenario:
            process = await asyncio.create_subprocess_exec(
                str(FOREIGN),
                str(SDK_CLIENT),
                f"http://127.0.0.1:{scenario.port}/mcp",
                "6",
                "10",
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            finished = asyncio.create_task(process.communicate())
            await until(lambda: scenario.balancer.count > 20)
            for number in range(WORKERS):
                if number % 2:
                    await in_thread(fleet.processes.kill, number)
                else:
                    fleet.processes.terminate(number)
                    await in_thread(fleet.processes.wait_for_end, number)
                await in_thread(fleet.processes.restart, number)
            printed, errors = await asyncio.wait_for(finished, 5 * LONG)
            assert process.returncode == 0, errors.decode()[-3000:]
            judge(json.loads(printed), fleet)

    run(scenario(), seconds=600.0)


def judge(found: dict[str, dict[str, dict[str, str]]], fleet: Fleet) -> None:
    """Every result is the right one; what failed names the lost worker, or never began.

    The SDK resumes a stream twice, a second apart. A takeover may take longer on a busy machine.
    """
    given_up = [
        key for key, each in found["outcomes"].items() if GIVEN_UP in each.get("failed", "")
    ]
    assert len(given_up) < 6, given_up
    for key, outcome in found["outcomes"].items():
        text = outcome.get("text", "")
        failed = outcome.get("failed", "")
        if failed:
            is_lost = key.endswith("r") and key not in given_up
            assert not is_lost or not fleet.ledger.has(key, "send"), (key, failed)
            continue
        assert key in text, (key, outcome)
        runs = {step.run for step in fleet.ledger.steps(key) if step.what == "begin"}
        assert len(runs) == 1 or key.endswith("r"), (key, runs)
