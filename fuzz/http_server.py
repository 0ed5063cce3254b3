"""Long-running search for bytes that the HTTP server does not survive.

    python fuzz/http_server.py --seconds 60 --seed 7     random mutations of a small corpus
    python fuzz/http_server.py --repeat FILE             run one saved case again

A case is a few connections and what is sent on each, in which parts, and how it ends. A server on a
real socket takes it. The first error in the log, a response that is not HTTP, a well-formed request
on another connection that is not answered as ever, or something that is left behind, ends the
search: the case is made smaller, saved and reported. Exit codes: 0 nothing found, 1 found.
"""

import json
import logging
import random
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any, Final

import msgspec
import search
from search import (
    Errors,
    Mutation,
    SavedCase,
    Search,
    cut,
    flip,
    insert,
    insert_line,
    pieces,
    repeat_part,
    shorten,
    splice,
)

from accord import Context, Server
from accord.http.server.connection import HttpConnection
from accord.http.server.running import ServedApp, fastest_loop
from accord.http.server.sockets import listen
from accord.http.settings import HttpLimits
from accord.runtime.tasks import run_to_end

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.http1_answers import NotHttp, answers
from support.http1_corpus import CASES

# What a test replaces to see that a failure of a connection is found.
__all__ = ["HttpConnection"]

# Nothing that is awaited takes longer, however busy the machine.
PATIENCE: Final = 30.0
# How long a connection is listened to once everything was sent.
QUIET: Final = 0.01
TICK: Final = 0.002
# The whole process grows by no more than this.
GROWTH_MOST: Final = 256 * 1024 * 1024
THOROUGH_EVERY: Final = 100
SESSION: Final = b"@SESSION@"
WITNESS: Final = b"X-Witness: yes"
HOST: Final = b"Host: localhost\r\n"
BOTH: Final = b"Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
INFO: Final = {"name": "fuzz", "version": "1"}


class Talk(msgspec.Struct):
    """What is sent on one connection, part by part, and how it ends: close, reset or half-close."""

    parts: list[bytes]
    end: str = "close"


class Case(SavedCase):
    """A few connections at once."""

    talks: list[Talk]


# -- the server


def message(method: str, params: Any = None, id: int | None = 1) -> bytes:
    found = {"jsonrpc": "2.0", "method": method}
    found |= {} if id is None else {"id": id}
    return json.dumps(found | ({} if params is None else {"params": params})).encode()


OPENING: Final = message(
    "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
)


def post(body: bytes, *lines: bytes, path: bytes = b"/mcp") -> bytes:
    given = b"".join(line + b"\r\n" for line in (*lines, b"Content-Length: %d" % len(body)))
    return b"POST %b HTTP/1.1\r\n" % path + HOST + BOTH + given + b"\r\n" + body


def _caller(scope: Mapping[str, Any]) -> bytes | None:
    """Tell the witness from the callers of the cases."""
    name = WITNESS.partition(b":")[0].lower()
    return next((value for each, value in scope["headers"] if each == name), None)


class Target:
    """A server in a thread, and a client of it that does everything right."""

    def __init__(self) -> None:
        server = Server("fuzzed")

        @server.tool
        async def tell(ctx: Context, count: int) -> str:
            """Tell something some times."""
            for step in range(min(count, 100)):
                await ctx.progress(step + 1, message="x" * 1_000)
            return "told"

        self.app = server.asgi(
            sse=True,
            limits=HttpLimits(body_timeout=0.5, write_timeout=2.0),
            sessions=200,
            grace=0.0,
            keep_alive=2.0,
            principal=_caller,
        )
        (listening,) = listen("127.0.0.1", 0)
        self.port: int = listening.getsockname()[1]
        self.complaints = Errors()
        logging.getLogger().addHandler(self.complaints)
        self.server = ServedApp(self.app, [listening])
        self.thread = threading.Thread(
            target=lambda: run_to_end(self.server.serve(), loop_factory=fastest_loop()), daemon=True
        )
        self.thread.start()
        wait_until(lambda: self.server.is_started, "the server does not start")
        # A caller of its own: however many sessions the cases open, its session must stay.
        self.witness = self.open(WITNESS)
        self.session = self.open()
        self._number = 0
        self.memory = memory()

    def close(self) -> None:
        self.server.stop()
        self.thread.join(PATIENCE)
        logging.getLogger().removeHandler(self.complaints)
        if self.thread.is_alive():
            raise AssertionError("the server does not stop")

    def ask(self, data: bytes) -> tuple[int, bytes, bytes]:
        """Send a well-formed request on a connection of its own; returns its response."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as wire:
            wire.sendall(data)
            found = b""
            while b"\r\n\r\n" not in found:
                found += _received(wire)
            head, _, body = found.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            while length is not None and len(body) < int(length[1]):
                body += _received(wire)
            return int(head.split(b" ")[1]), head, body

    def open(self, *lines: bytes) -> bytes:
        status, head, _ = self.ask(post(OPENING, *lines))
        named = re.search(rb"mcp-session-id: (\S+)", head)
        if status != 200 or named is None:
            raise AssertionError(f"initialize is answered by {head!r}")
        session = b"Mcp-Session-Id: " + named[1]
        ready = post(message("notifications/initialized", id=None), session, *lines)
        if self.ask(ready)[0] != 202:
            raise AssertionError("initialized is not accepted")
        return named[1]

    def check(self) -> None:
        """See that others are served as ever."""
        if not self.thread.is_alive():
            raise AssertionError("the server is gone")
        self._number += 1
        session = b"Mcp-Session-Id: " + self.witness
        asked = post(message("ping", id=self._number), session, WITNESS)
        status, head, body = self.ask(asked)
        if status != 200 or json.loads(body) != {
            "jsonrpc": "2.0",
            "id": self._number,
            "result": {},
        }:
            raise AssertionError(f"a ping is answered by {head!r} {body!r}")
        found = [*self.complaints.found]
        self.complaints.found.clear()
        if found:
            raise AssertionError(f"the server complains: {found[0]}")

    def check_thoroughly(self) -> None:
        """See that nothing is left behind."""
        app, listener = self.app, self.server.listener
        assert listener is not None
        wait_until(
            lambda: not (app.under_way or app.state.readers or len(app.bodies) or app.bodies.size),
            "requests are left under way",
        )
        wait_until(lambda: not len(listener), "connections are left open")
        wait_until(lambda: not listener.held, "bytes are left behind")
        wait_until(
            lambda: all(session.is_idle(inf) for session in app.sessions),
            "sessions are left in use",
        )
        if memory() - self.memory > GROWTH_MOST:
            raise AssertionError(f"memory grew from {self.memory} to {memory()} bytes")


def _received(wire: socket.socket) -> bytes:
    data = wire.recv(1 << 16)
    if not data:
        raise AssertionError("a well-formed request is not answered")
    return data


def memory() -> int:
    """Return the resident memory of this process."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    return 0


def wait_until(condition: Callable[[], Any], why: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(why)
        time.sleep(0.002)


@contextmanager
def target() -> Iterator[Target]:
    made = Target()
    try:
        yield made
    finally:
        made.close()


# -- running a case


class Heard:
    """What came back on one connection; it must be HTTP."""

    def __init__(self, *, is_head: bool) -> None:
        self._is_head = is_head
        self._data = b""
        self._has_ended = False

    def feed(self, data: bytes) -> None:
        self._data += data
        self._has_ended = not data

    def check(self) -> None:
        if self._is_head or not self._data:
            return
        try:
            answers(self._data, [])
        except NotHttp as error:
            # What is still on its way may end in the middle of a head.
            if self._has_ended or "half a head" not in str(error):
                raise


def run(case: Case, target: Target, *, thorough: bool = False) -> None:
    """Send everything, a part of each connection in turn; raises where others notice."""
    wires: list[tuple[socket.socket, Talk, Heard]] = []
    try:
        for talk in case.talks:
            wire = socket.create_connection(("127.0.0.1", target.port), timeout=PATIENCE)
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire.setblocking(False)
            # A response to HEAD has a length and no body; only its requester knows that.
            is_head = b"HEAD" in b"".join(talk.parts)
            wires.append((wire, talk, Heard(is_head=is_head)))
        for number in range(max((len(talk.parts) for talk in case.talks), default=0)):
            for wire, talk, heard in wires:
                if number < len(talk.parts):
                    _send(wire, talk.parts[number].replace(SESSION, target.session), heard)
        for wire, talk, heard in wires:
            if talk.end == "half":
                with suppress(OSError):
                    wire.shutdown(socket.SHUT_WR)
            _listen(wire, heard, QUIET)
            heard.check()
    finally:
        for wire, talk, _ in wires:
            if talk.end == "reset":
                with suppress(OSError):
                    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            wire.close()
    target.check()
    if thorough:
        target.check_thoroughly()


def _send(wire: socket.socket, data: bytes, heard: Heard) -> None:
    view, end = memoryview(data), time.monotonic() + PATIENCE
    with suppress(OSError):
        while view:
            if time.monotonic() > end:
                raise AssertionError("the server takes nothing any more")
            _, writable, _ = select.select([], [wire], [], 0.01)
            if writable:
                view = view[wire.send(view) :]
            else:
                _listen(wire, heard, 0.0)
    _listen(wire, heard, TICK)


def _listen(wire: socket.socket, heard: Heard, seconds: float) -> None:
    with suppress(OSError):
        while select.select([wire], [], [], seconds)[0]:
            data = wire.recv(1 << 16)
            heard.feed(data)
            if not data:
                return


# -- making cases


def corpus() -> list[bytes]:
    """Requests from which all others are made."""
    known = b"Mcp-Session-Id: " + SESSION
    tell = {"name": "tell", "arguments": {"count": 5}, "_meta": {"progressToken": 1}}
    upgrade = (b"Connection: Upgrade", b"Upgrade: h2c")
    chunked = b"Transfer-Encoding: chunked\r\n\r\n"
    get = b" HTTP/1.1\r\n" + HOST + b"Accept: text/event-stream\r\n"
    posted = b"POST /mcp HTTP/1.1\r\n" + HOST + BOTH
    return [
        post(OPENING),
        post(message("ping"), known),
        post(message("tools/call", tell), known),
        post(message("tools/list"), known),
        post(b"[" + message("ping") + b"]", known),
        post(OPENING, *upgrade),
        post(message("ping"), known, *upgrade),
        post(message("ping"), known, b"Expect: 100-continue"),
        post(message("ping"), known, b"Connection: close"),
        post(message("ping"), path=b"/messages?session_id=x"),
        post(b" " * 100_000 + message("ping"), known),
        posted + b"%b\r\n" % known + chunked + b"%x\r\n%b\r\n0\r\n\r\n" % (len(OPENING), OPENING),
        posted + chunked + b"5;a=b\r\n     \r\n2\r\n{}\r\n0\r\nX-Trailer: 1\r\nHost: evil\r\n\r\n",
        posted + b"Content-Length: 5\r\n" + chunked + b"0\r\n\r\n",
        posted.replace(b"application/json\r\n", b"text/plain\r\n") + b"Content-Length: 9\r\n\r\n{}",
        posted + b"Content-Length: 99999999\r\n\r\n{",
        b"GET /mcp" + get + known + b"\r\n\r\n",
        b"GET /mcp" + get + known + b"\r\nLast-Event-ID: 1-0\r\n\r\n",
        b"GET /mcp" + get + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"GET /sse" + get + b"\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.0\r\n\r\n",
        b"GET http://localhost/healthz?a=b#c" + get + b"\r\n",
        b"HEAD /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
        b"DELETE /mcp HTTP/1.1\r\n" + HOST + b"Mcp-Session-Id: x\r\n\r\n",
        b"OPTIONS /mcp HTTP/1.1\r\n" + HOST + b"Origin: http://localhost\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ]


SCRAPS: Final = [
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"\0", b" ", b"\t", b":", b";", b"\xff", b"0\r\n\r\n",
    b"0\r\n", b"1\r\na\r\n", b"ffffffffffffffff\r\n", b"-1\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n", b"Content-Length: 0\r\n", b"Content-Length: 5\r\n",
    b"Content-Length: -1\r\n", b"Content-Length: 1, 1\r\n", b"Connection: Upgrade\r\n",
    b"Upgrade: x\r\n", b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"HTTP/1.1",
    b"HTTP/9.9", b"X: " + b"x" * 70_000 + b"\r\n", b"a: b\r\n" * 300, b"a" * 20_000,
    b"Expect: 100-continue\r\n", b"Host: evil\r\n", b"Mcp-Session-Id: " + SESSION + b"\r\n",
    b"Last-Event-ID: 1-0\r\n", b"Accept: */*\r\n", b"/../", b"%00", b"%", b"\xc3\xa9", b"? ", b"#",
]  # fmt: skip


MUTATIONS: Final[list[Mutation]] = [
    flip, cut, repeat_part, splice, insert_line(SCRAPS), *[insert(SCRAPS)] * 2,
]  # fmt: skip


def mutated(data: bytes, seeds: list[bytes], dice: random.Random) -> bytes:
    for _ in range(dice.choice((0, 0, 1, 1, 1, 2, 3))):
        data = dice.choice(MUTATIONS)(data, seeds, dice)
    return data[:400_000]


def all_seeds() -> list[bytes]:
    """Return the requests above, and those of the corpus of the tests."""
    return corpus() * 5 + [case.data for case in CASES if case.data]


def random_case(seeds: list[bytes], dice: random.Random) -> Case:
    talks = []
    for _ in range(dice.choice((1, 1, 2, 3))):
        requests = [
            mutated(dice.choice(seeds), seeds, dice) for _ in range(dice.choice((1, 1, 2, 3, 40)))
        ]
        data = b"".join(requests)[:1_000_000]
        parts = pieces(data, dice.choice((0, 0, 1, 2, 7)), dice)
        talks.append(Talk(parts, dice.choice(("close", "reset", "half"))))
    return Case(talks)


# -- the search


def failure_of(case: Case, target: Target, *, thorough: bool = False) -> str | None:
    return search.failure_of(run, case, target, thorough=thorough)


def fails_alone(case: Case) -> str | None:
    """Run a case against a server of its own."""

    def run_alone() -> None:
        with target() as made:
            run(case, made, thorough=True)

    return search.failure_of(run_alone)


def smaller(case: Case) -> Case:
    """Leave away connections and parts as long as the case still fails."""
    if fails_alone(case) is None:
        return case
    case = Case(shorten(case.talks, lambda talks: fails_alone(Case(talks))))
    for number in range(len(case.talks)):
        case = with_fewer_parts(case, number)
    return case


def with_fewer_parts(case: Case, number: int) -> Case:
    def with_parts(parts: list[bytes]) -> Case:
        talks = [*case.talks]
        talks[number] = Talk(parts, talks[number].end)
        return Case(talks)

    return with_parts(
        shorten(case.talks[number].parts, lambda parts: fails_alone(with_parts(parts)))
    )


def make_search(target: Target) -> Search[Case]:
    seeds = all_seeds()

    def attempt(case: Case, number: int) -> str | None:
        is_thorough = number % THOROUGH_EVERY == 0
        if is_thorough:
            target.session = target.open()
        return failure_of(case, target, thorough=is_thorough)

    return Search(
        "http_server",
        Case,
        make=lambda dice: random_case(seeds, dice),
        attempt=attempt,
        alone=fails_alone,
        smaller=smaller,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = search.parser("search for bytes that a server does not survive")
    given = parser.parse_args(arguments)
    with target() as made:
        code = make_search(made).run(given)
        why = None if code else failure_of(Case([]), made, thorough=True)
    if why is not None:
        print(f"but at the end: {why}", file=sys.stderr)
    return code if why is None else 1


if __name__ == "__main__":
    sys.exit(main())
