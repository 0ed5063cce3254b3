"""State that may live outside the process: events of resumable streams, and tasks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from accord.stores.events import EventStore, MemoryEventStore

if TYPE_CHECKING:
    from accord.stores.sqlite_tasks import SqliteTaskStore
    from accord.stores.tasks import MemoryTaskStore, TaskRecord, TaskStore

__all__ = [
    "EventStore",
    "MemoryEventStore",
    "MemoryTaskStore",
    "SqliteTaskStore",
    "TaskRecord",
    "TaskStore",
]

# Loaded when they are first used: most servers have no tasks.
_HOMES = {
    "MemoryTaskStore": "accord.stores.tasks",
    "SqliteTaskStore": "accord.stores.sqlite_tasks",
    "TaskRecord": "accord.stores.tasks",
    "TaskStore": "accord.stores.tasks",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'accord.stores' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
