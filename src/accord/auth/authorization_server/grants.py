"""The token endpoint: codes, refresh tokens, credentials and device codes in, tokens out.

Every function runs within one transaction of the store, if it has transactions; the clock is passed
in.
"""

import re
from typing import Any, Final

import msgspec

from accord.auth.authorization_server.access_tokens import SigningKeys
from accord.auth.authorization_server.models import (
    AUTHORIZATION_CODE,
    CLIENT_CREDENTIALS,
    DEVICE_CODE,
    REFRESH_TOKEN,
    AuthorizationCode,
    AuthorizationServerSettings,
    DeviceRequest,
    Form,
    OAuthRefusal,
    RegisteredClient,
    Request,
    StoredGrant,
)
from accord.auth.authorization_server.secrets import digest, equal, new_secret
from accord.auth.authorization_server.state.store import AuthorizationStore
from accord.auth.authorization_server.upstream.sessions import UpstreamSessions
from accord.auth.client_identity import challenge_of
from accord.auth.urls import is_same_resource

_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
# By how much a client that polls too fast has to slow down (RFC 8628, section 3.5).
_SLOWER: Final = 5.0


class Grants:
    """Issues and revokes tokens for the grants of users and of the operator."""

    def __init__(
        self,
        store: AuthorizationStore,
        keys: SigningKeys,
        settings: AuthorizationServerSettings,
        sessions: UpstreamSessions,
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._keys = keys
        self._settings = settings

    def new_grant(
        self, client: RegisteredClient, form: Form, resources: tuple[str, ...], *, subject: str = ""
    ) -> StoredGrant:
        """Return the grant that a client asks for, not stored yet.

        Raises:
            OAuthRefusal: its scopes or its resource cannot be granted.
        """
        return StoredGrant(
            grant_id=new_secret(16),
            client_id=client.client_id,
            subject=subject,
            scopes=self._choose_scopes(form.get("scope"), client),
            resource=_choose_resource(form.get("resource"), resources),
        )

    def _choose_scopes(self, asked: str | None, client: RegisteredClient) -> tuple[str, ...]:
        """Return those of the requested scopes that may be granted."""
        allowed = self._allowed_scopes(client)
        wanted = _split_scopes(asked)
        if not wanted:
            return tuple(each for each in self._settings.default_scopes if each in allowed)
        found = tuple(each for each in wanted if each in allowed)
        if not found and self._settings.scopes:
            raise OAuthRefusal(
                "invalid_scope", f"none of these scopes was requested: {' '.join(allowed)}"
            )
        return found

    def _allowed_scopes(self, client: RegisteredClient) -> tuple[str, ...]:
        may = client.scopes
        return tuple(each for each in self._settings.scopes if may is None or each in may)

    def issue_code(self, code: AuthorizationCode, now: float, *, login: str | None) -> str:
        """Issue a code for a grant of the user of a login, given by its hash."""
        secret = new_secret()
        with self._store.transaction():
            kept_until = now + self._settings.code_ttl + self._settings.access_ttl
            self._store.grants.add(code.grant, now=now, expires_at=kept_until)
            self.share_session(code.grant, login, expires_at=kept_until)
            self._store.grants.add_code(digest(secret), code)
        return secret

    def share_session(self, grant: StoredGrant, login: str | None, *, expires_at: float) -> None:
        """Let a grant use the upstream session of the login that allowed it."""
        if self._settings.upstreams and login is not None:
            self._sessions.share(login, grant.grant_id, expires_at=expires_at)

    def tokens(
        self, client: RegisteredClient, form: Form, request: Request, now: float
    ) -> dict[str, Any]:
        """Answer a token request.

        Raises:
            OAuthRefusal: no token is issued.
        """
        kind = _require_field(form, "grant_type")
        known = (AUTHORIZATION_CODE, REFRESH_TOKEN, CLIENT_CREDENTIALS, DEVICE_CODE)
        if kind not in known:
            raise OAuthRefusal(
                "unsupported_grant_type", f"grant_type {kind[:100]!r} is not supported"
            )
        if kind not in client.grant_types:
            raise OAuthRefusal("unauthorized_client", f"the client is not registered for {kind}")
        with self._store.transaction():
            scopes: tuple[str, ...] | None = None
            if kind == AUTHORIZATION_CODE:
                grant = self._grant_by_code(client, form, now)
            elif kind == REFRESH_TOKEN:
                grant = self._grant_by_refresh(client, form, now)
                scopes = _narrow_scopes(form.get("scope"), grant)
            elif kind == DEVICE_CODE:
                grant = self._grant_by_device(client, form, now)
            else:
                grant = self._grant_by_credentials(client, form, request.resources, now)
            if kind != CLIENT_CREDENTIALS and not self._may_enter(grant):
                self._revoke(grant.grant_id, now)
                raise _invalid_grant("its user may not log in here any more")
            _check_resource(form, grant)
            answer = self._answer(client, grant, scopes, issuer=request.issuer, now=now)
            if kind == REFRESH_TOKEN:
                self._retire_refresh_token(form["refresh_token"], grant, now)
            return answer

    def _may_enter(self, grant: StoredGrant) -> bool:
        """Whether the user of a grant may still log in."""
        if not self._settings.knows(grant.subject):
            return False
        if not self._settings.upstreams:
            return True
        return self._sessions.is_valid_for(grant.grant_id, grant.subject)

    def revoke(self, client: RegisteredClient, form: Form, now: float) -> None:
        """Revoke the grant of a token, if the token is known.

        Raises:
            OAuthRefusal: the form has no token.
        """
        token = _require_field(form, "token")
        with self._store.transaction():
            found = self._store.grants.find_refresh_token(digest(token))
            grant_id = self._grant_in(token, now) if found is None else found.grant_id
            grant = None if grant_id is None else self._store.grants.find(grant_id)
            # A token of another client counts as unknown (RFC 7009, section 2.1).
            if grant is not None and grant.client_id == client.client_id:
                self._revoke(grant.grant_id, now)

    def _grant_in(self, token: str, now: float) -> str | None:
        """Return the grant that an access token of ours names; it may have expired."""
        claims = self._keys.read(token, now) or {}
        grant = claims.get("grant")
        return grant if isinstance(grant, str) else None

    # -- the ways to a grant

    def _grant_by_code(self, client: RegisteredClient, form: Form, now: float) -> StoredGrant:
        hashed = digest(_require_field(form, "code"))
        code = self._store.grants.find_code(hashed)
        if code is None:
            raise _invalid_grant("the code is not known")
        if not self._store.grants.use_code(hashed, now):
            # It was stolen, now or before.
            self._revoke(code.grant.grant_id, now)
            raise _invalid_grant("the code was used before; its tokens are revoked")
        if code.grant.client_id != client.client_id:
            raise _invalid_grant("the code was given to another client")
        if now >= code.expires_at:
            raise _invalid_grant("the code has expired")
        if form.get("redirect_uri", code.redirect_uri) != code.redirect_uri:
            raise _invalid_grant("redirect_uri differs from the authorization request")
        verifier = _require_field(form, "code_verifier")
        if not _VERIFIER.fullmatch(verifier) or not equal(challenge_of(verifier), code.challenge):
            raise _invalid_grant("code_verifier does not match the challenge")
        return self._valid_grant(code.grant.grant_id)

    def _grant_by_refresh(self, client: RegisteredClient, form: Form, now: float) -> StoredGrant:
        hashed = digest(_require_field(form, "refresh_token"))
        found = self._store.grants.find_refresh_token(hashed)
        if found is None:
            raise _invalid_grant("the refresh token is not known")
        grant = self._valid_grant(found.grant_id)
        if grant.client_id != client.client_id:
            raise _invalid_grant("the refresh token was given to another client")
        if now >= found.expires_at:
            raise _invalid_grant("the refresh token has expired")
        self._check_reuse(grant, found.used_at, now)
        _check_resource(form, grant)
        _narrow_scopes(form.get("scope"), grant)
        return grant

    def _retire_refresh_token(self, token: str, grant: StoredGrant, now: float) -> None:
        """Mark a refresh token as used, after its successor was stored.

        If this process or its store fails before that, the client can use the token again.
        """
        # auth.tokens.refresh-rotated
        self._check_reuse(grant, self._store.grants.use_refresh_token(digest(token), now), now)

    def _check_reuse(self, grant: StoredGrant, used_at: float | None, now: float) -> None:
        """Revoke the grant of a refresh token that was used before, and refuse it."""
        if used_at is None:
            return
        # The other request may have begun later, and been faster.
        if max(now - used_at, 0.0) >= self._settings.reuse_tolerance:
            # One of the two programs that used it is a thief.
            self._revoke(grant.grant_id, now)
            raise _invalid_grant("the refresh token was used before; its grant is revoked")

    def _grant_by_device(self, client: RegisteredClient, form: Form, now: float) -> StoredGrant:
        hashed = digest(_require_field(form, "device_code"))
        device = self._find_decided_device(client, hashed, now)
        # Only one request gets the tokens.
        if not self._store.grants.remove_device(hashed):
            raise _invalid_grant("the device code was used before")
        if device.state == "denied":
            raise OAuthRefusal("access_denied", "the user declined")
        self._store.grants.add(device.grant, now=now, expires_at=now + self._settings.access_ttl)
        return device.grant

    def _find_decided_device(
        self, client: RegisteredClient, hashed: str, now: float
    ) -> DeviceRequest:
        while True:
            device = self._store.grants.find_device(hashed)
            if device is None or device.grant.client_id != client.client_id:
                raise _invalid_grant("the device code is not known")
            if now >= device.expires_at:
                raise OAuthRefusal("expired_token", "the user did not allow it in time")
            if device.state != "pending":
                return device
            is_early = now - device.polled_at < device.interval
            interval = device.interval + (_SLOWER if is_early else 0.0)
            polled = msgspec.structs.replace(device, polled_at=now, interval=interval)
            if not self._store.grants.change_device(hashed, device, polled):
                continue  # the user decided in between, or the device asked twice at once
            if is_early:
                raise OAuthRefusal("slow_down", f"poll every {interval:g} seconds")
            raise OAuthRefusal("authorization_pending", "the user has not answered yet")

    def _grant_by_credentials(
        self, client: RegisteredClient, form: Form, resources: tuple[str, ...], now: float
    ) -> StoredGrant:
        if client.secret_hash is None:
            raise OAuthRefusal(
                "unauthorized_client", "client_credentials needs a client with a secret"
            )
        grant = self.new_grant(client, form, resources, subject=client.client_id)
        self._store.grants.add(grant, now=now, expires_at=now + self._settings.access_ttl)
        return grant

    def _revoke(self, grant_id: str, now: float) -> None:
        # Its last token may have been issued just now; it is refused until it expires.
        self._store.grants.revoke(grant_id, now, keep_until=now + self._settings.access_ttl)

    def _valid_grant(self, grant_id: str) -> StoredGrant:
        grant = self._store.grants.find(grant_id)
        if grant is None:
            raise _invalid_grant("the grant has been revoked")
        return grant

    # -- tokens

    def _answer(
        self,
        client: RegisteredClient,
        grant: StoredGrant,
        scopes: tuple[str, ...] | None,
        *,
        issuer: str,
        now: float,
    ) -> dict[str, Any]:
        settings = self._settings
        # The operator may have removed scopes since they were granted.
        allowed = self._allowed_scopes(client)
        granted = [each for each in scopes or grant.scopes if each in allowed]
        scope = {"scope": " ".join(granted)} if granted else {}
        claims: dict[str, Any] = {
            "iss": issuer,
            "sub": grant.subject,
            "aud": grant.resource,
            "client_id": grant.client_id,
            "iat": int(now),
            "exp": int(now + settings.access_ttl),
            "jti": new_secret(12),
            "grant": grant.grant_id,
            **scope,
        }
        answer: dict[str, Any] = {
            "access_token": self._keys.sign(claims, now),
            "token_type": "Bearer",
            "expires_in": int(settings.access_ttl),  # auth.token.short-lived
            **scope,
        }
        kept_until = now + settings.access_ttl
        # A client with credentials of its own needs no refresh token.
        if REFRESH_TOKEN in client.grant_types and grant.subject != client.client_id:
            secret = new_secret()
            kept_until = now + settings.refresh_ttl
            self._store.grants.add_refresh_token(digest(secret), grant.grant_id, kept_until)
            answer["refresh_token"] = secret
        ends = kept_until + settings.access_ttl
        if not self._store.grants.extend(grant, now=now, expires_at=ends):
            raise _invalid_grant("the grant has been revoked")
        return answer


def _require_field(form: Form, name: str) -> str:
    value = form.get(name)
    if value is None:
        raise OAuthRefusal("invalid_request", f"{name} is missing")
    return value


def _invalid_grant(why: str) -> OAuthRefusal:
    return OAuthRefusal("invalid_grant", why)


def _check_resource(form: Form, grant: StoredGrant) -> None:
    asked = form.get("resource")
    if asked is not None and not is_same_resource(asked, grant.resource):
        raise OAuthRefusal("invalid_target", f"the grant is for {grant.resource} alone")


def _choose_resource(asked: str | None, resources: tuple[str, ...]) -> str:
    """Return the resource that a token will be for; it need not be named if there is only one."""
    if asked is None:
        if len(resources) == 1:
            return resources[0]
        raise OAuthRefusal("invalid_target", "resource must say what the token is for")
    for known in resources:
        if is_same_resource(known, asked):
            return known
    raise OAuthRefusal("invalid_target", f"resource {asked[:200]!r} is not known here")


def _split_scopes(asked: str | None) -> list[str]:
    # This one asks for a refresh token; it does not permit anything by itself.
    return [each for each in dict.fromkeys((asked or "").split()) if each != "offline_access"]


def _narrow_scopes(asked: str | None, grant: StoredGrant) -> tuple[str, ...]:
    """Return the scopes of a new token: those granted, or fewer if the client asks for fewer."""
    wanted = _split_scopes(asked)
    if not wanted:
        return grant.scopes
    more = [each for each in wanted if each not in grant.scopes]
    if more:
        raise OAuthRefusal("invalid_scope", f"{more[0][:100]} was not granted; ask the user again")
    return tuple(wanted)
