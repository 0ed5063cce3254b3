"""The older HTTP form: a stream for everything the server says, and a URL for what it is told."""

from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

import msgspec

from accord.bindings import http, sse
from accord.bindings.http import HeadVerdict
from accord.transports.http_endpoint import DRAINING, asks, refused_by
from accord.transports.http_exchange import HttpExchange, Scope
from accord.transports.http_session import Post
from accord.transports.streams import Reader, Stream

__all__ = ["MESSAGES", "STREAM", "TwoEndpointForm"]

STREAM: Final = "/sse"
MESSAGES: Final = "/messages"


class _Head(msgspec.Struct):
    id: int | str | None = None


_read_head: Final = msgspec.json.Decoder(_Head).decode


class TwoEndpointForm:
    """Serves the form that has an endpoint for the stream and one for messages."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def serve_stream(self, exchange: HttpExchange, verdict: HeadVerdict) -> None:
        """Serve the endpoint that a client connects to."""
        if exchange.method == "OPTIONS":
            return await exchange.preflight("GET, OPTIONS")
        if exchange.method != "GET":
            return await exchange.refuse(_not_allowed("connect with GET", "GET, OPTIONS"))
        if verdict.refusal is not None:
            return await exchange.refuse(verdict.refusal)
        sessions = self._app.sessions
        session = sessions.begin(exchange)
        if isinstance(session, http.HttpRefusal):
            return await exchange.refuse(session)
        stream = session.only_stream = Stream()
        place = f"{self._above(exchange.scope)}{MESSAGES}?session_id={session.id}"
        stream.put_first(sse.encode(place.encode(), name="endpoint"))  # sse.connect.endpoint-event
        sessions.keep(session)
        reader = Reader(stream, exchange.send, exchange.stream_head(), self._app.readers)
        # The session is its stream: every message with a later token lets it live on.
        session.ends_at = sessions.lease(exchange)
        session.admits = exchange.is_admitted
        reader.is_due = session.is_due
        reader.is_admitted = session.is_admitted
        stream.attach(reader)
        self._app.lasting += 1
        try:
            await reader.follow(exchange.receive)
        finally:
            self._app.lasting -= 1
            sessions.end(session)
        return None

    def _above(self, scope: Scope) -> str:
        """Return what stands before our paths where clients reach us.

        Clients put the path that the stream names after their origin; not all of them resolve one
        that does not begin at the root.
        """
        options = self._app.options
        public = urlsplit(options.public_url or "").path.rstrip("/")
        path = options.path.rstrip("/")
        if options.public_url is not None and public.endswith(path):
            return public.removesuffix(path)
        root: str = quote(scope.get("root_path", "").rstrip("/"))
        raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        above = raw.decode("latin-1").partition("?")[0].rstrip("/").removesuffix(STREAM)
        # Some servers tell the whole path, others what a mount or a proxy has left of it.
        return above if above.startswith(root) else f"{root}{above}"

    async def serve_messages(self, exchange: HttpExchange, verdict: HeadVerdict) -> None:
        """Serve the endpoint that takes messages."""
        if exchange.method == "OPTIONS":
            return await exchange.preflight("POST, OPTIONS")
        if not isinstance(exchange, Post):
            return await exchange.refuse(_not_allowed("send with POST", "POST, OPTIONS"))
        if verdict.refusal is not None and verdict.refusal.status == 415:
            return await exchange.refuse(verdict.refusal)
        query = parse_qs(exchange.scope.get("query_string", b"")[:1_000].decode("latin-1"))
        named = (query.get("session_id") or [""])[0]
        session = self._app.sessions.find(named.encode(), exchange)
        if isinstance(session, http.HttpRefusal):
            return await exchange.refuse(session)
        if session.only_stream is None:
            return await exchange.refuse(http.HttpRefusal(404, "the session is of the other form"))
        session.ends_at = max(session.ends_at, self._app.sessions.lease(exchange))
        session.admits = exchange.is_admitted
        exchange.is_known = True
        read = exchange.body()
        body = read if isinstance(read, bytes) else await read
        if body is None:
            return None
        if self._app.is_draining and asks(body):
            return await exchange.refuse(DRAINING)
        why = refused_by(exchange.begin(session, "stream", body))
        if exchange.refusal is not None:
            if not _answers_request(exchange.refusal):
                return await exchange.json(exchange.refusal, status=400)
            # Who sent a request waits for its answer on the stream, and looks nowhere else.
            session.only_stream.append(exchange.refusal)
            return await exchange.empty(202)
        if why is not None:
            return await exchange.refuse(http.HttpRefusal(400, why))
        return await exchange.empty(202)


def _answers_request(refusal: bytes) -> bool:
    return _read_head(refusal).id is not None


def _not_allowed(why: str, allowed: str) -> http.HttpRefusal:
    return http.HttpRefusal(405, why, headers=(("allow", allowed),))
