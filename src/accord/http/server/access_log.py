"""A line in the log for each HTTP request, from around any ASGI app; nothing is done without it.

Lines hold no tokens, no query strings, and no more than the beginning of a session id. What clients
sent is shortened, and quoted where it could be taken for another line or another part of the line.
"""

import json
import logging
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from accord.http.server.exchange import Message, Receive, Scope, Send

log = logging.getLogger("accord.access")

_SESSION: Final = b"mcp-session-id"
_OLDER_SESSION: Final = b"session_id="
# Longer bodies are not read for the method and the name of what they ask for.
_BODY_MOST: Final = 64 * 1024
_TEXT_MOST: Final = 200
# Enough to find the lines of one session, too little to use it.
_SESSION_SHOWN: Final = 8


class _Call(msgspec.Struct):
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _Named(msgspec.Struct):
    name: str | None = None
    uri: str | None = None


_decode_call: Final = msgspec.json.Decoder(_Call).decode
_decode_named: Final = msgspec.json.Decoder(_Named).decode


class AccessLog:
    """An ASGI app that passes all requests on to another one, and logs each when it has ended.

    Attributes of the app, such as `options`, are attributes of this too.

    Args:
        app: any ASGI app.
        is_json: whether the lines are JSON.
    """

    def __init__(self, app: Any, *, is_json: bool = False) -> None:
        self.app = app
        self._is_json = is_json
        if log.level == logging.NOTSET:
            # It was asked for, so it does not depend on the level of other loggers.
            log.setLevel(logging.INFO)

    def __getattr__(self, name: str) -> Any:
        if name == "app" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.app, name)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http" or not log.isEnabledFor(logging.INFO):
            await self.app(scope, receive, send)
            return
        entry = _Entry(scope, receive, send)
        try:
            await self.app(scope, entry.receive, entry.send)
        finally:
            _write(entry.describe(), is_json=self._is_json)


class _Entry:
    """One request, and what its line says."""

    def __init__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._began = time.monotonic()
        self._status: int | None = None
        self._sent = 0
        self._called: str | None = None
        self._name: str | None = None
        self._is_read = scope["method"] != "POST"
        headers = dict(scope["headers"])
        self._session: bytes = headers.get(_SESSION) or _older_session(scope)

    async def receive(self) -> "Message":
        message = await self._receive()
        if not self._is_read and message["type"] == "http.request":
            self._is_read = True
            body = message.get("body", b"")
            if not message.get("more_body") and len(body) <= _BODY_MOST:
                self._called, self._name = _read(body)
        return message

    async def send(self, message: "Message") -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            if not self._session:
                self._session = dict(message.get("headers", ())).get(_SESSION, b"")
        await self._send(message)
        if message["type"] == "http.response.body":
            self._sent += len(message.get("body", b""))

    def describe(self) -> dict[str, object]:
        """Return the parts of the line; those that are unknown are left out."""
        scope = self._scope
        client = scope.get("client")
        session = self._session[:_SESSION_SHOWN].decode("latin-1")
        # Other values than a `Principal` may be the token itself.
        principal = getattr(scope.get("accord.principal"), "subject", None)
        parts: dict[str, object] = {
            "method": _shorten(scope["method"]),
            "path": _shorten(scope["path"]),
            "status": self._status,
            "ms": round((time.monotonic() - self._began) * 1000, 1),
            "bytes": self._sent,
            "client": None if client is None else _shorten(str(client[0])),
            "call": self._called,
            "name": self._name,
            "session": session or None,
            "principal": None if principal is None else _shorten(str(principal)),
        }
        return {key: part for key, part in parts.items() if part is not None or key == "status"}


def _older_session(scope: "Scope") -> bytes:
    query: bytes = scope.get("query_string", b"")
    return query.partition(_OLDER_SESSION)[2].partition(b"&")[0]


def _read(body: bytes) -> tuple[str | None, str | None]:
    """Return the method of a message, and the name or URI that it is about, if it has them."""
    try:
        call = _decode_call(body)
    except (ValueError, RecursionError):
        return ("batch" if body.lstrip()[:1] == b"[" else None), None
    try:
        named = _decode_named(call.params)
    except (ValueError, RecursionError):
        return _shorten(call.method), None
    about = named.name or named.uri
    return _shorten(call.method), None if about is None else _shorten(about)


def _shorten(text: str) -> str:
    return text if len(text) <= _TEXT_MOST else f"{text[:_TEXT_MOST]}..."


# -- writing


def _write(parts: dict[str, object], *, is_json: bool) -> None:
    if is_json:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = json.dumps({"time": stamp, **parts})
    else:
        line = _as_text(parts)
    record = log.makeRecord(
        log.name, logging.INFO, __file__, 0, line, (), None, extra={"access": parts}
    )
    if log.hasHandlers():
        log.handle(record)
    else:
        fallback.handle(record)


def _as_text(parts: dict[str, object]) -> str:
    words = [_quote(parts["method"]), _quote(parts["path"])]
    words.append("-" if parts["status"] is None else str(parts["status"]))
    words += [f"{parts['ms']}ms", f"{parts['bytes']}B"]
    words += [
        f"{key}={_quote(parts[key])}"
        for key in ("client", "call", "name", "session", "principal")
        if key in parts
    ]
    return " ".join(words)


def _quote(value: object) -> str:
    """Return a value as one word; quoted as in JSON if it has blanks, quotes or controls."""
    text = str(value)
    if text and text.isprintable() and not any(each in text for each in ' "\\='):
        return text
    return json.dumps(text)


class LineFormatter(logging.Formatter):
    """Time, level, logger and message; of a line for programs, the message alone."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        if record.name == log.name and str(record.msg).startswith("{"):
            return record.getMessage()
        return super().format(record)


class _Stderr(logging.StreamHandler[Any]):
    """Writes to what is stderr at the time, where logging is not configured."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(LineFormatter())

    @property
    def stream(self) -> Any:
        return sys.stderr


fallback: Final = _Stderr()
"""Writes the lines where logging is not configured; Python itself would drop them."""
