"""Run tests many times beside busy loops, to find out which are unsteady.

    .venv/bin/python tools/repeat.py --times 200 --busy 2 tests/cli/test_inspect.py -k ends
    .venv-interop/bin/python tools/repeat.py interop/test_inspect_run.py -k ends

Prints how often each test failed, and the failures. The exit code is 1 if any did.
"""

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

# Ends by itself if this process cannot end it.
_BUSY = "import os\nwhile os.getppid() == {parent}: pass"


class Repeat:
    """The plugin that runs each test several times and counts what failed."""

    def __init__(self, times: int) -> None:
        self._times = times
        self.failures: Counter[str] = Counter()
        self.runs: Counter[str] = Counter()

    @pytest.fixture
    def turn(self, request: pytest.FixtureRequest) -> int:
        return int(request.param)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        metafunc.fixturenames.append("turn")
        metafunc.parametrize("turn", range(self._times), indirect=True, ids=lambda n: f"turn{n}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = report.nodeid.rpartition("turn")[0].rstrip("-[")
        self.runs[test] += report.when == "call"
        self.failures[test] += report.failed


@contextmanager
def busy_loops(number: int) -> Iterator[None]:
    """Keep this many cores busy."""
    code = _BUSY.format(parent=os.getpid())
    loops = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(number)]
    try:
        yield
    finally:
        for each in loops:
            each.kill()
            each.wait()


def main() -> int:
    """Run the tests, and print how often each failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--busy", type=int, default=2)
    options, rest = parser.parse_known_args()
    repeat = Repeat(options.times)
    with busy_loops(options.busy):
        pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", *rest], plugins=[repeat])
    for test, runs in sorted(repeat.runs.items()):
        print(f"{repeat.failures[test]:4} of {runs} failed: {test}")
    return 1 if repeat.failures.total() or not repeat.runs else 0


if __name__ == "__main__":
    sys.exit(main())
