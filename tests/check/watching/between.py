"""A host on one side and a server on the other, with `accord watch` between them."""

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager

from accord_tools.watch.stdio_relay import watch_command
from accord_tools.watch.watcher import Watcher
from support.waiting import LONG

PYTHON = [sys.executable, "-S", "-E", "-c"]
WATCH = [sys.executable, "-m", "accord.cli.main", "watch"]
ECHO = [
    *PYTHON,
    "import os, sys\nwhile d := os.read(0, 65536): sys.stdout.buffer.write(d); sys.stdout.flush()",
]
# Answers each line in turn with the next of its arguments.
SCRIPTED = [
    *PYTHON,
    "import sys\nfor line, answer in zip(sys.stdin, sys.argv[1:]): print(answer, flush=True)",
]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "host", "version": "1"},
    },
}
OPENED = {
    "jsonrpc": "2.0",
    "id": 1,
    "result": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


def line(message):
    return json.dumps(message).encode() + b"\n"


@contextmanager
def watched(command, **options):
    """Watch a command in a thread of this process; yields the host's ends and the watcher."""
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    watcher = Watcher("it", **options)
    ended = []
    thread = threading.Thread(
        target=lambda: ended.append(
            watch_command(command, watcher, stdin=in_read, stdout=out_write)
        ),
        daemon=True,
    )
    thread.start()
    host = Host(in_write, out_read)
    try:
        yield host, watcher
        host.close_input()
        thread.join(LONG)
        assert not thread.is_alive()
        host.code = ended[0]
        watcher.close()
    finally:
        host.close()
        for file in (in_read, out_write):
            os.close(file)


class Host:
    """The host's ends of the pipes."""

    def __init__(self, write, read):
        self._write = write
        self._read = read
        self.code = None

    def say(self, data):
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._write, rest) :]

    def say_later(self, data):
        """Say it while another thread reads: a pipe holds little."""

        def work():
            self.say(data)
            self.close_input()

        threading.Thread(target=work, daemon=True).start()

    def hear(self, size):
        parts = bytearray()
        while len(parts) < size and (chunk := os.read(self._read, 65536)):
            parts += chunk
        return bytes(parts)

    def hear_all(self):
        return self.hear(1 << 60)

    def close_input(self):
        # Taken first: a later writer closes it too, and its number may be another's then.
        write, self._write = self._write, None
        if write is not None:
            os.close(write)

    def close_output(self):
        read, self._read = self._read, None
        if read is not None:
            os.close(read)

    def close(self):
        self.close_input()
        self.close_output()


def launched(*words, **options):
    """Launch `accord watch` as a host does."""
    return subprocess.Popen(
        [*WATCH, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )
