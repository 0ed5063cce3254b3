"""Tasks: those of 2025-11-25 and those of the later extension `io.modelcontextprotocol/tasks`.

The two share their life cycle and differ in names and nesting; what they share is written once,
with lifetimes. Durations are milliseconds; a null one has no limit.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec

from accord.types._base import (
    Cursor,
    InputResponses,
    JsonObject,
    Params,
    Result,
    Struct,
    must_send,
    only,
    since,
    until,
)
from accord.types.client_features import InputRequests

__all__ = [
    "CancelTaskParams",
    "CancelTaskResult",
    "CreateTaskResult",
    "GetTaskParams",
    "GetTaskResult",
    "ListTasksResult",
    "RelatedTask",
    "Task",
    "TaskFields",
    "TaskHandle",
    "TaskOutcome",
    "TaskParams",
    "TaskResultParams",
    "TaskStatus",
    "TaskStatusParams",
    "UpdateTaskParams",
]

TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]


class TaskFields(Struct):
    """The state of a task; base of all structs that report it."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    status_message: str | None = None
    ttl: Annotated[
        int | msgspec.UnsetType | None,
        until("2025-11-25"),
        must_send(since="2025-11-25", stamp=None),
    ] = msgspec.UNSET
    poll_interval: Annotated[int | None, until("2025-11-25")] = None
    ttl_ms: Annotated[
        int | msgspec.UnsetType | None,
        since("2026-07-28"),
        must_send(since="2026-07-28", stamp=None),
    ] = msgspec.UNSET
    poll_interval_ms: Annotated[int | None, since("2026-07-28")] = None


class TaskOutcome(TaskFields, kw_only=True):
    """A task with its outcome, which only the extension reports in one message."""

    input_requests: Annotated[InputRequests | None, since("2026-07-28")] = None
    result: Annotated[msgspec.Raw | msgspec.UnsetType, since("2026-07-28")] = msgspec.UNSET
    error: Annotated[JsonObject | None, since("2026-07-28")] = None
    meta: JsonObject | None = msgspec.field(name="_meta", default=None)


@only("2025-11-25")
class Task(TaskFields):
    """A task, inside another message."""


@only("2025-11-25")
class CreateTaskResult(Result):
    """Answer a request with the task that it became."""

    task: Task


@since("2026-07-28")
class TaskHandle(TaskFields, kw_only=True):
    """Answer a request with the task that it became, in the words of the extension."""

    result_type: str = msgspec.field(default_factory=lambda: "task")
    meta: JsonObject | None = msgspec.field(name="_meta", default=None)


@since("2025-11-25")
class GetTaskParams(Params):
    """Ask for a task."""

    task_id: str


@since("2025-11-25")
class GetTaskResult(TaskOutcome, kw_only=True):
    """Tell a task."""

    result_type: Annotated[
        str | None, since("2026-07-28"), must_send(since="2026-07-28", stamp="complete")
    ] = None


@only("2025-11-25")
class TaskResultParams(Params):
    """Wait for the result of a task; the answer is the result of the original request."""

    task_id: str


@since("2025-11-25")
class CancelTaskParams(Params):
    """Ask for a task to be stopped."""

    task_id: str


@only("2025-11-25")
class CancelTaskResult(TaskFields, kw_only=True):
    """Tell the cancelled task. The extension acknowledges with an empty result instead."""

    meta: JsonObject | None = msgspec.field(name="_meta", default=None)


@only("2025-11-25")
class ListTasksResult(Result):
    """One page of tasks."""

    tasks: list[Task]
    next_cursor: Cursor | None = None


@only("2025-11-25")
class TaskStatusParams(TaskFields, kw_only=True):
    """Tell that a task changed."""

    meta: JsonObject | None = msgspec.field(name="_meta", default=None)


@since("2026-07-28")
class UpdateTaskParams(Params):
    """Answer the questions of a task."""

    task_id: str
    input_responses: InputResponses


@since("2026-07-28")
class TaskParams(TaskOutcome):
    """Tell that a task changed, with all that is known of it."""


@only("2025-11-25")
class RelatedTask(Struct):
    """The value of `io.modelcontextprotocol/related-task` in `_meta`."""

    task_id: str
