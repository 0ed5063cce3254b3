"""Random but legal conversations of two endpoints, watched by a monitor.

Messages wait in two pipes until they are delivered, so that they cross as they do in life. The
monitor stands at one end: it sees what that party sends at once, and what it receives on delivery.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from accord import types as t
from accord.errors import InternalError
from accord.protocol.endpoint import Endpoint
from accord.protocol.exchange import (
    Exchange,
    FaultReceived,
    NotificationReceived,
    RequestReceived,
    ResultReceived,
)
from accord.protocol.monitor import Monitor
from accord.protocol.party import capability_paths
from accord.protocol.revisions import REVISIONS, Phase
from accord.protocol.violation import OTHER, Violation
from accord.trace import Record
from support.endpoints import ALL_OF_CLIENT, ALL_OF_SERVER, MODERN, batch, initialize, initialized

Party: TypeAlias = Literal["client", "server"]
Action: TypeAlias = Callable[[], None]

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "description": "a number"}}}
TOOL = t.Tool("add", SCHEMA, title="Add", description="Add numbers")
URI = "file:///notes/a.txt"
RESOURCE = t.Resource(URI, "a", title="A", description="A note", mime_type="text/plain")
TEMPLATE = t.ResourceTemplate(
    "file:///notes/{name}.txt", "notes", title="Notes", description="Notes", mime_type="text/plain"
)
PROMPT = t.Prompt(
    "greet",
    title="Greet",
    description="Greet someone",
    arguments=[t.PromptArgument("who", description="the name to greet", required=True)],
)
HELLO = t.TextContent("hello")

ASKED_BY_CLIENT: dict[str, tuple[Any, Any]] = {
    "ping": (None, t.EmptyResult()),
    "tools/list": (None, t.ListToolsResult([TOOL])),
    "tools/call": (
        t.CallToolParams("add", arguments=msgspec.Raw(b'{"a":1}')),
        t.CallToolResult([HELLO]),
    ),
    "resources/list": (t.PageParams(), t.ListResourcesResult([RESOURCE])),
    "resources/templates/list": (None, t.ListResourceTemplatesResult([TEMPLATE])),
    "resources/read": (
        t.ReadResourceParams(URI),
        t.ReadResourceResult([t.ResourceContents(URI, text="a", mime_type="text/plain")]),
    ),
    "resources/subscribe": (t.SubscribeParams(URI), t.EmptyResult()),
    "resources/unsubscribe": (t.UnsubscribeParams(URI), t.EmptyResult()),
    "prompts/list": (None, t.ListPromptsResult([PROMPT])),
    "prompts/get": (
        t.GetPromptParams("greet", {"who": "you"}),
        t.GetPromptResult([t.PromptMessage("user", HELLO)], description="Greet someone"),
    ),
    "completion/complete": (
        t.CompleteParams(t.PromptReference("greet"), t.CompletionArgument("who", "y")),
        t.CompleteResult(t.Completion(["you"], total=1, has_more=False)),
    ),
    "logging/setLevel": (t.SetLevelParams("debug"), t.EmptyResult()),
}
ASKED_BY_SERVER: dict[str, tuple[Any, Any]] = {
    "ping": (None, t.EmptyResult()),
    "roots/list": (None, t.ListRootsResult([t.Root("file:///notes", name="notes")])),
    "sampling/createMessage": (
        t.CreateMessageParams([t.SamplingMessage("user", HELLO)], 100),
        t.CreateMessageResult("assistant", HELLO, "model"),
    ),
    "elicitation/create": (
        t.ElicitParams(
            "Your name?",
            {
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": ["name"],
            },
        ),
        t.ElicitResult("accept", {"name": "me"}),
    ),
}
TOLD_BY_SERVER = ("tools/list_changed", "resources/list_changed", "prompts/list_changed")
# An answer to ping is nothing but empty.
NEVER_FAILS = ("ping", "initialize")


class Walk:
    """One conversation under way."""

    def __init__(
        self,
        revision: str,
        *,
        at: Party = "client",
        client: t.ClientCapabilities = ALL_OF_CLIENT,
        server: t.ServerCapabilities = ALL_OF_SERVER,
    ) -> None:
        self.revision = REVISIONS[revision]
        self.capabilities: dict[Party, Any] = {"client": client, "server": server}
        self.declared = {party: capability_paths(each) for party, each in self.capabilities.items()}
        meta = None if self.revision.handshake else MODERN
        self.client = Endpoint("client", request_meta=meta)
        info = {"io.modelcontextprotocol/serverInfo": {"name": "someone", "version": "1"}}
        self.server = Endpoint("server", result_meta=None if self.revision.handshake else info)
        self.monitor = Monitor()
        self.at = at
        self.pipes: dict[Party, deque[bytes]] = {"client": deque(), "server": deque()}
        self.asked: dict[Party, list[Exchange]] = {"client": [], "server": []}
        self.waiting: dict[Party, list[Exchange]] = {"client": [], "server": []}
        self.subscribed = self.level_set = False
        self.tokens = 0
        self.alarms: list[Violation] = []
        self.seen: list[tuple[Party, bytes]] = []

    def endpoint(self, party: Party) -> Endpoint:
        return self.client if party == "client" else self.server

    # -- the wire

    def watch(self, sender: Party, data: bytes) -> list[Violation]:
        self.seen.append((sender, data))
        record = Record(sender=sender, message=msgspec.Raw(data), number=len(self.seen))
        return self.monitor.observe(record)

    def send(self, sender: Party, data: bytes | None) -> None:
        """Let a message leave, seen by a monitor that stands here."""
        if data is None:
            return
        if self.at == sender:
            self.alarms += self.watch(sender, data)
        self.pipes[sender].append(data)

    def deliver(self, sender: Party) -> None:
        data = self.pipes[sender].popleft()
        if self.at != sender:
            self.alarms += self.watch(sender, data)
        receiver: Party = "server" if sender == "client" else "client"
        for event in self.endpoint(receiver).receive(data):
            if isinstance(event, RequestReceived):
                self.waiting[receiver].append(event.exchange)
            elif isinstance(event, ResultReceived | FaultReceived):
                assert event.exchange is not None, event
                self.asked[receiver].remove(event.exchange)
                self._learn(event)
            elif isinstance(event, NotificationReceived):
                self.send(receiver, event.reply)

    def _learn(self, event: ResultReceived | FaultReceived) -> None:
        if isinstance(event, FaultReceived) or event.exchange.sender == "server":
            return
        if event.exchange.name == "initialize":
            self.send("client", self.client.notify("notifications/initialized"))

    def settle(self) -> None:
        """Deliver all and answer all."""
        while self.pipes["client"] or self.pipes["server"] or any(self.waiting.values()):
            for party in ("client", "server"):
                while self.pipes[party]:
                    self.deliver(party)
                for exchange in list(self.waiting[party]):
                    self.answer(party, exchange, fails=False)
        self.alarms += self.monitor.close()

    # -- what can be done next

    def actions(self) -> list[Action]:
        return list(self._actions())

    def _actions(self) -> Iterator[Action]:
        for party in ("client", "server"):
            if self.pipes[party]:
                # Often, so that a walk goes on instead of only beginning things.
                yield from [lambda party=party: self.deliver(party)] * 6
            for exchange in self.waiting[party][:2]:
                yield from [lambda p=party, e=exchange: self.answer(p, e, fails=False)] * 3
                if exchange.name not in NEVER_FAILS:
                    yield lambda p=party, e=exchange: self.answer(p, e, fails=True)
                if exchange.token is not None:
                    yield from [lambda p=party, e=exchange: self.report(p, e)] * 6
        if self.revision.handshake and self.client.conversation.phase is Phase.OPENING:
            yield self.open
        yield from self._requests()
        yield from self._notices()
        yield from self._cancellations()
        if self._is_ready("client") and self.revision.batching and self.declared["server"]:
            yield self.together

    def _is_ready(self, party: Party) -> bool:
        conversation = self.endpoint(party).conversation
        return conversation.phase is Phase.READY or not self.revision.handshake

    def _requests(self) -> Iterator[Action]:
        for party, table in (("client", ASKED_BY_CLIENT), ("server", ASKED_BY_SERVER)):
            for name in table:
                if name not in self.revision.requests[party] or not self._can(party, name):
                    continue
                if name == "ping" or self._is_ready(party):
                    yield lambda p=party, n=name: self.ask(p, n)
                    if name in ("tools/call", "sampling/createMessage"):
                        yield lambda p=party, n=name: self.ask(p, n, with_progress=True)

    def _can(self, party: Party, name: str) -> bool:
        needed = self.revision.needed_for(party, name)
        return needed is None or needed in self.declared[OTHER[party]]

    def _notices(self) -> Iterator[Action]:
        if not self.revision.handshake:
            return
        if self._is_ready("client") and "roots.listChanged" in self.declared["client"]:
            yield lambda: self.tell("client", "roots/list_changed")
        if self._is_ready("server"):
            for name in TOLD_BY_SERVER:
                if name.replace("/list_c", ".listC") in self.declared["server"]:
                    yield lambda n=name: self.tell("server", n)
            if self.level_set:
                params = t.LogMessageParams("info", "said", logger="walk")
                yield lambda: self.tell("server", "message", params)
            if self.subscribed:
                yield lambda: self.tell("server", "resources/updated", t.ResourceUpdatedParams(URI))

    def _cancellations(self) -> Iterator[Action]:
        for party in ("client", "server"):
            for exchange in self.asked[party][:2]:
                if exchange.name != "initialize":
                    yield lambda p=party, e=exchange: self.cancel(p, e)

    # -- the doing

    def open(self) -> None:
        exchange, data = self.client.request(
            "initialize", initialize(self.revision.id, self.capabilities["client"])
        )
        self.asked["client"].append(exchange)
        self.send("client", data)

    def _ask(self, party: Party, name: str, *, with_progress: bool = False) -> bytes:
        params, _ = (ASKED_BY_CLIENT if party == "client" else ASKED_BY_SERVER)[name]
        if with_progress:
            self.tokens += 1
            token = self.tokens if self.tokens % 2 else f"token {self.tokens}"
            params = msgspec.structs.replace(params, meta={"progressToken": token})
        revision = None if self.revision.handshake else self.revision
        exchange, data = self.endpoint(party).request(name, params, revision=revision)
        self.asked[party].append(exchange)
        return data

    def ask(self, party: Party, name: str, *, with_progress: bool = False) -> None:
        self.send(party, self._ask(party, name, with_progress=with_progress))

    def together(self) -> None:
        """Several requests and a notification in one batch."""
        parts = [self._ask("client", name) for name in ("tools/list", "ping", "prompts/list")]
        parts.append(self.client.notify("notifications/roots/list_changed"))
        self.send("client", batch(*parts))

    def tell(self, party: Party, name: str, params: Any = None) -> None:
        self.send(party, self.endpoint(party).notify(f"notifications/{name}", params))

    def report(self, party: Party, exchange: Exchange) -> None:
        if exchange.cancelled:
            return
        assert exchange.token is not None
        done = 0.5 if exchange.progress is None else exchange.progress + 1
        self.tell(party, "progress", t.ProgressParams(exchange.token, done, total=1000))

    def cancel(self, party: Party, exchange: Exchange) -> None:
        self.asked[party].remove(exchange)
        self.tell(party, "cancelled", t.CancelledParams(exchange.id, "no longer wanted"))

    def answer(self, party: Party, exchange: Exchange, *, fails: bool) -> None:
        self.waiting[party].remove(exchange)
        endpoint = self.endpoint(party)
        if fails:
            self.send(party, endpoint.fail(exchange, InternalError("out of order")))
            return
        if exchange.name == "initialize":
            result: Any = initialized(self.revision.id, self.capabilities["server"])
        else:
            _, result = (ASKED_BY_SERVER if party == "client" else ASKED_BY_CLIENT)[exchange.name]
        self.send(party, endpoint.respond(exchange, result))
        if not exchange.cancelled:
            self._note_effect(exchange)

    def _note_effect(self, exchange: Exchange) -> None:
        if exchange.name == "resources/subscribe":
            self.subscribed = True
        elif exchange.name == "resources/unsubscribe":
            self.subscribed = False
        elif exchange.name == "logging/setLevel":
            self.level_set = True


def walked(revision: str, choices: list[int], *, ready: bool = False, **options: Any) -> Walk:
    """A conversation in which every number chose the next action among those that are legal."""
    walk = Walk(revision, **options)
    if ready and walk.revision.handshake:
        walk.open()
        walk.settle()
    for choice in choices:
        actions = walk.actions()
        actions[choice % len(actions)]()
    return walk
