"""What several runs of a client show together."""

from collections.abc import Callable, Sequence
from typing import Final

from accord.check.playing.performance import Performance

__all__ = ["CONCLUSIONS"]


def _keeps_out_of_unspoken(shows: Sequence[Performance]) -> None:
    """lifecycle.version.client-disconnects: what it did not agree to, it left."""
    for show in shows:
        is_well = not show.actor.ids and show.actor.is_judged
        if is_well and show.lines and not show.has_gone_on and not show.was_connected:
            show.kept("lifecycle.version.client-disconnects")


def _falls_back_always(shows: Sequence[Performance]) -> None:
    """http.compat.sse-fallback: on one status and not on another is half a fallback."""
    tried = [show for show in shows if show.actor.is_older]
    fallen = [show for show in tried if any(each.method == "GET" for each in show.requests)]
    for show in tried:
        for id in show.actor.ids:
            if not fallen:
                show.not_applicable(id, "the client does not speak to servers of the older form")
                continue
            why = f"does not fall back to HTTP with SSE on {show.actor.refusal}, on others it does"
            show.holds(id, show in fallen, why)


def _takes_both_forms(shows: Sequence[Performance]) -> None:
    """http.client.supports-both-forms: what goes on with one form goes on with the other."""
    id = "http.client.supports-both-forms"
    streamed = [show for show in shows if id in show.actor.ids]
    whole = [show for show in shows if not show.actor.ids and not show.actor.streams]
    for show in streamed:
        same = [each for each in whole if each.actor.revision == show.actor.revision]
        if any(each.has_gone_on for each in same):
            show.holds(id, show.has_gone_on, "does not go on where answers come as event streams")
        elif show.has_gone_on:
            show.fail(id, "does not go on where answers come as JSON")


CONCLUSIONS: Final[tuple[Callable[[Sequence[Performance]], None], ...]] = (
    _keeps_out_of_unspoken,
    _falls_back_always,
    _takes_both_forms,
)
