"""What the steps of an authorization have found out so far, and how they send requests."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from accord.auth.flow import choose_scopes
from accord.auth.urls import canonical_resource
from accord.http.client.guarded import (
    AddressPolicy,
    Flow,
    GuardedSender,
    HttpRequest,
    HttpResponse,
    NoResponse,
    run_flow,
)
from accord.types import RevisionId
from accord_tools.inspector.authorization.secret_texts import SecretTexts
from accord_tools.inspector.authorization.walk_step import STEP_IDS, ShownExchange, StepId, WalkStep

if TYPE_CHECKING:
    from accord.auth.browser import LoopbackRedirect
    from accord.auth.client_identity import ClientIdentity
    from accord.auth.discovery import ResourceMetadata, ServerMetadata
    from accord.auth.flow import AuthorizationRequest
    from accord.auth.oauth import OAuth
    from accord.auth.tokens import TokenGrant
    from accord.http.rules.responses import AuthChallenge

Value = TypeVar("Value")

CLIENT_NAME: Final = "accord inspect"

# The facts that each step finds; a step that is made again begins without them.
_FACTS: Final[dict[StepId, tuple[str, ...]]] = {
    "challenge": ("challenge", "is_open"),
    "resource": ("resource",),
    "server": ("server",),
    "registration": ("client",),
    "url": ("request", "sign_in_url"),
    "redirect": ("code", "is_code_used"),
    "token": ("grant",),
}


@dataclass(kw_only=True)
class WalkContext:
    """The facts of one walk.

    Attributes:
        url: of the server.
        headers: that the user gave for every request; their values are private.
        settings: the client's, as the command line gave them.
        timeout: seconds for an answer of the server.
        scopes: the ones that the person typed; None chooses them as clients do.
        names_resource: whether requests name the server that the token is for.
        mark: called after each change, so that the page shows it.
    """

    url: str
    headers: Mapping[str, str]
    settings: "OAuth"
    timeout: float
    revision: RevisionId | None = None
    transport: Literal["http", "sse"] | None = None
    mark: Callable[[], object]
    secrets: SecretTexts = field(default_factory=SecretTexts)
    scopes: tuple[str, ...] | None = None
    names_resource: bool = True
    challenge: "AuthChallenge | None" = None
    is_open: bool | None = None
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
        self.secrets.add("client_secret", self.settings.client_secret)

    @property
    def policy(self) -> AddressPolicy:
        """Where requests may go: the same as for clients."""
        return AddressPolicy.beside(self.url, self.settings.trust)

    @property
    def uses_code(self) -> bool:
        """Whether a person signs in in a browser."""
        return self.settings.grant not in ("client_credentials", "jwt_bearer")

    def forget_from(self, step: StepId) -> None:
        """Forget what a step and those after it found."""
        for each in STEP_IDS[STEP_IDS.index(step) :]:
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

    async def send(self, flow: Flow[Value], step: WalkStep) -> Value:
        """Carry a flow to its end, and keep each request and answer in the step."""
        sender = GuardedSender(self.policy, tls=self.settings.tls, proxy=self.settings.proxy)

        async def send_one(request: HttpRequest) -> HttpResponse:
            exchange = ShownExchange(self.secrets.request_text(request))
            step.exchanges.append(exchange)
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
        self, step: WalkStep, said: Mapping[str, Any], meanings: Mapping[str, str]
    ) -> None:
        """Explain the members of an object that have a known meaning."""
        for name, meaning in meanings.items():
            if name in said:
                step.explain(name, self.secrets.shown_value(name, said[name]), meaning)
