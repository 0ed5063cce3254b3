"""The Model Context Protocol for Python: servers, clients, and the rules that hold both.

Names are loaded when they are first used, so that importing accord costs next to nothing.
"""

import gc
import sys
from importlib import import_module
from os.path import exists
from typing import TYPE_CHECKING, Any

from accord.version import __version__ as __version__

if TYPE_CHECKING:
    from accord import errors, types
    from accord.client import Client
    from accord.client.client_group import connect_all
    from accord.client.connect import connect
    from accord.errors import ToolError
    from accord.principal import Principal
    from accord.protocol.codec import Limits
    from accord.server import Choices, Context, Depends, Header, Server

__all__ = [
    "Choices",
    "Client",
    "Context",
    "Depends",
    "Header",
    "Limits",
    "Principal",
    "Server",
    "ToolError",
    "connect",
    "connect_all",
    "errors",
    "types",
]


_HOMES = {
    "Choices": "accord.server.schema.annotations",
    "Client": "accord.client",
    "Context": "accord.server.context",
    "Depends": "accord.server.depends",
    "Header": "accord.server.schema.annotations",
    "Limits": "accord.protocol.codec",
    "Principal": "accord.principal",
    "Server": "accord.server.server",
    "ToolError": "accord.errors",
    "connect": "accord.client",
    "connect_all": "accord.client",
}


# Searched for a name that is not here.
_SHOWN = (
    *("accord.errors", "accord.types", "accord.server", "accord.client", "accord.auth"),
    *("accord.compose", "accord.middleware", "accord.testing", "accord.sharing"),
    "accord.server.tasks",
)
# The library does not import the tools, not even to look for a name.
_IN_TOOLS = {
    "ContractBroken": "accord_tools.contract",
    "check_contract": "accord_tools.contract",
}
# What other libraries call it.
_FOREIGN = {"FastMCP": "Server", "MCPServer": "Server", "ClientSession": "connect"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(_load(_HOMES[name]), name)
    elif name in __all__:
        value = _load(f"accord.{name}")
    else:
        raise _explain_missing(name)
    globals()[name] = value
    return value


def _explain_missing(name: str) -> Exception:
    """Return the error for a name that is not here, with where it is if that is known.

    As an ImportError: Python drops the text of an AttributeError in `from accord import name`.
    """
    place = f"{__path__[0]}/{name}"
    if not name.startswith("_") and not exists(place) and not exists(f"{place}.py"):
        if name in _FOREIGN:
            return ImportError(
                f"accord has no {name!r}; write: from accord import {_FOREIGN[name]}"
            )
        places = [_IN_TOOLS[name]] if name in _IN_TOOLS else _SHOWN
        for module in places:
            if name in _IN_TOOLS or name in import_module(module).__all__:
                return ImportError(f"{name!r} is in {module}; write: from {module} import {name}")
    return AttributeError(f"module 'accord' has no attribute {name!r}")


def _load(module: str) -> Any:
    """Import a module without a look for garbage meanwhile, which takes a tenth of the time."""
    if module in sys.modules:
        return import_module(module)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(module)
    finally:
        if was_enabled:
            if not gc.get_freeze_count():
                # Puts all objects among the old ones, or the next look would go through them.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
