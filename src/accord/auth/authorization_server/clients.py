"""The programs that are known: those of the settings, and those that registered themselves."""

from typing import Any, Final

from accord.auth.authorization_server.records import Client, Refusal
from accord.auth.authorization_server.registration import read_registration, registered
from accord.auth.authorization_server.secrets import equal
from accord.auth.authorization_server.settings import Settings
from accord.auth.authorization_server.store import Store

__all__ = ["Clients"]

# Whoever registers asks a person at once. Long enough for that, and short enough that a flood of
# registrations keeps nobody else out for long.
_UNUSED: Final = 3_600.0


class Clients:
    """The programs that may ask for tokens."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    def find(self, client_id: str) -> Client | None:
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
            raise Refusal("invalid_token", "registering needs the operator's token", status=401)

    def _make_room(self, now: float) -> None:
        if self._store.count_clients() < self._settings.clients_most:
            return
        self._store.forget_unused_clients(now - _UNUSED)
        if self._store.count_clients() >= self._settings.clients_most:
            raise Refusal("temporarily_unavailable", "too many clients are registered", status=503)
