"""A peer made of plain messages, to send what no correct party would send.

What the other side says is judged all the same: `check` fails for any breach of its own.
"""

import asyncio
import json
from types import TracebackType
from typing import Any, Self

from accord.testing import Recording
from accord.testing.connection import TappedWire
from support.processes import OPENING
from support.waiting import LONG, until

INFO = {"name": "raw", "version": "1"}


def check(recording: Recording, party: str, allow: tuple[str, ...] = ()) -> None:
    """Fail if this party broke the protocol."""
    recording.close()
    broken = [each for each in recording.broken(allow=allow) if each.party == party]
    assert not broken, [str(each) for each in broken]


class RawClient:
    """Speaks to a server in memory: `async with RawClient(server) as raw`."""

    def __init__(self, server: Any, *, allow: tuple[str, ...] = ("practice.*",)) -> None:
        self.server = server
        self.recording = Recording()
        self.received: list[Any] = []
        self._allow = allow
        self._wire: TappedWire

    async def __aenter__(self) -> Self:
        self._wire = TappedWire(await self.server.connect_memory(), self.recording)
        await self._wire.open(lambda data: self.received.append(json.loads(data)), lambda why: None)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._wire.close()
        if error is None:
            check(self.recording, "server", self._allow)

    def write(self, data: bytes) -> None:
        self._wire.write(data)

    def send(self, message: Any) -> None:
        self.write(json.dumps(message).encode())

    def notify(self, method: str, params: Any = None) -> None:
        message = {"jsonrpc": "2.0", "method": method}
        self.send(message if params is None else {**message, "params": params})

    def request(self, id: Any, method: str, params: Any = None) -> None:
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        self.send(message if params is None else {**message, "params": params})

    async def ask(self, id: Any, method: str, params: Any = None) -> Any:
        """Send a request and wait for its answer."""
        self.request(id, method, params)
        return await self.answer_to(id)

    async def answer_to(self, id: Any) -> Any:
        return await until(lambda: next(iter(self.answers_to(id)), None))

    def answers_to(self, id: Any) -> list[Any]:
        return [
            each
            for each in self.received
            if isinstance(each, dict) and "method" not in each and each.get("id") == id
        ]

    async def open(self, revision: str = "2025-06-18", **capabilities: Any) -> Any:
        """Send initialize; return the server's answer."""
        params = {**OPENING, "protocolVersion": revision, "capabilities": capabilities}
        answer = await self.ask("open", "initialize", params)
        self.notify("notifications/initialized")
        return answer["result"]


class RawServer:
    """A target for `connect`: `connect(RawServer(answers))`.

    `answers` maps methods to a result, or to a function of the raw server and the request that
    says what it likes. The opening is answered by itself unless `answers` does.
    """

    is_congested = False

    def __init__(
        self,
        answers: dict[str, Any] | None = None,
        *,
        capabilities: Any = None,
        allow: tuple[str, ...] = ("practice.*",),
    ) -> None:
        self.answers = answers or {}
        self.capabilities = {"tools": {}} if capabilities is None else capabilities
        self.recording = Recording()
        self.heard: list[Any] = []
        self.is_closed = False
        self._receive: Any = None
        self._allow = allow

    async def connect_memory(self) -> Any:
        return TappedWire(self, self.recording)

    # -- the wire

    async def open(self, receive: Any, lost: Any) -> None:
        self._receive, self._lost = receive, lost

    def write(self, data: bytes, exchange: Any = None) -> None:
        message = json.loads(data)
        self.heard.append(message)
        if "method" not in message or "id" not in message:
            return
        answer = self.answers.get(message["method"])
        if callable(answer):
            answer(self, message)
        elif answer is not None:
            self.put(id=message["id"], result=answer)
        elif message["method"] == "initialize":
            self.open_with(message)
        elif message["method"] == "server/discover":
            # As servers answer that know nothing but the handshake.
            error = {"code": -32601, "message": "there is no such method"}
            self.put(id=message["id"], error=error)

    async def writable(self) -> None:
        pass

    async def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    # -- sending

    def open_with(self, message: Any, **more: Any) -> None:
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": self.capabilities,
            "serverInfo": INFO,
            **more,
        }
        self.put(id=message["id"], result=result)

    def put(self, **message: Any) -> None:
        """Send a message soon, as if over a wire."""
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        asyncio.get_running_loop().call_soon(self._receive, data)

    async def ask(self, id: Any, method: str, params: Any = None) -> Any:
        """Ask the client and wait for its answer."""
        self.put(id=id, method=method, **({} if params is None else {"params": params}))
        return await until(
            lambda: next(
                (each for each in self.heard if each.get("id") == id and "method" not in each), None
            ),
            seconds=LONG,
        )

    def check(self) -> None:
        """Fail if the client broke the protocol."""
        check(self.recording, "client", self._allow)
