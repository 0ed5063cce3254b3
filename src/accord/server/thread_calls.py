"""Calls of plain functions in threads. Loaded with the first one: many servers have none."""

import asyncio
from collections.abc import Awaitable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from accord.runtime.handlers import OutOfTime
from accord.runtime.thread_jobs import Job
from accord.server.context import Context, current
from accord.server.entries.tools import ToolEntry, finish_call
from accord.server.schema.signature import BoundArguments

if TYPE_CHECKING:
    from accord.server.session import Session


class ThreadCall(Job):
    """A call of a plain function, in a thread, up to the result of its request."""

    __slots__ = ("_awaiting", "_bound", "_entry", "_request", "_session")

    def __init__(
        self, entry: ToolEntry, session: "Session", context: Context[object], bound: BoundArguments
    ) -> None:
        variables = copy_context()
        variables.run(current.set, context)
        super().__init__(
            session.server.threads,
            session.loop,
            variables,
            entry.timeout,
            context._exchange.state,
            session.begin_in_thread(context),
        )
        self._awaiting: asyncio.Task[None] | None = None
        self._entry = entry
        self._session = session
        self._request = context
        self._bound = bound
        self.start()

    def work(self) -> object:
        entry = self._entry
        value = entry.signature.call(entry.function, self._bound, self._request)
        # In the thread, since converting a large result would block the loop.
        return value if _is_awaitable(value) else entry.returns.convert(value)

    def conclude(self, value: Any, failure: BaseException | None) -> None:
        context = self._request
        if failure is None and _is_awaitable(value):
            # A plain function may return a coroutine.
            self._awaiting = self.loop.create_task(self._await(value))
            return
        if failure is None:
            try:
                value = finish_call(value, context)
            except BaseException as error:
                failure = error
        if failure is not None:
            if isinstance(failure, OutOfTime):
                context._cancel()
            try:
                value = self._entry._failure_of(failure, context)
            except BaseException as error:
                self.set_outcome(None, error)
                return
        self.set_outcome(value)

    async def _await(self, value: Awaitable[object]) -> None:
        entry, result = self._entry, None
        failure: BaseException | None = None
        try:
            result = entry.returns.convert(await entry._wait_for(value))
        except asyncio.CancelledError as error:
            assert self._awaiting is not None
            if self._awaiting.cancelling():
                super().cancel()
                return
            failure = error  # the function's own
        except GeneratorExit:  # the loop is closed
            raise
        except BaseException as error:
            failure = error
        self.conclude(result, failure)

    def cancel(self, msg: object = None) -> bool:
        if self._awaiting is None:
            return super().cancel(msg)
        # It is cancelled when what it awaits has cleaned up.
        return self._awaiting.cancel(msg)

    def leave(self) -> None:
        super().leave()
        self._session.end_in_thread(self._request)


def _is_awaitable(value: object) -> bool:
    return hasattr(type(value), "__await__")
