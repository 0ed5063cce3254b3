"""The endpoints of an app: the one of Streamable HTTP, and the two of the older form."""

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

import msgspec

from accord.http.rules import gate, sse
from accord.http.rules.sse import CONTENT_TYPE
from accord.http.rules.stateless import VERSION_KEY, has_stateless
from accord.http.server.exchange import (
    LAST_EVENT,
    SESSION,
    Headers,
    HttpExchange,
    Scope,
    expiry_check,
)
from accord.http.server.session import HttpSession, PostResponse
from accord.http.server.sessions import HttpSessions
from accord.http.server.state import DRAINING, AppState, Bodies
from accord.http.server.stateless import StatelessRequests
from accord.http.server.stream import Stream, parse_event_id
from accord.protocol.exchange import Event, Refused, RequestReceived
from accord.protocol.revisions import HANDSHAKE
from accord.runtime.handlers import DONE

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
# So many bytes of a query are read: gateways may write parameters of their own before ours.
_QUERY_MOST: Final = 4_000
STREAM: Final = "/sse"
MESSAGES: Final = "/messages"
# The codes of errors for messages that are malformed, or not allowed at this point.
_MALFORMED: Final = (-32700, -32600)


class _Head(msgspec.Struct):
    method: str | None = None
    id: int | str | None = None


_decode_head: Final = msgspec.json.Decoder(_Head).decode


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


def _read_head(body: bytes) -> _Head | None:
    """Return the head of a message; None if it cannot be read, as that of a batch."""
    try:
        return _decode_head(body)
    except (ValueError, RecursionError):
        return None


def is_request(body: bytes) -> bool:
    """Whether a body is a request that can be read."""
    head = _read_head(body)
    return head is not None and head.method is not None and head.id is not None


def refusal_reason(events: Sequence[Event]) -> str | None:
    """Return why every message of a body was refused; None if one was accepted."""
    reasons = [each.why for each in events if isinstance(each, Refused) and not each.is_ignored]
    return reasons[0] if reasons and len(reasons) == len(events) else None


class HttpEndpoint:
    """The endpoint of Streamable HTTP.

    Attributes:
        waiting: the responses that wait for their answer, and when a tick first saw them.
        stateless: serves requests that stand on their own.
        response_type: makes the responses to POSTs of sessions.
    """

    response_type: type[PostResponse] = PostResponse

    def __init__(self, state: AppState, sessions: HttpSessions, bodies: Bodies) -> None:
        self._state = state
        self._sessions = sessions
        self._bodies = bodies
        self._lacks_sessions = not state.options.has_sessions
        revisions = state.server.revisions
        has_sessions = not self._lacks_sessions and any(id in HANDSHAKE for id in revisions)
        self._allowed = gate.ALLOWED if has_sessions else _STATELESS
        self.waiting: dict[PostResponse, float | None] = {}
        self.stateless = StatelessRequests(state, bodies, self.waiting)
        self._has_stateless = has_stateless(revisions)
        self._has_handshake = any(id in HANDSHAKE for id in revisions)

    def serve(self, exchange: HttpExchange, verdict: gate.HeadVerdict) -> Awaitable[None]:
        """Serve a request from an allowed origin."""
        method = exchange.method
        if method == "POST":
            if verdict.refusal is not None:
                return exchange.refuse(verdict.refusal)
            if verdict.stateless is not None:
                return self.stateless.serve(exchange, verdict)
            return self._post(exchange, verdict)
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
        return self._get(exchange) if method == "GET" else self._delete(exchange)

    def tick(self, now: float) -> None:
        """Answer long silent calls as streams: comments keep those open."""
        for post, noticed in list(self.waiting.items()):
            if noticed is None:
                self.waiting[post] = now
            elif post.form != "json" and now - noticed >= self._patience(post):
                post.open_stream()

    def _patience(self, post: PostResponse) -> float:
        keep_alive = self._state.options.keep_alive
        return min(_LONG, keep_alive) if post.is_primed else keep_alive

    # -- POST

    def _post(self, exchange: HttpExchange, verdict: gate.HeadVerdict) -> Awaitable[None]:
        read = self._bodies.read(exchange)
        if isinstance(read, bytes):
            return self._take(exchange, verdict, read)
        return self._take_later(exchange, verdict, read)

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
        if self._has_stateless and (
            VERSION_KEY in body
            or type(verdict.revision) is gate.HttpRefusal
            or not self._has_handshake
        ):
            refused = self.stateless.refuse_misplaced(exchange, body)
            if refused is not None:
                return refused
        session = self._session_for(exchange, body, verdict)
        if type(session) is gate.HttpRefusal:
            return exchange.refuse(session)
        post = self.response_type(exchange, session, verdict.form)
        return self._conclude(post, session.session.dispatcher.receive(body, post))

    def _conclude(self, post: PostResponse, events: Sequence[Event]) -> Awaitable[None]:
        """Respond to a POST that its session has received."""
        post.is_received = True
        is_alone = len(events) == 1 and events[0].__class__ is RequestReceived
        if not is_alone and not self._has_requests(post, events):
            return self._accept(post, events)
        if not post.is_over and post.stream is None:
            if not post.exchange.is_on_listener:
                return self._answer_later(post)
            self.waiting[post] = None
            post.call_when_ready(self._answer_ready)
            return DONE
        return self._answer(post) if post.owner.is_kept else self._answer_first(post)

    def _answer_ready(self, post: PostResponse) -> None:
        del self.waiting[post]
        if post.owner.is_kept:
            self._answer(post)
        else:
            self._answer_first(post)

    async def _answer_later(self, post: PostResponse) -> None:
        self.waiting[post] = None
        try:
            await post.wait()
        finally:
            del self.waiting[post]
        await (self._answer(post) if post.owner.is_kept else self._answer_first(post))

    def _session_for(
        self, exchange: HttpExchange, body: bytes, verdict: gate.HeadVerdict
    ) -> HttpSession | gate.HttpRefusal:
        """Find the session of a request, or begin one for `initialize`."""
        state, revision = self._state, verdict.revision
        if state.is_draining and is_request(body):
            return DRAINING
        key = None if self._lacks_sessions else exchange.headers.get(SESSION)
        if key is not None:
            if type(revision) is gate.HttpRefusal:
                return revision
            return self._sessions.find(key, exchange)
        head = _read_head(body)
        opens = head is not None and head.method == "initialize"
        if opens and not self._lacks_sessions:
            # `initialize` negotiates the revision; the header is ignored.
            return self._sessions.begin(exchange)
        is_other = head is not None and not opens
        if isinstance(revision, gate.HttpRefusal):
            if is_other:
                return revision
        elif self._lacks_sessions and not opens:
            return HttpSession(state, revision=revision.id)
        elif is_other:  # session.id.missing-400
            return gate.HttpRefusal(400, "Mcp-Session-Id is missing; only initialize goes without")
        # `initialize` without sessions, or an unreadable message: a session of one message
        # answers it.
        return HttpSession(state)

    def _has_requests(self, post: PostResponse, events: Sequence[Event]) -> bool:
        """Whether a batch has requests; if all are answered or refused, it need not wait."""
        if not any(event.__class__ is RequestReceived for event in events):
            return False
        post.is_batch = True
        if not post.is_over and not post.is_held and not post.owner.has_open(post):
            post.give_up()
        return True

    def _accept(self, post: PostResponse, events: Sequence[Event]) -> Awaitable[None]:
        """Respond to a POST without requests."""
        exchange = post.exchange
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
        session = post.owner
        if session.key and session.session.is_begun and session.session.dispatcher.closed is None:
            session.is_kept = True
            self._sessions.keep(session)
            return self._answer(post, session.id)
        stream = post.stream
        if stream is not None and not stream.is_ended:
            return self._follow(post, stream, on_end=session.let_go)
        answered = self._answer(post)
        session.let_go()
        return answered

    def _answer(self, post: PostResponse, new_session: str | None = None) -> Awaitable[None]:
        stream, reply, exchange = post.stream, post.reply, post.exchange
        if stream is not None and not stream.is_ended:
            return self._follow(post, stream, new_session)
        if stream is not None or (
            reply is not None and post.form == "stream" and exchange.denial is None
        ):
            return exchange.whole_stream(post.complete_stream(), session=new_session)
        if reply is not None:
            return exchange.json(reply, session=new_session)
        return self._end_unanswered(post)

    def _follow(
        self,
        post: PostResponse,
        stream: Stream,
        new_session: str | None = None,
        on_end: Callable[[], None] | None = None,
    ) -> Awaitable[None]:
        headers = post.exchange.stream_headers(new_session)
        reader = post.exchange.make_reader(stream, headers, self._state.readers)
        reader.on_end = on_end
        stream.attach(reader)
        if post.is_hung_up:
            reader.end()
        return reader.follow()

    def _end_unanswered(self, post: PostResponse) -> Awaitable[None]:
        """Respond to a request that was cancelled, or whose session has ended."""
        exchange = post.exchange
        if post.owner.session.dispatcher.closed is None:
            return exchange.empty(202) if post.form == "json" else exchange.whole_stream(b"")
        if self._state.is_stopping:
            return exchange.refuse(gate.HttpRefusal(503, "the server is stopping", code=-32000))
        return exchange.refuse(gate.HttpRefusal(404, "the session has ended; initialize anew"))

    # -- GET and DELETE

    def _get(self, exchange: HttpExchange) -> Awaitable[None]:
        session = self._find_session(exchange)
        if isinstance(session, gate.HttpRefusal):
            return exchange.refuse(session)
        last = exchange.header(LAST_EVENT)
        stream = session.listen() if last is None else self._resume(session, last)
        if isinstance(stream, gate.HttpRefusal):
            return exchange.refuse(stream)
        if stream.count == 0 and session.session.endpoint.revision.priming_event:
            stream.prime()
        state = self._state
        reader = exchange.make_reader(stream, exchange.stream_headers(), state.readers)
        if session.is_standing(stream):
            # The client comes back with its next token, and resumes the stream.
            reader.is_due = expiry_check(exchange.expiry(state.now()))
            reader.is_admitted = exchange.is_admitted
        state.listening += 1
        reader.on_end = partial(self._stop_listening, session)
        stream.attach(reader)
        exchange.expect_silence()
        return reader.follow()

    def _stop_listening(self, session: HttpSession) -> None:
        self._state.listening -= 1
        session.used = self._state.now()

    def _resume(self, session: HttpSession, last: str) -> Stream | gate.HttpRefusal:
        """Return the stream of an event, to be read from there on."""
        found = parse_event_id(last)
        stream = None if found is None else session.find_stream(found[0])
        if found is None or stream is None or not stream.resume(found[1]):
            why = f"Last-Event-ID {last[:80]!r} is unknown, or later events are no longer kept"
            return gate.HttpRefusal(400, why)
        if stream.is_ended and not stream.unread:
            # A cancelled call has no answer. Some clients ask for it over and over while they get
            # a stream; so they get none. (gate.get.stream-or-405)
            why = f"no event follows Last-Event-ID {last[:80]!r}: the stream has ended"
            return gate.HttpRefusal(405, why, headers=(("allow", self._allowed),))
        return stream

    def _delete(self, exchange: HttpExchange) -> Awaitable[None]:
        session = self._find_session(exchange)
        if isinstance(session, gate.HttpRefusal):
            return exchange.refuse(session)
        self._sessions.end(session)
        return exchange.empty(204)

    def _find_session(self, exchange: HttpExchange) -> HttpSession | gate.HttpRefusal:
        key = exchange.headers.get(SESSION)
        if key is None:
            return gate.HttpRefusal(400, "Mcp-Session-Id is missing")
        return self._sessions.find(key, exchange)


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
            return exchange.refuse(not_allowed("connect with GET", "GET, OPTIONS"))
        if verdict.refusal is not None:
            return exchange.refuse(verdict.refusal)
        state, sessions = self._state, self._sessions
        session = sessions.begin(exchange)
        if isinstance(session, gate.HttpRefusal):
            return exchange.refuse(session)
        stream = session.only_stream = Stream(on_overflow=partial(sessions.end, session))
        url = f"{self._base_path(exchange.scope)}{MESSAGES}?session_id={session.id}"
        stream.put(sse.encode(url.encode(), name="endpoint"))  # sse.connect.endpoint-event
        sessions.keep(session)
        reader = exchange.make_reader(stream, exchange.stream_headers(), state.readers)
        # The session lasts as long as its stream; each message with a later token extends it.
        session.ends_at = exchange.expiry(state.now())
        session.admits = exchange.is_admitted
        reader.is_due = session.is_due
        reader.is_admitted = session.is_admitted
        state.listening += 1
        reader.on_end = partial(self._end_session, session)
        stream.attach(reader)
        return reader.follow()

    def _end_session(self, session: HttpSession) -> None:
        self._state.listening -= 1
        self._sessions.end(session)

    def _base_path(self, scope: Scope) -> str:
        """Return the path before ours, as clients see it.

        Clients append the path in the first event to their origin; some of them cannot resolve a
        relative one.
        """
        options = self._state.options
        public = urlsplit(options.public_url or "").path.rstrip("/")
        path = options.path.rstrip("/")
        if options.public_url is not None and public.endswith(path):
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
            return await exchange.refuse(not_allowed("send with POST", "POST, OPTIONS"))
        if verdict.refusal is not None and verdict.refusal.status == 415:
            return await exchange.refuse(verdict.refusal)
        query = exchange.scope.get("query_string", b"")[:_QUERY_MOST].decode("latin-1")
        id = (parse_qs(query).get("session_id") or [""])[0]
        session = await self._find(exchange, id.encode())
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
        return await self._take(exchange, session, body)

    async def _find(self, exchange: HttpExchange, key: bytes) -> HttpSession | gate.HttpRefusal:
        return self._sessions.find(key, exchange)

    async def _take(self, exchange: HttpExchange, session: Any, body: bytes) -> None:
        post = PostResponse(exchange, session, "stream")
        await self._conclude(post, session.session.dispatcher.receive(body, post))

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


def not_allowed(why: str, allowed: str) -> gate.HttpRefusal:
    """Return the refusal of a method."""
    return gate.HttpRefusal(405, why, headers=(("allow", allowed),))


def is_visit(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a GET is that of a browser: clients of the protocol list event streams."""
    accept = headers.get(_ACCEPT, b"").lower()
    return _HTML in accept and CONTENT_TYPE.encode() not in accept and SESSION not in headers


def show_page(exchange: HttpExchange, name: str, allowed: str) -> Awaitable[None]:
    """Respond with the page; the status is what clients of the protocol expect without a stream."""
    url = exchange.options.public_url or _url_of(exchange)
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
