"""Play the scenario with several clients, one after another, in one process.

    python proxy_clients.py CHAINS

CHAINS is a JSON list: name, client, revision of the client, its target, and for an accord client
the revision of the server, which is then behind a proxy in this process. The outcomes of each
chain are printed as one line of JSON. One process loads the libraries once for all clients.
"""

import asyncio
import contextlib
import importlib
import io
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final

from sessions import DEFAULT, PEERS

from accord import Server, connect
from accord.compose import proxy_server

sys.path.insert(0, str(PEERS))

# Steps that cost much, or change a server that several chains share, are left out.
LEFT_OUT: Final = {"time-out", "large", "at once", "grow", "subscribe", "counted on"}


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


async def main(chains: list[dict[str, Any]]) -> None:
    """Play all chains; chains with the same server and revision share a proxy."""
    scenario = importlib.import_module("scenario")
    steps = [step for step in scenario.SCENARIO if step[0] not in LEFT_OUT]
    proxies: dict[str, Server[Any]] = {}
    async with AsyncExitStack() as stack:
        for chain in chains:
            target, behind = chain["target"], chain["behind"]
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
    asyncio.run(main(json.loads(sys.argv[1])))
