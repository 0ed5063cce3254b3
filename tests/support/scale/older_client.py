"""A client of the form with two endpoints (2024-11-05): a stream, and POSTs to where it says."""

import asyncio
import time
from itertools import count
from typing import Any, Self

from support.scale.calls import Call
from support.scale.http_side import HttpSide
from support.scale.http_wire import WireBroken
from support.scale.recordings import SeenEvent, StreamView, TrafficRecorder
from support.waiting import LONG, until

REVISION = "2024-11-05"


class OlderClient(HttpSide):
    """One session; it ends with its stream.

    Attributes:
        place: path and query for messages.
        is_broken: whether the stream has ended.
    """

    def __init__(self, port: int, *, name: str = "old") -> None:
        super().__init__(port, name, TrafficRecorder(REVISION, transport="sse"))
        self.view = StreamView(f"{name} stream")
        self.place: str | None = None
        self.is_broken = False
        self.calls: list[Call] = []
        self.statuses: list[int] = []
        self._ids = count(1)
        self._waiting: dict[Any, asyncio.Future[Any]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end_tasks()

    async def open(self, *, worker: int | None = None) -> Any:
        """Open the stream and the session; return the result of initialize."""
        self.spawn(self._follow(worker))
        await until(lambda: self.place or self.is_broken)
        assert self.place is not None, self.view.excerpt()
        params = {
            "protocolVersion": REVISION,
            "capabilities": {"sampling": {}, "roots": {}},
            "clientInfo": {"name": self.name, "version": "1"},
        }
        opening = await self.request("initialize", params)
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, "initialized")
        return opening.response["result"]

    async def _follow(self, worker: int | None) -> None:
        try:
            sent = await self.send("GET", what="open", view=self.view, worker=worker, target="/sse")
            await sent.follow(self.view, self._take)
        except WireBroken:
            pass
        finally:
            self.is_broken = True
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_result(None)

    def _take(self, seen: SeenEvent) -> bool:
        if isinstance(seen.message, str):
            self.place = seen.message
        elif seen.is_response:
            waiting = self._waiting.pop(seen.message["id"], None)
            if waiting is not None and not waiting.done():
                waiting.set_result(seen.message)
        elif seen.is_question:
            self.spawn(self._answer(seen.message))
        return False

    async def _answer(self, question: Any) -> None:
        asked = question["params"]["messages"][0]["content"]["text"]
        content = {"type": "text", "text": f"{asked}@{self.name}"}
        result = {"role": "assistant", "content": content, "model": "m"}
        await self.post({"jsonrpc": "2.0", "id": question["id"], "result": result}, "answer")

    async def post(self, message: Any, what: str, *, worker: int | None = None) -> int:
        """Post a message to where the stream says; return the status."""
        sent = await self.send("POST", message, what=what, target=self.place, worker=worker)
        await sent.body()
        self.statuses.append(sent.status)
        return sent.status

    async def request(
        self, method: str, params: Any, *, worker: int | None = None, key: str = "", tool: str = ""
    ) -> Call:
        """Send a request, and wait for the response on the stream."""
        id = next(self._ids)
        call = Call(key or method, id, method, tool or method, StreamView(f"{self.name} {key}"))
        self.calls.append(call)
        self._waiting[id] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        call.status = await self.post(message, f"{method} {key}", worker=worker)
        if call.status != 202:
            call.outcome = "refused"
            return call
        async with asyncio.timeout(LONG):
            response = await self._waiting[id] if id in self._waiting else self._find(id)
        call.ended = time.monotonic()
        if response is None:
            call.outcome = "unknown"
        else:
            call.responses.append(response)
            call.outcome = "answered"
        return call

    def _find(self, id: Any) -> Any:
        """Return a response that came before its request was acknowledged."""
        found = [seen.message for seen in self.view.seen if seen.is_response]
        return next((message for message in found if message["id"] == id), None)

    async def call(self, tool: str, key: str, *, worker: int | None = None, **more: Any) -> Call:
        """Call a tool."""
        params = {"name": tool, "arguments": {"key": key, **more}}
        params["_meta"] = {"progressToken": key}
        return await self.request("tools/call", params, worker=worker, key=key, tool=tool)
