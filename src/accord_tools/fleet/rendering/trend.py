"""The last results of a server as a small drawing, and the same in words."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from accord_tools.fleet.rendering.wording import date_text
from accord_tools.fleet.results import TrendPoint
from accord_tools.reports.wording import plural

_MOST_POINTS: Final = 50
_STEP: Final = 4
_HEIGHT: Final = 40
_TOP: Final = 4
# A scale of at least so many failures: a single one does not fill the height.
_LEAST_SCALE: Final = 4
_CHECKED: Final = ("ok", "failed")


def draw_trend(points: Sequence[TrendPoint]) -> dict[str, str]:
    """Return a drawing as the paths of an SVG element, by the names of their styles.

    Failures are steps, coverage a thin line. A change of rules is a vertical line: numbers on its
    two sides cannot be compared. Where a server could not be checked, the drawing is shaded.
    """
    shown = points[-_MOST_POINTS:]
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
    return {"gap": gaps, "rules": lines, "cover": cover, "steps": steps}


def trend_box(points: Sequence[TrendPoint]) -> str:
    """Return the view box of a drawing."""
    return f"0 0 {max(len(points[-_MOST_POINTS:]), 1) * _STEP} {_HEIGHT}"


def trend_words(points: Sequence[TrendPoint]) -> str:
    """Return a trend in words, for people who cannot see the drawing."""
    shown = points[-_MOST_POINTS:]
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
