"""The core of a server: what sessions, transports, sources and workers use of it.

Authors see `Server`, which has what they call; each has one core, under `Server._core`. All that
serves a server, in this package and in others, is given the core alone.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from accord.errors import RegistrationError
from accord.protocol.codec import Limits
from accord.protocol.endpoint import EndpointSettings
from accord.protocol.exchange import META_SERVER
from accord.protocol.party import Peer, capability_paths
from accord.protocol.revisions import BEFORE_HANDSHAKE, METHODS
from accord.runtime.dispatcher import IN_FLIGHT
from accord.runtime.handlers import Write
from accord.runtime.watchdog import Watchdog, Watchdogs
from accord.server.access import Access, changed_kinds
from accord.server.caching import CacheHints
from accord.server.depends import Scopes
from accord.server.entries.entry import Entry, EntryKind
from accord.server.entries.registry import Registry, Resources
from accord.server.hub import Hub, ListKind, list_change, resource_change
from accord.server.list_pages import PAGE_SIZE, Listing
from accord.server.middleware import Layers
from accord.server.session import Session
from accord.server.settings import (
    ServerSettings,
    build_info,
    check_revisions,
    check_settings,
    check_texts,
)
from accord.server.sources.source import Views
from accord.types import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    LoggingLevel,
    PromptsCapability,
    ResourcesCapability,
    ServerCapabilities,
    ServerTaskRequests,
    ServerTasksCapability,
    ToolsCapability,
    ToolTasks,
)
from accord.types._base import JsonObject

if TYPE_CHECKING:
    from accord.runtime.threads import Workers
    from accord.server.entries.completion import Completions
    from accord.server.injection import Overrides
    from accord.server.questions.sealing import StateSeal
    from accord.server.questions.url_elicitation import UrlElicitations
    from accord.server.server import Server
    from accord.server.session import ClientSession, StatelessSessions
    from accord.server.sources.mounting import Mounts, OwnEntries
    from accord.server.tasks.runner import TaskRunner
    from accord.sharing.serving.pages import SharedPages
    from accord.sharing.serving.session_sharing import SessionSharing
    from accord.sharing.serving.store_bus import StoreBus
    from accord.sharing.workers.worker import Worker


Lifespan: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Any]]


class ServerCore(Views):
    """A server as everything behind `Server` sees it: its entries, settings, sessions and state.

    Args:
        owner: the `Server` that it is the core of; lifespans and callbacks get it.
        name: the name of the server.
        version: of the server, not of the protocol.
        title: its name for people.
        instructions: how a model should use it.
        lifespan: an async context manager around the serving.
        settings: see `ServerSettings`.

    Attributes:
        tool_entries: its tools.
        prompt_entries: its prompts.
        resource_entries: its resources and resource templates.
        layers: its middleware.
        is_strict: whether tools refuse text for what is not text.
        shared_pages: the pages that users of all workers were asked to visit; None without others.
        was_run: whether it has begun to serve by a call of its author.
    """

    def __init__(
        self,
        owner: "Server[Any]",
        name: str,
        *,
        version: str,
        title: str | None,
        instructions: str | None,
        lifespan: Lifespan | None,
        settings: ServerSettings,
    ) -> None:
        check_settings(settings, lifespan=lifespan)
        self.owner = owner
        check_texts(instructions=instructions)
        self.info = build_info(name, version, title, settings)
        self.name = self.info.name
        self.instructions = instructions
        self.lifespan = lifespan
        self.revisions = check_revisions(settings.get("revisions"))
        self.layers = Layers(settings.get("middleware", ()))
        self.auth = settings.get("auth")
        self.principal = settings.get("principal")
        self.access = Access(settings.get("policy"), step_up=settings.get("step_up", True))
        self.limits = settings.get("limits") or Limits()
        self.repeated_tools: set[str] = set()
        self.in_flight = settings.get("in_flight", IN_FLIGHT)
        self.ask_timeout = settings.get("ask_timeout", 300.0)
        self.log_level: LoggingLevel = settings.get("log_level", "info")
        self._state_keys = settings.get("state_keys")
        self._state_lifetime = settings.get("state_lifetime", 3600.0)
        self.debug = settings.get("debug", False)
        self.is_strict = settings.get("strict", False)
        self.hub = Hub()
        self.sessions = self.hub.sessions
        self.subscriptions = settings.get("subscriptions", 100)
        self._declared: dict[bool, frozenset[str]] = {}
        self._has_task_tools: bool | None = None
        self._task_settings = settings.get("tasks")
        self._offered: frozenset[str] | None = None
        self.roots_callbacks: list[Callable[[ClientSession], object]] = []
        self._watchdogs = Watchdogs()
        self.was_run = False
        self._mounts: Mounts | None = None
        self._own_entries: OwnEntries | None = None
        self._worker: Worker | None = None
        self._store_bus: StoreBus | None = None
        self.shared_pages: SharedPages | None = None
        self.overrides: Overrides | None = None
        self._thread_count = settings.get("threads")
        self._thread_wait = settings.get("thread_wait")
        self._make_entries(settings)

    def _make_entries(self, settings: ServerSettings) -> None:
        changed = self.list_changed
        self.tool_entries: Registry = Registry("tool", changed=partial(changed, "tools"))
        self.prompt_entries: Registry = Registry("prompt", changed=partial(changed, "prompts"))
        self.resource_entries = Resources(changed=partial(changed, "resources"))
        self.cache = cache = settings.get("cache") or CacheHints()
        listing = partial(Listing, page_size=settings.get("page_size", PAGE_SIZE))
        self.tools = listing(self.tool_entries, ListToolsResult, ttl=cache.tools)
        self.prompts = listing(self.prompt_entries, ListPromptsResult, ttl=cache.prompts)
        found = self.resource_entries
        self.resources = listing(found.fixed, ListResourcesResult, ttl=cache.resources)
        self.resource_templates = listing(
            found.templates, ListResourceTemplatesResult, ttl=cache.resource_templates
        )

    def __repr__(self) -> str:
        return f"Server({self.info.name!r})"

    # -- looking up

    def find_resource(self, uri: str) -> "Entry | None":
        """Find the entry of a URI, among those of what is mounted as well."""
        found = self.resource_entries.find(uri)
        if found is None and self._mounts is not None:
            return self.find_unlisted(uri)
        return found

    def capabilities(
        self, *, is_lasting: bool = True, is_identified: bool | None = None
    ) -> ServerCapabilities:
        """Return the capabilities of the server, by the kinds of entries it has.

        Args:
            is_lasting: whether there is a session; without one there are no notifications, log
                levels or subscriptions.
            is_identified: whether the caller is known, and may list its tasks; by default, whether
                callers of this server are.
        """
        return declare(self, is_lasting=is_lasting, is_identified=is_identified)

    @property
    def has_task_tools(self) -> bool:
        """Whether calls of any tool may become tasks."""
        if self._has_task_tools is None:
            self._has_task_tools = any(entry.facts.task for entry in self.tool_entries)
        return self._has_task_tools

    @cached_property
    def completions(self) -> "Completions":
        """The completers of arguments of prompts and of variables of resource templates."""
        from accord.server.entries.completion import Completions

        return Completions(self.prompt_entries, self.resource_entries)

    @cached_property
    def tasks(self) -> "TaskRunner":
        """The tasks that calls of tools became."""
        from accord.server.tasks.runner import TaskRunner

        return TaskRunner(self, self._task_settings)

    def capability_paths(self, *, is_lasting: bool = True) -> frozenset[str]:
        """Return the capabilities of the server as dotted paths."""
        paths = self._declared.get(is_lasting)
        if paths is None:
            paths = capability_paths(self.capabilities(is_lasting=is_lasting))
            self._declared[is_lasting] = paths
        return paths

    @property
    def offered_methods(self) -> frozenset[str]:
        """The methods whose capability the server declares, where requests stand on their own."""
        if self._offered is None:
            paths = self.capability_paths()
            self._offered = frozenset(
                method.name for method in METHODS if method.needs is None or method.needs in paths
            )
        return self._offered

    @cached_property
    def result_meta(self) -> JsonObject:
        """What the `_meta` of results says of the server, where each result stands on its own."""
        return {META_SERVER: msgspec.Raw(msgspec.json.encode(self.info))}

    @cached_property
    def endpoint_settings(self) -> EndpointSettings:
        """What the endpoints of all its sessions share."""
        return EndpointSettings(
            "server",
            revisions=self.revisions,
            limits=self.limits,
            result_meta=self.result_meta,
        )

    @cached_property
    def unknown_peer(self) -> Peer:
        """The client of a session that is not opened yet."""
        return Peer(BEFORE_HANDSHAKE, log_level=self.log_level)

    @cached_property
    def stateless_sessions(self) -> "StatelessSessions":
        """The sessions of messages without a handshake."""
        from accord.server.session import StatelessSessions

        return StatelessSessions(self)

    @cached_property
    def scopes(self) -> Scopes:
        """The values of dependencies that outlive requests."""
        return Scopes()

    @contextmanager
    def override(self, overrides: "Overrides") -> Iterator[None]:
        """Call other functions in place of dependencies; see `Server.override`."""
        from accord.server.injection import check_overrides

        check_overrides(self, overrides)
        before, self.overrides = self.overrides, {**(self.overrides or {}), **overrides}
        try:
            yield
        finally:
            self.overrides = before

    @cached_property
    def threads(self) -> "Workers":
        """The threads in which sync functions run."""
        from accord.runtime.threads import THREAD_WAIT, THREADS, Workers

        return Workers(self._thread_count or THREADS, wait=self._thread_wait or THREAD_WAIT)

    def watchdog(self) -> Watchdog:
        """Return the watchdog of the running loop, which reports handlers that block it."""
        return self._watchdogs.find()

    # -- as a source, and what is mounted

    @property
    def mounts(self) -> "Mounts":
        """The sources that are mounted."""
        if self._mounts is None:
            from accord.server.sources.mounting import Mounts

            self._mounts = Mounts(self)
        return self._mounts

    def parts(self) -> Sequence[Views]:
        return [] if self._mounts is None else [mount.source for mount in self._mounts]

    def find_unlisted(self, uri: str) -> "Entry | None":
        found = [
            entry for source in self.parts() if (entry := source.find_unlisted(uri)) is not None
        ]
        # Of several sources that may have it, none can be preferred.
        return found[0] if len(found) == 1 else None

    def entries(self, kind: EntryKind) -> "tuple[Entry, ...]":
        """Return its entries as a source offers them."""
        if self._own_entries is None:
            from accord.server.sources.mounting import OwnEntries

            self._own_entries = OwnEntries(self)
        return self._own_entries.read(kind)

    # -- notifying

    def list_changed(self, kind: ListKind) -> None:
        """Forget what was declared, and notify clients; see `Server.list_changed`."""
        self._declared.clear()  # entries decide what is declared
        self._has_task_tools = self._offered = None
        self.hub.publish(list_change(kind))

    def set_visible(
        self, names: tuple[str, ...], tags: Iterable[str], kind: ListKind | None, *, shows: bool
    ) -> None:
        """Show or hide entries; see `Server.show`."""
        old = self.access.visibility
        new = old.with_rule(self, names, tags, kind, shows=shows)
        self.access.set_visibility(new)
        for changed in changed_kinds(self, (old,), (new,)):
            self.list_changed(changed)

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that subscribed to a resource of a change. From any thread."""
        self.hub.publish(resource_change(uri))

    # -- serving

    @asynccontextmanager
    async def run_lifespan(self) -> AsyncIterator[Any]:
        """Run the lifespan for the whole program; see `Server.run_lifespan`."""
        async with self.open_lifespan() as state:
            with self.scopes.lend(state):
                yield state

    @asynccontextmanager
    async def open_lifespan(self) -> AsyncIterator[Any]:
        """Run the lifespan for one connection, call or app alone; yields its state."""
        async with self.mounts.run_lifespans(), self._run_own_lifespan() as state:
            yield state

    def join_lifespan(self) -> "AbstractAsyncContextManager[object]":
        """Return the lifespan that the program runs on this loop, or one of its own."""
        lent = self.scopes.lent_states()
        return nullcontext(lent[-1]) if lent else self.open_lifespan()

    @property
    def must_close(self) -> bool:
        """Whether something stays open unless the lifespan ends."""
        return self.lifespan is not None or any(self.mounts) or self.scopes.have_values

    @asynccontextmanager
    async def _run_own_lifespan(self) -> AsyncIterator[Any]:
        if self.lifespan is None:
            try:
                async with self.scopes.open(None):
                    yield None
            finally:
                await self._release_tasks()
            return
        manager = self.lifespan(self.owner)
        if not hasattr(manager, "__aenter__"):
            raise RegistrationError(
                f"the lifespan returned a {type(manager).__name__}, expected an async context "
                "manager: put @contextlib.asynccontextmanager on a function that yields"
            )
        async with manager as state:
            try:
                async with self.scopes.open(state):
                    yield state
            finally:
                await self._release_tasks(state)

    async def _release_tasks(self, *states: object) -> None:
        """Stop the tasks that use a state which ends; without one they go on."""
        if "tasks" in vars(self):
            await self.tasks.release(*states)

    def session(self, write: Write, state: object = None, *, is_lasting: bool = True) -> Session:
        """Open a session with one client on the running loop.

        Args:
            write: sends messages.
            state: the value that the lifespan yielded.
            is_lasting: whether the client gets notifications of changes; false for one request.
        """
        session = Session(self, write, state)
        if is_lasting:
            session.is_lasting = True
            self.hub.join(session)
        return session

    @property
    def entry_scopes(self) -> frozenset[str]:
        """The scopes that tools, prompts and resources need, for the challenge of a guard."""
        resources = self.resource_entries
        return self.access.offered_scopes(
            self.tool_entries, self.prompt_entries, resources.fixed, resources.templates
        )

    # -- together with other workers

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
            listings: tuple[Listing, ...] = (
                self.tools,
                self.prompts,
                self.resources,
                self.resource_templates,
            )
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
        if isinstance(source, ServerCore):
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

    def share_with(self, source: "Views") -> None:
        """Let the servers that a source is made of share what they have with other workers."""
        worker, pages = self._worker, self.shared_pages
        if worker is None or pages is None:
            return
        if isinstance(source, ServerCore):
            source.shared_pages = pages
            pages.join(source.elicitations)
            for function in source.layers.functions:
                join: Any = getattr(function, "join_workers", None)
                if join is not None:
                    join(source, worker)
        for part in source.parts():
            self.share_with(part)


# -- what a server declares


def declare(
    server: "ServerCore", *, is_lasting: bool, is_identified: bool | None
) -> ServerCapabilities:
    """Return the capabilities of a server, as `Server.capabilities` describes them."""
    if is_identified is None:
        is_identified = server.auth is not None or server.principal is not None
    # What a proxy is to offer, once the other server can be reached, is not known yet.
    is_open = not _is_complete(server)
    has_tools = server.tool_entries or is_open
    has_prompts = server.prompt_entries or is_open
    has_resources = server.resource_entries.fixed or server.resource_entries.templates or is_open
    has_completions = server.prompt_entries or server.resource_entries.templates or is_open
    return ServerCapabilities(
        tools=ToolsCapability(list_changed=is_lasting) if has_tools else None,
        prompts=PromptsCapability(list_changed=is_lasting) if has_prompts else None,
        resources=ResourcesCapability(subscribe=is_lasting, list_changed=is_lasting)
        if has_resources
        else None,
        logging={} if is_lasting else None,
        completions={} if has_completions else None,
        tasks=_declare_tasks(can_list=is_identified) if server.has_task_tools else None,
    )


def _is_complete(source: "Views") -> bool:
    return source.is_complete and all(map(_is_complete, source.parts()))


def _declare_tasks(*, can_list: bool) -> ServerTasksCapability:
    return ServerTasksCapability(
        list={} if can_list else None,  # tasks.security.no-list-unidentified
        cancel={},
        requests=ServerTaskRequests(tools=ToolTasks(call={})),
    )
