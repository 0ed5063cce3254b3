"""The checker: judges recorded traffic against every requirement of its revision."""

from typing import Final

from accord.cli.commands import CHECK, Command

CHECK_COMMAND: Final = Command(
    "accord_tools.check.command",
    "check servers, clients and recordings",
    CHECK,
    takes_command=True,
)
REQUIREMENTS_COMMAND: Final = Command(
    "accord_tools.check.requirements_command", "show the requirements of the protocol", CHECK
)
