"""Tests of servers: made from what they declare, and from cases that their authors write."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord_tools.contract.runner import ContractBroken, check_contract

__all__ = ["ContractBroken", "check_contract"]


def __getattr__(name: str) -> Any:
    # Loaded when first used: pytest imports this package in every run, used or not.
    if name not in __all__:
        raise AttributeError(f"module 'accord_tools.contract' has no attribute {name!r}")
    return getattr(import_module("accord_tools.contract.runner"), name)
