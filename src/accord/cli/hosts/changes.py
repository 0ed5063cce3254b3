"""Planned changes of hosts' files: shown, confirmed and written."""

import argparse
from typing import TYPE_CHECKING, Any, Final

from accord.cli.confirmation import confirm
from accord.cli.terminal import escape_controls, note, painter, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accord.hosts.operations.plan import PlannedChange
    from accord.hosts.writing.change import WrittenChange
    from accord.hosts.writing.journal import Journal

WRITING: Final = """\
--dry-run     show what would be written, and write nothing
--yes         do not ask
"""
_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}


def show_plans(planned: "Sequence[PlannedChange]") -> None:
    """Print what would be written, as diffs, and what a user should know about it."""
    paint = painter()
    shown: dict[str, str] = {}
    for plan in planned:
        say(paint("bold", f"{plan.file.host.name}: {escape_controls(str(plan.file.path))}") + "\n")
        for remark in plan.remarks:
            say(f"  {escape_controls(remark)}\n")
        if not plan.is_needed:
            say("  nothing to change\n")
            continue
        difference = plan.difference
        first = shown.setdefault(difference, plan.file.host.name)
        if first != plan.file.host.name:
            say(f"  the same change as for {first}\n\n")
            continue
        show_difference_lines(difference)
        say("\n")


def show_difference_lines(text: str) -> None:
    """Print a diff, in colours on a terminal."""
    paint = painter()
    for line in text.splitlines():
        style = "" if line.startswith(("+++", "---")) else _STYLES.get(line[:1], "")
        say((paint(style, line) if style else line) + "\n")


def write_plans(
    planned: "Sequence[PlannedChange]", options: argparse.Namespace, journal: "Journal"
) -> "list[WrittenChange] | None":
    """Ask, then write the files; return what was written, or None if it was declined.

    With `--dry-run` nothing is written.
    """
    from accord.hosts.operations.plan import merge_changes
    from accord.hosts.writing.change import write_changes

    needed = [each for each in planned if each.is_needed]
    if options.dry_run or not needed:
        return []
    files = len({each.file.path for each in needed})
    what = "this file" if files == 1 else f"these {files} files"
    if not options.yes and not confirm(f"write {what}? [y/N] "):
        note("nothing was written")
        return None
    return write_changes(merge_changes(needed), journal)


def describe_plan(plan: "PlannedChange") -> dict[str, Any]:
    """Return a planned change for programs; it has no secrets."""
    return {
        "host": plan.file.host.id,
        "scope": plan.file.scope,
        "file": str(plan.file.path),
        "name": plan.name,
        "changed": plan.is_needed,
        "remarks": list(plan.remarks),
        "diff": plan.difference if plan.is_needed else "",
    }
