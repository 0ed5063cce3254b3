"""Token buckets that all workers share, and what takes their place while the store is away.

A worker asks the store for each token, unless a caller is fast: then it takes some at once, and
hands them out within a second. So all workers together never grant more than the limit by more than
these, and a caller that is refused costs the store nothing until there is a token again.
"""

import asyncio
import logging
import math
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from accord.errors import StoreError
from accord.middleware.requests import AnyContext, server_of
from accord.sharing.workers import names

if TYPE_CHECKING:
    from accord.middleware.limiting import RateLimit
    from accord.server.core import ServerCore
    from accord.sharing.backends.backend import Allowance
    from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.middleware")

# As many callers as are known by name; each costs 0.3 kB.
_CALLERS_MOST: Final = 100_000
# A caller is fast if it comes again within this time, in seconds.
_FAST: Final = 0.25
# For so long tokens may be handed out that were taken at once.
_HELD: Final = 1.0
# Tokens that are taken at once: this part of the bucket, and no more than flow in in this time.
_PART: Final = 20
_SECONDS_AT_ONCE: Final = 0.1
# How often the other workers are counted, in seconds.
_COUNTED_EVERY: Final = 10.0
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class _Reserve:
    """What one worker knows of a bucket."""

    __slots__ = ("held", "held_until", "refused_until", "scarce_until", "taken_at")

    def __init__(self) -> None:
        self.held = 0
        self.held_until = self.refused_until = self.scarce_until = 0.0
        self.taken_at = -math.inf


class SharedBuckets:
    """Token buckets by key, which all workers share.

    Args:
        limit: what they belong to.
        rate: how many tokens a bucket gets per second.
        size: how many it holds.
        clock: returns seconds.
    """

    def __init__(
        self, limit: "RateLimit", rate: float, size: int, clock: Callable[[], float]
    ) -> None:
        # Weakly: the limit holds its buckets.
        self._limit = weakref.ref(limit)
        self._rate = rate
        self._size = size
        self._clock = clock
        self._at_once = max(1, min(size // _PART, math.floor(rate * _SECONDS_AT_ONCE)))
        # The one that was used longest ago comes first.
        self._reserves: OrderedDict[str, _Reserve] = OrderedDict()
        self._labels: weakref.WeakKeyDictionary[ServerCore, str] = weakref.WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._reserves)

    def name_of(self, ctx: AnyContext, key: Hashable) -> str | None:
        """Return the name of a bucket in the store; None for a key that other workers cannot know.

        Args:
            ctx: a request that the bucket limits.
            key: what shares the bucket.
        """
        server = server_of(ctx)
        label = self._labels.get(server)
        if label is None:
            label = self._labels[server] = self._label(server)
        if isinstance(key, tuple) and key and isinstance(key[-1], weakref.ref):
            session = ctx.request.session_id
            if session is None:
                return None
            key = (*key[:-1], session)
        try:
            text = _encode(key)
        except (TypeError, ValueError):
            return None
        return f"{{l{sha256(label.encode() + text).hexdigest()[:40]}}}l"

    def _label(self, server: "ServerCore") -> str:
        """Name the limit among all limits of a server, which may have two that are equal."""
        own = self._limit()
        assert own is not None
        limits = [getattr(function, "rate_limit", None) for function in server.layers.functions]
        equal = [each for each in limits if each is not None and each.settings == own.settings]
        number = equal.index(own) if own in equal else 0
        return f"{server.name}\n{own.settings}\n{number}\n"

    async def take(self, worker: "Worker", name: str) -> float:
        """Take a token; return 0, or the seconds until there may be one.

        Raises:
            StoreError: the store does not answer.
        """
        now = self._clock()
        reserve = self._reserves.get(name)
        if reserve is None:
            reserve = self._add(name)
        elif now < reserve.refused_until:
            return reserve.refused_until - now
        elif reserve.held and now < reserve.held_until:
            reserve.held -= 1
            return 0.0
        else:
            self._reserves.move_to_end(name)
        is_fast = now - reserve.taken_at < _FAST and now >= reserve.scarce_until
        cost = self._at_once if is_fast else 1
        allowance = await self._ask(worker, name, cost)
        if not allowance.is_granted and cost > 1:
            reserve.scarce_until = now + _HELD
            cost, allowance = 1, await self._ask(worker, name, 1)
        if not allowance.is_granted:
            reserve.refused_until = now + allowance.wait
            return max(allowance.wait, 0.001)
        if now >= reserve.held_until:
            reserve.held = 0
        reserve.held += cost - 1
        reserve.taken_at, reserve.held_until = now, now + _HELD
        return 0.0

    async def _ask(self, worker: "Worker", name: str, cost: int) -> "Allowance":
        return await worker.backend.take(name, cost=cost, rate=self._rate, burst=self._size)

    def _add(self, name: str) -> _Reserve:
        made = self._reserves[name] = _Reserve()
        if len(self._reserves) > _CALLERS_MOST:
            self._reserves.popitem(last=False)
        return made


class WorkerCount:
    """How many workers there are, as it was when the store last answered."""

    def __init__(self) -> None:
        self._counted_at = -math.inf
        self._task: asyncio.Task[None] | None = None
        self.count = 1

    def refresh(self, worker: "Worker") -> None:
        """Count them soon, if that is long ago."""
        now = time.monotonic()
        if now - self._counted_at >= _COUNTED_EVERY:
            self._counted_at = now
            self._task = asyncio.get_running_loop().create_task(self._count(worker))

    async def _count(self, worker: "Worker") -> None:
        try:
            self.count = max(1, await worker.backend.count(names.WORKERS))
        except StoreError as error:
            log.debug("the workers were not counted: %s", error)
