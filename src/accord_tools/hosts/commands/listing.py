"""`accord hosts list`: the hosts on this machine, their files and the servers in them."""

import argparse
from typing import TYPE_CHECKING, Any, Final

from accord.cli.options import TEXT_OR_JSON, is_json, kind_of_work
from accord.cli.terminal import escape_controls, painter, say, say_json, width
from accord_tools.hosts.commands.selection import named_hosts, read_hosts

if TYPE_CHECKING:
    from collections.abc import Callable

    from accord.client.server_spec import ServerSpec
    from accord_tools.hosts.operations.listing import FileEntry, ListedFile, ListedHost

_HELP: Final = """\
usage: accord hosts list [options] [HOST ...]
       accord hosts [options] [HOST ...]

Show the hosts that are installed here, where their configurations are, and the servers in them,
each with its line. Values of variables and headers are not shown.

Exit code: 0 all files can be read, 1 one cannot, 2 a host is not known.

examples:
  accord hosts
  accord hosts cursor codex
  accord hosts --all
  accord hosts --format json | jq '.hosts[].files[].path'
"""
_OPTIONS: Final = f"""\
host* HOST    these hosts only
--all         also hosts that are not installed here
--hosts FILE  more hosts than accord knows, as a file of TOML
{TEXT_OR_JSON}
"""


@kind_of_work(_HELP, _OPTIONS, format="text")
def run(options: argparse.Namespace) -> int:
    """Print the hosts."""
    from accord_tools.hosts.definition import Machine
    from accord_tools.hosts.operations.listing import list_hosts, list_hosts_in_use

    known = read_hosts(options)
    chosen = named_hosts(options, known)
    machine = Machine.current()
    if chosen or options.all:
        listed = list_hosts(chosen or known.values(), machine)
    else:
        listed = list_hosts_in_use(known.values(), machine)
    if is_json(options):
        say_json({"hosts": [_describe_host(each) for each in listed]})
    else:
        _show(listed)
    return 1 if any(file.fault for each in listed for file in each.files) else 0


# -- for people


def _show(listed: "list[ListedHost]") -> None:
    paint = painter()
    if not listed:
        say("no host is installed here; accord hosts --all shows those that accord knows\n")
    for each in listed:
        state = "" if each.trace else ", not installed"
        old = ", discontinued" if each.host.status == "discontinued" else ""
        say(f"{paint('bold', each.host.name)} ({each.host.id}{state}{old})\n")
        if not each.files:
            say("  no file: servers are added in the application\n")
        for file in each.files:
            _show_file(file, paint)


def _show_file(listed: "ListedFile", paint: "Callable[[str, str], str]") -> None:
    path = escape_controls(str(listed.file.path))
    if listed.fault:
        say(f"  {paint('bold red', 'not readable')}  {escape_controls(listed.fault)}\n")
        return
    if not listed.exists:
        say(f"  {path}  {paint('dim', 'not there yet')}\n")
        return
    scope = "  of this project" if listed.file.scope == "project" else ""
    nothing = "" if listed.entries else paint("dim", "  no servers")
    say(f"  {path}{scope}{nothing}\n")
    longest = max((len(each.name) for each in listed.entries), default=0)
    for each in listed.entries:
        say(_entry_line(each, min(longest, 30), paint) + "\n")


def _entry_line(listed: "FileEntry", longest: int, paint: "Callable[[str, str], str]") -> str:
    name = f"{escape_controls(listed.name):{longest}}"
    if listed.entry is None:
        fault = paint("red", escape_controls(listed.fault))
        return f"    {name}  line {listed.line}: {fault}"
    state = paint("yellow", "off  ") if listed.entry.disabled else ""
    line = f"    {name}  {listed.entry.form:5}  {state}{launch_text(listed.entry)}"
    room = width()
    return line if room is None or len(line) <= room else f"{line[: room - 3]}..."


def launch_text(entry: "ServerSpec") -> str:
    """Return what a host launches or connects to, without secrets, in one line."""
    from shlex import join

    from accord.cli.terminal import escape_unprintable
    from accord.secrets.filter import display_command, display_target, hide_forms

    shown = (
        hide_forms(display_target(entry.url)) if entry.url else join(display_command(entry.command))
    )
    return escape_unprintable(shown)


# -- for programs


def _describe_host(listed: "ListedHost") -> dict[str, Any]:
    return {
        "id": listed.host.id,
        "name": listed.host.name,
        "status": listed.host.status,
        "installed": bool(listed.trace),
        "trace": listed.trace,
        "checked": listed.host.checked,
        "files": [_describe_file(each) for each in listed.files],
    }


def _describe_file(listed: "ListedFile") -> dict[str, Any]:
    return {
        "path": str(listed.file.path),
        "scope": listed.file.scope,
        "exists": listed.exists,
        "error": listed.fault or None,
        "servers": [
            {
                "name": each.name,
                "line": each.line,
                "transport": each.entry.form if each.entry else None,
                "disabled": bool(each.entry and each.entry.disabled),
                "target": launch_text(each.entry) if each.entry else None,
                "variables": sorted(each.entry.env) if each.entry else [],
                "headers": sorted(each.entry.headers) if each.entry else [],
                "error": each.fault or None,
            }
            for each in listed.entries
        ],
    }
