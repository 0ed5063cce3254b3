"""Jobs for workers and whole fleets of servers of any kind."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from accord.client.server_spec import ServerSpec
from accord_tools.fleet.worker.job import WorkerJob

SERVER = Path(__file__).with_name("fleet_server.py")
MARK = "FLEET_MARK"
# The kinds that a run of the whole fleet finds in this state; time and patience are short.
STATES = {
    **{f"raw-{number}": "ok" for number in range(1, 7)},
    **dict.fromkeys(("good-1", "good-2"), "ok"),
    **dict.fromkeys(("rubbish", "flood-stderr", "slow-start", "many-tools"), "ok"),
    **dict.fromkeys(("leaves-child", "leaves-daemon", "hostile", "changing", "echo"), "ok"),
    **dict.fromkeys(("failing", "failing-test", "crash-on-call", "hang-on-call"), "failed"),
    **dict.fromkeys(("huge-line", "flood-stdout", "ignores-terminate"), "failed"),
    **dict.fromkeys(("wrong-id", "silent", "crash-at-start", "exit-zero"), "unreachable"),
    "stubborn": "unreachable",
    "needs-variable": "skipped",
}


def command(kind: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs a server of a kind."""
    return (sys.executable, str(SERVER), kind, *arguments)


def job(kind: str, *, name: str = "", secrets: tuple[str, ...] = (), **more: Any) -> WorkerJob:
    """A job for a server of a kind; by default it is only started and listed."""
    env = more.pop("env", {})
    server = ServerSpec(
        name=name or kind,
        command=command(kind),
        shown=kind,
        secrets=secrets,
        env=env,
    )
    more = {"checks": False, "contract": False, "measure": False, "time": 60.0, **more}
    return WorkerJob(server=server, **more)


def write_fleet(folder: Path, *, time: float = 30.0) -> Path:
    """Write a fleet file with 30 servers, good and bad; return its path.

    They are in the states of `STATES` after a run.
    """
    lines = [
        "[fleet]",
        'name = "thirty servers"',
        "[defaults]",
        'revisions = ["2025-06-18"]',
        'only = ["ping", "tools", "jsonrpc"]',
        f"time = {time:g}",
        "patience = 1",
    ]
    for name in STATES:
        kind = name.rstrip("-0123456789")
        program, *arguments = command(kind)
        lines += [
            f"[mcpServers.{name}]",
            f"command = {json.dumps(program)}",
            f"args = {json.dumps(arguments)}",
        ]
        if kind == "needs-variable":
            lines.append('env = { FLEET_TEST_KEY = "${env:FLEET_TEST_KEY}" }')
    # These keep the checker busy.
    for name in ("many-tools", "flood-stdout"):
        lines += [f"[server.{name}]", f"time = {4 * time:g}"]
    path = folder / "accord-fleet.toml"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def marked_processes(mark: str) -> Iterator[int]:
    """The ids of processes that run with `FLEET_MARK` set to this."""
    wanted = f"{MARK}={mark}\0".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if wanted in environ + b"\0" and int(pid) != os.getpid():
            yield int(pid)


def words_of(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
