"""A server in several processes, started by a script or a command."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from support.command_line import PLAIN
from support.http_talk import BOTH, call, initialize
from support.listened import call_body, call_lines
from support.waiting import LONG, until_sync

SCRIPT = """\
import asyncio, os, signal, sys, time
from contextlib import asynccontextmanager
from pathlib import Path
from accord import Server

{before}

server = Server("desk"{settings})

@server.tool
async def pid() -> int:
    "Which process serves."
    return os.getpid()

@server.tool
async def slow(seconds: float) -> int:
    "Take a while."
    Path(os.environ["BEGUN"]).touch()
    await asyncio.sleep(seconds)
    return os.getpid()

@server.tool(inline=True)
def block(seconds: float) -> int:
    "Block the loop."
    Path(os.environ["BEGUN"]).touch()
    time.sleep(seconds)
    return 0

{after}
"""


class WorkerServer:
    """A server in several processes.

    Args:
        folder: where it finds its temporary folder.
        command: starts it.
        options: of the process.
    """

    def __init__(self, folder: Path, command: list[str], **options: Any) -> None:
        self.temporary = folder / "temporary"
        self.temporary.mkdir(exist_ok=True)
        self.begun = folder / "begun"
        self.lines: list[str] = []
        env = {**PLAIN, "TMPDIR": str(self.temporary), "BEGUN": str(self.begun)}
        self.process = subprocess.Popen(
            command,
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stderr=subprocess.PIPE,
            text=True,
            env=env | options.pop("env", {}),
            cwd=folder,
            **options,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(self.process.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        workers = self.workers()
        self.process.kill()
        self.process.wait()
        for pid in workers:  # which end by themselves, but not at once
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._reader.join(LONG)
        assert self.process.stderr is not None
        self.process.stderr.close()

    # -- what it says

    @property
    def said(self) -> str:
        return "".join(self.lines)

    def wait_for(self, text: str) -> str:
        """Return the line that contains a text, once it is there."""

        def find() -> str | None:
            found = next((line for line in list(self.lines) if text in line), None)
            ended = self.process.poll() is not None and not self._reader.is_alive()
            assert found or not ended, f"it ended without saying {text!r}: {self.said}"
            return found

        found: str = until_sync(find)
        return found

    @property
    def url(self) -> str:
        return self.wait_for(" is served at ").split(" is served at ")[1].split(",")[0]

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1].split("/")[0])

    # -- its processes

    def workers(self) -> set[int]:
        """The processes that it has started, as far as they run."""
        own = self.process.pid
        try:
            text = Path(f"/proc/{own}/task/{own}/children").read_text()
        except FileNotFoundError:
            return set()
        return {int(each) for each in text.split() if not is_gone(int(each))}

    def wait_for_workers(self, count: int, *, without: set[int] = frozenset()) -> set[int]:  # type: ignore[assignment]
        """Wait until so many others than these run, and no more; all of them serve."""
        try:
            found: set[int] = until_sync(lambda: self._settled(count, without))
        except AssertionError:
            raise AssertionError(
                f"not {count} workers without {without}, but {self.workers()}, of which "
                f"{self.serving(count)} serve: {self.said}"
            ) from None
        return found

    def _settled(self, count: int, without: set[int]) -> set[int] | None:
        found = self.workers()
        if len(found) != count or found & without:
            return None
        return found if self.serving(count) == found else None

    def serving(self, count: int) -> set[int]:
        """The processes that serve, as some more connections than processes meet them."""
        wires = [self.connect() for _ in range(2 * count + 2)]
        try:
            return {wire.call("pid") for wire in wires}
        finally:
            for wire in wires:
                wire.close()

    def connect(self) -> "CallingClient":
        return CallingClient(self.port)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(LONG)
        self._reader.join(LONG)
        return code


class CallingClient:
    """Calls tools on a connection, as long as the server keeps it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool with a request that stands on its own; return its result."""
        headers = dict(line.split(": ", 1) for line in call_lines(tool))
        answer, _ = self.post(call_body(tool, **arguments), **headers)
        return answer["result"]["structuredContent"]["result"]

    def post(self, body: bytes, **headers: str) -> tuple[Any, Any]:
        """Send a message; return the answer and the headers."""
        headers |= {"Content-Type": "application/json", "Accept": BOTH}
        response, text = self._ask("POST", "/mcp", body, headers)
        assert response.status == 200, (response.status, text)
        return json.loads(text), response.headers

    def get(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body of a response."""
        response, text = self._ask("GET", path, None, {})
        return response.status, text

    def _ask(self, *request: Any) -> tuple[http.client.HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=LONG)
        self._connection.request(*request)
        response = self._connection.getresponse()
        text = response.read()
        if response.will_close:
            self.close()
        return response, text

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class CallingLoop(threading.Thread):
    """Calls a tool again and again, and notes which process answers and what fails.

    Args:
        port: of the server.
        kind: "alone" for requests that stand on their own, "session" for those of one session,
            "sessions" for a new session each time.
    """

    def __init__(self, port: int, kind: str = "alone") -> None:
        super().__init__(daemon=True)
        self._client = CallingClient(port)
        self._kind = kind
        self._session: dict[str, str] = {}
        self._is_over = False
        self.answers: list[int] = []
        self.failures: list[BaseException] = []

    def run(self) -> None:
        while not self._is_over:
            try:
                self.answers.append(self._call())
            except Exception as error:  # whatever it is, a client would see it
                self.failures.append(error)
                self._client.close()
            time.sleep(0.002)

    def _call(self) -> Any:
        if self._kind == "alone":
            return self._client.call("pid")
        if self._kind == "sessions" or not self._session:
            _, headers = self._client.post(json.dumps(initialize()).encode())
            self._session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
        answer, _ = self._client.post(json.dumps(call(1, "pid")).encode(), **self._session)
        return answer["result"]["structuredContent"]["result"]

    def finish(self) -> None:
        self._is_over = True
        self.join(LONG)
        self._client.close()


def is_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def run_script(
    folder: Path,
    *,
    before: str = "",
    settings: str = "",
    run: str = "port=0, workers=2",
    **options: Any,
) -> WorkerServer:
    """Start a script that calls `server.run`."""
    after = f'if __name__ == "__main__":\n    server.run("http", {run})'
    text = SCRIPT.format(before=before, settings=settings, after=after)
    (folder / "desk.py").write_text(text)
    return WorkerServer(folder, [sys.executable, "desk.py"], **options)
