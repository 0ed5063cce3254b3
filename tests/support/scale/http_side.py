"""Requests over HTTP as all clients here send them, with notes of everything."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from support.scale.http_wire import EventParser, Reply, SentEvent, WireBroken, send
from support.scale.recordings import Attempt, SeenEvent, StreamView, TrafficRecorder
from support.waiting import LONG

BOTH = "application/json, text/event-stream"
PAUSE = 0.05
"""Seconds between two attempts, unless the server says otherwise."""


class HttpSide:
    """What all clients here share: requests over HTTP, with notes of everything."""

    def __init__(self, port: int, name: str, recorder: TrafficRecorder) -> None:
        self.port = port
        self.name = name
        self.path = "/mcp"
        self.recorder = recorder
        self.user: str | None = None
        self.extra_headers: dict[str, str] = {}
        self.head_within = LONG
        self.silence = 2.5
        self.attempts: list[Attempt] = []
        self._numbers = count(1)
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Awaitable[Any]) -> "asyncio.Task[Any]":
        """Let something go on until the client is closed."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end_tasks(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def headers(self, method: str) -> dict[str, str]:
        """Return the headers of every request."""
        found = {"Accept": BOTH if method == "POST" else "text/event-stream"}
        if self.user is not None:
            found["X-User"] = self.user
        return found | self.extra_headers

    async def send(
        self,
        method: str,
        message: Any = None,
        *,
        what: str,
        view: StreamView | None = None,
        worker: int | None = None,
        target: str | None = None,
        **headers: str,
    ) -> "Sent":
        """Send a request.

        Raises:
            WireBroken: there is no response.
        """
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        given = {**self.headers(method), **named}
        if worker is not None:
            given["X-Worker"] = str(worker)
        body = None if message is None else json.dumps(message).encode()
        target = self.path if target is None else target
        shown = {name: value for name, value in given.items() if name != "X-Worker"}
        recorded = self.recorder.begin(
            method,
            target,
            {**shown, **({"Content-Type": "application/json"} if body else {})},
            body,
        )
        attempt = Attempt(recorded.number, method, what, time.monotonic())
        self.attempts.append(attempt)
        if view is not None:
            view.attempts.append(attempt)
        try:
            reply = await send(self.port, method, target, given, body, within=self.head_within)
        except WireBroken as error:
            attempt.failure = str(error)
            raise
        attempt.status, attempt.worker = reply.status, reply.worker
        recorded.note_head(reply)
        return Sent(self, reply, attempt, recorded)


class Sent:
    """A request that has a response."""

    def __init__(self, side: HttpSide, reply: Reply, attempt: Attempt, recorded: Any) -> None:
        self._side = side
        self.reply = reply
        self.attempt = attempt
        self._recorded = recorded

    @property
    def status(self) -> int:
        return self.reply.status

    @property
    def was_never_served(self) -> bool:
        """Whether no worker has taken the request, so that it may be sent again."""
        return self.status == 503 or self.reply.headers.get("x-balancer") == "refused"

    async def body(self) -> bytes:
        """Return the body of a response that is not a stream."""
        try:
            body = await self.reply.body(self._side.head_within)
        finally:
            self.reply.close()
        self._recorded.note_body(self.reply, body)
        return body

    async def follow(self, view: StreamView, take: Callable[[SeenEvent], bool]) -> bool:
        """Read events until one ends it, or the stream does; return whether one did.

        Raises:
            WireBroken: the connection ended, or nothing came for too long.
        """
        parser = EventParser()
        try:
            async for piece in self.reply.pieces(self._side.silence):
                self._recorded.note_piece(piece)
                for event in parser.feed(piece):
                    if self._take_event(event, view, take):
                        return True
            self._recorded.note_end(self.reply)
        except WireBroken as error:
            self.attempt.failure = str(error)
            raise
        finally:
            self.reply.close()
        return False

    def _take_event(
        self, event: SentEvent, view: StreamView, take: Callable[[SeenEvent], bool]
    ) -> bool:
        if event.id is not None:
            view.last_id = event.id
        if event.retry is not None:
            view.retry = event.retry
        message = json.loads(event.data) if event.name == "message" and event.data else event.data
        attempt = self.attempt
        seen = SeenEvent(
            time.monotonic(), attempt.number, attempt.worker, event.id, message or None
        )
        view.seen.append(seen)
        return take(seen)
