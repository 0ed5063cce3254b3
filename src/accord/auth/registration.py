"""Becoming known to an authorization server: given ids, metadata documents, RFC 7591."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from accord.auth.credentials import METHODS, AuthMethod, ClientIdentity, choose_method
from accord.auth.discovery import ServerMetadata
from accord.bindings.addresses import is_loopback
from accord.errors import FlowFailed
from accord.transports.http.client.requests import Flow, HttpRequest, NoResponse

__all__ = ["ClientDescription", "check_redirect_uri", "given_client", "register"]

STEP: Final = "registration"


class ClientDescription(msgspec.Struct, frozen=True, kw_only=True):
    """How the client introduces itself.

    Attributes:
        name: what a person reads on the consent page.
        client_id: given by the authorization server in advance.
        client_secret: the same.
        method: how a client that was given in advance proves who it is; None for what the server
            supports.
        metadata_url: where the client publishes its metadata, which is then its id.
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


def given_client(server: ServerMetadata, description: ClientDescription) -> ClientIdentity | None:
    """Return the client where no registration is needed, else None."""
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
        FlowFailed: the server registers nobody, or not us.
    """
    endpoint = server.registration_endpoint
    if endpoint is None:
        raise FlowFailed(
            STEP,
            asked=server.url or server.issuer,
            came="metadata without a registration_endpoint",
            hint=_by_hand(redirect_uris),
        )
    for uri in redirect_uris:
        check_redirect_uri(uri)
    request = HttpRequest(
        method="POST",
        url=endpoint,
        headers={"Content-Type": "application/json", "Accept": "application/json"},
        body=msgspec.json.encode(_document(server, description, redirect_uris, grants, scopes)),
    )
    try:
        response = yield request
    except NoResponse as error:
        raise FlowFailed(STEP, asked=request.shown, came=error.reason, hint=error.hint) from None
    said = response.object()
    if not response.is_ok or said is None or not isinstance(said.get("client_id"), str):
        hint = _by_hand(redirect_uris)
        if server.is_assumed:
            # All that was found is a server that wants a token.
            hint = (
                "the server names no authorization server, so its operator may have to give you a "
                'token: pass auth="..."'
            )
        raise FlowFailed(STEP, asked=request.shown, came=response.shown, hint=hint)
    return _registered(said, redirect_uris, scopes)


def _by_hand(redirect_uris: Sequence[str]) -> str:
    told = "register the client by hand and pass OAuth(client_id=...)"
    if not redirect_uris:
        return told
    uri = redirect_uris[0]
    return f"{told}, with redirect URI {uri}, and OAuth(redirect_port={urlsplit(uri).port})"


def _document(
    server: ServerMetadata,
    description: ClientDescription,
    redirect_uris: Sequence[str],
    grants: Sequence[str],
    scopes: Sequence[str],
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "client_name": description.name,
        "redirect_uris": list(redirect_uris),
        "grant_types": _supported(grants, server.grant_types_supported),
        "token_endpoint_auth_method": _wished_method(server),
        "application_type": "native",
    }
    if "authorization_code" in grants:
        document["response_types"] = ["code"]
    if description.uri is not None:
        document["client_uri"] = description.uri
    if scopes:
        document["scope"] = " ".join(scopes)
    return document


def _supported(wanted: Sequence[str], offered: Sequence[str] | None) -> list[str]:
    """Ask for no grant that the server says it does not know, but always for the first."""
    if offered is None:
        return list(wanted)
    return [each for each in wanted if each in offered or each == wanted[0]]


def _wished_method(server: ServerMetadata) -> AuthMethod:
    """A client on somebody's machine keeps no secrets, so none is the honest wish."""
    offered = server.token_endpoint_auth_methods_supported
    if offered is None:
        # RFC 8414: metadata that leaves it out means basic; without metadata nothing is known.
        return "none" if server.is_assumed else "client_secret_basic"
    for method in ("none", "client_secret_basic", "client_secret_post"):
        if method in offered:
            return method
    return "none"


def _registered(
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
    """Make sure that a code can only come back over TLS or on this machine.

    Raises:
        ValueError: it could not.
    """
    parts = urlsplit(uri)
    is_local = parts.scheme == "http" and is_loopback(parts.hostname or "")
    is_secure = parts.scheme == "https" and bool(parts.hostname)
    if not (is_local or is_secure) or parts.fragment:  # auth.redirect.localhost-or-https
        raise ValueError(f"the redirect URI {uri[:200]!r} is neither https nor on this machine")
