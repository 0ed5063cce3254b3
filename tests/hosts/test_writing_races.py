"""Other programs write the same file at the same time: nothing that they wrote is lost."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise

import pytest

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.writing.change import FileChange, write_changes
from accord_tools.hosts.writing.exchange import exchange_file, leftovers, read_quiet_file
from accord_tools.hosts.writing.journal import Journal

WRITES = 200

# Reads the file, counts one further and writes it. Before each write it looks whether its last one
# is still there: a change of ours that was made from an older content would have taken it away.
OTHER = """
import json, os, random, sys, time

path, style, writes, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])

def read():
    # An exchange that is being put back may be seen for a moment, and half a file of our own.
    for _ in range(2000):
        try:
            with open(path) as file:
                data = json.load(file)
            if data["theirs"] == count:
                return data
        except (ValueError, FileNotFoundError):
            if style != "in place":
                raise
        time.sleep(0.005)
    sys.exit(f"write {count} was lost")

count = 0
print(flush=True)
while count < writes:
    data = read()
    count += 1
    text = json.dumps({**data, "theirs": count})
    if style == "in place":
        with open(path, "w") as file:
            file.write(text[:50])
            file.flush()
            file.write(text[50:])
    else:
        with open(path + ".theirs", "w") as file:
            file.write(text)
        os.replace(path + ".theirs", path)
    time.sleep(random.uniform(0, pause))
read()
"""
READER = """
import json, sys, time
print(flush=True)
looks = 0
while True:
    with open(sys.argv[1]) as file:
        data = json.load(file)
    looks += 1
    if data["theirs"] == int(sys.argv[2]):
        break
    time.sleep(0.002)
print(looks)
"""


def start(code, *words):
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)], stdout=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    return process


def set_ours(value):
    def compute(before):
        return json.dumps({**json.loads(before), "ours": value}).encode()

    return compute


def change(path, compute):
    return FileChange(path=path, host="cursor", name="ours", action="change", compute=compute)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "home" / "mcp.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"theirs": 0, "much": ["x" * 40] * 100}))
    return path


styles = pytest.mark.parametrize(
    "style",
    [
        "replaced",
        pytest.param(
            "in place",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux names writers"),
        ),
    ],
)


@styles
def test_not_one_of_200_writes_of_another_program_is_lost(path, tmp_path, style):
    journal = Journal(tmp_path / "accord")
    ours = 0
    readers = [start(READER, path, WRITES)] if style == "replaced" else []
    with start(OTHER, path, style, WRITES, 0.012) as other:
        while other.poll() is None:
            # On a busy machine the other program may be faster every time.
            with suppress(HostsError):
                write_changes([change(path, set_ours(ours))], journal)
                ours += 1
    assert other.returncode == 0
    write_changes([change(path, set_ours("last"))], journal)
    data = json.loads(path.read_bytes())
    assert (data["theirs"], data["ours"], len(data["much"])) == (WRITES, "last", 100)
    assert ours > 0
    assert list(leftovers(path)) == []
    for reader in readers:
        # It found the file, and whole, every time.
        assert int(reader.communicate()[0]) > 10
        assert reader.returncode == 0


@styles
def test_an_exchange_puts_back_what_another_program_wrote_in_between(path, style):
    # Without the journal there is next to no time between reading and writing: many writes of the
    # other program fall between our last look and the exchange.
    done = 0
    with start(OTHER, path, style, 2 * WRITES, 0.0006) as other:
        while other.poll() is None:
            before = read_quiet_file(path)
            done += exchange_file(path, before, set_ours(done)(before)).is_done
    assert other.returncode == 0
    assert json.loads(path.read_bytes())["theirs"] == 2 * WRITES
    assert done > 0
    assert os.listdir(path.parent) == ["mcp.json"]


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


def test_two_processes_of_accord_lose_nothing_of_each_other(path, tmp_path):
    journal = Journal(tmp_path / "accord")
    count = 15
    with start(OURSELVES, path, journal.folder, count) as other:
        for number in range(count):

            def compute(before, name=f"first {number}"):
                return json.dumps({**json.loads(before), name: 1}).encode()

            write_changes([change(path, compute)], journal)
    assert other.returncode == 0
    data = json.loads(path.read_bytes())
    assert {f"{each} {number}" for each in ("first", "second") for number in range(count)} < set(
        data
    )
    entries = journal.entries()
    assert [each.id for each in entries] == list(range(2 * count, 0, -1))
    assert {each.state for each in entries} == {"done"}
    # Each change began where the one before it ended.
    assert all(new.before == old.after for new, old in pairwise(entries))
    assert os.listdir(path.parent) == ["mcp.json"]
