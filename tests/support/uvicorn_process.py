"""Apps under uvicorn in a process of its own, which SIGTERM ends."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.http_server import free_port
from support.waiting import LONG, until_sync

TESTS = Path(__file__).parents[1]


@contextmanager
def running_uvicorn(folder: Path, app: str, log: str = "log") -> Iterator[int]:
    """Serve an app with uvicorn until the block ends, then send SIGTERM; yields the port."""
    port = free_port()
    path = os.pathsep.join([str(folder), str(TESTS)])
    words = [sys.executable, "-m", "uvicorn", app, "--port", str(port), "--log-level", "error"]
    with open(folder / log, "wb") as output:
        process = subprocess.Popen(
            words,
            env={**os.environ, "PYTHONPATH": path},
            stdout=output,
            stderr=output,
            cwd=folder,
        )
        try:
            until_sync(lambda: _answers(port) or process.poll() is not None, seconds=3 * LONG)
            assert process.poll() is None, (folder / log).read_text()
            yield port
            process.terminate()
            process.wait(LONG)
        finally:
            process.kill()
            process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
