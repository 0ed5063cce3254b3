"""What the monitor of a client under check sees of HTTP beside the messages."""

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from accord.http.rules.headers import media_type
from accord.http.rules.sse import CONTENT_TYPE, Decoder
from accord.http.server.exchange import Send
from accord.trace import ALL, HttpFacts

if TYPE_CHECKING:
    from accord_tools.check.fake_server.http_transport import ReceivedRequest
    from accord_tools.check.probing.raw_connection import RawConnection


class ExchangeNotes:
    """Notes of one request and its response, once it is known to which connection they belong.

    Args:
        request: the request.
        name: of the exchange.
    """

    def __init__(self, request: "ReceivedRequest", name: str) -> None:
        self.facts = HttpFacts(
            method=request.method,
            headers=request.headers,
            recorded=ALL,
            exchange=name,
            path=request.path,
            query=request.query,
        )
        self._request = request
        self._connection: RawConnection | None = None
        self._decoder = Decoder(with_empty=True)
        self._is_stream = False

    def belong_to(self, connection: "RawConnection", *, has_message: bool) -> HttpFacts:
        """Note the request, unless its message is recorded; return its facts."""
        self._connection = connection
        if not has_message:
            connection.log.note("client", self.facts)
        return self.facts

    def wrap(self, send: Send) -> Send:
        """Return a function that sends, and notes what was sent."""

        async def send_and_note(message: MutableMapping[str, Any]) -> None:
            if self._is_stream and not message.get("more_body", False):
                # Before the client can see it, or the time until it comes back would be too short.
                self.end()
            await send(message)
            if self._connection is not None:
                self._note(self._connection, message)

        return send_and_note

    def _note(self, connection: "RawConnection", message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            pairs = message["headers"]
            headers = {name.decode(): text.decode("latin-1") for name, text in pairs}
            self._is_stream = media_type(headers.get("content-type")) == CONTENT_TYPE
            self._tell(connection, status=message["status"], headers=headers, recorded=ALL)
        elif self._is_stream:
            for event in self._decoder.feed(message.get("body", b"")):
                data = event.data.decode(errors="replace") if event.name == "endpoint" else None
                retry = self._decoder.retry
                self._tell(connection, event=event.name, id=event.id, retry=retry, data=data)

    def end(self) -> None:
        """Note the end of a stream and the party that ended it; may be repeated."""
        if self._connection is not None and self._is_stream:
            self._is_stream = False
            self._tell(self._connection, ended="client" if self._request.was_left else "server")

    def _tell(self, connection: "RawConnection", **facts: Any) -> None:
        name = self.facts.exchange
        connection.log.note("server", HttpFacts(self.facts.method, exchange=name, **facts))
