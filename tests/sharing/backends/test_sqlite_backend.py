"""What is special to the backend in a file of SQLite."""

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager, closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from accord.errors import ConfigurationError, Conflict, StoreFull, StoreUnavailable
from accord.sharing import SqliteBackend
from accord.sharing.backends import sqlite_connection, sqlite_notifications
from support.store_process import OtherProcess, Recipe
from support.store_times import until_true
from support.waiting import LONG, in_loop, run, until

TABLES = ["records", "index_members", "logs", "log_entries", "buckets"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@asynccontextmanager
async def opened(file: Path, **options: Any):
    backend = SqliteBackend(file, **options)
    await backend.open()
    try:
        yield backend
    finally:
        await backend.close()


def select(file: Path, statement: str, *terms: Any) -> list[Any]:
    """Look into the file beside the backend."""
    with closing(sqlite3.connect(file, timeout=LONG)) as db:
        return db.execute(statement, terms).fetchall()


def count(file: Path, table: str) -> int:
    return select(file, f"SELECT count(*) FROM {table}")[0][0]


@contextmanager
def locked(file: Path):
    """Another process holds the lock of the file."""
    code = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "db.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"locked\n"
        try:
            yield
        finally:
            process.stdin.close()
            process.wait(LONG)


# -- the file


@in_loop
async def test_only_the_user_may_read_the_file(file: Path):
    before = os.umask(0)
    try:
        async with opened(file) as backend:
            await backend.put("a", b"one", ttl=60)
            files = sorted(file.parent.iterdir())
            assert [each.name for each in files] == ["store.db", "store.db-shm", "store.db-wal"]
            assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
    finally:
        os.umask(before)


@in_loop
async def test_a_file_that_other_users_can_read_is_refused_and_left_alone(file: Path):
    async with opened(file) as backend:
        await backend.put("a", b"one", ttl=60)
    for mode in (0o666, 0o644, 0o640, 0o602):
        file.chmod(mode)
        before = file.read_bytes()
        with pytest.raises(StoreUnavailable, match=rf"\(mode {mode:04o}\), .* chmod 600 {file}"):
            await SqliteBackend(file).open()
        assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (before, mode)
    file.chmod(0o600)
    async with opened(file) as backend:
        found = await backend.get("a")
    assert found is not None
    assert found.value == b"one"


@pytest.mark.parametrize("leads_to", ["nothing", "a file"])
@in_loop
async def test_a_link_is_refused_and_nothing_is_made_where_it_leads(file: Path, leads_to: str):
    target = file.with_name("target.db")
    if leads_to == "a file":
        target.touch(0o600)
    file.symlink_to(target)
    with pytest.raises(StoreUnavailable, match=f"{file} is a link, so it is not used"):
        await SqliteBackend(file).open()
    assert target.exists() == (leads_to == "a file")
    assert [each.name for each in file.parent.iterdir() if each.name != target.name] == [file.name]


@in_loop
async def test_a_file_that_is_not_a_database_is_refused_and_left_alone(file: Path):
    text = "Dear diary, " * 1000
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(StoreUnavailable, match=f"{file} is not a SQLite database"):
        await SqliteBackend(file).open()
    assert file.read_text() == text


@in_loop
async def test_a_damaged_file_makes_operations_fail_until_it_is_replaced(file: Path):
    async with opened(file) as backend:
        await backend.put("a", b"one", ttl=60)
    good = file.read_bytes()
    file.write_bytes(good[:4096] + b"\xff" * (len(good) - 4096))
    async with opened(file) as backend:
        results = await asyncio.gather(
            *(backend.get("a") for _ in range(3)),
            *(backend.put("a", b"two", ttl=60) for _ in range(3)),
            return_exceptions=True,
        )
        assert {type(result) for result in results} == {StoreUnavailable}
        assert all(str(file) in str(result) for result in results)
    file.write_bytes(good)
    async with opened(file) as backend:
        assert await backend.get("a") is not None


@in_loop
async def test_a_path_that_cannot_be_a_file_is_refused(tmp_path: Path):
    with pytest.raises(StoreUnavailable, match=f"{tmp_path} cannot be used"):
        await SqliteBackend(tmp_path).open()
    missing = tmp_path / "missing" / "store.db"
    with pytest.raises(StoreUnavailable, match=f"{missing} cannot be made: No such file"):
        await SqliteBackend(missing).open()


@in_loop
async def test_a_newer_schema_is_refused(file: Path):
    async with opened(file):
        pass
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 7")
    with pytest.raises(StoreUnavailable, match=r"newer version of accord: it has the schema 7"):
        await SqliteBackend(file).open()


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE notes (text)", "PRAGMA user_version = 3", "PRAGMA application_id = 12345"],
)
@in_loop
async def test_a_database_of_another_program_is_refused_and_left_alone(file: Path, statement: str):
    file.touch(0o600)
    with closing(sqlite3.connect(file)) as db:
        db.execute(statement)
        tables = db.execute("SELECT name FROM sqlite_master").fetchall()
    with pytest.raises(StoreUnavailable, match=f"{file} is a database of another program"):
        await SqliteBackend(file).open()
    assert select(file, "SELECT name FROM sqlite_master") == tables


@in_loop
async def test_an_old_sqlite_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 8, 0))
    with pytest.raises(StoreUnavailable, match=r"SQLite 3\.24\.0 is needed"):
        await SqliteBackend(file).open()
    assert not file.exists()


@in_loop
async def test_an_engine_without_a_write_ahead_log_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    # As on a network file system; a database in memory has no such log either.
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **rest: connect(":memory:", **rest))
    with pytest.raises(StoreUnavailable, match="use a file on a local disk"):
        await SqliteBackend(file).open()


@in_loop
async def test_a_deleted_file_is_made_again(file: Path):
    async with opened(file) as backend:
        heard: list[int] = []
        await backend.follow("t", lambda: heard.append(1))
        await backend.put("a", b"one", ttl=600)
        for each in file.parent.iterdir():
            each.unlink()

        async def is_new() -> bool:
            return await backend.get("a") is None and file.exists()

        await until_true(is_new)
        await until(lambda: heard)  # as notifications may have been lost
        assert await backend.put("a", b"two", ttl=600, expect=0)
        async with opened(file) as other:
            assert await other.get("a") is not None
            heard.clear()
            await until(lambda: count(file, "follows") == 1)
            await other.notify("t")
            await until(lambda: heard)


@in_loop
async def test_a_path_that_becomes_unusable_fails_operations_until_it_is_free(file: Path):
    async with opened(file) as backend:
        await backend.follow("t", lambda: None)
        await backend.put("a", b"one", ttl=600)
        await until(lambda: _replace_by_folder(file))
        failed = await until_true(lambda: _fails(backend))
        assert f"{file} cannot be used" in str(failed)
        file.rmdir()

        async def works() -> bool:
            return not await _fails(backend)

        await until_true(works)


def _replace_by_folder(file: Path) -> bool:
    """False if the backend made the file again in between."""
    for each in file.parent.iterdir():
        each.unlink()
    try:
        file.mkdir()
    except FileExistsError:
        return False
    return True


async def _fails(backend: SqliteBackend) -> StoreUnavailable | None:
    try:
        await backend.put("a", b"two", ttl=600)
    except StoreUnavailable as error:
        return error
    return None


@in_loop
async def test_a_description_tells_the_size_and_how_much_there_is(file: Path):
    async with opened(file) as backend, opened(file, namespace="other") as other:
        await backend.put("a", b"one", ttl=60)
        await backend.append("l", [b"x" * 10_000] * 3, ttl=60, keep=2)
        await backend.append("m", [b"one"], ttl=60)
        await backend.add("i", ["a", "b"], ttl=60)
        await backend.add("j", ["a"], ttl=60)
        await backend.take("b", cost=1, rate=0.1, burst=1)
        await backend.follow("t", lambda: None)
        await other.put("a", b"one", ttl=60)
        facts = await backend.describe()
        size = facts.pop("file_bytes")
        assert isinstance(size, int)
        assert size > 30_000
        assert facts == {
            "engine": "SQLite",
            "version": sqlite3.sqlite_version,
            "file": str(file),
            "records": 1,
            "indexes": 2,
            "index_members": 3,
            "logs": 2,
            "log_entries": 3,
            "buckets": 1,
            "follows": 1,
        }
        assert (await other.describe())["records"] == 1


def test_a_backend_has_the_path_in_its_url_and_a_plain_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    backend = SqliteBackend("my store.db")
    assert backend.url == f"sqlite:///{tmp_path}/my%20store.db"
    for namespace in ("", "a:b", "a b", "x" * 101):
        with pytest.raises(ConfigurationError, match="invalid namespace"):
            SqliteBackend("x.db", namespace=namespace)


# -- locks


@in_loop
async def test_a_lock_of_another_process_fails_writes_after_the_timeout_but_not_reads(file: Path):
    async with opened(file, timeout=0.2) as backend:
        version = await backend.put("a", b"one", ttl=600)
        with locked(file):
            write = asyncio.ensure_future(backend.put("a", b"two", ttl=600))
            found = await backend.get("a")
            assert found is not None
            assert found.version == version
            with pytest.raises(StoreUnavailable, match=f"{file} was locked by another process"):
                await write
        assert await backend.put("a", b"three", ttl=600, expect=version) > version


@in_loop
async def test_a_write_waits_for_a_lock_that_ends_in_time(file: Path):
    async with opened(file, timeout=LONG) as backend:
        with locked(file):
            writes = [
                asyncio.ensure_future(backend.append("l", [b"%d" % number], ttl=600))
                for number in range(20)
            ]
            writes[3].cancel()
            assert await backend.get("a") is None
            assert not any(write.done() for write in writes[4:])
        await asyncio.wait(writes)
        page = await backend.read("l")
        assert page is not None
        assert page.items == [b"%d" % number for number in range(20) if number != 3]


@in_loop
async def test_a_long_lock_does_not_keep_a_process_from_registering_later(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite_notifications, "_REFRESH", 0.05)
    async with opened(file, timeout=0.1) as backend:
        await backend.follow("t", lambda: None)
        with locked(file):
            ((before,),) = select(file, "SELECT seen FROM listeners")
            # What the thread does from time to time comes at least once meanwhile.
            end = before + 1.5
            await until(lambda: time.time() > end)
        await until(lambda: select(file, "SELECT seen FROM listeners")[0][0] > end)
        assert await backend.put("a", b"one", ttl=600)


@in_loop
async def test_opening_waits_for_a_lock_too(file: Path):
    file.touch(0o600)
    with closing(sqlite3.connect(file)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable, match=r"locked by another process for 0\.1 s"):
            await SqliteBackend(file, timeout=0.1).open()
        backend = SqliteBackend(file, timeout=LONG)
        opening = asyncio.ensure_future(backend.open())
        await asyncio.sleep(0)
        db.execute("ROLLBACK")
        await opening
        await backend.close()


@in_loop
async def test_a_follow_that_fails_is_not_followed(file: Path):
    async with opened(file, timeout=0.1) as backend:
        heard: list[str] = []
        with locked(file):
            with pytest.raises(StoreUnavailable):
                await backend.follow("t", lambda: heard.append("failed"))
            await backend.notify("t")
        await backend.follow("t", lambda: heard.append("followed"))
        await backend.notify("t")
        await until(lambda: heard)
        assert heard == ["followed"]


@in_loop
async def test_several_processes_open_a_new_file_at_once(file: Path):
    recipe = Recipe("accord.sharing:SqliteBackend", (str(file),))
    others = [OtherProcess(recipe) for _ in range(4)]
    try:
        calls = [(("l", [b"x"]), {"ttl": 600})] * 50
        numbers = await asyncio.gather(*(each.call("repeat", "append", calls) for each in others))
    finally:
        for each in others:
            each.__exit__()
    assert sorted(chain.from_iterable(numbers)) == list(range(1, 201))


# -- one transaction for many


@in_loop
async def test_operations_that_wait_together_are_committed_together(file: Path):
    async with opened(file) as backend:
        statements: list[str] = []
        await backend._read(lambda batch: batch.db.set_trace_callback(statements.append))
        await asyncio.gather(*(backend.put(f"k{n}", b"x", ttl=600) for n in range(150)))
        await backend._read(lambda batch: batch.db.set_trace_callback(None))
        assert count(file, "records") == 150
        assert statements.count("COMMIT") < 20


@in_loop
async def test_an_operation_with_wrong_arguments_undoes_itself_alone(file: Path):
    async with opened(file) as backend:
        wrong: Any = object()
        results = await asyncio.gather(
            backend.put("a", b"one", ttl=600),
            backend.append("l", [b"one", wrong], ttl=600),
            backend.put("b", wrong, ttl=600),
            backend.put("c", b"one", ttl=600, expect=7),
            backend.put("\ud800", b"half a character", ttl=600),
            backend.append("m", [b"one"], ttl=600),
            backend.get(wrong),
            return_exceptions=True,
        )
        kinds = [type(result) for result in results]
        assert (kinds[0], kinds[3], kinds[5]) == (int, Conflict, int)
        assert all(issubclass(kinds[place], Exception) for place in (1, 2, 4, 6))
        assert not any(isinstance(results[place], StoreUnavailable) for place in (1, 2, 4, 6))
        assert await backend.read("l") is None
        assert await backend.get("a") is not None
        assert count(file, "log_entries") == 1


@in_loop
async def test_a_full_disk_refuses_what_does_not_fit_and_nothing_else(file: Path):
    async with opened(file) as backend:
        await backend._write(lambda batch: batch.db.execute("PRAGMA max_page_count = 100"))
        results = await asyncio.gather(
            backend.put("a", b"one", ttl=600),
            backend.put("b", b"x" * 1024 * 1024, ttl=600),
            backend.append("l", [b"one", b"x" * 1024 * 1024], ttl=600),
            backend.append("m", [b"one"], ttl=600),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [int, StoreFull, StoreFull, int]
        assert str(file) in str(results[1])
        assert await backend.get("a") is not None
        assert await backend.get("b") is None
        assert await backend.read("l") is None
        await backend._write(lambda batch: batch.db.execute("PRAGMA max_page_count = 100000"))
        assert await backend.put("b", b"x" * 1024 * 1024, ttl=600)


@in_loop
async def test_a_mistake_in_the_thread_fails_its_jobs_and_ends_nothing(file: Path):
    async with opened(file) as backend:

        def spoil(batch: Any) -> None:
            del batch.notified

        with pytest.raises(AttributeError):
            await backend._read(spoil)
        assert await backend.put("a", b"one", ttl=600)


@in_loop
async def test_a_file_system_that_hangs_fails_operations_in_time(file: Path):
    async with opened(file, timeout=0.1) as backend:
        goes_on = threading.Event()
        stuck = asyncio.ensure_future(_wait(backend, goes_on))
        operations = [backend.get("a"), backend.put("a", b"one", ttl=600)]
        results = await asyncio.gather(*operations, stuck, return_exceptions=True)
        assert {type(result) for result in results} == {StoreUnavailable}
        assert "did not answer within 0.1 s" in str(results[0])
        goes_on.set()

        async def answers() -> Any:
            try:
                return await backend.put("b", b"one", ttl=600)
            except StoreUnavailable:
                return False

        assert await until_true(answers)


async def _wait(backend: SqliteBackend, event: threading.Event) -> None:
    await backend._read(lambda _: event.wait(LONG))


# -- opening and closing


@in_loop
async def test_a_backend_is_closed_when_all_that_opened_it_have_closed_it(file: Path):
    backend = SqliteBackend(file)
    await backend.open()
    await backend.open()
    await backend.close()
    assert await backend.put("a", b"one", ttl=600)
    await backend.close()
    for operation in (backend.get("a"), backend.follow("t", lambda: None), backend.notify("t")):
        with pytest.raises(StoreUnavailable, match="is not open"):
            await operation
    # Its last user leaves one file behind.
    assert [each.name for each in file.parent.iterdir()] == [file.name]


@in_loop
async def test_a_backend_that_could_not_be_opened_can_be_opened_later(tmp_path: Path):
    backend = SqliteBackend(tmp_path / "folder" / "store.db")
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await backend.open()
    (tmp_path / "folder").mkdir()
    await backend.open()
    assert await backend.put("a", b"one", ttl=600)
    await backend.close()


def test_a_backend_is_open_on_one_loop_at_a_time(file: Path):
    backend = SqliteBackend(file)

    async def use() -> None:
        await backend.open()
        with pytest.raises(StoreUnavailable, match="is open on another event loop"):
            await asyncio.to_thread(run, backend.open())
        await backend.close()

    run(use())


def test_a_backend_whose_loop_ended_lets_go_of_the_file(file: Path):
    backend = SqliteBackend(file)

    async def forget_to_close() -> None:
        await backend.open()
        await backend.follow("t", lambda: None)

    async def use() -> None:
        await backend.open()
        assert await backend.get("a") is None
        await backend.close()
        await until(lambda: not _threads())

    run(forget_to_close())
    run(use())


def _threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "accord-sqlite"]


FORKED = """
import asyncio, os, sys
from accord.errors import StoreUnavailable
from accord.sharing import SqliteBackend

backend = SqliteBackend(sys.argv[1])

async def write(name):
    await backend.open()
    heard = asyncio.Event()
    await backend.follow(name, heard.set)
    for number in range(100):
        await backend.append("l", [b"x"], ttl=600)
    # Until the other process has followed, its notification is not heard.
    partner = "child" if name == "parent" else "parent"
    while not heard.is_set():
        await backend.notify(partner)
        await asyncio.sleep(0.01)
    await backend.notify(partner)
    await backend.put(name, b"done", ttl=600)
    while await backend.get(partner) is None:
        await backend.notify(partner)
        await asyncio.sleep(0.01)
    page = await backend.read("l")
    await backend.close()
    assert page.last == 200, page.last

child = os.fork()
asyncio.run(asyncio.wait_for(write("parent" if child else "child"), 100))
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

OPEN_AT_FORK = """
import asyncio, os, sys
from accord.errors import StoreUnavailable
from accord.sharing import SqliteBackend

def refused(work):
    try:
        asyncio.run(asyncio.wait_for(work(), 50))
    except StoreUnavailable as error:
        return str(error)
    return ""

async def main():
    backend = SqliteBackend(sys.argv[1])
    await backend.open()
    heard = asyncio.Event()
    await backend.follow("t", heard.set)
    await backend.put("a", b"one", ttl=600)
    child = os.fork()
    if child == 0:
        asyncio._set_running_loop(None)
        asyncio.set_event_loop(None)
        texts = [
            refused(lambda: backend.get("a")),
            refused(backend.open),
            refused(SqliteBackend(sys.argv[1]).open),
        ]
        ok = "is not open in this process" in texts[0] and all(
            "was open when this process was forked" in text for text in texts[1:]
        )
        os._exit(0 if ok else 1)
    pid, status = os.waitpid(child, 0)
    assert status == 0
    await backend.put("a", b"two", ttl=600)
    await backend.notify("t")
    await asyncio.wait_for(heard.wait(), 50)
    await backend.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("program", [FORKED, OPEN_AT_FORK], ids=["before", "open"])
def test_a_forked_process_opens_the_file_for_itself(file: Path, program: str):
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)],
        capture_output=True,
        text=True,
        timeout=2 * LONG,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- what expires


@pytest.fixture
def short_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for what has expired more often."""
    monkeypatch.setattr(sqlite_connection, "SLOT", 0.05)
    monkeypatch.setattr(sqlite_connection, "SLOT", 0.05)


@pytest.mark.usefixtures("short_slots")
@in_loop
async def test_expired_rows_are_swept_without_being_asked_for(file: Path):
    async with opened(file) as backend:
        for number in range(3):
            await backend.append(f"l{number}", [b"x"] * 700, ttl=0.05)
        await backend.append("empty", [], ttl=0.05, final=True)
        for number in range(100):
            await backend.put(f"k{number}", b"x", ttl=0.05)
        await backend.add("i", [f"m{number}" for number in range(1200)], ttl=0.05)
        await backend.take("b", cost=1, rate=100, burst=1)
        await backend.put("kept", b"x", ttl=600)
        await backend.append("kept", [b"x"] * 5, ttl=600)
        await backend.add("kept", ["a"], ttl=600)
        await until(lambda: [count(file, table) for table in TABLES] == [1, 1, 1, 5, 0])
        assert await backend.append("kept", [b"y"], ttl=600) == 6


@pytest.mark.usefixtures("short_slots")
@in_loop
async def test_the_entries_of_a_dropped_log_are_swept(file: Path):
    async with opened(file) as backend:
        await backend.append("l", [b"x"] * 3000, ttl=600)
        await backend.drop("l")
        await backend.append("l", [b"new"], ttl=600)
        await until(lambda: (count(file, "logs"), count(file, "log_entries")) == (1, 1))
        page = await backend.read("l")
        assert page is not None
        assert page.items == [b"new"]


@in_loop
async def test_trimmed_entries_do_not_pile_up(file: Path):
    async with opened(file) as backend:
        for _ in range(500):
            await backend.append("l", [b"x"], ttl=600, keep=10)
        assert count(file, "log_entries") < 100


# -- notifications


async def _address_of(file: Path) -> str:
    ((address,),) = select(file, "SELECT address FROM listeners")
    return address


@in_loop
async def test_a_socket_is_private_and_removed_when_the_backend_is_closed(file: Path):
    async with opened(file) as backend:
        await backend.follow("t", lambda: None)
        address = Path(await _address_of(file))
        assert stat.S_IMODE(address.parent.stat().st_mode) == 0o700
        assert address.is_socket()
    assert not address.parent.exists()
    assert count(file, "listeners") == count(file, "follows") == 0


@in_loop
async def test_the_socket_of_a_killed_process_is_removed_by_the_next_ring(file: Path):
    async with opened(file) as backend:
        with OtherProcess(Recipe("accord.sharing:SqliteBackend", (str(file),))) as other:
            await other.call("follow", "t")
            address = Path(await _address_of(file))
            other.kill()
            assert address.is_socket()
            await backend.append("l", [b"x"], ttl=600, notify=["t"])
            await until(lambda: not address.parent.exists())
            await until(lambda: count(file, "listeners") == count(file, "follows") == 0)


@in_loop
async def test_the_socket_of_a_killed_process_is_removed_by_the_next_process(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    with OtherProcess(Recipe("accord.sharing:SqliteBackend", (str(file),))) as other:
        await other.call("follow", "t")
        other.kill()
    (left,) = folder.iterdir()
    # Even if it served another file, which does not exist any more.
    async with opened(tmp_path / "other.db") as backend, opened(tmp_path / "other.db") as second:
        await backend.follow("t", lambda: None)
        (own,) = folder.iterdir()
        assert own != left
        await second.follow("t", lambda: None)
        assert len(list(folder.iterdir())) == 2
    assert list(folder.iterdir()) == []


@in_loop
async def test_a_process_that_was_silent_for_long_is_forgotten(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite_notifications, "_SILENCE", 0.5)
    async with opened(file) as backend:
        with OtherProcess(Recipe("accord.sharing:SqliteBackend", (str(file),))) as other:
            await other.call("follow", "t")
            address = Path(await _address_of(file))
            other.kill()
            await until(lambda: count(file, "listeners") == 0)
            await until(lambda: not address.parent.exists())
        assert await backend.get("a") is None


@in_loop
async def test_a_process_that_was_forgotten_wrongly_registers_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite_notifications, "_REFRESH", 0.1)
    async with opened(file) as backend, opened(file) as other:
        heard: list[int] = []
        await other.follow("t", lambda: heard.append(1))
        with closing(sqlite3.connect(file, isolation_level=None, timeout=LONG)) as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("DELETE FROM follows")
            db.execute("DELETE FROM listeners")
            db.execute("COMMIT")
        await until(lambda: heard)  # as notifications may have been lost
        heard.clear()
        await backend.notify("t")
        await until(lambda: heard)


@in_loop
async def test_a_process_whose_socket_cannot_be_reached_hears_by_polling(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sqlite_notifications, "_REFRESH", 0.1)
    async with opened(file) as backend, opened(file) as other:
        heard: list[int] = []
        await other.follow("t", lambda: heard.append(1))
        address = Path(await _address_of(file))
        # As if the folder were that of another container.
        address.unlink()
        address.parent.rmdir()
        await backend.notify("t")
        await until(lambda: heard)
        await until(lambda: select(file, "SELECT address FROM listeners") == [("",)])
        for _ in range(3):
            heard.clear()
            await backend.notify("t")
            await until(lambda: heard)


@in_loop
async def test_a_process_that_stands_still_hears_afterwards_and_holds_up_nothing(file: Path):
    async with opened(file) as backend:
        with OtherProcess(Recipe("accord.sharing:SqliteBackend", (str(file),))) as other:
            for number in range(20):
                await other.call("follow", f"topic {number}")
            os.kill(other.process.pid, signal.SIGSTOP)
            try:
                for number in range(2000):
                    await backend.notify(f"topic {number % 20}")
            finally:
                os.kill(other.process.pid, signal.SIGCONT)
            await until_true(lambda: _has_heard_any(other))
            # Its buffer has room again.
            heard = await other.call("heard", "topic 7")
            await backend.notify("topic 7")

            async def has_heard() -> bool:
                return await other.call("heard", "topic 7") > heard

            await until_true(has_heard)


async def _has_heard_any(other: OtherProcess) -> bool:
    return await other.call("heard", "topic 0") > 0


@pytest.mark.parametrize("length", [90, 200])
@in_loop
async def test_a_long_temporary_folder_does_not_keep_notifications_away(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
):
    folder = tmp_path / ("x" * length)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    async with opened(file) as backend, opened(file) as other:
        heard: list[int] = []
        await other.follow("t", lambda: heard.append(1))
        address = await _address_of(file)
        assert len(address) < 100
        await backend.notify("t")
        await until(lambda: heard)
    assert list(folder.iterdir()) == []


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """A loop that watches no sockets of others, as the default one of Windows."""

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        raise NotImplementedError


def test_a_loop_that_watches_no_sockets_hears_by_polling(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))

    async def use() -> None:
        async with asyncio.timeout(LONG), opened(file) as backend, opened(file) as other:
            heard: list[int] = []
            await other.follow("t", lambda: heard.append(1))
            assert await _address_of(file) == ""
            await backend.notify("t")
            await until(lambda: heard)

    with asyncio.Runner(loop_factory=LoopWithoutReaders) as runner:
        runner.run(use())
    assert list(folder.iterdir()) == []


@in_loop
async def test_many_rings_are_joined_into_few_datagrams(file: Path):
    async with opened(file) as backend, opened(file) as other:
        heard: set[int] = set()
        topics = ["x" * 190 + f"{number}" for number in range(500)]
        for number, topic in enumerate(topics):
            await other.follow(topic, lambda number=number: heard.add(number))
        await backend.notify(*topics)
        await until(lambda: len(heard) == 500)
