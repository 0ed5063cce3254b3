"""Plays recorded sessions again, between real sockets and through a proxy.

Records are played in their order: a request is sent, and the server sends each part of its response
only when its record comes.
"""

import queue
import re
import socket
import threading
from collections import defaultdict
from contextlib import contextmanager, suppress

import msgspec

from accord.http.rules import sse
from support.waiting import LONG

# A header that is recorded as it is.
LABEL = "user-agent"


class PlayedServer:
    """A server that answers each request with the parts that it is given."""

    def __init__(self):
        self._parts = defaultdict(queue.Queue)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]

    @contextmanager
    def running(self):
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            yield self
        finally:
            for each in list(self._parts.values()):
                each.put(None)
            self._socket.close()

    def give(self, label, data):
        """Send a part of a response; None ends it."""
        self._parts[label].put(data)

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        connection.settimeout(LONG)
        with connection, suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65536)
            label = re.search(rb"(?i)user-agent: ([\w-]+)", data)[1].decode()
            while (part := self._parts[label].get(timeout=LONG)) is not None:
                connection.sendall(part)


def play(session, server, port):
    """Send the requests of a session through the proxy at a port, and let the server answer."""
    clients = {}
    for record in session.values():
        facts = record.http
        if record.sender == "client":
            client = clients[facts.exchange] = socket.create_connection(("127.0.0.1", port), LONG)
            client.sendall(_request(record))
            continue
        label, client = facts.exchange, clients[facts.exchange]
        part = _part(record)
        if part is not None:
            server.give(label, part)
            _read(client, part)
        if part is None or not _is_stream(facts, part):
            server.give(label, None)
            with suppress(TimeoutError):
                while client.recv(65536):
                    pass
    for client in clients.values():
        client.close()


def _request(record):
    facts = record.http
    body = bytes(record.message or b"") or (record.raw or "").encode()
    place = facts.path + (f"?{facts.query}" if facts.query else "")
    sent = {**facts.headers, "host": "127.0.0.1", LABEL: facts.exchange, "connection": "close"}
    if body or facts.method == "POST":
        sent["content-length"] = str(len(body))
    lines = [
        f"{facts.method} {place} HTTP/1.1",
        *(f"{name}: {text}" for name, text in sent.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _is_stream(facts, part):
    return facts.event is not None or b"text/event-stream" in part


def _part(record):
    facts = record.http
    if facts.ended is not None:
        return None
    if facts.event is not None:
        return _event(record)
    headers = {**facts.headers, "connection": "close"}
    body = bytes(record.message or b"") or (facts.data or "").encode()
    if headers.get("content-type") != sse.CONTENT_TYPE:
        headers["content-length"] = str(len(body))
    lines = [f"HTTP/1.1 {facts.status} OK", *(f"{name}: {text}" for name, text in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _event(record):
    facts = record.http
    data = bytes(record.message or b"") or (record.raw or facts.data or "").encode()
    name = None if facts.event == "message" else facts.event
    return sse.encode(data, name=name, id=facts.id, retry=facts.retry)


def _read(client, part):
    """Wait until a part of the response has come through."""
    wanted = part.partition(b"\r\n\r\n")[2] if part.startswith(b"HTTP/") else part
    is_head = part.startswith(b"HTTP/")
    data = b""
    while not (wanted in data and (not is_head or b"\r\n\r\n" in data)):
        chunk = client.recv(65536)
        if not chunk:
            return
        # Without a length the parts of a body have their sizes between them.
        data += re.sub(rb"(?m)^[0-9a-f]+\r\n", b"", chunk).replace(b"\n\n\r\n", b"\n\n")


def decoded(path):
    """Return the lines of a recording as plain JSON."""
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
