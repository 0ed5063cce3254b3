"""The actions of the history: find earlier calls, keep some, make them again."""

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from accord.types import JsonObject
from accord_tools.inspector.actions import READ, Nothing, action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.history.call_history import CallHistory
from accord_tools.inspector.history.call_record import CallKind
from accord_tools.inspector.history.store import HistoryEntry
from accord_tools.inspector.session import InspectedSession

if TYPE_CHECKING:
    from accord_tools.inspector.live.call_state import Call

LISTED_MOST: Final = 500
"""The most calls in one answer."""
_RECENT: Final = 10
_RECENT_READ: Final = 40
_ALL_PINNED: Final = 1_000


class ListHistory(msgspec.Struct):
    """Which calls to list."""

    text: str = ""
    pinned: bool = False
    all_targets: bool = False
    count: int = 100


@action("history.list", kinds=READ)
async def list_history(session: InspectedSession, params: ListHistory) -> object:
    """Return earlier calls, the newest first."""
    history = session.part(CallHistory)
    found = await history.run(
        history.store.entries,
        target=None if params.all_targets else history.key,
        text=params.text.strip(),
        pinned=params.pinned,
        count=max(1, min(params.count, LISTED_MOST)),
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


class HistoryChoice(msgspec.Struct):
    """A call in the history."""

    id: int


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
async def get_entry(session: InspectedSession, params: HistoryChoice) -> object:
    """Return a call with its arguments and its response."""
    entry = await find_entry(session, params.id)
    row = _row(session.part(CallHistory), entry)
    return row | {
        "arguments": entry.arguments,
        "response": entry.response,
        "is_cut": "response" in entry.cut,
    }


class PinEntry(msgspec.Struct):
    """Whether a call is pinned."""

    id: int
    on: bool = True


@action("history.pin", kinds=READ)
async def pin_entry(session: InspectedSession, params: PinEntry) -> object:
    """Pin a call, so that it stays, or let it go."""
    history = session.part(CallHistory)
    if not await history.run(history.store.pin, params.id, on=params.on):
        raise _missing(params.id)
    session.mark("history")
    return {}


class WriteNote(msgspec.Struct):
    """A note of a person on a call."""

    id: int
    note: str


@action("history.note", kinds=READ)
async def write_note(session: InspectedSession, params: WriteNote) -> object:
    """Set the note of a call."""
    history = session.part(CallHistory)
    if not await history.run(history.store.write_note, params.id, params.note):
        raise _missing(params.id)
    session.mark("history")
    return {}


class DeleteEntries(msgspec.Struct):
    """Which calls to delete: one, or all of this server."""

    id: int | None = None
    all: bool = False


@action("history.delete", kinds=READ)
async def delete_entries(session: InspectedSession, params: DeleteEntries) -> object:
    """Delete one call, or all calls of this server."""
    history = session.part(CallHistory)
    if params.all:
        deleted = await history.run(history.store.delete_all, history.key)
    elif params.id is not None:
        if not await history.run(history.store.delete, params.id):
            raise _missing(params.id)
        deleted = 1
    else:
        raise ActionRefused("say which call to delete", field="id")
    session.mark("history")
    return {"deleted": deleted}


def _missing(id: int) -> ActionRefused:
    return ActionRefused(f"the history has no call {id}; it may have been deleted", field="id")


class LastCalls(msgspec.Struct):
    """Which tool, prompt, resource or method."""

    kind: CallKind
    name: str


@action("history.last", kinds=READ)
async def find_last(session: InspectedSession, params: LastCalls) -> object:
    """Return the arguments that were used last; those with masked values are left out."""
    history = session.part(CallHistory)
    store = history.store
    found = await history.run(store.recent, history.key, params.kind, params.name, _RECENT_READ)
    recent: dict[str, JsonObject] = {}
    for entry in found:
        if not entry.masked and "arguments" not in entry.cut and len(recent) < _RECENT:
            row = {"id": entry.id, "at": entry.at, "arguments": entry.arguments}
            recent.setdefault(entry.arguments, row)
    return {"arguments": next(iter(recent), None), "recent": [*recent.values()]}


@action("history.replay")
async def replay_entry(session: InspectedSession, params: HistoryChoice) -> object:
    """Make a call again with the same arguments."""
    return {"id": start_call(session, await find_entry(session, params.id)).id}


@action("history.replay_pinned")
async def replay_pinned(session: InspectedSession, params: Nothing) -> object:
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
