"""Findings about what a server did while it was checked; those about its texts are of the lint."""

from collections.abc import Iterable, Iterator
from typing import Final

from accord_tools.check.probing.tool_calls import ToolCounts
from accord_tools.check.rendering.wording import plural
from accord_tools.fleet.results import CatalogFinding
from accord_tools.fleet.worker.job import WorkerReport

_LEFT_BEHIND: Final = "process.left-behind"
_NEVER_SUCCEEDED: Final = "calls.never-succeeded"
RUN_FINDINGS: Final = frozenset({_LEFT_BEHIND, _NEVER_SUCCEEDED})
"""The ids of these findings, for `accept`."""


def count_tool_calls(report: WorkerReport) -> tuple[ToolCounts, ...]:
    """Return the calls of each tool, by the check and by the tests together."""
    of_check = () if report.report is None else report.report.setting.tools
    found: dict[str, ToolCounts] = {}
    for each in (*of_check, *report.tool_calls):
        before = found.get(each.name, ToolCounts(name=each.name))
        found[each.name] = ToolCounts(
            name=each.name,
            calls=before.calls + each.calls,
            succeeded=before.succeeded + each.succeeded,
            refused=before.refused + each.refused,
        )
    return tuple(found.values())


def find_left_behind(report: WorkerReport, server: str) -> Iterator[CatalogFinding]:
    """Yield a finding for each process that ran on after the server was stopped."""
    for each in report.left_processes:
        yield CatalogFinding(
            id=_LEFT_BEHIND,
            severity="warn",
            text=f"{each} still ran after the server was stopped, and was ended: a server ends"
            " what it starts when its standard input closes",
            subject="process",
            server=server,
        )


def find_failing_tools(tools: Iterable[ToolCounts], server: str) -> Iterator[CatalogFinding]:
    """Yield a finding for each tool that answered every call with an error."""
    for each in tools:
        if each.never_succeeded:
            yield CatalogFinding(
                id=_NEVER_SUCCEEDED,
                severity="warn",
                text=f"none of {plural(each.calls, 'call')} succeeded, so nothing shows that it"
                " works; give examples of valid arguments in its inputSchema, or a test case",
                subject=f"tool {each.name}",
                server=server,
            )
