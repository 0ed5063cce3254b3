"""Stores whose values are sealed."""

from accord.sharing.backends.memory_backend import MemoryBackend
from accord.sharing.backends.sealed_backend import KeyRing, SealedBackend


def make_sealed_memory() -> SealedBackend:
    """One in memory, with two keys."""
    return SealedBackend(MemoryBackend(), KeyRing(["first key of tests".ljust(32), "k" * 32]))
