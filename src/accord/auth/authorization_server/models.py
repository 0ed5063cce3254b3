"""What the authorization server keeps: clients, grants, codes, device requests; and refusals."""

from typing import Final, Literal, TypeAlias

import msgspec

AUTHORIZATION_CODE: Final = "authorization_code"
CLIENT_CREDENTIALS: Final = "client_credentials"
DEVICE_CODE: Final = "urn:ietf:params:oauth:grant-type:device_code"
REFRESH_TOKEN: Final = "refresh_token"  # noqa: S105  # the name of a grant type

ClientAuthentication: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post"]


class RegisteredClient(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A program that may ask for tokens.

    Attributes:
        client_id: its name towards the server.
        name: what people are shown; nobody has verified it.
        redirect_uris: where people may be sent back to, exactly.
        grant_types: the ways in which it may ask.
        authentication: how it proves at the token endpoint who it is.
        secret_hash: what its secret is compared with.
        scopes: what it may ask for; None for all that the server has.
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
        """What people are shown."""
        return self.name or self.client_id


class StoredGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What a person allowed a client to do, or a client may do by itself: a family of tokens."""

    grant_id: str
    client_id: str
    subject: str
    scopes: tuple[str, ...]
    resource: str


class AuthorizationCode(msgspec.Struct, frozen=True, kw_only=True):
    """What an authorization code stands for."""

    grant: StoredGrant
    redirect_uri: str
    challenge: str
    expires_at: float


class DeviceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A device that waits for a person to allow it something."""

    grant: StoredGrant
    user_code: str
    expires_at: float
    interval: float
    state: Literal["pending", "allowed", "denied"] = "pending"
    polled_at: float = 0.0
