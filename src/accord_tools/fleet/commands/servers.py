"""The servers of a fleet file: `accord fleet init`, `add`, `import` and `export`."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accord.cli.options import (
    CWD,
    ENTRY,
    ENV,
    HEADER,
    TARGET,
    UsageError,
    kind_of_work,
    one_of,
)
from accord.cli.target import demand_target, read_target
from accord.cli.terminal import escape_controls, note, say
from accord.client.server_spec import ServerSpec
from accord_tools.fleet.definition import DEFAULT_FILE, DEFAULT_HISTORY, DEFAULT_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accord_tools.hosts.sources.entry_forms import FoundServer


# -- accord fleet init


_INIT_HELP: Final = """\
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
_INIT_OPTIONS: Final = f"""\
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
_EXAMPLE_ENTRY: Final = """\

# [mcpServers.tickets]  # as hosts write it
# command = "python"
# args = ["tickets.py"]
# env = { TICKETS_KEY = "${env:TICKETS_KEY}" }
#
# [server.tickets]  # what is expected of it; every key is optional
# owner = "team-a"
# tags = ["internal"]
"""


@kind_of_work(_INIT_HELP, _INIT_OPTIONS)
def init_file(options: argparse.Namespace) -> int:
    """Find servers and write the file."""
    from accord_tools.fleet.sources.insertion import make_unique
    from accord_tools.fleet.sources.repository import find_servers

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
    from accord_tools.fleet.sources.insertion import hide_literals

    found: list[FoundServer] = []
    for host, path in find_host_files():
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
    from accord_tools.hosts.documents.value_texts import format_text

    printable = "".join(each for each in name if each.isprintable()).strip() or "fleet"
    rules = format_text(find_rule_set(LATEST).version)
    text = _HEAD.format(name=format_text(printable), rules=rules, time=DEFAULT_TIME)
    return text + (toml_addition(text, found) if found else _EXAMPLE_ENTRY)


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


# -- accord fleet add


_ADD_HELP: Final = """\
usage: accord fleet add [options] NAME (TARGET | -- COMMAND ...)

Write one more server into a fleet file. Everything else in the file stays as it is. Values that
look like secrets are written as ${env:NAME}, and the variables to set are listed.

Exit code: 0 the server is written, 2 the name is taken or the file cannot be changed.

examples:
  accord fleet add tickets -- python tickets.py
  accord fleet add search https://example.com/mcp --tag remote --owner team-a
  accord fleet add files --env ROOT=/data -- npx -y @example/files
"""
_ADD_OPTIONS: Final = f"""\
name NAME  the name of the server, its identity through time
{TARGET}{ENTRY}\
--file FILE    the fleet file (default: {DEFAULT_FILE})
{ENV}{CWD}{HEADER}\
--oauth        sign in with OAuth
--tag WORD     a word to choose servers by; may be repeated
--owner TEAM   the people that look after it
--lock FILE    the file with what it should offer, which accord fleet --update-locks writes
--need NAME    a variable without which it is skipped; may be repeated
"""


@kind_of_work(_ADD_HELP, _ADD_OPTIONS, launches=False)
def add_server(options: argparse.Namespace) -> int:
    """Write the server."""
    from accord.errors import ConfigurationError
    from accord_tools.fleet.file.entries import check_entry
    from accord_tools.fleet.sources.insertion import hide_literals
    from accord_tools.hosts.sources.entry_forms import FoundServer

    path = Path(options.file or DEFAULT_FILE)
    entry = _entry(options)
    settings: dict[str, Any] = {}
    if options.owner:
        settings["owner"] = options.owner
    if options.tag:
        settings["tags"] = list(options.tag)
    if options.lock is not None:
        settings["lock"] = str(options.lock)
    if options.need:
        settings["needs"] = list(options.need)
    try:
        check_entry(options.name, entry, path.parent)
    except ConfigurationError as error:
        raise UsageError(str(error)) from None
    found = hide_literals([FoundServer(name=options.name, entry=entry, settings=settings)])
    write_servers(path, found)
    say(f"added to {path}:\n")
    report_servers(found)
    return 0


def write_servers(path: Path, found: "list[FoundServer]") -> None:
    """Add servers to a file; what cannot be added is shown, to be added by hand."""
    from accord.cli.terminal import note
    from accord_tools.fleet.file.reader import is_server_name
    from accord_tools.fleet.sources.insertion import UneditableFile, add_servers

    for each in found:
        if not is_server_name(each.name):
            raise UsageError(f"{each.name[:100]!r} is not a name for a server")
    try:
        add_servers(path, found)
    except UneditableFile as error:
        note(error.snippet)
        raise


def _entry(options: argparse.Namespace) -> dict[str, Any]:
    """Return the server that TARGET names as the entry of a fleet file, with placeholders."""
    if options.target.startswith("${") and not options.command:
        spec = ServerSpec(name=options.name, url=options.target, headers=dict(options.header))
    else:
        demand_target(options, "fleet add")
        spec = read_target(options, keeps_placeholders=True)
    if spec.url:
        if options.env or options.cwd:
            raise UsageError("--env and --cwd are for a command; a URL has --header")
        found: dict[str, Any] = {"url": spec.url, "headers": dict(spec.headers)}
        found |= {"type": "sse"} if spec.transport == "sse" else {}
        found |= {"auth": "oauth"} if options.oauth else {}
    else:
        if options.header or options.oauth:
            raise UsageError("--header and --oauth are for a URL; a command has --env")
        program, *words = spec.command
        cwd = os.path.join(spec.folder, spec.cwd or "").rstrip(os.sep)
        found = {"command": program, "args": words, "env": dict(spec.env), "cwd": cwd}
    return {name: each for name, each in found.items() if each}


# -- accord fleet import


_IMPORT_HELP: Final = """\
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
_IMPORT_OPTIONS: Final = f"""\
source SOURCE  the file or folder
--file FILE    the fleet file (default: {DEFAULT_FILE})
--name NAME    the name of the server, if the source has one only
--dry-run      only show what would be written
"""


@kind_of_work(_IMPORT_HELP, _IMPORT_OPTIONS)
def import_servers(options: argparse.Namespace) -> int:
    """Read the source and write the servers."""
    from accord_tools.fleet.sources.insertion import make_unique, rename_server, toml_addition
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


# -- accord fleet export


_EXPORT_HELP: Final = """\
usage: accord fleet export [options] [FILE]

Print the servers of a fleet as entries for a host, with the placeholders that the host fills in.
Values of variables are not in it.

Exit code: 0 success, 2 the file cannot be read, or the host is not known.

examples:
  accord fleet export
  accord fleet export --host cursor > .cursor/mcp.json
  accord fleet export servers.toml --format servers
"""
_EXPORT_OPTIONS: Final = f"""\
file? FILE        the fleet file (default: {DEFAULT_FILE})
--host HOST       a host such as claude-code, claude-desktop, cursor, vscode, zed, codex or goose;
                  a name that is not known lists all
--format F        without a host: mcpServers, servers or context_servers (default: mcpServers)
--allow-literals  read a file with values that look like secrets, and print them
"""
_EXPORT_FORMATS: Final = {"mcpServers": "mcpServers", "servers": "vscode", "context_servers": "zed"}


@kind_of_work(_EXPORT_HELP, _EXPORT_OPTIONS, format="mcpServers")
def export_servers(options: argparse.Namespace) -> int:
    """Print the entries."""
    from accord_tools.fleet.file.reader import read_fleet
    from accord_tools.fleet.sources.export import HOSTS, export_fleet

    host = _EXPORT_FORMATS[one_of(options.format, tuple(_EXPORT_FORMATS), "format")]
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
