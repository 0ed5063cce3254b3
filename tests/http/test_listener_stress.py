"""Clients that do everything at once and leave at any moment: nothing is left of them."""

import asyncio
import json
import random
from contextlib import suppress

import pytest

from accord import Context, Server
from accord.http.settings import HttpLimits
from support.http_talk import call as call_in_session
from support.http_talk import initialize, notification, request
from support.listened import call_body, call_lines, head, post
from support.listened_here import run_on, serving
from support.stateless import headers_of, modern
from support.waiting import until

CLIENTS, STEPS = 60, 6
GARBAGE = b"this is not HTTP\r\n\r\n"


def offer():
    server = Server("busy")

    @server.tool
    async def work(ctx: Context, turns: int = 0, steps: int = 0, size: int = 0) -> str:
        """Work for some turns of the loop, with messages in between."""
        for step in range(steps):
            await ctx.progress(step)
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0.001)
        return "x" * size

    @server.tool
    async def crash() -> str:
        """Fail."""
        raise ValueError("as it should")

    @server.tool
    def block() -> str:
        """Work in a thread."""
        return "done"

    @server.tool
    async def leave(ctx: Context) -> str:
        """Let the client come back for the answer."""
        ctx.hang_up()
        await asyncio.sleep(0.002)
        return "later"

    return server


class Someone:
    """A client that chooses at random."""

    def __init__(self, here, chance):
        self.here = here
        self.chance = chance

    def _arguments(self):
        chance = self.chance
        return {
            "turns": chance.choice((0, 0, 1, 3, 30)),
            "steps": chance.choice((0, 0, 1, 5)),
            "size": chance.choice((0, 10, 200_000)),
        }

    def _alone(self):
        """A request that stands on its own."""
        kind = self.chance.randrange(5)
        if kind == 0:
            message = modern("subscriptions/listen", 1, notifications={"toolsListChanged": True})
            lines = [
                f"{name.replace('_', '-')}: {value}"
                for name, value in headers_of(message).items()
                if value
            ]
            return post(*lines, body=json.dumps(message).encode())
        tool = self.chance.choice(("work", "work", "crash", "block", "nothing"))
        given = self._arguments() if tool == "work" else {}
        return post(*call_lines(tool), body=call_body(tool, **given))

    def _in_session(self, line, revision):
        """A request in a session."""
        chance = self.chance
        kind = chance.randrange(8)
        if kind == 0:
            return head(line, method="GET")
        if kind == 1:
            return head(line, "Last-Event-ID: 1-0", method="GET")
        if kind == 2 and chance.random() < 0.3:
            return head(line, method="DELETE")
        if kind == 3:
            gone = notification("notifications/cancelled", requestId=chance.randrange(9))
            return post(line, body=json.dumps(gone).encode())
        calls = [
            call_in_session(chance.randrange(9), "work", token=chance.random(), **self._arguments())
            for _ in range(1 if revision != "2025-03-26" else chance.choice((1, 3)))
        ]
        body = calls[0] if len(calls) == 1 else calls
        if kind == 4:
            body = call_in_session(chance.randrange(9), chance.choice(("leave", "crash", "block")))
        return post(line, body=json.dumps(body).encode())

    async def live(self):
        """Connect, send, read or not, and leave."""
        chance, line, revision = self.chance, None, "2025-11-25"
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            if chance.random() < 0.6:
                revision = chance.choice(("2025-03-26", "2025-06-18", "2025-11-25"))
                line = await self._open(revision)
            for _ in range(chance.randrange(1, STEPS)):
                client = await self.here.connect()
                async with client:
                    await self._visit(client, line, revision)

    async def _open(self, revision):
        async with await self.here.connect() as client:
            opening = json.dumps(initialize(revision)).encode()
            key = (await client.ask(post(body=opening))).headers["mcp-session-id"]
            line = f"Mcp-Session-Id: {key}\r\nMcp-Protocol-Version: {revision}"
            ready = json.dumps(notification("notifications/initialized")).encode()
            await client.ask(post(line, body=ready))
            return line

    async def _visit(self, client, line, revision):
        chance = self.chance
        for _ in range(chance.choice((1, 1, 2, 4))):
            is_alone = line is None or chance.random() < 0.4
            sent = self._alone() if is_alone else self._in_session(line, revision)
            if chance.random() < 0.15:  # a part of it
                sent = sent[: chance.randrange(len(sent))]
            client.send(sent)
            if chance.random() < 0.1:
                client.send(GARBAGE)
            if chance.random() < 0.5:
                await asyncio.sleep(chance.choice((0, 0, 0.002, 0.01)))
            if chance.random() < 0.3:
                with suppress(TimeoutError):
                    await asyncio.wait_for(client.answer(), 0.02)
        await asyncio.sleep(chance.choice((0, 0, 0.001, 0.005, 0.03)))


def left_over(here):
    """What is not over, by name."""
    app, listener = here.app, here.listener
    requests = app.endpoint.stateless
    spare = requests.spare
    found = {
        "under_way": app.under_way,
        "listening": app.state.listening,
        "readers": len(app.state.readers),
        "waiting": len(app.endpoint.waiting),
        "open": len(requests.open),
        "listeners": len(requests._listeners),
        "bodies": app.bodies.size + len(app.bodies),
        "running": sum(len(each.session.dispatcher.running) for each in app.sessions),
        "spare ones in use": sum(bool(each.session.client.open) for each in spare),
        "spare ones twice": len(spare) - len({id(each) for each in spare}),
        "held": listener.held,
        "tasks": len(listener._tasks),
        "connections": len(listener) + listener.metrics.open,
        "addresses": len(listener._addresses),
    }
    return {name: count for name, count in found.items() if count}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_nothing_is_left_of_clients_that_leave_at_any_moment(loop, seed, caplog):
    chance = random.Random(seed)
    app = offer().asgi(limits=HttpLimits(body_timeout=2.0), keep_alive=0.5)

    async def check():
        async with serving(app) as here:
            someones = [Someone(here, random.Random(chance.random())) for _ in range(CLIENTS)]
            await asyncio.gather(*(each.live() for each in someones))
            with suppress(AssertionError):
                await until(lambda: not left_over(here), seconds=10)
            assert not left_over(here)
            # Still served, as if nothing had happened.
            async with await here.connect() as client:
                ping = json.dumps(request(1, "ping")).encode()
                line = await Someone(here, chance)._open("2025-11-25")
                assert (await client.ask(post(line, body=ping))).status == 200

    run_on(loop, check())
    edges = ("asyncio", "accord.http", "accord")
    faults = [each for each in caplog.records if each.levelname == "ERROR" and each.name in edges]
    assert not [each.getMessage() for each in faults]
