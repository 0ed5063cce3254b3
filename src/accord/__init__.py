"""The Model Context Protocol for Python: servers, clients, and the rules that hold both.

Names are loaded when they are first used, so that importing accord costs next to nothing.
"""

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
    "Choices": "accord.server",
    "Client": "accord.client",
    "Context": "accord.server",
    "Depends": "accord.server",
    "Header": "accord.server",
    "Limits": "accord.protocol.codec",
    "Principal": "accord.principal",
    "Server": "accord.server",
    "ToolError": "accord.errors",
    "connect": "accord.client",
    "connect_all": "accord.client",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in __all__:
        value = import_module(f"accord.{name}")
    else:
        raise AttributeError(f"module 'accord' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
