"""Protected servers: how a client finds out whom to ask for a token, asks, and uses it."""

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from accord.check.fake_server.protected import (
    OPENID_METADATA,
    PROTECTED,
    SERVER_METADATA,
    ProtectedFakeServer,
    parse_fields,
)
from accord.check.fake_server.server import client_scenario, revisions_of

if TYPE_CHECKING:
    from accord.check.fake_server.client_run import ClientRun
    from accord.check.fake_server.http_transport import ReceivedRequest

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


def _sought(show: "ClientRun") -> bool:
    """Tell whether the client did anything about being refused."""
    return any(each.path not in PROTECTED for each in show.requests)


def _asked(show: "ClientRun", name: str) -> list["ReceivedRequest"]:
    actor = show.server
    place = actor.place if isinstance(actor, ProtectedFakeServer) else ""
    return [each for each in show.requests if each.path == f"{place}/{name}"]


def _discovered(show: "ClientRun") -> list["ReceivedRequest"]:
    return [
        each
        for each in show.requests
        if each.path.startswith((SERVER_METADATA, OPENID_METADATA))
        or each.path.endswith(OPENID_METADATA)
    ]


def _judge_flow(show: "ClientRun", *, knows_resource: bool) -> None:
    """Judge the requests for authorization and for a token, and how the token is used."""
    authorize, token = _asked(show, "authorize"), _asked(show, "token")
    for asked in authorize:
        _judge_authorize(show, asked)
    for asked in token:
        _judge_token(show, asked)
    if authorize and token and knows_resource:
        _judge_resource(show, authorize[-1], token[-1])
    actor = show.server
    if isinstance(actor, ProtectedFakeServer) and actor.tokens:
        show.passes("auth.http.oauth-flow", "auth.oauth21.implementations")
        _judge_use(show, actor)


def _judge_authorize(show: "ClientRun", asked: "ReceivedRequest") -> None:
    given = parse_fields(asked)
    challenge, method = given.get("code_challenge"), given.get("code_challenge_method")
    id = "auth.pkce.implemented"
    if show.holds(id, challenge, "asks for authorization without PKCE", asked=asked):
        why = f"asks with the challenge method {method}, not S256"
        show.holds("auth.pkce.s256", method == "S256", why, asked=asked)
    uri = given.get("redirect_uri")
    if uri is None:
        return
    parts = urlsplit(uri)
    # Loopback addresses are what localhost means, and schemes of native apps are no http.
    is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    why = f"asks to be redirected to {uri}"
    is_fine = parts.scheme == "https" or is_local or parts.scheme not in ("http", "")
    show.holds("auth.redirect.localhost-or-https", is_fine, why, asked=asked)
    actor = show.server
    known = (
        actor.clients.get(given.get("client_id", ""))
        if isinstance(actor, ProtectedFakeServer)
        else None
    )
    if known is not None:
        show.holds("auth.redirect.registered", uri in known or _is_loopback_of(uri, known), why)


def _is_loopback_of(uri: str, known: list[str]) -> bool:
    """Tell whether a redirect differs from a registered one by the port of a loopback alone."""
    parts = urlsplit(uri)
    return any(
        urlsplit(each)._replace(netloc="") == parts._replace(netloc="")
        and urlsplit(each).hostname == parts.hostname
        and parts.hostname in ("localhost", "127.0.0.1", "::1")
        for each in known
    )


def _judge_token(show: "ClientRun", asked: "ReceivedRequest") -> None:
    actor = show.server
    verified = (
        actor.verified[-1] if isinstance(actor, ProtectedFakeServer) and actor.verified else True
    )
    why = "asks for a token with a verifier that does not fit its challenge"
    show.holds("auth.pkce.implemented", verified, why)


def _judge_resource(
    show: "ClientRun", authorize: "ReceivedRequest", token: "ReceivedRequest"
) -> None:
    first, second = parse_fields(authorize).get("resource"), parse_fields(token).get("resource")
    why = "asks for authorization without the resource that it is for"
    if not show.holds("auth.resource-parameter.sent", first, why, asked=authorize):
        return
    why = "asks for a token without the resource that it is for"
    if not show.holds("auth.resource.both-requests", second, why, asked=token):
        return
    show.passes("auth.resource-indicators.client")
    url = f"{show.server.fake_transport.origin}{show.path}"
    for given in (first, second):
        parts = urlsplit(given or "")
        host = urlsplit(url).netloc
        is_canonical = bool(parts.scheme) and parts.netloc == host and "#" not in (given or "")
        why = f"names the resource {given}, the server is {url}"
        if show.holds("auth.resource.canonical", is_canonical, why):
            show.holds("auth.resource.most-specific", given == url, why)


def _judge_use(show: "ClientRun", actor: ProtectedFakeServer) -> None:
    since = show.requests.index(_asked(show, "token")[0])
    later = [each for each in show.requests[since:] if each.path in PROTECTED]
    for asked in show.requests:
        in_query = any(token in asked.query for token in actor.tokens)
        why = "puts the access token into the query"
        show.holds("auth.token.not-in-query", not in_query, why, asked=asked)
    for asked in later:
        given = asked.headers.get("authorization")
        in_query = any(token in asked.query for token in actor.tokens)
        if given is None:
            if not in_query:
                why = f"sends {asked.method} without the token it was given"
                show.holds("auth.every-request", condition=False, why=why, asked=asked)
            continue
        scheme, _, token = given.partition(" ")
        why = f"presents a token with the scheme {scheme}"
        if not show.holds("auth.token.bearer-header", scheme.lower() == "bearer", why, asked=asked):
            continue
        why = "sends a token that the server's authorization server did not issue"
        show.holds("auth.tokens.only-own-issuer", token.strip() in actor.tokens, why, asked=asked)
        show.passes("auth.every-request")


def _exclude(show: "ClientRun", why: str) -> None:
    for id in show.server.ids:
        show.not_applicable(id, why)


@client_scenario(
    *_FLOW,
    "auth.challenge.client-parses",
    "auth.challenge.client-reacts",
    "auth.prm.client-uses",
    "auth.as-metadata.client",
    on=("http", "sse"),
)
class WantsToken(ProtectedFakeServer):
    """Wants a token, and says where its metadata is."""

    async def judge(self, show: "ClientRun") -> None:
        if not _sought(show):
            _exclude(show, _NOT_AT_ALL)
            return
        show.passes("auth.challenge.client-reacts")
        named = any(each.path == self.names_metadata for each in show.requests)
        # Clients of 2025-03-26 know nothing of that metadata; the rows begin later.
        why = "does not fetch the metadata that the challenge names"
        id = "auth.challenge.client-parses"
        if show.holds(id, named, why):
            found = _discovered(show) or _asked(show, "authorize")
            why = "fetches the metadata of the server, and does not go on with what it names"
            show.holds("auth.prm.client-uses", found, why)
        if _asked(show, "authorize"):
            why = "asks for authorization without the metadata of the authorization server"
            show.holds("auth.as-metadata.client", _discovered(show), why)
        _judge_flow(show, knows_resource=True)


@client_scenario(
    "auth.discovery.base-url",
    "auth.discovery.protocol-version-header",
    "auth.dcr.implementations",
    *_FLOW[:9],
    on=("http", "sse"),
    revisions=revisions_of("auth.discovery.base-url"),
)
class WantsTokenOfItsOwn(ProtectedFakeServer):
    """Wants a token, and is its own authorization server, as in 2025-03-26."""

    names_metadata = None

    async def judge(self, show: "ClientRun") -> None:
        if not _sought(show):
            _exclude(show, _NOT_AT_ALL)
            return
        found = _discovered(show)
        roots = [each for each in found if each.path == SERVER_METADATA]
        if found:
            why = f"looks for metadata at {found[0].path} alone, not at the root"
            show.holds("auth.discovery.base-url", roots, why, asked=found[0])
        # Only who asked for this revision knew that it would be agreed on.
        if self.requested_revisions and self.requested_revisions[0] in self.revisions:
            for asked in roots:
                given = asked.headers.get("mcp-protocol-version")
                why = "looks for metadata without MCP-Protocol-Version"
                id = "auth.discovery.protocol-version-header"
                show.holds(id, given, why, asked=asked)
        if _asked(show, "register"):
            show.passes("auth.dcr.implementations")
        _judge_flow(show, knows_resource=False)


@client_scenario(
    "auth.fallback.default-paths",
    "auth.fallback.authorize-path",
    "auth.fallback.token-path",
    "auth.fallback.register-path",
    on=("http", "sse"),
    revisions=revisions_of("auth.discovery.base-url"),
)
class WantsTokenWithoutMetadata(ProtectedFakeServer):
    """Wants a token, and describes neither itself nor its authorization server."""

    names_metadata = None
    has_metadata = False
    place = ""

    async def judge(self, show: "ClientRun") -> None:
        tried = {each.path for each in show.requests if each.path not in PROTECTED}
        tried -= {path for path in tried if "/.well-known/" in path}
        if not _sought(show):
            _exclude(show, _NOT_AT_ALL)
        elif tried:
            for name in ("register", "authorize", "token"):
                if f"/{name}" in tried:
                    show.passes("auth.fallback.default-paths", f"auth.fallback.{name}-path")
            odd = sorted(tried - {"/register", "/authorize", "/token"} - {"/callback-of-the-check"})
            why = f"asks at {odd[0] if odd else ''} where there is no metadata"
            show.holds("auth.fallback.default-paths", not odd, why)
        elif self.requested_revisions and self.requested_revisions[0] in self.revisions:
            why = "gives up where there is no metadata, without trying the default paths"
            show.fail("auth.fallback.default-paths", why)


@client_scenario("auth.state.verified", on=("http", "sse"))
class AnswersWithAnotherState(ProtectedFakeServer):
    """Sends the client back with a state that is not its own."""

    state = "not-the-state-of-the-client"

    async def judge(self, show: "ClientRun") -> None:
        id = "auth.state.verified"
        authorize = _asked(show, "authorize")
        if not authorize:
            show.not_applicable(id, _NOT_AT_ALL)
        elif "state" not in parse_fields(authorize[0]):
            show.holds(id, condition=False, why="asks for authorization without a state")
        else:
            why = "takes a code that came with another state"
            show.holds(id, not _asked(show, "token"), why)
