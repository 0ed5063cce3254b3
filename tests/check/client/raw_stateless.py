"""A client of 2026-07-28 without a library, by the book; mutants do one thing otherwise."""

import asyncio
import contextlib
import json
from typing import Any, ClassVar

import aiohttp

from accord.http.rules.sse import Decoder
from accord.protocol.mirroring import (
    NAME_MEMBERS,
    encode_header,
    mirrored_arguments,
)
from accord_tools.arguments.samples import sample
from check.client.raw import INFO, Gone, Message, Raw, key_of

P = "io.modelcontextprotocol/"
TASKS = f"{P}tasks"
LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
KEPT = (*LISTS, "resources/read")
MODERN = (-32020, -32021, -32022)
CHANGES = {
    "notifications/tools/list_changed": "tools/list",
    "notifications/prompts/list_changed": "prompts/list",
    "notifications/resources/list_changed": "resources/list",
}
LOST: Message = {"lost": True}


class RawStateless(Raw):
    """One run of a client whose requests stand on their own."""

    revision: str = "2026-07-28"
    capabilities: ClassVar[Message] = {
        "roots": {},
        "sampling": {"tools": {}},
        "elicitation": {"form": {}, "url": {}},
        "extensions": {TASKS: {}},
    }
    filter: ClassVar[Message] = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
    }
    is_legacy = False
    opens_by_discovery = True

    def __init__(self, place: Any) -> None:
        super().__init__(place)
        self.kept: dict[str, tuple[float, Message]] = {}
        self.schemas: dict[str, Any] = {}
        self.subscriptions: set[Any] = set()
        self.is_leaving = False

    # -- what it does

    async def run(self) -> int:
        try:
            async with self.connected():
                if not await self.opened():
                    return 3
                await self.subscribe()
                await self.work()
                await self.finish()
        except Gone:
            return 4
        return self.exit_code

    async def opened(self) -> bool:
        reply = await self.ask("server/discover", {}) if self.opens_by_discovery else None
        if reply is not None and "result" not in reply:
            return False
        result = (reply or {}).get("result", {})
        self.offered = result.get("capabilities", dict.fromkeys(("tools", "resources", "prompts")))
        return True

    async def work(self) -> None:
        if self.is_legacy:
            await super().work()
            return
        found = {method: await self.list(method) for method in LISTS}
        self.schemas = {each["name"]: each.get("inputSchema", {}) for each in found["tools/list"]}
        for tool in self.callable(found["tools/list"]):
            arguments = sample(tool["inputSchema"])
            params = {"name": tool["name"], "arguments": arguments}
            await self.call(params)
        await self.ask("resources/read", {"uri": "play://note"})
        await self.ask("resources/read", {"uri": "play://second"})
        for prompt in found["prompts/list"]:
            await self.ask("prompts/get", {"name": prompt["name"], "arguments": {"name": "Ada"}})
        reference = {"type": "ref/prompt", "name": "greet"}
        argument = {"name": "name", "value": "A"}
        await self.ask("completion/complete", {"ref": reference, "argument": argument})
        for method in LISTS:
            await self.ask(method, {})
        await self.ask("resources/read", {"uri": "play://note"})

    def callable(self, tools: list[Message]) -> list[Message]:
        """Leave tools out that say wrongly what headers repeat."""
        found = []
        for tool in tools:
            with contextlib.suppress(ValueError):
                mirrored_arguments(tool["inputSchema"])
                found.append(tool)
        return found

    async def call(self, params: Message) -> Message | None:
        reply = await self.ask("tools/call", params)
        if reply is not None and reply.get("error", {}).get("code") == -32020:
            tools = await self.list("tools/list")
            self.schemas = {each["name"]: each.get("inputSchema", {}) for each in tools}
            reply = await self.ask("tools/call", params)
        return reply

    async def list(self, method: str) -> Any:
        entries: list[Message] = []
        params: Message = {}
        while True:
            reply = await self.ask(method, params)
            result = (reply or {}).get("result", {})
            entries += next((each for each in result.values() if isinstance(each, list)), [])
            cursor = self.next_cursor(reply)
            if cursor is None:
                return entries
            params = {"cursor": cursor}

    async def finish(self) -> None:
        if self.is_legacy:
            await super().finish()

    # -- asking

    def meta(self, method: str, params: Message) -> Message:
        found = {
            f"{P}protocolVersion": self.revision,
            f"{P}clientCapabilities": self.capabilities,
            f"{P}clientInfo": INFO,
        }
        return {**found, "progressToken": self.number} if method == "tools/call" else found

    async def ask(self, method: str, params: Message | None = None) -> Message | None:
        """Ask until the answer is complete: answer questions, and wait for tasks."""
        if self.is_legacy:
            return await super().ask(method, params)
        params = params or {}
        known = self.recall(method, params)
        if known is not None:
            return known
        reply = await self.exchange(method, params)
        is_asked = False
        for _ in range(6):
            result = (reply or {}).get("result")
            kind = self.kind_of(result) if isinstance(result, dict) else "complete"
            if kind == "complete":
                break
            assert isinstance(result, dict)
            if kind == "input_required":
                is_asked = True
                reply = await self.exchange(method, await self.retried(method, params, result))
            elif kind == "task":
                return await self.follow_task(method, result)
            else:
                raise Gone
        self.keep(method, params, reply, is_asked=is_asked)
        return reply

    def kind_of(self, result: Message) -> str:
        return str(result.get("resultType", "complete"))

    async def retried(self, method: str, params: Message, result: Message) -> Message:
        """Return the parameters with which a request is repeated."""
        found = dict(params)
        if "inputRequests" in result:
            found["inputResponses"] = await self.answers(result["inputRequests"])
        if "requestState" in result:
            found["requestState"] = result["requestState"]
        return found

    async def answers(self, questions: Message) -> Message:
        found = {}
        for key, question in questions.items():
            with contextlib.suppress(KeyError):
                found[key] = await self.result(question["method"], question.get("params") or {})
        return found

    async def result(self, method: str, params: Message) -> Message:
        if params.get("mode") == "url" and "url" in self.capabilities.get("elicitation", {}):
            return {"action": "decline"}
        if params.get("mode") == "url":
            raise KeyError(method)
        if "tools" in params and "tools" not in self.capabilities.get("sampling", {}):
            raise KeyError(method)
        if params.get("toolChoice", {}).get("mode") == "required":
            use = {"type": "tool_use", "id": "u", "name": "weather", "input": {"city": "Oslo"}}
            end = {"model": "parrot", "stopReason": "toolUse"}
            return {"role": "assistant", "content": [use], **end}
        return await super().result(method, params)

    async def exchange(self, method: str, params: Message) -> Message | None:
        """Send a request and return its answer; one that was lost is sent again."""
        for _ in range(2):
            message = self.message(method, params)
            reply = await self.asked_with(message)
            if reply is not LOST:
                return reply
            await self.recover()
        return None

    def message(self, method: str, params: Message) -> Message:
        self.number += 1
        stamped = {**params, "_meta": self.meta(method, params)}
        return {"jsonrpc": "2.0", "id": self.number, "method": method, "params": stamped}

    async def recover(self) -> None:
        """Start the server again if it exited."""
        if self.writer is not None:
            await self.launch_again()
            await self.subscribe()

    async def launch_again(self) -> None:
        self.reading.cancel()
        for each in (self.writer, self.control):
            each.close()
            with contextlib.suppress(OSError):
                await each.wait_closed()
        await self.launch()

    async def give_up(self, id: Any) -> None:
        if self.is_legacy or self.writer is not None:
            await super().give_up(id)

    # -- tasks

    async def follow_task(self, method: str, task: Message) -> Message | None:
        if method != "tools/call":
            return {"error": {"code": 0, "message": "not a task"}}
        answered: set[str] = set()
        while True:
            await asyncio.sleep(self.pause(task))
            reply = await self.exchange("tasks/get", {"taskId": task["taskId"]})
            now = (reply or {}).get("result")
            if not isinstance(now, dict) or now.get("status") in ("completed", "failed"):
                return reply
            if now.get("status") == "input_required":
                asked = {k: v for k, v in now["inputRequests"].items() if k not in answered}
                answered |= asked.keys()
                await self.update(task["taskId"], asked)

    def pause(self, task: Message) -> float:
        return float(task["pollIntervalMs"]) / 1000

    async def update(self, id: str, questions: Message) -> None:
        if questions:
            answers = await self.answers(questions)
            await self.exchange("tasks/update", {"taskId": id, "inputResponses": answers})

    # -- keeping

    def keep(self, method: str, params: Message, reply: Any, *, is_asked: bool) -> None:
        result = (reply or {}).get("result")
        if method in KEPT and isinstance(result, dict) and not is_asked:
            lifetime = self.lifetime(result)
            now = asyncio.get_running_loop().time()
            self.kept[self.key(method, params)] = (now + lifetime, reply)

    def lifetime(self, result: Message) -> float:
        return float(result.get("ttlMs", 0)) / 1000

    def key(self, method: str, params: Message) -> str:
        return json.dumps([method, params], sort_keys=True)

    def recall(self, method: str, params: Message) -> Message | None:
        until, reply = self.kept.get(self.key(method, params), (0.0, None))
        return reply if until > asyncio.get_running_loop().time() else None

    # -- listening

    async def subscribe(self) -> None:
        message = self.message("subscriptions/listen", {"notifications": self.filter})
        self.subscriptions.add(message["id"])
        self.spawn(self.say(message))

    def heed(self, message: Message) -> None:
        if self.is_legacy:
            super().heed(message)
            return
        params = message.get("params")
        method = CHANGES.get(message["method"])
        if method is not None and isinstance(params, dict) and self.is_mine(params):
            self.kept = {k: v for k, v in self.kept.items() if json.loads(k)[0] != method}
            if method == "tools/list":
                self.spawn(self.ask(method, {}))

    def is_mine(self, params: Message) -> bool:
        return params.get("_meta", {}).get(f"{P}subscriptionId") in self.subscriptions

    # -- connecting

    def changed(self, message: Message) -> Any:
        """Return what is said instead of a message; several in a tuple."""
        return message

    async def say(self, message: Any) -> None:
        found = self.changed(dict(message))
        for each in found if isinstance(found, tuple) else (found,):
            if each is not None:
                await super().say(each)

    async def read(self, reader: Any) -> None:
        await super().read(reader)
        if not self.is_leaving:
            self.lose(None)

    def lose(self, id: Any) -> None:
        """Note that answers will not come."""
        for key, future in self.waiting.items():
            if (id is None or key == key_of(id)) and not future.done():
                future.set_result(LOST)

    async def leave(self) -> None:
        self.is_leaving = True
        await super().leave()

    def heads_of(self, message: Any) -> dict[str, str]:
        """Return the headers that repeat a request."""
        heads = {
            "Accept": self.accept,
            "Content-Type": "application/json",
            "MCP-Protocol-Version": self.revision,
        }
        if not isinstance(message, dict) or "id" not in message:
            return heads
        method, params = message.get("method"), message.get("params")
        heads["Mcp-Method"] = str(method)
        name = params.get(NAME_MEMBERS.get(str(method), "")) if isinstance(params, dict) else None
        if isinstance(name, str):
            heads["Mcp-Name"] = self.encoded(name)
        if method == "tools/call" and isinstance(name, str):
            heads |= self.mirrored(name, params.get("arguments"))
        return heads

    def mirrored(self, name: str, arguments: Any) -> dict[str, str]:
        with contextlib.suppress(ValueError):
            found = {
                each.header: each.value(arguments)
                for each in mirrored_arguments(self.schemas.get(name, {}))
            }
            return {k: self.encoded(v) for k, v in found.items() if v is not None}
        return {}

    def encoded(self, value: Any) -> str:
        return encode_header(value)

    async def post(self, data: bytes) -> None:
        if self.is_legacy:
            await super().post(data)
            return
        message = json.loads(data)
        is_request = isinstance(message, dict) and "id" in message
        id = message.get("id") if isinstance(message, dict) else None
        async with await self.request("POST", self.heads_of(message), data) as response:
            if response.status == 202 or not is_request:
                return
            is_stream = "event-stream" in response.headers.get("Content-Type", "")
            body = None if is_stream else await response.read()
            if is_stream:
                await self.follow(response)
        if body is not None:
            await self.take_body(response.status, body, id)
        elif id in self.subscriptions:
            self.subscriptions.discard(id)
            await self.subscribe()
        else:
            self.lose(id)

    async def take_body(self, status: int, body: bytes, id: Any) -> None:
        try:
            message = json.loads(body)
        except ValueError:
            message = None
        if not isinstance(message, dict) or message.get("id") != id:
            message = {"id": id, "error": {"code": 0, "message": f"status {status}"}}
        self.hear(json.dumps(message))

    async def follow(self, response: Any) -> Any:
        if self.is_legacy:
            return await super().follow(response)
        decoder = Decoder()
        with contextlib.suppress(aiohttp.ClientError):
            async for chunk in response.content.iter_any():
                for event in decoder.feed(self.seen(chunk)):
                    self.hear(event.data)
        return None

    def seen(self, chunk: bytes) -> bytes:
        return chunk


class RawDual(RawStateless):
    """A client of both eras: it probes, and falls back to a handshake."""

    older = "2025-06-18"

    def takes(self, revision: Any) -> bool:
        return revision in ("2024-11-05", "2025-03-26", self.older)

    async def opened(self) -> bool:
        reply = await self.probe()
        if reply is not None and "result" in reply:
            self.offered = reply["result"].get("capabilities", {})
            return True
        if reply is not None and not self.falls_back(reply["error"].get("code")):
            return False
        self.is_legacy, self.revision = True, self.older
        self.capabilities = {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}}  # type: ignore[misc]
        opening = await self.open()
        if opening is None or "error" in opening:
            return False
        if not self.takes(opening["result"].get("protocolVersion")):
            return False
        self.offered = opening["result"].get("capabilities", {})
        await self.begin(opening)
        return True

    async def probe(self) -> Message | None:
        return await self.ask("server/discover", {})

    def falls_back(self, code: Any) -> bool:
        return code not in MODERN

    async def subscribe(self) -> None:
        if not self.is_legacy:
            await super().subscribe()
