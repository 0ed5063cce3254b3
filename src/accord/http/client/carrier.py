"""The part that both forms of HTTP share: sending requests and reporting their outcomes."""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from accord.errors import (
    AccordError,
    AuthError,
    ConnectFailed,
    ConnectionClosed,
    InternalError,
    RemoteProtocolError,
    RequestError,
)
from accord.http.client.auth import (
    CHALLENGES,
    Authorizer,
    Denied,
    RequestAuthorization,
    auth_error,
    pause_deadline,
    with_token,
)
from accord.http.client.heads import merge_headers
from accord.http.client.messages import (
    Backoff,
    EventReader,
    HttpClientSession,
    Message,
    PendingAnswers,
)
from accord.http.client.sender import (
    ConnectionCut,
    HttpClientOptions,
    HttpHeaders,
    NotSent,
    Sender,
    SenderResponse,
)
from accord.http.rules import headers as names
from accord.http.rules.responses import (
    ResponseMessage,
    explain,
    parse_response,
    parse_retry_after,
    quote_url,
    redirect_url,
)
from accord.http.rules.sse import CONTENT_TYPE
from accord.protocol.codec import Limits, encode_error
from accord.protocol.jsonrpc import INTERNAL_ERROR, ErrorBody
from accord.runtime.wire import ProbeRefused, Receive, WireListener
from accord.stdio.lines import LineTooLong

if TYPE_CHECKING:
    from accord.http.client.streamable import Streamable
    from accord.http.client.wire import HttpWire

log = logging.getLogger("accord.http")

SUCCESS_STATUSES: Final = range(200, 300)
# Statuses that may change a moment later.
TRANSIENT_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
# The longest pause between two attempts to reach a server that is away.
LONGEST_PAUSE: Final = 2.0
_REDIRECTS: Final = 5
# How often a request that the server postpones is sent again.
_POSTPONED: Final = 3
# As much of the body of an error is read.
_ERROR_BODY: Final = 64 * 1024
_ERROR_EXPECTED: Final = 5.0
_DENIALS: Final = (401, 403)
_TOO_LARGE: Final = 413
_SERVER_ERRORS: Final = range(500, 600)
_REDIRECTED: Final = frozenset({301, 302, 307, 308})
_MOST_TEXT: Final = 300


class DirectPost:
    """One request that is under way without a task; most are answered by one JSON message at once.

    A task, a future for the head and one for the body would cost as much as all the rest of a call.
    Any other outcome starts the task after all, which goes on with the response as if it had sent
    the request itself.

    Args:
        wire: counts it, and starts the task where one is needed.
        form: handles its answer.
        message: the request.
    """

    __slots__ = (
        "_carrier",
        "_context",
        "_response",
        "_task",
        "_wire",
        "form",
        "message",
        "session",
    )

    def __init__(self, wire: "HttpWire", form: "Streamable", message: "Message") -> None:
        self._wire = wire
        self.form = form
        self.message = message
        self.session: HttpClientSession = form.session_for(message)
        self._carrier: RequestCarrier
        self._context: Context
        self._response: Any
        self._task: asyncio.Task[None] | None = None

    def begin(self, carrier: "RequestCarrier") -> bool:
        """Send the request; false when that takes waiting."""
        self._carrier = carrier
        self._response = carrier.begin(self)
        if self._response is None:
            return False
        # A task would have had a copy, too: connections outlive the call that made them.
        self._context = copy_context()
        return True

    # -- called by the connection

    def complete(self, response: Any, body: bytes) -> None:
        """Pass on the whole JSON answer."""
        if not self._wire.end_direct(self):
            return
        try:
            self._context.run(self.form.take_whole, self.message, response, body)
        except Exception:  # a bug, and the connection goes on
            log.exception("an answer could not be passed on")
            self._carrier.fail(self.message, InternalError("internal error of the client"))

    def go_on(self) -> None:
        """Let a task read the response."""
        if self._wire.end_direct(self):
            self._task = self._context.run(self._wire.go_on, self)

    # -- called by the task

    async def arrive(self) -> "SenderResponse":
        """Return the response once its head is read."""
        self.message.begun = None  # whatever is sent next is another request
        response: SenderResponse = await self._response.arrive()
        return response

    # -- called by the wire

    def cancel(self) -> None:
        """End the connection of the request; the server notices that."""
        if self._task is not None:
            self._task.cancel()
            return
        self._wire.end_direct(self)
        self._response.abort()


@dataclass(frozen=True, kw_only=True)
class HttpTarget:
    """Where a server is, and how it is spoken to.

    Args:
        url: of its endpoint.
        headers: sent with every request.
        form: "http" for Streamable HTTP, "sse" for the older two endpoints; None tries both.
        options: how requests are sent.
        limits: how large one message may be.
        authorizer: gives tokens.
    """

    url: str
    headers: HttpHeaders | None = None
    form: Literal["http", "sse"] | None = None
    options: HttpClientOptions = field(default_factory=HttpClientOptions)
    limits: Limits = field(default_factory=Limits)
    authorizer: Authorizer | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{self.url[:200]!r} is not a URL of a server, http(s)://host/path")
        if self.form not in ("http", "sse", None):
            raise ValueError(f"transport is {self.form!r}, expected 'http' or 'sse'")
        if self.headers is not None and not callable(self.headers):
            names.check_headers(self.headers)

    @property
    def place(self) -> str:
        """The URL for messages to users, without secrets."""
        return quote_url(self.url)


class _Answer(msgspec.Struct):
    id: str | int | None = None


Begin: TypeAlias = Callable[[str, Mapping[str, str], bytes, DirectPost], SenderResponse | None]
"""Sends a POST without a task (URL, headers, body); None when that takes waiting."""


class RequestCarrier:
    """Sends the requests of a wire and reports what became of them.

    Args:
        target: the server.
        sender: sends requests.
        watcher: learns what became of them.
        receive: takes messages of the server.
        begin: sends requests without a task; None where the sender cannot do that.
    """

    def __init__(
        self,
        target: HttpTarget,
        sender: Sender,
        watcher: WireListener,
        receive: Receive,
        begin: Begin | None = None,
    ) -> None:
        self.target = target
        self.sender = sender
        self.listener = watcher
        self.answers = PendingAnswers()
        self._receive = receive
        self._begin = begin
        self._asked: Message | None = None
        self._authorization: RequestAuthorization | None = None
        if target.authorizer is not None:
            self._authorization = RequestAuthorization(
                target.authorizer, target.url, self._pause_timeouts
            )
        # Set during a renewal; stopped while the user is asked to authorize us.
        self.deadline: asyncio.Timeout | None = None
        # The last target of a redirect.
        self._led_to: str | None = None

    # -- messages of the server

    def deliver(self, data: bytes) -> None:
        """Pass on a message of the server."""
        asked = self._asked
        if asked is not None and asked.answer is not None:
            answer = parse_response(data)
            if answer is not None and answer.id == asked.id:
                if not asked.answer.done():
                    asked.answer.set_result(answer)
                return
        self._receive(data)

    def events(self) -> EventReader:
        """Make a reader for a stream of the server's messages."""
        limit = self.target.limits.message_bytes
        return EventReader(self.deliver, self._drop, limit, self.answers)

    def _drop(self, message: LineTooLong) -> None:
        """Pass on that a message of the server was too large to be kept."""
        asked = self._asked
        if asked is not None and message.id == asked.id:
            self.fail_too_large(asked)
        else:
            self.listener.message_dropped(message)

    @contextlib.contextmanager
    def await_answer(self, message: Message) -> Iterator["asyncio.Future[ResponseMessage]"]:
        """Yield the answer to a request that the listener does not know of."""
        message.answer = asyncio.get_running_loop().create_future()
        self._asked = message
        try:
            yield message.answer
        finally:
            self._asked = None
            message.answer.cancel()

    def is_waiting(self, message: Message) -> bool:
        """Whether a message is a request that waits for its answer."""
        if message.answer is not None:
            return not message.answer.done()
        return message.id is not None and self.listener.is_waiting(message.id)

    @contextlib.contextmanager
    def _pause_timeouts(self) -> Iterator[None]:
        with (
            self.listener.pause_timeouts(),
            pause_deadline(self.deadline, self.target.options.patience),
        ):
            yield

    # -- what became of requests

    @property
    def place(self) -> str:
        """Where the server is, for messages to users."""
        if self._led_to is None:
            return self.target.place
        return f"{self.target.place} (which redirects to {self._led_to})"

    def fail(self, message: Message, error: AccordError) -> None:
        """Report that a message was not answered, or not accepted."""
        if message.id is None:
            what = message.name or "an answer"
            log.warning("%s did not reach the server: %s", what, error)
        elif message.answer is not None:
            if not message.answer.done():
                message.answer.set_exception(error)
        elif self.listener.is_waiting(message.id):
            self.listener.request_failed(message.id, error)

    def fail_unsent(self, message: Message, why: NotSent) -> None:
        """Fail a message for which there was no connection."""
        message.is_postponed = not why.is_lasting
        if isinstance(why, Denied):
            self.fail(message, why.error)
        else:
            text = f"{message.name or 'answer'}: not sent, no connection to {self.place}: {why}"
            self._fail_by_phase(message, "starting", f"no connection: {why}", text)

    def fail_unanswered(self, message: Message, why: str) -> None:
        """Fail a message that the server may have seen, but did not answer."""
        message.is_postponed = True
        text = f"{message.name}: {why}; whether the server carried it out is unknown"
        self._fail_by_phase(message, "initialize", f"no answer to {message.name}: {why}", text)

    def fail_too_large(self, message: Message) -> None:
        """Fail a message whose answer is larger than a message may be."""
        why = (
            f"the answer exceeds the limit of {self.target.limits.message_bytes} bytes "
            "(message_bytes); connect(..., limits=Limits(message_bytes=...)) raises it"
        )
        if message.is_opening:
            self._fail_by_phase(message, "initialize", why, why)
        else:  # as on every other transport: the connection goes on
            self.fail(message, RemoteProtocolError(f"{message.name}: {why}"))

    def _fail_by_phase(self, message: Message, phase: str, why_unconnected: str, text: str) -> None:
        if message.is_opening:
            unconnected = f"{self.place}: {why_unconnected}"
            self.fail(message, ConnectFailed(unconnected[:_MOST_TEXT], phase=phase))
        else:
            self.fail(message, ConnectionClosed(text[:_MOST_TEXT]))

    def fail_refused(self, message: Message, response: SenderResponse, body: bytes) -> None:
        """Fail a message that was answered by a status or a body that is not an answer."""
        message.is_postponed = response.status in TRANSIENT_STATUSES
        denied = self.auth_error(response, body)
        # Without a token to send, initialize may still lead to the older form.
        if denied is not None and not (message.is_probe and self._authorization is None):
            return self.fail(message, denied)
        # An error of the server itself is an outage, whatever it says about the probe.
        is_outage = message.is_probe and response.status in _SERVER_ERRORS
        answer = None if is_outage else parse_response(body)
        if answer is not None and answer.id == message.id and self.is_waiting(message):
            self.deliver(body)
        elif (
            answer is not None
            and isinstance(answer.error, msgspec.Struct)
            and not message.is_initialize
        ):
            error = answer.error
            data = None if error.data is msgspec.UNSET else error.data
            text = f"{message.name}: HTTP {response.status}: {error.message}"
            self.fail(message, RequestError(text[:_MOST_TEXT], code=error.code, data=data))
        if self.is_waiting(message) or message.id is None:
            self._refuse_plainly(message, response, body)
        return None

    def auth_error(self, response: SenderResponse, body: bytes) -> AuthError | None:
        """Return the error for a request that was refused; None for any other response."""
        if response.status not in _DENIALS:
            return None
        has_auth = self._authorization is not None
        return auth_error(self.place, response, explain_response(response, body), has_auth=has_auth)

    def answer_instead(
        self, message: Message, response: SenderResponse, body: bytes
    ) -> Message | None:
        """Return a short answer in place of one that the server finds too large.

        It has not read the id, and its handler waits for the answer.
        """
        if message.name is not None or response.status != _TOO_LARGE:
            return None
        id = msgspec.json.decode(message.data, type=_Answer).id
        if id is None or message.refusals:
            return None
        why = f"the answer has {len(message.data)} bytes: {explain_response(response, body)}"
        error = ErrorBody(INTERNAL_ERROR, why[:_MOST_TEXT])
        return Message(encode_error(id, error), headers=message.headers, refusals=1)

    def _refuse_plainly(self, message: Message, response: SenderResponse, body: bytes) -> None:
        why = explain_response(response, body, retry_after=response.header("retry-after"))
        if message.is_opening:
            is_refusal = message.is_probe and response.status not in _SERVER_ERRORS
            kind = ProbeRefused if is_refusal else ConnectFailed
            text = f"{self.place}: {why}"
            self.fail(message, kind(text[:_MOST_TEXT], phase="initialize"))
        else:
            text = f"{message.name or 'answer'}: {self.place}: {why}"
            facts = {"status": response.status, "body": body[:1_000].decode("utf-8", "replace")}
            self.fail(message, InternalError(text[:_MOST_TEXT], data=facts))

    # -- requests

    async def post(self, session: HttpClientSession, message: Message) -> SenderResponse:
        """Send a message; tries again as long as the server cannot have seen it.

        Raises:
            NotSent: there was no connection for too long.
            ConnectionCut: the connection broke.
        """
        headers = await self._headers(session, message.headers)
        # A failure to connect is reported at once; an open session is worth waiting for.
        is_patient = not message.is_opening or message.answer is not None
        postponed = 0
        while True:
            response = await self._send("POST", session, headers, message, is_patient=is_patient)
            wait = parse_retry_after(response.header("retry-after"))
            if response.status not in (429, 503) or wait is None or postponed >= _POSTPONED:
                return response
            if wait > self.target.options.patience:
                return response
            postponed += 1
            message.is_sent = False
            response.close()
            await asyncio.sleep(wait)

    def begin(self, post: DirectPost) -> SenderResponse | None:
        """Send a request without a task; None when something has to be waited for."""
        session, message, given = post.session, post.message, self.target.headers
        if self._begin is None or callable(given):
            return None
        headers: Mapping[str, str] = session.headers
        if given is not None or message.headers:
            headers = merge_headers(given or {}, message.headers or {}, headers)
        if self._authorization is not None:
            token = self._authorization.fixed_token(session.url)
            if token is None:
                return None
            headers = with_token(headers, token)
        response = self._begin(session.url, headers, message.data, post)
        message.is_sent = response is not None
        return response

    async def notify(self, session: HttpClientSession, message: Message) -> None:
        """Send a notification and make sure that it was accepted.

        Raises:
            ConnectionClosed: it was not.
        """
        try:
            response = await self.post(session, message)
        except (NotSent, ConnectionCut) as error:
            raise ConnectionClosed(f"{message.name} did not arrive: {error}") from None
        body = await self.read_error(response)
        response.close()
        if response.status not in SUCCESS_STATUSES:
            why = explain_response(response, body)
            raise ConnectionClosed(f"{message.name} was answered with {why}")

    async def get(
        self, session: HttpClientSession, last_event: str | None = None, *, is_patient: bool = False
    ) -> SenderResponse:
        """Ask for an event stream, from the beginning or after an event.

        Raises:
            NotSent: there is no connection.
            ConnectionCut: the connection broke.
        """
        headers = dict(await self._headers(session, None))
        headers["Accept"] = CONTENT_TYPE
        headers["Cache-Control"] = "no-cache"
        del headers["Content-Type"]
        if last_event:
            headers["Last-Event-ID"] = last_event
        return await self._send("GET", session, headers, is_patient=is_patient)

    async def delete(self, session: HttpClientSession) -> None:
        """End a session; the answer of the server does not matter."""
        headers = await self._headers(session, None)
        (await self._send("DELETE", session, headers)).close()

    async def _send(
        self,
        method: str,
        session: HttpClientSession,
        headers: Mapping[str, str],
        message: Message | None = None,
        *,
        is_patient: bool = False,
    ) -> SenderResponse:
        """Send a request, following redirects and answering challenges."""
        authorization, token, sent = self._authorization, None, headers
        redirects = repeats = 0
        while True:
            if authorization is not None:
                token = await authorization.token(session.url)  # auth.every-request
                sent = authorization.sign(method, session.url, headers, token)
            response = await self._reach(method, session.url, sent, message, is_patient=is_patient)
            if authorization is not None:
                authorization.observe(session.url, response)
            if response.status in range(300, 400):
                url = self._redirection(session.url, response)
                if url is None or redirects >= _REDIRECTS:
                    return response
                # The request was not carried out; from now on everything goes to the new URL.
                redirects += 1
                session.url = url
            else:
                # The user is not asked to sign in only to end a session.
                is_denied = response.status in _DENIALS and method != "DELETE"
                if authorization is None or not is_denied or repeats >= CHALLENGES:
                    return response
                if not await authorization.answer(session.url, response, token, repeats):
                    return response
                repeats += 1
            response.close()

    def _redirection(self, url: str, response: SenderResponse) -> str | None:
        """Return where a redirect leads; None when it is not followed."""
        location = response.header("location")
        if location:
            self._led_to = quote_url(location, url)
        return redirect_url(url, location) if response.status in _REDIRECTED else None

    async def _reach(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        message: Message | None,
        *,
        is_patient: bool,
    ) -> SenderResponse:
        backoff, waited, patience = Backoff(most=LONGEST_PAUSE), 0.0, self.target.options.patience
        body = None if message is None else message.data
        while True:
            if message is not None:
                message.is_sent = True
            try:
                if message is not None and message.begun is not None:
                    return await message.begun.arrive()
                return await self.sender.send(method, url, headers, body)
            except NotSent as error:
                if message is not None:
                    message.is_sent = False
                    message.refusals = 0  # the next answer may come from another server
                if not is_patient or error.is_lasting or waited >= patience:
                    raise
            delay = min(backoff.fail(), patience - waited)
            waited += delay
            await asyncio.sleep(delay)

    async def _headers(
        self, session: HttpClientSession, more: Mapping[str, str] | None
    ) -> Mapping[str, str]:
        given = self.target.headers
        if given is None and not more:
            return session.headers
        if callable(given):
            try:
                made: Any = given()
                given = await made if inspect.isawaitable(made) else made
                names.check_headers(given)
            except Exception as error:  # it is user code
                log.exception("the function for headers failed")
                why = f"the function for headers failed: {type(error).__name__}"
                raise NotSent(why, is_lasting=True) from None
        return merge_headers(given or {}, more or {}, session.headers)

    # -- bodies

    async def body(self, response: SenderResponse) -> bytes | None:
        """Read a whole body; None when it is larger than a message may be.

        Raises:
            ConnectionCut: the connection broke.
        """
        limit = self.target.limits.message_bytes
        first = await response.chunk()
        chunk = await response.chunk() if first else b""
        if not chunk:
            return first if len(first) <= limit else None
        chunks, size = [first], len(first)
        while chunk:
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                return None
            chunk = await response.chunk()
        return b"".join(chunks)

    async def read_error(self, response: SenderResponse) -> bytes:
        """Read the body of an error, up to a bound in bytes and seconds."""
        found = b""
        with contextlib.suppress(ConnectionCut, TimeoutError):
            async with asyncio.timeout(_ERROR_EXPECTED):
                while len(found) < _ERROR_BODY and (chunk := await response.chunk()):
                    found += chunk
        return found[:_ERROR_BODY]


def explain_response(
    response: SenderResponse, body: bytes, *, retry_after: str | None = None
) -> str:
    """Return in words what a response says that is not an answer."""
    content_type = names.media_type(response.header("content-type"))
    return explain(response.status, content_type, body, retry_after=retry_after)
