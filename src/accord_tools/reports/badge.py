"""Badges for the front page of a project, as SVG."""

from typing import Final

from accord_tools.reports import wording
from accord_tools.reports.markdown import escape_html
from accord_tools.reports.report import Report

# White text on each of these has a contrast of at least 4.5 to 1.
BADGE_COLOURS: Final = {
    "fail": "#b42318",
    "warn": "#8a5a00",
    "pass": "#1a7f37",
    "not-exercised": "#5c6370",
}
# The width of a character at 11 pixels in a usual sans-serif face; the text is fitted to it.
_CHARACTER: Final = 6.2
_PADDING: Final = 7
_LABEL: Final = "MCP conformance"


def as_badge(report: Report) -> str:
    """Return score and coverage as SVG; the title has the target and the counts."""
    value = "not tested"
    if report.score is not None:
        value = f"{report.score:g}/100 \u00b7 {wording.percent_covered(report)}% covered"
    title = (
        f"{report.target}: score {wording.score(report)},"
        f" {wording.percent_covered(report)}% of the applicable requirements exercised,"
        f" {wording.breach_counts(report)}"
        f"{wording.called_tools(report, '; {} were called')}"
    )
    state = "not-exercised" if wording.is_little_tested(report) else wording.state(report)
    return draw_badge(_LABEL, value, BADGE_COLOURS[state], title)


def draw_badge(label: str, value: str, colour: str, title: str) -> str:
    """Return a badge as SVG: the label, the value on a colour, and a title for the pointer."""
    left, right = _width(label), _width(value)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img"'
        f' aria-label="{escape_html(f"{label}: {value}")}">\n'
        f"<title>{escape_html(title)}</title>\n"
        f'<clipPath id="r"><rect width="{left + right}" height="20" rx="4"/></clipPath>\n'
        f'<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#3b4252"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/></g>\n'
        '<g fill="#fff" text-anchor="middle" font-size="11"'
        ' font-family="Verdana,Geneva,DejaVu Sans,sans-serif">\n'
        f"{_text(label, left / 2, left)}\n{_text(value, left + right / 2, right)}\n"
        "</g>\n</svg>\n"
    )


def _width(text: str) -> int:
    return round(len(text) * _CHARACTER) + 2 * _PADDING


def _text(text: str, middle: float, width: int) -> str:
    shown = escape_html(text)
    return f'<text x="{middle:g}" y="14" textLength="{width - 2 * _PADDING}">{shown}</text>'
