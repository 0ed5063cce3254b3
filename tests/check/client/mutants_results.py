"""Clients of 2026-07-28 with one fault each in what they make of results: further ways."""

import asyncio
import json
from typing import Any, ClassVar

from check.client.mutants_conduct import (
    ICONS,
    JITTER,
    KEEPS,
    ODD,
    ODDLY,
    PLAIN,
    TASK,
    Fetches,
    Polls,
    Stops,
)
from check.client.mutants_rounds import SAID, UNDECLARED, USE, Model, Visits
from check.client.mutants_stateless import ROUNDS, able, says
from check.client.raw import Message
from check.client.raw_stateless import RawStateless
from check.client.registering import few, mutant, on, params, put, without
from check.faults import altering, faults

# -- tasks of the extension

says(
    "tasks-ext.capability.client-per-request",
    TASK,
    over="stdio",
    has_no_extension_left=on("tasks/get", able(put("extensions", {}))),
)
says(
    "tasks-ext.client.inspects-input-requests",
    TASK,
    answers_tasks_with_nothing=on("tasks/update", params(put("inputResponses", {}))),
)
TWICE = {"tasks-ext.update.keys-outstanding": "a question that was answered is no longer open"}


@mutant("tasks-ext.client.dedupe-keys", TASK, also=TWICE)
class AnswersAtOnceAndAgain(RawStateless):
    async def update(self, id: str, questions: Message) -> None:
        await super().update(id, questions)
        await super().update(id, questions)


@mutant("tasks-ext.client.dedupe-keys", TASK, over="stdio", also=TWICE)
class AnswersWithEachPoll(RawStateless):
    """Answers once more when the question is shown once more."""

    last: Any = None

    async def exchange(self, method: str, params: Message) -> Any:
        reply = await super().exchange(method, params)
        if method == "tasks/get" and self.last and "inputRequests" in (reply or {})["result"]:
            await super().exchange("tasks/update", self.last)
        self.last = params if method == "tasks/update" else self.last
        return reply


class _FollowsTasks(RawStateless):
    """Follows tasks in its own way: `call` those of calls, `other` those of something else."""

    async def follow_task(self, method: str, task: Message) -> Any:
        if method == "tools/call":
            return await self.call_task(task)
        return await self.other_task(task)

    async def call_task(self, task: Message) -> Any:
        return await super().follow_task("tools/call", task)

    async def other_task(self, task: Message) -> Any:
        return await super().follow_task("resources/read", task)


@mutant("tasks-ext.client.poll-until-terminal", TASK, over="stdio")
class GivesUpAfterTwoPolls(_FollowsTasks):
    async def call_task(self, task: Message) -> Any:
        for _ in range(2):
            await asyncio.sleep(0.2)
            await self.exchange("tasks/get", {"taskId": task["taskId"]})


@mutant("tasks-ext.create.only-tools-call", TASK)
class CancelsTheTaskOfAResource(_FollowsTasks):
    async def other_task(self, task: Message) -> Any:
        return await self.exchange("tasks/cancel", {"taskId": task["taskId"]})


class _CancelsTasks(_FollowsTasks):
    pause_before = 1.2

    async def call_task(self, task: Message) -> Any:
        id = self.number
        await asyncio.sleep(self.pause_before)
        told = {"requestId": id, "reason": "it takes too long"}
        await self.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": told})


@mutant("tasks-ext.cancel.not-by-notification", TASK, over="stdio")
class CancelsTasksByNotificationAlone(_CancelsTasks):
    async def call_task(self, task: Message) -> Any:
        await super().call_task(task)
        return await RawStateless.follow_task(self, "tools/call", task)


@mutant("tasks-ext.cancel.not-by-notification", TASK)
class PostsCancellationsOfTasks(_CancelsTasks):
    async def call_task(self, task: Message) -> Any:
        await super().call_task(task)
        return await self.exchange("tasks/cancel", {"taskId": task["taskId"]})


@mutant("extensions.one-sided-fallback", over="stdio")
class UpdatesTasksAnywhere(RawStateless):
    async def finish(self) -> None:
        await self.exchange("tasks/update", {"taskId": "of-another", "inputResponses": {}})


# -- results


class _TakesTheUnknownForComplete(RawStateless):
    """Takes results of an unknown type for complete ones."""

    def kind_of(self, result: Message) -> str:
        kind = super().kind_of(result)
        return kind if kind in ("input_required", "task") else "complete"


@mutant("result.type.unknown-is-invalid", "ListsToolsByAnUnknownType", over="stdio")
class TakesTheUnknownForComplete(_TakesTheUnknownForComplete):
    pass


@mutant("result.type.unknown-is-invalid", "ListsToolsByAnUnknownType")
class TakesUnknownListsForComplete(_TakesTheUnknownForComplete):
    def kind_of(self, result: Message) -> str:
        return super().kind_of(result) if "tools" in result else RawStateless.kind_of(self, result)


@mutant("result.type.unknown-is-invalid", "ReturnsUnknownResultTypes")
class CancelsTheUnknown(RawStateless):
    def kind_of(self, result: Message) -> str:
        kind = super().kind_of(result)
        return kind if kind in ("complete", "input_required") else "task"

    async def follow_task(self, method: str, task: Message) -> Any:
        return await self.exchange("tasks/cancel", {"taskId": task["taskId"]})


@mutant("tools.output-schema.any-type", ODD)
class WantsProperties(Stops):
    at = "tools/list"

    def is_odd(self, reply: Message) -> bool:
        tools = reply.get("result", {}).get("tools", [])
        schemas = [each["outputSchema"] for each in tools if "outputSchema" in each]
        return any("items" in each for each in schemas)


@mutant("tools.structured-content.any-json", ODD, over="stdio")
class WantsStructuredContent(Stops):
    at = "tools/call"

    def is_odd(self, reply: Message) -> bool:
        result = reply.get("result", {})
        return "structuredContent" in result and not isinstance(result["structuredContent"], dict)


@mutant("prompts.content.resource-link-accepted", ODD, over="stdio")
class ReadsTextOfPrompts(Stops):
    at = "prompts/get"

    def is_odd(self, reply: Message) -> bool:
        messages = reply.get("result", {}).get("messages", [])
        return any("text" not in each["content"] for each in messages)


@mutant("pagination.empty-cursor-is-a-cursor", ODD)
class BeginsAgainAtAnEmptyCursor(RawStateless):
    async def list(self, method: str) -> Any:
        found, given = [], {}
        for _ in range(3):
            reply = await self.ask(method, given)
            result = (reply or {}).get("result", {})
            found += next((each for each in result.values() if isinstance(each, list)), [])
            if self.next_cursor(reply) is None:
                break
            given = {"cursor": self.next_cursor(reply)} if self.next_cursor(reply) else {}
        return found


class _BadCursor(RawStateless):
    """Does something with a cursor that the server refused."""

    bad: Any = None

    async def ask(self, method: str, params: Message | None = None) -> Any:
        reply = await super().ask(method, params)
        if reply is not None and "error" in reply and "cursor" in (params or {}):
            self.bad = method, params
        return reply


@mutant("caching.client.bad-cursor-discards-pages", ODD)
class KeepsThePageOfABadCursor(RawStateless):
    async def finish(self) -> None:
        await self.list("resources/templates/list")


@mutant("caching.client.bad-cursor-discards-pages", ODD)
class RemembersABadCursor(_BadCursor):
    async def finish(self) -> None:
        if self.bad is not None:
            await self.ask(*self.bad)


@mutant("caching.client.bad-cursor-discards-pages", ODD, over="stdio")
class SendsABadCursorThreeTimes(_BadCursor):
    async def ask(self, method: str, params: Message | None = None) -> Any:
        reply = await super().ask(method, params)
        for _ in range(2 if self.bad == (method, params) else 0):
            reply = await super().ask(method, params)
        return reply


@mutant("schema.ref.no-network-fetch", ODD)
class LooksForSchemasWhenItCalls(RawStateless):
    async def call(self, params: Message) -> Any:
        text = json.dumps(self.schemas.get(params["name"], {}))
        if '"$ref"' in text:
            url = text.partition('"$ref": "')[2].partition('"')[0]
            async with self.http.head(url), self.http.get(url):
                pass
        return await super().call(params)


# -- icons


@mutant("icons.consumer.no-credentials", ICONS, also=PLAIN)
class KeepsCookiesOfIcons(Fetches):
    """Has a jar of cookies, so that the second fetch sends what the first one got."""

    async def fetch(self, url: str) -> None:
        async with self.http.get(url, allow_redirects=False) as response:
            cookie = response.headers.get("Set-Cookie", "")
        async with self.http.get(url, headers={"Cookie": cookie}):
            pass


@mutant("icons.consumer.no-cross-origin-redirect", ICONS, also=PLAIN)
class FollowsIconsByHand(Fetches):
    wanted: ClassVar[tuple[str, ...]] = ("/icon-moved",)

    async def fetch(self, url: str) -> None:
        async with self.http.get(url, allow_redirects=False) as response:
            place = response.headers["Location"]
        async with self.http.get(place):
            pass


@mutant("icons.consumer.no-cross-origin-redirect", ICONS, also={
    **PLAIN, "icons.consumer.same-origin": "it fetches every icon",
})  # fmt: skip
class FetchesEveryIcon(Fetches):
    wanted: ClassVar[tuple[str, ...]] = ("/icon", "/icon-moved", "/icon-of-another")
    follows = True


@mutant("icons.consumer.same-origin", ICONS, also=PLAIN)
class ComparesSchemesOfIconsAlone(Fetches):
    wanted: ClassVar[tuple[str, ...]] = ("/icon", "/icon-of-another")


# -- keeping results


@mutant("caching.client.absent-is-zero", KEEPS, ODDLY)
class KeepsResourcesForADay(RawStateless):
    def keep(self, method: str, params: Message, reply: Any, *, is_asked: bool) -> None:
        self.method = method
        super().keep(method, params, reply, is_asked=is_asked)

    def lifetime(self, result: Message) -> float:
        is_read = self.method == "resources/read" and "ttlMs" not in result
        return 86_400.0 if is_read else super().lifetime(result)


@mutant("caching.client.key", KEEPS, over="stdio")
class KeepsByScheme(RawStateless):
    def key(self, method: str, params: Message) -> str:
        uri = str(params.get("uri", "")).partition(":")[0]
        return super().key(method, {**params, "uri": uri} if uri else params)


class _IgnoresCursors(RawStateless):
    """Keeps the pages of a list under one key, and stops where a page comes again."""

    def key(self, method: str, params: Message) -> str:
        return super().key(method, without("cursor")(params))

    async def list(self, method: str) -> Any:
        reply, entries, cursors = None, [], {None}
        while reply is None or self.next_cursor(reply) not in cursors:
            cursor = None if reply is None else self.next_cursor(reply)
            cursors.add(cursor)
            reply = await self.ask(method, {} if cursor is None else {"cursor": cursor})
            result = (reply or {}).get("result", {})
            entries += next((each for each in result.values() if isinstance(each, list)), [])
        return entries


PAGES = ("ReturnsListsInPages", "LetsPagesBeKept")


@mutant("caching.client.key", *PAGES, over="stdio")
class TakesTheFirstPageForAll(_IgnoresCursors):
    pass


@mutant("caching.client.key", *PAGES)
class TakesTheFirstPageOfToolsForAll(_IgnoresCursors):
    def key(self, method: str, params: Message) -> str:
        if method != "tools/list":
            return RawStateless.key(self, method, params)
        return super().key(method, params)


@mutant("caching.client.negative-is-zero", KEEPS, ODDLY, over="stdio")
class TakesNegativeForItsDefault(RawStateless):
    def lifetime(self, result: Message) -> float:
        found = super().lifetime(result)
        return 300.0 if found < 0 else found


@mutant("caching.client.zero-is-stale", KEEPS, ODDLY)
class TakesZeroForItsDefault(RawStateless):
    def lifetime(self, result: Message) -> float:
        return float(result.get("ttlMs") or 60_000) / 1000


@mutant("caching.client.zero-is-stale", KEEPS, ODDLY, over="stdio")
class TakesZeroForAnHour(RawStateless):
    def lifetime(self, result: Message) -> float:
        return 3600.0 if result.get("ttlMs") == 0 else super().lifetime(result)


@mutant("caching.client.refetch-when-stale", KEEPS, ODDLY, over="stdio")
class KeepsUntilItIsTold(RawStateless):
    def lifetime(self, result: Message) -> float:
        return float("inf") if result.get("ttlMs", 0) > 0 else 0.0


POLLS = {"caching.client.not-a-poll-interval": "it polls"}


@mutant("caching.client.poll-with-jitter", KEEPS, ODDLY, also=POLLS)
class PollsWithAHairOfJitter(Polls):
    count = 0

    async def again(self, method: str, params: Message, lifetime: float) -> None:
        self.count += 1
        await super().again(method, params, lifetime * (1 + 0.01 * (self.count % 3)))


@mutant("caching.client.not-a-poll-interval", KEEPS, ODDLY, over="stdio", also=JITTER)
class PollsALaunchedServer(Polls):
    pass


@mutant("caching.client.no-mrtr-results", KEEPS, ROUNDS, over="stdio")
class KeepsWhatWasAskedOfALaunchedServer(RawStateless):
    def keep(self, method: str, params: Message, reply: Any, *, is_asked: bool) -> None:
        super().keep(method, params, reply, is_asked=False)


@mutant("caching.client.no-mrtr-results", KEEPS, ROUNDS)
class KeepsAnsweredResourcesForADay(RawStateless):
    def keep(self, method: str, params: Message, reply: Any, *, is_asked: bool) -> None:
        super().keep(method, params, reply, is_asked=is_asked)
        if method == "resources/read" and is_asked:
            until = asyncio.get_running_loop().time() + 86_400
            self.kept[self.key(method, params)] = (until, reply)


@mutant("caching.client.notification-invalidates", KEEPS, "TellsListeners", over="stdio")
class KeepsPromptsOfALaunchedServer(RawStateless):
    def heed(self, message: Message) -> None:
        if message["method"] != "notifications/prompts/list_changed":
            super().heed(message)


# -- questions


@mutant("elicitation.client.no-open-without-consent", ROUNDS, over="stdio")
class OpensDeclinedPagesOfALaunchedServer(Visits):
    async def visit(self, url: str) -> None:
        async def later() -> None:
            await asyncio.sleep(0.1)
            await Visits.visit(self, url)

        self.spawn(later())

    async def finish(self) -> None:
        await asyncio.sleep(0.3)


class _RetryId(RawStateless):
    """Repeats a request under the id of the first one, where the result was of a kind."""

    member = ""

    def message(self, method: str, params: Message) -> Message:
        found = super().message(method, params)
        if self.member in params:
            self.number -= 1
            found["id"] = self.number
        return found


@mutant("mrtr.client.new-id", ROUNDS, over="stdio")
class RepeatsItsIdWithAnswers(_RetryId):
    member = "inputResponses"


@mutant("mrtr.client.new-id", ROUNDS)
class RepeatsItsIdWithAState(_RetryId):
    member = "requestState"


faults(
    mutant("sampling.tool-choice.none", ROUNDS, over="stdio"),
    UsesOneToolAnyway=altering(Model, mode="none", content=USE),
)


@mutant("sampling.max-tokens-respected", ROUNDS, over="stdio")
class TalksWithoutEndBesideATool(Model):
    content: ClassVar[Any] = [{"type": "text", "text": "so " * 600}, USE]


def undeclared(area: str, method: str, result: Message, capabilities: Message) -> None:
    """Register a client that declares something like it, and answers."""

    class Answers(RawStateless):
        async def result(self, asked: str, params: Message) -> Message:
            return result if asked == method else await super().result(asked, params)

    Answers.capabilities = capabilities
    Answers.__name__ = f"Answers{area.title()}AsAnExperiment"
    mutant(f"{area}.capability-per-request", UNDECLARED, over="stdio")(Answers)


DECLARED = RawStateless.capabilities
for area, method, found in (
    ("roots", "roots/list", {"roots": [{"uri": "file:///srv"}]}),
    ("sampling", "sampling/createMessage", SAID),
    ("elicitation", "elicitation/create", {"action": "cancel"}),
):
    undeclared(area, method, found, {**without(area)(DECLARED), "experimental": {area: {}}})

few(
    "a client goes on or it stops there: what else it makes of this is not seen",
    "prompts.content.resource-link-accepted",
)
