"""`accord check client`: run a client against servers of the checker and judge it."""

import argparse
import asyncio
from typing import TYPE_CHECKING, Final

from accord.cli import reporting
from accord.cli.options import (
    ONLY,
    REST,
    Commands,
    Option,
    UsageError,
    add_command,
    env_option,
    one_of,
    seconds,
)
from accord.cli.terminal import complain, progress
from accord.errors import ConnectFailed, MissingExtra

if TYPE_CHECKING:
    from accord.check.client_check import ClientPlan


_TRANSPORTS: Final = ("http", "sse")
_ABOUT: Final = """\
Run a client against many servers, some that follow the protocol and some that break it, and judge
it by every requirement that binds a client.

The command must run the client once and end by itself. The more the client does, the more can be
judged: list, call, read, get, answer questions, cancel requests that take too long. It is run some
thirty times, three at a time. {url} in it is replaced by the URL of the server, {server} by a
command line that the client launches as its server: several words if {server} is a word of its own,
one quoted text within a larger word. A client that does not end is stopped, and still judged.

The server offers the tools `echo` and `add`, a resource `play://note` and a prompt `greet`. Some
servers want a token: for clients that open a browser, the variable BROWSER is set to a program that
signs in and agrees.

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


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    options = (
        REST,
        Option(
            "--revision",
            "R",
            "agree on this revision; may be repeated (default: what the client asks for, then all)",
            is_repeated=True,
        ),
        ONLY,
        Option("--transport", "T", "what {url} speaks: http (default) or sse", default="http"),
        env_option("client"),
        Option(
            "--timeout",
            "S",
            "seconds that one run of the client may take once it has connected (default: 30)",
            seconds,
            default=30.0,
        ),
        *reporting.REPORT_OPTIONS,
    )
    add_command(
        commands,
        "client",
        run,
        options,
        help="check a client against every requirement",
        usage="%(prog)s [options] -- COMMAND ... {url}\n"
        "       %(prog)s [options] -- COMMAND ... {server}",
        about=_ABOUT,
        examples=_EXAMPLES,
    )


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
        raise UsageError(f"write the client's command after --: -- {' '.join(options.rest)}")
    if not options.command:
        raise UsageError("check client needs the client's command after --, with {url} or {server}")
    if not any("{url}" in word or "{server}" in word for word in options.command):
        raise UsageError("the client's command needs {url} or {server} in the place of the server")
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
