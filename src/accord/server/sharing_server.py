"""The part of a server by which it serves together with others: workers that share a store."""

from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from accord.server.listings import Listing
from accord.server.middleware import Layers
from accord.server.sources.views import Views

if TYPE_CHECKING:
    from accord.server.questions.sealing import StateSeal
    from accord.server.questions.url_elicitation import UrlElicitations
    from accord.server.tasks.runner import TaskRunner
    from accord.sharing.serving.pages import SharedPages
    from accord.sharing.serving.session_sharing import SessionSharing
    from accord.sharing.serving.store_bus import StoreBus
    from accord.sharing.workers.worker import Worker


class SharingServer(Views):
    """The part of a `Server` by which it serves together with others.

    Attributes:
        shared_pages: the pages that users of all workers were asked to visit; None without others.
    """

    shared_pages: "SharedPages | None" = None
    auth: Any
    layers: Layers
    tools: Listing[Any]
    prompts: Listing[Any]
    resources: Listing[Any]
    resource_templates: Listing[Any]
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
            # A key for each list: the cursor of one is refused by another.
            listings = self.tools, self.prompts, self.resources, self.resource_templates
            for number, listing in enumerate(listings):
                listing.share_keys(worker.keys.derive(f"cursors of list {number}"))

    async def _take_over(self, lost: str) -> None:
        await self.tasks.takeover.take_over(lost)

    def join_workers(self, worker: "Worker") -> None:
        """Share state with other workers from now on, on the running loop."""
        self.worker = worker
        self._store_bus = bus = import_module("accord.sharing.serving.store_bus").StoreBus(worker)
        self.hub.use_bus(bus)
        self.shared_pages = import_module("accord.sharing.serving.pages").SharedPages(worker)
        self.share_with(self)
        use_backend = getattr(self.auth, "use_backend", None)
        if use_backend is not None:
            use_backend(worker.backend)

    async def leave_workers(self) -> None:
        """Share state no more."""
        self.worker = None
        self._stop_sharing(self)
        self.hub.use_bus(None)
        bus, self._store_bus = self._store_bus, None
        if bus is not None:
            await bus.close()

    def _stop_sharing(self, source: "Views") -> None:
        if isinstance(source, SharingServer):
            source.shared_pages = None
            if "elicitations" in vars(source):
                source.elicitations.shared = None
        for part in source.parts():
            self._stop_sharing(part)

    @cached_property
    def session_sharing(self) -> "SessionSharing":
        """Puts sessions into records of a store, and back."""
        sharing = import_module("accord.sharing.serving.session_sharing")
        made: SessionSharing = sharing.SessionSharing(self)
        return made

    @cached_property
    def state_seal(self) -> "StateSeal":
        """Seals what clients carry from a question to its answer."""
        from accord.server.questions.sealing import StateSeal

        keys, lifetime, worker = self._state_keys, self._state_lifetime, self._worker
        if worker is None:
            return StateSeal(keys, lifetime=lifetime)
        keys = keys or worker.keys.derive("request state")
        return StateSeal(keys, lifetime=lifetime, marks=worker.backend)

    @cached_property
    def elicitations(self) -> "UrlElicitations":
        """The pages that users were asked to visit; `find` and `fetch` return one by its id."""
        from accord.server.questions.url_elicitation import UrlElicitations

        return UrlElicitations()

    def elicitation_completed(self, id: str) -> bool:
        """Inform the client that asked its user to visit a page that the user is done with it.

        From any thread, and once: returns False for an id that is unknown or complete already. On
        the event loop of a worker that serves together with others, an id that is not of this
        worker is passed on, and True says no more; `complete_elicitation` knows.
        """
        found = self.elicitations.find(id)
        if found is None and self.shared_pages is not None:
            return self.shared_pages.complete_from_thread(id)
        return found is not None and found.complete()

    async def complete_elicitation(self, id: str) -> bool:
        """The same, on the event loop, for pages of all workers.

        Returns:
            False for an id that is unknown to all workers, or complete already.

        Raises:
            StoreUnavailable: the store of the workers does not answer.
        """
        return await self.elicitations.complete(id)

    def share_with(self, source: "Views") -> None:
        """Let the servers that a source is made of share what they have with other workers."""
        worker, pages = self._worker, self.shared_pages
        if worker is None or pages is None:
            return
        if isinstance(source, SharingServer):
            source.shared_pages = pages
            pages.join(source.elicitations)
            for function in source.layers.functions:
                join: Any = getattr(function, "join_workers", None)
                if join is not None:
                    join(source, worker)
        for part in source.parts():
            self.share_with(part)
