"""Many servers in one file: checked side by side, compared with earlier runs, shown on one page."""

from typing import Final

from accord.cli.commands import CHECK, Command

FLEET_COMMAND: Final = Command(
    "accord_tools.fleet.commands",
    "check many servers of one file, with history and a page",
    CHECK,
    takes_command=True,
    has_kinds=True,
)
