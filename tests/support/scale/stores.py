"""The stores that scenarios run with: a SQLite file, and a Valkey server that can be disturbed."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from support.valkey import Valkey, running_valkey
from support.waiting import LONG

KINDS = ("sqlite", "valkey")


class TestedStore:
    """A store with what tests do to it.

    Attributes:
        kind: "sqlite" or "valkey".
        url: what workers get.
    """

    __test__ = False

    kind: str
    url: str

    def pause(self) -> None:
        """Let nothing be written, while connections stay open."""
        raise NotImplementedError

    def resume(self) -> None:
        """Go on."""
        raise NotImplementedError

    @property
    def is_locked(self) -> bool:
        """Whether a process keeps all others from writing."""
        return False

    def entries(self) -> int:
        """Return how many things the store keeps; inboxes are bounded, and do not count."""
        raise NotImplementedError


class SqliteStore(TestedStore):
    """A file."""

    kind = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        self._blocking: sqlite3.Connection | None = None

    def pause(self) -> None:
        # A writer that does not end: the others wait for it.
        self._blocking = sqlite3.connect(
            self.path, timeout=LONG, isolation_level=None, check_same_thread=False
        )
        self._blocking.execute("BEGIN IMMEDIATE")

    def resume(self) -> None:
        if self._blocking is not None:
            self._blocking.execute("ROLLBACK")
            self._blocking.close()
            self._blocking = None

    @property
    def is_locked(self) -> bool:
        connection = sqlite3.connect(self.path, timeout=0.3, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return True
        finally:
            connection.close()
        return False

    def entries(self) -> int:
        now = time.time()
        kept = f"SELECT id FROM logs WHERE expires > {now} AND name NOT LIKE '%}}i'"
        queries = (
            f"SELECT count(*) FROM records WHERE expires > {now}",
            f"SELECT count(*) FROM index_members WHERE expires > {now}",
            f"SELECT count(*) FROM buckets WHERE expires > {now}",
            f"SELECT count(*) FROM ({kept})",
            f"SELECT count(*) FROM log_entries WHERE log IN ({kept})",
        )
        connection = sqlite3.connect(self.path, timeout=LONG)
        try:
            return sum(connection.execute(query).fetchone()[0] for query in queries)
        finally:
            connection.close()


class ValkeyStore(TestedStore):
    """A server process."""

    kind = "valkey"

    def __init__(self, valkey: Valkey) -> None:
        self.valkey = valkey
        self.url = f"{valkey.url}/0"

    def pause(self) -> None:
        self.valkey.stop_process()

    def resume(self) -> None:
        self.valkey.continue_process()

    def kill(self) -> None:
        """End the server as a power failure would; what was appended is kept."""
        self.valkey.kill()

    def start(self) -> None:
        """Start it again, with what it has kept."""
        self.valkey.start()

    def entries(self) -> int:
        with self.valkey.client() as client:
            names = list(client.scan_iter(count=1000))
        return sum(not name.endswith("}i") for name in names)


@contextmanager
def running_store(kind: str, folder: Path) -> Iterator[TestedStore]:
    """Run a store of a kind."""
    if kind == "sqlite":
        yield SqliteStore(folder / "store.db")
        return
    with running_valkey(appendonly="yes", appendfsync="everysec") as valkey:
        store = ValkeyStore(valkey)
        try:
            yield store
        finally:
            with suppress(ProcessLookupError):
                store.resume()


class StoreLink:
    """The network between one worker and a store over TCP, which a test may cut.

    It runs in a thread of its own, so that it passes on while the test waits for processes.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._open = asyncio.Event()
        self._server: asyncio.Server
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LONG)
        self._loop.close()

    def _run(self, work: "asyncio._CoroutineLike[None]") -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(LONG)

    async def _start(self) -> None:
        self._open.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def blackhole(self) -> None:
        """Pass nothing on; connections stay open, and new ones are accepted."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def heal(self) -> None:
        """Pass everything on again, also what was held back."""
        self._loop.call_soon_threadsafe(self._open.set)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._open.wait()
            other = await asyncio.open_connection("127.0.0.1", self._target)
            pair = (self._pass(reader, other[1]), self._pass(other[0], writer))
            await asyncio.gather(*pair)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
