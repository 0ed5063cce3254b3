"""An ASGI server under the control of the test, message by message."""

import asyncio
import json
from typing import Any

from accord.http.rules.sse import Decoder
from support.http_talk import BOTH, initialize, notification
from support.waiting import until


class Exchange:
    """One request to an app, under way."""

    def __init__(self, app: Any, scope: dict[str, Any], *body: bytes) -> None:
        self.sent: list[dict[str, Any]] = []
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        for at, part in enumerate(body):
            self.feed(part, more=at + 1 < len(body))
        self.task = asyncio.create_task(app(scope, self._incoming.get, self._send))

    async def _send(self, message: Any) -> None:
        self.sent.append(message)
        if message.get("more_body") is False:
            # As ASGI servers do when a response is complete.
            self._incoming.put_nowait({"type": "http.disconnect"})

    def feed(self, body: bytes, *, more: bool = False) -> None:
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def disconnect(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def done(self) -> "Exchange":
        await self.task
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(each.get("body", b"") for each in self.sent)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        return [json.loads(event.data) for event in Decoder().feed(self.body)]

    @property
    def ids(self) -> list[str | None]:
        return [event.id for event in Decoder().feed(self.body)]


class Asgi:
    """A client that calls an app directly."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.session: str | None = None

    def scope(self, method: str, path: str = "/mcp", **headers: Any) -> dict[str, Any]:
        given = {
            "host": "localhost",
            "accept": BOTH,
            "content-type": "application/json",
            "mcp-session-id": self.session,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [(k.encode(), v.encode()) for k, v in given.items() if v is not None],
        }

    def start(self, method: str, *body: bytes, **headers: Any) -> Exchange:
        return Exchange(self.app, self.scope(method, **headers), *body)

    async def post(self, message: Any, **headers: Any) -> Exchange:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return await self.start("POST", body, **headers).done()

    async def get(self, **headers: Any) -> Exchange:
        """Listen; return once the head has arrived."""
        exchange = self.start("GET", b"", **headers)
        await until(lambda: exchange.sent)
        return exchange

    async def open(self, revision: str = "2025-06-18") -> None:
        opened = await self.post(initialize(revision))
        self.session = opened.headers.get("mcp-session-id")
        assert (await self.post(notification("notifications/initialized"))).status == 202
