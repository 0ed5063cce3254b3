"""A live session for tests: a real server, asked by actions as the page asks."""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from accord.client.server_spec import ServerSpec
from accord_tools.inspector.actions import load_actions, perform
from accord_tools.inspector.definition import InspectOptions
from accord_tools.inspector.live.live_connection import LiveConnection
from accord_tools.inspector.session import Changes, InspectedSession

ROOT = Path(__file__).parents[2]
EVERYTHING = ROOT / "examples" / "everything.py"
# Far more than any test needs, also on a busy machine.
LONG = 60


def launch(file, *words):
    """Return the command that serves a file over stdio."""
    return [sys.executable, "-P", "-m", "accord.cli.main", "run", "--stdio", str(file), *words]


class LivePage:
    """Asks a session for actions; the answers have travelled as JSON."""

    def __init__(self, session):
        self.session = session
        self.actions = load_actions()

    async def ask(self, action, /, **params):
        made = await perform(self.session, self.actions[action], json.dumps(params).encode())
        return json.loads(msgspec.json.encode(made))

    async def until(self, action, is_wanted, /, **params):
        """Ask again until an answer is as it should be; return it."""
        answer = None
        try:
            async with asyncio.timeout(LONG):
                while True:
                    answer = await self.ask(action, **params)
                    if is_wanted(answer):
                        return answer
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"{action} stays {answer}") from None

    async def until_state(self, *states):
        return await self.until("session.get", lambda got: got["state"] in states)

    async def until_listed(self, kind="tools"):
        def is_ready(got):
            return got["state"] in ("ready", "failed", "absent") and not got["stale"]

        return await self.until("catalog.list", is_ready, kind=kind)

    async def until_ended(self, id):
        return await self.until("calls.get", lambda got: got["state"] != "running", id=id)

    async def call(self, name, arguments="{}", **params):
        """Call a tool and wait for its end."""
        started = await self.ask(
            "calls.tool", name=name, arguments=arguments, confirmed=True, **params
        )
        return await self.until_ended(started["id"])

    async def question(self):
        """Wait for a question and return it."""
        got = await self.until("questions.list", lambda got: got["questions"])
        return got["questions"][0]


@asynccontextmanager
async def live_page(*, is_ready=True, options=None, **target):
    """Connect to a server, everything.py over stdio by default."""
    if "url" not in target:
        target.setdefault("command", launch(EVERYTHING))
        target.setdefault("env", {**os.environ, "PYTHONPATH": str(ROOT / "src")})
    session = InspectedSession(
        0,
        ServerSpec(name="the server", **target),
        "live",
        options=options or InspectOptions(),
        changes=Changes(),
    )
    page = LivePage(session)
    session.part(LiveConnection).start()
    try:
        if is_ready:
            got = await page.until_state("ready", "failed", "closed")
            assert got["state"] == "ready", got["error"]
        yield page
    finally:
        await session.close()


def scripted(*ways, revision="2025-06-18"):
    """Return the options of `live_page` for the server in plain Python."""
    file = Path(__file__).with_name("scripted_server.py")
    # Without site packages Python starts at once.
    return {"command": [sys.executable, "-I", "-S", str(file), *ways], "revision": revision}
