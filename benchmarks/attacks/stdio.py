"""Attacks on a server over stdio: what each costs in memory, and how long pings take meanwhile.

Each attack runs against a server process of its own. Growth of its memory is held against 64 MB,
the 99th percentile of pings on the same connection against 100 ms; both are shown as ratios, and
anything above 1 fails. Run with `serve`, this file is the server.
"""

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from measure import OPENED, OPENING, memory_of, request

GROWTH_MOST: Final = 64.0
PING_MOST: Final = 0.1
PATIENCE: Final = 60.0
PINGS: Final = 300


def serve() -> None:
    """Be the server that is attacked."""
    from accord import Server

    server: Server[None] = Server("attacked")

    @server.tool(inline=True)
    def much() -> str:
        """Return much for little."""
        return "x" * 500_000

    @server.tool
    def much_in_thread() -> str:
        """The same in a thread."""
        return "x" * 500_000

    @server.tool
    def stop() -> str:
        """Raise what no future takes."""
        raise StopIteration

    @server.tool
    def block() -> str:
        """Block a thread for a long time."""
        time.sleep(600)
        return "late"

    server.run()


@dataclass
class Victim:
    """The server under attack, and what its connection has brought so far."""

    pings: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._rest = b""
        self.send(OPENING)
        self.until(b'"open"')
        self.send(OPENED)
        self._sent = 0
        self.ping()
        self.pings.clear()
        self.before = self.most = memory_of(self.process.pid)
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def _look(self) -> None:
        while not self._ended.wait(0.01):
            self.most = max(self.most, memory_of(self.process.pid))

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._in, view) :]

    def press(self, data: bytes, seconds: float) -> None:
        """Send as much as the server takes in some seconds, without reading anything."""
        os.set_blocking(self._in, False)
        view, end = memoryview(data), time.monotonic() + seconds
        while time.monotonic() < end:
            if view and select.select([], [self._in], [], 0.05)[1]:
                view = view[os.write(self._in, view) :]
            else:
                time.sleep(0.01)
        os.set_blocking(self._in, True)

    def until(self, mark: bytes) -> None:
        """Read until a line that holds this has come."""
        end = time.monotonic() + PATIENCE
        while mark not in self._rest:
            if not select.select([self._out], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"no {mark!r} within {PATIENCE:g} s")
            self._rest = self._rest.rpartition(b"\n")[2] + os.read(self._out, 1 << 20)
        self._rest = self._rest.rpartition(b"\n")[2]

    def ping(self) -> None:
        """Ask for a sign of life, and note how long it takes."""
        self._sent += 1
        name = f"ping-{self._sent}"
        began = time.perf_counter()
        self.send(json.dumps({"jsonrpc": "2.0", "id": name, "method": "ping"}).encode() + b"\n")
        self.until(f'"{name}"'.encode())
        self.pings.append(time.perf_counter() - began)

    def close(self) -> None:
        self._ended.set()
        self._watch.join()
        self.process.kill()
        self.process.wait()


def calls(tool: str, count: int, first: int = 1) -> Iterable[bytes]:
    params: Any = {"name": tool, "arguments": {}}
    return (request(first + number, "tools/call", params) for number in range(count))


def unread(victim: Victim) -> None:
    """A thousand calls in one write whose answers have 500 KB each; nothing is read."""
    victim.press(b"".join(calls("much", 1_000)), 3)


def unread_threads(victim: Victim) -> None:
    """The same of a tool that runs in threads."""
    victim.press(b"".join(calls("much_in_thread", 1_000)), 3)


def flood(victim: Victim) -> None:
    """Pings with ids of 20 KB; nothing is read."""
    padding = "x" * 20_000
    ping = {"jsonrpc": "2.0", "method": "ping"}
    lines = (json.dumps({**ping, "id": f"{number}{padding}"}) for number in range(4_000))
    victim.press("\n".join(lines).encode(), 5)


def oversized(victim: Victim) -> None:
    """Lines of 20 MB, each with its id at the end, and pings between them."""
    large = b'{"params":{"text":"%b"},"method":"tools/call","id":"last"}\n' % (b"x" * 20_000_000)
    for _ in range(5):
        victim.send(large)
        victim.until(b'"last"')
        for _ in range(PINGS // 5):
            victim.ping()


def stop_iterations(victim: Victim) -> None:
    """Three thousand calls that raise StopIteration, and pings between them."""
    for turn in range(PINGS):
        victim.send(b"".join(calls("stop", 10, first=turn * 10)))
        victim.ping()
    victim.send(b"".join(calls("stop", 1, first=900_000)))
    victim.until(b"900000")


def blocked(victim: Victim) -> None:
    """Every thread is held by a call that was cancelled; a sync tool is served all the same."""
    victim.send(b"".join(calls("block", 32)))
    for number in range(1, 33):
        cancel = {"method": "notifications/cancelled", "params": {"requestId": number}}
        victim.send(json.dumps({"jsonrpc": "2.0", **cancel}).encode() + b"\n")
    for _ in range(PINGS):
        victim.ping()
    victim.send(b"".join(calls("stop", 1, first=900_000)))
    victim.until(b"900000")


ATTACKS: Final[dict[str, Callable[[Victim], None]]] = {
    "answers that are not read": unread,
    "the same, from threads": unread_threads,
    "pings that are not read": flood,
    "lines of 20 MB": oversized,
    "3,000 StopIterations": stop_iterations,
    "32 threads held": blocked,
}


def main() -> int:
    """Run every attack and return 1 if one costs too much."""
    print(f"{'':28}{'MB':>8}{'of 64':>8}{'p99 ms':>9}{'of 100':>8}")
    is_fine = True
    for name, attack in ATTACKS.items():
        victim = Victim()
        try:
            attack(victim)
        finally:
            victim.close()
        growth = victim.most - victim.before
        line = f"{name:28}{growth:8.1f}{growth / GROWTH_MOST:8.2f}"
        is_fine &= growth <= GROWTH_MOST
        if victim.pings:
            slow = sorted(victim.pings)[int(len(victim.pings) * 0.99)]
            line += f"{slow * 1e3:9.1f}{slow / PING_MOST:8.2f}"
            is_fine &= slow <= PING_MOST
        print(line, flush=True)
    return 0 if is_fine else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    else:
        sys.exit(main())
