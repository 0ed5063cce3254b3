"""What an app needs to serve together with other workers: the store, a worker, shared sessions."""

import re
from typing import Final

from accord.errors import ConfigurationError
from accord.http.server.state import AppState
from accord.http.settings import HttpSettings
from accord.sharing.backends.backend import Backend
from accord.sharing.backends.sealed_backend import KeyRing, seal_backend
from accord.sharing.sessions.sessions import SharedSessions
from accord.sharing.sessions.takeover import StreamTakeover
from accord.sharing.workers.worker import Worker

# Seconds that the last entries get to reach the store when the server stops.
_LAST_ENTRIES: Final = 2.0
_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


class SharedParts:
    """The parts of an app that serves together with other workers.

    Args:
        state: of the app.

    Raises:
        ConfigurationError: the store is not fit for this, or its keys are missing.
    """

    def __init__(self, state: AppState) -> None:
        self._state = state
        backend, keys = open_store(state.options, str(getattr(state.server, "name", "")))
        options = state.options
        worker = Worker(backend, keys, lease=options["lease"], patience=options["store_patience"])
        self.worker = state.worker = worker
        ask_timeout = state.server.ask_timeout
        self.sessions = SharedSessions(state, worker, state.server.session_sharing, ask_timeout)
        self._takeover = StreamTakeover(self.sessions)

    async def start(self) -> None:
        """Join the other workers.

        Raises:
            StoreUnavailable: the store cannot be reached.
        """
        await self.worker.start()
        self._state.server.join_workers(self.worker)

    async def stop(self) -> None:
        """Leave the other workers."""
        await self.sessions.flush(_LAST_ENTRIES)
        await self._state.server.leave_workers()
        await self.worker.stop()


def open_store(options: HttpSettings, name: str) -> tuple[Backend, KeyRing | None]:
    """Return the store of an app, sealed if keys are given, and the keys.

    Raises:
        ConfigurationError: the store does not exist, or needs keys.
    """
    store = options["store"]
    if store is None:
        raise ConfigurationError("store is missing")
    if isinstance(store, str):
        from accord.sharing.backends.urls import open_backend

        store = open_backend(store, namespace=_NAME.sub("-", name)[:40] or "accord")
    return seal_backend(store, options["store_keys"])
