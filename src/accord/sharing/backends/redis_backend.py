"""Shared state in Redis or Valkey, for workers on several machines."""

import asyncio
import logging
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from accord.errors import (
    ConfigurationError,
    DamagedRecord,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from accord.sharing.backends.backend import (
    Allowance,
    LogPage,
    NotifierByOldName,
    OnNotify,
    StoredRecord,
    takes_ring,
)
from accord.sharing.backends.engine import check_append, check_items, check_version
from accord.sharing.backends.redis_connection import Broken, EngineError, pack
from accord.sharing.backends.redis_notifications import RedisNotifications
from accord.sharing.backends.redis_routes import Routes, make_routes
from accord.sharing.backends.redis_scripts import (
    ADD,
    APPEND,
    COUNT,
    DELETE,
    MEMBERS,
    PUT,
    READ,
    REMOVE,
    SEIZE,
    TAKE,
    VERSION_DIGITS,
    Script,
)
from accord.sharing.backends.urls import parse_redis_url

__all__ = ["RedisBackend"]

log = logging.getLogger("accord.sharing")
Value = TypeVar("Value")

_NAMESPACE: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
# The oldest with which the scripts do all that is said here; Valkey says 7.2 or higher.
_LEAST_VERSION: Final = (7, 0)
# In milliseconds, some 34 years; a server refuses times that are much longer.
_LONGEST: Final = 2.0**40
_UNAVAILABLE: Final = frozenset(
    {
        "BUSY",
        "CLUSTERDOWN",
        "LOADING",
        "MASTERDOWN",
        "MISCONF",
        "NOAUTH",
        "NOPERM",
        "NOREPLICAS",
        "READONLY",
        "TRYAGAIN",
        "WRONGPASS",
    }
)


def _milliseconds(ttl: float) -> bytes:
    return b"%d" % min(_LONGEST, max(1.0, ttl * 1000))


def _optional(number: int | None) -> bytes:
    return b"" if number is None else b"%d" % number


def _record(raw: bytes | None) -> StoredRecord | None:
    if raw is None:
        return None
    return StoredRecord(raw[VERSION_DIGITS:], int(raw[:VERSION_DIGITS]))


def _log_page(reply: Any) -> LogPage | None:
    if reply is None:
        return None
    fence, last, is_closed, first, items = reply
    if not all(isinstance(each, int) for each in (fence, last, is_closed, first)):
        raise TypeError
    if not isinstance(items, list) or not all(isinstance(each, bytes) for each in items):
        raise TypeError
    return LogPage(
        items=items,
        first=first if items else last + 1,
        last=last,
        is_closed=bool(is_closed),
        fence=fence,
    )


def _time(reply: Any) -> float:
    seconds, microseconds = reply
    return int(seconds) + int(microseconds) / 1_000_000


def _describe_info(info: dict[str, str]) -> dict[str, str | int | float]:
    return {
        "engine": "valkey" if "valkey_version" in info else "redis",
        "version": info.get("valkey_version") or info.get("redis_version", ""),
        "role": info.get("role", ""),
        "uptime": int(info.get("uptime_in_seconds", 0)),
        "clients": int(info.get("connected_clients", 0)),
        "bytes": int(info.get("used_memory", 0)),
        "bytes_limit": int(info.get("maxmemory", 0)),
        "eviction": info.get("maxmemory_policy", ""),
        "is_appending": int(info.get("aof_enabled", 0)),
    }


def _read_refusal(reply: Any) -> tuple[int, int, bool]:
    held, last, is_closed = map(int, reply)
    return held, last, bool(is_closed)


class RedisBackend(NotifierByOldName):
    """Keeps what workers share in Redis (7.0 or newer) or Valkey, on the same or other machines.

    Operations of one process share one connection to each server; a second one hears notifications.
    Several servers of one process may share an object; each opens and closes it.

    Connections are made again by themselves. A change that was sent before a connection broke
    raises StoreUnavailable, as it may have been made; reads, and what was not sent yet, wait for
    the new connection, within their time limit.

    Args:
        url: `redis://user:password@host:6379/0`, `rediss://` for TLS, `redis+unix:///path`,
            `redis+cluster://host:port,host:port`, `redis+sentinel://host:port,host:port/master`.
        namespace: what all names begin with. Deployments with different ones do not see each other.
        timeout: seconds that an operation may take. Options of the URL win over both.

    Raises:
        ConfigurationError: the URL or the namespace is wrong.
    """

    is_shared = True

    def __init__(self, url: str, *, namespace: str = "accord", timeout: float = 2.0) -> None:
        self._target = parse_redis_url(url)
        namespace = self._target.namespace or namespace
        timeout = self._target.timeout or timeout
        if not _NAMESPACE.fullmatch(namespace):
            raise ConfigurationError(
                f"invalid namespace {namespace!r}: it has 1 to 100 letters, digits, '.', '_', '-'"
            )
        if not 0 < timeout < math.inf:
            raise ConfigurationError("the timeout of a store is a number of seconds above 0")
        self.namespace = namespace
        self.url = self._target.url
        self.is_remote = self._target.kind != "unix"
        self._timeout = timeout
        # One letter each, as names are kept in the memory of the server.
        self._records, self._indexes, self._logs, self._buckets, self._channels = (
            f"{namespace}:{kind}:".encode() for kind in "rilbc"
        )
        self._routes: Routes | None = None
        self._notifications: RedisNotifications | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened = 0
        self._opening = asyncio.Lock()
        self._has_warned = False

    async def open(self) -> None:
        """Connect, and look whether the server is fit for this; each call needs a `close`."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._opened and self._loop is not None and not self._loop.is_closed():
                raise self._unavailable("it is open on another event loop")
            self._loop, self._opened, self._opening = loop, 0, asyncio.Lock()
        async with self._opening:
            if not self._opened:
                await self._connect()
            self._opened += 1

    async def _connect(self) -> None:
        self._routes = routes = make_routes(self._target, timeout=self._timeout)
        self._notifications = RedisNotifications(
            routes.connect, prefix=self._channels, timeout=self._timeout
        )
        try:
            await routes.open()
            self._check_fitness(await self._read_info())
        except BaseException as error:
            await self._disconnect()
            if isinstance(error, Broken):
                raise self._unavailable(error) from None
            raise

    async def close(self) -> None:
        """Close the connections, when everything that opened it has closed it."""
        self._opened = max(0, self._opened - 1)
        if not self._opened:
            await self._disconnect()

    async def _disconnect(self) -> None:
        notifications, self._notifications = self._notifications, None
        routes, self._routes = self._routes, None
        if notifications is not None:
            await notifications.close()
        if routes is not None:
            await routes.close()

    async def now(self) -> float:
        """Return the time of the server; in a cluster, of one of them."""
        return self._read(_time, await self._command(b"", b"TIME"), "TIME")

    # -- records

    async def get(self, key: str) -> StoredRecord | None:
        """Return a record; None if it does not exist, or has expired."""
        name = self._records + key.encode()
        return self._read(_record, await self._command(name, b"GET", name), key)

    async def put(self, key: str, value: bytes, *, ttl: float, expect: int | None = None) -> int:
        """Write a record; return its version."""
        reply = await self._run(
            PUT, self._records + key.encode(), value, _milliseconds(ttl), _optional(expect)
        )
        if isinstance(reply, list):
            check_version(key, expect, self._read(lambda found: _record(*found), reply, key))
        return self._read(int, reply, key)

    async def delete(self, key: str, *, expect: int | None = None) -> bool:
        """Delete a record; return whether there was one."""
        name = self._records + key.encode()
        if expect is None:
            return bool(await self._command(name, b"UNLINK", name, is_repeatable=False))
        reply = await self._run(DELETE, name, b"%d" % expect)
        if isinstance(reply, list):
            check_version(key, expect, self._read(lambda found: _record(*found), reply, key))
        return bool(reply)

    async def touch(self, key: str, *, ttl: float) -> bool:
        """Let a record live for this long from now on; return whether there is one."""
        name = self._records + key.encode()
        return bool(await self._command(name, b"PEXPIRE", name, _milliseconds(ttl)))

    # -- indexes

    async def add(self, index: str, members: Iterable[str], *, ttl: float) -> None:
        """Add names to an index; those that are in it live for this long from now on."""
        names = [each.encode() for each in members]
        if names:
            await self._run(ADD, self._indexes + index.encode(), _milliseconds(ttl), *names)

    async def remove(self, index: str, members: Iterable[str]) -> int:
        """Remove names from an index; return how many were in it."""
        names = [each.encode() for each in members]
        if not names:
            return 0
        reply = await self._run(REMOVE, self._indexes + index.encode(), *names)
        return self._read(int, reply, index)

    async def members(self, index: str, *, limit: int = 1000) -> list[str]:
        """Return names of an index that have not expired, in any order."""
        reply = await self._run(MEMBERS, self._indexes + index.encode(), b"%d" % limit)
        return self._read(lambda names: [each.decode() for each in names], reply, index)

    async def count(self, index: str) -> int:
        """Return how many names of an index have not expired."""
        reply = await self._run(COUNT, self._indexes + index.encode())
        return self._read(int, reply, index)

    # -- logs

    @takes_ring
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
        """Add entries to a log, all of them or none; return the number of the last one."""
        check_items(items, final=final)
        reply = await self._run(
            APPEND,
            self._logs + log.encode(),
            _milliseconds(ttl),
            _optional(fence),
            _optional(after),
            b"1" if final else b"",
            b"%d" % keep,
            b"%d" % len(notify),
            *[self._channels + topic.encode() for topic in notify],
            *items,
        )
        if isinstance(reply, list):
            held, last, is_closed = self._read(_read_refusal, reply, log)
            check_append(log, last=last, held=held, is_closed=is_closed, fence=fence, after=after)
        return self._read(int, reply, log)

    async def read(self, log: str, *, after: int = 0, limit: int = 1000) -> LogPage | None:
        """Return the entries after a number; None if there is no such log, or it has expired."""
        reply = await self._run(READ, self._logs + log.encode(), b"%d" % after, b"%d" % limit)
        return self._read(_log_page, reply, log)

    async def seize(self, log: str, *, fence: int) -> bool:
        """Take an open log over from the holder of a fence: it becomes higher by one."""
        return bool(await self._run(SEIZE, self._logs + log.encode(), b"%d" % fence))

    async def extend(self, log: str, *, ttl: float) -> bool:
        """Let a log live for this long from now on; return whether there is one."""
        name = self._logs + log.encode()
        return bool(await self._command(name, b"PEXPIRE", name, _milliseconds(ttl)))

    async def drop(self, log: str) -> None:
        """Delete a log with its entries."""
        name = self._logs + log.encode()
        await self._command(name, b"UNLINK", name)

    # -- notifications

    async def notify(self, *topics: str) -> None:
        """Call what follows these topics, in every process."""
        channels = [self._channels + topic.encode() for topic in dict.fromkeys(topics)]
        if len(channels) == 1:
            await self._command(channels[0], b"PUBLISH", channels[0], b"")
        else:
            await asyncio.gather(
                *[self._command(channel, b"PUBLISH", channel, b"") for channel in channels]
            )

    async def follow(self, topic: str, on_notify: OnNotify) -> None:
        """Call something whenever a topic is notified, from when this returns until `unfollow`."""
        if self._notifications is None:
            raise self._unavailable("it is not open")
        try:
            await self._notifications.follow(topic, on_notify)
        except Broken as error:
            raise self._unavailable(error) from None
        except EngineError as error:
            raise self._failure(error) from None

    async def unfollow(self, topic: str, on_notify: OnNotify) -> None:
        """Call it no more."""
        if self._notifications is not None:
            self._notifications.unfollow(topic, on_notify)

    # -- buckets

    async def take(self, bucket: str, *, cost: float, rate: float, burst: float) -> Allowance:
        """Take from a bucket that fills by itself; all of the cost, or nothing."""
        numbers = [repr(float(each)).encode() for each in (cost, rate, burst)]
        wait = await self._run(TAKE, self._buckets + bucket.encode(), *numbers)
        return Allowance(
            is_granted=wait is None, wait=self._read(float, 0 if wait is None else wait, bucket)
        )

    # -- operation

    async def describe(self) -> dict[str, str | int | float]:
        """Return the version of the server, and how much it holds; of one node in a cluster."""
        info = await self._read_info()
        size = await self._command(b"", b"DBSIZE")
        return {
            "keys": self._read(int, size, "DBSIZE"),
            **self._read(_describe_info, info, "INFO"),
        }

    async def _read_info(self) -> dict[str, str]:
        """Return what the server says about itself; empty if the user may not ask."""
        reply = await self._request(b"", pack(b"INFO"), is_repeatable=True)
        if isinstance(reply, EngineError):
            if reply.code != "NOPERM":
                raise self._failure(reply)
            return {}
        text = self._read(lambda found: found.decode(errors="replace"), reply, "INFO")
        lines = [line.partition(":") for line in text.splitlines()]
        return {name: value for name, colon, value in lines if colon}

    def _check_fitness(self, info: dict[str, str]) -> None:
        version = info.get("redis_version", "")
        if version and tuple(map(int, re.findall(r"\d+", version)[:2])) < _LEAST_VERSION:
            least = ".".join(map(str, _LEAST_VERSION))
            raise self._unavailable(f"it has version {version}, and {least} or newer is needed")
        if info.get("cluster_enabled") == "1" and self._target.kind != "cluster":
            raise self._unavailable("it is part of a cluster, which needs a redis+cluster:// URL")
        if info.get("role") == "slave":
            raise self._unavailable("it is a replica, which takes no changes")
        policy = info.get("maxmemory_policy", "noeviction")
        if policy != "noeviction" and info.get("maxmemory", "0") != "0" and not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s has maxmemory-policy %s: when it is full, it forgets sessions and streams that "
                "are in use; set it to noeviction",
                self.url,
                policy,
            )

    # -- requests

    async def _command(self, key: bytes, *words: bytes, is_repeatable: bool = True) -> Any:
        reply = await self._request(key, pack(*words), is_repeatable=is_repeatable)
        if reply.__class__ is EngineError:
            raise self._failure(reply)
        return reply

    async def _run(self, script: Script, key: bytes, *args: bytes) -> Any:
        packed = pack(b"EVALSHA", script.digest, b"1", key, *args)
        reply = await self._request(key, packed, is_repeatable=script.is_repeatable)
        if reply.__class__ is EngineError:
            if reply.code == "NOSCRIPT":  # a server that was started again has forgotten it
                packed = pack(b"EVAL", script.source, b"1", key, *args)
                reply = await self._request(key, packed, is_repeatable=script.is_repeatable)
            if reply.__class__ is EngineError:
                raise self._failure(reply)
        return reply

    async def _request(self, key: bytes, packed: bytes, *, is_repeatable: bool) -> Any:
        if self._loop is None or self._routes is None:
            raise self._unavailable("it is not open")
        deadline = self._loop.time() + self._timeout
        try:
            return await self._routes.request(key, packed, deadline, is_repeatable=is_repeatable)
        except Broken as error:
            raise self._unavailable(error) from None

    def _read(self, read: Callable[[Any], Value], reply: Any, name: str) -> Value:
        """Return what a reply says; others may have written what it is made from."""
        try:
            return read(reply)
        except (TypeError, ValueError, AttributeError, OverflowError):
            raise DamagedRecord(
                f"the store {self.url} has something else than accord writes under {name!r}"
            ) from None

    def _unavailable(self, cause: object) -> StoreUnavailable:
        return StoreUnavailable(f"the store {self.url} is not available: {cause}")

    def _failure(self, error: EngineError) -> StoreError:
        text = str(error)
        # Inside of a script, older servers put their own words in front.
        if "OOM command not allowed" in text or "No space left on device" in text:
            return StoreFull(f"the store {self.url} has no room: {text}")
        if error.code in _UNAVAILABLE:
            return self._unavailable(text)
        return StoreError(f"the store {self.url} refuses a command: {text}")
