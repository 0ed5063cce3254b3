"""Requests of servers to clients: which worker waits for the answer, and which answer it gets.

The record of a question names the worker. The first answer leaves its digest there, until the
worker has it: so that the client may repeat an answer whose way failed, and send no other one.
"""

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from accord.errors import Conflict
from accord.sharing.backends.backend import StoredRecord
from accord.sharing.workers import names

if TYPE_CHECKING:
    from accord.sharing.workers.worker import Worker

__all__ = ["SharedQuestions"]

_CLAIMED: Final = b"/"
_DIGEST_BYTES: Final = 8


class SharedQuestions:
    """The questions of all workers.

    Args:
        worker: this one.
        ttl: seconds for which an answer is waited for.
    """

    def __init__(self, worker: "Worker", ttl: float) -> None:
        self._worker = worker
        self._ttl = ttl

    async def note(self, sid: str, id: int | str) -> None:
        """Let any worker find out that this one waits for an answer."""
        key = names.question_of(sid, id)
        await self._worker.backend.put(key, self._worker.id.encode(), ttl=self._ttl)

    async def note_again(self, sid: str, id: int | str) -> None:
        """Let answers find this worker, which may have another id than before."""
        stored = await self.find(sid, id)
        own = self._worker.id.encode()
        if stored is None or _CLAIMED in stored.value or stored.value == own:
            return
        key = names.question_of(sid, id)
        try:
            await self._worker.backend.put(key, own, ttl=self._ttl, expect=stored.version)
        except Conflict:
            return  # it is being answered

    async def find(self, sid: str, id: int | str) -> StoredRecord | None:
        """Return the record of a question; None if it is answered, or was never asked."""
        return await self._worker.backend.get(names.question_of(sid, id))

    async def is_open(self, sid: str, id: int | str) -> bool:
        """Whether a question has no answer yet."""
        stored = await self.find(sid, id)
        return stored is not None and _CLAIMED not in stored.value

    async def claim(self, sid: str, id: int | str, stored: StoredRecord, answer: bytes) -> str:
        """Let an answer be the one that counts; return the worker that waits for it.

        Raises:
            Conflict: another answer was there first.
            StoreUnavailable: the same answer may be sent again.
        """
        asker, _, claimed = stored.value.partition(_CLAIMED)
        digest = sha256(answer).digest()[:_DIGEST_BYTES]
        if not claimed:
            key, value = names.question_of(sid, id), asker + _CLAIMED + digest
            await self._worker.backend.put(key, value, ttl=self._ttl, expect=stored.version)
        elif claimed != digest:
            raise Conflict("another answer was there first")
        return asker.decode()

    async def forget(self, sid: str, id: int | str) -> None:
        """Forget a question that has its answer."""
        await self._worker.backend.delete(names.question_of(sid, id))
