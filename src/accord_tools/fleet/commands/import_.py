"""`accord fleet import`: take servers over from other files."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.cli.options import Commands, UsageError, add_command
from accord.cli.terminal import escape_controls, note, say
from accord_tools.fleet.definition import DEFAULT_FILE

if TYPE_CHECKING:
    from accord_tools.hosts.sources.found_server import FoundServer

_HELP: Final = """\
usage: accord fleet import SOURCE [options]

Take servers over into a fleet file. SOURCE is a file with mcpServers of any host, a server.json of
the registry, a configuration of mcp-jest, a server.yaml of the Docker catalogue, or a folder of
such files. Tests of mcp-jest become files of cases. Values that look like secrets are written as
${env:NAME}. Nothing is launched.

Exit code: 0 the servers are written, 2 there is nothing to import, or a name is taken.

examples:
  accord fleet import .cursor/mcp.json
  accord fleet import tests/mcp-jest --dry-run
  accord fleet import server.json --name weather
"""
_OPTIONS: Final = f"""\
source SOURCE  the file or folder
--file FILE    the fleet file (default: {DEFAULT_FILE})
--name NAME    the name of the server, if the source has one only
--dry-run      only show what would be written
"""


def register(kinds: Commands, name: str, help: str) -> None:
    """Add the command to the command line."""
    add_command(kinds, name, run, _HELP, _OPTIONS, help=help)


def run(options: argparse.Namespace) -> int:
    """Read the source and write the servers."""
    from accord_tools.fleet.commands.add import write_servers
    from accord_tools.fleet.commands.init import report_servers
    from accord_tools.fleet.sources.insertion import toml_addition
    from accord_tools.fleet.sources.server import make_unique, rename_server
    from accord_tools.fleet.sources.source_file import read_source

    path = Path(options.file or DEFAULT_FILE)
    found, remarks = read_source(Path(options.source), path.parent)
    if options.name:
        if len(found) != 1:
            names = ", ".join(each.name for each in found)
            raise UsageError(f"--name is for one server, and {options.source} has {names}")
        found = [rename_server(found[0], options.name)]
    found = make_unique(found)
    for remark in remarks:
        note(f"left out: {remark}")
    if options.dry_run:
        say(toml_addition("", found))
        for name, text in _files(found).items():
            say(f"\n# {name}\n{text}")
        return 0
    _refuse_existing(path.parent, found)
    write_servers(path, found)
    for name, text in _files(found).items():
        file = path.parent / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        say(f"wrote {escape_controls(str(file))}\n")
    say(f"added to {escape_controls(str(path))}:\n")
    report_servers(found)
    return 0


def _files(found: "list[FoundServer]") -> dict[str, str]:
    return {name: text for each in found for name, text in each.files.items()}


def _refuse_existing(folder: Path, found: "list[FoundServer]") -> None:
    for name, text in _files(found).items():
        file = folder / name
        if file.exists() and (not file.is_file() or file.read_bytes() != text.encode()):
            raise UsageError(f"{file} exists already; move it away, or choose a --name")
