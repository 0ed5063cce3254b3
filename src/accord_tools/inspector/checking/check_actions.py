"""The actions of the pane with the full check."""

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from accord.types import RevisionId
from accord_tools.check.report import Report
from accord_tools.inspector.actions import Nothing, action
from accord_tools.inspector.checking.check_run import CheckRun
from accord_tools.inspector.definition import ActionRefused, Download
from accord_tools.inspector.session import InspectedSession

ReportFormat: TypeAlias = Literal["html", "json", "junit", "sarif", "text"]
_FILES: Final[Mapping[str, tuple[str, str]]] = {
    "html": ("html", "text/html; charset=utf-8"),
    "json": ("json", "application/json"),
    "junit": ("xml", "application/xml"),
    "sarif": ("sarif", "application/sarif+json"),
    "text": ("txt", "text/plain; charset=utf-8"),
}


@action("check.get")
async def get_check(session: InspectedSession, params: Nothing) -> object:
    """Return how far the check is, and the newest report."""
    return session.part(CheckRun).snapshot()


class StartCheck(msgspec.Struct):
    """What to check."""

    revisions: list[RevisionId] = []
    only: str = ""
    calls_tools: bool = False


@action("check.start")
async def start_check(session: InspectedSession, params: StartCheck) -> object:
    """Begin a check."""
    await session.part(CheckRun).start(
        params.revisions, params.only, calls_tools=params.calls_tools
    )
    return {}


@action("check.stop")
async def stop_check(session: InspectedSession, params: Nothing) -> object:
    """Stop the check."""
    await session.part(CheckRun).stop()
    return {}


class DownloadReport(msgspec.Struct):
    """In which format."""

    format: ReportFormat = "html"


@action("check.download")
async def download_report(session: InspectedSession, params: DownloadReport) -> object:
    """Return the newest report as a file."""
    report = session.part(CheckRun).report
    if report is None:
        raise ActionRefused("there is no report yet; run the check first")
    ending, media_type = _FILES[params.format]
    text = _renderer(params.format)(report)
    return Download(f"accord-check.{ending}", media_type, [text.encode(errors="replace")])


def _renderer(form: ReportFormat) -> Callable[[Report], str]:
    from accord_tools.check.rendering.html import as_html
    from accord_tools.check.rendering.machine_readable import as_json, as_junit, as_sarif
    from accord_tools.check.rendering.text import as_text

    renderers: dict[str, Callable[[Report], str]] = {
        "html": as_html,
        "json": as_json,
        "junit": as_junit,
        "sarif": as_sarif,
        "text": as_text,
    }
    return renderers[form]
