"""Values that only holders of the keys can read, in any backend; and the keys.

A value is encrypted with AES-256-GCM. In front of it are the version of the format, the id of the
key, a salt and a nonce. The kind of thing and its name are authenticated, too, so that a value
which was moved to another name does not open. Names, sizes and times are not hidden.

The keys of a deployment are a ring, from which the keys for each purpose are derived.
"""

import hmac
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from accord.errors import ConfigurationError, Conflict, DamagedRecord, MissingExtra, StoreError
from accord.sharing.backends.backend import (
    Backend,
    ForwardingBackend,
    LogPage,
    NotifierByOldName,
    StoredRecord,
    takes_ring,
)

__all__ = [
    "KEYS_VARIABLE",
    "SEALED",
    "Key",
    "KeyRing",
    "SealedBackend",
    "read_keys",
    "seal_backend",
]

KEYS_VARIABLE: Final = "ACCORD_STORE_KEYS"
"""The environment variable with the keys, separated by commas, the one that seals first."""

Key: TypeAlias = str | bytes

# The size of what is derived, too.
_LEAST_BYTES: Final = 32
_HOW: Final = (
    "make one by python -c 'import secrets; print(secrets.token_urlsafe(32))' and give it to all "
    "workers"
)

SEALED: Final = b"\x01"
"""What each sealed value begins with."""
_KEY_ID_BYTES: Final = 4
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_HEAD: Final = len(SEALED) + _KEY_ID_BYTES + _SALT_BYTES
# Random nonces are safe for some 2**32 values of one key (NIST SP 800-38D), which many workers
# reach within days. So each worker derives keys of its own by a salt, and changes it long before.
_VALUES_PER_SALT: Final = 2**24
# Ciphers that are kept for salts of other workers.
_CIPHERS: Final = 1024


class KeyRing:
    """Secret keys: the first one seals, all of them open.

    To change the key while workers serve, give all of them the new one in second place first, so
    that all can open what it seals. Then let it change places with the old one, and take that away
    when nothing that it sealed is used any more.

    Args:
        keys: at least 32 bytes each, random; text counts as UTF-8.

    Attributes:
        ids: what names each key in what it sealed; says nothing about the key itself.

    Raises:
        ConfigurationError: there is no key, one is too short, or one is there twice.
    """

    def __init__(self, keys: Sequence[Key]) -> None:
        if isinstance(keys, str | bytes):
            raise ConfigurationError("keys of a store are a list, even if there is only one")
        if not keys:
            raise ConfigurationError(f"a store needs at least one key; {_HOW}")
        # As in HKDF (RFC 5869): first a key of even quality, then one for each purpose.
        self._roots = [
            hmac.digest(b"accord key ring 1", _read_key(key, number), "sha256")
            for number, key in enumerate(keys, 1)
        ]
        self.ids = [self._expand(root, "key id")[:_KEY_ID_BYTES] for root in self._roots]
        for number, id in enumerate(self.ids, 1):
            if id in self.ids[: number - 1]:
                raise ConfigurationError(f"key {number} of the store is in the list twice")
        self._derived: dict[str, list[bytes]] = {}

    def __repr__(self) -> str:
        return f"<KeyRing {' '.join(id.hex() for id in self.ids)}>"

    def derive(self, purpose: str) -> list[bytes]:
        """Return a key of 32 bytes for a purpose from each key, in their order."""
        if purpose not in self._derived:
            self._derived[purpose] = [
                self._expand(root, f"purpose {purpose}") for root in self._roots
            ]
        return self._derived[purpose]

    def mac(self, purpose: str, data: bytes) -> bytes:
        """Return a code of 32 bytes that only holders of the first key can compute."""
        return hmac.digest(self.derive(purpose)[0], data, "sha256")

    def verify(self, purpose: str, data: bytes, code: bytes) -> bool:
        """Return whether `mac` gave this code for the data, with any of the keys."""
        matches = [
            hmac.compare_digest(hmac.digest(key, data, "sha256"), code)
            for key in self.derive(purpose)
        ]
        return any(matches)

    @staticmethod
    def _expand(root: bytes, info: str) -> bytes:
        return hmac.digest(root, info.encode() + b"\x01", "sha256")


def _read_key(key: Key, number: int) -> bytes:
    data = key.encode() if isinstance(key, str) else bytes(key)
    if len(data) < _LEAST_BYTES:
        raise ConfigurationError(
            f"key {number} of the store has {len(data)} bytes, and needs at least {_LEAST_BYTES}; "
            f"{_HOW}"
        )
    return data


def read_keys(
    given: "Sequence[Key] | KeyRing | None" = None, environ: Mapping[str, str] = os.environ
) -> KeyRing | None:
    """Return the keys that were given, or those of the environment variable ACCORD_STORE_KEYS.

    Returns:
        None if there are neither.

    Raises:
        ConfigurationError: one of them is too short, or there twice.
    """
    if isinstance(given, KeyRing):
        return given
    if given is not None:
        return KeyRing(given)
    parts = [part.strip() for part in environ.get(KEYS_VARIABLE, "").split(",")]
    found = [part for part in parts if part]
    try:
        return KeyRing(found) if found else None
    except ConfigurationError as error:
        raise ConfigurationError(f"{KEYS_VARIABLE}: {error}") from None


def seal_backend(
    backend: Backend, given: "Sequence[Key] | KeyRing | None"
) -> "tuple[Backend, KeyRing | None]":
    """Return a store with the keys that seal it, if there are any.

    Args:
        backend: the store.
        given: as of `read_keys`; "none" keeps values unsealed.

    Raises:
        ConfigurationError: others can read the store, so keys are needed.
    """
    if given == "none":
        return backend, None
    keys = read_keys(given, os.environ)
    if keys is not None:
        return SealedBackend(backend, keys), keys
    if backend.is_remote:
        raise ConfigurationError(
            f"the store {backend.url} is reached over a network, and keeps requests and results: "
            "give store_keys=[...], --store-keys-file or ACCORD_STORE_KEYS, the same for all "
            "workers (make a key with python -c 'import secrets; print(secrets.token_hex(32))'), "
            "or store_keys='none' to keep values unsealed"
        )
    return backend, None


# -- the seal


class _Altered(ValueError):
    """Other keys would not open it either."""


class _Seal:
    """Seals values and opens them.

    Args:
        keys: the first seals, all open.
        namespace: that of the deployment; another one cannot open what this one seals.
    """

    def __init__(self, keys: KeyRing, namespace: str) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise MissingExtra("redis", needed_for="sealing what workers share") from None
        self._new_cipher: Any = AESGCM
        self._invalid: type[Exception] = InvalidTag
        derived = keys.derive(f"values of the store {namespace}")
        self._keys = dict(zip(keys.ids, derived, strict=True))
        self._first = keys.ids[0]
        self._ciphers: OrderedDict[bytes, Any] = OrderedDict()
        self._head = b""
        self._left = 0

    def seal(self, value: bytes, name: bytes) -> bytes:
        """Encrypt the value of a name."""
        if not self._left:
            self._head = SEALED + self._first + os.urandom(_SALT_BYTES)
            self._left = _VALUES_PER_SALT
        self._left -= 1
        # Random, not counted: processes that are forked from this one have the same salt.
        nonce = os.urandom(_NONCE_BYTES)
        sealed: bytes = self._find_cipher(self._head).encrypt(nonce, value, name)
        return self._head + nonce + sealed

    def open(self, sealed: bytes, name: bytes) -> bytes:
        """Decrypt the value of a name.

        Raises:
            ValueError: it does not open; says why.
        """
        if sealed and sealed[:1] != SEALED:
            raise ValueError("it is not sealed, or by a newer version of accord")
        if len(sealed) < _HEAD + _NONCE_BYTES + _TAG_BYTES:
            raise _Altered("it was cut off")
        head = sealed[:_HEAD]
        try:
            opened: bytes = self._find_cipher(head).decrypt(
                sealed[_HEAD : _HEAD + _NONCE_BYTES], sealed[_HEAD + _NONCE_BYTES :], name
            )
        except self._invalid:
            raise _Altered("it was altered, or was sealed for another name") from None
        return opened

    def _find_cipher(self, head: bytes) -> Any:
        cipher = self._ciphers.get(head)
        if cipher is None:
            id, salt = head[1 : 1 + _KEY_ID_BYTES], head[1 + _KEY_ID_BYTES :]
            key = self._keys.get(id)
            if key is None:
                known = ", ".join(each.hex() for each in self._keys)
                raise ValueError(
                    f"it was sealed with key {id.hex()}, and the keys here are {known}"
                )
            cipher = self._new_cipher(hmac.digest(key, salt, "sha256"))
            self._ciphers[head] = cipher
            if len(self._ciphers) > _CIPHERS:
                self._ciphers.popitem(last=False)
        else:
            self._ciphers.move_to_end(head)
        return cipher


class SealedBackend(ForwardingBackend, NotifierByOldName):
    """A backend that keeps values of records and entries of logs encrypted.

    An entry opens in its own log only, but at any place of it: an engine that is under foreign
    control can still repeat, reorder or withhold entries.

    Args:
        backend: keeps what is sealed.
        keys: the first seals, all open.

    Raises:
        MissingExtra: the library that encrypts is not installed.
    """

    def __init__(self, backend: Backend, keys: KeyRing) -> None:
        super().__init__(backend)
        self._seal = _Seal(keys, str(getattr(backend, "namespace", "")))

    # -- records

    async def get(self, key: str) -> StoredRecord | None:
        """Return a record, opened; None if it does not exist, or has expired.

        Raises:
            DamagedRecord: it was altered.
            StoreError: it was sealed with an unknown key, or is not sealed.
        """
        return self._open_record(key, await self._backend.get(key))

    async def put(self, key: str, value: bytes, *, ttl: float, expect: int | None = None) -> int:
        """Write a record, sealed; return its version."""
        sealed = self._seal.seal(value, b"record " + key.encode())
        try:
            return await self._backend.put(key, sealed, ttl=ttl, expect=expect)
        except Conflict as conflict:
            raise self._open_conflict(key, conflict) from None

    async def delete(self, key: str, *, expect: int | None = None) -> bool:
        """Delete a record; return whether there was one."""
        try:
            return await self._backend.delete(key, expect=expect)
        except Conflict as conflict:
            raise self._open_conflict(key, conflict) from None

    def _open_conflict(self, key: str, conflict: Conflict) -> Conflict:
        record = self._open_record(key, conflict.record)
        return Conflict(str(conflict), record=record, last=conflict.last)

    def _open_record(self, key: str, record: StoredRecord | None) -> StoredRecord | None:
        if record is None:
            return None
        try:
            value = self._seal.open(record.value, b"record " + key.encode())
        except ValueError as error:
            kind = DamagedRecord if isinstance(error, _Altered) else StoreError
            raise kind(f"the record {key!r} does not open: {error}") from None
        return StoredRecord(value, record.version)

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
        """Add entries to a log, sealed; return the number of the last one."""
        name = b"log " + log.encode()
        return await self._backend.append(
            log,
            [self._seal.seal(item, name) for item in items],
            ttl=ttl,
            fence=fence,
            after=after,
            final=final,
            keep=keep,
            notify=notify,
        )

    async def read(self, log: str, *, after: int = 0, limit: int = 1000) -> LogPage | None:
        """Return the entries after a number, opened; None if there is no such log.

        Raises:
            StoreError: one does not open.
        """
        page = await self._backend.read(log, after=after, limit=limit)
        if page is None:
            return None
        name, items = b"log " + log.encode(), []
        for number, item in enumerate(page.items, page.first):
            try:
                items.append(self._seal.open(item, name))
            except ValueError as error:
                raise StoreError(
                    f"entry {number} of the log {log!r} does not open: {error}"
                ) from None
        return msgspec.structs.replace(page, items=items)
