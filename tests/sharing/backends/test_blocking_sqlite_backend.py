"""A SQLite file that is used in the threads that call: transactions, durability, what expires."""

import sqlite3
import threading
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from accord.errors import Conflict, StoreUnavailable
from accord.sharing.backends import sqlite_backend
from accord.sharing.backends.sqlite_backend import BlockingSqliteBackend
from support.waiting import until_sync


def drive(work: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of an operation, without an event loop."""
    with pytest.raises(StopIteration) as done:
        work.send(None)
    return done.value.value


@pytest.fixture
def backend(tmp_path: Path):
    found = BlockingSqliteBackend(tmp_path / "store.db", timeout=0.2)
    drive(found.open())
    yield found
    drive(found.close())


def value(backend: BlockingSqliteBackend, key: str) -> bytes | None:
    found = drive(backend.get(key))
    return None if found is None else found.value


def put(backend: BlockingSqliteBackend, key: str, content: bytes, **more: Any) -> int:
    return drive(backend.put(key, content, **{"ttl": 600, **more}))


class Kept(Exception):
    pass


@pytest.mark.parametrize(("error", "left"), [(Kept, b"x"), (ZeroDivisionError, None)])
def test_an_error_undoes_a_transaction_unless_it_is_one_that_keeps_it(backend, error, left):
    def fail() -> None:
        with backend.transaction(keeps=Kept):
            put(backend, "k", b"x")
            with backend.transaction():
                drive(backend.add("i", ["m"], ttl=600))
            raise error

    with pytest.raises(error):
        fail()
    assert value(backend, "k") == left
    assert drive(backend.count("i")) == (left is not None)
    # Versions go on.
    assert put(backend, "k", b"y") > 0


def test_a_conflict_within_a_transaction_does_not_end_it(backend):
    first = put(backend, "k", b"x")

    def conflict() -> None:
        with pytest.raises(Conflict) as caught:
            drive(backend.put("k", b"z", ttl=600, expect=first + 100))
        assert caught.value.record.value == b"x"

    with backend.transaction(is_durable=False):
        put(backend, "other", b"1")
        conflict()
        second = put(backend, "k", b"y", expect=first)
    assert second > first
    assert (value(backend, "k"), value(backend, "other")) == (b"y", b"1")


def test_transactions_of_threads_exclude_each_other(backend):
    put(backend, "n", b"0")

    def count() -> None:
        for _ in range(50):
            with backend.transaction(is_durable=False):
                put(backend, "n", str(int(value(backend, "n") or b"") + 1).encode())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert value(backend, "n") == b"200"


def test_a_lock_of_another_process_fails_writes_after_the_timeout_but_not_reads(backend, tmp_path):
    put(backend, "k", b"x")
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            drive(backend.put("k", b"y", ttl=600))
        assert value(backend, "k") == b"x"
    assert put(backend, "k", b"y") > 0


def test_expired_rows_are_deleted_from_the_file(backend, tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_backend, "SLOT", 0.0)
    monkeypatch.setattr("accord.sharing.backends.sqlite_connection.SLOT", 0.05)
    put(backend, "k", b"secret of long ago", ttl=0.05)

    def count() -> int:
        put(backend, "other", b"")
        with closing(sqlite3.connect(tmp_path / "store.db")) as db:
            return db.execute("SELECT count(*) FROM records").fetchone()[0]

    until_sync(lambda: count() == 1)
    drive(backend.close())
    content = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert b"secret of long ago" not in content
    drive(backend.open())


def test_a_closed_backend_can_be_opened_again(backend):
    put(backend, "k", b"x")
    drive(backend.close())
    for use in (lambda: backend.get("k"), lambda: backend.put("k", b"y", ttl=1)):
        with pytest.raises(StoreUnavailable, match="is not open"):
            use().send(None)
    drive(backend.open())
    assert value(backend, "k") == b"x"
