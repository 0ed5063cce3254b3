"""The stages on the way to a token: names, clauses, what happened, what parameters mean."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias, get_args

from accord_tools.diagnosis.steps import DiagnosisStep, StepVerdict

StageId: TypeAlias = Literal[
    "network",
    "challenge",
    "resource",
    "server",
    "endpoints",
    "registration",
    "url",
    "redirect",
    "token",
    "refresh",
    "call",
]
STAGE_IDS: Final[tuple[StageId, ...]] = get_args(StageId)
StageState: TypeAlias = Literal["todo", "running", "done", "warning", "failed", "skipped"]

TITLES: Final[dict[StageId, str]] = {
    "network": "Network",
    "challenge": "Request without a token",
    "resource": "Protected resource metadata",
    "server": "Authorization server metadata",
    "endpoints": "Endpoints and PKCE",
    "registration": "Client registration",
    "url": "Authorization URL",
    "redirect": "Sign-in and redirect",
    "token": "Token",
    "refresh": "Refresh",
    "call": "First call with the token",
}

CLAUSES: Final[dict[StageId, tuple[str, ...]]] = {
    "network": (),
    "challenge": (
        "auth.server.401-when-required",
        "auth.challenge.www-authenticate",
        "auth.prm.one-mechanism",
        "auth.scope.challenge-has-scope",
    ),
    "resource": (
        "auth.prm.server",
        "auth.prm.lists-as",
        "auth.prm.client-both-mechanisms",
        "auth.prm.client-uses",
        "auth.discovery.protocol-version-header",
        "auth.refresh.server-no-offline-access",
    ),
    "server": (
        "auth.as.discovery-either",
        "auth.asm.issuer-identical",
        "auth.asm.client-tries-several",
        "auth.asm.order-with-path",
        "auth.asm.order-without-path",
        "auth.iss.record-issuer",
    ),
    "endpoints": (
        "auth.https.endpoints",
        "auth.pkce.verify-support",
        "auth.pkce.refuse-without-methods",
        "auth.iss.as-advertises",
    ),
    "registration": (
        "auth.register.before-flow",
        "auth.register.priority",
        "auth.cimd.supported",
        "auth.dcr.application-type",
        "auth.dcr.native",
        "auth.redirect.registered",
        "auth.binding.keyed-by-issuer",
    ),
    "url": (
        "auth.pkce.implemented",
        "auth.pkce.s256",
        "auth.resource.both-requests",
        "auth.resource.canonical",
        "auth.scope.selection-order",
        "auth.redirect.localhost-or-https",
    ),
    "redirect": (
        "auth.state.verified",
        "auth.iss.as-sends",
        "auth.iss.compare-present",
        "auth.iss.reject-absent-when-advertised",
        "auth.iss.errors-too",
        "auth.redirect.exact-match",
    ),
    "token": (
        "auth.resource.both-requests",
        "auth.oauth21.authorization-server",
        "auth.token.short-lived",
        "auth.tokens.stored-securely",
        "auth.refresh.not-assumed",
    ),
    "refresh": (
        "auth.tokens.refresh-rotated",
        "auth.refresh.confidential",
    ),
    "call": (
        "auth.token.bearer-header",
        "auth.token.not-in-query",
        "auth.every-request",
        "auth.token.audience-validated",
        "auth.tokens.only-own-issuer",
    ),
}


class ExplainedValue(NamedTuple):
    """A value that was sent or came, and what it means."""

    name: str
    value: str
    meaning: str


@dataclass
class ShownExchange:
    """A request as it was sent and its answer, as texts without secrets."""

    request: str
    response: str = ""


@dataclass
class Stage:
    """A part of the way to a token, and what happened in it.

    Attributes:
        asked: what was asked, in short.
        came: what came back, in short.
        change: what to change if the stage is not done.
        exchanges: all requests of the stage.
        explains: the values in them.
        kept: ids of requirements that were seen to be kept.
        broken: ids of requirements that were seen to be broken.
        report: called with each step of the stage as soon as it is done.
    """

    id: StageId
    state: StageState = "todo"
    asked: str = ""
    came: str = ""
    change: str = ""
    exchanges: list[ShownExchange] = field(default_factory=list)
    explains: list[ExplainedValue] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    report: Callable[[DiagnosisStep], object] = lambda _step: None

    def add(self, name: str, verdict: StepVerdict, *, change: str = "", **facts: str) -> None:
        """Note a step of the stage; further ones may follow, even after a failed one."""
        self.take(DiagnosisStep(name=name, verdict=verdict, change=change, **facts))

    def take(self, step: DiagnosisStep) -> None:
        """Note a step, as `add` does."""
        self.report(step)
        self.asked = self.asked or step.asked
        self.came = f"{self.came}; {step.came}" if self.came else step.came
        if step.verdict in ("warning", "failed"):
            self.warn(step.change)

    def stop(self, name: str, **facts: str) -> NoReturn:
        """Note a failed step that ends the stage.

        Raises:
            StageFailed: always.
        """
        step = DiagnosisStep(name=name, verdict="failed", **facts)
        self.report(step)
        raise StageFailed(asked=step.asked, came=step.came, change=step.change)

    def judge(self, requirement: str, *, is_kept: bool) -> None:
        """Note whether a requirement was kept."""
        (self.kept if is_kept else self.broken).add(requirement)

    def warn(self, change: str) -> None:
        """Note something to change that does not stop the way."""
        self.state = "warning"
        self.change = f"{self.change}; {change}" if self.change else change

    def explain(self, name: str, value: object, meaning: str) -> None:
        """Explain a value of a request or an answer."""
        self.explains.append(ExplainedValue(name, str(value), meaning))


class StageFailed(Exception):
    """A stage did not give what the next one needs."""

    def __init__(self, *, came: str, change: str, asked: str = "") -> None:
        super().__init__(came)
        self.asked = asked
        self.came = came
        self.change = change


AUTHORIZATION_PARAMETERS: Final = {
    "response_type": "asks for a code, which the client then exchanges for a token",
    "client_id": "names the client that asks",
    "redirect_uri": "where the browser takes the code; it has to be registered exactly like this",
    "state": "a random text that the redirect has to carry back, so that no other answer is taken",
    "code_challenge": "the SHA-256 digest of a secret (PKCE); only its owner can redeem the code",
    "code_challenge_method": "how the challenge is computed from the secret",
    "scope": "what the token shall allow",
    "resource": "the server that the token is for (RFC 8707)",
    "prompt": "asks for consent each time, which some servers want before a refresh token",
    "dpop_jkt": "the key that the code is bound to (DPoP)",
}
TOKEN_MEMBERS: Final = {
    "access_token": "sent to the server with every request",
    "token_type": "how it is sent",
    "expires_in": "seconds until it expires; short times are better",
    "refresh_token": "sent to the authorization server for the next token, never to the server",
    "scope": "what the token allows; if absent, what was asked for",
    "id_token": "says who signed in; it is not used here",
}
REGISTRATION_MEMBERS: Final = {
    "client_id": "the name that the client has at this authorization server",
    "client_secret": "proves that it is this client; it is kept in memory only",
    "client_secret_expires_at": "seconds since 1970; 0 if it does not expire",
    "token_endpoint_auth_method": "how the client authenticates at the token endpoint",
    "redirect_uris": "where codes may be sent",
    "grant_types": "what may be exchanged for a token",
    "scope": "the scopes that it may ask for",
}
RESOURCE_MEMBERS: Final = {
    "resource": "the server that tokens are for; the parameter resource has this value",
    "authorization_servers": "the issuers that protect the server",
    "scopes_supported": "the scopes that clients ask for if the challenge names none",
    "bearer_methods_supported": "how tokens may be sent",
    "resource_name": "the name for people",
}
SERVER_MEMBERS: Final = {
    "issuer": "has to be the issuer that the server names, character by character",
    "authorization_endpoint": "where the person signs in",
    "token_endpoint": "where codes and refresh tokens are exchanged",
    "registration_endpoint": "where clients register themselves",
    "device_authorization_endpoint": "where sign-in on another device begins",
    "code_challenge_methods_supported": "has to contain S256, otherwise clients stop",
    "grant_types_supported": "what can be exchanged for a token",
    "scopes_supported": "the scopes of all resources of this authorization server",
    "token_endpoint_auth_methods_supported": "how clients may authenticate",
    "client_id_metadata_document_supported": "whether the URL of a document may be a client ID",
    "authorization_response_iss_parameter_supported": "whether redirects name the issuer",
    "dpop_signing_alg_values_supported": "the signatures for tokens bound to a key (DPoP)",
}
CHALLENGE_PARAMETERS: Final = {
    "resource_metadata": "where the metadata of the server is",
    "scope": "the scopes that this request needs",
    "error": "why a token was refused",
    "error_description": "the same for people",
    "realm": "a name of what is protected; clients do not use it",
}
REDIRECT_PARAMETERS: Final = {
    "code": "what the client exchanges for a token; it works once",
    "state": "has to be the state of the authorization URL",
    "iss": "the issuer that answers; has to be the one that was asked (RFC 9207)",
    "error": "why there is no code",
    "error_description": "the same for people",
}
