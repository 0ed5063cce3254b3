"""Play the scenario with several clients, one after another, in one process.

    python proxy_clients.py CHAINS

CHAINS is a JSON list: name, client, revision of the client, its target, and for an accord client
the revision of the server, which is then behind a proxy in this process. A chain without a target
has the FastMCP server over HTTP. The outcomes of each chain are printed as one line of JSON. One
process loads the libraries once, for all clients and for the server that it forks.
"""

import asyncio
import contextlib
import importlib
import io
import json
import os
import runpy
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Final

from sessions import DEFAULT, PATIENCE, PEERS

from accord import Server, connect
from accord.compose import proxy_server

# Seconds for all chains, which take ten on an idle machine.
ALL_CHAINS: Final = int(4 * PATIENCE)
# Steps that cost much, or change a server that several chains share, are left out.
LEFT_OUT: Final = {"time-out", "large", "at once", "grow", "subscribe", "counted on"}


@contextmanager
def forked(name: str) -> Iterator[str]:
    """Serve a script of `peers` over HTTP in a forked process; yield its URL."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(reading)
            os.dup2(writing, 1)
            signal.alarm(ALL_CHAINS)
            sys.argv = [name, "http", "stateful"]
            runpy.run_path(str(PEERS / name), run_name="__main__")
        finally:
            os._exit(0)
    os.close(writing)
    try:
        with open(reading, encoding="utf-8") as printed:
            yield f"{printed.readline().strip()}/mcp"
    finally:
        os.kill(process, signal.SIGTERM)
        os.waitpid(process, 0)


def foreign(client: str, arguments: list[str]) -> Callable[[], AbstractAsyncContextManager[Any]]:
    """Return how a foreign client connects to the command or URL that it is given."""
    sys.argv = [client, *arguments]
    connected: Callable[[], AbstractAsyncContextManager[Any]]
    connected = importlib.import_module(f"{client}_client").connected
    return connected


def own(server: Server[Any], revision: str) -> Callable[[], AbstractAsyncContextManager[Any]]:
    """Return how an accord client connects to a proxy in this process."""
    client = importlib.import_module("accord_client")

    @asynccontextmanager
    async def connected() -> AsyncIterator[Any]:
        heard = client.Heard()
        async with connect(server, revision=revision, **heard.options()) as connection:
            yield client.Player(connection, heard)

    return connected


async def main(chains: list[dict[str, Any]], url: str) -> None:
    """Play all chains; chains with the same server and revision share a proxy."""
    scenario = importlib.import_module("scenario")
    steps = [step for step in scenario.SCENARIO if step[0] not in LEFT_OUT]
    proxies: dict[str, Server[Any]] = {}
    async with AsyncExitStack() as stack:
        for chain in chains:
            target, behind = chain["target"] or url, chain["behind"]
            if chain["client"] == "accord":
                key = json.dumps([target, behind])
                if key not in proxies:
                    options = {} if behind == DEFAULT else {"revision": behind}
                    proxies[key] = proxy_server(target, exit_grace=20, **options)
                    # This connection keeps the proxy running from one chain to the next.
                    await stack.enter_async_context(connect(proxies[key]))
                connected = own(proxies[key], chain["revision"])
            else:
                arguments = [target] if isinstance(target, str) else target
                connected = foreign(chain["client"], [chain["revision"], *arguments])
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                await scenario.play(connected, steps)
            print(json.dumps([chain["name"], json.loads(printed.getvalue())]), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(PEERS))
    wanted = json.loads(sys.argv[1])
    for library in ("mcp_client", "fastmcp_client", "accord_client"):
        importlib.import_module(library)
    with forked("fastmcp_server.py") as address:
        asyncio.run(main(wanted, address))
