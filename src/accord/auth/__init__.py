"""Authorization: protecting a server, obtaining a token. Usable with any HTTP library.

Names are loaded when they are first used: a server does not load the client's part, nor a client
the server's.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accord.auth.authorization_server import AuthorizationServer, KnownClient, hash_password
    from accord.auth.client_identity import ClientKey
    from accord.auth.guard import Guard, Protected
    from accord.auth.introspection import IntrospectionVerifier
    from accord.auth.jwt_verifier import JwtVerifier
    from accord.auth.oauth import OAuth
    from accord.auth.tokens import FileStore, MemoryStore, TokenStore
    from accord.auth.verifiers import FirstOf, StaticTokens, TokenVerifier

__all__ = [
    "AuthorizationServer",
    "ClientKey",
    "FileStore",
    "FirstOf",
    "Guard",
    "IntrospectionVerifier",
    "JwtVerifier",
    "KnownClient",
    "MemoryStore",
    "OAuth",
    "Protected",
    "StaticTokens",
    "TokenStore",
    "TokenVerifier",
    "hash_password",
]

_HOMES = {
    "AuthorizationServer": "accord.auth.authorization_server",
    "ClientKey": "accord.auth.client_identity",
    "FileStore": "accord.auth.tokens",
    "FirstOf": "accord.auth.verifiers",
    "Guard": "accord.auth.guard",
    "IntrospectionVerifier": "accord.auth.introspection",
    "JwtVerifier": "accord.auth.jwt_verifier",
    "KnownClient": "accord.auth.authorization_server",
    "MemoryStore": "accord.auth.tokens",
    "OAuth": "accord.auth.oauth",
    "Protected": "accord.auth.guard",
    "StaticTokens": "accord.auth.verifiers",
    "TokenStore": "accord.auth.tokens",
    "TokenVerifier": "accord.auth.verifiers",
    "hash_password": "accord.auth.authorization_server",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'accord.auth' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
