"""What is stored of users that signed in with an identity provider, and their fresh tokens.

Tokens and claims are encrypted with keys that are not in the store. A session is used by the login
of a browser and by the grants of programs; when its last use ends, it is deleted.
`UpstreamSessions` blocks, like the store; `UpstreamAccounts` renews tokens on the loop.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from accord.auth.authorization_server.models import StoredSession, StoredSignIn
from accord.auth.authorization_server.secrets import digest, new_secret
from accord.auth.authorization_server.state.sign_ins import grant_owner, login_owner
from accord.auth.authorization_server.state.store import AuthorizationStore
from accord.auth.authorization_server.upstream.provider import (
    UpstreamFault,
    UpstreamProvider,
    UpstreamTokens,
)
from accord.auth.authorization_server.upstream.settings import Upstream, UpstreamUser
from accord.errors import SignInRequired, StoreError, StoreUnavailable, UpstreamFailed

if TYPE_CHECKING:
    from accord.auth.authorization_server.endpoints import Endpoints


log = logging.getLogger("accord.auth")

_VERSION: Final = b"\x01"
_KEY_ID: Final = 4
_NONCE: Final = 12
_KEY: Final = 32
SECRET_LEAST: Final = 16
"""The fewest characters of a client secret from which a key is derived."""
KEY_LEAST: Final = 32
"""The fewest characters of a key in the settings."""
_REQUESTS_MOST: Final = 10_000

# Longer than a request to a provider may take: a process that died in between blocks no longer.
_LEASE: Final = 30.0
_POLL: Final = 0.1
# Seconds between attempts to store renewed tokens; together shorter than the lease.
_PAUSES: Final = (0.1, 0.5, 2.0, 5.0)


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
        self._store.sign_ins.begin(hashed, sign_in, most=_REQUESTS_MOST)

    def take(self, provider: str, browser: str, state: str, now: float) -> SignInRequest | None:
        """Return a sign-in of this browser with this provider, once; None for any other.

        Only the browser that began it uses it up.
        """
        hashed = digest(state)
        found = self._store.sign_ins.take(hashed, digest(browser))
        if found is None or found.provider != provider or found.expires_at <= now:
            return None
        data = self._seals[provider].open(found.body, hashed)
        return None if data is None else msgspec.json.decode(data, type=SignInRequest)

    # -- sessions

    def add(self, session: UpstreamSession, login: str, *, expires_at: float) -> None:
        """Store a session, used by the login with this hash."""
        session_id, provider = new_secret(16), session.user.provider
        stored = StoredSession(session_id, provider, self._seal(provider, session_id, session))
        self._store.sign_ins.add(stored, login_owner(login), expires_at=expires_at)

    def _seal(self, provider: str, session_id: str, session: UpstreamSession) -> bytes:
        return self._seals[provider].seal(msgspec.json.encode(session), session_id)

    def share(self, login: str, grant_id: str, *, expires_at: float) -> bool:
        """Let a grant use the session of a login; false if the login has none."""
        owners = login_owner(login), grant_owner(grant_id)
        return self._store.sign_ins.share(*owners, expires_at=expires_at)

    def of_login(self, login: str) -> FoundSession | None:
        return self._open(self._store.sign_ins.find_of(login_owner(login)))

    def of_grant(self, grant_id: str) -> FoundSession | None:
        return self._open(self._store.sign_ins.find_of(grant_owner(grant_id)))

    def find(self, session_id: str) -> FoundSession | None:
        return self._open(self._store.sign_ins.find(session_id))

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
        return self._store.sign_ins.claim(session_id, now, seconds)

    def release(self, session_id: str) -> None:
        self._store.sign_ins.release(session_id)

    def renew(self, found: FoundSession, session: UpstreamSession) -> None:
        """Store the new tokens of a session, encrypted with the newest key."""
        self._store.sign_ins.renew(found.id, self._seal(found.provider, found.id, session))

    def end(self, session_id: str, now: float, *, keep_until: float) -> None:
        """Delete a session, log its browsers out, and revoke its grants."""
        self._store.grants.end_session(session_id, now, keep_until=keep_until)


# -- fresh tokens, for tools that call the provider's APIs


class UpstreamAccount:
    """The account of a user at their identity provider: what `ctx.principal.upstream` is.

    Attributes:
        provider: the name of the provider.
        claims: what the provider said of the user when they signed in.
    """

    def __init__(
        self, accounts: "UpstreamAccounts", grant_id: str, provider: str, claims: Mapping[str, Any]
    ) -> None:
        self._accounts = accounts
        self._grant_id = grant_id
        self.provider = provider
        self.claims = claims

    def __repr__(self) -> str:
        return f"<UpstreamAccount at {self.provider!r}>"

    async def token(self, *, refused: str | None = None) -> str:
        """Return an access token for the API of the provider, renewed if it is about to expire.

        Args:
            refused: a token that the API refused although it has not expired: another one is
                obtained.

        Raises:
            SignInRequired: the provider gives no token any more; the next request of the program
                is answered with 401, so that it asks the user to sign in.
            UpstreamFailed: the provider gives none at the moment.
        """
        return await self._accounts.token(self._grant_id, self.provider, refused)


class UpstreamAccounts:
    """Hands out the tokens of all sessions, and renews each once for all that wait.

    Args:
        endpoints: opens the store when it is first called.
        providers: by name.
        revoked: is called when a grant was revoked here.
    """

    def __init__(
        self,
        endpoints: "Callable[[], Endpoints]",
        providers: Mapping[str, UpstreamProvider],
        revoked: Callable[[], None],
    ) -> None:
        self._endpoints = endpoints
        self._providers = providers
        self._revoked = revoked
        self._renewing: dict[
            tuple[asyncio.AbstractEventLoop, str], asyncio.Task[UpstreamSession]
        ] = {}

    def account(self, grant_id: str) -> UpstreamAccount | None:
        """Return the account behind a grant; None if its session has ended. Blocks."""
        found = self._sessions.of_grant(grant_id)
        if found is None or found.session is None:
            return None
        return UpstreamAccount(self, grant_id, found.provider, found.session.user.claims)

    @property
    def _sessions(self) -> UpstreamSessions:
        return self._endpoints().sessions

    async def token(self, grant_id: str, provider: str, refused: str | None) -> str:
        """Return an access token that is not about to expire."""
        try:
            found = await asyncio.to_thread(lambda: self._sessions.of_grant(grant_id))
            if found is None or found.session is None or provider not in self._providers:
                raise self._sign_in_again(provider)
            if not _is_due(found.session, refused):
                return found.session.tokens.access_token
            return (await self._renew(found, refused)).tokens.access_token
        except StoreError as error:
            log.warning("the sign-in of a user cannot be read: %s", error)
            why = "the sign-in of the user cannot be read at the moment; try again later"
            raise UpstreamFailed(why, provider=provider) from None

    async def _renew(self, found: FoundSession, refused: str | None) -> UpstreamSession:
        """Wait for a renewal, begun here or by another caller."""
        loop = asyncio.get_running_loop()
        here = (loop, found.id)
        task = self._renewing.get(here)
        if task is None:
            task = loop.create_task(self._renew_once(found, refused), name="accord-upstream")
            self._renewing[here] = task
            task.add_done_callback(lambda done: self._end_renewal(here, done))
        # It is finished in any case: a new refresh token would be lost otherwise.
        return await asyncio.shield(task)

    def _end_renewal(
        self,
        here: tuple[asyncio.AbstractEventLoop, str],
        task: "asyncio.Task[UpstreamSession]",
    ) -> None:
        self._renewing.pop(here, None)
        if not task.cancelled():
            task.exception()  # read: it is raised for the callers that wait

    async def _renew_once(self, found: FoundSession, refused: str | None) -> UpstreamSession:
        is_claimed = await self._wait_for_claim(found.id)
        try:
            current = await asyncio.to_thread(lambda: self._sessions.find(found.id))
            if current is None or current.session is None:
                raise self._sign_in_again(found.provider)
            session = current.session
            if _is_due(session, refused):
                session = await self._refresh(current, session)
                await self._keep(current, session)
                is_claimed = False
        finally:
            if is_claimed:
                with suppress(StoreError):  # it ends by itself
                    await asyncio.to_thread(lambda: self._sessions.release(found.id))
        return session

    async def _wait_for_claim(self, session_id: str) -> bool:
        """Reserve the renewal; false if that takes too long."""
        ends = time.monotonic() + _LEASE
        while not await asyncio.to_thread(lambda: self._claim(session_id)):
            # Another process renews it; two requests with one refresh token look like a theft.
            await asyncio.sleep(_POLL)
            if time.monotonic() > ends:
                return False
        return True

    def _claim(self, session_id: str) -> bool:
        """Reserve the renewal; also true if the session has ended, which is found afterwards."""
        endpoints = self._endpoints()
        sessions, now = endpoints.sessions, endpoints.store.now()
        return sessions.claim(session_id, now, _LEASE) or sessions.find(session_id) is None

    async def _keep(self, found: FoundSession, session: UpstreamSession) -> None:
        """Store renewed tokens, also if the store is away for a moment: they would be lost."""
        for pause in _PAUSES:
            try:
                await asyncio.to_thread(lambda: self._sessions.renew(found, session))
            except StoreUnavailable:
                await asyncio.sleep(pause)
            else:
                return
        await asyncio.to_thread(lambda: self._sessions.renew(found, session))

    async def _refresh(self, found: FoundSession, session: UpstreamSession) -> UpstreamSession:
        provider = self._providers[found.provider]
        if session.tokens.refresh_token is None:
            log.info("identity provider %s gave no refresh token: sign-in ends", found.provider)
            await self._end(found)
            raise self._sign_in_again(found.provider)
        try:
            tokens = await provider.refresh(session.tokens, session.user.id)
        except UpstreamFault as fault:
            log.warning("%s", fault)
            if fault.is_final:
                await self._end(found)
                raise self._sign_in_again(found.provider) from None
            title = provider.upstream.title
            raise UpstreamFailed(
                f"{title} gives no token at the moment; try again later", provider=found.provider
            ) from None
        return msgspec.structs.replace(
            session, tokens=msgspec.structs.replace(tokens, id_token=None)
        )

    async def _end(self, found: FoundSession) -> None:
        await asyncio.to_thread(lambda: self._endpoints().end_session(found.id))
        self._revoked()

    def _sign_in_again(self, name: str) -> SignInRequired:
        provider = self._providers.get(name)
        title = name if provider is None else provider.upstream.title
        return SignInRequired(
            f"the sign-in with {title} has ended: sign in again; this program is asked to do so "
            "with its next request",
            provider=name,
        )


def _is_due(session: UpstreamSession, refused: str | None) -> bool:
    tokens = session.tokens
    return tokens.access_token == refused or tokens.is_due(time.time())
