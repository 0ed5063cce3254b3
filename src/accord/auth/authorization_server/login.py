"""Logins of users in browsers, and the proof that a form came from a page of this server."""

import hmac
import logging
import re
from functools import cached_property
from hashlib import sha256
from typing import Final

from accord.auth.authorization_server.models import (
    AuthorizationServerSettings,
    Form,
    OAuthRefusal,
    OAuthResponse,
    Request,
    redirect,
)
from accord.auth.authorization_server.pages import (
    PageForm,
    choose_provider_page,
    fault_page,
    login_page,
)
from accord.auth.authorization_server.secrets import (
    digest,
    equal,
    hash_like,
    is_password,
    new_secret,
)
from accord.auth.authorization_server.state.records import AttemptCounter
from accord.auth.authorization_server.state.store import AuthorizationStore
from accord.auth.authorization_server.upstream.sessions import UpstreamSession, UpstreamSessions
from accord.auth.authorization_server.upstream.settings import start_url
from accord.auth.urls import with_query
from accord.http.rules.addresses import client_network

log = logging.getLogger("accord.auth")

_BROWSER: Final = re.compile(r"[A-Za-z0-9_-]{43}")
# A user mistypes a few times; a program tries thousands. Strangers cannot lock a user out: the
# first limit is for one name at one address, the second for one address; the third, for a name from
# any address, frees an attempt every few seconds; and a browser in which the user has logged in
# before has a limit of its own in place of all these.
_WINDOW: Final = 300.0
_BY_USER: Final = 10
_BY_ADDRESS: Final = 20
_BY_NAME: Final = 20
_NAME_WINDOW: Final = 60.0
_TRUSTED_TTL: Final = 90 * 86_400
_TRUSTED_BROWSER: Final = "known browser"
_TRUSTED: Final = re.compile(r"([0-9]{1,12})\.([A-Za-z0-9_-]{22})\.([0-9a-f]{64})")


BUSY_PAGE: Final = fault_page(
    "Too many people log in",
    ["This server checks as many passwords as it can. Go back and try again in a few seconds."],
    status=503,
).with_headers(("retry-after", "5"))


def is_login(request: Request, settings: AuthorizationServerSettings) -> bool:
    """Whether a request has a password to check, which takes a fifth of a second of a core."""
    if request.method != "POST" or request.path not in ("/authorize", "/device"):
        return False
    try:
        return bool(settings.users) and request.form().get("step") == "login"
    except OAuthRefusal:
        return False


class Logins:
    """Logs users in and out, and finds the user of a request."""

    def __init__(
        self,
        store: AuthorizationStore,
        settings: AuthorizationServerSettings,
        sessions: UpstreamSessions | None = None,
    ) -> None:
        self._store = store
        self._sessions = sessions or UpstreamSessions(store, (), {})
        self._settings = settings
        self._key = b""
        self.read_key()
        self._has_warned = False
        self._by_user = store.attempts("logins by user", limit=_BY_USER, window=_WINDOW)
        self._by_address = store.attempts("logins by address", limit=_BY_ADDRESS, window=_WINDOW)
        self._by_name = store.attempts("logins by name", limit=_BY_NAME, window=_NAME_WINDOW)

    def read_key(self) -> None:
        """Read the key of forms; it is a new one if the store has lost its content."""
        self._key = self._store.secret("forms", new_secret()).encode()

    @cached_property
    def _unknown_user_hash(self) -> str:
        """The hash that is compared for unknown users, so that timing does not reveal them."""
        return hash_like(next(iter(self._settings.users.values())), new_secret())

    def subject(self, request: Request, now: float) -> str | None:
        """Return the user of a request; None if they are not logged in."""
        settings = self._settings
        if settings.single_user is not None:
            return settings.single_user
        if settings.is_external:
            return request.subject
        cookie = request.cookie(cookie_name(request))
        found = None if cookie is None else self._store.grants.find_login(digest(cookie), now)
        if found is None or not settings.knows(found):
            return None
        if settings.upstreams and not self._has_session(found, digest(cookie or "")):
            return None
        return found

    def _has_session(self, subject: str, login: str) -> bool:
        """Whether a login has a session whose tokens can still be read."""
        found = self._sessions.of_login(login)
        return (
            found is not None
            and found.session is not None
            and found.session.user.subject == subject
        )

    @property
    def may_leave(self) -> bool:
        """Whether users log in here, and so can switch to another user."""
        return self._settings.single_user is None and not self._settings.is_external

    # -- forms

    def form(self, request: Request) -> PageForm:
        """Return the form of a page; only this browser can send it, and only for this request."""
        cookie = request.cookie(cookie_name(request))
        browser = cookie if cookie and _BROWSER.fullmatch(cookie) else new_secret()
        token = self._mac(browser, request.path, request.query)
        return PageForm(request.url, token, _browser_cookie(request, browser))

    def _mac(self, *parts: str) -> str:
        return hmac.new(self._key, "\n".join(parts).encode(), sha256).hexdigest()

    def is_ours(self, request: Request, form: Form) -> bool:
        """Whether a form came from a page of this server, in this browser, for this request."""
        cookie = request.cookie(cookie_name(request))
        if cookie is None:
            return False
        return equal(form.get("csrf", ""), self._mac(cookie, request.path, request.query))

    # -- logging in and out

    def ask(self, request: Request) -> OAuthResponse:
        upstreams = self._settings.upstreams
        if len(upstreams) == 1:
            return redirect(start_url(request, upstreams[0].name))
        if upstreams:
            return self._choose_provider(request)
        if not self._settings.is_external:
            return login_page(self.form(request), server=request.issuer)
        if self._settings.login_url is None:
            why = "This server does not know you yet. Log in first, then start again."
            return fault_page("You are not logged in", [why], status=401)
        # Always a URL of this server: no open redirect.
        return redirect(with_query(self._settings.login_url, next=request.url))

    def _choose_provider(self, request: Request, *, may_switch: bool = False) -> OAuthResponse:
        links = {
            each.title: start_url(request, each.name, may_switch=may_switch)
            for each in self._settings.upstreams
        }
        return choose_provider_page(links, server=request.issuer)

    def switch(self, request: Request) -> OAuthResponse:
        """Log out, and let the user log in as another one."""
        self.log_out(request)
        if self._settings.upstreams:
            # A page, not a redirect: the provider would choose the same account again.
            return self._choose_provider(request, may_switch=True)
        return redirect(request.url)

    def login_hash(self, request: Request) -> str | None:
        """Return the hash of the login of a browser, under which its session is stored."""
        cookie = request.cookie(cookie_name(request))
        return None if cookie is None else digest(cookie)

    def shown_name(self, request: Request, user: str) -> str:
        """Return the name of a logged-in user, for pages."""
        login = self.login_hash(request) if self._settings.upstreams else None
        found = None if login is None else self._sessions.of_login(login)
        if found is None or found.session is None or found.session.user.subject != user:
            return user
        title = next(
            (each.title for each in self._settings.upstreams if each.name == found.provider),
            found.provider,
        )
        return f"{found.session.user.shown_name}, signed in with {title}"

    def sign_in(
        self, request: Request, url: str, session: UpstreamSession, now: float
    ) -> OAuthResponse:
        """Log in a user that an identity provider vouches for, and return to a page."""
        self.log_out(request)
        # A new id: a program that knew the old one does not get the login.
        browser, ends = new_secret(), now + self._settings.login_ttl
        with self._store.transaction():
            self._store.grants.add_login(digest(browser), session.user.subject, ends)
            self._sessions.add(session, digest(browser), expires_at=ends)
        return redirect(url).with_headers(("set-cookie", _browser_cookie(request, browser)))

    def log_in(self, request: Request, form: Form, now: float) -> OAuthResponse:
        """Check name and password; if they are right, redirect to the page that asked."""
        name, password = form.get("name", ""), form.get("password", "")
        counts = self._counts(request, name, now)
        for count, (attempts, key) in enumerate(counts):
            wait = attempts.reserve(key, now)
            if wait > 0:
                self._warn_of_proxy(request)
                # The attempt was not made: only the first limit counts it, to bound retries.
                for earlier, taken in counts[1:count]:
                    earlier.release(taken, now)
                return self._login_page_again(request, name, wait=wait)
        kept = self._settings.users.get(name)
        # Always computed, for unknown users too.
        fits = is_password(password, kept or self._unknown_user_hash)
        if kept is None or not fits:
            return self._login_page_again(request, name)
        for attempts, key in counts:
            attempts.release(key, now)
        counts[0][0].forget(counts[0][1])
        self.log_out(request)
        # A new id: a program that knew the old one does not get the login.
        browser = new_secret()
        self._store.grants.add_login(digest(browser), name, now + self._settings.login_ttl)
        return redirect(request.url).with_headers(
            ("set-cookie", _browser_cookie(request, browser)),
            ("set-cookie", self._trusted_browser_cookie(request, name, now)),
        )

    def _counts(self, request: Request, name: str, now: float) -> list[tuple[AttemptCounter, str]]:
        """Return the limits that count a login attempt; the first also counts refused ones."""
        # A digest is short, however long the name is.
        tried, source = digest(name), client_network(request.address)
        known = self._trusted_browser(request, name, now)
        if known is not None:
            return [(self._by_user, f"{tried} {known}")]
        return [
            (self._by_user, f"{tried} {source}"),
            (self._by_address, source),
            (self._by_name, tried),
        ]

    def _trusted_browser(self, request: Request, name: str, now: float) -> str | None:
        """Return the id of a browser in which this user has logged in before; otherwise None."""
        found = _TRUSTED.fullmatch(request.cookie(f"{cookie_name(request)}-known") or "")
        if found is None or not now - _TRUSTED_TTL < int(found[1]) <= now:
            return None
        mac = self._mac(_TRUSTED_BROWSER, found[1], found[2], name)
        return found[2] if equal(found[3], mac) else None

    def _trusted_browser_cookie(self, request: Request, name: str, now: float) -> str:
        """Return a cookie that proves only that the password was once entered in this browser."""
        since, browser = str(int(now)), new_secret(16)
        value = f"{since}.{browser}.{self._mac(_TRUSTED_BROWSER, since, browser, name)}"
        flags = f"; Path=/; Max-Age={_TRUSTED_TTL}{cookie_flags(request)}"
        return f"{cookie_name(request)}-known={value}{flags}"

    def _warn_of_proxy(self, request: Request) -> None:
        """Log once that a proxy may hide the addresses of clients, which then count as one."""
        if self._has_warned or not request.is_forwarded:
            return
        self._has_warned = True
        log.warning(
            "too many attempts to log in from %s, and requests carry X-Forwarded-For: if that is a "
            "proxy, all its clients count as one; name its address in FORWARDED_ALLOW_IPS, which "
            "server.run and uvicorn read, see docs/auth-server.md",
            request.address,
        )

    def _login_page_again(
        self, request: Request, name: str, *, wait: float | None = None
    ) -> OAuthResponse:
        fault, status = "Wrong name or password.", 401
        if wait is not None:
            seconds = max(1, round(wait))
            delay = f"{seconds} s" if seconds < 60 else f"{round(seconds / 60)} min"
            fault, status = f"Too many attempts. Try again in {delay}.", 429
        form = self.form(request)
        page = login_page(form, server=request.issuer, name=name[:100], fault=fault, status=status)
        return page if wait is None else page.with_headers(("retry-after", str(int(wait) + 1)))

    def log_out(self, request: Request) -> None:
        cookie = request.cookie(cookie_name(request))
        if cookie is not None:
            self._store.grants.remove_login(digest(cookie))


def cookie_name(request: Request) -> str:
    """Return the name of the cookie: it names the issuer, since ports of a host share cookies."""
    prefix = "__Host-" if request.is_secure else ""
    return f"{prefix}accord-{digest(request.issuer)[:8]}"


def _browser_cookie(request: Request, browser: str) -> str:
    """Return the cookie with the random id of a browser."""
    return f"{cookie_name(request)}={browser}; Path=/{cookie_flags(request)}"


def cookie_flags(request: Request) -> str:
    """Return the attributes of a cookie that no script may read and no other site may send."""
    return f"; HttpOnly; SameSite=Lax{'; Secure' if request.is_secure else ''}"
