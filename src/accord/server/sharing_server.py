"""The part of a server by which it serves together with others: workers that share a store."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from accord.server.hub import Hub

if TYPE_CHECKING:
    from accord.server.sealing import StateSeal
    from accord.server.session_sharing import SessionSharing
    from accord.server.store_bus import StoreBus
    from accord.server.tasks.runner import TaskRunner
    from accord.workers.worker import Worker


class SharingServer:
    """The part of a `Server` by which it serves together with others."""

    hub: Hub
    auth: Any
    _state_keys: Sequence[str | bytes] | None
    _state_lifetime: float
    _worker: "Worker | None" = None
    _store_bus: "StoreBus | None" = None

    if TYPE_CHECKING:

        @property
        def tasks(self) -> TaskRunner: ...

    @property
    def worker(self) -> "Worker | None":
        """The worker of this process, while several serve together; None otherwise."""
        return self._worker

    @worker.setter
    def worker(self, worker: "Worker | None") -> None:
        self._worker = worker
        vars(self).pop("state_seal", None)  # with other keys from now on
        if worker is not None:
            worker.on_worker_lost(self._take_over)

    async def _take_over(self, lost: str) -> None:
        await self.tasks.takeover.take_over(lost)

    def join_workers(self, worker: "Worker") -> None:
        """Share state with other workers from now on, on the running loop."""
        from accord.server.store_bus import StoreBus

        self.worker = worker
        self._store_bus = StoreBus(worker)
        self.hub.use_bus(self._store_bus)
        use_backend = getattr(self.auth, "use_backend", None)
        if use_backend is not None:
            use_backend(worker.backend)

    async def leave_workers(self) -> None:
        """Share state no more."""
        self.worker = None
        self.hub.use_bus(None)
        bus, self._store_bus = self._store_bus, None
        if bus is not None:
            await bus.close()

    @cached_property
    def sharing(self) -> "SessionSharing":
        """Puts sessions into records of a store, and back."""
        from accord.server.session_sharing import SessionSharing

        return SessionSharing(self)  # type: ignore[arg-type]  # every one is a Server

    @cached_property
    def state_seal(self) -> "StateSeal":
        """Seals what clients carry from a question to its answer."""
        from accord.server.sealing import StateSeal

        keys, lifetime, worker = self._state_keys, self._state_lifetime, self._worker
        if worker is None:
            return StateSeal(keys, lifetime=lifetime)
        keys = keys or worker.keys.derive("request state")
        return StateSeal(keys, lifetime=lifetime, marks=worker.backend)
