"""Connections that carry what a person typed: bytes go out as they are, no rule is applied."""

import asyncio
import re
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

from accord.client.server_spec import ServerSpec
from accord.errors import ConnectFailed
from accord.stdio.child import Child
from accord.trace import HttpFacts, Party, Transport
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.target_access import launch_environment

HttpMethod: TypeAlias = Literal["POST", "GET", "DELETE"]
HeaderChanges: TypeAlias = Sequence[tuple[str, str | None]]
"""Headers to set, or with None to leave out."""

LINE_MOST: Final = 64 * 1024 * 1024
"""The longest line of a server that is read."""
# How long a launched server may take to end by itself, and after SIGTERM.
_EXIT_GRACE: Final = 0.5
_TERMINATE_GRACE: Final = 2.0
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]{0,8192}")
# These describe how the body is sent.
_OWN_HEADERS: Final = frozenset({"content-length", "transfer-encoding"})


class LineListener(Protocol):
    """Hears everything that travels on a line."""

    def observe(self, sender: Party, data: bytes | None, http: HttpFacts | None = None) -> None:
        """Take what a party sent."""

    def add_stderr(self, line: str) -> None:
        """Take a line that a launched server wrote to stderr."""

    def end(self, reason: str) -> None:
        """Take the end of the line, which its server brought about."""

    def report(self, problem: str) -> None:
        """Take a problem with one message."""


class RawLine(Protocol):
    """A connection without rules."""

    transport: Transport

    async def open(self) -> None:
        """Make the connection.

        Raises:
            ConnectFailed: it could not be made.
        """

    async def send(
        self, data: bytes, headers: HeaderChanges = (), method: HttpMethod = "POST"
    ) -> None:
        """Send bytes as they are.

        Raises:
            ActionRefused: they cannot be sent.
        """

    def agree(self, revision: str) -> None:
        """Send the headers that a revision asks for, from now on."""

    async def close(self) -> None:
        """End the connection within a bounded time."""


class StdioLine:
    """A second process of the server, spoken to through its pipes."""

    transport: Transport = "stdio"

    def __init__(self, target: ServerSpec, listener: LineListener) -> None:
        self._listener = listener
        self._rest = bytearray()
        self._child = Child(
            target.command,
            env=launch_environment(target),
            cwd=target.cwd,
            on_output=self._on_output,
            on_end=self._on_end,
            stderr=listener.add_stderr,
        )

    async def open(self) -> None:
        """Launch the server."""
        self._child.start()

    def _on_output(self, chunk: bytes) -> None:
        rest = self._rest
        rest += chunk
        if b"\n" in chunk:
            *lines, last = bytes(rest).split(b"\n")
            rest[:] = last
            for line in lines:
                self._listener.observe("server", line.removesuffix(b"\r"))
        if len(rest) > LINE_MOST:
            self._listener.observe("server", bytes(rest[:1000]))
            rest.clear()
            self._listener.report(f"the server wrote a line of more than {LINE_MOST} bytes")

    def _on_end(self, reason: str) -> None:
        if self._rest:
            self._listener.observe("server", bytes(self._rest))
            self._rest.clear()
        self._listener.end(f"the server {reason}")

    async def send(
        self, data: bytes, headers: HeaderChanges = (), method: HttpMethod = "POST"
    ) -> None:
        """Write the bytes and a line end; the server reads each line of them as a message."""
        if headers or method != "POST":
            raise ActionRefused("headers and methods belong to HTTP; this connection is stdio")
        if not self._child.has_open_input:
            raise ActionRefused("the server no longer reads its input; open the connection again")
        for line in data.split(b"\n"):
            self._listener.observe("client", line)
        self._child.write(data + b"\n")

    def agree(self, revision: str) -> None:
        """Do nothing: over stdio a revision asks for no headers."""

    async def close(self) -> None:
        """End the process and all that it started."""
        await self._child.stop(exit_grace=_EXIT_GRACE, terminate_grace=_TERMINATE_GRACE)


def change_headers(headers: Mapping[str, str], changes: HeaderChanges) -> dict[str, str]:
    """Return headers with some set or left out.

    Raises:
        ActionRefused: a name or a value cannot be sent, or it describes how the body is sent.
    """
    found = {name.lower(): value for name, value in headers.items()}
    for given, value in changes:
        name = given.strip().lower()
        if not _NAME.fullmatch(name):
            raise ActionRefused(f"{given[:80]!r} cannot be the name of a header", field="headers")
        if name in _OWN_HEADERS:
            raise ActionRefused(f"{name} follows from the body and cannot be set", field="headers")
        found.pop(name, None)
        if value is not None:
            if not _VALUE.fullmatch(value):
                raise ActionRefused(
                    f"the value of {name} has characters that HTTP cannot send", field="headers"
                )
            found[name] = value
    return found


class TaskSet:
    """Tasks of one connection, cancelled together."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run something until it ends, or all are cancelled."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def cancel(self, seconds: float) -> None:
        """Cancel all, and wait for their ends for at most so long."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)


__all__ = [
    "ConnectFailed",
    "HeaderChanges",
    "HttpMethod",
    "LineListener",
    "RawLine",
    "StdioLine",
    "TaskSet",
    "change_headers",
]
