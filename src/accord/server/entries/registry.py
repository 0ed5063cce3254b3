"""Registries of tools, resources and prompts; resources are found by a URI.

A registry may change at any time, and calls `changed` after each change; the server notifies its
clients there. Numbers of entries are never reused, so that a place in a list stays one.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from operator import itemgetter
from typing import Final, TypeAlias, TypeVar

import msgspec

from accord.errors import RegistrationError
from accord.server.entries.entry import Entry

log = logging.getLogger("accord.server")

# More numbers than a source can use up.
_ENTRIES_MOST: Final = 2**40
# Longer URIs are not found: matching a template costs time for every character.
_LONGEST_URI: Final = 8192
_EXPRESSION: Final = r"\{[^}]*\}"
_SPANS_SEGMENTS: Final = r"\{[+#]|\*[,}]"
_number: Final = itemgetter(0)

EntryT = TypeVar("EntryT", bound=Entry)
Function = TypeVar("Function", bound=Callable[..., object])
Snapshot: TypeAlias = tuple[tuple[int, Entry], ...]
"""The enabled entries at one moment, each with a number that no other entry ever had or gets."""


class _Place(msgspec.Struct):
    number: int
    entry: Entry
    enabled: bool = True
    owner: object = None


class Registry:
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
        self._registered: dict[str, _Place] = {}
        self._enabled: dict[str, Entry] = {}
        self._last_number = 0
        self._snapshot: Snapshot | None = ()
        # What mounted sources offer is read anew before the next look, so that a burst of changes
        # costs no more than one.
        self._owners: dict[object, Callable[[], Iterable[Entry]]] = {}
        self._owner_numbers: dict[object, Iterator[int]] = {}
        self._stale: dict[object, object] = {}
        self._in_conflict: set[object] = set()
        # Held while a source is read: an older reading must not replace a newer one.
        self._reading = threading.RLock()

    # -- reading

    def get(self, key: str) -> Entry | None:
        """Return the enabled entry with this key."""
        if self._stale:
            self._read_owners()
        return self._enabled.get(key)

    def is_enabled(self, key: str) -> bool:
        """Tell whether an entry is found and listed.

        Raises:
            KeyError: the entry does not exist.
        """
        self._read_owners()
        with self._lock:
            return self._find(key).enabled

    def snapshot(self) -> Snapshot:
        """Return the enabled entries; the same object until the next visible change."""
        if self._stale:
            self._read_owners()
        snapshot = self._snapshot
        if snapshot is not None:
            return snapshot
        with self._lock:
            enabled = [
                (place.number, place.entry) for place in self._registered.values() if place.enabled
            ]
            if self._owners:
                enabled.sort(key=_number)
            self._snapshot = snapshot = tuple(enabled)
        return snapshot

    def __contains__(self, key: object) -> bool:
        """Tell whether a key is taken, by an enabled entry or a disabled one."""
        if self._stale:
            self._read_owners()
        return key in self._registered

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over the entries that are enabled now; later changes do not matter."""
        return (entry for _, entry in self.snapshot())

    def __len__(self) -> int:
        if self._stale:
            self._read_owners()
        return len(self._enabled)

    # -- changing

    def add(self, entry: EntryT, *, replace: bool = False) -> EntryT:
        """Register an entry at the end.

        Args:
            entry: what to register.
            replace: take the place of the entry with the same key, if there is one; what was
                disabled stays so.

        Raises:
            RegistrationError: the key is taken; the message names both places.
        """
        key = entry.key
        if self._stale:
            self._read_owners()
        with self._lock:
            place = self._registered.get(key)
            if place is None:
                self._last_number += 1
                self._registered[key] = place = _Place(self._last_number, entry)
            elif replace:
                if place.owner is not None:  # whose entry is left out from now on
                    self._mark_stale(place.owner)
                place.entry, place.owner = entry, None
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
            RegistrationError: it belongs to a source that is mounted.
        """
        self._read_owners()
        with self._lock:
            place = self._find(key)
            if place.owner is not None:
                raise RegistrationError(
                    f"{self.kind} {key!r} is {place.entry.place}: mount a view of it without the "
                    f"entry, as mount(source.without({key!r}))"
                )
            del self._registered[key]
            self._mark_stale(*self._in_conflict)
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
        self._read_owners()
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

    # -- what mounted sources offer

    def offer(self, owner: object, read: Callable[[], Iterable[Entry]]) -> None:
        """Keep the entries of a source here, or read them anew after a change. From any thread.

        Args:
            owner: has `refuse(entry, why)`, which is called with entries whose key is taken.
            read: returns the entries.
        """
        with self._lock:
            if owner not in self._owner_numbers:
                # Sources come in the order in which they were mounted, whichever is ready first.
                first = (len(self._owner_numbers) + 1) * _ENTRIES_MOST
                self._owner_numbers[owner] = count(first)
            self._owners[owner] = read
            self._mark_stale(owner)
            self._advance()
        self._announce()

    def _mark_stale(self, *owners: object) -> None:
        for owner in owners:
            self._stale[owner] = object()  # so that a change during a reading is seen

    def withdraw(self, owner: object) -> None:
        """Remove all entries of a source."""
        self.offer(owner, tuple)
        self._read_owners()
        with self._lock:
            self._owners.pop(owner, None)
            self._in_conflict.discard(owner)

    def conflicts(self, entries: Iterable[Entry]) -> list[str]:
        """Return a message for each entry whose key is taken, by an entry here or before it."""
        self._read_owners()
        found: list[str] = []
        offered: dict[str, Entry] = {}
        with self._lock:
            for entry in entries:
                place = self._registered.get(entry.key)
                other = offered.setdefault(entry.key, entry) if place is None else place.entry
                if other is not entry:
                    found.append(self._conflict(entry.key, entry, other))
        return found

    def _read_owners(self) -> None:
        with self._reading:
            while self._stale:
                owner, mark = next(iter(self._stale.items()))
                try:
                    entries = [*self._owners.get(owner, tuple)()]
                except Exception:  # the entries of others have to be found all the same
                    log.exception(
                        "the %ss of %r cannot be read; they stay as they were", self.kind, owner
                    )
                    refused = []
                else:
                    refused = self._replace_owned(owner, entries)
                with self._lock:
                    if self._stale.get(owner) is mark:
                        del self._stale[owner]
                for entry, why in refused:
                    owner.refuse(entry, why)  # type: ignore[attr-defined]  # see `offer`

    def _replace_owned(self, owner: object, entries: Iterable[Entry]) -> list[tuple[Entry, str]]:
        """Replace the entries of a source; return those whose key is taken, each with the reason.

        What stays keeps its position, and what was disabled stays so.
        """
        refused: list[tuple[Entry, str]] = []
        offered: dict[str, Entry] = {}
        with self._lock:
            for entry in entries:
                key = entry.key
                place = self._registered.get(key)
                if key in offered or (place is not None and place.owner is not owner):
                    other = offered[key] if place is None else place.entry
                    refused.append((entry, self._conflict(key, entry, other)))
                    continue
                offered[key] = entry
                if place is None:
                    number = next(self._owner_numbers[owner])
                    self._registered[key] = _Place(number, entry, owner=owner)
                    self._enabled[key] = entry
                else:
                    place.entry = entry
                    if place.enabled:
                        self._enabled[key] = entry
            gone = [
                key
                for key, place in self._registered.items()
                if place.owner is owner and key not in offered
            ]
            for key in gone:
                del self._registered[key]
                self._enabled.pop(key, None)
            self._in_conflict.discard(owner)
            if gone:
                self._mark_stale(*self._in_conflict)
            if refused:
                self._in_conflict.add(owner)
            self._advance()
        return refused

    def _find(self, key: str) -> _Place:
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
        is_mounted = new.is_mounted or old.is_mounted
        advice = ", or mount one with a prefix" if is_mounted else ", or say replace=True"
        return (
            f"{self.kind} {key!r} is registered twice: {old.place} and {new.place}; give one of "
            f"them another {noun}{advice}"
        )


class Resources:
    """The resources and resource templates of a server."""

    def __init__(self, *, changed: Callable[[], None] | None = None) -> None:
        self.fixed = Registry("resource", changed=changed)
        self.templates = Registry("resource template", changed=changed)
        self._ranked: tuple[Snapshot, list[Entry]] | None = None

    def add(self, entry: Entry, *, replace: bool = False) -> None:
        """Register an entry; as `Registry.add`."""
        registry = self.fixed if entry.kind == "resources" else self.templates
        registry.add(entry, replace=replace)

    def registry_of(self, key: str) -> Registry:
        """Return the registry for a URI or template."""
        return self.templates if "{" in key else self.fixed

    def remove(self, key: str) -> Entry:
        """Remove the resource with this URI, or this template; as `Registry.remove`."""
        return self.registry_of(key).remove(key)

    def enable(self, *keys: str) -> None:
        """Let resources be found and listed again; as `Registry.enable`."""
        self._switch(keys, enabled=True)

    def disable(self, *keys: str) -> None:
        """Let resources be neither found nor listed; as `Registry.disable`."""
        self._switch(keys, enabled=False)

    def is_enabled(self, key: str) -> bool:
        """Tell whether a resource is found and listed; as `Registry.is_enabled`."""
        return self.registry_of(key).is_enabled(key)

    def _switch(self, keys: tuple[str, ...], *, enabled: bool) -> None:
        for key in keys:
            self.is_enabled(key)  # raises before anything is changed
        for registry in (self.fixed, self.templates):
            own = [key for key in keys if self.registry_of(key) is registry]
            registry.enable(*own) if enabled else registry.disable(*own)

    def find(self, uri: str) -> Entry | None:
        """Find the entry of a URI.

        A fixed resource comes first, then the template with the most literal text; of equal ones
        the one with fewer variables, then the one registered first.
        """
        fixed = self.fixed.get(uri)
        if fixed is not None:
            return fixed
        if len(uri) > _LONGEST_URI:
            return None
        for entry in self._by_specificity():
            if entry.match(uri) is not None:
                return entry
        return None

    def _by_specificity(self) -> list[Entry]:
        snapshot = self.templates.snapshot()
        ranked = self._ranked
        if ranked is None or ranked[0] is not snapshot:
            entries = sorted((entry for _, entry in snapshot), key=_generality)
            self._ranked = ranked = (snapshot, entries)
        return ranked[1]


def _generality(entry: Entry) -> tuple[int, int, int]:
    text = entry.key
    literal = len(re.sub(_EXPRESSION, "", text))
    return -literal, len(re.findall(_SPANS_SEGMENTS, text)), len([*entry.arguments])


def decorator(
    add: Callable[..., object], *given: object, **details: object
) -> Callable[[Function], Function]:
    """Return a decorator that adds a function to a server, and leaves it as it is."""

    def register(function: Function) -> Function:
        add(*given, function, **details)
        return function

    return register
