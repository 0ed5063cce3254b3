"""A layer between a check and a correct server over HTTP that may change every message.

A fault is a small function that hooks into requests, heads, bodies or whole responses.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import uvicorn

from accord.http.rules.sse import Decoder, Event, encode
from accord.http.server.sockets import listen
from accord.protocol.catalogue import catalogue
from accord.protocol.revisions import REVISIONS
from accord_tools.check.probing.target import ServerTarget
from check.faults import hook_at
from check.mutants.everything import server as everything
from check.mutants.foundation import MUTANTS, Making, elsewhere, params_of
from support.check_targets import check_target

Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
Headers: TypeAlias = dict[str, str]
Head: TypeAlias = tuple[int, Headers]
Hook: TypeAlias = Callable[["Web"], None]

OPENING = ("initialize", "notifications/initialized")
# All that raw requests decide; a whole check would take ten times as long.
PROBED = tuple(id for id, row in catalogue().items() if row.check == "http-probe")


class Asked:
    """A request, read to its end."""

    def __init__(self, scope: dict[str, Any], body: bytes) -> None:
        self.verb: str = scope["method"]
        self.client: Any = scope.get("client")
        self.path: str = scope["path"]
        self.query: str = scope["query_string"].decode()
        self.headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.body = body
        # The connection that it came on.
        self.client = scope.get("client")
        try:
            self.message = json.loads(body) if body else None
        except ValueError:
            self.message = None

    @property
    def method(self) -> str:
        """The method of the message, empty where it has none."""
        method = self.message.get("method") if isinstance(self.message, dict) else None
        return method if isinstance(method, str) else ""

    @property
    def tool(self) -> str:
        """The tool that is called, empty where none is."""
        is_call = self.method == "tools/call"
        return str(params_of(self.message).get("name", "")) if is_call else ""


class Web:
    """An ASGI app around another one.

    Attributes:
        before: may change a request, or answer it with a status, headers and a body.
        head: returns status and headers in place of those of a response.
        body: returns what is sent in place of a piece of a body.
        event: returns the events in place of one of an event stream.
        last: may send more before a response ends.
        left: called when the client disconnects before the end.
        listening: says something on the GET stream of a session.
        shared: for the mutant's own use.
    """

    def __init__(self, app: Any) -> None:
        self.app = app
        self.before: Callable[[Asked], tuple[int, Headers, bytes] | None] = lambda asked: None
        self.head: Callable[[Asked, int, Headers], Head] = lambda asked, *head: head
        self.body: Callable[[Asked, bytes], bytes] = lambda asked, body: body
        self.event: Callable[[Asked, Event], Sequence[Event]] = lambda asked, event: [event]
        self.last: Callable[[Asked, Send], Awaitable[None]] | None = None
        self.left: Callable[[Asked], None] = lambda asked: None
        self.listening: dict[str, Callable[[bytes], None]] = {}
        self.shared: dict[str, Any] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        asked = Asked(scope, await _read(receive))
        answer = self.before(asked)
        if answer is not None:
            await respond(send, *answer)
            return
        scope = scope | {
            "path": asked.path,
            "raw_path": asked.path.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in asked.headers.items()],
        }
        await self.app(scope, self._again(asked, receive), self._changed(asked, send))

    def _again(self, asked: Asked, receive: Any) -> Any:
        bodies = [asked.body]

        async def receiving() -> Any:
            if bodies:
                return {"type": "http.request", "body": bodies.pop(), "more_body": False}
            event = await receive()
            if event["type"] == "http.disconnect":
                self.left(asked)
            return event

        return receiving

    def _changed(self, asked: Asked, send: Send) -> Send:
        held = bytearray()
        is_stream = False

        async def sending(event: dict[str, Any]) -> None:
            nonlocal is_stream
            if event["type"] == "http.response.start":
                given = {name.decode(): value.decode() for name, value in event["headers"]}
                is_stream = given.get("content-type", "").startswith("text/event-stream")
                if is_stream and (asked.verb == "GET" or asked.method == "subscriptions/listen"):
                    session = asked.headers.get("mcp-session-id", "")
                    self.listening[session] = _saying(send)
                status, headers = self.head(asked, event["status"], given)
                headers.pop("content-length", None)
                made = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
                event = event | {"status": status, "headers": made}
            else:
                body = event.get("body", b"")
                if is_stream:
                    body = self._events(asked, held, body)
                is_over = not event.get("more_body", False)
                event = event | {"body": self.body(asked, body)}
                if is_over and self.last is not None:
                    await send(event | {"more_body": True})
                    await self.last(asked, send)
                    event = {"type": "http.response.body", "body": b""}
            await send(event)

        return sending

    def _events(self, asked: Asked, held: bytearray, body: bytes) -> bytes:
        held += body
        out = b""
        while (end := held.find(b"\n\n")) >= 0:
            block = bytes(held[: end + 2])
            del held[: end + 2]
            for event in Decoder().feed(block):
                changed = self.event(asked, event)
                if list(changed) != [event]:
                    block = b"".join(_encoded(each) for each in changed)
            out += block
        return out


def _saying(send: Send) -> Callable[[bytes], None]:
    tasks = set()

    def say(data: bytes) -> None:
        body = {"type": "http.response.body", "body": encode(data), "more_body": True}
        task = asyncio.ensure_future(send(body))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    return say


def _encoded(event: Event) -> bytes:
    name = None if event.name == "message" else event.name
    return encode(event.data, name=name, id=event.id)


async def _read(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        event = await receive()
        body += event.get("body", b"")
        more = event.get("more_body", False)
    return body


async def respond(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Send a whole response."""
    made = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": made})
    await send({"type": "http.response.body", "body": body})


def _dual_stack() -> list[socket.socket]:
    both = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return [both]


def _each_family() -> list[socket.socket]:
    near = socket.create_server(("127.0.0.1", 0))
    port = near.getsockname()[1]
    return [near, socket.create_server(("::", port), family=socket.AF_INET6)]


# Hosts for `serving` that are more than one address.
SOCKETS = {"dual-stack": _dual_stack, "each-family": _each_family}


@asynccontextmanager
async def serving(app: Any, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """Serve an app in this loop; yields the port."""
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, ws="none", timeout_graceful_shutdown=1
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    sockets = [*listen(host, 0)] if host not in SOCKETS else SOCKETS[host]()
    await server.startup(sockets)
    try:
        yield sockets[0].getsockname()[1]
    finally:
        server.force_exit = True
        await server.shutdown(sockets)
        await asyncio.sleep(0)


def over_http(
    hook: Hook,
    *,
    form: str = "http",
    host: str = "127.0.0.1",
    patience: float = 10.0,
    server: Any = everything,
) -> Making:
    """Return what makes a subject over HTTP, with a hook into all that passes."""

    @asynccontextmanager
    async def making() -> AsyncIterator[ServerTarget]:
        web = Web(server.asgi(sse=server is everything))
        hook(web)
        async with serving(web, host) as port:
            path = "mcp" if form == "http" else "sse"
            yield check_target(
                name="mutant",
                url=f"http://127.0.0.1:{port}/{path}",
                form=form,  # type: ignore[arg-type]
                is_launched=True,
                patience=patience,
                settling=0.15,
                at_once=32,
            )

    return making


def web_mutant(
    id: str,
    *,
    of: str = "",
    revision: str = "2025-06-18",
    form: str = "http",
    host: str = "127.0.0.1",
    patience: float = 10.0,
    server: Any = everything,
    also: dict[str, str] | None = None,
    only: Sequence[str] = PROBED,
) -> Callable[[Any], Any]:
    """Register a server over HTTP with a hook into all that passes."""

    def register(fault: Any) -> Any:
        changed = hook_at(of, fault)
        making = over_http(changed, form=form, host=host, patience=patience, server=server)
        making.__name__ = fault.__name__
        # The gate has one for each requirement and era: they take ten times as long as in memory.
        known = {(each.id, REVISIONS[each.revision].handshake) for each in MUTANTS.values()}
        is_thorough = (id, REVISIONS[revision].handshake) in known
        elsewhere(id, revision=revision, also=also, only=only, is_thorough=is_thorough)(making)
        return fault

    return register
