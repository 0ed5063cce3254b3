"""The former place of contract tests, until 0.4: what was documented is found with a warning."""

from importlib import import_module
from typing import Any
from warnings import warn

_MOVED = ("ContractBroken", "check_contract")


def __getattr__(name: str) -> Any:
    if name not in _MOVED:
        raise AttributeError(f"module 'accord.check.contract' has no attribute {name!r}")
    warn(
        f"accord.check.contract will go in 0.4; write: from accord_tools.contract import {name}",
        DeprecationWarning,
        stacklevel=2,
    )
    return getattr(import_module("accord_tools.contract"), name)
