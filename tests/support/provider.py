"""An identity provider on a real socket that misbehaves on demand, and a browser for its users."""

import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import unescape
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

import jwt

from accord.auth import Upstream
from accord.auth.authorization_server.models import OAuthResponse
from support.issuer import jwk, private_key, unsigned
from support.oauth import RETURN, Answer, challenge_of
from support.waiting import LONG

SECRET = "the secret of the desk at the provider"


class Provider:
    """What the provider does, changed by tests, and what it saw.

    Every visitor is signed in at once, as `user`.
    """

    def __init__(self) -> None:
        self.url = ""
        self.user: dict[str, Any] = {
            "sub": "17",
            "name": "Ada",
            "email": "ada@example.com",
            "email_verified": True,
        }
        self.metadata: dict[str, Any] = {}
        self.response: dict[str, str | None] = {}
        self.claims: dict[str, Any] = {}
        self.token: dict[str, Any] = {}
        self.sign: Callable[[dict[str, Any]], str] = self.signed
        self.overrides: dict[str, Callable[[Any], tuple[int, str, bytes]]] = {}
        self.emails = [{"email": "ada@example.com", "verified": True, "primary": True}]
        self.codes: dict[str, dict[str, Any]] = {}
        self.access: dict[str, dict[str, Any]] = {}
        self.renewals: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    def upstream(self, **given: Any) -> Upstream:
        usual = {"issuer": self.url, "client_id": "desk", "client_secret": SECRET}
        return Upstream(**({"name": "fake", "allow": "everyone"} | usual | given))

    def github(self, **given: Any) -> Upstream:
        """The same provider without OpenID Connect, as GitHub is."""
        return Upstream(
            **{
                "name": "github",
                "client_id": "desk",
                "client_secret": SECRET,
                "allow": "everyone",
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "userinfo_endpoint": f"{self.url}/user",
                "emails_endpoint": f"{self.url}/user/emails",
                "scopes": ("read:user",),
                "subject_claims": ("id",),
            }
            | given
        )

    def count(self, path: str) -> int:
        return sum(each == path for each, _ in self.asked)

    def signed(self, claims: dict[str, Any]) -> str:
        headers = {"kid": "first", "typ": "JWT"}
        return jwt.encode(claims, private_key(), algorithm="ES256", headers=headers)

    def unsigned(self, claims: dict[str, Any]) -> str:
        return unsigned({"alg": "none", "typ": "JWT"}, **claims)

    # -- answers

    def answer(self, path: str, fields: dict[str, str], headers: Any) -> tuple[int, str, bytes]:
        self.asked.append((path, fields))
        if path in self.overrides:
            return self.overrides[path](fields)
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if path == "/.well-known/openid-configuration":
            return _json(200, self._metadata())
        if path == "/jwks":
            return _json(200, {"keys": [jwk()]})
        if path == "/authorize":
            return self._authorize(fields)
        if path == "/token":
            return self._token(fields)
        if path in ("/userinfo", "/user", "/user/emails"):
            if token not in self.access:
                return _json(401, {"error": "invalid_token"})
            user = self.access[token]
            more = {"id": int(user["sub"]), "login": user["name"].lower(), "email": None}
            shown = {"/userinfo": user, "/user": more, "/user/emails": self.emails}
            return _json(200, shown[path])
        return _json(404, {})

    def _metadata(self) -> dict[str, Any]:
        named = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri")
        paths = ("/authorize", "/token", "/userinfo", "/jwks")
        found = {name: f"{self.url}{path}" for name, path in zip(named, paths, strict=True)}
        return {"issuer": self.url, **found, **self.metadata}

    def _authorize(self, fields: dict[str, str]) -> tuple[int, str, bytes]:
        code = secrets.token_hex(8)
        self.codes[code] = {"user": dict(self.user), **fields}
        said = {"code": code, "state": fields["state"], **self.response}
        kept = {name: value for name, value in said.items() if value is not None}
        return 302, f"{fields['redirect_uri']}?{urlencode(kept)}", b""

    def _token(self, fields: dict[str, str]) -> tuple[int, str, bytes]:
        if fields["grant_type"] == "refresh_token":
            kept = self.renewals.pop(fields["refresh_token"], None)
            if kept is None:
                return _json(400, {"error": "invalid_grant"})
        else:
            kept = self.codes.pop(fields["code"], None)
            if kept is None or challenge_of(fields["code_verifier"]) != kept["code_challenge"]:
                return _json(400, {"error": "invalid_grant"})
        access, renewal, now = secrets.token_hex(8), secrets.token_hex(8), int(time.time())
        self.access[access] = kept["user"]
        self.renewals[renewal] = kept
        claims = {"iss": self.url, "aud": "desk", "iat": now, "exp": now + 600}
        claims |= kept["user"] | {"nonce": kept.get("nonce")} | self.claims
        said = {"access_token": access, "token_type": "bearer", "expires_in": 3600}
        said |= {"refresh_token": renewal}
        if "openid" in kept.get("scope", ""):
            id_claims = {name: value for name, value in claims.items() if value is not None}
            said["id_token"] = self.sign(id_claims)
        return _json(200, {k: v for k, v in (said | self.token).items() if v is not None})


def _json(status: int, said: Any) -> tuple[int, str, bytes]:
    return status, "", json.dumps(said).encode()


@contextmanager
def provider() -> Iterator[Provider]:
    """Run a provider."""
    playing = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("content-length", 0))
            body = self.rfile.read(size).decode()
            parts = urlsplit(self.path)
            fields = dict(parse_qsl(parts.query)) | dict(parse_qsl(body))
            status, location, sent = playing.answer(parts.path, fields, self.headers)
            self.send_response(status)
            if location:
                self.send_header("location", location)
            kind = "text/html" if sent.startswith(b"<") else "application/json"
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            try:
                self.wfile.write(sent)
            except OSError:  # the reader may have heard enough
                self.close_connection = True

        do_POST = do_GET  # noqa: N815  # the name that the library calls

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    playing.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield playing
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Browser:
    """A browser with a user: keeps cookies, follows redirects, fills in forms."""

    def __init__(self) -> None:
        self.cookies: dict[str, str] = {}
        self.visited: list[str] = []

    def send(self, method: str, url: str, body: str | None = None, **headers: str) -> Answer:
        """Send one request; redirects are not followed."""
        self.visited.append(url)
        parts = urlsplit(url)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["cookie"] = "; ".join(f"{key}={value}" for key, value in self.cookies.items())
        connection = HTTPConnection(parts.netloc, timeout=LONG)
        connection.request(method, f"{parts.path}?{parts.query}", body, named)
        came = connection.getresponse()
        for cookie in came.headers.get_all("set-cookie", []):
            key, _, value = cookie.split(";")[0].partition("=")
            self.cookies[key] = value
        pairs = tuple((name.lower(), value) for name, value in came.getheaders())
        answer = Answer(OAuthResponse(status=came.status, headers=pairs, body=came.read()))
        connection.close()
        answer.url = url  # type: ignore[attr-defined]
        return answer

    def open(self, url: str, *, until: str = "") -> Answer:
        """Open a URL and follow redirects, up to one that begins with `until` or to a program."""
        for _ in range(30):
            answer = self.send("GET", url)
            if answer.status not in (302, 303):
                return answer
            url = urljoin(url, answer.location)
            if "/callback?" in url and "/upstream/" not in url:
                return answer
            if until and url.startswith(until):
                return answer
        raise AssertionError("a loop of redirects")

    def submit(self, page: Answer, **fields: str) -> Answer:
        form = urlencode(page.hidden | fields)
        kind = "application/x-www-form-urlencoded"
        return self.send("POST", page.action, form, content_type=kind)

    def allow(self, url: str) -> str:
        """Sign in, allow the program, and return the URL of the redirect to it."""
        page = self.open(url)
        assert "decision" in page.text, page.text
        return self.submit(page, decision="allow").location


def links(page: Answer) -> list[str]:
    return [unescape(each) for each in re.findall(r'<a [^>]*href="([^"]*)"', page.text)]


class Program:
    """A client of OAuth that is registered with an authorization server."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self._browser = Browser()
        body = json.dumps({"redirect_uris": [RETURN], "token_endpoint_auth_method": "none"})
        kind = "application/json"
        reply = self._browser.send("POST", f"{issuer}/register", body, content_type=kind)
        self.client_id: str = reply.json["client_id"]

    def authorize_url(self, **changed: str) -> str:
        fields = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": RETURN,
            "state": "some state",
            "code_challenge": challenge_of("v" * 50),
            "code_challenge_method": "S256",
            "resource": f"{self.issuer}/mcp",
        }
        return f"{self.issuer}/authorize?{urlencode(fields | changed)}"

    def token(self, **form: str) -> Answer:
        kind = "application/x-www-form-urlencoded"
        fields = urlencode({"client_id": self.client_id, **form})
        return self._browser.send("POST", f"{self.issuer}/token", fields, content_type=kind)

    def redeem(self, location: str) -> Answer:
        code = dict(parse_qsl(urlsplit(location).query))["code"]
        return self.token(
            grant_type="authorization_code",
            code=code,
            code_verifier="v" * 50,
            redirect_uri=RETURN,
        )
