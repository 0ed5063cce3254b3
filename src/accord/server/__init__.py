"""Writing servers: `Server` and the `Context` that its handlers get."""

from accord.bindings.headers import RequestFacts
from accord.server.access import Policy
from accord.server.caching import CacheHints
from accord.server.context import ClientLogHandler, Context
from accord.server.media import Audio, Image
from accord.server.schema.annotations import Choices, Header
from accord.server.server import Lifespan, Middleware, Proceed, Server

__all__ = [
    "Audio",
    "CacheHints",
    "Choices",
    "ClientLogHandler",
    "Context",
    "Header",
    "Image",
    "Lifespan",
    "Middleware",
    "Policy",
    "Proceed",
    "RequestFacts",
    "Server",
]
