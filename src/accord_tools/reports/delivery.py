"""Reports of checks: printed or written to files, in the forms asked for."""

import argparse
import os
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accord.cli.options import UsageError, given_filter, one_of
from accord.cli.terminal import complain, escape_in_json, note, painter, say, width
from accord.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from accord_tools.reports.report import Report
    from accord_tools.reports.tool_calls import CallPlan


FORMS: Final[dict[str, tuple[str, ...]]] = {
    "text": (".txt",),
    "json": (".json",),
    "junit": (".xml",),
    "sarif": (".sarif", ".sarif.json"),
    "markdown": (".md", ".markdown"),
    "html": (".html", ".htm"),
    "badge": (".svg",),
}
"""The forms by name, with the endings of their files."""

# The modules of forms that are not named after them.
_MODULES: Final = {"json": "machine_readable", "junit": "machine_readable"}
# Files to show breaches in if the target is not a file.
_PROJECT_FILES: Final = ("pyproject.toml", "package.json", "README.md")


OPTIONS: Final = f"""\
output:
--format F     {", ".join(FORMS)} (default: the form that the file's ending names, else text)
--output FILE  write the report to a file, in the form that its ending names; may be repeated
--quiet        text: only the violations and one summary line
--verbose      text: also every requirement that was not put to the test, with the reason
"""


def report_format(options: argparse.Namespace) -> str:
    """Return the form of the printed report, or of the one file.

    Raises:
        MissingExtra: a form is asked for that needs what is not installed.
    """
    form = None
    if options.format is not None:
        form = one_of(options.format, tuple(FORMS), "format")
    elif len(options.output) == 1:
        form = form_of(options.output[0])
    demand_forms([form, *map(form_of, options.output)])
    return form or "text"


def demand_forms(forms: "Iterable[str | None]") -> None:
    """Refuse a form that could not be made, before the work.

    Raises:
        MissingExtra: what it needs is not installed.
    """
    if "html" in forms and find_spec("jinja2") is None:
        raise MissingExtra("cli", needed_for="a report as HTML")


def form_of(path: Path) -> str | None:
    """Return the form for the ending of a file, the longest that fits; None without one."""
    fitting = [
        (len(ending), name)
        for name, endings in FORMS.items()
        for ending in endings
        if path.name.lower().endswith(ending)
    ]
    return max(fitting)[1] if fitting else None


def find_renderer(form: str, package: str = "accord_tools.reports") -> "Callable[..., str]":
    """Return the function of a package that makes a report in one of the forms."""
    module = import_module(f"{package}.{_MODULES.get(form, form)}")
    renderer: Callable[..., str] = getattr(module, f"as_{form}")
    return renderer


def artifact_file(target: str) -> str | None:
    """Return the file in which tools for source code show the breaches of a target.

    It is relative to the current folder, as such tools expect; None if there is no file.
    """
    for name in (target, target.rpartition(":")[0], *target.split(), *_PROJECT_FILES):
        path = Path(os.path.relpath(name)) if name and "\0" not in name else Path()
        if path.is_file() and ".." not in path.parts:
            return path.as_posix()
    return None


def own_artifact(file: str) -> str | None:
    """Return a file as tools for source code name it; None if it is not below this folder."""
    found = artifact_file(file)
    return found if found == Path(os.path.relpath(file)).as_posix() else None


def deliver(report: "Report", form: str, options: argparse.Namespace) -> int:
    """Print or write a report; return the exit code."""
    from accord_tools.reports.wording import summary

    code = 1 if report.has_failed else 0
    if not options.output and form == "text":
        from accord_tools.reports.text import as_text

        more = {"quiet": options.quiet, "verbose": options.verbose}
        hide = given_filter(options).hide
        say(hide(as_text(report, **more, width=width(), paint=painter()), may_be_cut=False))
        return code
    if not options.output:
        text = given_filter(options).hide(render(report, form), may_be_cut=False)
        say_form(form, text)
        return code
    if not write_report(report, form, options):
        return 2
    say(f"{summary(report)}\n")
    return code


def write_report(
    report: "Report", form: str, options: argparse.Namespace, *, is_private: bool = False
) -> bool:
    """Write a report to the files of `--output`; return False after an error, which is printed."""

    def as_form(form: str) -> str:
        text = render(report, form, quiet=options.quiet, verbose=options.verbose)
        return given_filter(options).hide(text, may_be_cut=False)

    return write_forms(options.output, form, as_form, is_private=is_private)


def say_form(form: str, text: str) -> None:
    """Print a report in one of its forms."""
    say(escape_in_json(text) if form in ("json", "sarif") else text)


def write_forms(
    paths: "Sequence[Path]",
    form: str | None,
    render: "Callable[[str], str]",
    *,
    is_private: bool = False,
) -> bool:
    """Write a report to files; return False after an error, which is printed.

    Args:
        paths: the files.
        form: of the only file; of several, those whose ending stands for none.
        render: returns the report in a form.
        is_private: whether only their owner may read new files.
    """

    def as_file(path: Path) -> str:
        is_only = form is not None and len(paths) == 1
        return render((form if is_only else form_of(path)) or form or "text")

    return write_files(paths, as_file, is_private=is_private)


def write_files(
    paths: "Iterable[Path]", render: "Callable[[Path], str]", *, is_private: bool = False
) -> bool:
    """Write a text to each file; return False after an error, which is printed.

    Args:
        paths: the files.
        render: returns the text for a file.
        is_private: whether only their owner may read new files, because they quote real traffic.
    """
    from accord.testing.recording import open_private

    for path in paths:
        try:
            text = render(path).encode("utf-8", errors="backslashreplace")
            with open_private(path) if is_private else path.open("wb") as file:
                file.write(text)
        except OSError as error:
            complain(f"{path}: {error.strerror or error}")
            return False
    return True


def render(report: "Report", form: str, *, quiet: bool = False, verbose: bool = False) -> str:
    """Return the text of a report in one of its forms."""
    from msgspec.structs import replace

    renderer = find_renderer(form)
    if report.setting.at is None:
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        report = replace(report, setting=replace(report.setting, at=now))
    return renderer(report, quiet=quiet, verbose=verbose) if form == "text" else renderer(report)


# -- plans of calls


def plan_form(form: str | None) -> str:
    """Return the form of a plan: text by default, or JSON."""
    if form not in (None, "text", "json"):
        raise UsageError(f"--plan is shown as text or json, not {form}")
    return form or "text"


def show_plan(plan: "CallPlan", form: str, target: str) -> None:
    """Print a plan to stdout, as the result of the command."""
    from accord_tools.reports.text import plan_as_json, plan_as_text

    say(escape_in_json(plan_as_json(plan, target)) if form == "json" else f"{plan_as_text(plan)}\n")


def announce_plan(plan: "CallPlan") -> None:
    """Print a plan to stderr, before the first call; nothing if the server lists no tools."""
    from accord_tools.reports.text import plan_as_text

    if plan.called or plan.not_called:
        note(plan_as_text(plan))
