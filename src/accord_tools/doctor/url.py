"""A diagnosis of a server at a URL, from DNS to the first list of the server."""

import time
from collections.abc import Callable
from typing import Any, Final

from accord.auth.oauth import OAuth
from accord.auth.tokens import MemoryStore
from accord.client import connect
from accord.errors import AccordError, FlowFailed, Unauthorized
from accord.http.client.auth import Auth, Bearer
from accord.http.rules.responses import quote_url
from accord_tools.check.probing.target import is_older_form
from accord_tools.diagnosis.discovery import (
    ask_without_token,
    check_endpoints,
    check_network,
    find_resource,
    find_server,
)
from accord_tools.diagnosis.facts import AuthorizationFacts
from accord_tools.diagnosis.stages import Stage, StageFailed
from accord_tools.diagnosis.steps import DiagnosisStep, StepList, StepVerdict, ask_first_list
from accord_tools.diagnosis.token_facts import token_facts

_METADATA: Final = frozenset({"resource metadata", "authorization server", "endpoints", "pkce"})


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
        report: Callable[[DiagnosisStep], object] = lambda _step: None,
        headers: dict[str, str] | None = None,
        advise: Callable[[str], str] = str,
    ) -> None:
        super().__init__(url, report)
        self._auth = auth
        self._advise = advise
        obtains = not isinstance(auth, str | Bearer | None)
        self._facts = AuthorizationFacts(
            url=url,
            headers=headers or {},
            settings=auth if isinstance(auth, OAuth) else OAuth(store=MemoryStore()),
            client_name="accord doctor",
            is_older_form=is_older_form,
            obtains_token=obtains,
            timeout=seconds,
            seconds=seconds,
        )
        names = {each.lower() for each in self._facts.headers}
        self._has_own_header = auth is None and "authorization" in names

    async def run(self) -> None:
        """Take the steps in order, until one fails so that no further step makes sense."""
        facts = self._facts
        stages = [Stage(each, report=self._take) for each in _STAGES]
        network, challenge, *metadata = stages
        try:
            await check_network(facts, network)
            await ask_without_token(facts, challenge)
        except StageFailed:
            return
        if facts.has_fixed_tokens:
            came = "none: clients cannot obtain a token, it is given to them"
            change = "nothing, if that is meant; else publish metadata (RFC 9728)"
            self.add("resource metadata", "skipped", came=came, change=change)
        elif facts.status == 401:
            await self._discover(metadata)
        await self._initialize_and_list()

    async def _discover(self, stages: list[Stage]) -> None:
        for stage, make in zip(stages, (find_resource, find_server, check_endpoints), strict=True):
            try:
                await make(self._facts, stage)
            except StageFailed:
                return

    def _take(self, step: DiagnosisStep) -> None:
        self.add(step.name, step.verdict, change=step.change, asked=step.asked, came=step.came)

    def add(self, name: str, verdict: StepVerdict, *, change: str = "", **facts: str) -> None:
        """Note a step, with advice that fits this command."""
        super().add(name, verdict, change=self._advise(change), **facts)

    # -- the protocol

    async def _initialize_and_list(self) -> None:
        facts, is_protected = self._facts, self._facts.status == 401
        # A given token needs no metadata; obtaining one does.
        if self.failures and (facts.obtains_token or not self.failures <= _METADATA):
            return
        if is_protected and self._auth is None and not self._has_own_header:
            if self.failures:
                return
            change = "add --oauth to obtain a token, or --bearer TOKEN"
            if facts.has_fixed_tokens:
                change = "give it with --bearer TOKEN"
            self.add("token", "skipped", came="none was given", change=change)
            for name in ("initialize", "list"):
                self.add(name, "skipped", came="no token")
            return
        auth = self._auth
        if is_protected and isinstance(auth, str):
            self._read_token(auth)
        elif is_protected and auth is not None:
            auth = _ShowingAuth(auth, self._read_token)
        asked = f"initialize at {quote_url(facts.url)}"
        try:
            async with connect(
                facts.url,
                auth=auth,
                headers=facts.headers,
                timeout=facts.seconds,
                connect_timeout=facts.seconds,
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
        came, faults = token_facts(token, self._facts.resource, time.time())
        verdict: StepVerdict = "warning" if faults else "ok"
        self.add("token", verdict, asked=asked, came=came, change="; ".join(faults))


_STAGES: Final = ("network", "challenge", "resource", "server", "endpoints")


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
