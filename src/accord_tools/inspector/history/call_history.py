"""The history of one session: keeps each call, masked, in a thread of its own; actions on it."""

import asyncio
import hashlib
import logging
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

import msgspec

from accord.client.server_spec import ServerSpec
from accord.secrets.masks import Secrets
from accord.types import JsonObject
from accord_tools.inspector.actions import READ, action
from accord_tools.inspector.definition import ActionRefused, InspectOptions
from accord_tools.inspector.history.call_record import CallKind, CallRecord, mask_record
from accord_tools.inspector.history.store import HistoryEntry, HistoryStore
from accord_tools.inspector.session import InspectedSession
from accord_tools.inspector.target_access import find_secrets, make_safe

if TYPE_CHECKING:
    from accord_tools.inspector.live.call_state import Call


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


def target_key(target: ServerSpec) -> str:
    """Return a key that is the same for a server in each run of the inspector, and no secret."""
    safe = make_safe(target)
    # With another Python it is the same server.
    words = ["python" if word == sys.executable else word for word in safe.command]
    folder = target.cwd or ""
    if any(not os.path.isabs(word) and os.path.exists(word) for word in words):
        # The same name in another folder is another server.
        folder = os.path.abspath(folder)
    where = [safe.url, *words]
    identity = msgspec.json.encode([where, folder, "" if any(where) else target.name])
    return hashlib.sha256(identity).hexdigest()[:24]


class CallHistory:
    """Keeps the calls of a session, and finds earlier ones.

    Attributes:
        key: of the server.
        secrets: hidden in what leaves this session for a file or another program.
    """

    def __init__(self, session: InspectedSession) -> None:
        self.key = target_key(session.target)
        self.secrets = Secrets(find_secrets(session.target))
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
        title = self._session.target.name
        record = msgspec.structs.replace(record, target=self.key, title=title)
        future = asyncio.wrap_future(self._shared.submit(self._keep, record))
        self._pending.add(future)
        future.add_done_callback(self._on_kept)

    def _keep(self, record: CallRecord) -> int:
        return self.store.add(record, *mask_record(self.secrets, record))

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


LISTED_MOST: Final = 500
"""The most calls in one answer."""
_RECENT: Final = 10
_RECENT_READ: Final = 40
_ALL_PINNED: Final = 1_000


@action("history.list", kinds=READ)
async def list_history(
    session: InspectedSession,
    *,
    text: str = "",
    pinned: bool = False,
    all_targets: bool = False,
    count: int = 100,
) -> object:
    """Return earlier calls, the newest first."""
    history = session.part(CallHistory)
    found = await history.run(
        history.store.entries,
        target=None if all_targets else history.key,
        text=text.strip(),
        pinned=pinned,
        count=max(1, min(count, LISTED_MOST)),
    )
    return {
        "entries": [_row(history, each) for each in found],
        "keeps": history.store.is_kept,
        "note": history.store.note,
    }


def _row(history: CallHistory, entry: HistoryEntry) -> JsonObject:
    row: JsonObject = msgspec.to_builtins(entry)
    del row["arguments"], row["response"]
    return row | {"target": entry.title, "is_same_target": entry.target == history.key}


async def find_entry(session: InspectedSession, id: int) -> HistoryEntry:
    """Return a call of the history.

    Raises:
        ActionRefused: it is not there.
    """
    history = session.part(CallHistory)
    entry = await history.run(history.store.entry, id)
    if entry is None:
        raise _missing(id)
    return entry


@action("history.get", kinds=READ)
async def get_entry(session: InspectedSession, *, id: int) -> object:
    """Return a call with its arguments and its response."""
    entry = await find_entry(session, id)
    row = _row(session.part(CallHistory), entry)
    return row | {
        "arguments": entry.arguments,
        "response": entry.response,
        "is_cut": "response" in entry.cut,
    }


@action("history.pin", kinds=READ)
async def pin_entry(session: InspectedSession, *, id: int, on: bool = True) -> None:
    """Pin a call, so that it stays, or let it go."""
    history = session.part(CallHistory)
    if not await history.run(history.store.pin, id, on=on):
        raise _missing(id)
    session.mark("history")


@action("history.note", kinds=READ)
async def write_note(session: InspectedSession, *, id: int, note: str) -> None:
    """Set the note of a call."""
    history = session.part(CallHistory)
    if not await history.run(history.store.write_note, id, note):
        raise _missing(id)
    session.mark("history")


@action("history.delete", kinds=READ)
async def delete_entries(
    session: InspectedSession, *, id: int | None = None, all: bool = False
) -> object:
    """Delete one call, or all calls of this server."""
    history = session.part(CallHistory)
    if all:
        deleted = await history.run(history.store.delete_all, history.key)
    elif id is not None:
        if not await history.run(history.store.delete, id):
            raise _missing(id)
        deleted = 1
    else:
        raise ActionRefused("say which call to delete", field="id")
    session.mark("history")
    return {"deleted": deleted}


def _missing(id: int) -> ActionRefused:
    return ActionRefused(f"the history has no call {id}; it may have been deleted", field="id")


@action("history.last", kinds=READ)
async def find_last(session: InspectedSession, *, kind: CallKind, name: str) -> object:
    """Return the arguments that were used last; those with masked values are left out."""
    history = session.part(CallHistory)
    store = history.store
    found = await history.run(store.recent, history.key, kind, name, _RECENT_READ)
    recent: dict[str, JsonObject] = {}
    for entry in found:
        if not entry.masked and "arguments" not in entry.cut and len(recent) < _RECENT:
            row = {"id": entry.id, "at": entry.at, "arguments": entry.arguments}
            recent.setdefault(entry.arguments, row)
    return {"arguments": next(iter(recent), None), "recent": [*recent.values()]}


@action("history.replay")
async def replay_entry(session: InspectedSession, *, id: int) -> object:
    """Make a call again with the same arguments."""
    return {"id": start_call(session, await find_entry(session, id)).id}


@action("history.replay_pinned")
async def replay_pinned(session: InspectedSession) -> object:
    """Make all pinned calls of this server again, the oldest first, one after another."""
    history = session.part(CallHistory)
    store = history.store
    found = await history.run(store.entries, target=history.key, pinned=True, count=_ALL_PINNED)
    entries = [await find_entry(session, each.id) for each in reversed(found)]
    if not entries:
        raise ActionRefused("no call of this server is pinned")
    for each in entries:
        _demand_complete(each)
    ids: list[str] = []
    for each in entries:
        call = start_call(session, each)
        ids.append(call.id)
        if call.work is not None:
            await asyncio.wait([call.work])
    return {"ids": ids}


def _demand_complete(entry: HistoryEntry) -> None:
    """Check that a call can be made again.

    Raises:
        ActionRefused: a value was masked, or the arguments are not complete.
    """
    if entry.masked:
        places = ", ".join(each or "the whole value" for each in entry.masked[:5])
        raise ActionRefused(
            f"the history does not keep secrets: type the value of {places} again, then call "
            f"{entry.name}",
            field="id",
        )
    if "arguments" in entry.cut:
        raise ActionRefused(f"the arguments of {entry.name} were too long to be kept", field="id")


def start_call(session: InspectedSession, entry: HistoryEntry) -> "Call":
    """Make a call again.

    Raises:
        ActionRefused: it cannot be made again, or there is no connection.
    """
    from accord_tools.inspector.live.calls import Calls

    _demand_complete(entry)
    calls = session.part(Calls)
    if entry.kind == "tool":
        return calls.tool(entry.name, entry.arguments)
    if entry.kind == "resource":
        return calls.read(entry.name)
    if entry.kind == "prompt":
        return calls.prompt(entry.name, entry.arguments)
    return calls.request(entry.name, entry.arguments)
