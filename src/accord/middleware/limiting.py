"""Limits of requests: how many in a time, and how long each may take."""

import asyncio
import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from accord.errors import InternalError, RequestError, StoreError
from accord.middleware.requests import (
    AnyContext,
    check_choice,
    check_count,
    check_methods,
    check_names,
    check_number,
    describe,
    mark_passing,
    network_of,
    params_of,
    session_key,
    tool_of,
    worker_of,
)
from accord.server import Middleware, Proceed
from accord.server.entries.tools import failure

if TYPE_CHECKING:
    from accord.sharing.serving.limits import SharedBuckets, WorkerCount
    from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.middleware")

CallerKey: TypeAlias = Callable[[AnyContext], Hashable | None]

_SECONDS: Final = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
# As many callers as are known by name; each costs 0.2 kB.
_CALLERS_MOST: Final = 100_000
_USER_METHODS: Final = ("tools/call", "resources/read", "prompts/get", "completion/complete")


# -- how many


def rate_limit(
    rate: float | str,
    *,
    burst: int | None = None,
    by: Literal["principal", "session", "tool"] | CallerKey = "principal",
    methods: Iterable[str] = ("tools/call",),
    shared: bool = True,
    when_store_is_away: Literal["local", "refuse"] = "local",
    clock: Callable[[], float] = time.monotonic,
) -> Middleware:
    """Return middleware that refuses requests of a caller that come too fast.

    A call of a tool is refused by an error result, which the model can read; other requests by an
    error. Both say when to try again.

    Args:
        rate: requests per second, or a text such as "100/minute".
        burst: how many may come at once; by default as many as the rate has in its unit.
        by: what shares a limit. "principal" is the user as the token says; callers without a token
            share by address over HTTP, and else by connection. "session" is the connection or
            session, of which a client can open any number; then as before. "tool" is one limit per
            tool for all callers. A function of ctx returns a key, or None for requests that are not
            limited.
        methods: the requests that count.
        shared: whether workers that serve together share the limit; otherwise each has its own.
        when_store_is_away: what happens while the store of the workers does not answer. "local"
            gives each worker its part of the limit, "refuse" refuses all requests that count.
        clock: returns seconds; for tests.

    Raises:
        ValueError: the rate or the burst is not a number above 0, or `by` is not known.
        RegistrationError: the protocol has no such method.
    """
    amount, period = _parse_rate(rate)
    size = max(1, math.floor(amount)) if burst is None else burst
    check_count("rate_limit()", "burst", size)
    check_choice("rate_limit()", by, tuple(_KEYS))
    if when_store_is_away not in ("local", "refuse"):
        why = "expected 'local' or 'refuse'"
        raise ValueError(f"rate_limit(): when_store_is_away is {when_store_is_away!r:.80}, {why}")
    counted = check_methods("rate_limit()", methods)
    key_of: CallerKey = by if callable(by) else _KEYS[by]
    name = getattr(by, "__qualname__", "a function") if callable(by) else by
    limit = RateLimit(period / amount, size, clock, f"{rate} {size} {name} {sorted(counted)}")
    limit.is_closed_without_store = when_store_is_away == "refuse"

    async def limit_rate(ctx: AnyContext, proceed: Proceed) -> Any:
        if ctx.method not in counted or (key := key_of(ctx)) is None:
            return await proceed()
        worker = worker_of(ctx) if shared else None
        if worker is None:
            wait = limit.buckets.take(key)
        else:
            wait = await limit.take(worker, ctx, key)
        if wait <= 0:
            return await proceed()
        return _refuse(ctx, wait, _describe_rate(rate))

    limit_rate.rate_limit = limit  # type: ignore[attr-defined]  # to count equal ones
    return mark_passing(limit_rate)


def _refuse(ctx: AnyContext, wait: float, rate: str) -> Any:
    if math.isinf(wait):
        message = (
            f"{describe(ctx)} was refused: the store that counts requests does not answer "
            "(rate_limit); try again"
        )
        data: dict[str, object] = {"reason": "store-unavailable"}
    else:
        seconds = math.ceil(10 * wait) / 10
        message = (
            f"{describe(ctx)} was refused: more than {rate} (rate_limit); "
            f"try again in {seconds:g} s"
        )
        data = {"retryAfter": seconds}
    if ctx.method == "tools/call":
        return failure(message)
    raise RequestError(message, data=data)


class RateLimit:
    """The buckets of one limit: those of this process, and those that workers share.

    Args:
        interval: seconds in which a bucket gets a token.
        size: how many tokens it holds.
        clock: returns seconds.
        settings: names the limit; the same on all workers.
    """

    is_closed_without_store = False

    def __init__(
        self, interval: float, size: int, clock: Callable[[], float], settings: str
    ) -> None:
        self._interval = interval
        self._size = size
        self._clock = clock
        self.settings = settings
        self.buckets = Buckets(interval, size, clock)
        self._part: tuple[int, Buckets] = (1, self.buckets)
        self._is_away = False
        self._shared: SharedBuckets | None = None
        self._workers: WorkerCount | None = None

    async def take(self, worker: "Worker", ctx: AnyContext, key: Hashable) -> float:
        """Take a token that all workers share; return 0, or the seconds until there is one.

        It is infinite if the store does not answer, and the limit is closed then.
        """
        if self._shared is None or self._workers is None:
            shared = import_module("accord.sharing.serving.limits")
            rate = 1 / self._interval
            self._shared = shared.SharedBuckets(self, rate, self._size, self._clock)
            self._workers = shared.WorkerCount()
        name = self._shared.name_of(ctx, key)
        if name is None:  # the key means nothing to other workers
            return self.buckets.take(key)
        if not worker.is_connected:
            return self._take_without_store(key)
        self._workers.refresh(worker)
        try:
            wait = await self._shared.take(worker, name)
        except StoreError as error:
            if not self._is_away:
                log.warning("the limits of all workers cannot be read: %s", error)
            return self._take_without_store(key)
        self._is_away = False
        return wait

    def _take_without_store(self, key: Hashable) -> float:
        assert self._workers is not None
        self._is_away = True
        if self.is_closed_without_store:
            return math.inf
        count, buckets = self._part
        if count != self._workers.count:
            count = self._workers.count
            size = max(1.0, self._size / count)
            buckets = Buckets(self._interval * count, size, self._clock)
            self._part = (count, buckets)
        return buckets.take(key)


class Buckets:
    """Token buckets by key. Each is one number: the time at which it is full again.

    Buckets that are full are forgotten. Beyond the most, those that were used longest ago are.

    Args:
        interval: seconds in which a bucket gets a token.
        size: how many tokens it holds.
        clock: returns seconds.
        most: how many buckets are kept.
    """

    def __init__(
        self,
        interval: float,
        size: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        most: int = _CALLERS_MOST,
    ) -> None:
        self._interval = interval
        self._size = size
        self._clock = clock
        self._most = most
        # The one that was used longest ago comes first.
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()
        # A server may serve on loops of several threads.
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: Hashable) -> float:
        """Take a token; return 0, or the seconds until there is one."""
        with self._lock:
            now = self._clock()
            full_at = max(now, self._full_at.get(key, now))
            wait = full_at - now - (self._size - 1) * self._interval
            # Rounding must not refuse a request that comes at the very moment it was asked to.
            if wait > 1e-9:
                return wait
            self._full_at[key] = full_at + self._interval
            self._full_at.move_to_end(key)
            self._forget(now)
            return 0.0

    def _forget(self, now: float) -> None:
        """Forget two buckets that are full, for each that may have been added."""
        for _ in range(2):
            oldest = next(iter(self._full_at))
            if self._full_at[oldest] > now and len(self._full_at) <= self._most:
                return
            del self._full_at[oldest]


def _parse_rate(rate: float | str) -> tuple[float, float]:
    if not isinstance(rate, str):
        return check_number("rate_limit()", "rate", rate), 1.0
    amount, _, unit = rate.partition("/")
    period = _SECONDS.get(unit.strip().removesuffix("s"))
    try:
        number = float(amount)
    except ValueError:
        number = 0.0
    if period is None or not 0 < number < math.inf:
        units = ", ".join(_SECONDS)
        raise ValueError(
            f"rate_limit(): rate is {rate!r:.80}, expected a number per second or a text such as "
            f"'100/minute', with one of {units}"
        )
    return number, period


def _describe_rate(rate: float | str) -> str:
    return rate if isinstance(rate, str) else f"{rate:g}/second"


def _by_principal(ctx: AnyContext) -> Hashable:
    if ctx.principal is not None:
        return "principal", ctx.principal.identity
    # Not by session: any client can open another one.
    return _by_session(ctx) if ctx.request.url_path is None else ("address", network_of(ctx))


def _by_session(ctx: AnyContext) -> Hashable:
    session = session_key(ctx)
    if session is not None:
        return "session", session
    if ctx.principal is not None:
        return "principal", ctx.principal.identity
    return "address", network_of(ctx)


def _by_tool(ctx: AnyContext) -> Hashable:
    # Names that do not exist share one limit, so that a client cannot invent further ones.
    if ctx.method == "tools/call":
        return "tool", params_of(ctx).name if tool_of(ctx) is not None else None
    return "method", ctx.method


_KEYS: Final[dict[str, CallerKey]] = {
    "principal": _by_principal,
    "session": _by_session,
    "tool": _by_tool,
}


# -- how long


def time_limit(
    seconds: float,
    *,
    methods: Iterable[str] = _USER_METHODS,
    tools: Iterable[str] | None = None,
) -> Middleware:
    """Return middleware that ends a request after some time, with a message that names the limit.

    An async handler is cancelled. A sync function in a thread goes on until it looks at
    `ctx.is_cancelled`. The time in which the client answers questions counts; the work of a task,
    which goes on after the answer, does not.

    Args:
        seconds: how long a request may take.
        methods: the requests that are limited.
        tools: the names of the tools that are limited; all by default.

    Raises:
        ValueError: the time is not above 0.
        RegistrationError: the protocol has no such method.
    """
    check_number("time_limit()", "seconds", seconds)
    limited = check_methods("time_limit()", methods)
    names = check_names("time_limit()", tools)

    async def limit_time(ctx: AnyContext, proceed: Proceed) -> Any:
        if ctx.method not in limited:
            return await proceed()
        is_call = ctx.method == "tools/call"
        if is_call and names is not None and params_of(ctx).name not in names:
            return await proceed()
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                result = await proceed()
        except Exception:
            if not limit.expired():
                raise
        if not limit.expired():
            return result
        ctx._cancel()
        message = f"{describe(ctx)} did not finish within {seconds:g} s (time_limit)"
        if is_call:
            return failure(message)
        raise InternalError(message)

    return mark_passing(limit_time)
