"""Watching a client and a server from in between, without changing anything."""

from typing import Final

from accord.cli.commands import CHECK, Command

WATCH_COMMAND: Final = Command(
    "accord_tools.watch.command",
    "judge the traffic of a real client and server, live",
    CHECK,
    takes_command=True,
)
