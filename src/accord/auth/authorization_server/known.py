"""Programs that the operator has set up, and that need not register."""

import msgspec

from accord.auth.authorization_server.models import (
    AUTHORIZATION_CODE,
    CLIENT_CREDENTIALS,
    REFRESH_TOKEN,
    RegisteredClient,
)
from accord.auth.authorization_server.secrets import digest
from accord.auth.urls import redirect_fault

__all__ = ["KnownClient"]


class KnownClient(msgspec.Struct, frozen=True, kw_only=True):
    """A program that need not register.

    Attributes:
        client_id: what it calls itself.
        secret: what it proves that with; None for programs that can keep none.
        name: what people are shown.
        redirect_uris: where people may be sent back to; without any it acts for itself, with
            client credentials.
        scopes: what it may ask for; None for everything.
        grant_types: the ways in which it may ask, if not those that fit the rest.
    """

    client_id: str
    secret: str | None = None
    name: str = ""
    redirect_uris: tuple[str, ...] = ()
    scopes: tuple[str, ...] | None = None
    grant_types: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for uri in self.redirect_uris:
            fault = redirect_fault(uri)
            if fault is not None:
                raise ValueError(f"redirect URI {uri!r} of {self.client_id!r} {fault}")
        if self.secret == "":
            raise ValueError(f"client {self.client_id!r} has an empty secret; None for no secret")
        if CLIENT_CREDENTIALS in self._grants and self.secret is None:
            raise ValueError(f"client {self.client_id!r} has neither a secret nor redirect URIs")

    @property
    def _grants(self) -> tuple[str, ...]:
        if self.grant_types is not None:
            return self.grant_types
        if self.redirect_uris:
            return (AUTHORIZATION_CODE, REFRESH_TOKEN)
        return (CLIENT_CREDENTIALS,)

    @property
    def client(self) -> RegisteredClient:
        """The client as the server keeps it: the secret hashed."""
        return RegisteredClient(
            client_id=self.client_id,
            name=self.name,
            redirect_uris=self.redirect_uris,
            grant_types=self._grants,
            authentication="none" if self.secret is None else "client_secret_basic",
            secret_hash=None if self.secret is None else digest(self.secret),
            scopes=self.scopes,
        )

    def __repr__(self) -> str:
        return f"<KnownClient {self.client_id!r}>"
