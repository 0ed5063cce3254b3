"""A browser and a client of OAuth, written for tests: nothing of ours decides for them."""

import base64
import hashlib
import html
import json
import re
import secrets
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from accord.auth.authorization_server.endpoints import Endpoints
from accord.auth.authorization_server.models import (
    AuthorizationServerSettings,
    OAuthResponse,
    Request,
)
from accord.auth.authorization_server.state.store import AuthorizationStore
from accord.auth.authorization_server.store_source import open_file
from accord.auth.authorization_server.threads import DirectCalls, StoreLoop
from accord.sharing.backends.memory_backend import MemoryBackend

ISSUER = "https://auth.example"
RESOURCE = "https://auth.example/mcp"
RETURN = "http://127.0.0.1:3000/callback"
VERIFIER = "v" * 50
# Of "lovelace", as cheap as can be.
ADA = "scrypt$ln=1,r=8,p=1$4BJF+4JfixKszV43XYfc2A==$jzAlbcg1PuwSglawSI3C13podJAegR82I6+oBsTFxng="
# Named after the issuer.
COOKIE = f"__Host-accord-{hashlib.sha256(ISSUER.encode()).hexdigest()[:8]}"
FORM = "application/x-www-form-urlencoded"


def challenge_of(verifier: str) -> str:
    hashed = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()


class Answer:
    """An answer, read."""

    def __init__(self, response: OAuthResponse) -> None:
        self.status = response.status
        self.headers = dict(response.headers)
        self.text = response.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def error(self) -> str:
        return self.json["error"]

    @property
    def location(self) -> str:
        return self.headers["location"]

    @property
    def returned(self) -> dict[str, str]:
        """What the client gets when the browser is sent back."""
        return dict(parse_qsl(urlsplit(self.location).query))

    @property
    def hidden(self) -> dict[str, str]:
        """The hidden fields of the first form."""
        form = self.text.split("<form", 1)[1].split("</form>", 1)[0]
        found = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', form)
        return {name: html.unescape(value) for name, value in found}

    @property
    def action(self) -> str:
        found = re.search(r'<form method="post" action="([^"]*)"', self.text)
        assert found is not None, self.text
        return html.unescape(found[1])


def new_store(
    settings: AuthorizationServerSettings, clock: Callable[[], float]
) -> AuthorizationStore:
    """An empty store in memory."""
    backend = MemoryBackend(clock=clock)
    return AuthorizationStore(backend, DirectCalls(), client_ttl=settings.client_ttl, clock=clock)


def file_store(path: object = ":memory:") -> AuthorizationStore:
    """The state in a file."""
    return open_file(str(path), client_ttl=180 * 86_400.0)


@cache
def loop_thread() -> StoreLoop:
    """The loop of stores that need one."""
    return StoreLoop()


def desk_settings(**changed: Any) -> AuthorizationServerSettings:
    """The settings of a desk."""
    scopes = changed.setdefault("scopes", {"read": "Read your notes", "write": ""})
    usual = {"users": {"ada": ADA}, "default_scopes": tuple(scopes)}
    return AuthorizationServerSettings(**(usual | changed))


class Desk:
    """An authorization server without a network, a clock to turn, and a client and a browser."""

    def __init__(self, *, store: AuthorizationStore | None = None, **settings: Any) -> None:
        self.now = 1_000_000.0 if store is None else store.now()
        given = desk_settings(**settings)
        self.store = store or new_store(given, lambda: self.now)
        self.endpoints = Endpoints(self.store, given)
        self.resources: tuple[str, ...] = (RESOURCE,)
        self.cookie: str | None = None
        self.known: str | None = None
        self.address = "192.0.2.1"

    def send(
        self, method: str, path: str, *, query: str = "", body: bytes = b"", **headers: str
    ) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie is not None:
            known = f"; {COOKIE}-known={self.known}" if self.known else ""
            named["cookie"] = f"theme={{dark; {COOKIE}={self.cookie}; other=1{known}"
        request = Request(
            method=method,
            path=path,
            query=query,
            headers=named,
            body=body,
            address=self.address,
            issuer=ISSUER,
            resources=self.resources,
        )
        response = self.endpoints.respond(request, self.now)
        for name, value in response.headers:
            if name == "set-cookie":
                key, _, given = value.split(";")[0].partition("=")
                assert key in (COOKIE, f"{COOKIE}-known")
                if key == COOKIE:
                    self.cookie = given
                else:
                    self.known = given
        return Answer(response)

    # -- what a client does

    def register(self, **fields: Any) -> Answer:
        asked = {
            "redirect_uris": [RETURN],
            "client_name": "Notes",
            "token_endpoint_auth_method": "none",
        }
        body = json.dumps(asked | fields).encode()
        return self.send("POST", "/register", body=body, content_type="application/json")

    def client(self, **fields: Any) -> str:
        answer = self.register(**fields)
        assert answer.status == 201, answer.text
        found: str = answer.json["client_id"]
        return found

    def post(self, path: str, *, headers: dict[str, str] | None = None, **form: str) -> Answer:
        body = urlencode(form).encode()
        return self.send("POST", path, body=body, **({"content_type": FORM} | (headers or {})))

    def token(self, **form: str) -> Answer:
        return self.post("/token", **form)

    def redeem(self, client: str, code: str, **form: str) -> Answer:
        given = {
            "grant_type": "authorization_code",
            "client_id": client,
            "code": code,
            "code_verifier": VERIFIER,
            "redirect_uri": RETURN,
        }
        return self.token(**{k: v for k, v in (given | form).items() if v})

    def refresh(self, client: str, token: str, **form: str) -> Answer:
        return self.token(grant_type="refresh_token", client_id=client, refresh_token=token, **form)

    # -- what a browser and a person do

    def authorize(self, client: str, **changed: str | None) -> Answer:
        return self.send("GET", "/authorize", query=request_query(client, **changed))

    def submit(self, page: Answer, **fields: str) -> Answer:
        parts = urlsplit(page.action)
        body = urlencode(page.hidden | fields).encode()
        return self.send("POST", parts.path, query=parts.query, body=body, content_type=FORM)

    def follow(self, answer: Answer) -> Answer:
        assert answer.status == 303, answer.text
        parts = urlsplit(answer.location)
        return self.send("GET", parts.path, query=parts.query)

    def consent(self, client: str, **changed: str | None) -> Answer:
        """Log in where that is needed, and look at the consent page."""
        page = self.authorize(client, **changed)
        if 'name="password"' in page.text:
            page = self.follow(self.submit(page, name="ada", password="lovelace"))
        return page

    def allow(self, client: str, **changed: str | None) -> Answer:
        return self.submit(self.consent(client, **changed), decision="allow")

    def code(self, client: str, **changed: str | None) -> str:
        return self.allow(client, **changed).returned["code"]

    def tokens(self, client: str, **changed: str | None) -> dict[str, Any]:
        answer = self.redeem(client, self.code(client, **changed))
        assert answer.status == 200, answer.text
        found: dict[str, Any] = answer.json
        return found


async def person_at(url: str, *, name: str, password: str, decision: str = "allow") -> str:
    """Log in, decide, and return where the browser is sent, over the network."""
    import aiohttp

    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:

        async def asked(method: str, where: str, **form: str) -> Answer:
            body = {"data": form} if form else {}
            async with session.request(method, where, allow_redirects=False, **body) as came:
                headers = tuple((key.lower(), value) for key, value in came.headers.items())
                return Answer(
                    OAuthResponse(status=came.status, headers=headers, body=await came.read())
                )

        page = await asked("GET", url)
        given = {"name": name, "password": password}
        back = await asked("POST", page.action, **page.hidden, **given)
        page = await asked("GET", back.location)
        done = await asked("POST", page.action, **page.hidden, decision=decision)
        return done.location


def request_query(client: str, **changed: str | None) -> str:
    given: dict[str, str | None] = {
        "response_type": "code",
        "client_id": client,
        "redirect_uri": RETURN,
        "scope": "read",
        "state": "some state",
        "code_challenge": challenge_of(VERIFIER),
        "code_challenge_method": "S256",
        "resource": RESOURCE,
    }
    return urlencode({k: v for k, v in (given | changed).items() if v is not None})


def claims_of(token: str) -> dict[str, Any]:
    """What a token says, unverified."""
    body = token.split(".")[1]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return found


def basic(client: str, secret: str) -> dict[str, str]:
    pair = base64.b64encode(f"{client}:{secret}".encode()).decode()
    return {"authorization": f"Basic {pair}"}


def new_state() -> str:
    return secrets.token_urlsafe(8)


def query_of(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query)
