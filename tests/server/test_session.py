import asyncio
import logging
import threading
from typing import Any

import pytest

from accord import Context, Server, connect
from accord.errors import LocalProtocolError
from support.raw import RawClient
from support.running import in_virtual_time
from support.waiting import in_loop, run, until


def server_with(*tools: Any) -> Server[Any]:
    server = Server("desk")
    for tool in tools:
        server.add_tool(tool)
    return server


@in_loop
async def test_changes_before_the_handshake_are_not_announced() -> None:
    server = server_with(lambda_tool)
    async with RawClient(server) as raw:
        server.add_tool(lambda: "x", name="early")
        await raw.open()
        await asyncio.sleep(0.05)
        assert [each for each in raw.received if "method" in each] == []


def lambda_tool() -> str:
    return "x"


@in_loop
async def test_changes_may_be_made_in_any_thread() -> None:
    server = server_with(lambda_tool)
    heard: list[str] = []
    # A loop that is watched refuses what other threads do to it.
    asyncio.get_running_loop().set_debug(True)
    async with connect(server, on_tools_changed=lambda: heard.append("tools")):
        thread = threading.Thread(target=lambda: server.add_tool(lambda: "x", name="from a thread"))
        thread.start()
        await until(lambda: heard)
        thread.join()


@in_loop
async def test_notifications_without_a_declared_capability_are_left_out(caplog: Any) -> None:
    server = server_with(lambda_tool)
    async with RawClient(server) as raw:
        await raw.open()
        with caplog.at_level(logging.DEBUG, "accord.server"):
            server.add_prompt(lambda: "x", name="late")
            await until(lambda: "left out notifications/prompts/list_changed" in caplog.text)
        assert [each for each in raw.received if "method" in each] == []


@in_loop
async def test_a_closed_session_gets_no_notifications() -> None:
    kept: list[Context[Any]] = []

    async def keep(ctx: Context) -> str:
        kept.append(ctx)
        return "x"

    server = server_with(keep)
    async with connect(server) as client:
        await client.call_tool("keep")
        server.add_tool(lambda: "x", name="late")
    context = kept[0]
    await context.info("not sent")
    context.progress(1)
    assert not context._session.is_ready
    await asyncio.sleep(0.03)


def test_after_the_loop_is_closed_nothing_is_raised_in_threads() -> None:
    kept: list[Context[Any]] = []

    async def keep(ctx: Context) -> str:
        kept.append(ctx)
        return "x"

    async def main() -> None:
        async with connect(server) as client:
            await client.call_tool("keep", on_progress=lambda each: None)

    server = server_with(keep)
    run(main())
    thread_errors: list[BaseException] = []

    def tell() -> None:
        try:
            kept[0].progress(5)
            kept[0]._session.dispatcher.closed = None
            kept[0].info("x")
            kept[0].session.list_changed("tools")
        except BaseException as error:
            thread_errors.append(error)

    thread = threading.Thread(target=tell)
    thread.start()
    thread.join()
    assert thread_errors == []


@in_loop
async def test_asking_for_roots_fails_for_a_client_without_them() -> None:
    kept: list[Any] = []

    async def keep(ctx: Context) -> str:
        kept.append(ctx.session)
        return "x"

    async with connect(server_with(keep)) as client:
        await client.call_tool("keep")
        with pytest.raises(LocalProtocolError):
            await kept[0].roots()


def test_refused_messages_are_logged(caplog: Any) -> None:
    async def main() -> None:
        with caplog.at_level(logging.INFO, "accord.server"):
            async with RawClient(server_with(lambda_tool)) as raw:
                await raw.open()
                raw.write(b"garbage")

    run(main())
    assert "refused a message" in caplog.text


def test_a_session_has_a_limited_number_of_subscriptions(monkeypatch: Any) -> None:
    monkeypatch.setattr("accord.server.session._SUBSCRIPTIONS_MOST", 2)
    server = Server("desk")
    server.add_resource("note://{name}", lambda name: name)

    async def main() -> None:
        async with RawClient(server) as raw:
            await raw.open()
            for number in (0, 1, 1):
                answer = await raw.ask(f"{len(raw.received)}", "resources/subscribe", note(number))
                assert "result" in answer
            refused = await raw.ask("more", "resources/subscribe", note(2))
            assert "busy: the client subscribed to 2 resources" in refused["error"]["message"]
            assert len(server._core.hub) == 2
            await raw.ask("less", "resources/unsubscribe", note(1))
            assert "result" in await raw.ask("again", "resources/subscribe", note(2))
        assert len(server._core.hub) == 0

    def note(number: int) -> dict[str, str]:
        return {"uri": f"note://{number}"}

    run(main())


class SlowFlow:
    """A client that reads when the test says so."""

    is_congested = True
    backlog = 0

    def __init__(self) -> None:
        self.room = asyncio.Event()

    async def writable(self) -> None:
        await self.room.wait()


@in_virtual_time
async def test_changes_are_joined_while_the_client_of_a_session_does_not_read() -> None:
    server = Server("desk")
    server.add_resource("note://{name}", lambda name: name)
    async with RawClient(server) as raw:
        await raw.open()
        for name in "ab":
            await raw.ask(name, "resources/subscribe", {"uri": f"note://{name}"})
        (session,) = server._core.sessions
        session.flow = flow = SlowFlow()
        for _ in range(100):
            server.resource_updated("note://a")
            server.resource_updated("note://b")
            await asyncio.sleep(0.1)
        assert [each for each in raw.received if "method" in each] == []
        flow.is_congested = False
        flow.room.set()
        await asyncio.sleep(0.1)
        updates = [each["params"]["uri"] for each in raw.received if "method" in each]
        assert updates == ["note://a", "note://b"]
