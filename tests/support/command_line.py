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
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple, NoReturn

from hypothesis import given, settings, strategies
from hypothesis.configuration import set_hypothesis_home_dir

import accord
import accord_tools

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

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.command_line", str(theirs.fileno())],
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
        plain: Mapping[str, str] = PLAIN,
    ) -> Run:
        """Run a command to its end, as `subprocess.run` does; its variables are plain and env."""
        stdin, feed = os.pipe()
        out, stdout = os.pipe()
        err, stderr = os.pipe()
        wait = self.start(args, (stdin, stdout, stderr), cwd=cwd, env=env, plain=plain)
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

    def start(self, args, files, *, cwd=None, env=None, plain=PLAIN):
        """Start a command on three files; returns the function that waits for its exit code."""
        asked = {
            "args": [str(each) for each in args],
            "cwd": None if cwd is None else str(cwd),
            "env": {**plain, "PYTHONUTF8": "1", **(env or {})},
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


@cache
def command_line() -> CommandLine:
    """Return the process from which all tests of this process fork their commands."""
    made = CommandLine()
    atexit.register(made.close)
    return made


def _drain(end: int, into: dict[int, str]) -> None:
    with os.fdopen(end, encoding="utf-8", errors="backslashreplace", newline=None) as file:
        into[end] = file.read()


def _serve(requests: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    gc.disable()  # a collection in a command, which is short, would copy all pages of this process
    with selectors.DefaultSelector() as waiting:
        waiting.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is not requests:
                    waiting.unregister(key.fileobj)
                    _report(key.fd, *key.data)
                elif not _launch(requests, waiting):
                    return


def _launch(requests: socket.socket, waiting: selectors.BaseSelector) -> bool:
    """Fork for the next command and wait for its end, too; return whether there was one."""
    head, files, _, _ = socket.recv_fds(requests, _HEAD, 4)
    if not head:
        return False
    size = int.from_bytes(head, "big")
    text = b""
    while len(text) < size:
        text += requests.recv(size - len(text))
    child = os.fork()
    if child == 0:
        requests.close()
        waiting.close()
        os.close(files[3])
        _run(json.loads(text), files)
    for file in files[:3]:
        os.close(file)
    waiting.register(os.pidfd_open(child), selectors.EVENT_READ, (child, files[3]))
    return True


def _report(ended: int, child: int, result: int) -> None:
    """Send the exit code of a command that has ended."""
    _, status = os.waitpid(child, 0)
    os.close(ended)
    with contextlib.suppress(BrokenPipeError):
        os.write(result, str(os.waitstatus_to_exitcode(status)).encode())
    os.close(result)


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


def _import() -> None:
    """Import what commands use, so that no run has to."""
    for package in (accord, accord_tools):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    for name in accord.__all__:
        getattr(accord, name)
    for name in ("encodings.idna", "jinja2", "jsonschema_rs", "rich.progress"):
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
        _import()
        _serve(_requests)
