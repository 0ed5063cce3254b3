"""Exchanges that go wrong: open files, interruptions, and systems that lack a call."""

import contextlib
import os
import stat
import subprocess
import sys
import time

import pytest

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.writing import exchange
from accord_tools.hosts.writing.exchange import exchange_file, leftovers, read_quiet_file
from accord_tools.hosts.writing.lock import lock_files

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="Linux says whether a file is open for writing"
)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "home" / "mcp.json"
    path.parent.mkdir()
    path.write_text("old")
    return path


@pytest.fixture
def without_exchange(monkeypatch):
    """Stand for a system, or a file system, that offers no exchange of names."""
    monkeypatch.setattr(exchange, "_find_call", lambda: None)


@pytest.mark.parametrize("after", [b"new", None], ids=["change", "removal"])
def test_a_file_that_a_program_has_open_for_writing_goes_back(path, monkeypatch, after):
    monkeypatch.setattr(exchange, "_LOOKS", 3)
    with path.open("r+") as writer:
        assert not exchange_file(path, b"old", after).is_done
        with pytest.raises(HostsError, match="is being changed by another program, which keeps it"):
            read_quiet_file(path)
        writer.write("theirs")
    assert (path.read_text(), os.listdir(path.parent)) == ("theirs", ["mcp.json"])


def test_a_write_that_arrives_after_the_exchange_is_put_back(path, monkeypatch):
    with path.open("r+") as writer:
        # The other program writes while we wait for it, when its file has lost its name.
        monkeypatch.setattr(exchange, "_pause", lambda _: (writer.write("theirs"), writer.close()))
        assert not exchange_file(path, b"old", b"new").is_done
    assert (path.read_text(), os.listdir(path.parent)) == ("theirs", ["mcp.json"])


def test_a_file_that_is_removed_while_it_is_looked_at_stays_removed(path, monkeypatch):
    with path.open("r+") as writer:
        monkeypatch.setattr(exchange, "_pause", lambda _: (path.unlink(), writer.close()))
        writer.write("theirs")
        assert not exchange_file(path, b"old", b"new").is_done
    assert os.listdir(path.parent) == []


def test_a_removal_gives_way_to_a_newer_file(path, monkeypatch):
    with path.open("r+") as writer:
        writer.write("older")
        monkeypatch.setattr(
            exchange, "_pause", lambda _: (path.write_text("newer"), writer.close())
        )
        assert not exchange_file(path, b"old", None).is_done
    assert (path.read_text(), os.listdir(path.parent)) == ("newer", ["mcp.json"])


def test_a_file_that_others_exchange_all_the_time_is_kept_beside(path, monkeypatch):
    monkeypatch.setattr(exchange, "_LOOKS", 2)
    monkeypatch.setattr(exchange, "_EXCHANGES", 1)
    with (
        path.open("r+"),
        pytest.raises(HostsError, match=r"all the time; one of its contents is in .*accord-"),
    ):
        exchange_file(path, b"old", b"new")
    assert {each.read_text() for each in path.parent.iterdir()} == {"old", "new"}


def test_a_temporary_file_that_others_remove_is_an_error(path, monkeypatch):
    with path.open("r+"):
        # Removed before it is looked at, as a program does that cleans up folders.
        real = exchange.exchange_names

        def exchange_and_remove(one, other):
            real(one, other)
            os.unlink(other)

        monkeypatch.setattr(exchange, "exchange_names", exchange_and_remove)
        with pytest.raises(HostsError, match="was removed by another program"):
            exchange_file(path, b"old", b"new")
    assert path.read_text() == "new"


def test_an_interruption_before_the_exchange_leaves_nothing_behind(path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(exchange, "exchange_names", interrupt)
    with pytest.raises(KeyboardInterrupt):
        exchange_file(path, b"old", b"new")
    assert (path.read_text(), os.listdir(path.parent)) == ("old", ["mcp.json"])


def test_an_interruption_after_the_exchange_keeps_both_files(path, monkeypatch):
    real = exchange.exchange_names

    def exchange_and_interrupt(one, other):
        real(one, other)
        raise KeyboardInterrupt

    monkeypatch.setattr(exchange, "exchange_names", exchange_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        exchange_file(path, b"old", b"new")
    assert path.read_text() == "new"
    assert [each.read_text() for each in leftovers(path)] == ["old"]


@pytest.mark.usefixtures("without_exchange")
@pytest.mark.parametrize("has_leases", [True, False])
@pytest.mark.parametrize("has_links", [True, False])
def test_without_an_exchange_the_content_is_compared_before(
    path, monkeypatch, has_leases, has_links
):
    if not has_leases:
        monkeypatch.setattr(exchange, "has_writer", lambda _: None)
    if not has_links:

        def refuse(*_):
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
    path.chmod(0o640)
    assert not exchange_file(path, None, b"new").is_done
    assert not exchange_file(path, b"other", b"new").is_done
    assert exchange_file(path, b"old", b"new").is_done
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o640)
    assert exchange_file(path, b"new", None).is_done
    assert exchange_file(path, None, b"again", mode=0o644).is_done
    assert not exchange_file(path, None, b"once more").is_done
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("again", 0o644)
    assert os.listdir(path.parent) == ["mcp.json"]


@pytest.mark.usefixtures("without_exchange")
@pytest.mark.parametrize("has_leases", [True, False])
def test_without_an_exchange_a_write_to_the_old_file_is_put_back(path, monkeypatch, has_leases):
    real = os.replace
    with path.open("r+") as writer:

        def replace_and_write(*names):
            real(*names)
            if not writer.closed:
                writer.write("theirs")
                writer.close()

        # The other program opens it after the last look, and writes after the replacement.
        looks = iter([False])
        ask = exchange.has_writer if has_leases else lambda _: None
        monkeypatch.setattr(exchange, "has_writer", lambda handle: next(looks, ask(handle)))
        monkeypatch.setattr(os, "replace", replace_and_write)
        assert not exchange_file(path, b"old", b"new").is_done
    assert (path.read_text(), os.listdir(path.parent)) == ("theirs", ["mcp.json"])


@pytest.mark.usefixtures("without_exchange")
def test_without_an_exchange_an_open_file_is_not_replaced(path):
    with path.open("r+"):
        assert not exchange_file(path, b"old", b"new").is_done
    assert (path.read_text(), os.listdir(path.parent)) == ("old", ["mcp.json"])


def test_without_leases_a_file_is_left_to_rest(path, monkeypatch):
    monkeypatch.setattr(exchange, "has_writer", lambda _: None)
    code = "import sys, time; f = open(sys.argv[1], 'w'); print(flush=True)"
    code += "; [(f.write('x'), f.flush(), time.sleep(0.03)) for _ in range(4)]"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE
    ) as writer:
        writer.stdout.readline()
        while (found := read_quiet_file(path)) == b"":
            time.sleep(0.01)
    assert set(found) == {ord("x")}
    os.utime(path, (0, 0))
    assert read_quiet_file(path) == b"xxxx"


def test_a_folder_that_cannot_be_flushed_is_ignored(tmp_path):
    exchange.flush_folder(str(tmp_path / "missing"))
    exchange.flush_file("/dev/null")
    exchange.copy_attributes(str(tmp_path / "missing"), str(tmp_path))


def test_the_system_names_the_files_of_an_exchange_that_fails(tmp_path):
    with pytest.raises(FileNotFoundError):
        exchange.exchange_names(str(tmp_path / "a"), str(tmp_path / "b"))
    with contextlib.suppress(exchange.NotOffered), pytest.raises(OSError):
        exchange.rename_without_replacing("/dev/null", str(tmp_path / "c"))
    # A kernel that does not know a flag says that it is invalid.
    with pytest.raises(exchange.NotOffered):
        exchange._rename(str(tmp_path), str(tmp_path / "c"), 1 << 20)


def test_a_file_system_without_locks_is_used_without_them(path, tmp_path, monkeypatch):
    import fcntl

    def refuse(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with lock_files([path], tmp_path / "locks"), lock_files([path], tmp_path / "locks"):
        pass
