"""`accord proxy`: serve another server, over another transport and in any revision."""

import argparse
from typing import TYPE_CHECKING, Any, Final

from accord.cli.connection import CONNECTION, connect_settings
from accord.cli.options import TARGET, Commands, UsageError, add_command
from accord.cli.run import serve
from accord.cli.run_settings import GRACE, read_settings
from accord.cli.target import command_of, demand_target

if TYPE_CHECKING:
    from accord.server import Server

_HELP = """\
usage: accord proxy [options] TARGET
       accord proxy [options] -- COMMAND [ARGUMENTS]

Serve another server: one behind a URL over stdin and stdout, as hosts launch it; or a command over
HTTP. Clients and the server may speak different revisions of the protocol: each side gets what its
own revision defines. Questions, progress, logs, cancellation and subscriptions are passed on.

Each client that has a session gets a connection of its own to the server; with --shared they all
use one, and the server can ask them nothing.

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
_OPTIONS: Final = f"""\
{TARGET}
--shared        use one connection to the server for all clients
--stdio         serve over stdin and stdout, also if ACCORD_TRANSPORT is http
--http          serve over HTTP
--host H        with --http: where to listen (default: 127.0.0.1)
--port P        with --http: 0 takes any free port (default: 8000)
--path P        with --http: the path of the endpoint (default: /mcp)
--public-url U  with --http: the URL that clients use, behind a proxy or from other machines
--allowed-host H    with --http: another host that clients may use; * for all; may be repeated
--allowed-origin O  with --http: an origin of web pages that may send requests; may be repeated
--stateless     with --http: serve each request alone, without sessions
--sse           with --http: serve the older form too, at /sse and /messages
--access-log [F]  with --http: log each request; F is text (default) or json
--grace S       seconds for running calls to finish after the input has ended (default: {GRACE})
--log-level L   debug, info, warning, error or critical: what is logged to stderr
{CONNECTION}"""


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    add_command(
        commands, "proxy", run, _HELP, _OPTIONS, reload=False, reload_dir=[], print_config=False
    )


def run(options: argparse.Namespace) -> int:
    """Serve until the input ends."""
    demand_target(options, "proxy")
    settings = read_settings(options)
    found = command_of(options)
    given: dict[str, Any] = {**connect_settings(options, "forward")}
    if options.shared:
        given["connections"] = "shared"
    if options.timeout is not None:
        given["start_timeout"] = options.timeout

    def build() -> "Server[Any]":
        from accord.compose import proxy_server

        try:
            return proxy_server(found, **given)
        except ValueError as error:
            raise UsageError(str(error)) from None

    return serve(build, settings)
