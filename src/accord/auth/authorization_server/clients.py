"""The programs that are known: those of the settings, and those that registered themselves."""

import logging
from typing import Any, Final

from accord.auth.authorization_server.models import OAuthRefusal, RegisteredClient
from accord.auth.authorization_server.registration import read_registration, registered
from accord.auth.authorization_server.secrets import equal
from accord.auth.authorization_server.settings import AuthorizationServerSettings
from accord.auth.authorization_server.store import Store

__all__ = ["Clients"]

log = logging.getLogger("accord.auth")

# A client that registers asks a person at once; this is long enough for an answer.
_UNUSED: Final = 3_600.0


class Clients:
    """The programs that may ask for tokens."""

    def __init__(self, store: Store, settings: AuthorizationServerSettings) -> None:
        self._store = store
        self._settings = settings

    def find(self, client_id: str) -> RegisteredClient | None:
        """Return a client by its id."""
        return self._settings.clients.get(client_id) or self._store.client(client_id)

    def register(self, body: bytes, authorization: str | None, now: float) -> dict[str, Any]:
        """Register a program that describes itself.

        Raises:
            Refusal: it may not, or not like this.
        """
        self._check_token(authorization)
        client, secret = read_registration(
            body, now=now, known_scopes=frozenset(self._settings.scopes)
        )
        with self._store.transaction():
            self._make_room(now)
            self._store.add_client(client)
        return registered(client, secret)

    def _check_token(self, authorization: str | None) -> None:
        needed = self._settings.registration_token
        if needed is None:
            return
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not equal(token.strip(), needed):
            raise OAuthRefusal(
                "invalid_token", "registering needs the operator's token", status=401
            )

    def sweep(self, now: float) -> None:
        """Forget clients that have had no grant for a long time; they can register again."""
        self._store.forget_idle_clients(now - self._settings.client_ttl)

    def _make_room(self, now: float) -> None:
        most = self._settings.clients_most
        if self._store.count_clients() < most:
            return
        # Those that register and ask nobody go first, but for those that may be asking right now.
        if self._store.forget_idle_client(never_used_before=now - _UNUSED):
            return
        if self._store.forget_idle_client():
            return
        log.warning("no client can register: clients_most=%d, and all of them have grants", most)
        raise OAuthRefusal("temporarily_unavailable", "too many clients are registered", status=503)
