"""The Model Context Protocol for Python: servers, clients, and the rules that hold both.

Names are loaded when they are first used, so that importing accord costs next to nothing.
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

from accord.version import __version__ as __version__

if TYPE_CHECKING:
    from accord import errors, types
    from accord.client import Client
    from accord.client.connect import connect
    from accord.client.several import connect_all
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


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(_load(_HOMES[name]), name)
    elif name in __all__:
        value = _load(f"accord.{name}")
    else:
        raise AttributeError(f"module 'accord' has no attribute {name!r}")
    globals()[name] = value
    return value


def _load(module: str) -> Any:
    """Import a module without a look for garbage meanwhile, which takes a tenth of the time."""
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
