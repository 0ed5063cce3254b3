"""The journal of changes, and changes taken back."""

import json
import os
import stat
import sys

import pytest

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.writing.change import (
    FileChange,
    undo,
    write_changes,
)
from accord_tools.hosts.writing.journal import Journal, digest_of

BEFORE = b'{\n  // mine\n  "mcpServers": {\n    "a": {"command": "x"}\n  }\n}\n'
ADDED = BEFORE.replace(b'"x"}\n', b'"x"},\n    "notes": {"command": "y"}\n')
SECRET = "sk-live-0123456789"


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "accord")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "home" / "mcp.json"
    path.parent.mkdir()
    path.write_bytes(BEFORE)
    return path


def write(journal, path, data, **members):
    given = {"host": "cursor", "name": "notes", "action": "add", **members}
    return write_changes([FileChange(path=path, compute=lambda _: data, **given)], journal)[0]


def test_a_second_undo_takes_back_the_change_before(journal, path):
    write(journal, path, b"one")
    write(journal, path, b"two")
    for expected in (b"one", BEFORE):
        write_changes(undo(journal), journal)
        assert path.read_bytes() == expected
    with pytest.raises(HostsError, match="there is nothing left to undo"):
        undo(journal)


def test_an_undo_gives_back_the_exact_bytes_and_its_number_makes_the_change_again(journal, path):
    write(journal, path, ADDED)
    for number, expected in ((1, BEFORE), (2, ADDED), (3, BEFORE), (4, ADDED)):
        write_changes(undo(journal, number), journal)
        assert path.read_bytes() == expected
    entries = journal.entries()
    assert [(each.id, each.action, each.undoes) for each in entries] == [
        (5, "undo", 4),
        (4, "undo", 3),
        (3, "undo", 2),
        (2, "undo", 1),
        (1, "add", None),
    ]


def test_an_undo_removes_a_file_that_accord_made_and_empty_folders(journal, tmp_path):
    path = tmp_path / "new" / "deep" / "mcp.json"
    write(journal, path, b"{}", mode=0o644)
    write_changes(undo(journal), journal)
    assert not (tmp_path / "new").exists()
    write_changes(undo(journal, 2), journal)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"{}", 0o644)
    (tmp_path / "new" / "theirs").touch()
    write_changes(undo(journal), journal)
    assert os.listdir(tmp_path / "new") == ["theirs"]


def test_a_file_that_was_removed_comes_back_with_its_mode(journal, path):
    path.chmod(0o666)
    write(journal, path, None, action="remove")
    assert not path.exists()
    write_changes(undo(journal), journal)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (BEFORE, 0o666)


def test_after_a_foreign_change_only_our_part_is_taken_back(journal, path):
    write(journal, path, ADDED)
    path.write_bytes(ADDED.replace(b'"x"', b'"their own"').replace(b"// mine", b"// and theirs"))
    seen = []

    def verify(entry, before, after):
        seen.append((entry.name, before, after))

    write_changes(undo(journal, verify=verify), journal)
    expected = BEFORE.replace(b'"x"', b'"their own"').replace(b"// mine", b"// and theirs")
    assert path.read_bytes() == expected
    assert [(name, after) for name, _, after in seen] == [("notes", expected)]


def test_an_undo_that_the_caller_finds_wrong_is_not_made(journal, path):
    write(journal, path, ADDED)
    changed = ADDED.replace(b'"x"', b'"z"')
    path.write_bytes(changed)

    def verify(*_):
        raise HostsError("other values differ")

    with pytest.raises(HostsError, match=r"is left alone.*\(other values differ\)"):
        write_changes(undo(journal, verify=verify), journal)
    assert path.read_bytes() == changed


def test_a_removed_span_comes_back_where_it_was(journal, path):
    path.write_bytes(ADDED)
    write(journal, path, BEFORE, action="remove")
    path.write_bytes(BEFORE.replace(b"// mine", b"// and theirs"))
    write_changes(undo(journal), journal)
    assert path.read_bytes() == ADDED.replace(b"// mine", b"// and theirs")


@pytest.mark.parametrize(
    "changed",
    [
        ADDED.replace(b'"y"', b'"z"'),
        ADDED + ADDED,
        b"",
        None,
    ],
    ids=["entry changed", "entry twice", "emptied", "removed"],
)
def test_an_undo_refuses_to_guess_and_names_the_backup(journal, path, changed):
    write(journal, path, ADDED)
    path.unlink() if changed is None else path.write_bytes(changed)
    with pytest.raises(HostsError) as refused:
        write_changes(undo(journal), journal)
    backup = journal.backup_path(digest_of(BEFORE))
    assert f"{path} was changed since accord wrote notes (change 1)" in str(refused.value)
    assert f"(compare: diff {backup} {path})" in str(refused.value)
    assert backup.read_bytes() == BEFORE
    assert (path.read_bytes() if path.exists() else None) == changed


def test_a_file_that_accord_made_and_others_changed_is_not_removed(journal, tmp_path):
    path = tmp_path / "mcp.json"
    write(journal, path, b"{}")
    path.write_bytes(b'{"theirs": 1}')
    with pytest.raises(HostsError, match=r"though accord made it; .* accord remove notes"):
        write_changes(undo(journal), journal)
    assert path.read_bytes() == b'{"theirs": 1}'


def test_an_undo_takes_back_all_that_was_made_together_by_any_of_their_numbers(journal, path):
    other = path.with_name("other.json")
    changes = [
        FileChange(path=each, host="x", name="notes", action="add", compute=lambda _: ADDED)
        for each in (path, other)
    ]
    write_changes(changes, journal)
    write(journal, path.with_name("third.json"), b"{}")
    assert len(undo(journal, 1)) == 2
    write_changes(undo(journal, 2), journal)
    assert (path.read_bytes(), other.exists()) == (BEFORE, False)
    with pytest.raises(HostsError, match=r"there is no change 99 to undo; the journal has 1 to 5"):
        undo(journal, 99)


def test_an_older_change_can_be_taken_back_alone(journal, path):
    write(journal, path, ADDED)
    both = ADDED.replace(b"{\n  //", b'{\n  "newer": 1,\n  //')
    write(journal, path, both, name="newer")
    write_changes(undo(journal, 1), journal)
    assert path.read_bytes() == BEFORE.replace(b"{\n  //", b'{\n  "newer": 1,\n  //')


def test_nothing_to_undo_is_an_error(journal):
    with pytest.raises(HostsError, match="there is nothing to undo"):
        undo(journal)


def test_the_journal_has_no_secrets_and_only_its_owner_may_read_it(journal, path):
    secret = ADDED.replace(b'"y"', SECRET.encode())
    write(journal, path, secret)
    assert SECRET.encode() not in journal.path.read_bytes()
    assert stat.S_IMODE(journal.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    backups = list((journal.folder / "backups").iterdir())
    assert stat.S_IMODE(backups[0].parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in backups} == {0o600}
    assert {each.read_bytes() for each in backups} == {BEFORE, secret}
    entry = json.loads(journal.path.read_bytes().splitlines()[0])
    assert (entry["file"], entry["host"]) == (str(path), "cursor")


def test_a_line_that_a_crash_cut_off_is_skipped(journal, path):
    write(journal, path, ADDED)
    with journal.path.open("ab") as file:
        file.write(b'{"id": 2, "group": 2, "fi')
    assert [each.id for each in journal.entries()] == [1]
    write_changes(undo(journal), journal)
    assert [each.id for each in journal.entries()] == [2, 1]
    with journal.path.open("ab") as file:
        file.write(b'[]\n{"id": [], "state": 1}\n{"id": 1, "state": "odd"}\n\xff\n')
    assert [each.id for each in journal.entries()] == [2, 1]


def test_changes_that_an_earlier_version_wrote_down_as_failed_are_left_out(journal, path):
    write(journal, path, ADDED)
    write(journal, path, BEFORE)
    with journal.path.open("ab") as file:
        file.write(b'{"id": 1, "state": "done"}\n{"id": 2, "state": "reverted"}\n')
    assert [each.id for each in journal.entries()] == [1]


def test_only_the_newest_changes_are_kept(tmp_path, path):
    journal = Journal(tmp_path / "accord", kept_changes=5)
    for number in range(50):
        write(journal, path, b"%d" % number)
    entries = journal.entries()
    assert (entries[0].id, entries[-1].id) == (50, 46)
    kept = {each for entry in entries for each in (entry.before, entry.after)}
    assert kept == set(os.listdir(journal.folder / "backups"))
    write_changes(undo(journal), journal)
    assert path.read_bytes() == b"48"


def test_the_contents_that_are_kept_have_a_limit(tmp_path, path):
    journal = Journal(tmp_path / "accord", kept_bytes=10_000)
    for number in range(8):
        write(journal, path, b"%d" % number * 3_000)
    assert sum(each.stat().st_size for each in (journal.folder / "backups").iterdir()) <= 10_000
    assert [each.id for each in journal.entries()] == [8, 7]
    # A single change is kept whatever its size.
    write(journal, path, b"x" * 20_000)
    assert [each.id for each in journal.entries()] == [9]
    write_changes(undo(journal), journal)
    assert path.read_bytes() == b"7" * 3_000


def test_a_backup_that_is_lost_or_damaged_is_a_clear_error(journal, path):
    write(journal, path, ADDED)
    backup = journal.backup_path(digest_of(BEFORE))
    backup.write_bytes(b"damaged")
    with pytest.raises(HostsError, match="is damaged: its content does not fit its name"):
        write_changes(undo(journal), journal)
    backup.unlink()
    with pytest.raises(HostsError, match="is no longer kept"):
        write_changes(undo(journal), journal)
    assert path.read_bytes() == ADDED


def test_the_journal_of_the_user_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert Journal().path == tmp_path / "accord" / "hosts" / "journal.jsonl"


def test_a_journal_that_cannot_be_read_is_a_clear_error(journal, path):
    journal.path.mkdir(parents=True)
    with pytest.raises(HostsError, match=r"the journal .* cannot be read: Is a directory"):
        write(journal, path, ADDED)
    assert path.read_bytes() == BEFORE
