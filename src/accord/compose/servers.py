"""Whole servers made of others: one proxy, or all servers of a configuration behind one."""

import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from accord.client.configuration import Configuration, read_servers
from accord.client.connect import Target
from accord.compose.proxies.options import ProxyOptions
from accord.compose.proxies.source import ProxySource, proxy
from accord.errors import ConfigurationError
from accord.server.server import Server

if TYPE_CHECKING:
    from accord.server.settings import ServerSettings

log = logging.getLogger("accord.compose")

# Connecting has a limit of its own, whose message says more. A first start may download packages.
_START_TIMEOUT: Final = 60.0
_NOT_IN_PREFIXES: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def proxy_server(
    target: Target | Mapping[str, Any], *, name: str | None = None, **options: Unpack[ProxyOptions]
) -> Server[None]:
    """Return a server that offers what another one does, under the same names.

    It introduces itself as the other server does, and does not start without it. The arguments are
    those of `proxy`; `required` is True and `start_timeout` 60 unless they are given.
    """
    options.setdefault("required", True)
    options.setdefault("start_timeout", _START_TIMEOUT)
    source = proxy(target, name=name, **options)

    @asynccontextmanager
    async def introduce(server: Server[None]) -> AsyncIterator[None]:
        server.instructions = source.instructions
        if source.info is not None and name is None:
            server._core.info = source.info
        yield

    server: Server[None] = Server(source.name, lifespan=introduce)
    server.mount(source)
    return server


def configuration_server(
    configuration: Configuration,
    *,
    name: str | None = None,
    separator: str = "_",
    settings: "ServerSettings | None" = None,
    **options: Unpack[ProxyOptions],
) -> Server[None]:
    """Return one server that offers what all servers of a configuration do.

    With several servers, each name is prefixed with that of its server. A server that is described
    wrongly or does not start is logged and left out, and so is one that is disabled.

    Args:
        configuration: the path of a file such as mcp.json, or a dictionary.
        name: of the server; by default that of the file.
        separator: between the prefix and a name.
        settings: of the server.
        options: of each proxy; those that an entry has come first.

    Raises:
        ConfigurationError: the file cannot be read, or names no server.
    """
    entries, faults = read_servers(configuration)
    for fault in faults.values():
        log.warning("%s", fault)
    if not entries:
        raise ConfigurationError(_describe_lack(configuration, faults))
    server: Server[None] = Server(name or _name_of(configuration), **(settings or {}))
    prefixes = _choose_prefixes([*entries])
    for entry in entries.values():
        given: Any = {**options, **entry.options}
        source = ProxySource(entry.name, entry.target, given)
        prefix = prefixes[entry.name] if len(entries) > 1 else None
        server.mount(source, prefix=prefix, separator=separator)
    return server


def _describe_lack(configuration: Configuration, faults: Mapping[str, Exception]) -> str:
    if faults:
        return "; ".join(map(str, faults.values()))
    named = "the configuration" if isinstance(configuration, Mapping) else str(configuration)
    return f"{named} names no server that is enabled"


def _name_of(configuration: Configuration) -> str:
    return "servers" if isinstance(configuration, Mapping) else Path(configuration).stem


def _choose_prefixes(names: list[str]) -> dict[str, str]:
    """Return a prefix for each server: its name, with what names of tools may have."""
    chosen: dict[str, str] = {}
    for name in names:
        wanted = _NOT_IN_PREFIXES.sub("-", name).strip("-") or "server"
        prefix, number = wanted, 2
        while prefix in chosen.values():
            prefix, number = f"{wanted}-{number}", number + 1
        chosen[name] = prefix
    return chosen
