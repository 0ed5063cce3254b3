"""Files of hosts, changed as a whole or not at all; real files, links, locks and processes."""

import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
from itertools import pairwise

import pytest

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.writing.change import FileChange, undo, write_changes
from accord_tools.hosts.writing.destination import leftovers
from accord_tools.hosts.writing.journal import Journal
from accord_tools.hosts.writing.lock import hold_lock
from accord_tools.hosts.writing.replacement import change_content
from support.plain_user import plain_user

is_posix = pytest.mark.skipif(os.name != "posix", reason="links and rights of POSIX")


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "accord")


def with_entry(name="notes", value=1):
    def compute(before):
        data = {} if before is None else json.loads(before)
        data[name] = value
        return json.dumps(data).encode()

    return compute


def change(path, compute=None, **members):
    given = {"host": "cursor", "name": "notes", "action": "add", **members}
    return FileChange(path=path, compute=compute or with_entry(given["name"]), **given)


def write(journal, path, compute=None, **members):
    return write_changes([change(path, compute, **members)], journal)[0]


def test_a_new_file_is_made_with_its_folders_and_its_mode(journal, tmp_path):
    path = tmp_path / "a" / "b" / "mcp.json"
    mask = os.umask(0o027)
    try:
        written = write(journal, path, mode=0o644)
    finally:
        os.umask(mask)
    assert (written.before, written.after, written.id) == (None, path.read_bytes(), 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert journal.entries()[0].folders == (str(tmp_path / "a"), str(tmp_path / "a" / "b"))


def test_a_content_that_stays_the_same_is_not_written(journal, tmp_path):
    path = tmp_path / "mcp.json"
    write(journal, path)
    before = path.stat()
    assert write(journal, path).id is None
    assert (path.stat().st_ino, len(journal.entries())) == (before.st_ino, 1)


@is_posix
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o666, 0o750])
def test_the_mode_stays_and_nothing_else_is_left_in_the_folder(journal, tmp_path, mode):
    path = tmp_path / "home" / "mcp.json"
    path.parent.mkdir()
    path.write_text("{}")
    path.chmod(mode)
    write(journal, path)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert os.listdir(path.parent) == ["mcp.json"]


@pytest.mark.skipif(sys.platform != "linux", reason="extended attributes of Linux")
def test_extended_attributes_stay(journal, tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text("{}")
    try:
        os.setxattr(path, "user.origin", b"here")
    except OSError:
        pytest.skip("the file system has no attributes")
    write(journal, path)
    assert os.getxattr(path, "user.origin") == b"here"


@is_posix
@pytest.mark.parametrize("kind", ["relative", "absolute", "chain", "folder"])
def test_a_link_stays_a_link_and_its_target_is_changed(journal, tmp_path, kind):
    real = tmp_path / "dotfiles" / "mcp.json"
    real.parent.mkdir()
    real.write_text('{"old": 1}')
    home = tmp_path / "home"
    path = home / "mcp.json"
    if kind == "folder":
        home.symlink_to("dotfiles")
    else:
        home.mkdir()
        target = {"relative": "../dotfiles/mcp.json", "chain": "second"}.get(kind, str(real))
        path.symlink_to(target)
        (home / "second").symlink_to(real)
    write(journal, path)
    assert (home if kind == "folder" else path).is_symlink()
    assert json.loads(real.read_bytes()) == {"old": 1, "notes": 1}
    assert os.listdir(real.parent) == ["mcp.json"]


@is_posix
def test_a_link_that_leads_to_nothing_makes_its_target(journal, tmp_path):
    path = tmp_path / "mcp.json"
    path.symlink_to("dotfiles/mcp.json")
    write(journal, path)
    assert path.is_symlink()
    assert (tmp_path / "dotfiles" / "mcp.json").read_bytes() == b'{"notes": 1}'
    write_changes(undo(journal), journal)
    assert path.is_symlink()
    assert not (tmp_path / "dotfiles").exists()


@is_posix
@pytest.mark.parametrize(
    "kind", ["loop", "fifo", "folder", "socket", "device", "below a file", "long"]
)
def test_something_else_than_a_file_is_refused(journal, tmp_path, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a path of a socket must be short
    path = tmp_path / "mcp.json"
    with socket.socket(socket.AF_UNIX) as listener:
        if kind == "loop":
            path.symlink_to("other")
            (tmp_path / "other").symlink_to("mcp.json")
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "device":
            path.symlink_to("/dev/null")
        elif kind == "below a file":
            (tmp_path / "file").touch()
            path = tmp_path / "file" / "mcp.json"
        elif kind == "long":
            path = tmp_path / ("x" * 300)
        else:
            listener.bind("mcp.json")
        said = {
            "loop": "its symbolic links lead in a circle",
            "fifo": "is a named pipe, not a file",
            "folder": "is a folder, not a file",
            "socket": "is a socket, not a file",
            "device": "is a device, not a file",
            "below a file": "a part of this path is a file",
            "long": "cannot be looked at: File name too long",
        }
        with pytest.raises(HostsError, match=said[kind]):
            write(journal, path)
    assert journal.entries() == []


@is_posix
def test_a_file_with_several_names_is_written_in_place(journal, tmp_path):
    path, other = tmp_path / "mcp.json", tmp_path / "other.json"
    path.write_text('{"old": "' + "x" * 100 + '"}')
    other.hardlink_to(path)
    written = write(journal, path, lambda _: b"{}")
    assert "written in place, because it has several names" in written.remark
    assert (other.read_bytes(), path.stat().st_nlink) == (b"{}", 2)
    write_changes(undo(journal), journal)
    assert len(other.read_bytes()) == 111


MOUNTED = """
import sys
from pathlib import Path
from accord_tools.hosts.writing.change import FileChange, write_changes
from accord_tools.hosts.writing.journal import Journal

path = Path(sys.argv[1])
change = FileChange(path=path, host="x", name="notes", action="add", compute=lambda _: b"new")
print(write_changes([change], Journal(path.parent / "accord"))[0].remark)
"""


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="root mounts on Linux")
def test_a_file_that_is_mounted_on_its_own_is_written_in_place(tmp_path):
    path, real = tmp_path / "mcp.json", tmp_path / "real.json"
    path.touch()
    real.write_text("old, and longer")
    mounting = 'mount --bind "$1" "$2" || exit 99; exec "$3" -c "$4" "$2"'
    words = ["unshare", "-m", "sh", "-c", mounting, "sh", real, path, sys.executable, MOUNTED]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or done.returncode == 99:
        pytest.skip("this root may not mount")
    assert "written in place, because it is mounted on its own" in done.stdout
    assert (real.read_text(), path.read_text()) == ("new", "")


@is_posix
def test_a_read_only_file_is_left_alone(journal, tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text("{}")
    path.chmod(0o444)
    with pytest.raises(HostsError, match=r"is read-only \(mode 0444\), and is left alone"):
        write(journal, path)
    assert (path.read_text(), journal.entries()) == ("{}", [])


@pytest.fixture
def _all_is_imported(tmp_path):
    write(Journal(tmp_path / "imports"), tmp_path / "imports.json")


@is_posix
@pytest.mark.usefixtures("_all_is_imported")
def test_a_folder_that_may_not_be_written_gives_a_clear_error():
    with plain_user() as home:
        journal = Journal(home / "accord")
        folder = home / "etc"
        folder.mkdir()
        (folder / "old.json").write_text("{}")
        folder.chmod(0o555)
        with pytest.raises(HostsError, match="you may not write in the folder"):
            write(journal, folder / "mcp.json")
        with pytest.raises(HostsError, match=r"the folder .* cannot be made: Permission denied"):
            write(journal, folder / "deeper" / "mcp.json")
        # The user may write this file, though not replace it.
        written = write(journal, folder / "old.json")
        assert "because its folder is read-only" in written.remark
        assert (folder / "old.json").read_bytes() == b'{"notes": 1}'
        with pytest.raises(HostsError, match="could not be written and is as it was: Permission"):
            write(journal, folder / "old.json", lambda _: None)
        assert len(journal.entries()) == 1
        (folder / "old.json").chmod(0o200)
        with pytest.raises(HostsError, match=r"old\.json cannot be read: Permission denied"):
            write(journal, folder / "old.json")


@is_posix
@pytest.mark.usefixtures("_all_is_imported")
def test_a_folder_that_may_not_be_listed_does_not_matter():
    with plain_user() as home:
        path = home / "hidden" / "mcp.json"
        path.parent.mkdir()
        path.write_text("{}")
        path.parent.chmod(0o300)
        assert write(Journal(home / "accord"), path).remark == ""
        assert path.read_bytes() == b'{"notes": 1}'
        path.parent.chmod(0o700)


@is_posix
@pytest.mark.usefixtures("_all_is_imported")
def test_an_earlier_change_stays_if_it_cannot_be_taken_back():
    with plain_user() as home:
        folder = home / "folder"
        folder.mkdir()

        def fail(_):
            folder.chmod(0o555)
            raise HostsError("the second file does not parse")

        changes = [change(folder / "new.json"), change(home / "second.json", fail)]
        with pytest.raises(HostsError, match=r"does not parse; these files .*new\.json"):
            write_changes(changes, Journal(home / "accord"))
        assert (folder / "new.json").exists()


@is_posix
@pytest.mark.usefixtures("_all_is_imported")
def test_a_file_that_its_user_may_not_write_is_left_alone_though_the_folder_allows_it():
    with plain_user() as home:
        path = home / "mcp.json"
        path.write_text("{}")
        path.chmod(0o464)
        with pytest.raises(HostsError, match="is read-only"):
            write(Journal(home / "accord"), path)
        assert path.read_text() == "{}"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="for root alone")
@pytest.mark.usefixtures("_all_is_imported")
def test_the_owner_stays_or_the_file_is_written_in_place():
    with plain_user() as home:
        path = home / "mcp.json"
        path.write_text("{}")
        path.chmod(0o666)
        journal = Journal(home / "accord")
        os.seteuid(0)
        write(journal, path, with_entry("root"))
        assert path.stat().st_uid == 65534
        os.chown(path, 0, 0)
        # The journal that root wrote in belongs to root.
        os.seteuid(65534)
        written = write(Journal(home / "accord-2"), path)
        assert "because it belongs to another user" in written.remark
        assert path.stat().st_uid == 0


def test_a_file_of_5_mb_is_changed_and_taken_back(journal, tmp_path):
    path = tmp_path / "claude.json"
    before = json.dumps({"history": ["x" * 5_000_000]}).encode()
    path.write_bytes(before)
    write(journal, path, lambda data: data[:-1] + b', "notes": 1}')
    assert json.loads(path.read_bytes())["notes"] == 1
    write_changes(undo(journal), journal)
    assert path.read_bytes() == before


def test_a_file_that_is_much_too_large_is_left_alone(journal, tmp_path):
    path = tmp_path / "mcp.json"
    path.touch()
    os.truncate(path, 33 << 20)
    with pytest.raises(HostsError, match="is larger than 32 MB, and is left alone"):
        write(journal, path)


@is_posix
@pytest.mark.parametrize("has_links", [False, True])
def test_a_full_disk_leaves_the_file_as_it_was(journal, tmp_path, has_links):
    path = tmp_path / "mcp.json"
    path.write_text('{"old": 1}')
    if has_links:
        (tmp_path / "other.json").hardlink_to(path)
    new = b"{" + b" " * 60_000 + b"}"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, limits[1]))
    try:
        with pytest.raises(HostsError, match="could not be written and is as it was: File too la"):
            change_content(path, b'{"old": 1}', new)
        with pytest.raises(HostsError, match=r"the journal .* cannot be written: File too large"):
            write(journal, path, lambda _: new)
        with pytest.raises(HostsError, match="could not be written"):
            change_content(tmp_path / "new.json", None, new)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == '{"old": 1}'
    assert leftovers(path) == []
    assert not (tmp_path / "new.json").exists()
    assert journal.entries() == []


def test_a_later_change_that_fails_takes_the_earlier_ones_back(journal, tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "folder" / "new.json"
    old.write_text('{"old": 1}')
    before = old.stat().st_mode

    def fail(_):
        raise HostsError("the third file does not parse")

    changes = [change(old), change(new), change(tmp_path / "third.json", fail)]
    with pytest.raises(HostsError, match="the third file does not parse"):
        write_changes(changes, journal)
    assert (old.read_text(), old.stat().st_mode) == ('{"old": 1}', before)
    assert not new.parent.exists()
    assert journal.entries() == []


def test_an_earlier_change_stays_if_another_program_changed_that_file_too(journal, tmp_path):
    path = tmp_path / "old.json"

    def fail(_):
        path.write_text('{"newer": 2}')
        raise HostsError("the second file does not parse")

    with pytest.raises(HostsError, match=r"keep both changes: .*old\.json"):
        write_changes([change(path), change(tmp_path / "second.json", fail)], journal)
    assert path.read_text() == '{"newer": 2}'


def test_two_changes_of_one_file_are_one_group_and_go_together(journal, tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text("{}")
    write_changes([change(path), change(path, name="other")], journal)
    assert json.loads(path.read_bytes()) == {"notes": 1, "other": 1}
    assert [each.group for each in journal.entries()] == [1, 1]
    write_changes(undo(journal), journal)
    assert path.read_text() == "{}"


def test_a_change_is_computed_again_if_another_program_writes_meanwhile(journal, tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text("{}")
    seen = []

    def compute(before):
        seen.append(before)
        if len(seen) < 4:
            path.write_text(json.dumps({"other": len(seen)}))
        return with_entry()(before)

    write(journal, path, compute)
    assert len(seen) == 4
    assert json.loads(path.read_bytes()) == {"other": 3, "notes": 1}
    assert len(journal.entries()) == 1


@pytest.mark.parametrize("half", [b'{"other"', b""])
def test_half_a_file_is_read_again(journal, tmp_path, monkeypatch, half):
    path = tmp_path / "mcp.json"
    path.write_bytes(half)
    # The other program goes on while accord waits.
    monkeypatch.setattr("time.sleep", lambda _: path.write_text('{"other": 1}'))
    compute = with_entry()

    write(journal, path, compute)
    assert json.loads(path.read_bytes()) == {"other": 1, "notes": 1}


def test_a_file_that_changes_all_the_time_is_given_up(journal, tmp_path, monkeypatch):
    monkeypatch.setattr("accord_tools.hosts.writing.change._TRIES", 4)
    path = tmp_path / "mcp.json"
    path.write_text("{}")
    count = iter(range(100))

    def compute(before):
        path.write_text(json.dumps({"other": next(count)}))
        return with_entry()(before)

    with pytest.raises(HostsError, match="is being changed by another program again and again"):
        write(journal, path, compute)
    assert json.loads(path.read_bytes()) == {"other": 3}
    assert leftovers(path) == []


def test_a_new_file_of_another_program_is_not_overwritten(tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text("theirs")
    assert not change_content(path, None, b"ours").is_done
    assert not change_content(path, b"old", b"ours").is_done
    assert not change_content(path, b"old", None).is_done
    assert (path.read_text(), os.listdir(tmp_path)) == ("theirs", ["mcp.json"])
    path.unlink()
    assert not change_content(path, b"old", b"ours").is_done
    assert not change_content(path, b"old", None).is_done
    assert os.listdir(tmp_path) == []


def test_a_second_process_of_accord_waits_for_the_first(journal):
    with hold_lock(journal.lock, "mcp.json"):
        said = rf"another process of accord \({os.getpid()}\) has been changing mcp\.json for 0"
        with (
            pytest.raises(HostsError, match=said),
            hold_lock(journal.lock, "mcp.json", seconds=0.05),
        ):
            pass
    with hold_lock(journal.lock, "mcp.json"):
        pass
    assert stat.S_IMODE(journal.lock.parent.stat().st_mode) == 0o700


CRASH = """
import os, signal, sys
from pathlib import Path
from accord_tools.hosts.writing import change, journal

def die(*_, **more):
    os.kill(os.getpid(), signal.SIGKILL)

def change_and_die(*words, **more):
    real(*words, **more)
    die()

point, folder = sys.argv[1], Path(sys.argv[2])
real = change.change_content
if point == "backup": journal.Journal.keep = die
if point == "kept": change.change_content = die
if point == "written": change.change_content = change_and_die
journal_of_all = journal.Journal(folder / "accord")
if point == "temporary":
    keep = journal.Journal.keep
    journal.Journal.keep = lambda *words: (keep(*words), setattr(os, "replace", die))[0]
change.write_changes([change.FileChange(path=folder / "mcp.json", host="cursor", name="notes",
    action="add", compute=lambda _: b"new" * 10)], journal_of_all)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="ends processes by a signal")
@pytest.mark.parametrize(
    ("point", "is_new"),
    [
        ("backup", False),
        ("kept", False),
        ("temporary", False),
        ("written", True),
    ],
)
def test_a_crash_leaves_the_old_or_the_new_file_whole(tmp_path, point, is_new):
    path = tmp_path / "mcp.json"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", CRASH, point, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == (b"new" * 10 if is_new else b"old")
    journal = Journal(tmp_path / "accord")
    with pytest.raises(HostsError, match="there is nothing to undo"):
        undo(journal)
    write(journal, path, lambda _: b"newer")
    assert path.read_bytes() == b"newer"
    # What the crash left beside the file is removed by the next change.
    assert list(leftovers(path)) == []
    assert len(journal.entries()) == 1


def test_a_damaged_lock_folder_is_a_clear_error(tmp_path):
    (tmp_path / "accord").write_text("a file")
    with pytest.raises(HostsError, match=r"the lock .* cannot be made"):
        write(Journal(tmp_path / "accord"), tmp_path / "mcp.json")
    assert not (tmp_path / "mcp.json").exists()


READER = """
import json, sys
print(flush=True)
looks = 0
while True:
    with open(sys.argv[1]) as file:
        data = json.load(file)
    looks += 1
    if data.get("notes") == "last":
        break
print(looks)
"""


def test_a_reader_finds_the_file_whole_every_time(journal, tmp_path):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"much": ["x" * 40] * 100}))
    words = [sys.executable, "-c", READER, path]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as reader:
        reader.stdout.readline()
        for number in range(30):
            write(journal, path, with_entry(value=number))
        write(journal, path, with_entry(value="last"))
        assert int(reader.communicate()[0]) > 10
    assert reader.returncode == 0


OURSELVES = """
import json, sys
from pathlib import Path
from accord_tools.hosts.writing.change import FileChange, write_changes
from accord_tools.hosts.writing.journal import Journal

print(flush=True)
for number in range(int(sys.argv[3])):
    def compute(before):
        return json.dumps({**json.loads(before), f"second {number}": 1}).encode()
    write_changes([FileChange(path=Path(sys.argv[1]), host="cursor", name=f"second {number}",
        action="add", compute=compute)], Journal(Path(sys.argv[2])))
"""


def test_two_processes_of_accord_lose_nothing_of_each_other(journal, tmp_path):
    path = tmp_path / "home" / "mcp.json"
    path.parent.mkdir()
    path.write_text("{}")
    count = 15
    words = [sys.executable, "-c", OURSELVES, path, journal.folder, str(count)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        for number in range(count):

            def compute(before, name=f"first {number}"):
                return json.dumps({**json.loads(before), name: 1}).encode()

            write(journal, path, compute)
    assert other.returncode == 0
    data = json.loads(path.read_bytes())
    assert set(data) == {f"{each} {at}" for each in ("first", "second") for at in range(count)}
    entries = journal.entries()
    assert [each.id for each in entries] == list(range(2 * count, 0, -1))
    # Each change began where the one before it ended.
    assert all(new.before == old.after for new, old in pairwise(entries))
    assert os.listdir(path.parent) == ["mcp.json"]


@is_posix
def test_a_file_system_without_locks_is_used_without_them(tmp_path, monkeypatch):
    import fcntl

    def refuse(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    path = tmp_path / "changes.lock"
    with hold_lock(path, "a"), hold_lock(path, "b"):
        pass
