"""A reverse proxy of our own that chooses a worker for each request, and breaks things on command.

It never keeps a connection to a worker, so no two requests are bound to each other. A request whose
worker cannot be connected to goes to another one; one that may have reached its worker is never
sent again.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

Choose = Callable[["Exchange"], int | None]
"""Returns the worker for a request; None leaves it to the balancer."""

HEAD_MOST = 64 * 1024
CONNECT_WITHIN = 2.0
KEPT = 20_000
"""How many requests are remembered."""


@dataclass
class Fault:
    """What happens to the response of one request.

    Attributes:
        cut_after_events: reset the connection after so many events.
        cut_after_bytes: reset it after so many bytes of the body.
        cut_request: reset it once the request has been passed on, before anything comes back.
        delay: seconds before the request is passed on.
        freeze_after_events: pass nothing on after so many events, and keep the connection open.
    """

    cut_after_events: int | None = None
    cut_after_bytes: int | None = None
    cut_request: bool = False
    delay: float = 0.0
    freeze_after_events: int | None = None


@dataclass
class Exchange:
    """One request with its response, as the balancer sees it."""

    number: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    worker: int | None = None
    status: int | None = None
    fault: Fault = field(default_factory=Fault)
    tried: list[int] = field(default_factory=list)
    sent: int = 0
    events: int = 0
    is_ended: bool = False
    is_worker_done: bool = False
    is_frozen: bool = False
    writer: asyncio.StreamWriter | None = None

    @property
    def session(self) -> str | None:
        return self.headers.get("mcp-session-id")

    def cut(self) -> None:
        """Reset the client's connection."""
        if self.writer is not None:
            self.writer.transport.abort()


class Balancer:
    """Passes requests on to workers.

    Args:
        ports: those of the workers.
        policy: how a worker is chosen, unless the request names one in `X-Worker`.
        seed: for random choices.

    Attributes:
        choose: chooses before the policy does.
        inject: returns a fault for a request, or None.
        away: workers that get no new requests.
        exchanges: the requests so far; of very many, the last ones.
        count: how many there were.
    """

    def __init__(
        self,
        ports: Sequence[int],
        *,
        policy: Literal["random", "round robin"] = "random",
        seed: int = 1,
    ) -> None:
        self.ports = list(ports)
        self.port = 0
        self.choose: Choose | None = None
        self.inject: Callable[[Exchange], Fault | None] | None = None
        self.away: set[int] = set()
        self.exchanges: list[Exchange] = []
        self.count = 0
        self._open: dict[int, Exchange] = {}
        self._policy = policy
        self._random = random.Random(seed)
        self._next = 0
        self._server: asyncio.Server
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, backlog=1024, limit=HEAD_MOST
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- looking and breaking

    def open_exchanges(self, worker: int | None = None) -> list[Exchange]:
        """Return the requests that are being served; by one worker, if it is given."""
        return [
            each
            for each in self._open.values()
            if worker in (None, each.worker) and each.worker is not None
        ]

    def cut_all(self) -> int:
        """Reset all connections; return how many there were."""
        found = self.open_exchanges()
        for exchange in found:
            exchange.cut()
        return len(found)

    def workers_of(self, session: str | None) -> set[int]:
        """Return the workers that answered requests of a session."""
        return {
            each.worker
            for each in self.exchanges
            if each.session == session and each.worker is not None and each.status is not None
        }

    # -- one request

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        exchange: Exchange | None = None
        try:
            exchange = await self._read(reader)
            if exchange is not None:
                exchange.writer = writer
                await self._serve(exchange, reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            if exchange is not None:
                exchange.is_ended = True
                exchange.writer = None
                self._open.pop(exchange.number, None)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Exchange | None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        assert "transfer-encoding" not in headers, "requests have a length here"
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        exchange = Exchange(self.count, method, target, headers, body)
        self.count += 1
        self._open[exchange.number] = exchange
        self.exchanges.append(exchange)
        if len(self.exchanges) > KEPT:
            del self.exchanges[: KEPT // 2]
        return exchange

    async def _serve(
        self, exchange: Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        fault = exchange.fault = (self.inject and self.inject(exchange)) or Fault()
        if fault.delay:
            await asyncio.sleep(fault.delay)
        connected = await self._connect(exchange)
        if connected is None:
            writer.write(_refusal("refused", "no worker can be connected to"))
            exchange.status = 502
            await writer.drain()
            return
        from_worker, to_worker = connected
        try:
            to_worker.write(_request_head(exchange) + exchange.body)
            if fault.cut_request:
                await to_worker.drain()
                writer.transport.abort()
                return
            await self._pump(exchange, reader, from_worker, writer)
        finally:
            to_worker.transport.abort()

    async def _connect(
        self, exchange: Exchange
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        first = self._first_choice(exchange)
        others = [n for n in range(len(self.ports)) if n != first and n not in self.away]
        self._random.shuffle(others)
        for worker in [first, *others]:
            exchange.tried.append(worker)
            try:
                async with asyncio.timeout(CONNECT_WITHIN):
                    connected = await asyncio.open_connection("127.0.0.1", self.ports[worker])
            except OSError:  # a timeout is one, too
                continue
            exchange.worker = worker
            return connected
        return None

    def _first_choice(self, exchange: Exchange) -> int:
        named = exchange.headers.get("x-worker")
        if named is not None:
            return int(named)
        chosen = None if self.choose is None else self.choose(exchange)
        if chosen is not None:
            return chosen
        there = [n for n in range(len(self.ports)) if n not in self.away] or [0]
        if self._policy == "random":
            return self._random.choice(there)
        self._next += 1
        return there[self._next % len(there)]

    # -- one response

    async def _pump(
        self,
        exchange: Exchange,
        from_client: asyncio.StreamReader,
        from_worker: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
    ) -> None:
        """Pass a response on until it ends, or the client leaves."""
        leaving = asyncio.ensure_future(from_client.read(1))
        answering = asyncio.ensure_future(self._answer(exchange, from_worker, to_client))
        try:
            await asyncio.wait((leaving, answering), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done() and not leaving.cancelled():
                to_client.transport.abort()
        finally:
            for task in (leaving, answering):
                task.cancel()
                with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
                    await task

    async def _answer(
        self, exchange: Exchange, from_worker: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        try:
            head = await from_worker.readuntil(b"\r\n\r\n")
        except (OSError, EOFError):
            # The worker was lost with the request in its hands: the outcome is unknown.
            exchange.status = 502
            to_client.write(_refusal("lost", "the worker ended without an answer"))
            await to_client.drain()
            return
        exchange.status = int(head.split(b" ", 2)[1])
        first, _, rest = head.partition(b"\r\n")
        to_client.write(first + b"\r\nX-Served-By: %d\r\n" % (exchange.worker or 0) + rest)
        with contextlib.suppress(ConnectionError):  # the client sees that the body is incomplete
            while data := await from_worker.read(1 << 16):
                if not await self._forward(exchange, data, to_client):
                    return
        exchange.is_worker_done = True
        if exchange.is_frozen:
            await asyncio.Event().wait()  # until the client leaves
        await to_client.drain()

    async def _forward(
        self, exchange: Exchange, data: bytes, to_client: asyncio.StreamWriter
    ) -> bool:
        """Pass bytes of a body on, as far as the fault allows; return whether to go on."""
        fault = exchange.fault
        if exchange.is_frozen:
            return True
        allowed, is_frozen = self._allowance(exchange, data)
        to_client.write(data[:allowed])
        exchange.sent += allowed
        await to_client.drain()
        if allowed == len(data):
            return True
        if is_frozen:
            exchange.is_frozen = True
            return True
        to_client.close() if fault.cut_after_events is not None else to_client.transport.abort()
        return False

    def _allowance(self, exchange: Exchange, data: bytes) -> tuple[int, bool]:
        """Return how many bytes may pass, and whether the rest is held back for ever."""
        fault = exchange.fault
        if fault.cut_after_bytes is not None:
            return min(len(data), max(fault.cut_after_bytes - exchange.sent, 0)), False
        limit, is_frozen = fault.cut_after_events, False
        if limit is None:
            limit, is_frozen = fault.freeze_after_events, True
        if limit is None:
            return len(data), False
        end = 0
        passed = exchange.events
        while passed < limit and (found := data.find(b"\n\n", end)) >= 0:
            passed, end = passed + 1, found + 2
        exchange.events = passed
        # What follows the last event that may pass is held back from its first byte on.
        return (end if passed >= limit else len(data)), is_frozen


def _request_head(exchange: Exchange) -> bytes:
    skipped = ("connection", "x-worker")
    lines = [f"{exchange.method} {exchange.target} HTTP/1.1", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in exchange.headers.items() if name not in skipped]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _refusal(kind: str, why: str) -> bytes:
    """Return a response of the balancer itself; `refused` if no worker has seen the request."""
    lines = ["HTTP/1.1 502 Bad Gateway", "Content-Type: text/plain", f"X-Balancer: {kind}"]
    lines += ["Connection: close", f"Content-Length: {len(why)}", "", why]
    return "\r\n".join(lines).encode()
