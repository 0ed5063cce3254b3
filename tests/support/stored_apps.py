"""Apps of the tests with a store, as one of several workers has it, where they bring none."""

import os
from typing import Any, Final

import pytest

from accord.http.server.app import HttpApp
from accord.http.settings import HttpSettings
from accord.sharing import MemoryBackend

# Whether every app that tests make serves as one worker among several, which happen to be away.
IS_STORED: Final = os.environ.get("ACCORD_TEST_STORE") == "memory"
# For tests of what holds for sessions of one process alone: their cost, what makes room for others,
# the form of event ids, metrics without the name of a worker.
in_one_process: Final = pytest.mark.skipif(IS_STORED, reason="several workers serve otherwise")


def give_stores() -> None:
    """Let every app that is made from now on keep its sessions in a store of its own."""
    begin = HttpApp.__init__

    def begin_with_store(app: HttpApp, server: Any, options: HttpSettings | None = None) -> None:
        options = options or {}
        if not any(options.get(name) for name in ("store", "events", "stateless")):
            options = {**options, "store": MemoryBackend()}
        begin(app, server, options)

    HttpApp.__init__ = begin_with_store  # type: ignore[method-assign]
