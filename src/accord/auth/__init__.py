"""Authorization: protecting a server, obtaining a token. Usable with any HTTP library.

Names are loaded when they are first used: a server does not load the client's part, nor a client
the server's.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accord.auth import upstreams
    from accord.auth.authorization import AssertionRequest, IdentityAssertion, WorkloadToken
    from accord.auth.authorization_server import (
        AuthorizationServer,
        KnownClient,
        Upstream,
        UpstreamUser,
        hash_password,
    )
    from accord.auth.client_identity import ClientKey, DpopKey
    from accord.auth.guard import Guard, Protected
    from accord.auth.introspection import IntrospectionVerifier
    from accord.auth.jwt_verifier import JwtVerifier
    from accord.auth.oauth import OAuth
    from accord.auth.tokens import FileStore, MemoryStore, TokenStore
    from accord.auth.verifiers import FirstOf, StaticTokens, TokenVerifier

__all__ = [
    "AssertionRequest",
    "AuthorizationServer",
    "ClientKey",
    "DpopKey",
    "FileStore",
    "FirstOf",
    "Guard",
    "IdentityAssertion",
    "IntrospectionVerifier",
    "JwtVerifier",
    "KnownClient",
    "MemoryStore",
    "OAuth",
    "Protected",
    "StaticTokens",
    "TokenStore",
    "TokenVerifier",
    "Upstream",
    "UpstreamUser",
    "WorkloadToken",
    "hash_password",
    "upstreams",
]

_HOMES = {
    "authorization": ("AssertionRequest", "IdentityAssertion", "WorkloadToken"),
    "authorization_server": (
        "AuthorizationServer",
        "KnownClient",
        "Upstream",
        "UpstreamUser",
        "hash_password",
    ),
    "client_identity": ("ClientKey", "DpopKey"),
    "guard": ("Guard", "Protected"),
    "introspection": ("IntrospectionVerifier",),
    "jwt_verifier": ("JwtVerifier",),
    "oauth": ("OAuth",),
    "tokens": ("FileStore", "MemoryStore", "TokenStore"),
    "verifiers": ("FirstOf", "StaticTokens", "TokenVerifier"),
}


def __getattr__(name: str) -> object:
    if name == "upstreams":
        return import_module(f"{__name__}.upstreams")
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
