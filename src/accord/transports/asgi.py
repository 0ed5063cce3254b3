"""A server as an ASGI app: Streamable HTTP, and the older two-endpoint form. No protocol decisions.

Written against the ASGI interface itself. It needs no lifespan events: where nobody sends them, the
first request starts the server.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from accord.bindings import http
from accord.bindings.http import Gate, HeadVerdict
from accord.stores.memory import MemoryEventStore
from accord.transports.asgi_servers import is_stopping
from accord.transports.http_bodies import Bodies
from accord.transports.http_endpoint import DRAINING, HttpEndpoint
from accord.transports.http_exchange import (
    HEADER_BYTES_MOST,
    HEADERS_MOST,
    HttpExchange,
    Scope,
    readable_by,
)
from accord.transports.http_options import HttpOptions
from accord.transports.http_session import HttpSession, Post
from accord.transports.http_sessions import HttpSessions
from accord.transports.http_two_endpoints import MESSAGES, STREAM, TwoEndpointForm
from accord.transports.streams import Reader, Receive, Send, Stream

__all__ = ["HttpApp"]

log = logging.getLogger("accord.http")

Serve: TypeAlias = Callable[[HttpExchange, HeadVerdict], Awaitable[None]]

# How exactly time limits are kept; nothing that is limited by time is in a hurry.
_TICK: Final = 1.0
# A call that takes longer than this becomes a stream, where the stream could be resumed.
_LONG: Final = 1.0
_SWEEP: Final = 30.0
_PAUSE: Final = 0.01
# How long it may take to tell clients that the server has stopped.
_LAST_WORDS: Final = 0.5
_HEALTH: Final = ("/healthz", "/readyz")


class HttpApp:
    """A server as an ASGI app; mounts anywhere, with or without lifespan.

    Args:
        server: what is served.
        options: how it is reached.
    """

    def __init__(self, server: Any, options: HttpOptions | None = None) -> None:
        self.server = server
        self.options = options = options or HttpOptions()
        self.events = options.events or MemoryEventStore()
        self.sessions = HttpSessions(self)
        self.readers: set[Reader] = set()
        self.bodies = Bodies(options)
        self.waiting: dict[Post, float | None] = {}
        self.is_stopping = False
        self.is_draining = False
        self._is_finished = False
        self.state: Any = None
        self.under_way = 0
        self.lasting = 0
        guard = http.guard_for(options.public_url, options.allowed_hosts, options.allowed_origins)
        self._gate = Gate(guard, options.answers, server.revisions)
        self._served = self._endpoints()
        # Each with and without a slash at its end: nothing is ever redirected.
        places = (*self._served, *_HEALTH)
        self._places = {f"{path}{end}": path for path in places for end in ("", "/")}
        self._is_ready = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.now: Callable[[], float] = time.monotonic
        self._life: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None]
        self._stop: asyncio.Event
        self._timer: asyncio.TimerHandle | None = None
        self._swept = self._rechecked = 0.0
        self._rechecking: asyncio.Task[None] | None = None
        limits = (options.keep_alive, options.body_timeout, options.session_idle)
        self._tick_every = min(_TICK, *(each / 4 for each in limits))

    def _endpoints(self) -> dict[str, Serve]:
        """Say what is served where."""
        served: dict[str, Serve] = {}
        if self.options.sse:
            older = TwoEndpointForm(self)
            served = {STREAM: older.serve_stream, MESSAGES: older.serve_messages}
        path = self.options.path.rstrip("/")
        if path in served or path in _HEALTH:
            raise ValueError(f"path is {path!r}, where something else is served; choose another")
        served[path] = HttpEndpoint(self).serve
        return served

    @property
    def resource_paths(self) -> Mapping[str, str]:
        """The paths beside the endpoint, each with the one that clients know it by, for a guard."""
        return {STREAM: STREAM, MESSAGES: STREAM} if self.options.sse else {}

    # -- life

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.start()
                except Exception as error:
                    log.exception("the server did not start")
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def start(self) -> None:
        """Run the server's lifespan; the first request does it where nobody else did."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._begin_on(loop)
        if self._life is None:
            self._ready = loop.create_future()
            self._life = loop.create_task(self._live(self._ready), name="accord-lifespan")
        await asyncio.shield(self._ready)

    def _begin_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin anew: what belongs to a loop that is gone is of no use on another."""
        if self._loop is not None and self._loop.is_running():
            raise RuntimeError("the app is running on another event loop")
        self._loop = loop
        self.now = loop.time
        self._is_ready = False
        self._life = None
        self._stop = asyncio.Event()
        self.sessions = HttpSessions(self)
        self.events = self.options.events or MemoryEventStore()
        self.readers.clear()
        self.bodies = Bodies(self.options)
        self.waiting.clear()
        self.is_stopping = self.is_draining = self._is_finished = False
        self.under_way = self.lasting = 0

    async def _live(self, ready: asyncio.Future[None]) -> None:
        """Enter the lifespan and leave it, in one task: some can only be left where they began."""
        try:
            async with self.server.running() as self.state:
                self._tick()
                self._is_ready = True
                ready.set_result(None)
                await self._stop.wait()
        except Exception as error:
            if ready.done():
                log.exception("the server's lifespan did not end well")
            else:
                self._life = None  # the next request tries again
                ready.set_exception(error)
        finally:
            self._is_ready = False
            if self._timer is not None:
                self._timer.cancel()
            if self._rechecking is not None:
                self._rechecking.cancel()
            if not ready.done():
                ready.cancel()

    async def stop(self) -> None:
        """Let calls finish within the grace period, then end sessions and streams."""
        if self._loop is None:
            return
        await self.finish()
        if self._life is not None:
            self._stop.set()
            await asyncio.wait((self._life,))

    async def finish(self) -> None:
        """Let calls finish within the grace period, then end what is left. May be repeated."""
        if self._loop is None:
            return
        self.end_streams()
        began, grace = self.now(), 0.0 if self._is_finished else self.options.grace
        while self._is_working() and self.now() < began + grace:
            # Otherwise clients that never pause would have calls cut off in the end.
            self.is_draining = self.now() >= began + grace / 2
            if self.is_draining:
                self.bodies.stop(DRAINING)
            await asyncio.sleep(_PAUSE)
        self.is_draining = True
        self.bodies.stop(DRAINING)
        self.sessions.close()
        end = self.now() + (0.0 if self._is_finished else _LAST_WORDS)
        self._is_finished = True
        while self.under_way and self.now() < end:
            await asyncio.sleep(_PAUSE)

    def _is_working(self) -> bool:
        is_busy = self.under_way > self.lasting
        return is_busy or any(each.session.dispatcher.running for each in self.sessions)

    def end_streams(self) -> None:
        """Take no new sessions, and let clients that only listen go: they come back elsewhere."""
        self.is_stopping = True
        for session in self.sessions:
            session.end_standing()

    # -- time

    def _tick(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(self._tick_every, self._tick)
        now, options = self.now(), self.options
        for reader in list(self.readers):
            reader.tick(now, keep_alive=options.keep_alive, write_timeout=options.write_timeout)
        self._relieve()
        if self.is_stopping or (is_stopping() and self.readers):
            self.end_streams()  # again and again: those of the older form once their calls end
        self.bodies.tick(now)
        for post, noticed in list(self.waiting.items()):
            if noticed is None:
                self.waiting[post] = now
            elif post.form != "json" and now - noticed >= self._patience(post):
                post.open_stream()
        if now - self._swept >= min(_SWEEP, options.session_idle / 4):
            self._swept = now
            self.sessions.sweep(now)
        is_rechecking = self._rechecking is not None and not self._rechecking.done()
        if now - self._rechecked >= options.keep_alive and not is_rechecking:
            self._rechecked = now
            self._rechecking = self._loop.create_task(self._recheck())

    def _relieve(self) -> None:
        """Let go of clients that do not read, the longest silent first, while too much waits."""
        unread = sum(reader.stream.unread for reader in self.readers)
        if unread > self.options.unread_bytes:
            stalled = [reader for reader in self.readers if reader.is_stalled()]
            for reader in sorted(stalled, key=lambda each: each.spoke):
                unread -= reader.stream.unread
                reader.let_go()
                if unread <= self.options.unread_bytes:
                    break

    async def _recheck(self) -> None:
        """Let those go whose token was revoked since they began to listen."""
        for reader in list(self.readers):
            try:
                if reader.is_admitted is not None and not await reader.is_admitted():
                    reader.end()
            except Exception:  # a verifier may be anybody's
                log.exception("the token of a listener could not be verified")

    def _patience(self, post: Post) -> float:
        """How long a call may be silent before its answer becomes a stream."""
        return min(_LONG if post.is_primed else self.options.keep_alive, self.options.keep_alive)

    def retire(self, session: HttpSession, stream: Stream) -> None:
        """Keep a stream that has come to its end for clients that missed something."""
        self.sessions.retire(session, stream)

    def end(self, session: HttpSession) -> None:
        """End a session."""
        self.sessions.end(session)

    # -- one request

    def cors_headers(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return what lets a page read an answer, for a guard that answers in our place."""
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        if origin is None or not self.options.cors:
            return []
        is_foreign = self._gate.judge(scope["method"], headers).foreign is not None
        return [] if is_foreign else readable_by(origin)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        kind = Post if scope["method"] == "POST" else HttpExchange
        exchange = kind(self, scope, receive, send)
        try:
            if not self._is_ready or self._loop is not asyncio.get_running_loop():
                await self.start()
            self.under_way += 1
            try:
                await self._serve(exchange, scope)
            finally:
                self.under_way -= 1
        except asyncio.CancelledError:
            if not self._is_finished:
                raise
        except Exception:
            log.exception("%s %s failed", exchange.method, scope["path"])
            await exchange.fail()

    def _serve(self, exchange: HttpExchange, scope: Scope) -> Awaitable[None]:
        place = self._find(scope)
        if place in _HEALTH:
            return exchange.health(is_ready=place == "/healthz" or not self.is_stopping)
        headers = exchange.headers
        if len(headers) > HEADERS_MOST or sum(map(len, headers.values())) > HEADER_BYTES_MOST:
            why = f"more than {HEADERS_MOST} headers, or than {HEADER_BYTES_MOST} bytes of them"
            return exchange.refuse(http.HttpRefusal(431, why), close=True)
        if self.under_way > self.options.connections:
            why = f"{self.options.connections} requests are under way (connections)"
            return exchange.refuse(http.HttpRefusal(503, why, -32000), close=True)
        version = scope.get("http_version", "1.1")
        verdict = self._gate.judge(exchange.method, headers, version)
        if verdict.foreign is not None:
            return exchange.refuse(verdict.foreign)
        serve = self._served.get(place)
        if serve is None:
            why = f"nothing is served at {scope['path'][:200]!r}; try {self.options.path}"
            return exchange.refuse(http.HttpRefusal(404, why))
        return serve(exchange, verdict)

    def _find(self, scope: Scope) -> str:
        """Return which of our places a path leads to; the path itself where it is none."""
        path: str = scope["path"]
        found = self._places.get(path)
        if found is not None:
            return found
        if not path.startswith("/"):  # a framework may have stripped it with its mount
            return self._places.get(f"/{path}", path)
        # A mount is named in full, or without what a proxy has stripped; or it is stripped itself.
        root: str = scope.get("root_path", "").rstrip("/")
        while root:
            if path.startswith(root) and path[len(root) :] in self._places:
                return self._places[path[len(root) :]]
            root = root[root.find("/", 1) :] if root.find("/", 1) > 0 else ""
        return path
