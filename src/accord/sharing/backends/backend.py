"""The interface to an engine that keeps what several workers share.

Everything above it, such as sessions, streams, tasks and limits, is made of these few operations,
each of which is one atomic step on one key. A backend sees names and bytes, and knows nothing of
the protocol. `docs/backends.md` says how to write one; the contract suite in
`tests/sharing/backends/contract` says when it is right.

Names are text without control characters, of at most 200 characters. The part in braces, if a name
has one, says which names belong together: an engine that spreads names over machines keeps those
with the same part on one machine. Records, logs, indexes and buckets have separate names.

Everything expires. Times to live are seconds, and the engine's clock alone decides.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, cast
from warnings import warn

import msgspec

__all__ = [
    "Allowance",
    "Backend",
    "ForwardingBackend",
    "LogPage",
    "NotifierByOldName",
    "OnNotify",
    "StoredRecord",
    "takes_ring",
]

P = ParamSpec("P")
Value = TypeVar("Value")
Append = TypeVar("Append", bound=Callable[..., Any])

OnNotify: TypeAlias = Callable[[], None]
"""Called on the event loop when a topic is notified that it follows."""


class StoredRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record as it is kept.

    Attributes:
        value: what was put.
        version: more than 0. It grows with each change, and is not used again for the same name,
            even after the record was deleted or has expired.
    """

    value: bytes
    version: int


class LogPage(msgspec.Struct, frozen=True, array_like=True):
    """Entries of a log.

    Attributes:
        items: the entries that were asked for and are still kept, oldest first.
        first: the number of the first of them; if it is higher than was asked for, the entries
            between were dropped. The next number to come, where there are no items.
        last: the number of the log's last entry; 0 for a log that never had one.
        is_closed: whether the last entry is the final one.
        fence: the fence of the log.
    """

    items: list[bytes]
    first: int
    last: int
    is_closed: bool
    fence: int


class Allowance(msgspec.Struct, frozen=True, array_like=True):
    """What a bucket says.

    Attributes:
        is_granted: whether there was enough in it.
        wait: seconds until there will be enough; 0 if there was.
    """

    is_granted: bool
    wait: float


class Backend(Protocol):
    """Keeps what several workers share: records, indexes, logs, notifications and buckets.

    Every operation raises StoreUnavailable if the engine does not answer in time, in which case it
    may or may not have been carried out, and StoreFull if it has no room. An operation that is
    cancelled may or may not have been carried out, too.

    Attributes:
        url: how it is reached, without passwords; for messages and logs.
        is_shared: whether other processes can reach what it keeps.
        is_remote: whether it is reached over a network.
    """

    url: str
    is_shared: bool
    is_remote: bool

    async def open(self) -> None:
        """Connect, on the running loop. May be called again after `close`.

        Raises:
            StoreUnavailable: the engine cannot be reached, or is not fit for this; says why.
        """

    async def close(self) -> None:
        """Let go of connections, files and threads. What is kept stays."""

    async def now(self) -> float:
        """Return the time of the engine, in seconds since 1970."""

    # -- records

    async def get(self, key: str) -> StoredRecord | None:
        """Return a record; None if it does not exist, or has expired."""

    async def put(self, key: str, value: bytes, *, ttl: float, expect: int | None = None) -> int:
        """Write a record; return its version.

        Args:
            key: its name.
            value: what to keep.
            ttl: seconds from now after which it is gone.
            expect: the version it must have; 0 if it must not exist.

        Raises:
            Conflict: it is not as expected; `record` is what there is.
        """

    async def delete(self, key: str, *, expect: int | None = None) -> bool:
        """Delete a record; return whether there was one.

        Raises:
            Conflict: it has another version than the expected one.
        """

    async def touch(self, key: str, *, ttl: float) -> bool:
        """Let a record live for this long from now on; return whether there is one."""

    # -- indexes: sets of names, each of which expires by itself

    async def add(self, index: str, members: Iterable[str], *, ttl: float) -> None:
        """Add names to an index; those that are in it live for this long from now on."""

    async def remove(self, index: str, members: Iterable[str]) -> int:
        """Remove names from an index; return how many were in it."""

    async def members(self, index: str, *, limit: int = 1000) -> list[str]:
        """Return names of an index that have not expired, in any order."""

    async def count(self, index: str) -> int:
        """Return how many names of an index have not expired."""

    # -- logs: entries with the numbers 1, 2, 3 and so on

    async def append(
        self,
        log: str,
        items: Sequence[bytes],
        *,
        ttl: float,
        fence: int | None = None,
        after: int | None = None,
        final: bool = False,
        keep: int = 0,
        notify: Sequence[str] = (),
    ) -> int:
        """Add entries to a log, all of them or none; return the number of the last one.

        A log begins with its first entry, with the fence 0, unless another one is given.

        Args:
            log: its name.
            items: the entries; may be empty with `final`.
            ttl: seconds from now after which the log is gone, unless it is changed before.
            fence: that of the caller. One that is lower than that of the log is refused; a higher
                one becomes that of the log. Not looked at without it.
            after: the number that the last entry must have; 0 for a log without entries.
            final: whether nothing may follow.
            keep: how many entries are kept, the newest; 0 for all.
            notify: topics to notify, if the entries are added; as `notify` does.

        Raises:
            Fenced: another worker has taken the log over.
            LogClosed: it has its final entry already.
            Conflict: its last entry has another number; `last` is that number.
        """

    async def read(self, log: str, *, after: int = 0, limit: int = 1000) -> LogPage | None:
        """Return the entries after a number; None if there is no such log, or it has expired."""

    async def seize(self, log: str, *, fence: int) -> bool:
        """Take an open log over from the holder of a fence: it becomes higher by one.

        Returns:
            False if the log has another fence, is closed, or does not exist. So of several callers
            with the same fence, one gets it.
        """

    async def extend(self, log: str, *, ttl: float) -> bool:
        """Let a log live for this long from now on; return whether there is one."""

    async def drop(self, log: str) -> None:
        """Delete a log with its entries."""

    # -- notifications: hints that something has changed, which may get lost

    async def notify(self, *topics: str) -> None:
        """Call what follows these topics, in every process."""

    async def follow(self, topic: str, on_notify: OnNotify) -> None:
        """Call something whenever a topic is notified, from when this returns until `unfollow`.

        Hints get lost when a connection to the engine breaks; after that, everything is called once
        that follows anything. Those of one moment may be joined.
        """

    async def unfollow(self, topic: str, on_notify: OnNotify) -> None:
        """Call it no more."""

    # -- buckets: limits on how often something happens

    async def take(self, bucket: str, *, cost: float, rate: float, burst: float) -> Allowance:
        """Take from a bucket that fills by itself; all of the cost, or nothing.

        Args:
            bucket: its name.
            cost: how much to take.
            rate: how much flows in per second.
            burst: how much it holds, and has in the beginning.
        """

    # -- operation

    async def describe(self) -> dict[str, str | int | float]:
        """Return facts about the engine for an operator: its version, how much it holds."""


# -- backends that pass everything on to another one


class _Run(Protocol):
    """Awaits an operation and returns its result, and may do something around it."""

    async def __call__(self, operation: Coroutine[Any, Any, Value], /) -> Value: ...


async def _await(operation: Coroutine[Any, Any, Value], /) -> Value:
    return await operation


def _forward(
    operation: Callable[Concatenate[Backend, P], Coroutine[Any, Any, Value]],
) -> Callable[Concatenate["ForwardingBackend", P], Coroutine[Any, Any, Value]]:
    """Return a method that passes an operation on."""
    name = operation.__name__

    @wraps(operation)
    async def call(self: "ForwardingBackend", /, *args: P.args, **keywords: P.kwargs) -> Value:
        return await self._run(getattr(self._backend, name)(*args, **keywords))

    return call


class ForwardingBackend:
    """Passes every operation on to a backend.

    Args:
        backend: the other one; one that was written for accord 0.2, with `ring`, is taken as well.
        run: awaits each operation of the store, all but `open`, `close` and `describe`.
    """

    def __init__(self, backend: Backend, run: _Run = _await) -> None:
        self._backend: Backend = backend
        if not hasattr(backend, "notify"):
            older: Any = _OlderBackend(backend)
            self._backend = older
        self._run = run
        self.url = backend.url
        self.is_shared = backend.is_shared
        self.is_remote = backend.is_remote

    async def open(self) -> None:
        """Open the backend."""
        await self._backend.open()

    async def close(self) -> None:
        """Close the backend."""
        await self._backend.close()

    now = _forward(Backend.now)
    get = _forward(Backend.get)
    put = _forward(Backend.put)
    delete = _forward(Backend.delete)
    touch = _forward(Backend.touch)
    add = _forward(Backend.add)
    remove = _forward(Backend.remove)
    members = _forward(Backend.members)
    count = _forward(Backend.count)
    append = _forward(Backend.append)
    read = _forward(Backend.read)
    seize = _forward(Backend.seize)
    extend = _forward(Backend.extend)
    drop = _forward(Backend.drop)
    notify = _forward(Backend.notify)
    follow = _forward(Backend.follow)
    unfollow = _forward(Backend.unfollow)
    take = _forward(Backend.take)

    async def describe(self) -> dict[str, str | int | float]:
        """Return facts about the engine for an operator."""
        return await self._backend.describe()


# -- names up to 0.2, until 0.4: `notify` was `ring`


def takes_ring(append: Append) -> Append:
    """Let `append` take `ring` for `notify`, with a warning."""

    @wraps(append)
    def call(*args: Any, **keywords: Any) -> Any:
        if "ring" in keywords:
            old = "append(ring=...) will go in 0.4: write notify=..."
            warn(old, DeprecationWarning, stacklevel=2)
            keywords["notify"] = keywords.pop("ring")
        return append(*args, **keywords)

    return cast("Append", call)


class NotifierByOldName:
    """The former name of `notify`."""

    async def ring(self: Backend, *topics: str) -> None:
        """Call what follows these topics: `notify`, with a warning."""
        warn("ring(...) will go in 0.4: write notify(...)", DeprecationWarning, stacklevel=2)
        await self.notify(*topics)


class _OlderBackend:
    """A backend that was written for accord 0.2, where `notify` was `ring`; taken until 0.4."""

    def __init__(self, older: Any) -> None:
        name = type(older).__name__
        warn(
            f"the backend {name} has no notify(), which was ring() up to accord 0.2, and "
            "append(ring=...) is append(notify=...): rename both; 0.4 will refuse it",
            DeprecationWarning,
            stacklevel=3,
        )
        self._older = older

    async def notify(self, *topics: str) -> None:
        await self._older.ring(*topics)

    async def append(
        self, log: str, items: Sequence[bytes], *, notify: Sequence[str] = (), **options: Any
    ) -> int:
        return int(await self._older.append(log, items, ring=notify, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._older, name)
