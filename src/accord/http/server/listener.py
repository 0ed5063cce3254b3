"""Serves an app over HTTP/1.1 on open sockets, with limits to everything that clients can do.

There is nothing between a socket and the app of a server: a call is one read, one write, and no
task unless its handler waits. Other ASGI apps run behind a bridge. Several processes that accept
from the same sockets know each other's load, so that one with fewer connections accepts first.
"""

import asyncio
import errno
import logging
import mmap
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from contextvars import copy_context
from email.utils import formatdate
from functools import partial
from socket import socket
from typing import Any, Final

from accord.http.rules.addresses import client_network
from accord.http.server.connection import HttpConnection, SocketFlow
from accord.http.server.exchange import ListenerApp
from accord.http.server.listener_request import (
    STATUS_LINES,
    AsgiApp,
    AsgiRequest,
    ListenerRequest,
    ReceivedHead,
)
from accord.http.server.metrics import ListenerMetrics
from accord.http.server.proxies import TrustedProxies
from accord.http.server.tls import TlsHandshake
from accord.http.settings import HttpLimits
from accord.runtime.eager import start
from accord.runtime.handlers import DONE

log = logging.getLogger("accord.http")

# What a system is out of when it cannot open another connection.
_SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# Seconds until the next attempt then.
_SHORTAGE_PAUSE: Final = 1.0
# Seconds in which a process with fewer connections can accept one before this does.
_HESITATION: Final = 0.004
# So many connections at most are accepted without hesitating while the other process is stuck.
_BOLDEST: Final = 64
# How many open files are left to the server's own files and connections.
_FILES_SPARED: Final = 64
# Seconds without reading after which a client counts as stalled.
_STALLED: Final = 1.0
# Longer than proxies keep idle connections (nginx: 60 s), so that they end them and not we: a
# request that crosses our end is lost.
_IDLE: Final = 75.0
_TICK: Final = 1.0
# So many responses are collected before they are written: others wait for less than a millisecond.
_COLLECTED_MOST: Final = 64
# How many connections may wait to be accepted, as in other servers.
_BACKLOG: Final = 2048
# How many seconds the last bytes may take to leave, and requests that are on their way to arrive.
_FLUSH: Final = 0.25
_HANDSHAKE: Final = 10.0
# How many clients of an address with too many connections may read why they are refused, which
# takes a handshake.
_REFUSED_AFTER_HANDSHAKE: Final = 16
_ERROR: Final = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"%b"}}'


class HttpListener:
    """Listens on sockets, and serves one app on all their connections.

    Args:
        app: an app of ours, or any ASGI app. Its lifespan is not run.
        limits: how much clients may use.
        idle_timeout: seconds after which a connection ends on which no request arrives.

    Attributes:
        loop: the event loop.
        now: the time of the last tick, on the clock of the loop: exact enough for time limits.
        date_line: the Date header of responses at present.
        is_collecting: whether connections collect what they write.
        held: how many bytes of incomplete requests connections keep.
        metrics: counts what happens.
    """

    connection_type: type[HttpConnection] = HttpConnection
    # Seconds that a TLS handshake may take.
    handshake_timeout = _HANDSHAKE

    def __init__(self, app: Any, limits: HttpLimits, *, idle_timeout: float = _IDLE) -> None:
        self.loop = asyncio.get_running_loop()
        self._context = copy_context()
        self.limits = limits
        self.proxies = TrustedProxies.from_environment()
        self.metrics = ListenerMetrics()
        self.idle_timeout = idle_timeout
        self.head_timeout = limits.body_timeout
        self.write_timeout = limits.write_timeout
        self.held = 0
        self._searched = -1.0
        self.why_full = f"requests of {limits.bodies_bytes} bytes are arriving (bodies_bytes)"
        self._connections: dict[HttpConnection, str | None] = {}
        self._addresses: dict[str, int] = {}
        self._most = _limit_connections(limits.connections)
        self._handshakes: dict[TlsHandshake, str | None] = {}
        self._servers: list[asyncio.Server | SharedSocket] = []
        # Second descriptors of sockets that no other process accepts from.
        self._backlogs: list[socket] = []
        self._opening: set[asyncio.Task[Any]] = set()
        self._make: Callable[[], asyncio.Protocol] = partial(self.connection_type, self)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.is_collecting = False
        self._is_leaving = False
        self._load: SharedLoad | None = None
        self._arrived: deque[ListenerRequest] = deque()
        self._writers: list[SocketFlow] = []
        self._tick_every = min(_TICK, limits.body_timeout / 4, limits.write_timeout / 4)
        self.make_request: Callable[[HttpConnection, ReceivedHead], ListenerRequest]
        self.serve: Callable[[Any], Awaitable[None]]
        if isinstance(app, ListenerApp):
            self.make_request, self.serve = app.make_exchange, app.serve_exchange
        else:
            bridge = _Bridge(app)
            self.make_request, self.serve = AsgiRequest, bridge.serve
            if hasattr(type(app), "admit_exchange"):
                passing = _PassingBridge(app)
                self.make_request, self.serve = passing.make, passing.serve
        self._update_time()

    # -- starting and stopping

    async def start(
        self,
        sockets: Iterable[socket],
        tls: ssl.SSLContext | None = None,
        *,
        load: "SharedLoad | None" = None,
    ) -> None:
        """Begin to accept connections.

        Args:
            sockets: open ones.
            tls: for HTTPS.
            load: for one of several processes that accept from the same sockets.
        """
        self._load = load
        self._note_load()  # from now on the other processes leave connections to this one
        make = self._make
        if tls is not None:
            make = self._make = partial(TlsHandshake, self, tls)
        for each in sockets:
            if load is not None:
                self._servers.append(SharedSocket(each, make, load))
            else:
                self._backlogs.append(each.dup())
                server = await self.loop.create_server(make, sock=each, backlog=_BACKLOG)
                self._servers.append(server)
        self._tick()

    def close(self) -> None:
        """Accept no more connections, but for those that are open for their clients already."""
        for server in self._servers:
            server.close()
        while self._backlogs:
            self._accept_waiting(self._backlogs.pop())
        if self._load is not None:
            self._load.leave()

    def _accept_waiting(self, backlog: socket) -> None:
        """Accept what waits at a socket before it is closed, which would reset it."""
        with backlog, suppress(OSError):  # BlockingIOError after the last one
            for _ in range(_BACKLOG):
                accepted, _ = backlog.accept()
                accepted.setblocking(False)
                task = start(self.loop, self._open(accepted), "http connection")
                if not task.done():
                    self._opening.add(task)
                    task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket) -> None:
        with suppress(OSError):  # the client has left already
            await self.loop.connect_accepted_socket(self._make, accepted)

    def send_elsewhere(self) -> None:
        """Let clients open their next connection, which another process accepts.

        The next response on each connection says that it is the last. A connection that is ended
        while nothing is under way may cross a request, which is lost then.
        """
        self._is_leaving = True
        for connection in self._connections:
            connection.is_ending = True

    def drain(self) -> None:
        """End idle connections at once, and the others after their present response."""
        self._is_leaving = True
        for connection in list(self._connections):
            connection.stop()

    async def stop(self) -> None:
        """End all connections: the last responses may leave, then the rest is aborted."""
        self.close()
        self.drain()
        end = self.loop.time() + _FLUSH
        while (self._connections or self._opening) and self.loop.time() < end:
            await asyncio.sleep(0.01)
        self.abort()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_FLUSH)

    def abort(self) -> None:
        """End all connections at once."""
        self.close()
        for handshake in list(self._handshakes):
            handshake.transport.abort()
        for connection in list(self._connections):
            connection.abort()
        for task in (*self._tasks, *self._opening):
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()

    # -- requests

    def serve_soon(self, request: ListenerRequest) -> None:
        """Serve a request together with those that arrive in the same turn of the loop.

        First all are read, then all are served, then all responses are written. The code of each
        step stays in the caches of the processor, so that 32 requests take three quarters of the
        time that they would take one by one.
        """
        if len(self._connections) == 1:
            self._serve(request)
            return
        if not self._arrived:
            self.loop.call_soon(self._serve_arrived)
        self._arrived.append(request)

    def _serve_arrived(self) -> None:
        arrived, self._arrived = self._arrived, deque()
        self.is_collecting = True
        try:
            while arrived:
                self._serve(arrived.popleft())
                if len(self._writers) >= _COLLECTED_MOST:
                    self._write_collected()
        finally:
            self.is_collecting = False
            self._write_collected()
            if arrived:  # a handler has raised what ends the loop
                arrived.extend(self._arrived)
                self._arrived = arrived
                self.loop.call_soon(self._serve_arrived)

    def _serve(self, request: ListenerRequest) -> None:
        if request.is_complete:  # its client has left meanwhile
            return
        work = self.serve(request)
        if work is not DONE:
            start(self.loop, self.finish(request, work), "http request")

    def add_writer(self, connection: SocketFlow) -> None:
        """Note a connection that has something to write, once everything is served."""
        self._writers.append(connection)

    def _write_collected(self) -> None:
        writers, self._writers = self._writers, []
        for connection in writers:
            connection.flush()

    # -- connections

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: HttpConnection) -> None:
        """Count a new connection; one too many is refused."""
        self.metrics.accepted += 1
        self.metrics.open += 1
        connection.is_ending = self._is_leaving
        self._note_load()
        client = connection.client
        network = self._connections[connection] = client and client_network(client[0])
        if client is not None and not self._count_address(client[0], network):
            most = self.limits.connections_per_address
            connection.refuse(
                429, f"{most} connections of one address are open (connections_per_address)"
            )
            if len(self._connections) > self._most // 2:
                connection.close()  # or one address would take the places of others
        if len(self._connections) > self._most:
            self.metrics.refused["connections"] += 1
            connection.refuse(503, "too many connections (connections)")
            connection.close()

    def _count_address(self, host: str, network: str | None, spare: int = 0) -> bool:
        """Count a connection of an address; return whether it may have so many."""
        if network is None:
            return True
        count = self._addresses[network] = self._addresses.get(network, 0) + 1
        most = self.limits.connections_per_address + spare
        if count <= most or self.proxies.trust(host):
            return True
        self.metrics.refused["connections_per_address"] += 1
        return False

    def _forget_address(self, network: str | None) -> None:
        if network is not None:
            self._addresses[network] -= 1
            if not self._addresses[network]:
                del self._addresses[network]

    def begin_handshake(self, handshake: TlsHandshake) -> bool:
        """Count a handshake; one too many is ended, and False is returned."""
        if len(self._connections) + len(self._handshakes) >= self._most:
            self.metrics.refused["connections"] += 1
            handshake.transport.abort()
            return False
        peer = handshake.transport.get_extra_info("peername")
        network = client_network(str(peer[0])) if isinstance(peer, tuple) else None
        self._handshakes[handshake] = network
        self._note_load()
        if network and not self._count_address(str(peer[0]), network, _REFUSED_AFTER_HANDSHAKE):
            self.end_handshake(handshake)
            handshake.transport.abort()
            return False
        return True

    def end_handshake(self, handshake: TlsHandshake) -> None:
        """Forget a handshake that has ended."""
        self._forget_address(self._handshakes.pop(handshake, None))
        self._note_load()

    def remove(self, connection: HttpConnection) -> None:
        """Forget a connection that has ended."""
        self.metrics.open -= 1
        self._note_load()
        self._forget_address(self._connections.pop(connection, None))

    def _note_load(self) -> None:
        if self._load is not None and not self._is_leaving:
            self._load.note_open(self.metrics.open + len(self._handshakes))

    def make_room(self, newest: HttpConnection) -> bool:
        """Return whether incomplete requests take no more memory than they may.

        If they take more, connections are aborted on which nothing has moved for a while, such as
        those of clients that send requests behind a call that does not end.
        """
        most = self.limits.bodies_bytes
        if self.held <= most or self._searched == self.now:
            return self.held <= most
        others = (each for each in self._connections if each.held and each is not newest)
        for each in sorted(others, key=lambda each: each.held_since):
            if self.held <= most or self.now - each.held_since < _STALLED:
                break
            each.give_up()
        if self.held > most:
            self._searched = self.now  # in vain; one search until the next tick is enough
        return self.held <= most

    def encode_refusal(self, status: int, why: str) -> bytes:
        """Return the response to a request that never reaches the app."""
        self.metrics.responses[""][status // 100] += 1
        body = _ERROR % why.encode()
        again = b"retry-after: 1\r\n" if status == 503 else b""
        return b"%b%bcontent-type: application/json\r\ncontent-length: %d\r\n%b%b%b" % (
            STATUS_LINES[status],
            self.date_line,
            len(body),
            again,
            b"connection: close\r\n\r\n",
            body,
        )

    def call_outside(self, callback: Callable[[], object]) -> None:
        """Call something soon, apart from the context variables of the handler that runs now."""
        self.loop.call_soon(callback, context=self._context.copy())

    async def finish(self, request: ListenerRequest, work: Awaitable[None]) -> None:
        """Wait for what a request still needs."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await work
        except asyncio.CancelledError:
            request.cut_off()
        except Exception:
            log.exception("%s %s failed", request.head.method, request.head.path[:200])
            request.fail()
        finally:
            self._tasks.discard(task)

    # -- time

    def _update_time(self) -> None:
        self.now = self.loop.time()
        self.date_line = b"date: %b\r\n" % formatdate(time.time(), usegmt=True).encode()

    def _tick(self) -> None:
        self._timer = self.loop.call_later(self._tick_every, self._tick)
        is_late = self.loop.time() > self.now + 2 * self._tick_every
        self._update_time()
        if is_late:  # the loop was busy: what clients have sent meanwhile is read first
            return
        now, unread = self.now, []
        for connection in list(self._connections):
            connection.tick(now)
            since, size = connection.unread(now)
            if size:
                unread.append((since, size, connection))
        self._relieve(now, unread)

    def _relieve(self, now: float, unread: list[tuple[float, int, HttpConnection]]) -> None:
        """Abort connections that are not read, the longest stalled first, if too much waits."""
        total = sum(size for _, size, _ in unread)
        for since, size, connection in sorted(unread, key=lambda each: each[0]):
            if total <= self.limits.unread_bytes or now - since < _STALLED:
                break
            connection.abort()
            total -= size


class _Bridge:
    """Serves requests with an ASGI app."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    def serve(self, request: AsgiRequest) -> Awaitable[None]:
        """Return the run of the app; refuse a target that is not a path."""
        why = request.head.parse_target() if not request.head.path else None
        if why is not None:
            request.is_last = True
            request.respond(400, [(b"content-type", b"text/plain")], why.encode())
            return DONE
        return request.run(self._app)


class _PassingBridge(_Bridge):
    """Serves requests with a guard, which passes most of them on to its app without ASGI."""

    def __init__(self, guard: Any) -> None:
        super().__init__(guard)
        self._pass = guard.admit_exchange
        self._serve_passed = getattr(guard, "serve_exchange", None)

    def make(self, connection: HttpConnection, head: ReceivedHead) -> ListenerRequest:
        """Return the request for a head: one for the app behind the guard, or one of ASGI."""
        if not head.path and head.parse_target() is not None:
            return AsgiRequest(connection, head)
        return self._pass(connection, head) or AsgiRequest(connection, head)

    def serve(self, request: Any) -> Awaitable[None]:
        """Serve either of them."""
        if request.__class__ is AsgiRequest or self._serve_passed is None:
            return super().serve(request)
        work: Awaitable[None] = self._serve_passed(request)
        return work


def _limit_connections(wanted: int) -> int:
    with suppress(ImportError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft > 0:
            return max(1, min(wanted, soft - _FILES_SPARED))
    return wanted


class LoadBoard:
    """How many connections each of several processes has, in memory that all of them share.

    Args:
        places: for how many processes.
    """

    def __init__(self, places: int) -> None:
        self._counts = memoryview(mmap.mmap(-1, 4 * places)).cast("I")

    def find_place(self, taken: set[int]) -> int:
        """Return a place that is free."""
        return next(each for each in range(len(self._counts)) if each not in taken)

    def write(self, place: int, count: int) -> None:
        """Note how many connections a process has."""
        self._counts[place] = count + 1

    def clear(self, place: int) -> None:
        """Note that a process accepts no connections."""
        self._counts[place] = 0

    def is_above_others(self, place: int) -> bool:
        """Whether a process has more connections than another one that accepts some."""
        own = self._counts[place]
        return any(0 < each < own for each in self._counts)


class SharedLoad:
    """The place of one process on the board."""

    def __init__(self, board: LoadBoard, place: int) -> None:
        self._board = board
        self._place = place
        self._open = self._opening = 0

    def note_open(self, count: int) -> None:
        """Note how many connections are open."""
        self._open = count
        self._board.write(self._place, count + self._opening)

    def note_opening(self, change: int) -> None:
        """Note that a connection was accepted, or that it counts as open from now on."""
        self._opening += change
        self._board.write(self._place, self._open + self._opening)

    @property
    def is_above_others(self) -> bool:
        """Whether another process should accept the next connection."""
        return self._board.is_above_others(self._place)

    def leave(self) -> None:
        """Note that no connections are accepted here any more."""
        self._board.clear(self._place)


class SharedSocket:
    """A listening socket that other processes accept from, too.

    The acceptors of event loops take all connections that wait: after a burst, one process would
    have them all, for as long as clients keep them open. So one connection is accepted in a turn of
    the loop, and a process that has more connections than another one hesitates for a moment.

    Args:
        listening: the socket.
        make: makes the protocol of a connection.
        load: how many connections this and the other processes have.
    """

    def __init__(
        self, listening: socket, make: Callable[[], asyncio.Protocol], load: SharedLoad
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = listening
        self._make = make
        self._load = load
        self._later: asyncio.TimerHandle | None = None
        # How many connections may be accepted without hesitating, after that was in vain: one more
        # each time, so that a process that is stuck does not slow down the others.
        self._boldness = self._bold = 0
        self._is_open = True
        self._opening: set[asyncio.Task[Any]] = set()
        listening.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Accept no more connections; the socket stays open in the other processes."""
        if not self._is_open:
            return
        self._is_open = False
        if self._later is not None:
            self._later.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _resume(self) -> None:
        self._later = None
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def _pause(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._later = self._loop.call_later(seconds, then)

    def _accept(self) -> None:
        """Accept a connection, or let others try first."""
        if not self._load.is_above_others:
            self._boldness = self._bold = 0
        elif self._bold > 0:
            self._bold -= 1
        else:
            self._pause(_HESITATION, self._accept_late)
            return
        self._accept_now()

    def _accept_late(self) -> None:
        self._resume()
        is_vain = self._accept_now()
        self._boldness = min(self._boldness + 1, _BOLDEST) if is_vain else 0
        self._bold = self._boldness

    def _accept_now(self) -> bool:
        """Accept a connection, if one waits; return whether one did."""
        try:
            accepted, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False  # another process was quicker, or the client has left
        except OSError as error:
            if error.errno not in _SHORTAGES:
                raise
            log.warning("no connection can be accepted: %s", error.strerror)
            self._pause(_SHORTAGE_PAUSE, self._resume)
            return False
        accepted.setblocking(False)
        self._load.note_opening(1)
        task = start(self._loop, self._open(accepted), "http connection")
        if not task.done():
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        return True

    async def _open(self, accepted: socket) -> None:
        try:
            with suppress(OSError):  # the client has left already
                await self._loop.connect_accepted_socket(self._make, accepted)
        finally:
            self._load.note_opening(-1)
