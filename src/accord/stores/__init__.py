"""State that may live outside the process, behind small interfaces."""

from accord.stores.events import EventStore, MemoryEventStore

__all__ = ["EventStore", "MemoryEventStore"]
