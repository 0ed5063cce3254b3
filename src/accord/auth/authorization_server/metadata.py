"""The documents that say what an authorization server offers: RFC 8414 and OpenID discovery."""

from typing import Any

from accord.auth.authorization_server.models import (
    AUTHORIZATION_CODE,
    CLIENT_CREDENTIALS,
    DEVICE_CODE,
    REFRESH_TOKEN,
)
from accord.auth.authorization_server.settings import AuthorizationServerSettings

__all__ = ["authorization_server_metadata", "openid_configuration"]

_METHODS = ["none", "client_secret_basic", "client_secret_post"]


def authorization_server_metadata(
    issuer: str, settings: AuthorizationServerSettings
) -> dict[str, Any]:
    """Return the document of RFC 8414."""
    grants = [AUTHORIZATION_CODE, REFRESH_TOKEN, DEVICE_CODE]
    if any(CLIENT_CREDENTIALS in client.grant_types for client in settings.clients.values()):
        grants.append(CLIENT_CREDENTIALS)
    base = issuer.rstrip("/")
    document: dict[str, Any] = {
        "issuer": issuer,
        "authorization_endpoint": f"{base}/authorize",
        "token_endpoint": f"{base}/token",
        "revocation_endpoint": f"{base}/revoke",
        "device_authorization_endpoint": f"{base}/device_authorization",
        "jwks_uri": f"{base}/jwks",
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": grants,
        "token_endpoint_auth_methods_supported": _METHODS,
        "revocation_endpoint_auth_methods_supported": _METHODS,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,  # auth.iss.as-advertises
    }
    if settings.scopes:
        document["scopes_supported"] = list(settings.scopes)
    if settings.registration:
        document["registration_endpoint"] = f"{base}/register"
    return document


def openid_configuration(issuer: str, settings: AuthorizationServerSettings) -> dict[str, Any]:
    """Return the same for clients that look for OpenID discovery; there are no ID tokens."""
    return authorization_server_metadata(issuer, settings) | {
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [settings.algorithm],
    }
