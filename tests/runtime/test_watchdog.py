import asyncio
import logging
import threading
import time
from typing import Any

import pytest

from accord import Server, connect
from accord.runtime.watchdog import Watchdog
from accord.server.schema import results
from support.waiting import LONG, run, until, until_sync


def blocked(caplog) -> list[str]:
    return [each.message for each in caplog.records if each.levelno == logging.WARNING]


def watchers() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "accord-watch"]


def test_a_task_that_blocks_the_loop_is_named_with_its_place(caplog) -> None:
    async def main() -> None:
        watchdog = Watchdog(threshold=0.04)

        async def tool() -> None:
            watchdog.enter()
            await asyncio.sleep(0)
            until_sync(lambda: blocked(caplog))
            watchdog.leave()

        await asyncio.create_task(tool(), name="tool dig")

    run(main())
    (message,) = blocked(caplog)
    assert message.startswith("tool dig has blocked the event loop for")
    assert "waiting.py" in message


def test_one_blockage_is_reported_once(caplog) -> None:
    async def main() -> None:
        watchdog = Watchdog(threshold=0.02)
        watchdog.enter()
        until_sync(lambda: blocked(caplog))
        time.sleep(0.1)  # clock: blocked for several times the threshold
        watchdog.leave()

    run(main())
    assert len(blocked(caplog)) == 1


def test_handlers_that_await_are_not_named(caplog) -> None:
    async def main() -> None:
        watchdog = Watchdog(threshold=1.0)
        watchdog.enter()
        for _ in range(130):
            await asyncio.sleep(0.01)
        watchdog.leave()

    run(main())
    assert blocked(caplog) == []


def test_a_loop_that_waits_for_events_is_not_blocked_however_late_it_is(caplog) -> None:
    class Starved(Watchdog):
        """Has got no time for its heartbeat."""

        def _beat(self) -> None:
            self._beat_at = time.monotonic() - 10

    async def main() -> None:
        watchdog = Starved(threshold=1.2)  # it looks every 0.3 s
        watchdog.enter()
        await asyncio.sleep(0.75)  # clock: idle for longer than the threshold
        watchdog.leave()
        watchdog.is_beating = False

    run(main())
    assert blocked(caplog) == []


def test_a_blocked_loop_without_handlers_is_nobodys_fault(caplog) -> None:
    async def main() -> None:
        watchdog = Watchdog(threshold=0.04)
        watchdog.enter()
        watchdog.leave()
        time.sleep(0.2)  # clock: blocked for several times the threshold
        await asyncio.sleep(0)

    run(main())
    assert blocked(caplog) == []


def test_an_idle_watchdog_has_no_thread(caplog) -> None:
    async def main() -> None:
        until_sync(lambda: not watchers())
        watchdog = Watchdog(threshold=0.02)
        assert not watchers()
        watchdog.enter()
        assert watchers()
        watchdog.leave()
        await until(lambda: not watchers())
        watchdog.enter()
        assert watchers()
        watchdog.leave()

    run(main())
    until_sync(lambda: not watchers())


@pytest.mark.parametrize("mode", ["async", "inline"])
def test_a_slow_conversion_names_its_tool_and_not_a_line_of_accord(caplog, mode: str) -> None:
    server: Server[None] = Server("slow")

    async def give_async() -> list[int]:
        """Return what takes long to convert."""
        return [1]

    def give() -> list[int]:
        """Return what takes long to convert."""
        return [1]

    server.add_tool(give_async if mode == "async" else give, name="give", inline=mode == "inline")
    # Long enough for any watchdog to notice, wherever the time goes within the conversion.
    entry = server.tool_entries.get("give")
    assert entry is not None
    convert = entry.returns.convert
    scope: dict[str, Any] = {"convert": convert, "waited": caplog.records.__len__}
    code = compile(
        "def slowly(value):\n    import time\n    end = time.monotonic() + 60\n"
        "    while not waited() and time.monotonic() < end:\n        pass\n"
        "    return convert(value)\n",
        results.__file__,
        "exec",
    )
    exec(code, scope)  # stands for a conversion, in a file of accord
    entry.returns.convert = scope["slowly"]

    async def main() -> None:
        async with connect(server, timeout=LONG) as client:
            (session,) = server._core.sessions
            session.dispatcher.watchdog.enter()
            await client.call_tool("give")
            session.dispatcher.watchdog.leave()

    run(main())
    (message,) = blocked(caplog)
    assert message.startswith("tool give has blocked the event loop for")
    assert "the size of its arguments or of its result" in message
    assert "results.py" not in message


def test_results_of_plain_functions_are_converted_in_their_thread() -> None:
    server: Server[None] = Server("threads")
    threads: list[str] = []

    @server.tool
    def give() -> list[int]:
        """Return numbers."""
        return [1, 2]

    @server.resource("text://now")
    def text() -> str:
        """Return a text."""
        return "now"

    entry = server.tool_entries.get("give")
    assert entry is not None
    convert = entry.returns.convert

    def noted(value):
        threads.append(threading.current_thread().name)
        return convert(value)

    entry.returns.convert = noted

    async def main() -> None:
        async with connect(server, timeout=LONG) as client:
            result = await client.call_tool("give")
            assert result.structured_content == {"result": [1, 2]}
            assert (await client.read_resource("text://now")).contents[0].text == "now"

    run(main())
    assert threads == ["accord"]


def test_an_import_of_accord_that_takes_long_is_not_a_place_of_the_author(caplog) -> None:
    scope: dict[str, Any] = {"waited": caplog.records.__len__}
    waiting = "def load():\n    while not waited():\n        pass\n"
    exec(compile(waiting, "<frozen importlib._bootstrap>", "exec"), scope)
    exec(compile("def _serve():\n    load()\n", results.__file__, "exec"), scope)

    async def main() -> None:
        watchdog = Watchdog(threshold=0.04)
        watchdog.enter()
        scope["_serve"]()
        watchdog.leave()

    run(main())
    (message,) = blocked(caplog)
    assert "the size of its arguments or of its result" in message
