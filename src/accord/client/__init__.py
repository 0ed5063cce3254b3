"""The client: `connect` to a server, then one method per operation."""

from importlib import import_module
from typing import TYPE_CHECKING

from accord.client.client import Client
from accord.client.connect import Connecting, Target, connect
from accord.client.options import (
    CallOptions,
    ConnectOptions,
    OnElicit,
    OnElicitUrl,
    OnProgress,
    OnSample,
    Roots,
)
from accord.transports.http.client.sender import HttpClientOptions, HttpHeaders

if TYPE_CHECKING:
    from accord.client.changes import (
        Change,
        NoticesLost,
        PromptsChanged,
        ResourcesChanged,
        ResourceUpdated,
        ToolsChanged,
    )
    from accord.client.listening import Listening
    from accord.client.middleware import ClientMiddleware, ClientProceed, ClientRequest

__all__ = [
    "CallOptions",
    "Change",
    "Client",
    "ClientMiddleware",
    "ClientProceed",
    "ClientRequest",
    "ConnectOptions",
    "Connecting",
    "HttpClientOptions",
    "HttpHeaders",
    "Listening",
    "NoticesLost",
    "OnElicit",
    "OnElicitUrl",
    "OnProgress",
    "OnSample",
    "PromptsChanged",
    "ResourceUpdated",
    "ResourcesChanged",
    "Roots",
    "Target",
    "ToolsChanged",
    "connect",
]

_HOMES = {
    "ClientMiddleware": "middleware",
    "ClientProceed": "middleware",
    "ClientRequest": "middleware",
    "Listening": "listening",
}


def __getattr__(name: str) -> object:
    # Loaded when first used: most programs neither listen nor have middleware.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "changes")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
