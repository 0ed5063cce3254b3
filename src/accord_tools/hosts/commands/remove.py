"""`accord remove`: take a server out of the configurations of hosts."""

import argparse
from typing import TYPE_CHECKING, Final

from accord.cli.options import (
    TEXT_OR_JSON,
    Commands,
    UsageError,
    add_command,
    did_you_mean,
    is_json,
)
from accord.cli.terminal import complain, escape_controls, painter, say, say_json
from accord_tools.hosts.commands.changes import WRITING, describe_plan, show_plans, write_plans
from accord_tools.hosts.commands.selection import (
    FILES,
    existing_files,
    is_same_file,
    read_hosts,
    unique_files,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accord_tools.hosts.operations.plan import PlannedChange
    from accord_tools.hosts.writing.journal import Journal

_HELP: Final = """\
usage: accord remove [options] NAME ...

Take servers out of the configurations of hosts: all that have an entry of this name, or those of
--host. The change is shown as a diff, and asked for. If accord added the entry, the file gets back
the very bytes that it had before; secrets that accord kept for it are removed, too.

Exit code: 0 removed, 1 you declined, 2 it could not be removed, or there is no such entry.

examples:
  accord remove tickets
  accord remove tickets --host cursor --dry-run
"""
_OPTIONS: Final = f"""\
name* NAME    the names of the entries
{FILES}\
{WRITING}\
{TEXT_OR_JSON}
"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(commands, "remove", run, _HELP, _OPTIONS, format="text")


def run(options: argparse.Namespace) -> int:
    """Plan, show, ask and write."""
    from accord_tools.hosts.writing.journal import Journal

    if not options.name:
        raise UsageError("remove needs the NAME of an entry; accord hosts shows them")
    journal = Journal()
    planned, failures = _plan(options, journal)
    if is_json(options):
        written = write_plans(planned, options, journal)
        say_json(
            {
                "changes": [describe_plan(each) for each in planned],
                "written": [str(each.path) for each in written or ()],
            }
        )
    else:
        show_plans(planned)
        written = write_plans(planned, options, journal)
        paint = painter()
        for plan in planned if written else ():
            path = escape_controls(str(plan.file.path))
            say(f"{paint('green', 'removed')} {plan.name} from {path}\n")
        if written:
            say("accord hosts undo takes it back\n")
    for failure in failures:
        complain(failure)
    if failures:
        return 2
    return 1 if written is None else 0


def _plan(
    options: argparse.Namespace, journal: "Journal"
) -> "tuple[list[PlannedChange], list[str]]":
    from accord_tools.hosts.definition import HostsError, Machine
    from accord_tools.hosts.operations.listing import list_file
    from accord_tools.hosts.operations.plan import plan_removal, uses_secrets_of
    from accord_tools.hosts.table import config_files

    machine = Machine.current()
    hosts = read_hosts(options)
    listed = [list_file(file) for file in existing_files(options, hosts, machine)]
    everywhere = [
        list_file(file) for host in hosts.values() for file in config_files(host, machine)
    ]
    planned: list[PlannedChange] = []
    failures: list[str] = []
    for name in options.name:
        holding = [
            each.file for each in listed if any(entry.name == name for entry in each.entries)
        ]
        if not holding:
            known = sorted({entry.name for each in listed for entry in each.entries})
            unreadable = [each.fault for each in listed if each.fault]
            failures.append(_explain_missing(name, known, unreadable))
        kept = [
            entry
            for each in everywhere
            for entry in each.entries
            if uses_secrets_of(entry.value, name)
            and not (entry.name == name and is_same_file(each.file, holding))
        ]
        for file in unique_files(holding):
            try:
                planned.append(plan_removal(file, name, journal, is_secret_kept=bool(kept)))
            except HostsError as error:
                failures.append(str(error))
    return planned, failures


def _explain_missing(name: str, known: "Sequence[str]", unreadable: "Sequence[str]") -> str:
    hint = did_you_mean(name, known) or (f"; there are {', '.join(known)}" if known else "")
    more = f" (not readable: {'; '.join(unreadable)})" if unreadable else ""
    return f"no host has a server {name!r}{hint}{more}"
