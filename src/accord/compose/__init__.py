"""Servers made of others: proxies, OpenAPI documents and folders of plugins, to be mounted."""

from typing import TYPE_CHECKING

from accord.server.composition.source import Source

if TYPE_CHECKING:
    from accord.compose.plugins import PluginFolder, folder

__all__ = ["PluginFolder", "Source", "folder"]

_PLACES = {"PluginFolder": "accord.compose.plugins", "folder": "accord.compose.plugins"}


def __getattr__(name: str) -> object:
    """Import a part when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
