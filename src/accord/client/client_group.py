"""The clients of several servers, by name.

All of them connect at once, and each fails alone. Tools, prompts and resources have names that
begin with the name of their server.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar, Unpack, cast, overload

from accord.client.client import Client
from accord.client.configuration import Configuration, read_servers
from accord.client.connect import Connecting, connect
from accord.client.options import CallOptions, ConnectOptions
from accord.client.server_spec import ServerSpec
from accord.errors import (
    AccordError,
    ConnectFailed,
    ConnectionClosed,
    MethodNotFound,
    RequestError,
    ServerNotFound,
)
from accord.types import (
    CallToolResult,
    GetPromptResult,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Tool,
)

log = logging.getLogger("accord.client")

Output = TypeVar("Output")

_TEMPLATES: Final = "resource_templates"
# A message is to be read; a configuration may have hundreds.
_NAMES_SHOWN: Final = 20


class ConfiguredServer(NamedTuple):
    """A server of the configuration, and what connects to it each time it is awaited."""

    spec: ServerSpec
    connecting: Connecting


class ClientGroup(Mapping[str, Client]):
    """The clients of several servers by name, as `connect_all` returns them.

    It is a mapping of those that are connected. `clients["crm"]` raises ConnectFailed for a server
    that is configured and not connected, and ServerNotFound for any other name.

    Attributes:
        failures: by name, why a server is not connected, or why its lists could not be read.
        separator: what stands between the name of a server and that of a tool.
    """

    def __init__(
        self,
        servers: Mapping[str, ConfiguredServer],
        faults: Mapping[str, AccordError],
        *,
        separator: str,
    ) -> None:
        self.failures: dict[str, Exception] = dict(faults)
        self.separator = separator
        self._servers = servers
        self._names = (*servers, *faults)
        # Those whose prefix is the beginning of no other name, as nearly always.
        self._unambiguous = frozenset(
            name
            for name in self._names
            if not any(other.startswith(name + separator) for other in self._names)
        )
        self._clients: dict[str, Client] = {}
        self._listed: dict[str, frozenset[str]] = {}
        self._reconnecting: dict[str, asyncio.Task[Client]] = {}
        self._is_closed = False

    def __repr__(self) -> str:
        failed = f"; failed: {', '.join(self.failures)}" if self.failures else ""
        return f"<ClientGroup of {', '.join(self) or 'no servers'}{failed}>"

    # -- the mapping

    def __getitem__(self, name: str) -> Client:
        client = self._clients.get(name)
        if client is not None:
            return client
        failure = self.failures.get(name)
        if failure is not None or name in self._names:
            raise _not_connected(name, failure) from failure
        raise ServerNotFound(
            f"there is no server {name!r}; {self._list_names()}", known=self._names
        )

    def __iter__(self) -> Iterator[str]:
        return iter([name for name in self._names if name in self._clients])

    def __len__(self) -> int:
        return len(self._clients)

    def __contains__(self, name: object) -> bool:
        return name in self._clients

    def get(self, name: str, default: Any = None) -> Any:
        """Return the client of a server, or the default where it is not connected."""
        return self._clients.get(name, default)

    # -- beginning and ending

    async def _open(self) -> Self:
        for name, fault in self.failures.items():
            log.warning("server %r is not connected: %s", name, fault)
        tasks = [asyncio.ensure_future(self._try(name)) for name in self._servers]
        try:
            if tasks:
                await asyncio.wait(tasks)
        except BaseException:
            # Once and no more: a task that is cancelled again would not end its server.
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await self.close()
            raise
        return self

    async def _try(self, name: str) -> None:
        try:
            await self._connect(name)
        except Exception as error:
            log.warning("server %r is not connected: %s", name, error)

    async def _connect(self, name: str) -> Client:
        try:
            client = await self._servers[name].connecting
        except Exception as error:
            self._record(name, error)
            raise
        self._clients[name] = client
        self.failures.pop(name, None)
        return client

    async def reconnect(self, name: str) -> Client:
        """Connect to a server again, whether it failed, ended or still runs.

        Calls that wait for its answers fail. Several calls of this method at once share one
        attempt.

        Raises:
            ConnectFailed: it failed again.
            ServerNotFound: there is no server of that name.
            ConnectionClosed: `close` was called.
        """
        if self._is_closed:
            raise ConnectionClosed("the clients are closed")
        if name not in self._servers:
            return self[name]  # raises
        task = self._reconnecting.get(name)
        if task is None:
            task = asyncio.ensure_future(self._reconnect(name))
            self._reconnecting[name] = task
            task.add_done_callback(self._forget_attempt)
        await asyncio.wait([task])  # a caller that is cancelled leaves it to the others
        if task.cancelled():
            raise ConnectionClosed("the clients are closed")
        error = task.exception()
        if error is not None:
            raise _not_connected(name, error) from error
        return task.result()

    async def _reconnect(self, name: str) -> Client:
        client = self._clients.pop(name, None)
        self._listed.pop(name, None)
        if client is not None:
            await client.close()
        return await self._connect(name)

    def _forget_attempt(self, task: asyncio.Task[Client]) -> None:
        attempts = self._reconnecting
        self._reconnecting = {name: each for name, each in attempts.items() if each is not task}
        if not task.cancelled():
            task.exception()  # asyncio would log it if all callers were cancelled

    async def close(self) -> None:
        """End all connections; may be repeated."""
        self._is_closed = True
        attempts = [*self._reconnecting.values()]
        for task in attempts:
            task.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        closing = [client.close() for client in self._clients.values()]
        for outcome in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- names

    def join(self, server: str, name: str) -> str:
        """Return the name under which a tool or prompt of a server is offered."""
        return f"{server}{self.separator}{name}"

    def split(self, name: str) -> tuple[str, str]:
        """Return the server that a name belongs to, and the name that it has there.

        Where several servers come into question, as "crm" and "crm.eu" do for "crm.eu.find", it is
        the one with the longest name, whether or not it is connected.

        Raises:
            ServerNotFound: the name does not begin with that of a server.
        """
        server, found, own = name.partition(self.separator)
        if found and server in self._unambiguous:
            return server, own
        matches = [each for each in self._names if name.startswith(each + self.separator)]
        if not matches:
            raise ServerNotFound(
                f"{name[:100]!r} does not begin with the name of a server and "
                f"{self.separator!r}; {self._list_names()}",
                known=self._names,
            )
        server = max(matches, key=len)
        return server, name[len(server) + len(self.separator) :]

    def _list_names(self) -> str:
        shown = ", ".join(self._names[:_NAMES_SHOWN])
        more = ", ..." if len(self._names) > _NAMES_SHOWN else ""
        return f"the servers are {shown}{more}" if shown else "there are no servers"

    # -- lists

    def tools(self, **how: Unpack[CallOptions]) -> AsyncIterator[Tool]:
        """Iterate over the tools of all servers, server by server, under their prefixed names.

        All lists are fetched at once. A server whose list cannot be read is left out and logged,
        and `failures` has the error. A tool is left out and logged if its prefixed name is one of
        another server, as `split` reads it.
        """
        return self._all("tools", how)

    def prompts(self, **how: Unpack[CallOptions]) -> AsyncIterator[Prompt]:
        """Iterate over the prompts of all servers, as `tools` does."""
        return self._all("prompts", how)

    def resources(self, **how: Unpack[CallOptions]) -> AsyncIterator[Resource]:
        """Iterate over the resources of all servers, as `tools` does; their URIs have no prefix."""
        return self._all("resources", how)

    def resource_templates(self, **how: Unpack[CallOptions]) -> AsyncIterator[ResourceTemplate]:
        """Iterate over the resource templates of all servers, as `tools` does."""
        return self._all("resource_templates", how)

    async def _all(self, kind: str, how: CallOptions) -> AsyncIterator[Any]:
        for server, found in (await self._fetch(kind, how)).items():
            prefix, is_unambiguous = f"{server}{self.separator}", server in self._unambiguous
            for each in found:
                name = prefix + each.name
                if not is_unambiguous and (owner := self.split(name)[0]) != server:
                    log.warning(
                        "%r of server %r is left out: %r is a name of server %r",
                        *(each.name, server, name, owner),
                    )
                    continue
                entry = copy(each)
                entry.name = name
                yield entry

    async def _fetch(self, kind: str, how: CallOptions) -> dict[str, list[Any]]:
        """Fetch a list from all servers that have it, at once."""
        capability = "resources" if kind == _TEMPLATES else kind
        names = [
            name
            for name in self
            if getattr(self._clients[name].capabilities, capability) is not None
        ]
        found = await asyncio.gather(*(self._collect(name, kind, how) for name in names))
        return dict(zip(names, found, strict=True))

    async def _collect(self, name: str, kind: str, how: CallOptions) -> list[Any]:
        client = self._clients[name]
        try:
            found = [entry async for entry in getattr(client, kind)(**how)]
        except AccordError as error:
            if isinstance(error, MethodNotFound) and kind == _TEMPLATES:
                return []  # many servers have resources and no templates
            self._record(name, error)
            log.warning("the %s of server %r cannot be read: %s", kind, name, error)
            return []
        if self._clients.get(name) is client:
            self.failures.pop(name, None)
            if kind == "resources":
                self._listed[name] = frozenset(each.uri for each in found)
        return found

    def _record(self, name: str, error: Exception) -> None:
        """Keep an error, without the values of variables and headers that it may quote."""
        mask = self._servers[name].spec.mask
        error.args = tuple(mask(each) if isinstance(each, str) else each for each in error.args)
        if isinstance(error, RequestError):
            error.message = mask(error.message)
        if isinstance(error, ConnectFailed):
            error.command = tuple(map(mask, error.command))
            error.stderr = mask(error.stderr)
        self.failures[name] = error

    # -- operations

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        result_type: None = None,
        **how: Unpack[CallOptions],
    ) -> CallToolResult: ...

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        result_type: type[Output],
        **how: Unpack[CallOptions],
    ) -> Output: ...

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        result_type: object,
        **how: Unpack[CallOptions],
    ) -> Any: ...

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        result_type: Any = None,
        **how: Unpack[CallOptions],
    ) -> Any:
        """Call a tool by its prefixed name, such as "crm.find"; otherwise as `Client.call_tool`.

        Raises:
            ServerNotFound: the name does not begin with that of a server.
            ConnectFailed: that server is not connected.
        """
        server, own = self.split(name)
        if result_type is None:
            return await self[server].call_tool(own, arguments, **how)
        return await self[server].call_tool(own, arguments, result_type=result_type, **how)

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **how: Unpack[CallOptions]
    ) -> GetPromptResult:
        """Fill in a prompt by its prefixed name; errors as for `call_tool`."""
        server, own = self.split(name)
        return await self[server].get_prompt(own, arguments, **how)

    async def read_resource(self, uri: str, **how: Unpack[CallOptions]) -> ReadResourceResult:
        """Read a resource from the server that lists it, or that has a template for it.

        The lists are fetched when a URI is in none of those fetched before.
        `clients["crm"].read_resource(uri)` reads from one server, whatever it lists.

        Raises:
            ServerNotFound: no server has it, or more than one.
        """
        return await self[await self._find_resource(uri)].read_resource(uri, **how)

    async def _find_resource(self, uri: str) -> str:
        owners = self._listing(uri)
        if not owners:
            await self._fetch("resources", {})
            owners = self._listing(uri) or await self._match_templates(uri)
        if len(owners) == 1:
            return owners[0]
        what = f"servers {', '.join(owners)} have" if owners else "no server has"
        raise ServerNotFound(
            f"{what} the resource {uri[:200]!r}: clients[NAME].read_resource(uri) reads from one "
            f"server; {self._list_names()}",
            known=owners or self._names,
        )

    def _listing(self, uri: str) -> list[str]:
        return [name for name in self if uri in self._listed.get(name, ())]

    async def _match_templates(self, uri: str) -> list[str]:
        from accord.protocol.uri_template import parse

        owners = []
        for name, templates in (await self._fetch(_TEMPLATES, {})).items():
            for template in templates:
                try:
                    matches = parse(template.uri_template).match(uri) is not None
                except ValueError:  # a template that is wrong matches nothing
                    continue
                if matches:
                    owners.append(name)
                    break
        return owners


def _not_connected(name: str, failure: BaseException | None) -> ConnectFailed:
    why = "it is being connected" if failure is None else str(failure)
    details = failure if isinstance(failure, ConnectFailed) else ConnectFailed("")
    return ConnectFailed(
        f"server {name!r} is not connected: {why}",
        command=details.command,
        exit_code=details.exit_code,
        phase=details.phase,
        stderr=details.stderr,
    )


# -- connecting to all of them

OptionsFor = Callable[[str], ConnectOptions]
"""Returns the options of one server by its name."""


def connect_all(
    source: Configuration,
    *,
    separator: str = ".",
    options_for: OptionsFor | None = None,
    **options: Unpack[ConnectOptions],
) -> "ConnectingAll":
    """Connect to all servers of a configuration at once.

    Use it as `async with connect_all("mcp.json") as clients`, or as `clients = await
    connect_all(...)` with `await clients.close()` later. It is done when every server has
    connected or failed, which takes no longer than `connect_timeout` and the time to end a server
    that does not answer. One that fails is logged, and its error is in `clients.failures`.

    Args:
        source: the path of a JSON file with `mcpServers` or `servers`, such a dictionary, or a
            dictionary of targets by name.
        separator: stands between the name of a server and that of a tool: "crm.find".
        options_for: called with the name of each server; returns options for that one, which
            come before all others. Callbacks that need to know which server calls are made here:
            `options_for=lambda name: {"on_log": partial(show, name)}`.
        **options: those of `connect`, for every server. What the entry of a server says comes
            before them; `env` and `headers` are joined. `cwd` is the folder that relative paths are
            relative to, in place of the folder of the file.

    Raises:
        ConfigurationError: the configuration as a whole cannot be read.
        TypeError: an option does not exist; or `auth` is a token, which every server would see.
    """
    given: object = separator
    if not given or not isinstance(given, str):
        raise TypeError(f"separator is {separator!r}, expected a text such as '.' or '__'")
    auth = options.get("auth")
    if isinstance(auth, str) and auth != "oauth":
        raise TypeError(
            "auth is a token, which every server would see: put it into the entry of its server, "
            "or return it from options_for for that one"
        )
    folder = options.pop("cwd", None)
    connect("", **options)  # refuses options that do not exist
    entries, faults = read_servers(source, folder=folder)
    servers = {}
    for name, spec in entries.items():
        merged = _merge(spec, options, options_for)
        connecting = connect(spec.target, **merged)
        servers[name] = ConfiguredServer(spec.with_options(merged), connecting)
    return ConnectingAll(servers, faults, separator)


def _merge(
    spec: ServerSpec, options: ConnectOptions, options_for: OptionsFor | None
) -> ConnectOptions:
    """Return the options of one server: the special come before the general."""
    merged = dict(options)
    own = None if options_for is None else options_for(spec.name)
    for layer in (spec.options, own or {}):
        for name, value in layer.items():
            before = merged.get(name)
            joins = name in ("env", "headers")
            if joins and isinstance(before, Mapping) and isinstance(value, Mapping):
                value = {**before, **value}
            merged[name] = value
    return cast("ConnectOptions", merged)


class ConnectingAll:
    """Connections that are made when they are awaited or entered."""

    def __init__(
        self,
        servers: Mapping[str, ConfiguredServer],
        faults: Mapping[str, AccordError],
        separator: str,
    ) -> None:
        self._servers = servers
        self._faults = faults
        self._separator = separator
        self._group: ClientGroup | None = None

    if not TYPE_CHECKING:  # type checkers should not take it for the clients

        def __getattr__(self, name: str) -> object:
            raise AttributeError(
                f"nothing is connected yet, so there is no {name}: write "
                "`async with connect_all(...) as clients`, or `clients = await connect_all(...)`"
            )

        def __enter__(self) -> object:
            raise TypeError(
                "connect_all() needs asyncio: write `async with connect_all(...) as clients`; "
                "without asyncio, `with accord.client.blocking.connect_all(...) as clients`"
            )

        def __exit__(self, *_: object) -> None:
            """Never reached; `with` looks for it before it enters."""

    def __await__(self) -> Generator[object, None, ClientGroup]:
        group = ClientGroup(self._servers, self._faults, separator=self._separator)
        return group._open().__await__()

    async def __aenter__(self) -> ClientGroup:
        self._group = await self
        return self._group

    async def __aexit__(self, *_: object) -> None:
        group, self._group = self._group, None
        if group is not None:
            await group.close()
