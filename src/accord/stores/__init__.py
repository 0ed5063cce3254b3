"""State that may live outside the process: what workers share, events of streams, and tasks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from accord.http.server.event_store import EventStore, MemoryEventStore

if TYPE_CHECKING:
    from accord.server.tasks.sqlite_task_store import SqliteTaskStore
    from accord.server.tasks.task_store import MemoryTaskStore, TaskRecord, TaskStore
    from accord.sharing.backends.backend import Allowance, Backend, LogPage, StoredRecord
    from accord.sharing.backends.key_ring import KeyRing
    from accord.sharing.backends.memory_backend import MemoryBackend
    from accord.sharing.backends.redis_backend import RedisBackend
    from accord.sharing.backends.sealed_backend import SealedBackend
    from accord.sharing.backends.sqlite_backend import SqliteBackend
    from accord.sharing.backends.urls import open_backend

__all__ = [
    "Allowance",
    "Backend",
    "EventStore",
    "KeyRing",
    "LogPage",
    "MemoryBackend",
    "MemoryEventStore",
    "MemoryTaskStore",
    "RedisBackend",
    "SealedBackend",
    "SqliteBackend",
    "SqliteTaskStore",
    "StoredRecord",
    "TaskRecord",
    "TaskStore",
    "open_backend",
]

# Loaded when they are first used: most servers have no tasks, and run in one process.
_HOMES = {
    "Allowance": "accord.sharing.backends.backend",
    "Backend": "accord.sharing.backends.backend",
    "KeyRing": "accord.sharing.backends.key_ring",
    "LogPage": "accord.sharing.backends.backend",
    "MemoryBackend": "accord.sharing.backends.memory_backend",
    "MemoryTaskStore": "accord.server.tasks.task_store",
    "RedisBackend": "accord.sharing.backends.redis_backend",
    "SealedBackend": "accord.sharing.backends.sealed_backend",
    "SqliteBackend": "accord.sharing.backends.sqlite_backend",
    "SqliteTaskStore": "accord.server.tasks.sqlite_task_store",
    "StoredRecord": "accord.sharing.backends.backend",
    "TaskRecord": "accord.server.tasks.task_store",
    "TaskStore": "accord.server.tasks.task_store",
    "open_backend": "accord.sharing.backends.urls",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'accord.stores' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
