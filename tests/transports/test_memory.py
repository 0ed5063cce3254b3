import asyncio

from accord import Server, connect


def test_asking_in_a_loop_lets_others_run() -> None:
    server = Server("desk")
    others: list[int] = []

    @server.tool(inline=True)
    def count() -> int:
        return len(others)

    async def work() -> None:
        others.append(1)

    async def main() -> int:
        async with connect(server) as client:
            task = asyncio.create_task(work())
            asked = 0
            while not others and asked < 1_000:
                await client.call_tool("count", {})
                asked += 1
            await task
            return asked

    assert asyncio.run(main()) < 1_000
