"""Compares what a server offers with its lock."""

from pathlib import Path

from accord.protocol.revisions import REVISIONS
from accord.types import JsonObject, RevisionId
from accord_tools.contract.lock_file import LockError, read_lock
from accord_tools.fleet.results import SurfaceChange
from accord_tools.fleet.surfaces.changes import find_surface_changes
from accord_tools.fleet.worker.job import WorkerReport
from accord_tools.fleet.worker.report_mask import HideText, mask_message


def locked_revision(lock: Path) -> RevisionId | None:
    """Return the revision under which a lock was written; None if that is not known.

    Under another revision the same server may offer something else.
    """
    try:
        named = read_lock(lock).get("revision")
    except LockError:
        return None
    return named if named in REVISIONS else None


def explain_lock(error: LockError) -> str:
    """Return why a lock cannot be read, with the command that writes those of a fleet."""
    return str(error).replace("accord lock writes", "accord fleet --update-locks writes")


def mask_surface(surface: JsonObject, hide: HideText) -> JsonObject:
    """Return a surface as the parent gets it, without secrets."""
    masked = mask_message(WorkerReport(surface=surface), hide).surface
    assert masked is not None
    return masked


def compare_with_lock(lock: Path, surface: JsonObject, hide: HideText) -> tuple[SurfaceChange, ...]:
    """Return how a surface differs from the locked one, both without secrets.

    Raises:
        LockError: the lock cannot be read.
    """
    # A run that writes locks knows only what is masked.
    return find_surface_changes(mask_surface(read_lock(lock), hide), mask_surface(surface, hide))
