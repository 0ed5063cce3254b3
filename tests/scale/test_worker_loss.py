"""Workers that are killed, stand still for too long, or end in good order (scenarios 6 to 9)."""

import asyncio

import pytest

from support.scale.calls import Call
from support.scale.fleet import REVISIONS, WORKERS, Fleet, Scenario, in_thread
from support.scale.raw_client import RawClient
from support.waiting import in_loop, until

pytestmark = pytest.mark.integration

FENCED = "accord_worker_fenced_appends_total"


async def begin_calls(scenario: Scenario, count: int, *, steps: int = 40) -> list[Call]:
    """Begin calls of three kinds, in sessions of all revisions, on any worker."""
    clients = [await scenario.open(revision) for revision in REVISIONS]
    calls = []
    for number in range(count):
        client = clients[number % len(clients)]
        key = f"{client.name}/{number}"
        tool = ("stream", "repeatable", "ask")[number // len(clients) % 3]
        arguments = {"kind": "sample", "times": 12} if tool == "ask" else {"steps": steps}
        if tool != "ask":
            arguments["pause"] = 0.05
        calls.append(client.begin(tool, key, **arguments))
    await until(lambda: all(call.view.last_id or call.outcome != "open" for call in calls))
    return calls


async def finish(calls: list[Call]) -> None:
    await asyncio.gather(*(call.task for call in calls if call.task is not None))


def check_outcomes(calls: list[Call], hit: set[int]) -> None:
    """Every call that had begun has an outcome; those that may run again have a result."""
    for call in calls:
        if not call.view.seen:
            continue  # refused before its first event
        assert call.outcome == "answered", call.excerpt()
        if call.reason is not None:
            assert call.reason == "worker-lost", call.excerpt()
            assert call.tool != "repeatable", call.excerpt()
            assert call.view.attempts[0].worker in hit, call.excerpt()


@in_loop
async def test_calls_survive_a_killed_worker_or_end_with_one_error(fleet: Fleet) -> None:
    async with fleet.scenario(has_faults=True, policy="round robin") as scenario:
        asking = await scenario.open(worker=1)
        asking.respond = lambda question: None
        asked = asking.begin("ask", f"{asking.name}/a", worker=0, kind="sample")
        client = await scenario.open(worker=1)
        for number in range(1, WORKERS + 1):
            counted = await client.call("count", f"{client.name}/{number}", worker=number % WORKERS)
            assert counted.text == str(number), counted.excerpt()
        again = client.begin("repeatable", f"{client.name}/r", worker=0, steps=30, pause=0.05)
        ended = client.begin("stream", f"{client.name}/s", worker=0, steps=30, pause=0.05)
        calls = await begin_calls(scenario, 18)
        await until(lambda: asking.answers and len(again.view.marks) > 3 and ended.view.marks)
        await in_thread(fleet.processes.kill, 0)

        # The answer to a question of a lost worker does no harm.
        question = asking.answers[0].question
        message = {"jsonrpc": "2.0", "id": question["id"], "result": asking.usual_answer(question)}
        status = await asking.post_notice(message, what="late answer", worker=2)
        assert status in (202, 400, 404)
        await finish([*calls, again, ended, asked])
        assert await asking.post_notice(message, what="late answer", worker=3) in (400, 404)
        assert asked.reason == "worker-lost", asked.excerpt()

        check_outcomes(calls, {0})
        assert again.reason is None
        assert again.text.startswith(again.key)
        assert len({mark.run for mark in again.view.marks}) == 2, again.excerpt()
        assert ended.reason == "worker-lost"
        assert ended.response["error"]["code"] == -32603
        # The state of the session is still there.
        counted = await client.call("count", f"{client.name}/last", worker=1)
        assert counted.text == str(WORKERS + 1)


@pytest.mark.thorough
@in_loop
async def test_calls_survive_two_killed_workers_and_a_new_one(fleet: Fleet) -> None:
    async with fleet.scenario(has_faults=True) as scenario:
        calls = await begin_calls(scenario, 18)
        await in_thread(fleet.processes.kill, 0)
        await in_thread(fleet.processes.kill, 1)
        await in_thread(fleet.processes.restart, 1)
        await finish(calls)
        check_outcomes(calls, {0, 1})
        for client in scenario.clients:
            for worker in (1, 2, 3):
                quick = await client.call("quick", f"{client.name}/q{worker}", worker=worker)
                assert quick.text == f"{quick.key}:1"


def stop_between_writes(fleet: Fleet) -> None:
    """Stop a worker, but not while it writes to a file: nothing else could write there."""
    for _ in range(50):
        fleet.processes.stop(0)
        if not fleet.store.is_locked:
            return
        fleet.processes.resume(0)
    raise AssertionError("the worker writes all the time")


@in_loop
async def test_a_worker_that_stands_still_past_its_lease_changes_nothing_when_it_wakes(
    fleet: Fleet,
) -> None:
    async with fleet.scenario(has_faults=True) as scenario:
        calls = await begin_calls(scenario, 12)
        client = scenario.clients[0]
        certain = [
            client.begin("repeatable", f"{client.name}/r", worker=0, steps=30, pause=0.05),
            client.begin("stream", f"{client.name}/s", worker=0, steps=30, pause=0.05),
        ]
        await until(lambda: all(len(call.view.marks) > 3 for call in certain))
        for each in scenario.clients:
            # The worker accepts connections while it stands still: an answer is sent to it in vain.
            each.head_within = 5.0
        await in_thread(stop_between_writes, fleet)
        await finish([*calls, *certain])
        check_outcomes([*calls, *certain], {0})
        assert certain[0].reason is None
        assert certain[1].reason == "worker-lost"
        fleet.processes.resume(0)
        await in_thread(fleet.processes.wait_until_ready, 0)
        for _ in range(200):  # it finds out soon, whether it writes or not
            metrics = await in_thread(fleet.processes.metrics, 0)
            if metrics.get(FENCED, 0.0) > 0:
                break
            await asyncio.sleep(0.05)
        assert metrics.get(FENCED, 0.0) > 0, sorted(metrics)
        # It takes part again.
        quick = await client.call("stream", f"{client.name}/again", worker=0)
        assert quick.text.startswith(quick.key)


@in_loop
async def test_a_rolling_restart_fails_no_call(fleet: Fleet) -> None:
    async with fleet.scenario() as scenario:
        clients = [await scenario.open(revision) for revision in REVISIONS]
        is_over = asyncio.Event()

        async def keep_calling(client: RawClient) -> None:
            number = 0
            while not is_over.is_set():
                number += 1
                key = f"{client.name}/{number}"
                calls = [
                    client.begin("quick", f"{key}q"),
                    client.begin("stream", f"{key}s", steps=10, pause=0.02),
                    client.begin("ask", f"{key}a", kind="sample", times=3),
                ]
                await finish(calls)

        listeners = [client.listen() for client in clients]
        await until(lambda: all(each.is_open.is_set() for each in listeners))
        work = [asyncio.create_task(keep_calling(client)) for client in clients]
        for number in range(WORKERS):
            scenario.balancer.away.add(number)
            fleet.processes.terminate(number)
            code = await in_thread(fleet.processes.wait_for_end, number)
            assert code == 0, fleet.processes.stderr(number)[-2000:]
            await in_thread(fleet.processes.restart, number)
            scenario.balancer.away.discard(number)
        is_over.set()
        await asyncio.gather(*work)
        change = await clients[0].call("change", f"{clients[0].name}/c")
        assert change.outcome == "answered"
        wanted = "notifications/tools/list_changed"
        await until(lambda: all(wanted in each.methods for each in listeners))


@in_loop
async def test_a_long_call_outlives_the_connection_to_a_worker_that_ends(fleet: Fleet) -> None:
    async with fleet.scenario() as scenario:
        client = await scenario.open("2025-11-25", worker=1)
        key = f"{client.name}/s"
        call = client.begin("stream", key, worker=0, steps=30, pause=0.05)
        await until(lambda: len(call.view.marks) > 3)
        fleet.processes.terminate(0)
        assert call.task is not None
        await call.task
        assert call.text.startswith(key)
        runs = {step.pid for step in fleet.ledger.steps(key)}
        assert len(runs) == 1, "it ran in one worker"
        await in_thread(fleet.processes.wait_for_end, 0)
