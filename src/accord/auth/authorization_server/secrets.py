"""Secrets: made, hashed, compared, and how often they may be guessed.

Passwords are hashed with scrypt, since they are short. Failures are counted by key, in the
state that processes share.
"""

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from accord.auth.authorization_server.state.records import AttemptCounter


class _Cost(NamedTuple):
    """The cost of a hash: 128 * 2**log2 * block bytes of memory, `times` times."""

    log2: int
    block: int
    times: int

    @property
    def memory(self) -> int:
        return 128 * self.block * ((1 << self.log2) + self.times + 2)


# 16 MB and some 200 ms: too much for guessing, little for a login. The minimum of OWASP, in the
# variant with the least memory: many users may log in at once.
_COST: Final = _Cost(14, 8, 5)
# The cost of hashes that do not name it.
_COST_UNNAMED: Final = _Cost(14, 8, 1)
_MEMORY_MOST: Final = 256 * 1024 * 1024
_KEPT: Final = re.compile(
    r"scrypt\$(?:ln=([1-9][0-9]?),r=([1-9][0-9]?),p=([1-9][0-9]?)\$)?"
    r"([A-Za-z0-9+/]{22}==)\$([A-Za-z0-9+/]{43}=)"
)
_SALT: Final = 16
_HASH: Final = 32


def new_secret(size: int = 32) -> str:
    """Return a random text that cannot be guessed."""
    return secrets.token_urlsafe(size)


def digest(secret: str) -> str:
    """Hash a secret of `new_secret` for the store."""
    return hashlib.sha256(secret.encode()).hexdigest()


def equal(one: str, other: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())


def hash_password(password: str) -> str:
    """Hash a password with scrypt; settings accept the hash in place of the password."""
    return _hash(password, _COST)


def hash_like(kept: str, password: str) -> str:
    """Hash a password at the cost of another hash."""
    return _hash(password, _read(kept)[0])


def is_hash(kept: str) -> bool:
    """Whether a text is a hash of `hash_password`, of this or an earlier version."""
    return _KEPT.fullmatch(kept) is not None and _read(kept)[0].memory <= _MEMORY_MOST


def is_password(password: str, kept: str) -> bool:
    """Compare a password with the hash of the right one."""
    cost, salt, hashed = _read(kept)
    return hmac.compare_digest(_scrypt(password, salt, cost), hashed)


def _hash(password: str, cost: _Cost) -> str:
    salt = secrets.token_bytes(_SALT)
    texts = [b64encode(each).decode() for each in (salt, _scrypt(password, salt, cost))]
    return f"scrypt$ln={cost.log2},r={cost.block},p={cost.times}${'$'.join(texts)}"


def _read(kept: str) -> tuple[_Cost, bytes, bytes]:
    found = _KEPT.fullmatch(kept)
    assert found is not None
    *numbers, salt, hashed = found.groups()
    cost = _Cost(*map(int, numbers)) if numbers[0] else _COST_UNNAMED
    return cost, b64decode(salt), b64decode(hashed)


def _scrypt(password: str, salt: bytes, cost: _Cost) -> bytes:
    return hashlib.scrypt(
        password.encode(),
        salt=salt,
        n=2**cost.log2,
        r=cost.block,
        p=cost.times,
        maxmem=cost.memory,
        dklen=_HASH,
    )


# -- limits on guessing


class FailureLimit:
    """Limits failures: what succeeds writes nothing, so that it costs as little as before.

    What is under way in this process counts as a failure until it has succeeded.

    Args:
        failures: counts what has failed.
    """

    def __init__(self, failures: "AttemptCounter") -> None:
        self._failures = failures
        self._lock = Lock()
        self._under_way: Counter[str] = Counter()

    def begin(self, key: str, now: float) -> float:
        """Begin an attempt and return 0; at the limit, return how many seconds to wait."""
        with self._lock:
            more = self._under_way[key]
            self._under_way[key] += 1
        try:
            wait = self._failures.wait_for(key, now, more=more)
        except BaseException:
            self._end(key)
            raise
        if wait > 0:
            self._end(key)
        return wait

    def end(self, key: str, now: float, *, is_failure: bool) -> None:
        """End an attempt that has begun."""
        try:
            if is_failure:
                self._failures.reserve(key, now)
        finally:
            self._end(key)

    def _end(self, key: str) -> None:
        with self._lock:
            self._under_way[key] -= 1
            if self._under_way[key] <= 0:
                del self._under_way[key]
