"""The secret keys of a deployment, from which the keys for each purpose are derived."""

import hmac
import os
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from accord.errors import ConfigurationError

__all__ = ["KEYS_VARIABLE", "Key", "KeyRing", "read_keys"]

KEYS_VARIABLE: Final = "ACCORD_STORE_KEYS"
"""The environment variable with the keys, separated by commas, the one that seals first."""

Key: TypeAlias = str | bytes

# The size of what is derived, too.
_LEAST_BYTES: Final = 32
_ID_BYTES: Final = 4
_HOW: Final = (
    "make one by python -c 'import secrets; print(secrets.token_urlsafe(32))' and give it to all "
    "workers"
)


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
        self.ids = [self._expand(root, "key id")[:_ID_BYTES] for root in self._roots]
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
