"""The outcome of a run: which findings fail it, and its exit code."""

from collections.abc import Collection, Iterator
from typing import Final, Literal, TypeAlias

from accord_tools.fleet.results import CatalogFinding, FleetRun, RunComparison, ServerResult

FailOn: TypeAlias = Literal["failure", "regression", "warning", "drift", "never"]
"""What fails a run: servers that are not as expected; what got worse since the run before; any
warning; any change of what servers offer; or nothing."""

FAIL_ON: Final[tuple[FailOn, ...]] = ("failure", "regression", "warning", "drift", "never")
_DRIFT: Final = ("surface-breaking", "surface-changed")


def exit_code(
    run: FleetRun,
    comparison: RunComparison | None,
    fail_on: Collection[FailOn],
    *,
    require_all: bool = False,
) -> int:
    """Return 0 if all is as expected, 1 if not, 2 if no server could be checked.

    Args:
        run: the run.
        comparison: with an earlier run, if there is one.
        fail_on: what fails the run.
        require_all: whether a server that was skipped means that the run could not be made.
    """
    checked = [each for each in run.results if each.state in ("ok", "failed", "timed-out")]
    skipped = [each for each in run.results if each.state == "skipped"]
    if require_all and skipped:
        return 2
    if "never" in fail_on:
        return 0
    if not checked and len(skipped) < len(run.results):
        return 2
    return 1 if any(_failures(run, comparison, fail_on)) else 0


def _failures(
    run: FleetRun, comparison: RunComparison | None, fail_on: Collection[FailOn]
) -> Iterator[bool]:
    if "failure" in fail_on:
        yield any(not each.is_as_expected for each in run.results)
    if "warning" in fail_on:
        yield any(not each.is_as_expected or _has_warning(each) for each in run.results)
        yield any(map(is_warning, run.findings))
    if "drift" in fail_on:
        yield any(each.changes for each in run.results)
    if comparison is not None:
        if "regression" in fail_on:
            yield bool(comparison.regressions)
        if "drift" in fail_on:
            yield any(each.kind in _DRIFT for each in comparison.differences)


def _has_warning(result: ServerResult) -> bool:
    return result.warnings > 0 or any(map(is_warning, result.findings))


def is_warning(finding: CatalogFinding) -> bool:
    """Return whether a finding of the lint is a warning that is not accepted."""
    return finding.severity == "warn" and not finding.accepted
