"""Questions of a server with a handshake, for clients that are asked through rounds."""

import asyncio
from typing import Any

import pytest

from accord import Context, Principal, Server
from compose.proxied import hub_of, source_of
from support.modern import ModernClient, accept, meta
from support.running import in_virtual_time


def make(revision: Any = "2025-11-25") -> tuple[Server[Any], list[str]]:
    server: Server[Any] = Server("desk", revisions=[revision])
    ended: list[str] = []

    @server.tool
    async def book(ctx: Context, name: str) -> str:
        """Ask twice."""
        try:
            city = await ctx.elicit(f"{name}: where?", str)
            await ctx.progress(1, message="asked once")
            await ctx.info("asked once")
            day = await ctx.elicit(f"{name}: when?", str)
        except asyncio.CancelledError:
            ended.append(name)
            raise
        return f"{name} goes to {city} on {day}"

    @server.tool
    async def ponder(ctx: Context, seconds: float) -> str:
        """Ask, then take long."""
        await ctx.elicit("Sure?", bool)
        await asyncio.sleep(seconds)
        return "pondered"

    @server.tool(task="required")
    async def confirm(ctx: Context) -> str:
        """Ask within a task."""
        return f"sure: {await ctx.elicit('Sure?', bool)}"

    return server, ended


def asked(result: Any) -> list[str]:
    return [each["params"]["message"] for each in result["inputRequests"].values()]


@in_virtual_time
async def test_a_call_waits_from_round_to_round() -> None:
    server, _ = make()
    async with ModernClient(hub_of(server)) as client:
        first = await client.call("book", arguments={"name": "a"})
        assert asked(first) == ["a: where?"]
        second = await client.again("book", first, "Oslo", arguments={"name": "a"})
        assert asked(second) == ["a: when?"]
        done = await client.again("book", second, "Monday", arguments={"name": "a"})
        assert done["content"][0]["text"] == "a goes to Oslo on Monday"


@in_virtual_time
async def test_two_calls_at_once_get_all_their_answers() -> None:
    server, _ = make()
    async with ModernClient(hub_of(server)) as client:

        async def book(name: str, city: str) -> str:
            result = await client.call("book", arguments={"name": name})
            while "inputRequests" in result:
                # A question of the other call may come with this one: they are of one client.
                answers = [
                    {"a": "Oslo", "b": "Rome"}[text[0]] if "where" in text else f"day {text[0]}"
                    for text in asked(result)
                ]
                result = await client.again("book", result, *answers, arguments={"name": name})
            return str(result["content"][0]["text"])

        found = await asyncio.gather(book("a", "Oslo"), book("b", "Rome"))
    assert found == ["a goes to Oslo on day a", "b goes to Rome on day b"]


@in_virtual_time
async def test_a_question_does_not_wait_for_a_client_that_left_another_call() -> None:
    server, _ = make()
    async with ModernClient(hub_of(server)) as client:
        await client.call("book", arguments={"name": "left"})
        first = await client.call("book", arguments={"name": "a"})
        assert asked(first) == ["a: where?"]
        second = await client.again("book", first, "Oslo", arguments={"name": "a"})
        assert asked(second) == ["a: when?"]


@in_virtual_time
async def test_a_state_is_taken_once() -> None:
    server, _ = make()
    async with ModernClient(hub_of(server)) as client:
        first = await client.call("book", arguments={"name": "a"})
        await client.again("book", first, "Oslo", arguments={"name": "a"})
        replayed = await client.again("book", first, "Rome", arguments={"name": "a"})
        assert replayed["code"] == -32602
        assert "used before" in replayed["message"]
        other = await client.call("book", arguments={"name": "b"})
        moved = await client.again("book", other, "Oslo", arguments={"name": "c"})
        assert "another request" in moved["message"]


@in_virtual_time
async def test_an_answer_after_a_restart_of_the_proxy_is_refused_clearly() -> None:
    server, ended = make()
    keys = ["k" * 32]
    async with ModernClient(hub_of(server, settings={"state_keys": keys})) as client:
        first = await client.call("book", arguments={"name": "a"})
    assert ended == ["a"]
    async with ModernClient(hub_of(server, settings={"state_keys": keys})) as client:
        late = await client.again("book", first, "Oslo", arguments={"name": "a"})
    assert late["code"] == -32602
    assert "not under way any more; begin again" in late["message"]


@in_virtual_time
async def test_a_call_whose_client_never_comes_back_is_given_up() -> None:
    server, ended = make()
    hub = hub_of(server, round_timeout=30)
    async with ModernClient(hub) as client:
        first = await client.call("book", arguments={"name": "a"})
        await asyncio.sleep(29)
        assert not ended
        await asyncio.sleep(2)
        assert ended == ["a"]
        assert not source_of(hub).upstream.parked
        late = await client.again("book", first, "Oslo", arguments={"name": "a"})
        assert "not under way any more; begin again" in late["message"]


@in_virtual_time
async def test_a_call_whose_questions_are_answered_may_take_longer() -> None:
    server, _ = make()
    async with ModernClient(hub_of(server, round_timeout=30)) as client:
        first = await client.call("ponder", arguments={"seconds": 100})
        done = await client.again("ponder", first, True, arguments={"seconds": 100})
    assert done["content"][0]["text"] == "pondered"


@in_virtual_time
async def test_progress_and_logs_reach_the_round_that_waits() -> None:
    server, _ = make()
    async with ModernClient(hub_of(server)) as client:
        call = {"name": "book", "arguments": {"name": "a"}}
        first = await client.ask(1, "tools/call", {**call, "_meta": meta(logLevel="info")})
        first = first["result"]
        again = {
            **call,
            "requestState": first["requestState"],
            "inputResponses": accept(first, "Oslo"),
            "_meta": {**meta(logLevel="info"), "progressToken": "p"},
        }
        await client.ask(2, "tools/call", again)
        notices = {each["method"]: each["params"] for each in client.received if "method" in each}
    assert notices["notifications/progress"]["progressToken"] == "p"
    assert notices["notifications/message"]["data"] == "asked once"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_task_may_ask(revision: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        server, _ = make(revision)
        async with ModernClient(hub_of(server)) as client:
            first = await client.call("confirm")
            assert asked(first) == ["Sure?"]
            done = await client.again("confirm", first, True)
            assert done["content"][0]["text"] == "sure: True"
            assert "taskId" not in done

    scenario()


@in_virtual_time
async def test_the_state_of_another_caller_is_refused() -> None:
    server, _ = make()
    hub = hub_of(server)
    ann, ben = (hub.acting_as(Principal(name)) for name in ("ann", "ben"))
    async with ModernClient(ann) as hers, ModernClient(ben) as his:
        first = await hers.call("book", arguments={"name": "a"})
        stolen = await his.again("book", first, "Rome", arguments={"name": "a"})
        assert stolen["code"] == -32602
        assert "another user" in stolen["message"]
        second = await hers.again("book", first, "Oslo", arguments={"name": "a"})
        assert asked(second) == ["a: when?"]


@in_virtual_time
async def test_middleware_of_the_hub_may_keep_values_from_round_to_round() -> None:
    server, _ = make()
    kept: list[int] = []

    async def count(ctx: Context, proceed: Any) -> Any:
        if ctx.method == "tools/call":
            kept.append(await ctx.once("number", lambda: len(kept)))
        return await proceed()

    hub = hub_of(server, settings={"middleware": [count]})
    async with ModernClient(hub) as client:
        result = await client.call("book", arguments={"name": "a"})
        for value in ("Oslo", "Monday"):
            result = await client.again("book", result, value, arguments={"name": "a"})
    assert result["content"][0]["text"] == "a goes to Oslo on Monday"
    assert kept == [0, 0, 0]
