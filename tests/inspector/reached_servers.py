"""Sessions with real servers, for the tests of what acts on a server beside its connection."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from accord import Server
from accord.client.server_spec import ServerSpec
from accord_tools.inspector import check_run, comparison
from accord_tools.inspector.actions import _actions, perform
from accord_tools.inspector.definition import InspectOptions
from accord_tools.inspector.exports import export_actions
from accord_tools.inspector.history import call_history
from accord_tools.inspector.live import calls
from accord_tools.inspector.live.live_connection import LiveConnection
from accord_tools.inspector.log import views
from accord_tools.inspector.raw import console
from accord_tools.inspector.session import Changes, InspectedSession

DEFINING = (
    check_run,
    comparison,
    export_actions,
    call_history,
    calls,
    views,
    console,
)
SMALL_SERVER = Path(__file__).with_name("small_server.py")


def make_server() -> Server:
    from inspector import small_server

    return small_server.make_server()


def small_target(**more) -> ServerSpec:
    """The small server as a Python file, as the command line reads it."""
    command = (sys.executable, "-P", "-m", "accord.cli.main", "run", "--stdio", str(SMALL_SERVER))
    given = {"name": "small_server.py", "shown": str(SMALL_SERVER), "command": command}
    return ServerSpec(**(given | more))


def script_target(tmp_path, code: str) -> ServerSpec:
    """A server of a few lines, without accord, which starts at once."""
    file = tmp_path / "script.py"
    file.write_text(code)
    return ServerSpec(name="script", command=(sys.executable, "-S", "-E", str(file)))


def url_target(port: int, path: str = "/mcp", **more) -> ServerSpec:
    return ServerSpec(name="by url", url=f"http://127.0.0.1:{port}{path}", **more)


class Guarded:
    """An app that lets only requests with a token in."""

    def __init__(self, app, token: str) -> None:
        self.app = app
        self.options = app.options
        self.refused = 0
        self._expected = (b"authorization", f"Bearer {token}".encode())

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and self._expected not in scope["headers"]:
            self.refused += 1
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await self.app(scope, receive, send)


@asynccontextmanager
async def session_of(target: ServerSpec, *, is_connected=False, kind="live", **options):
    session = InspectedSession(
        0, target, kind, options=InspectOptions(**options), changes=Changes()
    )
    try:
        if is_connected:
            link = session.part(LiveConnection)
            link.start()
            await until(lambda: link.state != "connecting")
            assert link.state == "ready", link.failure
        yield session
    finally:
        await session.close()


async def ask(session, name, /, **params):
    """Run an action as the page does; the answer has travelled as JSON."""
    made = await perform(session, _actions[name], json.dumps(params).encode())
    return json.loads(msgspec.json.encode(made))


async def download(session, name, /, **params) -> bytes:
    made = await perform(session, _actions[name], json.dumps(params).encode())
    return b"".join(made.chunks)


async def until(condition, seconds=30.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def call_of(session, name, /, **params):
    """Make a call and wait for its end; return the id."""
    from accord_tools.inspector.live.calls import Calls

    id = (await ask(session, name, confirmed=True, **params))["id"]
    await until(lambda: not session.part(Calls).find(id).is_running)
    return id
