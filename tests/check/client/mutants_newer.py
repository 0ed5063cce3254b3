"""Clients of 2025-11-25 with one fault each."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from check.client.mutants import UNBREAKABLE
from check.client.raw import Gone, Message
from check.client.raw_newer import RELATED, TERMINAL, RawNewer, Refused
from check.client.registering import Says, mutant, put, without
from check.client.registering import says as all_say
from check.faults import altering, faults, named

HOSTS, RUNS = "StartsTasksAtTheClient", "RunsToolsAsTasks"
MODES, UNDECLARED = "AsksInNewerModes", "AsksInUndeclaredModes"


class Newer(Says, RawNewer):
    """Changes what it says."""


says = partial(all_say, base=Newer)


# -- questions


class _Declares(RawNewer):
    capabilities: ClassVar[Message] = {
        "sampling": {"tools": {}},
        "elicitation": {"form": {}},
    }

    async def tell_roots(self) -> None:
        pass


@mutant("elicitation.error.undeclared-mode", UNDECLARED)
class DeclinesUndeclaredPages(_Declares):
    async def elicited(self, params: Message) -> Message:
        return {"action": "decline"}


@mutant("elicitation.error.undeclared-mode", UNDECLARED)
class RefusesPagesWithAnotherCode(_Declares):
    async def elicited(self, params: Message) -> Message:
        if params.get("mode") == "url":
            raise Refused(-32601)
        return await super().elicited(params)


@mutant("elicitation.error.undeclared-mode", UNDECLARED)
class FillsUndeclaredForms(_Declares):
    capabilities: ClassVar[Message] = {"elicitation": {"url": {}}}

    async def elicited(self, params: Message) -> Message:
        return {"action": "cancel"}


@mutant("sampling.tools.capability", UNDECLARED)
class UsesToolsUndeclared(_Declares):
    capabilities: ClassVar[Message] = {"sampling": {}, "elicitation": {"form": {}}}

    def check_tools(self, params: Message) -> None:
        pass


class _Untasked(_Declares):
    """Answers a request that is to become a task, although it declared no tasks."""

    async def result(self, method: str, params: Message) -> Message:
        if "task" in params:
            return self.tasked(method, params)
        return await super().result(method, params)

    def tasked(self, method: str, params: Message) -> Message:
        raise Refused(-32602)


faults(mutant("tasks.undeclared.ignored", UNDECLARED), RefusesTasksUndeclared=altering(_Untasked))


@mutant("tasks.undeclared.ignored", UNDECLARED)
class KnowsNoTasks(_Untasked):
    def tasked(self, method: str, params: Message) -> Message:
        raise Refused(-32601)


@mutant("tasks.undeclared.ignored", UNDECLARED, also={
    "tasks.capability.declared": "it takes a task without a declaration",
})  # fmt: skip
class HostsTasksUndeclared(_Untasked):
    def tasked(self, method: str, params: Message) -> Message:
        return self.host(method, without("task")(params))


class _Visits(RawNewer):
    async def visit(self, url: str) -> None:
        async with self.http.get(url):
            pass

    async def elicited(self, params: Message) -> Message:
        if params.get("mode") == "url":
            await self.visit(str(params["url"]))
        return await super().elicited(params)


faults(mutant("elicitation.client.no-prefetch", MODES), LooksFirst=altering(_Visits))


@mutant("elicitation.client.no-open-without-consent", MODES)
class OpensAnyway(_Visits):
    async def visit(self, url: str) -> None:
        async def later() -> None:
            await asyncio.sleep(0.1)
            await _Visits.visit(self, url)

        self.spawn(later())


@mutant("elicitation.complete.unknown-ignored", MODES)
class FallsOverCompletions(RawNewer):
    is_deaf = False

    def heed(self, message: Message) -> None:
        self.is_deaf = self.is_deaf or message["method"].endswith("elicitation/complete")
        if not self.is_deaf:
            super().heed(message)


@mutant("elicitation.complete.unknown-ignored", MODES)
class FallsOverTheSecondCompletion(RawNewer):
    count = 0

    def heed(self, message: Message) -> None:
        self.count += message["method"].endswith("elicitation/complete")
        if self.count < 3:
            super().heed(message)


@mutant("elicitation.mode.absent-is-form", MODES)
class WantsAMode(RawNewer):
    async def elicited(self, params: Message) -> Message:
        if "mode" not in params:
            raise Refused(-32602)
        return await super().elicited(params)


@mutant("elicitation.result.url-no-content", MODES)
class FillsPagesIn(RawNewer):
    async def elicited(self, params: Message) -> Message:
        if params.get("mode") == "url":
            return {"action": "accept", "content": {"done": True}}
        return await super().elicited(params)


@mutant("sampling.tool-choice.required", MODES)
class IgnoresTheChoice(RawNewer):
    async def result(self, method: str, params: Message) -> Message:
        return await super().result(method, without("toolChoice")(params))


def unchecked(id: str, code: int | None, *, is_mixed: bool) -> None:
    """Register a client that answers tool results amiss otherwise than by -32602."""

    class Answers(RawNewer):
        def check_tools(self, params: Message) -> None:
            has_mixed = any("And tomorrow?" in json.dumps(each) for each in params["messages"])
            try:
                super().check_tools(params)
            except Refused:
                if has_mixed is not is_mixed:
                    raise
                if code is not None:
                    raise Refused(code) from None

    mutant(id, MODES)(named(f"Answers{code or 'Anything'}", Answers))


for code in (None, -32603, -32600):
    unchecked("sampling.error.missing-tool-result", code, is_mixed=False)
    unchecked("sampling.error.mixed-tool-results", code, is_mixed=True)

# -- messages

says(
    "jsonrpc.response.result-member",
    "SendsEveryRequest",
    answers_pings_with_null=lambda m: {**m, "result": None} if m.get("result") == {} else m,
    answers_pings_with_true=lambda m: {**m, "result": True} if m.get("result") == {} else m,
    answers_pings_with_a_list=lambda m: {**m, "result": []} if m.get("result") == {} else m,
)
says(
    "jsonrpc.error.id-echoed-or-unreadable",
    "SendsInvalidRequests",
    complains_without_an_id=lambda m: (m, without("id")(m)) if "error" in m else m,
    complains_under_null=lambda m: (m, {**m, "id": None}) if "error" in m else m,
    complains_under_another_id=lambda m: (m, {**m, "id": "another"}) if "error" in m else m,
)


@mutant("lifecycle.initialized.sent", revisions=("2025-06-18",))
class IsNeverReadyForAnEarlierRevision(RawNewer):
    def takes(self, revision: Any) -> bool:
        return revision in (self.revision, "2025-06-18")

    async def say(self, message: Any) -> None:
        if message.get("method") != "notifications/initialized":
            await super().say(message)


@mutant("http.sse.client-honours-retry", "DropsStreams")
class HurriesBack(RawNewer):
    async def take(self, response: Any) -> None:
        if "event-stream" not in response.headers.get("Content-Type", ""):
            await super().take(response)
            return
        last = await self.follow(response)
        if last is not None:
            heads = {**self.head("GET"), **self.resuming(last[0])}
            async with await self.request("GET", heads, None) as again:
                await self.follow(again)


@mutant("http.sse.client-honours-retry", "DropsStreams")
class TakesSecondsForMilliseconds(RawNewer):
    async def follow(self, response: Any) -> Any:
        last = await super().follow(response)
        return last and (last[0], last[1] / 1000)


LOST = {"http.sse.resume-by-get-any-origin": "the stream of a POST is not resumed either"}


@mutant("http.sse.client-polls-after-close", "DropsStreams", also=LOST)
class GivesStreamsUp(RawNewer):
    async def follow(self, response: Any) -> Any:
        await super().follow(response)


faults(
    mutant(
        "http.compat.sse-fallback-statuses",
        "SpeaksOnlySseWith405",
        "SpeaksOnlySseWith404",
        "SpeaksOnlySseWith400",
    ),
    FallsBackOn405=altering(RawNewer, falls_back_on=(405,)),
    FallsBackOn404=altering(RawNewer, falls_back_on=(404, 405)),
)


@mutant("stdio.stderr-not-an-error-signal", "WritesToStderr", over="stdio")
class FailsOnStderr(RawNewer):
    async def finish(self) -> None:
        # In place of its stderr: what the relay has to write there.
        with contextlib.suppress(TimeoutError):
            told = await asyncio.wait_for(self.relay_commands.readline(), 0.3)
            if told.startswith(b"stderr"):
                raise Gone


# -- tasks that the client runs


def hosted(id: str, also: dict[str, str] | None = None, **changes: Any) -> None:
    """Register faults in the tasks that a client creates."""
    for name, change in changes.items():

        def new_task(self: Any, do: Any = change) -> Message:
            return dict(do(RawNewer.new_task(self)))

        mutant(id, HOSTS, also=also)(type(name, (RawNewer,), {"new_task": new_task}))


hosted(
    "tasks.times.created-at",
    does_not_say_when=without("createdAt"),
    says_when_in_seconds=put("createdAt", 1764065000),
    says_when_in_words=put("createdAt", "yesterday"),
)
hosted(
    "tasks.times.last-updated-at",
    does_not_say_since_when=without("lastUpdatedAt"),
    says_since_when_in_seconds=put("lastUpdatedAt", 1764065000),
    says_since_when_in_words=put("lastUpdatedAt", "now"),
)
hosted(
    "tasks.status.starts-working",
    submits_tasks=put("status", "input_required"),
)


def serving(id: str, also: dict[str, str] | None = None, **changes: Any) -> None:
    """Register faults in how a client serves `tasks/*`: what it serves instead."""
    for name, change in changes.items():

        async def serve_task(self: Any, method: str, params: Message, do: Any = change) -> Message:
            found: Message = await do(self, method, params)
            return found

        mutant(id, HOSTS, also=also)(type(name, (RawNewer,), {"serve_task": serve_task}))


def changing(method: str, change: Callable[[Message], Message]) -> Any:
    async def serve(self: Any, called: str, params: Message) -> Message:
        found = await RawNewer.serve_task(self, called, params)
        return change(found) if called == method else found

    return serve


def refusing(method: str, code: int) -> Any:
    """Refuse in another way what a correct client refuses."""

    async def serve(self: Any, called: str, params: Message) -> Message:
        try:
            return await RawNewer.serve_task(self, called, params)
        except Refused:
            if called == method:
                raise Refused(code) from None
            raise

    return serve


def pardoning(method: str, result: Message) -> Any:
    """Answer what a correct client refuses."""

    async def serve(self: Any, called: str, params: Message) -> Message:
        try:
            return await RawNewer.serve_task(self, called, params)
        except Refused:
            if called == method:
                return result
            raise

    return serve


serving(
    "tasks.ttl.in-get",
    leaves_the_lifetime_out=changing("tasks/get", without("ttl")),
    says_the_lifetime_as_text=changing("tasks/get", put("ttl", "60000")),
)
serving(
    "tasks.errors.unknown-id",
    knows_no_method_for_unknown_tasks=refusing("tasks/get", -32601),
    fails_for_unknown_tasks=refusing("tasks/result", -32603),
    misses_unknown_tasks=refusing("tasks/result", -32002),
)
serving(
    "tasks.errors.bad-cursor",
    fails_on_cursors=refusing("tasks/list", -32603),
    takes_any_cursor=pardoning("tasks/list", {"tasks": []}),
    misses_cursors=refusing("tasks/list", -32600),
)


async def cancels_ended(self: Any, called: str, params: Message) -> Message:
    task = self.hosted.get(params.get("taskId"))
    if called == "tasks/cancel" and task is not None and task["status"] in TERMINAL:
        return dict(task)
    return await RawNewer.serve_task(self, called, params)


async def refuses_ended(self: Any, called: str, params: Message) -> Message:
    task = self.hosted.get(params.get("taskId"))
    if called == "tasks/cancel" and task is not None and task["status"] in TERMINAL:
        raise Refused(-32603)
    return await RawNewer.serve_task(self, called, params)


serving("tasks.cancel.terminal-32602", cancels_what_has_ended=cancels_ended,
    fails_on_what_has_ended=refuses_ended)  # fmt: skip


async def cancels_later(self: Any, called: str, params: Message) -> Message:
    task = self.hosted.get(params.get("taskId"))
    if called == "tasks/cancel" and task is not None and task["status"] == "working":
        self.outcomes[task["taskId"]].cancel()
        return {**task, "status": "working"}
    return await RawNewer.serve_task(self, called, params)


serving("tasks.cancel.cancelled-before-response", cancels_after_it_answers=cancels_later)
serving(
    "tasks.cancel.cancelled-before-response",
    cancels_with_nothing=changing("tasks/cancel", lambda _: {}),
    also=dict.fromkeys(
        (
            "tasks.times.created-at",
            "tasks.times.last-updated-at",
            "tasks.id.string",
            "tasks.status.valid-transitions",
            "tasks.ttl.in-get",
        ),
        "an empty answer has nothing of a task",
    ),
)


class _Revives(RawNewer):
    """Ends a task that was cancelled as if it had not been."""

    def end(self, task: Message) -> None:
        if task["status"] == "cancelled":
            task["status"] = "completed"
        super().end(task)


@mutant("tasks.cancel.stays-cancelled", HOSTS, also={
    "tasks.status.terminal-final": "a cancelled task has ended",
})  # fmt: skip
class RevivesTasks(_Revives):
    pass


async def never_blocks(self: Any, called: str, params: Message) -> Message:
    if called == "tasks/result" and params["taskId"] in self.hosted:
        task = self.hosted[params["taskId"]]
        if task["status"] == "working":
            related = {RELATED: {"taskId": task["taskId"]}}
            said = {"role": "assistant", "content": {"type": "text", "text": "hello"}}
            return {**said, "model": "parrot", "_meta": related}
    return await RawNewer.serve_task(self, called, params)


serving("tasks.result.blocks-until-terminal", never_blocks_for_a_result=never_blocks)
SAMPLED = dict.fromkeys(
    ("sampling.result.role", "sampling.result.content", "sampling.result.model"),
    "the answer is not the result of sampling",
)
serving(
    "tasks.result.exact",
    also=SAMPLED,
    wraps_results=changing("tasks/result", lambda r: {"result": r, "_meta": r["_meta"]}),
    returns_the_task=changing(
        "tasks/result", lambda r: {"status": "completed", "_meta": r["_meta"]}
    ),
)
serving(
    "tasks.result.related-task",
    leaves_the_task_out=changing("tasks/result", without("_meta")),
    relates_to_another_task=changing("tasks/result", put("_meta", {RELATED: {"taskId": "other"}})),
    relates_by_text=changing("tasks/result", put("_meta", {RELATED: "other"})),
)
serving(
    "tasks.related.not-on-task-ops",
    relates_gets=changing(
        "tasks/get", lambda t: {**t, "_meta": {RELATED: {"taskId": t["taskId"]}}}
    ),
    relates_lists=changing("tasks/list", lambda t: {**t, "_meta": {RELATED: {"taskId": "all"}}}),
)


async def obeys_metadata(self: Any, called: str, params: Message) -> Message:
    related = params.get("_meta", {}).get(RELATED, {}).get("taskId")
    return await RawNewer.serve_task(
        self, called, {**params, "taskId": related or params.get("taskId")}
    )


serving("tasks.related.param-wins", obeys_the_metadata=obeys_metadata)
serving(
    "tasks.list.consistent-with-get",
    lists_no_task=changing("tasks/list", put("tasks", [])),
    lists_the_last_task=changing("tasks/list", lambda r: {"tasks": r["tasks"][1:]}),
)


def starting(id: str, also: dict[str, str] | None = None, **changes: Any) -> None:
    """Register faults in the answers to requests that become tasks."""
    for name, change in changes.items():

        def host(self: Any, method: str, params: Message, do: Any = change) -> Any:
            return do(RawNewer.host(self, method, params))

        mutant(id, HOSTS, also=also)(type(name, (RawNewer,), {"host": host}))


starting(
    "tasks.create.returns-task",
    also=SAMPLED,
    returns_the_fields_alone=lambda found: found["task"],
    returns_an_id=lambda found: {"taskId": found["task"]["taskId"]},
)


@mutant("tasks.create.returns-task", HOSTS)
class AnswersAtOnce(RawNewer):
    async def result(self, method: str, params: Message) -> Message:
        return await super().result(method, without("task")(params))


class _Counts(RawNewer):
    """Numbers its tasks."""

    form = "{}"

    def new_task(self) -> Message:
        return {**super().new_task(), "taskId": self.form.format(len(self.hosted) + 1)}


faults(
    mutant("tasks.security.unguessable-ids", HOSTS),
    CountsItsTasks=altering(_Counts),
    CountsItsTasksAtLength=altering(_Counts, form="task-of-the-client-{:06}"),
)


@mutant("tasks.id.unique", HOSTS)
class HasOneTask(_Counts):
    form = "the-one-task-of-this-client"


@mutant("tasks.id.string", HOSTS)
class NumbersItsTasks(RawNewer):
    def new_task(self) -> Message:
        return {**super().new_task(), "taskId": 40_000_000_000_001 + len(self.hosted)}


@mutant("tasks.status.valid-transitions", HOSTS, also={
    "tasks.result.blocks-until-terminal": "a status of its own is not terminal",
})  # fmt: skip
class EndsInItsOwnWay(RawNewer):
    def end(self, task: Message) -> None:
        if task["status"] not in TERMINAL:
            task["status"] = "done"


@mutant("tasks.errors.status-message", HOSTS)
class FailsInSilence(RawNewer):
    def end(self, task: Message) -> None:
        if task["status"] not in TERMINAL:
            task["status"] = "failed"


# -- tasks that the client starts


faults(
    mutant("tasks.poll-interval-respected", RUNS),
    PollsAtOnce=altering(RawNewer, pause=lambda self, task: 0.0),
    PollsTwiceAsOften=altering(RawNewer, pause=lambda self, task: RawNewer.pause(self, task) / 2),
)
faults(
    mutant("tasks.notify.not-relied-on", RUNS),
    WaitsForNews=altering(RawNewer, wait_for=lambda self, task: asyncio.sleep(1)),
)


@mutant("tasks.notify.not-relied-on", RUNS)
class TakesTasksForResults(RawNewer):
    async def wait_for(self, task: Message) -> Any:
        return {"result": task}


@mutant("tasks.poll-until-terminal", RUNS)
class AsksOnce(RawNewer):
    async def wait_for(self, task: Message) -> Any:
        await asyncio.sleep(0.2)
        return await self.ask("tasks/get", {"taskId": task["taskId"]})


@mutant("tasks.input.requestor-calls-result", RUNS)
class PollsThroughQuestions(RawNewer):
    async def wait_for(self, task: Message) -> Any:
        id = task["taskId"]
        while task.get("status") in ("working", "input_required"):
            await asyncio.sleep(0.2)
            task = (await self.ask("tasks/get", {"taskId": id}) or {}).get("result", {})
        return task


class _Calls(RawNewer):
    """Calls a tool once more, in its own way."""

    params: ClassVar[Message] = {}

    needs = "tasks"

    async def tell_roots(self) -> None:
        arguments = {"name": "add", "arguments": {"a": 1, "b": 2}}
        if self.offers(self.needs):
            await self.ask("tools/call", {**arguments, **self.params})


@mutant("tasks.tool.forbidden-not-tasked", RUNS)
class RunsAnyToolAsATask(_Calls):
    params: ClassVar[Message] = {"task": {"ttl": 60_000}}


faults(
    mutant("tasks.tool.required-tasked", RUNS),
    NeverRunsTasks=altering(RawNewer, as_task=lambda self, message: message),
)


@mutant("tasks.tool.no-capability-no-task")
class RunsTasksAnywhere(RunsAnyToolAsATask):
    needs = "tools"


@mutant("tasks.tool.no-capability-no-task")
class AsksForATaskWithoutALifetime(RunsTasksAnywhere):
    params: ClassVar[Message] = {"task": {}}


@mutant("cancellation.not-for-tasks-2025", RUNS)
class CancelsTasksAsRequests(RawNewer):
    async def wait_for(self, task: Message) -> Any:
        id = self.number
        await asyncio.sleep(1.3)
        await self.give_up(id)
        return await super().wait_for(task)


class _Relates(RawNewer):
    async def ask(self, method: str, params: Message | None = None) -> Any:
        if method == self.method:
            params = {**(params or {}), "_meta": {RELATED: {"taskId": (params or {})["taskId"]}}}
        return await super().ask(method, params)

    method = "tasks/get"


faults(mutant("tasks.related.not-on-task-ops", RUNS), RelatesItsGets=altering(_Relates))


@mutant("tasks.related.everywhere", RUNS)
class AnswersWithoutTheTask(RawNewer):
    async def elicited(self, params: Message) -> Message:
        return without("_meta")(await super().elicited(params))


@mutant("tasks.related.everywhere", RUNS)
class AnswersForAnotherTask(RawNewer):
    async def elicited(self, params: Message) -> Message:
        found = await super().elicited(params)
        return {**found, "_meta": {RELATED: {"taskId": "another"}}} if "_meta" in found else found


UNBREAKABLE |= {
    "caching.client.positive-is-fresh": "to fetch again what is fresh is allowed",
    "http.headers.names-case-insensitive": "a client that misses our small letters gets nowhere",
    "http.post.metadata-headers": "each of these headers has a requirement of its own",
    "progress.task.same-token": "a token that is not that of the task is not known to be its own",
    "progress.task.stops-at-terminal": "progress.notification.active-only says the same",
    "resources.read.client-accepts-32002": "a client may end after any error",
    "result.type.absent-means-complete": "it is for servers of earlier revisions, which all accept",
    "stdio.crash.restart": "a client that does not go on may not need to",
    "tasks.capability.none-no-tasks": "tasks.tool.no-capability-no-task says the same",
    "tasks.capability.requestor-respects": "tasks.tool.no-capability-no-task says the same",
    "tasks.create.promptly": "a long time cannot be distinguished from a slow client",
    "tasks.http.any-stream": "an answer that is late is not one that was not heard",
    "tasks.id.receiver-generated": "where an id was made up is not seen",
    "tasks.list.next-cursor": "a list that ends early is tasks.list.consistent-with-get",
    "tasks.list.paginated": "how many tasks fill a page is a choice",
}
