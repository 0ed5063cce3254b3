"""Clients of 2026-07-28 with one fault each in what they do over time."""

import asyncio
import json
from typing import Any, ClassVar

from check.client.mutants_stateless import says
from check.client.raw import Gone, Message
from check.client.raw_stateless import LOST, P, RawDual, RawStateless
from check.client.registering import Change, mutant, on, params, put, without
from check.faults import altering, faults, nothing

TASK = "RunsToolsAsExtensionTasks"

# -- tasks of the extension


faults(
    mutant("tasks-ext.client.poll-interval", TASK),
    PollsAtOnce=altering(RawStateless, pause=lambda self, task: 0.0),
    PollsTwiceAsOften=altering(
        RawStateless, pause=lambda self, task: RawStateless.pause(self, task) / 2
    ),
    TakesMillisecondsForMore=altering(
        RawStateless, pause=lambda self, task: RawStateless.pause(self, task) / 1000
    ),
)


@mutant("tasks-ext.create.client-handles-both", TASK)
class TakesATaskForAResult(RawStateless):
    async def follow_task(self, method: str, task: Message) -> Any:
        return {"result": task}


@mutant("tasks-ext.create.client-handles-both", TASK)
class FailsOnTasks(RawStateless):
    async def follow_task(self, method: str, task: Message) -> Any:
        raise Gone


@mutant("tasks-ext.create.client-handles-both", TASK)
class WaitsForTasksInSilence(RawStateless):
    async def follow_task(self, method: str, task: Message) -> Any:
        await asyncio.sleep(1)


@mutant("tasks-ext.client.poll-until-terminal", TASK)
class AsksForATaskOnce(RawStateless):
    async def follow_task(self, method: str, task: Message) -> Any:
        if method == "tools/call":
            await asyncio.sleep(0.2)
            return await self.exchange("tasks/get", {"taskId": task["taskId"]})
        return None


@mutant("tasks-ext.client.poll-until-terminal", TASK)
class StopsAtQuestions(RawStateless):
    async def follow_task(self, method: str, task: Message) -> Any:
        while method == "tools/call" and task.get("status") == "working":
            await asyncio.sleep(0.2)
            reply = await self.exchange("tasks/get", {"taskId": task["taskId"]})
            task = (reply or {}).get("result", {})


faults(
    mutant("tasks-ext.client.inspects-input-requests", TASK),
    IgnoresQuestionsOfTasks=altering(RawStateless, update=nothing),
    AnswersTasksByCalls=altering(
        RawStateless,
        update=lambda self, task, questions: self.exchange("prompts/get", {"name": "greet"}),
    ),
)


@mutant("tasks-ext.client.dedupe-keys", TASK, also={
    "tasks-ext.update.keys-outstanding": "a question that was answered is no longer open",
})  # fmt: skip
class AnswersTwice(RawStateless):
    async def follow_task(self, method: str, task: Message) -> Any:
        while method == "tools/call":
            await asyncio.sleep(0.2)
            reply = await self.exchange("tasks/get", {"taskId": task["taskId"]})
            now = (reply or {}).get("result", {})
            if now.get("status") != "input_required" and now.get("status") != "working":
                return reply
            await self.update(task["taskId"], now.get("inputRequests", {}))
        return None


@mutant("tasks-ext.create.only-tools-call", TASK)
class FollowsEveryTask(RawStateless):
    async def follow_task(self, method: str, task: Message) -> Any:
        return await super().follow_task("tools/call", task)


@mutant("tasks-ext.create.only-tools-call", TASK)
class AsksForATaskOfAResource(RawStateless):
    async def follow_task(self, method: str, task: Message) -> Any:
        if method == "resources/read":
            return await self.exchange("tasks/get", {"taskId": task["taskId"]})
        return await super().follow_task(method, task)


says(
    "tasks-ext.update.keys-outstanding",
    TASK,
    answers_what_a_task_did_not_ask=on(
        "tasks/update",
        params(lambda p: {**p, "inputResponses": {**p["inputResponses"], "more": {}}}),
    ),
    answers_a_task_in_capitals=on(
        "tasks/update",
        params(lambda p: {**p, "inputResponses": {**p["inputResponses"], "FORM": {}}}),
    ),
)
ABLE = f"{P}clientCapabilities"


def forgets(*names: str) -> Change:
    def changed(given: Message) -> Message:
        meta = {**given["_meta"], ABLE: without(*names)(given["_meta"][ABLE])}
        return {**given, "_meta": meta}

    return params(changed)


says(
    "tasks-ext.capability.client-per-request",
    TASK,
    forgets_the_extension_on_gets=on("tasks/get", forgets("extensions")),
    forgets_the_extension_on_updates=on("tasks/update", forgets("extensions")),
)


@mutant("tasks-ext.cancel.not-by-notification", TASK, over="stdio")
class CancelsTasksAsRequests(RawStateless):
    async def follow_task(self, method: str, task: Message) -> Any:
        if method == "tools/call":
            id = self.number
            await asyncio.sleep(1.2)
            await self.give_up(id)
            await self.exchange("tasks/cancel", {"taskId": task["taskId"]})


@mutant("extensions.one-sided-fallback")
class AsksForTasksAnywhere(RawStateless):
    async def finish(self) -> None:
        await self.exchange("tasks/get", {"taskId": "of-another-server"})


@mutant("extensions.one-sided-fallback")
class CancelsTasksAnywhere(RawStateless):
    async def finish(self) -> None:
        await self.exchange("tasks/cancel", {"taskId": "of-another-server"})


# -- results


@mutant("result.type.unknown-is-invalid", "ReturnsUnknownResultTypes")
class TakesTheUnknownForATask(RawStateless):
    def kind_of(self, result: Message) -> str:
        kind = super().kind_of(result)
        return kind if kind in ("complete", "input_required") else "task"

    def pause(self, task: Message) -> float:
        return 0.1


@mutant("result.type.unknown-is-invalid", "ReturnsUnknownResultTypes")
class TakesTheUnknownForAQuestion(RawStateless):
    async def ask(self, method: str, params: Message | None = None) -> Any:
        reply = await self.exchange(method, params or {})
        if (reply or {}).get("result", {}).get("resultType", "complete") != "complete":
            return await self.exchange(method, {**(params or {}), "requestState": "none"})
        return reply


ODD = "ReturnsUnusualResults"


class Stops(RawStateless):
    """Stops where something is not as it expects it."""

    at = ""

    async def ask(self, method: str, params: Message | None = None) -> Any:
        reply = await super().ask(method, params)
        if method == self.at and self.is_odd(reply or {}):
            raise Gone
        return reply

    def is_odd(self, reply: Message) -> bool:
        return "error" in reply


@mutant("tools.output-schema.any-type", ODD)
class WantsObjectsFromTools(Stops):
    at = "tools/list"

    def is_odd(self, reply: Message) -> bool:
        tools = reply.get("result", {}).get("tools", [])
        return any(each.get("outputSchema", {}).get("type", "object") != "object" for each in tools)


@mutant("tools.output-schema.any-type", ODD, over="stdio")
class WantsOneType(Stops):
    at = "tools/list"

    def is_odd(self, reply: Message) -> bool:
        tools = reply.get("result", {}).get("tools", [])
        return any(isinstance(each.get("outputSchema", {}).get("type"), list) for each in tools)


@mutant("tools.structured-content.any-json", ODD)
class WantsStructuredObjects(Stops):
    at = "tools/call"

    def is_odd(self, reply: Message) -> bool:
        return isinstance(reply.get("result", {}).get("structuredContent"), list)


@mutant("tools.structured-content.any-json", ODD)
class WantsMoreThanNull(Stops):
    at = "tools/call"

    def is_odd(self, reply: Message) -> bool:
        return reply.get("result", {}).get("structuredContent", 0) is None


faults(
    mutant("prompts.content.resource-link-accepted", ODD),
    KnowsNoLinks=altering(
        Stops, at="prompts/get", is_odd=lambda self, reply: "resource_link" in json.dumps(reply)
    ),
)


@mutant("pagination.empty-cursor-is-a-cursor", ODD)
class TakesAnEmptyCursorForTheEnd(RawStateless):
    def next_cursor(self, reply: Message | None) -> Any:
        return super().next_cursor(reply) or None


@mutant("pagination.empty-cursor-is-a-cursor", ODD, over="stdio")
class TakesShortCursorsForTheEnd(RawStateless):
    def next_cursor(self, reply: Message | None) -> Any:
        cursor = super().next_cursor(reply)
        return cursor if cursor is not None and len(cursor) > 1 else None


@mutant("caching.client.bad-cursor-discards-pages", ODD)
class SendsABadCursorAgain(RawStateless):
    async def ask(self, method: str, params: Message | None = None) -> Any:
        reply = await super().ask(method, params)
        if reply is not None and "error" in reply and "cursor" in (params or {}):
            return await super().ask(method, params)
        return reply


@mutant("schema.ref.no-network-fetch", ODD)
class FetchesSchemas(RawStateless):
    def callable(self, tools: list[Message]) -> list[Message]:
        for tool in tools:
            for each in tool["inputSchema"].get("properties", {}).values():
                if "$ref" in each:
                    self.spawn(self.fetch(each["$ref"]))
        return super().callable(tools)

    async def fetch(self, url: str) -> None:
        if self.http is not None:
            async with self.http.get(url):
                return
        port = int(url.rpartition(":")[2].partition("/")[0])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"GET /schema.json HTTP/1.1\r\n\r\n")
            await asyncio.sleep(0.05)
        finally:
            writer.close()
            await writer.wait_closed()


mutant("schema.ref.no-network-fetch", ODD, over="stdio")(FetchesSchemas)

ICONS = "OffersIcons"


class Fetches(RawStateless):
    wanted: ClassVar[tuple[str, ...]] = ("/icon",)
    heads: ClassVar[dict[str, str]] = {}
    follows = False

    def callable(self, tools: list[Message]) -> list[Message]:
        for icon in tools[0].get("icons", []):
            if icon["src"].endswith(self.wanted):
                self.spawn(self.fetch(icon["src"]))
        return super().callable(tools)

    async def fetch(self, url: str) -> None:
        kept = {"headers": self.heads, "allow_redirects": self.follows}
        async with self.http.get(url, **kept):
            pass


PLAIN = {"icons.consumer.reject-unsafe-scheme": "the icon is fetched over http"}
faults(
    mutant("icons.consumer.reject-unsafe-scheme", ICONS), FetchesIconsInTheOpen=altering(Fetches)
)
faults(
    mutant("icons.consumer.no-credentials", ICONS, also=PLAIN),
    ShowsItsTokenToIcons=altering(Fetches, heads={"Authorization": "Bearer mine"}),
    SendsCookiesToIcons=altering(Fetches, heads={"Cookie": "seen=1"}),
)
faults(
    mutant("icons.consumer.no-cross-origin-redirect", ICONS, also=PLAIN),
    FollowsIcons=altering(Fetches, wanted=("/icon-moved",), follows=True),
)


@mutant("icons.consumer.same-origin", ICONS)
class FetchesForeignIcons(Fetches):
    wanted: ClassVar[tuple[str, ...]] = ("/icon-of-another",)


# -- keeping results

KEEPS, ODDLY = "LetsResultsBeKept", "NamesOddLifetimes"
faults(
    mutant("caching.client.key", KEEPS),
    KeepsByMethod=altering(RawStateless, key=lambda self, method, params: json.dumps([method, {}])),
    IgnoresTheUri=altering(
        RawStateless,
        key=lambda self, method, params: RawStateless.key(self, method, without("uri")(params)),
    ),
)


@mutant("caching.client.absent-is-zero", KEEPS, ODDLY)
class KeepsWithoutALifetime(RawStateless):
    def lifetime(self, result: Message) -> float:
        return float(result.get("ttlMs", 60_000)) / 1000


@mutant("caching.client.absent-is-zero", KEEPS, ODDLY)
class KeepsForeverWithoutALifetime(RawStateless):
    def lifetime(self, result: Message) -> float:
        return float(result["ttlMs"]) / 1000 if "ttlMs" in result else float("inf")


@mutant("caching.client.negative-is-zero", KEEPS, ODDLY)
class TakesALifetimeWithoutItsSign(RawStateless):
    def lifetime(self, result: Message) -> float:
        return float(result.get("ttlMs", 0) % 2**32) / 1000


@mutant("caching.client.negative-is-zero", KEEPS, ODDLY)
class KeepsForeverIfNegative(RawStateless):
    def lifetime(self, result: Message) -> float:
        found = super().lifetime(result)
        return float("inf") if found < 0 else found


@mutant("caching.client.zero-is-stale", KEEPS, ODDLY)
class TakesZeroForForever(RawStateless):
    def lifetime(self, result: Message) -> float:
        return float("inf") if result.get("ttlMs") == 0 else super().lifetime(result)


@mutant("caching.client.refetch-when-stale", KEEPS, ODDLY)
class KeepsALittleLonger(RawStateless):
    def lifetime(self, result: Message) -> float:
        return super().lifetime(result) * 1000 if result.get("ttlMs", 0) > 0 else 0.0


@mutant("caching.client.refetch-when-stale", KEEPS, ODDLY)
class TakesMillisecondsForSeconds(RawStateless):
    def lifetime(self, result: Message) -> float:
        return max(0.0, float(result.get("ttlMs", 0)))


class Polls(RawStateless):
    """Fetches lists again when they run out."""

    def keep(self, method: str, params: Message, reply: Any, *, is_asked: bool) -> None:
        super().keep(method, params, reply, is_asked=is_asked)
        lifetime = self.lifetime((reply or {}).get("result", {}))
        if method == "prompts/list" and 0 < lifetime < 5:
            self.spawn(self.again(method, params, lifetime))

    async def again(self, method: str, params: Message, lifetime: float) -> None:
        await asyncio.sleep(lifetime)
        self.kept.clear()
        await self.ask(method, params)


JITTER = {"caching.client.poll-with-jitter": "it polls without jitter"}


@mutant("caching.client.not-a-poll-interval", KEEPS, ODDLY, also=JITTER)
class PollsEvenly(Polls):
    pass


@mutant("caching.client.not-a-poll-interval", KEEPS, ODDLY)
class PollsUnevenly(Polls):
    count = 0

    async def again(self, method: str, params: Message, lifetime: float) -> None:
        self.count += 1
        await super().again(method, params, lifetime * (1.1 + 0.1 * (self.count % 3)))


@mutant("caching.client.poll-with-jitter", KEEPS, ODDLY, also={
    "caching.client.not-a-poll-interval": "it polls",
})  # fmt: skip
class PollsOften(Polls):
    async def again(self, method: str, params: Message, lifetime: float) -> None:
        await asyncio.sleep(0.15)
        self.kept.clear()
        await self.ask(method, params)


@mutant("caching.client.no-mrtr-results", KEEPS, "AsksInRounds")
class KeepsAnswersToAnswers(RawStateless):
    def keep(self, method: str, params: Message, reply: Any, *, is_asked: bool) -> None:
        super().keep(method, params, reply, is_asked=False)


faults(
    mutant("caching.client.notification-invalidates", KEEPS, "TellsListeners"),
    KeepsWhatChanged=altering(RawStateless, heed=lambda self, message: None),
)


@mutant("caching.client.notification-invalidates", KEEPS, "TellsListeners")
class ForgetsToolsAlone(RawStateless):
    def heed(self, message: Message) -> None:
        if message["method"] != "notifications/prompts/list_changed":
            super().heed(message)


# -- listening


@mutant("subscriptions.client-checks-ack", "TellsListeners", over="stdio")
class WantsEverythingAcknowledged(RawStateless):
    is_refused = False

    async def subscribe(self) -> None:
        await super().subscribe()
        await asyncio.sleep(0.05)
        if self.is_refused:
            raise Gone

    def heed(self, message: Message) -> None:
        super().heed(message)
        if message["method"].endswith("acknowledged"):
            self.is_refused = message["params"]["notifications"] != self.filter


@mutant("subscriptions.no-state-across-reconnect", "TellsListeners", also={
    "jsonrpc.id.distinct-among-pending": "the stream of that id was never ended",
    "http.sse.client-reissues-lost-request": "the stream of that id broke",
})  # fmt: skip
class ListensUnderOneId(RawStateless):
    async def subscribe(self) -> None:
        message = self.message("subscriptions/listen", {"notifications": self.filter})
        message["id"] = "listening"
        self.subscriptions.add("listening")
        self.spawn(self.say(message))


faults(
    mutant("stdio.listen.correlate-by-id", "TellsListeners", over="stdio"),
    HearsEveryNotification=altering(RawStateless, is_mine=lambda self, params: True),
    HearsTaggedNotifications=altering(
        RawStateless, is_mine=lambda self, params: f"{P}subscriptionId" in params.get("_meta", {})
    ),
)


# -- failures

SILENT, BROKEN = "NeverAnswersStateless", "BreaksStatelessStreams"
STILL = {
    "stdio.cancel.by-notification": "it cancels in no other way",
    "cancellation.client-sends": "it gives up without a word",
}
faults(
    mutant("timeouts.cancel-on-expiry", SILENT, over="stdio", also=STILL),
    GivesUpWithoutAWord=altering(RawStateless, patience=0.5, give_up=nothing),
)


@mutant("stdio.cancel.by-notification", SILENT, over="stdio", also={
    "timeouts.cancel-on-expiry": "it does not cancel",
    "cancellation.client-sends": "it does not cancel in the way of the transport",
})  # fmt: skip
class CancelsByAnotherName(RawStateless):
    patience = 0.5

    async def give_up(self, id: Any) -> None:
        told = {"jsonrpc": "2.0", "method": "notifications/aborted", "params": {"requestId": id}}
        await self.send(json.dumps(told).encode())


says(
    "cancellation.request-id-required",
    SILENT,
    over="stdio",
    also={"timeouts.cancel-on-expiry": "it cancels nothing", **STILL},
    cancels_nothing=on("notifications/cancelled", put("params", {"reason": "late"})),
)
says(
    "cancellation.reason.optional",
    SILENT,
    over="stdio",
    numbers_its_reason=on("notifications/cancelled", params(put("reason", 7))),
    lists_its_reason=on("notifications/cancelled", params(put("reason", ["late"]))),
)


@mutant("cancellation.names-own-pending", over="stdio")
class CancelsLongAfter(RawStateless):
    async def finish(self) -> None:
        await asyncio.sleep(7)
        await self.give_up(self.number)


@mutant("cancellation.names-own-pending", SILENT, over="stdio")
class CancelsTwice(RawStateless):
    patience = 0.5

    async def give_up(self, id: Any) -> None:
        await super().give_up(id)
        await super().give_up(id)


@mutant("http.sse.client-reissues-lost-request", BROKEN, also={
    "jsonrpc.id.distinct-among-pending": "the first request was never answered",
    "progress.token.unique": "the first request was never answered",
})  # fmt: skip
class ReissuesUnderTheSameId(RawStateless):
    async def exchange(self, method: str, params: Message) -> Any:
        message = self.message(method, params)
        reply = await self.asked_with(message)
        return await self.asked_with(message) if reply is LOST else reply


@mutant("http.sse.client-reissues-lost-request", BROKEN)
class ResumesLostStreams(RawStateless):
    async def recover(self) -> None:
        heads = {"Accept": "text/event-stream", "Last-Event-ID": "1"}
        (await self.request("GET", heads, None)).close()


@mutant("http.sse.comments-ignored", BROKEN)
class ReadsComments(RawStateless):
    def seen(self, chunk: bytes) -> bytes:
        if chunk.startswith(b":"):
            raise Gone
        return chunk

    async def post(self, data: bytes) -> None:
        try:
            await super().post(data)
        except Gone:
            self.lose(json.loads(data).get("id"))
            self.exit_code = 5
            raise

    async def exchange(self, method: str, params: Message) -> Any:
        found = await super().exchange(method, params)
        if self.exit_code:
            raise Gone
        return found


faults(
    mutant("stdio.crash.relisten", "Crashes", over="stdio"),
    DoesNotListenAgain=altering(RawStateless, recover=lambda self: self.launch_again()),
)


@mutant("stateless.client.process-not-conversation", over="stdio")
class StartsAServerForEachRequest(RawStateless):
    async def exchange(self, method: str, params: Message) -> Any:
        if self.number > 1:
            await self.leave()
            self.is_leaving = False
            await self.launch()
        return await super().exchange(method, params)

    async def subscribe(self) -> None:
        pass


# -- eras


faults(
    mutant("versioning.modern-client.stdio-discover-first", over="stdio"),
    ListsFirst=altering(RawStateless, opens_by_discovery=False, subscribe=nothing),
)


@mutant("versioning.modern-client.stdio-discover-first", over="stdio")
class ListensFirst(RawStateless):
    async def opened(self) -> bool:
        await self.subscribe()
        return await super().opened()


@mutant("versioning.unsupported.client-retries", "SpeaksOnlyAnUnknownRevision")
class GoesOnWithItsRevision(RawStateless):
    async def opened(self) -> bool:
        await super().opened()
        return True

    async def list(self, method: str) -> Any:
        await self.ask(method, {})
        return []


ALL: tuple[str, ...] = ()


class _OpensAnyway(RawDual):
    def falls_back(self, code: Any) -> bool:
        return True


@mutant("versioning.modern-error-is-not-legacy", "SpeaksOnlyAnUnknownRevision", revisions=ALL,
    also={"http.compat.sse-fallback-checks-body": "initialize is refused, and it looks further"},
)  # fmt: skip
class OpensUnknownServers(_OpensAnyway):
    pass


@mutant(
    "versioning.modern-error-is-not-legacy",
    "SpeaksOnlyAnUnknownRevision",
    over="stdio",
    revisions=ALL,
)
class OpensUnknownLaunchedServers(_OpensAnyway):
    pass


@mutant("versioning.modern-error-is-not-legacy", "RefusesFirstHeaders", revisions=ALL,
    also={"http.compat.sse-fallback-checks-body": "initialize is refused, and it looks further"},
)  # fmt: skip
class OpensServersThatRefuseHeaders(RawDual):
    def falls_back(self, code: Any) -> bool:
        return code != -32022


@mutant("http.compat.sse-fallback-checks-body", "SpeaksOnlyAnUnknownRevision")
class LooksForTheOlderForm(RawStateless):
    async def opened(self) -> bool:
        if not await super().opened():
            (await self.request("GET", {"Accept": "text/event-stream"}, None)).close()
            return False
        return True


ODD_CODES = ("RefusesDiscoveryWithAnotherCode", "RefusesDiscoveryWithInvalidParams")
faults(
    mutant("stdio.fallback.not-one-code", *ODD_CODES, over="stdio", revisions=ALL),
    FallsBackOnOneCode=altering(RawDual, falls_back=lambda self, code: code == -32601),
    FallsBackOnTwoCodes=altering(RawDual, falls_back=lambda self, code: code in (-32601, -32602)),
)


@mutant("http.compat.client-inspects-400", *ODD_CODES, revisions=ALL)
class FallsBackOnEmptyBodiesAlone(RawDual):
    async def take_body(self, status: int, body: bytes, id: Any) -> None:
        self.was_empty = not body
        await super().take_body(status, body, id)

    was_empty = True

    def falls_back(self, code: Any) -> bool:
        return self.was_empty


@mutant("discover.stdio-probe", over="stdio", revisions=ALL)
class ListsBeforeItProbes(RawDual):
    async def probe(self) -> Any:
        reply = await self.ask("tools/list", {})
        return await self.ask("server/discover", {}) if reply and "result" in reply else reply


@mutant("versioning.era.cached", over="stdio", revisions=ALL)
class ProbesAgain(RawDual):
    async def finish(self) -> None:
        if self.is_legacy:
            self.is_legacy, self.revision = False, "2026-07-28"
            await self.ask("server/discover", {})
            self.is_legacy = True
        await super().finish()
