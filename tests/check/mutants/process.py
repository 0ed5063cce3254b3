"""Servers that are bad processes: area stdio, and what is usual among them."""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from accord_tools.check.probing.target import ServerTarget
from check.mutants.foundation import Making, elsewhere, unbreakable
from support.check_targets import check_target

AWKWARD = Path(__file__).parent.parent / "awkward.py"
ONLY = ("stdio", "practice.shutdown")


def awkward(habit: str, **settings: Any) -> ServerTarget:
    """Return a server with a bad habit; it starts within milliseconds."""
    command = [sys.executable, "-S", "-E", str(AWKWARD), habit]
    return check_target(
        name=habit, command=command, **{"patience": 5, "settling": 0.1, "leaving": 2, **settings}
    )


def launched(
    id: str,
    habit: str,
    *,
    also: dict[str, str] | None = None,
    only: Sequence[str] = ONLY,
    patience: float = 3,
    is_thorough: bool = False,
) -> None:
    """Register a server with a bad habit."""

    @asynccontextmanager
    async def making() -> AsyncIterator[ServerTarget]:
        yield awkward(habit, leaving=1, patience=patience)

    made: Making = making
    made.__name__ = habit.replace(" ", "_")
    elsewhere(id, also=also, only=only, is_process=True, is_thorough=is_thorough)(made)


NO_MESSAGE = {"stdio.server.stdout-only-messages": "neither line is a message of its own"}

launched("stdio.server.stdout-only-messages", "banner")
launched("stdio.server.stdout-only-messages", "garbage")
launched("stdio.server.stdout-only-messages", "farewell")
launched("stdio.framing.newline-delimited", "joins messages", also=NO_MESSAGE)
launched("stdio.framing.no-embedded-newline", "spreads messages", also=NO_MESSAGE)
launched("stdio.shutdown.server-exits", "stays")
launched("practice.shutdown.signals", "default signals")
for _habit in ("joins messages by commas", "separates records"):
    launched("stdio.framing.newline-delimited", _habit, also=NO_MESSAGE, is_thorough=True)
for _habit in ("breaks a text", "spreads an answer", "spreads a list of texts"):
    launched("stdio.framing.no-embedded-newline", _habit, also=NO_MESSAGE, is_thorough=True)
for _habit in ("stays if it was busy", "reads on"):
    launched("stdio.shutdown.server-exits", _habit, is_thorough=True)
for _habit in ("fails at signals", "knows one signal", "survives signals"):
    launched("practice.shutdown.signals", _habit, is_thorough=True)
unbreakable(
    "a server that answers elsewhere cannot be checked at all",
    "stdio.server.reads-stdin-writes-stdout",
)
unbreakable("a permission to write there", "stdio.server.stderr-logging")
unbreakable(
    "text on standard output is reported as stdio.server.stdout-only-messages",
    "practice.stdio.log-to-stderr",
)
unbreakable(
    "a check cannot make a server fail within",
    "practice.startup.fatal-exit-code",
    "practice.errors.unhandled-exit",
)
