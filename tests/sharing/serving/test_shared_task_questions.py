"""Questions of a task of 2025-11-25, asked by another worker than the one that runs it."""

import asyncio
from typing import Any

import msgspec
import pytest

from accord import Context, Server
from accord.errors import MissingCapability, RemoteProtocolError, RequestTimeout
from accord.server.tasks.asking import decode_answer
from accord.testing import connected
from accord.types import ElicitParams
from support.shared import Client, eventually, in_virtual_time, serve_shared
from support.together import in_bounded_virtual_time, serve_together

CORE = "2025-11-25"


class Orders:
    """The tools of all workers, and how their questions ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def make(self) -> Server[Any]:
        server: Server[Any] = Server("orders", ask_timeout=1_000)

        @server.tool(task="optional")
        async def order(ctx: Context, timeout: float = 500, later: bool = False) -> str:
            """Ask how many."""
            try:
                number = await ctx.elicit("How many?", int, timeout=timeout, task=later)
            except (RequestTimeout, MissingCapability, RemoteProtocolError) as error:
                self.ended.append(type(error).__name__)
                await asyncio.sleep(5)
                return f"none: {type(error).__name__}"
            return f"{number} ordered"

        @server.tool(task="optional")
        async def survey(ctx: Context) -> str:
            """Ask three things at once, two of them in the same words."""
            answers = await asyncio.gather(
                ctx.elicit("How many?", int),
                ctx.elicit("How many?", int),
                ctx.roots(),
            )
            return f"{answers[0]} {answers[1]} {len(answers[2])}"

        return server


def link(mate: Any, **options: Any) -> Any:
    options.setdefault("transport", "http-stream")
    return connected(mate.server, revision=CORE, **options)


async def run_elsewhere(tool: str, arguments: dict[str, Any], **options: Any) -> tuple[str, Orders]:
    """Start a task with one worker, and wait for its result at another."""
    orders = Orders()
    async with (
        serve_together(orders.make, 2, lease=1_000) as mates,
        link(mates[0], **options) as here,
        link(mates[1], **options) as there,
    ):
        task = await here.start_tool(tool, arguments)
        again = await there.task(task.id)
        return (await again.result()).text, orders


@in_bounded_virtual_time
async def test_several_questions_are_asked_at_once_by_another_worker() -> None:
    numbers = iter([3, 4])

    async def answer(params: ElicitParams) -> dict[str, int]:
        return {"value": next(numbers)}

    text, _ = await run_elsewhere("survey", {}, on_elicit=answer, roots=["file:///w"])
    assert sorted(text.split()) == ["1", "3", "4"]


@in_bounded_virtual_time
async def test_a_question_that_is_given_up_is_withdrawn_by_the_worker_that_asked() -> None:
    withdrawn: list[bool] = []

    async def never(params: ElicitParams) -> dict[str, int]:
        try:
            await asyncio.sleep(100_000)
        except asyncio.CancelledError:
            withdrawn.append(True)
            raise
        return {"value": 1}

    text, orders = await run_elsewhere("order", {"timeout": 5}, on_elicit=never)
    assert text == "none: RequestTimeout"
    assert orders.ended == ["RequestTimeout"]
    assert withdrawn == [True]


@in_bounded_virtual_time
async def test_a_client_answers_another_worker_by_a_task_of_its_own() -> None:
    async def answer(params: ElicitParams) -> dict[str, int]:
        await asyncio.sleep(30)
        return {"value": 3}

    text, _ = await run_elsewhere("order", {"later": True}, on_elicit=answer)
    assert text == "3 ordered"


@in_virtual_time
async def test_an_answer_that_breaks_the_protocol_reaches_the_handler_as_a_fault() -> None:
    orders = Orders()
    async with serve_shared(orders.make, 2) as crew:
        client = await crew.open(at=0, elicitation={})
        id = await begin(client, 0)
        waiting = client.begin(1, request_result(id))
        asked = await eventually(lambda: [each for each in waiting.messages if "method" in each])
        wrong = {"jsonrpc": "2.0", "id": asked[0]["id"], "result": {"action": "perhaps"}}
        await client.post(1, wrong)
        await eventually(lambda: orders.ended)
        assert orders.ended == ["RemoteProtocolError"]


@in_virtual_time
async def test_a_worker_that_answers_with_plain_json_cannot_ask() -> None:
    orders = Orders()
    async with serve_shared(orders.make, 2, answers="json") as crew:
        client = await crew.open(at=0, elicitation={})
        id = await begin(client, 0)
        answer = await client.post(1, request_result(id))
        assert answer.messages[-1]["result"]["content"][0]["text"] == "none: MissingCapability"


async def begin(client: Client, at: int) -> str:
    answer = await client.ask(at, "tools/call", name="order", arguments={}, task={})
    return str(answer["result"]["task"]["taskId"])


def request_result(id: str) -> Any:
    return {"jsonrpc": "2.0", "id": 9, "method": "tasks/result", "params": {"taskId": id}}


def test_an_answer_that_says_nothing_is_a_fault() -> None:
    with pytest.raises(RemoteProtocolError, match="the answer is empty"):
        decode_answer("elicitation/create", msgspec.json.encode({}))
