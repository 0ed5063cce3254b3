"""Serves the page on sockets of this machine until it is to end."""

import asyncio
import errno
import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from ipaddress import ip_address
from typing import Final

from accord.errors import TransportError
from accord.http.server.connection import HttpConnection
from accord.http.server.listener import HttpListener
from accord.http.server.listener_request import STATUS_LINES
from accord.http.server.running import serve_asgi
from accord.http.server.sockets import listen
from accord.http.settings import HttpLimits
from accord_tools.inspector.inspection import Inspection
from accord_tools.inspector.web.app import HEADERS, InspectorApp
from accord_tools.inspector.web.gate import PageAddress, loopback_address, public_address

_TABLES: Final = {4: "/proc/net/tcp", 6: "/proc/net/tcp6"}
_ROOT: Final = 0
# Columns of a table: number, local address, remote address, state, ..., user, ..., inode.
_LOCAL, _REMOTE, _STATE, _USER, _INODE = 1, 2, 3, 7, 9
_ESTABLISHED: Final = "01"
# A socket that its process has closed; the table says that root has it.
_CLOSED_INODE: Final = "0"
GONE: Final = -1
"""In place of a user: the other end has closed already, and nothing says whose it was."""


def allowed_users(environ: Mapping[str, str] | None = None) -> frozenset[int] | None:
    """Return the users that may connect; None where the system does not say whose a connection is.

    The user that called `sudo` is among them, and root, which may do anything.

    Args:
        environ: the variables of this process by default.
    """
    environ = os.environ if environ is None else environ
    if sys.platform != "linux" or not os.access(_TABLES[4], os.R_OK):
        return None
    called = environ.get("SUDO_UID", "")
    return frozenset({_ROOT, os.getuid(), *([int(called)] if called.isdecimal() else [])})


def find_user(theirs: tuple[str, int], ours: tuple[str, int]) -> int | None:
    """Return the user at the other end of a connection.

    None stands for an end on another machine, such as that of a virtual machine's owner. A user may
    send a request and close at once, which hides whose it is: then it is `GONE`.

    Args:
        theirs: address and port of the other end.
        ours: those of this end.
    """
    family = ip_address(theirs[0]).version
    wanted = _format_address(*theirs), _format_address(*ours)
    is_open = False
    try:
        with open(_TABLES[family]) as table:
            next(table)
            for line in table:
                columns = line.split()
                ends = columns[_LOCAL], columns[_REMOTE]
                if ends == wanted:
                    return GONE if columns[_INODE] == _CLOSED_INODE else int(columns[_USER])
                if ends == wanted[::-1]:
                    is_open = columns[_STATE] == _ESTABLISHED
    except (OSError, ValueError, IndexError):
        return None
    return None if is_open else GONE


def _format_address(host: str, port: int) -> str:
    """Return an address as the tables have it: words of 32 bits in the order of the machine."""
    packed = ip_address(host).packed
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    ordered = [each[::-1] if sys.byteorder == "little" else each for each in words]
    return f"{b''.join(ordered).hex().upper()}:{port:04X}"


# 256 bits.
_KEY_BYTES: Final = 32
# How often a port is looked for that is free for both families.
_TRIES: Final = 20
_LOOPBACK: Final = ("127.0.0.1", "::1")
_ABSENT: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_LIMITS: Final = HttpLimits(connections=200, body_timeout=10.0, write_timeout=20.0)
_FOREIGN: Final = (
    "user %d of this machine may not use the page of another user; "
    "--public-url http://127.0.0.1:%d allows it"
)
_REFUSAL: Final = b"%bcontent-type: text/plain\r\n%bcontent-length: %d\r\n\r\n%b"


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


class _PageConnection(HttpConnection):
    """A connection of a browser."""

    listener: "_PageListener"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        users = self.listener.users
        if users is None:
            return
        theirs, ours = (transport.get_extra_info(each) for each in ("peername", "sockname"))
        user = find_user(theirs[:2], ours[:2])
        if user is not None and user not in users:
            self.refuse(403, _FOREIGN % (user, ours[1]))


class _PageListener(HttpListener):
    """Listens for browsers; its refusals have the headers of all other responses.

    Args:
        users: the users of this machine that may connect; None lets everyone in.
    """

    connection_type = _PageConnection

    def __init__(self, app: InspectorApp, limits: HttpLimits, users: frozenset[int] | None) -> None:
        super().__init__(app, limits)
        self.users = users

    def encode_refusal(self, status: int, why: str) -> bytes:
        headers = b"".join(b"%b: %b\r\n" % each for each in (*HEADERS, (b"connection", b"close")))
        return _REFUSAL % (STATUS_LINES[status], headers, len(why), why.encode())


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
    app = InspectorApp(inspection, sockets.address, key)
    make = partial(_PageListener, users=sockets.users)
    async with serve_asgi(app, sockets.sockets, _LIMITS, make) as listener:
        try:
            yield f"{sockets.url}/#key={key}"
        finally:
            listener.close()
            app.finish()
            await inspection.close()
