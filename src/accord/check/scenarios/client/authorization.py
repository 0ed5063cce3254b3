"""Protected servers: how a client finds their authorization server, gets a token and uses it."""

import secrets
import shlex
from collections.abc import Callable, Collection, Mapping
from typing import ClassVar, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from accord.auth.client_identity import challenge_of
from accord.check.fake_server import launched
from accord.check.fake_server.client_run import ClientRun
from accord.check.fake_server.http_transport import CannedResponse, ReceivedRequest
from accord.check.fake_server.server import FakeServer, client_scenario, revisions_of
from accord.types import JsonObject, RevisionId

# The paths of both HTTP transports.
_PROTECTED: Final = ("/mcp", "/sse", "/messages")
_SERVER_METADATA: Final = "/.well-known/oauth-authorization-server"
_OPENID_METADATA: Final = "/.well-known/openid-configuration"


class _ProtectedFakeServer(FakeServer):
    """Requires a token, and is the authorization server that issues it.

    Attributes:
        names_metadata: the path of the resource metadata in the challenge; None for no metadata.
        has_metadata: whether the authorization server publishes metadata.
        place: the path before the names of its endpoints.
        tokens: the issued tokens.
        state: returned in place of the client's state; None returns the right one.
    """

    env: ClassVar[Mapping[str, str]] = {"BROWSER": shlex.join([*launched.COMMAND, "browse", "%s"])}
    names_metadata: str | None = "/metadata-of-the-server"
    has_metadata = True
    place = "/oauth"
    state: str | None = None

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.tokens: set[str] = set()
        self.clients: dict[str, list[str]] = {}
        self.codes: dict[str, Mapping[str, str]] = {}
        self.verified: list[bool] = []

    @property
    def origin(self) -> str:
        """The scheme, host and port of the server."""
        return str(self.fake_transport.origin)

    def http(self, request: ReceivedRequest) -> CannedResponse | None:
        if request.path in _PROTECTED:
            given = request.headers.get("authorization", "")
            scheme, _, token = given.partition(" ")
            is_known = scheme.lower() == "bearer" and token.strip() in self.tokens
            return None if is_known else self._challenge()
        if request.path == self.names_metadata:
            return _json(
                {"resource": self.fake_transport.url, "authorization_servers": [self.origin]}
            )
        if request.path in (_SERVER_METADATA, _OPENID_METADATA) and self.has_metadata:
            return _json(self._metadata())
        answers: dict[str, Callable[[ReceivedRequest], CannedResponse]] = {
            f"{self.place}/register": self._register,
            f"{self.place}/authorize": self._authorize,
            f"{self.place}/token": self._token,
            "/callback-of-the-check": lambda _: CannedResponse(200),
        }
        answer = answers.get(request.path)
        return CannedResponse(404) if answer is None else answer(request)

    def _challenge(self) -> CannedResponse:
        said = "Bearer"
        if self.names_metadata is not None:
            said += f' resource_metadata="{self.origin}{self.names_metadata}"'
        return CannedResponse(401, {"www-authenticate": said})

    def _metadata(self) -> JsonObject:
        return {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}{self.place}/authorize",
            "token_endpoint": f"{self.origin}{self.place}/token",
            "registration_endpoint": f"{self.origin}{self.place}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
        }

    def _register(self, request: ReceivedRequest) -> CannedResponse:
        metadata = request.message if isinstance(request.message, dict) else {}
        id = secrets.token_urlsafe(8)
        uris = metadata.get("redirect_uris")
        self.clients[id] = [str(each) for each in uris] if isinstance(uris, list) else []
        return _json(
            {**metadata, "client_id": id, "token_endpoint_auth_method": "none"}, status=201
        )

    def _authorize(self, request: ReceivedRequest) -> CannedResponse:
        wanted = _parse_fields(request)
        code = secrets.token_urlsafe(8)
        self.codes[code] = wanted
        back = {"code": code}
        if "state" in wanted or self.state is not None:
            back["state"] = wanted.get("state", "") if self.state is None else self.state
        target = wanted.get("redirect_uri", f"{self.origin}/callback-of-the-check")
        join = "&" if urlsplit(target).query else "?"
        return CannedResponse(302, {"location": f"{target}{join}{urlencode(back)}"})

    def _token(self, request: ReceivedRequest) -> CannedResponse:
        wanted = _parse_fields(request)
        begun = self.codes.pop(wanted.get("code", ""), None)
        if begun is None:
            return _json({"error": "invalid_grant"}, status=400)
        verifier = wanted.get("code_verifier", "")
        is_plain = begun.get("code_challenge_method", "plain") == "plain"
        expected = verifier if is_plain else challenge_of(verifier)
        self.verified.append(begun.get("code_challenge") == expected)
        token = secrets.token_urlsafe(16)
        self.tokens.add(token)
        return _json({"access_token": token, "token_type": "Bearer", "expires_in": 3600})

    # -- how a client gets its token, and how it uses it

    def was_tried(self, run: ClientRun) -> bool:
        """Return whether the client tried to get authorization; else nothing applies to it."""
        has_tried = any(each.path not in _PROTECTED for each in run.requests)
        if not has_tried:
            run.not_applicable(self.ids, _NOT_AT_ALL)
        return has_tried

    def requests_to(self, run: ClientRun, name: str) -> list[ReceivedRequest]:
        """Return the requests to an endpoint of the authorization server."""
        return [each for each in run.requests if each.path == f"{self.place}/{name}"]

    def judge_flow(self, run: ClientRun, *, knows_resource: bool) -> None:
        """Judge the requests for authorization and for a token, and how the token is used."""
        authorize, token = self.requests_to(run, "authorize"), self.requests_to(run, "token")
        for request in authorize:
            _judge_authorize(run, request, self.clients)
        if token:
            why = "asks for a token with a verifier that does not fit its challenge"
            run.holds("auth.pkce.implemented", all(self.verified[-1:]), why)
        if authorize and token and knows_resource:
            _judge_resource(run, authorize[-1], token[-1])
        if self.tokens:
            run.passes("auth.http.oauth-flow", "auth.oauth21.implementations")
            since = run.requests.index(token[0])
            _judge_use(run, run.requests[since:], self.tokens)


def _parse_fields(request: ReceivedRequest) -> dict[str, str]:
    """Return the fields of a form or a query."""
    text = request.query if request.method == "GET" else request.body.decode(errors="replace")
    return {name: values[0] for name, values in parse_qs(text).items()}


def _json(value: object, *, status: int = 200) -> CannedResponse:
    return CannedResponse(status, {"content-type": "application/json"}, msgspec.json.encode(value))


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
_NOT_AT_ALL: Final = "the client does not ask for authorization, which is optional"


def _metadata_requests(run: ClientRun) -> list[ReceivedRequest]:
    return [
        each
        for each in run.requests
        if each.path.startswith((_SERVER_METADATA, _OPENID_METADATA))
        or each.path.endswith(_OPENID_METADATA)
    ]


def _judge_authorize(
    run: ClientRun, request: ReceivedRequest, clients: Mapping[str, list[str]]
) -> None:
    given = _parse_fields(request)
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
    first, second = _parse_fields(authorize).get("resource"), _parse_fields(token).get("resource")
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
        if request.path not in _PROTECTED or (given is None and is_in_query(request)):
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
    "auth.challenge.client-parses",
    "auth.challenge.client-reacts",
    "auth.prm.client-uses",
    "auth.as-metadata.client",
    on=("http", "sse"),
)
class RequiresToken(_ProtectedFakeServer):
    """Requires a token, and names its metadata."""

    async def judge(self, run: ClientRun) -> None:
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
        self.judge_flow(run, knows_resource=True)


@client_scenario(
    "auth.discovery.base-url",
    "auth.discovery.protocol-version-header",
    "auth.dcr.implementations",
    *_FLOW[:9],
    on=("http", "sse"),
    revisions=revisions_of("auth.discovery.base-url"),
)
class IssuesItsOwnTokens(_ProtectedFakeServer):
    """Requires a token, and is its own authorization server, as in 2025-03-26."""

    names_metadata = None

    async def judge(self, run: ClientRun) -> None:
        if not self.was_tried(run):
            return
        found = _metadata_requests(run)
        roots = [each for each in found if each.path == _SERVER_METADATA]
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
        self.judge_flow(run, knows_resource=False)


@client_scenario(
    "auth.fallback.default-paths",
    "auth.fallback.authorize-path",
    "auth.fallback.token-path",
    "auth.fallback.register-path",
    on=("http", "sse"),
    revisions=revisions_of("auth.discovery.base-url"),
)
class RequiresTokenWithoutMetadata(_ProtectedFakeServer):
    """Requires a token, and publishes no metadata."""

    names_metadata = None
    has_metadata = False
    place = ""

    async def judge(self, run: ClientRun) -> None:
        tried = {each.path for each in run.requests if each.path not in _PROTECTED}
        tried -= {path for path in tried if "/.well-known/" in path}
        if not self.was_tried(run):
            return
        if tried:
            for name in ("register", "authorize", "token"):
                if f"/{name}" in tried:
                    run.passes("auth.fallback.default-paths", f"auth.fallback.{name}-path")
            odd = sorted(tried - {"/register", "/authorize", "/token"} - {"/callback-of-the-check"})
            why = f"asks at {odd[0] if odd else ''} although there is no metadata"
            run.holds("auth.fallback.default-paths", not odd, why)
        elif self.requested_revisions and self.requested_revisions[0] in self.revisions:
            why = "gives up when there is no metadata, without trying the default paths"
            run.fail("auth.fallback.default-paths", why)


@client_scenario("auth.state.verified", on=("http", "sse"))
class ReturnsAnotherState(_ProtectedFakeServer):
    """Redirects the client with a state that it did not send."""

    state = "not-the-state-of-the-client"

    async def judge(self, run: ClientRun) -> None:
        id = "auth.state.verified"
        authorize = self.requests_to(run, "authorize")
        if not authorize:
            run.not_applicable(id, _NOT_AT_ALL)
        elif "state" not in _parse_fields(authorize[0]):
            run.fail(id, "asks for authorization without a state")
        else:
            why = "accepts a code that arrived with a different state"
            run.holds(id, not self.requests_to(run, "token"), why)
