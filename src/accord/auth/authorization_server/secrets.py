"""Secrets: made, hashed, compared, and how often they may be guessed.

Passwords are hashed with scrypt, since they are short. Attempts are counted by key, here or in a
store that processes share.
"""

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections import Counter, OrderedDict, deque
from contextlib import suppress
from threading import Lock
from typing import Final, NamedTuple, Protocol


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
# Memory is bounded: the oldest key is forgotten first.
_KEYS_MOST: Final = 10_000


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


class AttemptCounter(Protocol):
    """Counts attempts by key within a sliding window; successful attempts are released.

    An attempt is counted before it is checked, so that concurrent attempts cannot exceed the limit.
    """

    def reserve(self, key: str, now: float) -> float:
        """Count an attempt and return 0; at the limit, return how many seconds to wait."""

    def release(self, key: str, now: float) -> None:
        """Uncount the attempt of a time, because it succeeded."""

    def forget(self, key: str) -> None:
        """Reset a key after a success."""

    def wait_for(self, key: str, now: float, *, more: int = 0) -> float:
        """Return how many seconds to wait, without counting anything.

        Args:
            key: what the attempts are counted by.
            now: the time.
            more: how many attempts count in addition.
        """


class Attempts:
    """Counts the attempts of one process.

    Args:
        limit: the number of attempts.
        window: the seconds in which they count.
    """

    def __init__(self, limit: int, window: float) -> None:
        self.limit = limit
        self.window = window
        self._lock = Lock()
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def reserve(self, key: str, now: float) -> float:
        with self._lock:
            times = self._times.setdefault(key, deque())
            while times and times[0] <= now - self.window:
                times.popleft()
            if len(times) >= self.limit:
                return times[0] + self.window - now
            times.append(now)
            self._times.move_to_end(key)
            if len(self._times) > _KEYS_MOST:
                self._times.popitem(last=False)
            return 0.0

    def release(self, key: str, now: float) -> None:
        with self._lock:
            times = self._times.get(key)
            if times is None:
                return
            with suppress(ValueError):
                times.remove(now)
            if not times:
                del self._times[key]

    def forget(self, key: str) -> None:
        with self._lock:
            self._times.pop(key, None)

    def wait_for(self, key: str, now: float, *, more: int = 0) -> float:
        with self._lock:
            kept = [each for each in self._times.get(key, ()) if each > now - self.window]
        return wait_until_free(kept, now, more, limit=self.limit, window=self.window)


def wait_until_free(
    times: list[float], now: float, more: int, *, limit: int, window: float
) -> float:
    """Return how many seconds to wait after attempts at these times, and `more` at present."""
    if len(times) + more < limit:
        return 0.0
    return min(times, default=now) + window - now


class FailureLimit:
    """Limits failures: what succeeds writes nothing, so that it costs as little as before.

    What is under way in this process counts as a failure until it has succeeded.

    Args:
        failures: counts what has failed.
    """

    def __init__(self, failures: AttemptCounter) -> None:
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
