"""Subscriptions: the changes that a server reports, and the ways in which a client hears of them.

Revisions without handshake have a request for it, `subscriptions/listen`, which stays open; it is
sent again when it breaks. In the others, notices come by themselves and resources are subscribed to
one by one. `Listening` is the reader of `Client.listen`; callbacks have a stream of their own.
"""

import asyncio
import logging
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeAlias

import msgspec

from accord.client.options import CallOptions
from accord.errors import (
    AccordError,
    AuthError,
    ConnectionClosed,
    InternalError,
    InvalidParams,
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
from accord.runtime.wire import CALL_HEADERS
from accord.types import (
    EmptyParams,
    ListenParams,
    ResourceUpdatedParams,
    SubscribeParams,
    SubscriptionFilter,
    UnsubscribeParams,
)

if TYPE_CHECKING:
    from accord.client.link import Link


log = logging.getLogger("accord.client")

_TOOLS: Final = "notifications/tools/list_changed"
_PROMPTS: Final = "notifications/prompts/list_changed"
_RESOURCES: Final = "notifications/resources/list_changed"
UPDATED: Final = "notifications/resources/updated"
KINDS: Final = {
    "tools_list_changed": (_TOOLS, "tools.listChanged"),
    "prompts_list_changed": (_PROMPTS, "prompts.listChanged"),
    "resources_list_changed": (_RESOURCES, "resources.listChanged"),
    "resource_subscriptions": (UPDATED, "resources.subscribe"),
}
"""By member of a filter, the notice and the capability of a server that sends it."""


@dataclass(frozen=True, slots=True)
class ToolsChanged:
    """The list of tools changed."""


@dataclass(frozen=True, slots=True)
class PromptsChanged:
    """The list of prompts changed."""


@dataclass(frozen=True, slots=True)
class ResourcesChanged:
    """The list of resources changed."""


@dataclass(frozen=True, slots=True)
class ResourceUpdated:
    """A resource changed."""

    uri: str


@dataclass(frozen=True, slots=True)
class NoticesLost:
    """Notices may have been lost, for this reason: fetch again what you depend on."""

    reason: str


Change: TypeAlias = ToolsChanged | PromptsChanged | ResourcesChanged | ResourceUpdated | NoticesLost
_LISTS: Final[dict[str, type[ToolsChanged | PromptsChanged | ResourcesChanged]]] = {
    _TOOLS: ToolsChanged,
    _PROMPTS: PromptsChanged,
    _RESOURCES: ResourcesChanged,
}


def read_change(event: NotificationReceived) -> Change | None:
    """Return the change that a notification reports; None for any other."""
    if event.name == UPDATED:
        return ResourceUpdated(event.params.uri)
    kind = _LISTS.get(event.name)
    return None if kind is None else kind()


# -- filters


def is_empty(wanted: SubscriptionFilter) -> bool:
    """Whether a filter asks for nothing."""
    return not any(getattr(wanted, member) for member in SubscriptionFilter.__struct_fields__)


def declared_part(
    wanted: SubscriptionFilter, declared: frozenset[str] | None
) -> SubscriptionFilter:
    """Return the part of a filter that a server serves, by what it declared.

    Args:
        wanted: the filter.
        declared: the capabilities of the server as dotted paths; None if they are unknown.
    """
    if declared is None:
        return wanted
    left_out = {member: None for member, (_, path) in KINDS.items() if path not in declared}
    return msgspec.structs.replace(wanted, **left_out)


def missing_part(wanted: SubscriptionFilter, served: SubscriptionFilter) -> list[str]:
    """Return the capabilities that a server lacks for what is asked, but not served."""
    return [
        path
        for member, (_, path) in KINDS.items()
        if getattr(wanted, member) and not getattr(served, member)
    ]


def check_served(wanted: SubscriptionFilter, served: SubscriptionFilter) -> None:
    """Refuse to wait for changes that will never be reported (subscriptions.client-checks-ack).

    Raises:
        LocalProtocolError: nothing of what is asked is served.
    """
    if is_empty(served) and not is_empty(wanted):
        needed = ", ".join(missing_part(wanted, served))
        raise LocalProtocolError(f"the server reports none of the changes asked for ({needed})")


# -- streams of change notices, each with its reader

LISTEN: Final = "subscriptions/listen"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_CANCELLED: Final = "notifications/cancelled"
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


# -- `Client.listen`

# How many different changes may wait for their reader.
_WAITING_MOST: Final = 1_000


def make_filter(
    uris: Iterable[str], *, tools: bool, prompts: bool, resources: bool
) -> SubscriptionFilter:
    """Return the filter for these changes; for none of them, that for all lists."""
    if isinstance(uris, str):
        raise TypeError(f"uris is a list of URIs, not the string {uris!r:.100}")
    watched = list(dict.fromkeys(uris)) or None
    is_all = not (tools or prompts or resources or watched)
    return SubscriptionFilter(
        tools_list_changed=tools or is_all or None,
        prompts_list_changed=prompts or is_all or None,
        resources_list_changed=resources or is_all or None,
        resource_subscriptions=watched,
    )


class _Inbox:
    """The changes that wait for an iterator, each of them once.

    It does not know the iterator, which may be forgotten at any time.
    """

    is_persistent = False

    def __init__(self) -> None:
        self._changes: dict[Change, None] = {}
        self._news = asyncio.Event()
        self.served: SubscriptionFilter | None = None
        self.is_over = False
        self.error: BaseException | None = None

    # -- written by the stream

    def acknowledge(self, served: SubscriptionFilter) -> None:
        self.served = served
        self._news.set()

    def read(self, event: NotificationReceived) -> None:
        change = read_change(event)
        if change is not None:
            self._put(change)

    def renew(self, reason: str) -> None:
        self._changes.clear()
        self._put(NoticesLost(reason))

    def _put(self, change: Change) -> None:
        if len(self._changes) >= _WAITING_MOST and change not in self._changes:
            self.renew(f"more than {_WAITING_MOST} changes waited to be read")
            return
        self._changes[change] = None
        self._news.set()

    def finish(self, error: BaseException | None) -> None:
        """Note that nothing more will come."""
        if not self.is_over:
            self.is_over, self.error = True, error
        self._news.set()

    # -- read by the iterator

    async def open(self) -> None:
        """Wait until the server has acknowledged, or refused."""
        while self.served is None and not self.is_over:
            await self._wait()
        if self.served is None:
            self._raise_error()

    async def take(self) -> Change:
        """Return the oldest change, once there is one."""
        while not self._changes:
            if self.is_over:
                self._raise_error()
                raise StopAsyncIteration
            await self._wait()
        change = next(iter(self._changes))
        del self._changes[change]
        return change

    async def _wait(self) -> None:
        self._news.clear()
        await self._news.wait()

    def _raise_error(self) -> None:
        if self.error is not None:
            error, self.error = self.error, None
            raise error

    def discard(self) -> None:
        """Forget what waits: the iterator was closed."""
        self._changes.clear()
        self.error = None


class Listening(AsyncIterator[Change]):
    """The changes that a server reports, as `Client.listen` returns it.

    Iterate over it, or enter it with `async with` to wait until the server has acknowledged.
    Listening ends when the block, the iterator or the client is closed, and when the iterator is
    forgotten; the iteration ends when the server ends the stream.
    """

    def __init__(self, link: "Link", wanted: SubscriptionFilter, owner: object) -> None:
        self._link = link
        self._wanted = wanted
        self._owner = owner  # a client that is iterated over is not forgotten
        self._inbox = _Inbox()
        self._task: asyncio.Task[None] | None = None

    @property
    def acknowledgement(self) -> SubscriptionFilter | None:
        """What the server reports of what was asked for; None until it has said so."""
        return self._inbox.served

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        await self._open()
        return await self._inbox.take()

    async def aclose(self) -> None:
        """Stop listening; may be repeated."""
        self._inbox.finish(None)
        self._inbox.discard()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _open(self) -> None:
        inbox, link = self._inbox, self._link
        if self._task is None and not inbox.is_over:
            check_served(self._wanted, declared_part(self._wanted, server_capabilities(link)))
            run = hear if link.revision.handshake else follow
            self._task = link.side.spawn(
                _fill(link, inbox, run(link, self._wanted, inbox)), "accord-listening"
            )
            weakref.finalize(self, _cancel_soon, link.loop, self._task).atexit = False
        await inbox.open()
        if inbox.served is not None:
            try:
                check_served(self._wanted, inbox.served)
            except LocalProtocolError:
                await self.aclose()
                raise


async def _fill(link: "Link", inbox: _Inbox, work: Coroutine[object, None, None]) -> None:
    CALL_HEADERS.set(None)  # those of a call are not for a stream that outlives it
    error: BaseException | None = None
    try:
        await work
    except asyncio.CancelledError:
        if link.is_closed:
            error = ConnectionClosed(str(link.dispatcher.closed))
        raise
    except Exception as failure:
        error = failure
    finally:
        inbox.finish(error)


def _cancel_soon(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    """End the task of an iterator that was forgotten; from any thread."""
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(task.cancel)


# -- callbacks of the connection


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
