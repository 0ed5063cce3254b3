"""`accord check trace`: judge a recording and print the report."""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from shlex import quote
from typing import IO, TYPE_CHECKING

from accord.cli.options import ONLY, Commands, Option, add_command, one_of
from accord.cli.reporting import REPORT_OPTIONS, deliver, demand_requirements, report_format
from accord.cli.terminal import complain, progress
from accord.errors import TraceError
from accord.types import REVISION_IDS

if TYPE_CHECKING:
    from accord.check.report import Report


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

# Records between two updates of the progress bar.
_RECORDS_PER_STEP = 500


def register(commands: Commands) -> None:
    """Add the command to the command line."""
    options = (
        Option("file", "FILE", "the recording; - reads standard input"),
        Option(
            "--revision",
            "R",
            "judge by this revision instead of the one agreed on in the recording:"
            f" {', '.join(REVISION_IDS)}",
        ),
        ONLY._replace(help="report on one requirement or area; may be repeated"),
        *REPORT_OPTIONS,
    )
    add_command(
        commands,
        "trace",
        run,
        options,
        help="judge a recorded session",
        usage="%(prog)s [options] FILE",
        about=_ABOUT,
        examples=_EXAMPLES,
    )


def run(options: argparse.Namespace) -> int:
    """Judge a recording and print the report."""
    form = report_format(options)
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
    with _open(options.file) as file:
        # A pipe has neither a length nor a position.
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
                seen=_every_few_records(done, lambda count: file.tell() if is_measured else count),
            )


def _open(name: str) -> "nullcontext[IO[bytes]] | IO[bytes]":
    if name == "-":
        if sys.stdin is None:
            raise TraceError("standard input is closed")
        return nullcontext(sys.stdin.buffer)
    try:
        return open(name, "rb")
    except (OSError, ValueError) as error:
        raise TraceError(getattr(error, "strerror", None) or str(error)) from error


def _every_few_records(
    done: Callable[[int], None], amount: Callable[[int], int]
) -> Callable[[int], None]:
    def report(count: int) -> None:
        if count % _RECORDS_PER_STEP == 0:
            done(amount(count))

    return report
