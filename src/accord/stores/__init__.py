"""State that may live outside the process: what workers share, events of streams, and tasks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from accord.stores.events import EventStore, MemoryEventStore

if TYPE_CHECKING:
    from accord.stores.backend import Allowance, Backend, LogPage, StoredRecord
    from accord.stores.key_ring import KeyRing
    from accord.stores.memory_backend import MemoryBackend
    from accord.stores.redis_backend import RedisBackend
    from accord.stores.sealed_backend import SealedBackend
    from accord.stores.sqlite_backend import SqliteBackend
    from accord.stores.sqlite_tasks import SqliteTaskStore
    from accord.stores.tasks import MemoryTaskStore, TaskRecord, TaskStore
    from accord.stores.urls import open_backend

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
    "Allowance": "accord.stores.backend",
    "Backend": "accord.stores.backend",
    "KeyRing": "accord.stores.key_ring",
    "LogPage": "accord.stores.backend",
    "MemoryBackend": "accord.stores.memory_backend",
    "MemoryTaskStore": "accord.stores.tasks",
    "RedisBackend": "accord.stores.redis_backend",
    "SealedBackend": "accord.stores.sealed_backend",
    "SqliteBackend": "accord.stores.sqlite_backend",
    "SqliteTaskStore": "accord.stores.sqlite_tasks",
    "StoredRecord": "accord.stores.backend",
    "TaskRecord": "accord.stores.tasks",
    "TaskStore": "accord.stores.tasks",
    "open_backend": "accord.stores.urls",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'accord.stores' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
