"""Who sits at the browser: logins, and the proof that a form came from a page of ours."""

import hmac
import logging
import re
from functools import cached_property
from hashlib import sha256
from typing import Final

from accord.auth.authorization_server.attempts import Attempts
from accord.auth.authorization_server.exchange import Request, Response, redirect
from accord.auth.authorization_server.pages import fault_page, login_page
from accord.auth.authorization_server.secrets import (
    digest,
    equal,
    hash_like,
    is_password,
    new_secret,
)
from accord.auth.authorization_server.settings import Settings
from accord.auth.authorization_server.store import Store
from accord.auth.authorization_server.urls import with_query
from accord.bindings.addresses import client_network

__all__ = ["People"]

log = logging.getLogger("accord.auth")

_BROWSER: Final = re.compile(r"[A-Za-z0-9_-]{43}")
# A person mistypes a few times; a program tries thousands. No count that strangers can fill keeps
# a person out: the first is of one name at one address, the second of one address; the third, of a
# name wherever from, frees a place every few seconds; and a browser in which the person has logged
# in before has a count of its own in place of all these.
_WINDOW: Final = 300.0
_BY_PERSON: Final = 10
_BY_ADDRESS: Final = 20
_BY_NAME: Final = 20
_NAME_WINDOW: Final = 60.0
_KNOWN_TTL: Final = 90 * 86_400
_KNOWN: Final = re.compile(r"([0-9]{1,12})\.([A-Za-z0-9_-]{22})\.([0-9a-f]{64})")


class People:
    """Knows who sits at a browser."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._key = store.secret("forms", new_secret()).encode()
        self._has_warned = False
        self._by_person = Attempts(_BY_PERSON, _WINDOW)
        self._by_address = Attempts(_BY_ADDRESS, _WINDOW)
        self._by_name = Attempts(_BY_NAME, _NAME_WINDOW)

    @cached_property
    def _nobody(self) -> str:
        """What is compared with where there is no such user, so that the time tells nothing."""
        return hash_like(next(iter(self._settings.users.values())), new_secret())

    def subject(self, request: Request, now: float) -> str | None:
        """Return who sits at the browser, if that is known."""
        settings = self._settings
        if settings.person is not None:
            return settings.person
        if settings.is_external:
            return request.subject
        cookie = request.cookie(_cookie(request))
        found = None if cookie is None else self._store.login(digest(cookie), now)
        return found if found is not None and settings.knows(found) else None

    @property
    def may_leave(self) -> bool:
        """Whether people log in here, and so can log in as somebody else."""
        return self._settings.person is None and not self._settings.is_external

    # -- forms

    def browser(self, request: Request) -> str:
        """Return what tells this browser from others; new where it has nothing."""
        cookie = request.cookie(_cookie(request))
        return cookie if cookie and _BROWSER.fullmatch(cookie) else new_secret()

    def form_token(self, browser: str, request: Request) -> str:
        """Return what shows that a form came from a page for this browser and request."""
        text = f"{browser}\n{request.path}\n{request.query}"
        return hmac.new(self._key, text.encode(), sha256).hexdigest()

    def is_ours(self, request: Request, form: dict[str, str]) -> bool:
        """Tell whether a form came from a page of ours, in this browser, for this request."""
        cookie = request.cookie(_cookie(request))
        if cookie is None:
            return False
        return equal(form.get("csrf", ""), self.form_token(cookie, request))

    def for_browser(self, response: Response, browser: str, request: Request) -> Response:
        """Make a browser tell itself apart from now on."""
        secure = "; Secure" if request.is_secure else ""
        cookie = f"{_cookie(request)}={browser}; Path=/; HttpOnly; SameSite=Lax{secure}"
        return response.adding(("set-cookie", cookie))

    # -- logging in and out

    def ask(self, request: Request, action: str) -> Response:
        """Ask who it is."""
        if self._settings.is_external:
            return self._ask_elsewhere(request, action)
        browser = self.browser(request)
        page = login_page(
            action=action, token=self.form_token(browser, request), server=request.issuer
        )
        return self.for_browser(page, browser, request)

    def _ask_elsewhere(self, request: Request, action: str) -> Response:
        if self._settings.login_url is None:
            why = "This server could not tell who you are. Log in first, then start again."
            return fault_page("You are not logged in", [why], status=401)
        # Only ever a URL of our own, so that nobody is led elsewhere.
        return redirect(with_query(self._settings.login_url, next=action))

    def log_in(self, request: Request, form: dict[str, str], action: str, now: float) -> Response:
        """Check name and password; a right one leads back to where the person was."""
        name, password = form.get("name", ""), form.get("password", "")
        counts = self._counts(request, name, now)
        for count, (attempts, key) in enumerate(counts):
            wait = attempts.reserve(key, now)
            if wait > 0:
                self._warn_of_proxy(request)
                # What the others counted was not looked at, but for the first: it bounds retries.
                for earlier, taken in counts[1:count]:
                    earlier.release(taken, now)
                return self._again(request, action, name, wait=wait)
        kept = self._settings.users.get(name)
        # Always computed, whoever it is.
        fits = is_password(password, kept or self._nobody)
        if kept is None or not fits:
            return self._again(request, action, name)
        for attempts, key in counts:
            attempts.release(key, now)
        counts[0][0].forget(counts[0][1])
        self.log_out(request)
        # A new one: whoever knew the browser before does not know the person.
        browser = new_secret()
        self._store.add_login(digest(browser), name, now + self._settings.login_ttl)
        response = self.for_browser(redirect(action), browser, request)
        return response.adding(("set-cookie", self._known_cookie(request, name, now)))

    def _counts(self, request: Request, name: str, now: float) -> list[tuple[Attempts, str]]:
        """Return what an attempt to log in is counted by, the first of them also when refused."""
        # What is remembered of a name is short, however long it is.
        tried, source = digest(name), client_network(request.address)
        known = self._known_browser(request, name, now)
        if known is not None:
            return [(self._by_person, f"{tried} {known}")]
        return [
            (self._by_person, f"{tried} {source}"),
            (self._by_address, source),
            (self._by_name, tried),
        ]

    def _known_browser(self, request: Request, name: str, now: float) -> str | None:
        """Return what names a browser in which this person has logged in before."""
        found = _KNOWN.fullmatch(request.cookie(f"{_cookie(request)}-known") or "")
        if found is None or not now - _KNOWN_TTL < int(found[1]) <= now:
            return None
        return found[2] if equal(found[3], self._known_mac(found[1], found[2], name)) else None

    def _known_cookie(self, request: Request, name: str, now: float) -> str:
        """Return a cookie that proves nothing but that its browser once knew the password."""
        since, browser = str(int(now)), new_secret(16)
        value = f"{since}.{browser}.{self._known_mac(since, browser, name)}"
        secure = "; Secure" if request.is_secure else ""
        return (
            f"{_cookie(request)}-known={value}; Path=/; Max-Age={_KNOWN_TTL}; HttpOnly; "
            f"SameSite=Lax{secure}"
        )

    def _known_mac(self, since: str, browser: str, name: str) -> str:
        text = f"known browser\n{since}\n{browser}\n{name}"
        return hmac.new(self._key, text.encode(), sha256).hexdigest()

    def _warn_of_proxy(self, request: Request) -> None:
        """Log once that a proxy may hide the addresses of clients, which then count as one."""
        if self._has_warned or not request.is_forwarded:
            return
        self._has_warned = True
        log.warning(
            "too many attempts to log in from %s, and requests carry X-Forwarded-For: if that is a "
            "proxy, all its clients count as one; have the ASGI server trust it (uvicorn: "
            "FORWARDED_ALLOW_IPS), see docs/auth-server.md",
            request.address,
        )

    def _again(
        self, request: Request, action: str, name: str, *, wait: float | None = None
    ) -> Response:
        fault, status = "Name and password do not fit.", 401
        if wait is not None:
            seconds = max(1, round(wait))
            told = f"{seconds} s" if seconds < 60 else f"{round(seconds / 60)} min"
            fault, status = f"Too many attempts. Try again in {told}.", 429
        page = login_page(
            action=action,
            token=self.form_token(request.cookie(_cookie(request)) or "", request),
            server=request.issuer,
            name=name[:100],
            fault=fault,
            status=status,
        )
        return page if wait is None else page.adding(("retry-after", str(int(wait) + 1)))

    def log_out(self, request: Request) -> None:
        """Forget who sits at the browser."""
        cookie = request.cookie(_cookie(request))
        if cookie is not None:
            self._store.remove_login(digest(cookie))


def _cookie(request: Request) -> str:
    """Name the cookie: all ports of a host, and all paths, share what a browser keeps."""
    prefix = "__Host-" if request.is_secure else ""
    return f"{prefix}accord-{digest(request.issuer)[:8]}"
