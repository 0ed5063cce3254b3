"""Launched servers: one that does not want to end, one that talks on stderr."""

import signal
from typing import TYPE_CHECKING, Final

from accord.check.fake_server.server import FakeServer, client_scenario

if TYPE_CHECKING:
    from accord.check.fake_server.client_run import ClientRun

__all__: list[str] = []

_ID: Final = "stdio.shutdown.escalates"


@client_scenario(_ID, on=("stdio",))
class WillNotEnd(FakeServer):
    """Goes on though its input ended, and ignores SIGTERM."""

    relay_commands = ("stubborn",)

    async def judge(self, show: "ClientRun") -> None:
        if show.exit_code is None:
            why = "the client did not end by itself"
            show.skip(_ID, why)
        elif show.left_servers_running:
            told = " after SIGTERM" if signal.SIGTERM in self.signals else ""
            show.fail(_ID, f"leaves a server running that does not end by itself{told}")
        else:
            why = "kills a server without SIGTERM first"
            show.holds(_ID, signal.SIGTERM in self.signals, why)


@client_scenario("stdio.stderr-not-an-error-signal", on=("stdio",))
class TalksOnStderr(FakeServer):
    """Writes errors and warnings to stderr, and means nothing by it."""

    relay_commands = ("stderr ERROR: this is only a check",)

    async def judge(self, show: "ClientRun") -> None:
        if show.is_initialized and show.usual_exit_code is not None:
            why = "fails where the server writes to stderr"
            show.holds("stdio.stderr-not-an-error-signal", show.ended_as_usual, why)
