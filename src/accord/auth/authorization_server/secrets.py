"""Secrets: how they are made, hashed and compared; passwords slowly, since they are short."""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from typing import Final

__all__ = [
    "digest",
    "equal",
    "hash_password",
    "is_hash",
    "is_password",
    "new_secret",
    "pkce_challenge",
]

# What hashlib's scrypt takes 16 MB and some 50 ms for: too much for guessing, little for a login.
_COST: Final = 2**14
_BLOCK: Final = 8
_PARALLEL: Final = 1
_PREFIX: Final = "scrypt$"
_SALT: Final = 16
_HASH: Final = 32


def new_secret(size: int = 32) -> str:
    """Make a text that nobody can guess."""
    return secrets.token_urlsafe(size)


def digest(secret: str) -> str:
    """Hash what `new_secret` made, for keeping."""
    return hashlib.sha256(secret.encode()).hexdigest()


def equal(one: str, other: str) -> bool:
    """Compare without telling by the time it takes where the difference is."""
    return hmac.compare_digest(one.encode(), other.encode())


def pkce_challenge(verifier: str) -> str:
    """Return the S256 challenge of a verifier."""
    hashed = hashlib.sha256(verifier.encode()).digest()
    return b64encode(hashed, altchars=b"-_").rstrip(b"=").decode()


def hash_password(password: str) -> str:
    """Hash a password with scrypt; the text can stand in settings instead of the password."""
    salt = secrets.token_bytes(_SALT)
    return f"{_PREFIX}{b64encode(salt).decode()}${b64encode(_scrypt(password, salt)).decode()}"


def is_hash(kept: str) -> bool:
    """Tell whether a text is what `hash_password` makes."""
    parts = kept.removeprefix(_PREFIX).split("$")
    try:
        sizes = [len(b64decode(each, validate=True)) for each in parts]
    except ValueError:
        return False
    return kept.startswith(_PREFIX) and sizes == [_SALT, _HASH]


def is_password(password: str, kept: str) -> bool:
    """Compare a password with what `hash_password` made of the right one."""
    salt, hashed = kept.removeprefix(_PREFIX).split("$")
    return hmac.compare_digest(_scrypt(password, b64decode(salt)), b64decode(hashed))


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=_COST, r=_BLOCK, p=_PARALLEL, dklen=_HASH)
