"""Streamable HTTP, and the older two-endpoint form, as one ASGI app. No protocol decisions.

Written against the ASGI interface itself: a request without notifications is answered by one JSON
response in the task that received it. The first notification or question turns that response into
an event stream.
"""

import asyncio
import logging
import secrets
import time
from contextlib import AsyncExitStack
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from accord.bindings import headers as names
from accord.bindings import http, sse
from accord.protocol.revision import Revision
from accord.stores.interfaces import EventStore
from accord.stores.memory import MemoryEventStore
from accord.transports.http_exchange import HttpExchange, Receive, Scope, Send
from accord.transports.http_options import HttpOptions
from accord.transports.http_session import HttpSession, Post

log = logging.getLogger("accord.http")

_SWEEP: Final = 30.0


class _Peek(msgspec.Struct):
    method: str | None = None


class HttpApp:
    """A server as an ASGI app; mounts anywhere, with or without lifespan.

    Args:
        server: what is served.
        options: how it is reached.
        store: keeps events for clients that come back.
    """

    def __init__(
        self, server: Any, options: HttpOptions | None = None, *, store: EventStore | None = None
    ) -> None:
        self.server = server
        self.options = options or HttpOptions()
        self.store = store or MemoryEventStore()
        self.sessions: dict[str, HttpSession] = {}
        self.stopping = False
        self._guard = http.guard_for(
            self.options.public_url, self.options.allowed_hosts, self.options.allowed_origins
        )
        self._path = self.options.path.rstrip("/")
        self._supported = frozenset(server.revisions)
        self._peek = msgspec.json.Decoder(_Peek).decode
        self._stack = AsyncExitStack()
        self._state: Any = None
        self._starting: asyncio.Task[None] | None = None
        self._under_way = 0
        self._sweeper: asyncio.TimerHandle | None = None

    # -- life

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
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
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        self._state = await self._stack.enter_async_context(self.server.running())
        self._sweep()

    async def stop(self) -> None:
        """Let calls finish within the grace period, then end sessions and streams."""
        self.end_streams()
        deadline = time.monotonic() + self.options.grace
        while self._under_way and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        for session in list(self.sessions.values()):
            session.close()
        self.sessions.clear()
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self._stack.aclose()

    def end_streams(self) -> None:
        """Take no new sessions, and let clients that only listen go; they come back elsewhere."""
        self.stopping = True
        for session in self.sessions.values():
            if session.standing is not None:
                session.standing.end()

    def _sweep(self) -> None:
        """End sessions that nobody has used for long."""
        before = time.monotonic() - self.options.session_idle
        for session in [each for each in self.sessions.values() if each.is_idle(before)]:
            self._end(session)
        loop = asyncio.get_running_loop()
        delay = min(_SWEEP, max(self.options.session_idle / 4, 0.01))
        self._sweeper = loop.call_later(delay, self._sweep)

    def _end(self, session: HttpSession) -> None:
        self.sessions.pop(session.id, None)
        session.close()

    # -- one request

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._starting is None or not self._starting.done():
            await self.start()
        path = _path_within(scope)
        head = http.Head(
            scope["method"], {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        )
        exchange = HttpExchange(self, head, receive, send)
        refusal = self._guard.refuse(head)
        if path in ("/healthz", "/readyz"):
            await exchange.health(is_ready=path == "/healthz" or not self.stopping)
        elif refusal is not None:
            await exchange.refuse(refusal)
        elif path == self._path:
            await self._endpoint(exchange)
        elif self.options.sse and path in ("/sse", "/messages"):
            await self._two_endpoints(exchange, path, scope)
        else:
            await exchange.refuse(http.Refusal(404, f"nothing is served at {path[:200]!r}"))

    async def _endpoint(self, exchange: HttpExchange) -> None:
        method = exchange.head.method
        if method == "POST":
            self._under_way += 1
            try:
                await self._post(exchange)
            finally:
                self._under_way -= 1
        elif method == "GET":
            await self._get(exchange)
        elif method == "DELETE":
            await self._delete(exchange)
        elif method == "OPTIONS":
            await exchange.preflight()
        else:
            await exchange.refuse(
                http.Refusal(
                    405, f"{method[:20]} is not allowed", headers=(("allow", http.ALLOWED),)
                )
            )

    async def _post(self, exchange: HttpExchange) -> None:
        refusal = http.refuse_post(exchange.head)
        if refusal is not None:
            return await exchange.refuse(refusal)
        revision = http.revision_of(exchange.head, self._supported)
        if isinstance(revision, http.Refusal):
            return await exchange.refuse(revision)
        body = await exchange.body(self.server.limits.message_bytes)
        if body is None:
            return None
        session = self._session_for(exchange.head, body, revision)
        if isinstance(session, http.Refusal):
            return await exchange.refuse(session)
        post = Post(session)
        session.incoming = post
        try:
            requests = session.session.dispatcher.receive(body, post)
        finally:
            session.incoming = None
        if post.refusal is not None and not requests:
            self._drop_unopened(session)
            return await exchange.json(400, post.refusal)
        if not requests:
            return await exchange.empty(202)
        if self.options.answers == "stream":
            post.open_stream()
        await post.settled()
        if post.stream is None and post.reply is not None:
            await exchange.json(200, post.reply, session=session.new_id())
        elif post.stream is not None:
            await exchange.stream(post.stream, session=session.new_id())
        self._drop_unopened(session)
        return None

    def _session_for(
        self, head: http.Head, body: bytes, revision: Revision
    ) -> HttpSession | http.Refusal:
        """Find the session of a request, or begin one for `initialize`."""
        if self.options.stateless:
            return self._stateless(revision, body)
        named = head.headers.get(names.SESSION)
        if named is not None:
            session = self.sessions.get(named)
            if session is None:  # session.end.terminated-404
                return http.Refusal(404, "the session is unknown or has ended; initialize anew")
            session.used = time.monotonic()
            return session
        try:
            opens = self._peek(body).method == "initialize"
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            opens = True  # what cannot be read is answered by a session that is then dropped
        if not opens:  # session.id.missing-400
            return http.Refusal(400, "Mcp-Session-Id is missing; only initialize goes without")
        if self.stopping:
            return http.Refusal(503, "the server is stopping")
        if len(self.sessions) >= self.options.sessions:
            return http.Refusal(503, f"{self.options.sessions} sessions are open (sessions)")
        session = HttpSession(self, secrets.token_urlsafe(24), self._state)
        self.sessions[session.id] = session
        session.is_new = True
        return session

    def _stateless(self, revision: Revision, body: bytes) -> HttpSession:
        """Make a session for one request; `initialize` is answered but opens nothing."""
        session = HttpSession(self, "", self._state)
        if not self._opens(body):
            session.session.begin_stateless(revision.id)
        return session

    def _opens(self, body: bytes) -> bool:
        try:
            return self._peek(body).method == "initialize"
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False

    def _drop_unopened(self, session: HttpSession) -> None:
        """Forget a session whose opening failed."""
        if not session.session.is_begun:
            self._end(session)

    async def _get(self, exchange: HttpExchange) -> None:
        refusal = http.refuse_get(exchange.head)
        if refusal is None and self.options.stateless:
            refusal = http.Refusal(
                405, "this server opens no streams", headers=(("allow", "POST, OPTIONS"),)
            )
        if refusal is not None:
            return await exchange.refuse(refusal)
        session = self._known(exchange.head)
        if isinstance(session, http.Refusal):
            return await exchange.refuse(session)
        last = exchange.head.headers.get(names.LAST_EVENT)
        if last is None:
            return await exchange.stream(session.listening(), lasting=session)
        found = self.store.after(session.id, last)
        if found is None:
            return await exchange.refuse(
                http.Refusal(404, f"event {last[:80]!r} is not known in this session")
            )
        name, missed = found
        return await exchange.resume(session, name, missed)

    async def _delete(self, exchange: HttpExchange) -> None:
        session = self._known(exchange.head)
        if isinstance(session, http.Refusal):
            return await exchange.refuse(session)
        self._end(session)
        return await exchange.empty(204)

    def _known(self, head: http.Head) -> HttpSession | http.Refusal:
        named = head.headers.get(names.SESSION)
        if named is None:
            return http.Refusal(400, "Mcp-Session-Id is missing")
        session = self.sessions.get(named)
        if session is None:
            return http.Refusal(404, "the session is unknown or has ended; initialize anew")
        session.used = time.monotonic()
        return session

    # -- the older form

    async def _two_endpoints(self, exchange: HttpExchange, path: str, scope: Scope) -> None:
        method = exchange.head.method
        if method == "OPTIONS":
            return await exchange.preflight()
        if path == "/sse":
            if method != "GET":
                return await exchange.refuse(
                    http.Refusal(405, "connect with GET", headers=(("allow", "GET, OPTIONS"),))
                )
            if len(self.sessions) >= self.options.sessions:
                return await exchange.refuse(http.Refusal(503, "too many sessions (sessions)"))
            session = HttpSession(self, secrets.token_urlsafe(24), self._state)
            self.sessions[session.id] = session
            session.one_stream = True
            root = scope.get("root_path", "").rstrip("/")
            place = f"{root}/messages?session_id={session.id}"
            try:
                await exchange.stream(
                    session.listening(), first=_endpoint_event(place), lasting=session
                )
            finally:
                self._end(session)
            return None
        if method != "POST":
            return await exchange.refuse(
                http.Refusal(405, "send with POST", headers=(("allow", "POST, OPTIONS"),))
            )
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        named = (query.get("session_id") or [""])[0]
        found = self.sessions.get(named)
        if found is None:
            return await exchange.refuse(http.Refusal(404, "the session is unknown or has ended"))
        body = await exchange.body(self.server.limits.message_bytes)
        if body is not None:
            found.used = time.monotonic()
            found.session.dispatcher.receive(body)
            await exchange.empty(202)
        return None


def _endpoint_event(place: str) -> bytes:
    return sse.encode(place.encode(), name="endpoint")


def _path_within(scope: Scope) -> str:
    """Return the path within the mount, without a trailing slash."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "").rstrip("/")
    if root and path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
        path = path[len(root) :]
    return path.rstrip("/")
