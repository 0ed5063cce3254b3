"""Tasks that any of several workers answers for, and what becomes of them when one is lost."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from accord import Context, Principal, Server
from accord.errors import RequestError, ToolError
from accord.server.hub import ServerChange, decode_change, encode_change
from accord.server.tasks import MemoryTaskStore, TaskSettings
from accord.sharing import MemoryBackend
from accord.sharing.workers import names
from accord.testing import connected
from accord.types import ElicitParams, TaskResultParams
from support.asgi import Asgi
from support.listening import ListeningClient
from support.modern import ALL, ModernClient, accept, meta
from support.running import answer_with
from support.together import Mate, in_bounded_virtual_time, loop_clock, serve_together

EXTENSION = "io.modelcontextprotocol/tasks"
CAPABLE = {**ALL, "extensions": {EXTENSION: {}}}
CORE = "2025-11-25"
LOST = "the process that ran this task ended before the task did"


class Trail:
    """What the tools of all workers did, in its order."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.gate: asyncio.Event | None = None

    def wait_at_gate(self) -> asyncio.Event:
        if self.gate is None:
            self.gate = asyncio.Event()
        return self.gate


def make_jobs(trail: Trail, **settings: Any) -> Server[Any]:
    settings.setdefault("tasks", TaskSettings(grace=0))
    server: Server[Any] = Server("jobs", **settings)

    @server.tool(task="optional")
    async def build(seconds: float = 0) -> str:
        """Build."""
        trail.steps.append("build")
        await asyncio.sleep(seconds)
        trail.steps.append("built")
        return "built"

    @server.tool(task="optional")
    async def pass_gate() -> str:
        """Wait until the test opens the gate."""
        trail.steps.append("waiting")
        await trail.wait_at_gate().wait()
        trail.steps.append("passed")
        return "passed"

    @server.tool(task="optional", idempotent=True)
    async def count(ctx: Context, seconds: float = 100) -> str:
        """Count once, then wait in the first run."""
        number = await ctx.once("number", lambda: trail.steps.append("counted") or 7)
        user = ctx.principal and ctx.principal.subject
        trail.steps.append(f"run {ctx.meta.get('note')} {user}")
        if trail.steps.count(trail.steps[-1]) == 1:
            await asyncio.sleep(seconds)
        return f"{number} {ctx.client_info and ctx.client_info.name}"

    @server.tool(task="optional", idempotent=True)
    async def hang() -> str:
        """Never end."""
        trail.steps.append("hang")
        await asyncio.sleep(1_000_000)
        return "never"

    @server.tool(task="optional", idempotent=True)
    async def confirm(ctx: Context) -> str:
        """Ask twice, and wait after the first answer in the first run."""
        name = await ctx.elicit("Name?", str)
        trail.steps.append(f"name {name}")
        if trail.steps.count(f"name {name}") == 1:
            await asyncio.sleep(1_000_000)
        return f"{name}: {await ctx.elicit('Sure?', bool)}"

    @server.tool(task="required", ask_first=True, idempotent=True)
    async def plan(ctx: Context) -> str:
        """Ask before the task, and wait in the first run of it."""
        name = await ctx.elicit("Name?", str)
        await ctx.start_task()
        trail.steps.append("planning")
        if trail.steps.count("planning") == 1:
            await asyncio.sleep(1_000_000)
        return f"plan of {name}"

    @server.tool(task="optional")
    async def delete(ctx: Context, name: str = "a") -> str:
        """Delete a file, if the user agrees."""
        try:
            sure = await ctx.elicit(f"Delete {name}?", bool, timeout=3600)
        except RequestError as error:
            return f"{error.message} {error.is_received}"
        return f"{name}: {sure}"

    @server.tool(task="optional")
    async def fail() -> str:
        """Fail."""
        raise ToolError("no luck")

    return server


def together(trail: Trail, count: int = 2, **options: Any) -> Any:
    settings = options.pop("settings", {})
    return serve_together(lambda: make_jobs(trail, **settings), count, **options)


class Client(ModernClient):
    """A client of 2026-07-28 that understands tasks."""

    async def begin(self, tool: str, note: str | None = None, **arguments: Any) -> str:
        described = meta(CAPABLE) | ({} if note is None else {"note": note})
        params = {"_meta": described, "name": tool, "arguments": arguments}
        answer = await self.ask(next(self._ids), "tools/call", params)
        assert answer["result"]["resultType"] == "task", answer
        return str(answer["result"]["taskId"])

    async def about(self, method: str, id: str, **params: Any) -> Any:
        answer = await self.send_modern(method, capabilities=CAPABLE, taskId=id, **params)
        return answer.get("result") or answer["error"]

    async def get(self, id: str) -> Any:
        return await self.about("tasks/get", id)

    async def settle(self, id: str, *statuses: str) -> Any:
        while True:
            task = await self.get(id)
            if task["status"] in (statuses or ("completed", "failed", "cancelled")):
                return task
            await asyncio.sleep(0.05)


async def clients(stack: AsyncExitStack, *mates: Mate) -> list[Client]:
    return [await stack.enter_async_context(Client(mate.server)) for mate in mates]


def link(mate: Mate, **options: Any) -> Any:
    return connected(mate.server, revision=CORE, transport="http-stream", **options)


def text_of(task: Any) -> str:
    return str(task["result"]["content"][0]["text"])


# -- tasks of the extension


@in_bounded_virtual_time
async def test_any_worker_answers_for_a_task_of_another() -> None:
    trail = Trail()
    async with together(trail) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, *mates)
        id = await here.begin("pass_gate")
        assert (await there.get(id))["status"] == "working"
        trail.wait_at_gate().set()
        assert text_of(await there.settle(id)) == "passed"
        assert (await here.get(id)) == (await there.get(id))
        assert trail.steps == ["waiting", "passed"]


@in_bounded_virtual_time
async def test_a_worker_cancels_the_task_of_another() -> None:
    trail = Trail()
    async with together(trail) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, *mates)
        id = await here.begin("build", seconds=1_000)
        await there.about("tasks/cancel", id)
        assert (await here.get(id))["status"] == "cancelled"
        before = asyncio.get_running_loop().time()
        while mates[0].server._core.tasks.running:
            await asyncio.sleep(0.01)
        # By the notification, not by a look at some later time.
        assert asyncio.get_running_loop().time() - before < 0.5
        assert trail.steps == ["build"]


@in_bounded_virtual_time
async def test_a_lost_notification_is_made_up_for_by_a_look() -> None:
    trail = Trail()

    class Deaf(MemoryBackend):
        async def notify(self, *topics: str) -> None:
            """Lose it."""

    async with (
        together(trail, backend=Deaf(clock=loop_clock)) as mates,
        AsyncExitStack() as stack,
    ):
        here, there = await clients(stack, *mates)
        id = await here.begin("build", seconds=1_000)
        await there.about("tasks/cancel", id)
        while mates[0].server._core.tasks.running:
            await asyncio.sleep(0.1)
        assert trail.steps == ["build"]


@in_bounded_virtual_time
async def test_a_question_is_answered_on_another_worker() -> None:
    trail = Trail()
    async with together(trail, 3) as mates, AsyncExitStack() as stack:
        here, there, third = await clients(stack, *mates)
        id = await here.begin("delete", name="x")
        task = await there.settle(id, "input_required")
        await third.about("tasks/update", id, inputResponses=accept(task, True))
        assert text_of(await there.settle(id)) == "x: True"


@in_bounded_virtual_time
async def test_listeners_on_another_worker_hear_of_a_task() -> None:
    trail = Trail()
    async with together(trail) as mates, AsyncExitStack() as stack:
        (here,) = await clients(stack, mates[0])
        id = await here.begin("pass_gate")
        capable = {"extensions": {EXTENSION: {}}}
        async with ListeningClient(mates[1].server, capabilities=capable) as listening:
            listening.listen(1, taskIds=[id])
            while not listening.notices(1):
                await asyncio.sleep(0.01)
            trail.wait_at_gate().set()
            while len(listening.notices(1)) < 2:
                await asyncio.sleep(0.01)
            heard = listening.notices(1)[1]
            assert heard["method"] == "notifications/tasks"
            assert heard["params"]["status"] == "completed"
            assert text_of(heard["params"]) == "passed"
            await asyncio.sleep(5)
            assert len(listening.notices(1)) == 2  # each change once


@in_bounded_virtual_time
async def test_a_change_of_a_task_can_travel_to_other_workers() -> None:
    trail = Trail()
    async with together(trail, 1) as mates, AsyncExitStack() as stack:
        (here,) = await clients(stack, *mates)
        from accord.server.tasks.watching import task_change

        id = await here.begin("delete")
        await here.settle(id, "input_required")
        record = await mates[0].server._core.tasks.store.get(id)
        assert record is not None
        change = task_change(record, 0)
        again = decode_change(encode_change(change))
        assert isinstance(again, ServerChange)
        assert again == change


# -- tasks of 2025-11-25


@in_bounded_virtual_time
async def test_a_result_is_waited_for_on_another_worker() -> None:
    trail = Trail()
    async with together(trail) as mates, link(mates[0]) as here, link(mates[1]) as there:
        task = await here.start_tool("pass_gate")
        waiting = asyncio.ensure_future(
            there._link.ask("tasks/result", TaskResultParams(task.id), {})
        )
        await asyncio.sleep(5)
        assert not waiting.done()
        trail.wait_at_gate().set()
        assert (await waiting)["content"][0]["text"] == "passed"


@in_bounded_virtual_time
async def test_a_question_is_asked_where_the_result_is_waited_for() -> None:
    asked: list[ElicitParams] = []

    async def answer(params: ElicitParams) -> dict[str, bool]:
        asked.append(params)
        await asyncio.sleep(2)
        return {"value": True}

    async def refuse(params: ElicitParams) -> dict[str, bool]:
        raise AssertionError("the other client was asked")

    trail = Trail()
    async with (
        together(trail) as mates,
        link(mates[0], on_elicit=refuse) as here,
        link(mates[1], on_elicit=answer) as there,
    ):
        task = await here.start_tool("delete", {"name": "f"})
        again = await there.task(task.id)
        assert (await again.result()).text == "f: True"
        assert again.status == "completed"
    assert len(asked) == 1
    assert asked[0].meta == {"io.modelcontextprotocol/related-task": {"taskId": task.id}}


@in_bounded_virtual_time
async def test_a_question_is_asked_once_of_two_requests_that_wait() -> None:
    asked: list[str] = []

    def answer(name: str) -> Any:
        async def answer(params: ElicitParams) -> dict[str, bool]:
            asked.append(name)
            await asyncio.sleep(5)
            return {"value": True}

        return answer

    trail = Trail()
    async with (
        together(trail) as mates,
        link(mates[0], on_elicit=answer("here")) as here,
        link(mates[1], on_elicit=answer("there")) as there,
    ):
        task = await here.start_tool("delete")
        again = await there.task(task.id)
        results = await asyncio.gather(task.result(), again.result())
        assert [each.text for each in results] == ["a: True", "a: True"]
    assert len(asked) == 1


@in_bounded_virtual_time
async def test_a_question_is_asked_elsewhere_when_the_client_is_gone() -> None:
    gone: list[ElicitParams] = []

    async def never(params: ElicitParams) -> None:
        gone.append(params)
        await asyncio.sleep(1_000_000)

    trail = Trail()
    async with together(trail) as mates:
        async with link(mates[0], on_elicit=never, allow=("*",)) as here:
            task = await here.start_tool("delete")
            waiting = asyncio.ensure_future(task.result())
            while not gone:
                await asyncio.sleep(0.01)
            waiting.cancel()
        async with link(mates[1], on_elicit=answer_with(False)) as there:
            again = await there.task(task.id)
            assert (await again.result()).text == "a: False"


@in_bounded_virtual_time
async def test_the_error_of_a_client_reaches_the_handler_on_another_worker() -> None:
    async def refuse(params: ElicitParams) -> None:
        raise RequestError("not now", code=-32050)

    trail = Trail()
    async with (
        together(trail) as mates,
        link(mates[0]) as here,
        link(mates[1], on_elicit=refuse) as there,
    ):
        # The client that starts it has to be able to answer, too.
        async with link(mates[0], on_elicit=refuse) as able:
            task = await able.start_tool("delete")
        again = await there.task(task.id)
        assert (await again.result()).text == "not now True"
        assert (await here.task(task.id)).status == "completed"


@in_bounded_virtual_time
async def test_any_worker_lists_the_tasks_of_a_principal() -> None:
    trail = Trail()
    async with (
        together(trail, settings={"principal": Principal("ann")}) as mates,
        connected(mates[0].server, revision=CORE) as here,
        connected(mates[1].server, revision=CORE) as there,
    ):
        ids = [(await each.start_tool("build")).id for each in (here, there, here, there)]
        for client in (here, there):
            assert [task.id async for task in client.tasks()] == ids


@in_bounded_virtual_time
async def test_all_workers_count_the_unfinished_tasks_of_a_caller_together() -> None:
    trail = Trail()
    settings = {"tasks": TaskSettings(unfinished=3, grace=0)}
    async with together(trail, settings=settings) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, *mates)
        first = await here.begin("pass_gate")
        for client in (there, here):
            await client.begin("pass_gate")
        answer = await there.call("pass_gate", capabilities=CAPABLE)
        assert "busy: 3 tasks of this caller are unfinished" in answer["message"]
        await there.about("tasks/cancel", first)
        await there.begin("pass_gate")


# -- workers that are lost


@in_bounded_virtual_time
async def test_a_task_of_a_lost_worker_fails_once_and_says_why() -> None:
    trail = Trail()
    async with together(trail, 3) as mates, AsyncExitStack() as stack:
        here, there, third = await clients(stack, *mates)
        id = await here.begin("pass_gate")
        mates[0].kill()
        task = await there.settle(id)
        assert task["status"] == "failed"
        assert task["statusMessage"] == LOST
        assert task["error"] == {
            "code": -32603,
            "message": LOST,
            "data": {"reason": "worker-lost"},
        }
        assert await third.get(id) == task
        assert trail.steps == ["waiting"]


@in_bounded_virtual_time
async def test_a_lost_task_is_noticed_by_those_that_wait() -> None:
    trail = Trail()
    capable = {"extensions": {EXTENSION: {}}}
    async with (
        together(trail) as mates,
        link(mates[0]) as here,
        link(mates[1]) as there,
        Client(mates[0].server) as modern,
        ListeningClient(mates[1].server, capabilities=capable) as listening,
    ):
        listening.listen(1, taskIds=[await modern.begin("pass_gate")])
        again = await there.task((await here.start_tool("pass_gate")).id)
        waiting = asyncio.ensure_future(again.result())
        await asyncio.sleep(1)
        mates[0].kill()
        with pytest.raises(RequestError, match="ended before the task did") as caught:
            await waiting
        assert caught.value.data == {"reason": "worker-lost"}
        while len(listening.notices(1)) < 2:
            await asyncio.sleep(0.01)
        assert listening.notices(1)[1]["params"]["status"] == "failed"


@in_bounded_virtual_time
async def test_an_idempotent_task_runs_again_on_another_worker() -> None:
    trail = Trail()
    settings = {"principal": Principal("ann")}
    async with together(trail, settings=settings) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, *mates)
        id = await here.begin("count", note="first")
        while len(trail.steps) < 2:
            await asyncio.sleep(0.01)
        mates[0].kill()
        assert text_of(await there.settle(id)) == "7 raw"
        # What `once` has kept is not done again; the second run knows its caller.
        assert trail.steps == ["counted", "run first ann", "run first ann"]


@in_bounded_virtual_time
async def test_a_task_that_ends_its_workers_is_given_up() -> None:
    trail = Trail()
    async with together(trail, 5) as mates, AsyncExitStack() as stack:
        everyone = await clients(stack, *mates)
        id = await everyone[0].begin("hang")
        alive = list(mates)
        for _ in range(3):
            holder = next(mate for mate in alive if mate.server._core.tasks.running)
            holder.kill()
            alive.remove(holder)
            await asyncio.sleep(10)
        client = everyone[mates.index(alive[0])]
        task = await client.get(id)
        assert (task["status"], task["error"]["data"]) == ("failed", {"reason": "worker-lost"})
        assert trail.steps == ["hang"] * 3


@in_bounded_virtual_time
async def test_a_second_run_is_not_asked_again_what_was_answered() -> None:
    trail = Trail()
    async with together(trail) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, *mates)
        id = await here.begin("confirm")
        first = await there.settle(id, "input_required")
        await there.about("tasks/update", id, inputResponses=accept(first, "Ann"))
        while not trail.steps:
            await asyncio.sleep(0.01)
        mates[0].kill()
        second = await there.settle(id, "input_required")
        assert second["inputRequests"].keys().isdisjoint(first["inputRequests"])
        await there.about("tasks/update", id, inputResponses=accept(second, True))
        assert text_of(await there.settle(id)) == "Ann: True"
        assert trail.steps == ["name Ann"] * 2


@in_bounded_virtual_time
async def test_a_question_that_is_open_when_its_worker_is_lost_stays_open() -> None:
    trail = Trail()
    async with together(trail) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, *mates)
        id = await here.begin("confirm")
        asked = await there.settle(id, "input_required")
        trail.steps.append("name Ann")  # the run after it does not wait
        mates[0].kill()
        await asyncio.sleep(10)
        assert (await there.get(id))["inputRequests"] == asked["inputRequests"]
        await there.about("tasks/update", id, inputResponses=accept(asked, "Ann"))
        while (second := await there.settle(id, "input_required")) == asked:
            await asyncio.sleep(0.01)
        await there.about("tasks/update", id, inputResponses=accept(second, True))
        assert text_of(await there.settle(id)) == "Ann: True"


@in_bounded_virtual_time
async def test_answers_from_before_the_task_are_there_in_its_second_run() -> None:
    trail = Trail()
    async with together(trail) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, *mates)
        asked = await here.call("plan", capabilities=CAPABLE)
        handle = await here.again("plan", asked, "Ann", capabilities=CAPABLE)
        while not trail.steps:
            await asyncio.sleep(0.01)
        mates[0].kill()
        assert text_of(await there.settle(handle["taskId"])) == "plan of Ann"


@in_bounded_virtual_time
async def test_a_question_of_2025_11_25_survives_the_worker_of_its_task() -> None:
    trail = Trail()
    trail.steps.append("name Ann")
    names_asked: list[str] = []

    async def answer(params: ElicitParams) -> dict[str, Any]:
        names_asked.append(params.message)
        return {"value": "Ann" if params.message == "Name?" else True}

    async with (
        together(trail) as mates,
        link(mates[0], on_elicit=answer) as here,
        link(mates[1], on_elicit=answer) as there,
    ):
        task = await here.start_tool("confirm")
        while (await here.task(task.id)).status != "input_required":
            await asyncio.sleep(0.01)
        mates[0].kill()
        again = await there.task(task.id)
        assert (await again.result()).text == "Ann: True"
    assert names_asked == ["Name?", "Sure?"]


@in_bounded_virtual_time
async def test_a_stalled_worker_changes_nothing_after_it_was_taken_over() -> None:
    trail = Trail()
    async with together(trail) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, *mates)
        id = await here.begin("pass_gate")
        while not trail.steps:
            await asyncio.sleep(0.01)
        mates[0].stall()
        # It sees nothing of the store while it stands still.
        mates[0].backend.is_cut = True
        failed = await there.settle(id)
        trail.wait_at_gate().set()
        await asyncio.sleep(1)
        assert trail.steps == ["waiting", "passed"]
        mates[0].backend.is_cut = False
        await asyncio.sleep(20)
        assert not mates[0].server._core.tasks._ending
        assert await there.get(id) == failed
        assert failed["status"] == "failed"


@in_bounded_virtual_time
async def test_the_first_of_two_runs_is_stopped_when_it_wakes() -> None:
    trail = Trail()
    async with together(trail) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, *mates)
        id = await here.begin("hang")
        while not trail.steps:
            await asyncio.sleep(0.01)
        mates[0].stall()
        mates[0].backend.is_cut = True
        while not mates[1].server._core.tasks.running:
            await asyncio.sleep(0.1)
        assert mates[0].server._core.tasks.running  # it knows nothing of it
        mates[0].backend.is_cut = False
        while mates[0].server._core.tasks.running:
            await asyncio.sleep(0.1)
        assert (await there.get(id))["status"] == "working"
        assert trail.steps == ["hang", "hang"]


@in_bounded_virtual_time
async def test_a_worker_that_leaves_hands_its_idempotent_tasks_over() -> None:
    trail = Trail()
    backend = MemoryBackend(clock=loop_clock)
    async with together(trail, 1, backend=backend) as (stays,), Client(stays.server) as there:
        async with together(trail, 1, backend=backend) as (leaves,), Client(leaves.server) as here:
            repeated = await here.begin("hang")
            single = await here.begin("pass_gate")
            while len(trail.steps) < 2:
                await asyncio.sleep(0.01)
        task = await there.get(single)
        assert task["statusMessage"] == "the server stopped before the task was finished"
        while not stays.server._core.tasks.running:
            await asyncio.sleep(0.1)
        assert (await there.get(repeated))["status"] == "working"
        assert trail.steps == ["hang", "waiting", "hang"]


@in_bounded_virtual_time
async def test_a_task_that_is_among_no_recovery_is_found_to_be_lost() -> None:
    trail = Trail()
    async with together(trail) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, *mates)
        id = await here.begin("pass_gate")
        recovery = names.recovery_records_of(mates[0].worker.id)
        await mates[1].backend.remove(recovery, await mates[1].backend.members(recovery))
        mates[0].kill()
        await asyncio.sleep(30)
        assert (await there.get(id))["error"]["data"] == {"reason": "worker-lost"}


@in_bounded_virtual_time
async def test_a_task_that_cannot_run_again_fails_in_place_of_waiting_for_ever() -> None:
    trail = Trail()
    async with together(trail) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, *mates)
        unknown, gone = await here.begin("hang"), await here.begin("count")
        # By a later version that speaks a later revision.
        store = mates[0].server._core.tasks.store
        await store.change(unknown, lambda found: replace(found, revision="2099-01-01"))
        mates[1].server.tool_entries.remove("count")
        mates[0].kill()
        assert (await there.settle(gone))["error"]["data"] == {"reason": "worker-lost"}
        record = await mates[1].server._core.tasks.store.get(unknown)
        assert record is not None
        assert record.status == "failed"
        assert not mates[1].server._core.tasks.running


@in_bounded_virtual_time
async def test_a_call_that_is_given_up_before_its_task_began_leaves_none_behind() -> None:
    trail = Trail()
    backend = MemoryBackend(clock=loop_clock)
    add = backend.add

    async def add_slowly(index: str, members: Any, *, ttl: float) -> None:
        await asyncio.sleep(2)
        await add(index, members, ttl=ttl)

    async with together(trail, backend=backend, lease=1_000) as mates:
        async with Client(mates[0].server) as here:
            backend.add = add_slowly  # type: ignore[method-assign]
            request = {"_meta": meta(CAPABLE), "name": "pass_gate", "arguments": {}}
            here.send({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": request})
            await asyncio.sleep(3)
            here.notify("notifications/cancelled", {"requestId": "x"})
            await asyncio.sleep(30)
        assert not mates[0].server._core.tasks.running
        assert trail.steps == []
        kept = [value for key, value in backend._records.items() if key.startswith("{t")]
        records = [msgspec.msgpack.decode(each.stored.value[1:]) for each in kept]
        assert [each["status"] for each in records] == ["cancelled"]


@in_bounded_virtual_time
async def test_nothing_is_left_in_the_store_of_tasks_that_are_over() -> None:
    trail = Trail()
    backend = MemoryBackend(clock=loop_clock)
    settings = {"tasks": TaskSettings(ttl=600, grace=0)}
    options: Any = {"backend": backend, "settings": settings}
    async with together(trail, **options) as mates, AsyncExitStack() as stack:
        here, there = await clients(stack, *mates)
        for _ in range(3):
            await there.settle(await here.begin("build"))
        cancelled = await here.begin("pass_gate")
        await there.about("tasks/cancel", cancelled)
        await asyncio.sleep(5)
        assert await backend.members(names.recovery_records_of(mates[0].worker.id)) == []
        await asyncio.sleep(700)
        assert (await there.get(cancelled))["code"] == -32602
    assert [key for key in backend._records if key.startswith("{t")] == []
    of_owners = [index for index in backend._indexes if index.startswith("{o")]
    assert [index for index in of_owners if await backend.count(index)] == []


# -- a store that does not answer


@in_bounded_virtual_time
async def test_a_result_waits_for_a_store_that_is_away() -> None:
    trail = Trail()
    async with together(trail, 1, lease=1_000) as mates, AsyncExitStack() as stack:
        (here,) = await clients(stack, *mates)
        id = await here.begin("build", seconds=5)
        await asyncio.sleep(1)
        mates[0].backend.is_cut = True
        answer = await here.get(id)
        assert answer["data"] == {"reason": "store-unavailable"}
        begun = await here.call("build", capabilities=CAPABLE)
        assert begun["data"] == {"reason": "store-unavailable"}
        await asyncio.sleep(60)
        mates[0].backend.is_cut = False
        assert text_of(await here.settle(id)) == "built"


@in_bounded_virtual_time
async def test_a_status_message_is_left_out_while_the_store_is_away() -> None:
    trail = Trail()

    def make() -> Server[Any]:
        server = make_jobs(trail)

        @server.tool(task="optional")
        async def report(ctx: Context) -> str:
            """Report."""
            assert ctx.task is not None
            await asyncio.sleep(1)
            await ctx.task.update("half")
            await asyncio.sleep(5)
            await ctx.task.update("almost")
            await asyncio.sleep(100)
            return "done"

        return server

    async with serve_together(make, 1, lease=1_000) as mates, AsyncExitStack() as stack:
        (here,) = await clients(stack, *mates)
        id = await here.begin("report")
        await asyncio.sleep(0.5)
        mates[0].backend.is_cut = True
        await asyncio.sleep(2)
        mates[0].backend.is_cut = False
        assert "statusMessage" not in await here.get(id)
        await asyncio.sleep(10)
        assert (await here.get(id))["statusMessage"] == "almost"


# -- beside a worker


@in_bounded_virtual_time
async def test_a_store_that_the_author_chose_stays_in_use() -> None:
    trail = Trail()
    store = MemoryTaskStore()
    async with together(trail, 1, settings={"tasks": TaskSettings(store=store, grace=0)}) as mates:
        runner = mates[0].server._core.tasks
        assert runner.store is store
        assert runner.worker is None
        async with Client(mates[0].server) as here:
            assert text_of(await here.settle(await here.begin("build"))) == "built"


@in_bounded_virtual_time
async def test_a_task_over_http_is_fetched_from_another_app() -> None:
    trail = Trail()
    async with together(trail) as mates:
        apps = [Asgi(mate.server.asgi()) for mate in mates]

        async def ask(app: Asgi, method: str, **params: Any) -> Any:
            params["_meta"] = meta(CAPABLE)
            request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            name = params.get("name") or params.get("taskId")
            headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": method, "mcp_name": name}
            return (await app.post(request, **headers)).json["result"]

        handle = await ask(apps[0], "tools/call", name="build", arguments={})
        while (task := await ask(apps[1], "tasks/get", taskId=handle["taskId"]))[
            "status"
        ] == "working":
            await asyncio.sleep(0.01)
        assert text_of(task) == "built"
