"""Markup that pages and badges share: escaping, the policy of a page, rings, drawn badges."""

from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Final

from accord.cli.terminal import escape_unprintable

# Signs repeat what colours say.
SIGNS: Final = {
    "fail": "\u2715",
    "warn": "!",
    "pass": "\u2713",
    "not-exercised": "?",
    "not-recorded": "\u25cb",
    "not-applicable": "\u2013",
}
# White text on each of these has a contrast of at least 4.5 to 1.
BADGE_COLOURS: Final = {
    "fail": "#b42318",
    "warn": "#8a5a00",
    "pass": "#1a7f37",
    "not-exercised": "#5c6370",
}
_RADIUS: Final = 44
# The width of a character at 11 pixels in a usual sans-serif face; the text is fitted to it.
_CHARACTER: Final = 6.2
_PADDING: Final = 7


def escape_html(text: str) -> str:
    """Escape a text for the content of an element, or for a quoted attribute."""
    return escape(escape_unprintable(text))


def read_asset(name: str, package: str = "accord_tools.check.rendering") -> str:
    """Return a style sheet, script or template of a package."""
    return files(package).joinpath(name).read_text("utf-8")


def page_policy(style: str, script: str) -> str:
    """Return a content security policy that allows one style sheet and one script, and no more."""
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)};"
        " base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def draw_ring(style: str, percent: float, shown: str, caption: str) -> str:
    """Return a ring that is filled so far, with a text inside and a caption in HTML below."""
    circle = f'<circle class="{{}}" cx="50" cy="50" r="{_RADIUS}" pathLength="100"{{}}/>'
    track = circle.format("track", "")
    # A dash of length 0 would still show as a dot.
    part = f' stroke-dasharray="{percent:g} 100" transform="rotate(-90 50 50)"'
    arc = circle.format(style, part) if percent else ""
    return (
        '<div class="gauge"><svg viewBox="0 0 100 100" aria-hidden="true">'
        f'{track}{arc}<text x="50" y="57">{shown}</text></svg>'
        f'<p><span class="unseen">{shown}</span> {caption}</p></div>'
    )


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
