"""A diagnosis of a server at a URL, from DNS to the first list of the server."""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from accord.auth.discovery import (
    ResourceMetadata,
    ServerMetadata,
    UnreadableMetadata,
    default_metadata,
    discover,
    find_resource_metadata,
)
from accord.auth.urls import canonical_resource
from accord.client import connect
from accord.errors import AccordError, FlowFailed, Unauthorized
from accord.http.client.auth import Auth, Bearer
from accord.http.client.guarded import AddressPolicy, GuardedSender, NoResponse
from accord.http.rules.headers import ACCEPT_BOTH, media_type
from accord.http.rules.responses import AuthChallenge, bearer_challenge, explain, quote_url
from accord.protocol.revisions import HANDSHAKE, REVISIONS, in_order
from accord_tools.diagnosis.steps import (
    DoctorStep,
    StepList,
    StepVerdict,
    Stopped,
    ask_first_list,
    check_tls,
    open_port,
    post_initialize,
    resolve_host,
    shown_reason,
)
from accord_tools.diagnosis.token_facts import token_facts

_EXPIRES_SOON: Final = 14 * 86_400
_BODY_LIMIT: Final = 4_096
_END_TIMEOUT: Final = 3.0
_METADATA: Final = frozenset({"resource metadata", "authorization server", "endpoints", "pkce"})
_REVISION: Final = re.compile(r"\b20\d\d-\d\d-\d\d\b")


class _ErrorResponse(msgspec.Struct):
    """The body of a refusal that is a JSON-RPC error."""

    error: dict[str, object]


class Diagnosis(StepList):
    """Connects to a server at a URL step by step, and keeps the result of each step.

    Args:
        url: of the server.
        auth: a token, or an `OAuth` that obtains one; None skips the steps that need one.
        seconds: how long one step may take.
        report: called with each step as soon as it is done.
        headers: sent to the server with every request.
        advise: rewrites advice for the reader, such as parameters as options.
    """

    unreachable = frozenset({"dns", "tcp", "tls"})

    def __init__(
        self,
        url: str,
        *,
        auth: Auth | None = None,
        seconds: float = 10.0,
        report: Callable[[DoctorStep], object] = lambda _step: None,
        headers: dict[str, str] | None = None,
        advise: Callable[[str], str] = str,
    ) -> None:
        super().__init__(url, report)
        self.url = url
        self._display_url = quote_url(url)
        self._auth = auth
        self._seconds = seconds
        self._headers = headers or {}
        self._advise = advise
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._is_secure = parts.scheme == "https"
        self._port = parts.port or (443 if self._is_secure else 80)
        self._challenge: AuthChallenge | None = None
        self._resource: ResourceMetadata | None = None
        self._is_protected = False
        # Whether clients cannot obtain a token, so that one is given to them.
        self._has_fixed_tokens = False

    async def run(self) -> None:
        """Take the steps in order, until one fails so that no further step makes sense."""
        with contextlib.suppress(Stopped):
            await self._check_network()
            await self._try_without_token()
            await self._discover()
            await self._initialize_and_list()

    def add(self, name: str, verdict: StepVerdict, *, change: str = "", **facts: str) -> None:
        """Note a step, with advice that fits this command."""
        super().add(name, verdict, change=self._advise(change), **facts)

    def _take(self, step: DoctorStep) -> None:
        self.add(step.name, step.verdict, change=step.change, asked=step.asked, came=step.came)
        if step.verdict == "failed":
            raise Stopped

    # -- the network

    async def _check_network(self) -> None:
        step, addresses = await resolve_host(self._host, self._port, self._seconds)
        self._take(step)
        self._take(await open_port(addresses, self._port, self._seconds))
        if self._is_secure:
            self._take(await check_tls(self._host, self._port, self._seconds))

    # -- the server

    async def _try_without_token(self) -> None:
        """Send `initialize` without a token and look at the answer."""
        asked = f"POST {self._display_url} initialize, without a token"
        try:
            async with asyncio.timeout(self._seconds):
                answer = await post_initialize(self.url, self._headers, client="accord doctor")
        except (OSError, TimeoutError, ValueError, AccordError) as error:
            change = "check the URL: this may not be an HTTP server"
            self.stop("http", asked=asked, came=shown_reason(error), change=change)
        status, headers, body = answer.status, answer.headers, answer.body
        kind = media_type(headers.get("Content-Type"))
        came = explain(status, kind, body) if status >= 300 else f"HTTP {status} {kind}".strip()
        if status < 300 and kind not in ACCEPT_BOTH.split(", "):
            change = "check the URL: MCP servers often end in /mcp"
            self.add("http", "warning", asked=asked, came=came, change=change)
        elif status < 300:
            self.add("http", "ok", asked=asked, came=f"{came}: open to every caller")
        elif status == 401:
            self._is_protected = True
            self.add("http", "ok", asked=asked, came=f"HTTP {status}: protected")
            values = headers.getall("WWW-Authenticate", [])
            self._has_fixed_tokens = await self._finds_no_metadata(values)
            self._read_challenge(values)
        elif newer := {*named_revisions(body)} & ({*REVISIONS} - {*HANDSHAKE}):
            came = f"HTTP {status}: no handshake, the server speaks {', '.join(newer)}"
            self.add("http", "ok", asked=asked, came=came)
        elif status in (404, 405) and await self._is_older_form():
            came = f"HTTP {status} to POST, events to GET: HTTP with SSE, the older form"
            self.add("http", "ok", asked=asked, came=came)
        elif status in (404, 405):
            change = "check the path; servers often use /mcp"
            self.add("http", "warning", asked=asked, came=came, change=change)
        elif 300 <= status < 400:
            place = quote_url(headers.get("Location", ""), self.url)
            change = f"use the URL that it redirects to, {place}"
            self.add("http", "warning", asked=asked, came=came, change=change)
        else:
            self.add("http", "failed", asked=asked, came=came, change=refusal_advice(body))
        return

    async def _is_older_form(self) -> bool:
        from accord_tools.check.probing.target import ServerTarget, find_form

        target = ServerTarget(
            name=self._display_url, url=self.url, headers=self._headers, patience=self._seconds
        )
        try:
            return await find_form(target) == "sse"
        except AccordError:
            return False

    async def _finds_no_metadata(self, values: list[str]) -> bool:
        """Whether nothing says how to obtain a token, and none is to be obtained."""
        challenge = bearer_challenge(values)
        if challenge is None or challenge.resource_metadata is not None:
            return False
        if not isinstance(self._auth, str | Bearer | None):
            return False
        async with self._metadata_sender() as sender:
            try:
                found = await sender.run(discover(self.url))
            except FlowFailed:
                return False
        return found.server.is_assumed

    def _metadata_sender(self) -> GuardedSender:
        # As clients use it.
        return GuardedSender(AddressPolicy.beside(self.url), seconds=self._seconds)

    def _read_challenge(self, values: list[str]) -> None:
        asked = "WWW-Authenticate of that answer"
        self._challenge = bearer_challenge(values)
        if self._challenge is None:
            came = values[0][:200] if values else "nothing"
            change = 'send WWW-Authenticate: Bearer resource_metadata="..."'
            return self.add("challenge", "warning", asked=asked, came=came, change=change)
        named = self._challenge.resource_metadata
        came = ", ".join(f"{name}={value[:100]}" for name, value in self._challenge.params.items())
        if named is None and not self._has_fixed_tokens:
            change = "name the metadata of the resource in resource_metadata"
            return self.add(
                "challenge", "warning", asked=asked, came=came or "Bearer", change=change
            )
        return self.add("challenge", "ok", asked=asked, came=came or "Bearer")

    # -- authorization

    async def _discover(self) -> None:
        if not self._is_protected:
            return
        if self._has_fixed_tokens:
            came = "none: clients cannot obtain a token, it is given to them"
            change = "nothing, if that is meant; else publish metadata (RFC 9728)"
            self.add("resource metadata", "skipped", came=came, change=change)
            return
        named = None if self._challenge is None else self._challenge.resource_metadata
        async with self._metadata_sender() as sender:
            self._resource = await self._find_resource(sender, named)
            server = await self._find_server(sender, named)
        if server is not None:
            self._check_server_metadata(server, AddressPolicy.beside(self.url))

    async def _find_resource(
        self, sender: GuardedSender, named: str | None
    ) -> ResourceMetadata | None:
        name, asked = "resource metadata", f"the metadata of {canonical_resource(self.url)}"
        try:
            found = await sender.run(find_resource_metadata(self.url, named=named))
        except FlowFailed as error:
            # Clients go on without metadata that the server did not announce.
            verdict: StepVerdict = "warning" if isinstance(error, UnreadableMetadata) else "failed"
            self.add(name, verdict, asked=error.asked, came=error.came, change=error.hint)
            return None
        if found is None:
            change = "publish it (RFC 9728); clients fall back to the rules of 2025-03-26"
            self.add(name, "warning", asked=asked, came="none", change=change)
        elif not found.authorization_servers:
            change = "name at least one in authorization_servers"
            came = "metadata without authorization servers"
            self.add(name, "failed", asked=found.url, came=came, change=change)
        else:
            came = f"{found.resource}, protected by {', '.join(found.authorization_servers)}"
            self.add(name, "ok", asked=f"GET {found.url}", came=came)
        return found

    async def _find_server(self, sender: GuardedSender, named: str | None) -> ServerMetadata | None:
        if self.failures:
            return None
        name = "authorization server"
        try:
            server = (await sender.run(discover(self.url, named=named))).server
        except FlowFailed as error:
            self.add(name, "failed", asked=error.asked, came=error.came, change=error.hint)
            return None
        if server.is_assumed:
            change = "publish authorization server metadata (RFC 8414)"
            came = f"no metadata; default paths such as {default_metadata(self.url).token_endpoint}"
            self.add(name, "warning", asked=server.issuer, came=came, change=change)
        else:
            self.add(name, "ok", asked=f"GET {server.url}", came=f"issuer {server.issuer}")
        return server

    def _check_server_metadata(self, server: ServerMetadata, policy: AddressPolicy) -> None:
        asked = server.url or server.issuer
        for endpoint in (server.authorization_endpoint, server.token_endpoint):
            try:
                policy.check_url(endpoint or "")
            except NoResponse as error:
                came = error.reason if endpoint else "an endpoint is missing"
                change = error.hint or "serve authorization and token endpoint over https"
                self.add("endpoints", "failed", asked=asked, came=came, change=change)
        if server.registration_endpoint is not None:
            self.add("registration", "ok", asked=asked, came=server.registration_endpoint)
        elif server.client_id_metadata_document_supported:
            came = "clients may use the URL of their metadata as client ID"
            self.add("registration", "ok", asked=asked, came=came)
        else:
            change = "clients need OAuth(client_id=...) or --client-id, registered by hand"
            came = "no registration_endpoint"
            self.add("registration", "warning", asked=asked, came=came, change=change)
        methods = server.code_challenge_methods_supported
        came = "not stated" if methods is None else ", ".join(methods) or "none"
        if server.refuses_pkce:
            change = "support PKCE with S256"
            self.add("pkce", "failed", asked=asked, came=came, change=change)
        elif methods is None and not server.is_assumed:
            change = (
                "publish code_challenge_methods_supported: some clients refuse servers without it"
            )
            self.add("pkce", "warning", asked=asked, came=came, change=change)
        else:
            self.add("pkce", "ok", asked=asked, came=came)

    # -- the protocol

    async def _initialize_and_list(self) -> None:
        # A given token needs no metadata; obtaining one does.
        is_given = isinstance(self._auth, str | Bearer)
        if self.failures and not (is_given and self.failures <= _METADATA):
            return
        if self._is_protected and self._auth is None:
            change = "add --oauth to obtain a token, or --bearer TOKEN"
            if self._has_fixed_tokens:
                change = "give it with --bearer TOKEN"
            self.add("token", "skipped", came="none was given", change=change)
            for name in ("initialize", "list"):
                self.add(name, "skipped", came="no token")
            return
        if self._is_protected and isinstance(self._auth, str):
            self._read_token(self._auth)
        elif self._is_protected:
            self._auth = _ShowingAuth(self._auth, self._read_token)
        asked = f"initialize at {self._display_url}"
        try:
            async with connect(
                self.url,
                auth=self._auth,
                headers=self._headers,
                timeout=self._seconds,
                connect_timeout=self._seconds,
            ) as client:
                info = client.server_info
                came = f"{info.name} {info.version}, revision {client.revision}"
                self.add("initialize", "ok", asked=asked, came=came)
                listed, came = await ask_first_list(client)
                self.add("list", "ok", asked=listed, came=came)
        except FlowFailed as error:
            came = f"{error.step}: {error.came}"
            self.add("token", "failed", asked=error.asked, came=came, change=error.hint)
        except Unauthorized as error:
            change = "give another token: this one is wrong, has expired, or is for another server"
            came = f"token refused: {error}"
            self.add("initialize", "failed", asked=asked, came=came, change=change)
        except AccordError as error:
            name = "list" if self.steps[-1].name == "initialize" else "initialize"
            self.add(name, "failed", asked=asked, came=str(error))

    def _read_token(self, token: str) -> None:
        asked = "the token itself, not verified here"
        came, faults = token_facts(token, self._resource, time.time())
        verdict: StepVerdict = "warning" if faults else "ok"
        self.add("token", verdict, asked=asked, came=came, change="; ".join(faults))


class _ShowingAuth:
    """Passes an auth on, and shows the first token that it obtains."""

    def __init__(self, inner: Any, show: Callable[[str], None]) -> None:
        self._inner = inner
        self._show = show
        self._has_shown = False

    async def token(self, resource_url: str) -> str | None:
        found: str | None = await self._inner.token(resource_url)
        if found is not None and not self._has_shown:
            self._has_shown = True
            self._show(found)
        return found

    async def challenged(self, challenge: Any) -> bool:
        again: bool = await self._inner.challenged(challenge)
        return again


def refusal_advice(body: bytes) -> str:
    """Return what to change after a refused initialize, from the error in its body."""
    spoken = named_revisions(body)
    if not spoken:
        return "see the log of the server"
    return (
        f"the server names {', '.join(spoken)}; accord speaks {', '.join(REVISIONS)}: let the "
        "server speak one of these, or use a client for the revision that it names"
    )


def named_revisions(body: bytes) -> list[str]:
    """Return the revisions that the error in a body names, besides the one asked for."""
    named: set[str] = set()
    with contextlib.suppress(ValueError, RecursionError):
        named = {*_REVISION.findall(str(msgspec.json.decode(body, type=_ErrorResponse).error))}
    return in_order(named - {[*HANDSHAKE][-1]})
