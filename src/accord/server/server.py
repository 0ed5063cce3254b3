"""The server: its tools, resources and prompts, and how they are served."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import cached_property, partial
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, Unpack, overload

import msgspec

from accord.errors import RegistrationError
from accord.principal import Principal
from accord.protocol.codec import Limits
from accord.protocol.endpoint_settings import EndpointSettings
from accord.protocol.exchange import META_SERVER
from accord.protocol.methods import METHODS
from accord.protocol.party import Peer, capability_paths
from accord.protocol.revisions import BEFORE_HANDSHAKE
from accord.runtime.dispatcher import IN_FLIGHT
from accord.runtime.handlers import Write
from accord.runtime.watchdog import Watchdog, Watchdogs
from accord.server.access import Access, ActingServer
from accord.server.caching import CacheHints
from accord.server.capabilities import declare
from accord.server.context import State
from accord.server.entries.registration import Registration
from accord.server.entries.registry import Function, Registry
from accord.server.entries.resource_registry import Resources
from accord.server.hub import Hub, ListKind, list_change, resource_change
from accord.server.listings import PAGE_SIZE, Listing
from accord.server.local_calls import LocalCalls
from accord.server.middleware import Layers
from accord.server.scopes import Scopes
from accord.server.session import Session
from accord.server.settings import (
    ServerSettings,
    build_info,
    check_revisions,
    check_settings,
    check_texts,
)
from accord.server.sharing_server import SharingServer
from accord.server.sources.mountable import MountingServer
from accord.server.visibility import changed_kinds
from accord.types import (
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    LoggingLevel,
    ServerCapabilities,
)
from accord.types._base import JsonObject

if TYPE_CHECKING:
    from accord.http.server.app import HttpApp
    from accord.runtime.threads import Workers
    from accord.runtime.wire import MemoryWire
    from accord.server.entries.completion import Completions
    from accord.server.entries.resource_registry import ResourceMatch
    from accord.server.http_settings import HttpSettings, ListenSettings
    from accord.server.injection import Overrides
    from accord.server.stateless import StatelessSessions
    from accord.server.tasks.runner import TaskRunner

Lifespan: TypeAlias = "Callable[[Server[State]], AbstractAsyncContextManager[State]]"


class Server(Registration, LocalCalls, MountingServer, SharingServer, Generic[State]):
    """An MCP server.

    Args:
        name: the name of the server.
        version: of the server, not of the protocol.
        title: its name for people.
        instructions: how a model should use it.
        lifespan: an async context manager around the serving; it yields `ctx.state`.
        settings: see `ServerSettings`.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.0.0",
        title: str | None = None,
        instructions: str | None = None,
        lifespan: "Lifespan[State] | None" = None,
        **settings: Unpack[ServerSettings],
    ) -> None:
        check_settings(settings, lifespan=lifespan)
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
        self.roots_callbacks: list[Callable[[Session], object]] = []
        self._watchdogs = Watchdogs()
        self.was_run = False
        self.overrides: Overrides | None = None
        self._thread_count = settings.get("threads")
        self._thread_wait = settings.get("thread_wait")

        changed = self.list_changed
        self.tool_entries = Registry("tool", changed=partial(changed, "tools"))
        self.prompt_entries = Registry("prompt", changed=partial(changed, "prompts"))
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

    def find_resource(self, uri: str) -> "ResourceMatch | None":
        """Find the entry of a URI, and the values of the variables in it."""
        found = self.resource_entries.find(uri)
        if found is None and self._mounts is not None:
            unlisted = self.find_unlisted(uri)
            return None if unlisted is None else (unlisted, {})
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
            self._has_task_tools = any(entry.task for entry in self.tool_entries)
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
        from accord.server.stateless import StatelessSessions

        return StatelessSessions(self)

    @cached_property
    def scopes(self) -> Scopes:
        """The values of dependencies that outlive requests."""
        return Scopes()

    @contextmanager
    def override(self, overrides: "Overrides") -> Iterator[None]:
        """Call other functions in place of dependencies; for tests.

        Args:
            overrides: for each function that was given to `Depends`, the one to call instead. It
                may have other parameters.

        Raises:
            ValueError: no handler depends on one of them.
        """
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

    # -- notifying

    def list_changed(self, kind: ListKind) -> None:
        """Notify clients that a list has changed, as for callers who have other rights now.

        Entries that are added, removed, enabled or disabled are announced without it. Bursts are
        joined. From any thread.

        Raises:
            ValueError: the kind is not "tools", "prompts" or "resources".
        """
        self._declared.clear()  # entries decide what is declared
        self._has_task_tools = self._offered = None
        self.hub.publish(list_change(kind))

    def show(self, *names: str, tags: Iterable[str] = (), kind: ListKind | None = None) -> None:
        """Show entries that are hidden, to every session that does not hide them itself.

        Args:
            names: of tools and prompts, and URIs of resources.
            tags: entries with one of them.
            kind: "tools", "prompts" or "resources"; all of them by default.

        Raises:
            ValueError: nothing is named, or the kind does not exist.
            KeyError: no entry has one of the names.
        """
        self._set_visible(names, tags, kind, shows=True)

    def hide(self, *names: str, tags: Iterable[str] = (), kind: ListKind | None = None) -> None:
        """Hide entries from every session that does not show them itself; see `show`.

        They are neither listed nor found. Unlike disabled ones, a session can show them.
        """
        self._set_visible(names, tags, kind, shows=False)

    def _set_visible(
        self, names: tuple[str, ...], tags: Iterable[str], kind: ListKind | None, *, shows: bool
    ) -> None:
        old = self.access.visibility
        new = old.with_rule(self, names, tags, kind, shows=shows)
        self.access.set_visibility(new)
        for changed in changed_kinds(self, (old,), (new,)):
            self.list_changed(changed)

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that subscribed to a resource of a change. From any thread."""
        self.hub.publish(resource_change(uri))

    def on_roots_changed(self, function: Function) -> Function:
        """Call a function with the session when a client's roots change; `roots` asks for them."""
        self.roots_callbacks.append(function)
        return function

    # -- serving

    @asynccontextmanager
    async def run_lifespan(self) -> AsyncIterator[State | None]:
        """Run the lifespan, within those of what is mounted; yields its state.

        Apps of the server (`asgi`) that start meanwhile on this loop use it.
        """
        async with self.open_lifespan() as state:
            with self.scopes.lend(state):
                yield state

    @asynccontextmanager
    async def open_lifespan(self) -> AsyncIterator[State | None]:
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
    async def _run_own_lifespan(self) -> AsyncIterator[State | None]:
        if self.lifespan is None:
            try:
                async with self.scopes.open(None):
                    yield None
            finally:
                await self._release_tasks()
            return
        manager = self.lifespan(self)
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

    async def connect_memory(self) -> "MemoryWire":
        """Return the client's end of a connection within this process."""
        from accord.runtime.wire import MemoryWire

        return MemoryWire(self)

    def acting_as(self, principal: Principal) -> ActingServer:
        """Return the server as a principal sees it, to connect to within this process."""
        return ActingServer(self, principal)

    @property
    def entry_scopes(self) -> frozenset[str]:
        """The scopes that tools, prompts and resources need, for the challenge of a guard."""
        resources = self.resource_entries
        return self.access.offered_scopes(
            self.tool_entries, self.prompt_entries, resources.fixed, resources.templates
        )

    def asgi(self, *, grace: float = 5.0, **options: "Unpack[HttpSettings]") -> "HttpApp":
        """Return the server as an ASGI app; see `HttpOptions` for the settings."""
        from accord.server.serving import build_app

        return build_app(self, grace, options)

    @overload
    def run(self, transport: Literal["stdio"] = "stdio", *, grace: float = 1.5) -> None: ...
    @overload
    def run(
        self,
        transport: Literal["http", "streamable-http", "sse"],
        *,
        grace: float = 1.5,
        host: str = "127.0.0.1",
        port: int = 8000,
        **options: "Unpack[ListenSettings]",
    ) -> None: ...
    def run(
        self,
        transport: Literal["stdio", "http", "streamable-http", "sse"] = "stdio",
        *,
        grace: float = 1.5,
        host: str = "127.0.0.1",
        port: int = 8000,
        **options: "Unpack[ListenSettings]",
    ) -> None:
        """Serve until the input ends or a signal arrives.

        Args:
            transport: "stdio" or "http"; "streamable-http" is the same as "http", and "sse" serves
                the older form of HTTP as well.
            grace: seconds that running calls get to finish at the end; clients wait 2 s before
                they kill.
            host: the address to listen on; loopback by default.
            port: the port to listen on; 0 takes any free one.
            options: see `HttpOptions`. And in place of host and port `listen`: one or several of
                "HOST:PORT", ":PORT", "unix:PATH" (with `socket_mode`, 0o660 by default),
                "fd:NUMBER" and "systemd". For HTTPS `certificate` and `key`, the names of PEM
                files, with `key_password`; or `tls`, a context of the module `ssl`. `workers`: how
                many processes serve, or "auto" for one on each core; they share a temporary store,
                unless `store` names one.

        Raises:
            RuntimeError: an event loop is running in this thread; `serve` is for that.
            ConfigurationError: this system cannot run several processes.
        """
        from accord.server.serving import run

        run(self, transport, grace=grace, host=host, port=port, options=options)

    async def serve(
        self,
        transport: Literal["stdio", "http", "streamable-http", "sse"] = "stdio",
        *,
        grace: float = 1.5,
        host: str = "127.0.0.1",
        port: int = 8000,
        **options: "Unpack[ListenSettings]",
    ) -> None:
        """Serve in the running event loop until the input ends or the task is cancelled; as `run`.

        Signals stay with the program, the process goes on, and stdin and stdout are given back.
        """
        from accord.server.serving import serve

        await serve(self, transport, grace=grace, host=host, port=port, options=options)
