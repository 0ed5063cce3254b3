"""How a client says who it is at the token endpoint, and the grant that needs nobody else."""

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias
from urllib.parse import quote_plus

import msgspec

from accord.auth.discovery import ServerMetadata
from accord.transports.http.client.requests import HttpRequest, form_request

__all__ = ["AuthMethod", "ClientIdentity", "choose_method", "token_request"]

AuthMethod: TypeAlias = Literal[
    "client_secret_basic", "client_secret_post", "none", "private_key_jwt"
]
METHODS: Final[tuple[AuthMethod, ...]] = ("client_secret_basic", "client_secret_post", "none")
"""Those that we can be registered for: a key would have to be there before."""

_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class ClientIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A client as one authorization server knows it; `repr` does not show the secret.

    `is_registered` says that we have registered it ourselves, so that we may do so again.
    """

    client_id: str
    client_secret: str | None = None
    method: AuthMethod = "none"
    redirect_uris: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    secret_expires_at: float = 0
    is_registered: bool = False

    def __repr__(self) -> str:
        return f"ClientIdentity(client_id={self.client_id!r}, method={self.method!r})"

    def is_usable(self, now: float) -> bool:
        """Whether its secret, if any, is still good."""
        return not 0 < self.secret_expires_at <= now

    def may_ask(self, scopes: Iterable[str]) -> bool:
        """Whether it was registered for these scopes, or for no scopes in particular."""
        return not self.scopes or set(scopes) <= set(self.scopes)


def choose_method(server: ServerMetadata, *, has_secret: bool) -> AuthMethod:
    """Choose how to authenticate, among what the server supports."""
    if not has_secret:
        return "none"
    supported = server.token_endpoint_auth_methods_supported
    if supported is not None and "client_secret_basic" not in supported:
        return "client_secret_post" if "client_secret_post" in supported else "client_secret_basic"
    return "client_secret_basic"


def token_request(
    url: str, fields: Mapping[str, str], client: ClientIdentity, *, proof: str | None = None
) -> HttpRequest:
    """Make a request to the token endpoint, authenticated as the server wants it.

    Args:
        url: of the endpoint.
        fields: what is asked.
        client: who asks.
        proof: the assertion of a client that has a key in place of a secret.
    """
    secret = client.client_secret
    # The id alone proves nothing and may stand beside Basic; servers exist that look for it there.
    named = {**fields, "client_id": client.client_id}
    if client.method == "client_secret_basic" and secret is not None:
        pair = f"{quote_plus(client.client_id)}:{quote_plus(secret)}"
        basic = b64encode(pair.encode()).decode("ascii")
        return form_request(url, named, {"Authorization": f"Basic {basic}"})
    if client.method == "client_secret_post" and secret is not None:
        named["client_secret"] = secret
    if proof is not None:
        named |= {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": proof}
    return form_request(url, named)
