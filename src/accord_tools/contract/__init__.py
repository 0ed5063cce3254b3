"""Tests of servers: made from what they declare, and from cases that their authors write."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from accord.cli.commands import CHECK, Command

if TYPE_CHECKING:
    from accord_tools.contract.runner import ContractBroken, check_contract

__all__ = ["ContractBroken", "check_contract"]

TEST_COMMAND: Final = Command(
    "accord_tools.contract.command",
    "test a server against its own schemas, and your cases",
    CHECK,
    takes_command=True,
)
LOCK_COMMAND: Final = Command(
    "accord_tools.contract.lock_command",
    "write what a server shows into a file",
    CHECK,
    takes_command=True,
)
VERIFY_COMMAND: Final = Command(
    "accord_tools.contract.lock_command",
    "compare what a server shows with a locked file",
    CHECK,
    takes_command=True,
)


def __getattr__(name: str) -> Any:
    # Loaded when first used: pytest imports this package in every run, used or not.
    if name not in __all__:
        raise AttributeError(f"module 'accord_tools.contract' has no attribute {name!r}")
    return getattr(import_module("accord_tools.contract.runner"), name)
