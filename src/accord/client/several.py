"""Several servers in one client: all connect at once, and each fails alone."""

from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Unpack, cast

from accord.client.client_group import ClientGroup, ConfiguredServer
from accord.client.configuration import Configuration, read_servers
from accord.client.connect import connect
from accord.client.options import ConnectOptions
from accord.client.server_entry import ServerEntry
from accord.errors import AccordError

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
    servers = {
        name: ConfiguredServer(entry, connect(entry.target, **_merge(entry, options, options_for)))
        for name, entry in entries.items()
    }
    return ConnectingAll(servers, faults, separator)


def _merge(
    entry: ServerEntry, options: ConnectOptions, options_for: OptionsFor | None
) -> ConnectOptions:
    """Return the options of one server: the special come before the general."""
    merged = dict(options)
    for layer in (entry.options, {} if options_for is None else options_for(entry.name)):
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
