"""The protected server of a client check, with its metadata and its authorization servers."""

import secrets
import shlex
from collections.abc import Callable, Mapping
from typing import ClassVar, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from accord.auth.client_identity import challenge_of
from accord.types import JsonObject, RevisionId
from accord_tools.check.fake_server import launched
from accord_tools.check.fake_server.client_run import ClientRun
from accord_tools.check.fake_server.server import FakeServer
from accord_tools.check.fake_server.transports import CannedResponse, ReceivedRequest
from accord_tools.check.probing.messages import params_of

OAUTH: Final = "/.well-known/oauth-authorization-server"
OPENID: Final = "/.well-known/openid-configuration"
RESOURCE: Final = "/.well-known/oauth-protected-resource"
PREREGISTERED: Final = "accord-check-client"
"""The client id that every authorization server knows: `{client_id}` in the client's command."""

CALLBACK: Final = "/callback-of-the-check"
"""Where a browser goes if the client names no redirect URI."""


class IssuedGrant(msgspec.Struct, frozen=True):
    """What an authorization server issued."""

    access_token: str
    refresh_token: str | None
    scope: str
    client_id: str


class ConsentRequest(msgspec.Struct, frozen=True):
    """A request for a user's consent: its fields and when it came."""

    fields: Mapping[str, str]
    request: ReceivedRequest


class FakeAuthorizationServer:
    """Registers every client, and issues a token to each of them.

    Args:
        path: of the issuer; empty if it is the origin itself.
        endpoints: the path before the names of its endpoints.
        places: the paths of its metadata; by default the first one that a client tries.
        members: members of the metadata in place of the usual ones; None leaves one out.
        refreshes: whether it issues refresh tokens.

    Attributes:
        state: returned in place of the client's state; None returns the right one, "" none.
        iss: returned with each code, after the origin; None returns none.
        error: fields returned in place of a code.
        refusal: the error of a refused registration; None registers every client.
        registrations: the requests of clients that register.
        clients: the redirect URIs of each registered client.
        documents: what each of them said when it registered.
        asked: the requests for consent.
        token_requests: the requests for tokens.
        grants: what was issued.
        verified: for each code whether the verifier fits the challenge.
    """

    def __init__(
        self,
        path: str = "",
        *,
        endpoints: str = "/oauth",
        places: tuple[str, ...] | None = None,
        members: Mapping[str, object] = {},
        refreshes: bool = False,
    ) -> None:
        self.path = path
        self.endpoints = endpoints
        self.places = (f"{OAUTH}{path}",) if places is None else places
        self.members = members
        self.refreshes = refreshes
        self.state: str | None = None
        self.iss: str | None = None
        self.error: Mapping[str, str] = {}
        self.refusal: str | None = None
        self.registrations: list[ReceivedRequest] = []
        self.clients: dict[str, list[str]] = {}
        self.documents: dict[str, JsonObject] = {}
        self.asked: list[ConsentRequest] = []
        self.token_requests: list[ReceivedRequest] = []
        self.grants: list[IssuedGrant] = []
        self.verified: list[bool] = []
        self._codes: dict[str, Mapping[str, str]] = {}
        self._answers: dict[str, Callable[[ReceivedRequest, str], CannedResponse]] = {
            f"{endpoints}/register": self._register,
            f"{endpoints}/authorize": self._authorize,
            f"{endpoints}/token": self._issue,
        }

    @property
    def well_known(self) -> list[str]:
        """The paths at which a client looks for the metadata, in the order to try."""
        tried = [f"{OAUTH}{self.path}", f"{OPENID}{self.path}", f"{self.path}{OPENID}"]
        return list(dict.fromkeys(tried))

    def metadata(self, origin: str) -> JsonObject:
        """Return its metadata."""
        made = {
            "issuer": f"{origin}{self.path}",
            "authorization_endpoint": f"{origin}{self.endpoints}/authorize",
            "token_endpoint": f"{origin}{self.endpoints}/token",
            "registration_endpoint": f"{origin}{self.endpoints}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
            **self.members,
        }
        return {name: value for name, value in made.items() if value is not None}

    def answer(self, request: ReceivedRequest, origin: str) -> CannedResponse | None:
        """Answer a request; None if it is not for this server."""
        if request.path in self.places:
            return json_response(self.metadata(origin))
        answer = self._answers.get(request.path)
        return None if answer is None else answer(request, origin)

    def find_grant(self, token: str) -> IssuedGrant | None:
        """Return the grant of an access token."""
        return next((each for each in self.grants if each.access_token == token), None)

    def knows(self, client_id: str) -> bool:
        """Return whether a client is registered here."""
        return client_id in self.clients

    def _register(self, request: ReceivedRequest, origin: str) -> CannedResponse:
        self.registrations.append(request)
        if self.refusal is not None:
            said = {"error": self.refusal, "error_description": "this is not allowed here"}
            return json_response(said, status=400)
        given = request.message if isinstance(request.message, dict) else {}
        id = secrets.token_urlsafe(8)
        uris = given.get("redirect_uris")
        self.clients[id] = [str(each) for each in uris] if isinstance(uris, list) else []
        self.documents[id] = given
        made = {**given, "client_id": id, "token_endpoint_auth_method": "none"}
        return json_response(made, status=201)

    def _authorize(self, request: ReceivedRequest, origin: str) -> CannedResponse:
        fields = parse_fields(request)
        self.asked.append(ConsentRequest(fields, request))
        back = {name: value.replace("{origin}", origin) for name, value in self.error.items()}
        if not back:
            code = secrets.token_urlsafe(8)
            self._codes[code] = fields
            back["code"] = code
        if self.iss is not None:
            back["iss"] = self.iss.replace("{origin}", origin)
        state = fields.get("state", "") if self.state is None else self.state
        if state:
            back["state"] = state
        target = fields.get("redirect_uri") or f"{origin}{CALLBACK}"
        join = "&" if urlsplit(target).query else "?"
        return CannedResponse(302, {"location": f"{target}{join}{urlencode(back)}"})

    def _issue(self, request: ReceivedRequest, origin: str) -> CannedResponse:
        self.token_requests.append(request)
        fields = parse_fields(request)
        if fields.get("grant_type") == "refresh_token":
            return self._refresh(fields)
        begun = self._codes.pop(fields.get("code", ""), None)
        if begun is None:
            return json_response({"error": "invalid_grant"}, status=400)
        verifier = fields.get("code_verifier", "")
        is_plain = begun.get("code_challenge_method", "plain") == "plain"
        expected = verifier if is_plain else challenge_of(verifier)
        self.verified.append(begun.get("code_challenge") == expected)
        return self._grant(begun.get("scope", ""), begun.get("client_id", ""))

    def _refresh(self, fields: Mapping[str, str]) -> CannedResponse:
        given = fields.get("refresh_token", "")
        known = next((each for each in self.grants if given and each.refresh_token == given), None)
        if known is None:
            return json_response({"error": "invalid_grant"}, status=400)
        return self._grant(known.scope, known.client_id)

    def _grant(self, scope: str, client_id: str) -> CannedResponse:
        refresh = secrets.token_urlsafe(16) if self.refreshes else None
        grant = IssuedGrant(secrets.token_urlsafe(16), refresh, scope, client_id)
        self.grants.append(grant)
        said: JsonObject = {
            "access_token": grant.access_token,
            "token_type": "Bearer",
            "expires_in": 3600,
        }
        if scope:
            said["scope"] = scope
        if refresh is not None:
            said["refresh_token"] = refresh
        return json_response(said)


def parse_fields(request: ReceivedRequest) -> dict[str, str]:
    """Return the fields of a form or a query."""
    text = request.query if request.method == "GET" else request.body.decode(errors="replace")
    return {name: values[0] for name, values in parse_qs(text).items()}


def json_response(value: object, *, status: int = 200) -> CannedResponse:
    """Return a response with JSON."""
    return CannedResponse(status, {"content-type": "application/json"}, msgspec.json.encode(value))


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
