"""`accord fleet export`: the servers of a fleet as a host writes them."""

import argparse
from pathlib import Path
from typing import Final

from accord.cli.options import Commands, UsageError, add_command, one_of
from accord.cli.terminal import note, say
from accord_tools.fleet.definition import DEFAULT_FILE

_HELP: Final = """\
usage: accord fleet export [options] [FILE]

Print the servers of a fleet as entries for a host, with the placeholders that the host fills in.
Values of variables are not in it.

Exit code: 0 success, 2 the file cannot be read, or the host is not known.

examples:
  accord fleet export
  accord fleet export --host cursor > .cursor/mcp.json
  accord fleet export servers.toml --format servers
"""
_OPTIONS: Final = f"""\
file? FILE        the fleet file (default: {DEFAULT_FILE})
--host HOST       a host such as claude-code, claude-desktop, cursor, vscode, zed, codex or goose;
                  a name that is not known lists all
--format F        without a host: mcpServers, servers or context_servers (default: mcpServers)
--allow-literals  read a file with values that look like secrets, and print them
"""
_FORMATS: Final = {"mcpServers": "mcpServers", "servers": "vscode", "context_servers": "zed"}


def register(kinds: Commands, name: str, help: str) -> None:
    """Add the command to the command line."""
    add_command(kinds, name, run, _HELP, _OPTIONS, help=help, format="mcpServers")


def run(options: argparse.Namespace) -> int:
    """Print the entries."""
    from accord_tools.fleet.file.reader import read_fleet
    from accord_tools.fleet.sources.export import HOSTS, export_fleet

    host = _FORMATS[one_of(options.format, tuple(_FORMATS), "format")]
    if options.host:
        if options.format != "mcpServers":
            raise UsageError("either --host or --format")
        host = one_of(options.host, HOSTS, "host")
    fleet = read_fleet(Path(options.file or DEFAULT_FILE), allow_literals=options.allow_literals)
    exported = export_fleet(fleet, host)
    for remark in exported.remarks:
        note(remark)
    say(exported.text)
    return 0
