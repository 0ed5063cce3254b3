"""`accord check trace`: judge what was recorded and print the report."""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from shlex import quote
from typing import IO, TYPE_CHECKING, Any

from accord.cli.options import one_of
from accord.cli.reporting import add_options, chosen_form, deliver, demand_requirements
from accord.cli.terminal import complain, progress
from accord.errors import TraceError
from accord.types import REVISION_IDS

if TYPE_CHECKING:
    from accord.check.report import Report

__all__ = ["register"]

_ABOUT = """\
Judge a recorded session: one JSON object per line, such as accord watch --record writes.

  {"from": "client", "t": 0.02, "transport": "stdio", "message": {"jsonrpc": "2.0", ...}}

Exit code: 0 no requirement failed (warnings do not count), 1 at least one failed,
2 the recording cannot be read or holds no message.
"""
_EXAMPLES = f"""\
examples:
  accord check trace session.jsonl
  accord check trace session.jsonl --only tools --only jsonrpc.request.id-unique
  accord check trace session.jsonl --format junit --output report.xml
  accord check trace session.jsonl --format markdown >> "$GITHUB_STEP_SUMMARY"
  some-recorder | accord check trace - --revision {REVISION_IDS[2]} --format json
"""

# Often enough for the eye, seldom enough to cost nothing.
_RECORDS_PER_STEP = 500


def register(kinds: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = kinds.add_parser(
        "trace",
        help="judge a recorded session",
        usage="%(prog)s [options] FILE",
        description=_ABOUT,
        epilog=_EXAMPLES,
    )
    parser.add_argument("file", metavar="FILE", help="the recording; - reads standard input")
    parser.add_argument(
        "--revision",
        metavar="R",
        help="judge by this revision instead of the one agreed on in the recording:"
        f" {', '.join(REVISION_IDS)}",
    )
    parser.add_argument(
        "--only",
        metavar="ID",
        action="append",
        default=[],
        help="report on one requirement or area; may be repeated",
    )
    add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Judge a recording and print the report."""
    form = chosen_form(options)
    demand_requirements(options.only)
    try:
        report = _judge(options)
    except TraceError as error:
        complain(f"{options.file}: {error}")
        return 2
    return deliver(report, form, options)


def _judge(options: argparse.Namespace) -> "Report":
    from accord.check.report import Setting
    from accord.check.trace_check import replay
    from accord.trace import read

    revision = (
        None if options.revision is None else one_of(options.revision, REVISION_IDS, "revision")
    )
    with _opened(options.file) as file:
        # A pipe has neither a length nor a place in it.
        is_measured = file.seekable() and options.file != "-"
        total = os.fstat(file.fileno()).st_size if is_measured else None
        with progress("judging", total) as done:
            return replay(
                read(file),
                target="standard input" if options.file == "-" else options.file,
                revision=revision,
                only=options.only,
                setting=Setting(
                    command=None
                    if options.file == "-"
                    else f"accord check trace {quote(options.file)}"
                ),
                seen=_stepwise(done, lambda count: file.tell() if is_measured else count),
            )


def _opened(name: str) -> "nullcontext[IO[bytes]] | IO[bytes]":
    if name == "-":
        if sys.stdin is None:
            raise TraceError("standard input is closed")
        return nullcontext(sys.stdin.buffer)
    try:
        return open(name, "rb")
    except (OSError, ValueError) as error:
        raise TraceError(getattr(error, "strerror", None) or str(error)) from error


def _stepwise(done: Callable[[int], None], amount: Callable[[int], int]) -> Callable[[int], None]:
    def seen(count: int) -> None:
        if count % _RECORDS_PER_STEP == 0:
            done(amount(count))

    return seen
