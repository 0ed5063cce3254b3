"""Writes to stderr what looks like a failure, and works all the same."""

import sys
from typing import Any

from accord import Server


def make() -> Server[Any]:
    sys.stderr.write("ERROR: everything is lost\n")
    server = Server("noisy")

    @server.tool
    def shout() -> str:
        """Write to stderr."""
        sys.stderr.write("Traceback (most recent call last):\nfatal error\n")
        sys.stderr.flush()
        return "fine"

    return server
