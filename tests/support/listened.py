"""A server on sockets of its own choice, in a thread, and clients that choose every byte."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from accord.http.server.running import ServedApp, fastest_loop
from accord.http.server.sockets import close_all, listen_on
from accord.runtime.tasks import run_to_end
from support.http_talk import BOTH, initialize
from support.stateless import call, headers_of
from support.waiting import LONG, until_sync

OPENING = json.dumps(initialize()).encode()


class Listened:
    """A server that runs, and its sockets."""

    def __init__(self, served: ServedApp, sockets: list[socket.socket]) -> None:
        self.served = served
        self.sockets = sockets
        self.port = _port_of(sockets[0])
        self.thread: threading.Thread

    def connect(self, context: ssl.SSLContext | None = None) -> "Wire":
        """Connect to the first socket."""
        first = self.sockets[0]
        made = socket.socket(first.family, socket.SOCK_STREAM)
        made.settimeout(LONG)
        made.connect(first.getsockname())
        if context is not None:
            made = context.wrap_socket(made, server_hostname="localhost")
        return Wire(made)


def _port_of(each: socket.socket) -> int:
    name = each.getsockname()
    return name[1] if isinstance(name, tuple) else 0


@contextmanager
def listened(
    app: Any, *addresses: str, tls: ssl.SSLContext | None = None, loop: str = "auto"
) -> Iterator[Listened]:
    """Serve one of our apps as `server.run("http", listen=...)` does."""
    sockets = listen_on(addresses or ("127.0.0.1:0",))
    served = ServedApp(app, sockets, tls)
    factory = None if loop == "asyncio" else fastest_loop()
    found = Listened(served, sockets)
    found.thread = threading.Thread(
        target=lambda: run_to_end(served.serve(), loop_factory=factory), daemon=True
    )
    found.thread.start()
    try:
        until_sync(lambda: served.is_started)
        yield found
    finally:
        served.stop()
        found.thread.join(LONG)
        close_all(sockets)
        assert not found.thread.is_alive(), "the server does not stop"


class Answer:
    """One response."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """A connection on which the test chooses every byte."""

    def __init__(self, made: socket.socket) -> None:
        self.socket = made
        self._file = made.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self, *, is_head: bool = False) -> Answer:
        """Read the next response with its body."""
        status = int(self._file.readline().split()[1])
        headers = {}
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.decode().partition(": ")
            headers[name.lower()] = value
        if is_head or status in (100, 204):
            return Answer(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            return Answer(status, headers, b"".join(iter(self.chunk, b"")))
        length = headers.get("content-length")
        body = self._file.read() if length is None else self._file.read(int(length))
        return Answer(status, headers, body)

    def chunk(self) -> bytes:
        """Read the next chunk of a body."""
        data = self._file.read(int(self._file.readline(), 16))
        self._file.readline()
        return data

    def rest(self) -> bytes:
        """Read until the server ends the connection."""
        try:
            return self._file.read()
        except ConnectionError:
            return b""

    def ask(self, *lines: str, body: bytes = OPENING, **more: Any) -> Answer:
        """Send a POST and read its response."""
        self.send(post(*lines, body=body))
        return self.answer(**more)

    def call(self, tool: str, *lines: str, **arguments: Any) -> Answer:
        """Call a tool with a request that stands on its own."""
        return self.ask(*lines, *call_lines(tool), body=call_body(tool, **arguments))


def call_lines(tool: str) -> list[str]:
    """The headers that repeat the call of a tool."""
    found = headers_of(call(tool))
    return [f"{name.replace('_', '-')}: {value}" for name, value in found.items() if value]


def call_body(tool: str, **arguments: Any) -> bytes:
    """The call of a tool; a request that stands on its own."""
    return json.dumps(call(tool, **arguments)).encode()


def post(*lines: str, body: bytes = OPENING, version: str = "1.1") -> bytes:
    """A POST with a body, in one piece."""
    return head(*lines, f"Content-Length: {len(body)}", version=version) + body


def head(*lines: str, method: str = "POST", path: str = "/mcp", version: str = "1.1") -> bytes:
    """The head of a request that is served."""
    usual = [f"{method} {path} HTTP/{version}", f"Accept: {BOTH}"]
    if not any(line.lower().startswith("host:") for line in lines):
        usual.append("Host: localhost")
    if method == "POST":
        usual.append("Content-Type: application/json")
    return "\r\n".join([*usual, *lines, "", ""]).encode()
