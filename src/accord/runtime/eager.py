"""Work that begins at once: what Python 3.12 has as eager tasks, and Python 3.11 lacks.

`start` begins a task with its first step, instead of with the next turn of the loop. On 3.11 that
step is taken from the end of the loop's queue, where asyncio's own loop has put it.

`run_at_once` runs a coroutine that never waits without any task, but as if in one: many
`async def` functions await nothing. Whether one may wait is read from its code, and what
`asyncio.current_task()` returns meanwhile becomes a task when more than its identity is used.

Both reach into asyncio (the queue `_ready`, `_enter_task`, the table `_current_tasks`). CPU of one
call of an `async def` tool on Python 3.11, in microseconds, by `benchmarks/steps.py`:

                                    both    `start` alone    neither
    stdio                           10.4             11.8       15.2
    HTTP                            18.7             21.9       21.5
    in memory, with its client      12.9             15.5       19.7

When Python 3.11 is no longer supported, only `start` stays, in one line: eager tasks leave 0.1 to
0.3 µs to gain. A test fails where a version of asyncio has none of what they need.
"""

import asyncio
import dis
import inspect
import sys
from collections.abc import Callable, Coroutine, Generator
from types import CodeType, GeneratorType, coroutine
from typing import Any, Final, TypeVar, cast

from accord.runtime.watchdog import find_served

Result = TypeVar("Result")

HAS_EAGER_TASKS: Final = sys.version_info >= (3, 12)

# -- the first step of a task

if sys.version_info >= (3, 12):

    def start(
        loop: asyncio.AbstractEventLoop, work: Coroutine[object, None, Result], name: str
    ) -> asyncio.Task[Result]:
        """Run work up to where it first waits, as a task; it may be done on return."""
        return asyncio.Task(work, loop=loop, name=name, eager_start=True)

else:
    _leave: Final = asyncio.tasks._leave_task
    _enter: Final = asyncio.tasks._enter_task

    def start(
        loop: asyncio.AbstractEventLoop, work: Coroutine[object, None, Result], name: str
    ) -> asyncio.Task[Result]:
        """Run work up to where it first waits, as a task; it may be done on return.

        This Python knows no eager tasks. Its own loop queues the first step as the last that is
        ready, so it can be taken from there; on other loops the task begins with the next turn.
        """
        task = asyncio.Task(work, loop=loop, name=name)
        ready = getattr(loop, "_ready", None)
        if not ready:
            return task
        step = ready.pop()
        belongs_to: object = getattr(step._callback, "__self__", None)
        if belongs_to is not task:
            ready.append(step)  # another thread was quicker
            return task
        outer = asyncio.current_task(loop)
        if outer is not None:
            _leave(loop, outer)
        try:
            step._run()
        finally:
            if outer is not None:
                _enter(loop, outer)
        return task


# -- coroutines that never wait

# The one instruction by which a coroutine gives up control; each `await` has it.
_YIELD: Final = dis.opmap["YIELD_VALUE"]


def code_without_await(function: Callable[..., object]) -> CodeType | None:
    """Return the code of a coroutine function that never waits; None for any other function.

    Where Python has eager tasks it is None for all functions.
    """
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None or not code.co_flags & inspect.CO_COROUTINE or HAS_EAGER_TASKS:
        return None
    return None if _YIELD in code.co_code[::2] else code


class _BriefTask(asyncio.Task[None]):
    """What `asyncio.current_task()` returns in work that never waits.

    Each request has one of its own, because libraries keep values by the task. It costs a tenth of
    a task as long as only its identity matters; when more of it is used it becomes one, and ends
    with the next turn of the loop.
    """

    _is_made = False

    def __getattribute__(self, name: str) -> Any:
        get = super().__getattribute__
        if not get("_is_made"):
            self._is_made = True
            label = find_served(sys._getframe())
            super().__init__(_do_nothing(), loop=asyncio.get_running_loop(), name=label)
        return get(name)

    def __await__(self) -> Generator[Any, None, None]:
        self.get_name()  # Python gets here without looking up a name
        return super().__await__()

    __iter__ = __await__


async def _do_nothing() -> None:
    return None


_new_task: Final = _BriefTask.__new__
_current: Final[dict[Any, Any]] = getattr(asyncio.tasks, "_current_tasks", {})


@coroutine
def _drive() -> Generator[Any, Any, None]:
    """Run the coroutines that are sent, one after the other, and yield what they return.

    Where a coroutine is driven by `send`, it returns by an exception, which takes longer than most
    of them run. An exception of a coroutine ends its driver.
    """
    work = yield
    while True:
        work = yield (yield from work)


_drivers: Final[list["GeneratorType[Any, Any, None]"]] = []


def run_at_once(work: Coroutine[object, None, Result], loop: asyncio.AbstractEventLoop) -> Result:
    """Run a coroutine that never waits, as its own task would; return what it returns.

    The caller gives it a context of its own.
    """
    outer = _current.get(loop)
    _current[loop] = _new_task(_BriefTask)
    try:
        driver = _drivers.pop()
    except IndexError:  # all of them are at work: calls may be nested, and threads have loops
        driver = cast("GeneratorType[Any, Any, None]", _drive())
        driver.send(None)
    try:
        result: Result = driver.send(work)
    finally:
        if outer is None:
            del _current[loop]
        else:
            _current[loop] = outer
    if driver.gi_yieldfrom is not None:
        driver.close()
        raise RuntimeError("a coroutine waits although its code has no await")
    _drivers.append(driver)
    return result
