"""Compares what a server offers with its lock."""

from pathlib import Path

from accord.protocol.revisions import REVISIONS
from accord.types import JsonObject, RevisionId
from accord_tools.contract.lock_file import LockError, read_lock
from accord_tools.fleet.catalogs.changes import find_catalog_changes
from accord_tools.fleet.results import CatalogChange
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


def mask_catalog(catalog: JsonObject, hide: HideText) -> JsonObject:
    """Return a catalog as the parent gets it, without secrets."""
    masked = mask_message(WorkerReport(catalog=catalog), hide).catalog
    assert masked is not None
    return masked


def compare_with_lock(lock: Path, catalog: JsonObject, hide: HideText) -> tuple[CatalogChange, ...]:
    """Return how a catalog differs from the locked one, both without secrets.

    Raises:
        LockError: the lock cannot be read.
    """
    # A run that writes locks knows only what is masked.
    return find_catalog_changes(mask_catalog(read_lock(lock), hide), mask_catalog(catalog, hide))
