"""Runs the `accord` command in processes that are forked from one that has it imported already.

Each run is a process with its own files, folder and environment, like a launched one, but without
the start of an interpreter, which is most of what a launch costs. Tests of signals, start-up and
packaging launch the command itself.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from hypothesis import given, settings, strategies
from hypothesis.configuration import set_hypothesis_home_dir

# Put in place of the variables of the test run: a terminal's settings would change what is printed.
PLAIN = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
_HEAD = 8
_SECONDS = 120


class Run(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


class CommandLine:
    """A process that forks itself for each command."""

    def __init__(
        self, packages: Sequence[str] = (), *, plain: Mapping[str, str] | None = None
    ) -> None:
        """Import further packages at once; commands have the variables `plain`."""
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._plain = PLAIN if plain is None else plain
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.command_line", str(theirs.fileno()), *packages],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            cwd=os.path.dirname(os.path.dirname(__file__)),
            env={**PLAIN, "PYTHONUTF8": "1"},
        )
        theirs.close()

    def run(
        self,
        args: Sequence[object],
        *,
        data: str | None = None,
        cwd: object = None,
        env: Mapping[str, str] | None = None,
    ) -> Run:
        """Run a command to its end, as `subprocess.run` does."""
        stdin, feed = os.pipe()
        out, stdout = os.pipe()
        err, stderr = os.pipe()
        wait = self.start(args, (stdin, stdout, stderr), cwd=cwd, env=env)
        for end in (stdin, stdout, stderr):
            os.close(end)
        printed: dict[int, str] = {}
        readers = [threading.Thread(target=_drain, args=(end, printed)) for end in (out, err)]
        for reader in readers:
            reader.start()
        with contextlib.suppress(BrokenPipeError), os.fdopen(feed, "w", encoding="utf-8") as file:
            file.write(data or "")
        code = wait()
        for reader in readers:
            reader.join(_SECONDS)
        return Run(code, printed[out], printed[err])

    def start(self, args, files, *, cwd=None, env=None):
        """Start a command on three files; returns the function that waits for its exit code."""
        asked = {
            "args": [str(each) for each in args],
            "cwd": None if cwd is None else str(cwd),
            "env": {**self._plain, "PYTHONUTF8": "1", **(env or {})},
        }
        result, theirs = socket.socketpair()
        text = json.dumps(asked).encode()
        head = len(text).to_bytes(_HEAD, "big")
        socket.send_fds(self._socket, [head], [*files, theirs.fileno()])
        self._socket.sendall(text)
        theirs.close()

        def wait() -> int:
            result.settimeout(_SECONDS)
            with result:
                answer = result.recv(64)
            return int(answer)

        return wait

    def close(self) -> None:
        self._socket.close()
        self._process.wait(_SECONDS)


def _drain(end: int, into: dict[int, str]) -> None:
    with os.fdopen(end, encoding="utf-8", errors="backslashreplace", newline=None) as file:
        into[end] = file.read()


def _serve(requests: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    gc.collect()
    gc.freeze()  # a collection in a command would copy all pages of this process
    while True:
        head, files, _, _ = socket.recv_fds(requests, _HEAD, 4)
        if not head:
            return
        size = int.from_bytes(head, "big")
        text = b""
        while len(text) < size:
            text += requests.recv(size - len(text))
        if os.fork() == 0:
            requests.close()
            _watch(json.loads(text), files)
        for file in files:
            os.close(file)
        # The processes between this one and the commands end at once or soon: none is left unread.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _watch(asked, files) -> NoReturn:
    """Wait for the command, which is a child of this process, and report its exit code."""
    child = os.fork()
    if child == 0:
        os.close(files[3])
        _run(asked, files)
    for file in files[:3]:
        os.close(file)
    _, status = os.waitpid(child, 0)
    os.write(files[3], str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _run(asked, files) -> NoReturn:
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.path[:] = [
        each for each in asked["env"].get("PYTHONPATH", "").split(os.pathsep) if each
    ] + sys.path
    if asked["cwd"] is not None:
        os.chdir(asked["cwd"])
    # Made anew, as at the start of an interpreter: a terminal is written to line by line.
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(
        2, "w", encoding="utf-8", errors="backslashreplace", closefd=False, buffering=1
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.argv = ["accord", *asked["args"]]
    from accord.cli.main import main

    code = 1
    try:
        code = main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            sys.stderr.write(error.code + "\n")
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        for file in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                file.flush()
        os._exit(code)


def _import(packages: Sequence[str]) -> None:
    """Import what commands use, so that no run has to."""
    for name in (
        *packages,
        "accord.cli",
        "accord_tools.check",
        "accord.testing",
        "accord.http.client",
    ):
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    for name in ("accord.client", "rich.progress"):
        importlib.import_module(name)
    _generate_once()


def _generate_once() -> None:
    """Let hypothesis read the constants of all modules and the characters of UTF-8.

    Both take it a second in each process.
    """
    with tempfile.TemporaryDirectory() as folder:
        set_hypothesis_home_dir(folder)
        once = settings(max_examples=1, database=None)
        once(given(strategies.integers(), strategies.text())(lambda _number, _text: None))()
        set_hypothesis_home_dir(None)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _requests:
        _import(sys.argv[2:])
        _serve(_requests)
