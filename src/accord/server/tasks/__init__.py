"""Tasks: calls whose results are fetched later, of 2025-11-25 and of the later extension.

task_store  records of tasks in memory, and what servers allow: how long, how many, where
backend_task_store  keeps the records in a backend: the store of workers, or a file of its own
fields      the members of a task in messages, and those that its end adds
runner      finds and runs tasks, and changes their records
watching    how changes of tasks are noticed
channel     a task while it runs: how its handler asks its client, and what it reports
asking      questions that the client answers later, or that another process asks
calls       from a tool call to a task, and to the same call again on another worker
methods     the methods of 2025-11-25, and of the extension
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord.server.tasks.backend_task_store import SqliteTaskStore
    from accord.server.tasks.task_store import MemoryTaskStore, TaskRecord, TaskSettings, TaskStore

__all__ = ["MemoryTaskStore", "SqliteTaskStore", "TaskRecord", "TaskSettings", "TaskStore"]

# Loaded when they are first used: most servers have no tasks.
_HOMES = {
    "MemoryTaskStore": "accord.server.tasks.task_store",
    "SqliteTaskStore": "accord.server.tasks.backend_task_store",
    "TaskRecord": "accord.server.tasks.task_store",
    "TaskSettings": "accord.server.tasks.task_store",
    "TaskStore": "accord.server.tasks.task_store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'accord.server.tasks' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
