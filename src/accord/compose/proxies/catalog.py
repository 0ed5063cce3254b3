"""What the other server offers: read when it is connected, and again after changes."""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from accord.client.results import PageGuard
from accord.compose.proxies.entries import build_entry
from accord.errors import AccordError, InternalError, RemoteProtocolError, RequestError
from accord.protocol.revisions import METHODS
from accord.protocol.unknown import UnknownMembers, find_unknown
from accord.server.entries.entry import EntryKind
from accord.server.hub import LIST_KINDS, ListKind
from accord.types import PageParams

if TYPE_CHECKING:
    from accord.compose.proxies.connection import Connection
    from accord.compose.proxies.upstream import UpstreamServer
    from accord.server.entries.entry import Entry
    from accord.server.session import Session

log = logging.getLogger("accord.compose")

# A server that changes its lists all the time is asked less and less often.
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 5.0
_CALM: Final = 0.2
# A list that could not be read is read again after so many seconds, and less and less often.
_FIRST_RETRY: Final = 0.5
_LONGEST_RETRY: Final = 60.0
_LISTS: Final[dict[EntryKind, tuple[ListKind, str, str]]] = {
    "tools": ("tools", "tools/list", "tools"),
    "prompts": ("prompts", "prompts/list", "prompts"),
    "resources": ("resources", "resources/list", "resources"),
    "resource_templates": ("resources", "resources/templates/list", "resource_templates"),
}
_WIRE_NAMES: Final = {"resource_templates": "resourceTemplates"}
VIA: Final = "accord/via"
"""The member of `_meta` that names the proxies which a request has passed."""
LOOP: Final = {"error": "proxy_loop"}
"""The data of the error for a request that has come back."""
_PROBE_TIMEOUT: Final = 10.0


class Catalog:
    """Reads the lists of the other server, and subscribes to its resources.

    Attributes:
        connection: the one that lists are read on; any of those that are open.
    """

    def __init__(self, upstream: "UpstreamServer") -> None:
        self.connection: Connection | None = None
        self._upstream = upstream
        self._stale: set[ListKind] = set()
        self._unread: set[ListKind] = set()
        self._retry_after = _FIRST_RETRY
        self._last_read = -math.inf
        self._pause = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._wanted: dict[str, set[int]] = {}
        self._subscribed: set[str] = set()
        self._changed = asyncio.Event()
        self._wait = 0.0
        self._reported = ""

    # -- the connection

    async def connect(self) -> None:
        """Connect if that is necessary, and read all lists.

        Raises:
            AccordError: there is no connection, or a list cannot be read.
        """
        connection = self.connection
        if connection is None or not connection.is_open:
            connection = await self._upstream.share()
        self._upstream.source.instructions = connection.client.instructions
        self._upstream.source.info = connection.client.server_info
        self._upstream.source.revision = connection.client.revision
        await self._read(LIST_KINDS)

    def offer(self, connection: "Connection") -> None:
        """Use a new connection, if there is no other."""
        if self.connection is None or not self.connection.is_open:
            self.move_to(connection)

    def move_to(self, connection: "Connection") -> None:
        """Use another connection from now on."""
        self.connection = connection
        self._reported = ""  # a later fault is a new one
        self._subscribed = set()
        if self._wanted:
            self._upstream.spawn(self._subscribe_all())
        self._changed.set()

    def lose(self, wait: float) -> None:
        """Replace the connection after some seconds."""
        self.connection = None
        self._wait = wait
        self._changed.set()

    async def watch(self) -> None:
        """Connect again whenever the connection is lost."""
        while True:
            self._changed.clear()
            connection = self.connection
            if connection is not None and connection.is_open:
                changed = asyncio.ensure_future(self._changed.wait())
                lost = asyncio.ensure_future(connection.client._link.wait_closed())
                try:
                    await asyncio.wait(
                        {changed, lost},
                        timeout=self._retry_after if self._unread else None,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    if not changed.done() and not lost.done():
                        self._retry_after = min(2 * self._retry_after, _LONGEST_RETRY)
                        for kind in self._unread:
                            self.read_again(kind)
                finally:
                    changed.cancel()
                    lost.cancel()
                if not lost.cancelled() and lost.done() and self.connection is connection:
                    log.warning("%r: the connection is lost; it is renewed", self._upstream)
                    self.connection = None
                continue
            wait, self._wait = max(self._wait, self._upstream.pause), 0.0
            await asyncio.sleep(wait)
            try:
                await self.connect()
            except AccordError as error:
                self.report_fault(error.__cause__ or error)
                await asyncio.sleep(max(self._upstream.pause, _FIRST_PAUSE))

    def report_fault(self, error: BaseException, said: str = "%r: %s") -> None:
        """Log why the other server cannot be reached; the same reason again only for debugging."""
        reason = str(error)
        level = logging.DEBUG if reason == self._reported else logging.WARNING
        log.log(level, said, self._upstream, reason)
        self._reported = reason

    # -- lists

    def read_again(self, kind: ListKind) -> None:
        """Read a list anew, soon; changes in the meantime are read with it."""
        self._stale.add(kind)
        if self._reading is None or self._reading.done():
            self._reading = self._upstream.spawn(self._read_stale())

    async def _read_stale(self) -> None:
        loop = asyncio.get_running_loop()
        while self._stale:
            since = loop.time() - self._last_read
            if since > 2 * self._pause + _CALM:
                self._pause = 0.0
            await asyncio.sleep(max(0.0, self._pause - since))
            kinds, self._stale = self._stale, set()
            try:
                await self._read(kinds)
            except AccordError as error:
                log.warning("%r: its lists could not be read: %s", self._upstream, error)
            self._last_read = loop.time()
            self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE)

    async def _read(self, kinds: Iterable[ListKind]) -> None:
        connection = self.connection
        if connection is None:
            return
        declared = connection.client.capabilities
        failure: AccordError | None = None
        for kind, (list_kind, method, member) in _LISTS.items():
            if list_kind not in kinds:
                continue
            entries: list[Entry] = []
            if getattr(declared, list_kind) is not None:
                try:
                    entries = await self._read_list(connection, kind, method, member)
                except RemoteProtocolError as error:
                    # What was known before stays; to ask again would not help.
                    log.warning("%r: %s", self._upstream, error)
                    self._unread.discard(list_kind)
                    continue
                except AccordError as error:
                    # Servers may have resources and no method for templates.
                    if kind != "resource_templates":
                        # What is known stays, and the list is read again.
                        failure = failure or error
                        self._unread.add(list_kind)
                        continue
                    log.debug("%r: %s", self._upstream, error)
            if kind != "resource_templates":
                self._unread.discard(list_kind)
            self._upstream.source.set_entries(kind, entries)
        if failure is not None:
            self._changed.set()
            raise failure
        if not self._unread:
            self._retry_after = _FIRST_RETRY
            self._upstream.source.is_complete = True

    async def _read_list(
        self, connection: "Connection", kind: EntryKind, method: str, member: str
    ) -> "list[Entry]":
        link = connection.client._link
        guard = PageGuard(method, link.settings.empty_pages)
        most = self._upstream.source.policy.most_entries
        found: list[Entry] = []
        cursor = None
        while True:
            timeout = link.settings.connect_timeout
            params = PageParams(cursor, meta=self._upstream.source.via_meta())
            page, exchange = await link.dispatcher.forward(method, params, timeout=timeout)
            unknown = find_unknown(exchange.raw, page)  # type: ignore[arg-type]  # it was answered
            parts = _parts_of(unknown, _WIRE_NAMES.get(member, member))
            if kind == "tools" and link.transport is not None and not link.revision.handshake:
                from accord.client.link import learn_headers

                learn_headers(link, page)
            items = getattr(page, member)
            for position, item in enumerate(items):
                entry = build_entry(self._upstream.source, kind, item, parts.get(position))
                if entry is not None:
                    found.append(entry)
            if len(found) > most:
                log.warning(
                    "%r: only %d of its %s are taken over (most_entries)",
                    self._upstream,
                    most,
                    member,
                )
                return found[:most]
            cursor = page.next_cursor
            if cursor is None:
                return found
            guard.check(items, cursor)

    async def probe(self, meta: dict[str, Any]) -> None:
        """Ask for a list, to find out whether the request comes back.

        Raises:
            InternalError: it does.
        """
        connection = self.connection
        if connection is None or not connection.is_open:
            return
        declared = connection.client.capabilities
        offered = [
            method for kind, method, _ in _LISTS.values() if getattr(declared, kind) is not None
        ]
        if not offered:
            return
        dispatcher = connection.client._link.dispatcher
        try:
            await dispatcher.forward(offered[0], PageParams(meta=meta), timeout=_PROBE_TIMEOUT)
        except RequestError as error:
            if isinstance(error.data, dict) and LOOP.items() <= error.data.items():
                raise InternalError(error.message, data=error.data) from None
        except AccordError as error:
            log.debug("%r: %s", self._upstream, error)

    # -- subscriptions

    @property
    def can_subscribe(self) -> bool:
        """Whether the other server reports changes of resources, as far as that is known."""
        connection = self.connection
        declared = None if connection is None else connection.client.capabilities.resources
        return connection is None or (declared is not None and declared.subscribe)

    @property
    def has_subscriptions(self) -> bool:
        """Whether a client wants to hear of changes of a resource."""
        return bool(self._wanted)

    def subscribe(self, session: "Session", uri: str) -> None:
        """Hear of changes of a resource for a session."""
        self._wanted.setdefault(uri, set()).add(id(session))
        if uri not in self._subscribed:
            self._upstream.spawn(self._subscribe(uri))

    def unsubscribe(self, session: "Session", uri: str) -> None:
        """Hear no more of a resource, unless other sessions want to."""
        wanting = self._wanted.get(uri)
        if wanting is None:
            return
        wanting.discard(id(session))
        if not wanting:
            del self._wanted[uri]
            self._upstream.spawn(self._unsubscribe(uri))

    async def _subscribe_all(self) -> None:
        for uri in [*self._wanted]:
            await self._subscribe(uri)

    async def _subscribe(self, uri: str) -> None:
        connection = self.connection
        if connection is None or uri in self._subscribed or uri not in self._wanted:
            return
        self._subscribed.add(uri)
        await self._try(connection, uri, lambda: connection.client.subscribe(uri))

    async def _unsubscribe(self, uri: str) -> None:
        connection = self.connection
        if connection is None or uri not in self._subscribed or uri in self._wanted:
            return
        self._subscribed.discard(uri)
        await self._try(connection, uri, lambda: connection.client.unsubscribe(uri))

    async def _try(self, connection: "Connection", uri: str, ask: Callable[[], Any]) -> None:
        try:
            await ask()
        except AccordError as error:
            log.info("%r: no reports of changes of %r: %s", self._upstream, uri[:200], error)
        if not connection.client._link.revision.handshake:
            # Another stream of notices took over. What the first one held back, to join notices of
            # the same kind, was lost.
            for kind in LIST_KINDS:
                self.read_again(kind)


def _parts_of(unknown: UnknownMembers | None, member: str) -> "dict[Any, UnknownMembers]":
    found = None if unknown is None else unknown.parts.get(member)
    return {} if found is None else dict(found.parts)


assert {name for _, name, _ in _LISTS.values()} <= {method.name for method in METHODS}
