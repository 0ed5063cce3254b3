"""Servers made of others: proxies, OpenAPI documents and folders of plugins, to be mounted."""

from typing import TYPE_CHECKING

# A function and the package that it is in have one name, so that the function is bound at once.
from accord.compose.openapi import openapi
from accord.server.composition.source import Source

if TYPE_CHECKING:
    from accord.compose.openapi.source import OpenApiSource
    from accord.compose.proxies import ProxySource, proxy

__all__ = ["OpenApiSource", "ProxySource", "Source", "openapi", "proxy"]

_PLACES = {
    "OpenApiSource": "accord.compose.openapi.source",
    "ProxySource": "accord.compose.proxies",
    "proxy": "accord.compose.proxies",
}


def __getattr__(name: str) -> object:
    """Import a part when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
