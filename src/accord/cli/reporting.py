"""Reports of checks on their way out: to the terminal or into a file, in the form asked for."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.cli.options import one_of
from accord.cli.terminal import complain, painter, say, width

if TYPE_CHECKING:
    from accord.check.report import Report

__all__ = ["add_options", "chosen_form", "deliver", "rendered"]

_FORMS: Final = ("text", "json", "junit", "markdown")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what every command has that ends in a report."""
    parser.add_argument("--format", metavar="F", default="text", help=", ".join(_FORMS))
    parser.add_argument("--output", metavar="FILE", type=Path, help="write the report to a file")
    parser.add_argument(
        "--quiet", action="store_true", help="text: only the violations and one summary line"
    )


def chosen_form(options: argparse.Namespace) -> str:
    """Return the form asked for.

    Raises:
        UsageError: there is no such form.
    """
    return one_of(options.format, _FORMS, "format")


def deliver(report: "Report", form: str, options: argparse.Namespace) -> int:
    """Print or write a report; returns the exit code."""
    from accord.check.render import summary

    code = 1 if report.has_failed else 0
    if options.output is None:
        say(rendered(report, form, quiet=options.quiet, on_screen=True))
        return code
    try:
        text = rendered(report, form, quiet=options.quiet, on_screen=False)
        options.output.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        complain(f"{options.output}: {error.strerror or error}")
        return 2
    say(f"{summary(report)}\n")
    return code


def rendered(report: "Report", form: str, *, quiet: bool = False, on_screen: bool = False) -> str:
    """Return a report in a form, for a terminal or for a file."""
    from accord.check import render

    if form != "text":
        plain = {"json": render.as_json, "junit": render.as_junit, "markdown": render.as_markdown}
        return plain[form](report)
    if not on_screen:
        return render.as_text(report, quiet=quiet)
    return render.as_text(report, quiet=quiet, width=width(), paint=painter())
