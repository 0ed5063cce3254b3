"""Logs of accord are written by a thread while a server runs."""

import logging
import logging.config
import threading
from typing import Any

import pytest

from accord.server.serving import log_in_background
from support.waiting import LONG, until_sync

log = logging.getLogger("accord.test")


class Gate(logging.Handler):
    """A handler that blocks until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.lines: list[str] = []
        self.threads: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        assert self.gate.wait(LONG)
        self.lines.append(self.format(record))
        self.threads.add(threading.current_thread().name)


@pytest.fixture(params=["root", "accord"])
def gate(request: Any) -> Any:
    handler = Gate()
    logger = logging.getLogger("" if request.param == "root" else "accord")
    logger.addHandler(handler)
    yield handler
    handler.gate.set()
    logger.removeHandler(handler)


def test_lines_that_cannot_be_written_are_dropped_and_counted(gate: Gate) -> None:
    with log_in_background():
        for number in range(1_500):
            log.warning("line %d", number)
        gate.gate.set()
        until_sync(lambda: any("dropped" in line for line in gate.lines))
    assert gate.threads == {"accord-log"}
    assert gate.lines[:1_000] == [f"line {number}" for number in range(1_000)]
    assert gate.lines[1_000] == ("500 log lines were dropped because stderr was not read")


def test_handlers_are_restored_afterwards(gate: Gate) -> None:
    gate.gate.set()
    logger = logging.getLogger("accord")
    before = logger.handlers[:], logger.propagate
    with log_in_background():
        log.warning("in between")
    assert (logger.handlers[:], logger.propagate) == before
    assert gate.lines == ["in between"]
    log.warning("afterwards")
    assert gate.lines == ["in between", "afterwards"]
    assert gate.threads == {"accord-log", threading.current_thread().name}


def test_levels_of_handlers_count(gate: Gate) -> None:
    gate.gate.set()
    gate.setLevel(logging.ERROR)
    with log_in_background():
        log.warning("left out")
        log.error("kept")
    assert gate.lines == ["kept"]


def test_configuring_logging_meanwhile_loses_no_line(gate: Gate) -> None:
    gate.gate.set()
    with log_in_background():
        log.warning("before")
        logging.getLogger("accord").handlers[0].close()
        log.warning("after")
    assert gate.lines == ["before", "after"]
