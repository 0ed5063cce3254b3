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
from accord.http.client.sender import HttpClientOptions, HttpHeaders

if TYPE_CHECKING:
    from accord.client.client_group import ClientGroup, connect_all
    from accord.client.configuration import read_configuration, read_entry
    from accord.client.middleware import ClientMiddleware, ClientProceed, ClientRequest
    from accord.client.server_spec import ServerSpec
    from accord.client.subscriptions import (
        Change,
        Listening,
        NoticesLost,
        PromptsChanged,
        ResourcesChanged,
        ResourceUpdated,
        ToolsChanged,
    )

__all__ = [
    "CallOptions",
    "Change",
    "Client",
    "ClientGroup",
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
    "ServerSpec",
    "Target",
    "ToolsChanged",
    "connect",
    "connect_all",
    "read_configuration",
    "read_entry",
]

_HOMES = {
    "ClientGroup": "client_group",
    "ClientMiddleware": "middleware",
    "ClientProceed": "middleware",
    "ClientRequest": "middleware",
    "ServerSpec": "server_spec",
    "connect_all": "client_group",
    "read_configuration": "configuration",
    "read_entry": "configuration",
}


def __getattr__(name: str) -> object:
    if name == "ServerEntry":
        from warnings import warn

        said = f"{__name__}.{name} will go in 0.4; write: from {__name__} import ServerSpec"
        warn(said, DeprecationWarning, stacklevel=2)
        name = "ServerSpec"
    # Loaded when first used: most programs have one server and no middleware.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "subscriptions")
    value: object = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
