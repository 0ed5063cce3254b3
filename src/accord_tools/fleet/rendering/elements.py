"""Small parts of a fleet's page: marks, links, shortened texts, diffs."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import unified_diff
from itertools import pairwise
from typing import Final, TypeVar

import msgspec

from accord_tools.fleet.rendering.wording import FIXES, STATE_WORDS, date_text
from accord_tools.fleet.results import (
    FleetView,
    RunDifference,
    ServerResult,
    ServerState,
    TrendPoint,
)
from accord_tools.reports.html import SIGNS
from accord_tools.reports.markdown import escape_html
from accord_tools.reports.wording import plural

Item = TypeVar("Item")

# What the colour of a state is named after: a verdict, or the state where no verdict is like it.
STATE_VERDICTS: Final[dict[ServerState, str]] = {
    "ok": "pass",
    "failed": "fail",
    "unreachable": "unreachable",
    "timed-out": "warn",
    "skipped": "not-applicable",
}
_STATE_SIGNS: Final[dict[ServerState, str]] = {
    "ok": SIGNS["pass"],
    "failed": SIGNS["fail"],
    "unreachable": "\u2298",
    "timed-out": "\u2026",
    "skipped": SIGNS["not-applicable"],
}
# Characters of a text on the page, and of one that is unfolded; the whole is in the JSON form.
_MOST_LETTERS: Final = 400
_MOST_UNFOLDED: Final = 2000
_MOST_IN_DIFF: Final = 4000
_MOST_IN_LINE: Final = 500
_MOST_LINES: Final = 16
# Lists are shortened until their entries fit into this, as long as texts are of usual length.
_BYTES_FOR_LISTS: Final = 800_000
_BYTES_PER_ENTRY: Final = 700
_LIMITS: Final = (200, 100, 50, 25, 12, 6, 3, 1)


class PageContext(msgspec.Struct, frozen=True):
    """What all parts of a page need.

    Attributes:
        view: the run and all that is known beside it.
        places: the place of each server in the run, by which elements are named.
        limit: how many entries of a list are shown.
        links: the address of each server's own page, if it has one.
    """

    view: FleetView
    places: Mapping[str, int]
    limit: int
    links: Mapping[str, str]

    def link(self, name: str) -> str:
        """Return a link to the details of a server; its name alone if the run lacks it."""
        shown = shorten(name, 80)
        place = self.places.get(name)
        return shown if place is None else f'<a href="#server-{place}">{shown}</a>'

    def data(self, name: str) -> str:
        """Return the attribute by which filters find what belongs to a server."""
        place = self.places.get(name)
        return "" if place is None else f' data-server="{place}"'


def page_contexts(view: FleetView, links: Mapping[str, str] | None = None) -> Iterator[PageContext]:
    """Yield what the parts of a page need; each has shorter lists than the one before."""
    places: dict[str, int] = {}
    for place, result in enumerate(view.run.results):
        places.setdefault(result.name, place)
    first = _list_limit(view)
    for limit in _LIMITS:
        if limit <= first:
            yield PageContext(view, places, limit, links or {})


def _list_limit(view: FleetView) -> int:
    """Return the longest length for lists with which the page does not grow too large."""
    lengths = [
        len(each)
        for result in view.run.results
        for each in (result.breaches, result.tests.failures, result.changes, result.findings)
    ]
    lengths += [len(view.run.findings)]
    most = _BYTES_FOR_LISTS // _BYTES_PER_ENTRY
    fitting = (limit for limit in _LIMITS if sum(min(e, limit) for e in lengths) <= most)
    return next(fitting, _LIMITS[-1])


def shorten(text: str, most: int = _MOST_LETTERS) -> str:
    """Return the beginning of a text, escaped for HTML."""
    return escape_html(text if len(text) <= most else f"{text[:most].rstrip()}\u2026")


def unfold(text: str, most: int = _MOST_LETTERS) -> str:
    """Return a text, escaped for HTML, of which a click shows what is not shown at first.

    It may stand where blocks may, and not within a paragraph or a summary.
    """
    if len(text) <= most:
        return escape_html(text)
    return (
        f'<details class="text"><summary><span class="cut">{shorten(text, most)}</span>'
        f"<b></b></summary>{shorten(text, _MOST_UNFOLDED)}</details>"
    )


def mark(verdict: str, word: str, sign: str | None = None) -> str:
    """Return a coloured word with a sign that says the same."""
    shown = SIGNS[verdict] if sign is None else sign
    return f'<span class="mark {verdict}"><span aria-hidden="true">{shown}</span> {word}</span>'


def mark_of_state(state: ServerState) -> str:
    """Return a state as a mark."""
    return mark(STATE_VERDICTS[state], STATE_WORDS[state].capitalize(), _STATE_SIGNS[state])


def state_mark(result: ServerResult) -> str:
    """Return the state of a server as a mark; grey if it breaks what its limits allow."""
    if is_within_limits(result):
        return mark("not-applicable", "Within the limits", "~")
    return mark_of_state(result.state)


def is_within_limits(result: ServerResult) -> bool:
    """Return whether a server is as expected although something failed."""
    return result.state == "ok" and bool(result.failures or result.tests.failed)


def first_entries(items: Sequence[Item], limit: int) -> tuple[Sequence[Item], str]:
    """Return the entries to show, and a sentence about the others in HTML."""
    more = len(items) - limit
    if more <= 0:
        return items, ""
    return items[:limit], f'<p class="quiet">and {more:,} more; the JSON form has them all</p>'


def difference_mark(each: RunDifference, word: str) -> str:
    """Return the kind of a difference as a mark."""
    if each.is_regression:
        return mark("fail", word)
    if each.kind in FIXES:
        return mark("pass", word)
    return mark("not-exercised" if each.is_flaky else "not-applicable", word, "~")


def show_diff(before: str | None, after: str | None) -> str:
    """Return two JSON values as lines that were removed and added."""
    lines = list(
        unified_diff(_json_lines(before), _json_lines(after), n=1, lineterm=""),
    )[2:]
    lines = [line for line in lines if not line.startswith("@@")]
    tags = {"-": "del", "+": "ins", " ": "span"}
    shown = "".join(
        f"<{tags[line[0]]}>{line[0]} {shorten(line[1:], _MOST_IN_LINE)}</{tags[line[0]]}>"
        for line in lines[:_MOST_LINES]
    )
    more = len(lines) - _MOST_LINES
    rest = f"<span>{plural(more, 'more line')}</span>" if more > 0 else ""
    return f'<pre class="diff">{shown}{rest}</pre>'


def _json_lines(text: str | None) -> list[str]:
    if text is None:
        return []
    if len(text) > _MOST_IN_DIFF:
        return [f"{text[:_MOST_IN_DIFF]} ..."]
    try:
        shown = json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    except (ValueError, RecursionError):
        shown = text
    # Only these breaks: others are escaped and stay visible.
    return shown.split("\n")


def facts(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a list of facts; values are HTML, empty ones are left out."""
    for name, value in pairs:
        if value:
            yield f"<div><dt>{name}</dt><dd>{value}</dd></div>"


# -- trends: a small drawing, and the same in words


MOST_POINTS: Final = 50
_STEP: Final = 4
_HEIGHT: Final = 40
_TOP: Final = 4
# A scale of at least so many failures: a single one does not fill the height.
_LEAST_SCALE: Final = 4
_CHECKED: Final = ("ok", "failed")


def draw_trend(points: Sequence[TrendPoint], id: str) -> str:
    """Return a drawing as the content of an SVG element.

    Failures are steps, coverage a thin line. A change of rules is a vertical line: numbers on its
    two sides cannot be compared. Where a server could not be checked, the drawing is shaded.
    """
    shown = points[-MOST_POINTS:]
    most = max((point.failures for point in shown), default=0)
    scale = (_HEIGHT - 2 * _TOP) / max(most, _LEAST_SCALE)
    steps, cover, gaps, lines = "", "", "", ""
    joined = False
    for place, point in enumerate(shown):
        x = place * _STEP
        if place and point.rules != shown[place - 1].rules:
            lines += f"M{x} 0V{_HEIGHT}"
        if point.state not in _CHECKED:
            gaps += f"M{x} 0h{_STEP}v{_HEIGHT}h-{_STEP}z"
            joined = False
            continue
        y = f"{_HEIGHT - _TOP - point.failures * scale:g}"
        steps += f"V{y}h{_STEP}" if joined else f"M{x} {y}h{_STEP}"
        if point.applicable:
            height = _HEIGHT - _TOP - (_HEIGHT - 2 * _TOP) * point.exercised / point.applicable
            cover += f"{'L' if joined and cover else 'M'}{x + _STEP / 2:g} {height:.1f}"
        joined = True
    paths = {"gap": gaps, "rules": lines, "cover": cover, "steps": steps}
    drawn = "".join(f'<path class="{name}" d="{path}"/>' for name, path in paths.items() if path)
    return f'<g id="{id}">{drawn}</g>'


def trend_box(points: Sequence[TrendPoint]) -> str:
    """Return the view box of a drawing."""
    return f"0 0 {max(len(points[-MOST_POINTS:]), 1) * _STEP} {_HEIGHT}"


def trend_words(points: Sequence[TrendPoint]) -> str:
    """Return a trend in words, for people who cannot see the drawing; it is not escaped."""
    shown = points[-MOST_POINTS:]
    checked = [point for point in shown if point.state in _CHECKED]
    parts = [f"{plural(len(shown), 'run')} since {date_text(shown[0].started)}" if shown else ""]
    if checked:
        first, last = checked[0], checked[-1]
        counts = [point.failures for point in checked]
        parts.append(f"failures: first {first.failures}, last {last.failures}")
        parts.append(f"between {min(counts)} and {max(counts)}")
        parts.append(f"coverage: first {_cover(first)}, last {_cover(last)}")
    if len(checked) < len(shown):
        parts.append(f"not checked in {plural(len(shown) - len(checked), 'run')}")
    if changes := _rule_changes(shown):
        parts.append(f"rules changed {plural(changes, 'time')}")
    return "; ".join(part for part in parts if part)


def _cover(point: TrendPoint) -> str:
    return f"{point.exercised} of {point.applicable}"


def _rule_changes(points: Sequence[TrendPoint]) -> int:
    return sum(before.rules != after.rules for before, after in pairwise(points))


def trend_svg(points: Sequence[TrendPoint], id: str) -> str:
    """Return a drawing with its words as SVG."""
    return (
        f'<svg class="trend" viewBox="{trend_box(points)}" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape_html(trend_words(points))}">{draw_trend(points, id)}</svg>'
    )
