"""`accord fleet init`: write a fleet file with the servers of a repository."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.cli.options import Commands, UsageError, add_command
from accord.cli.terminal import escape_controls, note, say
from accord_tools.fleet.definition import DEFAULT_FILE, DEFAULT_HISTORY, DEFAULT_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accord_tools.hosts.sources.found_server import FoundServer

_HELP: Final = """\
usage: accord fleet init [options] [FOLDER]

Write a fleet file with the servers that a repository has: Python files, packages of Node.js,
server.json, and the configurations of hosts in it. Files are read, and nothing is launched or
imported. Values that look like secrets are written as ${env:NAME}. A file that exists stays.

Exit code: 0 the file is written, 2 it exists or cannot be written.

examples:
  accord fleet init
  accord fleet init --hosts
  accord fleet init servers --output fleet.toml
"""
_OPTIONS: Final = f"""\
folder? FOLDER  the repository (default: this folder)
--output FILE   the file to write (default: {DEFAULT_FILE} in the folder)
--hosts         also take the servers that this user's hosts have, such as Cursor or VS Code
--tests         also look into folders of tests
"""
_HEAD: Final = """\
# The servers of this fleet, and what is expected of each. `accord fleet` checks them all.

[fleet]
name = {name}
rules = {rules}  # scores are comparable as long as this stays

[defaults]
time = {time:g}  # seconds for everything about one server
expect = {{ failures = 0 }}  # also: warnings, score, coverage, tests, start, tokens
# lock = "locks/{{name}}.lock.json"  # what each should offer; accord fleet --update-locks writes it
"""
_EXAMPLE: Final = """\

# [mcpServers.tickets]  # as hosts write it
# command = "python"
# args = ["tickets.py"]
# env = { TICKETS_KEY = "${env:TICKETS_KEY}" }
#
# [server.tickets]  # what is expected of it; every key is optional
# owner = "team-a"
# tags = ["internal"]
"""


def register(kinds: Commands, name: str, help: str) -> None:
    """Add the command to the command line."""
    add_command(kinds, name, run, _HELP, _OPTIONS, help=help)


def run(options: argparse.Namespace) -> int:
    """Find servers and write the file."""
    from accord_tools.fleet.sources.repository import find_servers
    from accord_tools.fleet.sources.server import make_unique

    folder = Path(options.folder or ".")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    path = options.output or folder / DEFAULT_FILE
    if path.exists():
        raise UsageError(f"{path} exists already; accord fleet add and import extend it")
    found = find_servers(folder, base=path.parent, has_tests=options.tests)
    if options.hosts:
        found = make_unique([*found, *_host_servers(found)])
    _create(path, file_text(folder.absolute().name, found))
    say(f"wrote {escape_controls(str(path))} with {_count(found)}\n")
    report_servers(found)
    _advise(path, has_servers=bool(found))
    return 0


def _count(found: "Sequence[FoundServer]") -> str:
    return f"{len(found)} server{'' if len(found) == 1 else 's'}"


def _host_servers(known: "Sequence[FoundServer]") -> "list[FoundServer]":
    """Return the servers of this user's hosts that are not known yet."""
    from accord.errors import AccordError
    from accord_tools.fleet.sources.host_files import find_host_files, read_host_file
    from accord_tools.fleet.sources.server import hide_literals

    found: list[FoundServer] = []
    for host, path in find_host_files(os.environ):
        try:
            servers = read_host_file(path, f"{host}: {path}")
        except AccordError as error:
            note(f"left out: {error}")
            continue
        found += servers
    seen = [each.entry for each in known]
    new = []
    for each in hide_literals(found):
        if each.entry not in seen:
            seen.append(each.entry)
            new.append(each)
    return new


def file_text(name: str, found: "Sequence[FoundServer]") -> str:
    """Return the text of a new fleet file."""
    from accord_tools.fleet.rule_set import LATEST, find_rule_set
    from accord_tools.fleet.sources.insertion import toml_addition
    from accord_tools.hosts.documents.toml_text import format_text

    printable = "".join(each for each in name if each.isprintable()).strip() or "fleet"
    rules = format_text(find_rule_set(LATEST).version)
    text = _HEAD.format(name=format_text(printable), rules=rules, time=DEFAULT_TIME)
    return text + (toml_addition(text, found) if found else _EXAMPLE)


def _create(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists already") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def report_servers(found: "Sequence[FoundServer]") -> None:
    """Print what was added, remarks on it, and the variables to set."""
    from accord.cli.terminal import escape_unprintable
    from accord_tools.fleet.file.entries import show_entry

    width = max((len(each.name) for each in found), default=0)
    for each in found:
        line = f"  {each.name:{width}}  {show_entry(each.entry)}"
        lines = [line, *(f"  {'':{width}}  {remark}" for remark in each.remarks)]
        # Names of files may have line breaks.
        say("".join(f"{escape_unprintable(line)}\n" for line in lines))
    variables = sorted({name for each in found for name in each.variables})
    if variables:
        named = escape_unprintable(", ".join(variables))
        say(f"set these variables before a run: {named}\n")


def _advise(path: Path, *, has_servers: bool) -> None:
    ignored = path.parent / ".gitignore"
    text = ignored.read_text("utf-8", errors="replace") if ignored.is_file() else ""
    if DEFAULT_HISTORY not in text:
        say(f"add {DEFAULT_HISTORY}* to .gitignore: it is the history of runs on this machine\n")
    named = "" if path == Path(DEFAULT_FILE) else f" {escape_controls(str(path))}"
    if not has_servers:
        file = f" --file{named}" if named else ""
        say(f"next: add a server: accord fleet add NAME{file} -- COMMAND, or accord fleet import\n")
        return
    say(f"next: look at the file, then: accord fleet trust{named}, accord fleet{named}\n")
