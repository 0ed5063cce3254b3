"""`accord check`: judge what was recorded and print the report."""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from accord.cli.options import one_of
from accord.cli.terminal import complain, painter, progress, say, width
from accord.errors import TraceError
from accord.types import REVISION_IDS

if TYPE_CHECKING:
    from accord.check.report import Report

__all__ = ["register"]

_FORMATS = ("text", "json", "junit", "markdown")
_ABOUT = "Check that the rules of the protocol were kept."
_TRACE_ABOUT = """\
Judge a recorded session: one JSON object per line,
{"t", "from": "client"|"server", "transport": "stdio"|"http"|"sse", "message", "raw", "http"}.

Exit code: 0 no requirement failed (warnings do not count), 1 at least one failed,
2 the recording cannot be read or holds no message.
"""
_TRACE_EXAMPLES = f"""\
examples:
  accord check trace session.jsonl
  accord check trace session.jsonl --format junit --output report.xml
  accord check trace session.jsonl --format markdown >> "$GITHUB_STEP_SUMMARY"
  some-recorder | accord check trace - --revision {REVISION_IDS[2]} --format json
"""

# Often enough for the eye, seldom enough to cost nothing.
_RECORDS_PER_STEP = 500


def register(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("check", help="check what was recorded", description=_ABOUT)
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    trace = kinds.add_parser(
        "trace",
        help="judge a recorded session",
        description=_TRACE_ABOUT,
        epilog=_TRACE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    trace.add_argument("file", metavar="FILE", help="the recording; - reads standard input")
    trace.add_argument(
        "--revision",
        metavar="R",
        help="judge by this revision instead of the one agreed on in the recording:"
        f" {', '.join(REVISION_IDS)}",
    )
    trace.add_argument("--format", metavar="F", default="text", help=", ".join(_FORMATS))
    trace.add_argument("--output", metavar="FILE", type=Path, help="write the report to a file")
    trace.add_argument(
        "--quiet", action="store_true", help="text: only the violations and one summary line"
    )
    trace.set_defaults(run=run_trace)


def run_trace(options: argparse.Namespace) -> int:
    """Judge a recording and print the report."""
    from accord.check.render import summary

    form = one_of(options.format, _FORMATS, "format")
    try:
        report = _judge(options)
    except TraceError as error:
        complain(f"{options.file}: {error}")
        return 2
    code = 1 if report.has_failed else 0
    if options.output is None:
        say(_rendered(report, form, quiet=options.quiet, on_screen=True))
        return code
    try:
        text = _rendered(report, form, quiet=options.quiet, on_screen=False)
        options.output.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        complain(f"{options.output}: {error.strerror or error}")
        return 2
    say(f"{summary(report)}\n")
    return code


def _judge(options: argparse.Namespace) -> "Report":
    from accord.check.replay import replay
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


def _rendered(report: "Report", form: str, *, quiet: bool, on_screen: bool) -> str:
    from accord.check import render

    if form != "text":
        plain = {"json": render.as_json, "junit": render.as_junit, "markdown": render.as_markdown}
        return plain[form](report)
    if not on_screen:
        return render.as_text(report, quiet=quiet)
    return render.as_text(report, quiet=quiet, width=width(), paint=painter())
