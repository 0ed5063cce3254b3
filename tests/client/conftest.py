import json
import sys
import time
from pathlib import Path

import pytest

from support.running import run_to_the_end

SERVER = Path(__file__).parent / "wayward_server.py"
BOUND = 120


@pytest.fixture
def wayward():
    """The command of a server that behaves as its arguments say."""

    def command(**config):
        return [sys.executable, str(SERVER), json.dumps(config)]

    return command


@pytest.fixture
def run():
    """Run a coroutine as `run_to_the_end`."""
    return run_to_the_end


@pytest.fixture
def eventually():
    """Wait, within a bounded time, for something that other processes bring about."""

    def wait(happened):
        deadline = time.monotonic() + BOUND
        while time.monotonic() < deadline:
            if happened():
                return True
            time.sleep(0.01)
        return False

    return wait


@pytest.fixture
def is_running():
    """Tell whether a process runs; one that is dead but unburied does not."""

    def running(pid):
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return False
        return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")

    return running
