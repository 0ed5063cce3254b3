"""The client's end of HTTP: both forms behind one wire, which renews sessions by itself."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal

import msgspec

from accord.errors import AccordError, AuthError, ConnectFailed, ConnectionClosed, InternalError
from accord.http.client.carrier import LONGEST_PAUSE, DirectPost, HttpTarget, RequestCarrier
from accord.http.client.messages import Backoff, HttpClientSession, Message
from accord.http.client.sender import OwnSender, Sender, require_sender, sender_for
from accord.http.client.streamable import FormRefused, Stateless, Streamable
from accord.http.client.two_endpoints import TwoEndpoints
from accord.http.rules.responses import ResponseMessage, explain, parse_response
from accord.protocol.exchange import Exchange
from accord.runtime.wire import CALL_HEADERS, Lost, Receive, WireListener
from accord.types._base import RequestId

log = logging.getLogger("accord.http")

# Each open request costs a connection, and some 100 KB with its buffers.
_UNDER_WAY: Final = 1_000
# How long notifications and answers may take to leave when the wire is closed.
_SENDING_EXPECTED: Final = 1.0
_DELETE_EXPECTED: Final = 2.0


class _Head(msgspec.Struct):
    id: RequestId | None = None
    method: str | None = None


class _Cancelled(msgspec.Struct):
    request_id: RequestId | None = msgspec.field(default=None, name="requestId")


class _CancelledNotice(msgspec.Struct):
    params: _Cancelled


# The answers to a batch are a batch; our own messages go one by one.
_REPLIES: Final = _Head()
_read_head: Final = msgspec.json.Decoder(_Head).decode
_read_cancelled: Final = msgspec.json.Decoder(_CancelledNotice).decode


class HttpWire:
    """The wire to a server that is reached over HTTP.

    Streamable HTTP is tried first; a server that refuses it is asked for the older form.
    """

    def __init__(self, target: HttpTarget) -> None:
        if target.options.sender is None:
            require_sender(target.url, target.options)
        self.target = target
        self._loop: asyncio.AbstractEventLoop
        self._listener: WireListener
        # Wraps the sender before anything is sent, to record requests and responses.
        self.tap: Callable[[Sender], Sender] | None = None
        self._own_sender: OwnSender | None = None
        self._carrier: RequestCarrier
        self._form: Streamable | TwoEndpoints
        # For revisions without handshake.
        self._stateless: Stateless
        self._lost: Lost | None = None
        self._is_open = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._messages: dict[asyncio.Task[None] | DirectPost, Message] = {}
        self._requests: dict[RequestId, asyncio.Task[None] | DirectPost] = {}
        self._room: asyncio.Future[None] | None = None
        # All messages wait for the end of the opening, or of a renewal.
        self._gate: asyncio.Task[None] | None = None
        self._initialize: Message | None = None
        self._initialized: Message | None = None
        self._renewals = 0
        self._written = 0
        # The last renewal that failed, and how many messages had been written until then.
        self._refusal: tuple[int, ConnectionClosed] | None = None

    @property
    def place(self) -> str:
        return self.target.place

    @property
    def transport(self) -> Literal["http", "sse"]:
        return self.target.form or "http"

    def report_to(self, listener: WireListener) -> None:
        self._listener = listener

    # -- life

    async def open(self, receive: Receive, lost: Lost) -> None:
        """Get ready; the connection is made by the first message, in the older form now.

        Raises:
            ConnectFailed: the older form was asked for and is not served.
            AuthError: it is there and refuses access.
        """
        self._loop = asyncio.get_running_loop()
        target = self.target
        sender = target.options.sender
        if sender is None:
            sender = self._own_sender = sender_for(target.url, target.options)
        if self.tap is not None:
            sender = self.tap(sender)
        # A sender that is wrapped sees every request; others are not known to have the method.
        begin = getattr(sender, "begin", None) if sender is self._own_sender else None
        self._carrier = RequestCarrier(target, sender, self._listener, receive, begin)
        self._lost = lost
        self._is_open = True
        self._stateless = Stateless(self._carrier, self._spawn, self._renew)
        if target.form != "sse":
            self._form = Streamable(self._carrier, self._spawn, self._renew)
            return
        older = self._form = self._older_form()
        try:
            await older.connect()
        except BaseException:
            await self.close()
            raise

    def _older_form(self) -> TwoEndpoints:
        return TwoEndpoints(self._carrier, self._spawn, self._renew, self._lose)

    def _lose(self, why: str) -> None:
        lost, self._lost = self._lost, None
        if lost is not None and self._is_open:
            lost(why)

    async def close(self) -> None:
        """Send what is queued, end the session, close all connections."""
        if not self._is_open:
            return
        self._is_open = False
        self._cancel_direct()
        leaving = {task for task in self._tasks if self._is_leaving(task)}
        await self._end_tasks(self._tasks - leaving)
        if leaving:
            await asyncio.wait(leaving, timeout=_SENDING_EXPECTED)
        await self._end_tasks(self._tasks)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DELETE_EXPECTED):
                await self._form.end()
        sender, self._own_sender = self._own_sender, None
        if sender is not None:
            await sender.close()

    def _is_leaving(self, task: "asyncio.Task[None]") -> bool:
        message = self._messages.get(task)
        return message is not None and message.id is None

    def _cancel_direct(self) -> None:
        for post in list(self._messages):
            if isinstance(post, DirectPost):
                post.cancel()

    async def _end_tasks(self, tasks: "set[asyncio.Task[None]]") -> None:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def abort(self) -> None:
        self._is_open = False
        sender, self._own_sender = self._own_sender, None
        if sender is None:
            return
        if not self._loop.is_running():
            sender.abandon()
            return
        with contextlib.suppress(RuntimeError):  # the loop was closed in between
            self._loop.call_soon_threadsafe(self._abort_here, sender)

    def _abort_here(self, sender: OwnSender) -> None:
        self._cancel_direct()
        for task in self._tasks:
            task.cancel()
        self._spawn(sender.close())

    # -- tasks

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        message = self._forget(task)
        was_gate = task is self._gate
        if was_gate:
            self._gate = None
        if not task.cancelled() and (error := task.exception()) is not None:
            # A failed renewal is raised to the requests that wait for it; other errors are bugs.
            if isinstance(error, ConnectionClosed):
                self._refusal = (self._written, error) if was_gate else self._refusal
            else:
                log.error("a task of the connection failed", exc_info=error)
            if message is not None:
                self._carrier.fail(message, InternalError("internal error of the client"))

    def _forget(self, sending: "asyncio.Task[None] | DirectPost") -> Message | None:
        """Stop counting a message as under way."""
        message = self._messages.pop(sending, None)
        if message is not None:
            if message.id is not None:
                self._requests.pop(message.id, None)
            elif message.name is None:
                self._carrier.answers.end(len(message.data))
        room = self._room
        if room is not None and not self.is_congested and not room.done():
            room.set_result(None)
        return message

    @property
    def is_congested(self) -> bool:
        """Whether too many messages are under way."""
        return len(self._messages) >= _UNDER_WAY

    async def writable(self) -> None:
        while self.is_congested and self._is_open:
            if self._room is None or self._room.done():
                self._room = self._loop.create_future()
            await asyncio.shield(self._room)

    # -- sending

    def write(self, data: bytes, exchange: Exchange | None = None) -> None:
        if not self._is_open:
            return None
        head = _REPLIES if data.startswith(b"[") else _read_head(data)
        id = None if head.method is None else head.id
        message = Message(data, id, head.method, CALL_HEADERS.get())
        self._written += 1
        message.number = self._written
        work: Coroutine[Any, Any, None]
        if not self._listener.revision.handshake or head.method == "server/discover":
            if head.method == "notifications/cancelled":
                return self._hang_up(message)
            message.is_probe = self._listener.revision.handshake
            if not message.is_probe and self._post_directly(self._stateless, message):
                return None
            work = self._post_stateless(message)
        elif head.method == "initialize":
            self._initialize = message
            work = self._open_session(message)
        elif head.method == "notifications/initialized":
            self._initialized = message
            work = self._end_opening(message)
        elif head.method == "notifications/cancelled":
            work = self._cancel(message)
        else:
            if self._gate is None and self._post_directly(self._form, message):
                return None
            work = self._post(message)
        task = self._spawn(work)
        self._messages[task] = message
        if id is not None:
            self._requests[id] = task
        elif head.method is None:
            self._carrier.answers.begin(len(data))
        if head.method == "notifications/initialized":
            self._gate = task
        return None

    def _post_directly(self, form: Streamable | TwoEndpoints, message: Message) -> bool:
        """Send a request without a task, over a connection that is at hand; false if none is."""
        if message.id is None or isinstance(form, TwoEndpoints):
            return False
        try:
            post = DirectPost(self, form, message)
            if not post.begin(self._carrier):
                return False
        except Exception:  # the task meets it again, and reports it
            return False
        self._messages[post] = message
        self._requests[message.id] = post
        return True

    def end_direct(self, post: DirectPost) -> bool:
        """Stop counting a request that was sent without a task; false after the end."""
        return self._forget(post) is not None and self._is_open

    def go_on(self, post: DirectPost) -> "asyncio.Task[None]":
        """Let a task read the response to a request that was sent without one."""
        message = post.message
        message.begun = post
        task = self._spawn(post.form.post(message))
        self._messages[task] = message
        if message.id is not None:
            self._requests[message.id] = task
        return task

    async def _open_session(self, message: Message) -> None:
        form = self._form
        try:
            await form.initialize(message)
        except FormRefused as refusal:
            answer = parse_response(refusal.body)
            is_answered = answer is not None and answer.id == message.id
            is_denied = refusal.response.status == 401 and self.target.authorizer is not None
            may_be_older = self.target.form is None and not is_answered and not is_denied
            if may_be_older:  # http.compat.sse-fallback-any-4xx
                older = self._older_form()
                with contextlib.suppress(ConnectFailed, AuthError):
                    await older.connect()
                    self._form = older
            if self._form is form:
                return self._carrier.fail_refused(message, refusal.response, refusal.body)
            await self._form.initialize(message)
        return None

    async def _end_opening(self, message: Message) -> None:
        self._form.session.set_revision(self._listener.revision)
        try:
            await self._carrier.notify(self._form.session, message)
        except ConnectionClosed as error:
            # The next request will say whether that matters.
            log.warning("%s", error)
        self._form.start_listening()

    @property
    def _is_opening(self) -> bool:
        return self._gate is not None and not self._gate.done()

    async def _post(self, message: Message) -> None:
        while self._gate is not None and self._is_opening:
            try:
                await asyncio.shield(self._gate)
            except ConnectionClosed as error:
                return self._carrier.fail(message, ConnectionClosed(f"{message.name}: {error}"))
        await self._form.post(message)
        return None

    async def _post_stateless(self, message: Message) -> None:
        await self._stateless.post(message)
        if message.is_probe:
            self._form.session.url = self._stateless.session.url  # where a redirect led

    def _hang_up(self, message: Message) -> None:
        """End the connection of a request that is cancelled; the server notices that."""
        id = _read_cancelled(message.data).params.request_id
        task = None if id is None else self._requests.get(id)
        if task is not None:
            task.cancel()

    async def _cancel(self, message: Message) -> None:
        """Send a cancellation, then stop waiting for what it cancels."""
        id = _read_cancelled(message.data).params.request_id
        task = None if id is None else self._requests.get(id)
        request = None if task is None else self._messages.get(task)
        if task is not None and request is not None and not request.is_sent:
            # The request was not sent, and will not be: a cancellation might overtake it.
            task.cancel()
            return
        try:
            await self._post(message)
        finally:
            if task is not None:
                task.cancel()

    # -- renewing the session

    async def _renew(self, stale: HttpClientSession) -> None:
        """Begin a new session in place of a stale one, once for all requests that need it.

        Raises:
            ConnectionClosed: it could not be begun.
        """
        task = asyncio.current_task()
        message = None if task is None else self._messages.get(task)
        if message is not None and self._refusal is not None:
            until, error = self._refusal
            if message.number <= until:  # one failure for all messages under way
                raise error
        # A new session counts once its opening is over.
        while self._form.session is stale or self._is_opening:
            if not self._is_opening:
                self._gate = self._spawn(self._renew_session())
            if self._gate is not None:
                await asyncio.shield(self._gate)

    async def _renew_session(self) -> None:
        CALL_HEADERS.set(None)  # those of the call that noticed are not for what follows
        first, second = self._initialize, self._initialized
        if first is None or second is None:
            raise ConnectionClosed("the session ended before it had begun")
        log.info("%s: the session has ended; it is renewed", self.place)
        try:
            async with asyncio.timeout(self.target.options.patience) as self._carrier.deadline:
                await self._initialize_again(first)
                self._form.session.set_revision(self._listener.revision)
                await self._carrier.notify(
                    self._form.session, Message(second.data, name=second.name)
                )
        except TimeoutError:
            text = "the session has ended and could not be renewed in time"
            raise ConnectionClosed(text) from None
        except AccordError as error:
            text = f"the session has ended and could not be renewed: {error}"
            raise ConnectionClosed(text[:300]) from None
        self._refusal = None
        self._form.start_listening()
        self._listener.session_renewed()

    async def _initialize_again(self, first: Message) -> None:
        backoff = Backoff(most=LONGEST_PAUSE)
        while True:
            self._renewals += 1
            again = Message(*_with_id(first.data, f"renewal-{self._renewals}"), "initialize")
            try:
                with self._carrier.await_answer(again) as answer:
                    await self._form.initialize(again)
                    return self._check(await answer)
            except FormRefused as refusal:
                why = explain(refusal.response.status, "", refusal.body)
                raise ConnectionClosed(why) from None
            except AccordError:
                if not again.is_postponed:
                    raise
            await asyncio.sleep(backoff.fail())

    def _check(self, answer: ResponseMessage) -> None:
        """Make sure that the conversation can go on."""
        if isinstance(answer.error, msgspec.Struct):
            raise ConnectionClosed(f"{answer.error.message} ({answer.error.code})")
        try:
            named = msgspec.json.decode(answer.result, type=_Opening).protocol_version  # type: ignore[arg-type]  # not an error, so a result
        except msgspec.ValidationError:
            raise ConnectionClosed("the answer to initialize is malformed") from None
        if named != self._listener.revision.id:
            why = f"the server now speaks {named[:40]!r}, not {self._listener.revision.id}"
            self._lose(f"{why}; connect anew")
            raise ConnectionClosed(why)


class _Opening(msgspec.Struct):
    protocol_version: str = msgspec.field(name="protocolVersion")


def _with_id(data: bytes, id: str) -> tuple[bytes, str]:
    message = msgspec.json.decode(data)
    message["id"] = id
    return msgspec.json.encode(message), id
