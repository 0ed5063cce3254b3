"""A server as an ASGI app: Streamable HTTP, and the older two-endpoint form. No protocol decisions.

Written against the ASGI interface itself. Without lifespan events, the first request starts the
server; then nothing stops it.
"""

import asyncio
import atexit
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec

from accord.http.rules import gate
from accord.http.rules.gate import Gate, HeadVerdict
from accord.http.server.endpoint import MESSAGES, STREAM, HttpEndpoint, TwoEndpointForm
from accord.http.server.exchange import (
    HEADER_BYTES_MOST,
    HEADERS_MOST,
    AsgiExchange,
    Headers,
    HttpExchange,
    ListenerApp,
    Receive,
    Scope,
    Send,
    cors_headers,
)
from accord.http.server.sessions import HttpSessions
from accord.http.server.state import DRAINING, AppState, Bodies, ServedServer
from accord.http.settings import HttpSettings, read_http_settings
from accord.runtime.shutdown import is_host_stopping, on_host_stop

if TYPE_CHECKING:
    from accord.http.server.connection import HttpConnection
    from accord.http.server.listener_request import ListenerExchange, ReceivedHead
    from accord.http.server.metrics import ListenerMetrics, MetricsRoute
    from accord.sharing.sessions.parts import SharedParts

log = logging.getLogger("accord.http")

Serve: TypeAlias = Callable[[HttpExchange, HeadVerdict], Awaitable[None]]
# Seconds between ticks: time limits need not be kept more exactly.
_TICK: Final = 1.0
_SWEEP: Final = 30.0
_PAUSE: Final = 0.01
# How many seconds the last responses get to leave, once sessions are closed.
_LAST_RESPONSES: Final = 0.5
# How many seconds clients get to send another request, whose response ends their connection.
_LAST_CLIENTS: Final = 1.0
_HEALTH: Final = ("/healthz", "/readyz")
_METRICS: Final = "/metrics"


class HeadDecision(msgspec.Struct, frozen=True):
    """What follows from the head of a request alone.

    It may depend on every byte of the head but the digits of its length: method, target, version,
    headers. Besides on what stays as it is while the app exists: its options, its paths, the
    revisions of its server, and under ASGI the mount point. So the listener keeps it for the next
    request with the same head (`KnownHead`).

    It may not depend on anything else. Each request is asked anew how many are under way, whether
    the server is ready (`HttpApp._serve`), whose token it has and whether that is still valid
    (`Guard.admit`), and which session it belongs to (the endpoint, with the body).

    Attributes:
        path: which of the app's paths it is for.
        verdict: how the endpoint at the path serves it; None for a refusal, and for paths that are
            not endpoints.
        refusal: why it is refused.
        is_last: whether the connection ends with the refusal.
        is_limited: whether it is refused while too many requests are under way.
    """

    path: str = ""
    verdict: HeadVerdict | None = None
    refusal: gate.HttpRefusal | None = None
    is_last: bool = False
    is_limited: bool = True


class HttpApp(ListenerApp):
    """A server as an ASGI app; can be mounted anywhere, with or without lifespan events.

    Args:
        server: the server.
        options: how it is reached.

    Attributes:
        state: what its requests share, anew on each event loop.
        sessions: the open sessions.
        bodies: the bodies that are being read.
        endpoint: serves Streamable HTTP.
        under_way: how many requests are being served.
        listener_metrics: counts connections and responses; None under another server.
    """

    def __init__(self, server: ServedServer, options: HttpSettings | None = None) -> None:
        self.server = server
        self.options = options = read_http_settings(options or {})
        self._limits = limits = options["limits"]
        guard = gate.guard_for(
            options["public_url"], options["allowed_hosts"], options["allowed_origins"]
        )
        self._gate = Gate(guard, options["answers"], server.revisions)
        self.listener_metrics: ListenerMetrics | None = None
        if options["metrics"]:
            from accord.http.server.metrics import require_prometheus

            require_prometheus()
        self._shared: SharedParts | None = None
        self._reset(time.monotonic)
        # With and without a slash at the end: no request is redirected.
        paths = (*self._endpoints, *self._own_paths)
        self._paths = {f"{path}{end}": path for path in paths for end in ("", "/")}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready: asyncio.Future[None]
        self._stop: asyncio.Event
        self._timer: asyncio.TimerHandle | None = None
        self._swept = self._rechecked = 0.0
        self._rechecking: asyncio.Task[None] | None = None
        times = [options["keep_alive"], options["session_idle"]]
        times += [limits.body_timeout, limits.request_timeout]
        self._tick_every = min(_TICK, *(each / 4 for each in times))

    def _reset(self, now: Callable[[], float]) -> None:
        """Make everything that belongs to one event loop."""
        self.state = AppState(self.server, self.options, now)
        self.sessions = HttpSessions(self.state) if self.options["store"] is None else self._share()
        self.bodies = Bodies(self.state, self.sessions)
        self.endpoint = HttpEndpoint(self.state, self.sessions, self.bodies)
        self._older_form = TwoEndpointForm(self.state, self.sessions, self.bodies)
        self.under_way = 0
        self._endpoints = self._route()
        self._is_ready = self._is_finished = False
        # Whether something will stop the app; a lifespan that the first request opens stays open.
        self._is_managed = False
        self._life: asyncio.Task[None] | None = None

    def _share(self) -> HttpSessions:
        """Make what serves together with other workers; return the source of its sessions."""
        parts: SharedParts = import_module("accord.sharing.sessions.parts").SharedParts(self.state)
        self._shared = parts
        return parts.sessions

    def _route(self) -> dict[str, Serve]:
        """Return what serves each path."""
        routes: dict[str, Serve] = {}
        if self.options["sse"]:
            older = self._older_form
            routes = {STREAM: older.serve_stream, MESSAGES: older.serve_messages}
        path = self.options["path"].rstrip("/")
        if path in routes or path in self._own_paths:
            raise ValueError(f"path is {path!r}, which the app uses already; choose another")
        routes[path] = self.endpoint.serve
        return routes

    @property
    def _own_paths(self) -> tuple[str, ...]:
        return (*_HEALTH, _METRICS) if self.options["metrics"] else _HEALTH

    @property
    def resource_paths(self) -> Mapping[str, str]:
        """The paths beside the endpoint, each with the one that clients connect to; for a guard."""
        return {STREAM: STREAM, MESSAGES: STREAM} if self.options["sse"] else {}

    @property
    def entry_scopes(self) -> frozenset[str]:
        """The scopes that entries of the server need; for a guard that has to ask for some."""
        return getattr(self.server, "entry_scopes", frozenset())

    # -- starting and stopping

    async def _serve_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._serve_lifespan(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def _serve_lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.start()
                except Exception as error:
                    from accord.runtime.source_files import trim_traceback

                    log.exception("the server did not start", exc_info=trim_traceback(error))
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Start the app, and stop it: the lifespan of a framework that mounts it.

        As in `FastAPI(lifespan=desk.lifespan)`, or in a lifespan of your own around its `yield`.

        Args:
            app: the one that mounts it, as frameworks pass it.
        """
        await self.start()
        try:
            yield
        finally:
            await self.stop()

    async def start(self) -> None:
        """Enter the server's lifespan; after `stop`, begin anew, without the old sessions."""
        loop = asyncio.get_running_loop()
        if self._loop is loop and self.state.is_stopping:
            life = self._life
            if life is not None:
                await asyncio.wait((life,))
            if self._life is life:  # no other call has begun meanwhile
                self._begin_on(loop)
        await self._enter(is_managed=True)

    async def _enter(self, *, is_managed: bool) -> None:
        """Enter the server's lifespan, unless it was entered."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._begin_on(loop)
        self._is_managed |= is_managed
        if self._life is None:
            self._ready = loop.create_future()
            self._life = loop.create_task(self._live(self._ready), name="accord-lifespan")
        await asyncio.shield(self._ready)

    def _begin_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin anew: sessions and streams of the last time are gone."""
        if self._loop is not None and self._loop is not loop and self._loop.is_running():
            raise RuntimeError("the app is running on another event loop")
        self._loop = loop
        self._stop = asyncio.Event()
        self._reset(loop.time)

    async def _live(self, ready: asyncio.Future[None]) -> None:
        """Enter the lifespan and leave it, in one task, as cancel scopes and task groups need."""
        try:
            if self._shared is not None:
                await self._shared.start()
            lifespan = self.server.join_lifespan()
            async with lifespan as self.state.lifespan:
                self._tick()
                if self.state.worker is not None:
                    self._metrics_route.start(self.state.worker)
                self._is_ready = True
                ready.set_result(None)
                is_lent = isinstance(lifespan, nullcontext)
                with nullcontext() if self._is_managed or is_lent else warn_if_left_open(self):
                    await self._stop.wait()
        except Exception as error:
            if ready.done():
                log.exception("the server's lifespan failed at its end")
            else:
                self._life = None  # the next request tries again
                ready.set_exception(error)
        finally:
            self._is_ready = False
            if self.state.worker is not None:
                self._metrics_route.stop()
            if self._timer is not None:
                self._timer.cancel()
            if self._rechecking is not None:
                self._rechecking.cancel()
            if self._shared is not None:
                await self._shared.stop()
            if not ready.done():
                ready.cancel()

    async def stop(self) -> None:
        """Let calls finish within the grace period, then end sessions, streams and lifespan."""
        if self._loop is None:
            return
        await self.finish()
        if self._life is not None:
            self._stop.set()
            await asyncio.wait((self._life,))

    async def finish(self, has_clients: Callable[[], bool] | None = None) -> None:
        """Let calls finish within the grace period, then end sessions. May be repeated.

        Args:
            has_clients: where another process takes over the clients: whether some have not left
                yet.
        """
        if self._loop is None:
            return
        self.end_streams()
        state = self.state
        began, grace = state.now(), 0.0 if self._is_finished else self.options["grace"]
        while state.now() < began + grace:
            is_late = state.now() >= began + min(grace / 2, _LAST_CLIENTS)
            is_left = has_clients is None or is_late or not has_clients()
            if is_left and not self._is_working():
                break
            # Otherwise clients that never pause would have calls cut off in the end.
            state.is_draining = state.now() >= began + grace / 2
            if state.is_draining:
                self.bodies.stop(DRAINING)
            await asyncio.sleep(_PAUSE)
        state.is_draining = True
        self.bodies.stop(DRAINING)
        self.sessions.close()
        self.endpoint.stateless.close()
        state.retired.clear()
        end = state.now() + (0.0 if self._is_finished else _LAST_RESPONSES)
        self._is_finished = True
        while self.under_way and state.now() < end:
            await asyncio.sleep(_PAUSE)

    def abort(self) -> None:
        """End sessions at once, and the lifespan soon. May follow `stop`."""
        if self._loop is None:
            return
        self.state.is_stopping = self.state.is_draining = True
        self.sessions.close()
        self.endpoint.stateless.close()
        self._stop.set()

    def _is_working(self) -> bool:
        is_busy = self.under_way > self.state.listening
        return is_busy or any(each.session.dispatcher.running for each in self.sessions)

    def end_streams(self) -> None:
        """Open no new sessions, and end the streams of clients that only listen."""
        self.state.is_stopping = True
        for session in self.sessions:
            session.end_standing()
        self.endpoint.stateless.end_listeners()

    # -- time

    def _tick(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(self._tick_every, self._tick)
        state, options = self.state, self.options
        now, keep_alive = state.now(), options["keep_alive"]
        for reader in list(state.readers):
            reader.tick(now, keep_alive=keep_alive, write_timeout=self._limits.write_timeout)
        self._relieve()
        is_drained = state.worker is not None and state.worker.is_draining
        if state.is_stopping or is_drained or (is_host_stopping() and state.readers):
            self.end_streams()  # again and again: those of the older form once their calls end
        self.bodies.tick(now)
        self.endpoint.tick(now)
        if now - self._swept >= min(_SWEEP, options["session_idle"] / 4):
            self._swept = now
            state.retired.sweep(now)
            self.sessions.sweep(now)
        is_rechecking = self._rechecking is not None and not self._rechecking.done()
        if now - self._rechecked >= keep_alive and not is_rechecking:
            self._rechecked = now
            self._rechecking = self._loop.create_task(self._recheck())

    def _relieve(self) -> None:
        """Disconnect clients that do not read, the longest stalled first, while too much waits."""
        readers = self.state.readers
        unread = sum(reader.stream.unread for reader in readers)
        if unread > self._limits.unread_bytes:
            stalled = [reader for reader in readers if reader.is_stalled()]
            for reader in sorted(stalled, key=lambda each: each.last_write):
                unread -= reader.stream.unread
                reader.let_go()
                if unread <= self._limits.unread_bytes:
                    break

    async def _recheck(self) -> None:
        """End the responses to listening clients whose token was revoked."""
        for reader in list(self.state.readers):
            try:
                if reader.is_admitted is not None and not await reader.is_admitted():
                    reader.end_admission()
            except Exception:  # the user's verifier may raise anything
                log.exception("the token of a listening client could not be verified")

    # -- one request

    def cors_headers(self, scope: Scope) -> Headers:
        """Return the headers that let a page read a response; for a guard that responds itself."""
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        if origin is None or not self.options["cors"]:
            return []
        is_foreign = self._gate.judge(scope["method"], headers).foreign is not None
        return [] if is_foreign else cors_headers(origin)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._serve_other(scope, receive, send)
            return
        exchange = AsgiExchange(self.options, scope, receive, send)
        try:
            if not self._is_ready or self._loop is not asyncio.get_running_loop():
                await self._enter(is_managed=False)
            self.under_way += 1
            try:
                version = scope.get("http_version", "1.1")
                await self._serve(exchange, self._decide(exchange, scope["path"], version))
            finally:
                self.under_way -= 1
        except asyncio.CancelledError:
            if not self._is_finished:
                raise
        except Exception:
            log.exception("%s %s failed", exchange.method, scope["path"])
            await exchange.fail()

    def make_exchange(
        self, connection: "HttpConnection", head: "ReceivedHead"
    ) -> "ListenerExchange":
        return self._exchange_type(self, connection, head)

    @cached_property
    def _exchange_type(self) -> "type[ListenerExchange]":
        from accord.http.server.listener_request import ListenerExchange

        return ListenerExchange

    def serve_exchange(self, exchange: "ListenerExchange") -> Awaitable[None]:
        if not self._is_ready:
            return self._start_and_serve(exchange)
        head = exchange.head
        if exchange.is_received:
            exchange.take_whole()
        self.under_way += 1
        exchange.is_counted = True
        try:
            decision = head.decision
            if decision is None:
                why = head.parse_target()
                if why is None:
                    decision = self._decide(exchange, head.path, head.version)
                else:
                    refusal = gate.HttpRefusal(400, why)
                    decision = HeadDecision(refusal=refusal, is_last=True, is_limited=False)
                head.decision = decision
            return self._serve(exchange, decision)
        except Exception:
            log.exception("%s %s failed", exchange.method, head.path[:200])
            return exchange.fail()

    async def _start_and_serve(self, exchange: "ListenerExchange") -> None:
        await self._enter(is_managed=False)
        if not exchange.is_complete:  # its client may have left meanwhile
            await self.serve_exchange(exchange)

    def _decide(self, exchange: HttpExchange, path: str, version: str) -> HeadDecision:
        """Decide what follows from the head of a request; see `HeadDecision`."""
        own = self._paths.get(path) or self._resolve(exchange.scope)
        if own in self._own_paths:
            return HeadDecision(own, is_limited=False)
        headers = exchange.headers
        if len(headers) > HEADERS_MOST or sum(map(len, headers.values())) > HEADER_BYTES_MOST:
            why = f"more than {HEADERS_MOST} headers, or than {HEADER_BYTES_MOST} bytes of them"
            refusal = gate.HttpRefusal(431, why)
            return HeadDecision(own, refusal=refusal, is_last=True, is_limited=False)
        verdict = self._gate.judge(exchange.method, headers, version)
        if verdict.foreign is not None:
            return HeadDecision(own, refusal=verdict.foreign)
        if own not in self._endpoints:
            root = exchange.scope.get("root_path", "").rstrip("/")
            why = f"nothing is served at {path[:200]!r}; try {root}{self.options['path']}"
            return HeadDecision(own, refusal=gate.HttpRefusal(404, why))
        return HeadDecision(own, verdict)

    def _serve(self, exchange: HttpExchange, decision: HeadDecision) -> Awaitable[None]:
        """Serve a request by the decision on its head, and by what that may not depend on."""
        if self.under_way > self._limits.connections and decision.is_limited:
            why = f"{self._limits.connections} requests are under way (connections)"
            return exchange.refuse(gate.HttpRefusal(503, why, -32000), close=True)
        if decision.verdict is not None:
            return self._endpoints[decision.path](exchange, decision.verdict)
        if decision.refusal is not None:
            return exchange.refuse(decision.refusal, close=decision.is_last)
        if decision.path == _METRICS:
            return self._metrics_route.serve(exchange)
        return exchange.health(None if decision.path == "/healthz" else self.unready_reason)

    @property
    def unready_reason(self) -> str | None:
        """Why new requests should be sent to another server; None if they may come here."""
        worker = getattr(self.state, "worker", None)
        reason: str | None = None if worker is None else worker.unready_reason
        if reason is None and self.state.is_stopping:
            return "the server is stopping"
        return reason

    @cached_property
    def _metrics_route(self) -> "MetricsRoute":
        from accord.http.server.metrics import MetricsRoute

        return MetricsRoute(self)

    def note_listener(self, metrics: "ListenerMetrics") -> None:
        """Take the counts of the listener that serves the app, for its metrics."""
        self.listener_metrics = metrics

    def _resolve(self, scope: Scope) -> str:
        """Return the path of ours that a request asks for; else the request's own path."""
        path: str = scope["path"]
        found = self._paths.get(path)
        if found is not None:
            return found
        if not path.startswith("/"):  # a framework may have stripped it with its mount
            return self._paths.get(f"/{path}", path)
        # The path may include the whole mount, or what a proxy has left of it, or nothing of it.
        root: str = scope.get("root_path", "").rstrip("/")
        while root:
            if path.startswith(root) and path[len(root) :] in self._paths:
                return self._paths[path[len(root) :]]
            root = root[root.find("/", 1) :] if root.find("/", 1) > 0 else ""
        return path


class _OpenApp(Protocol):
    server: ServedServer


class _Warning:
    """Logs once that the lifespan of an app stays open."""

    def __init__(self, app: _OpenApp) -> None:
        self._app = app
        self._loop = asyncio.get_running_loop()
        self.is_due = True

    def give_soon(self) -> None:
        # Called by a signal handler, in the middle of anything.
        self._loop.call_soon_threadsafe(self.give)

    def give(self) -> None:
        server = self._app.server
        if self.is_due and server.must_close:
            self.is_due = False
            log.warning(
                "the lifespan of %r was opened by its first request, and nothing closes it: give "
                "the framework that mounts app = server.asgi() the lifespan of the app, as in "
                "FastAPI(lifespan=app.lifespan)",
                getattr(server, "name", "the server"),
            )


@contextmanager
def warn_if_left_open(app: _OpenApp) -> Iterator[None]:
    """Warn if the process or the loop ends before the block, which nothing else ends."""
    warning = _Warning(app)
    atexit.register(warning.give)
    on_host_stop(warning.give_soon)
    try:
        yield
        warning.is_due = False
    except asyncio.CancelledError:
        warning.give()
        raise
    finally:
        atexit.unregister(warning.give)
