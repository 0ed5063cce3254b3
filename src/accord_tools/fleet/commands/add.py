"""`accord fleet add`: write one more server into a fleet file."""

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accord.cli.options import Commands, UsageError, add_command
from accord.cli.terminal import say
from accord_tools.fleet.definition import DEFAULT_FILE

if TYPE_CHECKING:
    from accord_tools.hosts.sources.found_server import FoundServer

_HELP: Final = """\
usage: accord fleet add NAME [options] (URL | -- COMMAND ...)

Write one more server into a fleet file. Everything else in the file stays as it is. Values that
look like secrets are written as ${env:NAME}, and the variables to set are listed.

Exit code: 0 the server is written, 2 the name is taken or the file cannot be changed.

examples:
  accord fleet add tickets -- python tickets.py
  accord fleet add search https://example.com/mcp --tag remote --owner team-a
  accord fleet add files --env ROOT=/data -- npx -y @example/files
"""
_OPTIONS: Final = f"""\
name NAME  the name of the server, its identity through time
url? URL  where it is, if it is not launched
--file FILE    the fleet file (default: {DEFAULT_FILE})
--env K=V      a variable for the server; may be repeated
--header 'NAME: VALUE'  a header of every HTTP request; may be repeated
--oauth        sign in with OAuth
--cwd FOLDER   the folder it runs in (default: that of the file)
--tag WORD     a word to choose servers by; may be repeated
--owner TEAM   the people that look after it
--lock FILE    the file with what it should offer, which accord fleet --update-locks writes
--need NAME    a variable without which it is skipped; may be repeated
"""


def register(kinds: Commands, name: str, help: str) -> None:
    """Add the command to the command line."""
    add_command(kinds, name, run, _HELP, _OPTIONS, help=help)


def run(options: argparse.Namespace) -> int:
    """Write the server."""
    from accord.errors import ConfigurationError
    from accord_tools.fleet.commands.init import report_servers
    from accord_tools.fleet.file.entries import check_entry
    from accord_tools.fleet.sources.server import hide_literals
    from accord_tools.hosts.sources.found_server import FoundServer

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
    if bool(options.url) == bool(options.command):
        raise UsageError(
            "fleet add needs a URL, or -- and a command"
            if not options.url
            else f"either {options.url} or the command after --, not both"
        )
    if options.url:
        return _url_entry(options)
    if options.header or options.oauth:
        raise UsageError("--header and --oauth are for a URL; a command has --env")
    program, *words = options.command
    entry: dict[str, Any] = {"command": program}
    if words:
        entry["args"] = words
    if options.env:
        entry["env"] = dict(options.env)
    if options.cwd:
        entry["cwd"] = options.cwd
    return entry


def _url_entry(options: argparse.Namespace) -> dict[str, Any]:
    if "://" in options.url and not re.match(r"(?i)https?://|\$\{", options.url):
        raise UsageError(f"{options.url}: servers are reached by http:// and https:// only")
    if not re.match(r"(?i)https?://|\$\{", options.url):
        hint = f"python {options.url}" if options.url.endswith(".py") else options.url
        raise UsageError(f"{options.url} is not a URL; write a command after --: -- {hint}")
    if options.env or options.cwd:
        raise UsageError("--env and --cwd are for a command; a URL has --header")
    entry: dict[str, Any] = {"url": options.url}
    if options.header:
        entry["headers"] = dict(options.header)
    if options.oauth:
        entry["auth"] = "oauth"
    return entry
