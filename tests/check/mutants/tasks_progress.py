"""Servers that report the progress of tasks wrongly: the rows of area progress on tasks."""

from collections.abc import Callable
from typing import Any

from check.faults import named
from check.mutants.foundation import Between, Message, Sent, params_of, unbreakable
from check.mutants.tasks import task_interloper

PROGRESS, RELATED = "notifications/progress", "io.modelcontextprotocol/related-task"


class Tokens:
    """The progress tokens of tasks, as a mutant learns them from the traffic of a connection."""

    def __init__(self) -> None:
        self.task_of: dict[Any, str] = {}
        self.token_of: dict[str, Any] = {}

    def learn(self, message: Message, request: Message) -> None:
        task = (message.get("result") or {}).get("task")
        token = (params_of(request).get("_meta") or {}).get("progressToken")
        if isinstance(task, dict) and token is not None:
            self.task_of[token], self.token_of[task["taskId"]] = task["taskId"], token


def renaming(name: str, rename: Callable[[Any, str], Any]) -> None:
    """Register a server that reports on tasks under another token."""

    def hook(wire: Between) -> None:
        tokens = Tokens()

        def from_server(message: Message, request: Message) -> Sent:
            tokens.learn(message, request)
            params = params_of(message)
            task = tokens.task_of.get(params.get("progressToken"))
            if message.get("method") == PROGRESS and task is not None:
                params["progressToken"] = rename(params["progressToken"], task)
                params["_meta"] = {RELATED: {"taskId": task}}
            return message

        wire.from_server = from_server

    task_interloper("progress.task.same-token", areas=["tasks"])(named(name, hook))


renaming("reports_under_the_id_of_the_task", lambda token, task: task)
renaming("reports_under_a_token_of_its_own", lambda token, task: f"{token}-{task}")
renaming("reports_under_a_number", lambda token, task: 7)


def going_on(name: str, is_meant: Callable[[Message, Message], bool]) -> None:
    """Register a server that reports on a task after it said that the task has ended."""

    def hook(wire: Between) -> None:
        tokens = Tokens()

        def from_server(message: Message, request: Message) -> Sent:
            tokens.learn(message, request)
            named = params_of(request).get("taskId") or params_of(message).get("taskId")
            token = tokens.token_of.get(str(named))
            if token is None or "error" in message or not is_meant(message, request):
                return message
            late = {
                "progressToken": token,
                "progress": 1000 + len(wire.requests),
                "_meta": {RELATED: {"taskId": named}},
            }
            return [message, {"jsonrpc": "2.0", "method": PROGRESS, "params": late}]

        wire.from_server = from_server

    task_interloper("progress.task.stops-at-terminal", areas=["tasks"])(named(name, hook))


def has_ended(task: dict[str, Any]) -> bool:
    return task.get("status") in ("completed", "failed", "cancelled")


going_on(
    "reports_after_the_result", lambda message, request: request.get("method") == "tasks/result"
)
going_on(
    "reports_after_the_status_is_terminal",
    lambda message, request: request.get("method") == "tasks/get" and has_ended(message["result"]),
)
going_on(
    "reports_after_a_cancellation",
    lambda message, request: request.get("method") == "tasks/cancel",
)
unbreakable("the client of a check offers no tasks", "cancellation.not-for-tasks-2025")
