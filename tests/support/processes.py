"""A server as a real process, spoken to in bytes."""

import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from support.waiting import LONG, until_sync

OPENING = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bytes", "version": "1"},
}


class Child:
    """A process whose stdout is read by lines and whose stderr is kept, both in threads."""

    def __init__(self, *command: str | Path, reading: bool = True, **options: Any) -> None:
        options.setdefault("stdin", subprocess.PIPE)
        self.process = subprocess.Popen(
            [os.fspath(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            **options,
        )
        self.lines: queue.Queue[bytes | None] = queue.Queue()
        self.output: list[bytes] = []
        self.stderr = ""
        self._answers: dict[Any, Any] = {}
        self._threads = [threading.Thread(target=self._drain, daemon=True)]
        if reading:
            self._threads.append(threading.Thread(target=self._read, daemon=True))
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(2)  # in good order, so that its coverage is known
        self.process.kill()
        self.process.wait(LONG)
        for thread in self._threads:
            thread.join(LONG)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def _drain(self) -> None:
        assert self.process.stderr is not None
        while chunk := self.process.stderr.read(65536):
            self.stderr += chunk.decode(errors="replace")

    def _read(self) -> None:
        assert self.process.stdout is not None
        pending: list[bytes] = []
        while chunk := os.read(self.process.stdout.fileno(), 1 << 20):
            *whole, rest = chunk.split(b"\n")
            for part in whole:
                line = b"".join([*pending, part])
                pending.clear()
                self.output.append(line)
                self.lines.put(line)
            pending.append(rest)
        self.lines.put(None)

    def start_reading(self) -> None:
        """Read stdout from now on."""
        thread = threading.Thread(target=self._read, daemon=True)
        self._threads.append(thread)
        thread.start()

    # -- speaking

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def send(self, *messages: Any) -> None:
        """Send messages, one a line."""
        self.write(b"".join(json.dumps(each).encode() + b"\n" for each in messages))

    def request(self, id: Any, method: str, params: Any = None) -> None:
        """Send a request."""
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        self.send(message if params is None else {**message, "params": params})

    def call(self, id: Any, tool: str, **arguments: Any) -> None:
        """Call a tool."""
        self.request(id, "tools/call", {"name": tool, "arguments": arguments})

    def receive(self) -> Any:
        """Wait for the next message; None at the end of the output."""
        line = self.lines.get(timeout=LONG)
        return None if line is None else json.loads(line)

    def answer_to(self, id: Any) -> Any:
        """Wait for the answer with this id; others are kept for later calls."""
        while id not in self._answers:
            message = self.receive()
            assert message is not None, f"no answer to {id!r}; stderr: {self.stderr}"
            if isinstance(message, dict) and "method" not in message:
                self._answers[message.get("id")] = message
        return self._answers.pop(id)

    def open(self, revision: str = "2025-06-18") -> Self:
        """Shake hands."""
        self.request("open", "initialize", {**OPENING, "protocolVersion": revision})
        assert self.answer_to("open")["result"]["protocolVersion"] == revision
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    # -- ending

    def close_input(self) -> None:
        """End its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self) -> int:
        """Wait for its end and return the exit code; stderr is complete afterwards."""
        code = self.process.wait(LONG)
        for thread in self._threads:
            thread.join(LONG)
        return code

    def until_stderr(self, text: str) -> None:
        """Wait until it has written something to stderr."""
        until_sync(lambda: text in self.stderr)

    def memory(self, which: str = "VmRSS") -> float:
        """Its memory in MB: `VmRSS` now, `VmHWM` at most so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith(which))
        return int(line.split()[1]) / 1024


def python(file: Path, *arguments: str) -> tuple[str, ...]:
    """The command that runs a file."""
    return (sys.executable, str(file), *arguments)


def accord_run(file: Path, *arguments: str) -> tuple[str, ...]:
    """The command that serves a file by `accord run`."""
    return (sys.executable, "-m", "accord.cli.main", "run", str(file), *arguments)
