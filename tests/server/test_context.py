import asyncio
import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest

from accord import Context, Server, connect
from accord.errors import RequestTimeout
from accord.types import PromptReference
from support.raw import RawClient
from support.tables import cases
from support.waiting import LONG, in_loop, run, until


@dataclass
class Base:
    name: str


@dataclass
class Derived(Base):
    pass


def served(*tools: Any, **settings: Any) -> Server[Any]:
    server = Server("desk", **settings)
    for tool in tools:
        server.add_tool(tool)
    return server


@in_loop
async def test_values_are_kept_by_their_type() -> None:
    async def keep(ctx: Context) -> str:
        ctx.put(Derived("one"))
        ctx.put(Derived("two"))
        ctx.put(3)
        assert ctx.get(int) == 3
        assert ctx.get(Base).name == "two"
        return repr(ctx)

    async with connect(served(keep)) as client:
        result = await client.call_tool("keep", result_type=str)
        assert result == "Context('tools/call', id=1)"


@cases(
    ("mistake", "reported"),
    [
        pytest.param(
            lambda ctx: ctx.progress(float("nan")), "progress is nan of None", id="no number"
        ),
        pytest.param(lambda ctx: ctx.progress("half"), "must be real number", id="text"),
        pytest.param(lambda ctx: ctx.log("loud", "x"), "there is no log level 'loud'", id="level"),
        pytest.param(
            lambda ctx: ctx.sample([{"role": "user"}]),
            "a message is text or a SamplingMessage, not a dict",
            id="message",
        ),
    ],
)
@in_loop
async def test_values_that_the_protocol_does_not_allow_are_refused(
    mistake: Any, reported: str
) -> None:
    async def tell(ctx: Context) -> None:
        await mistake(ctx)

    server = served(tell, debug=True)
    async with connect(server, on_progress=print, on_sample=print) as client:
        result = await client.call_tool("tell")
        assert result.is_error
        assert reported in result.content[0].text  # type: ignore[union-attr]


@in_loop
async def test_wait_is_refused_on_the_loop() -> None:
    async def wrong(ctx: Context) -> str:
        with pytest.raises(RuntimeError, match="use await"):
            ctx.wait(asyncio.sleep(0))
        return "refused"

    def right(ctx: Context) -> str:
        return ctx.wait(asyncio.sleep(0, "waited"))

    async with connect(served(wrong, right)) as client:
        assert await client.call_tool("wrong", result_type=str) == "refused"
        assert await client.call_tool("right", result_type=str) == "waited"


def test_waiting_after_the_cancellation_ends_at_once() -> None:
    outcome: list[str] = []
    cancelled = threading.Event()

    def late(ctx: Context) -> str:
        outcome.append("begun")
        cancelled.wait(60)
        try:
            ctx.wait(asyncio.sleep(60))
        except BaseException as error:
            outcome.append(type(error).__name__)
        return "x"

    async def main() -> None:
        async with connect(served(late)) as client:
            waiting = asyncio.ensure_future(client.call_tool("late"))
            await until(lambda: outcome)
            waiting.cancel()
            await asyncio.wait([waiting])
            cancelled.set()
            await until(lambda: len(outcome) == 2)

    run(main())
    assert outcome == ["begun", "CancelledError"]


@cases("data", [object(), {1: object()}, float("nan"), "\ud800"])
@in_loop
async def test_values_that_json_cannot_express_are_logged_as_text(data: Any) -> None:
    heard: list[Any] = []

    async def speak(ctx: Context) -> str:
        await ctx.warning(data)
        return "x"

    async with connect(served(speak), on_log=heard.append) as client:
        assert await client.call_tool("speak", result_type=str) == "x"
        await until(lambda: heard)


def test_the_log_level_setting_holds_until_the_client_sets_one() -> None:
    heard: list[str] = []

    async def speak(ctx: Context) -> str:
        ctx.info("i")
        ctx.error("e")
        return "x"

    async def main() -> None:
        server = served(speak, log_level="error")
        options = {"on_log": lambda each: heard.append(each.data)}
        async with connect(server, revision="2025-11-25", **options) as client:
            await client.call_tool("speak")
            await until(lambda: heard)

    run(main())
    assert heard == ["e"]


@pytest.mark.requirement("timeouts.established", "timeouts.cancel-by-notification")
@in_loop
async def test_an_unanswered_request_to_the_client_times_out() -> None:
    gave_up = asyncio.Event()

    async def ask(ctx: Context) -> str:
        with pytest.raises(RequestTimeout):
            await ctx.sample("Anybody?", max_tokens=5, timeout=0.05)
        return "nobody"

    async def model(params: Any) -> Any:
        try:
            await asyncio.sleep(60)
        finally:
            gave_up.set()

    async with connect(served(ask), revision="2025-11-25", on_sample=model) as client:
        assert await client.call_tool("ask", result_type=str) == "nobody"
        await gave_up.wait()


@pytest.mark.parametrize("kind", ["tool", "resource", "prompt"])
def test_cancelling_a_threaded_tool_cancels_what_it_waits_for(kind: str) -> None:
    contexts: list[Context] = []
    stopped: list[bool] = []

    def work(ctx: Context) -> str:
        contexts.append(ctx)
        try:
            ctx.wait(asyncio.Event().wait())
        finally:
            stopped.append(ctx.is_cancelled)
        return "x"

    async def main() -> None:
        server = served(work)
        server.add_resource("x://work", work)
        server.add_prompt(work)
        async with connect(server) as client:
            ask = {
                "tool": lambda: client.call_tool("work"),
                "resource": lambda: client.read_resource("x://work"),
                "prompt": lambda: client.get_prompt("work"),
            }[kind]
            waiting = [asyncio.ensure_future(ask()) for _ in range(2)]
            await until(lambda: len(contexts) == 2)
            for each in waiting:
                each.cancel()
            await until(lambda: len(stopped) == 2)
            await until(lambda: not contexts[0]._session._contexts)

    run(main())
    assert stopped == [True, True]


def test_a_plain_tool_that_times_out_sees_is_cancelled() -> None:
    begun: list[bool] = []
    seen: list[bool] = []

    def work(ctx: Context) -> str:
        end = time.monotonic() + LONG
        try:
            begun.append(True)
            while time.monotonic() < end:
                time.sleep(0.001)
        finally:
            while not ctx.is_cancelled and time.monotonic() < end:
                time.sleep(0.001)
            seen.append(ctx.is_cancelled)
        return "x"

    async def main() -> None:
        server = Server("desk")
        server.add_tool(work, timeout=0.05)
        async with connect(server) as client:
            while not begun:  # a busy machine may not come to it in time
                assert (await client.call_tool("work")).is_error
            await until(lambda: seen)

    run(main())
    assert seen == [True]


@in_loop
async def test_a_completer_has_a_context() -> None:
    def names(typed: str) -> list[str]:
        return [Context.current().method]

    server = Server("desk")
    server.add_prompt(lambda name: name, name="greet")
    server.add_completion("greet", "name", names)
    async with connect(server) as client:
        found = await client.complete(PromptReference("greet"), "name", "")
        assert found.values == ["completion/complete"]


@pytest.mark.requirement("elicitation.mode.supported-only")
@in_loop
async def test_a_client_with_url_mode_alone_is_not_asked_by_form() -> None:
    async def choose(ctx: Context) -> str:
        return await ctx.elicit("window or aisle?", str)

    async with RawClient(served(choose)) as raw:
        await raw.open("2025-11-25", elicitation={"url": {}})
        answer = await raw.ask(1, "tools/call", {"name": "choose", "arguments": {}})
        assert answer["result"]["isError"]
        assert answer["result"]["content"][0]["text"] == (
            "the client did not declare elicitation.form"
        )
        assert [each for each in raw.received if "method" in each] == []
