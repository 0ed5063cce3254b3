"""Changes of hosts' files: shown, confirmed and written; `accord hosts undo` takes them back."""

import argparse
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from accord.cli.options import TEXT_OR_JSON, UsageError, is_json, kind_of_work
from accord.cli.terminal import confirm, escape_controls, note, painter, say, say_json
from accord_tools.hosts.commands.selection import read_hosts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accord_tools.hosts.definition import ConfigFile
    from accord_tools.hosts.operations.plan import PlannedChange
    from accord_tools.hosts.writing.change import FileChange, WrittenChange
    from accord_tools.hosts.writing.journal import Journal, JournalEntry


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
    from accord_tools.hosts.table import project_folders
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


# -- accord hosts undo


_HELP: Final = """\
usage: accord hosts undo [options] [NUMBER]

Take back the newest change that accord made to the files of hosts, or the one with this number. A
second undo takes back the change before; the number of an undo makes its change again.
The file gets back the bytes of before. If another program changed it since, only what accord wrote
is taken out, and the rest stays; where that is not possible, the file is left alone and the backup
is named.

Exit code: 0 done, 1 you declined, 2 it could not be taken back.

examples:
  accord hosts undo --list
  accord hosts undo
  accord hosts undo 12 --yes
"""
_OPTIONS: Final = f"""\
number? NUMBER  the change, as --list shows it (default: the newest that is in force)
--list        show the changes, newest first, and take none back
--hosts FILE  more hosts than accord knows, as a file of TOML
{WRITING}\
{TEXT_OR_JSON}
"""


@kind_of_work(_HELP, _OPTIONS, format="text")
def run(options: argparse.Namespace) -> int:
    """Show the changes, or take one back."""
    from accord_tools.hosts.writing.change import write_changes
    from accord_tools.hosts.writing.journal import Journal

    journal = Journal()
    if options.list:
        _list(options, journal)
        return 0
    changes = _plan(options, journal)
    if not options.dry_run:
        if not options.yes and not confirm("take this back? [y/N] "):
            note("nothing was changed")
            return 1
        write_changes(changes, journal)
    files = [str(each.path) for each in changes]
    if is_json(options):
        say_json({"files": files, "written": not options.dry_run})
    elif not options.dry_run:
        for path in files:
            say(f"took back the change of {escape_controls(path)}\n")
    return 0


def _list(options: argparse.Namespace, journal: "Journal") -> None:
    entries = journal.entries()
    if is_json(options):
        say_json({"changes": [_describe(each) for each in entries]})
        return
    if not entries:
        say("accord has not changed any file of a host\n")
    paint = painter()
    for each in entries:
        when = each.time[:16].replace("T", " ")
        what = f"{each.action:6}  {each.host:15}  {escape_controls(each.name)}"
        say(f"{each.id:5}  {when}  {what}  {paint('dim', escape_controls(each.file))}\n")


def _describe(entry: "JournalEntry") -> dict[str, Any]:
    return {
        "number": entry.id,
        "group": entry.group,
        "time": entry.time,
        "action": entry.action,
        "host": entry.host,
        "name": entry.name,
        "file": entry.file,
    }


def _plan(options: argparse.Namespace, journal: "Journal") -> "list[FileChange]":
    """Return the changes that take back, after showing them."""
    from accord_tools.hosts.definition import Machine
    from accord_tools.hosts.operations.edits import verify_rest
    from accord_tools.hosts.table import file_at
    from accord_tools.hosts.writing.change import undo

    hosts, machine = read_hosts(options), Machine.current()

    def find_file(host: str, path: str) -> "ConfigFile | None":
        from pathlib import Path

        is_secret = path.endswith(".env")
        return None if host not in hosts or is_secret else file_at(hosts[host], Path(path), machine)

    def verify(entry: "JournalEntry", before: bytes, after: bytes) -> None:
        file = find_file(entry.host, entry.file)
        if file is not None:
            verify_rest(file, before, after, entry.name.split(", "))

    changes = undo(journal, _number(options.number), verify=verify)
    if not is_json(options):
        _show(changes, [find_file(each.host, str(each.path)) for each in changes])
    return changes


def _number(text: str) -> int | None:
    if text and not text.isdecimal():
        raise UsageError(f"{text!r} is not the number of a change; see accord hosts undo --list")
    return int(text) if text else None


def _show(changes: "Sequence[FileChange]", files: "Sequence[ConfigFile | None]") -> None:
    """Print each change as a diff; files with secrets are only named."""
    from accord_tools.hosts.operations.plan import PlannedChange
    from accord_tools.hosts.writing.destination import find_target, read_file

    for change, file in zip(changes, files, strict=True):
        before = read_file(find_target(change.path))
        after = change.compute(before)
        if file is None:
            verb = "removes" if after is None else "restores"
            say(f"{verb} {escape_controls(str(change.path))}, which has secrets\n")
            continue
        show_difference_lines(
            PlannedChange(file=file, name=change.name, before=before, after=after).difference
        )
