"""The protected server of a client check, with its metadata and its authorization servers."""

import shlex
from collections.abc import Mapping
from typing import ClassVar, Final

from accord.types import JsonObject, RevisionId
from accord_tools.check.fake_server import launched
from accord_tools.check.fake_server.authorization_server import (
    CALLBACK,
    PREREGISTERED,
    FakeAuthorizationServer,
    IssuedGrant,
    json_response,
)
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.http_transport import CannedResponse, ReceivedRequest
from accord_tools.check.fake_server.server import FakeServer
from accord_tools.check.probing.messages import params_of

PROTECTED: Final = ("/mcp", "/sse", "/messages")
"""The paths of both HTTP transports."""

NOT_AT_ALL: Final = "the client does not ask for authorization, which is optional"
# These scopes belong to OpenID Connect and to refresh tokens, not to the server's operations.
_GENERAL: Final = frozenset({"openid", "profile", "email", "offline_access"})


class ProtectedFakeServer(FakeServer):
    """Requires a token of the authorization server that its metadata names.

    Attributes:
        names_metadata: the path of the resource metadata in the challenge; None for none.
        places: other paths of the resource metadata.
        scope: what the challenge asks for; None for no scope.
        scopes_supported: the scopes in the resource metadata; None for no such member.
        servers: the authorization servers.
        named: the one that the resource metadata names now.
        refused: for each request that was refused with a token, that request.
    """

    env: ClassVar[Mapping[str, str]] = {"BROWSER": shlex.join([*launched.COMMAND, "browse", "%s"])}
    names_metadata: str | None = "/metadata-of-the-server"
    places: tuple[str, ...] = ()
    scope: str | None = None
    scopes_supported: tuple[str, ...] | None = None

    def __init__(self, revision: RevisionId | None = None) -> None:
        super().__init__(revision)
        self.servers = self.make_servers()
        self.named = self.servers[0]
        self.refused: list[ReceivedRequest] = []

    def make_servers(self) -> list[FakeAuthorizationServer]:
        """Make the authorization servers; the resource metadata names the first one."""
        return [FakeAuthorizationServer()]

    @property
    def origin(self) -> str:
        """The scheme, host and port of the server."""
        return str(self.fake_transport.origin)

    @property
    def issuer(self) -> str:
        """The issuer that the resource metadata names."""
        return f"{self.origin}{self.named.path}"

    # -- answers

    def http(self, request: ReceivedRequest) -> CannedResponse | None:
        if request.path in PROTECTED:
            grant = self._find_grant(request)
            if grant is None:
                self._note_revision(request)
                return self.challenge()
            refusal = self.refuse(request, grant)
            if refusal is not None:
                self.refused.append(request)
            return refusal
        if request.path in (self.names_metadata, *self.places):
            return json_response(self.resource_metadata())
        for server in self.servers:
            answer = server.answer(request, self.origin)
            if answer is not None:
                return answer
        return CannedResponse(200 if request.path == CALLBACK else 404)

    def _note_revision(self, request: ReceivedRequest) -> None:
        """Note the revision that a client asks for: it may never get past this refusal."""
        message = request.message
        if request.name == "initialize" and isinstance(message, dict):
            named = params_of(message).get("protocolVersion")
            if isinstance(named, str):
                self.requested_revisions.append(named)

    def _find_grant(self, request: ReceivedRequest) -> IssuedGrant | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return self.named.find_grant(token.strip()) if scheme.lower() == "bearer" else None

    def refuse(self, request: ReceivedRequest, grant: IssuedGrant) -> CannedResponse | None:
        """Return the refusal of a request with a token; None accepts it."""
        return None

    def challenge(
        self, status: int = 401, *, scope: str | None = None, error: str | None = None
    ) -> CannedResponse:
        """Return a refusal that says how to get a token."""
        said = [] if error is None else [f'error="{error}"']
        if self.names_metadata is not None:
            said.append(f'resource_metadata="{self.origin}{self.names_metadata}"')
        if (asked := scope or self.scope) is not None:
            said.append(f'scope="{asked}"')
        return CannedResponse(status, {"www-authenticate": f"Bearer {', '.join(said)}".strip()})

    def resource_metadata(self) -> JsonObject:
        """Return the protected resource metadata."""
        made: JsonObject = {
            "resource": self.fake_transport.url,
            "authorization_servers": [self.issuer],
        }
        if self.scopes_supported is not None:
            made["scopes_supported"] = list(self.scopes_supported)
        return made

    # -- what the client did

    def was_tried(self, run: ClientRun) -> bool:
        """Return whether the client tried to get authorization; else nothing applies to it."""
        has_tried = any(each.path not in PROTECTED for each in run.requests)
        if not has_tried:
            run.not_applicable(self.ids, NOT_AT_ALL)
        return has_tried

    def requests_to(
        self, run: ClientRun, name: str, server: FakeAuthorizationServer | None = None
    ) -> list[ReceivedRequest]:
        """Return the requests to an endpoint of an authorization server, the named one if None."""
        path = f"{(server or self.named).endpoints}/{name}"
        return [each for each in run.requests if each.path == path]

    def place_of(self, request: ReceivedRequest) -> int:
        """Return the number of a request among all of them; their times may be the same."""
        return next(
            number for number, each in enumerate(self.fake_transport.requests) if each is request
        )

    @property
    def tokens(self) -> set[str]:
        """The access tokens that were issued."""
        return {grant.access_token for each in self.servers for grant in each.grants}

    def knows(self, client_id: str) -> bool:
        """Return whether a client is registered with one of the authorization servers."""
        return client_id == PREREGISTERED or any(each.knows(client_id) for each in self.servers)


def own_scopes(text: str) -> set[str]:
    """Return the scopes of a request that concern operations of the server."""
    return set(text.split()) - _GENERAL
