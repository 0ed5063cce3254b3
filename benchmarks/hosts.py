"""Entries in files of hosts: large files, the command, and another program that writes too.

    python benchmarks/hosts.py            files of 5 MB
    python benchmarks/hosts.py --quick    files of 1 MB

An edit opens a text, sets one entry and verifies the result with another reader; its CPU time is
compared with parsing the text once by the parser that Python programs use, which is written in C
for JSON and YAML. The same parser reads the text before and after to verify an edit (for YAML with
the garbage collector off). Another program writes the file at the same time as accord does, and
must find each of its writes again.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from accord_tools.hosts.definition import FileFormat, HostsError
from accord_tools.hosts.documents.document import open_document
from accord_tools.hosts.documents.verification import verify_edit
from accord_tools.hosts.writing.change import FileChange, write_changes
from accord_tools.hosts.writing.journal import Journal

LARGE, SMALL = 5_000_000, 1_000_000
# How many times longer than parsing an edit may take.
MOST_EDIT = {"json": 60.0, "toml": 8.0, "yaml": 4.0}
PARSES, EDITS = 5, 2
# How many times the CPU of Python with msgspec and asyncio: what any such program must import.
MOST_ADD = 5.0
RUNS = 9
WRITES = 200
ENTRY = {"command": "/opt/new/bin/python", "args": ["-P", "-m", "accord", "run", "desk.py"]}
KEYS = {"json": "mcpServers", "toml": "mcp_servers", "yaml": "extensions"}
SERVER = "from accord import Server\n\nserver = Server('desk')\n"

# Reads the file, counts one further, and exchanges it, as editors do. Its last count must be there
# when it reads again: a change that was made from an older content would have taken it away.
OTHER = """
import json, os, random, sys, time

path, writes = sys.argv[1], int(sys.argv[2])
count = lost = 0
print(flush=True)

def read():
    # An exchange that is being put back may be seen for a moment.
    for _ in range(1000):
        with open(path) as file:
            data = json.load(file)
        if data["theirs"] == count:
            return data, 0
        time.sleep(0.005)
    return data, 1

while count < writes:
    data, is_lost = read()
    lost += is_lost
    count += 1
    with open(path + ".theirs", "w") as file:
        json.dump({**data, "theirs": count}, file)
    os.replace(path + ".theirs", path)
    time.sleep(random.uniform(0, 0.012))
print(lost + read()[1])
"""

# -- large files


def make_entry(number: int) -> dict[str, Any]:
    return {
        "command": f"/opt/servers/server-{number}/bin/python",
        "args": ["-m", f"server_{number}", "--port", str(number)],
        "env": {"RATE": "1e3", "NAME": f"server {number}"},
        "timeout": 30,
    }


def pieces_of_json() -> Iterator[str]:
    yield '{\n  "mcpServers": {\n    "first": {}'
    for number in range(10**6):
        yield f',\n    "server-{number}": {json.dumps(make_entry(number))}'


def pieces_of_toml() -> Iterator[str]:
    for number in range(10**6):
        entry = make_entry(number)
        yield f"[mcp_servers.server-{number}]\n"
        yield from (f"{key} = {json.dumps(entry[key])}\n" for key in ("command", "args", "timeout"))
        env = "".join(f"{key} = {json.dumps(text)}\n" for key, text in entry["env"].items())
        yield f"\n[mcp_servers.server-{number}.env]\n{env}\n"


def pieces_of_yaml() -> Iterator[str]:
    yield "extensions:\n"
    for number in range(10**6):
        entry = make_entry(number)
        yield f"  server-{number}:\n    command: {entry['command']}\n    args:\n"
        yield from (f"      - {json.dumps(each)}\n" for each in entry["args"])
        yield f"    env:\n      RATE: '1e3'\n      NAME: server {number}\n    timeout: 30\n"


PIECES = {"json": pieces_of_json, "toml": pieces_of_toml, "yaml": pieces_of_yaml}


def make_text(format: FileFormat, size: int) -> str:
    """Return a file with as many servers as make up its size."""
    found, length = [], 0
    for piece in PIECES[format]():
        # Only whole entries.
        if length >= size and piece.startswith((",", "[", "  server-")):
            break
        found.append(piece)
        length += len(piece)
    return "".join(found) + ("\n  }\n}\n" if format == "json" else "")


def find_parser(format: FileFormat) -> Callable[[str], Any] | None:
    if format == "json":
        return json.loads
    if format == "toml":
        return tomllib.loads
    try:
        import yaml
    except ImportError:
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return lambda text: yaml.load(text, loader)


def edit(text: str, format: FileFormat) -> str:
    keys = (KEYS[format], "brand-new")
    after = open_document(text, format).set(keys, ENTRY).apply(text)
    verify_edit(text, after, format, {keys: ENTRY})
    return after


def best_cpu(call: Callable[[], object], rounds: int) -> float:
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
    return best


def compare_edit(format: FileFormat, size: int) -> bool:
    parse = find_parser(format)
    if parse is None:
        print(f"  {'edit of YAML':42} PyYAML is not installed here")
        return True
    text = make_text(format, size)
    parsing = best_cpu(lambda: parse(text), PARSES if format == "json" else EDITS)
    editing = best_cpu(lambda: edit(text, format), EDITS)
    name = f"edit of {len(text) / 1e6:.1f} MB of {format.upper()} / parsing"
    is_met = tell(name, editing / parsing, MOST_EDIT[format], "times")
    print(f"    parsed in {parsing:.2f} s, edited in {editing:.2f} s")
    return is_met


# -- the command


def child_cpu(words: list[str], folder: Path) -> float:
    """Return the CPU milliseconds of a program, of the best of some runs, each in a new home."""
    best = float("inf")
    # Some machines forbid the caching of compiled modules, and each process would compile.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(RUNS):
        with (
            tempfile.TemporaryDirectory(dir=folder) as home,
            subprocess.Popen(
                [sys.executable, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={**env, "HOME": home},
            ) as process,
        ):
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{words} ended with {process.returncode}")
        best = min(best, usage.ru_utime + usage.ru_stime)
    return best * 1e3


def compare_command(folder: Path) -> bool:
    (folder / "desk.py").write_text(SERVER)
    base = child_cpu(["-c", "import msgspec, asyncio"], folder)
    add = ["-m", "accord", "add", "desk.py", "--host", "cursor", "--yes", "--no-check"]
    adding = child_cpu(add, folder)
    is_met = tell("accord add / (msgspec, asyncio), CPU", adding / base, MOST_ADD, "times")
    print(f"    {base:.0f} ms, and {adding:.0f} ms")
    return is_met


# -- two programs


def compete(folder: Path) -> bool:
    """Change a file as often as possible while another program makes its changes."""
    path = folder / "mcp.json"
    path.write_text(json.dumps({"theirs": 0, "mcpServers": {}}))
    journal = Journal(folder / "journal")
    ours = refused = 0
    with subprocess.Popen(
        [sys.executable, "-c", OTHER, str(path), str(WRITES)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        while other.poll() is None:
            try:
                write_changes([_change(path, ours)], journal)
                ours += 1
            except HostsError:
                refused += 1
        shown = other.stdout.read()
    if other.returncode:
        raise RuntimeError(f"the other program ended with {other.returncode}")
    is_met = tell(f"lost of {WRITES} writes of another program", float(shown), 0, "writes")
    print(f"    accord made {ours} changes meanwhile, and gave up {refused} times")
    return is_met and ours > 0


def _change(path: Path, number: int) -> FileChange:
    def compute(before: bytes | None) -> bytes:
        text = (before or b"{}").decode()
        value = {**ENTRY, "timeout": number}
        return open_document(text, "json").set(("mcpServers", "desk"), value).apply(text).encode()

    return FileChange(path=path, host="cursor", name="desk", action="change", compute=compute)


def tell(name: str, value: float, limit: float, unit: str) -> bool:
    """Print a figure against its limit; return whether it is kept."""
    said = "met" if value <= limit else "MISSED"
    print(f"  {name:42} {value:8.2f} {unit} of {limit:g}: {said}")
    return value <= limit


def main() -> int:
    print("entries in files of hosts")
    size = SMALL if "--quick" in sys.argv else LARGE
    formats: tuple[FileFormat, ...] = ("json", "toml", "yaml")
    is_met = True
    for each in formats:
        is_met &= compare_edit(each, size)
    with tempfile.TemporaryDirectory() as folder:
        is_met &= compare_command(Path(folder))
        is_met &= compete(Path(folder))
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
