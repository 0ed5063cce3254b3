"""Registries of tools, resources and prompts by name or URI, which may change at any time.

A registry calls `changed` after each change; the server notifies its clients there.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from accord.errors import RegistrationError


class KeyedEntry(Protocol):
    """An entry with the name or URI by which it is found."""

    @property
    def key(self) -> str: ...


Entry = TypeVar("Entry", bound=KeyedEntry)


class NumberedEntry(NamedTuple, Generic[Entry]):
    """An entry with its number, which no other entry of the registry ever had or gets."""

    number: int
    entry: Entry


class Snapshot(NamedTuple, Generic[Entry]):
    """The enabled entries at one moment, in order of registration."""

    generation: int
    entries: tuple[NumberedEntry[Entry], ...]


class _RegisteredEntry(msgspec.Struct, Generic[Entry]):
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
        self._registered: dict[str, _RegisteredEntry[Entry]] = {}
        self._enabled: dict[str, Entry] = {}
        self._last_number = 0
        self._snapshot: Snapshot[Entry] | None = Snapshot(0, ())

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
            entries = tuple(
                NumberedEntry(registered.number, registered.entry)
                for registered in self._registered.values()
                if registered.enabled
            )
            self._snapshot = snapshot = Snapshot(self.generation, entries)
        return snapshot

    def __contains__(self, key: object) -> bool:
        """Tell whether a key is taken, by an enabled entry or a disabled one."""
        return key in self._registered

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over the entries that are enabled now; later changes do not matter."""
        return (entry for _, entry in self.snapshot().entries)

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
            registered = self._registered.get(key)
            if registered is None:
                self._last_number += 1
                self._registered[key] = registered = _RegisteredEntry(self._last_number, entry)
            elif replace:
                registered.entry = entry
            else:
                raise RegistrationError(self._conflict(key, entry, registered.entry))
            if not registered.enabled:
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
            registered = self._find(key)
            del self._registered[key]
            if not registered.enabled:
                return registered.entry
            del self._enabled[key]
            self._advance()
        self._announce()
        return registered.entry

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
            found = {key: self._find(key) for key in keys}
            found = {
                key: registered
                for key, registered in found.items()
                if registered.enabled is not enabled
            }
            if not found:
                return
            for key, registered in found.items():
                registered.enabled = enabled
                if enabled:
                    self._enabled[key] = registered.entry
                else:
                    del self._enabled[key]
            self._advance()
        self._announce()

    def _find(self, key: str) -> _RegisteredEntry[Entry]:
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
            f"{self.kind} {key!r} is registered twice: at {_location(old)} and at "
            f"{_location(new)}; give one of them another {noun}, or say replace=True"
        )


def _location(entry: object) -> str:
    return source_location(getattr(entry, "function", entry))


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
