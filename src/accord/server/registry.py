"""Registries of tools, resources and prompts, and the pages of their lists.

A registry may change at any time, and calls `changed` after each change; the server notifies its
clients there. Pages are encoded once per revision and page. A cursor is the number of the last
entry sent, with a seal. Numbers are never reused, so entries that are added or removed between two
pages neither hide nor repeat another entry.
"""

import base64
import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec

from accord.errors import InvalidParams, LocalProtocolError, RegistrationError
from accord.protocol import shape
from accord.protocol.revisions import REVISIONS
from accord.server.caching import to_milliseconds
from accord.server.schema.signature import Signature
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


class RegistryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A function that is registered as a tool, resource, resource template or prompt.

    Attributes:
        key: the name or URI by which it is found.
        item: the description that clients see.
        scopes: what a token must have.
        tags: the author's words for it, by which it is shown or hidden.
        list_kind: the list that it is part of.
    """

    list_kind: ClassVar[Literal["tools", "prompts", "resources"]]

    key: str
    function: Callable[..., object]
    signature: Signature
    item: msgspec.Struct
    scopes: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()


Entry = TypeVar("Entry", bound=RegistryEntry)
Function = TypeVar("Function", bound=Callable[..., object])
Snapshot: TypeAlias = tuple[tuple[int, Entry], ...]
"""The enabled entries at one moment, each with a number that no other entry ever had or gets."""
_PageKey: TypeAlias = tuple[str, str | None, frozenset[int] | None, CacheScope | None]


class _Place(msgspec.Struct, Generic[Entry]):
    number: int
    entry: Entry
    enabled: bool = True


class Registry(Generic[Entry]):
    """Entries in order of registration, each under a key of its own.

    Disabled entries keep their place and their key but are neither found nor listed. All methods
    may be called from any thread; `changed` is called in the thread that made the change, after
    every change that a peer could see, and must not block.

    Args:
        kind: what an entry is called in messages, such as "tool".
        changed: called without arguments after every visible change.
    """

    def __init__(self, kind: str, *, changed: Callable[[], None] | None = None) -> None:
        self.kind = kind
        self.changed = changed
        self.generation = 0
        self._lock = threading.Lock()
        self._registered: dict[str, _Place[Entry]] = {}
        self._enabled: dict[str, Entry] = {}
        self._last_number = 0
        self._snapshot: Snapshot[Entry] | None = ()

    # -- reading

    def get(self, key: str) -> Entry | None:
        """Return the enabled entry with this key."""
        return self._enabled.get(key)

    def is_enabled(self, key: str) -> bool:
        """Tell whether an entry is found and listed.

        Raises:
            KeyError: the entry does not exist.
        """
        with self._lock:
            return self._find(key).enabled

    def snapshot(self) -> Snapshot[Entry]:
        """Return the enabled entries; the same object until the next visible change."""
        snapshot = self._snapshot
        if snapshot is not None:
            return snapshot
        with self._lock:
            self._snapshot = snapshot = tuple(
                (place.number, place.entry) for place in self._registered.values() if place.enabled
            )
        return snapshot

    def __contains__(self, key: object) -> bool:
        """Tell whether a key is taken, by an enabled entry or a disabled one."""
        return key in self._registered

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over the entries that are enabled now; later changes do not matter."""
        return (entry for _, entry in self.snapshot())

    def __len__(self) -> int:
        return len(self._enabled)

    # -- changing

    def add(self, entry: Entry, *, replace: bool = False) -> Entry:
        """Register an entry at the end.

        Args:
            entry: what to register.
            replace: take the place of the entry with the same key, if there is one; what was
                disabled stays so.

        Raises:
            RegistrationError: the key is taken; the message names both places.
        """
        key = entry.key
        with self._lock:
            place = self._registered.get(key)
            if place is None:
                self._last_number += 1
                self._registered[key] = place = _Place(self._last_number, entry)
            elif replace:
                place.entry = entry
            else:
                raise RegistrationError(self._conflict(key, entry, place.entry))
            if not place.enabled:
                return entry
            self._enabled[key] = entry
            self._advance()
        self._announce()
        return entry

    def remove(self, key: str) -> Entry:
        """Remove an entry; its key can be used again.

        Raises:
            KeyError: the entry does not exist.
        """
        with self._lock:
            place = self._find(key)
            del self._registered[key]
            if not place.enabled:
                return place.entry
            del self._enabled[key]
            self._advance()
        self._announce()
        return place.entry

    def enable(self, *keys: str) -> None:
        """Let entries be found and listed again, at their old position.

        Raises:
            KeyError: one of them does not exist; nothing was changed.
        """
        self._switch(keys, enabled=True)

    def disable(self, *keys: str) -> None:
        """Let entries be neither found nor listed until they are enabled.

        Raises:
            KeyError: one of them does not exist; nothing was changed.
        """
        self._switch(keys, enabled=False)

    def _switch(self, keys: tuple[str, ...], *, enabled: bool) -> None:
        with self._lock:
            places = {key: self._find(key) for key in keys}
            changed = [key for key, place in places.items() if place.enabled is not enabled]
            if not changed:
                return
            for key in changed:
                places[key].enabled = enabled
                if enabled:
                    self._enabled[key] = places[key].entry
                else:
                    del self._enabled[key]
            self._advance()
        self._announce()

    def _find(self, key: str) -> _Place[Entry]:
        try:
            return self._registered[key]
        except KeyError:
            raise KeyError(f"no {self.kind} is registered as {key!r}") from None

    def _advance(self) -> None:
        self.generation += 1
        self._snapshot = None

    def _announce(self) -> None:
        """Call the hook without holding the lock, so that it may read the registry."""
        if self.changed is not None:
            self.changed()

    def _conflict(self, key: str, new: Entry, old: Entry) -> str:
        noun = "URI" if self.kind.startswith("resource") else "name"
        return (
            f"{self.kind} {key!r} is registered twice: at {source_location(old.function)} and at "
            f"{source_location(new.function)}; give one of them another {noun}, or say replace=True"
        )


def source_location(thing: object) -> str:
    """Return where a function is defined: file and line, or else its qualified name.

    >>> source_location(len)
    'builtins.len'
    """
    function = _innermost(thing)
    code = getattr(function, "__code__", None)
    if code is not None:
        return f"{code.co_filename}:{code.co_firstlineno}"
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _innermost(thing: object) -> object:
    """Return the function behind decorators, partials and methods."""
    for _ in range(32):
        for link in ("__wrapped__", "func", "__func__"):
            if hasattr(thing, link):
                thing = getattr(thing, link)
                break
        else:
            break
    return thing


def decorator(
    add: Callable[..., object], *given: object, **details: object
) -> Callable[[Function], Function]:
    """Return a decorator that adds a function to a server, and leaves it as it is."""

    def register(function: Function) -> Function:
        add(*given, function, **details)
        return function

    return register


# -- lists


class Listing(Generic[Entry]):
    """Answers list requests about the entries of one registry.

    Args:
        registry: what is listed.
        result_type: the result of the list method, such as `types.ListToolsResult`.
        page_size: how many entries stand on one page at most.
        ttl: for how many seconds clients may keep a page, where the revision has such hints.
    """

    def __init__(
        self,
        registry: Registry[Entry],
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
        self._key = os.urandom(32)
        self._cache: tuple[Snapshot[Entry], dict[_PageKey, bytes]] = ((), {})

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
        snapshot: Snapshot[Entry],
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
        snapshot: Snapshot[Entry],
        revision_id: RevisionId,
        cursor: str | None,
        shown: frozenset[int] | None,
    ) -> Iterator[tuple[int, bytes]]:
        """Encode the entries after the cursor, except those that the revision cannot express."""
        start = 0
        if cursor is not None:
            start = bisect_right(snapshot, self._number(cursor), key=_number)
        for number, entry in snapshot[start:]:
            if shown is not None and number not in shown:
                continue
            try:
                narrowed = shape.narrow(entry.item, revision_id)
            except LocalProtocolError:
                continue
            yield number, _encode(narrowed)

    # -- cursors

    # Most lists are one page; only longer ones import what seals a cursor.

    def _cursor(self, number: int) -> str:
        from hashlib import blake2b

        position = number.to_bytes(_NUMBER_BYTES)
        seal = blake2b(position, key=self._key, digest_size=_SEAL_BYTES).digest()
        return base64.urlsafe_b64encode(position + seal).decode().rstrip("=")

    def _number(self, cursor: str) -> int:
        from hmac import compare_digest

        padded = cursor + "=" * (-len(cursor) % 4)
        try:
            number = int.from_bytes(base64.b64decode(padded, b"-_")[:_NUMBER_BYTES])
        except ValueError:
            number = 0
        # Compared as text, so that each cursor has one spelling only.
        if not compare_digest(self._cursor(number).encode(), cursor.encode()):
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
