"""The tasks extension: tools of a server without a handshake that run as tasks."""

import asyncio
import secrets
from datetime import UTC, datetime
from typing import Final

import msgspec

from accord.errors import InvalidParams
from accord.types import JsonObject, RevisionId
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.server import (
    TASKS,
    FakeServer,
    Result,
    capabilities_in,
    client_scenario,
    has_extension,
)
from accord_tools.check.probing.messages import params_of
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.scenarios.client.questions import FORMS
from accord_tools.check.scenarios.client.rounds import can_show

_INTERVAL: Final = 0.2
_TOLERANCE: Final = 0.02
_REPEATS: Final = 3
_BOTH: Final = "tasks-ext.create.client-handles-both"
_PAUSE: Final = "tasks-ext.client.poll-interval"
_UNTIL: Final = "tasks-ext.client.poll-until-terminal"
_INPUT: Final = "tasks-ext.client.inspects-input-requests"
_ONCE: Final = "tasks-ext.client.dedupe-keys"
_ONLY: Final = "tasks-ext.create.only-tools-call"


class _Task(msgspec.Struct):
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
        self.tasks: dict[str, _Task] = {}
        self.wrong: set[str] = set()

    async def work_result(self, line: RawConnection, request: JsonObject) -> Result:
        method, declared = request.get("method"), capabilities_in(request)
        has_tasks = has_extension(declared, TASKS)
        if has_tasks and method in ("tools/call", "resources/read"):
            is_call = method == "tools/call"
            can_ask = is_call and can_show(declared, "form")
            task = _Task(f"task-{secrets.token_hex(12)}", params_of(request), can_ask)
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

    def _advance(self, task: _Task) -> None:
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

    def _judge_task(self, run: ClientRun, task: _Task) -> None:
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
