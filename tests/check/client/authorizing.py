"""A client that authorizes by the book, in both eras; a mutant can do every step otherwise."""

import asyncio
import base64
import hashlib
import json
import re
import secrets
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlencode, urlsplit

from accord_tools.check.fake_server.protected import PREREGISTERED
from check.client.raw import Gone, Message, Raw

OAUTH = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
RESOURCE = "/.well-known/oauth-protected-resource"
META = "io.modelcontextprotocol/"


class ByTheBook(Raw):
    """Gets a token when a server asks for one, and another where it does not suffice.

    Attributes:
        wants: fields of the request for consent in place of the usual ones; None leaves one out.
        sends: likewise, of the request for a token.
        says: likewise, members of a registration.
    """

    wants: ClassVar[Message] = {}
    sends: ClassVar[Message] = {}
    says: ClassVar[Message] = {}
    document: str | None = None
    given_id: str | None = None
    limit = 3

    def __init__(self, place: Any) -> None:
        super().__init__(place)
        self.ids: dict[str, str] = {}
        self.refresh_tokens: dict[str, str] = {}
        self.scopes: set[str] = set()
        self.attempts = 0
        self.seen = ""
        self.getting = asyncio.Lock()

    @property
    def origin(self) -> str:
        parts = urlsplit(self.place.url)
        return f"{parts.scheme}://{parts.netloc}"

    # -- refusals

    async def request(self, method: str, heads: dict[str, str], body: bytes | None) -> Any:
        while True:
            response = await super().request(method, heads, body)
            challenge = response.headers.get("WWW-Authenticate", "")
            is_short = response.status == 403 and "insufficient_scope" in challenge
            if (response.status != 401 and not is_short) or not self.may_try(challenge):
                return response
            response.close()
            async with self.getting:
                if heads.get("Authorization") == self.proof():
                    self.attempts += 1
                    await self.authorize(challenge)
            heads = {**heads, "Authorization": f"{self.scheme} {self.token}"}

    def proof(self) -> str | None:
        """Return the header that shows the token."""
        return None if self.token is None else f"{self.scheme} {self.token}"

    def may_try(self, challenge: str) -> bool:
        return self.attempts < 4

    # -- discovery

    async def get(self, url: str) -> Message | None:
        async with self.http.get(url) as response:
            return dict(await response.json()) if response.status == 200 else None

    async def first_of(self, urls: list[str]) -> Message | None:
        for url in urls:
            if (found := await self.get(url)) is not None:
                return found
        return None

    def resource_urls(self, challenge: str) -> list[str]:
        named = re.search(r'resource_metadata="([^"]*)"', challenge)
        path = urlsplit(self.place.url).path
        known = [f"{self.origin}{RESOURCE}{path}", f"{self.origin}{RESOURCE}"]
        return [named[1]] if named else known

    def server_urls(self, issuer: str) -> list[str]:
        path = issuer.removeprefix(self.origin)
        places = [f"{OAUTH}{path}", f"{OPENID}{path}", f"{path}{OPENID}"]
        return [f"{self.origin}{each}" for each in dict.fromkeys(places)]

    async def find_server(self, issuer: str) -> Message:
        for url in self.server_urls(issuer):
            found = await self.get(url)
            if found is not None and self.is_issuer(found.get("issuer", ""), issuer):
                self.seen = url
                return found
        raise Gone

    def is_issuer(self, named: str, issuer: str) -> bool:
        return named == issuer

    def proves_pkce(self, about: Message) -> bool:
        return "S256" in about.get("code_challenge_methods_supported", ())

    # -- the flow

    async def authorize(self, challenge: str) -> None:
        resource = await self.first_of(self.resource_urls(challenge)) or {}
        issuer = self.issuer_of(resource)
        about = await self.find_server(issuer)
        if not self.proves_pkce(about):
            raise Gone
        client = await self.client_for(issuer, about)
        if "insufficient_scope" not in challenge and await self.renew_token(issuer, about, client):
            return
        verifier = secrets.token_urlsafe(32)
        self.scopes = self.choose(challenge, resource, about)
        code = await self.consent(issuer, about, client, verifier)
        form = self.form(client, code, verifier)
        async with self.http.post(about["token_endpoint"], data=form) as response:
            self.keep(issuer, await response.json())

    def issuer_of(self, resource: Message) -> str:
        servers = resource.get("authorization_servers")
        return str(servers[0]) if servers else self.origin

    def keep(self, issuer: str, said: Message) -> None:
        self.token = said.get("access_token")
        if "refresh_token" in said:
            self.refresh_tokens[issuer] = said["refresh_token"]

    async def renew_token(self, issuer: str, about: Message, client: str) -> bool:
        known = self.refresh_tokens.pop(issuer, None)
        if known is None or self.token is None:
            return False
        return await self.refresh(issuer, about, client, known)

    async def refresh(self, issuer: str, about: Message, client: str, token: str | None) -> bool:
        form = {"grant_type": "refresh_token", "client_id": client, "refresh_token": token or ""}
        async with self.http.post(about["token_endpoint"], data=form) as response:
            if response.status != 200:
                return False
            self.keep(issuer, await response.json())
        return True

    def choose(self, challenge: str, resource: Message, about: Message) -> set[str]:
        """Choose scopes: those challenged and those before, or else all that there are."""
        named = re.search(r'scope="([^"]*)"', challenge)
        if named:
            return self.scopes | set(named[1].split())
        return set(resource.get("scopes_supported", ()))

    async def consent(self, issuer: str, about: Message, client: str, verifier: str) -> str:
        wanted = self.wanted(client, verifier)
        url = f"{about['authorization_endpoint']}?{urlencode(wanted)}"
        async with self.http.get(url, allow_redirects=False) as response:
            back = {
                name: values[0]
                for name, values in parse_qs(urlsplit(response.headers["Location"]).query).items()
            }
        if not self.is_ours(back.get("state", ""), wanted.get("state", "")):
            raise Gone
        if not await self.trusts(back.get("iss"), issuer, about):
            await self.distrust(back)
            raise Gone
        if "code" not in back:
            raise Gone
        return back["code"]

    async def trusts(self, iss: str | None, issuer: str, about: Message) -> bool:
        if iss is None:
            return not about.get("authorization_response_iss_parameter_supported")
        return self.is_same_iss(iss, issuer)

    def is_same_iss(self, iss: str, issuer: str) -> bool:
        return iss == issuer

    async def distrust(self, back: dict[str, str]) -> None:
        """Do nothing with a response of another issuer."""

    def wanted(self, client: str, verifier: str) -> dict[str, str]:
        digest = hashlib.sha256(verifier.encode()).digest()
        found = {
            "response_type": "code",
            "client_id": client,
            "redirect_uri": self.redirect(),
            "state": secrets.token_urlsafe(8),
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "resource": self.place.url,
        }
        if self.scopes:
            found["scope"] = " ".join(sorted(self.scopes))
        return self.changed(found, self.wants)

    def form(self, client: str, code: str, verifier: str) -> dict[str, str]:
        return self.changed(super().form(client, code, verifier), self.sends)

    def changed(self, usual: Message, other: Message) -> Message:
        """Change some members; texts may name the server."""
        made = {**usual, **other}
        named = {"url": self.place.url, "origin": self.origin}
        return {
            name: value.format_map(named) if isinstance(value, str) and "{" in value else value
            for name, value in made.items()
            if value is not None
        }

    # -- registration

    async def client_for(self, issuer: str, about: Message) -> str:
        if self.given_id is not None:
            return self.known_id(issuer)
        if self.document is not None and self.reads_documents(about):
            return self.document
        if issuer not in self.ids:
            self.ids[issuer] = await self.register(about)
        return self.ids[issuer]

    def known_id(self, issuer: str) -> str:
        """Return the id that was given, to the issuer it belongs to and to no other."""
        first = next(iter(self.ids), issuer)
        if issuer != first:
            raise Gone
        self.ids[issuer] = str(self.given_id)
        return self.ids[issuer]

    def reads_documents(self, about: Message) -> bool:
        return about.get("client_id_metadata_document_supported") is True

    async def register(self, about: Message) -> str:
        said = self.about_me()
        async with self.http.post(about["registration_endpoint"], json=said) as response:
            if response.status != 201:
                return await self.refused(about)
            return str((await response.json())["client_id"])

    async def refused(self, about: Message) -> str:
        raise Gone

    def about_me(self) -> Message:
        usual = {
            "redirect_uris": [self.redirect()],
            "client_name": "raw",
            "application_type": "native",
            "grant_types": ["authorization_code", "refresh_token"],
        }
        return self.changed(usual, self.says)


class Authorizing(ByTheBook):
    """Does little else than to authorize, one request after the other."""

    revision = "2025-11-25"
    capabilities: ClassVar[Message] = {}

    async def work(self) -> None:
        for method in ("tools/list", "resources/list", "prompts/list"):
            await self.ask(method, {})

    async def begin(self, opening: Message) -> None:
        self.agreed = opening["result"].get("protocolVersion")
        await self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def post(self, data: bytes) -> None:
        for _ in range(self.limit + 1):
            async with await Raw.request(self, "POST", self.head_of(data), data) as response:
                status = response.status
                if status in (200, 202):
                    self.session = response.headers.get("Mcp-Session-Id", self.session)
                    await self.take(response)
                    return
                challenge = response.headers.get("WWW-Authenticate", "")
            is_short = status == 403 and "insufficient_scope" in challenge
            if (status != 401 and not is_short) or not self.may_try(challenge):
                break
            self.attempts += 1
            await self.authorize(challenge)
        self.fail(data)

    def head_of(self, data: bytes) -> dict[str, str]:
        return self.head("POST")


class Stateless(Authorizing):
    """The same without a handshake: every request says all that there is to know."""

    revision = "2026-07-28"

    async def open(self) -> Message | None:
        return await self.ask("server/discover", {})

    def takes(self, revision: Any) -> bool:
        return True

    async def begin(self, opening: Message) -> None:
        self.agreed = self.revision

    async def ask(self, method: str, params: Message | None = None) -> Message | None:
        meta = {
            f"{META}protocolVersion": self.revision,
            f"{META}clientCapabilities": {},
            f"{META}clientInfo": {"name": "raw", "version": "1"},
        }
        return await super().ask(method, {**(params or {}), "_meta": meta})

    def head_of(self, data: bytes) -> dict[str, str]:
        return {
            **self.head("POST"),
            "MCP-Protocol-Version": self.revision,
            "Mcp-Method": json.loads(data)["method"],
        }

    async def give_up(self, id: Any) -> None:
        """Leave the stream: that cancels the request."""


class Known(Stateless):
    """Was given its id in advance."""

    given_id = PREREGISTERED
    options = ("{client_id}",)
