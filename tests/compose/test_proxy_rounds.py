"""Clients of 2026-07-28 before a server that asks while it works: calls wait between the rounds."""

import asyncio
from typing import Any

import pytest

from accord import Context, Server, connect
from accord.compose import proxy
from accord.errors import RequestError
from accord.principal import Principal
from accord.types import (
    CallToolResult,
    ClientCapabilities,
    ElicitationCapability,
    ElicitResult,
    InputRequiredResult,
)
from support.waiting import in_loop, until

ABLE = ClientCapabilities(elicitation=ElicitationCapability(form={}))
KEYS = [b"k" * 32]


class Asking:
    """A server of 2025-06-18 that asks in its one tool, and notes how its calls end."""

    def __init__(self) -> None:
        self.server: Server[Any] = Server("asking", revisions=["2025-06-18"])
        self.begun: list[str] = []
        self.cancelled: list[str] = []

        @self.server.tool
        async def order(ctx: Context[Any], what: str) -> str:
            """Order something, after a question."""
            self.begun.append(what)
            try:
                size = await ctx.elicit(f"size of {what}?", str)
            except asyncio.CancelledError:
                self.cancelled.append(what)
                raise
            return f"{what} {size}"


def hub_before(asking: Asking, **options: Any) -> Server[Any]:
    hub: Server[Any] = Server("hub", state_keys=KEYS)
    hub.mount(proxy(asking.server, name="asking", **options))
    return hub


async def begin(client: Any, what: str) -> InputRequiredResult:
    asked = await client.rounds.call_tool("order", {"what": what}, capabilities=ABLE)
    assert isinstance(asked, InputRequiredResult)
    return asked


async def answer(client: Any, what: str, asked: InputRequiredResult, size: str) -> Any:
    (key,) = asked.input_requests or {}
    reply = ElicitResult("accept", {"value": size})
    how = {"answers": {key: reply}, "state": asked.request_state, "capabilities": ABLE}
    return await client.rounds.call_tool("order", {"what": what}, **how)


def question_of(asked: InputRequiredResult) -> str:
    (request,) = (asked.input_requests or {}).values()
    return str(request.params.message)  # type: ignore[union-attr]


@in_loop
async def test_two_calls_that_wait_get_their_own_answers_and_run_once() -> None:
    asking = Asking()
    async with connect(hub_before(asking), revision="2026-07-28") as client:
        first = await begin(client, "shoes")
        second = await begin(client, "hats")
        assert [question_of(first), question_of(second)] == ["size of shoes?", "size of hats?"]
        hats = await answer(client, "hats", second, "M")
        shoes = await answer(client, "shoes", first, "42")
        assert [shoes.text, hats.text] == ["shoes 42", "hats M"]
    assert asking.begun == ["shoes", "hats"]


@in_loop
async def test_a_call_whose_client_does_not_come_back_is_given_up() -> None:
    asking = Asking()
    hub = hub_before(asking, round_timeout=0.05)
    async with connect(hub, revision="2026-07-28") as client:
        asked = await begin(client, "shoes")
        await until(lambda: asking.cancelled == ["shoes"])
        with pytest.raises(RequestError, match="not under way any more; begin again"):
            await answer(client, "shoes", asked, "42")
        assert isinstance(await begin(client, "hats"), InputRequiredResult)


@in_loop
async def test_an_answer_after_a_restart_of_the_proxy_is_refused_with_the_reason() -> None:
    asking = Asking()
    async with connect(hub_before(asking), revision="2026-07-28") as client:
        asked = await begin(client, "shoes")
    async with connect(hub_before(asking), revision="2026-07-28") as client:
        with pytest.raises(RequestError, match="not under way any more; begin again"):
            await answer(client, "shoes", asked, "42")


@in_loop
async def test_an_answer_is_used_once() -> None:
    asking = Asking()
    async with connect(hub_before(asking), revision="2026-07-28") as client:
        asked = await begin(client, "shoes")
        done = await answer(client, "shoes", asked, "42")
        assert isinstance(done, CallToolResult)
        with pytest.raises(RequestError):
            await answer(client, "shoes", asked, "43")
    assert asking.begun == ["shoes"]


@in_loop
async def test_another_caller_cannot_answer() -> None:
    asking = Asking()
    hub = hub_before(asking)
    ann, bob = (hub.acting_as(Principal(name)) for name in ("ann", "bob"))
    async with (
        connect(ann, revision="2026-07-28") as first,
        connect(bob, revision="2026-07-28") as second,
    ):
        asked = await begin(first, "shoes")
        with pytest.raises(RequestError):
            await answer(second, "shoes", asked, "42")
        assert (await answer(first, "shoes", asked, "42")).text == "shoes 42"


@in_loop
async def test_a_cancelled_round_cancels_the_call() -> None:
    asking = Asking()
    release = asyncio.Event()

    @asking.server.tool
    async def wait(ctx: Context[Any]) -> str:
        """Wait."""
        asking.begun.append("wait")
        try:
            await release.wait()
        except asyncio.CancelledError:
            asking.cancelled.append("wait")
            raise
        return "done"

    async with connect(hub_before(asking), revision="2026-07-28") as client:
        call = asyncio.create_task(client.rounds.call_tool("wait", capabilities=ABLE))
        await until(lambda: asking.begun)
        call.cancel()
        await until(lambda: asking.cancelled == ["wait"])
