"""What a session costs while its client is silent, and how the server finds it meanwhile."""

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from accord import Context, Server
from support.asgi import Asgi
from support.http_offer import offer
from support.http_talk import call, notification, request, text_of
from support.stored_apps import in_one_process
from support.waiting import in_loop, run, until

# It takes about 970 bytes in 8 objects; the limit leaves room for the growth of tables.
BYTES_MOST = 1_300
OBJECTS_MOST = 8
COUNT = 150


@contextmanager
def tracing() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def count_objects() -> int:
    """Return how many objects the garbage collector looks at."""
    gc.collect()
    return len(gc.get_objects())


async def open_and_call(app: Any, *, count: int) -> None:
    for _ in range(count):
        client = Asgi(app)
        await client.open()
        assert text_of((await client.post(call(1, "add", a=1, b=2))).json) == "3"
        await client.post(request(2, "tools/list"))


@in_one_process
@in_loop
async def test_an_idle_session_stays_small() -> None:
    app = offer().asgi()
    await open_and_call(app, count=20)  # what is allocated once
    before = count_objects()
    with tracing():
        await open_and_call(app, count=COUNT)
        objects = count_objects() - before
        size, _ = tracemalloc.get_traced_memory()
    assert len(app.sessions) == COUNT + 20
    assert size / COUNT < BYTES_MOST
    assert objects / COUNT < OBJECTS_MOST


def tables(app: Any) -> list[Any]:
    """Return the tables of requests that the only session of an app owns."""
    (session,) = app.sessions
    conversation, dispatcher = session.session.endpoint.conversation, session.session.dispatcher
    found = [dispatcher.running]
    for party in (conversation.client, conversation.server):
        found += [party.open, party.tokens]
    return [each for each in found if isinstance(each, dict)]


@in_loop
async def test_requests_of_the_server_leave_no_tables_after_the_next_sweep() -> None:
    server = Server("desk")

    @server.tool
    async def look(ctx: Context) -> int:
        """Look at the roots of the client."""
        return len(await ctx.roots())

    app = server.asgi()
    client = Asgi(app)
    opening = request(
        0,
        "initialize",
        protocolVersion="2025-06-18",
        capabilities={"roots": {}},
        clientInfo={"name": "c", "version": "1"},
    )
    client.session = (await client.post(opening)).headers["mcp-session-id"]
    await client.post(notification("notifications/initialized"))
    calling = client.start("POST", call_with_token())
    await until(lambda: calling.events)
    asked = calling.events[0]["id"]
    await client.post({"jsonrpc": "2.0", "id": asked, "result": {"roots": []}})
    await calling.done()
    assert text_of(calling.events[-1]) == "0"
    app.sessions.sweep(app.state.now())
    assert tables(app) == []


def call_with_token() -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
        b'{"name":"look","arguments":{},"_meta":{"progressToken":"t"}}}'
    )


def test_the_server_finds_sessions_while_they_are_open() -> None:
    server, seen = Server("desk"), []

    @server.middleware
    async def note(ctx: Context, call_next: Any) -> Any:
        seen.append((len(server.sessions), ctx.session in server.sessions))
        return await call_next()

    async def scenario() -> None:
        app = server.asgi()
        first, second = Asgi(app), Asgi(app)
        await first.open()
        await second.open()
        assert set(server._core.sessions) == {each.session for each in app.sessions}
        assert repr(server._core.sessions) == "OpenSessions(2)"
        await first.start("DELETE").done()
        assert [each.session for each in app.sessions] == [*server._core.sessions]
        await app.stop()
        assert not server.sessions

    run(scenario())
    # The session that is being opened is among them.
    assert seen == [(1, True), (2, True)]
