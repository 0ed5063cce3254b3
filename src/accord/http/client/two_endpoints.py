"""HTTP+SSE as a client speaks it: one stream for messages of the server, a POST for each of ours.

A session of this form lives as long as its stream. When that breaks, the answers
of pending requests are lost, and a new session begins.
"""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

from accord.errors import AuthError, ConnectFailed, ConnectionClosed
from accord.http.client.auth import Denied
from accord.http.client.carrier import SUCCESS_STATUSES, RequestCarrier, explain_response
from accord.http.client.messages import Backoff, EventReader, HttpClientSession, Message
from accord.http.client.sender import ConnectionCut, NotSent, SenderResponse
from accord.http.client.streamable import Renew, Spawn, is_stream, renew_and_resend
from accord.http.rules.responses import endpoint_url
from accord.http.rules.sse import EventTooLong
from accord.runtime.wire import Lost

if TYPE_CHECKING:
    from accord.types._base import RequestId

log = logging.getLogger("accord.http")

# Servers of this form send the first event at once.
_ENDPOINT_EXPECTED: Final = 5.0
# After several streams in a row that end sooner than this, the connection is given up.
_BRIEF: Final = 2.0
_BRIEF_STREAMS: Final = 5
# From so many requests on, those that have been answered are forgotten.
_TAKEN_LEAST: Final = 64


class TwoEndpoints:
    """The older form: messages go to the place that the stream names first."""

    def __init__(self, carrier: RequestCarrier, spawn: Spawn, renew: Renew, lost: Lost) -> None:
        self._carrier = carrier
        self._spawn = spawn
        self._renew = renew
        self._lost = lost
        self.session = HttpClientSession(carrier.target.url)
        self._reader: asyncio.Task[None] | None = None
        # Requests that the server has taken, by id with their methods: the stream brings their
        # answers. Some have been answered already.
        self._taken: dict[RequestId, str] = {}
        self._taken_most = _TAKEN_LEAST
        self._opening: Message | None = None
        self._backoff = Backoff()
        self._broken: HttpClientSession | None = None

    # -- opening and ending

    async def connect(self, *, is_patient: bool = False) -> None:
        """Open the stream and read the URL that messages go to.

        Raises:
            ConnectFailed: there is no such stream.
            AuthError: the server refuses access.
        """
        carrier = self._carrier
        stream = HttpClientSession(carrier.target.url)
        try:
            response = await carrier.get(stream, is_patient=is_patient)
        except Denied as error:
            raise error.error from None
        except NotSent as error:
            text = f"{carrier.place}: no connection: {error}"
            raise ConnectFailed(text[:300], phase="starting") from None
        except ConnectionCut as error:
            raise ConnectFailed(f"{carrier.place}: {error}"[:300], phase="starting") from None
        events = carrier.events()
        try:
            self.session = await self._find_place(stream, response, events)
        except BaseException:
            response.close()
            raise
        if self._reader is not None:
            self._reader.cancel()
        self._fail_taken("the session was renewed before the answer")
        self._reader = self._spawn(self._read(self.session, response, events))

    async def _find_place(
        self, stream: HttpClientSession, response: SenderResponse, events: EventReader
    ) -> HttpClientSession:
        carrier = self._carrier
        if not is_stream(response):
            is_success = response.status in SUCCESS_STATUSES
            body = b"" if is_success else await carrier.read_error(response)
            denied = carrier.auth_error(response, body)
            if denied is not None:
                raise denied
            why = explain_response(response, body)
            raise ConnectFailed(f"{carrier.place}: {why}"[:300], phase="starting")
        why = "the stream does not name an endpoint"
        try:
            async with asyncio.timeout(_ENDPOINT_EXPECTED):
                while events.place is None and await events.read(response):
                    pass
        except (ConnectionCut, EventTooLong) as error:
            why = str(error)
        except TimeoutError:
            why += f" within {_ENDPOINT_EXPECTED:g} s"
        if events.place is None:
            raise ConnectFailed(f"{carrier.place}: {why}"[:300], phase="starting")
        named = events.place.decode("utf-8", "replace")
        url = endpoint_url(stream.url, named)
        if url is None:
            why = f"the stream names an endpoint elsewhere, {named[:100]!r}"
            raise ConnectFailed(f"{carrier.place}: {why}", phase="starting")
        return HttpClientSession(url)

    async def initialize(self, message: Message) -> None:
        """Begin a session; opens the stream if it is not open."""
        if message.answer is not None or self._reader is None or self._reader.done():
            try:
                await self.connect(is_patient=message.answer is not None)
            except ConnectFailed as error:
                message.is_postponed = True
                return self._carrier.fail(message, error)
            except AuthError as error:
                return self._carrier.fail(message, error)
        self._opening = message
        try:
            await self.post(message)
            if message.answer is not None:
                await asyncio.wait([message.answer])
        finally:
            self._opening = None
        return None

    def start_listening(self) -> None:
        """Do nothing: the stream is open."""

    async def end(self) -> None:
        """Do nothing: the session ends with its stream."""

    # -- messages

    async def post(self, message: Message) -> None:
        """Send a message; its answer arrives on the stream."""
        carrier = self._carrier
        if message.name is None and self.session is self._broken:
            return None  # the question ended with its session
        while True:
            session = self.session
            if session is self._broken and not message.is_initialize:
                # The answer would be written to a stream that is not read any more.
                try:
                    await self._renew(session)
                except ConnectionClosed as error:
                    return carrier.fail(message, ConnectionClosed(f"{message.name}: {error}"))
                continue
            try:
                response = await carrier.post(session, message)
            except NotSent as error:
                return carrier.fail_unsent(message, error)
            except ConnectionCut as error:
                return carrier.fail_unanswered(message, str(error))
            with contextlib.closing(response):
                body = await carrier.read_error(response)
            if response.status in SUCCESS_STATUSES:
                return self._note_taken(message, session)
            instead = carrier.answer_instead(message, response, body)
            if instead is not None:
                return await self.post(instead)
            if response.status != 404 or message.is_initialize:
                return carrier.fail_refused(message, response, body)
            if not await renew_and_resend(carrier, message, session, self._renew):
                return None

    # -- requests whose answers the stream brings

    def _note_taken(self, message: Message, session: HttpClientSession) -> None:
        carrier = self._carrier
        if message.id is None or not carrier.is_waiting(message):
            return
        if session is not self.session or session is self._broken:
            carrier.fail_unanswered(message, "the stream ended before the answer")
        elif message.answer is None:  # else the wire waits for it
            if len(self._taken) >= self._taken_most:
                is_waiting = carrier.listener.is_waiting
                self._taken = {id: name for id, name in self._taken.items() if is_waiting(id)}
                self._taken_most = max(2 * len(self._taken), _TAKEN_LEAST)
            self._taken[message.id] = message.name or "the request"

    def _fail_taken(self, why: str) -> None:
        """Fail the requests whose answers are lost, and no other: it waits for the next session."""
        taken, self._taken = self._taken, {}
        for id, name in taken.items():
            self._carrier.fail_unanswered(Message(b"", id, name), why)

    # -- the stream

    async def _read(
        self, session: HttpClientSession, response: SenderResponse, events: EventReader
    ) -> None:
        why = "the server ended the stream"
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            while await events.read(response):
                pass
        except (ConnectionCut, EventTooLong) as error:
            why = str(error)
        finally:
            response.close()
        if loop.time() - began > _BRIEF:
            self._backoff.succeed()
        if session is self.session:
            self._broken = session
            self._fail_taken(why)
            self._spawn(self._handle_broken_stream(session, why))

    async def _handle_broken_stream(self, session: HttpClientSession, why: str) -> None:
        """Renew the session."""
        if self._opening is not None:
            return self._carrier.fail_unanswered(self._opening, why)
        delay = self._backoff.fail()
        if self._backoff.failures > _BRIEF_STREAMS:
            return self._lost(f"{why}, {_BRIEF_STREAMS} times in a row")
        await asyncio.sleep(delay)
        try:
            await self._renew(session)
        except ConnectionClosed as error:
            self._lost(f"{why}; {error}"[:300])
        return None
