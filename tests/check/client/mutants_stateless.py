"""Clients of 2026-07-28 with one fault each in what they send."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from check.client.raw import Message
from check.client.raw_stateless import TASKS, P, RawStateless
from check.client.registering import Change, having, mutant, on, params, put, second, without
from check.client.registering import says as all_say
from check.faults import altering, faults

ROUNDS = "AsksInRounds"
VERSION, ABLE, INFO = f"{P}protocolVersion", f"{P}clientCapabilities", f"{P}clientInfo"


says = partial(all_say, base=RawStateless)


def meta(change: Callable[[Message], Message]) -> Change:
    return params(lambda given: {**given, "_meta": change(dict(given["_meta"]))})


def able(change: Callable[[Message], Message]) -> Change:
    """Change what a request says that the client can do."""
    return meta(lambda given: {**given, ABLE: change(dict(given[ABLE]))})


def answering(kind: str, change: Callable[[Message], Any]) -> Change:
    """Change the answers to questions of a kind: `form`, `roots`, `model` or `page`."""

    def changed(message: Message) -> Any:
        given = (message.get("params") or {}).get("inputResponses")
        if not isinstance(given, dict):
            return message
        found = {k: change(dict(v)) if k.startswith(kind) else v for k, v in given.items()}
        return {**message, "params": {**message["params"], "inputResponses": found}}

    return changed


# -- what every request says

says(
    "meta.request.protocol-version",
    leaves_the_revision_out=on("tools/list", meta(without(VERSION))),
    names_the_revision_by_a_number=on("prompts/list", meta(put(VERSION, 20260728))),
    leaves_the_revision_out_later=second("resources/list", meta(without(VERSION))),
)
says(
    "meta.request.client-capabilities",
    leaves_its_capabilities_out=on("tools/list", meta(without(ABLE))),
    lists_its_capabilities=on("prompts/list", meta(put(ABLE, ["roots"]))),
    leaves_its_capabilities_out_later=second("resources/list", meta(without(ABLE))),
)
says(
    "meta.request.client-info",
    leaves_its_name_out=on("tools/list", meta(without(INFO))),
    says_its_name_as_text=on("prompts/list", meta(put(INFO, "raw 1"))),
    says_null_for_its_name=on("resources/list", meta(put(INFO, None))),
)
says(
    "jsonrpc.message.version-2-0",
    speaks_1_0_alone=on("tools/list", having(jsonrpc="1.0")),
    speaks_2=on("tools/list", having(jsonrpc=2)),
)
says(
    "jsonrpc.client-no-responses",
    answers_a_listing=on(
        "prompts/list", lambda m: (m, {"jsonrpc": "2.0", "id": "told", "result": {}})
    ),
    complains_of_a_listing=on(
        "prompts/list",
        lambda m: (m, {"jsonrpc": "2.0", "id": 77, "error": {"code": 1, "message": "no"}}),
    ),
)
says(
    "jsonrpc.client-no-responses",
    ROUNDS,
    over="stdio",
    answers_questions_directly=lambda m: (
        (m, {"jsonrpc": "2.0", "id": m["id"] - 1, "result": m["params"]["inputResponses"]})
        if "inputResponses" in (m.get("params") or {})
        else m
    ),
)


@mutant("jsonrpc.client-no-responses", "AsksDirectly", over="stdio")
class AnswersRequests(RawStateless):
    def heed(self, message: Message) -> None:
        super().heed(message)
        if "id" in message:
            self.spawn(self.say({"jsonrpc": "2.0", "id": message["id"], "result": {}}))


class _Notifies(RawStateless):
    """Sends a notification of earlier revisions."""

    notification = "notifications/initialized"

    async def opened(self) -> bool:
        is_open = await super().opened()
        await self.say({"jsonrpc": "2.0", "method": self.notification})
        return is_open


@mutant("progress.server-only", "AnswersWithEventStreams")
class SaysThatItIsInitialized(_Notifies):
    pass


@mutant("progress.server-only", over="stdio")
class SaysThatItsRootsChanged(_Notifies):
    notification = "notifications/roots/list_changed"


says(
    "progress.server-only",
    over="stdio",
    reports_progress=on(
        "tools/call",
        lambda m: (
            m,
            {
                "jsonrpc": "2.0",
                "method": "notifications/progress",
                "params": {"progressToken": m["params"]["_meta"]["progressToken"], "progress": 1},
            },
        ),
    ),
)
says(
    "otel.value-formats",
    names_a_trace_badly=on("tools/list", meta(put("traceparent", "00-zz-zz-01"))),
    has_a_number_for_a_trace=on("tools/list", meta(put("traceparent", 7))),
    carries_odd_baggage=on("tools/list", meta(put("baggage", "no pair; here"))),
)
says(
    "meta.key.reverse-dns-prefix",
    writes_its_domain_forwards=on("tools/list", meta(put("example.com/key", 1))),
    writes_a_prefix_forwards=on("tools/list", meta(put("www.example.com/key", 1))),
)
says(
    "meta.key.reserved-by-second-label",
    takes_a_key_of_the_protocol=on("tools/list", meta(put(f"{P}mine", 1))),
    takes_a_key_of_mcp=on("tools/list", meta(put("com.mcp.tools/mine", 1))),
    takes_a_key_of_another_vendor=on("tools/list", meta(put("dev.mcp/mine", 1))),
)
says(
    "extensions.identifier-format",
    names_an_extension_without_a_prefix=on(
        "tools/list", able(put("extensions", {TASKS: {}, "mine": {}}))
    ),
    names_an_extension_with_spaces=on(
        "tools/list", able(put("extensions", {TASKS: {}, "com.example/my own": {}}))
    ),
    names_an_extension_with_two_slashes=on(
        "tools/list", able(put("extensions", {TASKS: {}, "com.example/a/b": {}}))
    ),
)
says(
    "extensions.settings-object",
    declares_an_extension_as_true=on("tools/list", able(put("extensions", {TASKS: True}))),
    declares_an_extension_as_null=on("tools/list", able(put("extensions", {TASKS: None}))),
    declares_an_extension_as_a_list=on("tools/list", able(put("extensions", {TASKS: []}))),
)
says(
    "icons.src-required",
    has_an_icon_without_a_source=on(
        "tools/list", meta(put(INFO, {"name": "raw", "version": "1", "icons": [{}]}))
    ),
    has_an_icon_of_a_file=on(
        "tools/list",
        meta(put(INFO, {"name": "raw", "version": "1", "icons": [{"src": "file:///i.png"}]})),
    ),
    has_an_icon_that_is_text=on(
        "tools/list", meta(put(INFO, {"name": "raw", "version": "1", "icons": ["i.png"]}))
    ),
)
says(
    "elicitation.capability.at-least-one-mode",
    declares_no_mode=on("tools/list", able(put("elicitation", {"other": {}}))),
)

# -- ids


class _SameId(RawStateless):
    """Sends two requests at once under one id."""

    methods: ClassVar[tuple[str, str]] = ("tools/list", "prompts/list")

    async def work(self) -> None:
        await super().work()
        first, second = (self.message(each, {}) for each in self.methods)
        first["id"] = second["id"] = self.same
        for each in (first, second):
            self.spawn(self.say(each))
        await self.ask("completion/complete", {
            "ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "a", "value": "b"},
        })  # fmt: skip

    same: ClassVar[Any] = "twice"


@mutant("jsonrpc.id.distinct-among-pending", "NeverAnswersStateless", over="stdio")
class ReusesAnIdOfAPendingCall(RawStateless):
    patience = 0.5

    async def call(self, params: Message) -> Any:
        one = self.message("tools/call", params)
        two = self.message("prompts/get", {"name": "greet"})
        two["id"] = one["id"]
        await self.say(one)
        await self.say(two)
        await self.give_up(one["id"])


faults(
    mutant("jsonrpc.id.distinct-among-pending", over="stdio"),
    ReusesATextId=altering(_SameId),
    ReusesANumberForLists=altering(
        _SameId, same=4711, methods=("resources/list", "resources/list")
    ),
)


# -- headers


def heads(id: str, *scenarios: str, also: dict[str, str] | None = None, **changes: Any) -> None:
    """Register faults in the headers of requests."""
    for name, change in changes.items():

        def heads_of(self: Any, message: Any, do: Any = change) -> dict[str, str]:
            return dict(do(RawStateless.heads_of(self, message), message))

        mutant(id, *scenarios, also=also)(type(name, (RawStateless,), {"heads_of": heads_of}))


def only(method: str, change: Callable[[Message], Message]) -> Any:
    return lambda found, m: change(found) if m.get("method") == method else found


heads(
    "http.version-header.present",
    forgets_the_version_header=lambda found, _: without("MCP-Protocol-Version")(found),
    forgets_the_version_header_on_calls=only("tools/call", without("MCP-Protocol-Version")),
    forgets_the_version_header_on_probes=only("server/discover", without("MCP-Protocol-Version")),
)
heads(
    "http.version-header.matches-meta",
    names_another_version=only("tools/list", put("MCP-Protocol-Version", "2025-11-25")),
    names_no_version=only("prompts/list", put("MCP-Protocol-Version", "latest")),
    names_another_version_on_calls=only("tools/call", put("MCP-Protocol-Version", "2025-06-18")),
)
heads(
    "http.headers.mcp-method",
    forgets_the_method=lambda found, _: without("Mcp-Method")(found),
    forgets_the_method_of_calls=only("tools/call", without("Mcp-Method")),
)
heads(
    "http.headers.mcp-method",
    names_another_method=only("prompts/list", put("Mcp-Method", "tools/list")),
    names_the_method_in_capitals=only("prompts/list", put("Mcp-Method", "PROMPTS/LIST")),
)
heads(
    "http.headers.mcp-name",
    forgets_the_name_of_a_tool=only("tools/call", without("Mcp-Name")),
    forgets_the_uri=only("resources/read", without("Mcp-Name")),
)
heads(
    "http.headers.mcp-name",
    names_another_prompt=only("prompts/get", put("Mcp-Name", "another")),
    names_the_tool_in_capitals=only("tools/call", put("Mcp-Name", "ECHO")),
)
heads(
    "tasks-ext.http.mcp-name",
    "RunsToolsAsExtensionTasks",
    forgets_the_name_of_a_task=only("tasks/get", without("Mcp-Name")),
    names_another_task=only("tasks/get", put("Mcp-Name", "task")),
    forgets_the_name_of_an_update=only("tasks/update", without("Mcp-Name")),
)
heads(
    "http.client.accept-both",
    accepts_json_alone=lambda found, _: put("Accept", "application/json")(found),
    accepts_anything=only("tools/call", put("Accept", "*/*")),
    accepts_streams_alone=only("tools/list", put("Accept", "text/event-stream")),
)

WANTS = "WantsArgumentsInHeaders"
heads(
    "http.param-headers.client-support",
    WANTS,
    repeats_no_argument=only("tools/call", without("Mcp-Param-Text", "Mcp-Param-Count",
        "Mcp-Param-Loud", "Mcp-Param-City")),
    repeats_texts_alone=only("tools/call", without("Mcp-Param-Count", "Mcp-Param-Loud")),
    repeats_no_nested_argument=only("tools/call", without("Mcp-Param-City")),
    names_headers_by_properties=only("tools/call", lambda h: {
        k.replace("Param-Count", "Param-times"): v for k, v in h.items()}),
)  # fmt: skip
heads(
    "http.param-headers.omitted-without-value",
    WANTS,
    sends_an_empty_header=only("tools/call", put("Mcp-Param-Note", "")),
    sends_null=only("tools/call", put("Mcp-Param-Note", "null")),
    sends_none=only("tools/call", put("Mcp-Param-Note", "None")),
)
heads(
    "http.param-headers.value.string-forms",
    WANTS,
    writes_true_in_python=only("tools/call", lambda h: {
        k: v.capitalize() if k == "Mcp-Param-Loud" else v for k, v in h.items()}),
    writes_numbers_as_fractions=only("tools/call", lambda h: {
        k: f"{v}.0" if k == "Mcp-Param-Count" else v for k, v in h.items()}),
)  # fmt: skip
heads(
    "http.param-headers.exact-path",
    WANTS,
    repeats_the_outer_argument=lambda h, m: {
        k: str(m["params"]["arguments"].get("city")) if k == "Mcp-Param-City" else v
        for k, v in h.items()
    },
)


def spelled(change: Callable[[str], str]) -> Any:
    """Change how a text with letters beyond ASCII is written."""
    return only("tools/call", lambda h: {
        k: change(v) if k == "Mcp-Param-Text" and v.startswith("=?base64?dH") else v
        for k, v in h.items()})  # fmt: skip


heads(
    "http.param-headers.value.base64-when-unsafe",
    WANTS,
    percent_encodes=spelled(lambda _: "tv%C3%A5%20ord"),
    drops_the_letter=spelled(lambda _: "tv ord"),
    writes_question_marks=spelled(lambda _: "tv? ord"),
)
heads(
    "http.param-headers.value.markers-exact",
    WANTS,
    also={"http.param-headers.value.base64-when-unsafe": "it is not that form"},
    writes_markers_in_capitals=spelled(lambda v: v.replace("=?base64?", "=?BASE64?")),
    leaves_the_last_marker_out=spelled(lambda v: v.removesuffix("?=")),
    names_a_charset=spelled(lambda v: v.replace("=?base64?", "=?base64;utf-8?")),
)
heads(
    "http.param-headers.value.sentinel-escaped",
    WANTS,
    sends_what_looks_encoded=only("tools/call", lambda h: {
        k: "=?base64?eA==?=" if k == "Mcp-Param-Text" and len(v) > 25 else v
        for k, v in h.items()}),
    decodes_what_looks_encoded=only("tools/call", lambda h: {
        k: "x" if k == "Mcp-Param-Text" and len(v) > 25 else v for k, v in h.items()}),
)  # fmt: skip
heads(
    "http.headers.mcp-name.encoded-when-unsafe",
    WANTS,
    percent_encodes_names=lambda h, _: {
        k: "gr%C3%BC%C3%9Fen" if k == "Mcp-Name" and v.startswith("=?") else v for k, v in h.items()
    },
    strips_letters_from_names=lambda h, _: {
        k: "gren" if k == "Mcp-Name" and v.startswith("=?") else v for k, v in h.items()
    },
)


@mutant("tools.x-mcp-header.client-drops-invalid-tool", WANTS)
class CallsEveryTool(RawStateless):
    def callable(self, tools: list[Message]) -> list[Message]:
        return tools


@mutant("tools.x-mcp-header.client-drops-invalid-tool", WANTS)
class CallsToolsByName(RawStateless):
    def callable(self, tools: list[Message]) -> list[Message]:
        return [each for each in tools if each["name"] in ("echo", "add")]


@mutant("tools.x-mcp-header.client-drops-invalid-tool", WANTS)
class RepeatsNumbersToo(CallsEveryTool):
    def mirrored(self, name: str, arguments: Any) -> dict[str, str]:
        found = super().mirrored(name, arguments)
        return {"Mcp-Param-First": str(arguments.get("a"))} if name == "add" else found


CHANGES = "ChangesArgumentsInHeaders"


@mutant("http.param-headers.mismatch-client-relists", CHANGES)
class GivesUpARefusedCall(RawStateless):
    async def call(self, params: Message) -> Any:
        return await self.ask("tools/call", params)


@mutant("http.param-headers.mismatch-client-relists", CHANGES)
class ListsAndForgets(RawStateless):
    async def call(self, params: Message) -> Any:
        reply = await self.ask("tools/call", params)
        if reply is not None and "error" in reply:
            await self.list("tools/list")
            self.callable_names = []
            raise KeyError
        return reply

    async def work(self) -> None:
        try:
            await super().work()
        except KeyError:
            await self.ask("prompts/list", {})


# -- POSTs


@mutant("http.post.each-message", also={"jsonrpc.batch.removed": "two messages are a batch"})
class PostsTwoAtOnce(RawStateless):
    async def finish(self) -> None:
        both = [self.message("tools/list", {}) for _ in range(2)]
        await self.request("POST", self.heads_of(both[0]), json.dumps(both).encode())


@mutant("http.post.each-message")
class PutsMessages(RawStateless):
    async def finish(self) -> None:
        message = self.message("tools/list", {})
        await self.request("PUT", self.heads_of(message), json.dumps(message).encode())


@mutant("http.post.each-message", also={
    "jsonrpc.message.version-2-0": "text that is not a message is not JSON-RPC either",
})  # fmt: skip
class PostsForms(RawStateless):
    async def finish(self) -> None:
        await self.request("POST", self.heads_of(None), b"method=ping")
