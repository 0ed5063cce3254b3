"""Which tools a command calls, shown before the first call, or with `--plan` instead of calls."""

from typing import TYPE_CHECKING

from accord.cli.options import UsageError
from accord.cli.terminal import note, say

if TYPE_CHECKING:
    from accord.check.probing.tool_calls import CallPlan

__all__ = ["plan_form", "show_plan", "tell_plan"]


def plan_form(form: str | None) -> str:
    """Return the form of a plan: text, or JSON where that was asked for.

    Raises:
        UsageError: it has no such form.
    """
    if form not in (None, "text", "json"):
        raise UsageError(f"--plan is told as text or json, not {form}")
    return form or "text"


def show_plan(plan: "CallPlan", form: str, target: str) -> None:
    """Print a plan as what the command was asked for."""
    from accord.check.rendering.plan import as_json, as_text

    say(as_json(plan, target) if form == "json" else f"{as_text(plan)}\n")


def tell_plan(plan: "CallPlan") -> None:
    """Tell a plan on stderr, before the result; nothing where the server lists no tools."""
    from accord.check.rendering.plan import as_text

    if plan.called or plan.not_called:
        note(as_text(plan))
