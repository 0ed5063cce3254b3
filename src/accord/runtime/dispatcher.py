"""Runs one party on an event loop: requests go to handlers, answers to the callers that wait.

Between the bytes of a request and its handler there is no queue, and no task unless the handler
awaits something. The transport chooses the stream on which a message leaves, by the exchange
that the message belongs to.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from math import inf
from types import CoroutineType, MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import UNSET

from accord.errors import (
    AccordError,
    ConnectionClosed,
    InternalError,
    LocalProtocolError,
    MessageTooLarge,
    RequestError,
)
from accord.protocol.endpoint import Endpoint
from accord.protocol.exchange import (
    Event,
    Exchange,
    FaultReceived,
    NotificationReceived,
    Refused,
    RequestReceived,
    ResultReceived,
)
from accord.protocol.jsonrpc import Frame, MalformedMessage
from accord.protocol.revisions import Phase, Revision
from accord.runtime import tasks
from accord.runtime.eager import start
from accord.runtime.handlers import NO_HANDLERS, OVER, Deferred, Handlers, Write, discard
from accord.runtime.tasks import Pending, explain_size, is_pressed, is_writable
from accord.runtime.watchdog import Watchdog
from accord.types import CancelledParams, ProgressParams

if TYPE_CHECKING:
    from accord.protocol.unknown import UnknownMembers
    from accord.runtime.handlers import Origin
    from accord.types._base import RequestId


log = logging.getLogger("accord")

# Generous for any real client; what matters is that there is an end.
IN_FLIGHT: Final = 1_000
# Answered above the limit as well: a client asks by them whether its server still lives.
_SIGNS_OF_LIFE: Final = frozenset({"ping", "server/discover"})

LASTING: Final = object()
"""Returned by handlers of requests that stay open by design; `Dispatcher.answer` ends them."""
# Loops may wake a little early: by less than their clock can tell.
_TICK: Final = 0.001
# Shared by all dispatchers without running handlers. Nothing can be added to it.
NONE_RUNNING: Final = cast("dict[RequestId, asyncio.Future[Any]]", MappingProxyType({}))


class Dispatcher:
    """One party of a conversation, running.

    Args:
        endpoint: the party.
        write: how its messages leave.
        handlers: what it does with those of the peer.
        in_flight: how many requests of the peer may be under way; more are refused at once.
        watchdog: notified when handlers begin and end, to name one that blocks the loop.

    Attributes:
        running: the work for requests of the peer, by their ids.
        pauses: how many reasons there are for which no answer can come at present.
        closed: why the conversation is over; None while it is not.
    """

    __slots__ = (
        "_background",
        "_generation",
        "_loop",
        "_timer",
        "_wakes_at",
        "closed",
        "endpoint",
        "handlers",
        "in_flight",
        "pauses",
        "running",
        "watchdog",
        "write",
    )

    def __init__(
        self,
        endpoint: Endpoint,
        write: Write,
        handlers: Handlers,
        *,
        in_flight: int = IN_FLIGHT,
        watchdog: Watchdog | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop() if watchdog is None else watchdog.loop
        self.endpoint = endpoint
        self.write = write
        self.handlers = handlers
        self.in_flight = in_flight
        self.watchdog = watchdog
        self._background: dict[asyncio.Future[Any], None] | None = None
        self._generation = tasks.fork_generation
        self.running: dict[RequestId, asyncio.Future[Any]] = NONE_RUNNING
        self.pauses = 0
        self.closed: AccordError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at = inf

    # -- receiving

    def receive(self, message: bytes, origin: "Origin | None" = None) -> Sequence[Event]:
        """Receive one message of the peer.

        Args:
            message: its bytes.
            origin: where it was received, if answers have to go back there.

        Returns:
            Its events, all of them handled.
        """
        events = self.endpoint.receive(message)
        for event in events:
            if event.__class__ is RequestReceived:
                exchange = event.exchange
                if origin is not None:
                    exchange.origin = origin
                self._serve(exchange, event.params)
            elif event.__class__ is ResultReceived:
                self._settle(event.exchange, event.result, None)
            else:
                self._handle_other(event, origin)
        return events

    def receive_request(self, frame: Frame, origin: "Origin") -> Sequence[Event]:
        """Receive a request of the peer that is decoded already; as `receive`."""
        event = self.endpoint.receive_request(frame)
        if event.__class__ is RequestReceived:
            exchange = event.exchange
            exchange.origin = origin
            self._serve(exchange, event.params)
        else:
            self._handle_other(event, origin)
        return (event,)

    def receive_malformed(self, malformed: MalformedMessage) -> Sequence[Event]:
        """Receive a message that the transport had to drop: it is answered, or it fails."""
        events = self.endpoint.receive_malformed(malformed)
        for event in events:
            self._handle_other(event, None)
        return events

    def _serve(self, exchange: Exchange, params: object) -> None:
        if len(self.running) >= self.in_flight and exchange.name not in _SIGNS_OF_LIFE:
            busy = InternalError(f"busy: {self.in_flight} requests are under way (in_flight)")
            return self._fail(exchange, busy)
        watchdog = self.watchdog
        if watchdog is not None:
            # What `enter` does, without the call.
            watchdog.running += 1
            if not watchdog.is_beating:
                watchdog.begin()
        try:
            try:
                outcome = self.handlers.request(exchange, params, self)
            except BaseException as error:  # a handler must not end the conversation
                return self._fail_with(exchange, error)
            if type(outcome) is CoroutineType:
                watchdog = None  # the task counts as long as it runs
                name = exchange.state or exchange.name
                task = start(self._loop, self._run(exchange, outcome), name)
                if tasks.fork_generation != self._generation:
                    tasks.end_child()
                if not task.done():
                    self._note_running(exchange, task)
            elif isinstance(outcome, Deferred):
                watchdog = None
                self._note_running(exchange, outcome)
                outcome.follow(partial(self._serve_outcome, exchange))
            elif outcome is not LASTING:
                self._respond(exchange, outcome)
        finally:
            if watchdog is not None:
                watchdog.running -= 1
        return None

    def _note_running(self, exchange: Exchange, work: asyncio.Future[Any]) -> None:
        if self.running is NONE_RUNNING:
            self.running = {}
        self.running[exchange.id] = work

    def _serve_outcome(self, exchange: Exchange, deferred: Deferred) -> None:
        """Answer a request whose handler returned a Deferred; a cancelled one gets no answer."""
        try:
            if not deferred.cancelled():
                error = deferred.exception()
                if error is None:
                    self._respond(exchange, deferred.result())
                else:
                    self._fail_with(exchange, error)
        finally:
            self._leave(exchange)

    def _leave(self, exchange: Exchange, outcome: object = None) -> None:
        """Note that the work for a request is over."""
        if self.running:
            self.running.pop(exchange.id, None)
        if exchange.cancelled:
            # It is remembered for late messages, and must not keep what it carried.
            exchange.raw, exchange.params = UNSET, None
        if self.watchdog is not None:
            self.watchdog.leave()
        if exchange.origin is not None and outcome is not LASTING:
            exchange.origin.finish()

    async def _run(self, exchange: Exchange, work: Coroutine[object, None, object]) -> None:
        outcome = None
        try:
            outcome = await work
            if outcome is not LASTING:
                self._respond(exchange, outcome)
        except (asyncio.CancelledError, GeneratorExit) as error:
            if tasks.fork_generation != self._generation:
                tasks.end_child(error)
            if self._is_stopped(exchange, error):
                if not exchange.cancelled:
                    raise
            else:
                # The handler raised it, or what it awaited was cancelled; the peer waits.
                self._fail_with(exchange, error)
        except BaseException as error:
            self._fail_with(exchange, error)
        finally:
            self._leave(exchange, outcome)

    def answer(self, exchange: Exchange, result: object) -> None:
        """Answer a request whose handler returned LASTING."""
        self._respond(exchange, result)

    def _is_stopped(self, exchange: Exchange, error: BaseException) -> bool:
        """Whether a handler was stopped from outside, rather than raising by itself."""
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return True  # its coroutine is closed after the end of the loop
        if isinstance(error, GeneratorExit):
            return task is None or self.running.get(exchange.id, task) is not task
        return self.closed is not None or (task is not None and task.cancelling() > 0)

    def _fail_with(self, exchange: Exchange, error: BaseException) -> None:
        """Answer a request whose handler raised; a real Ctrl-C goes on after that."""
        if isinstance(error, asyncio.CancelledError):
            self._fail(exchange, InternalError("the work was cancelled"))
        else:
            self._fail(exchange, error)
        if isinstance(error, KeyboardInterrupt) and is_pressed():
            raise error

    def _respond(self, exchange: Exchange, result: object) -> None:
        if tasks.fork_generation != self._generation:
            tasks.end_child()
        try:
            reply = self.endpoint.respond(exchange, result)
        except MessageTooLarge as error:
            self._fail(exchange, explain_size(_label(exchange), error))
        except Exception as error:
            self._fail(exchange, error)
        else:
            if reply is not None and self.closed is None:
                self.write(reply, exchange)

    def _fail(self, exchange: Exchange, error: BaseException) -> None:
        if tasks.fork_generation != self._generation:
            tasks.end_child(error)
        if not isinstance(error, RequestError) or not is_writable(error):
            # Nothing of it reaches the peer: it may name files, hosts or secrets.
            from accord.runtime.source_files import trim_traceback

            log.error("%s failed", exchange.name, exc_info=trim_traceback(error))
            error = InternalError("internal error")
        try:
            reply = self.endpoint.fail(exchange, error)
        except MessageTooLarge as too_large:
            reply = self.endpoint.fail(exchange, explain_size(_label(exchange), too_large))
        except LocalProtocolError:
            log.exception("%s was answered twice", exchange.name)
            return
        except Exception:
            # A handler's own words or data that no message can carry; the peer waits all the same.
            log.exception("the error of %s cannot be written", exchange.name)
            reply = self.endpoint.fail(exchange, InternalError("internal error"))
        if reply is not None and self.closed is None:
            self.write(reply, exchange)

    def _handle_other(self, event: Event, origin: "Origin | None") -> None:
        if isinstance(event, FaultReceived):
            if event.exchange is not None:
                self._settle(event.exchange, None, event.error)
            else:
                log.warning("the peer could not read a message of ours: %s", event.error)
        elif isinstance(event, Refused):
            if event.reply is not None and self.closed is None:
                if origin is None:
                    self.write(event.reply, None)
                else:
                    origin.reject(event.reply)
            self.handlers.breach(event)
        elif isinstance(event, NotificationReceived):
            self._handle_notification(event)

    def _handle_notification(self, event: NotificationReceived) -> None:
        exchange = event.exchange
        if event.name == "notifications/cancelled":
            if event.reply is not None and self.closed is None:
                self.write(event.reply, exchange)
            if exchange is not None:
                self._stop(exchange)
        elif exchange is not None and isinstance(exchange.state, Pending):
            self._extend(exchange.state)
            if exchange.state.on_notice is not None:
                exchange.state.on_notice(event)
            elif exchange.state.on_progress is not None:
                self.spawn(exchange.state.on_progress(event.params))
            return
        try:
            self.handlers.notification(event, self)
        except BaseException as error:  # nor must a callback
            if isinstance(error, KeyboardInterrupt) and is_pressed():
                raise
            log.exception("%s could not be passed on", event.name)

    def _stop(self, exchange: Exchange) -> None:
        """Stop the handler of a request."""
        task = self.running.get(exchange.id)
        if task is not None:
            # It no longer counts as under way, but may take its time to clean up.
            del self.running[exchange.id]
            self._keep(task)
            # Not before its first step, or the handler's coroutine would never be awaited.
            self._loop.call_soon(task.cancel)

    def abandon(self, exchange: Exchange) -> None:
        """Stop the work for a request whose sender is gone; it gets no answer."""
        self.endpoint.conversation.abandon(exchange)
        self.endpoint.conversation.party(exchange.sender).forget_token(exchange)
        self._stop(exchange)

    def spawn(self, outcome: object) -> None:
        """Let a callback's coroutine run by itself; its failure is logged."""
        if type(outcome) is not CoroutineType:
            return
        self._keep(self._loop.create_task(outcome))

    def _keep(self, task: asyncio.Future[Any]) -> None:
        """Hold on to a task until it is done."""
        if self._background is None:
            self._background = {}
        self._background[task] = None
        task.add_done_callback(self._background_done)

    def _background_done(self, task: asyncio.Future[Any]) -> None:
        if self._background is not None:
            self._background.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("a callback failed", exc_info=task.exception())

    # -- asking

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
        exchange.state = pending = Pending(future, timeout, cap, loop.time(), on_progress, within)
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

    async def forward(
        self,
        name: str,
        params: Any,
        *,
        timeout: float | None = None,
        cap: float | None = None,
        on_progress: Callable[[ProgressParams], object] | None = None,
        within: Exchange | None = None,
        unknown: "UnknownMembers | None" = None,
    ) -> tuple[Any, Exchange]:
        """Ask the peer as `request` does; return the result, and the exchange.

        Args:
            name: the method.
            params: its params.
            timeout: seconds without answer or progress after which the request is cancelled.
            cap: seconds after which it is cancelled whatever progress comes.
            on_progress: called with each progress notification.
            within: the exchange during which we ask, if any.
            unknown: members of the params that no revision defines.
        """
        if self.closed is not None:
            raise self.closed
        loop = self._loop
        exchange, data = self.endpoint.request(name, params, unknown=unknown)
        future = loop.create_future()
        exchange.state = pending = Pending(future, timeout, cap, loop.time(), on_progress, within)
        self._set_timer(pending.ends)
        self.write(data, within)
        try:
            return await future, exchange
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
            params = CancelledParams(exchange.id, reason)
            self.notify("notifications/cancelled", params, within=self._carrier_of(exchange))

    def _carrier_of(self, exchange: Exchange) -> Exchange | None:
        """Return the exchange during which we asked, if its stream still takes messages.

        On the stream that brought a request its cancellation cannot arrive before it.
        """
        pending = exchange.state
        within = pending.within if isinstance(pending, Pending) else None
        if within is None or within.cancelled:
            return None
        is_open = self.endpoint.conversation.open_exchange(within.sender, within.id) is within
        return within if is_open else None

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

    # -- ending

    def close(self, reason: AccordError | None = None) -> None:
        """End the conversation: waiting requests fail, running handlers are cancelled.

        The peer learns that it need not finish the requests that waited.
        """
        if self.closed is not None:
            return
        reason = reason or ConnectionClosed("the connection is closed")
        abandoned = self._open_requests()
        for exchange in abandoned:
            self.cancel(exchange, str(reason))
        self.closed = reason
        if self._timer is not None:
            self._timer.cancel()
        self.endpoint.close()
        for exchange in abandoned:
            self._settle(exchange, None, reason)
        for task in (*self.running.values(), *(self._background or ())):
            self._loop.call_soon(task.cancel)

    def let_go(self) -> None:
        """End a conversation in which nothing is open; its endpoint may serve another.

        Nothing refers to it any more, so that it is freed at once.
        """
        self.closed = OVER
        self.handlers = NO_HANDLERS
        self.write = discard

    def end_of_input(self) -> None:
        """Handle the end of input: our requests stay without answers."""
        gone = ConnectionClosed("the peer has closed its side of the connection")
        for exchange in self._open_requests():
            self._settle(exchange, None, gone)

    def release_tables(self) -> None:
        """Own no empty table: a session that waits for its client costs less without them."""
        if not self.running:
            self.running = NONE_RUNNING

    async def drain(self, timeout: float | None = None) -> bool:
        """Wait until no handler runs any more; returns whether that was in time."""
        working = [*self.running.values(), *(self._background or ())]
        if not working:
            return True
        _, left = await asyncio.wait(working, timeout=timeout)
        return not left


def _label(exchange: Exchange) -> str:
    """Return what a request is called, by its tool or the like where that is known."""
    return exchange.state if isinstance(exchange.state, str) else exchange.name
