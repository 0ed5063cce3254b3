"""A server as a child process, spoken to line by line: the client's side of stdio."""

import asyncio
import logging
import os
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from accord.protocol.exchange import Exchange
from accord.runtime.wire import Lost, Receive, WireListener
from accord.stdio.child import Child, StderrSink
from accord.stdio.lines import LINE_LIMIT, LineReader, LineTooLong
from accord.stdio.pipes import HIGH_WATER, Pipes

log = logging.getLogger("accord.client")

INHERITED: Final = frozenset(
    """
    APPDATA COMSPEC HOME HOMEDRIVE HOMEPATH LANG LANGUAGE LC_ALL LC_CTYPE LOCALAPPDATA LOGNAME
    NUMBER_OF_PROCESSORS PATH PATHEXT PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES SHELL
    SSL_CERT_DIR SSL_CERT_FILE SYSTEMDRIVE SYSTEMROOT TEMP TERM TMP TMPDIR TZ USER USERNAME
    USERPROFILE VIRTUAL_ENV WINDIR XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME
    """.split()  # noqa: SIM905  # one name a line would fill a page
)
"""The variables a server inherits: where things are and how to talk, no keys and no tokens."""

# How much of stderr the reason of an end quotes.
_QUOTED: Final = 200
# A server that asks without reading the answers is not read from beyond this. It is far more than
# what makes an honest server stop reading, so that the two never wait for each other.
ANSWERS_MOST: Final = 16 * 1024 * 1024


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a server: the harmless part of our own, and the extra ones."""
    kept = {
        name: value
        for name, value in os.environ.items()
        # A value that starts like this is a function exported by bash, which a shell would run.
        if name.upper() in INHERITED and not value.startswith("()")
    }
    return {**kept, **(extra or {})}


class Process:
    """The wire to a server that runs as a child process.

    Args:
        command: program and arguments.
        env: variables in addition to the inherited ones (`INHERITED`), which they override.
        cwd: the folder it runs in.
        stderr: what happens to its lines on stderr: kept for error messages alone, forwarded to
            our own stderr as well, or passed to a function.
        exit_grace: seconds to exit by itself after its input has ended.
        terminate_grace: seconds from SIGTERM to SIGKILL.
        line_limit: the longest message in bytes.

    Attributes:
        child: the process.
        has_spoken: whether it has written anything to stdout.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stderr: StderrSink = "keep",
        exit_grace: float = 2.0,
        terminate_grace: float = 2.0,
        line_limit: int = LINE_LIMIT,
    ) -> None:
        self.has_spoken = False
        self.child = Child(
            command,
            env=environment(env),
            cwd=cwd,
            on_output=self._on_output,
            on_end=self._on_end,
            stderr=stderr,
        )
        self._exit_grace = exit_grace
        self._terminate_grace = terminate_grace
        self._lines = LineReader(line_limit)
        self._pipes: Pipes | None = None
        self._receive: Receive
        self._lost: Lost
        self._listener: WireListener | None = None
        # Bytes ever queued; for each answer among them, where it ends and how long it is.
        self._queued = 0
        self._answers: deque[tuple[int, int]] = deque()
        self._unread = 0
        self._resuming: asyncio.Task[None] | None = None

    def report_to(self, listener: WireListener) -> None:
        self._listener = listener

    async def open(self, receive: Receive, lost: Lost) -> None:
        self._receive, self._lost = receive, lost
        self.child.start()
        self._pipes = self.child.pipes

    # -- reading

    def _on_output(self, chunk: bytes) -> None:
        self.has_spoken = True
        receive = self._receive
        for line in self._lines.feed(chunk):
            if line.__class__ is bytes:
                receive(line)
            else:
                self._drop(line)  # type: ignore[arg-type]  # the only other class

    def _drop(self, line: LineTooLong) -> None:
        log.warning("%s: %s", self.child.command[0], line)
        if self._listener is not None:
            self._listener.message_dropped(line)

    def _on_end(self, reason: str) -> None:
        last = self._lines.end()
        if last is not None:
            self._receive(last)
        quote = self.child.stderr.summarize(_QUOTED)
        self._lost(f"the server {reason}" + (f"; it said: {quote}" if quote else ""))

    # -- writing

    @property
    def is_congested(self) -> bool:
        pipes = self._pipes
        return pipes is not None and pipes.unsent > HIGH_WATER

    def write(self, data: bytes, exchange: Exchange | None = None) -> None:
        """Send one message; only answers belong to an exchange."""
        pipes = self._pipes
        if pipes is None:
            return
        pipes.write(data + b"\n")
        self._queued += len(data) + 1
        if exchange is not None:
            self._count_answer(pipes, len(data) + 1)

    def _count_answer(self, pipes: Pipes, size: int) -> None:
        """Stop reading a server that does not read the answers to its requests.

        Our own requests do not count: callers wait before they send more, and a server that is
        slow to read them may be waiting until its answers are read.
        """
        self._answers.append((self._queued, size))
        self._unread += size
        sent = self._queued - pipes.unsent
        while self._answers and self._answers[0][0] <= sent:
            self._unread -= self._answers.popleft()[1]
        if self._unread > ANSWERS_MOST and self._resuming is None:
            log.warning("%s does not read the answers to its requests", self.child.command[0])
            loop = asyncio.get_running_loop()
            self._resuming = loop.create_task(self._pause_until_read())

    async def _pause_until_read(self) -> None:
        self.child.pause_output()
        await self.child.writable()
        self.child.resume_output()
        self._resuming = None

    async def writable(self) -> None:
        await self.child.writable()

    # -- ending

    async def close(self) -> None:
        """End the input, wait, then terminate, then kill; all children are gone afterwards."""
        try:
            await self.child.stop(
                exit_grace=self._exit_grace, terminate_grace=self._terminate_grace
            )
        finally:
            self._pipes = None

    def abort(self) -> None:
        self._pipes = None
        self.child.abort()
