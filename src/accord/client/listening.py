"""Change notices of a server as an async iterator, in every revision.

A notice only says that something is to be fetched again, so equal notices that wait are one.
"""

import asyncio
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from accord.client.changes import Change, NoticesLost, check_served, declared_part, read_change
from accord.client.streams import follow, hear, server_capabilities
from accord.errors import ConnectionClosed, LocalProtocolError
from accord.protocol.exchange import NotificationReceived
from accord.runtime.wire import CALL_HEADERS
from accord.types import SubscriptionFilter

if TYPE_CHECKING:
    from accord.client.link import Link

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
