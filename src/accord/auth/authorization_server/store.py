"""The state of an authorization server: the operations that its endpoints need.

They block, and are used off the event loop. Each is atomic by itself. In a store without
transactions, operations of one `transaction` are carried out one after the other, and the process
may end between any two: callers write what nothing refers to yet first, and last what makes the
rest count.

Codes, refresh tokens, secrets and logins are stored as hashes.
"""

from contextlib import AbstractContextManager
from typing import Final, Protocol

import msgspec

from accord.auth.authorization_server.models import (
    AuthorizationCode,
    DeviceRequest,
    RegisteredClient,
    StoredGrant,
)
from accord.auth.authorization_server.secrets import AttemptCounter

REPLAY_NOTICED: Final = 3600.0
"""Seconds that used codes are kept longer, to tell a replay from an unknown code."""


class StoredKey(msgspec.Struct, frozen=True):
    """A signing key as it is stored."""

    key_id: str
    algorithm: str
    pem: bytes
    created_at: float
    retired_at: float | None = None


class StoredRefreshToken(msgspec.Struct, frozen=True):
    """The grant of a refresh token, when it expires, and when it was used."""

    grant_id: str
    expires_at: float
    used_at: float | None = None


class StoredSignIn(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in with an identity provider that has begun.

    Attributes:
        browser: the hash of the cookie of the browser that began it.
        provider: the name of the provider.
        expires_at: when it is too late to finish it.
        body: the rest, encrypted.
    """

    browser: str
    provider: str
    expires_at: float
    body: bytes


class StoredSession(msgspec.Struct, frozen=True):
    """A sign-in with an identity provider that was finished; the body is encrypted."""

    session_id: str
    provider: str
    body: bytes


class AuthorizationStore(Protocol):
    """The state of an authorization server."""

    def close(self) -> None:
        """Let go of the store. What it keeps stays, unless that is in memory."""

    def leave_to_parent(self) -> None:
        """Never close it in this process: it belongs to the process that this one comes from."""

    def now(self) -> float:
        """Return the time, in seconds since 1970; all processes that share a store agree on it."""

    def transaction(self) -> AbstractContextManager[None]:
        """Run a block as one exclusive transaction, if the store has transactions.

        A refusal commits, other errors roll back.
        """

    def attempts(self, name: str, *, limit: int, window: float) -> AttemptCounter:
        """Return a counter of attempts that all processes share."""

    # -- clients

    def client(self, client_id: str) -> RegisteredClient | None: ...

    def add_client(self, client: RegisteredClient) -> None: ...

    def update_client(self, client: RegisteredClient) -> bool:
        """Replace what is stored of a client; false if nothing is. When it was used is kept."""

    def count_clients(self) -> int: ...

    def forget_idle_clients(self, before: float) -> None:
        """Forget the clients without a grant that were last used before a time."""

    def forget_idle_client(self, *, never_used_before: float | None = None) -> bool:
        """Forget the client without a grant for longest; false if all clients have one.

        Args:
            never_used_before: only clients that never had a grant and registered before this.
        """

    # -- grants, codes and refresh tokens

    def add_grant(self, grant: StoredGrant, *, now: float, expires_at: float) -> None:
        """Store a grant, and note that its client was used."""

    def grant(self, grant_id: str) -> StoredGrant | None:
        """Return a grant that is not revoked."""

    def extend_grant(self, grant: StoredGrant, *, now: float, expires_at: float) -> bool:
        """Keep a grant at least until a time, and note that it was used; false if it is revoked."""

    def revoke(self, grant_id: str, now: float, *, keep_until: float) -> None:
        """Revoke a grant and its tokens; it is forgotten once they have expired."""

    def revoked_grants(self) -> frozenset[str]:
        """Return the ids of revoked grants with tokens that have not expired yet."""

    def add_code(self, hashed: str, code: AuthorizationCode) -> None: ...

    def code(self, hashed: str) -> AuthorizationCode | None:
        """Return the record of a code, used or not."""

    def use_code(self, hashed: str, now: float) -> bool:
        """Mark a code as used; false if it was used before."""

    def add_refresh_token(self, hashed: str, grant_id: str, expires_at: float) -> None: ...

    def refresh_token(self, hashed: str) -> StoredRefreshToken | None:
        """Return what is stored of a refresh token, used or not."""

    def use_refresh_token(self, hashed: str, now: float) -> float | None:
        """Mark a refresh token as used; return when that was done before, None for the first use.

        A token that is not stored any more counts as used long ago.
        """

    # -- devices

    def add_device(self, hashed: str, device: DeviceRequest) -> bool:
        """Store the request of a device; false if another one shows the same user code."""

    def change_device(self, hashed: str, before: DeviceRequest, after: DeviceRequest) -> bool:
        """Store the new state of a device; false if its state is another than the caller knows."""

    def device(self, hashed: str) -> DeviceRequest | None: ...

    def device_hash(self, user_code: str) -> str | None:
        """Return the hashed code of the device that shows a user code."""

    def remove_device(self, hashed: str) -> bool:
        """Delete the request of a device; false if it is gone already."""

    def count_devices(self) -> int: ...

    # -- users

    def add_login(self, hashed: str, subject: str, expires_at: float) -> None:
        """Store the user of a browser."""

    def login(self, hashed: str, now: float) -> str | None:
        """Return the user of a browser; None if the login has expired."""

    def remove_login(self, hashed: str) -> None: ...

    def remember_consent(self, grant: StoredGrant) -> None:
        """Store the consent of a user, for the next time."""

    def consented_scopes(
        self, subject: str, client_id: str, resource: str
    ) -> frozenset[str] | None:
        """Return the scopes that a user allowed before; None for no consent."""

    # -- users that sign in with an identity provider

    def add_sign_in(self, hashed: str, sign_in: StoredSignIn, *, most: int) -> None:
        """Store a sign-in that begins; if there are too many, some others are forgotten."""

    def take_sign_in(self, hashed: str, browser: str) -> StoredSignIn | None:
        """Return a sign-in of this browser once; None for any other, which stays."""

    def add_session(self, session: StoredSession, owner: str, *, expires_at: float) -> None:
        """Store a session that an owner uses, until a time at least.

        A session that has no use any more is deleted.
        """

    def share_session(self, owner: str, other: str, *, expires_at: float) -> bool:
        """Let another owner use the session of an owner; false if there is no such session."""

    def session(self, session_id: str) -> StoredSession | None: ...

    def session_of(self, owner: str) -> StoredSession | None:
        """Return the session that an owner uses."""

    def claim_session(self, session_id: str, now: float, seconds: float) -> bool:
        """Reserve the renewal of a session for a while; false if another process has it."""

    def release_session(self, session_id: str) -> None:
        """End the reservation of a session."""

    def renew_session(self, session_id: str, body: bytes) -> None:
        """Store the new body of a session, and end its reservation."""

    def end_session(self, session_id: str, now: float, *, keep_until: float) -> None:
        """Delete a session, log its browsers out, and revoke its grants."""

    # -- keys and secrets

    def signing_keys(self) -> list[StoredKey]:
        """Return all keys, the newest first."""

    def add_key(self, key: StoredKey, *, replaces: str | None) -> bool:
        """Store a key and retire the earlier keys of its algorithm.

        Args:
            key: the new one.
            replaces: the id of the newest key of this algorithm that is not retired; None if it has
                no key yet. If it is another one, nothing is stored and the result is false.
        """

    def secret(self, name: str, fresh: str) -> str:
        """Return a secret of the server; `fresh` becomes that secret if it is new."""

    # -- cleaning up

    def sweep(self, now: float, *, keys_before: float) -> None:
        """Delete expired records, and keys that were retired before a time."""


def login_owner(hashed: str) -> str:
    """Return the name under which a login uses an upstream session."""
    return f"login {hashed}"


def grant_owner(grant_id: str) -> str:
    """Return the name under which a grant uses an upstream session."""
    return f"grant {grant_id}"


def parse_owner(owner: str) -> tuple[bool, str]:
    """Return whether an owner is a login, and the hash of the login or the id of the grant."""
    kind, _, name = owner.partition(" ")
    return kind == "login", name
