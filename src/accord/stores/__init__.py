"""State that may live outside the process, behind small interfaces."""

from accord.stores.interfaces import EventStore
from accord.stores.memory import MemoryEventStore

__all__ = ["EventStore", "MemoryEventStore"]
