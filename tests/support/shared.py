"""Several apps of one process that serve together, each with a server and a worker of its own.

Tests run in virtual time: leases and other times pass as fast as the machine can. A client says for
each request which worker gets it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

from accord import Server
from accord.http.rules.sse import Decoder, Event
from accord.sharing.sessions.session import SharedSession
from accord.sharing.workers import names
from accord.sharing.workers.session_records import CachedRecord, SessionRecord, decode_record
from accord.sharing.workers.session_tokens import SessionToken
from accord.sharing.workers.worker import Worker
from accord.testing import run_in_virtual_time
from support.asgi import Exchange
from support.faulty_backend import FaultyBackend, SharedStore
from support.http_talk import BOTH, initialize, notification

LEASE = 1.0
KEY = "a key that all the workers of the tests share"
AsyncTest = Callable[..., Coroutine[Any, Any, None]]


def in_virtual_time(test: AsyncTest) -> Callable[..., None]:
    """Run a test on a loop whose timers are due at once, for a day of its time at most."""

    @wraps(test)
    def run(*args: Any, **keywords: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(86_400):
                await test(*args, **keywords)

        run_in_virtual_time(bounded())

    return run


def loop_clock() -> float:
    """Return the seconds since 1970 by the clock of the loop, which tests skip."""
    return 1_800_000_000 + asyncio.get_running_loop().time()


async def eventually(condition: Callable[[], Any], *, seconds: float = 60.0) -> Any:
    """Wait until a condition holds, for some seconds of the loop's time; return what it gave."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not (found := condition()):
        assert loop.time() < end, "waited in vain"
        await asyncio.sleep(0.01)
    return found


class App:
    """One of the apps: a server, its worker, and its connection to the store."""

    def __init__(self, server: Server[Any], backend: FaultyBackend, **options: Any) -> None:
        self.server = server
        self.backend = backend
        self.app = server.asgi(store=backend, **{"lease": LEASE, "grace": 1.0, **options})
        self.is_killed = False

    @property
    def worker(self) -> Worker:
        worker = self.app.state.worker
        assert worker is not None
        return worker

    @property
    def sessions(self) -> Any:
        return self.app.sessions

    def session(self, client: "Client") -> SharedSession:
        """Return what is cached here of the session of a client."""
        found = self.app.sessions.find_by_sid(client.sid)
        assert found is not None
        return found

    def kill(self) -> None:
        """Let it do nothing more in the store, without a goodbye, as a process that was killed."""
        self.is_killed = True
        self.backend.cut()
        for task in self.worker._tasks:
            task.cancel()

    async def stop(self) -> None:
        """End it in good order; a killed one only leaves its loop."""
        await self.app.stop()


class Crew(list[App]):
    """All apps that serve together.

    Attributes:
        store: what they share.
    """

    def __init__(self, store: SharedStore) -> None:
        super().__init__()
        self.store = store
        self._clients: list[Client] = []

    def client(self, revision: str = "2025-11-25", **options: Any) -> "Client":
        """Make a client without a session."""
        client = Client(self, revision, **options)
        self._clients.append(client)
        return client

    async def open(
        self, revision: str = "2025-11-25", *, at: int = 0, user: str | None = None, **more: Any
    ) -> "Client":
        """Make a client with a session that one of the apps has opened."""
        client = self.client(revision, user=user)
        await client.open(at=at, **more)
        return client

    async def read_record(self, client: "Client") -> CachedRecord | None:
        """Return the record of a client's session as the store has it."""
        stored = await self.store.backend.get(names.session_of(client.sid))
        return None if stored is None else decode_record(stored.value, stored.version)

    async def record(self, client: "Client") -> SessionRecord:
        """Return the record of a session that there must be."""
        found = await self.read_record(client)
        assert found is not None
        return found.record

    async def listeners(self, client: "Client") -> int:
        """Return how many connections the record of a session lists."""
        return len((await self.record(client)).listeners)

    def kill(self, at: int) -> None:
        """Kill one of the workers, and break all connections to it."""
        self[at].kill()
        for client in self._clients:
            client.break_off(at)

    @property
    def alive(self) -> list[int]:
        return [at for at, app in enumerate(self) if not app.is_killed]

    async def let_go(self) -> None:
        """Disconnect all clients."""
        for client in self._clients:
            await client.leave()


@asynccontextmanager
async def serve_shared(
    make: Callable[[], Server[Any]], count: int = 2, **options: Any
) -> AsyncIterator[Crew]:
    """Serve apps on one store; `make` makes the server of each."""
    crew = Crew(SharedStore(loop_clock))
    try:
        for _ in range(count):
            await add_app(crew, make, **options)
        yield crew
    finally:
        await crew.let_go()
        for app in crew:
            app.backend.move_on()
            await app.stop()


async def add_app(crew: Crew, make: Callable[[], Server[Any]], **options: Any) -> App:
    """Let another app serve together with the others."""
    app = App(make(), FaultyBackend(crew.store), **options)
    await app.app.start()
    crew.append(app)
    return app


class Answer(Exchange):
    """A request to one of the apps, under way.

    Attributes:
        at: which one.
    """

    at = 0

    @property
    def is_streamed(self) -> bool:
        return self.headers.get("content-type") == "text/event-stream"

    @property
    def all_events(self) -> list[Event]:
        return [*Decoder(with_empty=True).feed(self.body)]

    @property
    def messages(self) -> list[Any]:
        """The messages so far, however they are sent."""
        if not self.sent:
            return []
        if self.is_streamed:
            return [json.loads(each.data) for each in self.all_events if each.data]
        if not self.body:
            return []
        found = json.loads(self.body)
        return found if isinstance(found, list) else [found]

    @property
    def is_whole(self) -> bool:
        """Whether the response has ended in good order."""
        return bool(self.sent) and self.sent[-1].get("more_body") is False

    @property
    def is_over(self) -> bool:
        return self.task.done()

    @property
    def reason(self) -> str:
        return str(self.json["error"]["message"])


class Client:
    """A client that chooses the app for each request.

    Args:
        crew: the apps.
        revision: the one it asks for.
        user: what it names itself in the header `x-user`.

    Attributes:
        session: the value of the session header.
    """

    def __init__(self, crew: Crew, revision: str, *, user: str | None = None) -> None:
        self.crew = crew
        self.revision = revision
        self.user = user
        self.session: str | None = None
        self._under_way: list[Answer] = []
        self._number = 0

    @property
    def token(self) -> SessionToken:
        """What the id of the session says."""
        assert self.session is not None
        found = self.crew[0].sessions.tokens.open(self.session.encode())
        assert found is not None
        return found

    @property
    def sid(self) -> str:
        return str(self.token.sid)

    # -- requests

    def start(
        self, at: int, method: str, body: bytes = b"", *, path: str = "/mcp", **headers: Any
    ) -> Answer:
        """Send any request to one of the apps."""
        has_version = self.session is not None and self.revision > "2025-03-26"
        given = {
            "host": "localhost",
            "accept": BOTH if method == "POST" else "text/event-stream",
            "content-type": "application/json",
            "mcp-session-id": self.session,
            "mcp-protocol-version": self.revision if has_version else None,
            "x-user": self.user,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(k.encode(), v.encode()) for k, v in given.items() if v is not None],
            "client": ("127.0.0.1", 1),
        }
        answer = Answer(self.crew[at].app, scope, body)
        answer.at = at
        self._under_way.append(answer)
        return answer

    def begin(self, at: int, message: Any, **headers: Any) -> Answer:
        """Send a message to one of the apps; the response follows."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.start(at, "POST", body, **headers)

    async def post(self, at: int, message: Any, **headers: Any) -> Answer:
        """Send a message, and return the whole response."""
        answer = self.begin(at, message, **headers)
        await answer.done()
        return answer

    def next_id(self) -> int:
        self._number += 1
        return self._number

    async def ask(self, at: int, method: str, **params: Any) -> Any:
        """Send a request, and return its answer."""
        id = self.next_id()
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        answer = await self.post(at, message)
        assert answer.status == 200, answer.body
        found = answer.messages[-1]
        assert found["id"] == id
        return found

    async def call(self, at: int, tool: str, **arguments: Any) -> Any:
        """Call a tool, and return the text of its result; the error of a failed request."""
        found = await self.ask(at, "tools/call", name=tool, arguments=arguments)
        return found["error"] if "error" in found else found["result"]["content"][0]["text"]

    async def notify(self, at: int, method: str, **params: Any) -> Answer:
        return await self.post(at, notification(method, **params))

    async def open(self, *, at: int = 0, ready_at: int | None = None, **capabilities: Any) -> None:
        """Begin a session; another app may hear that it is ready."""
        opened = await self.post(at, initialize(self.revision, **capabilities))
        assert opened.status == 200, opened.body
        self.session = opened.headers["mcp-session-id"]
        ready = await self.notify(at if ready_at is None else ready_at, "notifications/initialized")
        assert ready.status == 202, ready.body

    async def listen(self, at: int, last: str | None = None) -> Answer:
        """Listen, or go on with a stream behind an event; return once the head is there."""
        answer = self.start(at, "GET", last_event_id=last)
        await eventually(lambda: answer.sent)
        return answer

    async def delete(self, at: int) -> Answer:
        answer = self.start(at, "DELETE")
        await answer.done()
        return answer

    def break_off(self, at: int) -> None:
        """Let all connections to one of the apps break."""
        for answer in self._under_way:
            if answer.at == at:
                answer.task.cancel()

    async def leave(self) -> None:
        """Disconnect from everything."""
        for answer in self._under_way:
            answer.disconnect()
        for answer in self._under_way:
            if not answer.task.done():
                _, late = await asyncio.wait((answer.task,), timeout=5)
                if late:
                    answer.task.cancel()
        self._under_way.clear()
