"""A file of tasks that version 0.2 wrote: every task goes on in the new form."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accord.errors import StoreUnavailable
from accord.server.tasks import SqliteTaskStore, TaskRecord
from support.running import on_a_loop

DUMP = (Path(__file__).parent / "older_tasks.sql").read_text()
LONG = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "tasks.db"
    found.touch(mode=0o600)
    with closing(sqlite3.connect(found)) as db:
        db.executescript(DUMP)
    return found


def rows(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT id, record FROM tasks ORDER BY number").fetchall()


def store_at(path: Path, now: float = 1_001.0, **options: Any) -> SqliteTaskStore:
    return SqliteTaskStore(path, clock=lambda: now, **options)


def finish(found: TaskRecord) -> TaskRecord:
    return msgspec.structs.replace(found, status="completed", result=b"{}")


@on_a_loop
async def test_records_are_as_they_were(path: Path) -> None:
    kept = {id: msgspec.msgpack.decode(record, type=TaskRecord) for id, record in rows(path)}
    store = store_at(path, 1_000.0005)
    for id in ("done", "failed", "running", "asking", "other"):
        assert await store.get(id) == kept[id]
    done, asking = await store.get("done"), await store.get("asking")
    assert done is not None
    assert asking is not None
    assert (done.result, done.changes) == (b'{"content":[]}', 3)
    assert (asking.status, asking.ttl, asking.questions) == ("input_required", None, {"q": b"{}"})
    await store.close()


@on_a_loop
async def test_a_task_of_a_dead_process_fails_and_others_go_on(path: Path) -> None:
    store = store_at(path)
    lost = await store.get("lost")
    assert lost is not None
    assert lost.status == "failed"
    changed = await store.change("running", finish)
    assert changed is not None
    assert await store.change("done", finish) is None
    assert await store.get("short") is None  # expired
    await store.close()


@on_a_loop
async def test_tasks_are_listed_in_order_and_count_for_their_owner(path: Path) -> None:
    store = store_at(path)
    listed = await store.page("ann", "2025-11-25", after=0, count=9)
    assert [each.id for _, each in listed] == ["done", "failed", "running", "asking", "lost"]
    new = msgspec.structs.replace(listed[2][1], id="new", worker="w")
    assert not await store.add(new, unfinished=2, kept=99)
    assert await store.add(new, unfinished=3, kept=5)
    listed = await store.page("ann", "2025-11-25", after=0, count=9)
    assert [each.id for _, each in listed][-2:] == ["lost", "new"]
    assert "done" not in [each.id for _, each in listed]
    await store.close()


@on_a_loop
async def test_the_file_of_before_is_kept_and_taken_over_once(path: Path) -> None:
    before = rows(path)
    stores = [store_at(path) for _ in range(4)]
    found = await asyncio.gather(*(each.get("done") for each in stores))
    assert len({each and each.result for each in found}) == 1
    for each in stores:
        await each.close()
    copies = [*path.parent.glob("*.before*")]
    assert [each.name for each in copies] == ["tasks.db.before-0.3"]
    assert rows(copies[0]) == before
    with pytest.raises(sqlite3.OperationalError):
        rows(path)


KILLED = """
import asyncio, os, signal, sys
from accord.server.tasks.backend_task_store import SqliteTaskStore

take_over = SqliteTaskStore._take_over

def take_over_and_die(self, read):
    take_over(self, read)
    os.kill(os.getpid(), signal.SIGKILL)

SqliteTaskStore._take_over = take_over_and_die
asyncio.run(SqliteTaskStore(sys.argv[1], clock=lambda: 1_001.0).get("done"))
"""


@on_a_loop
async def test_a_process_that_is_killed_meanwhile_leaves_the_old_form(path: Path) -> None:
    before = rows(path)
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=LONG)
    assert done.returncode == -signal.SIGKILL
    assert rows(path) == before
    store = store_at(path)
    assert (await store.get("done")) is not None
    await store.close()


@on_a_loop
async def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    path.touch(mode=0o600)
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE films (title TEXT)")
    with pytest.raises(StoreUnavailable, match="another program"):
        await store_at(path).get("done")
