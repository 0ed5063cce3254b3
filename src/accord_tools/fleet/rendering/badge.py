"""The badges of a fleet and of its servers."""

from typing import Final

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
from accord_tools.reports.badge import Badge
from accord_tools.reports.wording import plural

_FLEET: Final = "MCP fleet"
_SERVER: Final = "MCP"


def as_badge(view: FleetView) -> str:
    """Return the badge of the fleet as SVG: how many servers are as expected."""
    return fleet_badge(view).draw()


def fleet_badge(view: FleetView) -> Badge:
    """Return the badge of the fleet."""
    run = view.run
    expected = sum(result.state == "ok" for result in run.results)
    title = f"{fleet_title(run)}: {headline(view)}, {date_text(run.started)}"
    return Badge(_FLEET, f"{expected}/{len(run.results)}", outcome_state(run), title)


def server_badge(result: ServerResult, run: FleetRun) -> Badge:
    """Return the badge of a server: failures and coverage; grey if it could not be checked."""
    made = reused_text(result, run) or date_text(run.started)
    title = f"{result.name}: {STATE_WORDS[result.state]}, score {score_text(result.score)}, {made}"
    if result.state not in ("ok", "failed") or not result.applicable:
        value = "not tested" if result.state in ("ok", "failed") else STATE_WORDS[result.state]
        return Badge(_SERVER, value, "not-exercised", title)
    value = f"{plural(result.failures, 'failure')}, {result.exercised}/{result.applicable}"
    verdict = "warn" if result.failures or result.warnings else "pass"
    return Badge(_SERVER, value, "fail" if result.state == "failed" else verdict, title)
