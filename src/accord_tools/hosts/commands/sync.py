"""`accord hosts sync`: copy servers from one host to others."""

import argparse
from typing import TYPE_CHECKING, Final

from accord.cli.options import TEXT_OR_JSON, UsageError, is_json, kind_of_work
from accord.cli.terminal import note, say, say_json
from accord_tools.hosts.commands.changes import WRITING, describe_plan, show_plans, write_plans
from accord_tools.hosts.commands.selection import read_hosts, scope_of

if TYPE_CHECKING:
    from accord_tools.hosts.definition import ConfigFile, Host, Machine, Scope

_HELP: Final = """\
usage: accord hosts sync [options] FROM TO ...

Copy servers from one host to others, each in the form of the other host: its keys, its names for
transports, its placeholders. A server that the other host has already stays as it is there, unless
--replace. Changes are shown as diffs and asked for.

Exit code: 0 written, or nothing to change; 1 you declined; 2 it could not be done.

examples:
  accord hosts sync claude-desktop cursor
  accord hosts sync cursor codex zed --server tickets --dry-run
"""
_OPTIONS: Final = f"""\
from FROM     the host that has the servers
to* TO        the hosts that get them
--server NAME  only this server; may be repeated
--replace     replace servers of the same name that differ
--scope S     user or project, for both sides (default: user)
--hosts FILE  more hosts than accord knows, as a file of TOML
{WRITING}\
{TEXT_OR_JSON}
"""


@kind_of_work(_HELP, _OPTIONS, format="text")
def run(options: argparse.Namespace) -> int:
    """Plan, show, ask and write."""
    from accord_tools.hosts.definition import Machine
    from accord_tools.hosts.operations.plan import combine, plan_sync
    from accord_tools.hosts.table import find_host
    from accord_tools.hosts.writing.journal import Journal

    if not options.to:
        raise UsageError("sync needs two hosts or more: accord hosts sync FROM TO ...")
    machine = Machine.current()
    hosts = read_hosts(options)
    scope: Scope = scope_of(options) or "user"
    source = _file(find_host(hosts, getattr(options, "from")), machine, scope)
    goals = [_file(find_host(hosts, each), machine, scope) for each in options.to]
    if any(each.host.id == source.host.id for each in goals):
        raise UsageError(f"{source.host.name} is on both sides")
    plan = plan_sync(source, goals, machine, names=options.server, is_replacing=options.replace)
    planned = combine(plan.planned)
    for each in plan.left_out:
        note(each)
    if not planned and not plan.left_out:
        note(f"there is nothing to copy: {source.path} has no servers of {source.host.name}")
    if is_json(options):
        written = write_plans(planned, options, Journal())
        changes = [describe_plan(each) for each in planned]
        files = [str(each.path) for each in written or ()]
        say_json({"changes": changes, "leftOut": list(plan.left_out), "written": files})
        return 1 if written is None else 0
    show_plans(planned)
    written = write_plans(planned, options, Journal())
    for change in written or ():
        say(f"wrote {change.path}\n")
    for goal in goals if written else ():
        if goal.host.reload:
            say(f"  {goal.host.name}: {goal.host.reload}\n")
    return 1 if written is None else 0


def _file(host: "Host", machine: "Machine", scope: "Scope") -> "ConfigFile":
    from accord_tools.hosts.table import default_file

    found = default_file(host, machine, scope)
    if found is None:
        raise UsageError(f"{host.name} has no file of scope {scope} on this system")
    return found
