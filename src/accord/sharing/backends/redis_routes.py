"""Which server of a URL keeps a key, and what to do when that changes.

It is the only one, the master that sentinels name, or a node of a cluster. A command is sent again
if the server said that it was not carried out, or if it may be carried out twice.
"""

import asyncio
from abc import ABC, abstractmethod
from binascii import crc_hqx
from contextlib import suppress
from functools import partial
from typing import Any, Final

from accord.sharing.backends.redis_connection import (
    Broken,
    EngineError,
    LinkClosed,
    OnLost,
    OnPush,
    RedisConnection,
    RedisLink,
    connect,
    explain,
    pack,
)
from accord.sharing.backends.urls import Address, RedisTarget

__all__ = ["ClusterRoutes", "Routes", "SentinelRoutes", "SingleRoutes", "find_slot", "make_routes"]

_SLOTS: Final = 16384
# Codes of answers that say "not now": nothing was done, and it will be possible soon.
_NOT_NOW: Final = frozenset(
    {"BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "NOREPLICAS", "READONLY", "TRYAGAIN"}
)
_PAUSE: Final = 0.05
# Seconds between two looks at the layout of a cluster that changes.
_LAYOUT_PAUSE: Final = 0.1
_ASKING: Final = pack(b"ASKING")


def find_slot(key: bytes) -> int:
    """Return the slot of a key in a cluster: that of its part in braces, if it has one."""
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key, 0) % _SLOTS


class Routes(ABC):
    """Sends commands to the server that keeps their key."""

    def __init__(self, target: RedisTarget, *, timeout: float) -> None:
        self._target = target
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()

    @abstractmethod
    async def open(self) -> None:
        """Connect.

        Raises:
            Broken: no server can be reached.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""

    @abstractmethod
    def find(self, key: bytes) -> RedisLink:
        """Return the link of the server that keeps a key."""

    @abstractmethod
    async def connect(self, on_lost: OnLost, on_push: OnPush) -> RedisConnection:
        """Connect to a server that notifies.

        Raises:
            Broken: none can be reached.
        """

    @abstractmethod
    def _redirect(self, error: EngineError, link: RedisLink) -> RedisLink:
        """Return the link of the server that an answer names instead of this one."""

    @abstractmethod
    def _note_trouble(self) -> None:
        """Look soon whether another server keeps what this one did."""

    async def request(
        self, key: bytes, packed: bytes, deadline: float, *, is_repeatable: bool
    ) -> Any:
        """Carry a command out, and return the reply, which may be an EngineError.

        Args:
            key: the key that decides which server does it.
            packed: the command.
            deadline: by the clock of the loop.
            is_repeatable: whether it does no harm if it is carried out twice.

        Raises:
            Broken: there was no answer in time, or the connection broke before it came.
        """
        link, is_asking = self.find(key), False
        while True:
            try:
                connection = link.connection or await link.wait(deadline)
            except LinkClosed:
                closed, link, is_asking = link, self.find(key), False
                if link is closed:
                    raise Broken("it was closed") from None
                continue
            if is_asking:
                connection.send(_ASKING, deadline).add_done_callback(_forget)
            try:
                reply = await connection.send(packed, deadline)
            except Broken:
                if not is_repeatable or self._loop.time() >= deadline:
                    raise
                link, is_asking = self.find(key), False
                continue
            if reply.__class__ is not EngineError:
                return reply
            if reply.code in ("MOVED", "ASK") and self._loop.time() < deadline:
                link, is_asking = self._redirect(reply, link), reply.code == "ASK"
                continue
            if reply.code not in _NOT_NOW or self._loop.time() + _PAUSE > deadline:
                return reply
            if reply.code == "READONLY":
                connection.fail("it has become a replica, which takes no changes")
            self._note_trouble()
            await asyncio.sleep(_PAUSE)
            link, is_asking = self.find(key), False


def _forget(reply: "asyncio.Future[Any]") -> None:
    if not reply.cancelled():
        reply.exception()


class SingleRoutes(Routes):
    """All keys are at one address."""

    def __init__(self, target: RedisTarget, *, timeout: float) -> None:
        super().__init__(target, timeout=timeout)
        self._link = RedisLink(self._connect, address=target.addresses[0], timeout=timeout)

    async def open(self) -> None:
        """Connect."""
        await self._link.open()

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()

    def find(self, key: bytes) -> RedisLink:
        """Return the only link."""
        return self._link

    async def connect(self, on_lost: OnLost, on_push: OnPush) -> RedisConnection:
        """Connect once more."""
        return await self._connect(on_lost, on_push)

    def _redirect(self, error: EngineError, link: RedisLink) -> RedisLink:
        raise Broken(f"it is part of a cluster, which needs a redis+cluster:// URL ({error.code})")

    def _note_trouble(self) -> None:
        return  # the next connection looks where the server is

    async def _connect(self, on_lost: OnLost, on_push: OnPush | None = None) -> RedisConnection:
        address = self._target.addresses[0]
        return await connect(
            self._target, address, timeout=self._timeout, on_lost=on_lost, on_push=on_push
        )


class SentinelRoutes(SingleRoutes):
    """All keys are at the master that sentinels name; they are asked before each connection."""

    def __init__(self, target: RedisTarget, *, timeout: float) -> None:
        super().__init__(target, timeout=timeout)
        self._sentinels = list(target.addresses)

    async def _connect(self, on_lost: OnLost, on_push: OnPush | None = None) -> RedisConnection:
        address = await self._find_master()
        connection = await connect(
            self._target, address, timeout=self._timeout, on_lost=on_lost, on_push=on_push
        )
        # Sentinels may not know yet that it is one no more.
        try:
            role = await connection.call(b"ROLE")
        except EngineError:
            return connection  # the user may not ask; the first change will show it
        except Broken:
            connection.close()
            raise
        if role[0] != b"master":
            connection.close()
            raise Broken(f"{address} is not a master any more")
        return connection

    async def _find_master(self) -> Address:
        causes = []
        for sentinel in list(self._sentinels):
            try:
                found = await self._ask(sentinel)
            except (Broken, EngineError) as error:
                causes.append(f"{sentinel}: {explain(error, timeout=self._timeout)}")
                continue
            if found is None:
                causes.append(f"{sentinel}: it does not know {self._target.master!r}")
                continue
            self._sentinels.remove(sentinel)
            self._sentinels.insert(0, sentinel)  # the one that answered is asked first
            return Address(found[0].decode(), int(found[1]))
        raise Broken(f"no sentinel names the master: {'; '.join(causes)}")

    async def _ask(self, sentinel: Address) -> Any:
        share = self._timeout / len(self._sentinels)
        connection = await connect(self._target, sentinel, timeout=share, is_sentinel=True)
        try:
            return await connection.call(
                b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", self._target.master.encode()
            )
        finally:
            connection.close()


class ClusterRoutes(Routes):
    """Keys are spread over the nodes of a cluster by their slots."""

    def __init__(self, target: RedisTarget, *, timeout: float) -> None:
        super().__init__(target, timeout=timeout)
        self._links: dict[Address, RedisLink] = {}
        self._retired: list[RedisLink] = []
        self._slots: list[RedisLink | None] = [None] * _SLOTS
        self._refreshing: asyncio.Task[None] | None = None
        self._turn = 0

    async def open(self) -> None:
        """Read the layout, and connect to each node when it is first needed."""
        await self._refresh()

    async def close(self) -> None:
        """Close all connections."""
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing})
        links = [*self._links.values(), *self._retired]
        self._links, self._retired, self._slots = {}, [], [None] * _SLOTS
        for link in links:
            await link.close()

    def find(self, key: bytes) -> RedisLink:
        """Return the link of the node that keeps a slot."""
        link = self._slots[find_slot(key)] or next(iter(self._links.values()), None)
        if link is None:
            raise Broken("it was closed")
        return link

    async def connect(self, on_lost: OnLost, on_push: OnPush) -> RedisConnection:
        """Connect to the first node that answers; each notifies for the whole cluster."""
        causes = []
        for address in list(self._links):
            try:
                return await self._connect(address, on_lost, on_push)
            except Broken as error:
                causes.append(f"{address}: {error}")
        raise Broken("; ".join(causes))

    async def _connect(
        self, address: Address, on_lost: OnLost | None = None, on_push: OnPush | None = None
    ) -> RedisConnection:
        return await connect(
            self._target, address, timeout=self._timeout, on_lost=on_lost, on_push=on_push
        )

    def _link_to(self, address: Address) -> RedisLink:
        if address not in self._links:
            self._links[address] = RedisLink(
                partial(self._connect, address),
                address=address,
                timeout=self._timeout,
                on_trouble=self._note_trouble,
            )
        return self._links[address]

    def _redirect(self, error: EngineError, link: RedisLink) -> RedisLink:
        slot, _, place = error.rest.partition(" ")
        host, _, port = place.rpartition(":")
        # Without a host, it is that of the node which answered.
        moved = self._link_to(Address(host or link.address.host, int(port)))
        if error.code == "MOVED":
            self._slots[int(slot)] = moved
            self._note_trouble()
        return moved

    # -- the layout

    def _note_trouble(self) -> None:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._loop.create_task(self._refresh_soon())

    async def _refresh_soon(self) -> None:
        await asyncio.sleep(_LAYOUT_PAUSE)
        with suppress(Broken):  # the next trouble asks again
            await self._refresh()

    async def _refresh(self) -> None:
        """Ask nodes for the layout until one answers.

        Raises:
            Broken: none does.
        """
        causes = []
        for address in self._nodes_to_ask():
            try:
                layout = await self._ask(address)
            except (Broken, EngineError) as error:
                causes.append(f"{address}: {explain(error, timeout=self._timeout)}")
                continue
            if layout:
                self._apply(layout, address)
                return
            causes.append(f"{address}: it has no slots")
        raise Broken(f"no node knows the layout: {'; '.join(causes)}")

    def _nodes_to_ask(self) -> list[Address]:
        """Return connected nodes first, and another one each time: one may be cut off."""
        connected = [each for each, link in self._links.items() if link.connection is not None]
        if connected:
            self._turn = (self._turn + 1) % len(connected)
        first = connected[self._turn :] + connected[: self._turn]
        return list(dict.fromkeys([*first, *self._links, *self._target.addresses]))

    async def _ask(self, address: Address) -> Any:
        link = self._links.get(address)
        if link is not None and link.connection is not None:
            return await link.connection.call(b"CLUSTER", b"SLOTS")
        connection = await self._connect(address)
        try:
            return await connection.call(b"CLUSTER", b"SLOTS")
        except EngineError as error:
            if "support disabled" in str(error):
                raise Broken("it is not part of a cluster; use a redis:// URL") from None
            raise
        finally:
            connection.close()

    def _apply(self, layout: list[Any], asked: Address) -> None:
        slots: list[RedisLink | None] = [None] * _SLOTS
        used = set()
        for start, end, (host, port, *_), *_ in layout:
            # A node without a name of its own is at the host that was asked.
            name = asked.host if host in (None, b"", b"?") else host.decode()
            used.add(Address(name, port))
            slots[start : end + 1] = [self._link_to(Address(name, port))] * (end + 1 - start)
        self._slots = slots
        self._retired = [link for link in self._retired if not link.is_gone]
        for address in self._links.keys() - used:
            link = self._links.pop(address)
            link.retire()
            self._retired.append(link)


def make_routes(target: RedisTarget, *, timeout: float) -> Routes:
    """Return the routes for a URL, not connected yet."""
    if target.kind == "cluster":
        return ClusterRoutes(target, timeout=timeout)
    if target.kind == "sentinel":
        return SentinelRoutes(target, timeout=timeout)
    return SingleRoutes(target, timeout=timeout)
