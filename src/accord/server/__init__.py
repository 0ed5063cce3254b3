"""Writing servers: `Server` and the `Context` that its handlers get.

Names are loaded when they are first used: most servers need few of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accord.http.rules.headers import RequestFacts
    from accord.http.server.stream import EventStore, MemoryEventStore
    from accord.http.settings import HttpLimits
    from accord.server.access import Policy
    from accord.server.caching import CacheHints
    from accord.server.context import ClientLogHandler, Context
    from accord.server.depends import Depends
    from accord.server.entries.files import DirectoryResource
    from accord.server.media import Audio, Image
    from accord.server.middleware import Middleware, Proceed
    from accord.server.questions.input_requests import SamplingOptions
    from accord.server.questions.url_elicitation import UrlElicitation
    from accord.server.schema.annotations import Choices, Header
    from accord.server.server import Lifespan, Server

__all__ = [
    "Audio",
    "CacheHints",
    "Choices",
    "ClientLogHandler",
    "Context",
    "Depends",
    "DirectoryResource",
    "EventStore",
    "Header",
    "HttpLimits",
    "Image",
    "Lifespan",
    "MemoryEventStore",
    "Middleware",
    "Policy",
    "Proceed",
    "RequestFacts",
    "SamplingOptions",
    "Server",
    "UrlElicitation",
]

_HOMES = {
    "Audio": "accord.server.media",
    "CacheHints": "accord.server.caching",
    "Choices": "accord.server.schema.annotations",
    "ClientLogHandler": "accord.server.context",
    "Context": "accord.server.context",
    "Depends": "accord.server.depends",
    "DirectoryResource": "accord.server.entries.files",
    "EventStore": "accord.http.server.stream",
    "Header": "accord.server.schema.annotations",
    "HttpLimits": "accord.http.settings",
    "Image": "accord.server.media",
    "Lifespan": "accord.server.server",
    "MemoryEventStore": "accord.http.server.stream",
    "Middleware": "accord.server.middleware",
    "Policy": "accord.server.access",
    "Proceed": "accord.server.middleware",
    "RequestFacts": "accord.http.rules.headers",
    "SamplingOptions": "accord.server.questions.input_requests",
    "Server": "accord.server.server",
    "UrlElicitation": "accord.server.questions.url_elicitation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'accord.server' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
