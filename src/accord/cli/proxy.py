"""`accord proxy`: serve another server, over another transport and in any revision."""

import argparse
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from accord.cli.connection import (
    KeptLines,
    advise_in_options,
    connect_options,
    connect_spec,
    report_unreachable,
    target_options,
)
from accord.cli.options import CONFIG, Commands, UsageError, add_command
from accord.cli.run import serve
from accord.cli.run_settings import option_lines, read_settings
from accord.cli.target import demand_target, read_target
from accord.cli.terminal import complain
from accord.errors import AccordError, ConnectFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from accord.server import Server

_HELP = """\
usage: accord proxy [options] TARGET
       accord proxy [options] -- COMMAND [ARGUMENTS]

Serve another server: one behind a URL over stdin and stdout, as hosts launch it; or a command over
HTTP. Clients and the server may speak different revisions of the protocol: each side gets what its
own revision defines. Questions, progress, logs, cancellation and subscriptions are passed on.

Each client that has a session gets a connection of its own to the server; with --shared they all
use one, on which a server of 2025-11-25 or older can ask them nothing.

Over HTTP, only requests to localhost are served unless --public-url or --allowed-host names the
host that clients use. Anyone who can reach the proxy uses the server with the token given here.

Exit code: 0 the input ended or a signal arrived, 1 the proxy failed, 2 the server could not be
reached.

examples:
  accord proxy https://example.com/mcp --oauth
  accord proxy https://example.com/mcp --bearer - --revision 2025-06-18
  accord proxy --http --port 8000 -- npx some-server
  accord proxy server.py --http --shared
"""
_TIMES: Final = "seconds to wait for the server to start, and for each answer (default: 30 and 600)"
_OPTIONS: Final = f"""\
--shared        use one connection to the server for all clients
--stdio         serve over stdin and stdout, also if ACCORD_TRANSPORT is http
--http          serve over HTTP
{option_lines("workers", "store", "store_keys_file", "reload")}\
{target_options(entry=CONFIG, timeout=_TIMES)}
--header-from 'NAME: VARIABLE'  a header whose value is that of a variable; may be repeated
--stateless
"""
# Connecting has a limit of its own, whose message says more; ending a server takes some seconds.
_START_SLACK: Final = 10.0


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(
        commands,
        "proxy",
        run,
        _HELP,
        _OPTIONS,
        reload=False,
        reload_dir=[],
        print_config=False,
        listens_at_host=True,
        handles_signals=lambda _: True,
    )


def _headers_of_variables(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the headers of `--header-from`: entries of hosts keep secrets out of arguments."""
    missing = [variable for _, variable in options.header_from if variable not in os.environ]
    if missing:
        raise UsageError(f"--header-from reads the variable {missing[0]}, which is not set")
    return [(name, os.environ[variable]) for name, variable in options.header_from]


def run(options: argparse.Namespace) -> int:
    """Serve until the input ends."""
    demand_target(options, "proxy")
    settings = read_settings(options)
    options.header += _headers_of_variables(options)
    spec = connect_spec(options, read_target(options))
    stderr = KeptLines()
    given: dict[str, Any] = {**connect_options(spec, stderr)}
    if options.shared:
        given["connections"] = "shared"
    if options.timeout is not None:
        given["start_timeout"] = 2 * options.timeout + _START_SLACK

    def build() -> "Server[Any]":
        from accord.compose import proxy_server

        try:
            server = proxy_server(spec.target, **given)
        except ValueError as error:
            raise UsageError(str(error)) from None
        _show_once_started(server, stderr)
        return server

    try:
        return serve(build, settings)
    except UsageError:
        raise
    except AccordError as error:
        cause = error.__cause__ if isinstance(error.__cause__, AccordError) else error
        if isinstance(cause, ConnectFailed):
            return report_unreachable(cause, stderr)
        complain(advise_in_options(str(cause)))
        return 2


def _show_once_started(server: "Server[None]", stderr: KeptLines) -> None:
    """Show what the other server prints to stderr once it is connected; before, errors quote it."""
    introduce = server._core.lifespan
    assert introduce is not None  # see proxy_server

    @asynccontextmanager
    async def lifespan(server: "Server[None]") -> "AsyncIterator[None]":
        stderr.show()
        stderr.is_live = True
        async with introduce(server):
            yield

    server._core.lifespan = lifespan
