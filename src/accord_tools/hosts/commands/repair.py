"""`accord hosts repair`: mend entries that are wrong, where there is one way to mend them."""

import argparse
import contextlib
from typing import TYPE_CHECKING, Final

from accord.cli.options import TEXT_OR_JSON, is_json, kind_of_work
from accord.cli.terminal import escape_controls, note, say, say_json
from accord_tools.hosts.commands.changes import WRITING, describe_plan, show_plans, write_plans
from accord_tools.hosts.commands.selection import (
    FILES,
    demand_names,
    existing_files,
    named_hosts,
    read_hosts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from accord_tools.hosts.definition import ConfigFile, Host, Machine
    from accord_tools.hosts.operations.plan import PlannedChange
    from accord_tools.hosts.repairing import Repair

_HELP: Final = """\
usage: accord hosts repair [options] [NAME ...]

Mend what accord hosts check finds, where only one change comes into question: an interpreter that
is gone while its environment is there, a script that was moved, a relative path, a key or member
that this host does not read, a wrong or missing type, the same entry twice, a program that is not
on the host's PATH. Each file is shown as a diff, with the reason of each change, and asked for.
What remains is advice: accord hosts check prints it.

Exit code: 0 mended, or nothing to mend; 1 you declined; 2 a file could not be changed.

examples:
  accord hosts repair --dry-run
  accord hosts repair tickets --host cursor
"""
_OPTIONS: Final = f"""\
name* NAME    only the entries of these names
{FILES}\
{WRITING}\
{TEXT_OR_JSON}
"""


@kind_of_work(_HELP, _OPTIONS, format="text")
def run(options: argparse.Namespace) -> int:
    """Find repairs, show, ask and write."""
    from accord_tools.hosts.writing.journal import Journal

    planned, unreadable = _plan(options)
    for fault in unreadable:
        note(f"left alone: {fault}")
    code = 2 if unreadable else 0
    if is_json(options):
        written = write_plans(planned, options, Journal())
        say_json(
            {
                "changes": [describe_plan(each) for each in planned],
                "leftAlone": unreadable,
                "written": [str(each.path) for each in written or ()],
            }
        )
        return 1 if written is None else code
    if not planned:
        what = "nothing else" if unreadable else "nothing"
        say(f"{what} to mend; accord hosts check launches each server\n")
        return code
    show_plans(planned)
    written = write_plans(planned, options, Journal())
    for change in written or ():
        say(f"mended {escape_controls(str(change.path))}\n")
    if written:
        say("accord hosts check launches each server, accord hosts undo takes this back\n")
    return 1 if written is None else code


def _plan(options: argparse.Namespace) -> "tuple[list[PlannedChange], list[str]]":
    """Return the repairs by file, and why other files are left alone."""
    from accord_tools.hosts.checking.files import check_file
    from accord_tools.hosts.definition import Machine

    machine = Machine.current()
    hosts = read_hosts(options)
    files = existing_files(options, hosts, machine)
    reports = [check_file(each, machine) for each in files]
    demand_names(options.name, reports)
    faults = [fault for report in reports for fault in report.findings]
    unreadable = [each for each in faults if each.code in ("file-unreadable", "file-syntax")]
    by_file: dict[Path, list[Repair]] = {}
    for each in _find_repairs(options, hosts, files, machine):
        by_file.setdefault(each.file.path, []).append(each)
    planned = [_plan_file(each) for each in by_file.values()]
    needed = [each for each in planned if each.is_needed]
    return needed, list(dict.fromkeys(each.message for each in unreadable))


def _find_repairs(
    options: argparse.Namespace,
    hosts: "Mapping[str, Host]",
    files: "Sequence[ConfigFile]",
    machine: "Machine",
) -> "Iterator[Repair]":
    from accord_tools.hosts.definition import HostsError
    from accord_tools.hosts.repairing import find_host_repairs, find_repairs

    if options.file is None and options.scope is None:
        used = {file.host.id: file.host for file in files}
        for host in named_hosts(options, hosts) or used.values():
            yield from find_host_repairs(host, machine, names=options.name)
        return
    for file in files:
        with contextlib.suppress(HostsError):
            yield from find_repairs(file, machine, names=options.name)


def _plan_file(repairs: "Sequence[Repair]") -> "PlannedChange":
    """Return the repairs of one file as one change."""
    from accord_tools.hosts.operations.plan import PlannedChange
    from accord_tools.hosts.repairing import combine_repairs
    from accord_tools.hosts.writing.change import FileChange
    from accord_tools.hosts.writing.destination import find_target, read_file

    file = repairs[0].file
    names = ", ".join(dict.fromkeys(each.entry for each in repairs if each.entry))
    compute = combine_repairs(repairs)
    before = read_file(find_target(file.path))
    change = FileChange(
        path=file.path, host=file.host.id, name=names, action="repair", compute=compute
    )
    return PlannedChange(
        file=file,
        name=names,
        before=before,
        after=compute(before),
        changes=(change,),
        remarks=tuple(dict.fromkeys(each.title for each in repairs)),
    )
