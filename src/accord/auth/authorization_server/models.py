"""The records of the authorization server: clients, grants, codes, device requests."""

from typing import Final, Literal, TypeAlias

import msgspec

AUTHORIZATION_CODE: Final = "authorization_code"
CLIENT_CREDENTIALS: Final = "client_credentials"
DEVICE_CODE: Final = "urn:ietf:params:oauth:grant-type:device_code"
REFRESH_TOKEN: Final = "refresh_token"  # noqa: S105  # the name of a grant type

ClientAuthentication: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post"]


class RegisteredClient(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A client that may ask for tokens.

    Attributes:
        client_id: its id.
        name: the name that users read; not verified.
        redirect_uris: where browsers may be redirected to, exactly.
        grant_types: the grants that it may use.
        authentication: how it authenticates at the token endpoint.
        secret_hash: the digest of its secret; None for a public client.
        scopes: the scopes that it may ask for; None for all.
        created_at: when it was registered.
    """

    client_id: str
    name: str = ""
    redirect_uris: tuple[str, ...] = ()
    grant_types: tuple[str, ...] = (AUTHORIZATION_CODE, REFRESH_TOKEN)
    authentication: ClientAuthentication = "none"
    secret_hash: str | None = None
    scopes: tuple[str, ...] | None = None
    created_at: float = 0.0

    @property
    def shown_name(self) -> str:
        """The name that users read."""
        return self.name or self.client_id


class StoredGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The permission behind a family of tokens, given by a user or the operator."""

    grant_id: str
    client_id: str
    subject: str
    scopes: tuple[str, ...]
    resource: str


class AuthorizationCode(msgspec.Struct, frozen=True, kw_only=True):
    """The grant and the request behind an authorization code."""

    grant: StoredGrant
    redirect_uri: str
    challenge: str
    expires_at: float


class DeviceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A device that waits for the user's consent."""

    grant: StoredGrant
    user_code: str
    expires_at: float
    interval: float
    state: Literal["pending", "allowed", "denied"] = "pending"
    polled_at: float = 0.0
