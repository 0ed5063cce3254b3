"""A real HTTP API on loopback that answers with what it was sent, and calls of it through tools."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from aiohttp import web

from accord import Server
from accord.compose import openapi
from support.waiting import LONG


class Api:
    """The running API: its URL, the requests that it got, and what `/answer` answers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answer: tuple[bytes, str, int] = (b"{}", "application/json", 200)
        self.requests: list[dict[str, Any]] = []


async def _describe(request: web.Request) -> dict[str, Any]:
    path, _, query = request.raw_path.partition("?")
    body = await request.read()
    return {
        "method": request.method,
        "path": path,
        "query": query,
        "headers": {name.lower(): value for name, value in request.headers.items()},
        "body": body.decode("latin-1"),
    }


def _app(api: Api) -> web.Application:
    async def echo(request: web.Request) -> web.Response:
        found = await _describe(request)
        api.requests.append(found)
        return web.json_response(found, headers={"Set-Cookie": "seen=1"})

    async def status(request: web.Request) -> web.Response:
        sent = request.headers.get("Authorization", "")
        body = {"error": "it failed", "sent": sent, "query": request.query_string}
        headers = {"Retry-After": "7"} if request.match_info["code"] == "429" else {}
        return web.json_response(body, status=int(request.match_info["code"]), headers=headers)

    async def answer(request: web.Request) -> web.Response:
        body, kind, status = api.answer
        return web.Response(status=status, body=body, headers={"Content-Type": kind})

    async def slow(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async def redirect(request: web.Request) -> web.Response:
        raise web.HTTPFound(request.query.get("to", "/redirect"))

    app = web.Application()
    app.router.add_get("/status/{code}", status)
    app.router.add_get("/answer", answer)
    app.router.add_get("/slow", slow)
    app.router.add_route("*", "/redirect", redirect)
    app.router.add_route("*", "/{rest:.*}", echo)
    return app


@contextmanager
def running_api() -> Iterator[Api]:
    """Run the API in a thread."""
    loop = asyncio.new_event_loop()
    api = Api("")
    ready = threading.Event()
    runner = web.AppRunner(_app(api), access_log=None, handler_cancellation=True)

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0)
        loop.run_until_complete(site.start())
        port = runner.addresses[0][1]
        api.url = f"http://127.0.0.1:{port}"
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert ready.wait(LONG)
    try:
        yield api
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LONG)


def document(path: str = "/items", method: str = "get", **operation: Any) -> dict[str, Any]:
    """Return a document with one operation, named `call`."""
    version = operation.pop("version", "3.1.0")
    more = {
        key: operation.pop(key)
        for key in ("components", "security_of_all", "servers_of_all")
        if key in operation
    }
    own = {"operationId": "call", "responses": {"200": {"description": "fine"}}, **operation}
    found: dict[str, Any] = {
        "openapi": version,
        "info": {"title": "Shop", "version": "1"},
        "paths": {path: {method: own}},
    }
    if "components" in more:
        found["components"] = more["components"]
    if "security_of_all" in more:
        found["security"] = more["security_of_all"]
    if "servers_of_all" in more:
        found["servers"] = more["servers_of_all"]
    return found


def parameter(name: str, place: str, schema: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": schema or {"type": "string"}, **more}


def json_body(schema: Any, *, required: bool = True) -> dict[str, Any]:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


def json_answer(schema: Any) -> dict[str, Any]:
    return {"200": {"description": "fine", "content": {"application/json": {"schema": schema}}}}


def call_tool(source: Any, arguments: Any = None, *, name: str = "call") -> Any:
    """Call a tool of a source that a server mounts."""
    server = Server("test")
    server.mount(source)
    return asyncio.run(asyncio.wait_for(server.call_tool(name, arguments or {}), 60))


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


def send(api: Api, arguments: Any = None, *, auth: Any = None, **described: Any) -> dict[str, Any]:
    """Call the one operation of a document, and return the request that the API got."""
    source = openapi(document(**described), base_url=api.url, auth=auth)
    assert source.skipped == []
    result = call_tool(source, arguments)
    assert not result.is_error, text_of(result)
    return msgspec.json.decode(text_of(result))


def refusal(api: Api, arguments: Any = None, **described: Any) -> str:
    """Call the one operation of a document, and return why the call failed."""
    options = {
        key: described.pop(key) for key in ("auth", "timeout", "max_bytes") if key in described
    }
    result = call_tool(openapi(document(**described), base_url=api.url, **options), arguments)
    assert result.is_error
    return text_of(result)
