"""The command line on a terminal: interruptions."""

import subprocess
import sys

LOSING = """\
import gc, time
from accord.cli.terminal import interruptible

def loses(phase, info):
    gc.callbacks.remove(loses)
    raise KeyboardInterrupt

try:
    with interruptible():
        gc.callbacks.append(loses)
        gc.collect()
        for _ in range(600):
            time.sleep(0.05)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interruption_that_garbage_collection_drops_is_repeated():
    done = subprocess.run(
        [sys.executable, "-c", LOSING],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")
