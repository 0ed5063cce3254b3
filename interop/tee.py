"""Stand between a client and the server it launches; change nothing, record everything.

    python tee.py TRACE COMMAND...

The bytes of the pipes are copied as they come. Every line is written to TRACE before it travels on,
so that a question always stands before its answer. When the server has ended, its exit status and
the signal that was sent to it (if any) are written to TRACE with the ending `.exit`.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from accord.trace import Party, Record, write

CHUNK: Final = 64 * 1024
# A server that neither ends nor closes its output after this is ended by us.
LAST_WORDS: Final = 10.0


class Recorder:
    """Cuts the bytes of both directions into lines and writes them down in one order."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115  # lives as long as the process
        self._lock = threading.Lock()
        self._rest: dict[Party, bytes] = {"client": b"", "server": b""}
        self._start = time.monotonic()

    def take(self, sender: Party, chunk: bytes) -> None:
        """Write down the lines that this chunk completes."""
        with self._lock:
            *lines, self._rest[sender] = (self._rest[sender] + chunk).split(b"\n")
            for line in lines:
                self._write(sender, line)

    def end(self, sender: Party) -> None:
        """Write down what came without a newline."""
        with self._lock:
            line, self._rest[sender] = self._rest[sender], b""
            if line:
                self._write(sender, line)

    def _write(self, sender: Party, line: bytes) -> None:
        when = round(time.monotonic() - self._start, 6)
        try:
            msgspec.json.decode(line)
            record = Record(sender=sender, t=when, message=msgspec.Raw(line))
        except (msgspec.DecodeError, UnicodeDecodeError):
            text = line.decode("utf-8", "surrogateescape")
            record = Record(sender=sender, t=when, raw=text)
        write(self._file, record)


def copy(source: int, sink: IO[bytes], sender: Party, recorder: Recorder) -> None:
    """Copy until the end of the source, then close the sink."""
    with contextlib.suppress(OSError):
        while chunk := os.read(source, CHUNK):
            recorder.take(sender, chunk)
            sink.write(chunk)
            sink.flush()
    recorder.end(sender)
    with contextlib.suppress(OSError):
        sink.close()


def main() -> int:
    path, *command = sys.argv[1:]
    recorder = Recorder(path)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    signals: list[int] = []

    def forward(number: int, _: Any) -> None:
        signals.append(number)
        process.send_signal(number)

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, forward)
    towards_server = threading.Thread(
        target=copy, args=(0, process.stdin, "client", recorder), daemon=True
    )
    towards_client = threading.Thread(
        target=copy,
        args=(process.stdout.fileno(), sys.stdout.buffer, "server", recorder),
        daemon=True,
    )
    towards_server.start()
    towards_client.start()
    status = process.wait()
    towards_client.join(LAST_WORDS)
    facts = {"status": status, "signals": signals}
    Path(f"{path}.exit").write_text(json.dumps(facts), encoding="utf-8")
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    # The thread that reads our input cannot be stopped, and nothing is left to write.
    os._exit(main())
