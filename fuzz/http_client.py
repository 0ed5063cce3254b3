"""Long-running search for responses that the HTTP client does not survive.

    python fuzz/http_client.py --seconds 60 --seed 7     random and mutated responses
    python fuzz/http_client.py --repeat FILE             run one saved case again

A case is what a hostile server answers, byte by byte: to `initialize`, or to the calls after it.
When it has nothing left it becomes honest. Every call has to end in time, in a result or in an
AccordError; nothing may be logged as an error, no task may fail unseen, no socket may stay open,
and memory stays bounded. The first case that breaks this ends the search: it is made smaller, saved
and reported. Exit codes: 0 nothing found, 1 found, 2 could not be run.
"""

import asyncio
import gc
import gzip
import json
import logging
import os
import random
import resource
import socket
import struct
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
import search
from msgspec.structs import replace
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

from accord.client import connect
from accord.errors import AccordError
from accord.http.client.sender import HttpClientOptions
from accord.protocol.codec import Limits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# A call gives up after this; a case takes several times as long, however busy the machine is.
CALL_SECONDS = 0.5
CASE_SECONDS = 60.0
MEMORY_MB = 200
LIMITS = Limits(message_bytes=100_000)
SESSION = "fuzz"
ID = b"@ID@"
ENDINGS = (*["keep"] * 4, *["close"] * 7, "reset", "hold")


class Answer(msgspec.Struct):
    """The answer to one request: pieces that are written one by one, and what comes after them."""

    pieces: list[bytes]
    ending: str = "keep"


class Case(SavedCase):
    """What a server answers, and whether it does so from the beginning."""

    opened: bool
    listens: bool
    answers: list[Answer]


# -- the server


class Hostile:
    """Answers requests with what a case says, afterwards as it should."""

    def __init__(self, case: Case) -> None:
        self._answers = list(case.answers)
        self._opened = case.opened
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=1 << 20)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/mcp"

    async def stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            while await self._answer(*await _request(reader), writer):
                pass
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def _answer(self, method: str, message: Any, writer: asyncio.StreamWriter) -> bool:
        name = message.get("method") if isinstance(message, dict) else None
        is_opening = name in ("initialize", "notifications/initialized")
        if not self._answers or (self._opened and is_opening):
            writer.write(_honest(method, message))
            await writer.drain()
            return True
        answer = self._answers.pop(0)
        id = json.dumps(message.get("id") if isinstance(message, dict) else None).encode()
        for piece in answer.pieces:
            writer.write(piece.replace(ID, id))
            await writer.drain()
            await asyncio.sleep(0)
        if answer.ending == "reset":
            at_once = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        elif answer.ending == "hold":
            await asyncio.sleep(CASE_SECONDS)
        return answer.ending == "keep"


async def _request(reader: asyncio.StreamReader) -> tuple[str, Any]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    body = await reader.readexactly(length)
    return head.split(b" ", 1)[0].decode(), json.loads(body) if body else None


def _honest(method: str, message: Any) -> bytes:
    if method != "POST":
        return response(b"", status="405 Method Not Allowed")
    if not isinstance(message, dict) or "id" not in message or "method" not in message:
        return response(b"", status="202 Accepted")
    results: dict[str, Any] = {
        "initialize": OPENING,
        "tools/list": {"tools": []},
        "tools/call": {"content": []},
    }
    result = results.get(message["method"], {})
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
    return response(body, **{"Mcp-Session-Id": SESSION})


# -- running a case

OPENING = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}, "logging": {}},
    "serverInfo": {"name": "fuzz", "version": "1"},
}


class LoopErrors(Errors):
    """Keeps what is logged as an error, and what a loop complains about."""

    def complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        text = "".join(traceback.format_exception(error)) if error else ""
        self.found.append(f"{context.get('message')}\n{text}")


def run(case: Case) -> None:
    """Let a client meet the server of a case; raises what ought not to be."""
    errors = LoopErrors()
    loggers = [logging.getLogger(name) for name in ("accord", "asyncio")]
    for logger in loggers:
        logger.addHandler(errors)
    before, memory = _sockets(), _memory()
    try:
        asyncio.run(_meet(case, errors))
        gc.collect()
    finally:
        for logger in loggers:
            logger.removeHandler(errors)
    if errors.found:
        raise AssertionError("\n".join(errors.found))
    if _sockets() > before:
        raise AssertionError(f"{_sockets() - before} sockets are left open")
    if _memory() - memory > MEMORY_MB:
        raise AssertionError(f"memory grew by {_memory() - memory} MB")


async def _meet(case: Case, errors: LoopErrors) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(errors.complain)
    server = Hostile(case)
    url = await server.start()
    options = HttpClientOptions(patience=0.05, connect=5.0, listen=case.listens)
    try:
        async with asyncio.timeout(CASE_SECONDS):
            with suppress(AccordError):
                connection = connect(
                    url,
                    http=options,
                    limits=LIMITS,
                    timeout=CALL_SECONDS,
                    cap=2 * CALL_SECONDS,
                    connect_timeout=CALL_SECONDS if not case.opened else 10.0,
                )
                async with connection as client:
                    work: list[Callable[[], Awaitable[Any]]] = [
                        lambda: client.call_tool("x", {"a": 1}),
                        client.list_tools,
                        client.ping,
                    ]
                    for call in work:
                        with suppress(AccordError):
                            await call()
    finally:
        await server.stop()
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    if left:
        raise AssertionError(f"tasks are left running: {left}")


def _sockets() -> int:
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return found


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


# -- making cases


def response(body: bytes, *, status: str = "200 OK", **headers: str) -> bytes:
    kind = {"Content-Type": "application/json"} if body else {}
    fields = {**kind, "Content-Length": str(len(body)), **headers}
    lines = [f"HTTP/1.1 {status}", *[f"{name}: {value}" for name, value in fields.items()]]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(body: bytes, size: int, trailers: bytes = b"", **headers: str) -> bytes:
    fields = {"Content-Type": "application/json", "Transfer-Encoding": "chunked", **headers}
    lines = ["HTTP/1.1 200 OK", *[f"{name}: {value}" for name, value in fields.items()]]
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    text = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return "\r\n".join([*lines, "", ""]).encode() + text + b"0\r\n" + trailers + b"\r\n"


RESULT = (
    b'{"jsonrpc":"2.0","id":@ID@,"result":{"content":[],"tools":[],"protocolVersion":"2025-06-18",'
    b'"capabilities":{"tools":{}},"serverInfo":{"name":"f","version":"1"}}}'
)
ASKED = b'{"jsonrpc":"2.0","id":"q","method":"ping"}'
SAID = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'
STREAM = (
    b"retry: 1\nid: 1\ndata:\n\nevent: message\nid: 2\ndata: " + ASKED + b"\n\n"
    b"data: " + SAID + b"\n\nid: 3\ndata: " + RESULT + b"\n\n"
)
GZIP_HEAD = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
NOTHING = b"\x00\x00\x00\xff\xff"  # a block of deflate that holds nothing
EVENTS = {"Content-Type": "text/event-stream"}


def corpus() -> list[bytes]:
    """Responses from which all others are made."""
    packed, streamed = gzip.compress(RESULT), gzip.compress(STREAM)
    statuses = ("400 Bad Request", "401 Unauthorized", "404 Not Found", "500 Error", "204 None")
    return [
        response(RESULT),
        response(RESULT, **{"Mcp-Session-Id": "s", "Set-Cookie": "a=b; Path=/; Max-Age=5"}),
        response(b"[%b,%b]" % (ASKED, RESULT)),
        chunked(RESULT, 7),
        chunked(RESULT, 1_000, b"Content-Encoding: gzip\r\nX: y\r\n"),
        response(packed, **{"Content-Encoding": "gzip"}),
        chunked(packed, 3, **{"Content-Encoding": "gzip"}),
        response(STREAM, **EVENTS),
        chunked(STREAM, 5, **EVENTS),
        chunked(STREAM.replace(RESULT, SAID), 100, **EVENTS),
        chunked(streamed, 20, **EVENTS, **{"Content-Encoding": "gzip"}),
        chunked(packed + bytes(2_000), 1, **{"Content-Encoding": "gzip"}),
        chunked(GZIP_HEAD + NOTHING * 1_000, 5, **{"Content-Encoding": "gzip"}),
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + STREAM,
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
        b"event: endpoint\ndata: /mcp\n\ndata: " + RESULT + b"\n\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + response(RESULT),
        b"HTTP/1.1 103 Hints\r\nLink: </x>\r\n\r\n" * 3 + response(RESULT),
        response(RESULT) + response(RESULT),
        response(b"", status="202 Accepted"),
        response(b"", status="307 Moved", Location="/mcp"),
        response(b"", status="503 Busy", **{"Retry-After": "0"}),
        response(b"", status="401 No", **{"WWW-Authenticate": 'Bearer error="invalid_token"'}),
        response(b"", status="101 Switching", Upgrade="x", Connection="Upgrade"),
        *[response(b"<p>no</p>", status=each) for each in statuses],
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
    ]


SCRAPS = [
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\0",
    b"\xff",
    b"0\r\n\r\n",
    b"0\r\n",
    b"ffffffffffffffff\r\n",
    b"1;x=y\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Content-Encoding: br\r\n",
    b"Connection: close\r\n",
    b"X: y\r\n" * 100,
    b"X: " + b"y" * 70_000 + b"\r\n",
    b"Set-Cookie: a=" + b"b" * 5_000 + b"\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/2 200\r\n",
    b"Mcp-Session-Id: \x7f\r\n",
    b"Location: //[\r\n",
    b"Location: http://127.0.0.1:1/\r\n",
    b"Retry-After: 99999999999999999999\r\n",
    b"id: " + b"x" * 2_000 + b"\n",
    b"id: \xff\n",
    b"id:\n",
    b"retry: 0\n",
    b"retry: 99999999999\n",
    b"data:\n" * 200,
    b"event: endpoint\ndata: http://[\n\n",
    b"event: endpoint\ndata: /mcp\n\n",
    b"data: {}\n\n",
    b"data: " + ASKED + b"\n\n",
    b"data: [" + b",".join([ASKED] * 20) + b"]\n\n",
    b"data: " + b"x" * 110_000 + b"\n\n",
    b"\x1f\x8b\x08",
    NOTHING * 500,
    gzip.compress(b"\n" * 1_000_000),
    b"{" * 200,
    b'{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32603,"message":"m"}}',
]


def mutated(data: bytes, seeds: list[bytes], dice: random.Random) -> bytes:
    for _ in range(dice.choice((0, 1, 1, 1, 2, 3, 5))):
        data = dice.choice(MUTATIONS)(data, seeds, dice)
    return data[:400_000]


MUTATIONS: list[Mutation] = [
    flip, cut, repeat_part, insert(SCRAPS), *[insert_line(SCRAPS)] * 2, splice,
]  # fmt: skip


def random_case(seeds: list[bytes], dice: random.Random) -> Case:
    answers = [_answer(seeds, dice) for _ in range(dice.choice((1, 1, 2, 3, 5)))]
    return Case(dice.random() < 0.7, dice.random() < 0.4, answers)


def _answer(seeds: list[bytes], dice: random.Random) -> Answer:
    data = mutated(dice.choice(seeds), seeds, dice)
    # An id that is written in two pieces would not be recognised.
    count = dice.choice((0, 0, 0, 1, 1, 5, 5, 2_000))
    return Answer(pieces(data, count, dice), dice.choice(ENDINGS))


# -- the search


def failure_of(case: Case) -> str | None:
    return search.failure_of(run, case)


def smaller(case: Case) -> Case:
    """Leave away answers, then halves of their pieces, as long as the case still fails."""

    def fails(answers: list[Answer]) -> bool:
        return failure_of(replace(case, answers=answers)) is not None

    case = replace(case, answers=shorten(case.answers, fails))
    for number, answer in enumerate(case.answers):
        for place in range(len(answer.pieces)):
            while len(piece := case.answers[number].pieces[place]) > 1:
                halves = (piece[: len(piece) // 2], piece[len(piece) // 2 :])
                fitting = (_with(case, number, place, half) for half in halves)
                found = next((each for each in fitting if failure_of(each) is not None), None)
                if found is None:
                    break
                case = found
    return case


def _with(case: Case, number: int, place: int, piece: bytes) -> Case:
    answers = [Answer(list(each.pieces), each.ending) for each in case.answers]
    answers[number].pieces[place] = piece
    return replace(case, answers=answers)


def make_search() -> Search[Case]:
    seeds = corpus()
    return Search(
        "http_client",
        Case,
        make=lambda dice: random_case(seeds, dice),
        attempt=lambda case, number: failure_of(case),
        alone=failure_of,
        smaller=smaller,
    )


def main(arguments: list[str] | None = None) -> int:
    parser = search.parser("search for responses that the HTTP client does not survive")
    given = parser.parse_args(arguments)
    logging.getLogger("accord").addHandler(logging.NullHandler())
    made = make_search()
    gc.freeze()  # what is there already need not be looked at after every case
    return made.run(given)


if __name__ == "__main__":
    sys.exit(main())
