"""Signing in with an identity provider: the way there, and the way back.

The user is sent to the provider with a state, a nonce and a PKCE challenge of our own, bound to
the browser by a cookie. Every provider has a callback URL of its own, so that the response of one
cannot be taken for that of another. Afterwards the user is back at the page that asked, logged in:
consent is asked there, whatever the provider says.
"""

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from accord.auth.authorization_server.login import cookie_flags, cookie_name
from accord.auth.authorization_server.models import (
    OAuthRefusal,
    OAuthResponse,
    Request,
    parse_form,
    redirect,
)
from accord.auth.authorization_server.pages import fault_page, sign_in_fault_page
from accord.auth.authorization_server.secrets import new_secret
from accord.auth.authorization_server.upstream.provider import UpstreamFault, UpstreamProvider
from accord.auth.authorization_server.upstream.sessions import SignInRequest, UpstreamSession
from accord.auth.authorization_server.upstream.settings import (
    AllowUser,
    Upstream,
    UpstreamUser,
    callback_url,
    start_url,
)
from accord.auth.client_identity import Pkce, challenge_of, new_pkce

if TYPE_CHECKING:
    from accord.auth.authorization_server.endpoints import Endpoints

log = logging.getLogger("accord.auth")

_ROUTE: Final = re.compile(r"/upstream/([a-z0-9._-]{1,64})/(start|callback)")
_BROWSER: Final = re.compile(r"[A-Za-z0-9_-]{43}")
# The pages that ask users to log in.
_RETURNS: Final = ("/authorize", "/device")
# Long enough for a password and a second factor.
_TTL: Final = 600
_QUERY_MOST: Final = 8_000
# The errors of a provider that the client gets as they are; any other is `server_error`.
_PASSED_ON: Final = ("access_denied", "temporarily_unavailable")


class UpstreamFlow:
    """Serves the paths of the identity providers.

    Args:
        endpoints: opens the store when it is first called.
        providers: by name.
    """

    def __init__(
        self, endpoints: "Callable[[], Endpoints]", providers: Mapping[str, UpstreamProvider]
    ) -> None:
        self._endpoints = endpoints
        self._providers = providers

    async def respond(self, request: Request) -> OAuthResponse:
        """Answer a request for one of the paths."""
        found = _ROUTE.fullmatch(request.path)
        provider = None if found is None else self._providers.get(found[1])
        if found is None or provider is None:
            return _unserved_page("No identity provider is known by this name.", status=404)
        if request.method != "GET":
            refusal = OAuthRefusal("invalid_request", "this method is not served here", status=405)
            return refusal.response.with_headers(("allow", "GET"))
        try:
            given = parse_form(request.query)
        except OAuthRefusal as refusal:
            return _unserved_page(refusal.description.capitalize() + ".")
        if found[2] == "start":
            return await self._start(request, provider, given)
        return await self._finish(request, provider, given)

    # -- the way there

    async def _start(
        self, request: Request, provider: UpstreamProvider, given: Mapping[str, str]
    ) -> OAuthResponse:
        path, _, query = given.get("next", "").partition("?")
        if path not in _RETURNS or len(query) > _QUERY_MOST:
            return _unserved_page("Start again from the program that sent you here.")
        browser = self._browser(request) or new_secret()
        if not await asyncio.to_thread(lambda: self._may_begin(browser, request.address)):
            return _LOOP_PAGE
        asked = SignInRequest(
            state=new_secret(),
            nonce=new_secret(),
            verifier=new_pkce().verifier,
            path=path,
            query=query,
            issuer=request.issuer,
        )
        upstream = provider.upstream
        try:
            metadata = await provider.metadata()
        except UpstreamFault as fault:
            return await self._report(provider, asked, fault)
        location = provider.authorization_url(
            metadata,
            redirect_uri=callback_url(request.issuer, upstream.name),
            state=asked.state,
            nonce=asked.nonce,
            pkce=_pkce(asked),
            may_switch="switch" in given,
        )
        await asyncio.to_thread(lambda: self._begin(upstream.name, browser, asked))
        cookie = f"{_cookie(request)}={browser}; Path=/; Max-Age={_TTL}{cookie_flags(request)}"
        return redirect(location).with_headers(("set-cookie", cookie))

    def _may_begin(self, browser: str, address: str) -> bool:
        endpoints = self._endpoints()
        return endpoints.may_begin_sign_in(browser, address, endpoints.store.now())

    def _begin(self, provider: str, browser: str, asked: SignInRequest) -> None:
        endpoints = self._endpoints()
        ends = endpoints.store.now() + _TTL
        endpoints.sessions.begin(provider, browser, asked, expires_at=ends)

    def _browser(self, request: Request) -> str | None:
        found = request.cookie(_cookie(request))
        return found if found is not None and _BROWSER.fullmatch(found) else None

    # -- the way back

    async def _finish(
        self, request: Request, provider: UpstreamProvider, given: Mapping[str, str]
    ) -> OAuthResponse:
        browser, state = self._browser(request), given.get("state")
        asked = None
        if browser is not None and state is not None:
            name = provider.upstream.name
            asked = await asyncio.to_thread(lambda: self._take(name, browser, state))
        if asked is None or asked.issuer != request.issuer:
            return _STALE_PAGE
        try:
            metadata = await provider.metadata()
            provider.check_issuer(metadata, given.get("iss"))
            if "error" in given:
                return await self._pass_on(provider, asked, given["error"])
            if "code" not in given:
                raise UpstreamFault(f"identity provider {provider.upstream.name}: no code came")
            tokens = await provider.exchange(
                given["code"],
                redirect_uri=callback_url(request.issuer, provider.upstream.name),
                pkce=_pkce(asked),
            )
            user = await provider.find_user(tokens, nonce=asked.nonce)
        except UpstreamFault as fault:
            return await self._report(provider, asked, fault)
        if not await _is_allowed(provider.upstream, user):
            return await self._refuse(provider, asked, user)
        session = UpstreamSession(user=user, tokens=msgspec.structs.replace(tokens, id_token=None))
        page = _page_request(asked)
        return await asyncio.to_thread(lambda: self._sign_in(request, page.url, session))

    def _take(self, provider: str, browser: str, state: str) -> SignInRequest | None:
        endpoints = self._endpoints()
        return endpoints.sessions.take(provider, browser, state, endpoints.store.now())

    def _sign_in(self, request: Request, url: str, session: UpstreamSession) -> OAuthResponse:
        endpoints = self._endpoints()
        return endpoints.sign_in(request, url, session, endpoints.store.now())

    async def _pass_on(
        self, provider: UpstreamProvider, asked: SignInRequest, error: str
    ) -> OAuthResponse:
        """Send the error of a provider to the program."""
        title = provider.upstream.title
        log.info("identity provider %s answered %r", provider.upstream.name, error[:100])
        code = error if error in _PASSED_ON else "server_error"
        why = f"the user was not signed in with {title}"
        if code == "server_error":
            why = f"the sign-in with {title} failed"
        return await asyncio.to_thread(
            lambda: self._endpoints().refuse_sign_in(_page_request(asked), OAuthRefusal(code, why))
        )

    async def _report(
        self, provider: UpstreamProvider, asked: SignInRequest, fault: UpstreamFault
    ) -> OAuthResponse:
        """Show that a provider could not be used; nothing that it sent is shown."""
        log.warning("%s", fault)
        title = provider.upstream.title
        why = f"{title} could not be reached, or did not answer as expected. You can try again."
        if not fault.is_temporary:
            why = f"The answer of {title} was not accepted. The log of this server says why."
        refusal = OAuthRefusal("server_error", f"the sign-in with {title} failed")
        if fault.is_temporary:
            refusal = OAuthRefusal("temporarily_unavailable", f"{title} could not be reached")
        return await self._fault_page(provider, asked, [why], refusal, status=502)

    async def _refuse(
        self, provider: UpstreamProvider, asked: SignInRequest, user: UpstreamUser
    ) -> OAuthResponse:
        log.info("user %s may not enter: see allow of the upstream", user.subject)
        lines = [
            f"You signed in with {provider.upstream.title} as {user.shown_name.rstrip('.')}.",
            "This account may not use this server. Its operator decides which accounts may.",
        ]
        if not user.emails:
            lines.append(f"{provider.upstream.title} does not vouch for an email address of it.")
        refusal = OAuthRefusal("access_denied", "this account may not use the server")
        return await self._fault_page(provider, asked, lines, refusal, status=403, may_switch=True)

    async def _fault_page(  # the parts of a page
        self,
        provider: UpstreamProvider,
        asked: SignInRequest,
        lines: list[str],
        refusal: OAuthRefusal,
        *,
        status: int,
        may_switch: bool = False,
    ) -> OAuthResponse:
        page = _page_request(asked)
        retry = start_url(page, provider.upstream.name, may_switch=may_switch)
        back = await asyncio.to_thread(lambda: self._endpoints().refusal_url(page, refusal))
        return sign_in_fault_page(lines, retry=retry, back=back, status=status)


async def _is_allowed(upstream: Upstream, user: UpstreamUser) -> bool:
    if not callable(upstream.allow):
        return upstream.allows_by_rules(user)
    try:
        allow: AllowUser = upstream.allow
        found: bool | Awaitable[bool]
        if inspect.iscoroutinefunction(allow):
            found = allow(user)
        else:
            found = await asyncio.to_thread(lambda: allow(user))
        decided = await found if inspect.isawaitable(found) else found
    except Exception:
        log.exception("allow of upstream %s failed; the user is refused", upstream.name)
        return False
    return bool(decided)


def _page_request(asked: SignInRequest) -> Request:
    """Return the request for the page that asked for a sign-in."""
    return Request(method="GET", path=asked.path, query=asked.query, issuer=asked.issuer)


def _pkce(asked: SignInRequest) -> Pkce:
    return Pkce(asked.verifier, challenge_of(asked.verifier))


def _cookie(request: Request) -> str:
    return f"{cookie_name(request)}-signin"


def _unserved_page(why: str, *, status: int = 400) -> OAuthResponse:
    return fault_page("This request cannot be served", [why], status=status)


_LOOP: Final = (
    "If you did nothing but wait, this server and the identity provider send your browser back and "
    "forth: tell its operator."
)
_LOOP_PAGE: Final = fault_page(
    "Too many attempts", ["Try again in a minute.", _LOOP], status=429
).with_headers(("retry-after", "60"))
_STALE_PAGE: Final = fault_page(
    "This sign-in is not known",
    [
        "It took too long, was finished before, or was begun in another browser.",
        "Start again from the program that sent you here. Cookies must be allowed for this site.",
    ],
    status=403,
)
