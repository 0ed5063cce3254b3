"""Requests of 2026-07-28, each of which stands on its own (scenarios 18 to 20)."""

import asyncio
import json

import pytest

from support.scale.balancer import Fault
from support.scale.fleet import WORKERS, Fleet, in_thread
from support.scale.modern_client import ModernClient, is_question
from support.scale.stores import ValkeyStore
from support.waiting import in_loop, until

pytestmark = pytest.mark.integration

ALL_KINDS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
TOOLS = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"
INVALID_PARAMS = -32602


@pytest.mark.parametrize("kind", ["elicit", "sample", "roots"])
@in_loop
async def test_each_round_of_a_question_may_go_to_another_worker(fleet: Fleet, kind: str) -> None:
    async with fleet.scenario() as scenario:
        client = scenario.modern()
        key = f"{client.name}/a"
        workers = tuple(range(WORKERS))
        call = await client.call("ask", key, workers=workers, kind=kind, times=WORKERS)
        assert len(json.loads(call.text)) == WORKERS
        served = [each.view.attempts[0].worker for each in client.calls]
        assert served == [*workers, 0]
        assert client.recorder.report() == []


async def refused(client: ModernClient, round: object, **more: object) -> int | None:
    """Return the code with which a round is refused; None if it is not."""
    params = {"name": "ask", "arguments": {"key": more.pop("key")}, **round}  # type: ignore[dict-item]
    call = await client.request("tools/call", params, name="ask", **more)  # type: ignore[arg-type]
    return (call.response or {}).get("error", {}).get("code")


@in_loop
async def test_state_of_a_round_is_refused_if_it_is_changed_or_of_another_caller(
    fleet: Fleet,
) -> None:
    async with fleet.scenario() as scenario:
        client = scenario.modern(user="ann")
        key = f"{client.name}/a"
        call = await client.call_once("ask", key, worker=0)
        assert is_question(call), call.excerpt()
        round = client.answer_round(call.response["result"])
        state = round["requestState"]
        at = len(state) // 2
        changed = {
            **round,
            "requestState": f"{state[:at]}{'AB'[state[at] == 'A']}{state[at + 1 :]}",
        }
        for worker in range(WORKERS):
            assert await refused(client, changed, key=key, worker=worker) == INVALID_PARAMS
            code = await refused(client, round, key=key, worker=worker, user="bob")
            assert code == INVALID_PARAMS
            assert await refused(client, round, key="other", worker=worker) == INVALID_PARAMS
        done = await client.call_once("ask", key, worker=1, round=round)
        assert json.loads(done.text) == [round["inputResponses"]["q1"]["content"]["value"]]


@in_loop
async def test_listeners_hear_of_a_change_on_another_worker_once(fleet: Fleet) -> None:
    async with fleet.scenario() as scenario:
        client = scenario.modern()
        uri = f"note://{client.name}"
        wanted = {"toolsListChanged": True, "resourceSubscriptions": [uri]}
        listening = [client.listen(wanted, worker=worker) for worker in range(WORKERS)]
        await until(lambda: all(each.is_acknowledged for each in listening))
        for worker in range(WORKERS):
            await client.call_once("change", f"{client.name}/{worker}", worker=worker)
            count = worker + 1
            await until(lambda count=count: all(each.count(TOOLS) == count for each in listening))
        await client.call_once("touch", f"{client.name}/t", uri=uri, worker=0)
        await client.call_once("touch", f"{client.name}/o", uri="note://other", worker=1)
        await client.call_once("touch", f"{client.name}/u", uri=uri, worker=1)
        await until(lambda: all(each.count(UPDATED) == 2 for each in listening))
        assert [each.count(TOOLS) for each in listening] == [WORKERS] * WORKERS
        assert client.recorder.report() == []


@in_loop
async def test_listeners_of_lost_workers_listen_again_at_others(fleet: Fleet) -> None:
    async with fleet.scenario(has_faults=True) as scenario:
        client = scenario.modern()
        listening = client.listen({"toolsListChanged": True}, worker=0)
        await until(lambda: listening.is_acknowledged)
        await in_thread(fleet.processes.kill, 0)
        await until(lambda: listening.is_over)
        again = client.listen({"toolsListChanged": True})
        await until(lambda: again.is_acknowledged)
        await client.call_once("change", f"{client.name}/c", worker=1)
        await until(lambda: again.count(TOOLS) == 1)


@in_loop
async def test_listeners_hear_of_changes_after_the_store_was_away(fleet: Fleet) -> None:
    async with fleet.scenario(has_faults=True) as scenario:
        client = scenario.modern()
        listening = [client.listen(ALL_KINDS, worker=worker) for worker in range(WORKERS)]
        await until(lambda: all(each.is_acknowledged for each in listening))
        store = fleet.store
        if isinstance(store, ValkeyStore):
            await in_thread(store.valkey.restart)
        else:
            await in_thread(store.pause)
            await client.call_once("change", f"{client.name}/during")
            await in_thread(store.resume)
        for number in range(WORKERS):
            await in_thread(fleet.processes.wait_until_ready, number)
        # What a worker says while it is not connected may get lost, hence the repetition.
        for number in range(50):
            await client.call_once("change", f"{client.name}/{number}", worker=number % WORKERS)
            if all(each.count(TOOLS) for each in listening):
                break
            await asyncio.sleep(0.1)
        await until(lambda: all(each.count(TOOLS) for each in listening))


@pytest.mark.parametrize("tool", ["stream", "silent"])
@in_loop
async def test_a_client_that_disconnects_cancels_its_call(fleet: Fleet, tool: str) -> None:
    async with fleet.scenario() as scenario:
        client = scenario.modern()
        key = f"{client.name}/{tool}"
        more = {"steps": 10_000} if tool == "stream" else {"seconds": 100}
        task = asyncio.create_task(client.call_once(tool, key, **more))
        await until(lambda: fleet.ledger.has(key, "begin"))
        for exchange in scenario.balancer.open_exchanges():
            exchange.cut()
        await until(lambda: fleet.ledger.has(key, "cancel"))
        assert (await task).outcome == "unknown"


@in_loop
async def test_calls_behind_a_balancer_that_delays_are_answered_in_any_order(fleet: Fleet) -> None:
    async with fleet.scenario() as scenario:
        client = scenario.modern()
        scenario.balancer.inject = lambda exchange: Fault(delay=exchange.number % 3 * 0.02)
        calls = await asyncio.gather(
            *(client.call("stream", f"{client.name}/{n}", steps=3) for n in range(24))
        )
        for call in calls:
            assert [mark.number for mark in call.view.marks] == [1, 2, 3], call.excerpt()
            assert {mark.key for mark in call.view.marks} == {call.key}
        assert client.recorder.report() == []
