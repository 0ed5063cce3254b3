import asyncio

import pytest

from accord import Context, Server, connect
from accord.errors import RequestTimeout
from accord.types import CreateMessageResult, TextContent


def _server() -> Server:
    server = Server("desk")

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask the model."""
        return (await ctx.sample("?")).text

    return server


def test_a_call_does_not_expire_while_the_server_waits_for_our_answer():
    async def slow_model(params: object) -> CreateMessageResult:
        await asyncio.sleep(1.2)
        return CreateMessageResult("assistant", TextContent("yes"), "m")

    async def main() -> str:
        async with connect(_server(), on_sample=slow_model) as client:
            return (await client.call_tool("ask", timeout=0.8)).text

    assert asyncio.run(main()) == "yes"


def test_the_cap_holds_even_then():
    async def never(params: object) -> CreateMessageResult:
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> None:
        async with connect(_server(), on_sample=never) as client:
            await client.call_tool("ask", timeout=0.05, cap=0.3)

    with pytest.raises(RequestTimeout):
        asyncio.run(main())
