"""The endpoints of an app: the one of Streamable HTTP, and the two of the older form.

They ask sources for sessions (`sessions.SessionSource`): this process, a store that several workers
share, or a source of sessions for one request each. What a source has to read first it gives later
(`sessions.Later`); all else goes on at once, without a task.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

import msgspec

from accord.http.rules import gate, sse
from accord.http.rules.sse import CONTENT_TYPE
from accord.http.rules.stateless import VERSION_KEY, has_stateless, status_of
from accord.http.server.exchange import (
    LAST_EVENT,
    SESSION,
    Headers,
    HttpExchange,
    Scope,
    expiry_check,
)
from accord.http.server.session import HttpSession, PostResponse, RequestSession
from accord.http.server.sessions import HttpSessions, Later, SessionSource, is_request
from accord.http.server.state import BRIEF, DRAINING, AppState, Bodies
from accord.http.server.stateless import StatelessSource
from accord.http.server.stream import Stream
from accord.protocol.exchange import Event, Exchange, Refused, RequestReceived
from accord.protocol.revisions import HANDSHAKE
from accord.runtime.handlers import DONE

if TYPE_CHECKING:
    import asyncio

Result = TypeVar("Result")
_ACCEPT: Final = b"accept"
_HOST: Final = b"host"
_HTML: Final = b"text/html"
_HEADERS: Final = [
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"vary", b"Accept"),
]
_PAGE: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>{name}</title>
<h1>{name}</h1>
<p>This is an MCP server. Programs connect to it, not browsers: add it to a host that speaks the
<a href="https://modelcontextprotocol.io">Model Context Protocol</a>.</p>
<p>In the configuration file of most hosts:</p>
<pre>{entry}</pre>
</html>
"""
_STATELESS: Final = "POST, OPTIONS"
# Seconds after which a silent call becomes a stream, if clients could resume that stream.
_LONG: Final = 1.0
# Seconds after which the client of a stateless request that is not answered is watched.
_SOON: Final = 0.1
# So many bytes of a query are read: gateways may write parameters of their own before ours.
_QUERY_MOST: Final = 4_000
STREAM: Final = "/sse"
MESSAGES: Final = "/messages"
# The codes of errors for messages that are malformed, or not allowed at this point.
_MALFORMED: Final = (-32700, -32600)


class _Fault(msgspec.Struct):
    code: int


class _ErrorReply(msgspec.Struct):
    """An error as far as its meaning for the response goes."""

    error: _Fault
    id: int | str | None = None


_decode_errors: Final = msgspec.json.Decoder(_ErrorReply | list[_ErrorReply]).decode


def read_errors(replies: Iterable[bytes]) -> Iterator[_ErrorReply]:
    """Return the errors in replies; a reply to a batch has several."""
    for reply in replies:
        found = _decode_errors(reply)
        yield from found if isinstance(found, list) else (found,)


def _answers_request(error: _ErrorReply) -> bool:
    """Whether an error answers a request that could be read."""
    return error.id is not None and error.error.code not in _MALFORMED


def refusal_reason(events: Sequence[Event]) -> str | None:
    """Return why every message of a body was refused; None if one was accepted."""
    reasons = [each.why for each in events if isinstance(each, Refused) and not each.is_ignored]
    return reasons[0] if reasons and len(reasons) == len(events) else None


class HttpEndpoint:
    """The endpoint of Streamable HTTP: one way from a POST to its session, and to its answer.

    Args:
        state: of the app.
        sessions: the source of sessions that last.
        bodies: reads the bodies of requests.

    Attributes:
        waiting: the responses that wait for their answer, and when a tick first saw them.
        stateless: the source of sessions for requests that stand on their own.
    """

    def __init__(self, state: AppState, sessions: HttpSessions, bodies: Bodies) -> None:
        self._state = state
        self._sessions = sessions
        self._bodies = bodies
        self._lacks_sessions = state.options["sessions"] is False
        revisions = state.server.revisions
        has_sessions = not self._lacks_sessions and any(id in HANDSHAKE for id in revisions)
        self._allowed = gate.ALLOWED if has_sessions else _STATELESS
        self.waiting: dict[PostResponse, float | None] = {}
        self._watch_timer: asyncio.TimerHandle | None = None
        self.stateless = StatelessSource(state)
        self._has_stateless = has_stateless(revisions)
        self._has_handshake = any(id in HANDSHAKE for id in revisions)

    def serve(self, exchange: HttpExchange, verdict: gate.HeadVerdict) -> Awaitable[None]:
        """Serve a request from an allowed origin."""
        method = exchange.method
        if method == "POST":
            if verdict.refusal is not None:
                return exchange.refuse(verdict.refusal)
            body = exchange.body
            if body is None or len(body) > BRIEF:
                read = self._bodies.read(exchange)
                if not isinstance(read, bytes):
                    return self._take_later(exchange, verdict, read)
                body = read
            return self._take(exchange, verdict, body)
        if method == "OPTIONS":
            return exchange.preflight(self._allowed)
        if method == "GET" and is_visit(exchange.headers):
            name = str(getattr(self._state.server, "name", "MCP server"))
            return show_page(exchange, name, _STATELESS)
        if method not in ("GET", "DELETE") or self._allowed is _STATELESS:
            why = f"{method[:20]} is not allowed here"
            return exchange.refuse(gate.HttpRefusal(405, why, headers=(("allow", self._allowed),)))
        refusal = verdict.refusal
        if refusal is None and isinstance(verdict.revision, gate.HttpRefusal):
            refusal = verdict.revision
        if refusal is not None:
            return exchange.refuse(refusal)
        key = exchange.headers.get(SESSION)
        if key is None:
            return exchange.refuse(gate.HttpRefusal(400, "Mcp-Session-Id is missing"))
        serve = self._get if method == "GET" else self._delete
        return _when_found(self._sessions.find(key, exchange), partial(serve, exchange))

    def tick(self, now: float) -> None:
        """Answer long silent calls as streams: comments keep those open."""
        for post, noticed in list(self.waiting.items()):
            if noticed is None:
                self.waiting[post] = now
            elif post.form != "json" and now - noticed >= self._patience(post):
                post.open_stream()

    def _patience(self, post: PostResponse) -> float:
        keep_alive = self._state.options["keep_alive"]
        return min(_LONG, keep_alive) if post.is_primed else keep_alive

    # -- POST

    async def _take_later(
        self, exchange: HttpExchange, verdict: gate.HeadVerdict, read: Awaitable[bytes | None]
    ) -> None:
        body = await read
        if body is not None:
            await self._take(exchange, verdict, body)

    def _take(
        self, exchange: HttpExchange, verdict: gate.HeadVerdict, body: bytes
    ) -> Awaitable[None]:
        """Serve a POST whose body has arrived; nothing is left to await if it is answered."""
        source: SessionSource = self._sessions
        if verdict.stateless is not None:
            source = self.stateless
        elif self._has_stateless and (
            VERSION_KEY in body
            or type(verdict.revision) is gate.HttpRefusal
            or not self._has_handshake
        ):
            refused = self.stateless.refuse_misplaced(exchange, body)
            if refused is not None:
                return refused
        found = source.choose(exchange, verdict, body)
        if type(found) is Later:
            return _go_on_later(found, partial(self._receive, source, exchange, verdict, body))
        return self._receive(source, exchange, verdict, body, found)

    def _receive(
        self,
        source: SessionSource,
        exchange: HttpExchange,
        verdict: gate.HeadVerdict,
        body: bytes,
        session: RequestSession | gate.HttpRefusal,
    ) -> Awaitable[None]:
        """Let the session of a POST receive it."""
        if type(session) is gate.HttpRefusal:
            return exchange.refuse(session)
        post = session.response_type(exchange, session, verdict.form)
        route = source.route
        if route is None:
            return self._conclude(post, body, session.session.dispatcher.receive(body, post))
        routed = route(post, body)
        if type(routed) is Later:
            return self._conclude_later(post, body, routed)
        return self._conclude(post, body, routed)

    async def _conclude_later(
        self,
        post: PostResponse,
        body: bytes,
        routed: Later[Sequence[Event] | gate.HttpRefusal | None],
    ) -> None:
        events = await routed
        if events is None:
            await post.exchange.empty(202)  # gate.post.accepted-202
        elif isinstance(events, gate.HttpRefusal):
            await post.exchange.refuse(events)
        else:
            await self._conclude(post, body, events)

    def _conclude(
        self, post: PostResponse, body: bytes, events: Sequence[Event]
    ) -> Awaitable[None]:
        """Respond to a POST that its session has received."""
        post.is_received = True
        is_alone = len(events) == 1 and events[0].__class__ is RequestReceived
        if not is_alone and not post.expects_answers(events):
            return self._accept(post, body, events)
        if post.is_stateless:
            event: Any = events[0]
            request: Exchange = event.exchange
            if post.is_over and post.stream is None:  # at once: nothing waits for its end
                post.owner.release()
                status = 200 if request.fault is None else _error_status(post, request)
                return self._answer(post, status=status)
            post.request = request
            if not post.is_over:
                self.stateless.open.add(post)
        if post.is_over or post.stream is not None:
            return self._answer(post) if post.owner.is_kept else self._answer_first(post)
        # Respond once there is an answer, or a message before it.
        exchange = post.exchange
        self.waiting[post] = None
        if not exchange.is_on_listener:
            if post.is_stateless and self._watch_timer is None:
                loop = post.owner.session.loop
                self._watch_timer = loop.call_later(_SOON, self._watch)
            return self._answer_later(post)
        if post.is_stateless:
            exchange.on_left = partial(self._client_left, post)
        post.call_when_ready(self._answer_ready)
        return DONE

    def _answer_ready(self, post: PostResponse) -> None:
        del self.waiting[post]
        exchange = post.exchange
        exchange.on_left = None
        work = self._answer(post) if post.owner.is_kept else self._answer_first(post)
        if work is not DONE:
            exchange.finish_later(work)

    def _client_left(self, post: PostResponse) -> None:
        self.waiting.pop(post, None)
        post.call_when_ready(None)
        post.is_left = True
        post.leave()

    async def _answer_later(self, post: PostResponse) -> None:
        try:
            await post.wait()
        except BaseException:  # the ASGI server has cancelled it
            post.leave()
            raise
        finally:
            del self.waiting[post]
            if post.watcher is not None:
                await post.stop_watching()
        if post.is_left:
            post.leave()
        else:
            await (self._answer(post) if post.owner.is_kept else self._answer_first(post))

    def _watch(self) -> None:
        """Watch the clients of stateless requests that are not answered at once.

        One timer serves all: most requests are answered before it goes off, and cost nothing.
        """
        self._watch_timer = None
        for post in self.waiting:
            if not post.exchange.is_on_listener:
                post.watch()

    def _accept(self, post: PostResponse, body: bytes, events: Sequence[Event]) -> Awaitable[None]:
        """Respond to a POST without requests."""
        if post.is_stateless:
            post.owner.let_go()
            return self.stateless.refuse(post.exchange, body, post.refusals)
        settled = self._sessions.settle(post, events)
        if isinstance(settled, Later):
            return _go_on_later(settled, partial(self._accept_settled, post, events))
        return self._accept_settled(post, events, settled)

    def _accept_settled(
        self, post: PostResponse, events: Sequence[Event], refusal: gate.HttpRefusal | None
    ) -> Awaitable[None]:
        exchange = post.exchange
        if refusal is not None:
            return exchange.refuse(refusal)
        if not post.owner.is_kept:
            post.owner.let_go()
        if post.refusals:
            if not any(map(_answers_request, read_errors(post.refusals))):
                return exchange.json(post.refusal, status=400)
            # Clients take an error status for a failure of the transport, and read no further.
            post.reply = post.refusal
            return self._answer(post)
        why = refusal_reason(events)
        if why is not None and not self._lacks_sessions:  # gate.post.refused-status
            return exchange.refuse(gate.HttpRefusal(400, why))
        return exchange.empty(202)  # gate.post.accepted-202

    def _answer_first(self, post: PostResponse) -> Awaitable[None]:
        """Answer the first request of a session; keep the session if that opened it."""
        owner, stream, status = post.owner, post.stream, 200
        if post.request is not None:
            status = _error_status(post, post.request)
        elif owner.key and isinstance(owner, HttpSession):
            session = owner.session
            if session.is_begun and session.dispatcher.closed is None:
                opened = self._sessions.open(owner)
                if isinstance(opened, Later):
                    return _go_on_later(opened, partial(self._answer_opened, post, owner))
                return self._answer_opened(post, owner, opened)
        try:
            if stream is not None and not stream.is_ended:
                return self._follow(post, stream, on_end=post.leave)
            answered = self._answer(post, status=status)
        except BaseException:
            post.leave()
            raise
        post.leave()
        return answered

    def _answer_opened(
        self, post: PostResponse, session: HttpSession, refusal: gate.HttpRefusal | None
    ) -> Awaitable[None]:
        if refusal is None:
            return self._answer(post, session.id)
        session.let_go()
        return post.exchange.refuse(refusal)

    def _answer(
        self, post: PostResponse, new_session: str | None = None, *, status: int = 200
    ) -> Awaitable[None]:
        stream, reply, exchange = post.stream, post.reply, post.exchange
        if stream is not None and not stream.is_ended:
            return self._follow(post, stream, new_session)
        is_stream = post.form == "stream" and status == 200
        if stream is not None or (is_stream and reply is not None and exchange.denial is None):
            events = post.complete_stream()
            if events is None and post.stream is not None:
                return self._follow(post, post.stream, new_session)
            return exchange.whole_stream(events or b"", session=new_session)
        if reply is not None:
            return exchange.json(reply, status=status, session=new_session)
        return self._end_unanswered(post)

    def _follow(
        self,
        post: PostResponse,
        stream: Stream,
        new_session: str | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> Awaitable[None]:
        exchange, state = post.exchange, self._state
        reader = exchange.make_reader(stream, exchange.stream_headers(new_session), state.readers)
        reader.on_end = on_end
        if post.is_listening:
            reader.is_due = expiry_check(exchange.expiry(state.now()))
            reader.is_admitted = exchange.is_admitted
            reader.on_due = post.end_listening
            state.listening += 1
            reader.on_end = partial(self._stop_listening, on_end)
        stream.attach(reader)
        if post.is_hung_up:
            reader.end()
        return reader.follow()

    def _stop_listening(self, on_end: Callable[[], None] | None) -> None:
        self._state.listening -= 1
        if on_end is not None:
            on_end()

    def _end_unanswered(self, post: PostResponse) -> Awaitable[None]:
        """Respond to a request that was cancelled, or whose session has ended."""
        exchange = post.exchange
        if post.is_stateless:
            return exchange.refuse(DRAINING)
        if post.owner.session.dispatcher.closed is None:
            return exchange.empty(202) if post.form == "json" else exchange.whole_stream(b"")
        if self._state.is_stopping:
            return exchange.refuse(gate.HttpRefusal(503, "the server is stopping", code=-32000))
        return exchange.refuse(gate.HttpRefusal(404, "the session has ended; initialize anew"))

    # -- GET and DELETE

    def _get(
        self, exchange: HttpExchange, session: HttpSession | gate.HttpRefusal
    ) -> Awaitable[None]:
        if isinstance(session, gate.HttpRefusal):
            return exchange.refuse(session)
        found = self._sessions.stream(session, exchange.header(LAST_EVENT))
        return _when_found(found, partial(self._follow_standing, exchange, session))

    def _follow_standing(
        self, exchange: HttpExchange, session: HttpSession, stream: Stream | gate.HttpRefusal
    ) -> Awaitable[None]:
        if isinstance(stream, gate.HttpRefusal):
            return exchange.refuse(stream)
        state = self._state
        reader = exchange.make_reader(stream, exchange.stream_headers(), state.readers)
        if session.is_standing(stream):
            # The client comes back with its next token, and resumes the stream.
            reader.is_due = expiry_check(exchange.expiry(state.now()))
            reader.is_admitted = exchange.is_admitted
        state.listening += 1
        leave = partial(self._sessions.leave, session, stream)
        reader.on_end = partial(self._stop_listening, leave)
        stream.attach(reader)
        exchange.expect_silence()
        return reader.follow()

    def _delete(
        self, exchange: HttpExchange, session: HttpSession | gate.HttpRefusal
    ) -> Awaitable[None]:
        if isinstance(session, gate.HttpRefusal):
            return exchange.refuse(session)
        return _when_found(self._sessions.delete(session), partial(_end_deleted, exchange))


def _error_status(post: PostResponse, request: Exchange) -> int:
    """Return the status of the answer to a stateless request: that of its error, if it is one."""
    is_known = post.status != 200 or request.fault is None
    return post.status if is_known else status_of(request.fault)


def _end_deleted(exchange: HttpExchange, refusal: gate.HttpRefusal | None) -> Awaitable[None]:
    return exchange.empty(204) if refusal is None else exchange.refuse(refusal)


def _when_found(
    found: Result | Later[Result], go_on: Callable[[Result], Awaitable[None]]
) -> Awaitable[None]:
    """Go on with what a source has found: at once, or when it has it."""
    return _go_on_later(found, go_on) if isinstance(found, Later) else go_on(found)


async def _go_on_later(found: Later[Result], go_on: Callable[[Result], Awaitable[None]]) -> None:
    await go_on(await found)


class TwoEndpointForm:
    """Serves the form that has an endpoint for the stream and one for messages."""

    def __init__(self, state: AppState, sessions: HttpSessions, bodies: Bodies) -> None:
        self._state = state
        self._sessions = sessions
        self._bodies = bodies

    def serve_stream(self, exchange: HttpExchange, verdict: gate.HeadVerdict) -> Awaitable[None]:
        """Serve the endpoint that a client connects to."""
        if exchange.method == "OPTIONS":
            return exchange.preflight("GET, OPTIONS")
        if exchange.method != "GET":
            return exchange.refuse(_not_allowed("connect with GET", "GET, OPTIONS"))
        if verdict.refusal is not None:
            return exchange.refuse(verdict.refusal)
        session = self._sessions.begin(exchange)
        if isinstance(session, gate.HttpRefusal):
            return exchange.refuse(session)
        opened = self._sessions.open_older(session)
        return _when_found(opened, partial(self._follow, exchange, session))

    def _follow(
        self, exchange: HttpExchange, session: HttpSession, stream: Stream | gate.HttpRefusal
    ) -> Awaitable[None]:
        if isinstance(stream, gate.HttpRefusal):
            return exchange.refuse(stream)
        state = self._state
        url = f"{self._base_path(exchange.scope)}{MESSAGES}?session_id={session.id}"
        stream.put(sse.encode(url.encode(), name="endpoint"))  # sse.connect.endpoint-event
        reader = exchange.make_reader(stream, exchange.stream_headers(), state.readers)
        # The session lasts as long as its stream; each message with a later token extends it.
        session.ends_at = exchange.expiry(state.now())
        session.admits = exchange.is_admitted
        reader.is_due = session.is_due
        reader.is_admitted = session.is_admitted
        state.listening += 1
        reader.on_end = partial(self._end_session, session, stream)
        stream.attach(reader)
        return reader.follow()

    def _end_session(self, session: HttpSession, stream: Stream) -> None:
        self._state.listening -= 1
        self._sessions.end_older(session, stream)

    def _base_path(self, scope: Scope) -> str:
        """Return the path before ours, as clients see it.

        Clients append the path in the first event to their origin; some of them cannot resolve a
        relative one.
        """
        options = self._state.options
        public = urlsplit(options["public_url"] or "").path.rstrip("/")
        path = options["path"].rstrip("/")
        if options["public_url"] is not None and public.endswith(path):
            return public.removesuffix(path)
        root: str = quote(scope.get("root_path", "").rstrip("/"))
        raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        above = raw.decode("latin-1").partition("?")[0].rstrip("/").removesuffix(STREAM)
        # Some ASGI servers give the whole path, others the part below the mount or the proxy.
        return above if above.startswith(root) else f"{root}{above}"

    async def serve_messages(self, exchange: HttpExchange, verdict: gate.HeadVerdict) -> None:
        """Serve the endpoint that takes messages."""
        if exchange.method == "OPTIONS":
            return await exchange.preflight("POST, OPTIONS")
        if exchange.method != "POST":
            return await exchange.refuse(_not_allowed("send with POST", "POST, OPTIONS"))
        if verdict.refusal is not None and verdict.refusal.status == 415:
            return await exchange.refuse(verdict.refusal)
        query = exchange.scope.get("query_string", b"")[:_QUERY_MOST].decode("latin-1")
        id = (parse_qs(query).get("session_id") or [""])[0]
        found = self._sessions.find(id.encode(), exchange)
        session = await found if isinstance(found, Later) else found
        if isinstance(session, gate.HttpRefusal):
            return await exchange.refuse(session)
        if session.only_stream is None:
            return await exchange.refuse(gate.HttpRefusal(404, "the session is of the other form"))
        session.ends_at = max(session.ends_at, exchange.expiry(self._state.now()))
        session.admits = exchange.is_admitted
        exchange.has_session = True
        read = self._bodies.read(exchange)
        body = read if isinstance(read, bytes) else await read
        if body is None:
            return None
        if self._state.is_draining and is_request(body):
            return await exchange.refuse(DRAINING)
        return await self._take(session.response_type(exchange, session, "stream"), body)

    async def _take(self, post: PostResponse, body: bytes) -> None:
        """Let a session receive a message."""
        route = self._sessions.route
        receive = post.owner.session.dispatcher.receive
        routed = receive(body, post) if route is None else route(post, body)
        events = await routed if isinstance(routed, Later) else routed
        if events is None:
            return await post.exchange.empty(202)
        if isinstance(events, gate.HttpRefusal):
            return await post.exchange.refuse(events)
        settled = self._sessions.settle(post, events)
        refusal = await settled if isinstance(settled, Later) else settled
        if refusal is not None:
            return await post.exchange.refuse(refusal)
        return await self._conclude(post, events)

    async def _conclude(self, post: PostResponse, events: Sequence[Event]) -> None:
        """Respond to a POST whose message was received; answers go to the stream."""
        exchange, stream = post.exchange, post.owner.only_stream
        assert stream is not None
        why = refusal_reason(events)
        if post.refusals:
            if all(error.id is None for error in read_errors(post.refusals)):
                await exchange.json(post.refusal, status=400)
                return
            # The client waits for the answer to its request on the stream, and looks nowhere else.
            for reply in post.refusals:
                stream.append(reply)
        elif why is not None:
            await exchange.refuse(gate.HttpRefusal(400, why))
            return
        await exchange.empty(202)


def _not_allowed(why: str, allowed: str) -> gate.HttpRefusal:
    """Return the refusal of a method."""
    return gate.HttpRefusal(405, why, headers=(("allow", allowed),))


def is_visit(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a GET is that of a browser: clients of the protocol list event streams."""
    accept = headers.get(_ACCEPT, b"").lower()
    return _HTML in accept and CONTENT_TYPE.encode() not in accept and SESSION not in headers


def show_page(exchange: HttpExchange, name: str, allowed: str) -> Awaitable[None]:
    """Respond with the page; the status is what clients of the protocol expect without a stream."""
    url = exchange.options["public_url"] or _url_of(exchange)
    entry = json.dumps({"mcpServers": {name: {"url": url}}}, indent=2, ensure_ascii=False)
    page = _PAGE.format(name=escape(name), entry=escape(entry))
    headers: Headers = [*_HEADERS, (b"allow", allowed.encode())]
    return exchange.respond(405, headers, page.encode())


def _url_of(exchange: HttpExchange) -> str:
    scope = exchange.scope
    root, path = scope.get("root_path", "").rstrip("/"), scope["path"]
    # Some ASGI servers give the whole path, others the part below the mount or the proxy.
    whole = path if path.startswith(root) else f"{root}{path}"
    host = exchange.headers.get(_HOST, b"localhost").decode("latin-1")
    return f"{scope.get('scheme', 'http')}://{host}{quote(whole)}"
