"""Runs the command lines of cases.toml and writes down what each does.

Lines of a group run one after the other in a folder, a home folder and an environment of their
own, so that what one writes is there for the next. What differs between two runs or two machines
(paths, ports, times) is replaced by a name in braces.
"""

import datetime as dt
import difflib
import hashlib
import html
import os
import re
import runpy
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from accord.version import __version__
from support.command_line import Run, command_line
from support.http_server import bounded
from support.waiting import LONG, until_sync

HERE: Final = Path(__file__).parent
RECORDED: Final = HERE / "recorded"
GROUPS: Final[dict[str, dict[str, Any]]] = tomllib.loads((HERE / "cases.toml").read_text())
# Of a longer output, the first lines stand beside a digest of all.
_LINES: Final = 60
_SHOWN: Final = 12
_REPEATED: Final = 4
_PLAIN: Final = {
    "COLUMNS": "100",
    "LANG": "C.UTF-8",
    "NO_COLOR": "1",
    "TZ": "UTC",
    "USER": "ada",
    "PYTHONHASHSEED": "0",
}

_DATE = r"\d{4}-\d\d-\d\d"
_TIMES: Final = (
    "t|duration|seconds|start|start_cpu|ping_median|ping_95|call_median|call_95|load_lag|time|"
    "elapsed|started|store_seconds|worker_lease_margin_seconds"
)
_PATTERNS: Final = [
    (re.compile(pattern, re.MULTILINE), name)
    for pattern, name in (
        (rf"{_DATE}[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( UTC|Z|[+-]\d\d:?\d\d)?", "{time}"),
        (r"\b(127\.0\.0\.1|localhost):[3-6]\d{4}\b", r"\1:{port}"),
        (r"#key=[\w-]+", "#key={key}"),
        (r"\.[0-9a-f]{16}\.lock\b", ".{path}.lock"),
        (r"\b[0-9a-f]{64}\b", "{sha256}"),
        (r"\b[0-9a-f]{32}\b", "{digest}"),
        (r"\"(cache_key|file_digest)\": ?\"[0-9a-f]*\"", r'"\1": "{digest}"'),
        (r"^checking \d+ %.*\n", ""),
        # Where this checkout is does not matter.
        (r"^ *\{accord\}\S* is in a folder for temporary files, and may be deleted\n", ""),
        (r"\S+ is in a folder for temporary files", "{path} is in a folder for temporary files"),
        (r" at \S+/src/\S+\.py:\d+", " at {place}"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "{uuid}"),
        (r"\b\d+(\.\d+)? ?ms\b|\b\d+\.\d+ ?s\b|\b\d+\.\d+ seconds", "{duration}"),
        (r"^( *start, ms +).*", r"\1{durations}"),
        (r"\b[\d.,]+ (k?B|bytes)\b", r"{size} \1"),
        (r"(\"(?:size|file_bytes|milliseconds|pid)\": ?)\d+", r"\1{number}"),
        (r"^file_bytes\t\d+", "file_bytes\t{number}"),
        (r"(\"store_operations\": )\d+", r"\1{number}"),
        (r"\t\d+\t\d{10}\t", "\t{pid}\t{time}\t"),
        (rf"(\"(?:{_TIMES})\": ?)\d[\d.e-]*", r"\1{seconds}"),
        (r"(\"start_ms\": ?)\d+", r"\1{number}"),
        (r"(data-name=\"start\" data-value=\")[\d.]+", r"\1{seconds}"),
        (r"(_seconds\{.*\} )[\d.]+", r"\1{seconds}"),
        (r"(?<=,)\d+\.\d*,,,\d+\.\d*(?=,)", "{seconds},,,{seconds}"),
        (r"\b[0-9a-f]{10}\b", "{id}"),
        (rf"(?<![\w+/.]){re.escape(socket.gethostname())}(?![\w+/=])", "{machine}"),
        (r"(\btime=\")[\d.e-]+", r"\1{seconds}"),
        (r"(0x)[0-9a-f]{6,}", r"\1{address}"),
    )
]


class Outcome(NamedTuple):
    """One command line and what it did, in lines that can be compared."""

    line: str
    lines: list[str]


@contextmanager
def serving() -> Iterator[int]:
    """Yield the port at which the desk answers."""
    with bounded(_desk().asgi()) as port:
        yield port


def record(name: str, port: int, *, is_full: bool = False) -> str:
    """Run the lines of a group, and return the text of its recording."""
    with _place() as root, socket.socket() as closed, ExitStack() as stack:
        closed.bind(("127.0.0.1", 0))  # and no other process can listen there
        group = _Group(root, GROUPS[name], (port, closed.getsockname()[1]), is_full)
        if GROUPS[name].get("is_stored"):
            stack.enter_context(_stored(root / "work"))
        return "\n".join(
            f"$ {each.line}\n" + "".join(f"{line}\n" for line in each.lines) for each in group.run()
        )


@contextmanager
def _stored(folder: Path) -> Iterator[None]:
    """Let a worker use a store in the folder."""
    key = "k" * 32
    (folder / "keys.txt").write_text(f"{key}\n")
    app = _desk().asgi(store=f"sqlite:///{folder}/store.db", store_keys=[key])
    with bounded(app):
        yield


def _desk() -> Any:
    return runpy.run_path(str(HERE / "servers" / "desk.py"))["server"]


def split(text: str) -> dict[str, str]:
    """Return the parts of a recording by their command lines, of which some are run twice."""
    found: dict[str, str] = {}
    for part in filter(None, re.split(r"^(?=\$ )", text, flags=re.MULTILINE)):
        line = part.partition("\n")[0]
        while line in found:
            line += " (again)"
        found[line] = part.strip("\n")
    return found


@contextmanager
def _place() -> Iterator[Path]:
    """Make a folder whose path is always of one length: tables are as wide as what is in them."""
    number = 1000 + os.getpid() % 9000
    while True:
        root = Path(os.path.realpath("/tmp"), f"record-{number}")
        try:
            root.mkdir()
            break
        except FileExistsError:
            number = 1000 + (number - 999) % 9000
    try:
        yield root
    finally:
        shutil.rmtree(root)


class _Group:
    """A folder in which the lines of a group run."""

    def __init__(
        self,
        root: Path,
        group: dict[str, Any],
        ports: tuple[int, int],
        is_full: bool,
    ) -> None:
        self._root, self._is_full = root, is_full
        self._lines = group["lines"].strip().splitlines()
        self._seen: dict[tuple[str, ...], tuple[str, str]] = {}
        port, closed = ports
        self._work, self._home, self._bin = root / "work", root / "home", root / "bin"
        self._given = {
            "$URL": f"http://127.0.0.1:{port}/mcp",
            "$CLOSED": f"http://127.0.0.1:{closed}/mcp",
            "$WORK": str(self._work),
            "$HOME": str(self._home),
            "$BIN": str(self._bin),
        }
        self._names = {
            str(self._work): "{work}",
            str(self._home): "{home}",
            str(self._bin): "{bin}",
            str(root): "{root}",
            sys.executable: "{python}",
            os.path.dirname(sys.executable): "{scripts}",
            str(HERE.parents[1]): "{accord}",
            f"python{sys.version_info[0]}.{sys.version_info[1]}": "python{x.y}",
            ".".join(map(str, sys.version_info[:3])): "{x.y.z}",
            str(port): "{port}",
            str(closed): "{closed}",
            __version__: "{version}",
            sqlite3.sqlite_version: "{sqlite}",
        }
        for folder in (self._work, self._home, self._bin):
            folder.mkdir()
        for name in ("python", "python3", "accord"):
            module = " -m accord.cli.main" if name == "accord" else ""
            script = self._bin / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}"{module} "$@"\n')
            script.chmod(0o755)
        for name in group.get("servers", ["desk.py"]):
            shutil.copy(HERE / "servers" / name, self._work)
        for name, text in group.get("files", {}).items():
            path = root / name if name.startswith("home/") else self._work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._fill(text))
        self._env = {"HOME": str(self._home), "PATH": str(self._bin), **group.get("env", {})}

    def run(self) -> Iterator[Outcome]:
        before = self._files()
        for line in self._lines:
            self._line = line
            yield Outcome(line, [*self._describe(self._launch(line)), *self._changes(before)])
            before = self._files()

    def _launch(self, line: str) -> Run:
        words = shlex.split(line)
        env = dict(self._env)
        while re.match(r"[A-Z_]+=", words[0]):
            name, _, value = words.pop(0).partition("=")
            env[name] = self._fill(value)
        data = None
        if "<" in words:
            at = words.index("<")
            data = (self._work / words[at + 1]).read_text()
            del words[at : at + 2]
        if words[0] == "chmod":
            (self._work / words[2]).chmod(int(words[1], 8))
            return Run(0, "", "")
        assert words[0] == "accord", line
        filled = [self._fill(word) for word in words[1:]]
        if "&" in filled:
            at = filled.index("&")
            return self._serve(filled[:at], filled[at + 1], env)
        kept = {name: value for name, value in os.environ.items() if name.startswith("COV")}
        plain = {**kept, **_PLAIN}
        return command_line().run(filled, data=data, cwd=self._work, env=env, plain=plain)

    def _serve(self, words: list[str], begun: str, env: dict[str, str]) -> Run:
        """Run a command in a new process until it has printed some text; then end it."""
        paths = self._root / "stdout", self._root / "stderr"
        with paths[0].open("wb") as stdout, paths[1].open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "accord.cli.main", *words],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=self._work,
                env={**_PLAIN, **env},
            )
            try:
                until_sync(
                    lambda: (
                        any(begun in path.read_text() for path in paths)
                        or process.poll() is not None
                    )
                )
                process.send_signal(signal.SIGTERM)
                code = process.wait(LONG)
            finally:
                process.kill()
        printed = [path.read_text() for path in paths]
        for path in paths:
            path.unlink()
        return Run(code, *printed)

    def _fill(self, text: str) -> str:
        for name, value in self._given.items():
            text = text.replace(name, value)
        return text

    def _describe(self, run: Run) -> Iterator[str]:
        yield f"exit code {run.returncode}"
        for name, text in (("stdout", run.stdout), ("stderr", run.stderr)):
            if text:
                yield from self._part(f"{name}:", self._normalise(text))

    def _files(self) -> dict[str, bytes]:
        """Return what is in the folders, by the paths below the root."""
        found = {}
        for folder, folders, names in os.walk(self._root):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in names:
                path = Path(folder, name)
                if not name.startswith("store.db"):  # the worker of another process writes it
                    found[path.relative_to(self._root).as_posix()] = path.read_bytes()
        return found

    def _changes(self, before: dict[str, bytes]) -> Iterator[str]:
        after = self._files()
        differ = (place for place in before | after if before.get(place) != after.get(place))
        for place in sorted(differ, key=lambda each: self._order(each, after)):
            shown = self._normalise(place).removeprefix("work/")
            if place not in after:
                yield f"removed {shown}"
                continue
            path = self._root / place
            text = self._normalise(_text(path, after[place]))
            title = f"wrote {shown} {path.stat().st_mode & 0o777:o}:"
            if place in before:
                title = f"changed{title[5:]}"
                text = _difference(self._normalise(_text(path, before[place])), text)
            yield from self._part(title, text)

    def _order(self, place: str, files: dict[str, bytes]) -> tuple[str, str]:
        """Sort by what does not differ between runs."""
        text = files.get(place, b"").decode("utf-8", "replace")
        return self._normalise(place), self._normalise(text)

    def _part(self, title: str, text: str) -> Iterator[str]:
        """Describe a text; of one that was shown before, say where."""
        lines = tuple(self._shorten(text))
        line, above = self._seen.setdefault(lines, (self._line, title))
        if (line, above) == (self._line, title) or len(lines) <= _REPEATED or self._is_full:
            yield title
            yield from lines
        else:
            yield f"{title} as {above.split(' ')[0]} of $ {line}"

    def _normalise(self, text: str) -> str:
        text = re.sub(r"\"ePk[\w+/=]*\"", '"{packed}"', text)
        for value, name in self._names.items():
            text = re.sub(rf"(?<!\d){re.escape(value)}(?!\d)", name, text)
        if re.match(r"usage: |server +state", text):
            # Columns are as wide as the times in them, and of help as argparse makes them.
            text = re.sub(r" {3,}", "  ", text)
        for pattern, name in _PATTERNS:
            text = pattern.sub(name, text)
        return text.replace(f"{dt.datetime.now(dt.UTC):%Y-%m-%d}", "{today}")

    def _shorten(self, text: str) -> Iterator[str]:
        text = re.sub(r"[^\S\t\n ]|[\0-\b\x0b-\x1f]", lambda found: f"\\x{ord(found[0]):02x}", text)
        lines = text.split("\n")
        end = lines.pop()
        if end:
            lines.append(f"{end}<no newline>")
        if len(text) > 100 * _LINES and not self._is_full:
            lines = [_cut(line) for line in lines]
        if len(lines) > _LINES and not self._is_full and not text.startswith("usage: "):
            digest = hashlib.sha256(text.encode()).hexdigest()[:12]
            shown = _extract(text) if "<html" in text else lines
            lines = [*map(_cut, shown[:_SHOWN]), f"... {len(lines)} lines, digest {digest}"]
        for line in lines:
            yield f"  {line}<blank>" if line.endswith((" ", "\t")) else f"  {line}".rstrip(" ")


def _text(path: Path, data: bytes) -> str:
    """Return the content of a file, or of an archive or a database what can be compared."""
    if path.name == "fleet-key":
        return f"{len(data)} random bytes\n"
    if data.startswith(b"SQLite format 3"):
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(data[:18] + b"\1\1" + data[20:])  # without a log beside it
            names = database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
            ).fetchall()
            counts = {
                name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
                for (name,) in names
            }
        return "".join(f"table {name}: {count} rows\n" for name, count in counts.items())
    if data.startswith(b"PK"):
        with zipfile.ZipFile(path) as archive:
            return "".join(
                f"-- {name}\n{archive.read(name).decode('utf-8', 'replace')}\n"
                for name in archive.namelist()
            )
    return data.decode("utf-8", "backslashreplace")


def _difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
    return "".join(f"{line}\n" for line in [*lines][2:])


def _cut(line: str) -> str:
    if len(line) <= 400:
        return line
    digest = hashlib.sha256(line.encode()).hexdigest()[:12]
    return f"{line[:300]}... {len(line)} characters, digest {digest}"


def _extract(page: str) -> list[str]:
    """Return the words of a page, without its scripts and styles."""
    bare = re.sub(r"(?s)<(script|style|svg).*?</\1>", " ", page)
    words = (" ".join(html.unescape(part).split()) for part in re.split(r"<[^>]*>", bare))
    return [part for part in words if part]
