"""Tasks for plain synchronous code."""

from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, Protocol, TypeVar, overload

from accord.client.tasks import TaskUpdate, ToolTask
from accord.types import CallToolResult, TaskStatus

Value = TypeVar("Value")
Output = TypeVar("Output")


class Runs(Protocol):
    """Runs a coroutine on the loop of a client, and waits for it."""

    def __call__(self, work: Coroutine[object, object, Value]) -> Value:
        """Return its result."""


class BlockingTask:
    """A tool call that the server works on: as `ToolTask`, with methods that wait.

    Attributes:
        id: names it, also on another connection.
        tool: the tool, where it is known.
    """

    def __init__(self, task: ToolTask, run: Runs) -> None:
        self._task = task
        self._run = run
        self.id = task.id
        self.tool = task.tool

    def __repr__(self) -> str:
        return repr(self._task).replace("<ToolTask", "<blocking task", 1)

    @property
    def status(self) -> TaskStatus:
        """The status, as far as it is known."""
        return self._task.status

    @property
    def message(self) -> str | None:
        """What the task is doing, or why it failed."""
        return self._task.message

    @property
    def ttl(self) -> float | None:
        """Seconds after its creation in which the server keeps it; None if it sets no limit."""
        return self._task.ttl

    @property
    def poll_interval(self) -> float:
        """Seconds after which the server is asked again."""
        return self._task.poll_interval

    @property
    def is_finished(self) -> bool:
        """Whether it is over, as far as that is known."""
        return self._task.is_finished

    def refresh(self) -> TaskUpdate:
        """Ask the server for the status now."""
        return self._run(self._task.refresh())

    @overload
    def result(self, *, result_type: None = None) -> CallToolResult: ...
    @overload
    def result(self, *, result_type: type[Output]) -> Output: ...
    @overload
    def result(self, *, result_type: object) -> Any: ...
    def result(self, *, result_type: Any = None) -> Any:
        """Wait until the task is finished and return its result; errors as for `ToolTask`."""
        return self._run(self._task.result(result_type=result_type))

    def cancel(self) -> None:
        """Ask the server to stop; one that is finished stays as it is."""
        self._run(self._task.cancel())

    def __iter__(self) -> Iterator[TaskUpdate]:
        """Follow the task: yields what is known, then each change, up to its end."""
        return wait_for_each(self._task.__aiter__(), self._run)


def wait_for_each(items: AsyncIterator[Value], run: Runs) -> Iterator[Value]:
    """Iterate over what an async iterator yields."""
    while True:
        try:
            yield run(_take(items))
        except StopAsyncIteration:
            return


async def _take(items: AsyncIterator[Value]) -> Value:
    return await anext(items)
