"""Tasks: calls whose results are fetched later, of 2025-11-25 and of the later extension.

settings    what servers allow: how long, how many, where they are kept
runner      runs tasks, and changes their records
finding     finds tasks for requests
watching    how changes of tasks are noticed
channel     how the handler of a task asks its client
asking      questions of a task that another process runs
repeating   what is needed to run a task again
fields      the members of a task in messages
outcomes    how the work of a task ended
calls       from a tool call to a task
core        the methods of 2025-11-25
extension   the methods of the extension
task_store  records of tasks, in memory; sqlite_task_store keeps them in a file
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord.server.tasks.settings import TaskSettings
    from accord.server.tasks.sqlite_task_store import SqliteTaskStore
    from accord.server.tasks.task_store import MemoryTaskStore, TaskRecord, TaskStore

__all__ = ["MemoryTaskStore", "SqliteTaskStore", "TaskRecord", "TaskSettings", "TaskStore"]

# Loaded when they are first used: most servers have no tasks.
_HOMES = {
    "MemoryTaskStore": "accord.server.tasks.task_store",
    "SqliteTaskStore": "accord.server.tasks.sqlite_task_store",
    "TaskRecord": "accord.server.tasks.task_store",
    "TaskSettings": "accord.server.tasks.settings",
    "TaskStore": "accord.server.tasks.task_store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'accord.server.tasks' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
