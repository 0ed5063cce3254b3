"""The server as its author sees it: what it offers, how it is served, and calls of its own process.

What is behind it is in `core`.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from inspect import isawaitable
from os import PathLike
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import msgspec

from accord.errors import RegistrationError
from accord.principal import Principal
from accord.protocol.bodies import BY_NAME
from accord.protocol.exchange import Exchange
from accord.protocol.party import Peer
from accord.protocol.revisions import REVISIONS
from accord.server.access import ActingServer
from accord.server.context import Context, State, current
from accord.server.core import ServerCore
from accord.server.entries.registry import Function, Registry, Resources, decorator
from accord.server.entries.tools import ToolEntry, build_tool, is_described
from accord.server.hub import ListKind
from accord.server.middleware import Middleware
from accord.server.schema import signature
from accord.server.schema.plain import encode
from accord.server.session import Session
from accord.server.settings import ServerSettings, ToolDetails, warn_about_tool
from accord.types import (
    CallToolParams,
    CallToolResult,
    GetPromptParams,
    GetPromptResult,
    Implementation,
    JsonObject,
    PageParams,
    Prompt,
    ReadResourceParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Tool,
)

if TYPE_CHECKING:
    from accord.http.server.app import HttpApp
    from accord.http.settings import HttpSettings, ListenSettings
    from accord.runtime.wire import MemoryWire
    from accord.server.entries.completion import CompletionSource
    from accord.server.entries.files import DirectoryResource
    from accord.server.entries.prompts import PromptDetails, PromptEntry
    from accord.server.entries.resources import ResourceDetails, ResourceEntry, TemplateEntry
    from accord.server.injection import Overrides
    from accord.server.questions.url_elicitation import UrlElicitations
    from accord.server.session import ClientSession
    from accord.server.sources.mounting import Mount
    from accord.server.sources.source import Views
    from accord.server.sources.views import ToolChange, View


LayerFunction = TypeVar("LayerFunction", bound=Middleware)
_DECORATORS: Final = ("tools", "prompts", "resources")
_SETTINGS: Final = frozenset({*ServerSettings.__annotations__, "lifespan"})
Lifespan: TypeAlias = "Callable[[Server[State]], AbstractAsyncContextManager[State]]"


class Server(Generic[State]):
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
        self._core = ServerCore(
            self,
            name,
            version=version,
            title=title,
            instructions=instructions,
            lifespan=lifespan,
            settings=settings,
        )

    def __repr__(self) -> str:
        return f"Server({self.info.name!r})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            hint = ""
            if name in _DECORATORS:
                hint = f"; did you mean @server.{name[:-1]}?"
            why = f"'Server' object has no attribute {name!r}{hint}"
            raise AttributeError(why, name=name, obj=self)

        def __setattr__(self, name: str, value: object) -> None:
            # An assignment without effect could leave a server without its protection.
            if name in _SETTINGS:
                raise AttributeError(
                    f"{name} is set when a server is made: Server(..., {name}=...)"
                )
            super().__setattr__(name, value)

    @property
    def name(self) -> str:
        """The name of the server."""
        return self._core.name

    @property
    def info(self) -> Implementation:
        """What clients see of the server: its name, version, title, icons."""
        return self._core.info

    @property
    def instructions(self) -> str | None:
        """How a model should use the server."""
        return self._core.instructions

    @instructions.setter
    def instructions(self, instructions: str | None) -> None:
        self._core.instructions = instructions

    @property
    def auth(self) -> Any:
        """What protects it, as the setting `auth` gave it."""
        return self._core.auth

    # -- registering

    @overload
    def tool(self, function: Function, /, **details: Unpack[ToolDetails]) -> Function: ...
    @overload
    def tool(
        self, function: None = None, /, **details: Unpack[ToolDetails]
    ) -> Callable[[Function], Function]: ...
    def tool(
        self, function: Function | None = None, /, **details: Unpack[ToolDetails]
    ) -> Function | Callable[[Function], Function]:
        """Offer a function as a tool: as a decorator, with or without details, or as a call."""
        register = decorator(self.add_tool, **details)
        return register if function is None else register(function)

    def add_tool(
        self, function: Callable[..., object], **details: Unpack[ToolDetails]
    ) -> ToolEntry:
        """Offer a function as a tool.

        Raises:
            RegistrationError: its parameters have no JSON form, or the name is taken.
        """
        if self._core.is_strict:
            details.setdefault("strict", True)
        entry = build_tool(function, **details)
        self._core.tool_entries.add(entry, replace=details.get("replace", False))
        warn_about_tool(entry.key, is_described=is_described(entry))
        return entry

    def resource(
        self, uri: str, **details: "Unpack[ResourceDetails]"
    ) -> Callable[[Function], Function]:
        """Offer the value of a function as a resource; a URI with `{variables}` is a template."""
        if callable(uri):
            raise RegistrationError("resource needs a URI: write @server.resource('note://today')")
        return decorator(self.add_resource, uri, **details)

    def add_resource(
        self, uri: str, function: Callable[..., object], **details: "Unpack[ResourceDetails]"
    ) -> "ResourceEntry | TemplateEntry":
        """Offer the value of a function as a resource.

        Raises:
            RegistrationError: the URI does not fit the function, or it is taken.
        """
        from accord.server.entries.resources import build_resource

        found = signature.inspect(function, context_type=Context)
        entry = build_resource(uri, function, signature=found, **details)
        self._core.resource_entries.add(entry, replace=details.get("replace", False))
        return entry

    @overload
    def prompt(self, function: Function, /, **details: "Unpack[PromptDetails]") -> Function: ...
    @overload
    def prompt(
        self, function: None = None, /, **details: "Unpack[PromptDetails]"
    ) -> Callable[[Function], Function]: ...
    def prompt(
        self, function: Function | None = None, /, **details: "Unpack[PromptDetails]"
    ) -> Function | Callable[[Function], Function]:
        """Offer a function as a prompt: as a decorator, with or without details, or as a call."""
        register = decorator(self.add_prompt, **details)
        return register if function is None else register(function)

    def add_prompt(
        self, function: Callable[..., object], **details: "Unpack[PromptDetails]"
    ) -> "PromptEntry":
        """Offer a function as a prompt.

        Raises:
            RegistrationError: its signature does not fit, or the name is taken.
        """
        from accord.server.entries.prompts import build_prompt

        found = signature.inspect(function, context_type=Context)
        entry = build_prompt(function, signature=found, **details)
        return self._core.prompt_entries.add(entry, replace=details.get("replace", False))

    def add_file(
        self,
        path: str | PathLike[str],
        uri: str | None = None,
        **details: "Unpack[ResourceDetails]",
    ) -> "ResourceEntry | TemplateEntry":
        """Offer a file as a resource."""
        from accord.server.entries.files import FileResource

        entry = FileResource(path, uri, **details).entry()
        self._core.resource_entries.add(entry, replace=details.get("replace", False))
        return entry

    def add_directory(
        self,
        root: str | PathLike[str],
        uri: str = "files://{+path}",
        *,
        pattern: str = "*",
        **details: "Unpack[ResourceDetails]",
    ) -> "DirectoryResource":
        """Offer the files below a directory; no path leads out of it."""
        from accord.server.entries.files import DirectoryResource

        directory = DirectoryResource(root, uri, pattern=pattern, **details)
        directory.publish(self._core.resource_entries)
        return directory

    def completion(self, of: str, argument: str) -> Callable[[Function], Function]:
        """Complete an argument of a prompt, or a variable of a resource template.

        The function gets the typed text and the arguments filled in so far.

        Args:
            of: the name of the prompt, or the template as it was registered.
            argument: the name of the argument or variable.
        """
        return decorator(self.add_completion, of, argument)

    def add_completion(self, of: str, argument: str, source: "CompletionSource") -> None:
        """Complete an argument by a function, or by values: texts, an Enum or a Literal."""
        self._core.completions.add(of, argument, source)

    def mount(
        self, source: "Views | Server[Any]", *, prefix: str | None = None, separator: str = "_"
    ) -> "Mount":
        """Offer the tools, resources and prompts of another server or source.

        The mount is live: what changes there changes here. Calls run in the other server: through
        its middleware, with the state of its lifespan, which runs while this server is served.

        Args:
            source: a `Server`, a view of one, or a source of `accord.compose`.
            prefix: put before all names, and into all URIs: `find` becomes `crm_find`,
                `data://config` becomes `data://crm/config`.
            separator: between the prefix and a name.

        Raises:
            RegistrationError: a name is taken, the source is made of this server, or it is
                protected and this server is not.
        """
        offered = source._core if isinstance(source, Server) else source
        return self._core.mounts.add(offered, prefix, separator)

    # -- entries, and their changes

    @property
    def tool_entries(self) -> Registry:
        """Its tools, to look at, remove, disable and enable by name."""
        return self._core.tool_entries

    @property
    def prompt_entries(self) -> Registry:
        """Its prompts, to look at, remove, disable and enable by name."""
        return self._core.prompt_entries

    @property
    def resource_entries(self) -> "Resources":
        """Its resources and templates, to look at, remove, disable and enable by URI."""
        return self._core.resource_entries

    def list_changed(self, kind: ListKind) -> None:
        """Notify clients that a list has changed, as for callers who have other rights now.

        Entries that are added, removed, enabled or disabled are announced without it. Bursts are
        joined. From any thread.

        Raises:
            ValueError: the kind is not "tools", "prompts" or "resources".
        """
        self._core.list_changed(kind)

    def resource_updated(self, uri: str) -> None:
        """Notify the clients that subscribed to a resource of a change. From any thread."""
        self._core.resource_updated(uri)

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
        self._core.set_visible(names, tags, kind, shows=True)

    def hide(self, *names: str, tags: Iterable[str] = (), kind: ListKind | None = None) -> None:
        """Hide entries from every session that does not show them itself; see `show`.

        They are neither listed nor found. Unlike disabled ones, a session can show them.
        """
        self._core.set_visible(names, tags, kind, shows=False)

    # -- views on it, to mount

    def only(self, *names: str, tags: Iterable[str] = (), kind: ListKind | None = None) -> "View":
        """Return a view of some entries: those with one of the names or tags, and of the kind."""
        return self._core.only(*names, tags=tags, kind=kind)

    def without(
        self, *names: str, tags: Iterable[str] = (), kind: ListKind | None = None
    ) -> "View":
        """Return a view without some entries: those with one of the names or tags, of the kind."""
        return self._core.without(*names, tags=tags, kind=kind)

    def rename(self, names: Mapping[str, str]) -> "View":
        """Return a view with other names of tools and prompts, or other URIs of resources."""
        return self._core.rename(names)

    def prefix(self, prefix: str, *, separator: str = "_") -> "View":
        """Return a view with a prefix before all names, and within all URIs.

        `find` becomes `crm_find`, `data://config` becomes `data://crm/config`.
        """
        return self._core.prefix(prefix, separator=separator)

    def describe(self, descriptions: Mapping[str, str]) -> "View":
        """Return a view with other descriptions, by the names of entries."""
        return self._core.describe(descriptions)

    def change(self, tool: str, **change: "Unpack[ToolChange]") -> "View":
        """Return a view with another form of one tool; see `ToolChange`."""
        return self._core.change(tool, **change)

    # -- middleware

    @overload
    def middleware(self, function: LayerFunction, /) -> LayerFunction: ...
    @overload
    def middleware(self, *methods: str) -> Callable[[LayerFunction], LayerFunction]: ...
    def middleware(self, *given: Any) -> Any:
        """Call a function around every request, or around those of the methods that are named.

        As `@server.middleware` or `@server.middleware("tools/call")`. The first one that was added
        is the outermost.
        """
        if len(given) == 1 and callable(given[0]):
            self.add_middleware(given[0])
            return given[0]

        def register(function: LayerFunction) -> LayerFunction:
            self.add_middleware(function, *given)
            return function

        return register

    def add_middleware(self, function: Middleware, *methods: str) -> None:
        """Call a function around every request, or around those of the methods that are named.

        Raises:
            RegistrationError: it cannot be called with ctx and proceed, or a method is unknown.
        """
        self._core.layers.add(function, *methods)

    # -- clients

    @property
    def sessions(self) -> "frozenset[ClientSession]":
        """The sessions that are open in this process."""
        return frozenset(session.face for session in self._core.hub.sessions)

    def on_roots_changed(self, function: Function) -> Function:
        """Call a function with the session when a client's roots change; `roots` asks for them."""
        self._core.roots_callbacks.append(function)
        return function

    @property
    def elicitations(self) -> "UrlElicitations":
        """The pages that users were asked to visit; `find` and `fetch` return one by its id."""
        return self._core.elicitations

    def elicitation_completed(self, id: str) -> bool:
        """Inform the client that asked its user to visit a page that the user is done with it.

        From any thread, and once: returns False for an id that is unknown or complete already. On
        the event loop of a worker that serves together with others, an id that is not of this
        worker is passed on, and True says no more; `complete_elicitation` knows.
        """
        found = self.elicitations.find(id)
        pages = self._core.shared_pages
        if found is None and pages is not None:
            return pages.complete_from_thread(id)
        return found is not None and found.complete()

    async def complete_elicitation(self, id: str) -> bool:
        """The same, on the event loop, for pages of all workers.

        Returns:
            False for an id that is unknown to all workers, or complete already.

        Raises:
            StoreUnavailable: the store of the workers does not answer.
        """
        return await self.elicitations.complete(id)

    # -- calls within this process

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        meta: JsonObject | None = None,
        principal: Principal | None = None,
    ) -> CallToolResult:
        """Call a tool and return its result, also where the tool reports an error.

        Raises:
            InvalidParams: there is no such tool for the caller.
        """
        params = CallToolParams(name, msgspec.Raw(encode(dict(arguments or {}))))
        result = await request_locally(self._core, "tools/call", params, meta, principal)
        return cast("CallToolResult", result)

    async def read_resource(
        self, uri: str, *, meta: JsonObject | None = None, principal: Principal | None = None
    ) -> ReadResourceResult:
        """Read a resource.

        Raises:
            ResourceNotFound: there is no such resource for the caller.
        """
        result = await request_locally(
            self._core, "resources/read", ReadResourceParams(uri), meta, principal
        )
        return cast("ReadResourceResult", result)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        meta: JsonObject | None = None,
        principal: Principal | None = None,
    ) -> GetPromptResult:
        """Return a prompt with its arguments filled in.

        Raises:
            InvalidParams: there is no such prompt for the caller, or an argument is missing.
        """
        params = GetPromptParams(name, dict(arguments or {}))
        result = await request_locally(self._core, "prompts/get", params, meta, principal)
        return cast("GetPromptResult", result)

    async def list_tools(self, *, principal: Principal | None = None) -> list[Tool]:
        """Return the tools that the caller may use."""
        return await list_locally(self._core, "tools/list", "tools", principal)

    async def list_resources(self, *, principal: Principal | None = None) -> list[Resource]:
        """Return the resources that the caller may read."""
        return await list_locally(self._core, "resources/list", "resources", principal)

    async def list_resource_templates(
        self, *, principal: Principal | None = None
    ) -> list[ResourceTemplate]:
        """Return the resource templates that the caller may read."""
        return await list_locally(
            self._core, "resources/templates/list", "resource_templates", principal
        )

    async def list_prompts(self, *, principal: Principal | None = None) -> list[Prompt]:
        """Return the prompts that the caller may use."""
        return await list_locally(self._core, "prompts/list", "prompts", principal)

    async def connect_memory(self) -> "MemoryWire":
        """Return the client's end of a connection within this process."""
        from accord.runtime.wire import MemoryWire

        return MemoryWire(self._core)

    def acting_as(self, principal: Principal) -> ActingServer:
        """Return the server as a principal sees it, to connect to within this process."""
        return ActingServer(self._core, principal)

    def override(self, overrides: "Overrides") -> AbstractContextManager[None]:
        """Call other functions in place of dependencies; for tests.

        Args:
            overrides: for each function that was given to `Depends`, the one to call instead. It
                may have other parameters.

        Raises:
            ValueError: no handler depends on one of them.
        """
        return self._core.override(overrides)

    # -- serving

    def run_lifespan(self) -> AbstractAsyncContextManager[State | None]:
        """Run the lifespan, within those of what is mounted; yields its state.

        Apps of the server (`asgi`) that start meanwhile on this loop use it.
        """
        return self._core.run_lifespan()

    def asgi(self, **options: "Unpack[HttpSettings]") -> "HttpApp":
        """Return the server as an ASGI app; docs/http.md explains the settings."""
        from accord.server.serving import build_app

        return build_app(self._core, options)

    @overload
    def run(self, transport: Literal["stdio"] = "stdio", *, grace: float = 1.5) -> None: ...
    @overload
    def run(
        self,
        transport: Literal["http", "streamable-http", "sse"],
        **options: "Unpack[ListenSettings]",
    ) -> None: ...
    def run(
        self,
        transport: Literal["stdio", "http", "streamable-http", "sse"] = "stdio",
        **options: "Unpack[ListenSettings]",
    ) -> None:
        """Serve until the input ends or a signal arrives.

        Args:
            transport: "stdio" or "http"; "streamable-http" is the same as "http", and "sse" serves
                the older form of HTTP as well.
            options: `grace`, the seconds that running calls get to finish at the end; clients wait
                2 s before they kill. The others are for HTTP; docs/http.md explains them.

        Raises:
            RuntimeError: an event loop is running in this thread; `serve` is for that.
            ConfigurationError: this system cannot run several processes.
        """
        from accord.server.serving import run

        run(self._core, transport, options)

    async def serve(
        self,
        transport: Literal["stdio", "http", "streamable-http", "sse"] = "stdio",
        **options: "Unpack[ListenSettings]",
    ) -> None:
        """Serve in the running event loop until the input ends or the task is cancelled; as `run`.

        Signals stay with the program, the process goes on, and stdin and stdout are given back.
        """
        from accord.server.serving import serve

        await serve(self._core, transport, options)


# -- requests of this process, without a client
#
# They go through middleware, access and dependencies as those of clients do. There is no client to
# ask, so that a handler that asks one gets an error.


_numbers: Final = itertools.count(1)


async def list_locally(
    server: "ServerCore", method: str, member: str, principal: Principal | None
) -> list[Any]:
    """Return all pages of a list as one list."""
    entries: list[Any] = []
    params = PageParams()
    while True:
        page = await request_locally(server, method, params, None, principal)
        entries += getattr(page, member)
        if page.next_cursor is None:
            return entries
        params = PageParams(cursor=page.next_cursor)


async def request_locally(
    server: "ServerCore",
    method: str,
    params: Any,
    meta: JsonObject | None,
    principal: Principal | None,
) -> Any:
    """Answer a request of this process."""
    async with _state_for(server) as state:
        session = Session(server, lambda data, exchange: None, state)
        context = current.get(None)
        if principal is not None:
            session.principal = principal
        elif context is not None and context._session.server is server:
            session.principal = context.principal
        exchange = _build_exchange(server, method, meta)
        exchange.params = params
        # The handler sets its own, which must not be seen after the call.
        token = current.set(cast("Any", context))
        try:
            outcome = session.request(exchange, params, session.dispatcher)
            result = await outcome if isawaitable(outcome) else outcome
        finally:
            current.reset(token)
            session.close()
        if isinstance(result, bytes):
            return msgspec.json.decode(result, type=BY_NAME[method].result)
        return result


def _state_for(server: "ServerCore") -> AbstractAsyncContextManager[Any]:
    """Return the state of the lifespan that runs on this loop, or run it."""
    context = current.get(None)
    if context is not None and context._session.server is server:
        return nullcontext(context._session.lifespan_state)
    running = server.scopes.running_states()
    return nullcontext(running[-1]) if running else server.open_lifespan()


def _build_exchange(server: "ServerCore", method: str, meta: JsonObject | None) -> Exchange:
    """Return a request of a client that declares nothing and wants no logs."""
    rows = [REVISIONS[id] for id in server.revisions]
    with_handshake = [row for row in rows if row.handshake]
    row = (with_handshake or rows)[-1]
    exchange = Exchange(
        f"local-{next(_numbers)}", method, "client", row, row.requests["client"].get(method)
    )
    exchange.peer = Peer(row, None, frozenset(), None)
    if meta:
        exchange.raw = msgspec.Raw(encode({"_meta": meta}))
    return exchange
