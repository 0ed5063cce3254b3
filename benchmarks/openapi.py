"""Tools from an OpenAPI document: loading, listing and calling 1,000 operations.

Three things are compared with: the limits that this project sets itself, tools written by hand, and
FastMCP's own conversion in the same run. The API is a process of its own on loopback; CPU time of
this process counts, best of rounds that take turns. `--github FILE` loads a real document too.
"""

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import accord
from accord import Server
from accord.compose import openapi

OPERATIONS, CALLS, ROUNDS = 1_000, 200, 5
MOST_LOADING = 2.0
# Of the CPU of a tool that makes the same request by hand.
MOST_CALLING = 1.5
# Of the CPU of listing as many tools with the same schemas.
MOST_LISTING = 1.2

API = """
import sys
from aiohttp import web
async def answer(request):
    return web.json_response({"id": 7, "name": "thing", "tags": ["a", "b"]})
app = web.Application()
app.router.add_get("/{rest:.*}", answer)
async def start(app):
    print("ready", flush=True)
app.on_startup.append(start)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
"""


def document(url: str) -> dict[str, Any]:
    """Return a document with as many operations as there are to be tools."""
    thing = {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": "string", "description": "what people call it"},
            "tags": {"type": "array", "items": {"$ref": "#/components/schemas/Tag"}},
            "parent": {"$ref": "#/components/schemas/Thing"},
        },
    }
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}

    def operation(number: int) -> dict[str, Any]:
        return {
            "operationId": f"get_thing_{number}",
            "summary": f"Find thing {number}",
            "description": "Finds one thing by its number, with its tags.",
            "tags": ["things"],
            "parameters": [
                {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
                {"name": "fields", "in": "query", "schema": {"type": "string", "maxLength": 80}},
            ],
            "responses": {"200": {"description": "fine", "content": content}},
        }

    return {
        "openapi": "3.0.3",
        "info": {"title": "Things", "version": "1"},
        "servers": [{"url": url}],
        "paths": {f"/things{n}/{{id}}": {"get": operation(n)} for n in range(OPERATIONS)},
        "components": {"schemas": {"Thing": thing, "Tag": {"type": "string", "maxLength": 20}}},
    }


def by_openapi(url: str) -> Server:
    server = Server("things")
    server.mount(openapi(document(url)))
    return server


def by_hand(url: str) -> Server:
    import aiohttp
    from msgspec import Struct
    from msgspec.json import decode

    class Thing(Struct):
        id: int
        name: str
        tags: list[str]

    server: Server[Any] = Server("things", lifespan=lambda _: aiohttp.ClientSession(url))
    for number in range(OPERATIONS):

        async def get_thing(
            id: int, ctx: accord.Context, fields: str | None = None, number: int = number
        ) -> Thing:
            """Find one thing by its number, with its tags."""
            query = {} if fields is None else {"fields": fields}
            async with ctx.state.get(f"/things{number}/{id}", params=query) as response:
                return decode(await response.read(), type=Thing)

        server.add_tool(get_thing, name=f"get_thing_{number}")
    return server


def with_same_schemas(url: str) -> Server:
    """Return plain tools that list the same as those of the document."""
    server = Server("things")

    async def get_thing(**arguments: object) -> object:
        """Find one thing by its number, with its tags."""
        return {}

    for entry in openapi(document(url)).entries("tools"):
        tool = entry.item
        server.add_tool(
            get_thing,
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            annotations=tool.annotations,
        )
    return server


def by_fastmcp(url: str) -> Any:
    import httpx2
    from fastmcp import FastMCP

    client = httpx2.AsyncClient(base_url=url)
    return FastMCP.from_openapi(document(url), client=client, name="things")


BUILDERS: dict[str, Callable[[str], Any]] = {
    "openapi()": by_openapi,
    "by hand": by_hand,
    "same": with_same_schemas,
    "FastMCP": by_fastmcp,
}


def connect(who: str, server: Any) -> Any:
    """Return a client of the same library, in memory."""
    if who != "FastMCP":
        return accord.connect(server)
    from fastmcp import Client

    return Client(server)


async def cpu_of(work: Callable[[], Awaitable[object]], count: int) -> float:
    gc.collect()
    started = time.process_time()
    for _ in range(count):
        await work()
    return (time.process_time() - started) / count


async def measure(url: str, found: dict[str, dict[str, float]]) -> None:
    clients = {}
    servers = {}
    for who, build in BUILDERS.items():
        started = time.perf_counter()
        servers[who] = build(url)
        found["load"][who] = time.perf_counter() - started
        clients[who] = connect(who, servers[who])
    opened = {who: await client.__aenter__() for who, client in clients.items()}
    arguments = {"id": 7, "fields": "name"}
    for round_ in range(ROUNDS):
        for who, client in opened.items():
            lists = await cpu_of(client.list_tools, 1)
            if round_ == 0:
                found["first list"][who] = lists
            found["list"][who] = min(found["list"].get(who, 1e9), lists)
            if who == "same":
                continue
            call = await cpu_of(lambda c=client: c.call_tool("get_thing_500", arguments), CALLS)
            found["call"][who] = min(found["call"].get(who, 1e9), call)
    for client in clients.values():
        await client.__aexit__(None, None, None)


def report(found: dict[str, dict[str, float]]) -> bool:
    units = {"load": (1, "s"), "first list": (1e3, "ms"), "list": (1e3, "ms"), "call": (1e6, "µs")}
    for what, row in found.items():
        factor, unit = units[what]
        cells = "  ".join(f"{who} {value * factor:9.2f} {unit}" for who, value in row.items())
        peer = row["FastMCP"] / row["openapi()"]
        print(f"{what:<11}{cells}  FastMCP takes {peer:.1f} times as much")
    limits = {
        "loading 1,000 operations, s": (found["load"]["openapi()"], MOST_LOADING),
        "listing, against tools with the same schemas": (
            found["list"]["openapi()"] / found["list"]["same"],
            MOST_LISTING,
        ),
        "calling, against a tool by hand": (
            found["call"]["openapi()"] / found["call"]["by hand"],
            MOST_CALLING,
        ),
    }
    for what, (value, most) in limits.items():
        verdict = "reached" if value <= most else "MISSED"
        print(f"{what}: {value:.2f}, at most {most:g}: {verdict}")
    return all(value <= most for value, most in limits.values())


def load_file(path: str) -> None:
    started = time.perf_counter()
    source = openapi(path, base_url="http://127.0.0.1:1")
    took = time.perf_counter() - started
    count = len(source.entries("tools"))
    print(f"{path}: {count} operations in {took:.2f} s, {len(source.skipped)} left out")


def main() -> int:
    import socket

    if "--github" in sys.argv:
        load_file(sys.argv[sys.argv.index("--github") + 1])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    api = subprocess.Popen([sys.executable, "-c", API, str(port)], stdout=subprocess.PIPE)
    try:
        assert api.stdout is not None
        api.stdout.readline()
        time.sleep(0.2)  # until it listens
        found: dict[str, dict[str, float]] = {"load": {}, "first list": {}, "list": {}, "call": {}}
        asyncio.run(measure(f"http://127.0.0.1:{port}", found))
    finally:
        api.kill()
    return 0 if report(found) else 1


if __name__ == "__main__":
    sys.exit(main())
