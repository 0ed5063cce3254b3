"""Files of recordings: readable by their owner only, and never overwritten."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from accord.testing import Recording
from accord.testing.recording import create_next, open_private


@pytest.fixture
def no_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("no_umask")
def test_a_new_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    with open_private(tmp_path / "a") as file:
        file.write(b"one")
    path, other = create_next(tmp_path / "b")
    other.close()
    recording = Recording()
    recording.observe("client", b"{}")
    recording.save(tmp_path / "c.jsonl")
    assert [mode(each) for each in (tmp_path / "a", path, tmp_path / "c.jsonl")] == [0o600] * 3


def test_an_existing_file_is_overwritten_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"longer than before")
    path.chmod(0o640)
    with open_private(path) as file:
        file.write(b"short")
    assert (path.read_bytes(), mode(path)) == (b"short", 0o640)


def test_an_existing_file_is_kept_and_the_next_name_is_used(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    names = []
    for text in (b"one", b"two", b"three"):
        chosen, file = create_next(path)
        with file:
            file.write(text)
        names.append(chosen.name)
    assert names == ["s.jsonl", "s-2.jsonl", "s-3.jsonl"]
    assert [(tmp_path / each).read_bytes() for each in names] == [b"one", b"two", b"three"]


def test_files_that_are_created_at_the_same_time_differ(tmp_path: Path) -> None:
    made: list[Path] = []

    def create() -> None:
        path, file = create_next(tmp_path / "s.jsonl")
        file.close()
        made.append(path)

    threads = [threading.Thread(target=create) for _ in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert len(set(made)) == 20


def test_a_device_is_written_to_as_it_is() -> None:
    path, file = create_next(Path(os.devnull))
    file.close()
    assert path == Path(os.devnull)


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes of POSIX")
def test_a_named_pipe_is_written_to_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        path, file = create_next(pipe)
        with file:
            file.write(b"said")
        assert reader.communicate(timeout=30)[0] == b"said"
    assert path == pipe


def test_a_broken_link_and_a_folder_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    for name in ("link", "folder"):
        path, file = create_next(tmp_path / name)
        file.close()
        assert path.name == f"{name}-2"


def test_the_number_of_names_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accord.testing.recording._MOST", 2)
    for _ in range(2):
        create_next(tmp_path / "s")[1].close()
    with pytest.raises(OSError, match="there are 2 recordings already"):
        create_next(tmp_path / "s")
