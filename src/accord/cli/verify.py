"""`accord verify`: hold what a server shows to the file that `accord lock` wrote."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accord.cli.connection import add_options, talk
from accord.cli.lock import LOCK
from accord.cli.options import one_of
from accord.cli.reporting import shown_target
from accord.cli.target import add_target, demand_target
from accord.cli.terminal import harmless, painter, say

if TYPE_CHECKING:
    from accord.check.contract.lock_file import Change
    from accord.client import Client

__all__ = ["register"]

_FORMS: Final = ("text", "json")
_ABOUT: Final = """\
Compare what a server shows with the file that accord lock wrote. Fails when a tool, resource,
template or prompt was added or removed, or when its schema, description or annotations changed.

TARGET is a URL, a Python file or module with a Server, or a command line after --. The server is
spoken to in the revision in which it was locked, unless you choose another.

Exit code: 0 nothing changed, 1 something did, 2 it could not be done.
"""
_EXAMPLES: Final = """\
examples:
  accord verify server.py
  accord verify server.py --lock surface.lock
"""
_STYLES: Final = {"- ": "red", "+ ": "green"}


def register(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "verify",
        help="compare what a server shows with a locked file",
        description=_ABOUT,
        epilog=_EXAMPLES,
    )
    add_target(parser)
    parser.add_argument(
        "--lock", metavar="FILE", type=Path, default=LOCK, help=f"the file (default: {LOCK})"
    )
    parser.add_argument(
        "--format", metavar="F", default="text", help="text or json (default: text)"
    )
    add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compare what a server shows with what was locked."""
    from accord.check.contract.lock_file import find_changes, read_lock
    from accord.testing import surface_of

    form = one_of(options.format, _FORMS, "format")
    demand_target(options, "verify")
    locked = read_lock(options.lock)
    options.revision = options.revision or locked.get("revision")

    async def work(client: "Client") -> int:
        found = find_changes(locked, await surface_of(client))
        _show(found, form, options)
        return 1 if found else 0

    return talk(options, options.target, options.rest, work)


def _show(found: "list[Change]", form: str, options: argparse.Namespace) -> None:
    if form == "json":
        import msgspec

        say(msgspec.json.format(msgspec.json.encode(found), indent=2).decode() + "\n")
        return
    if not found:
        say(f"nothing changed since {options.lock}\n")
        return
    paint = painter()
    for change in found:
        for line in harmless(change.text()).splitlines():
            style = _STYLES.get(line.strip()[:2])
            say((paint(style, line) if style else line) + "\n")
    count = f"{len(found)} change{'s' if len(found) > 1 else ''}"
    say(f"{count} since {options.lock}; if they are wanted:\n  {_accepting(options)}\n")


def _accepting(options: argparse.Namespace) -> str:
    """Return the command that writes the file anew."""
    from shlex import join

    words = ["accord", "lock", *([shown_target(options.target)] if options.target else [])]
    if options.lock != LOCK:
        words += ["--output", str(options.lock)]
    return join([*words, *(["--", *options.command] if options.command else [])])
