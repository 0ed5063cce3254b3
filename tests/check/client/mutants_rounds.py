"""Clients of 2026-07-28 with one fault each in how they answer questions."""

import asyncio
import urllib.request
from typing import Any, ClassVar

from check.client.mutants_stateless import ROUNDS, answering, says
from check.client.raw import Message
from check.client.raw_stateless import RawStateless
from check.client.registering import mutant, put, without
from check.faults import altering, faults, named

KEYS = {"mrtr.client.response-keys-match": "the questions of another request are not its own"}
UNDECLARED = "AsksForUndeclared"


def retry(change: Any) -> Any:
    """Change the parameters of a request that brings answers."""

    def changed(message: Message) -> Any:
        given = message.get("params") or {}
        if not {"inputResponses", "requestState"} & given.keys():
            return message
        return {**message, "params": change(dict(given))}

    return changed


def has_form(params: Message) -> bool:
    return any(each.startswith("form") for each in params.get("inputResponses", {}))


# -- rounds


def drop_first_answer(params: Message) -> Message:
    answers = dict([*params.get("inputResponses", {}).items()][1:])
    return {**params, "inputResponses": answers} if "inputResponses" in params else params


says(
    "mrtr.client.fulfil-before-retry",
    ROUNDS,
    leaves_an_answer_out=retry(drop_first_answer),
    repeats_without_answers=retry(
        lambda p: without("inputResponses")(p) if "requestState" in p else p
    ),
    repeats_with_empty_answers=retry(
        lambda p: {**p, "inputResponses": {}} if "inputResponses" in p else p
    ),
)
says(
    "mrtr.client.echo-state",
    ROUNDS,
    loses_the_state=retry(lambda p: without("requestState")(p) if "inputResponses" in p else p),
    shortens_the_state=retry(
        lambda p: {**p, "requestState": p["requestState"][:-1]} if "requestState" in p else p
    ),
    wraps_the_state=retry(
        lambda p: {**p, "requestState": {"state": p["requestState"]}} if "requestState" in p else p
    ),
)
says(
    "mrtr.client.no-invented-state",
    ROUNDS,
    sends_an_empty_state=retry(lambda p: {"requestState": "", **p}),
    sends_null_for_a_state=retry(lambda p: {"requestState": None, **p}),
    makes_a_state_up=retry(lambda p: {"requestState": "mine", **p}),
)


@mutant("mrtr.client.no-invented-state", ROUNDS, also={
    "mrtr.client.response-keys-match": "the round of the old state asked other questions",
})  # fmt: skip
class KeepsTheStateOfEarlierRounds(RawStateless):
    def __init__(self, place: Any) -> None:
        super().__init__(place)
        self.states: dict[str, Any] = {}

    async def retried(self, method: str, params: Message, result: Message) -> Message:
        found = await super().retried(method, params, result)
        known = self.states.get(f"{method} {params.get('name')}")
        found.update({} if known is None else {"requestState": known, **found})
        self.states[f"{method} {params.get('name')}"] = found.get("requestState")
        return found


@mutant("mrtr.client.state-not-shared", ROUNDS)
class SharesItsState(RawStateless):
    last: Any = None

    async def retried(self, method: str, params: Message, result: Message) -> Message:
        found = await super().retried(method, params, result)
        if method == "prompts/get" and self.last is not None:
            return {**found, "requestState": self.last}
        self.last = result.get("requestState", self.last)
        return found


@mutant("mrtr.client.state-not-shared", ROUNDS, also=KEYS)
class KeepsOneState(SharesItsState):
    """Sends the state of a call with a resource, which had none."""

    async def retried(self, method: str, params: Message, result: Message) -> Message:
        found = await RawStateless.retried(self, method, params, result)
        self.last = result.get("requestState", self.last)
        if method == "resources/read":
            return {**found, "requestState": self.last}
        return found


@mutant("mrtr.client.state-not-shared", ROUNDS, also=KEYS)
class SharesItsAnswers(RawStateless):
    def __init__(self, place: Any) -> None:
        super().__init__(place)
        self.given: Message = {}

    async def answers(self, questions: Message) -> Message:
        self.given |= await super().answers(questions)
        return dict(self.given)


@mutant("mrtr.client.new-id", ROUNDS)
class RepeatsItsId(RawStateless):
    def message(self, method: str, params: Message) -> Message:
        found = super().message(method, params)
        if {"inputResponses", "requestState"} & params.keys():
            self.number -= 1
            found["id"] = self.number
        return found


says(
    "mrtr.client.response-keys-match",
    ROUNDS,
    answers_what_was_not_asked=retry(
        lambda p: (
            {**p, "inputResponses": {**p["inputResponses"], "more": {"roots": []}}}
            if "inputResponses" in p
            else p
        )
    ),
)
says(
    "mrtr.client.response-keys-match",
    ROUNDS,
    also={"mrtr.client.fulfil-before-retry": "what has another key is no answer"},
    answers_by_method=retry(
        lambda p: (
            {
                **p,
                "inputResponses": {
                    ("roots/list" if k.startswith("roots") else k): v
                    for k, v in p["inputResponses"].items()
                },
            }
            if "inputResponses" in p
            else p
        )
    ),
    answers_in_capitals=retry(
        lambda p: (
            {**p, "inputResponses": {k.upper(): v for k, v in p["inputResponses"].items()}}
            if "inputResponses" in p
            else p
        )
    ),
)

# -- what the answers hold

for id, name, change in (
    ("sampling.result.role", "says_no_role", without("role")),
    ("sampling.result.role", "says_an_odd_role", put("role", "system")),
    ("sampling.result.content", "says_nothing", without("content")),
    ("sampling.result.content", "says_plain_text", put("content", "hello")),
    ("sampling.result.model", "names_no_model", without("model")),
    ("sampling.result.model", "numbers_its_model", put("model", 4)),
    ("sampling.result.stop-reason", "numbers_its_reason", put("stopReason", 7)),
    ("sampling.result.stop-reason", "lists_its_reasons", put("stopReason", ["endTurn"])),
):
    says(id, ROUNDS, **{name: answering("model", change)})
for id, name, change in (
    ("roots.list.array", "has_an_object_of_roots", put("roots", {})),
    ("roots.list.array", "has_no_roots", without("roots")),
    ("roots.item.uri", "has_roots_without_uris", put("roots", [{"name": "srv"}])),
    ("roots.item.uri", "has_roots_of_numbers", put("roots", [{"uri": 7}])),
    ("roots.item.file-uri", "has_roots_elsewhere", put("roots", [{"uri": "https://a.b"}])),
    ("roots.item.file-uri", "has_roots_as_paths", put("roots", [{"uri": "/srv"}])),
    ("roots.item.name", "numbers_its_roots", put("roots", [{"uri": "file:///s", "name": 1}])),
    ("meta.field.more-types", "describes_roots", put("roots", [{"uri": "file:///s", "_meta": []}])),
):
    says(id, ROUNDS, **{name: answering("roots", change)})
for id, name, change in (
    ("mrtr.client.response-keys-match", "does_nothing", without("action")),
    ("elicitation.result.action-values", "says_yes", put("action", "yes")),
    ("elicitation.result.action-values", "submits", put("action", "submit")),
    ("elicitation.answers.validated", "numbers_names", put("content", {"name": 7})),
    ("elicitation.answers.validated", "accepts_nothing", put("content", {})),
    ("elicitation.answers.validated", "sends_more", put("content", {"code": "x" * 9, "name": []})),
):
    says(id, ROUNDS, **{name: answering("form", change)})


class _MissesTheMode(RawStateless):
    answer: ClassVar[Message] = {"action": "accept"}

    async def result(self, method: str, params: Message) -> Message:
        if method == "elicitation/create" and "mode" not in params:
            return self.answer
        return await super().result(method, params)


faults(
    mutant("elicitation.mode.absent-is-form", ROUNDS), TakesAFormForAPage=altering(_MissesTheMode)
)


@mutant("elicitation.mode.absent-is-form", ROUNDS, over="stdio")
class ConsentsToAForm(_MissesTheMode):
    answer: ClassVar[Message] = {"action": "accept", "_meta": {}}


says(
    "elicitation.result.url-no-content",
    ROUNDS,
    fills_pages_in=answering("page", lambda _: {"action": "accept", "content": {"a": "b"}}),
    sends_an_empty_page=answering("page", lambda _: {"action": "accept", "content": {}}),
    sends_the_page=answering("page", lambda _: {"action": "accept", "content": {"url": "u"}}),
)


class Model(RawStateless):
    """Answers with a model of its own."""

    mode = "required"
    content: ClassVar[Any] = [{"type": "text", "text": "no"}]

    async def result(self, method: str, params: Message) -> Message:
        found = await super().result(method, params)
        choice = params.get("toolChoice", {}).get("mode", "any")
        is_asked = choice == self.mode and method == "sampling/createMessage"
        return {**found, "content": self.content} if is_asked else found


USE = {"type": "tool_use", "id": "u", "name": "weather", "input": {"city": "Oslo"}}
faults(
    mutant("sampling.tool-choice.required", ROUNDS),
    UsesNoTool=altering(Model),
    SpeaksOfATool=altering(Model, content={"type": "text", "text": '{"type": "tool_use"}'}),
)
faults(
    mutant("sampling.tool-choice.none", ROUNDS),
    UsesAToolAnyway=altering(Model, mode="none", content=[USE]),
    SpeaksAndUsesATool=altering(
        Model, mode="none", content=[{"type": "text", "text": "let me see"}, USE]
    ),
)
faults(
    mutant("sampling.max-tokens-respected", ROUNDS),
    TalksWithoutEnd=altering(Model, mode="any", content={"type": "text", "text": "so " * 600}),
    TalksInParts=altering(Model, mode="none", content=[{"type": "text", "text": "so " * 90}] * 6),
)


class Visits(RawStateless):
    pause_before = 0.0

    async def result(self, method: str, params: Message) -> Message:
        if params.get("mode") == "url":
            await self.visit(str(params["url"]))
        return await super().result(method, params)

    async def visit(self, url: str) -> None:
        if self.http is not None:
            async with self.http.get(url):
                pass
        else:
            port = int(url.rpartition(":")[2].partition("/")[0])
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {urllib.request.urlparse(url).path} HTTP/1.1\r\n\r\n".encode())
            await asyncio.sleep(0.05)
            writer.close()
            await writer.wait_closed()


faults(mutant("elicitation.client.no-prefetch", ROUNDS), LooksAtPagesFirst=altering(Visits))


@mutant("elicitation.client.no-prefetch", ROUNDS, over="stdio")
class LooksAtPagesFirstFromALaunchedServer(Visits):
    pass


@mutant("elicitation.client.no-open-without-consent", ROUNDS)
class OpensDeclinedPages(Visits):
    async def visit(self, url: str) -> None:
        async def later() -> None:
            await asyncio.sleep(0.1)
            await Visits.visit(self, url)

        self.spawn(later())

    async def finish(self) -> None:
        await asyncio.sleep(0.3)


# -- what it did not declare


def undeclared(id: str, method: str, result: Message, *names: str) -> None:
    """Register a client that answers a question although it did not declare that it can."""

    class Answers(RawStateless):
        capabilities: ClassVar[Message] = without(*names)(RawStateless.capabilities)

        async def result(self, asked: str, params: Message) -> Message:
            return result if asked == method else await super().result(asked, params)

    mutant(id, UNDECLARED)(named(f"Answers{id.partition('.')[0].title()}Undeclared", Answers))


SAID = {
    "role": "assistant",
    "content": {"type": "text", "text": "hello"},
    "model": "parrot",
    "stopReason": "endTurn",
}
undeclared("roots.capability-per-request", "roots/list", {"roots": []}, "roots")
undeclared("sampling.capability-per-request", "sampling/createMessage", SAID, "sampling")
undeclared(
    "elicitation.capability-per-request", "elicitation/create", {"action": "decline"}, "elicitation"
)


@mutant("sampling.tools.capability", UNDECLARED)
class TakesToolsUndeclared(RawStateless):
    capabilities: ClassVar[Message] = {**RawStateless.capabilities, "sampling": {}}

    async def result(self, method: str, params: Message) -> Message:
        if method == "sampling/createMessage":
            return {**SAID, "content": [USE], "stopReason": "toolUse"}
        return await super().result(method, params)


class ForgetsSometimes(RawStateless):
    """Declares a capability with each request but those that bring answers."""

    name: ClassVar[str] = ""

    def meta(self, method: str, params: Message) -> Message:
        found = super().meta(method, params)
        key = "io.modelcontextprotocol/clientCapabilities"
        is_retry = "inputResponses" in params
        return {**found, key: without(self.name)(found[key])} if is_retry else found


for area in ("roots", "sampling", "elicitation"):
    kind = type(f"Forgets{area.title()}OnRetries", (ForgetsSometimes,), {"name": area})
    mutant(f"{area}.capability-per-request", ROUNDS, is_thorough=True)(kind)
