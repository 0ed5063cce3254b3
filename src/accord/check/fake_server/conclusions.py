"""What several runs of a client show together."""

from collections.abc import Callable, Sequence
from typing import Final

from accord.check.fake_server.client_run import ClientRun

__all__ = ["CONCLUSIONS"]


def _keeps_out_of_unspoken(shows: Sequence[ClientRun]) -> None:
    """lifecycle.version.client-disconnects: what it did not agree to, it left."""
    for show in shows:
        is_well = not show.server.ids and show.server.is_judged
        if is_well and show.lines and not show.is_initialized and not show.was_connected:
            show.passes("lifecycle.version.client-disconnects")


def _falls_back_always(shows: Sequence[ClientRun]) -> None:
    """http.compat.sse-fallback: on one status and not on another is half a fallback."""
    tried = [show for show in shows if show.server.is_older]
    fallen = [show for show in tried if any(each.method == "GET" for each in show.requests)]
    for show in tried:
        for id in show.server.ids:
            if not fallen:
                show.not_applicable(id, "the client does not speak to servers of the older form")
                continue
            why = f"does not fall back to HTTP with SSE on {show.server.refusal}, on others it does"
            show.holds(id, show in fallen, why)


def _takes_both_forms(shows: Sequence[ClientRun]) -> None:
    """http.client.supports-both-forms: what goes on with one form goes on with the other."""
    id = "http.client.supports-both-forms"
    streamed = [show for show in shows if id in show.server.ids]
    whole = [show for show in shows if not show.server.ids and not show.server.streams]
    for show in streamed:
        same = [each for each in whole if each.server.revision == show.server.revision]
        if any(each.is_initialized for each in same):
            show.holds(
                id, show.is_initialized, "does not go on where answers come as event streams"
            )
        elif show.is_initialized:
            show.fail(id, "does not go on where answers come as JSON")


CONCLUSIONS: Final[tuple[Callable[[Sequence[ClientRun]], None], ...]] = (
    _keeps_out_of_unspoken,
    _falls_back_always,
    _takes_both_forms,
)
