"""Task stores: the one in memory and the one in a file keep the same promises."""

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accord.errors import StoreError, StoreUnavailable
from accord.server import tasks
from accord.server.tasks import MemoryTaskStore, SqliteTaskStore, TaskRecord, TaskStore
from accord.server.tasks.backend_task_store import BackendTaskStore
from accord.sharing import MemoryBackend, SqliteBackend
from support.running import on_a_loop

Make = Callable[..., TaskStore]
PLENTY: Any = {"unfinished": 1_000, "kept": 1_000}


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class OpenedTaskStore(BackendTaskStore):
    """Opens its backend with the first beat, and closes it at the end."""

    async def beat(self, worker: str) -> None:
        await self.backend.open()

    async def close(self) -> None:
        await self.backend.close()


# The clock of an engine decides what has expired, and a test can only set that of the first two.
CLOCKED = ["memory", "shared"]


@pytest.fixture(params=[*CLOCKED, "sqlite", "shared sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Make:
    def make() -> TaskStore:
        if request.param == "memory":
            return MemoryTaskStore(clock=clock)
        if request.param == "sqlite":
            return SqliteTaskStore(tmp_path / "tasks.db", clock=clock)
        if request.param == "shared":
            return BackendTaskStore(MemoryBackend(clock=clock), clock=clock)
        return OpenedTaskStore(SqliteBackend(tmp_path / "store.db"), clock=clock)

    return make


@pytest.fixture(params=["memory", "sqlite"])
def make_bounded(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Make:
    def make(**options: Any) -> TaskStore:
        if request.param == "memory":
            return MemoryTaskStore(clock=clock, **options)
        return SqliteTaskStore(tmp_path / "tasks.db", clock=clock, **options)

    return make


def record(id: str, *, owner: str = "ann", ttl: int | None = 60_000, **more: Any) -> TaskRecord:
    return TaskRecord(
        id=id,
        owner=owner,
        revision="2025-11-25",
        worker="w",
        created_at=1_000.0,
        updated_at=1_000.0,
        ttl=ttl,
        poll_interval=1_000,
        **more,
    )


def finish(found: TaskRecord) -> TaskRecord:
    return msgspec.structs.replace(found, status="completed", result=b"{}")


async def fill(store: TaskStore, *ids: str, **more: Any) -> None:
    await store.beat("w")
    for id in ids:
        assert await store.add(record(id, **more), **PLENTY)


async def ids(store: TaskStore, owner: str = "ann", **more: Any) -> list[str]:
    where: Any = {"after": 0, "count": 100} | more
    return [each.id for _, each in await store.page(owner, "2025-11-25", **where)]


@on_a_loop
async def test_a_record_comes_back_as_it_was_kept(make: Make) -> None:
    store = make()
    await store.beat("w")
    kept = record("a", questions={"q": b"1"}, answers={"r": b"2"}, message="busy")
    await store.add(kept, **PLENTY)
    assert await store.get("a") == kept
    assert await store.get("b") is None
    await store.close()


@pytest.mark.requirement("tasks.status.terminal-final")
@on_a_loop
async def test_a_finished_record_never_changes(make: Make) -> None:
    store = make()
    await fill(store, "a")
    changed = await store.change("a", finish)
    assert changed is not None
    assert changed.is_finished
    assert await store.change("a", lambda found: found) is None
    assert await store.change("unknown", finish) is None
    assert await store.get("a") == changed
    await store.close()


@on_a_loop
async def test_a_change_may_leave_a_record_as_it_is(make: Make) -> None:
    store = make()
    await fill(store, "a")
    assert await store.change("a", lambda found: None) is None
    assert await store.get("a") == record("a")
    await store.close()


@on_a_loop
async def test_a_change_that_fails_changes_nothing(make: Make) -> None:
    def fail(found: TaskRecord) -> TaskRecord:
        raise ZeroDivisionError

    store = make()
    await fill(store, "a")
    with pytest.raises(ZeroDivisionError):
        await store.change("a", fail)
    assert await store.get("a") == record("a")
    await store.close()


@pytest.mark.requirement("tasks.security.limits")
@pytest.mark.parametrize("make", CLOCKED, indirect=True)
@on_a_loop
async def test_an_expired_record_is_not_found(make: Make, clock: Clock) -> None:
    store = make()
    await fill(store, "a")
    await fill(store, "for-ever", ttl=None)
    await store.change("for-ever", finish)
    clock.now += 60
    assert await store.get("a") is None
    assert await store.change("a", finish) is None
    assert await ids(store) == ["for-ever"]
    await store.beat("w")
    clock.now -= 60  # the record itself is gone
    assert await ids(store) == ["for-ever"]
    await store.close()


@pytest.mark.requirement("tasks.security.list-own-only")
@on_a_loop
async def test_a_page_holds_the_tasks_of_one_owner_in_order(make: Make) -> None:
    store = make()
    await fill(store, "a", "b", "c")
    await fill(store, "x", owner="ben")
    assert await ids(store) == ["a", "b", "c"]
    first = await store.page("ann", "2025-11-25", after=0, count=2)
    assert [each.id for _, each in first] == ["a", "b"]
    assert await ids(store, after=first[-1][0]) == ["c"]
    assert await store.page("ann", "2026-07-28", after=0, count=9) == []
    await store.close()


@pytest.mark.requirement("tasks.security.limits")
@on_a_loop
async def test_an_owner_has_so_many_unfinished_tasks(make: Make) -> None:
    store = make()
    await fill(store, "a", "b")
    assert not await store.add(record("c"), unfinished=2, kept=9)
    assert await store.add(record("x", owner="ben"), unfinished=2, kept=9)
    await store.change("a", finish)
    assert await store.add(record("c"), unfinished=2, kept=9)
    await store.close()


@on_a_loop
async def test_the_oldest_finished_tasks_make_room(make: Make) -> None:
    store = make()
    await fill(store, "a", "b", "c", "d")
    for id in ("b", "c"):
        await store.change(id, finish)
    assert await store.add(record("e"), unfinished=9, kept=4)
    assert await ids(store) == ["a", "c", "d", "e"]
    await store.close()


@on_a_loop
async def test_results_take_no_more_bytes_than_allowed(make_bounded: Make) -> None:
    def finish_large(found: TaskRecord) -> TaskRecord:
        return msgspec.structs.replace(found, status="completed", result=b"x" * 1_000)

    store = make_bounded(bytes=2_500)
    await fill(store, "a", "b", "c", "d")
    for id in ("b", "c", "d"):
        await store.change(id, finish_large)
    await store.beat("w")
    assert await ids(store) == ["a", "c", "d"]
    await store.close()


def test_stores_of_tasks_are_loaded_on_demand() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = tasks.Nothing


# -- a backend that workers share


class TurnTaking:
    """A backend whose operations let others come between."""

    def __init__(self, clock: Clock) -> None:
        self._backend = MemoryBackend(clock=clock)

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **keywords: Any) -> Any:
            await asyncio.sleep(0)
            result = await getattr(self._backend, name)(*args, **keywords)
            await asyncio.sleep(0)
            return result

        return call


def share_among(count: int, clock: Clock) -> list[BackendTaskStore]:
    backend: Any = TurnTaking(clock)
    return [BackendTaskStore(backend, clock=clock) for _ in range(count)]


def share(clock: Clock) -> Any:
    return BackendTaskStore(MemoryBackend(clock=clock), clock=clock)


@on_a_loop
async def test_of_changes_at_once_all_are_carried_out(clock: Clock) -> None:
    stores = share_among(4, clock)
    await fill(stores[0], "a")

    def add(name: str) -> Callable[[TaskRecord], TaskRecord]:
        return lambda found: msgspec.structs.replace(found, answers=found.answers | {name: b"1"})

    names = [f"answer{number}" for number in range(40)]
    changes = [stores[at % 4].change("a", add(name)) for at, name in enumerate(names)]
    assert None not in await asyncio.gather(*changes)
    found = await stores[1].get("a")
    assert found is not None
    assert sorted(found.answers) == sorted(names)
    assert found.changes == len(names)


@on_a_loop
async def test_of_several_that_finish_a_task_one_does(clock: Clock) -> None:
    stores = share_among(4, clock)
    await fill(stores[0], "a")
    changed = await asyncio.gather(*(store.change("a", finish) for store in stores))
    assert len([each for each in changed if each is not None]) == 1


@on_a_loop
async def test_workers_that_add_at_once_keep_the_limit_of_an_owner(clock: Clock) -> None:
    stores = share_among(4, clock)
    added = await asyncio.gather(
        *(stores[at % 4].add(record(f"task{at}"), unfinished=5, kept=100) for at in range(20))
    )
    assert 0 < sum(added) <= 5
    assert len(await ids(stores[0])) == sum(added)
    # Those that were refused left no trace.
    for number in range(6):
        await stores[0].add(record(f"more{number}"), unfinished=5, kept=100)
    assert len(await ids(stores[0])) == 5


@on_a_loop
async def test_a_name_that_a_lost_worker_left_behind_does_not_count(clock: Clock) -> None:
    store = share(clock)
    await fill(store, "a")
    (index,) = [each for each in store.backend._indexes if each.endswith("}u")]
    await store.backend.add(index, ["ghost", "other"], ttl=1_000)
    assert await store.add(record("b"), unfinished=2, kept=100)
    assert sorted(await store.backend.members(index)) == ["a", "b"]


@on_a_loop
async def test_changes_ring_for_those_that_follow_a_task(clock: Clock) -> None:
    store = share(clock)
    await fill(store, "a", "b")
    notified = asyncio.Event()
    await store.follow("a", notified.set)
    await store.change("b", finish)
    await asyncio.sleep(0)
    assert not notified.is_set()
    await store.change("a", finish)
    async with asyncio.timeout(60):
        await notified.wait()
    await store.unfollow("a", notified.set)


@pytest.mark.parametrize("id", ["", "{x}", "a b", "a\n", "ä", "x" * 101, "{t" * 40])
@on_a_loop
async def test_texts_that_cannot_be_ids_are_not_looked_up(clock: Clock, id: str) -> None:
    store = share(clock)
    assert await store.get(id) is None
    assert await store.change(id, finish) is None


@on_a_loop
async def test_a_record_in_the_format_of_a_later_version_is_left_alone(clock: Clock) -> None:
    store = share(clock)
    await fill(store, "a")
    (key,) = [each for each in store.backend._records if each.startswith("{ta}")]
    kept = await store.backend.get(key)
    await store.backend.put(key, b"\xff" + kept.value[1:], ttl=60)
    for work in (store.get("a"), store.change("a", finish)):
        with pytest.raises(StoreError, match="a later version of accord"):
            await work


@on_a_loop
async def test_a_record_of_an_earlier_version_lacks_what_came_later(clock: Clock) -> None:
    store = share(clock)
    await fill(store, "a")
    (key,) = [each for each in store.backend._records if each.startswith("{ta}")]
    kept = await store.backend.get(key)
    fields = msgspec.msgpack.decode(kept.value[1:])
    for later in ("fence", "runs", "call", "kept", "asked", "changes", "session_id"):
        del fields[later]
    await store.backend.put(key, kept.value[:1] + msgspec.msgpack.encode(fields), ttl=60)
    assert await store.get("a") == record("a")


@on_a_loop
async def test_members_that_a_later_version_added_survive_a_change(clock: Clock) -> None:
    store = share(clock)
    await fill(store, "a")
    (key,) = [each for each in store.backend._records if each.startswith("{ta}")]
    kept = await store.backend.get(key)
    fields = msgspec.msgpack.decode(kept.value[1:]) | {"later": [5, {"x": b"y"}]}
    await store.backend.put(key, kept.value[:1] + msgspec.msgpack.encode(fields), ttl=60)
    changed = await store.change("a", finish)
    assert await store.get("a") == changed
    found = msgspec.msgpack.decode((await store.backend.get(key)).value[1:])
    assert (found["later"], found["status"]) == ([5, {"x": b"y"}], "completed")


# -- the file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


@on_a_loop
async def test_a_file_outlives_its_process(path: Path) -> None:
    code = f"""
import asyncio, sys
sys.path[:0] = {sys.path!r}
from server.test_task_stores import PLENTY, SqliteTaskStore, finish, record
async def main():
    store = SqliteTaskStore({str(path)!r}, clock=lambda: 1_000.0)
    await store.beat("w")
    for id in ("finished", "running"):
        await store.add(record(id), **PLENTY)
    await store.change("finished", finish)
asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    later = Clock()
    store = SqliteTaskStore(path, clock=later)
    assert await store.get("finished") == finish(record("finished", changes=1))
    later.now += store.lease + 1
    lost = await store.get("running")
    assert lost is not None
    assert lost.status == "failed"
    assert lost.message == "the process that ran this task ended before the task did"
    data = {"reason": "worker-lost"}
    error = {"code": -32603, "message": lost.message, "data": data}
    assert msgspec.json.decode(lost.error or b"") == error
    assert [
        each.status for _, each in await store.page("ann", lost.revision, after=0, count=9)
    ] == [
        "completed",
        "failed",
    ]
    await store.close()


@on_a_loop
async def test_a_worker_that_lives_keeps_its_tasks(path: Path, clock: Clock) -> None:
    store = SqliteTaskStore(path, clock=clock)
    await fill(store, "a")
    for _ in range(3):
        clock.now += store.lease - 1
        await store.beat("w")
    assert await store.get("a") == record("a")
    await store.close()


@on_a_loop
async def test_two_stores_share_a_file(path: Path, clock: Clock) -> None:
    one, other = SqliteTaskStore(path, clock=clock), SqliteTaskStore(path, clock=clock)
    await fill(one, "a")
    changes = [store.change("a", finish) for store in (one, other, one, other)]
    done = [each for each in await asyncio.gather(*changes) if each is not None]
    assert len(done) == 1
    assert await one.get("a") == await other.get("a") == done[0]
    await one.close()
    await other.close()


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
@on_a_loop
async def test_a_file_is_for_its_user_alone(path: Path, clock: Clock) -> None:
    store = SqliteTaskStore(path, clock=clock)
    await fill(store, "a")
    for each in path.parent.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600
    await store.close()
    path.chmod(0o666)
    with pytest.raises(StoreUnavailable, match=f"other users can read {path}"):
        await fill(SqliteTaskStore(path, clock=clock), "b")
    path.rename(path.with_name("moved.db"))
    path.symlink_to("moved.db")
    with pytest.raises(StoreUnavailable, match="is a link"):
        await fill(SqliteTaskStore(path, clock=clock), "b")


@on_a_loop
async def test_a_file_may_be_used_again_after_it_was_closed(path: Path, clock: Clock) -> None:
    store = SqliteTaskStore(path, clock=clock)
    await store.close()
    await fill(store, "a")
    await store.close()
    assert await store.get("a") == record("a")
    await store.close()
