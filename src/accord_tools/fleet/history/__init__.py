"""Runs of a fleet through time: kept, found again, compared, put together, pruned."""

from accord_tools.fleet.history.comparison import compare_runs
from accord_tools.fleet.history.exports import (
    ExportedRun,
    merge_runs,
    read_export,
)
from accord_tools.fleet.history.history import (
    History,
    PruneReport,
    ReusableResult,
    RunSummary,
    default_history,
    open_history,
)

__all__ = [
    "ExportedRun",
    "History",
    "PruneReport",
    "ReusableResult",
    "RunSummary",
    "compare_runs",
    "default_history",
    "merge_runs",
    "open_history",
    "read_export",
]
