"""Sessions over HTTP: peers in Python are forked where their libraries are loaded already, those in
JavaScript serve all their sessions from one process each, and a tap records what travels.
"""

import json
import multiprocessing
import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from heads import judge_heads
from sessions import (
    DEFAULT,
    EVERYTHING,
    NODE,
    PATIENCE,
    PEERS,
    QUIET,
    Pairing,
    Session,
    judge,
    run,
    surroundings,
)
from tap import Recording, Tap

PYTHON_CLIENTS: Final = {
    "accord": "accord_client.py",
    "mcp": "mcp_client.py",
    "fastmcp": "fastmcp_client.py",
    "accord-tasks": "accord_task_client.py",
    "fastmcp-tasks": "fastmcp_task_client.py",
}
NODE_CLIENTS: Final = {
    "sdk-1": "sdk1_client.js",
    "sdk-2": "sdk2_client.js",
    "sdk-1-tasks": "sdk1_task_client.js",
}
PYTHON_SERVERS: Final = {
    "accord": "accord_server.py",
    "mcp": "mcp_server.py",
    "mcp-lowlevel": "mcp_lowlevel_server.py",
    "fastmcp": "fastmcp_server.py",
    "accord-tasks": "accord_task_server.py",
    "fastmcp-tasks": "fastmcp_task_server.py",
}
NODE_SERVERS: Final = {"sdk-1": "sdk1_server.js", "sdk-2": "sdk2_server.js"}
EVERYTHING_FORMS: Final = {"stateful": "streamableHttp", "sse": "sse"}
# Loaded once, before the fork.
LIBRARIES: Final = (
    "pytest",
    "uvicorn",
    "aiohttp",
    "accord",
    "mcp",
    "mcp.server.mcpserver",
    "fastmcp",
)
TURN: Final = 0.005
STARTING: Final = 30.0
# A connection is cut in front of these bytes where both sides can take the stream up again.
CUT: Final = b'"progress":4'
_URL: Final = re.compile(r"http://127\.0\.0\.1:(\d+)")


class House:
    """Where sessions over HTTP are played."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tap = Tap()
        self._fork = multiprocessing.get_context("forkserver")
        self._fork.set_forkserver_preload(list(LIBRARIES))
        self._nodes: dict[tuple[str, ...], tuple[subprocess.Popen[bytes], int]] = {}
        self._lock = threading.Lock()
        os.environ.update(QUIET)

    def play(self, pairing: Pairing) -> Session:
        """Play one session."""
        transport = "sse" if pairing.form == "sse" else "http"
        with self._serving(pairing) as (port, path, ending):
            recording = self._tap.open(port, transport, CUT if pairing.is_cut else None)
            url = f"http://127.0.0.1:{recording.port}{path}"
            printed, said = self._run_client(pairing, url)
            self._tap.end(recording)
        return _session(pairing, recording, printed, said, ending)

    def close(self) -> None:
        """End what serves."""
        for process, _ in self._nodes.values():
            process.terminate()
        for process, _ in self._nodes.values():
            process.communicate(timeout=PATIENCE)
        self._tap.close()

    # -- clients

    def _run_client(self, pairing: Pairing, url: str) -> tuple[str, str]:
        if pairing.client in NODE_CLIENTS:
            script = str(PEERS / NODE_CLIENTS[pairing.client])
            status, printed, said = run(
                [NODE, script, pairing.revision, url], INTEROP_FORM=pairing.form
            )
        else:
            name = PYTHON_CLIENTS[pairing.client]
            if pairing.server == "everything":
                name = "everything_client.py"
            place = self._folder / f"{pairing}.client"
            child = self._forked(name, place, pairing.form, pairing.revision, url)
            child.join(PATIENCE)
            status, (printed, said) = child.exitcode, _read(place)
        assert printed, f"{pairing}: the client printed nothing, ended with {status}: {said}"
        return printed, said

    def _forked(self, name: str, place: Path, form: str, *args: str) -> Any:
        for ending in ("out", "err"):
            Path(f"{place}.{ending}").unlink(missing_ok=True)
        child = self._fork.Process(target=be, args=(str(PEERS / name), str(place), form, args))
        child.start()
        return child

    # -- servers

    @contextmanager
    def _serving(self, pairing: Pairing) -> Iterator[tuple[int, str, dict[str, Any]]]:
        """Yield port and path of a server; how it ended is there when it has."""
        ending: dict[str, Any] = {}
        path = "/sse" if pairing.form == "sse" else "/mcp"
        if pairing.server == "everything":
            yield self._everything(EVERYTHING_FORMS[pairing.form]), path, ending
            return
        if pairing.server in NODE_SERVERS:
            yield self._node(pairing), _where(pairing), ending
            return
        place = self._folder / f"{pairing}.server"
        pinned = [pairing.revision] if pairing.is_pinned_by_server else []
        child = self._forked(
            PYTHON_SERVERS[pairing.server], place, pairing.form, "http", pairing.form, *pinned
        )
        try:
            yield _port(place, child), path, ending
        finally:
            child.terminate()
            child.join(PATIENCE)
            if child.exitcode is None:
                child.kill()
            ending |= {"status": child.exitcode, "said": _read(place)[1]}

    def _node(self, pairing: Pairing) -> int:
        """Start a server for all sessions, or for one pairing where a revision has no sessions."""
        alone = [str(pairing)] if pairing.is_modern else []
        command = (NODE, str(PEERS / NODE_SERVERS[pairing.server]), "http", *alone)
        with self._lock:
            if command not in self._nodes:
                process = subprocess.Popen(command, stdout=subprocess.PIPE)
                assert process.stdout is not None
                self._nodes[command] = process, int(process.stdout.readline())
            return self._nodes[command][1]

    def _everything(self, form: str) -> int:
        """Start the everything server, which needs its port as an option."""
        command = (NODE, str(EVERYTHING), form)
        with self._lock:
            if command not in self._nodes:
                with socket.create_server(("127.0.0.1", 0)) as free:
                    port = free.getsockname()[1]
                silent = subprocess.DEVNULL
                env = {**surroundings(), "PORT": str(port)}
                process = subprocess.Popen(command, stdout=silent, stderr=silent, env=env)
                self._nodes[command] = process, port
                _await_port(port)
            return self._nodes[command][1]


def _where(pairing: Pairing) -> str:
    if pairing.is_modern:
        return "/both" if pairing.revision == DEFAULT else "/modern"
    return "/mcp" if pairing.form == "stateful" else f"/{pairing.form}"


def be(path: str, place: str, form: str, args: tuple[str, ...]) -> None:
    """Be a peer, in a process that was forked for it."""
    for number, ending in ((1, "out"), (2, "err")):
        file = os.open(f"{place}.{ending}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
    signal.alarm(int(PATIENCE))
    os.environ["INTEROP_FORM"] = form
    sys.argv = [path, *args]
    sys.path.insert(0, str(PEERS))
    runpy.run_path(path, run_name="__main__")


def _read(place: Path) -> tuple[str, str]:
    files = (Path(f"{place}.out"), Path(f"{place}.err"))
    out, err = (file.read_text("utf-8") if file.exists() else "" for file in files)
    return out, err


def _port(place: Path, child: Any) -> int:
    """Wait until a server has said where it is."""
    end = time.monotonic() + STARTING
    while time.monotonic() < end and child.exitcode is None:
        if found := _URL.search("".join(_read(place))):
            return int(found[1])
        time.sleep(TURN)
    raise AssertionError(f"the server did not start: {_read(place)[1][-4000:]}")


def _await_port(port: int) -> None:
    end = time.monotonic() + STARTING
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(TURN)
        else:
            return
    raise AssertionError(f"nothing listens on port {port}")


def _session(
    pairing: Pairing, recording: Recording, printed: str, said: str, ending: dict[str, Any]
) -> Session:
    # What HTTP itself refuses has not reached the protocol: a client that finds the older form
    # sends its first request a second time.
    refused = {each.number for each in recording.exchanges if each.is_refused}
    records = [each for number, each in recording.records if number not in refused]
    breaches = judge(records, pairing.agreed)
    breaches += judge_heads(recording.exchanges, pairing.agreed)
    return Session(
        pairing,
        json.loads(printed),
        records,
        breaches,
        ending,
        said,
        recording.exchanges,
    )
