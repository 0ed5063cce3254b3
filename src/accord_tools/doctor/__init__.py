"""Connecting to a server step by step: what each step asked, what came, and what to change."""

from typing import Final

from accord.cli.commands import CHECK, Command

DOCTOR_COMMAND: Final = Command(
    "accord_tools.doctor.command",
    "find out why a client cannot use a server",
    CHECK,
    takes_command=True,
)
