"""A badge for a project's front page: score and coverage, as SVG."""

from html import escape
from typing import Final

from accord.check.rendering.wording import (
    breach_counts,
    escape_unprintable,
    percent_covered,
    score,
    state,
)
from accord.check.report import Report

# White text on each of these has a contrast of at least 4.5 to 1.
_COLOURS: Final = {
    "fail": "#b42318",
    "warn": "#8a5a00",
    "pass": "#1a7f37",
    "not-exercised": "#5c6370",
}
_LABEL: Final = "MCP conformance"
# The width of a character at 11 pixels in a usual sans-serif face; the text is fitted to it.
_CHARACTER: Final = 6.2
_PADDING: Final = 7


def as_badge(report: Report) -> str:
    """Return the badge; its title has the target and the counts."""
    value = "not tested"
    if report.score is not None:
        value = f"{report.score:g}/100 \u00b7 {percent_covered(report)}% covered"
    title = (
        f"{escape_unprintable(report.target)}: score {score(report)},"
        f" {percent_covered(report)}% of the applicable requirements exercised,"
        f" {breach_counts(report)}"
    )
    left, right = _width(_LABEL), _width(value)
    colour = _COLOURS[state(report)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img"'
        f' aria-label="{escape(f"{_LABEL}: {value}")}">\n'
        f"<title>{escape(title)}</title>\n"
        f'<clipPath id="r"><rect width="{left + right}" height="20" rx="4"/></clipPath>\n'
        f'<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#3b4252"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/></g>\n'
        '<g fill="#fff" text-anchor="middle" font-size="11"'
        ' font-family="Verdana,Geneva,DejaVu Sans,sans-serif">\n'
        f"{_text(_LABEL, left / 2, left)}\n{_text(value, left + right / 2, right)}\n"
        "</g>\n</svg>\n"
    )


def _width(text: str) -> int:
    return round(len(text) * _CHARACTER) + 2 * _PADDING


def _text(text: str, middle: float, width: int) -> str:
    return f'<text x="{middle:g}" y="14" textLength="{width - 2 * _PADDING}">{escape(text)}</text>'
