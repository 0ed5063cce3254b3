"""A simple model of a backend, against which histories of two workers are judged.

The workers act at the same time, so that the order in which the engine served them is not known. A
history is right if some order explains all results: one in which the operations of each worker are
in the order in which it called them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from accord.errors import Conflict, Fenced, LogClosed


@dataclass(frozen=True)
class Record:
    value: bytes
    version: int
    expires: float


@dataclass(frozen=True)
class Log:
    items: tuple[bytes, ...] = ()
    last: int = 0
    fence: int = 0
    is_closed: bool = False
    expires: float = 0.0


@dataclass(frozen=True)
class State:
    """What is kept; `versions` are the highest that each name ever had."""

    records: tuple[tuple[str, Record], ...] = ()
    logs: tuple[tuple[str, Log], ...] = ()
    members: tuple[tuple[str, float], ...] = ()
    versions: tuple[tuple[str, int], ...] = ()

    def change(self, table: str, name: str, value: Any) -> "State":
        """The state with another value; None deletes it."""
        rows = {**dict(getattr(self, table)), name: value}
        kept = tuple(sorted((key, each) for key, each in rows.items() if each is not None))
        return replace(self, **{table: kept})


class Event(NamedTuple):
    """An operation of a worker, and what came of it."""

    operation: str
    name: str
    arguments: dict[str, Any]
    result: Any
    now: float


class Refused(Exception):
    """The model would have done otherwise."""


def expect(actual: Any, expected: Any) -> None:
    if isinstance(actual, Exception) or isinstance(expected, Exception):
        same = type(actual) is type(expected) and vars(actual) == vars(expected)
    else:
        same = actual == expected
    if not same:
        raise Refused(f"{actual!r} instead of {expected!r}")


def alive(rows: Any, name: str, now: float) -> Any:
    found = dict(rows).get(name)
    return found if found is not None and found.expires > now else None


def apply(state: State, event: Event) -> State:
    """Carry out an operation; raise Refused if its result is another one."""
    return _STEPS[event.operation](state, event, **event.arguments)


def _stored(record: Record | None) -> Any:
    return None if record is None else (record.value, record.version)


def _get(state: State, event: Event) -> State:
    actual = None if event.result is None else (event.result.value, event.result.version)
    expect(actual, _stored(alive(state.records, event.name, event.now)))
    return state


def _conflict(event: Event, found: Record | None) -> None:
    if not isinstance(event.result, Conflict):
        raise Refused(f"{event.result!r} instead of a conflict")
    held = event.result.record
    expect(None if held is None else (held.value, held.version), _stored(found))


def _put(
    state: State, event: Event, *, value: bytes, ttl: float, expect: int | None = None
) -> State:
    found = alive(state.records, event.name, event.now)
    version = 0 if found is None else found.version
    if expect is not None and expect != version:
        _conflict(event, found)
        return state
    highest = dict(state.versions).get(event.name, 0)
    if not isinstance(event.result, int) or event.result <= highest:
        raise Refused(f"{event.result!r} is not a version above {highest}")
    state = state.change("versions", event.name, event.result)
    return state.change("records", event.name, Record(value, event.result, event.now + ttl))


def _delete(state: State, event: Event, *, expect: int | None = None) -> State:
    found = alive(state.records, event.name, event.now)
    if found is not None and expect is not None and expect != found.version:
        _conflict(event, found)
        return state
    _expect_bool(event, found is not None)
    return state.change("records", event.name, None)


def _expect_bool(event: Event, expected: bool) -> None:
    if event.result is not expected:
        raise Refused(f"{event.result!r} instead of {expected!r}")


def _touch(state: State, event: Event, *, ttl: float) -> State:
    found = alive(state.records, event.name, event.now)
    _expect_bool(event, found is not None)
    if found is None:
        return state
    return state.change("records", event.name, replace(found, expires=event.now + ttl))


def _append(
    state: State,
    event: Event,
    *,
    items: list[bytes],
    ttl: float,
    fence: int | None = None,
    after: int | None = None,
    final: bool = False,
    keep: int = 0,
) -> State:
    log = alive(state.logs, event.name, event.now) or Log()
    refused: type[Exception] | None = None
    if fence is not None and fence < log.fence:
        refused = Fenced
    elif log.is_closed:
        refused = LogClosed
    elif after is not None and after != log.last:
        refused = Conflict
    if refused is not None:
        expect(type(event.result), refused)
        if refused is Conflict:
            expect(event.result.last, log.last)
        return state
    expect(event.result, log.last + len(items))
    kept = (*log.items, *items)
    changed = Log(
        items=kept[-keep:] if keep else kept,
        last=log.last + len(items),
        fence=log.fence if fence is None else fence,
        is_closed=final,
        expires=event.now + ttl,
    )
    return state.change("logs", event.name, changed)


def _read(state: State, event: Event, *, after: int, limit: int) -> State:
    log, page = alive(state.logs, event.name, event.now), event.result
    if log is None:
        expect(page, None)
        return state
    if page is None:
        raise Refused("there is a log")
    skipped = log.last - len(log.items)
    start = max(0, after - skipped)
    items = list(log.items[start : start + limit])
    first = skipped + start + 1 if items else log.last + 1
    expect(
        (page.items, page.first, page.last, page.is_closed, page.fence),
        (items, first, log.last, log.is_closed, log.fence),
    )
    return state


def _seize(state: State, event: Event, *, fence: int) -> State:
    log = alive(state.logs, event.name, event.now)
    is_seized = log is not None and not log.is_closed and log.fence == fence
    _expect_bool(event, is_seized)
    if not is_seized:
        return state
    return state.change("logs", event.name, replace(log, fence=log.fence + 1))


def _extend(state: State, event: Event, *, ttl: float) -> State:
    log = alive(state.logs, event.name, event.now)
    _expect_bool(event, log is not None)
    if log is None:
        return state
    return state.change("logs", event.name, replace(log, expires=event.now + ttl))


def _drop(state: State, event: Event) -> State:
    return state.change("logs", event.name, None)


def _add(state: State, event: Event, *, ttl: float) -> State:
    return state.change("members", event.name, event.now + ttl)


def _remove(state: State, event: Event) -> State:
    expires = dict(state.members).get(event.name, 0.0)
    expect(event.result, int(expires > event.now))
    return state.change("members", event.name, None)


def _members(state: State, event: Event) -> State:
    expect(
        sorted(event.result),
        sorted(name for name, expires in state.members if expires > event.now),
    )
    return state


_STEPS = {
    "get": _get,
    "put": _put,
    "delete": _delete,
    "touch": _touch,
    "append": _append,
    "read": _read,
    "seize": _seize,
    "extend": _extend,
    "drop": _drop,
    "add": _add,
    "remove": _remove,
    "members": _members,
}


def interleavings(first: list[Event], second: list[Event]) -> Iterator[list[Event]]:
    """All orders in which two workers may have been served."""
    if not first or not second:
        yield [*first, *second]
        return
    for rest in interleavings(first[1:], second):
        yield [first[0], *rest]
    for rest in interleavings(first, second[1:]):
        yield [second[0], *rest]


def explain(states: set[State], first: list[Event], second: list[Event]) -> set[State]:
    """The states that the engine may be in after both workers acted; none if it did wrong."""
    found = set()
    for order in interleavings(first, second):
        for state in states:
            try:
                for event in order:
                    state = apply(state, event)
            except Refused:
                continue
            found.add(state)
    return found
