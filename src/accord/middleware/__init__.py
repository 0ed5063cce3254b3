"""Middleware for servers: logs, limits, caches, retries and OpenTelemetry around requests.

Each name is a function that returns middleware for `Server(middleware=[...])` or
`server.add_middleware`. Names are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accord.middleware.caching import CacheMiddleware, cache
    from accord.middleware.limiting import rate_limit, time_limit
    from accord.middleware.logs import log_requests
    from accord.middleware.otel import client_trace, trace
    from accord.middleware.retries import retry

__all__ = [
    "CacheMiddleware",
    "cache",
    "client_trace",
    "log_requests",
    "rate_limit",
    "retry",
    "time_limit",
    "trace",
]

_HOMES = {
    "caching": ("CacheMiddleware", "cache"),
    "limiting": ("rate_limit", "time_limit"),
    "logs": ("log_requests",),
    "otel": ("client_trace", "trace"),
    "retries": ("retry",),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
