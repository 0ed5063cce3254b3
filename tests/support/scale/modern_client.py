"""A client of 2026-07-28: each request stands on its own, questions are answered in rounds."""

import asyncio
import json
import time
from itertools import count
from typing import Any, Self

from support.modern import meta
from support.scale.calls import Call
from support.scale.http_side import PAUSE, HttpSide
from support.scale.http_wire import Reply, WireBroken
from support.scale.recordings import SeenEvent, StreamView, TrafficRecorder
from support.waiting import LONG

REVISION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"


class ModernClient(HttpSide):
    """Sends requests; a request that may have reached a worker is not sent again.

    Attributes:
        capabilities: that each request declares.
        next_worker: returns the worker for each round; None leaves it to the balancer.
    """

    def __init__(self, port: int, *, name: str = "m", user: str | None = None) -> None:
        super().__init__(port, name, TrafficRecorder(REVISION))
        self.user = user
        self.capabilities: Any = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
        self.calls: list[Call] = []
        self.patience = LONG
        self._ids = count(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end_tasks()

    # -- requests

    async def request(
        self,
        method: str,
        params: Any = None,
        *,
        name: str | None = None,
        key: str = "",
        worker: int | None = None,
        user: str | None = None,
    ) -> Call:
        """Send one request, and wait for its response.

        Args:
            method: of the request.
            params: without `_meta`.
            name: what `Mcp-Name` repeats.
            key: of the call, in the ledger.
            worker: that shall serve it.
            user: the caller, if it is another one than the client's.
        """
        call = Call(key or method, None, method, name or method, StreamView(f"{self.name} {key}"))
        self.calls.append(call)
        try:
            async with asyncio.timeout(self.patience):
                await self._send(call, params or {}, name, worker, user)
        except WireBroken:
            call.outcome = "unknown"
        except TimeoutError:
            call.outcome = "late"
        finally:
            call.ended = time.monotonic()
        return call

    def _message(self, call: Call, params: Any) -> dict[str, Any]:
        call.id = next(self._ids)
        known = meta(self.capabilities, logLevel="info")
        known["progressToken"] = f"t{call.id}"
        given = {**params, "_meta": known}
        return {"jsonrpc": "2.0", "id": call.id, "method": call.method, "params": given}

    def _headers(self, call: Call, name: str | None, user: str | None) -> dict[str, str]:
        found = {"MCP_Protocol_Version": REVISION, "Mcp_Method": call.method}
        if name is not None:
            found["Mcp_Name"] = name
        if user is not None:
            found["X_User"] = user
        return found

    async def _send(
        self, call: Call, params: Any, name: str | None, worker: int | None, user: str | None
    ) -> None:
        while True:
            sent = await self.send(
                "POST",
                self._message(call, params),
                what=f"{call.method} {call.key}",
                view=call.view,
                worker=worker,
                **self._headers(call, name, user),
            )
            call.status = sent.status
            if not sent.was_never_served:
                break
            await sent.body()
            await asyncio.sleep(PAUSE)
        if sent.reply.is_stream:
            if not await sent.follow(call.view, lambda seen: self._take(call, seen)):
                call.outcome = "unknown"
            return
        body = await sent.body()
        if sent.reply.headers.get("x-balancer") is not None:
            call.outcome = "unknown"
            return
        number = sent.attempt.number
        seen = SeenEvent(time.monotonic(), number, sent.attempt.worker, None, json.loads(body))
        call.view.seen.append(seen)
        self._take(call, seen)

    def _take(self, call: Call, seen: SeenEvent) -> bool:
        if not seen.is_response:
            return False
        call.responses.append(seen.message)
        call.outcome = "answered"
        return True

    # -- tools

    async def call_once(
        self, tool: str, key: str, *, worker: int | None = None, round: Any = None, **more: Any
    ) -> Call:
        """Call a tool without answering its questions; `round` has answers and state of one."""
        params = {"name": tool, "arguments": {"key": key, **more}, **(round or {})}
        return await self.request("tools/call", params, name=tool, key=key, worker=worker)

    async def call(
        self, tool: str, key: str, *, workers: tuple[int, ...] = (), **more: Any
    ) -> Call:
        """Call a tool, and answer its questions, each round on the next of these workers."""
        round, at = None, 0
        while True:
            worker = workers[at % len(workers)] if workers else None
            call = await self.call_once(tool, key, worker=worker, round=round, **more)
            if call.reason == "store-unavailable":
                await asyncio.sleep(PAUSE)  # the server asks for that
                continue
            if not is_question(call):
                return call
            round, at = self.answer_round(call.response["result"]), at + 1

    def answer_round(self, result: Any) -> dict[str, Any]:
        """Return the parameters that answer the questions of a result."""
        answers = {key: self._answer(asked) for key, asked in result["inputRequests"].items()}
        return {"inputResponses": answers, "requestState": result["requestState"]}

    def _answer(self, asked: Any) -> Any:
        method, params = asked["method"], asked.get("params") or {}
        if method == "elicitation/create":
            return {"action": "accept", "content": {"value": f"{params['message']}@{self.name}"}}
        if method == "sampling/createMessage":
            text = params["messages"][0]["content"]["text"]
            content = {"type": "text", "text": f"{text}@{self.name}"}
            return {"role": "assistant", "content": content, "model": "m"}
        return {"roots": [{"uri": f"file:///{self.name}", "name": self.name}]}

    # -- listening

    def listen(self, wanted: Any, *, worker: int | None = None) -> "Subscription":
        """Listen to changes, until the stream ends."""
        subscription = Subscription(self, wanted, worker)
        subscription.task = self.spawn(subscription.run())
        return subscription


def is_question(call: Call) -> bool:
    """Whether a result asks for input."""
    result = (call.response or {}).get("result")
    return isinstance(result, dict) and result.get("resultType") == "input_required"


class Subscription:
    """One `subscriptions/listen` request."""

    def __init__(self, client: ModernClient, wanted: Any, worker: int | None) -> None:
        self._client = client
        self._wanted = wanted
        self._worker = worker
        self.view = StreamView(f"{client.name} listens")
        self.task: asyncio.Task[Any] | None = None
        self.is_over = False
        self.status: int | None = None
        self._reply: Reply | None = None

    @property
    def methods(self) -> list[str]:
        """The methods of what came, in order."""
        messages = [seen.message for seen in self.view.seen if isinstance(seen.message, dict)]
        return [message["method"] for message in messages if "method" in message]

    @property
    def is_acknowledged(self) -> bool:
        return "notifications/subscriptions/acknowledged" in self.methods

    def count(self, method: str) -> int:
        return self.methods.count(method)

    async def run(self) -> None:
        client = self._client
        call = Call("listen", None, "subscriptions/listen", "listen", self.view)
        params = {"notifications": self._wanted}
        try:
            sent = await client.send(
                "POST",
                client._message(call, params),
                what="listen",
                view=self.view,
                worker=self._worker,
                **client._headers(call, None, None),
            )
            self.status = sent.status
            if sent.reply.is_stream:
                self._reply = sent.reply
                await sent.follow(self.view, lambda seen: False)
            else:
                await sent.body()
        except WireBroken:
            pass
        finally:
            self.is_over = True

    def cut(self) -> None:
        """Reset the connection."""
        if self._reply is not None:
            self._reply.abort()
