"""Tasks of 2025-11-25, which a client runs for the server or starts there, and of the extension."""

import asyncio
import re
import secrets
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from accord.errors import InvalidParams
from accord.types import JsonObject, RevisionId
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.server import (
    LISTS,
    TASKS,
    FakeServer,
    Result,
    capabilities_in,
    client_scenario,
    has_extension,
    revisions_of,
)
from accord_tools.check.probing.messages import Reply, new_request, next_id, params_of
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord_tools.check.scenarios.client.answered_questions import (
    FORMS,
    SAMPLING,
    ask_slowly,
    can_elicit,
    can_show,
)

RELATED: Final = "io.modelcontextprotocol/related-task"
TERMINAL: Final = ("completed", "failed", "cancelled")
_REVISIONS: Final = revisions_of("tasks.create.returns-task")
# Ids that share all but so many characters, or have fewer, can be guessed.
_RANDOM_CHARACTERS: Final = 6
_HOSTED: Final = (
    "tasks.create.returns-task",
    "tasks.status.starts-working",
    "tasks.create.promptly",
    "tasks.result.blocks-until-terminal",
    "tasks.result.exact",
    "tasks.related.param-wins",
    "tasks.list.consistent-with-get",
    "tasks.list.paginated",
    "tasks.list.next-cursor",
    "tasks.cancel.terminal-32602",
    "tasks.cancel.cancelled-before-response",
    "tasks.cancel.stays-cancelled",
    "tasks.errors.unknown-id",
    "tasks.errors.bad-cursor",
    "tasks.security.unguessable-ids",
)


def can_host(line: RawConnection, *path: str) -> bool:
    """Return whether a client declares a part of tasks."""
    found: Any = line.client_capabilities.get("tasks")
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return isinstance(found, dict)


@client_scenario(*_HOSTED, revisions=_REVISIONS, shows=("tasks.", "progress.task"))
class StartsTasksAtTheClient(FakeServer):
    """Sends sampling requests as tasks, and asks for them in every way."""

    streams = True

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.can_host = False
        self.replies: dict[str, Reply] = {}
        self.seconds = 0.0

    async def before_first_answer(self, line: RawConnection, request: JsonObject) -> None:
        self.can_host = can_host(line, "requests", "sampling", "createMessage")
        if not self.can_host:
            return
        began = asyncio.get_running_loop().time()
        first = await self._start("created", line, request)
        self.seconds = asyncio.get_running_loop().time() - began
        if first is None:
            return
        await self._ask("got", line, request, "tasks/get", {"taskId": first})
        related = {"_meta": {RELATED: {"taskId": "another"}}, "taskId": first}
        await self._ask("param", line, request, "tasks/get", related)
        await self._ask("result", line, request, "tasks/result", {"taskId": first})
        await self._ask("after", line, request, "tasks/get", {"taskId": first})
        await self._ask("again", line, request, "tasks/result", {"taskId": first})
        for method in ("get", "result", "cancel"):
            params = {"taskId": f"unknown-{secrets.token_hex(8)}"}
            if method != "cancel" or can_host(line, "cancel"):
                await self._ask(f"unknown {method}", line, request, f"tasks/{method}", params)
        if can_host(line, "list"):
            await self._ask("listed", line, request, "tasks/list", {})
            await self._ask("cursor", line, request, "tasks/list", {"cursor": "never-given"})
        if can_host(line, "cancel"):
            await self._ask("too late", line, request, "tasks/cancel", {"taskId": first})
            await self._cancel(line, request)

    async def _start(self, what: str, line: RawConnection, request: JsonObject) -> str | None:
        params = {**SAMPLING, "task": {"ttl": 60_000}}
        del params["_meta"]
        reply = await ask_slowly(self, line, "sampling/createMessage", params, request)
        if reply is None:
            return None
        self.replies[what] = reply
        id = _task_of(reply).get("taskId")
        return id if isinstance(id, str) else None

    async def _ask(
        self, what: str, line: RawConnection, request: JsonObject, method: str, params: JsonObject
    ) -> None:
        reply = await ask_slowly(self, line, method, params, request)
        if reply is not None:
            self.replies[what] = reply

    async def _cancel(self, line: RawConnection, request: JsonObject) -> None:
        second = await self._start("second", line, request)
        if second is None or _task_of(self.replies["second"]).get("status") in TERMINAL:
            return
        await self._ask("cancelled", line, request, "tasks/cancel", {"taskId": second})
        await asyncio.sleep(0.3)
        await self._ask("still", line, request, "tasks/get", {"taskId": second})

    async def judge(self, run: ClientRun) -> None:
        if run.lines and not self.can_host:
            why = "the client does not declare tasks.requests.sampling.createMessage"
            run.not_applicable(self.ids, why)
            return
        created = self.replies.get("created")
        if created is None or created.is_error:
            run.skip(self.ids, "the client starts no task")
            return
        task = _task_of(created)
        why = f"declares tasks, and answers a request with a task by {created}"
        if not run.holds("tasks.create.returns-task", task, why):
            return
        why = f"creates a task with the status {task.get('status')!r:.60}"
        run.holds("tasks.status.starts-working", task.get("status") == "working", why)
        if self.seconds < 1:
            run.passes("tasks.create.promptly")
        self._judge_result(run, task)
        self._judge_errors(run)
        self._judge_cancel(run)

    def _judge_result(self, run: ClientRun, task: JsonObject) -> None:
        got = self.replies.get
        result, after, again = got("result"), got("after"), got("again")
        if result is not None and after is not None:
            status = after.result.get("status")
            why = f"answers tasks/result while the status of the task is {status!r:.60}"
            run.holds("tasks.result.blocks-until-terminal", status in TERMINAL, why)
        if result is not None and not result.is_error:
            whole = {"role", "content", "model"} <= result.result.keys()
            why = f"answers tasks/result with something else than the result of sampling: {result}"
            if run.holds("tasks.result.exact", whole, why) and again is not None:
                why = f"answers tasks/result again with another result: {again}"
                run.holds("tasks.result.exact", _bare(result) == _bare(again), why)
        param = got("param")
        if param is not None:
            why = f"answers tasks/get by the related-task metadata, not by taskId: {param}"
            is_right = param.result.get("taskId") == task.get("taskId")
            run.holds("tasks.related.param-wins", is_right, why)
        listed = got("listed")
        if listed is not None and not listed.is_error:
            tasks = listed.result.get("tasks")
            ids = [each.get("taskId") for each in tasks if isinstance(each, dict)] if tasks else []
            is_whole = task.get("taskId") in ids or "nextCursor" in listed.result
            why = "leaves a task out of tasks/list that tasks/get knows"
            run.holds("tasks.list.consistent-with-get", is_whole, why)
            if "nextCursor" in listed.result:
                run.passes("tasks.list.paginated", "tasks.list.next-cursor")

    def _judge_errors(self, run: ClientRun) -> None:
        for what, id in (
            *(
                (f"unknown {each}", "tasks.errors.unknown-id")
                for each in ("get", "result", "cancel")
            ),
            ("cursor", "tasks.errors.bad-cursor"),
            ("too late", "tasks.cancel.terminal-32602"),
        ):
            reply = self.replies.get(what)
            after = self.replies.get("after")
            if what == "too late" and (after is None or after.result.get("status") not in TERMINAL):
                continue
            if reply is not None:
                run.holds(id, reply.code == -32602, f"answers {what} with {reply}")

    def _judge_cancel(self, run: ClientRun) -> None:
        created, second = (_task_of(self.replies[each]).get("taskId") if each in self.replies
                           else None for each in ("created", "second"))  # fmt: skip
        if isinstance(created, str) and isinstance(second, str) and created != second:
            differing = sum(a != b for a, b in zip(created, second, strict=False))
            is_random = min(len(created), len(second)) >= _RANDOM_CHARACTERS
            why = f"gives tasks ids that can be guessed: {created!r:.60}, {second!r:.60}"
            is_random = is_random and differing >= _RANDOM_CHARACTERS // 2
            is_random = is_random and not _are_counted(created, second)
            run.holds("tasks.security.unguessable-ids", is_random, why)
        cancelled, still = self.replies.get("cancelled"), self.replies.get("still")
        if cancelled is None or cancelled.is_error:
            return
        status = cancelled.result.get("status")
        why = f"answers tasks/cancel while the status is {status!r:.60}"
        id = "tasks.cancel.cancelled-before-response"
        if run.holds(id, status == "cancelled", why) and still is not None:
            later = still.result.get("status")
            why = f"turns a cancelled task into one that is {later!r:.60}"
            run.holds("tasks.cancel.stays-cancelled", later == "cancelled" or still.is_error, why)


def _are_counted(first: str, second: str) -> bool:
    """Return whether ids are a counter or a clock: they end in numbers that begin alike."""
    ends = [re.search(r"\d*$", each) for each in (first, second)]
    one, other = (each.group() if each else "" for each in ends)
    same = one[:_RANDOM_CHARACTERS] == other[:_RANDOM_CHARACTERS]
    is_long = min(len(one), len(other)) > _RANDOM_CHARACTERS
    return is_long and same and first.removesuffix(one) == second.removesuffix(other)


def _task_of(reply: Reply) -> JsonObject:
    task = reply.result.get("task")
    return task if isinstance(task, dict) else {}


def _bare(reply: Reply) -> JsonObject:
    return {name: each for name, each in reply.result.items() if name != "_meta"}


# -- tasks at the server

_INTERVAL: Final = 0.2
_TOLERANCE: Final = 0.02
_REPEATS: Final = 3
_POLLED: Final = (
    "tasks.poll-interval-respected",
    "tasks.poll-until-terminal",
    "tasks.input.requestor-calls-result",
    "tasks.http.any-stream",
    "tasks.notify.not-relied-on",
)


class _Task(msgspec.Struct):
    """A task at the fake server.

    Attributes:
        params: of the request that started it.
        gets: when its status was asked for.
        results: how often its result was asked for.
    """

    id: str
    params: JsonObject
    status: str = "working"
    gets: list[float] = []
    results: int = 0
    gets_at_input: int = 0
    is_answered: bool | None = None

    def fields(self) -> JsonObject:
        """Return what is said of it."""
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return {
            "taskId": self.id,
            "status": self.status,
            "createdAt": now,
            "lastUpdatedAt": now,
            "ttl": 60_000,
            "pollInterval": round(_INTERVAL * 1000),
        }


@client_scenario(*_POLLED, revisions=_REVISIONS, shows=("tasks.", "cancellation.not-for-tasks"))
class RunsToolsAsTasks(FakeServer):
    """Runs tools as tasks, says nothing of their progress, and asks a question in between."""

    streams = True

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        tasks: JsonObject = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        self.capabilities = {**self.capabilities, "tasks": tasks}
        self.tasks: dict[str, _Task] = {}

    async def result(self, line: RawConnection, method: str, params: JsonObject) -> Result:
        if method == "tools/list":
            echo, *rest = LISTS[method][1]
            execution = {"taskSupport": "required"}
            return {"tools": [{**echo, "execution": execution}, *rest]}
        if method == "tools/call" and "task" in params:
            task = _Task(secrets.token_hex(16), params)
            self.tasks[task.id] = task
            return {"task": task.fields()}
        if method == "tasks/list":
            return {"tasks": [each.fields() for each in self.tasks.values()]}
        if method in ("tasks/get", "tasks/cancel", "tasks/result"):
            return await self._serve(line, method, params)
        return await super().result(line, method, params)

    async def _serve(self, line: RawConnection, method: str, params: JsonObject) -> Result:
        task = self.tasks.get(str(params.get("taskId")))
        if task is None:
            raise InvalidParams("unknown task")
        if method == "tasks/get":
            self._advance(task, line)
            return task.fields()
        if method == "tasks/cancel":
            if task.status in TERMINAL:
                raise InvalidParams("the task has ended")
            task.status = "cancelled"
            return task.fields()
        task.results += 1
        if task.status == "input_required":
            await self._ask_for(task, line)
        elif task.status == "working":
            await asyncio.sleep(_INTERVAL)
        task.status = "completed"
        content = [{"type": "text", "text": "a text"}]
        return {"content": content, "isError": False, "_meta": {RELATED: {"taskId": task.id}}}

    def _advance(self, task: _Task, line: RawConnection) -> None:
        # After the result a client may look once more, without a pause.
        if not task.results:
            task.gets.append(asyncio.get_running_loop().time())
        if task.status == "input_required":
            task.gets_at_input += 1
            if task.gets_at_input > _REPEATS:
                task.status = "completed"
        elif task.status == "working" and len(task.gets) > 1:
            task.status = "input_required" if can_elicit(line) else "completed"

    async def _ask_for(self, task: _Task, line: RawConnection) -> None:
        """Ask a question of the task; over HTTP on the stream of a GET, if there is one."""
        form = {"message": "Please fill this in.", "requestedSchema": FORMS[0]}
        params = {**form, "_meta": {RELATED: {"taskId": task.id}}}
        id = f"task-{next_id()}"
        try:
            await line.send(new_request("elicitation/create", params, id=id))
            await line.reply_to(id, patience=1.0)
        except (ConnectionEnded, MessageTimeout):
            task.is_answered = False
        else:
            task.is_answered = True

    async def judge(self, run: ClientRun) -> None:
        if not self.tasks:
            run.skip(self.ids, "the client starts no task")
            return
        left = {
            params_of(each).get("taskId")
            for each in run.all_messages
            if str(each.get("method")).startswith("tasks/")
        }
        for task in self.tasks.values():
            if run.gave_up(task.params):
                continue
            pauses = [b - a for a, b in zip(task.gets, task.gets[1:], strict=False)]
            if pauses:
                waited = min(pauses) * 1000
                why = f"asks for a task again after {waited:.0f} ms, not {_INTERVAL * 1000:.0f}"
                is_slow = min(pauses) >= _INTERVAL - _TOLERANCE
                run.holds("tasks.poll-interval-respected", is_slow, why)
            if run.exit_code is not None or left:
                why = "starts tasks, and neither asks for them nor cancels them"
                run.holds("tasks.notify.not-relied-on", left, why)
            if task.id in left:
                stops = task.status == "working" and not task.results and run.exit_code is not None
                why = "stops to ask for a task that is still working"
                run.holds("tasks.poll-until-terminal", not stops, why)
            if task.results and task.gets and can_elicit(run.lines[0]):
                run.passes("tasks.input.requestor-calls-result")
            elif task.gets_at_input > _REPEATS:
                why = "asks for the status again and again although the task needs input"
                run.fail("tasks.input.requestor-calls-result", why)
            elif task.status == "input_required" and run.ended_as_usual:
                why = "ends without the result of a task that needs input, and does not cancel it"
                run.fail("tasks.input.requestor-calls-result", why)
            if task.is_answered and run.transport == "http":
                run.passes("tasks.http.any-stream")


_BOTH: Final = "tasks-ext.create.client-handles-both"
_PAUSE: Final = "tasks-ext.client.poll-interval"
_UNTIL: Final = "tasks-ext.client.poll-until-terminal"
_INPUT: Final = "tasks-ext.client.inspects-input-requests"
_ONCE: Final = "tasks-ext.client.dedupe-keys"
_ONLY: Final = "tasks-ext.create.only-tools-call"


class _ExtensionTask(msgspec.Struct):
    """A task at the fake server.

    Attributes:
        params: of the request that started it.
        gets: when its status was asked for.
        seen: how often its question was shown.
        seen_answered: whether it was shown after the client had answered it.
        answers: how often the client answered each question.
    """

    id: str
    params: JsonObject
    can_ask: bool
    status: str = "working"
    gets: list[float] = []
    seen: int = 0
    seen_answered: bool = False
    answers: dict[str, int] = {}

    def fields(self) -> JsonObject:
        """Return what is said of it."""
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        found: JsonObject = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": now,
            "lastUpdatedAt": now,
            "ttlMs": 60_000,
            "pollIntervalMs": round(_INTERVAL * 1000),
        }
        if self.status == "input_required":
            form = {"message": "Please fill this in.", "requestedSchema": FORMS[0]}
            found["inputRequests"] = {"form": {"method": "elicitation/create", "params": form}}
        if self.status == "completed":
            text = {"type": "text", "text": "a text"}
            found["result"] = {"content": [text], "isError": False, "resultType": "complete"}
        return found


@client_scenario(
    _BOTH,
    _PAUSE,
    _UNTIL,
    _INPUT,
    _ONCE,
    _ONLY,
    era="stateless",
    on=("stdio", "http"),
    shows=("tasks-ext.",),
)
class RunsToolsAsExtensionTasks(FakeServer):
    """Answers calls with tasks, which ask a question twice, and a resource with one."""

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.capabilities = {**self.capabilities, "extensions": {TASKS: {}}}
        self.tasks: dict[str, _ExtensionTask] = {}
        self.wrong: set[str] = set()

    async def work_result(self, line: RawConnection, request: JsonObject) -> Result:
        method, declared = request.get("method"), capabilities_in(request)
        has_tasks = has_extension(declared, TASKS)
        if has_tasks and method in ("tools/call", "resources/read"):
            is_call = method == "tools/call"
            can_ask = is_call and can_show(declared, "form")
            task = _ExtensionTask(f"task-{secrets.token_hex(12)}", params_of(request), can_ask)
            self.tasks[task.id] = task
            if not is_call:
                self.wrong.add(task.id)
            return {"resultType": "task", **task.fields()}
        if method in ("tasks/get", "tasks/update", "tasks/cancel"):
            return self._serve(str(method), params_of(request))
        return await super().work_result(line, request)

    def _serve(self, method: str, params: JsonObject) -> JsonObject:
        task = self.tasks.get(str(params.get("taskId")))
        if task is None:
            raise InvalidParams("unknown task")
        if method == "tasks/get":
            self._advance(task)
            return task.fields()
        if method == "tasks/cancel":
            task.status = "cancelled"
        else:
            answers = params.get("inputResponses")
            for key in answers if isinstance(answers, dict) else ():
                task.answers[key] = task.answers.get(key, 0) + 1
        return {}

    def _advance(self, task: _ExtensionTask) -> None:
        """Go on: a question is shown once more after its answer, as one that is not yet read is."""
        task.gets.append(asyncio.get_running_loop().time())
        if len(task.gets) == 1 or task.status == "cancelled":
            return
        is_over = task.seen_answered if task.answers else task.seen > _REPEATS
        task.status = "input_required" if task.can_ask and not is_over else "completed"
        task.seen += task.can_ask
        task.seen_answered = bool(task.answers)

    async def judge(self, run: ClientRun) -> None:
        if not self.tasks:
            has_called = run.messages("tools/call")
            if has_called:
                run.not_applicable(self.ids, "the client does not declare the tasks extension")
            else:
                run.skip(self.ids, "the client calls no tool")
            return
        for task in self.tasks.values():
            if task.id in self.wrong:
                why = "asks for a task that answered resources/read, which is an invalid answer"
                is_used = task.gets or task.answers or task.status == "cancelled"
                run.holds(_ONLY, not is_used, why)
            elif not run.gave_up(task.params):
                self._judge_task(run, task)

    def _judge_task(self, run: ClientRun, task: _ExtensionTask) -> None:
        # A call that the client no longer waits for says nothing, so that one task suffices.
        handled = any(each.gets or each.status == "cancelled" for each in self.tasks.values())
        if handled or run.exit_code is not None:
            why = "declares the tasks extension, and never asks for a task that it was given"
            if not run.holds(_BOTH, handled, why):
                return
        pauses = [b - a for a, b in zip(task.gets, task.gets[1:], strict=False)]
        if pauses:
            waited = min(pauses) * 1000
            why = f"asks for a task again after {waited:.0f} ms, not {_INTERVAL * 1000:.0f}"
            run.holds(_PAUSE, min(pauses) >= _INTERVAL - _TOLERANCE, why)
        if run.exit_code is not None and task.gets:
            why = f"stops to ask for a task that is {task.status}"
            run.holds(_UNTIL, task.status in ("completed", "cancelled"), why)
        if task.answers:
            run.passes(_INPUT)
            twice = [key for key, count in task.answers.items() if count > 1]
            run.holds(_ONCE, not twice, f"answers the question {twice} of a task twice")
        elif task.seen > _REPEATS:
            why = "asks for the task again and again without an answer to its question"
            run.fail(_INPUT, why)
