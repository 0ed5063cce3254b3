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


def test_a_handler_that_ignores_its_cancellation_delays_no_close(caplog, monkeypatch) -> None:
    monkeypatch.setattr("accord.runtime.wire._GRACE", 0.05)
    server = Server("desk")
    begun = asyncio.Event()

    @server.tool
    async def ignore() -> str:
        begun.set()
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if "did not stop" in caplog.text:
                    raise

    async def main() -> None:
        async with connect(server) as client:
            waiting = asyncio.ensure_future(client.call_tool("ignore"))
            await begun.wait()
        await asyncio.wait([waiting])
        assert waiting.exception() is not None

    asyncio.run(asyncio.wait_for(main(), 60))
    assert "did not stop although they were cancelled" in caplog.text


def test_a_wire_that_is_gone_takes_nothing_and_may_be_closed_again() -> None:
    async def main() -> None:
        received: list[bytes] = []
        wire = await Server("desk").connect_memory()
        wire.abort()
        await wire.open(received.append, lambda why: None)
        wire.abort()
        wire.abort()
        wire.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        await wire.close()
        await wire.close()
        assert received == []

    asyncio.run(main())
