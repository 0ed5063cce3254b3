"""What the callbacks of a connection hear of, and subscriptions to single resources."""

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec

from accord.client.changes import (
    KINDS,
    UPDATED,
    check_served,
    declared_part,
    is_empty,
    missing_part,
)
from accord.client.options import CallOptions
from accord.client.streams import LISTEN, follow, server_capabilities
from accord.errors import AccordError, ConnectionClosed, InvalidParams, RequestTimeout
from accord.protocol.exchange import NotificationReceived
from accord.runtime.wire import CALL_HEADERS
from accord.types import (
    EmptyParams,
    ResourceUpdatedParams,
    SubscribeParams,
    SubscriptionFilter,
    UnsubscribeParams,
)

if TYPE_CHECKING:
    from accord.client.link import Link

log = logging.getLogger("accord.client")


class CallbackStream:
    """The stream behind the callbacks of a connection, where there are no sessions.

    Its filter holds the lists for which there is a callback and the resources subscribed to. A
    filter cannot be changed: a stream with the new one takes over, and the old one ends after
    that, so that no notice is lost.
    """

    def __init__(self, link: "Link") -> None:
        settings = link.settings
        self._link = link
        given = SubscriptionFilter(
            tools_list_changed=_if_given(settings.on_tools_changed),
            prompts_list_changed=_if_given(settings.on_prompts_changed),
            resources_list_changed=_if_given(settings.on_resources_changed),
        )
        self._lists = declared_part(given, server_capabilities(link))
        self._task: asyncio.Task[None] | None = None
        self._is_changing = asyncio.Lock()

    def open(self) -> None:
        """Begin to listen, if there is something to listen to."""
        wanted = self._filter()
        if not is_empty(wanted):
            reader = _CallbackReader(self._link, wanted, is_persistent=True)
            self._task = self._link.side.spawn(_run(self._link, reader), "accord-listening")

    def _filter(self) -> SubscriptionFilter:
        uris = list(self._link.subscriptions)
        return msgspec.structs.replace(self._lists, resource_subscriptions=uris or None)

    async def update(self) -> SubscriptionFilter:
        """Listen to the resources subscribed to by now; return what the server serves of it."""
        async with self._is_changing:
            wanted, task, served = self._filter(), None, SubscriptionFilter()
            if not is_empty(wanted):
                reader = _CallbackReader(self._link, wanted, is_persistent=False)
                task = self._link.side.spawn(_run(self._link, reader), "accord-listening")
                try:
                    served = await reader.opening
                except BaseException:
                    task.cancel()
                    raise
            ended, self._task = self._task, task
            if ended is not None:
                ended.cancel()
                # What is sent next comes after the cancellation of the stream.
                await asyncio.wait([ended])
            return served


def listen_for_callbacks(link: "Link") -> None:
    """Open a stream of notices for the callbacks of a connection without a session."""
    link.side.stream = CallbackStream(link)
    link.side.stream.open()


def _if_given(callback: object) -> bool | None:
    return None if callback is None else True


class _CallbackReader:
    """Passes the notices of one stream to the callbacks of the connection."""

    def __init__(self, link: "Link", wanted: SubscriptionFilter, *, is_persistent: bool) -> None:
        self.is_persistent = is_persistent
        self.wanted = wanted
        self.opening: asyncio.Future[SubscriptionFilter] = link.loop.create_future()
        self._link = link

    def acknowledge(self, served: SubscriptionFilter) -> None:
        # From now on a stream that ends is opened again: callbacks have no end.
        self.is_persistent = True
        if self.opening.done():
            return
        self.opening.set_result(served)
        left_out = missing_part(self.wanted, served)
        if left_out:
            log.warning("the server does not report these changes: %s", ", ".join(left_out))

    def fail(self, error: AccordError) -> None:
        """Note that the stream was not opened, and why."""
        if not self.opening.done():
            self.opening.set_exception(error)
            self.opening.exception()  # marked as retrieved: nothing may wait for it

    def read(self, event: NotificationReceived) -> None:
        self._link.callbacks.notification(event, self._link.dispatcher)

    def renew(self, reason: str) -> None:
        """Report every change that may have happened."""
        for member, (notice, _) in KINDS.items():
            if notice != UPDATED and getattr(self.wanted, member):
                self.read(NotificationReceived(notice, EmptyParams()))
        for uri in self.wanted.resource_subscriptions or ():
            self.read(NotificationReceived(UPDATED, ResourceUpdatedParams(uri)))


async def _run(link: "Link", reader: _CallbackReader) -> None:
    """Follow a stream for callbacks; a failure is raised to its opener, a later one is logged."""
    CALL_HEADERS.set(None)  # those of a call are not for a stream that outlives it
    try:
        await follow(link, reader.wanted, reader)
    except AccordError as error:
        if reader.is_persistent and not link.is_closed:
            log.warning("changes of the server are not reported: %s", error)
        reader.fail(error)
    finally:
        reader.fail(ConnectionClosed("the client is closed"))


async def subscribe(link: "Link", uri: str, how: CallOptions) -> None:
    """Subscribe to a resource for the callbacks of the connection."""
    if link.revision.handshake:
        if not link.side.watched[uri]:
            await link.ask("resources/subscribe", SubscribeParams(uri), how)
        link.subscriptions[uri] = None
        return
    wanted = SubscriptionFilter(resource_subscriptions=[uri])
    check_served(wanted, declared_part(wanted, server_capabilities(link)))
    was_subscribed = uri in link.subscriptions
    link.subscriptions[uri] = None
    try:
        served = await _update(link, how)
        if uri not in (served.resource_subscriptions or ()):
            raise InvalidParams(f"the server does not report changes of {uri!r:.100}")
    except BaseException:
        if not was_subscribed:
            link.subscriptions.pop(uri, None)
        raise


async def unsubscribe(link: "Link", uri: str, how: CallOptions) -> None:
    """Undo `subscribe`."""
    was_subscribed = link.subscriptions.pop(uri, uri) is None
    if not link.revision.handshake:
        if was_subscribed:
            await _update(link, how)
    elif not link.side.watched[uri]:
        await link.ask("resources/unsubscribe", UnsubscribeParams(uri), how)


async def _update(link: "Link", how: CallOptions) -> SubscriptionFilter:
    timeout, _ = link.deadlines(how)
    if link.side.stream is None:
        link.side.stream = CallbackStream(link)
    try:
        async with asyncio.timeout(timeout):
            return await link.side.stream.update()
    except TimeoutError:
        why = f"{LISTEN}: not acknowledged within {timeout:g} s (timeout)"
        raise RequestTimeout(why) from None
