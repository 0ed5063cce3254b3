"""`accord auth forget`: remove the tokens and registrations that earlier commands stored."""

import argparse
from typing import TYPE_CHECKING

from accord.cli.options import Commands, UsageError, add_command
from accord.cli.terminal import escape_controls, say
from accord.errors import MissingExtra

if TYPE_CHECKING:
    from accord.auth import FileStore


_ABOUT = """\
Manage the tokens that commands with --oauth have stored.

Exit code: 0 done, 2 the file could not be read or written.
"""
_HELP = """\
usage: accord auth forget URL | --all

Remove the tokens that commands with --oauth have stored for a server, and the client that was
registered for it. The next command with --oauth registers again and asks the user again. Tokens are
not revoked: they stay valid at the server until they expire.

Exit code: 0 forgotten, or nothing was stored, 2 the file could not be read or written.

examples:
  accord auth forget https://example.com/mcp
  accord auth forget --all
"""


_OPTIONS = """\
url? URL  the server whose tokens to forget
--all     forget the tokens and registrations of all servers
"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    examples = _HELP[_HELP.index("examples:") :]
    parser = commands.add_parser("auth", description=_ABOUT, epilog=examples)
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    add_command(
        kinds, "forget", run, _HELP, _OPTIONS, help="remove stored tokens and registrations"
    )


def run(options: argparse.Namespace) -> int:
    """Remove the tokens and print whose they were."""
    import asyncio

    if bool(options.url) is options.all:
        raise UsageError("auth forget needs the URL of a server, or --all")
    try:
        from accord.auth import FileStore
    except ImportError:
        raise MissingExtra("auth", needed_for="stored tokens") from None
    store = FileStore()
    work = _forget_all(store) if options.all else _forget(store, options.url)
    say(f"{escape_controls(asyncio.run(work))}\n")
    return 0


async def _forget(store: "FileStore", url: str) -> str:
    from accord.auth import OAuth
    from accord.auth.urls import canonical_resource

    try:
        resource = canonical_resource(url)
    except ValueError:
        raise UsageError(f"{url[:200]} is not the URL of a server, http(s)://host/path") from None
    servers = [key.split(" ") for key in await store.keys() if key.startswith("server ")]
    # One token for each client that was used with the server.
    clients = [names[2:] for names in servers if names[1:2] == [resource]]
    for client in clients:
        await OAuth(store=store, client_id=" ".join(client) or None).forget(url)
    if clients:
        return f"the tokens for {resource} are forgotten ({store.path})"
    known = sorted({names[1] for names in servers if len(names) > 1})
    listed = f"; stored are tokens for {', '.join(known)}" if known else ""
    return f"nothing is stored for {resource} in {store.path}{listed}"


async def _forget_all(store: "FileStore") -> str:
    keys = await store.keys()
    for key in keys:
        await store.write(key, None)
    if not keys:
        return f"nothing is stored in {store.path}"
    return f"all tokens and registrations are forgotten ({store.path})"
