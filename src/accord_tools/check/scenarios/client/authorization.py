"""Protected servers: how a client finds their authorization server, gets a token and uses it."""

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.http_transport import ReceivedRequest
from accord_tools.check.fake_server.protected import (
    CALLBACK,
    NOT_AT_ALL,
    OAUTH,
    OPENID,
    PROTECTED,
    FakeAuthorizationServer,
    ProtectedFakeServer,
    parse_fields,
)
from accord_tools.check.fake_server.server import client_scenario, revisions_of
from accord_tools.check.scenarios.client.authorization_discovery import judge_forms
from accord_tools.check.scenarios.client.authorization_registration import (
    REGISTRATION,
    SELECTION,
    judge_challenged_scope,
    judge_registration,
)

_FLOW: Final = (
    "auth.http.oauth-flow",
    "auth.oauth21.implementations",
    "auth.pkce.implemented",
    "auth.pkce.s256",
    "auth.redirect.localhost-or-https",
    "auth.redirect.registered",
    "auth.token.bearer-header",
    "auth.token.not-in-query",
    "auth.every-request",
    "auth.tokens.only-own-issuer",
    "auth.resource-indicators.client",
    "auth.resource-parameter.sent",
    "auth.resource.both-requests",
    "auth.resource.canonical",
    "auth.resource.most-specific",
)


# Only a receiver that knows its requestors apart can bind tasks to them.
_TASKS: Final = (
    "tasks.security.bound-to-context",
    "tasks.security.foreign-rejected",
    "tasks.security.list-own-only",
)


def judge_flow(run: ClientRun, server: ProtectedFakeServer, *, knows_resource: bool) -> None:
    """Judge the requests for authorization and for a token, and how the token is used."""
    authorize, token = server.requests_to(run, "authorize"), server.requests_to(run, "token")
    for request in authorize:
        _judge_authorize(run, request, server.named.clients)
    if token:
        why = "asks for a token with a verifier that does not fit its challenge"
        run.holds("auth.pkce.implemented", all(server.named.verified[-1:]), why)
    if authorize and token and knows_resource:
        _judge_resource(run, authorize[-1], token[-1])
    if server.tokens:
        run.passes("auth.http.oauth-flow", "auth.oauth21.implementations")
        # A request that was sent before the token came back could not carry it.
        since = token[0].ended or token[0].at
        after = run.requests[run.requests.index(token[0]) :]
        _judge_use(run, [each for each in after if each.at >= since], server.tokens)


def _metadata_requests(run: ClientRun) -> list[ReceivedRequest]:
    return [each for each in run.requests if OAUTH in each.path or OPENID in each.path]


def _judge_authorize(
    run: ClientRun, request: ReceivedRequest, clients: Mapping[str, list[str]]
) -> None:
    given = parse_fields(request)
    challenge, method = given.get("code_challenge"), given.get("code_challenge_method")
    id = "auth.pkce.implemented"
    if run.holds(id, challenge, "asks for authorization without PKCE", request=request):
        why = f"asks with the challenge method {method}, not S256"
        run.holds("auth.pkce.s256", method == "S256", why, request=request)
    uri = given.get("redirect_uri")
    if uri is None:
        return
    parts = urlsplit(uri)
    # Loopback addresses mean localhost, and native apps use schemes other than http.
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    why = f"asks to be redirected to {uri}"
    is_fine = parts.scheme == "https" or is_local or parts.scheme not in ("http", "")
    run.holds("auth.redirect.localhost-or-https", is_fine, why, request=request)
    known = clients.get(given.get("client_id", ""))
    if known is not None:
        run.holds("auth.redirect.registered", uri in known or _is_loopback_of(uri, known), why)


def _is_loopback_of(uri: str, known: list[str]) -> bool:
    """Return whether a redirect differs from a registered one only by a loopback port."""
    parts = urlsplit(uri)
    return any(
        urlsplit(each)._replace(netloc="") == parts._replace(netloc="")
        and urlsplit(each).hostname == parts.hostname
        and parts.hostname in ("localhost", "127.0.0.1", "::1")
        for each in known
    )


def _judge_resource(run: ClientRun, authorize: ReceivedRequest, token: ReceivedRequest) -> None:
    first, second = parse_fields(authorize).get("resource"), parse_fields(token).get("resource")
    why = "asks for authorization without the resource that it is for"
    if not run.holds("auth.resource-parameter.sent", first, why, request=authorize):
        return
    why = "asks for a token without the resource that it is for"
    if not run.holds("auth.resource.both-requests", second, why, request=token):
        return
    run.passes("auth.resource-indicators.client")
    url = f"{run.server.fake_transport.origin}{run.path}"
    for given in (first, second):
        parts = urlsplit(given or "")
        host = urlsplit(url).netloc
        is_canonical = bool(parts.scheme) and parts.netloc == host and "#" not in (given or "")
        why = f"names the resource {given}, the server is {url}"
        if run.holds("auth.resource.canonical", is_canonical, why):
            run.holds("auth.resource.most-specific", given == url, why)


def _judge_use(run: ClientRun, later: list[ReceivedRequest], tokens: Collection[str]) -> None:
    def is_in_query(request: ReceivedRequest) -> bool:
        return any(token in request.query for token in tokens)

    for request in run.requests:
        why = "puts the access token into the query"
        run.holds("auth.token.not-in-query", not is_in_query(request), why, request=request)
    for request in later:
        given = request.headers.get("authorization")
        if request.path not in PROTECTED or (given is None and is_in_query(request)):
            continue
        if given is None:
            why = f"sends {request.method} without the token it was given"
            run.holds("auth.every-request", given, why, request=request)
            continue
        scheme, _, token = given.partition(" ")
        is_bearer, why = scheme.lower() == "bearer", f"presents a token with the scheme {scheme}"
        if run.holds("auth.token.bearer-header", is_bearer, why, request=request):
            is_own = token.strip() in tokens
            why = "sends a token that the server's authorization server did not issue"
            run.holds("auth.tokens.only-own-issuer", is_own, why, request=request)
            run.passes("auth.every-request")


@client_scenario(
    *_FLOW,
    *SELECTION,
    *REGISTRATION,
    *_TASKS,
    "auth.challenge.client-parses",
    "auth.challenge.client-reacts",
    "auth.prm.client-uses",
    "auth.as-metadata.client",
    "auth.client.discovery-both",
    on=("http", "sse"),
    era="both",
)
class RequiresToken(ProtectedFakeServer):
    """Requires a token, and names its metadata and a scope."""

    scope = "notes:read files:list"
    # Neither contains the other.
    scopes_supported = ("notes:read", "accounts:manage")

    def make_servers(self) -> list[FakeAuthorizationServer]:
        return [FakeAuthorizationServer(members={"scopes_supported": [*self.scopes_supported]})]

    async def judge(self, run: ClientRun) -> None:
        run.not_applicable(_TASKS, "a client gets no credentials from the server that asks it")
        if not self.was_tried(run):
            return
        run.passes("auth.challenge.client-reacts")
        named = any(each.path == self.names_metadata for each in run.requests)
        # Clients of 2025-03-26 do not know that metadata; the requirements begin later.
        why = "does not fetch the metadata that the challenge names"
        id = "auth.challenge.client-parses"
        if run.holds(id, named, why):
            found = _metadata_requests(run) or self.requests_to(run, "authorize")
            why = "fetches the metadata and ignores the authorization server in it"
            run.holds("auth.prm.client-uses", found, why)
        if self.requests_to(run, "authorize"):
            why = "asks for authorization without the metadata of the authorization server"
            run.holds("auth.as-metadata.client", _metadata_requests(run), why)
        judge_flow(run, self, knows_resource=True)
        judge_forms(run, self.named)
        judge_challenged_scope(run, self)
        judge_registration(run, self)


@client_scenario(
    "auth.discovery.base-url",
    "auth.discovery.protocol-version-header",
    "auth.dcr.implementations",
    *_FLOW[:9],
    on=("http", "sse"),
    revisions=revisions_of("auth.discovery.base-url"),
)
class IssuesItsOwnTokens(ProtectedFakeServer):
    """Requires a token, and is its own authorization server, as in 2025-03-26."""

    names_metadata = None

    def make_servers(self) -> list[FakeAuthorizationServer]:
        return [FakeAuthorizationServer(places=(OAUTH, OPENID))]

    async def judge(self, run: ClientRun) -> None:
        if not self.was_tried(run):
            return
        found = _metadata_requests(run)
        roots = [each for each in found if each.path == OAUTH]
        if found:
            why = f"looks for metadata at {found[0].path} alone, not at the root"
            run.holds("auth.discovery.base-url", roots, why, request=found[0])
        # Only a client that asked for this revision knew that it would be agreed on.
        if self.requested_revisions and self.requested_revisions[0] in self.revisions:
            for request in roots:
                given = request.headers.get("mcp-protocol-version")
                why = "looks for metadata without MCP-Protocol-Version"
                id = "auth.discovery.protocol-version-header"
                run.holds(id, given, why, request=request)
        if self.requests_to(run, "register"):
            run.passes("auth.dcr.implementations")
        judge_flow(run, self, knows_resource=False)


@client_scenario(
    "auth.fallback.default-paths",
    "auth.fallback.authorize-path",
    "auth.fallback.token-path",
    "auth.fallback.register-path",
    on=("http", "sse"),
    revisions=revisions_of("auth.discovery.base-url"),
)
class RequiresTokenWithoutMetadata(ProtectedFakeServer):
    """Requires a token, and publishes no metadata."""

    names_metadata = None

    def make_servers(self) -> list[FakeAuthorizationServer]:
        return [FakeAuthorizationServer(endpoints="", places=())]

    async def judge(self, run: ClientRun) -> None:
        tried = {each.path for each in run.requests if each.path not in PROTECTED}
        tried -= {path for path in tried if "/.well-known/" in path}
        if not self.was_tried(run):
            return
        if tried:
            for name in ("register", "authorize", "token"):
                if f"/{name}" in tried:
                    run.passes("auth.fallback.default-paths", f"auth.fallback.{name}-path")
            odd = sorted(tried - {"/register", "/authorize", "/token"} - {CALLBACK})
            why = f"asks at {odd[0] if odd else ''} although there is no metadata"
            run.holds("auth.fallback.default-paths", not odd, why)
        elif self.requested_revisions and self.requested_revisions[0] in self.revisions:
            why = "gives up when there is no metadata, without trying the default paths"
            run.fail("auth.fallback.default-paths", why)


@client_scenario("auth.state.verified", on=("http", "sse"), era="both")
class ReturnsAnotherState(ProtectedFakeServer):
    """Redirects the client with a state that it did not send."""

    state = "not-the-state-of-the-client"

    def make_servers(self) -> list[FakeAuthorizationServer]:
        server = FakeAuthorizationServer()
        server.state = self.state
        return [server]

    async def judge(self, run: ClientRun) -> None:
        id = "auth.state.verified"
        authorize = self.requests_to(run, "authorize")
        if not authorize:
            run.not_applicable(id, NOT_AT_ALL)
        elif "state" not in parse_fields(authorize[0]):
            run.fail(id, "asks for authorization without a state")
        else:
            came = "a different state" if self.state else "no state"
            why = f"accepts a code that arrived with {came}"
            run.holds(id, not self.requests_to(run, "token"), why)


@client_scenario("auth.state.verified", on=("http", "sse"), era="both")
class ReturnsNoState(ReturnsAnotherState):
    """Redirects the client without the state that it sent."""

    state = ""
