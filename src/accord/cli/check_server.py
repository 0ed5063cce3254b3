"""`accord check server`: drive a server through every requirement it can be held to."""

import argparse
import asyncio
from typing import TYPE_CHECKING, Any, Final

from accord.cli import reporting
from accord.cli.options import UsageError, header, one_of, seconds, variable
from accord.cli.target import command_of, locate
from accord.cli.terminal import complain, progress
from accord.errors import ConnectFailed
from accord.types import REVISION_IDS

if TYPE_CHECKING:
    from accord.check.report import Report
    from accord.check.server_check import Plan
    from accord.types import RevisionId

__all__ = ["register"]

_TRANSPORTS: Final = ("stdio", "http", "sse")
_ABOUT: Final = """\
Drive a server through every requirement it can be held to, under each revision that it speaks.

TARGET is a URL, a Python file or module with a Server, or a command line after --. The server's own
tools, resources and prompts are found and used with plain valid arguments. Only tools that say they
read, or whose name says so, are called; none that looks destructive is, unless you choose it.

Exit code: 0 no requirement failed (warnings do not count), 1 at least one failed,
2 the server could not be reached.
"""
_EXAMPLES: Final = """\
examples:
  accord check server server.py
  accord check server -- npx some-server --flag
  accord check server https://example.com/mcp --bearer "$TOKEN"
  accord check server server.py --only tools.list --revision 2025-06-18
  accord check server server.py --format junit --output report.xml
"""


def register(kinds: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = kinds.add_parser(
        "server",
        help="hold a server to every requirement",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", metavar="TARGET", nargs="?", default="", help="the server")
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument(
        "--revision",
        metavar="R",
        action="append",
        default=[],
        help="check under this revision; may be repeated (default: all that the server speaks)",
    )
    parser.add_argument(
        "--only",
        metavar="ID",
        action="append",
        default=[],
        help="check this requirement or area alone; may be repeated",
    )
    parser.add_argument(
        "--transport",
        metavar="T",
        help=f"how to reach it: {', '.join(_TRANSPORTS)} (default: http for URLs, else stdio)",
    )
    parser.add_argument(
        "--tool",
        metavar="NAME",
        action="append",
        default=[],
        help="a tool that may be called whatever it does; then no others are; may be repeated",
    )
    parser.add_argument(
        "--allow-writes",
        action="store_true",
        help="also call tools that change something, short of destroying it",
    )
    parser.add_argument(
        "--header",
        metavar="'NAME: VALUE'",
        action="append",
        default=[],
        type=header,
        help="a header of every HTTP request; may be repeated",
    )
    parser.add_argument("--bearer", metavar="TOKEN", help="a token for the Authorization header")
    parser.add_argument(
        "--env", metavar="K=V", action="append", default=[], type=variable, help="a variable"
    )
    parser.add_argument("--cwd", metavar="DIR", help="the folder the server runs in")
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=seconds,
        default=5.0,
        help="seconds to wait for each answer (default: 5)",
    )
    reporting.add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check a server and print the report."""
    form = reporting.chosen_form(options)
    plan = _plan(options)
    try:
        report = asyncio.run(_check(options, plan))
    except ConnectFailed as error:
        complain(str(error))
        return 2
    return reporting.deliver(report, form, options)


def _plan(options: argparse.Namespace) -> "Plan":
    from accord.check.probing.probe import Rules
    from accord.check.server_check import Plan
    from accord.protocol.catalogue import catalogue

    revisions: list[RevisionId] = [
        one_of(each, REVISION_IDS, "revision") for each in options.revision
    ]
    plan = Plan(
        revisions=revisions,
        only=options.only,
        rules=Rules(allow_writes=options.allow_writes, tools=frozenset(options.tool)),
    )
    for each in options.only:
        if not any(Plan(only=[each]).wants(id) for id in catalogue()):
            raise UsageError(f"there is no requirement {each!r}; accord requirements lists them")
    return plan


async def _check(options: argparse.Namespace, plan: "Plan") -> "Report":
    from accord.check.probing.subject import Subject, served
    from accord.check.server_check import check_server

    found = command_of(options.target, options.rest, options.command)
    transport = _transport(options, is_url=isinstance(found, str))
    name = options.target or " ".join(options.command)
    headers = dict(options.header)
    if options.bearer:
        headers["authorization"] = f"Bearer {options.bearer}"
    settings: dict[str, Any] = {
        "name": name,
        "headers": headers,
        "env": dict(options.env),
        "cwd": options.cwd,
        "patience": options.timeout,
    }
    with progress("checking", 1000) as done:
        step = _step(done)
        if isinstance(found, str):
            return await check_server(
                Subject(url=found, form=transport, **settings), plan, step=step
            )
        if transport == "stdio":
            return await check_server(Subject(command=found, **settings), plan, step=step)
        if options.command:
            raise UsageError(f"a command is reached over stdio, not {transport}")
        place = locate(options.target, options.rest).target
        async with served(place, transport, settings["env"]) as url:
            return await check_server(Subject(url=url, form=transport, **settings), plan, step=step)


def _transport(options: argparse.Namespace, *, is_url: bool) -> Any:
    if options.transport is None:
        return "http" if is_url else "stdio"
    transport = one_of(options.transport, _TRANSPORTS, "transport")
    if is_url and transport == "stdio":
        raise UsageError("a URL is reached over http or sse, not stdio")
    return transport


def _step(done: Any) -> Any:
    """Return what shows how far the check is: each revision takes an equal part."""
    seen: list[str] = []

    def step(revision: str, _name: str, count: int, total: int) -> None:
        if revision not in seen:
            seen.append(revision)
        # How many revisions come is not known before the end; four at most.
        done(round(1000 * (len(seen) - 1 + count / max(total, 1)) / 4))

    return step
