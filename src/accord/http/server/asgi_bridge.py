"""Any ASGI app on the listener: each request runs it in a task."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from accord.http.server.exchange import ResponseCut
from accord.http.server.listener_request import ListenerRequest

if TYPE_CHECKING:
    from accord.http.server.connection import HttpConnection
    from accord.http.server.exchange import Headers, Message, Receive, Scope, Send
    from accord.http.server.received import ReceivedHead

log = logging.getLogger("accord.http")

AsgiApp: TypeAlias = "Callable[[Scope, Receive, Send], Awaitable[None]]"
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


def build_scope(connection: "HttpConnection", head: "ReceivedHead") -> "Scope":
    """Return the ASGI scope of a request."""
    proxies = connection.listener.proxies
    client, scheme = proxies.find_client(head, connection.client, connection.scheme)
    return {
        "type": "http",
        "asgi": _ASGI,
        "http_version": head.version,
        "server": connection.server,
        "client": client,
        "scheme": scheme,
        "method": head.method,
        "root_path": "",
        "path": head.path,
        "raw_path": head.raw_path,
        "query_string": head.query,
        # A copy: apps may change theirs, and the head may serve the next request too.
        "headers": head.fields.copy(),
        "state": {},
    }


class AsgiRequest(ListenerRequest):
    """A request that an ASGI app serves."""

    _length: int | None = None
    _sent = 0

    async def run(self, app: AsgiApp) -> None:
        """Let the app respond; a response that it does not complete is a failure."""
        try:
            await app(build_scope(self.connection, self.head), self.receive, self.send)
        except asyncio.CancelledError:
            self.fail()
            raise
        except ResponseCut:
            self.connection.close()  # what was sent before still leaves
            return
        except Exception:
            if not self.is_gone:
                log.exception("%s %s failed", self.head.method, self.head.path[:200])
        if not self.is_complete:
            self.fail()

    def fail(self) -> Awaitable[None]:
        if self._pending_head is not None:  # nothing of it was sent
            self._pending_head = None
            self.is_begun = False
        return super().fail()

    async def send(self, message: "Message") -> None:
        """Send a part of the response; a client that is gone gets nothing."""
        kind = message["type"]
        if kind == "http.response.start":
            if self.is_begun:
                raise RuntimeError("the response has begun already")
            self.begin(message["status"], self._check_headers(message.get("headers", ())))
        elif kind != "http.response.body" or not self.is_begun:
            raise RuntimeError(f"unexpected ASGI message {kind!r}")
        else:
            await self._send_body(message.get("body", b""), more=message.get("more_body", False))

    async def _send_body(self, body: bytes, *, more: bool) -> None:
        if self.is_complete:
            if self.is_gone:
                return
            raise RuntimeError("the response is complete already")
        self._sent += len(body)
        if self._length is not None and self.head.method != "HEAD":
            is_wrong = self._sent > self._length or (not more and self._sent != self._length)
            if is_wrong:
                self.cut_off()  # the client would take the next response for the rest of this one
                raise RuntimeError(f"the body has not the {self._length} bytes of Content-Length")
        self.write(body, is_last=not more)
        if self.connection.is_congested:
            await self.connection.drain()

    def _check_headers(self, headers: Any) -> "Headers":
        found: Headers = []
        for name, value in headers:
            name = bytes(name).lower()
            value = bytes(value)
            if any(each in value or each in name for each in (b"\r", b"\n", b"\0")):
                raise RuntimeError(f"header {name!r} of the response has a line break")
            if name == b"content-length":
                self._length = int(value)
            found.append((name, value))
        return found
