"""Streamable HTTP as a client speaks it: a POST for each message, streams that are resumed.

A message that the server cannot have seen is sent again; one that it may have seen is not. Requests
without a session are sent by `Stateless`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from accord.errors import ConnectionClosed, InvalidParams
from accord.http.client.auth import Denied
from accord.http.client.carrier import SUCCESS_STATUSES, TRANSIENT_STATUSES, RequestCarrier
from accord.http.client.messages import Backoff, EventReader, HttpClientSession, Message
from accord.http.client.sender import JSON_TYPES, ConnectionCut, NotSent, SenderResponse
from accord.http.rules import headers as names
from accord.http.rules.request_headers import request_headers
from accord.http.rules.sse import CONTENT_TYPE, EventIdTooLong, EventTooLong
from accord.runtime.wire import CALL_HEADERS

log = logging.getLogger("accord.http")

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
"""Runs a task until it is done or the wire is closed."""

Renew = Callable[[HttpClientSession], Coroutine[Any, Any, None]]
"""Begins a new session in place of one that the server has ended; raises ConnectionClosed."""

# When a server ends a stream without saying when to come back.
_RETRY: Final = 1.0
# How long a server may take to end a stream that has brought its answer.
_END_EXPECTED: Final = 2.0
# A stream that ends this soon and brought nothing is a failure, not a pause.
_BRIEF: Final = 1.0
# How often listening fails before it is given up, until the server is heard of again.
_LISTENING_FAILURES: Final = 10
# How often the answer to a question is sent once more where the connection broke.
_REPEATED: Final = 2
_CLIENT_ERRORS: Final = range(400, 500)


class FormRefused(Exception):
    """The server refused `initialize` with a status that servers of the older form answer with."""

    def __init__(self, response: SenderResponse, body: bytes) -> None:
        super().__init__(response.status)
        self.response = response
        self.body = body


class Streamable:
    """The newer form: everything goes to one URL."""

    def __init__(self, carrier: RequestCarrier, spawn: Spawn, renew: Renew) -> None:
        self._carrier = carrier
        self._spawn = spawn
        self._renew = renew
        self.session = HttpClientSession(carrier.target.url)
        self._listener: asyncio.Task[None] | None = None
        self._has_given_up = False

    # -- opening and ending

    async def initialize(self, message: Message) -> None:
        """Begin a session.

        Raises:
            FormRefused: the server may speak the older form.
        """
        carrier = self._carrier
        blank = HttpClientSession(self.session.url)
        try:
            response = await carrier.post(blank, message)
        except NotSent as error:
            return carrier.fail_unsent(message, error)
        except ConnectionCut as error:
            return carrier.fail_unanswered(message, str(error))
        with contextlib.closing(response):
            if response.status in _CLIENT_ERRORS:
                raise FormRefused(response, await carrier.read_error(response))
            id = response.header(names.SESSION)
            if id is not None and not names.is_session_id(id):
                return carrier.fail_unanswered(
                    message, "its session id has characters that are not allowed"
                )
            self.session = HttpClientSession(blank.url, id)
            return await self._take(message, response)

    def start_listening(self) -> None:
        """Listen to what the server says by itself, now that the opening is over."""
        if self._listener is not None:
            self._listener.cancel()
        self._has_given_up = False
        if self._carrier.target.options.listen:
            self._listener = self._spawn(self._listen(self.session))

    async def end(self) -> None:
        """End the session."""
        if self.session.id is not None:  # session.end.client-delete
            with contextlib.suppress(NotSent, ConnectionCut):
                await self._carrier.delete(self.session)

    # -- one message

    def session_for(self, message: Message) -> HttpClientSession:
        """Return the URL and headers of a request."""
        return self.session

    def take_whole(self, message: Message, response: SenderResponse, body: bytes) -> None:
        """Handle the whole JSON answer to a request that was sent without a task."""
        if self._has_given_up:
            self.start_listening()
        if len(body) > self._carrier.target.limits.message_bytes:
            self._carrier.fail_too_large(message)
        else:
            self._take_body(message, response, body)

    async def post(self, message: Message) -> None:
        """Send a message and handle its answer."""
        carrier = self._carrier
        while True:
            session = self.session if message.begun is None else message.begun.session
            try:
                response = await carrier.post(session, message)
            except NotSent as error:
                return carrier.fail_unsent(message, error)
            except ConnectionCut as error:
                if message.name is None and message.refusals < _REPEATED:
                    # The server ignores the second of two answers, but waits for the first.
                    message.refusals += 1
                    continue
                return carrier.fail_unanswered(message, str(error))
            if response.status != 404 or session.id is None or message.name is None:
                break
            response.close()
            if not await renew_and_resend(carrier, message, session, self._renew):
                return None
        if self._has_given_up:
            self.start_listening()
        with contextlib.closing(response):
            await self._take(message, response)
        return None

    async def _take(self, message: Message, response: SenderResponse) -> None:
        carrier = self._carrier
        kind = names.media_type(response.header("content-type"))
        if response.status not in SUCCESS_STATUSES:
            body = await carrier.read_error(response)
            instead = carrier.answer_instead(message, response, body)
            if instead is not None:
                await self.post(instead)
            else:
                carrier.fail_refused(message, response, body)
        elif message.id is None:
            await carrier.read_error(response)  # so that the connection can be used again
        elif kind == CONTENT_TYPE:
            await self._follow(message, response)
        elif kind in JSON_TYPES:
            await self._take_json(message, response)
        else:
            carrier.fail_refused(message, response, await carrier.read_error(response))

    async def _take_json(self, message: Message, response: SenderResponse) -> None:
        carrier = self._carrier
        try:
            body = await carrier.body(response)
        except ConnectionCut as error:
            return carrier.fail_unanswered(message, str(error))
        if body is None:
            return carrier.fail_too_large(message)
        return self._take_body(message, response, body)

    def _take_body(self, message: Message, response: SenderResponse, body: bytes) -> None:
        carrier = self._carrier
        if body and not body.isspace():
            carrier.deliver(body)
        if carrier.is_waiting(message):
            carrier.fail_refused(message, response, body)

    # -- the stream of a request

    async def _follow(self, message: Message, response: SenderResponse) -> None:
        """Read the stream that answers a request, and resume it when it breaks."""
        carrier, session = self._carrier, self.session
        events = carrier.events()
        backoff, loop = Backoff(_RETRY), asyncio.get_running_loop()
        while True:
            known, began = events.progress, loop.time()
            try:
                end = await self._read(message, events, response)
            except EventIdTooLong as error:
                return carrier.fail_unanswered(message, str(error))
            except EventTooLong:
                return carrier.fail_too_large(message)
            finally:
                response.close()
            if not carrier.is_waiting(message):
                return None
            if events.progress != known or loop.time() - began > _BRIEF:
                backoff.succeed()
            if events.last_id is None:
                return carrier.fail_unanswered(message, f"{end}, with no event to resume from")
            resumed = await self._resume(session, events, backoff)
            if isinstance(resumed, str):
                return carrier.fail_unanswered(message, f"{end}, and {resumed}")
            response = resumed
            events.begin()

    async def _read(self, message: Message, events: EventReader, response: SenderResponse) -> str:
        """Read a response to its end; returns how it ended."""
        try:
            while self._carrier.is_waiting(message):
                if not await events.read(response):
                    return "the stream ended without the answer"
            # The end has to be read too, or the connection cannot be used again.
            async with asyncio.timeout(_END_EXPECTED):
                while await events.read(response):
                    pass
        except TimeoutError:
            return "the stream went on"
        except ConnectionCut as error:
            return str(error)
        return "the stream ended"

    async def _resume(
        self, session: HttpClientSession, events: EventReader, backoff: Backoff
    ) -> SenderResponse | str:
        """Resume a stream after the last complete event; return the reason if that fails."""
        waited, patience = 0.0, self._carrier.target.options.patience
        while True:
            delay = backoff.fail(events.retry)
            await asyncio.sleep(delay)  # http.sse.client-honours-retry
            waited += delay
            try:
                response = await self._carrier.get(session, events.last_id)
            except (NotSent, ConnectionCut) as error:
                if waited > patience:
                    return f"resuming failed: {error}"
                continue
            if is_stream(response):
                return response
            response.close()
            if response.status not in TRANSIENT_STATUSES or waited > patience:
                return f"resuming was answered with HTTP {response.status}"

    # -- the stream that belongs to no request

    async def _listen(self, session: HttpClientSession) -> None:
        CALL_HEADERS.set(None)  # answers sent from here belong to no call
        carrier = self._carrier
        events = carrier.events()
        backoff, loop = Backoff(_RETRY), asyncio.get_running_loop()
        has_listened = False
        while backoff.failures < _LISTENING_FAILURES:
            known, began = events.progress, loop.time()
            try:
                after = events.last_id
                response = await carrier.get(session, after)
                with contextlib.closing(response):
                    if is_stream(response):
                        has_listened = True
                        events.begin()
                        while await events.read(response):
                            pass
                    elif after is not None and response.status in (400, 404):
                        # It may have forgotten the event and still know the session.
                        events = carrier.events()
                        known = events.progress
                    elif response.status not in TRANSIENT_STATUSES:
                        return await self._not_offered(session, response, was_offered=has_listened)
            except Denied as error:
                # Resumed with the next accepted request; the user is not asked over and over.
                log.info("listening needs authorization: %s", error)
                break
            except (NotSent, ConnectionCut, EventTooLong) as error:
                log.debug("the listening stream broke: %s", error)
            if events.progress != known or loop.time() - began > _BRIEF:
                backoff.succeed()
            await asyncio.sleep(backoff.fail(events.retry))
        self._has_given_up = True
        log.warning("%s: the listening stream does not come back", carrier.place)
        return None

    async def _not_offered(
        self, session: HttpClientSession, response: SenderResponse, *, was_offered: bool
    ) -> None:
        if response.status == 404 and session.id is not None and was_offered:
            with contextlib.suppress(ConnectionClosed):
                await self._renew(session)
        elif response.status != 405:
            log.info("listening was answered with HTTP %d", response.status)


async def renew_and_resend(
    carrier: RequestCarrier, message: Message, session: HttpClientSession, renew: Renew
) -> bool:
    """Handle a message whose session is gone; true when it should be sent once more.

    A server that does not know the session has not looked at the message.
    """
    message.refusals += 1
    message.is_sent = False
    if message.name is None or message.name == "notifications/cancelled":
        return False  # about something that ended with the session
    if message.refusals > 1:
        why = "HTTP 404 also for the renewed session"
        hint = "do several processes serve it, each with sessions of its own?"
        carrier.fail(message, ConnectionClosed(f"{message.name}: {carrier.place}: {why} ({hint})"))
        return False
    try:
        await renew(session)
    except ConnectionClosed as error:
        carrier.fail(message, ConnectionClosed(f"{message.name}: {error}"[:300]))
        return False
    if _has_cursor(message):
        # pagination.no-cross-session-cursors
        why = "the server lost the session between two pages, and the cursor with it; list anew"
        carrier.fail(message, InvalidParams(f"{message.name}: {why}"))
        return False
    # The caller may have given up in the meantime.
    return message.id is None or carrier.is_waiting(message)


def _has_cursor(message: Message) -> bool:
    is_list = message.name is not None and message.name.endswith("/list")
    if not is_list or b'"cursor"' not in message.data:
        return False
    params = msgspec.json.decode(message.data).get("params")
    return isinstance(params, dict) and params.get("cursor") is not None


def is_stream(response: SenderResponse) -> bool:
    """Whether a response is an event stream."""
    return response.status == 200 and (
        names.media_type(response.header("content-type")) == CONTENT_TYPE
    )


class Stateless(Streamable):
    """Sends requests of revisions without handshake: each is a POST of its own.

    There are no sessions and nothing is resumed: a request whose response breaks is lost. The end
    of a connection cancels the request that it carried.
    """

    def session_for(self, message: Message) -> HttpClientSession:
        """Return the URL and headers of a request; each has its own."""
        request = HttpClientSession(self.session.url)
        find_mirrored = self._carrier.listener.mirrored_arguments
        request.headers |= request_headers(message.data, find_mirrored)
        return request

    async def post(self, message: Message) -> None:
        """Send a request and handle its answer; it is cancelled with the task that runs this."""
        carrier = self._carrier
        request = self.session_for(message) if message.begun is None else message.begun.session
        try:
            response = await carrier.post(request, message)
        except NotSent as error:
            return carrier.fail_unsent(message, error)
        except ConnectionCut as error:
            return carrier.fail_unanswered(message, str(error))
        self.session.url = request.url  # a redirect holds for what follows
        with contextlib.closing(response):
            return await self._take(message, response)

    async def _follow(self, message: Message, response: SenderResponse) -> None:
        carrier = self._carrier
        try:
            end = await self._read(message, carrier.events(), response)
        except EventTooLong:
            return carrier.fail_too_large(message)
        if carrier.is_waiting(message):
            carrier.fail_unanswered(message, end)
        return None
