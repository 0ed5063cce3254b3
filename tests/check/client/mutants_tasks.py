"""Clients of 2025-11-25 with one fault each in tasks: further ways."""

import asyncio
import time
from typing import Any, ClassVar

from check.client.mutants_newer import (
    HOSTS,
    RUNS,
    UNDECLARED,
    changing,
    hosted,
    serving,
    starting,
)
from check.client.raw import Gone, Message
from check.client.raw_newer import RELATED, TERMINAL, RawNewer, Refused
from check.client.registering import mutant, put, without
from check.faults import altering, faults

# -- tasks that the client runs

serving(
    "tasks.cancel.cancelled-before-response",
    is_about_to_cancel=changing("tasks/cancel", put("status", "cancelling")),
    also={"tasks.status.valid-transitions": "there is no such status"},
)


class _Becomes(RawNewer):
    """Turns a task that was cancelled into something else."""

    becomes = ""

    def end(self, task: Message) -> None:
        if task["status"] == "cancelled":
            task["status"] = self.becomes
            task["statusMessage"] = "it was cancelled"
        super().end(task)


FINAL = {"tasks.status.terminal-final": "a cancelled task has ended"}


@mutant("tasks.cancel.stays-cancelled", HOSTS, also=FINAL)
class FailsWhatWasCancelled(_Becomes):
    becomes = "failed"


@mutant("tasks.cancel.stays-cancelled", HOSTS, also=FINAL)
class WorksOnWhatWasCancelled(_Becomes):
    def end(self, task: Message) -> None:
        if task["status"] == "cancelled":
            task["status"] = "working"
        else:
            super().end(task)


def ended(self: Any, called: str, params: Message) -> bool:
    """Tell whether an ended task is to be cancelled."""
    task = self.hosted.get(params.get("taskId"))
    return called == "tasks/cancel" and task is not None and task["status"] in TERMINAL


async def knows_no_ended_task(self: Any, called: str, params: Message) -> Message:
    if ended(self, called, params):
        raise Refused(-32601)
    return await RawNewer.serve_task(self, called, params)


serving("tasks.cancel.terminal-32602", knows_no_ended_task=knows_no_ended_task)


class _Undeclared(RawNewer):
    """Takes a task without a declaration."""

    capabilities: ClassVar[Message] = {"sampling": {}, "elicitation": {"form": {}}}

    async def tell_roots(self) -> None:
        pass

    async def result(self, method: str, params: Message) -> Message:
        if "task" in params:
            return self.host(method, without("task")(params))
        return await super().result(method, params)


IGNORED = {"tasks.undeclared.ignored": "it should answer as if there were no task"}


@mutant("tasks.capability.declared", UNDECLARED, also=IGNORED, over="stdio")
class HostsTasksAsAnExperiment(_Undeclared):
    capabilities: ClassVar[Message] = {"sampling": {}, "experimental": {"tasks": {}}}


@mutant("tasks.capability.declared", UNDECLARED, also=IGNORED)
class DeclaresTasksOfSampling(_Undeclared):
    """Declares tasks within sampling, where they do not belong."""

    capabilities: ClassVar[Message] = {"sampling": {"tasks": {}}}


class _Fails(RawNewer):
    words: ClassVar[Message] = {}

    def end(self, task: Message) -> None:
        if task["status"] not in TERMINAL:
            task |= {"status": "failed", **self.words}


faults(
    mutant("tasks.errors.status-message", HOSTS),
    FailsWithNull=altering(_Fails, words={"statusMessage": None}),
    FailsByAnotherName=altering(_Fails, words={"message": "no model"}),
)


def renamed(id: Any) -> Any:
    return lambda found: {"task": {**found["task"], "taskId": id}}


starting(
    "tasks.id.string",
    lists_its_ids=renamed(["a"]),
    has_null_for_an_id=renamed(None),
)


class _Names(RawNewer):
    """Gives its tasks names of its own."""

    def name(self) -> str:
        raise NotImplementedError

    def new_task(self) -> Message:
        return {**super().new_task(), "taskId": self.name()}


faults(
    mutant("tasks.id.unique", HOSTS),
    NamesTasksByMethod=altering(_Names, name=lambda self: "task-for-sampling/createMessage"),
)


@mutant("tasks.id.unique", HOSTS)
class UsesNamesOfEndedTasks(_Names):
    def name(self) -> str:
        over = [id for id, each in self.hosted.items() if each["status"] in TERMINAL]
        return over[0] if over else str(RawNewer.new_task(self)["taskId"])


faults(
    mutant("tasks.security.unguessable-ids", HOSTS),
    NamesTasksByTime=altering(_Names, name=lambda self: f"task_{time.time_ns() // 1000}"),
)


@mutant("tasks.security.unguessable-ids", HOSTS)
class NamesTasksByMilliseconds(_Names):
    def name(self) -> str:
        now = 1_763_300_000_000 + round(asyncio.get_running_loop().time() * 1000) * 1_111
        return f"{now}"


async def working_only(self: Any, called: str, params: Message) -> Message:
    found = await RawNewer.serve_task(self, called, params)
    if called == "tasks/list":
        return {"tasks": [each for each in found["tasks"] if each["status"] == "working"]}
    return found


serving("tasks.list.consistent-with-get", lists_what_works=working_only)


async def refuses_other_ids(self: Any, called: str, params: Message) -> Message:
    related = params.get("_meta", {}).get(RELATED, {}).get("taskId", params.get("taskId"))
    if related != params.get("taskId"):
        raise Refused(-32602)
    return await RawNewer.serve_task(self, called, params)


async def answers_for_the_metadata(self: Any, called: str, params: Message) -> Message:
    found = await RawNewer.serve_task(self, called, params)
    related = params.get("_meta", {}).get(RELATED, {}).get("taskId")
    return {**found, "taskId": related} if related and "taskId" in found else found


serving(
    "tasks.related.param-wins",
    refuses_other_metadata=refuses_other_ids,
    answers_under_the_metadata=answers_for_the_metadata,
)


async def is_not_ready(self: Any, called: str, params: Message) -> Message:
    task = self.hosted.get(params.get("taskId"))
    if called == "tasks/result" and task is not None and task["status"] == "working":
        raise Refused(-32602)
    return await RawNewer.serve_task(self, called, params)


serving("tasks.result.blocks-until-terminal", refuses_early_results=is_not_ready)


class _GivesOnce(RawNewer):
    """Hands a result out once."""

    def __init__(self, place: Any) -> None:
        super().__init__(place)
        self.given: set[str] = set()

    async def serve_task(self, method: str, params: Message) -> Message:
        id = str(params.get("taskId"))
        if method == "tasks/result" and id in self.given:
            raise Refused(-32602)
        found = await super().serve_task(method, params)
        if method == "tasks/result":
            self.given.add(id)
        return found


mutant("tasks.result.exact", HOSTS)(_GivesOnce)
hosted(
    "tasks.status.starts-working",
    also={"tasks.status.valid-transitions": "there is no such status"},
    queues_tasks=put("status", "queued"),
    has_null_for_a_status=put("status", None),
)


class _Ends(RawNewer):
    becomes = ""

    def end(self, task: Message) -> None:
        if task["status"] not in TERMINAL:
            task["status"] = self.becomes


OWN = {"tasks.result.blocks-until-terminal": "a status of its own is not terminal"}
faults(
    mutant("tasks.status.valid-transitions", HOSTS, also=OWN),
    EndsInCapitals=altering(_Ends, becomes="Completed"),
    EndsAsBritishWriters=altering(_Ends, becomes="canceled"),
)


serving(
    "tasks.ttl.in-get",
    has_an_object_for_a_lifetime=changing("tasks/get", put("ttl", {"seconds": 60})),
)

# -- tasks that the client starts


@mutant("tasks.poll-interval-respected", RUNS)
class PollsFasterInTime(RawNewer):
    count = 0

    def pause(self, task: Message) -> float:
        self.count += 1
        return super().pause(task) if self.count == 1 else 0.05


@mutant("tasks.notify.not-relied-on", RUNS, over="stdio")
class LeavesItsTasks(RawNewer):
    async def wait_for(self, task: Message) -> Any:
        raise Gone


@mutant("tasks.poll-until-terminal", RUNS, over="stdio")
class ListsItsTasksOnce(RawNewer):
    async def wait_for(self, task: Message) -> Any:
        await asyncio.sleep(0.2)
        await self.ask("tasks/get", {"taskId": task["taskId"]})
        return await self.ask("tasks/list", {})


@mutant("tasks.poll-until-terminal", RUNS)
class FailsOnATaskThatWorks(RawNewer):
    async def wait_for(self, task: Message) -> Any:
        await asyncio.sleep(0.2)
        reply = await self.ask("tasks/get", {"taskId": task["taskId"]})
        if (reply or {}).get("result", {}).get("status") == "working":
            raise Gone
        return reply


class _Waits(RawNewer):
    """Does something of its own when a task needs input."""

    async def wait_for(self, task: Message) -> Any:
        id = {"taskId": task["taskId"]}
        while task.get("status") == "working":
            await asyncio.sleep(0.2)
            task = (await self.ask("tasks/get", id) or {}).get("result", {})
        return await self.at_input(id)

    async def at_input(self, id: Message) -> Any:
        raise NotImplementedError


@mutant("tasks.input.requestor-calls-result", RUNS)
class StopsAtQuestionsOfTasks(_Waits):
    async def at_input(self, id: Message) -> Any:
        return None


@mutant("tasks.input.requestor-calls-result", RUNS, over="stdio")
class PollsSlowlyThroughQuestions(_Waits):
    async def at_input(self, id: Message) -> Any:
        for _ in range(6):
            await asyncio.sleep(0.4)
            reply = await self.ask("tasks/get", id)
        return reply


@mutant("tasks.related.everywhere", RUNS)
class AnswersForATaskInText(RawNewer):
    async def elicited(self, params: Message) -> Message:
        found = await super().elicited(params)
        if "_meta" not in found:
            return found
        return {**found, "_meta": {"taskId": found["_meta"][RELATED]["taskId"]}}


class _Calls(RawNewer):
    """Calls a tool once more, in its own way."""

    params: ClassVar[Message] = {}
    needs = "tasks"

    async def tell_roots(self) -> None:
        arguments = {"name": "add", "arguments": {"a": 1, "b": 2}}
        if self.offers(self.needs):
            await self.ask("tools/call", {**arguments, **self.params})


@mutant("tasks.tool.forbidden-not-tasked", RUNS, over="stdio")
class RunsAnyToolAsATaskForEver(_Calls):
    params: ClassVar[Message] = {"task": {}}


@mutant("tasks.tool.forbidden-not-tasked", RUNS)
class RunsEveryToolAsATask(_Calls):
    """Runs every tool as a task once it has seen one that needs that."""

    def as_task(self, message: Message) -> Message:
        self.has_seen = True
        return super().as_task(message)

    has_seen = False

    async def asked_with(self, message: Message) -> Message | None:
        if message["method"] == "tools/call" and self.has_seen:
            message = super().as_task(message)
        return await super().asked_with(message)


faults(
    mutant("tasks.tool.no-capability-no-task", over="stdio"),
    RunsTasksOfLaunchedServers=altering(_Calls, needs="tools", params={"task": {"ttl": 1}}),
)


@mutant("tasks.tool.required-tasked", RUNS)
class AsksForTasksInItsMetadata(RawNewer):
    def as_task(self, message: Message) -> Message:
        meta = {"io.example/task": {"ttl": 60_000}}
        return {**message, "params": {**message["params"], "_meta": meta}}


@mutant("tasks.tool.required-tasked", RUNS, over="stdio")
class RunsATaskOnce(RawNewer):
    count = 0

    def as_task(self, message: Message) -> Message:
        self.count += 1
        return super().as_task(message) if self.count == 1 else message


class _Cancels(RawNewer):
    pause_before = 1.2

    async def wait_for(self, task: Message) -> Any:
        id = self.number
        await asyncio.sleep(self.pause_before)
        await self.give_up(id)
        await self.ask("tasks/cancel", {"taskId": task["taskId"]})


@mutant("cancellation.not-for-tasks-2025", RUNS, over="stdio")
class CancelsTasksInBothWays(_Cancels):
    pass


@mutant("cancellation.not-for-tasks-2025", RUNS)
class CancelsTasksThatAskQuestions(_Waits):
    async def asked_with(self, message: Message) -> Message | None:
        self.first = message["id"] if message["method"] == "tools/call" else self.first
        return await super().asked_with(message)

    first: Any = None

    async def at_input(self, id: Message) -> Any:
        await asyncio.sleep(1)
        await self.give_up(self.first)
        return await self.ask("tasks/cancel", id)
