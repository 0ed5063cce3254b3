"""Launched servers: one that does not want to end, one that talks on stderr."""

import signal
from typing import TYPE_CHECKING, Final

from accord.check.playing.actor import Actor, play

if TYPE_CHECKING:
    from accord.check.playing.performance import Performance

__all__: list[str] = []

_ID: Final = "stdio.shutdown.escalates"


@play(_ID, on=("stdio",))
class WillNotEnd(Actor):
    """Goes on though its input ended, and ignores SIGTERM."""

    orders = ("stubborn",)

    async def judge(self, show: "Performance") -> None:
        if show.exit_code is None:
            why = "the client did not end by itself"
            show.skip(_ID, why)
        elif show.left_running:
            told = " after SIGTERM" if signal.SIGTERM in self.signals else ""
            show.fail(_ID, f"leaves a server running that does not end by itself{told}")
        else:
            why = "kills a server without SIGTERM first"
            show.holds(_ID, signal.SIGTERM in self.signals, why)


@play("stdio.stderr-not-an-error-signal", on=("stdio",))
class TalksOnStderr(Actor):
    """Writes errors and warnings to stderr, and means nothing by it."""

    orders = ("stderr ERROR: this is only a check",)

    async def judge(self, show: "Performance") -> None:
        if show.has_gone_on and show.usual_exit is not None:
            why = "fails where the server writes to stderr"
            show.holds("stdio.stderr-not-an-error-signal", show.ended_as_usual, why)
