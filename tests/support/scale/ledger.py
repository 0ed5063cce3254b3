"""What the tools of all workers did, in one file: a line for each step, written in one piece.

A line is written before the step is taken. So what a client saw is in the ledger, whatever happens
to the worker, and a line that no client saw is at most the last one of a worker that was lost.
"""

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

MARK = "mark"
"""Where the events of a tool say which step of which run of which call they are."""


class Step(NamedTuple):
    """One step of a run of a tool.

    Attributes:
        key: names the call; the client chose it.
        run: names the run: a handler that runs again for the same call has another.
        pid: of the worker.
        what: `begin`, `send`, `ask`, `answer`, `cancel`, `end`.
        value: the number of what is sent, or the answer that was received.
        at: by the clock that all processes of a machine share.
    """

    key: str
    run: str
    pid: int
    what: str
    value: Any
    at: float


class LedgerWriter:
    """Writes steps; each process has its own."""

    def __init__(self, path: str | Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._pid = os.getpid()
        self._runs = 0

    def begin(self, key: str) -> "Run":
        """Note that a handler runs for a call."""
        self._runs += 1
        return Run(self, key, f"{self._pid}.{self._runs}")

    def write(self, key: str, run: str, what: str, value: Any) -> None:
        line = json.dumps([key, run, self._pid, what, value, time.monotonic()])
        os.write(self._file, line.encode() + b"\n")


class Run:
    """One run of a handler."""

    def __init__(self, ledger: LedgerWriter, key: str, name: str) -> None:
        self._ledger = ledger
        self.key = key
        self.name = name
        self.note("begin")

    def note(self, what: str, value: Any = None) -> None:
        self._ledger.write(self.key, self.name, what, value)

    def mark(self, number: int) -> str:
        """Note that something is sent, and return the text that says so to the client."""
        self.note("send", number)
        return f"{self.key}|{self.name}|{number}"


class Mark(NamedTuple):
    """What an event of a tool says about itself."""

    key: str
    run: str
    number: int


def parse_mark(text: object) -> Mark | None:
    """Return what an event says about itself; None if it says nothing."""
    if not isinstance(text, str) or text.count("|") != 2:
        return None
    key, run, number = text.split("|")
    return Mark(key, run, int(number))


class Ledger:
    """Reads what all workers wrote; each line once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._offset = 0
        self._steps: dict[str, list[Step]] = {}
        self.count = 0

    def by_key(self) -> dict[str, list[Step]]:
        """Return the steps so far of each call, in the order in which they were written."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]  # the last line may be half written
        self._offset += len(whole)
        for line in whole.splitlines():
            step = Step(*json.loads(line))
            self._steps.setdefault(step.key, []).append(step)
            self.count += 1
        return self._steps

    def steps(self, key: str) -> list[Step]:
        """Return the steps so far of one call."""
        return self.by_key().get(key, [])

    def has(self, key: str, what: str) -> bool:
        """Whether a call has taken a step of this kind."""
        return any(step.what == what for step in self.steps(key))

    def forget(self, keys: Iterable[str]) -> None:
        """Let go of the steps of calls that are over."""
        for key in keys:
            self._steps.pop(key, None)
