"""A request to the app of a server on the listener, without ASGI in between."""

from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final

from accord.http.server.asgi_bridge import build_scope
from accord.http.server.exchange import Admission, Headers, HttpExchange, Scope
from accord.http.server.listener_request import ListenerRequest
from accord.http.server.readers import Reader
from accord.http.server.received import ReceivedHead
from accord.http.server.stream import Stream
from accord.principal import Principal, as_principal
from accord.runtime.handlers import DONE

if TYPE_CHECKING:
    import asyncio

    from accord.http.server.app import HttpApp
    from accord.http.server.connection import HttpConnection

_ORIGIN: Final = b"origin"


class ListenerExchange(ListenerRequest, HttpExchange):
    """A request on the listener, and the ways to respond to it.

    Args:
        app: serves it.
        connection: where it was received.
        head: its head.

    Attributes:
        is_counted: whether the app counts it as under way.
        admission: what the guard around the app knows of it.
    """

    is_counted = False
    admission: Admission | None = None
    is_on_listener = True

    def __init__(self, app: "HttpApp", connection: "HttpConnection", head: ReceivedHead) -> None:
        self.connection = connection
        self.head = head
        self.is_last = not head.is_kept_alive
        self._app = app
        self.options = app.options
        self.method = head.method
        self.headers = head.headers
        self.repeated = head.repeated

    @cached_property
    def scope(self) -> Scope:  # type: ignore[override]  # made only where it is asked for
        """The request as ASGI describes it."""
        scope = build_scope(self.connection, self.head)
        admission = self.admission
        if admission is not None:
            scope["accord.principal"] = admission.principal
            scope["accord.challenge"] = admission.challenge_for
            scope["accord.admitted"] = admission.is_admitted
        return scope

    @property
    def principal(self) -> Principal | None:
        """The caller, as the option `principal` or the guard around the app names it."""
        find = self.options.principal
        if find is not None:
            return as_principal(find(self.scope))
        return None if self.admission is None else self.admission.principal

    @property
    def is_admitted(self) -> Callable[[], Awaitable[bool]] | None:
        return None if self.admission is None else self.admission.is_admitted

    def json(
        self, body: bytes, *, status: int = 200, session: str | None = None
    ) -> Awaitable[None]:
        if (
            status != 200
            or session is not None
            or self.is_last
            or _ORIGIN in self.headers
            or self.denial is not None
            or self.connection.is_ending
            or self.head.version != "1.1"
        ):
            return super().json(body, status=status, session=session)
        # As `respond` does it, for the response that nearly all requests get.
        self.is_begun = True
        listener = self.connection.listener
        listener.metrics.responses[self.method][2] += 1
        self._end(
            b"HTTP/1.1 200 OK\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (listener.date_line, len(body), body)
        )
        return DONE

    def make_reader(self, stream: Stream, headers: Headers, among: set[Reader]) -> Reader:
        self.begin(200, headers)
        reader = self.follower = ListenerReader(stream, among, self)
        return reader

    def expect_silence(self) -> None:
        self.connection.expect_silence()
        self.head = self.head.without_headers()
        self.headers = self.head.headers

    def client_left(self) -> None:
        super().client_left()
        on_left, self.on_left = self.on_left, None
        if on_left is not None:
            on_left()

    def note_end(self) -> None:
        """Note that the response has ended."""
        if self.is_counted:
            self.is_counted = False
            self._app.under_way -= 1


class ListenerReader(Reader):
    """A response that follows a stream on the listener; callbacks of the loop write it."""

    __slots__ = ("_handle", "_request")

    def __init__(self, stream: Stream, among: set[Reader], request: ListenerRequest) -> None:
        super().__init__(stream, among)
        self._request = request
        self._handle: asyncio.Handle | None = None

    def wake(self) -> None:
        if self._handle is None and not self.is_done and not self._request.connection.is_congested:
            # In the next turn of the loop, so that what is sent together leaves together.
            self._handle = self._loop.call_soon(self._write)

    @property
    def is_writing(self) -> bool:
        return self._handle is not None or self._request.connection.is_congested

    def _write(self) -> None:
        self._handle = None
        request = self._request
        while not self.is_done and not request.connection.is_congested:
            chunk, is_last = self._next()
            if not chunk and not is_last:
                break
            self.last_write = self._loop.time()
            if is_last:
                self._finish()
            request.write(chunk, is_last=is_last)

    def follow(self) -> Awaitable[None]:
        if self._request.is_complete:  # the client left before the response became a stream
            self.client_left()
        return DONE

    def let_go(self) -> None:
        self._finish()
        self._request.cut_off()

    def client_left(self) -> None:
        """Leave the stream of a client that is gone."""
        if not self.is_done:
            self._finish()

    def _finish(self) -> None:
        super()._finish()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._report_end()
