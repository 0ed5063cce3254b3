"""Compares what a server offers with its lock, and tells whether it offers what it did before."""

from pathlib import Path

from accord.check.contract.lock_file import LockError, find_changes, read_lock
from accord.fleet.results import SurfaceChange
from accord.protocol.revisions import REVISIONS
from accord.types import JsonObject, RevisionId


def locked_revision(lock: Path | None) -> RevisionId | None:
    """Return the revision under which a lock was written; None if that is not known.

    Under another revision the same server may offer something else.
    """
    if lock is None:
        return None
    try:
        named = read_lock(lock).get("revision")
    except LockError:
        return None
    return named if named in REVISIONS else None


def compare_with_lock(lock: Path, surface: JsonObject) -> tuple[SurfaceChange, ...]:
    """Return how a surface differs from the locked one.

    Raises:
        LockError: the lock cannot be read.
    """
    return tuple(
        SurfaceChange(
            kind="compatible",
            subject=each.subject,
            what=each.what,
            before=each.before,
            after=each.after,
        )
        for each in find_changes(read_lock(lock), surface)
    )


def surface_digest(surface: JsonObject) -> str:
    """Return the digest of a surface, as summaries have it."""
    import json
    from hashlib import sha256

    return sha256(json.dumps(surface, sort_keys=True).encode()).hexdigest()
