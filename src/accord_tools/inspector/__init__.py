"""`accord inspect`: a page to explore and debug a server, with verdicts beside the messages."""

from typing import Final

from accord.cli.commands import BUILD, Command

INSPECT_COMMAND: Final = Command(
    "accord_tools.inspector.command",
    "open a page to explore and debug servers",
    BUILD,
    takes_command=True,
)
