"""`accord check client`: run a client against our servers and judge it."""

import argparse
import asyncio
from typing import TYPE_CHECKING, Any, Final

from accord.cli import reporting
from accord.cli.options import UsageError, add_env, add_only, one_of, seconds
from accord.cli.terminal import complain, progress
from accord.errors import ConnectFailed, MissingExtra

if TYPE_CHECKING:
    from accord.check.client_check import ClientPlan


_TRANSPORTS: Final = ("http", "sse")
_ABOUT: Final = """\
Run a client against one server after another, servers that behave well and badly, and judge it by
every requirement that binds a client.

The command runs the client once and ends by itself; what it does is up to it, and the more it does
the more can be judged: list, call, read, get, answer questions, give up what takes too long. It is
run some thirty times, three at a time. {url} in it stands for the URL of the server, {server} for a
command line that the client launches as its server: several words where it stands alone, one
quoted text within a larger word. A client that does not end is stopped, and judged all the same.

The server offers the tools `echo` and `add`, a resource `play://note` and a prompt `greet`. Some of
the servers want a token: a client that signs in with a browser gets there by the variable BROWSER,
which is set to a program that agrees.

Exit code: 0 no requirement failed (warnings do not count), 1 at least one failed,
2 the client could not be run, or never connected.
"""
_EXAMPLES: Final = """\
examples:
  accord check client -- python client.py {url}
  accord check client -- node client.js --stdio {server}
  accord check client --transport sse -- python client.py {url}
  accord check client --only session --format html --output report.html -- ./client {url}
"""


def register(kinds: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = kinds.add_parser(
        "client",
        help="hold a client to every requirement",
        usage="%(prog)s [options] -- COMMAND ... {url}\n"
        "       %(prog)s [options] -- COMMAND ... {server}",
        description=_ABOUT,
        epilog=_EXAMPLES,
    )
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument(
        "--revision",
        metavar="R",
        action="append",
        default=[],
        help="agree on this revision; may be repeated (default: what the client asks for, and all)",
    )
    add_only(parser)
    parser.add_argument(
        "--transport", metavar="T", default="http", help="what {url} speaks: http (default) or sse"
    )
    add_env(parser, "client")
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=seconds,
        default=30.0,
        help="seconds that one run of the client may take once it has connected (default: 30)",
    )
    reporting.add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check a client and print the report."""
    from accord.check.client_check import check_client

    plan = _plan(options)
    try:
        with progress("checking", 1000) as done:

            def step(name: str, count: int, total: int) -> None:
                done(round(1000 * count / max(total, 1)), name)

            report = asyncio.run(check_client(plan, step=step))
    except (ConnectFailed, MissingExtra) as error:
        complain(str(error))
        return 2
    return reporting.deliver(report, reporting.report_format(options), options)


def _plan(options: argparse.Namespace) -> "ClientPlan":
    from accord.check.client_check import ClientPlan

    if options.rest:
        raise UsageError(f"the client's command stands after --: -- {' '.join(options.rest)}")
    if not options.command:
        raise UsageError("check client needs the client's command after --, with {url} or {server}")
    if not any("{url}" in word or "{server}" in word for word in options.command):
        raise UsageError("the client's command needs {url} or {server}, where the server is")
    plan = ClientPlan(
        command=options.command,
        transport=one_of(options.transport, _TRANSPORTS, "transport"),
        revisions=reporting.checked_revisions(options.revision),
        only=options.only,
        timeout=options.timeout,
        env=dict(options.env),
    )
    reporting.demand_requirements(options.only)
    return plan
