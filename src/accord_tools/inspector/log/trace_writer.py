"""Writes the rows of a session to trace files while they come, one file for each connection."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from accord import trace
from accord.testing.recording import create_next
from accord_tools.inspector.log.entry import LogEntry

# Seconds after which written rows reach the file.
_FLUSHING: Final = 0.5


class TraceWriter:
    """The trace files of a session: the first has the given name, others `name-2` and so on.

    Args:
        path: of the first file; one that exists is left alone.
        report: called with what went wrong; a full disk ends the recording only.

    Raises:
        OSError: the file cannot be created.
    """

    def __init__(self, path: Path, report: Callable[[str], None]) -> None:
        self._path = path
        self._report = report
        # None in place of a file that has ended or cannot be written.
        self._files: dict[str, tuple[int, IO[bytes] | None]] = {}
        self._is_flushing = False
        # Created first, so that an unwritable folder is reported at once.
        chosen, self._first = create_next(path)
        self._first_name = chosen
        self.name = chosen.name
        self._is_used = False
        self._is_closed = False

    def write(self, entry: LogEntry) -> None:
        """Write a row; not after the end, when a connection may still say something."""
        if self._is_closed:
            return
        try:
            file = self._file_for(entry)
            if file is not None:
                trace.write(file, entry.to_record())
                self._flush_soon()
        except (OSError, ValueError) as error:
            self._give_up(entry.conversation, entry.part, error)

    def _give_up(self, conversation: str, part: int, error: OSError | ValueError) -> None:
        """Record no more of a connection."""
        _, file = self._files.get(conversation, (0, None))
        self._files[conversation] = (part, None)
        if file is not None:
            with suppress(OSError, ValueError):
                file.close()
        why = getattr(error, "strerror", None) or str(error)
        self._report(f"the recording ended early: {why}")

    def _file_for(self, entry: LogEntry) -> IO[bytes] | None:
        part, file = self._files.get(entry.conversation, (0, None))
        if entry.part < part:
            return None  # a connection that has ended still says something
        if part != entry.part:
            self.end(entry.conversation)
            if self._is_used:
                chosen, file = create_next(self._path)
                self.name = chosen.name if entry.conversation == "main" else self.name
            else:
                self._is_used, file = True, self._first
            self._files[entry.conversation] = (entry.part, file)
        return file

    def _flush_soon(self) -> None:
        if self._is_flushing:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._flush()
            return
        self._is_flushing = True
        loop.call_later(_FLUSHING, self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        for name, (part, file) in list(self._files.items()):
            try:
                if file is not None:
                    file.flush()
            except (OSError, ValueError) as error:
                self._give_up(name, part, error)

    def end(self, conversation: str) -> None:
        """Close the file of a connection that ended."""
        part, file = self._files.get(conversation, (0, None))
        self._files[conversation] = (part, None)
        if file is not None:
            try:
                file.close()
            except OSError as error:
                self._report(f"the recording ended early: {error.strerror or error}")

    def close(self) -> None:
        """Close all files; one without a message is removed. May be repeated."""
        if self._is_closed:
            return
        self._is_closed = True
        for name in list(self._files):
            self.end(name)
        if not self._is_used:
            self._first.close()
            if self._first_name.is_file():
                self._first_name.unlink()
