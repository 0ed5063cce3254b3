"""Coroutines that never wait, run in one go: without a task, but as if in one.

Many `async def` functions await nothing. In Python 3.11 a task for one of them takes a quarter of
the time between its request and its answer. Later Pythons need nothing of this: their eager tasks
are as quick.
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
