"""Workers as real processes, which a test may kill, stop and start again."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from support.http_server import free_port
from support.scale.ledger import Ledger
from support.waiting import LONG, until_sync

SCRIPT = Path(__file__).with_name("served_tools.py")
KEYS = ["0123456789abcdef0123456789abcdef"]
LEASE = 1.5

# What tests wait for comes sooner than by default; everything else is as served.
USUAL: dict[str, Any] = {
    "sse": True,
    "metrics": True,
    "keep_alive": 0.5,
    "retry": 50,
    "grace": 10.0,
    "sessions_per_caller": 10_000,
    "connections_per_address": 10_000,
}
SHARED: dict[str, Any] = {"store_keys": KEYS, "lease": LEASE, "retention": 60.0}


class ServerProcesses:
    """Several workers, each on its own port, with one store and one ledger.

    Args:
        folder: for the ledger and what workers write to stderr.
        store: the URL of the store; None for one worker without a store.
        workers: how many.
        options: further keywords of `Server.run`, and `server`, `tasks`, `users` of the script.
    """

    def __init__(
        self, folder: Path, *, store: str | None = None, workers: int = 3, **options: Any
    ) -> None:
        self.folder = folder
        self.ledger = Ledger(folder / "ledger.jsonl")
        shared = {} if store is None else {**SHARED, "store": store}
        self.options = {**USUAL, **shared, **options}
        self.ports = [free_port() for _ in range(workers)]
        self.own_options: list[dict[str, Any]] = [{} for _ in self.ports]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._all: list[subprocess.Popen[bytes]] = []
        self._starts = 0

    def __enter__(self) -> Self:
        try:
            for number in range(len(self.ports)):
                self.start(number)
            for number in range(len(self.ports)):
                self.wait_until_ready(number)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- one worker

    def start(self, number: int) -> None:
        """Start a worker; it is not ready yet."""
        own = self.own_options[number]
        given = {"port": self.ports[number], "ledger": str(self.ledger.path)}
        self._starts += 1
        with self._stderr_of(number).open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT), json.dumps({**self.options, **own, **given})],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        self._processes[number] = process
        self._all.append(process)

    def _stderr_of(self, number: int) -> Path:
        return self.folder / f"worker-{number}.err"

    def is_ready(self, number: int) -> bool:
        """Whether a worker takes requests."""
        return fetch_status(self.ports[number], "/readyz") == 200

    def wait_until_ready(self, number: int) -> None:
        process = self._processes[number]
        until_sync(lambda: process.poll() is not None or self.is_ready(number))
        assert process.poll() is None, f"worker {number} ended:\n{self.stderr(number)}"

    def kill(self, number: int) -> None:
        """End a worker as a power failure would."""
        self._processes[number].kill()
        self._processes[number].wait(LONG)

    def stop(self, number: int) -> None:
        """Let a worker stand still."""
        self._processes[number].send_signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Let a worker that stands still go on."""
        self._processes[number].send_signal(signal.SIGCONT)

    def terminate(self, number: int) -> None:
        """Ask a worker to end in good order."""
        self._processes[number].terminate()

    def wait_for_end(self, number: int, seconds: float = LONG) -> int:
        """Wait until a worker has ended; return its exit code."""
        return self._processes[number].wait(seconds)

    def restart(self, number: int) -> None:
        """Start a worker again on its port, and wait until it is ready."""
        self.start(number)
        self.wait_until_ready(number)

    def is_running(self, number: int) -> bool:
        return self._processes[number].poll() is None

    def pid(self, number: int) -> int:
        return self._processes[number].pid

    def number_of(self, pid: int) -> int | None:
        """Return which worker has a process id now."""
        return next((n for n, each in self._processes.items() if each.pid == pid), None)

    # -- looking

    def stderr(self, number: int) -> str:
        return self._stderr_of(number).read_text(errors="replace")

    def complaints(self) -> str:
        """Return the end of what each worker wrote, for messages of failures."""
        numbers = range(len(self.ports))
        texts = {n: self.stderr(n) for n in numbers if self._stderr_of(n).exists()}
        return "\n".join(f"-- worker {n}:\n{text[-3000:]}" for n, text in texts.items() if text)

    def metrics(self, number: int) -> dict[str, float]:
        """Return the counters of a worker by name; those with labels are summed."""
        found: dict[str, float] = {}
        for line in fetch(self.ports[number], "/metrics").decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                name = name.partition("{")[0]
                found[name] = found.get(name, 0.0) + float(value)
        return found

    def descriptors(self, number: int) -> int:
        """Return how many files and sockets a worker has open."""
        return len(os.listdir(f"/proc/{self.pid(number)}/fd"))

    def close(self) -> None:
        """End all processes that were ever started here."""
        for process in self._all:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        end = time.monotonic() + 3.0
        for process in self._all:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
            process.kill()
            process.wait(LONG)
            assert process.stdin is not None
            process.stdin.close()


def fetch(port: int, path: str, seconds: float = LONG) -> bytes:
    """Return the body of a page of a worker."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=seconds) as response:
        body: bytes = response.read()
        return body


def fetch_status(port: int, path: str, seconds: float = 1.0) -> int | None:
    """Return the status of a page; None if the worker does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=seconds) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return None
