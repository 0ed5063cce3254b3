"""State that a client carries back to the server, sealed so that it cannot be altered.

The text is `v1.<key id>.<payload>.<seal>`. The seal is HMAC-SHA-256 over what precedes it, so the
client can read the payload but not change it. The first key seals; all of them open, so that keys
can be rotated. Processes that share a key open each other's state.

A state serves one request. Each process remembers those that it has opened; workers that share a
store also write a mark there, which must not exist yet, before the handler sees an answer.
"""

import asyncio
import base64
import hmac
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from accord.errors import Conflict, InternalError, InvalidParams, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from accord.sharing.backends.backend import Backend

log = logging.getLogger("accord.server")

_FORMAT: Final = "v1"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
# Beyond that the oldest are forgotten; each costs some 200 bytes until it expires.
_USED_MOST: Final = 100_000
# By so much the clocks of workers may differ: a mark lives longer than its state by this.
_CLOCKS_APART: Final = 60.0
# How often, in seconds, a mark is tried to be removed that the store may not have.
_RELEASE_PAUSES: Final = (0.0, 1.0, 5.0, 20.0)


class StateContent(msgspec.Struct, array_like=True):
    """What a sealed state holds.

    Attributes:
        server: the name of the server that made it.
        method: of the request that it belongs to.
        digest: of the params of that request.
        principal: the sender of the request; None without authorization.
        expires_at: in seconds since 1970.
        nonce: unlike that of any other state.
        answers: the answers so far, by the keys of their questions.
        kept: the results of `ctx.once`, by key.
        progress: the highest that was reported so far.
    """

    server: str
    method: str
    digest: str
    principal: tuple[str | None, str, str | None] | None
    expires_at: float
    nonce: str = msgspec.field(default_factory=lambda: os.urandom(_NONCE_BYTES).hex())
    answers: dict[str, msgspec.Raw] = {}
    kept: dict[str, msgspec.Raw] = {}
    progress: float | None = None


class StateSeal:
    """Seals and opens the state of requests that are answered with questions.

    Args:
        keys: of at least 32 bytes each; the first one seals. By default one is made at random,
            which other processes do not have.
        lifetime: seconds after which a state is refused.
        marks: where workers that serve together note which states were used.
    """

    def __init__(
        self,
        keys: Sequence[str | bytes] | None = None,
        *,
        lifetime: float = 3600.0,
        marks: "Backend | None" = None,
    ) -> None:
        made = keys or [os.urandom(_KEY_BYTES)]
        given = [key.encode() if isinstance(key, str) else bytes(key) for key in made]
        self._is_random = not keys
        self._keys = {_key_id(key): key for key in given}
        self._first = _key_id(given[0])
        self.lifetime = lifetime
        self._used: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()
        self._marks = marks
        self._releasing: set[asyncio.Task[None]] = set()

    @property
    def is_shared(self) -> bool:
        """Whether a state has to be claimed among workers."""
        return self._marks is not None

    def seal(self, content: StateContent) -> str:
        """Return the content as a text that only a holder of the keys could have made."""
        payload = _to_text(msgspec.json.encode(content))
        return f"{_FORMAT}.{self._first}.{payload}.{self._mac(self._first, payload)}"

    def open(self, text: str, expected: StateContent) -> StateContent:
        """Return the content of a state, and take it as used in this process; see `claim`.

        Args:
            text: what the client sent.
            expected: the server, method, digest and principal of the request it came with.

        Raises:
            InvalidParams: it was altered, has expired, was used before, or belongs to another
                server, request or user; the message says which.
        """
        content = self._verify(text)
        if content.server != expected.server:
            raise _refusal("it was made by another server")
        if content.principal != expected.principal:
            raise _refusal("it was made for another user")
        if content.method != expected.method or content.digest != expected.digest:
            raise _refusal("it belongs to another request: repeat the request with the same params")
        now = time.time()
        if content.expires_at <= now:
            raise _refusal(f"it has expired: answers are taken for {self.lifetime:g} s")
        self._use(content.nonce, content.expires_at, now)
        return content

    def _verify(self, text: str) -> StateContent:
        parts = text.split(".")
        if len(parts) != 4 or parts[0] != _FORMAT:
            raise _refusal("it was not made by this server, or was altered")
        _, key_id, payload, mac = parts
        if key_id not in self._keys:
            hint = "; processes that serve together share state_keys" if self._is_random else ""
            raise _refusal(f"it was sealed with a key that is not known here{hint}")
        if not hmac.compare_digest(self._mac(key_id, payload).encode(), mac.encode()):
            raise _refusal("it was altered")
        return msgspec.json.decode(_from_text(payload), type=StateContent)

    def _mac(self, key_id: str, payload: str) -> str:
        sealed = f"{_FORMAT}.{key_id}.{payload}".encode()
        return _to_text(hmac.digest(self._keys[key_id], sealed, "sha256"))

    def _use(self, nonce: str, expires_at: float, now: float) -> None:
        with self._lock:
            while self._used and next(iter(self._used.values())) <= now:
                self._used.popitem(last=False)
            if nonce in self._used:
                raise _used_before()
            self._used[nonce] = expires_at
            if len(self._used) > _USED_MOST:
                self._used.popitem(last=False)

    async def claim(self, content: StateContent, claimer: bytes) -> None:
        """Make sure that no other worker has opened a state, and that none will.

        Args:
            content: of the state.
            claimer: names the request.

        Raises:
            InvalidParams: it was used before.
            InternalError: the store does not answer, so that this cannot be known.
        """
        if self._marks is None:
            return
        ttl = max(0.0, content.expires_at - time.time()) + _CLOCKS_APART
        try:
            await self._marks.put(_mark_of(content.nonce), claimer, ttl=ttl, expect=0)
        except Conflict as conflict:
            # The answer to a first attempt may have been lost on the way.
            if conflict.record is None or conflict.record.value != claimer:
                raise _used_before() from None
        except StoreUnavailable as error:
            log.warning("a requestState is refused: %s", error)
            self.release(content.nonce, claimer)
            raise InternalError(
                "requestState cannot be used now: the store that says whether it was used before "
                "does not answer; try again",
                data={"reason": "store-unavailable"},
            ) from error

    def release(self, nonce: str, claimer: bytes | None = None) -> None:
        """Let a state be used again: its request was cancelled before it was answered.

        Args:
            nonce: that of the state.
            claimer: the request, if it has claimed the state among workers.
        """
        with self._lock:
            self._used.pop(nonce, None)
        if self._marks is not None and claimer is not None:
            task = asyncio.get_running_loop().create_task(self._unmark(nonce, claimer))
            self._releasing.add(task)
            task.add_done_callback(self._releasing.discard)

    async def _unmark(self, nonce: str, claimer: bytes) -> None:
        assert self._marks is not None
        mark = _mark_of(nonce)
        for pause in _RELEASE_PAUSES:
            await asyncio.sleep(pause)
            try:
                found = await self._marks.get(mark)
                if found is not None and found.value == claimer:
                    await self._marks.delete(mark, expect=found.version)
            except StoreError as error:
                log.debug("a requestState stays marked as used: %s", error)
            else:
                return


def _mark_of(nonce: str) -> str:
    return f"{{n{nonce}}}n"


def _used_before() -> InvalidParams:
    return _refusal("it was used before: repeat the request without it")


def _refusal(why: str) -> InvalidParams:
    return InvalidParams(f"requestState cannot be used: {why}")


def _key_id(key: bytes) -> str:
    return sha256(b"accord state key id" + key).hexdigest()[:8]


def _to_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _from_text(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
