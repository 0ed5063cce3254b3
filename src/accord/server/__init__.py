"""Writing servers: `Server` and the `Context` that its handlers get."""

from accord.bindings.headers import RequestFacts
from accord.server.access import Policy
from accord.server.context import Context
from accord.server.logs import ClientLogHandler
from accord.server.media import Audio, Image
from accord.server.schema.annotations import Choices
from accord.server.server import Lifespan, Middleware, Proceed, Server

__all__ = [
    "Audio",
    "Choices",
    "ClientLogHandler",
    "Context",
    "Image",
    "Lifespan",
    "Middleware",
    "Policy",
    "Proceed",
    "RequestFacts",
    "Server",
]
