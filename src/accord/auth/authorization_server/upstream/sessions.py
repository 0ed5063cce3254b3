"""What is stored of users that signed in with an identity provider. Blocks, like the store.

Tokens and claims are encrypted with keys that are not in the store. A session is used by the login
of a browser and by the grants of programs; when its last use ends, it is deleted.
"""

import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from accord.auth.authorization_server.secrets import digest, new_secret
from accord.auth.authorization_server.store import (
    AuthorizationStore,
    StoredSession,
    StoredSignIn,
    grant_owner,
    login_owner,
)
from accord.auth.authorization_server.upstream.provider import UpstreamTokens
from accord.auth.authorization_server.upstream.settings import Upstream, UpstreamUser

_VERSION: Final = b"\x01"
_KEY_ID: Final = 4
_NONCE: Final = 12
_KEY: Final = 32
SECRET_LEAST: Final = 16
"""The fewest characters of a client secret from which a key is derived."""
KEY_LEAST: Final = 32
"""The fewest characters of a key in the settings."""
_REQUESTS_MOST: Final = 10_000


class SignInRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that has begun: the values that the response is compared with.

    Attributes:
        state: of the request to the provider.
        nonce: that the ID token has to repeat.
        verifier: of PKCE.
        path: of the page that asked for the sign-in.
        query: of that page.
        issuer: the URL of this server as the browser knows it.
    """

    state: str
    nonce: str
    verifier: str
    path: str
    query: str
    issuer: str


class UpstreamSession(msgspec.Struct, frozen=True, kw_only=True):
    """A user that signed in, and their tokens at the provider; `repr` does not show these."""

    user: UpstreamUser
    tokens: UpstreamTokens

    def __repr__(self) -> str:
        return f"UpstreamSession({self.user.subject!r})"


class FoundSession(NamedTuple):
    """A session and its id; the session is None if it cannot be decrypted."""

    id: str
    provider: str
    session: UpstreamSession | None


class TokenSeal:
    """Encrypts records with AES-256-GCM; the first key encrypts, all of them decrypt.

    A record names its key and is bound to its row: it cannot be moved to another one.

    Args:
        secrets: high-entropy texts from which the keys are derived.
        purpose: makes the keys differ from those of others with the same secrets.
    """

    def __init__(self, secrets: Sequence[bytes], purpose: str) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        derived = [_derive(secret, purpose) for secret in secrets]
        self._first = _key_id(derived[0])
        self._keys = {_key_id(each): AESGCM(each) for each in derived}

    def seal(self, data: bytes, row: str) -> bytes:
        nonce = os.urandom(_NONCE)
        head = _VERSION + self._first
        sealed = self._keys[self._first].encrypt(nonce, data, head + row.encode())
        return head + nonce + sealed

    def open(self, sealed: bytes, row: str) -> bytes | None:
        """Return the data; None if it was altered, or its key is not known any more."""
        from cryptography.exceptions import InvalidTag

        head, rest = sealed[: 1 + _KEY_ID], sealed[1 + _KEY_ID :]
        key = self._keys.get(head[1:])
        if key is None or head[:1] != _VERSION:
            return None
        try:
            return key.decrypt(rest[:_NONCE], rest[_NONCE:], head + row.encode())
        except (InvalidTag, ValueError):
            return None


def _derive(secret: bytes, purpose: str) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = b"accord upstream tokens " + purpose.encode()
    return HKDF(SHA256(), _KEY, salt=None, info=info).derive(secret)


def _key_id(key: bytes) -> bytes:
    return sha256(b"accord upstream key id" + key).digest()[:_KEY_ID]


def make_seals(
    upstreams: Sequence[Upstream], keys: Sequence[str], *, is_in_memory: bool
) -> dict[str, TokenSeal]:
    """Return the seals of the providers, by name.

    Raises:
        ValueError: no key is given, and none can be derived.
    """
    for key in keys:
        if len(key) < KEY_LEAST:
            # Part of a secret, so it is not shown.
            raise ValueError(f"upstream_keys has a key of {len(key)} characters, not {KEY_LEAST}")
    made = {}
    for upstream in upstreams:
        secrets = [key.encode() for key in keys]
        own = upstream.client_secret or ""
        if len(own) >= SECRET_LEAST:
            # Also with keys: tokens that were stored before can still be read.
            secrets.append(own.encode())
        if not secrets and is_in_memory:
            secrets = [os.urandom(_KEY)]
        if not secrets:
            raise ValueError(
                f"upstream {upstream.name} has no client_secret of {SECRET_LEAST} or more "
                "characters from which a key could be derived: give upstream_keys=[...] for the "
                "tokens in the store, or store=None"
            )
        made[upstream.name] = TokenSeal(secrets, upstream.name)
    return made


class UpstreamSessions:
    """The sign-ins and sessions of a store.

    Args:
        store: where they are.
        seals: by the names of the providers.
        upstreams: the providers.
    """

    def __init__(
        self,
        store: AuthorizationStore,
        upstreams: Sequence[Upstream],
        seals: Mapping[str, TokenSeal],
    ) -> None:
        self._store = store
        self._upstreams = {each.name: each for each in upstreams}
        self._seals = seals

    # -- sign-ins under way

    def begin(
        self, provider: str, browser: str, request: SignInRequest, *, expires_at: float
    ) -> None:
        """Store a sign-in that a browser begins."""
        hashed = digest(request.state)
        sign_in = StoredSignIn(
            browser=digest(browser),
            provider=provider,
            expires_at=expires_at,
            body=self._seals[provider].seal(msgspec.json.encode(request), hashed),
        )
        self._store.add_sign_in(hashed, sign_in, most=_REQUESTS_MOST)

    def take(self, provider: str, browser: str, state: str, now: float) -> SignInRequest | None:
        """Return a sign-in of this browser with this provider, once; None for any other.

        Only the browser that began it uses it up.
        """
        hashed = digest(state)
        found = self._store.take_sign_in(hashed, digest(browser))
        if found is None or found.provider != provider or found.expires_at <= now:
            return None
        data = self._seals[provider].open(found.body, hashed)
        return None if data is None else msgspec.json.decode(data, type=SignInRequest)

    # -- sessions

    def add(self, session: UpstreamSession, login: str, *, expires_at: float) -> None:
        """Store a session, used by the login with this hash."""
        session_id, provider = new_secret(16), session.user.provider
        stored = StoredSession(session_id, provider, self._seal(provider, session_id, session))
        self._store.add_session(stored, login_owner(login), expires_at=expires_at)

    def _seal(self, provider: str, session_id: str, session: UpstreamSession) -> bytes:
        return self._seals[provider].seal(msgspec.json.encode(session), session_id)

    def share(self, login: str, grant_id: str, *, expires_at: float) -> bool:
        """Let a grant use the session of a login; false if the login has none."""
        owners = login_owner(login), grant_owner(grant_id)
        return self._store.share_session(*owners, expires_at=expires_at)

    def of_login(self, login: str) -> FoundSession | None:
        return self._open(self._store.session_of(login_owner(login)))

    def of_grant(self, grant_id: str) -> FoundSession | None:
        return self._open(self._store.session_of(grant_owner(grant_id)))

    def find(self, session_id: str) -> FoundSession | None:
        return self._open(self._store.session(session_id))

    def _open(self, stored: StoredSession | None) -> FoundSession | None:
        if stored is None:
            return None
        seal = self._seals.get(stored.provider)
        data = None if seal is None else seal.open(stored.body, stored.session_id)
        session = None if data is None else msgspec.json.decode(data, type=UpstreamSession)
        return FoundSession(stored.session_id, stored.provider, session)

    def is_valid_for(self, grant_id: str, subject: str) -> bool:
        """Whether the user of a grant is still signed in, and may still enter."""
        found = self.of_grant(grant_id)
        if found is None or found.session is None:
            return False
        user, upstream = found.session.user, self._upstreams.get(found.provider)
        return upstream is not None and user.subject == subject and upstream.allows_by_rules(user)

    def claim(self, session_id: str, now: float, seconds: float) -> bool:
        """Reserve the renewal of a session for a while; false if another process has it."""
        return self._store.claim_session(session_id, now, seconds)

    def release(self, session_id: str) -> None:
        self._store.release_session(session_id)

    def renew(self, found: FoundSession, session: UpstreamSession) -> None:
        """Store the new tokens of a session, encrypted with the newest key."""
        self._store.renew_session(found.id, self._seal(found.provider, found.id, session))

    def end(self, session_id: str, now: float, *, keep_until: float) -> None:
        """Delete a session, log its browsers out, and revoke its grants."""
        self._store.end_session(session_id, now, keep_until=keep_until)
