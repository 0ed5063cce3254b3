"""An embedded authorization server: OAuth 2.1 for development, tests and small deployments.

The decisions are functions of a request, the state and the time (`endpoints`); `server` puts them
on the network.
"""

from accord.auth.authorization_server.clients import KnownClient
from accord.auth.authorization_server.models import Request
from accord.auth.authorization_server.secrets import hash_password
from accord.auth.authorization_server.server import AuthorizationServer
from accord.auth.authorization_server.upstream.settings import Upstream, UpstreamUser

__all__ = [
    "AuthorizationServer",
    "KnownClient",
    "Request",
    "Upstream",
    "UpstreamUser",
    "hash_password",
]
