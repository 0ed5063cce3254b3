"""A server over HTTP, and a client that survives its restart.

python examples/over_http.py             both, one after the other
accord run examples/over_http.py --http  the server alone, at http://127.0.0.1:8000/mcp
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from accord import Context, Server, connect

server = Server("counter")


@server.tool
async def count(ctx: Context, to: int) -> str:
    """Count, and report progress."""
    for number in range(1, to + 1):
        await ctx.progress(number, to)
    return f"counted to {to}"


@asynccontextmanager
async def run_server(port: int) -> AsyncIterator[None]:
    """Run the server as a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, str(port), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        while not _is_listening(port):
            await asyncio.sleep(0.05)
        yield
    finally:
        process.terminate()
        await process.wait()


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/mcp"
    async with run_server(port):
        # The newest revision has no sessions to lose; this one has.
        client = await connect(
            url, revision="2025-11-25", on_renewed=lambda: print("a new session has begun")
        )
        print("server:", client.server_info.name, client.revision)
        print(await client.call_tool("count", {"to": 3}, result_type=str))
    async with run_server(port):  # another process, without our session
        print(await client.call_tool("count", {"to": 5}, result_type=str))
        await client.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("http", port=int(sys.argv[1]))
    else:
        asyncio.run(main())
