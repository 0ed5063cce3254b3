"""Results that servers mark as fresh for a while, kept so that they need not be fetched again.

A cache belongs to one client and dies with it, so a private result never reaches another
authorization. Nothing here polls: what is stale is fetched again when it is next asked for.
"""

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from accord.client.options import CallOptions, OwnMeta
from accord.errors import InvalidParams
from accord.types import CacheableResult

if TYPE_CHECKING:
    from accord.client.link import Link

# Enough for every list of a large server and the resources that a program reads again and again.
_ENTRIES_MOST: Final = 1_000
_BYTES_MOST: Final = 32 * 1024 * 1024
# A larger result would push out most of the others.
_SHARE: Final = 4
# A lifetime in a wrong unit must not outlive a day.
_MILLISECONDS_MOST: Final = 86_400_000

_LISTS: Final = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list"),
}
"""By notice, the lists that it makes stale."""
_READ: Final = "resources/read"

Ask = Callable[[str, Any, CallOptions], Awaitable[Any]]
"""Sends a request and returns its result: the method, its params, the options of the call."""

_encode: Final = msgspec.json.Encoder().encode


class _Entry(NamedTuple):
    """A result as JSON, so that callers cannot change what other callers get."""

    type_: type[CacheableResult]
    data: bytes
    stale_at: float


class ResultCache:
    """Fresh results of one client, by method and by the cursor or URI that was asked for.

    Args:
        clock: returns the time in seconds, as the event loop counts it.
        keeps_private: whether private results are kept. Not for a client whose headers are made
            anew for each request: they may name another user each time.
        entries: how many results are kept at most; the least recently used go first.
        size: how many bytes they may have together.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        keeps_private: bool = True,
        entries: int = _ENTRIES_MOST,
        size: int = _BYTES_MOST,
    ) -> None:
        self._clock = clock
        self._keeps_private = keeps_private
        self._entries_most = entries
        self._bytes_most = size
        self._entries: OrderedDict[tuple[str, str | None], _Entry] = OrderedDict()
        self._bytes = 0
        # How often a method was made stale: a result that was on its way then is not kept.
        self._drops: Counter[str] = Counter()
        self._clears = 0

    async def fetch(self, ask: Ask, name: str, params: Any, how: CallOptions) -> Any:
        """Return a fresh result, or ask for it and keep it as long as the server says."""
        if how.get("meta") or how.get("headers"):
            return await ask(name, params, how)  # either may change the result
        key = name, getattr(params, "uri", None) or getattr(params, "cursor", None)
        if not how.get("fresh"):
            found = self._get(key)
            if found is not None:
                return found
        drops = self._drops[name], self._clears
        try:
            result = await ask(name, params, how)
        except InvalidParams as error:
            if error.is_received and getattr(params, "cursor", None) is not None:
                self.drop(name)  # caching.client.bad-cursor-discards-pages
            raise
        if _may_be_kept(params) and drops == (self._drops[name], self._clears):
            self._put(key, result)
        else:
            self._forget(key)
        return result

    def _get(self, key: tuple[str, str | None]) -> CacheableResult | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._clock() >= entry.stale_at:
            self._forget(key)
            return None
        self._entries.move_to_end(key)
        return msgspec.json.decode(entry.data, type=entry.type_)

    def _put(self, key: tuple[str, str | None], result: CacheableResult) -> None:
        self._forget(key)
        lifetime = min(result.ttl_ms or 0, _MILLISECONDS_MOST) / 1000
        # caching.client.absent-is-zero, .negative-is-zero, .zero-is-stale
        if lifetime <= 0 or not (self._keeps_private or result.cache_scope == "public"):
            return
        data = _encode(result)
        if len(data) > self._bytes_most // _SHARE:
            return
        self._entries[key] = _Entry(type(result), data, self._clock() + lifetime)
        self._bytes += len(data)
        while len(self._entries) > self._entries_most or self._bytes > self._bytes_most:
            self._forget(next(iter(self._entries)))

    def _forget(self, key: tuple[str, str | None]) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= len(entry.data)

    # -- change notices

    def drop(self, name: str) -> None:
        """Drop all results of a method, also those that are on their way."""
        self._drops[name] += 1
        for key in [key for key in self._entries if key[0] == name]:
            self._forget(key)

    def note_change(self, notice: str, params: Any) -> None:
        """Drop what a notice of the server makes stale (caching.client.notification-invalidates).

        Args:
            notice: the name of the notification.
            params: its params.
        """
        for name in _LISTS.get(notice, ()):
            self.drop(name)
        if notice == "notifications/resources/updated":
            self._drops[_READ] += 1
            self._forget((_READ, params.uri))

    def clear(self) -> None:
        """Drop everything, also what is on its way: notices may have been lost."""
        self._clears += 1
        self._entries.clear()
        self._bytes = 0


def _may_be_kept(params: Any) -> bool:
    """Whether a request went out as it was made, without answers, state or changes.

    caching.client.no-mrtr-results; middleware may have changed it for one caller.
    """
    answers = getattr(params, "input_responses", None)
    is_repeated = answers is not None or getattr(params, "request_state", None) is not None
    return not is_repeated and type(params.meta) is not OwnMeta


async def fetch(link: "Link", name: str, params: Any, how: CallOptions) -> Any:
    """Return a result from the cache of a connection, or ask for it and keep it."""
    cache = link.side.cache
    if cache is None:
        is_one_user = not callable(link.settings.headers)
        cache = link.side.cache = ResultCache(link.loop.time, keeps_private=is_one_user)
    return await cache.fetch(link.ask, name, params, how)
