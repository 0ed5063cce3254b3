"""The former place of stores, until 0.4: names that were documented are found with a warning."""

from importlib import import_module
from typing import Any
from warnings import warn

_HOMES = {
    **dict.fromkeys(("Allowance", "Backend", "KeyRing", "LogPage"), "accord.sharing"),
    **dict.fromkeys(("MemoryBackend", "RedisBackend", "SealedBackend"), "accord.sharing"),
    **dict.fromkeys(("SqliteBackend", "StoredRecord", "open_backend"), "accord.sharing"),
    **dict.fromkeys(("EventStore", "MemoryEventStore"), "accord.server"),
    **dict.fromkeys(("MemoryTaskStore", "SqliteTaskStore"), "accord.server.tasks"),
    **dict.fromkeys(("TaskRecord", "TaskStore"), "accord.server.tasks"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'accord.stores' has no attribute {name!r}")
    warn(
        f"accord.stores will go in 0.4; write: from {_HOMES[name]} import {name}",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(import_module(_HOMES[name]), name)
