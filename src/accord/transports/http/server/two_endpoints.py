"""The older HTTP form: one endpoint for the stream of the server, one for the client's messages."""

from functools import partial
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit

from accord.bindings import http, sse
from accord.bindings.http import HeadVerdict
from accord.transports.http.server.asgi import Scope
from accord.transports.http.server.bodies import Bodies
from accord.transports.http.server.endpoint import (
    DRAINING,
    is_request,
    read_errors,
    refusal_reason,
)
from accord.transports.http.server.exchange import HttpExchange
from accord.transports.http.server.post import PostResponse
from accord.transports.http.server.sessions import HttpSessions
from accord.transports.http.server.state import AppState
from accord.transports.http.server.stream import Reader, Stream

STREAM: Final = "/sse"
MESSAGES: Final = "/messages"


class TwoEndpointForm:
    """Serves the form that has an endpoint for the stream and one for messages.

    Args:
        state: of the app.
        sessions: those of the app.
        bodies: reads the bodies of requests.
    """

    def __init__(self, state: AppState, sessions: HttpSessions, bodies: Bodies) -> None:
        self._state = state
        self._sessions = sessions
        self._bodies = bodies

    async def serve_stream(self, exchange: HttpExchange, verdict: HeadVerdict) -> None:
        """Serve the endpoint that a client connects to."""
        if exchange.method == "OPTIONS":
            return await exchange.preflight("GET, OPTIONS")
        if exchange.method != "GET":
            return await exchange.refuse(_not_allowed("connect with GET", "GET, OPTIONS"))
        if verdict.refusal is not None:
            return await exchange.refuse(verdict.refusal)
        state, sessions = self._state, self._sessions
        session = sessions.begin(exchange)
        if isinstance(session, http.HttpRefusal):
            return await exchange.refuse(session)
        stream = session.only_stream = Stream(on_overflow=partial(sessions.end, session))
        url = f"{self._base_path(exchange.scope)}{MESSAGES}?session_id={session.id}"
        stream.put_first(sse.encode(url.encode(), name="endpoint"))  # sse.connect.endpoint-event
        sessions.keep(session)
        reader = Reader(stream, exchange.send, exchange.stream_head(), state.readers)
        # The session lasts as long as its stream; each message with a later token extends it.
        session.ends_at = exchange.expiry(state.now())
        session.admits = exchange.is_admitted
        reader.is_due = session.is_due
        reader.is_admitted = session.is_admitted
        stream.attach(reader)
        state.listening += 1
        try:
            await reader.follow(exchange.receive)
        finally:
            state.listening -= 1
            sessions.end(session)
        return None

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

    async def serve_messages(self, exchange: HttpExchange, verdict: HeadVerdict) -> None:
        """Serve the endpoint that takes messages."""
        if exchange.method == "OPTIONS":
            return await exchange.preflight("POST, OPTIONS")
        if exchange.method != "POST":
            return await exchange.refuse(_not_allowed("send with POST", "POST, OPTIONS"))
        if verdict.refusal is not None and verdict.refusal.status == 415:
            return await exchange.refuse(verdict.refusal)
        query = parse_qs(exchange.scope.get("query_string", b"")[:1_000].decode("latin-1"))
        id = (query.get("session_id") or [""])[0]
        session = self._sessions.find(id.encode(), exchange)
        if isinstance(session, http.HttpRefusal):
            return await exchange.refuse(session)
        if session.only_stream is None:
            return await exchange.refuse(http.HttpRefusal(404, "the session is of the other form"))
        session.ends_at = max(session.ends_at, exchange.expiry(self._state.now()))
        session.admits = exchange.is_admitted
        exchange.has_session = True
        read = self._bodies.read(exchange)
        body = read if isinstance(read, bytes) else await read
        if body is None:
            return None
        if self._state.is_draining and is_request(body):
            return await exchange.refuse(DRAINING)
        post = PostResponse(exchange, session, "stream")
        why = refusal_reason(session.session.dispatcher.receive(body, post))
        if post.refusals:
            if all(error.id is None for error in read_errors(post.refusals)):
                return await exchange.json(post.refusal, status=400)
            # The client waits for the answer to its request on the stream, and looks nowhere else.
            for reply in post.refusals:
                session.only_stream.append(reply)
            return await exchange.empty(202)
        if why is not None:
            return await exchange.refuse(http.HttpRefusal(400, why))
        return await exchange.empty(202)


def _not_allowed(why: str, allowed: str) -> http.HttpRefusal:
    return http.HttpRefusal(405, why, headers=(("allow", allowed),))
