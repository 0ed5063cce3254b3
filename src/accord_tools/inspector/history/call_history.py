"""The history of one session: keeps each call, masked, in a thread of its own."""

import asyncio
import hashlib
import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

import msgspec

from accord_tools.inspector.definition import InspectOptions, InspectTarget
from accord_tools.inspector.history.call_record import CallRecord
from accord_tools.inspector.history.entry_masking import EntryMasks, mask_record
from accord_tools.inspector.history.store import HistoryStore
from accord_tools.inspector.session import InspectedSession
from accord_tools.inspector.target_access import find_secrets, make_safe

log = logging.getLogger("accord_tools.inspector")

Args = ParamSpec("Args")
Value = TypeVar("Value")


class SharedStore:
    """One store for all sessions of an inspector, used in one thread."""

    def __init__(self, options: InspectOptions) -> None:
        # Kept, so that no other options get the same id.
        self._options = options
        self.store = HistoryStore(options.history)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="accord-history")
        self._users = 0

    def submit(
        self, work: Callable[Args, Value], *args: Args.args, **named: Args.kwargs
    ) -> "Future[Value]":
        """Do something in the thread of the store."""
        return self._thread.submit(work, *args, **named)

    def enter(self) -> None:
        """Note a session that uses the store."""
        self._users += 1

    def leave(self) -> None:
        """Close the file after the last session that used it."""
        self._users -= 1
        if not self._users:
            _shared.pop(id(self._options), None)
            self._thread.submit(self.store.close)
            self._thread.shutdown(wait=False)


_shared: Final[WeakValueDictionary[int, SharedStore]] = WeakValueDictionary()


def shared_store(options: InspectOptions) -> SharedStore:
    """Return the store of an inspector, the same one for all of its sessions."""
    found = _shared.get(id(options))
    if found is None:
        found = _shared[id(options)] = SharedStore(options)
    return found


def target_key(target: InspectTarget) -> str:
    """Return a key that is the same for a server in each run of the inspector, and no secret."""
    safe = make_safe(target)
    # With another Python it is the same server.
    words = ["python" if word == sys.executable else word for word in safe.command]
    folder = target.cwd or ""
    if any(not os.path.isabs(word) and os.path.exists(word) for word in words):
        # The same name in another folder is another server.
        folder = os.path.abspath(folder)
    where = [safe.url, *words]
    identity = msgspec.json.encode([where, folder, "" if any(where) else target.title])
    return hashlib.sha256(identity).hexdigest()[:24]


class CallHistory:
    """Keeps the calls of a session, and finds earlier ones.

    Attributes:
        key: of the server.
        masks: hide secrets in what leaves this session for a file or another program.
    """

    def __init__(self, session: InspectedSession) -> None:
        self.key = target_key(session.target)
        self.masks = EntryMasks(find_secrets(session.target))
        self._session = session
        self._shared = shared_store(session.options)
        self._shared.enter()
        self._pending: set[asyncio.Future[int]] = set()
        self._is_closed = False

    @property
    def store(self) -> HistoryStore:
        """The store; its methods are called by `run`."""
        return self._shared.store

    def add(self, record: CallRecord) -> None:
        """Keep a call that has ended. Returns at once, and never fails."""
        if self._is_closed:
            return
        title = self._session.target.title
        record = msgspec.structs.replace(record, target=self.key, title=title)
        future = asyncio.wrap_future(self._shared.submit(self._keep, record))
        self._pending.add(future)
        future.add_done_callback(self._on_kept)

    def _keep(self, record: CallRecord) -> int:
        return self.store.add(record, *mask_record(self.masks, record))

    def _on_kept(self, future: "asyncio.Future[int]") -> None:
        self._pending.discard(future)
        if not future.cancelled() and (error := future.exception()) is not None:
            log.warning("a call was not kept in the history: %s", error)
        self._session.mark("history")

    async def run(
        self, work: Callable[Args, Value], *args: Args.args, **named: Args.kwargs
    ) -> Value:
        """Call a method of the store in its thread, after all calls so far were kept."""
        return await asyncio.wrap_future(self._shared.submit(work, *args, **named))

    async def close(self) -> None:
        """Keep what is still to be kept, and release the file."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._pending:
            with suppress(Exception):
                await asyncio.wait(self._pending)
        self._shared.leave()
