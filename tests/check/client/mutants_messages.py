"""Clients whose messages have one fault each: a third way and more, for each requirement."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, ClassVar

from check.client.mutants import Plain
from check.client.mutants_more import INVALID, QUESTIONS, ROOTS, opening, says
from check.client.mutants_stateless import able, meta
from check.client.mutants_stateless import says as says_stateless
from check.client.raw import Message, Raw
from check.client.registering import Says, answer, mutant, on, params, put, result
from check.faults import altering, faults, nothing

READY = "notifications/initialized"

# -- messages

says("jsonrpc.batch.removed", over="stdio", pings_in_a_batch=on("ping", lambda m: [m]))
says(
    "jsonrpc.batch.removed",
    QUESTIONS,
    answers_in_a_batch=answer("roots", lambda m: [m]),
)


class _TellsInBytes(Raw):
    """Tells something in bytes that are not UTF-8."""

    data = b""

    async def tell_roots(self) -> None:
        params = b'{"_meta":{"note":"%s"}}' % self.data
        await self.send(b'{"jsonrpc":"2.0","method":"%s","params":%s}' % (ROOTS.encode(), params))


@mutant("jsonrpc.encoding.utf8", over="stdio")
class CutsACharacter(_TellsInBytes):
    data = "caf\u00e9".encode()[:-1]


faults(mutant("jsonrpc.encoding.utf8"), PostsLatin1=altering(_TellsInBytes, data=b"h\xe4"))


def coded(code: Any) -> Callable[[Message], Any]:
    """Return what gives the error for unknown methods another code."""

    def changed(message: Message) -> Any:
        if message.get("error", {}).get("code") == -32601:
            return {**message, "error": {"code": code, "message": "unknown method"}}
        return message

    return changed


says(
    "jsonrpc.error.code-integer",
    INVALID,
    also={"errors.code.method-not-found": "what is not a number is not a code"},
    writes_the_code_as_text=coded("-32601"),
    has_a_fraction_for_a_code=coded(-32601.5),
    has_null_for_a_code=coded(None),
)
says(
    "errors.code.invalid-params",
    INVALID,
    takes_bad_parameters_for_a_bad_method=lambda m: (
        {**m, "error": {"code": -32601, "message": "no"}}
        if m.get("error", {}).get("code") == -32602
        else m
    ),
    takes_bad_parameters_for_a_bad_request=lambda m: (
        {**m, "error": {"code": -32600, "message": "no"}}
        if m.get("error", {}).get("code") == -32602
        else m
    ),
)
says(
    "jsonrpc.notification.no-id",
    over="stdio",
    also={"lifecycle.initialized.sent": "a request is not a notification"},
    is_ready_under_an_id=on(READY, put("id", "ready")),
)


@mutant("jsonrpc.request.answered", QUESTIONS)
class ListsItsRootsOnce(Says):
    count = 0

    def changed(self, message: Message) -> Any:
        self.count += "roots" in (message.get("result") or {})
        return None if "roots" in (message.get("result") or {}) and self.count > 1 else message


says(
    "jsonrpc.request.answered",
    INVALID,
    over="stdio",
    never_refuses=lambda m: None if "error" in m else m,
)


@mutant("jsonrpc.batch.receive", "SendsBatches")
class AnswersTheFirstOfABatch(Raw):
    revision = "2025-03-26"

    def hear(self, text: Any) -> None:
        message = json.loads(text)
        super().hear(json.dumps(message[0]) if isinstance(message, list) else text)


@mutant("jsonrpc.batch.receive", "SendsBatches", over="stdio")
class AnswersTheLastOfABatch(Raw):
    revision = "2025-03-26"

    def hear(self, text: Any) -> None:
        message = json.loads(text)
        super().hear(json.dumps(message[-1]) if isinstance(message, list) else text)


for shape, word in ((None, "null"), ("all", "text"), (7, "a_number")):
    says(
        "practice.list.empty-params",
        also={"jsonrpc.request.params-object": "parameters are objects"},
        **{f"lists_with_{word}": on("prompts/list", put("params", shape))},
    )

# -- opening


faults(
    mutant("lifecycle.initialize.client-capabilities", over="stdio"),
    DeclaresNull=altering(
        Raw, opening=lambda self: ({**Raw.opening(self), "capabilities": None}), tell_roots=nothing
    ),
)


class _Hastens(Raw):
    """Sends a request before it has the answer to initialize."""

    method, given = "prompts/list", {}
    pause = 0.0

    async def open(self) -> Message | None:
        opening = self.spawn(super().open())
        await asyncio.sleep(self.pause)
        hasty = self.spawn(self.ask(self.method, self.given))
        reply = await opening
        hasty.cancel()
        return dict(reply) if reply else None


faults(
    mutant("lifecycle.initialize.client-waits", "AnswersInitializeLate", over="stdio"),
    OpensAndListsAtOnce=altering(_Hastens),
    CallsWhileItOpens=altering(
        _Hastens,
        revision="2025-11-25",
        method="tools/call",
        given={"name": "echo", "arguments": {"text": "a"}},
        pause=0.1,
    ),
)


class _AsksFirst(Raw):
    """Sends a request before initialize."""

    method, given = "logging/setLevel", {"level": "info"}

    async def open(self) -> Message | None:
        await self.ask(self.method, self.given)
        return await super().open()


faults(
    mutant("lifecycle.initialize.first", over="stdio"),
    SetsItsLevelFirst=altering(_AsksFirst, revision="2024-11-05"),
    CallsFirst=altering(
        _AsksFirst,
        method="tools/call",
        given={"name": "echo", "arguments": {"text": "a"}},
        patience=0.5,
    ),
)
says(
    "lifecycle.initialize.method-name",
    over="stdio",
    opens_in_capitals=on("initialize", put("method", "Initialize")),
    opens_with_a_prefix=on("initialize", put("method", "mcp/initialize")),
)


class _Older(Says):
    revision = "2025-03-26"


says(
    "lifecycle.initialize.not-in-batch",
    over="stdio",
    base=_Older,
    also={"lifecycle.initialized.sent": "it is ready before it has an answer"},
    opens_and_is_ready_in_a_batch=on(
        "initialize",
        lambda m: [m, {"jsonrpc": "2.0", "method": READY}],
    ),
)
says(
    "lifecycle.initialize.not-in-batch",
    base=_Older,
    posts_a_batch_to_open=on("initialize", lambda m: [m]),
)
says(
    "lifecycle.initialized.method-name",
    also={"lifecycle.initialized.sent": "what has another name was not sent"},
    is_ready_in_the_singular=on(READY, put("method", "notification/initialized")),
)
says(
    "lifecycle.initialized.method-name",
    over="stdio",
    also={"lifecycle.initialized.sent": "what has another name was not sent"},
    is_ready_in_capitals=on(READY, put("method", "notifications/Initialized")),
)


@mutant("lifecycle.errors.handled", "RefusesInitialize")
class IsReadyAfterARefusal(Raw):
    async def open(self) -> Message | None:
        reply = await super().open()
        if reply is not None and "error" in reply:
            await self.say({"jsonrpc": "2.0", "method": READY})
        return reply


@mutant("lifecycle.shutdown.no-message", over="stdio")
class ShutsDownLikeAnEditor(Raw):
    async def finish(self) -> None:
        await self.ask("shutdown")
        await self.say({"jsonrpc": "2.0", "method": "exit"})


class _Agrees(Raw):
    def takes(self, revision: Any) -> bool:
        return revision in (self.revision, "2025-11-25")


@mutant("lifecycle.version.client-prefers-latest", "ChoosesNewestRevision", over="stdio")
class AsksForTheOldest(_Agrees):
    revision = "2024-11-05"


@mutant("lifecycle.version.client-prefers-latest", "ChoosesNewestRevision")
class AsksForTheSecond(_Agrees):
    revision = "2025-03-26"


class _Uses(Raw):
    """Uses one capability whether the server declared it or not."""

    used = ""

    def offers(self, capability: str) -> bool:
        return capability == self.used or super().offers(capability)


@mutant("lifecycle.capabilities.respected", "DeclaresNoCapabilities")
class SetsLevelsAnywhere(_Uses):
    used = "logging"


@mutant("lifecycle.capabilities.respected", "DeclaresNoCapabilities", over="stdio")
class CompletesAnywhere(_Uses):
    used = "completions"


class _UsesOptions(Raw):
    """Uses an option of a capability whether the server declared it or not."""

    method = "resources/subscribe"

    async def list(self, method: str) -> None:
        await super().list(method)
        if method == "resources/list" and self.offers("resources"):
            await self.ask(self.method, {"uri": "play://note"})


@mutant("lifecycle.capabilities.respected", "DeclaresNoOptions")
class SubscribesAnywhere(_UsesOptions):
    pass


@mutant("lifecycle.capabilities.respected", "DeclaresNoOptions", over="stdio")
class UnsubscribesAnywhere(_UsesOptions):
    method = "resources/unsubscribe"


# -- roots, models and forms


class _Quiet(Raw):
    async def tell_roots(self) -> None:
        pass


for value, name in ((1, "DeclaresChangesAsOne"), (None, "DeclaresChangesAsNull")):
    declared = {"roots": {"listChanged": value}}
    mutant("roots.capability.list-changed")(type(name, (_Quiet,), {"capabilities": declared}))


@mutant("roots.list-changed.capability-required", over="stdio")
class AnnouncesWithoutRoots(Raw):
    capabilities: ClassVar[Message] = {}


@mutant("roots.list-changed.capability-required")
class AnnouncesWhatItDenies(Raw):
    capabilities: ClassVar[Message] = {"roots": {"listChanged": False}}


class _Changes(_Quiet):
    """Changes its roots in silence."""

    lists: ClassVar[tuple[Any, ...]] = ()
    count = 0

    async def result(self, method: str, params: Message) -> Message:
        if method != "roots/list":
            return await super().result(method, params)
        self.count += 1
        return {"roots": self.lists[min(self.count, len(self.lists)) - 1]}


@mutant("roots.list-changed.sent", QUESTIONS)
class LosesItsRootsInSilence(_Changes):
    lists: ClassVar[tuple[Any, ...]] = ([{"uri": "file:///srv"}], [])


@mutant("roots.list-changed.sent", QUESTIONS, over="stdio")
class FindsARootInSilence(_Changes):
    lists: ClassVar[tuple[Any, ...]] = (
        [{"uri": "file:///srv"}],
        [{"uri": "file:///srv"}, {"uri": "file:///home"}],
    )


class _Experiments(Plain):
    """Declares as an experiment what it can do, which declares nothing."""

    method, name = "", ""
    reply: ClassVar[Message] = {}

    def opening(self) -> Message:
        return {**super().opening(), "capabilities": {"experimental": {self.name: {}}}}

    async def result(self, method: str, params: Message) -> Message:
        return self.reply if method == self.method else await super().result(method, params)


SAID: Message = {
    "role": "assistant",
    "content": {"type": "text", "text": "hello"},
    "model": "parrot",
    "stopReason": "endTurn",
}


@mutant("roots.capability.declared", INVALID, over="stdio", also={
    "roots.errors": "it answers what it did not declare",
})  # fmt: skip
class HasExperimentalRoots(_Experiments):
    name, method = "roots", "roots/list"
    reply: ClassVar[Message] = {"roots": []}


@mutant("sampling.capability.declared", INVALID, also={
    "sampling.errors": "it answers what it did not declare",
})  # fmt: skip
class SamplesAsAnExperiment(_Experiments):
    name, method = "sampling", "sampling/createMessage"
    reply: ClassVar[Message] = SAID


@mutant("sampling.capability.declared", INVALID, over="stdio", also={
    "sampling.errors": "it answers what it did not declare",
})  # fmt: skip
class SamplesForFormsAlone(SamplesAsAnExperiment):
    """Declares forms, and answers with a model."""

    def opening(self) -> Message:
        return {**super().opening(), "capabilities": {"elicitation": {}}}


says(
    "meta.field.more-types",
    QUESTIONS,
    describes_content_with_text=answer(
        "model", result(put("content", {"type": "text", "text": "hello", "_meta": "x"}))
    ),
)
says(
    "lifecycle.initialize.client-info",
    over="stdio",
    lists_its_names=opening(put("clientInfo", [{"name": "raw", "version": "1"}])),
)


@mutant("ping.response.prompt", QUESTIONS, over="stdio")
class AnswersOtherThingsThanPings(Raw):
    """Loses pings while it has something else to do: after the first question."""

    is_busy = False

    def heed(self, message: Message) -> None:
        if message["method"] != "ping" or not self.is_busy:
            super().heed(message)
        self.is_busy = self.is_busy or "id" not in message


@mutant("ping.response.empty", QUESTIONS)
class RefusesPings(Raw):
    async def result(self, method: str, params: Message) -> Message:
        if method == "ping":
            raise KeyError(method)
        return await super().result(method, params)


# -- progress


def reports(id: str, also: dict[str, str] | None = None, over: str = "http", **sent: Any) -> None:
    """Register clients that report progress wrongly while a model thinks."""
    for name, told in sent.items():

        async def answered(
            self: Any, method: str, given: Message, told: tuple[Message, ...] = told
        ) -> Message:
            if method == "sampling/createMessage" and "_meta" in given:
                for each in told:
                    said = {"jsonrpc": "2.0", "method": "notifications/progress", "params": each}
                    await self.say(said)
            return await Raw.result(self, method, given)

        mutant(id, QUESTIONS, also=also, over=over)(type(name, (Raw,), {"result": answered}))


TOKEN: Message = {"progressToken": "sampling"}
reports(
    "progress.notification.progress",
    reports_progress_as_text=({**TOKEN, "progress": "half"},),
    reports_null=({**TOKEN, "progress": None},),
    reports_a_total_alone=({**TOKEN, "progress": 1, "total": 3}, {**TOKEN, "total": 3}),
)
reports(
    "progress.notification.token",
    names_its_token_otherwise=({"token": "sampling", "progress": 1},),
    hides_its_token=({"_meta": TOKEN, "progress": 1},),
)
reports(
    "progress.notification.total",
    reports_a_total_of_null=({**TOKEN, "progress": 1, "total": None},),
    reports_a_list_of_totals=({**TOKEN, "progress": 1, "total": [2]},),
)
reports(
    "progress.notification.message",
    reports_a_list_of_messages=({**TOKEN, "progress": 1, "message": ["half"]},),
    reports_an_object_as_message=({**TOKEN, "progress": 1, "message": {"text": "half"}},),
)
reports(
    "progress.notification.active-only",
    reports_for_another_type=({"progressToken": 0, "progress": 1},),
)
reports(
    "progress.value.increases",
    goes_backwards=({**TOKEN, "progress": 2}, {**TOKEN, "progress": 1}),
    stops_in_the_end=(
        {**TOKEN, "progress": 1},
        {**TOKEN, "progress": 2},
        {**TOKEN, "progress": 2},
    ),
)
reports(
    "progress.rate-limited",
    reports_each_letter=tuple({**TOKEN, "progress": n, "message": "a"} for n in range(250)),
)
reports(
    "progress.rate-limited",
    over="stdio",
    reports_each_thousandth=tuple(
        {**TOKEN, "progress": (n + 1) / 1000, "total": 1} for n in range(1000)
    ),
)


class _Gathers(Raw):
    """Sends two requests at once with one token."""

    patience = 0.5
    methods: ClassVar[tuple[str, str]] = ("tools/list", "prompts/list")
    mark: Any = 0
    has_asked = False

    async def list(self, method: str) -> None:
        if not self.has_asked:
            self.has_asked = True
            given = {"_meta": {"progressToken": self.mark}}
            await asyncio.gather(*(self.ask(each, given) for each in self.methods))


faults(mutant("progress.token.unique", "NeverAnswers"), CountsTokensFromZero=altering(_Gathers))


@mutant("progress.token.unique", "NeverAnswers", over="stdio")
class NamesItsTokensByKind(_Gathers):
    methods: ClassVar[tuple[str, str]] = ("resources/list", "resources/templates/list")
    mark: Any = "list"


# -- what stands on its own

says_stateless(
    "meta.key.reverse-dns-prefix",
    over="stdio",
    writes_its_domain_forwards_on_calls=on("tools/call", meta(put("trace.example.org/id", "1"))),
)
says_stateless(
    "elicitation.capability.at-least-one-mode",
    declares_a_list_of_modes=on("tools/list", able(put("elicitation", {"modes": ["form"]}))),
)
says_stateless(
    "elicitation.capability.at-least-one-mode",
    over="stdio",
    declares_modes_in_capitals=on("prompts/list", able(put("elicitation", {"Form": {}}))),
)


def told(message: Message, token: Any) -> tuple[Message, Message]:
    """Return a message and a report of progress after it."""
    given = {"progressToken": token, "progress": 1}
    return message, {"jsonrpc": "2.0", "method": "notifications/progress", "params": given}


says_stateless(
    "progress.server-only",
    reports_progress_by_post=on(
        "tools/call", lambda m: told(m, m["params"]["_meta"]["progressToken"])
    ),
    reports_progress_of_lists=on("prompts/list", lambda m: told(m, "of-a-list")),
)
says(
    "tools.call.method",
    over="stdio",
    calls_a_list_of_tools=on("tools/call", params(put("name", ["echo"]))),
)
