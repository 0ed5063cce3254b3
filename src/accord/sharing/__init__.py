"""What exists only with a store that workers share: sessions, streams, tasks, limits, pages.

Nothing here is loaded by a server without a store.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord.sharing.backends.backend import Allowance, Backend, LogPage, StoredRecord
    from accord.sharing.backends.memory_backend import MemoryBackend
    from accord.sharing.backends.redis_backend import RedisBackend
    from accord.sharing.backends.sealed_backend import KeyRing, SealedBackend
    from accord.sharing.backends.sqlite_backend import SqliteBackend
    from accord.sharing.backends.urls import open_backend

__all__ = [
    "Allowance",
    "Backend",
    "KeyRing",
    "LogPage",
    "MemoryBackend",
    "RedisBackend",
    "SealedBackend",
    "SqliteBackend",
    "StoredRecord",
    "open_backend",
]

_HOMES = {
    "Allowance": "accord.sharing.backends.backend",
    "Backend": "accord.sharing.backends.backend",
    "KeyRing": "accord.sharing.backends.sealed_backend",
    "LogPage": "accord.sharing.backends.backend",
    "MemoryBackend": "accord.sharing.backends.memory_backend",
    "RedisBackend": "accord.sharing.backends.redis_backend",
    "SealedBackend": "accord.sharing.backends.sealed_backend",
    "SqliteBackend": "accord.sharing.backends.sqlite_backend",
    "StoredRecord": "accord.sharing.backends.backend",
    "open_backend": "accord.sharing.backends.urls",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'accord.sharing' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
