"""Planned changes of hosts' files: shown, confirmed and written."""

import argparse
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from accord.cli.confirmation import confirm
from accord.cli.terminal import escape_controls, note, painter, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accord_tools.hosts.operations.plan import PlannedChange
    from accord_tools.hosts.writing.change import WrittenChange
    from accord_tools.hosts.writing.journal import Journal

WRITING: Final = """\
--dry-run     show what would be written, and write nothing
--yes         do not ask
"""
_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}


def show_plans(planned: "Sequence[PlannedChange]") -> None:
    """Print what would be written, as diffs, and what a user should know about it."""
    paint = painter()
    for plan in planned:
        say(paint("bold", f"{plan.file.host.name}: {escape_controls(str(plan.file.path))}") + "\n")
        if link := _find_link(plan):
            say(f"  {escape_controls(link.text)}\n")
        for remark in plan.remarks:
            say(f"  {escape_controls(remark)}\n")
        if not plan.is_needed:
            say("  nothing to change\n")
            continue
        show_difference_lines(plan.difference)
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
    from accord_tools.hosts.operations.plan import merge_changes
    from accord_tools.hosts.writing.change import write_changes

    needed = [each for each in planned if each.is_needed]
    if options.dry_run or not needed:
        return []
    files = len({each.file.path for each in needed})
    what = "this file" if files == 1 else f"these {files} files"
    # Others may have made such a link, so that the question names where it leads.
    links = {link.text for each in needed if (link := _find_link(each)) and link.is_outside}
    more = "".join(f" ({each})" for each in sorted(links))
    if not options.yes and not confirm(f"write {what}{more}? [y/N] "):
        note("nothing was written")
        return None
    return write_changes(merge_changes(needed), journal)


class _Link(NamedTuple):
    """Where the file of a plan leads, if it is a link."""

    text: str
    is_outside: bool


def _find_link(plan: "PlannedChange") -> _Link | None:
    from accord_tools.hosts.definition import Machine
    from accord_tools.hosts.table.places import project_folders
    from accord_tools.hosts.writing.destination import find_link_target

    machine = Machine.current()
    folder = project_folders(machine)[-1] if plan.file.is_shared else machine.home
    target = find_link_target(plan.file.path, folder)
    if target is None:
        return None
    is_outside = plan.file.is_shared and not target.is_relative_to(os.path.realpath(folder))
    return _Link(f"a link to {target}{', outside of the project' * is_outside}", is_outside)


def describe_plan(plan: "PlannedChange") -> dict[str, Any]:
    """Return a planned change for programs; it has no secrets."""
    link = _find_link(plan)
    return {
        "host": plan.file.host.id,
        "scope": plan.file.scope,
        "file": str(plan.file.path),
        **({"link": link.text} if link else {}),
        "name": plan.name,
        "changed": plan.is_needed,
        "remarks": list(plan.remarks),
        "diff": plan.difference if plan.is_needed else "",
    }
