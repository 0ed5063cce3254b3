"""A client of 2025-11-25 without a library: pages, models with tools, and tasks of both sides."""

import asyncio
import secrets
from datetime import UTC, datetime
from typing import Any, ClassVar

from check.client.authorizing import ByTheBook
from check.client.raw import Message

RELATED = "io.modelcontextprotocol/related-task"
TERMINAL = ("completed", "failed", "cancelled")


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class RawNewer(ByTheBook):
    """One run of a client of 2025-11-25."""

    revision: str = "2025-11-25"
    capabilities: ClassVar[Message] = {
        "roots": {"listChanged": True},
        "sampling": {"tools": {}},
        "elicitation": {"form": {}, "url": {}},
        "tasks": {
            "list": {},
            "cancel": {},
            "requests": {"sampling": {"createMessage": {}}},
        },
    }

    def __init__(self, place: Any) -> None:
        super().__init__(place)
        self.hosted: dict[str, Message] = {}
        self.outcomes: dict[str, asyncio.Task[Message]] = {}

    # -- tools that run as tasks

    async def ask(self, method: str, params: Message | None = None) -> Message | None:
        reply = await super().ask(method, params)
        if method == "tools/list" and reply is not None:
            tools = reply.get("result", {}).get("tools", [])
            self.required = [
                each["name"]
                for each in tools
                if each.get("execution", {}).get("taskSupport") == "required"
            ]
        return reply

    required: ClassVar[Any] = ()

    async def work(self) -> None:
        await super().work()
        for name in self.required:
            await self.call_as_task(name)

    async def asked_with(self, message: Message) -> Message | None:
        params = message.get("params")
        if message["method"] == "tools/call" and params["name"] in self.required:
            message = self.as_task(message)
        reply = await super().asked_with(message)
        task = (reply or {}).get("result", {}).get("task")
        return await self.wait_for(task) if isinstance(task, dict) else reply

    def as_task(self, message: Message) -> Message:
        return {**message, "params": {**message["params"], "task": {"ttl": 60_000}}}

    async def call_as_task(self, name: str) -> None:
        await self.ask("tools/call", {"name": name, "arguments": {"text": "again"}})

    async def wait_for(self, task: Message) -> Message | None:
        id = {"taskId": task["taskId"]}
        while task.get("status") == "working":
            await asyncio.sleep(self.pause(task))
            reply = await self.ask("tasks/get", id)
            task = (reply or {}).get("result", {})
        return await self.ask("tasks/result", id)

    def pause(self, task: Message) -> float:
        return float(task["pollInterval"]) / 1000

    # -- questions

    async def answer(self, question: Message) -> None:
        try:
            await super().answer(question)
        except Refused as refused:
            error = {"code": refused.code, "message": "no"}
            await self.say({"jsonrpc": "2.0", "id": question["id"], "error": error})

    async def result(self, method: str, params: Message) -> Message:
        if method.startswith("tasks/"):
            return await self.serve_task(method, params)
        if "task" in params and "tasks" in self.capabilities:
            return self.host(method, {k: v for k, v in params.items() if k != "task"})
        if method == "elicitation/create":
            return await self.elicited(params)
        if method == "sampling/createMessage" and "tools" in params:
            self.check_tools(params)
            if params.get("toolChoice", {}).get("mode") == "required":
                use = {"type": "tool_use", "id": "u", "name": "weather", "input": {"city": "Oslo"}}
                end = {"model": "parrot", "stopReason": "toolUse"}
                return {"role": "assistant", "content": [use], **end}
        return await super().result(method, params)

    async def elicited(self, params: Message) -> Message:
        mode = params.get("mode", "form")
        if mode not in self.capabilities.get("elicitation", {}):
            raise Refused(-32602)
        if mode == "url":
            return {"action": "decline"}
        related = params.get("_meta", {}).get(RELATED)
        found = await super().result("elicitation/create", params)
        return found if related is None else {**found, "_meta": {RELATED: related}}

    def check_tools(self, params: Message) -> None:
        if "tools" not in self.capabilities.get("sampling", {}):
            raise Refused(-32602)
        uses: set[str] = set()
        for message in params["messages"]:
            blocks = message["content"] if isinstance(message["content"], list) else []
            kinds = {each["type"] for each in blocks}
            results = {each["toolUseId"] for each in blocks if each["type"] == "tool_result"}
            if uses - results or ("tool_result" in kinds and len(kinds) > 1):
                raise Refused(-32602)
            uses = {each["id"] for each in blocks if each["type"] == "tool_use"}

    # -- tasks for the server

    def host(self, method: str, params: Message) -> Message:
        task = self.new_task()
        self.hosted[task["taskId"]] = task
        work = self.spawn(self.result(method, params))
        self.outcomes[task["taskId"]] = work
        work.add_done_callback(lambda _: self.end(task))
        return {"task": dict(task)}

    def new_task(self) -> Message:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        times = {"createdAt": now, "lastUpdatedAt": now, "ttl": 60_000}
        return {"taskId": secrets.token_hex(16), "status": "working", **times}

    def end(self, task: Message) -> None:
        if task["status"] not in TERMINAL:
            task["status"] = "completed"

    async def serve_task(self, method: str, params: Message) -> Message:
        if method == "tasks/list":
            if "cursor" in params:
                raise Refused(-32602)
            return {"tasks": [dict(each) for each in self.hosted.values()]}
        task = self.hosted.get(params["taskId"])
        if task is None:
            raise Refused(-32602)
        if method == "tasks/cancel":
            if task["status"] in TERMINAL:
                raise Refused(-32602)
            task["status"] = "cancelled"
            self.outcomes[task["taskId"]].cancel()
        if method != "tasks/result":
            return dict(task)
        found = await self.outcomes[task["taskId"]]
        self.end(task)
        return {**found, "_meta": {RELATED: {"taskId": task["taskId"]}}}
