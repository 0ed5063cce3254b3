"""Agree on a revision: find out how a server opens, open it, and remember that for the next time.

Servers of revisions with a handshake are opened by `initialize`, the others are asked by
`server/discover`. A client that speaks both asks first, and falls back where the answer shows, or
silence suggests, a server that knows nothing but the handshake.
"""

import logging
from collections import OrderedDict
from collections.abc import Collection, Sequence
from threading import Lock
from typing import Final, TypeAlias

import msgspec

from accord.client.link import Link
from accord.client.options import ClientSettings
from accord.errors import (
    AccordError,
    ConnectFailed,
    ConnectionClosed,
    HeaderMismatch,
    MissingCapability,
    RemoteProtocolError,
    RequestError,
    RequestTimeout,
    UnsupportedRevision,
)
from accord.protocol.exchange import META_SERVER
from accord.protocol.revisions import HANDSHAKE, REVISIONS
from accord.runtime.wire import ProbeRefused
from accord.types import (
    DiscoverParams,
    DiscoverResult,
    EmptyParams,
    Implementation,
    InitializeParams,
    InitializeResult,
    RevisionId,
    ServerCapabilities,
)

log = logging.getLogger("accord.client")

TargetKey: TypeAlias = tuple[str, ...] | None
"""What a server is remembered by: its command line or its URL; None: it is not remembered."""

# As many servers as one process may connect to again and again.
_REMEMBERED: Final = 1_000
# versioning.modern-error-is-not-legacy: our request is wrong, another opening would not help.
_OURS: Final = (HeaderMismatch.default_code, MissingCapability.default_code)


class Opening(msgspec.Struct, frozen=True):
    """What a server said about itself when the connection was opened."""

    server_info: Implementation
    capabilities: ServerCapabilities
    instructions: str | None


class KnownServers:
    """Which servers open with a handshake, as found out before; may be used by any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._found: OrderedDict[tuple[str, ...], bool] = OrderedDict()

    def has_handshake(self, key: TargetKey) -> bool | None:
        """Return whether a server opens with a handshake; None if that is not known."""
        with self._lock:
            return None if key is None else self._found.get(key)

    def remember(self, key: TargetKey, *, handshake: bool) -> None:
        """Remember how a server was opened."""
        if key is None:
            return
        with self._lock:
            self._found[key] = handshake
            self._found.move_to_end(key)
            if len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)

    def clear(self) -> None:
        """Forget all servers."""
        with self._lock:
            self._found.clear()

    def forget(self, key: TargetKey) -> None:
        """Forget a server that turned out to open in another way."""
        with self._lock:
            if key is not None:
                self._found.pop(key, None)


KNOWN_SERVERS: Final = KnownServers()


class Negotiation:
    """The way to a revision that both sides speak; it may take a second connection.

    Args:
        settings: those of the client.
        key: what the server is remembered by.

    Attributes:
        awaited: the request that the server has yet to answer.
    """

    def __init__(self, settings: ClientSettings, key: TargetKey) -> None:
        self.offered = settings.offered_revisions()
        self.awaited = "initialize"
        self._handshake = [each for each in self.offered if REVISIONS[each].handshake]
        self._stateless = [each for each in self.offered if not REVISIONS[each].handshake]
        self._key = key
        self._known = KNOWN_SERVERS.has_handshake(key)
        self._may_restart = True
        limit = settings.probe_timeout
        self._probe_limit = settings.connect_timeout / 3 if limit is None else limit

    async def open(self, link: Link) -> Opening:
        """Open the conversation.

        Raises:
            ConnectFailed: nothing is spoken by both sides.
            AccordError: the server does not answer, or refuses.
        """
        if link.transport == "sse":
            self._require_handshake(HANDSHAKE)
            self._stateless = []  # that form is older than they are
        if self._handshake and (not self._stateless or self._known is True):
            try:
                return await self._initialize(link)
            except (RequestError, RemoteProtocolError, ConnectFailed) as error:
                if not self._stateless or getattr(error, "phase", "initialize") != "initialize":
                    raise
                self._forget()
        opening = await self._discover(link)
        if opening is None:
            opening = await self._fall_back(link)
        return opening

    def restarts(self, error: AccordError) -> bool:
        """Return whether another connection may succeed where the server ended this one.

        Some servers exit on a first message that they do not know.
        """
        has_ended = isinstance(error, ConnectionClosed)
        if not has_ended or not self._handshake or not self._stateless or not self._may_restart:
            return False
        self._may_restart = False
        was_asked = self.awaited == "server/discover"
        self._forget()
        self._known = True if was_asked else None
        return True

    def _forget(self) -> None:
        self._known = None
        KNOWN_SERVERS.forget(self._key)

    # -- revisions without handshake

    async def _discover(self, link: Link) -> Opening | None:
        """Ask the server what it speaks; None where it has to be opened by a handshake."""
        asked = self._stateless[0]
        # http.compat, stdio.fallback.not-one-code: whatever is not an error of a revision without
        # handshake is one of a server that has none of them.
        try:
            result = await self._ask(link, asked)
        except RequestError as error:
            if error.code in _OURS:
                raise
            supported = supported_revisions(error)
            if error.code == UnsupportedRevision.default_code and supported is not None:
                # Once more, also with the same: behind one URL servers may differ.
                other = _first_common(self._stateless, supported)
                if other is None:
                    self._require_handshake(supported)
                    return None
                result = await self._ask(link, asked := other)
            elif self._handshake:
                return None
            else:
                raise
        except (RequestTimeout, RemoteProtocolError, ProbeRefused) as error:
            if not self._handshake:
                raise
            if isinstance(error, RequestTimeout):
                log.warning(
                    "the server did not answer server/discover within %g s (probe_timeout), so it "
                    "is opened by initialize; name its revision to skip the question",
                    self._probe_limit,
                )
            return None
        chosen = _first_common(self._stateless, result.supported_versions)
        if chosen is None:
            self._require_handshake(result.supported_versions)
            return None
        link.begin(chosen, result.capabilities)
        KNOWN_SERVERS.remember(self._key, handshake=False)
        return Opening(_server_info(result), result.capabilities, result.instructions)

    async def _ask(self, link: Link, revision: RevisionId) -> DiscoverResult:
        self.awaited = "server/discover"
        link.introduce(revision)
        # A server that is slow to start is waited for, if it is known to answer in the end.
        is_sure = self._known is False or not self._handshake or link.transport
        result: DiscoverResult = await link.dispatcher.request(
            "server/discover",
            DiscoverParams(),
            timeout=None if is_sure else self._probe_limit,
            revision=REVISIONS[revision],
        )
        return result

    def _require_handshake(self, supported: Collection[str]) -> None:
        if _first_common(self._handshake, supported) is None:
            raise NothingInCommon(self.offered, supported)

    # -- revisions with a handshake

    async def _fall_back(self, link: Link) -> Opening:
        try:
            return await self._initialize(link)
        except RequestError as error:
            # Its answer to the probe was only late.
            if error.code != UnsupportedRevision.default_code or self._known is False:
                raise
            self._known = False
            opening = await self._discover(link)
            if opening is None:
                raise
            return opening

    async def _initialize(self, link: Link) -> Opening:
        self.awaited = "initialize"
        offered = self._handshake
        asked = offered[0]  # lifecycle.version.client-prefers-latest
        try:
            result = await _request_initialize(link, asked)
        except RequestError as error:
            other = _first_common(
                [each for each in offered if each != asked], supported_revisions(error) or ()
            )
            if other is None:
                raise
            result = await _request_initialize(link, asked := other)
        if result.protocol_version not in offered:  # lifecycle.version.client-disconnects
            raise NothingInCommon(self.offered, [result.protocol_version], asked)
        link.dispatcher.notify("notifications/initialized", EmptyParams())
        if self._stateless:  # else it was not asked, and may know newer revisions
            KNOWN_SERVERS.remember(self._key, handshake=True)
        return Opening(result.server_info, result.capabilities, result.instructions)


class NothingInCommon(AccordError):
    """The server speaks other revisions than those offered; the message lists both."""

    def __init__(
        self, offered: Sequence[str], supported: Collection[str], asked: str | None = None
    ) -> None:
        ours = ", ".join(offered)
        theirs = ", ".join(repr(each[:40]) for each in [*supported][:8]) or "none"
        if asked is None:
            text = f"the server speaks {theirs}, which is not among {ours}"
        else:
            text = f"asked for revision {asked}, the server answered {theirs}, "
            text += f"which is not among {ours}"
        super().__init__(text)


async def _request_initialize(link: Link, revision: RevisionId) -> InitializeResult:
    params = InitializeParams(
        protocol_version=revision,
        capabilities=link.callbacks.capabilities,
        client_info=link.client_info,
    )
    result: InitializeResult = await link.dispatcher.request("initialize", params)
    return result


def supported_revisions(error: RequestError) -> list[str] | None:
    """Return the revisions that an error names as supported; None if it names none."""
    supported = error.data.get("supported") if isinstance(error.data, dict) else None
    if not isinstance(supported, list):
        return None
    return [each for each in supported if isinstance(each, str)]


def _first_common(ours: Sequence[RevisionId], theirs: Collection[str]) -> RevisionId | None:
    return next((each for each in ours if each in theirs), None)


def _server_info(result: DiscoverResult) -> Implementation:
    """Return how a server introduces itself; it need not."""
    try:
        return msgspec.convert((result.meta or {}).get(META_SERVER), Implementation)
    except msgspec.ValidationError:
        return Implementation("", "")
