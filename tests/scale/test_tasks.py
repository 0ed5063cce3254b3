"""Tasks that are begun, asked for, answered and lost on different workers (scenario 21)."""

import pytest

from support.scale.fleet import WORKERS, Fleet, Scenario, in_thread
from support.scale.watched_tasks import ModernTasks, SessionTasks, TaskClient, WatchedTask
from support.waiting import in_loop, until

pytestmark = pytest.mark.integration

FORMS = ["2025-11-25", "extension"]


async def open_tasks(scenario: Scenario, form: str, worker: int | None = None) -> TaskClient:
    if form == "extension":
        return ModernTasks(scenario.modern(user="ann"))
    return SessionTasks(await scenario.open("2025-11-25", user="ann", worker=worker))


async def start(client: TaskClient, tool: str, worker: int, **more: object) -> WatchedTask:
    task = await client.start(tool, f"{client.name}/{tool}", worker=worker, **more)
    assert isinstance(task, WatchedTask), task.excerpt()
    return task


@pytest.mark.parametrize("form", FORMS)
@in_loop
async def test_a_task_is_known_to_every_worker_until_its_result(fleet: Fleet, form: str) -> None:
    async with fleet.scenario() as scenario:
        client = await open_tasks(scenario, form, 3)
        task = await start(client, "work", 0, steps=10)
        for worker in range(WORKERS):
            await task.look(worker)
        assert await task.wait_for(worker=1) == "completed"
        texts = {client.text_of(await task.result(worker)) for worker in range(WORKERS)}
        (run,) = {step.run for step in fleet.ledger.steps(task.key)}
        assert texts == {f"{task.key}|{run}|10"}


@pytest.mark.parametrize("form", FORMS)
@in_loop
async def test_a_question_of_a_task_is_answered_through_other_workers(
    fleet: Fleet, form: str
) -> None:
    async with fleet.scenario() as scenario:
        client = await open_tasks(scenario, form)
        task = await start(client, "work_and_ask", 0)
        await task.wait_for("input_required", worker=1)
        await client.answer(task, worker=2)
        assert await task.wait_for(worker=3) == "completed"
        assert f"@{client.name}" in client.text_of(await task.result(1))
        said = [step.value for step in fleet.ledger.steps(task.key) if step.what == "answer"]
        assert len(said) == 1
        assert said[0].startswith(f"{task.key}|")


@pytest.mark.parametrize("form", FORMS)
@in_loop
async def test_cancelling_a_task_on_one_worker_stops_it_on_another(fleet: Fleet, form: str) -> None:
    async with fleet.scenario() as scenario:
        client = await open_tasks(scenario, form)
        task = await start(client, "work", 0, steps=10_000)
        await until(lambda: fleet.ledger.has(task.key, "begin"))
        await task.cancel(1)
        assert await task.wait_for(worker=2) == "cancelled"
        await until(lambda: fleet.ledger.has(task.key, "cancel"))
        assert await task.look(3) == "cancelled"


@in_loop
async def test_a_task_of_a_killed_worker_ends_in_one_state(fleet: Fleet) -> None:
    async with fleet.scenario(has_faults=True) as scenario:
        clients = [await open_tasks(scenario, form, 3) for form in FORMS]
        tasks = []
        for client in clients:
            running = await start(client, "work", 0, steps=10_000)
            asking = await start(client, "work_and_ask", 0)
            done = await client.start("work", f"{client.name}/done", worker=0, steps=1)
            assert isinstance(done, WatchedTask)
            await asking.wait_for("input_required", worker=1)
            await done.wait_for("completed", worker=1)
            await until(lambda running=running: fleet.ledger.has(running.key, "send"))
            tasks.append((client, running, asking, done))
        await in_thread(fleet.processes.kill, 0)
        for client, running, asking, done in tasks:
            for worker in (1, 2, 3):
                assert await running.wait_for(worker=worker) == "failed"
                assert await asking.wait_for(worker=worker) == "failed"
                assert await done.look(worker) == "completed"
                assert client.text_of(await done.result(worker)).startswith(done.key)
            runs = {step.run for step in fleet.ledger.steps(running.key)}
            assert len(runs) == 1, runs


@pytest.mark.parametrize("form", FORMS)
@in_loop
async def test_a_task_of_one_caller_is_unknown_to_another(fleet: Fleet, form: str) -> None:
    async with fleet.scenario() as scenario:
        client = await open_tasks(scenario, form)
        task = await start(client, "work", 0, steps=1)
        await task.wait_for(worker=1)
        if form == "extension":
            stranger: TaskClient = ModernTasks(scenario.modern(user="bob"))
        else:
            stranger = SessionTasks(await scenario.open("2025-11-25", user="bob"))
        for worker in range(WORKERS):
            call = await stranger.about("tasks/get", task.id, worker=worker)
            assert call.response["error"]["code"] == -32602, call.excerpt()
