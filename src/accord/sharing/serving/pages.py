"""Pages that users are asked to visit, where several workers serve together.

A page is a record in the store. The web application that serves it may call any worker: the one
that finds the record marks it as complete, once, and informs the worker whose client was asked. If
that one is lost, the client is informed through its session.
"""

import asyncio
import logging
import weakref
from collections.abc import Callable, Coroutine, Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import Conflict, StoreError, StoreUnavailable
from accord.principal import Principal
from accord.protocol.party import Bounded
from accord.server.questions.url_elicitation import COMPLETE
from accord.sharing.serving.session_sharing import notify_session
from accord.types import ElicitationCompleteParams

if TYPE_CHECKING:
    from accord.server.questions.url_elicitation import UrlElicitation, UrlElicitations
    from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.server")

_KIND: Final = "elicitation"
_FORMAT: Final = 1
# A user that has not opened a page within a day is asked for it again.
_DAY: Final = 86_400.0
# In seconds, when something is tried again that the store did not answer.
_PAUSES: Final = (0.5, 2.0, 10.0, 30.0)
# How long a thread waits for the store.
_PATIENCE: Final = 30.0
_REMEMBERED: Final = 10_000


class PageRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A page as it is kept in the store.

    Attributes:
        format: that of the record.
        worker: the worker whose client was asked.
        session_id: that of the client, where it has a session.
        is_announced: whether the client's revision has a notification for it.
    """

    format: int = _FORMAT
    message: str
    url: str
    worker: str
    principal: Principal | None = None
    session_id: str | None = None
    is_announced: bool = False
    is_complete: bool = False


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(PageRecord).decode
_replace: Final = msgspec.structs.replace


class SharedPages:
    """The pages that the users of all workers were asked to visit.

    Args:
        worker: that of this process. Made on its loop.
    """

    def __init__(self, worker: "Worker") -> None:
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        # A mounted server has its own.
        self._registries: weakref.WeakSet[UrlElicitations] = weakref.WeakSet()
        self._tasks: set[asyncio.Task[None]] = set()
        self._complete: Bounded[str, None] = Bounded(_REMEMBERED)
        worker.on(_KIND, self._take)

    def join(self, registry: "UrlElicitations") -> None:
        """Let other workers find the pages of a server, and complete them."""
        self._registries.add(registry)
        registry.shared = self

    # -- from the pages of this worker

    async def keep(self, page: "UrlElicitation") -> None:
        """Let other workers find a page; one that is complete already is so here as well."""
        try:
            await self._keep(page)
        except StoreUnavailable as error:
            log.warning("a page is not known to other workers yet: %s", error)
            self._spawn(self._try_again(lambda: self._keep(page)))

    def keep_soon(self, page: "UrlElicitation") -> None:
        """Let other workers find a page. From any thread."""
        self._call(lambda: self.keep(page))

    async def _keep(self, page: "UrlElicitation") -> None:
        principal = page.principal
        made = PageRecord(
            message=page.message,
            url=page.url,
            worker=self._worker.id,
            principal=None if principal is None else principal.storable(),
            session_id=page.session_id,
            is_announced=page.is_announced,
        )
        version = 0
        while True:
            try:
                await self._worker.backend.put(
                    _key(page.id), _encode(made), ttl=_DAY, expect=version
                )
            except Conflict as conflict:  # that of an earlier round, on another worker
                version = 0 if conflict.record is None else conflict.record.version
                if conflict.record is not None and _decode(conflict.record.value).is_complete:
                    page.finish()
                    return
            else:
                return

    async def load(self, ids: Iterable[str]) -> None:
        """Learn which pages of earlier rounds are complete."""
        for id in ids:
            if id not in self._complete and await self._read(id, is_open=False) is None:
                continue
            self._complete[id] = None

    def is_complete(self, id: str) -> bool:
        """Whether a page is known to be complete."""
        return id in self._complete

    def note_completed(self, page: "UrlElicitation") -> None:
        """Let other workers know that a page of this one is complete. From any thread."""
        self._complete[page.id] = None

        async def mark() -> None:
            await self._mark(page.id)

        self._call(lambda: self._try_again(mark))

    def forget_soon(self, id: str) -> None:
        """Let other workers find a page no more. From any thread."""

        async def delete() -> None:
            found = await self._worker.backend.get(_key(id))
            # A page that is complete stays so for the next round of its request.
            if found is not None and not _decode(found.value).is_complete:
                await self._worker.backend.delete(_key(id), expect=found.version)

        self._call(lambda: self._try_again(delete))

    # -- for pages of any worker

    async def fetch(self, id: str) -> PageRecord | None:
        """Return a page of any worker, unless it is complete or forgotten.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        return await self._read(id, is_open=True)

    async def _read(self, id: str, *, is_open: bool) -> PageRecord | None:
        found = await self._worker.backend.get(_key(id))
        record = None if found is None else _decode(found.value)
        return None if record is None or record.is_complete is is_open else record

    async def complete(self, id: str) -> bool:
        """Mark a page as complete, and let its client be informed; returns whether it was not yet.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        record = await self._mark(id)
        if record is None:
            return False
        self._complete[id] = None
        if self._finish(id):
            return True
        if await self._worker.is_alive(record.worker):
            await self._worker.send(record.worker, _KIND, id.encode())
        elif record.is_announced and record.session_id is not None:
            params = ElicitationCompleteParams(elicitation_id=id)
            await notify_session(self._worker, record.session_id, COMPLETE, params)
        return True

    def complete_from_thread(self, id: str) -> bool:
        """The same from any thread; on the loop it returns True, and happens soon."""
        try:
            is_here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_here = False
        if is_here:
            self._spawn(self._log_failure(self.complete(id)))
            return True
        return asyncio.run_coroutine_threadsafe(self.complete(id), self._loop).result(_PATIENCE)

    async def _mark(self, id: str) -> PageRecord | None:
        """Mark a page as complete; None if it is unknown or was complete before."""
        key = _key(id)
        found = await self._worker.backend.get(key)
        while found is not None:
            record = _decode(found.value)
            if record.is_complete:
                return None
            changed = _encode(_replace(record, is_complete=True))
            try:
                await self._worker.backend.put(key, changed, ttl=_DAY, expect=found.version)
            except Conflict as conflict:
                found = conflict.record
            else:
                return record
        return None

    def _take(self, body: bytes) -> None:
        """Finish a page of this worker that another one has marked as complete."""
        id = body.decode()
        self._complete[id] = None
        self._finish(id)

    def _finish(self, id: str) -> bool:
        for registry in [*self._registries]:
            page = registry.find(id)
            if page is not None:
                page.finish()
                return True
        return False

    # -- work by itself

    def _call(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin some work on the loop. From any thread."""
        try:
            self._loop.call_soon_threadsafe(lambda: self._spawn(make()))
        except RuntimeError:
            log.debug("a page is not shared: the server has stopped")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _try_again(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do something, and again if the store does not answer, for some time."""
        for pause in (*_PAUSES, None):
            try:
                return await work()
            except StoreError as error:
                log.debug("a page is not shared: %s", error)
                if pause is None:
                    return None
            await asyncio.sleep(pause)
        return None

    async def _log_failure(self, work: Coroutine[Any, Any, bool]) -> None:
        try:
            await work
        except StoreError as error:
            log.warning("a page is not complete for its client: %s", error)


def _key(id: str) -> str:
    """Return the record of a page; its id is secret, and a caller may send any text."""
    return f"{{u{sha256(id.encode()).hexdigest()[:32]}}}u"
