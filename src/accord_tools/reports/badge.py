"""Badges for the front page of a project, as SVG or as data for shields.io."""

import json
from typing import Final, NamedTuple

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


class Badge(NamedTuple):
    """A badge: its label, its value, the verdict that its colour stands for, its title."""

    label: str
    value: str
    verdict: str
    title: str

    def draw(self) -> str:
        """Return the badge as SVG."""
        left, right, colour = _width(self.label), _width(self.value), BADGE_COLOURS[self.verdict]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img"'
            f' aria-label="{escape_html(f"{self.label}: {self.value}")}">\n'
            f"<title>{escape_html(self.title)}</title>\n"
            f'<clipPath id="r"><rect width="{left + right}" height="20" rx="4"/></clipPath>\n'
            f'<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#3b4252"/>'
            f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/></g>\n'
            '<g fill="#fff" text-anchor="middle" font-size="11"'
            ' font-family="Verdana,Geneva,DejaVu Sans,sans-serif">\n'
            f"{_text(self.label, left / 2, left)}\n{_text(self.value, left + right / 2, right)}\n"
            "</g>\n</svg>\n"
        )

    def as_endpoint(self) -> str:
        """Return the badge as the JSON that the endpoint badge of shields.io reads."""
        members = {
            "schemaVersion": 1,
            "label": self.label,
            "message": self.value,
            "color": BADGE_COLOURS[self.verdict],
            "isError": self.verdict == "fail",
        }
        return json.dumps(members) + "\n"


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
    return Badge(_LABEL, value, state, title).draw()


def _width(text: str) -> int:
    return round(len(text) * _CHARACTER) + 2 * _PADDING


def _text(text: str, middle: float, width: int) -> str:
    shown = escape_html(text)
    return f'<text x="{middle:g}" y="14" textLength="{width - 2 * _PADDING}">{shown}</text>'
