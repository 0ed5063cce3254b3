"""The listeners of changes: sessions, and `subscriptions/listen` requests, by topic.

A change is published once, from any thread, and reaches the listeners of its topic alone. Changes
say that something is no longer as it was, not what it was: of those that wait for a client, the
newest of each topic is enough.
"""

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import msgspec

from accord.protocol.bodies import BY_NAME
from accord.types import ResourceUpdatedParams

if TYPE_CHECKING:
    from accord.runtime.handlers import ClientFlow
    from accord.server.session import Session

log = logging.getLogger("accord.server")

ListKind: TypeAlias = Literal["tools", "prompts", "resources"]
LIST_KINDS: Final[tuple[ListKind, ...]] = ("tools", "prompts", "resources")
UPDATED: Final = "notifications/resources/updated"

# Changes of lists that come within this time are one burst, and one notification.
_BURST: Final = 0.02
# Listeners that were dropped without a word are looked for whenever there are twice as many.
_SWEEP: Final = 1024

Topic: TypeAlias = tuple[str, str | None]
"""What can change: the method of the notification, and the URI or id that it is about.

Listeners of None in place of a URI hear of every one.
"""


class ServerChange(msgspec.Struct, frozen=True):
    """Something that clients may hear of.

    Attributes:
        name: the method of the notification.
        key: what it is about, such as the URI of a resource; None for a list.
        params: those of the notification.
    """

    name: str
    key: str | None = None
    params: Any = None

    @property
    def topic(self) -> Topic:
        return self.name, self.key


def list_topic(kind: ListKind) -> Topic:
    """Return the topic of a list.

    >>> list_topic("tools")
    ('notifications/tools/list_changed', None)
    """
    return f"notifications/{kind}/list_changed", None


def list_change(kind: ListKind) -> ServerChange:
    """Return the change of a list.

    Raises:
        ValueError: there is no such list.
    """
    if kind not in LIST_KINDS:
        raise ValueError(f"there is no list {kind!r}; expected one of {', '.join(LIST_KINDS)}")
    return ServerChange(list_topic(kind)[0])


def resource_change(uri: str) -> ServerChange:
    """Return the change of a resource's contents."""
    return ServerChange(UPDATED, uri, ResourceUpdatedParams(uri))


def encode_change(change: ServerChange) -> bytes:
    """Return a change as bytes, for other workers."""
    params = None if change.params is None else msgspec.json.encode(change.params)
    return msgspec.msgpack.encode((change.name, change.key, params))


def decode_change(data: bytes) -> ServerChange:
    """Return a change that another worker has encoded.

    Raises:
        ValueError: it is of a later version, and cannot be read.
    """
    name, key, params = msgspec.msgpack.decode(data, type=tuple[str, str | None, bytes | None])
    if params is None:
        return ServerChange(name, key)
    method = BY_NAME.get(name)
    if method is None or method.params is None:
        raise ValueError(f"{name} is unknown")
    return ServerChange(name, key, msgspec.json.decode(params, type=method.params))


class Listener(Protocol):
    """Hears of changes."""

    def hear(self, change: ServerChange) -> None:
        """Take a change. Called from any thread; must not block."""


class ChangeBus(Protocol):
    """Carries changes from where they are published to the hubs that hear of them."""

    def publish(self, change: ServerChange) -> None:
        """Carry a change to all subscribers. Called from any thread; must not block."""

    def subscribe(self, deliver: Callable[[ServerChange], None]) -> None:
        """Call a function with each change, in any thread."""


class LocalBus:
    """Carries changes within one process, at once."""

    def __init__(self) -> None:
        self._subscribers: tuple[Callable[[ServerChange], None], ...] = ()

    def publish(self, change: ServerChange) -> None:
        for deliver in self._subscribers:
            deliver(change)

    def subscribe(self, deliver: Callable[[ServerChange], None]) -> None:
        self._subscribers = (*self._subscribers, deliver)


class OpenSessions(AbstractSet["Session"]):
    """The sessions that are open. They are held weakly: one that is dropped is not among them.

    A transport with many sessions has its own table of them. It is asked for them, because a weak
    reference to each and its place in a set would cost as much as a quarter of the session.
    """

    def __init__(self) -> None:
        self._single: weakref.WeakSet[Session] = weakref.WeakSet()
        self._groups: weakref.WeakSet[Iterable[Session]] = weakref.WeakSet()

    def add(self, session: "Session") -> None:
        """Add a session that is in no group."""
        self._single.add(session)

    def move(self, session: "Session", group: "Iterable[Session]") -> None:
        """Find a session in a group from now on."""
        self._groups.add(group)
        self._single.discard(session)

    def __iter__(self) -> "Iterator[Session]":
        # To look at an empty weak set costs a third of the registration of a tool.
        if self._single:
            yield from self._single
        if self._groups:
            for group in self._groups:
                yield from group

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, session: object) -> bool:
        return any(each is session for each in self)

    def __repr__(self) -> str:
        return f"OpenSessions({len(self)})"


class Hub:
    """Knows the listeners of each topic. They are held weakly: one that is dropped hears no more.

    Args:
        bus: carries changes, between processes for instance; by default within this one.

    Attributes:
        sessions: those of the handshake revisions; they hear of every list.
    """

    def __init__(self, bus: ChangeBus | None = None) -> None:
        self.sessions = OpenSessions()
        self._local = LocalBus()
        self._local.subscribe(self.deliver)
        self._bus: ChangeBus = self._local
        self.use_bus(bus)
        self._lock = threading.Lock()
        self._first: weakref.WeakSet[Listener] = weakref.WeakSet()
        self._topics: dict[Topic, set[weakref.ref[Listener]]] = {}
        self._count = 0
        self._sweep_at = _SWEEP

    def use_bus(self, bus: ChangeBus | None) -> None:
        """Carry changes by another bus from now on; None for the one within this process."""
        self._bus = bus or self._local
        if bus is not None:
            bus.subscribe(self.deliver)

    def join(self, session: "Session") -> None:
        """Let a session hear of every list."""
        with self._lock:
            self.sessions.add(session)

    def list_in(self, group: "Iterable[Session]", session: "Session") -> None:
        """Find a session that has joined in a group of its transport from now on."""
        with self._lock:
            self.sessions.move(session, group)

    def publish(self, change: ServerChange) -> None:
        """Pass a change to its listeners. From any thread."""
        if self._bus is not self._local:
            with self._lock:
                first = [*self._first]
            for listener in first:
                listener.hear(change)
        self._bus.publish(change)

    def listen_first(self, listener: Listener) -> None:
        """Let a listener hear of every change that is published here, before a bus carries it.

        It hears of those of its topics again when the bus has carried them.
        """
        with self._lock:
            self._first.add(listener)

    def deliver(self, change: ServerChange) -> None:
        """Pass a change to the listeners in this process."""
        with self._lock:
            # An iterator, since the length of what it goes through would be counted first.
            heard: list[Listener | None] = [*iter(self.sessions)] if change.key is None else []
            heard += [ref() for ref in self._topics.get(change.topic, ())]
            if change.key is not None:  # those that listen to every resource
                heard += [ref() for ref in self._topics.get((change.name, None), ())]
        for listener in heard:
            if listener is not None:
                try:
                    listener.hear(change)
                except Exception:  # the others have to hear of it all the same
                    log.exception("a listener could not be notified of %s", change.name)

    def listen(self, listener: Listener, topics: Iterable[Topic]) -> None:
        """Let a listener hear of changes of these topics."""
        ref = weakref.ref(listener)
        with self._lock:
            for topic in topics:
                refs = self._topics.setdefault(topic, set())
                self._count -= len(refs)
                refs.add(ref)
                self._count += len(refs)
            if self._count > self._sweep_at:
                self._sweep()

    def ignore(self, listener: Listener, topics: Iterable[Topic]) -> None:
        """Let a listener hear no more of these topics."""
        ref = weakref.ref(listener)
        with self._lock:
            for topic in topics:
                refs = self._topics.get(topic)
                if refs is not None and ref in refs:
                    refs.remove(ref)
                    self._count -= 1
                    if not refs:
                        del self._topics[topic]

    def _sweep(self) -> None:
        for topic, refs in list(self._topics.items()):
            alive = {ref for ref in refs if ref() is not None}
            if alive:
                self._topics[topic] = alive
            else:
                del self._topics[topic]
        self._count = sum(map(len, self._topics.values()))
        self._sweep_at = max(_SWEEP, 2 * self._count)

    def __len__(self) -> int:
        """Return how many topics there are listeners of, each counted for itself."""
        return self._count


class Notices:
    """The notifications of one listener; changes that have to wait are joined by topic.

    Changes of lists wait for the end of a burst. All wait while the client does not read.

    Args:
        loop: that of the connection; everything here runs on it.
        flow: how fast the client reads, where that is known.
        send: sends the notification of a change.
    """

    __slots__ = ("_flow", "_loop", "_send", "_task", "_timer", "_waiting")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        flow: "ClientFlow | None",
        send: Callable[[ServerChange], None],
    ) -> None:
        self._loop = loop
        self._flow = flow
        self._send = send
        self._waiting: dict[Topic, ServerChange] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def _is_held(self) -> bool:
        """Whether the client has to read first."""
        return self._task is not None or (self._flow is not None and self._flow.is_congested)

    def add(self, change: ServerChange) -> None:
        """Tell the client of a change, now or later."""
        if self._loop.is_closed():
            return
        if change.key is not None and not self._is_held:
            self._send(change)
            return
        self._waiting[change.topic] = change
        if self._timer is None and self._task is None:
            self._timer = self._loop.call_later(_BURST, self._end_burst)

    def _end_burst(self) -> None:
        self._timer = None
        if self._flow is not None and self._flow.is_congested:
            self._task = self._loop.create_task(self._send_when_writable(self._flow))
        else:
            self._send_all()

    async def _send_when_writable(self, flow: "ClientFlow") -> None:
        await flow.writable()
        self._task = None
        self._send_all()

    def _send_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for change in waiting.values():
            self._send(change)

    def stop(self) -> None:
        """Forget what waits; nothing more is sent."""
        self._waiting = {}
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
