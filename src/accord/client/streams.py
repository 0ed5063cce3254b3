"""Streams of change notices, each with its reader.

Revisions without handshake have a request for it, `subscriptions/listen`, which stays open; it is
sent again when it breaks. In the others, notices come by themselves and resources are subscribed
to one by one.
"""

import asyncio
import logging
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from accord.client.changes import KINDS, UPDATED, declared_part
from accord.errors import (
    AccordError,
    AuthError,
    InternalError,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    RequestTimeout,
)
from accord.http.client.carrier import TRANSIENT_STATUSES
from accord.http.client.messages import Backoff
from accord.protocol.exchange import Exchange, NotificationReceived
from accord.protocol.violation import SERVER, Violation
from accord.runtime.tasks import Pending
from accord.types import ListenParams, SubscribeParams, SubscriptionFilter, UnsubscribeParams

if TYPE_CHECKING:
    from accord.client.link import Link

log = logging.getLogger("accord.client")

LISTEN: Final = "subscriptions/listen"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_CANCELLED: Final = "notifications/cancelled"
_TOOLS: Final = "notifications/tools/list_changed"
# When a stream that broke is opened again; the delays double up to the longest.
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
# A stream that ends this soon is a failure, not a pause.
_BRIEF: Final = 5.0


class NoticeReader(Protocol):
    """Reads a stream of notices, through all its renewals."""

    is_persistent: bool
    """Whether it listens again after a server refused for the moment, or ended the stream."""

    def acknowledge(self, served: SubscriptionFilter) -> None:
        """Note what the server will report; called again when the stream was renewed."""

    def read(self, event: NotificationReceived) -> None:
        """Take a notice."""

    def renew(self, reason: str) -> None:
        """Note that notices may have been lost, and why."""


# -- the stream of revisions without handshake


async def follow(link: "Link", wanted: SubscriptionFilter, reader: NoticeReader) -> None:
    """Listen until the server ends the stream; listen again when it breaks.

    Args:
        link: the connection.
        wanted: the changes to hear of.
        reader: takes them.

    Raises:
        RequestError: the server refuses to be listened to.
        AccordError: the first attempt failed, or the connection is gone.
    """
    _route_notices(link)
    backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
    was_acknowledged = False
    while True:
        stream, began = _Stream(link, reader, is_renewed=was_acknowledged), link.loop.time()
        try:
            await stream.run(wanted)
        except AccordError as error:
            is_worth_it = _is_passing(error) and (was_acknowledged or reader.is_persistent)
            if link.is_closed or not (is_worth_it or stream.is_acknowledged):
                raise
            log.info("the stream of change notices broke, it is opened again: %s", error)
        else:
            if not reader.is_persistent:
                return
        was_acknowledged |= stream.is_acknowledged
        if stream.is_acknowledged and link.loop.time() - began > _BRIEF:
            backoff.succeed()
        await asyncio.sleep(backoff.fail())


def _is_passing(error: AccordError) -> bool:
    """Whether another attempt may succeed."""
    if isinstance(error, RequestError):
        status = error.data.get("status") if isinstance(error.data, dict) else None
        is_refused = isinstance(status, int) and status not in TRANSIENT_STATUSES
        return error.code == InternalError.default_code and not is_refused
    return not isinstance(error, AuthError | LocalProtocolError)


class _Stream:
    """One listen request, from its acknowledgement to its end."""

    def __init__(self, link: "Link", reader: NoticeReader, *, is_renewed: bool) -> None:
        self._link = link
        self._reader = reader
        self._is_renewed = is_renewed
        self._deadline: asyncio.Timeout | None = None
        self.is_acknowledged = False

    async def run(self, wanted: SubscriptionFilter) -> None:
        link, seconds = self._link, self._link.settings.timeout
        try:
            async with asyncio.timeout(None if seconds == inf else seconds) as self._deadline:
                await link.dispatcher.request(LISTEN, ListenParams(wanted), on_notice=self._notice)
        except AccordError as error:
            raise link._explain(error, LISTEN) from None
        except TimeoutError:
            why = f"{LISTEN}: not acknowledged within {seconds:g} s (timeout)"
            raise RequestTimeout(why) from None
        if not self.is_acknowledged:
            violation = Violation(
                "subscriptions.ack-first", SERVER, f"ends {LISTEN} without an acknowledgement"
            )
            raise RemoteProtocolError(str(violation), [violation])

    def _notice(self, event: NotificationReceived) -> None:
        if event.name == _ACKNOWLEDGED:
            self._acknowledge(event.params.notifications)
        elif event.name == _CANCELLED:
            self._end(event.exchange)
        else:
            forget_stale(self._link, event)
            self._reader.read(event)

    def _acknowledge(self, served: SubscriptionFilter) -> None:
        if self.is_acknowledged:
            return
        self.is_acknowledged = True
        if self._deadline is not None:
            self._deadline.reschedule(None)
        if self._is_renewed:
            # subscriptions.no-state-across-reconnect: nothing is replayed.
            if self._link.side.cache is not None:
                self._link.side.cache.clear()
            self._reader.renew("the stream of notices broke and was opened again")
        self._reader.acknowledge(served)

    def _end(self, exchange: Exchange | None) -> None:
        """Take a cancellation by the server as the end: a result need not follow, and may."""
        if exchange is not None and isinstance(exchange.state, Pending):
            self._link.endpoint.conversation.abandon(exchange)
            exchange.state.future.set_result(None)


def forget_stale(link: "Link", event: NotificationReceived) -> None:
    """Forget what the client keeps of what a notice says has changed."""
    if link.side.cache is not None:
        link.side.cache.note_change(event.name, event.params)
    if event.name == _TOOLS and link.callbacks.on_tools_changed is not None:
        link.callbacks.on_tools_changed()


def _route_notices(link: "Link") -> None:
    """Let notices reach their readers, those that belong to no request included."""
    link.callbacks.on_notice = partial(_pass_on, link)


def _pass_on(link: "Link", event: NotificationReceived) -> None:
    pending = None if event.exchange is None else event.exchange.state
    if event.name == _CANCELLED:
        if isinstance(pending, Pending) and pending.on_notice is not None:
            pending.on_notice(event)
        return
    if link.side.cache is not None:
        link.side.cache.note_change(event.name, event.params)
    for wanted, reader in list(link.side.readers):
        if _is_wanted(link, wanted, event):
            reader.read(event)


# -- notices of revisions with a handshake


async def hear(link: "Link", wanted: SubscriptionFilter, reader: NoticeReader) -> None:
    """Listen until cancelled, by notices that come by themselves and by subscriptions."""
    _route_notices(link)
    served = declared_part(wanted, server_capabilities(link))
    uris = served.resource_subscriptions or []
    entry = served, reader
    link.side.readers.append(entry)
    watched: list[str] = []
    try:
        for uri in uris:
            await _watch(link, uri)
            watched.append(uri)
        reader.acknowledge(served)
        await link.loop.create_future()
    finally:
        link.side.readers.remove(entry)
        for uri in watched:
            await _unwatch(link, uri)


async def _watch(link: "Link", uri: str) -> None:
    if uri not in link.subscriptions and not link.side.watched[uri]:
        await link.ask("resources/subscribe", SubscribeParams(uri), {})
    link.side.watched[uri] += 1


async def _unwatch(link: "Link", uri: str) -> None:
    link.side.watched[uri] -= 1
    if link.side.watched[uri] <= 0:
        del link.side.watched[uri]
        if uri not in link.subscriptions:
            with suppress(AccordError):
                await link.ask("resources/unsubscribe", UnsubscribeParams(uri), {})


def _is_wanted(link: "Link", wanted: SubscriptionFilter, event: NotificationReceived) -> bool:
    if event.name != UPDATED:
        members = [member for member, (notice, _) in KINDS.items() if notice == event.name]
        return any(getattr(wanted, member) for member in members)
    uri, uris = event.params.uri, wanted.resource_subscriptions or ()
    # It may be part of a resource that was subscribed to; then only the server knows of which.
    is_known = uri in link.side.watched or uri in link.subscriptions
    return uri in uris or (bool(uris) and not is_known)


def server_capabilities(link: "Link") -> frozenset[str] | None:
    """Return what the server declared, as dotted paths; None if that is unknown."""
    return link.endpoint.conversation.server.capabilities
