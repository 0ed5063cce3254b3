"""Tasks of sessions of 2025-11-25 that any worker serves: their results, questions and notices."""

import asyncio
from typing import Any

from accord import Context, Server
from support.shared import Answer, Client, Crew, eventually, in_virtual_time, serve_shared

STATUS = "notifications/tasks/status"


class Jobs:
    """The tools of all workers."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.runs = 0

    def make(self) -> Server[Any]:
        server: Server[Any] = Server("jobs")

        @server.tool(task="optional")
        async def pass_gate(ctx: Context) -> str:
            """Wait until the test opens the gate."""
            assert ctx.task is not None
            await ctx.task.update("waiting")
            await self.gate.wait()
            return "passed"

        @server.tool(task="optional", idempotent=True)
        async def repeat(ctx: Context) -> str:
            """Wait for ever in the first run."""
            self.runs += 1
            await ctx.progress(self.runs)
            if self.runs == 1:
                await asyncio.sleep(1_000_000)
            assert ctx.task is not None
            await ctx.task.update("again")
            return "repeated"

        @server.tool(task="optional")
        async def delete(ctx: Context) -> str:
            """Ask."""
            return f"deleted: {await ctx.elicit('Delete?', bool)}"

        return server


async def begin(client: Client, at: int, tool: str) -> str:
    """Begin a task at a worker; return its id."""
    answer = await client.ask(at, "tools/call", name=tool, arguments={}, task={"ttl": 600_000})
    return str(answer["result"]["task"]["taskId"])


def statuses(stream: Answer) -> list[tuple[str, str | None]]:
    return [
        (each["params"]["status"], each["params"].get("statusMessage"))
        for each in stream.messages
        if each["method"] == STATUS
    ]


def ask_result(client: Client, at: int, id: str) -> Answer:
    params = {"taskId": id}
    message = {"jsonrpc": "2.0", "id": 77, "method": "tasks/result", "params": params}
    return client.begin(at, message)


async def kill_and_wait(crew: Crew, at: int) -> None:
    crew[at].kill()
    await asyncio.sleep(10)


@in_virtual_time
async def test_a_client_hears_of_its_task_where_it_listens() -> None:
    jobs = Jobs()
    async with serve_shared(jobs.make, 3) as crew:
        client = await crew.open(at=0)
        stream = await client.listen(1)
        await begin(client, 2, "pass_gate")
        await eventually(lambda: ("working", "waiting") in statuses(stream))
        jobs.gate.set()
        await eventually(lambda: statuses(stream)[-1][0] == "completed")


@in_virtual_time
async def test_a_client_hears_once_that_its_task_was_lost_with_its_worker() -> None:
    jobs = Jobs()
    async with serve_shared(jobs.make, 3) as crew:
        client = await crew.open(at=0)
        stream = await client.listen(1)
        id = await begin(client, 2, "pass_gate")
        await eventually(lambda: statuses(stream))
        await kill_and_wait(crew, 2)
        failed = [each for each in statuses(stream) if each[0] == "failed"]
        assert failed == [("failed", "the process that ran this task ended before the task did")]
        task = (await client.ask(0, "tasks/get", taskId=id))["result"]
        assert task["status"] == "failed"


@in_virtual_time
async def test_a_client_hears_of_the_second_run_of_its_task() -> None:
    jobs = Jobs()
    async with serve_shared(jobs.make, 3) as crew:
        client = await crew.open(at=0)
        stream = await client.listen(1)
        id = await begin(client, 2, "repeat")
        await eventually(lambda: jobs.runs)
        await kill_and_wait(crew, 2)
        assert statuses(stream)[-2:] == [("working", "again"), ("completed", None)]
        answer = await client.ask(0, "tasks/result", taskId=id)
        assert answer["result"]["content"][0]["text"] == "repeated"


@in_virtual_time
async def test_a_result_is_waited_for_on_after_its_worker_is_lost() -> None:
    jobs = Jobs()
    async with serve_shared(jobs.make, 3) as crew:
        client = await crew.open(at=0)
        id = await begin(client, 2, "pass_gate")
        waiting = ask_result(client, 1, id)
        await eventually(lambda: waiting.sent and waiting.all_events)
        last = waiting.all_events[-1].id
        await kill_and_wait(crew, 1)
        resumed = await client.listen(0, last)
        jobs.gate.set()
        await eventually(lambda: resumed.messages)
        (message,) = resumed.messages
        assert message["id"] == 77
        assert message["result"]["content"][0]["text"] == "passed"


@in_virtual_time
async def test_a_question_is_asked_again_after_the_worker_that_asked_is_lost() -> None:
    jobs = Jobs()
    async with serve_shared(jobs.make, 3) as crew:
        client = await crew.open(at=0, elicitation={})
        id = await begin(client, 2, "delete")
        waiting = ask_result(client, 1, id)
        asked = await eventually(lambda: [each for each in waiting.messages if "method" in each])
        assert asked[0]["method"] == "elicitation/create"
        last = waiting.all_events[-1].id
        await kill_and_wait(crew, 1)
        resumed = await client.listen(0, last)
        questions = await eventually(
            lambda: [each for each in resumed.messages if each.get("method") == asked[0]["method"]]
        )
        assert questions[0]["params"] == asked[0]["params"]
        result = {"action": "accept", "content": {"value": True}}
        answered = await client.post(
            2, {"jsonrpc": "2.0", "id": questions[0]["id"], "result": result}
        )
        assert answered.status == 202
        await eventually(lambda: "result" in resumed.messages[-1])
        assert resumed.messages[-1]["result"]["content"][0]["text"] == "deleted: True"


@in_virtual_time
async def test_a_cancelled_task_is_announced_by_the_worker_that_ran_it() -> None:
    jobs = Jobs()
    async with serve_shared(jobs.make, 3) as crew:
        client = await crew.open(at=0)
        stream = await client.listen(1)
        id = await begin(client, 2, "pass_gate")
        await eventually(lambda: statuses(stream))
        await client.ask(0, "tasks/cancel", taskId=id)
        await eventually(lambda: statuses(stream)[-1][0] == "cancelled")
        assert not crew[2].server._core.tasks.running
