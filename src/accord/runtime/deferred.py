"""Outcomes of requests whose work goes on elsewhere, without a task that waits for it."""

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

if TYPE_CHECKING:
    from accord.protocol.exchange import Exchange
    from accord.runtime.dispatcher import Dispatcher


class Deferred(asyncio.Future[Any]):
    """What a handler returns that works elsewhere, such as in a thread.

    The request is answered in the same turn of the loop in which the outcome is known: a task that
    awaits a future costs two turns more. Others await it as any future.
    """

    __slots__ = ("_served",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._served: tuple[Dispatcher, Exchange] | None = None

    def serve(self, dispatcher: "Dispatcher", exchange: "Exchange") -> None:
        """Let the outcome answer a request."""
        self._served = dispatcher, exchange
        dispatcher.running[exchange.id] = self
        if dispatcher.watchdog is not None:
            dispatcher.watchdog.enter()

    def set_outcome(self, result: object, error: BaseException | None = None) -> None:
        """Set the result or the exception, unless it is done."""
        if self.done():
            return
        if error is None:
            self.set_result(result)
        else:
            self.set_exception(error)
        if self._served is not None:
            self._serve_outcome(*self._served)

    def cancel(self, msg: object = None) -> bool:
        """Give it up: its outcome is no longer wanted, and its request gets no answer."""
        is_cancelled = super().cancel(msg)
        if is_cancelled and self._served is not None:
            self._serve_outcome(*self._served)
        return is_cancelled

    def _serve_outcome(self, dispatcher: "Dispatcher", exchange: "Exchange") -> None:
        self._served = None
        try:
            if not self.cancelled():
                error = self.exception()
                if error is None:
                    dispatcher.answer(exchange, self.result())
                else:
                    dispatcher._fail_with(exchange, error)
        finally:
            dispatcher.running.pop(exchange.id, None)
            if exchange.cancelled:
                # It is remembered for late messages, and must not keep what it carried.
                exchange.raw, exchange.params = UNSET, None
            if dispatcher.watchdog is not None:
                dispatcher.watchdog.leave()
            if exchange.origin is not None:
                exchange.origin.finish()
