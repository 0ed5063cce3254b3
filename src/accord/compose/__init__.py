"""Servers made of others: proxies, OpenAPI documents and folders of plugins, to be mounted."""

from typing import TYPE_CHECKING

# A function and the package that it is in have one name, so that the function is bound at once.
from accord.compose.openapi import openapi
from accord.server.sources.source import Source

if TYPE_CHECKING:
    from accord.compose.openapi.source import OpenApiSource
    from accord.compose.plugins import PluginFolder, folder
    from accord.compose.proxies import ProxyOptions, ProxySource, proxy
    from accord.compose.servers import configuration_server, proxy_server

__all__ = [
    "OpenApiSource",
    "PluginFolder",
    "ProxyOptions",
    "ProxySource",
    "Source",
    "configuration_server",
    "folder",
    "openapi",
    "proxy",
    "proxy_server",
]

_PLACES = {
    "OpenApiSource": "accord.compose.openapi.source",
    "PluginFolder": "accord.compose.plugins",
    "ProxyOptions": "accord.compose.proxies",
    "ProxySource": "accord.compose.proxies",
    "configuration_server": "accord.compose.servers",
    "folder": "accord.compose.plugins",
    "proxy": "accord.compose.proxies",
    "proxy_server": "accord.compose.servers",
}


def __getattr__(name: str) -> object:
    """Import a part when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
