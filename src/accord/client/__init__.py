"""The client: `connect` to a server, then one method per operation."""

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

__all__ = [
    "CallOptions",
    "Client",
    "ConnectOptions",
    "Connecting",
    "HttpClientOptions",
    "HttpHeaders",
    "OnElicit",
    "OnElicitUrl",
    "OnProgress",
    "OnSample",
    "Roots",
    "Target",
    "connect",
]
