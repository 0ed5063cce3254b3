"""The proxy itself: a source whose entries are those of another server."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Unpack
from urllib.parse import urlsplit

import msgspec

from accord.client.connect import Target, suggest_target
from accord.compose.proxies.calls import PassedRequest, read_passing
from accord.compose.proxies.catalog import LOOP, VIA
from accord.compose.proxies.options import ProxyOptions, read_options
from accord.errors import (
    AccordError,
    AuthError,
    ConnectFailed,
    ConnectionClosed,
    InternalError,
    MissingCapability,
    RemoteProtocolError,
    RequestError,
    RequestTimeout,
    UrlElicitationRequired,
)
from accord.protocol.exchange import Exchange
from accord.server.context import Context
from accord.server.entries.entry import ENTRY_KINDS, LIST_OF, EntryKind
from accord.server.entries.tools import failure, require_pages
from accord.server.questions.channels import find_questions
from accord.server.sources.source import Source

if TYPE_CHECKING:
    from accord.compose.proxies.upstream import UpstreamServer
    from accord.server.entries.entry import Entry
    from accord.server.session import Session
    from accord.types import CallToolParams, Implementation, RevisionId

# A chain of proxies that is longer than this is a mistake.
_LONGEST_CHAIN: Final = 16
# The variable that a launched server finds the proxies in through which it was launched.
CHAIN: Final = "ACCORD_PROXY_CHAIN"


def proxy(
    target: Target | Mapping[str, Any], *, name: str | None = None, **options: Unpack[ProxyOptions]
) -> "ProxySource":
    """Return another server as a source to mount.

    Both sides keep their own revision: what the other server offers, asks and reports is translated
    into that of each client, and back.

    Args:
        target: as that of `connect`: a command as a list, a Python file, a URL; or an entry of a
            host's configuration, such as `{"command": "uvx", "args": ["some-server"]}`.
        name: names it in messages; by default made from the target.
        options: see `ProxyOptions`.

    Raises:
        TypeError: the target is of another type, or an option does not exist.
        ValueError: the target is a text that cannot be one, or an option has a wrong value.
    """
    if isinstance(target, Mapping):
        from accord.client.configuration import read_entry

        entry = read_entry(name or "proxy", target)
        given: Any = {**entry.options, **options}
        target, options = entry.target, given
    check_target(target)
    return ProxySource(name or _name_of(target), target, options)


def check_target(target: object) -> None:
    """Refuse what cannot be a target; whether a server is there shows at the start.

    Raises:
        TypeError: it is of another type.
        ValueError: it is a text that is neither a URL nor a Python file.
    """
    if hasattr(target, "connect_memory"):
        return
    if isinstance(target, str | os.PathLike):
        text = os.fspath(target)
        if text.endswith((".json", ".jsonc")):
            raise ValueError(
                f"{text!r} is a configuration: configuration_server() serves all its servers"
            )
        if not text.lower().startswith(("http://", "https://")) and not text.endswith(".py"):
            raise ValueError(
                f"{text[:200]!r} is neither a URL nor a Python file; {suggest_target(text)}"
            )
    elif not isinstance(target, Sequence) or not target:
        raise TypeError(
            "a target is a command as a list, a Python file, a URL, an entry of a configuration "
            f"or a Server, not {target!r:.80}"
        )


class ProxySource(Source):
    """A source whose entries are those of another server; made by `proxy`.

    Attributes:
        info: name and version of the other server; None before it was reached.
        instructions: how it wants to be used, in its own words.
        revision: the one that is spoken with it.
    """

    def __init__(self, name: str, target: Target, options: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.policy, self._settings = read_options(options)
        self.target = target
        self._entries: dict[EntryKind, tuple[Entry, ...]] = dict.fromkeys(ENTRY_KINDS, ())
        self._upstreams: dict[asyncio.AbstractEventLoop, UpstreamServer] = {}
        self._id = secrets.token_hex(8)
        self.instructions: str | None = None
        self.info: Implementation | None = None
        self.revision: RevisionId | None = None
        # Whether its entries were read; before, a view of it may name some that are to come.
        self.is_complete = False

    def __repr__(self) -> str:
        return f"proxy({self.name!r})"

    # -- as a source

    def entries(self, kind: EntryKind) -> "Sequence[Entry]":
        return self._entries[kind]

    def set_entries(self, kind: EntryKind, entries: "Sequence[Entry]") -> None:
        """Replace what the other server offers."""
        old = self._entries[kind]
        new = tuple(entries)
        if [_listed_part(entry) for entry in old] == [_listed_part(entry) for entry in new]:
            return
        self._entries[kind] = new
        self.list_changed(LIST_OF[kind])

    def find_unlisted(self, uri: str) -> "Entry | None":
        """Return a resource that the other server may have although it does not list it."""
        from accord.compose.proxies.entries import build_unlisted

        found = self._upstreams.get(asyncio.get_running_loop())
        connection = None if found is None else found.catalog.connection
        if connection is None or connection.client.capabilities.resources is None:
            return None
        return build_unlisted(self, uri)

    @asynccontextmanager
    async def run_lifespan(self) -> AsyncIterator[None]:
        from accord.compose.proxies.upstream import UpstreamServer

        loop = asyncio.get_running_loop()
        upstream = UpstreamServer(self, self.target, self.policy, self._settings)
        self._upstreams[loop] = upstream
        try:
            await upstream.start()
            yield
        finally:
            self._upstreams.pop(loop, None)
            await upstream.end()

    @property
    def upstream(self) -> "UpstreamServer":
        """The connections on the running loop.

        Raises:
            InternalError: the proxy is not in use there.
        """
        found = self._upstreams.get(asyncio.get_running_loop())
        if found is None:
            raise InternalError(f"{self!r} is not running: its server is not being served")
        return found

    # -- requests

    async def call_tool(
        self,
        session: "Session",
        exchange: Exchange,
        params: "CallToolParams",
        context: Context[object] | None,
        *,
        is_task: bool = False,
    ) -> Any:
        """Call a tool of the other server; where it cannot be reached, the result says so."""
        try:
            return await self._pass(session, exchange, params, is_task=is_task)
        except RequestError as error:
            explained = _explain(error, exchange)
            if isinstance(explained, UrlElicitationRequired):
                return require_pages(explained, context or session.context(exchange))
            if isinstance(explained, MissingCapability) and exchange.revision.handshake:
                return failure(explained.message)
            raise explained from None
        except AccordError as error:
            (context or session.context(exchange))._fail(error)
            return failure(self._describe(error))
        except BaseException as error:
            questions = find_questions(error, exchange)
            if questions is None:
                raise
            return questions

    async def ask(self, session: "Session", exchange: Exchange, params: Any) -> Any:
        """Pass on a request other than a tool call.

        Raises:
            RequestError: the other server answered with an error, or cannot be reached.
        """
        try:
            return await self._pass(session, exchange, params)
        except RequestError as error:
            explained = _explain(error, exchange)
            if isinstance(explained, UrlElicitationRequired):
                from accord.server.entries.entry import require_pages as require

                return require(explained, session.context(exchange))
            raise explained from None
        except AccordError as error:
            raise InternalError(self._describe(error)) from error
        except BaseException as error:
            questions = find_questions(error, exchange)
            if questions is None:
                raise
            return questions

    def _pass(
        self, session: "Session", exchange: Exchange, params: Any, *, is_task: bool = False
    ) -> Coroutine[Any, Any, Any]:
        passing = read_passing(exchange, type(params))
        self._extend_via(passing.meta)
        request = PassedRequest(self.upstream, session, exchange, params, passing, is_task=is_task)
        return request.serve()

    def _describe(self, error: AccordError) -> str:
        """Return what a client learns of a failure: not the addresses and texts of the server."""
        if isinstance(error, RequestTimeout):
            return f"{self.name}: no answer in time"
        if isinstance(error, RemoteProtocolError):
            return f"{self.name}: its answer breaks the protocol ({error})"[:500]
        if isinstance(error, AuthError):
            return f"{self.name}: it refuses access"
        if isinstance(error, ConnectFailed | ConnectionClosed):
            return f"{self.name}: it is not available"
        return f"{self.name}: {error}"[:500]

    # -- loops

    def via_meta(self) -> dict[str, Any]:
        """Return the member of `_meta` that names this proxy."""
        return {VIA: [self._id]}

    def _extend_via(self, meta: dict[str, Any]) -> None:
        """Add this proxy to those that a request has passed.

        Raises:
            InternalError: it has passed this one already.
        """
        passed: object = []
        if VIA in meta:
            passed = msgspec.json.decode(meta[VIA])
        if not isinstance(passed, list):
            passed = []
        self.check_via(passed)
        meta[VIA] = [*passed, self._id]

    def check_via(self, passed: Sequence[object]) -> None:
        """Refuse a request that has passed this proxy already.

        Raises:
            InternalError: it has, or it has passed too many.
        """
        if self._id in passed:
            raise InternalError(
                f"{self!r} leads back to its own server: that is a loop", data=dict(LOOP)
            )
        if len(passed) >= _LONGEST_CHAIN:
            raise InternalError(f"{self!r}: the request has passed {len(passed)} proxies")

    async def check_loop(self, passed: Sequence[object]) -> None:
        """Refuse a request that leads back to a proxy that it has passed, here or further on.

        Raises:
            InternalError: it does.
        """
        self.check_via(passed)
        found = self._upstreams.get(asyncio.get_running_loop())
        if found is not None:
            await found.catalog.probe({VIA: [*passed, self._id]})

    def with_chain(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return settings that let a launched server know the proxies on the way to it.

        Raises:
            ConnectFailed: this one is among them.
        """
        if not _is_launched(self.target):
            return settings
        chain = [each for each in os.environ.get(CHAIN, "").split(os.pathsep) if each]
        own = _chain_name(self.target, self._settings.get("cwd"))
        if own in chain or len(chain) >= _LONGEST_CHAIN:
            raise ConnectFailed(
                f"{self!r} launches itself: the server that it launches would launch it again",
                phase="starting",
            )
        chained = {CHAIN: os.pathsep.join([*chain, own])}
        return {**settings, "env": {**(settings.get("env") or {}), **chained}}


def _is_launched(target: Target) -> bool:
    if hasattr(target, "connect_memory"):
        return False
    return not (isinstance(target, str) and "://" in target)


def _listed_part(entry: Any) -> tuple[object, ...]:
    return entry.key, entry.item, entry.unknown


def _explain(error: RequestError, exchange: Exchange) -> RequestError:
    """Return an error of the other server as one of ours, with its code, message and data."""
    from accord.client.link import ERRORS
    from accord.client.results import read_pages
    from accord.errors import ResourceNotFound

    if not error.is_received:
        return error
    kind = ERRORS.get(error.code, RequestError)
    is_missing = isinstance(error.data, dict) and "uri" in error.data
    if exchange.name == "resources/read" and is_missing and error.code in (-32002, -32602):
        return ResourceNotFound(error.message, data=error.data)
    typed = kind(error.message, code=error.code, data=error.data)
    if isinstance(typed, UrlElicitationRequired):
        typed.elicitations = read_pages(error.data)
    return typed


def _name_of(target: Target) -> str:
    if isinstance(target, str) and "://" in target:
        return urlsplit(target).hostname or "proxy"
    if isinstance(target, str | os.PathLike):
        return os.path.splitext(os.path.basename(os.fspath(target)))[0]
    if isinstance(target, Sequence) and target:
        words = [os.path.basename(str(word)) for word in target]
        files = [word for word in words[1:] if not word.startswith("-")]
        return os.path.splitext((files or words)[-1])[0]
    info = getattr(target, "info", None)
    return str(getattr(info, "name", "proxy"))


def _chain_name(target: Target, cwd: object) -> str:
    from hashlib import sha256

    words = [os.fspath(target)] if isinstance(target, str | os.PathLike) else [*map(str, target)]
    place = os.path.abspath(os.fspath(cwd) if isinstance(cwd, str | os.PathLike) else os.getcwd())
    return sha256("\0".join([place, *words]).encode()).hexdigest()[:16]
