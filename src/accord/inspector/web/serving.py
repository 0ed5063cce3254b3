"""Serves the page on sockets of this machine until it is to end."""

import asyncio
import errno
import secrets
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import uvicorn

from accord.errors import TransportError
from accord.inspector.inspection import Inspection
from accord.inspector.web.app import HEADERS, InspectorApp
from accord.inspector.web.gate import PageAddress, loopback_address, public_address
from accord.inspector.web.peers import allowed_users, find_user
from accord.transports.http.server.sockets import listen
from accord.transports.http.server.uvicorn_server import BoundedProtocol

# 256 bits.
_KEY_BYTES: Final = 32
# How often a port is looked for that is free for both families.
_TRIES: Final = 20
_LOOPBACK: Final = ("127.0.0.1", "::1")
_ABSENT: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_CONNECTIONS_MOST: Final = 200
# Seconds in which the head of a request has to arrive.
_HEAD_TIMEOUT: Final = 10.0
# Seconds after which a page that does not read is cut off.
_WRITE_TIMEOUT: Final = 20.0
# Seconds that the last responses get.
_LAST: Final = 0.5
_FOREIGN: Final = (
    b"user %d of this machine may not use the page of another user; "
    b"--public-url http://127.0.0.1:%d allows it"
)
_REFUSAL: Final = b"HTTP/1.1 %b\r\ncontent-type: text/plain\r\n%bcontent-length: %d\r\n\r\n%b"


class PageSockets:
    """Open sockets for the page, what browsers call them, and which users may connect.

    Args:
        port: 0 takes any free one.
        bind: an address to listen on in place of loopback, with `public_url`.
        public_url: where browsers find the page; it replaces all other names.

    Raises:
        TransportError: the port is taken.
    """

    def __init__(self, port: int = 0, *, bind: str = "", public_url: str = "") -> None:
        self.sockets = listen(bind, port) if bind else _listen_on_loopback(port)
        first: tuple[str, int] = self.sockets[0].getsockname()[:2]
        self.port = first[1]
        if public_url:
            self.address: PageAddress = public_address(public_url)
            self.url = public_url.rstrip("/")
            self.users = None
        else:
            self.address = loopback_address(self.port)
            self.users = allowed_users()
            name = f"[{first[0]}]" if ":" in first[0] else first[0]
            self.url = f"http://{name}:{self.port}"

    def close(self) -> None:
        """Close the sockets."""
        for each in self.sockets:
            each.close()


def _listen_on_loopback(port: int) -> list[socket.socket]:
    """Open a socket for each family; both have the same port, so that `localhost` leads here."""
    for _ in range(1 if port else _TRIES):
        opened: list[socket.socket] = []
        taken = False
        for host in _LOOPBACK:
            at = opened[0].getsockname()[1] if opened else port
            try:
                opened.append(_open_socket(host, at))
            except OSError as error:
                taken = taken or error.errno not in _ABSENT
        if opened and not taken:
            return opened
        for each in opened:
            each.close()
    raise TransportError(
        f"port {port} is taken; leave --port out, or name another one"
        if port
        else "this machine has no free port on 127.0.0.1 or ::1"
    )


def _open_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.create_server((host, port), family=family, backlog=128)
    # asyncio sets TCP_NODELAY only on sockets that name their protocol.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=made.detach())


class _PageProtocol(BoundedProtocol):
    """A connection of a browser; its refusals have the headers of all other responses."""

    connections_most = _CONNECTIONS_MOST
    # None lets every user in.
    users: frozenset[int] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        if self.users is None:
            return
        theirs, ours = (transport.get_extra_info(each) for each in ("peername", "sockname"))
        user = find_user(theirs[:2], ours[:2])
        if user is not None and user not in self.users:
            self.refuse(b"403 Forbidden", _FOREIGN % (user, ours[1]))

    def _write_refusal(self, status: bytes, why: bytes) -> None:
        headers = b"".join(b"%b: %b\r\n" % each for each in (*HEADERS, (b"connection", b"close")))
        self.transport.write(_REFUSAL % (status, headers, len(why), why))


class _PageServer(uvicorn.Server):
    """Serves the page; slow clients are cut off, and signals are left to the command."""

    def __init__(self, app: InspectorApp, users: frozenset[int] | None) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=type("PageProtocol", (_PageProtocol,), {"users": users}),
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                date_header=False,
                timeout_graceful_shutdown=1,
            )
        )
        self._page = app

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for each in list(self.server_state.connections):
                if isinstance(each, _PageProtocol):
                    each.tick(now, head_timeout=_HEAD_TIMEOUT, write_timeout=_WRITE_TIMEOUT)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._page.finish()
        state = self.server_state
        for each in list(state.connections):
            each.shutdown()
        if state.tasks:
            await asyncio.wait(set(state.tasks), timeout=_LAST)
        for task in state.tasks:
            task.cancel()
        for each in list(state.connections):
            each.transport.abort()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve_inspection(
    inspection: Inspection, sockets: PageSockets | None = None
) -> AsyncIterator[str]:
    """Serve the page within a block; yields its URL with the key of this launch.

    At the end of the block all sessions end, with the servers that they launched.

    Args:
        inspection: what the page shows.
        sockets: where; a free port of loopback by default.
    """
    sockets = sockets or PageSockets()
    key = secrets.token_urlsafe(_KEY_BYTES)
    server = _PageServer(InspectorApp(inspection, sockets.address, key), sockets.users)
    opened: Sequence[socket.socket] = sockets.sockets
    serving = asyncio.ensure_future(server.serve(list(opened)))
    try:
        yield f"{sockets.url}/#key={key}"
    finally:
        server.should_exit = True
        try:
            await asyncio.gather(serving, inspection.close())
        finally:
            sockets.close()
