"""Reports of a fleet: printed, or written to files and folders, in the forms asked for."""

import argparse
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.cli.options import UsageError, one_of
from accord.cli.terminal import complain, note, painter, say, width
from accord_tools.reports.delivery import FORMS, demand_forms, form_of, say_form, write_forms

if TYPE_CHECKING:
    from accord_tools.fleet.results import FleetView


OUTPUTS: Final = f"""\
--output PATH      write the report: fleet.html, fleet.json, results.xml (JUnit), fleet.sarif,
                   fleet.md, badge.svg, or a folder with a page per server and badges, as in site/;
                   may be repeated
--format F         of the printed report: {", ".join(FORMS)};
                   text by default; or of the one file of --output
--quiet            no progress; only servers that are not as expected
--verbose          every finding and remark
"""
# The names and the endings of files of forms that are gone.
_FORMER: Final = frozenset({"csv", "ndjson", "jsonl", "openmetrics", "prom"})


def demand_outputs(options: argparse.Namespace) -> None:
    """Refuse outputs that could not be written, before the work.

    Raises:
        UsageError: a folder does not exist or cannot be written, or a form is unknown.
        FleetError: a folder for pages has files of others.
        MissingExtra: a form is asked for that needs what is not installed.
    """
    from accord_tools.fleet.rendering.site import demand_site

    if options.format is not None:
        _refuse_former(options.format, f"--format {options.format}")
        options.format = one_of(options.format, tuple(FORMS), "format")
    forms = ("html" if _is_site(each) else form_of(Path(each)) for each in options.output)
    demand_forms([options.format, *forms])
    for given in options.output:
        path = Path(given)
        if _is_site(given):
            demand_site(path)
            continue
        if not path.parent.is_dir():
            raise UsageError(f"--output {given}: there is no folder {path.parent}")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UsageError(f"--output {given}: it cannot be written there; name another place")
        if options.format is None or len(options.output) > 1:
            _refuse_former(path.suffix.lower().removeprefix("."), f"--output {given}")
        if form_of(path) is None and (options.format is None or len(options.output) > 1):
            raise UsageError(
                f"--output {given}: its ending stands for no form; known: {_endings()};"
                " a folder ends with /"
            )


def _refuse_former(name: str, given: str) -> None:
    """Refuse a form that fleets had before 0.3, by its name or the ending of its files."""
    if name in _FORMER:
        raise UsageError(
            f"{given}: accord fleet does not write this form any more; use JSON, which has the same"
            " numbers and verdicts: --format json, or --output fleet.json"
        )


def _endings() -> str:
    return ", ".join(endings[0] for endings in FORMS.values())


def _is_site(given: str) -> bool:
    """Return whether an output is a folder: one that exists, or a name that ends with a slash."""
    return given.endswith(("/", "\\")) or Path(given).is_dir()


def deliver_view(view: "FleetView", options: argparse.Namespace) -> bool:
    """Print or write a report; returns False after an error, which is printed."""
    from accord_tools.fleet.definition import FleetError
    from accord_tools.fleet.rendering import render_fleet
    from accord_tools.fleet.rendering.site import write_site
    from accord_tools.fleet.rendering.text import as_text

    is_written = True
    files: list[Path] = []
    for each in options.output:
        if not _is_site(each):
            files.append(Path(each))
            continue
        try:
            write_site(view, Path(each))
            note(f"{Path(each) / 'index.html'} is written")
        except FleetError as error:
            complain(str(error))
            is_written = False

    # The report is printed all the same: a run may have taken long.
    form = options.format if len(options.output) == 1 else None
    is_written &= write_forms(files, form, partial(render_fleet, view))
    if options.format not in (None, "text") and not options.output:
        say_form(options.format, render_fleet(view, options.format))
    else:
        say(
            as_text(
                view,
                is_quiet=options.quiet,
                is_verbose=options.verbose,
                width=width(),
                paint=painter(),
            )
        )
    return is_written
