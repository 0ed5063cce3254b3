"""Proxies: another server, in its own revision, as a source to mount."""

from accord.compose.proxies.options import ProxyOptions
from accord.compose.proxies.source import ProxySource, proxy

__all__ = ["ProxyOptions", "ProxySource", "proxy"]
