"""Writing servers: `Server` and the `Context` that its handlers get."""

from typing import TYPE_CHECKING, Any

from accord.bindings.headers import RequestFacts
from accord.server.access import Policy
from accord.server.caching import CacheHints
from accord.server.context import Context
from accord.server.depends import Depends
from accord.server.logs import ClientLogHandler
from accord.server.media import Audio, Image
from accord.server.middleware import Middleware, Proceed
from accord.server.schema.annotations import Choices, Header
from accord.server.server import Lifespan, Server

if TYPE_CHECKING:
    from accord.server.questions import SamplingOptions
    from accord.server.url_elicitation import UrlElicitation

__all__ = [
    "Audio",
    "CacheHints",
    "Choices",
    "ClientLogHandler",
    "Context",
    "Depends",
    "Header",
    "Image",
    "Lifespan",
    "Middleware",
    "Policy",
    "Proceed",
    "RequestFacts",
    "SamplingOptions",
    "Server",
    "UrlElicitation",
]


def __getattr__(name: str) -> Any:
    # Loaded when they are first used: most servers ask nothing.
    if name == "SamplingOptions":
        from accord.server.questions import SamplingOptions

        return SamplingOptions
    if name == "UrlElicitation":
        from accord.server.url_elicitation import UrlElicitation

        return UrlElicitation
    raise AttributeError(f"module 'accord.server' has no attribute {name!r}")
