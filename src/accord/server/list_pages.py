"""The pages of lists of tools, resources and prompts.

Pages are encoded once per revision and page. A cursor is the number of the last entry sent, with a
seal: entries that are added or removed between two pages neither hide nor repeat another entry.
"""

import base64
import os
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Final, TypeAlias

import msgspec

from accord.errors import InvalidParams, LocalProtocolError
from accord.protocol import shape
from accord.protocol.revisions import REVISIONS
from accord.server.caching import to_milliseconds
from accord.server.entries.entry import Entry
from accord.server.entries.registry import Registry, Snapshot
from accord.types import CacheScope, JsonObject, PageResult, RevisionId

# Many clients never ask for a second page, so that lists of usual length are one page.
PAGE_SIZE: Final = 1000
# Far enough below the 16 MiB that peers accept as one message, whatever the schemas weigh.
PAGE_BYTES: Final = 4 * 1024 * 1024
# Cursors sent before a change stay valid, so that a page may begin at any entry.
_MOST_PAGES: Final = 256

_NUMBER_BYTES: Final = 8
_SEAL_BYTES: Final = 13
_SHOWN: Final = 40
_number: Final = itemgetter(0)
_encode: Final = msgspec.json.Encoder().encode
_PageKey: TypeAlias = tuple[str, str | None, frozenset[int] | None, CacheScope | None]


class Listing:
    """Answers list requests about the entries of one registry.

    Args:
        registry: what is listed.
        result_type: the result of the list method, such as `types.ListToolsResult`.
        page_size: how many entries stand on one page at most.
        ttl: for how many seconds clients may keep a page, where the revision has such hints.
    """

    def __init__(
        self,
        registry: Registry,
        result_type: type[PageResult],
        *,
        page_size: int = PAGE_SIZE,
        ttl: float = 0.0,
    ) -> None:
        self.registry = registry
        self.page_size = page_size
        self.ttl_ms = to_milliseconds(ttl, "ttl")
        self._result_type = result_type
        self._member = _member_of(result_type)
        self._keys: Sequence[bytes] = [os.urandom(32)]
        self._cache: tuple[Snapshot, dict[_PageKey, bytes]] = ((), {})

    def page(
        self,
        revision_id: RevisionId,
        cursor: str | None,
        *,
        visible: Callable[[Entry], bool] | None = None,
        cache_scope: CacheScope | None = None,
        meta: JsonObject | None = None,
    ) -> bytes:
        """Return the encoded result of a list request.

        Args:
            revision_id: the revision whose shape the result has.
            cursor: where the page begins, from the page before; None for the first page.
            visible: a filter of the entries. Callers that see the same entries get the same
                bytes.
            cache_scope: "public" if caches may share the page; one with a filter is private.
            meta: the `_meta` of the result, the same for all pages.

        Raises:
            InvalidParams: the cursor is not one of this listing.
        """
        snapshot = self.registry.snapshot()
        shown = None
        if visible is not None:
            shown = frozenset(number for number, entry in snapshot if visible(entry))
        listed, pages = self._cache
        if listed is not snapshot or len(pages) > _MOST_PAGES:
            pages = {}
            self._cache = (snapshot, pages)
        key = revision_id, cursor, shown, cache_scope if shown is None else "private"
        page = pages.get(key)
        if page is None:
            page = pages[key] = self._build(snapshot, *key, meta)
        return page

    def _build(
        self,
        snapshot: Snapshot,
        revision_id: RevisionId,
        cursor: str | None,
        shown: frozenset[int] | None,
        cache_scope: CacheScope | None,
        meta: JsonObject | None,
    ) -> bytes:
        items: list[msgspec.Raw] = []
        size = last = 0
        next_cursor = None
        for number, item in self._items(snapshot, revision_id, cursor, shown):
            size += len(item)
            if items and (len(items) == self.page_size or size > PAGE_BYTES):
                next_cursor = self._cursor(last)
                break
            items.append(msgspec.Raw(item))
            last = number
        members: JsonObject = {self._member: items}
        page = self._result_type(
            **members,
            next_cursor=next_cursor,
            ttl_ms=self.ttl_ms if REVISIONS[revision_id].cache_hints else None,
            cache_scope=cache_scope,
            meta=meta,
        )
        return _encode(shape.narrow(page, revision_id))

    def _items(
        self,
        snapshot: Snapshot,
        revision_id: RevisionId,
        cursor: str | None,
        shown: frozenset[int] | None,
    ) -> Iterator[tuple[int, bytes]]:
        """Encode the entries after the cursor, except those that the revision cannot express."""
        start = 0
        if cursor is not None:
            from bisect import bisect_right

            start = bisect_right(snapshot, self._number(cursor), key=_number)
        for number, entry in snapshot[start:]:
            if shown is not None and number not in shown:
                continue
            try:
                narrowed = shape.narrow(entry.item, revision_id)
            except LocalProtocolError:
                continue
            unknown = entry.unknown_members()
            yield number, _encode(narrowed) if unknown is None else unknown.encode(narrowed)

    # -- cursors

    # Most lists are one page; only longer ones import what seals a cursor.

    def share_keys(self, keys: Sequence[bytes]) -> None:
        """Take cursors of other processes, too, which have the same keys: the first one seals."""
        self._keys = keys
        self._cache = ((), {})  # pages name the cursor of the next one

    def _cursor(self, number: int, key: bytes | None = None) -> str:
        from hashlib import blake2b

        position = number.to_bytes(_NUMBER_BYTES)
        seal = blake2b(position, key=key or self._keys[0], digest_size=_SEAL_BYTES).digest()
        return base64.urlsafe_b64encode(position + seal).decode().rstrip("=")

    def _number(self, cursor: str) -> int:
        from hmac import compare_digest

        padded = cursor + "=" * (-len(cursor) % 4)
        try:
            number = int.from_bytes(base64.b64decode(padded, b"-_")[:_NUMBER_BYTES])
        except ValueError:
            number = 0
        # Compared as text, so that each cursor has one spelling only.
        given = cursor.encode()
        if not any(compare_digest(self._cursor(number, k).encode(), given) for k in self._keys):
            shown = cursor if len(cursor) <= _SHOWN else cursor[:_SHOWN] + "..."
            raise InvalidParams(
                f"cursor {shown!r} is invalid: expected the nextCursor of an earlier page of this "
                "list, unchanged"
            )
        return number


def _member_of(result_type: type[PageResult]) -> str:
    """Find the member that holds the items: the one that only this result has."""
    own = set(result_type.__struct_fields__) - set(PageResult.__struct_fields__)
    if len(own) != 1:
        raise TypeError(f"{result_type.__name__} is not the result of a list method")
    return own.pop()
