"""The authorization endpoint and the page for devices: the user is asked, and decides."""

import secrets
from typing import Any, Final

import msgspec

from accord.auth.authorization_server.authorization_request import (
    ConsentRequest,
    RedirectedRefusal,
    choose_resource,
    choose_scopes,
    is_trusted_redirect,
    read_authorization,
    redirect_location,
)
from accord.auth.authorization_server.clients import Clients
from accord.auth.authorization_server.grants import Grants
from accord.auth.authorization_server.login import Logins
from accord.auth.authorization_server.models import (
    DEVICE_CODE,
    AuthorizationCode,
    AuthorizationServerSettings,
    DeviceRequest,
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
from accord.auth.authorization_server.secrets import Attempts, digest, new_secret
from accord.auth.authorization_server.store import Store
from accord.auth.urls import is_loopback_url

# Consonants that are not confused with each other and form no words (RFC 8628, section 6.1).
_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
_LENGTH: Final = 8
_INTERVAL: Final = 5.0
_GUESSES: Final = 10
_WINDOW: Final = 300.0
_DEVICES_MOST: Final = 1_000


class Consent:
    """Asks users what programs may do for them."""

    def __init__(
        self, store: Store, grants: Grants, clients: Clients, settings: AuthorizationServerSettings
    ) -> None:
        self._store = store
        self._grants = grants
        self._clients = clients
        self._settings = settings
        self._logins = Logins(store, settings)
        self._guesses = Attempts(_GUESSES, _WINDOW)

    # -- the authorization endpoint

    def authorize(self, request: Request, now: float) -> OAuthResponse:
        """Answer a browser at the authorization endpoint."""
        try:
            asked = read_authorization(
                parse_form(request.query),
                client=self._clients.find,
                settings=self._settings,
                resources=request.resources,
                issuer=request.issuer,
            )
            form = request.form() if request.method == "POST" else None
        except OAuthRefusal as refusal:
            return fault_page("This request cannot be served", [_sentence(refusal)])
        except RedirectedRefusal as error:
            if error.is_trusted:
                return redirect(error.location)
            return leaving_page(_sentence(error.refusal), error.location)
        action = f"{request.issuer.rstrip('/')}/authorize?{request.query}"
        user = self._logins.subject(request, now)
        if form is None:
            return self._ask_user(request, asked, user, action, now)
        if not self._logins.is_ours(request, form):
            return _STALE_PAGE
        if form.get("step") == "consent" and user is not None:
            return self._decide(request, asked, user, form.get("decision"), now)
        return self._log_in_or_out(request, form, action, now)

    def _log_in_or_out(
        self, request: Request, form: dict[str, str], action: str, now: float
    ) -> OAuthResponse:
        """Handle a form that logs the user in or out."""
        if form.get("step") == "login" and self._logins.may_leave:
            return self._logins.log_in(request, form, action, now)
        if form.get("step") == "leave":
            self._logins.log_out(request)
        return redirect(action)

    def _ask_user(
        self,
        request: Request,
        asked: ConsentRequest,
        user: str | None,
        action: str,
        now: float,
    ) -> OAuthResponse:
        """Show the login or the consent page; neither if the decision is already known."""
        if self._settings.auto_approve and user is not None:
            if not is_loopback_url(asked.redirect_uri):
                why = "Without a consent page, programs may only return to this computer."
                return fault_page("This request cannot be served", [why])
            return self._allow(request, asked, user, now)
        if user is not None and self._is_remembered(asked, user):
            return self._allow(request, asked, user, now)
        if asked.is_silent:
            error = "login_required" if user is None else "consent_required"
            refusal = OAuthRefusal(error, "the user has to be asked")
            back = self._send_back_error(request, asked, error, refusal.description)
            if is_trusted_redirect(asked.redirect_uri, asked.client, self._settings):
                return back
            return leaving_page(_sentence(refusal), dict(back.headers)["location"])
        if user is None:
            return self._logins.ask(request, action)
        browser = self._logins.browser(request)
        question = ConsentQuestion(
            name=asked.client.shown_name,
            returns_to=asked.redirect_uri,
            scopes=self._describe_scopes(asked.scopes),
            server=asked.resource,
            user=user,
            may_leave=self._logins.may_leave,
        )
        token = self._logins.form_token(browser, request)
        page = consent_page(question, action=action, token=token)
        return self._logins.for_browser(page, browser, request)

    def _describe_scopes(self, scopes: tuple[str, ...]) -> dict[str, str]:
        if self._settings.scopes and not scopes:
            return {"": "use what needs no permission of its own"}
        return {scope: self._settings.scopes.get(scope, "") for scope in scopes}

    def _is_remembered(self, asked: ConsentRequest, user: str) -> bool:
        if not self._settings.remember_consent:
            return False
        before = self._store.consented_scopes(user, asked.client.client_id, asked.resource)
        return before is not None and before >= set(asked.scopes)

    def _decide(
        self,
        request: Request,
        asked: ConsentRequest,
        user: str,
        decision: str | None,
        now: float,
    ) -> OAuthResponse:
        if decision != "allow":
            return self._send_back_error(request, asked, "access_denied", "the user declined")
        return self._allow(request, asked, user, now)

    def _allow(
        self, request: Request, asked: ConsentRequest, user: str, now: float
    ) -> OAuthResponse:
        grant = StoredGrant(
            grant_id=new_secret(16),
            client_id=asked.client.client_id,
            subject=user,
            scopes=asked.scopes,
            resource=asked.resource,
        )
        code = AuthorizationCode(
            grant=grant,
            redirect_uri=asked.redirect_uri,
            challenge=asked.challenge,
            expires_at=now + self._settings.code_ttl,
        )
        if self._settings.remember_consent:
            self._store.remember_consent(grant)
        secret = self._grants.issue_code(code, now)
        return redirect(
            redirect_location(asked.redirect_uri, request.issuer, asked.state, code=secret)
        )

    def _send_back_error(
        self, request: Request, asked: ConsentRequest, error: str, why: str
    ) -> OAuthResponse:
        location = redirect_location(
            asked.redirect_uri,
            request.issuer,
            asked.state,
            error=error,
            error_description=why,
        )
        return redirect(location)

    # -- devices

    def add_device(
        self, client: RegisteredClient, form: dict[str, str], request: Request, now: float
    ) -> dict[str, Any]:
        """Answer a device without a browser of its own.

        Raises:
            OAuthRefusal: the client may not use this grant, or too many devices wait already.
        """
        if DEVICE_CODE not in client.grant_types:
            raise OAuthRefusal(
                "unauthorized_client", f"the client is not registered for {DEVICE_CODE}"
            )
        if self._store.count_devices() >= _DEVICES_MOST:
            raise OAuthRefusal("temporarily_unavailable", "too many devices wait", status=503)
        letters = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        device = DeviceRequest(
            grant=StoredGrant(
                grant_id=new_secret(16),
                client_id=client.client_id,
                subject="",
                scopes=choose_scopes(form.get("scope"), client, self._settings),
                resource=choose_resource(form.get("resource"), request.resources),
            ),
            user_code=letters,
            expires_at=now + self._settings.device_ttl,
            interval=_INTERVAL,
        )
        secret = new_secret()
        self._store.add_device(digest(secret), device)
        place, shown = f"{request.issuer.rstrip('/')}/device", _format_user_code(letters)
        return {
            "device_code": secret,
            "user_code": shown,
            "verification_uri": place,
            "verification_uri_complete": f"{place}?user_code={shown}",
            "expires_in": int(self._settings.device_ttl),
            "interval": int(_INTERVAL),
        }

    def device(self, request: Request, now: float) -> OAuthResponse:
        """Answer a browser at the page for devices."""
        try:
            given = parse_form(request.query)
            form = request.form() if request.method == "POST" else None
        except OAuthRefusal as refusal:
            return fault_page("This request cannot be served", [_sentence(refusal)])
        query = f"?{request.query}" if request.query else ""
        action = f"{request.issuer.rstrip('/')}/device{query}"
        user = self._logins.subject(request, now)
        if form is not None and not self._logins.is_ours(request, form):
            return _STALE_PAGE
        if form is not None and (user is None or form.get("step") in ("login", "leave")):
            return self._log_in_or_out(request, form, action, now)
        if user is None:
            return self._logins.ask(request, action)
        if form is not None and form.get("step") == "consent":
            return self._decide_device(request, form, user, action, now)
        user_code = (form or given).get("user_code")
        return self._ask_about_device(request, user_code, user, action, now)

    def _ask_about_device(
        self, request: Request, user_code: str | None, user: str, action: str, now: float
    ) -> OAuthResponse:
        browser = self._logins.browser(request)
        token = self._logins.form_token(browser, request)
        fault, status = "", 200
        if user_code is not None:
            found, fault, status = self._find_waiting_device(user, user_code, now)
            client = None if found is None else self._clients.find(found[1].grant.client_id)
            if found is not None and client is not None:
                device = found[1]
                question = ConsentQuestion(
                    name=client.shown_name,
                    returns_to=None,
                    scopes=self._describe_scopes(device.grant.scopes),
                    server=device.grant.resource,
                    user=user,
                    may_leave=self._logins.may_leave,
                    user_code=_format_user_code(device.user_code),
                )
                page = consent_page(question, action=action, token=token)
                return self._logins.for_browser(page, browser, request)
        page = code_page(action=action, token=token, fault=fault, status=status)
        return self._logins.for_browser(page, browser, request)

    def _decide_device(
        self, request: Request, form: dict[str, str], user: str, action: str, now: float
    ) -> OAuthResponse:
        with self._store.transaction():
            found, fault, status = self._find_waiting_device(user, form.get("user_code", ""), now)
            if found is None:
                token = self._logins.form_token(self._logins.browser(request), request)
                return code_page(action=action, token=token, fault=fault, status=status)
            hashed, device = found
            is_allowed = form.get("decision") == "allow"
            decided = msgspec.structs.replace(
                device,
                state="allowed" if is_allowed else "denied",
                grant=msgspec.structs.replace(device.grant, subject=user),
            )
            self._store.add_device(hashed, decided)
        if is_allowed:
            return done_page("The device is connected", ["You can close this page."])
        return done_page("The device was refused", ["You can close this page."])

    def _find_waiting_device(
        self, user: str, user_code: str, now: float
    ) -> tuple[tuple[str, DeviceRequest] | None, str, int]:
        """Find the device that shows a code; otherwise return a message and a status.

        Guesses are counted by user: other users may be behind the same address.
        """
        if self._guesses.reserve(user, now) > 0:
            return None, "Too many attempts. Try again in some minutes.", 429
        letters = "".join(each for each in user_code.upper() if each in _LETTERS)
        hashed = self._store.device_hash(letters)
        device = None if hashed is None else self._store.device(hashed)
        if (
            hashed is None
            or device is None
            or device.state != "pending"
            or now >= device.expires_at
        ):
            return None, "No device waits with this code.", 400
        self._guesses.release(user, now)
        return (hashed, device), "", 200


_STALE_PAGE: Final = fault_page(
    "This page is too old",
    ["Start again from the program that sent you here.", "Cookies must be allowed for this site."],
    status=403,
)


def _sentence(refusal: OAuthRefusal) -> str:
    return f"{refusal.description[:1].upper()}{refusal.description[1:]}. ({refusal.error})"


def _format_user_code(letters: str) -> str:
    return f"{letters[:4]}-{letters[4:]}"
