"""The authorization endpoint and the page for devices: requests are checked, users decide.

Until the redirect URI is known to be the client's own, a fault is shown to the user; after that the
browser carries it to the client.
"""

import re
import secrets
from typing import Any, Final

import msgspec

from accord.auth.authorization_server.clients import Clients
from accord.auth.authorization_server.grants import Grants
from accord.auth.authorization_server.login import Logins
from accord.auth.authorization_server.models import (
    AUTHORIZATION_CODE,
    DEVICE_CODE,
    AuthorizationCode,
    AuthorizationServerSettings,
    DeviceRequest,
    Form,
    OAuthRefusal,
    OAuthResponse,
    RegisteredClient,
    Request,
    StoredGrant,
    parse_form,
    redirect,
)
from accord.auth.authorization_server.pages import (
    ConsentQuestion,
    code_page,
    consent_page,
    done_page,
    fault_page,
    leaving_page,
)
from accord.auth.authorization_server.secrets import digest, new_secret
from accord.auth.authorization_server.state.store import AuthorizationStore
from accord.auth.urls import is_loopback_url, is_same_redirect, with_query

_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
# Consonants that are not confused with each other and form no words (RFC 8628, section 6.1).
_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
_LENGTH: Final = 8
_INTERVAL: Final = 5.0
_GUESSES: Final = 10
_WINDOW: Final = 300.0
_DEVICES_MOST: Final = 1_000


class _AskingClient(msgspec.Struct, frozen=True):
    """A client that asks for consent, and the redirect URI that is known to be its own."""

    client: RegisteredClient
    redirect_uri: str
    issuer: str
    state: str | None

    def redirect_url(self, **values: str) -> str:
        """Return the URL that carries the response to the client; it always names the issuer."""
        named = {"state": self.state, "iss": self.issuer}  # auth.iss.as-sends
        return with_query(self.redirect_uri, **values, **named)


class _ConsentRequest(msgspec.Struct, frozen=True):
    """What a client asks the user to consent to; the grant has no subject yet."""

    asking: _AskingClient
    grant: StoredGrant
    challenge: str
    is_silent: bool


class Consent:
    """Asks users what programs may do for them."""

    def __init__(
        self,
        store: AuthorizationStore,
        grants: Grants,
        clients: Clients,
        settings: AuthorizationServerSettings,
        logins: Logins,
    ) -> None:
        self._store = store
        self._grants = grants
        self._clients = clients
        self._settings = settings
        self._logins = logins
        self._guesses = store.attempts("user codes", limit=_GUESSES, window=_WINDOW)

    # -- the authorization endpoint

    def authorize(self, request: Request, now: float) -> OAuthResponse:
        try:
            given = parse_form(request.query)
            if request.refusal is not None:
                raise request.refusal
            asking = self._find_client(given, request.issuer)
            try:
                asked = self._read_request(given, asking, request.resources)
            except OAuthRefusal as refusal:
                return self._send_refusal(asking, refusal)
            form = request.form() if request.method == "POST" else None
        except OAuthRefusal as refusal:
            return _unserved_page(_sentence(refusal))
        user = self._logins.subject(request, now)
        if form is None:
            return self._ask_user(request, asked, user, now)
        if not self._logins.is_ours(request, form):
            return _STALE_PAGE
        if form.get("step") != "consent" or user is None:
            return self._log_in_or_out(request, form, now)
        if form.get("decision") != "allow":
            why = {"error": "access_denied", "error_description": "the user declined"}
            return redirect(asking.redirect_url(**why))
        return self._allow(request, asked, user, now)

    def _find_client(self, given: Form, issuer: str) -> _AskingClient:
        client_id = given.get("client_id")
        if client_id is None:
            raise OAuthRefusal("invalid_request", "the program sent no client_id")
        found = self._clients.find(client_id)
        if found is None:
            raise OAuthRefusal(
                "invalid_client",
                "the program is not registered here; start it again, so that it registers anew",
            )
        asked = given.get("redirect_uri")
        if asked is None:
            if len(found.redirect_uris) != 1:
                raise OAuthRefusal("invalid_request", "the program sent no redirect_uri")
            asked = found.redirect_uris[0]
        elif not any(is_same_redirect(each, asked) for each in found.redirect_uris):
            raise OAuthRefusal(
                "invalid_request", "the redirect_uri of the program is not one that it registered"
            )
        return _AskingClient(found, asked, issuer, given.get("state"))

    def _read_request(
        self, given: Form, asking: _AskingClient, resources: tuple[str, ...]
    ) -> _ConsentRequest:
        _check_response_type(given)
        _check_pkce(given)
        if AUTHORIZATION_CODE not in asking.client.grant_types:
            raise OAuthRefusal("unauthorized_client", "the client is not registered for this grant")
        return _ConsentRequest(
            asking,
            self._grants.new_grant(asking.client, given, resources),
            challenge=given["code_challenge"],
            is_silent="none" in given.get("prompt", "").split(),
        )

    def refuse_sign_in(self, page: Request, refusal: OAuthRefusal) -> OAuthResponse:
        """Send a browser back to the program, or show that the user is not signed in."""
        asking = self._find_asking(page)
        if asking is None:
            return _unserved_page(_sentence(refusal))
        return self._send_refusal(asking, refusal)

    def refusal_url(self, page: Request, refusal: OAuthRefusal) -> str | None:
        """Return the URL that carries a refusal to the program; None for a device."""
        asking = self._find_asking(page)
        if asking is None:
            return None
        return asking.redirect_url(error=refusal.error, error_description=refusal.description)

    def _find_asking(self, page: Request) -> _AskingClient | None:
        """Return the client that asked for a page; None for a device, or if it is not known."""
        if page.path != "/authorize":
            return None
        try:
            return self._find_client(parse_form(page.query), page.issuer)
        except OAuthRefusal:
            return None

    def _send_refusal(self, asking: _AskingClient, refusal: OAuthRefusal) -> OAuthResponse:
        """Send the browser back with an error, before the user has decided anything."""
        location = asking.redirect_url(error=refusal.error, error_description=refusal.description)
        # Any program can register any URI: an open redirector would lead there.
        is_known = asking.client.client_id in self._settings.clients
        if is_known or is_loopback_url(asking.redirect_uri):
            return redirect(location)
        return leaving_page(_sentence(refusal), location)

    def _log_in_or_out(self, request: Request, form: Form, now: float) -> OAuthResponse:
        if form.get("step") == "login" and self._settings.users:
            return self._logins.log_in(request, form, now)
        if form.get("step") == "leave":
            return self._logins.switch(request)
        return redirect(request.url)

    def _ask_user(
        self, request: Request, asked: _ConsentRequest, user: str | None, now: float
    ) -> OAuthResponse:
        """Show the login or the consent page; neither if the decision is already known."""
        redirect_uri = asked.asking.redirect_uri
        if self._settings.auto_approve and user is not None:
            if not is_loopback_url(redirect_uri):
                return _unserved_page(
                    "Without a consent page, programs may only return to this computer."
                )
            return self._allow(request, asked, user, now)
        if user is not None and self._is_remembered(asked.grant, user):
            return self._allow(request, asked, user, now)
        if asked.is_silent:
            error = "login_required" if user is None else "consent_required"
            return self._send_refusal(asked.asking, OAuthRefusal(error, "the user has to be asked"))
        if user is None:
            return self._logins.ask(request)
        return self._ask_for_consent(request, asked.grant, asked.asking.client, user, redirect_uri)

    def _ask_for_consent(
        self,
        request: Request,
        grant: StoredGrant,
        client: RegisteredClient,
        user: str,
        returns_to: str | None = None,
        user_code: str | None = None,
    ) -> OAuthResponse:
        scopes = {scope: self._settings.scopes.get(scope, "") for scope in grant.scopes}
        if self._settings.scopes and not scopes:
            scopes = {"": "use what needs no permission of its own"}
        question = ConsentQuestion(
            name=client.shown_name,
            returns_to=returns_to,
            scopes=scopes,
            server=grant.resource,
            user=self._logins.shown_name(request, user),
            may_leave=self._logins.may_leave,
            user_code=user_code,
            described_at=None if client.fresh_until is None else client.client_id,
        )
        return consent_page(self._logins.form(request), question)

    def _is_remembered(self, grant: StoredGrant, user: str) -> bool:
        if not self._settings.remember_consent:
            return False
        before = self._store.clients.consented_scopes(user, grant.client_id, grant.resource)
        return before is not None and before >= set(grant.scopes)

    def _allow(
        self, request: Request, asked: _ConsentRequest, user: str, now: float
    ) -> OAuthResponse:
        grant = msgspec.structs.replace(asked.grant, subject=user)
        code = AuthorizationCode(
            grant=grant,
            redirect_uri=asked.asking.redirect_uri,
            challenge=asked.challenge,
            expires_at=now + self._settings.code_ttl,
        )
        if self._settings.remember_consent:
            self._store.clients.remember_consent(grant)
        issued = self._grants.issue_code(code, now, login=self._logins.login_hash(request))
        return redirect(asked.asking.redirect_url(code=issued))

    # -- devices

    def add_device(
        self, client: RegisteredClient, form: Form, request: Request, now: float
    ) -> dict[str, Any]:
        """Answer a device without a browser of its own.

        Raises:
            OAuthRefusal: the client may not use this grant, or too many devices wait already.
        """
        if DEVICE_CODE not in client.grant_types:
            raise OAuthRefusal(
                "unauthorized_client", f"the client is not registered for {DEVICE_CODE}"
            )
        if self._store.grants.count_devices() >= _DEVICES_MOST:
            raise OAuthRefusal("temporarily_unavailable", "too many devices wait", status=503)
        device = DeviceRequest(
            grant=self._grants.new_grant(client, form, request.resources),
            user_code=_new_user_code(),
            expires_at=now + self._settings.device_ttl,
            interval=_INTERVAL,
        )
        secret = new_secret()
        while not self._store.grants.add_device(digest(secret), device):
            device = msgspec.structs.replace(device, user_code=_new_user_code())
        place = f"{request.issuer.rstrip('/')}/device"
        shown = _format_user_code(device.user_code)
        return {
            "device_code": secret,
            "user_code": shown,
            "verification_uri": place,
            "verification_uri_complete": f"{place}?user_code={shown}",
            "expires_in": int(self._settings.device_ttl),
            "interval": int(_INTERVAL),
        }

    def device(self, request: Request, now: float) -> OAuthResponse:
        try:
            given = parse_form(request.query)
            form = request.form() if request.method == "POST" else None
        except OAuthRefusal as refusal:
            return _unserved_page(_sentence(refusal))
        user = self._logins.subject(request, now)
        step = None if form is None else form.get("step")
        if form is not None and not self._logins.is_ours(request, form):
            return _STALE_PAGE
        if form is not None and (user is None or step in ("login", "leave")):
            return self._log_in_or_out(request, form, now)
        if user is None:
            return self._logins.ask(request)
        try:
            if form is not None and step == "consent":
                return self._decide_about_device(request, form, user, now)
            return self._ask_about_device(request, form or given, user, now)
        except OAuthRefusal as refusal:
            page = self._logins.form(request)
            return code_page(page, fault=refusal.description, status=refusal.status)

    def _ask_about_device(
        self, request: Request, form: Form, user: str, now: float
    ) -> OAuthResponse:
        if "user_code" in form:
            _, device = self._find_waiting_device(user, form["user_code"], now)
            client = self._clients.find(device.grant.client_id)
            if client is not None:
                shown = _format_user_code(device.user_code)
                return self._ask_for_consent(request, device.grant, client, user, user_code=shown)
        return code_page(self._logins.form(request))

    def _decide_about_device(
        self, request: Request, form: Form, user: str, now: float
    ) -> OAuthResponse:
        is_allowed = form.get("decision") == "allow"
        with self._store.transaction():
            is_stored = False
            while not is_stored:
                hashed, device = self._find_waiting_device(user, form.get("user_code", ""), now)
                decided = msgspec.structs.replace(
                    device,
                    state="allowed" if is_allowed else "denied",
                    grant=msgspec.structs.replace(device.grant, subject=user),
                )
                if is_allowed:
                    # First: the device may ask as soon as the decision is stored.
                    login, ends = self._logins.login_hash(request), device.expires_at
                    self._grants.share_session(decided.grant, login, expires_at=ends)
                # The device may have asked in between, which changes what is stored of it.
                is_stored = self._store.grants.change_device(hashed, device, decided)
        title = "The device is connected" if is_allowed else "The device was refused"
        return done_page(title, ["You can close this page."])

    def _find_waiting_device(
        self, user: str, user_code: str, now: float
    ) -> tuple[str, DeviceRequest]:
        """Return the device that shows a code, and its hash.

        Guesses are counted by user: other users may be behind the same address.

        Raises:
            OAuthRefusal: no device waits with this code; the description is for the user.
        """
        if self._guesses.reserve(user, now) > 0:
            why = "Too many attempts. Try again in some minutes."
            raise OAuthRefusal("slow_down", why, status=429)
        letters = "".join(each for each in user_code.upper() if each in _LETTERS)
        hashed = self._store.grants.find_device_of(letters)
        device = None if hashed is None else self._store.grants.find_device(hashed)
        is_waiting = device is not None and device.state == "pending" and now < device.expires_at
        if hashed is None or device is None or not is_waiting:
            raise OAuthRefusal("invalid_request", "No device waits with this code.")
        self._guesses.release(user, now)
        return hashed, device


_STALE_PAGE: Final = fault_page(
    "This page is too old",
    ["Start again from the program that sent you here.", "Cookies must be allowed for this site."],
    status=403,
)


def _unserved_page(why: str) -> OAuthResponse:
    return fault_page("This request cannot be served", [why])


def _sentence(refusal: OAuthRefusal) -> str:
    return f"{refusal.description[:1].upper()}{refusal.description[1:]}. ({refusal.error})"


def _new_user_code() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


def _format_user_code(letters: str) -> str:
    return f"{letters[:4]}-{letters[4:]}"


def _check_response_type(given: Form) -> None:
    for name in ("request", "request_uri"):
        if name in given:
            raise OAuthRefusal(f"{name}_not_supported", f"{name} is not supported")
    kind = given.get("response_type")
    if kind is None:
        raise OAuthRefusal("invalid_request", "response_type is missing")
    if kind != "code":
        raise OAuthRefusal("unsupported_response_type", "response_type must be code")
    if given.get("response_mode", "query") != "query":
        raise OAuthRefusal("invalid_request", "response_mode must be query")


def _check_pkce(given: Form) -> None:
    challenge = given.get("code_challenge")
    if challenge is None:
        raise OAuthRefusal("invalid_request", "code_challenge is missing: PKCE is required")
    # The default is plain, which shows the verifier to all programs that see the request.
    if given.get("code_challenge_method") != "S256":
        raise OAuthRefusal("invalid_request", "code_challenge_method must be S256")
    if not _CHALLENGE.fullmatch(challenge):
        raise OAuthRefusal("invalid_request", "code_challenge must be 43 characters of base64url")
