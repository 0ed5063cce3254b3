"""Registration of the client: given ids, metadata documents, RFC 7591."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from accord.auth.client_identity import METHODS, AuthMethod, ClientIdentity, choose_method
from accord.auth.discovery import ServerMetadata
from accord.bindings.addresses import is_loopback
from accord.errors import FlowFailed
from accord.transports.http.client.guarded import Flow, HttpRequest, NoResponse

STEP: Final = "registration"


class ClientDescription(msgspec.Struct, frozen=True, kw_only=True):
    """How the client describes itself.

    Attributes:
        name: the name that the user reads on the consent page.
        client_id: given by the authorization server in advance.
        client_secret: given by the authorization server in advance.
        method: how a client with a given id authenticates; None for the server's default.
        metadata_url: the URL of the client's metadata document, which is then its id.
        uri: its home page.
    """

    name: str = "accord"
    client_id: str | None = None
    client_secret: str | None = None
    method: AuthMethod | None = None
    metadata_url: str | None = None
    uri: str | None = None

    def __repr__(self) -> str:
        return f"ClientDescription(name={self.name!r}, client_id={self.client_id!r})"


def preregistered_client(
    server: ServerMetadata, description: ClientDescription
) -> ClientIdentity | None:
    """Return the client if it need not register, otherwise None."""
    if description.client_id is not None:
        supported = choose_method(server, has_secret=description.client_secret is not None)
        return ClientIdentity(
            client_id=description.client_id,
            client_secret=description.client_secret,
            method=description.method or supported,
        )
    if description.metadata_url is not None and server.client_id_metadata_document_supported:
        return ClientIdentity(
            client_id=description.metadata_url, method=description.method or "none"
        )
    return None


def register(
    server: ServerMetadata,
    description: ClientDescription,
    *,
    redirect_uris: Sequence[str],
    grants: Sequence[str] = ("authorization_code", "refresh_token"),
    scopes: Sequence[str] = (),
) -> Flow[ClientIdentity]:
    """Register the client.

    Raises:
        FlowFailed: the server does not offer registration, or refuses it.
    """
    endpoint = server.registration_endpoint
    if endpoint is None:
        raise FlowFailed(
            STEP,
            asked=server.url or server.issuer,
            came="metadata without a registration_endpoint",
            hint=_manual_hint(redirect_uris),
        )
    for uri in redirect_uris:
        check_redirect_uri(uri)
    request = HttpRequest(
        method="POST",
        url=endpoint,
        headers={"Content-Type": "application/json", "Accept": "application/json"},
        body=msgspec.json.encode(
            _client_metadata(server, description, redirect_uris, grants, scopes)
        ),
    )
    try:
        response = yield request
    except NoResponse as error:
        raise FlowFailed(STEP, asked=request.summary, came=error.reason, hint=error.hint) from None
    said = response.object()
    if not response.is_ok or said is None or not isinstance(said.get("client_id"), str):
        hint = _manual_hint(redirect_uris)
        if server.is_assumed:
            # No metadata was found at all.
            hint = (
                "the server names no authorization server, so its operator may have to give you a "
                'token: pass auth="..."'
            )
        raise FlowFailed(STEP, asked=request.summary, came=response.summary, hint=hint)
    return _read_registration(said, redirect_uris, scopes)


def _manual_hint(redirect_uris: Sequence[str]) -> str:
    hint = "register the client by hand and pass OAuth(client_id=...)"
    if not redirect_uris:
        return hint
    uri = redirect_uris[0]
    return f"{hint}, with redirect URI {uri}, and OAuth(redirect_port={urlsplit(uri).port})"


def _client_metadata(
    server: ServerMetadata,
    description: ClientDescription,
    redirect_uris: Sequence[str],
    grants: Sequence[str],
    scopes: Sequence[str],
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "client_name": description.name,
        "redirect_uris": list(redirect_uris),
        "grant_types": _supported_grants(grants, server.grant_types_supported),
        "token_endpoint_auth_method": _preferred_method(server),
        "application_type": "native",
    }
    if "authorization_code" in grants:
        document["response_types"] = ["code"]
    if description.uri is not None:
        document["client_uri"] = description.uri
    if scopes:
        document["scope"] = " ".join(scopes)
    return document


def _supported_grants(wanted: Sequence[str], offered: Sequence[str] | None) -> list[str]:
    """Return the grants that the server supports, and always the first."""
    if offered is None:
        return list(wanted)
    return [each for each in wanted if each in offered or each == wanted[0]]


def _preferred_method(server: ServerMetadata) -> AuthMethod:
    """Return the method to register for: "none" if possible, for lack of a safe secret."""
    offered = server.token_endpoint_auth_methods_supported
    if offered is None:
        # RFC 8414: metadata that leaves it out means basic; without metadata nothing is known.
        return "none" if server.is_assumed else "client_secret_basic"
    for method in ("none", "client_secret_basic", "client_secret_post"):
        if method in offered:
            return method
    return "none"


def _read_registration(
    said: Mapping[str, Any], redirect_uris: Sequence[str], scopes: Sequence[str]
) -> ClientIdentity:
    secret = said.get("client_secret")
    secret = secret if isinstance(secret, str) and secret else None
    named = said.get("token_endpoint_auth_method")
    method: AuthMethod = next((each for each in METHODS if each == named), "client_secret_basic")
    expires = said.get("client_secret_expires_at")
    return ClientIdentity(
        client_id=said["client_id"],
        client_secret=secret,
        method=method if secret else "none",
        redirect_uris=tuple(redirect_uris),
        scopes=tuple(scopes),
        secret_expires_at=float(expires) if isinstance(expires, int | float) else 0,
        is_registered=True,
    )


def check_redirect_uri(uri: str) -> None:
    """Make sure that a code can only be returned over TLS or on this machine.

    Raises:
        ValueError: the URI is neither https nor on loopback.
    """
    parts = urlsplit(uri)
    is_local = parts.scheme == "http" and is_loopback(parts.hostname or "")
    is_secure = parts.scheme == "https" and bool(parts.hostname)
    if not (is_local or is_secure) or parts.fragment:  # auth.redirect.localhost-or-https
        raise ValueError(f"the redirect URI {uri[:200]!r} is neither https nor on this machine")
