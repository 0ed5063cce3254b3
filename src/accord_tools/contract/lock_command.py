"""`accord lock` and `accord verify`: write what a server shows into a file, and compare it."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.cli.connection import run_with_client, target_options
from accord.cli.options import (
    TEXT_OR_JSON,
    Commands,
    add_command,
    given_filter,
    is_json,
    without_secrets,
)
from accord.cli.target import demand_target
from accord.cli.terminal import complain, escape_controls, note, painter, say, say_json
from accord.errors import MethodNotFound
from accord.secrets.filter import display_target
from accord_tools.reports.delivery import write_files

if TYPE_CHECKING:
    from accord.client import Client
    from accord_tools.contract.lock_file import Change


LOCK: Final = Path("accord.lock")
_LOCK_HELP: Final = """\
usage: accord lock [options] TARGET
       accord lock [options] -- COMMAND ...

Write what a server shows into a file: tools with their schemas, descriptions and annotations,
resources, templates, prompts, instructions. The file is sorted JSON for version control; accord
verify fails when the server shows something else.

TARGET is a URL, a Python file or module with a Server, or a command line after --.

A list that the server answers with an error is left out, and the error is locked in its place.

Exit code: 0 written, 1 written without a list that failed with another error than -32601 (method
not found) and may work the next time, 2 nothing could be written.

examples:
  accord lock server.py
  accord lock server.py --output desk.lock
  accord lock --output - -- npx some-server
"""
_VERIFY_HELP: Final = """\
usage: accord verify [options] TARGET
       accord verify [options] -- COMMAND ...

Compare what a server shows with the file that accord lock wrote. Fails when a tool, resource,
template or prompt was added or removed, or when its schema, description or annotations changed.

TARGET is a URL, a Python file or module with a Server, or a command line after --. The revision is
the one of the locked file, unless you choose another.

Exit code: 0 nothing changed, 1 something changed, 2 the comparison could not be made.

examples:
  accord verify server.py
  accord verify server.py --lock desk.lock
"""
_STYLES: Final = {"- ": "red", "+ ": "green"}


def register(commands: Commands) -> None:
    """Add both commands to the command line."""
    add_command(
        commands,
        "lock",
        lock,
        _LOCK_HELP,
        f"--output FILE  where to write it; - prints it (default: {LOCK})\n{target_options()}",
        output=LOCK,
    )
    add_command(
        commands,
        "verify",
        verify,
        _VERIFY_HELP,
        f"--lock FILE  the file (default: {LOCK})\n{TEXT_OR_JSON}\n{target_options()}",
        lock=LOCK,
        format="text",
    )


def lock(options: argparse.Namespace) -> int:
    """Write what a server shows into the file."""
    from accord.testing import catalog_of
    from accord_tools.contract.lock_file import format_lock

    demand_target(options, "lock")

    async def work(client: "Client") -> int:
        catalog = given_filter(options).hide_in(await catalog_of(client))
        text = format_lock(catalog, client.revision)
        failed: dict[str, int] = catalog.get("failed", {})
        for method, code in failed.items():
            complain(f"{method} failed with error {code}: its entries are not locked")
        # A missing method stays missing; any other error may be gone the next time.
        code = 0 if set(failed.values()) <= {MethodNotFound.default_code} else 1
        if str(options.output) == "-":
            say(text)
            return code
        if not write_files([options.output], lambda _path: text):
            return 2
        note(f"{options.output} is written; keep it under version control")
        return code

    return run_with_client(options, work)


def verify(options: argparse.Namespace) -> int:
    """Compare what a server shows with what was locked."""
    from accord.testing import catalog_of
    from accord_tools.contract.lock_file import find_changes, read_lock

    as_json = is_json(options)
    demand_target(options, "verify")
    locked = read_lock(options.lock)
    options.revision = options.revision or locked.get("revision")

    async def work(client: "Client") -> int:
        found = find_changes(locked, given_filter(options).hide_in(await catalog_of(client)))
        _print_changes(found, options, as_json=as_json)
        return 1 if found else 0

    return run_with_client(options, work)


def _print_changes(found: "list[Change]", options: argparse.Namespace, *, as_json: bool) -> None:
    if as_json:
        say_json(found)
        return
    if not found:
        say(f"nothing changed since {options.lock}\n")
        return
    paint = painter()
    for change in found:
        for line in escape_controls(change.text()).splitlines():
            style = _STYLES.get(line.strip()[:2])
            say((paint(style, line) if style else line) + "\n")
    count = f"{len(found)} change{'s' if len(found) > 1 else ''}"
    accept = given_filter(options).hide(_accept_command(options), may_be_cut=False)
    say(f"{count} since {options.lock}; if they are wanted:\n  {accept}\n")


def _accept_command(options: argparse.Namespace) -> str:
    """Return the command that accepts the changes."""
    from shlex import join, split

    words = ["accord", "lock", *([display_target(options.target)] if options.target else [])]
    words += split(" ".join(without_secrets(options, "config", "host")))
    if options.lock != LOCK:
        words += ["--output", str(options.lock)]
    return join([*words, *(["--", *options.command] if options.command else [])])
