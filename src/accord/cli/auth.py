"""`accord auth`: list and forget the tokens and registrations that earlier commands stored."""

import argparse
from typing import TYPE_CHECKING

from accord.cli.options import ENTRY, ENV, TEXT_OR_JSON, Commands, UsageError, add_command, is_json
from accord.cli.target import demand_target, read_target
from accord.cli.terminal import escape_controls, note, say, say_json
from accord.errors import MissingExtra

if TYPE_CHECKING:
    from accord.auth import FileStore


_ABOUT = """\
Manage the tokens that commands with --oauth have stored.

Exit code: 0 done, 2 the file could not be read or written.
"""
_HELP = """\
usage: accord auth forget TARGET | --all

Remove the tokens that commands with --oauth have stored for a server, and the client that was
registered for it. The next command with --oauth registers again and asks the user again. Tokens are
not revoked: they stay valid at the server until they expire.

Exit code: 0 forgotten, or nothing was stored, 2 the file could not be read or written.

examples:
  accord auth forget https://example.com/mcp
  accord auth forget --all
"""
_LIST_HELP = """\
usage: accord auth list [options]

Show the servers for which commands with --oauth have stored a token: its issuer, its scopes, and
when it expires. The tokens themselves are not shown.

Exit code: 0 shown, 2 the file could not be read.

examples:
  accord auth list
  accord auth list --format json
"""

_OPTIONS = f"""\
target? TARGET  the server whose tokens to forget: a URL, or what names one, such as mcp.json#NAME
rest* WORD
{ENTRY}{ENV}\
--all     forget the tokens and registrations of all servers
"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    examples = _HELP[_HELP.index("examples:") :]
    parser = commands.add_parser("auth", description=_ABOUT, epilog=examples)
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    add_command(
        kinds,
        "list",
        run_list,
        _LIST_HELP,
        TEXT_OR_JSON,
        help="show for which servers tokens are stored",
        format="text",
    )
    add_command(
        kinds,
        "forget",
        run,
        _HELP,
        _OPTIONS,
        help="remove stored tokens and registrations",
        header=[],
        cwd=None,
    )


def run(options: argparse.Namespace) -> int:
    """Remove the tokens and print whose they were."""
    import asyncio

    if bool(options.target or options.command) is options.all:
        raise UsageError("auth forget needs the URL of a server, or --all")
    url = "" if options.all else _url_of(options)
    store = _open_store()
    work = _forget_all(store) if options.all else _forget(store, url)
    say(f"{escape_controls(asyncio.run(work))}\n")
    return 0


def _url_of(options: argparse.Namespace) -> str:
    """Return the URL of the server that TARGET names."""
    demand_target(options, "auth forget")
    spec = read_target(options)
    if not spec.url:
        raise UsageError(f"{spec.name} is launched; only servers at a URL have tokens")
    return spec.url


def run_list(options: argparse.Namespace) -> int:
    """Print for which servers tokens are stored."""
    import asyncio

    store = _open_store()
    grants = asyncio.run(_stored_grants(store))
    if is_json(options):
        say_json({"file": str(store.path), "tokens": grants})
        return 0
    for each in grants:
        about = ", ".join(f"{name} {each[name]}" for name in ("issuer", "scopes", "expires"))
        line = f"{each['resource']}: {about}"
        say(f"{escape_controls(line)}\n")
    note(f"{len(grants) or 'no'} {'token' if len(grants) == 1 else 'tokens'} in {store.path}")
    return 0


def _open_store() -> "FileStore":
    try:
        from accord.auth import FileStore
    except ImportError:
        raise MissingExtra("auth", needed_for="stored tokens") from None
    return FileStore()


async def _stored_grants(store: "FileStore") -> list[dict[str, str]]:
    """Describe the stored tokens, without their secrets."""
    from datetime import UTC, datetime

    from accord.auth.tokens import read_grant

    found = []
    for key in sorted(await store.keys()):
        grant = read_grant(await store.read(key)) if key.startswith("tokens ") else None
        if grant is None:
            continue
        ends = grant.expires_at
        expires = "never" if ends is None else datetime.fromtimestamp(ends, UTC).isoformat()[:16]
        renewed = " (renewed by itself)" if grant.refresh_token else ""
        found.append(
            {
                "resource": grant.resource,
                "issuer": grant.issuer,
                "scopes": " ".join(grant.scopes) or "none",
                "expires": f"{expires}{renewed}",
            }
        )
    return found


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
