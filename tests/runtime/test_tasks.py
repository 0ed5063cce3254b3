import asyncio
from contextvars import ContextVar

import pytest

from accord.runtime.eager import start
from accord.runtime.tasks import run_to_end

here: ContextVar[str] = ContextVar("here", default="outside")


def begin(work):
    return start(asyncio.get_running_loop(), work, "work")


def test_work_that_does_not_wait_is_done_at_once() -> None:
    async def work() -> int:
        return 42

    async def main() -> int:
        task = begin(work())
        assert task.done()
        assert task.get_name() == "work"
        return task.result()

    assert asyncio.run(main()) == 42


def test_work_that_waits_goes_on_as_the_same_task() -> None:
    async def work() -> bool:
        before = asyncio.current_task()
        async with asyncio.timeout(60):
            await asyncio.sleep(0)
        return asyncio.current_task() is before

    async def main() -> bool:
        task = begin(work())
        assert not task.done()
        return await asyncio.wait_for(task, 60)

    assert asyncio.run(main())


def test_starting_a_task_does_not_change_the_current_task() -> None:
    async def work() -> asyncio.Task[None] | None:
        return asyncio.current_task()

    async def main() -> None:
        me = asyncio.current_task()
        task = begin(work())
        assert task.result() is task
        assert asyncio.current_task() is me

    asyncio.run(main())


def test_a_task_can_be_started_where_no_task_runs() -> None:
    async def work() -> int:
        return 1

    async def main() -> None:
        started = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: started.set_result(begin(work())))
        task = await asyncio.wait_for(started, 60)
        assert task.result() == 1

    asyncio.run(main())


def test_context_variables_stay_inside() -> None:
    async def work() -> str:
        here.set("inside")
        return here.get()

    async def main() -> tuple[str, str]:
        return begin(work()).result(), here.get()

    assert asyncio.run(main()) == ("inside", "outside")


def test_an_exception_stays_in_the_task() -> None:
    async def work() -> None:
        raise LookupError("lost")

    async def main() -> None:
        task = begin(work())
        with pytest.raises(LookupError, match="lost"):
            await task

    asyncio.run(main())


def test_a_task_that_waits_can_be_cancelled() -> None:
    async def main() -> bool:
        task = begin(asyncio.sleep(60))
        task.cancel()
        await asyncio.wait([task], timeout=60)
        return task.cancelled()

    assert asyncio.run(main())


def test_a_task_that_exits_does_not_end_the_server(caplog) -> None:
    seen: list[BaseException | None] = []

    async def leave() -> None:
        raise SystemExit(3)

    async def main() -> None:
        task = asyncio.create_task(leave())
        await asyncio.wait([task])
        seen.append(task.exception())

    run_to_end(main())
    assert isinstance(seen[0], SystemExit)
    assert "a task of a handler raised SystemExit" in caplog.text


def test_an_exit_of_the_server_itself_ends_it() -> None:
    async def main() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit, match="3"):
        run_to_end(main())
