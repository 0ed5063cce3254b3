"""A protected fake server with its authorization server, which needs no user."""

import secrets
import shlex
from collections.abc import Callable, Mapping
from typing import ClassVar, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from accord.auth.client_identity import challenge_of
from accord.check.fake_server import launched
from accord.check.fake_server.http_transport import CannedResponse, ReceivedRequest
from accord.check.fake_server.server import FakeServer
from accord.types import JsonObject, RevisionId

# The paths of both HTTP transports.
PROTECTED: Final = ("/mcp", "/sse", "/messages")
SERVER_METADATA: Final = "/.well-known/oauth-authorization-server"
OPENID_METADATA: Final = "/.well-known/openid-configuration"


class ProtectedFakeServer(FakeServer):
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
        if request.path in PROTECTED:
            given = request.headers.get("authorization", "")
            scheme, _, token = given.partition(" ")
            is_known = scheme.lower() == "bearer" and token.strip() in self.tokens
            return None if is_known else self._challenge()
        if request.path == self.names_metadata:
            return _json(
                {"resource": self.fake_transport.url, "authorization_servers": [self.origin]}
            )
        if request.path in (SERVER_METADATA, OPENID_METADATA) and self.has_metadata:
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
        wanted = parse_fields(request)
        code = secrets.token_urlsafe(8)
        self.codes[code] = wanted
        back = {"code": code}
        if "state" in wanted or self.state is not None:
            back["state"] = wanted.get("state", "") if self.state is None else self.state
        target = wanted.get("redirect_uri", f"{self.origin}/callback-of-the-check")
        join = "&" if urlsplit(target).query else "?"
        return CannedResponse(302, {"location": f"{target}{join}{urlencode(back)}"})

    def _token(self, request: ReceivedRequest) -> CannedResponse:
        wanted = parse_fields(request)
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


def parse_fields(request: ReceivedRequest) -> dict[str, str]:
    """Return the fields of a form or a query."""
    text = request.query if request.method == "GET" else request.body.decode(errors="replace")
    return {name: values[0] for name, values in parse_qs(text).items()}


def _json(value: object, *, status: int = 200) -> CannedResponse:
    return CannedResponse(status, {"content-type": "application/json"}, msgspec.json.encode(value))
