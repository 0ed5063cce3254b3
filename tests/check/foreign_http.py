"""A server over HTTP that behaves like one found in use."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOOL = {"name": "get_time", "description": "Tell it.", "inputSchema": {"type": "object"}}
KNOWN = ("2025-03-26", "2025-06-18")


class Foreign(ThreadingHTTPServer):
    """Answers each POST by itself, as JSON, and has neither sessions nor streams.

    Attributes:
        silent: methods that are not answered until the server ends.
        asks_for_key: whether a request needs an Authorization header, with anything in it.
        reached: set when one of them came.
        ending: set when it ends.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, silent: frozenset[str], *, asks_for_key: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.silent = silent
        self.asks_for_key = asks_for_key
        self.reached = threading.Event()
        self.ending = threading.Event()

    @property
    def url(self) -> str:
        """The URL."""
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"


class _Handler(BaseHTTPRequestHandler):
    server: Foreign
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.server.asks_for_key and not self.headers.get("authorization"):
            self._send(401, "application/json", '{"error": "no credentials were provided"}')
            return
        if self.headers.get("origin"):
            self._send(403, "text/plain", "origin")
            return
        if self.headers.get("mcp-protocol-version", KNOWN[-1]) not in KNOWN:
            self._send(400, "text/plain", "unsupported protocol version")
            return
        try:
            message = json.loads(body)
        except ValueError:
            self._send(400, "text/plain", "parse error: not JSON")
            return
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            self._send(400, "text/plain", "not a request")
        elif "id" not in message:
            self._send(202, None, "")
        else:
            self._answer(message)

    def _answer(self, message: dict) -> None:
        method, params = message["method"], message.get("params") or {}
        if method in self.server.silent:
            self.server.reached.set()
            self.server.ending.wait(60)
            return
        result = None
        if method == "initialize":
            asked = params.get("protocolVersion")
            result = {
                "protocolVersion": asked if asked in KNOWN else KNOWN[-1],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "foreign", "version": "1"},
            }
        elif method == "ping":
            result = {}
        elif method == "tools/list":
            result = {"tools": [TOOL]}
        elif method == "tools/call" and params.get("name") == "get_time":
            result = {"content": [{"type": "text", "text": "noon"}]}
        if result is None:
            # As servers of the Go SDK do: the status is the refusal, and the body is for people.
            self._send(400, "text/plain; charset=utf-8", f'method not found: "{method}"')
            return
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        self._send(200, "application/json", json.dumps(answer))

    def do_GET(self) -> None:
        self._send(405, None, "")

    def do_DELETE(self) -> None:
        self._send(405, None, "")

    def _send(self, status: int, kind: str | None, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        if kind is not None:
            self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(*silent: str, asks_for_key: bool = False) -> Iterator[Foreign]:
    """Serve it on a free port of loopback."""
    server = Foreign(frozenset(silent), asks_for_key=asks_for_key)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.ending.set()
        server.shutdown()
        server.server_close()
        thread.join(30)
