import asyncio
import logging
import threading
import time

from accord.runtime.watchdog import Watchdog
from support.waiting import run, until, until_sync


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


def test_one_blockage_is_told_once(caplog) -> None:
    async def main() -> None:
        watchdog = Watchdog(threshold=0.02)
        watchdog.enter()
        until_sync(lambda: blocked(caplog))
        time.sleep(0.1)
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
        await asyncio.sleep(0.75)
        watchdog.leave()
        watchdog._beating = False

    run(main())
    assert blocked(caplog) == []


def test_a_blocked_loop_without_handlers_is_nobodys_fault(caplog) -> None:
    async def main() -> None:
        watchdog = Watchdog(threshold=0.04)
        watchdog.enter()
        watchdog.leave()
        time.sleep(0.2)
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
