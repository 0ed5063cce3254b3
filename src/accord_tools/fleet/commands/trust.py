"""`accord fleet trust`: let a fleet file launch its servers."""

import argparse
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Final

from accord.cli.options import kind_of_work
from accord.cli.terminal import confirm, note, say
from accord_tools.fleet.definition import DEFAULT_FILE

if TYPE_CHECKING:
    from accord_tools.fleet.definition import Fleet

_HELP: Final = """\
usage: accord fleet trust [options] [FILE]

Show what a fleet file launches and contacts, and trust it after a question. accord fleet then runs
the file from any folder. When a command, a variable, a folder, a URL or a tool to call changes in
it, it asks for trust again; what the file expects of servers may change freely. What programs and
case files contain is not looked at: trust a file as you trust the folder that it is in.

Exit code: 0 the file is trusted, or no longer with --remove, 1 you declined, 2 it cannot be read.

examples:
  accord fleet trust
  accord fleet trust servers.toml --yes
  accord fleet trust --remove
"""
_OPTIONS: Final = f"""\
file? FILE        the fleet file (default: {DEFAULT_FILE})
--yes             do not ask
--remove          withdraw the trust
--allow-literals  read a file with values that look like secrets
"""


@kind_of_work(_HELP, _OPTIONS)
def run(options: argparse.Namespace) -> int:
    """Trust a file, or withdraw the trust."""
    from accord_tools.fleet.file.reader import read_fleet
    from accord_tools.fleet.file.trust import TrustStore

    path = Path(options.file or DEFAULT_FILE)
    store = TrustStore()
    if options.remove:
        was_trusted = store.remove(path)
        say(f"{path} is no longer trusted\n" if was_trusted else f"{path} was not trusted\n")
        return 0
    fleet = read_fleet(path, allow_literals=options.allow_literals)
    if store.is_trusted(fleet):
        say(f"{path} is trusted already\n")
        return 0
    if store.is_known(fleet):
        note(f"{path} has changed since you trusted it")
    say(launch_list(fleet))
    if not options.yes and not confirm(f"trust {path} to launch and contact these? [y/N] "):
        note("not trusted")
        return 1
    store.add(fleet)
    say(f"{path} is trusted\n")
    return 0


def launch_list(fleet: "Fleet") -> str:
    """Return a line for each server with what is launched or contacted, without secrets."""
    from accord.cli.terminal import escape_unprintable
    from accord_tools.fleet.file.entries import describe_launch

    lines = []
    width = max((len(each.name) for each in fleet.servers), default=0)
    for server in fleet.servers:
        lines.append(f"  {server.name:{width}}  {describe_launch(server)}")
        if server.version is not None and server.version.command:
            lines.append(f"  {'':{width}}  for its version: {join(server.version.command)}")
    # Line breaks and invisible characters too: they could hide a part of a command.
    return "".join(f"{escape_unprintable(line)}\n" for line in lines)
