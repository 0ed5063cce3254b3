"""A client of Streamable HTTP, of the revisions with sessions, that resumes on its own.

Independent of the library's client on purpose. It does what the specification lets a careful client
do: a stream that breaks is resumed by its last event id, also when workers or the balancer answer
502 or 503 for a while; requests are sent again only if no worker has seen them.
"""

import asyncio
import json
import time
from collections.abc import Callable
from itertools import count
from typing import Any, Self

from support.scale.calls import Answered, Call
from support.scale.http_side import PAUSE, HttpSide, Sent
from support.scale.http_wire import Reply, WireBroken
from support.scale.recordings import SeenEvent, StreamView, TrafficRecorder
from support.waiting import LONG

Respond = Callable[[Any], Any]
"""Returns the result for a question; None leaves it unanswered."""


class RawClient(HttpSide):
    """One session of 2025-03-26, 2025-06-18 or 2025-11-25.

    Args:
        port: of the balancer, or of a worker.
        revision: to speak.
        name: unique among the clients of a test; answers carry it.
        user: the caller, where the server knows callers.

    Attributes:
        silence: seconds without a byte after which a stream counts as broken.
        head_within: seconds for the head of a response.
        patience: seconds for a call with all its resumptions.
        respond: answers questions; None as a result leaves them open.
    """

    def __init__(
        self, port: int, *, revision: str = "2025-11-25", name: str = "c", user: str | None = None
    ) -> None:
        super().__init__(port, name, TrafficRecorder(revision))
        self.revision = revision
        self.user = user
        self.session: str | None = None
        self.patience = LONG
        self.respond: Respond = self.usual_answer
        self.calls: list[Call] = []
        self.answers: list[Answered] = []
        self.listeners: list[Listener] = []
        self.is_deleted = False
        self._ids = count(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end_tasks()

    def headers(self, method: str) -> dict[str, str]:
        found = super().headers(method)
        if self.session is not None:
            found["Mcp-Session-Id"] = self.session
            if self.revision != "2025-03-26":
                found["MCP-Protocol-Version"] = self.revision
        return found

    # -- the session

    async def open(self, capabilities: Any = None, *, worker: int | None = None) -> Any:
        """Begin the session; return the result of initialize."""
        if capabilities is None:
            later = {} if self.revision == "2025-03-26" else {"elicitation": {}}
            capabilities = {"sampling": {}, "roots": {}, **later}
        params = {
            "protocolVersion": self.revision,
            "capabilities": capabilities,
            "clientInfo": {"name": self.name, "version": "1"},
        }
        opening = await self.request("initialize", params, worker=worker)
        assert opening.outcome == "answered", opening.excerpt()
        assert self.session is not None, opening.excerpt()
        status = await self.notify("notifications/initialized", worker=worker)
        assert status == 202, f"initialized got {status}"
        return opening.response["result"]

    async def delete(self, *, worker: int | None = None) -> int:
        """End the session; return the status."""
        sent = await self.send("DELETE", what="delete", worker=worker)
        await sent.body()
        self.is_deleted = self.is_deleted or sent.status in (200, 204)
        return sent.status

    async def notify(self, method: str, params: Any = None, *, worker: int | None = None) -> int:
        """Send a notification, again while no worker takes it; return the status."""
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        return await self.post_notice(message, what=method, worker=worker)

    async def post_notice(
        self, message: Any, *, what: str, worker: int | None = None, statuses: Any = None
    ) -> int:
        """Post a notification or an answer until a worker has taken it; return the status."""
        end = time.monotonic() + self.patience
        while True:
            status = None
            try:
                sent = await self.send("POST", message, what=what, worker=worker)
                status = sent.status
                await sent.body()
            except WireBroken:
                status = None
            if statuses is not None:
                statuses.append(status)
            if status not in (None, 502, 503) or time.monotonic() > end:
                return status or 0
            await asyncio.sleep(PAUSE)

    # -- requests

    def begin(self, tool: str, key: str, *, worker: int | None = None, **arguments: Any) -> Call:
        """Begin to call a tool; `call.task` ends with it."""
        params: dict[str, Any] = {"name": tool, "arguments": {"key": key, **arguments}}
        call = self._make_call("tools/call", key, tool, arguments)
        call.task = self.spawn(self._run(call, params, worker))
        return call

    async def call(self, tool: str, key: str, *, worker: int | None = None, **more: Any) -> Call:
        """Call a tool, and resume until there is an answer."""
        call = self.begin(tool, key, worker=worker, **more)
        assert call.task is not None
        await call.task
        return call

    async def request(
        self, method: str, params: Any = None, *, worker: int | None = None, key: str | None = None
    ) -> Call:
        """Send any request, and resume until there is an answer."""
        call = self._make_call(method, key or f"{self.name}-{method}", method, {})
        await self._run(call, params, worker)
        return call

    def _make_call(self, method: str, key: str, tool: str, arguments: dict[str, Any]) -> Call:
        view = StreamView(f"{self.name} {method} {tool} {key}")
        call = Call(key, None, method, tool, view, arguments)
        self.calls.append(call)
        return call

    async def _run(self, call: Call, params: Any, worker: int | None) -> None:
        try:
            async with asyncio.timeout(self.patience):
                if await self._post(call, params, worker):
                    await self._resume(call)
        except TimeoutError:
            call.outcome = "late"
        finally:
            call.ended = time.monotonic()

    async def _post(self, call: Call, params: Any, worker: int | None) -> bool:
        """Post a request; return whether its stream has to be resumed."""
        while True:
            call.id = next(self._ids)
            message = {"jsonrpc": "2.0", "id": call.id, "method": call.method}
            if params is not None:
                meta = {} if call.method == "initialize" else {"progressToken": f"t{call.id}"}
                message["params"] = {**params, **({"_meta": meta} if meta else {})}
            try:
                sent = await self.send(
                    "POST", message, what=f"{call.tool} {call.key}", view=call.view, worker=worker
                )
                call.status = sent.status
                if sent.was_never_served:
                    await sent.body()
                    await asyncio.sleep(PAUSE)
                    continue
                return await self._take_reply(call, sent)
            except WireBroken:
                if call.view.last_id is None:
                    call.outcome = "unknown"
                    return False
                return True

    async def _take_reply(self, call: Call, sent: Sent) -> bool:
        reply = sent.reply
        if call.method == "initialize":
            self.session = reply.headers.get("mcp-session-id", self.session)
        if reply.is_stream:
            is_over = await sent.follow(call.view, lambda seen: self._take(call, seen))
            return not is_over and not self._is_settled(call)
        body = await sent.body()
        if reply.status == 200 and reply.kind == "application/json":
            at, number = time.monotonic(), sent.attempt.number
            seen = SeenEvent(at, number, sent.attempt.worker, None, json.loads(body))
            call.view.seen.append(seen)
            self._take(call, seen)
        elif reply.headers.get("x-balancer") == "lost":
            call.outcome = "unknown"
        elif reply.status == 202 and call.was_cancelled:
            call.outcome = "cancelled"
        else:
            call.outcome = "refused"
            call.responses.append({"refused": body.decode(errors="replace")})
        return False

    def _is_settled(self, call: Call) -> bool:
        """Whether nothing more is to come of a call whose stream has ended."""
        if call.was_cancelled:
            call.outcome = "cancelled"
            return True
        if call.view.last_id is None:
            call.outcome = "unknown"
            return True
        return False

    def _take(self, call: Call, seen: SeenEvent) -> bool:
        """Take an event of the stream of a call; return whether it is the response."""
        if seen.is_question:
            self.spawn(self.answer(seen.message))
        if not seen.is_response:
            return False
        call.responses.append(seen.message)
        call.outcome = "answered"
        return True

    async def _resume(self, call: Call) -> None:
        """Resume the stream of a call until the response has come."""
        while True:
            await asyncio.sleep(PAUSE if call.view.retry is None else call.view.retry / 1000)
            assert call.view.last_id is not None
            try:
                sent = await self.send(
                    "GET",
                    what=f"resume {call.key}",
                    view=call.view,
                    Last_Event_ID=call.view.last_id,
                )
                if sent.reply.is_stream:
                    if await sent.follow(call.view, lambda seen: self._take(call, seen)):
                        return
                    if self._is_settled(call):
                        return
                    continue
                await sent.body()
                if sent.status not in (502, 503):
                    # A stream that has ended without a response has nothing more to send.
                    is_cancelled = call.was_cancelled and sent.status == 405
                    call.outcome = "cancelled" if is_cancelled else "lost"
                    call.status = sent.status
                    return
            except WireBroken:
                continue

    def cancel(self, call: Call, *, worker: int | None = None) -> "asyncio.Task[int]":
        """Cancel a call."""
        call.was_cancelled = True
        params = {"requestId": call.id, "reason": "test"}
        return self.spawn(self.notify("notifications/cancelled", params, worker=worker))

    # -- questions of the server

    def usual_answer(self, question: Any) -> Any:
        """Answer with what was asked and the name of this client."""
        method, params = question["method"], question.get("params") or {}
        if method == "elicitation/create":
            return {"action": "accept", "content": {"value": f"{params['message']}@{self.name}"}}
        if method == "sampling/createMessage":
            asked = params["messages"][0]["content"]["text"]
            content = {"type": "text", "text": f"{asked}@{self.name}"}
            return {"role": "assistant", "content": content, "model": "m"}
        if method == "roots/list":
            return {"roots": [{"uri": f"file:///{self.name}", "name": self.name}]}
        return {}

    async def answer(self, question: Any, *, worker: int | None = None) -> Answered:
        """Answer a question of the server."""
        result = self.respond(question)
        noted = Answered(question, result)
        self.answers.append(noted)
        if result is not None:
            message = {"jsonrpc": "2.0", "id": question["id"], "result": result}
            what = f"answer {question['id']}"
            await self.post_notice(message, what=what, worker=worker, statuses=noted.statuses)
        return noted

    # -- the standing stream

    def listen(self, *, worker: int | None = None) -> "Listener":
        """Listen on the standing stream, and come back whenever it breaks."""
        listener = Listener(self, worker)
        self.listeners.append(listener)
        listener.task = self.spawn(listener.run())
        return listener


class Listener:
    """The standing stream of a session, over all its connections."""

    def __init__(self, client: RawClient, worker: int | None) -> None:
        self._client = client
        self._worker = worker
        self.view = StreamView(f"{client.name} listens")
        self.task: asyncio.Task[Any] | None = None
        self.statuses: list[int | None] = []
        self.is_open = asyncio.Event()
        self.is_over = False
        self._reply: Reply | None = None

    @property
    def methods(self) -> list[str]:
        """The methods of what came, in order."""
        return [seen.message["method"] for seen in self.view.seen if isinstance(seen.message, dict)]

    async def run(self) -> None:
        worker = self._worker
        while not self.is_over:
            headers = {} if self.view.last_id is None else {"Last_Event_ID": self.view.last_id}
            try:
                sent = await self._client.send(
                    "GET", what="listen", view=self.view, worker=worker, **headers
                )
                self.statuses.append(sent.status)
                if sent.reply.is_stream:
                    self._reply = sent.reply
                    self.is_open.set()
                    await sent.follow(self.view, self._take)
                else:
                    await sent.body()
                    self.is_over = sent.status not in (502, 503)
            except WireBroken:
                self.statuses.append(None)
            self.is_open.clear()
            worker = None
            if not self.is_over:
                await asyncio.sleep(PAUSE if self.view.retry is None else self.view.retry / 1000)

    def _take(self, seen: SeenEvent) -> bool:
        if seen.is_question:
            self._client.spawn(self._client.answer(seen.message))
        return self.is_over

    def cut(self) -> None:
        """Reset the connection; the stream is resumed."""
        if self._reply is not None:
            self._reply.abort()

    async def stop(self) -> None:
        """Stop listening."""
        self.is_over = True
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
