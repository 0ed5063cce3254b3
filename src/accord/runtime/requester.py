"""Requests of one party to its peer: sent, waited for, given up when their time is over."""

import asyncio
from collections.abc import Callable
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from accord.errors import AccordError
from accord.protocol.endpoint import Endpoint
from accord.protocol.exchange import Exchange, NotificationReceived
from accord.protocol.revisions import Phase, Revision
from accord.runtime.handlers import Write
from accord.runtime.tasks import Pending
from accord.types import CancelledParams, ProgressParams

if TYPE_CHECKING:
    from accord.types._base import RequestId

# Loops may wake a little early: by less than their clock can tell.
_TICK: Final = 0.001
# Shared by all dispatchers without running handlers. Nothing can be added to it.
NONE_RUNNING: Final = cast("dict[RequestId, asyncio.Future[Any]]", MappingProxyType({}))


class Requester:
    """One party of a conversation as far as it asks and notifies its peer.

    Args:
        endpoint: the party.
        write: how its messages leave.
        loop: on which it runs.

    Attributes:
        running: the work for requests of the peer; see `Dispatcher`.
        pauses: how many reasons there are for which no answer can come at present.
        closed: why the conversation is over; None while it is not.
    """

    __slots__ = ("_loop", "_timer", "_wakes_at", "closed", "endpoint", "pauses", "running", "write")

    def __init__(self, endpoint: Endpoint, write: Write, loop: asyncio.AbstractEventLoop) -> None:
        self.endpoint = endpoint
        self.write = write
        self.running: dict[RequestId, asyncio.Future[Any]] = NONE_RUNNING
        self.pauses = 0
        self.closed: AccordError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at = inf
        self._loop = loop

    async def request(
        self,
        name: str,
        params: object = None,
        *,
        timeout: float | None = None,
        cap: float | None = None,
        on_progress: Callable[[ProgressParams], object] | None = None,
        on_notice: Callable[[NotificationReceived], None] | None = None,
        within: Exchange | None = None,
        revision: Revision | None = None,
    ) -> Any:
        """Ask the peer and wait for its answer.

        Args:
            name: the method.
            params: its params.
            timeout: seconds without answer or progress after which the request is cancelled.
            cap: seconds after which it is cancelled whatever progress comes.
            on_progress: called with each progress notification.
            on_notice: called with what the peer sends to a request that stays open for it.
            within: the exchange during which we ask, if any; its stream carries the request.
            revision: that of this request, where it is not the one agreed on.

        Raises:
            LocalProtocolError: the request would break a rule; nothing was sent.
            RequestError: the peer answered with an error.
            RemoteProtocolError: the answer breaks the protocol.
            RequestTimeout: there was no answer in time.
            ConnectionClosed: the connection is gone.
        """
        if self.closed is not None:
            raise self.closed
        exchange, data = self.endpoint.request(name, params, revision=revision)
        loop = self._loop
        future = loop.create_future()
        exchange.state = pending = Pending(future, timeout, cap, loop.time(), on_progress)
        if on_notice is not None:
            pending.on_notice = on_notice
        if pending.ends < self._wakes_at:
            self._set_timer(pending.ends)
        self.write(data, within)
        try:
            return await future
        except asyncio.CancelledError:
            self.cancel(exchange, "cancelled by the caller")
            raise

    def _extend(self, pending: Pending) -> None:
        self._set_timer(pending.extend(self._loop.time()))

    def _set_timer(self, when: float) -> None:
        # One timer for all requests: most are answered long before it would go off.
        if when >= self._wakes_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._wakes_at = when
        self._timer = self._loop.call_at(when, self._expire)

    def _expire(self) -> None:
        """Give up the requests whose time is over, and wake again for the next one."""
        self._timer, self._wakes_at = None, inf
        now = self._loop.time() + _TICK
        earliest = inf
        # A server that asks its client waits for it, and is not late meanwhile. A server asks
        # while it works: its own work delays no answer.
        is_waited_for = self.pauses or (self.running and self.endpoint.role == "client")
        for exchange in self._open_requests():
            pending = exchange.state
            if not isinstance(pending, Pending) or pending.future.done():
                continue
            if is_waited_for and pending.cap_ends > now:
                self._extend(pending)
            if pending.ends > now:
                earliest = min(earliest, pending.ends)
                continue
            self.cancel(exchange, "no answer in time")
            pending.future.set_exception(pending.expiry(exchange.name))
        self._set_timer(earliest)

    def _settle(self, exchange: Exchange, result: object, error: Exception | None) -> None:
        pending = exchange.state
        if not isinstance(pending, Pending) or pending.future.done():
            return
        if error is None:
            pending.future.set_result(result)
        else:
            pending.future.set_exception(error)

    def cancel(self, exchange: Exchange, reason: str) -> None:
        """Tell the peer that an answer is no longer wanted."""
        # The answer may have come in the very moment in which its caller was cancelled.
        conversation = self.endpoint.conversation
        mine = conversation.open_exchange(self.endpoint.role, exchange.id)
        if self.closed is not None or exchange.name == "initialize" or mine is not exchange:
            return
        if conversation.phase is Phase.OPENING:
            # A server that does not know the request need not know its cancellation either.
            conversation.abandon(exchange)
        else:
            self.notify("notifications/cancelled", CancelledParams(exchange.id, reason))

    def give_up(self, id: "RequestId", error: AccordError) -> None:
        """Fail a request of ours that the transport knows will not be answered."""
        exchange = self.endpoint.give_up(id)
        if exchange is not None:
            self._settle(exchange, None, error)

    def notify(self, name: str, params: object = None, *, within: Exchange | None = None) -> None:
        """Notify the peer; raises LocalProtocolError if that would break a rule."""
        if self.closed is None:
            self.write(self.endpoint.notify(name, params, within=within), within)

    def _open_requests(self) -> list[Exchange]:
        return list(self.endpoint.conversation.party(self.endpoint.role).open.values())
