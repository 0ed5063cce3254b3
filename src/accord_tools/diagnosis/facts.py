"""What the stages on the way to a token found out, and how they send requests, masked."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec

from accord.auth.flow import choose_scopes, refresh
from accord.auth.urls import canonical_resource
from accord.errors import FlowFailed
from accord.http.client.auth import Challenge
from accord.http.client.guarded import (
    AddressPolicy,
    Flow,
    GuardedSender,
    HttpRequest,
    HttpResponse,
    NoResponse,
    run_flow,
)
from accord.http.rules.responses import quote_url
from accord.secrets.filter import find_given
from accord.secrets.masks import Secrets
from accord.secrets.recognition import is_oauth_secret, is_secret_name
from accord.types import RevisionId
from accord_tools.diagnosis.stages import STAGE_IDS, ShownExchange, Stage, StageId

if TYPE_CHECKING:
    from accord.auth.browser import LoopbackRedirect
    from accord.auth.client_identity import ClientIdentity, DpopKey
    from accord.auth.discovery import ResourceMetadata, ServerMetadata, UnreadableMetadata
    from accord.auth.flow import AuthorizationRequest
    from accord.auth.oauth import OAuth
    from accord.auth.tokens import TokenGrant
    from accord.http.rules.responses import AuthChallenge


# Headers with credentials; others are explained on the page, and say nothing secret.
_HEADERS: Final = frozenset(
    {"authorization", "cookie", "dpop", "mcp-session-id", "proxy-authorization", "set-cookie"}
)
_BODY_SHOWN: Final = 16 * 1024
_FORM: Final = "application/x-www-form-urlencoded"


class ExchangeSecrets(Secrets):
    """The secrets of one authorization; what is secret in a message is known from then on."""

    def request_text(self, request: HttpRequest, private: frozenset[str] = frozenset()) -> str:
        """Return a request as it is sent; `private` has names of headers to hide."""
        head = [f"{request.method} {quote_url(request.url)}"]
        return self._text_of(head, request.headers, request.body or b"", private)

    def response_text(self, response: HttpResponse) -> str:
        """Return an answer as it came."""
        head = [f"HTTP {response.status}"]
        if response.url:
            head[0] += f" from {quote_url(response.url)}"
        return self._text_of(head, response.headers, response.body, frozenset())

    def redirect_text(self, uri: str, params: Mapping[str, str]) -> str:
        """Return the request of a browser that follows a redirect."""
        self._learn_members(params)
        return self.mask_text(
            f"GET {urlsplit(uri).path or '/'}?{urlencode(params, quote_via=quote)}"
        )

    def shown_value(self, name: str, value: object) -> str:
        """Return the value of a member as a text; lists of texts separated by commas."""
        self._learn_members({name: value})
        if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
            value = ", ".join(value)
        return self.mask_text(
            value if isinstance(value, str) else msgspec.json.encode(value).decode()
        )

    def _text_of(
        self, head: list[str], headers: Mapping[str, str], body: bytes, private: frozenset[str]
    ) -> str:
        for name, value in headers.items():
            lowered = name.lower()
            if lowered in private or lowered in _HEADERS or is_secret_name(name):
                self.learn(*find_given(headers={lowered: value}))
                value = self.header(lowered, value)
            head.append(f"{name}: {value}")
        text = self._body_text(body, _content_type(headers))
        return self.mask_text("\n".join(head) + (f"\n\n{text}" if text else ""))

    def _body_text(self, body: bytes, kind: str) -> str:
        text = body.decode(errors="replace")
        if kind == _FORM:
            self._learn_members(dict(parse_qsl(text)))
            return text
        try:
            self._learn_members(msgspec.json.decode(body))
            # The text itself: numbers keep their digits.
            text = msgspec.json.format(body, indent=2).decode(errors="replace")
        except (ValueError, RecursionError):
            pass
        return _cut(text)

    def _learn_members(self, value: object) -> None:
        if isinstance(value, Mapping):
            named = [each for name, each in value.items() if is_oauth_secret(name)]
            self.learn(*(each for each in named if isinstance(each, str)))
            value = [*value.values()]
        for each in value if isinstance(value, list) else ():
            self._learn_members(each)


def _content_type(headers: Mapping[str, str]) -> str:
    found = (value for name, value in headers.items() if name.lower() == "content-type")
    return next(found, "").partition(";")[0].strip().lower()


def _cut(text: str) -> str:
    if len(text) <= _BODY_SHOWN:
        return text
    return f"{text[:_BODY_SHOWN]}\n... {len(text) - _BODY_SHOWN} more characters"


Value = TypeVar("Value")

# The facts that each stage finds; a stage that is made again begins without them.
_FACTS: Final[dict[StageId, tuple[str, ...]]] = {
    "challenge": ("challenge", "status"),
    "resource": ("resource", "unreadable"),
    "server": ("server",),
    "registration": ("client",),
    "url": ("request", "sign_in_url"),
    "redirect": ("code", "is_code_used"),
    "token": ("grant",),
}


@dataclass(kw_only=True)
class AuthorizationFacts:
    """The facts of one way to a token.

    Attributes:
        url: of the server.
        headers: that the user gave for every request; their values are private.
        settings: the client's, as the command line gave them.
        client_name: the name in `initialize`.
        timeout: seconds for an answer of the server to a client with a token.
        seconds: that a step before may take.
        is_older_form: finds out whether a URL speaks HTTP with SSE: takes headers and seconds, too.
        obtains_token: whether a token is to be obtained, and not given.
        scopes: the ones that the person typed; None chooses them as clients do.
        names_resource: whether requests name the server that the token is for.
        mark: called after each change, so that the page shows it.
        status: of the answer to a request without a token.
        has_fixed_tokens: whether clients cannot obtain a token, so that one is given to them.
        unreadable: why the metadata of the resource is not used.
    """

    url: str
    headers: Mapping[str, str]
    settings: "OAuth"
    client_name: str
    is_older_form: Callable[[str, Mapping[str, str], float], Awaitable[bool]]
    timeout: float = 10.0
    seconds: float = 10.0
    obtains_token: bool = True
    revision: RevisionId | None = None
    transport: Literal["http", "sse"] | None = None
    mark: Callable[[], object] = lambda: None
    secrets: ExchangeSecrets = field(default_factory=ExchangeSecrets)
    scopes: tuple[str, ...] | None = None
    names_resource: bool = True
    challenge: "AuthChallenge | None" = None
    status: int | None = None
    has_fixed_tokens: bool = False
    unreadable: "UnreadableMetadata | None" = None
    resource: "ResourceMetadata | None" = None
    server: "ServerMetadata | None" = None
    client: "ClientIdentity | None" = None
    request: "AuthorizationRequest | None" = None
    sign_in_url: str | None = None
    code: str | None = None
    is_code_used: bool | None = None
    grant: "TokenGrant | None" = None
    listener: "LoopbackRedirect | None" = None
    pasted: asyncio.Future[str] | None = None
    listening: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    def __post_init__(self) -> None:
        self.names_resource = self.settings.resource != "omit"
        self.secrets.learn(self.settings.client_secret)

    @property
    def policy(self) -> AddressPolicy:
        """Where requests may go: the same as for clients."""
        return AddressPolicy.beside(self.url, self.settings.trust)

    @property
    def is_open(self) -> bool:
        """Whether the server answers without a token."""
        return self.status is not None and self.status < 300

    @property
    def uses_code(self) -> bool:
        """Whether a person signs in in a browser."""
        return self.settings.grant not in ("client_credentials", "jwt_bearer")

    def forget_from(self, stage: StageId) -> None:
        """Forget what a stage and those after it found."""
        for each in STAGE_IDS[STAGE_IDS.index(stage) :]:
            for name in _FACTS.get(each, ()):
                setattr(self, name, None)

    async def stop_listening(self) -> None:
        """Close the listener for the redirect."""
        await self.listening.aclose()
        self.listener = None

    # -- scopes

    def wanted_scopes(self) -> tuple[str, ...]:
        """Return the scopes to ask for, in the order of the specification."""
        if self.scopes is not None or self.server is None:
            return self.scopes or tuple(self.settings.scopes or ())
        from accord.auth.discovery import DiscoveryResult

        found = DiscoveryResult(
            resource=self.resource_uri, server=self.server, resource_metadata=self.resource
        )
        return choose_scopes(
            found,
            wanted=self.settings.scopes,
            challenged=() if self.challenge is None else self.challenge.scopes,
            offline=self.settings.offline and self.uses_code,
        )

    def scopes_origin(self) -> str:
        """Return where the scopes come from."""
        if self.scopes is not None:
            return "typed on this page"
        origins = []
        if self.settings.scopes:
            origins.append("given on the command line")
        if self.challenge is not None and self.challenge.scopes:
            origins.append("named by the challenge")
        if not origins and self.resource is not None and self.resource.scopes_supported:
            origins.append("scopes_supported of the protected resource")
        if "offline_access" in self.wanted_scopes() and origins:
            origins.append("offline_access because the authorization server has it")
        return ", ".join(origins) or "none is named, so the authorization server chooses"

    @property
    def resource_uri(self) -> str:
        """The server, as tokens name it."""
        return canonical_resource(self.url) if self.resource is None else self.resource.resource

    # -- requests

    async def send(self, flow: Flow[Value], stage: Stage | None = None) -> Value:
        """Carry a flow to its end, and keep each request and answer in the stage."""
        settings = self.settings
        sender = GuardedSender(
            self.policy, tls=settings.tls, proxy=settings.proxy, seconds=self.seconds
        )
        exchanges = [] if stage is None else stage.exchanges

        async def send_one(request: HttpRequest) -> HttpResponse:
            exchange = ShownExchange(self.secrets.request_text(request))
            exchanges.append(exchange)
            self.mark()
            try:
                response = await sender.send(request)
            except NoResponse as error:
                exchange.response = f"no answer: {error.reason}"
                raise
            exchange.response = self.secrets.response_text(response)
            self.mark()
            return response

        async with sender:
            return await run_flow(flow, send_one)

    def explain_members(
        self, stage: Stage, said: Mapping[str, Any], meanings: Mapping[str, str]
    ) -> None:
        """Explain the members of an object that have a known meaning."""
        for name, meaning in meanings.items():
            if name in said:
                stage.explain(name, self.secrets.shown_value(name, said[name]), meaning)


class GrantedAuth:
    """Sends the token of one grant, renewed when it is due; never asks for another grant.

    Args:
        settings: of the client that the token was granted to.
        grant: the token; None sends requests without one.
        on_renewed: called with the old and the new grant.
    """

    def __init__(
        self,
        settings: "OAuth",
        grant: "TokenGrant | None",
        on_renewed: "Callable[[TokenGrant, TokenGrant], object]" = lambda _old, _new: None,
    ) -> None:
        self._settings = settings
        self.grant = grant
        self._on_renewed = on_renewed
        self._turn = asyncio.Lock()

    @property
    def prover(self) -> "DpopKey | None":
        """What proves the possession of a token that is bound to a key."""
        return self._settings.dpop

    async def token(self, resource_url: str) -> str | None:
        """Return the token, renewed if it is due."""
        # A refresh token works once: requests that come together renew together.
        async with self._turn:
            grant = self.grant
            if grant is None:
                return None
            if grant.refresh_token is not None and grant.is_due(time.time()):
                # If it fails, the server refuses the old one, and says why.
                with contextlib.suppress(FlowFailed):
                    grant = self.grant = await self._renew(grant, resource_url)
            return grant.access_token

    async def _renew(self, grant: "TokenGrant", resource_url: str) -> "TokenGrant":
        settings = self._settings
        policy = AddressPolicy.beside(resource_url, settings.trust)
        sender = GuardedSender(policy, tls=settings.tls, proxy=settings.proxy)
        flow = refresh(grant, time.time(), key=settings.client_key, dpop=settings.dpop)
        renewed = await sender.run(flow)
        self._on_renewed(grant, renewed)
        return renewed

    async def challenged(self, challenge: Challenge) -> bool:
        """Refuse to obtain another token: that is what the walk is for."""
        return False
