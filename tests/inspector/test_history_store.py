"""The calls of a person are kept, bounded and without secrets."""

import sqlite3
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from accord.client.server_spec import ServerSpec
from accord.secrets.masks import Secrets
from accord_tools.inspector.history import store as store_module
from accord_tools.inspector.history.call_history import target_key
from accord_tools.inspector.history.call_record import (
    RESPONSE_MOST,
    CallRecord,
    mask_record,
)
from accord_tools.inspector.history.store import HistoryStore, default_history_file
from accord_tools.inspector.target_access import find_secrets
from support.tables import cases

SECRET = "hunter2-and-more"


def add(store: HistoryStore, name: str = "add", **more) -> int:
    masks = more.pop("masks", None) or Secrets()
    given = {"kind": "tool", "started": 1.0, "seconds": 0.5, "target": "t", "title": "T"} | more
    record = CallRecord(name=name, **given)
    return store.add(record, *mask_record(masks, record))


def test_a_call_is_found_again_in_the_file(tmp_path):
    path = tmp_path / "state" / "inspect.sqlite"
    first = HistoryStore(path)
    id = add(first, arguments='{"a": 1.10}', response='{"content": []}')
    first.close()
    second = HistoryStore(path)
    entry = second.entry(id)
    assert entry is not None
    assert (entry.arguments, entry.response) == ('{"a": 1.10}', '{"content": []}')
    assert [each.id for each in second.entries(target="t")] == [id]
    assert second.entries(target="other") == []
    assert second.is_kept
    second.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_the_file_and_its_folder_are_private(tmp_path):
    path = tmp_path / "state" / "inspect.sqlite"
    store = HistoryStore(path)
    add(store)
    modes = {
        stat.S_IMODE(each.stat().st_mode) for each in (path, Path(f"{path}-wal")) if each.exists()
    }
    assert modes == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    store.close()


def test_secrets_are_masked_and_their_places_named(tmp_path):
    path = tmp_path / "inspect.sqlite"
    store = HistoryStore(path)
    masks = Secrets(("given-by-header",))
    id = add(
        store,
        masks=masks,
        arguments=f'{{"user": "me", "login": {{"password": "{SECRET}"}}}}',
        response='{"content": [{"type": "text", "text": "you sent given-by-header"}]}',
    )
    entry = store.entry(id)
    store.close()
    assert entry is not None
    assert entry.masked == ["/login/password"]
    assert "given-by-header" not in entry.response
    data = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert SECRET.encode() not in data
    assert b"given-by-header" not in data


def test_a_long_response_is_cut_and_marked():
    store = HistoryStore(None)
    text = '{"text": "' + "x" * (5 * 1024 * 1024) + '"}'
    entry = store.entry(add(store, response=text))
    assert entry is not None
    assert (len(entry.response), entry.cut, entry.size) == (RESPONSE_MOST, ["response"], len(text))


def test_the_oldest_calls_leave_and_pinned_ones_stay(monkeypatch):
    monkeypatch.setattr(store_module, "ENTRIES_MOST", 3)
    store = HistoryStore(None)
    ids = [add(store, f"tool-{n}") for n in range(3)]
    store.pin(ids[0], on=True)
    ids += [add(store, f"tool-{n}") for n in range(3, 6)]
    assert [each.id for each in store.entries(target="t")] == [ids[5], ids[4], ids[0]]


def test_calls_are_found_by_text_in_any_case():
    store = HistoryStore(None)
    one = add(store, "Weather", arguments='{"city": "Paris"}')
    other = add(store, "add", arguments='{"a": 1}')
    store.write_note(other, "the sum for PARIS")
    add(store, "else")
    assert {each.id for each in store.entries(target=None, text="paris")} == {one, other}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"this is some text file, not a database" * 100, "not a SQLite database"),
        (None, "Is a directory"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="the system words it otherwise")
def test_a_file_that_cannot_be_used_is_left_alone(tmp_path, content, says):
    path = tmp_path / "inspect.sqlite"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    store = HistoryStore(path)
    id = add(store)
    assert store.entry(id) is not None
    assert says in store.note
    assert not store.is_kept
    assert content is None or path.read_bytes() == content


def test_a_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE call (x)")
    db.close()
    store = HistoryStore(path)
    add(store)
    assert "another program" in store.note


def test_a_file_that_another_program_locks_does_not_lose_calls(tmp_path, monkeypatch):
    monkeypatch.setitem(store_module._HOW, "timeout", 0.01)
    path = tmp_path / "inspect.sqlite"
    store = HistoryStore(path)
    add(store, "before")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    id = add(store, "during")
    assert [each.id for each in store.entries(target="t")] == [id]
    assert "another program" in store.note
    other.execute("ROLLBACK")
    other.close()
    store.close()


def test_two_inspectors_share_a_file(tmp_path):
    path = tmp_path / "inspect.sqlite"
    one, other = HistoryStore(path), HistoryStore(path)
    for number in range(10):
        add(one, f"one-{number}")
        add(other, f"other-{number}")
    assert len(one.entries(target="t")) == len(other.entries(target="t")) == 20
    one.close()
    other.close()


def test_inspectors_that_begin_at_once_share_a_new_file(tmp_path):
    path = tmp_path / "inspect.sqlite"

    def begin(number):
        store = HistoryStore(path)
        add(store, f"tool-{number}")
        store.close()
        return store.note

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(begin, range(8))) == {""}
    store = HistoryStore(path)
    assert len(store.entries(target="t")) == 8
    store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has another place")
def test_the_default_file_is_in_the_folder_for_state():
    assert default_history_file({"XDG_STATE_HOME": "/s"}) == Path("/s/accord/inspect.sqlite")
    expected = Path("/home/me/.local/state/accord/inspect.sqlite")
    assert default_history_file({"HOME": "/home/me", "XDG_STATE_HOME": "relative"}) == expected


def test_credentials_of_the_user_are_known_and_paths_are_not_taken_for_them():
    target = ServerSpec(
        name="a server",
        command=("srv", "--api-key", "key-of-an-option"),
        env={
            "MY_TOKEN": "token-of-a-variable",
            "APPLICATION_CREDENTIALS": "/home/me/projects/keys/service.json",
            "PLAIN": "plain-value-of-this",
        },
    )
    assert {*find_secrets(target)} == {"key-of-an-option", "token-of-a-variable"}
    assert target_key(target) == target_key(msgspec.structs.replace(target, env={}))
    other = msgspec.structs.replace(target, command=("srv", "--api-key", "another-key-here"))
    assert target_key(other) == target_key(target)
    assert target_key(msgspec.structs.replace(target, command=("srv",))) != target_key(target)


def test_the_same_command_in_another_folder_is_another_server(tmp_path, monkeypatch):
    keys = []
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "own.py").write_text("")
        monkeypatch.chdir(folder)
        keys.append(
            [
                target_key(ServerSpec(name="x", command=("python", file)))
                for file in ("own.py", "elsewhere.py")
            ]
        )
    assert keys[0][0] != keys[1][0]
    assert keys[0][1] == keys[1][1]


def test_a_history_without_a_call_that_may_leave_is_kept_whole(monkeypatch):
    monkeypatch.setattr(store_module, "ENTRIES_MOST", 2)
    store = HistoryStore(None)
    ids = []
    for number in range(2):
        ids.append(add(store, f"tool-{number}"))
        store.pin(ids[-1], on=True)
    monkeypatch.setattr(store_module, "ENTRIES_MOST", 1)
    assert store.entry(add(store, "new")) is None
    assert {each.id for each in store.entries(target="t")} == {*ids}


@cases(
    ("statement", "says"),
    [
        ("PRAGMA user_version = 999", "a newer accord wrote it"),
        (
            "CREATE TRIGGER own AFTER INSERT ON call BEGIN DELETE FROM call; END",
            "triggers or views",
        ),
        ("CREATE VIEW own AS SELECT * FROM call", "triggers or views"),
    ],
)
def test_a_history_that_accord_did_not_write_so_is_left_alone(tmp_path, statement, says):
    path = tmp_path / f"{statement.split()[1]}.sqlite"
    store = HistoryStore(path)
    add(store)
    store.close()
    with sqlite3.connect(path) as db:
        db.execute(statement)
    db.close()
    store = HistoryStore(path)
    assert len(store.entries(target="t")) == 0
    assert says in store.note
    assert not store.is_kept
    store.close()
