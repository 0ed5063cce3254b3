"""The badges of a fleet and of its servers, as SVG and as data from which shields.io draws them."""

import json
from typing import Final, NamedTuple

from accord_tools.fleet.rendering.wording import (
    STATE_WORDS,
    date_text,
    fleet_title,
    headline,
    outcome_state,
    reused_text,
    score_text,
)
from accord_tools.fleet.results import FleetRun, FleetView, ServerResult
from accord_tools.reports.badge import BADGE_COLOURS, draw_badge
from accord_tools.reports.wording import plural

_FLEET: Final = "MCP fleet"
_SERVER: Final = "MCP"


class FleetBadge(NamedTuple):
    """A badge: its label, its value, the verdict that its colour stands for, its title."""

    label: str
    value: str
    verdict: str
    title: str


def as_badge(view: FleetView) -> str:
    """Return the badge of the fleet as SVG: how many servers are as expected."""
    return badge_svg(fleet_badge(view))


def fleet_badge(view: FleetView) -> FleetBadge:
    """Return the badge of the fleet."""
    run = view.run
    expected = sum(result.state == "ok" for result in run.results)
    title = f"{fleet_title(run)}: {headline(view)}, {date_text(run.started)}"
    return FleetBadge(_FLEET, f"{expected}/{len(run.results)}", outcome_state(run), title)


def server_badge(result: ServerResult, run: FleetRun) -> FleetBadge:
    """Return the badge of a server: failures and coverage; grey if it could not be checked."""
    made = reused_text(result, run) or date_text(run.started)
    title = f"{result.name}: {STATE_WORDS[result.state]}, score {score_text(result.score)}, {made}"
    if result.state not in ("ok", "failed") or not result.applicable:
        value = "not tested" if result.state in ("ok", "failed") else STATE_WORDS[result.state]
        return FleetBadge(_SERVER, value, "not-exercised", title)
    value = f"{plural(result.failures, 'failure')}, {result.exercised}/{result.applicable}"
    verdict = "warn" if result.failures or result.warnings else "pass"
    return FleetBadge(_SERVER, value, "fail" if result.state == "failed" else verdict, title)


def badge_svg(badge: FleetBadge) -> str:
    """Return a badge as SVG."""
    return draw_badge(badge.label, badge.value, BADGE_COLOURS[badge.verdict], badge.title)


def badge_endpoint(badge: FleetBadge) -> str:
    """Return a badge as the JSON that the endpoint badge of shields.io reads."""
    members = {
        "schemaVersion": 1,
        "label": badge.label,
        "message": badge.value,
        "color": BADGE_COLOURS[badge.verdict],
        "isError": badge.verdict == "fail",
    }
    return json.dumps(members) + "\n"
