"""Files with variables that only their owner may read."""

import os
import stat
import subprocess
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.private_files import find_exposure, user_folder
from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.writing.secret_files import (
    read_env_file,
    secret_file,
    write_env_file,
)
from support.plain_user import plain_user

VALUES = {
    "TOKEN": "sk-live-0123456789",
    "QUOTES": "a \"b\" 'c' \\ $HOME `x` # no comment",
    "LINES": "one\ntwo\r\nthree\tend\x1b\x85\u2028",
    "EMPTY": "",
    "BLANKS": "  both sides  ",
    "UNICODE": "ä € 😀",
    "ProgramFiles(x86)": "C:\\Program Files",
}


@pytest.fixture
def file(tmp_path):
    def make(text, mode=0o600):
        path = tmp_path / "some.env"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    return make


def test_values_come_back_as_they_were_written(tmp_path):
    path = tmp_path / "secrets" / "notes.env"
    write_env_file(path, VALUES)
    assert read_env_file(path) == VALUES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    write_env_file(path, {"A": "b"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().splitlines()[1:] == ['A="b"']
    assert os.listdir(path.parent) == ["notes.env"]


@settings(max_examples=30)
@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=30))
def test_any_text_comes_back(value):
    with tempfile.TemporaryDirectory() as folder:
        write_env_file(f"{folder}/some.env", {"KEY": value})
        assert read_env_file(f"{folder}/some.env") == {"KEY": value}


def test_bytes_that_are_not_utf_8_come_back(tmp_path):
    path = tmp_path / "odd.env"
    write_env_file(path, {"KEY": os.fsdecode(b"\xff\xfe")})
    assert os.fsencode(read_env_file(path)["KEY"]) == b"\xff\xfe"


def test_a_shell_reads_simple_values_the_same(tmp_path):
    path = tmp_path / "notes.env"
    write_env_file(path, {"TOKEN": "sk-live", "QUOTED": 'a "b" # c'})
    done = subprocess.run(
        ["sh", "-c", '. "$1"; printf %s "$TOKEN|$QUOTED"', "sh", path],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == 'sk-live|a "b" # c'


def test_files_that_people_write_are_read(file):
    text = """\ufeff# comment

  export PLAIN=value with blanks   # comment
URL=https://example.com/#fragment
SINGLE='as $it is \\n'
DOUBLE = "with \\"quotes\\" and \\u0041" # comment
NOTHING=
ONLY_A_COMMENT=# nothing
PLAIN=the last one counts
"""
    assert read_env_file(file(text.replace("\n", "\r\n"))) == {
        "PLAIN": "the last one counts",
        "URL": "https://example.com/#fragment",
        "SINGLE": "as $it is \\n",
        "DOUBLE": 'with "quotes" and A',
        "NOTHING": "",
        "ONLY_A_COMMENT": "",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A=1\nsk-live-0123", r'some\.env, line 2: expected KEY="value" or a comment'),
        ("=sk-live-0123", "line 1: expected KEY"),
        ('A=1\n\nB="sk-live-0123', "line 3: B has a quoted value that does not end"),
        ('B="sk-live-0123" more', "line 1: B has a quoted value that does not end"),
        ("B='sk-live-0123'x'", "line 1: B has a quoted value"),
        ("A=1".encode("utf-16"), "is not a text in UTF-8"),
        (b"A=" + b"x" * 1024 * 1024, "is larger than 1 MB"),
    ],
)
def test_a_wrong_line_is_an_error_that_does_not_show_it(file, text, said):
    with pytest.raises(HostsError, match=said) as refused:
        read_env_file(file(text))
    assert "sk-live" not in str(refused.value)


@pytest.mark.skipif(os.name != "posix", reason="rights of POSIX")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_file_that_others_may_read_or_write_is_not_used(file, mode):
    path = file("A=1", mode)
    said = rf"other users can read {path} \(mode {mode:04o}\), .* chmod 600 {path}"
    with pytest.raises(HostsError, match=said):
        read_env_file(path)


@pytest.mark.skipif(os.name != "posix", reason="named pipes of POSIX")
def test_something_else_than_a_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(HostsError, match="is not a file"):
        read_env_file(tmp_path / "pipe")
    with pytest.raises(HostsError, match=r"missing\.env cannot be read: No such file"):
        read_env_file(tmp_path / "missing.env")


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"A B": "1"}, "'A B' is not the name of a variable"),
        ({"": "1"}, "'' is not the name of a variable"),
        ({"A=B": "1"}, "is not the name of a variable"),
        ({"A\n": "1"}, "is not the name of a variable"),
        ({"A": "\0"}, "the value of A has a NUL character"),
    ],
)
def test_names_and_values_that_no_variable_has_are_refused(tmp_path, variables, said):
    with pytest.raises(HostsError, match=said):
        write_env_file(tmp_path / "some.env", variables)
    assert os.listdir(tmp_path) == []


def test_every_name_has_a_file_of_its_own():
    names = ["notes", "Notes", "no/tes", "no tes", "../notes", ".", "", "con", "ä", "x" * 300]
    files = [secret_file(name) for name in names]
    assert len({str(each).lower() for each in files}) == len(names)
    assert {each.parent for each in files} == {user_folder() / "secrets"}
    assert files[0].name == "notes.env"
    assert max(len(each.name) for each in files) < 80


def test_a_file_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(HostsError, match=r"some\.env cannot be written: "):
        write_env_file(tmp_path / "file" / "some.env", {"A": "1"})


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="for root alone")
def test_a_file_of_another_user_is_not_used():
    with plain_user() as home:
        os.seteuid(0)
        (home / "some.env").write_text("A=1")
        (home / "some.env").chmod(0o600)
        os.chown(home / "some.env", 65533, 65533)
        assert read_env_file(home / "some.env") == {"A": "1"}
        handle = os.open(home / "some.env", os.O_RDONLY)
        os.seteuid(65534)
        # A descriptor that was handed over: only its owner may open the file.
        exposure = find_exposure("some.env", os.fstat(handle))
        assert exposure == "some.env belongs to another user (id 65533), so it is not used"
        os.close(handle)
