"""What one request on the listener leaves for the next: nothing, whatever its client does."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar

import pytest

from accord import Server
from accord.http.server.running import serve_in_loop
from accord.http.server.sockets import listen_on
from accord.http.settings import HttpLimits
from support.http_offer import offer
from support.http_talk import call as call_in_session
from support.http_talk import initialize, notification
from support.listened import call_body, call_lines, head, post
from support.listened_here import Client, run_on, serving
from support.waiting import until

mark = ContextVar("mark", default="clean")


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request):
    return request.param


def call(tool, **arguments):
    """A call that stands on its own, as bytes."""
    return post(*call_lines(tool), body=call_body(tool, **arguments))


async def ticks(listener, count):
    """Wait until the listener has looked at its connections so many times."""
    for _ in range(count):
        last = listener.now
        await until(lambda last=last: listener.now != last)


def test_an_asgi_app_may_change_its_headers(loop):
    seen = []

    async def app(scope, receive, send):
        await receive()
        seen.append(len(scope["headers"]))
        scope["headers"].append((b"x-user", b"ann"))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def check():
        async with serving(app) as here, await here.connect() as client:
            for _ in range(4):
                await client.ask(post())

    run_on(loop, check())
    assert seen == [4] * 4


def test_a_handler_sees_no_context_variables_of_the_request_before_it(loop):
    server = Server("marks")

    @server.tool
    async def read(size: int = 0) -> str:
        """Return what is set, and set something else."""
        found = mark.get()
        mark.set("dirty")
        await asyncio.sleep(0)
        return found + "." * size

    async def check():
        async with serving(server.asgi()) as here, await here.connect() as client:
            client.send(call("read") * 3)
            for _ in range(3):
                assert b"clean" in (await client.answer()).body
            # So much that the client has to read before more is served.
            client.send(call("read", size=300_000) * 4)
            for _ in range(4):
                assert b"clean" in (await client.answer()).body

    run_on(loop, check())


def test_a_client_that_reads_nothing_gets_no_more_answers(loop):
    server = Server("large")
    calls = 0

    @server.tool
    async def large() -> str:
        """Return much."""
        nonlocal calls
        calls += 1
        return "x" * 1_000_000

    async def check():
        async with serving(server.asgi()) as here, await here.connect() as client:
            client.writer.transport.pause_reading()
            for _ in range(4):
                client.send(call("large") * 5)
                await asyncio.sleep(0.01)
            await ticks(here.listener, 1)
            begun = calls
            assert begun < 15
            client.writer.transport.resume_reading()
            for _ in range(20):
                assert (await client.answer()).status == 200
            assert calls == 20

    run_on(loop, check())


def test_a_call_after_another_on_the_wire_is_not_taken_for_silence(loop):
    app = offer().asgi(limits=HttpLimits(body_timeout=0.4))

    async def check():
        async with serving(app, idle_timeout=0.2) as here, await here.connect() as client:
            client.send(call("history") + call("wait", name="a"))
            assert (await client.answer()).status == 200
            await ticks(here.listener, 6)
            async with await here.connect() as other:
                assert (await other.ask(call("free", name="a"))).status == 200
            assert b'"text":"a"' in (await client.answer()).body

    run_on(loop, check())


# -- counts


def counts(here):
    """What is under way; all of it is zero once nothing is."""
    app, listener = here.app, here.listener
    requests = app.endpoint.stateless
    return {
        "under_way": app.under_way,
        "listening": app.state.listening,
        "readers": len(app.state.readers),
        "waiting": len(app.endpoint.waiting),
        "open": len(requests.open),
        "listeners": sum(requests._listeners.values()),
        "bodies": app.bodies.size + len(app.bodies),
        "held": listener.held,
        "tasks": len(listener._tasks),
    }


async def all_is_over(here):
    """Wait until nothing is under way."""
    for _ in range(200):
        if not any(counts(here).values()):
            return
        await asyncio.sleep(0.02)
    assert not any(counts(here).values()), counts(here)


def test_a_client_may_leave_before_the_server_has_started(loop):
    async def check():
        may_start, calls = asyncio.Event(), []

        @asynccontextmanager
        async def lifespan(_):
            await may_start.wait()
            yield None

        server = Server("late", lifespan=lifespan)

        @server.tool
        async def work() -> str:
            """Work for a while."""
            calls.append(1)
            await asyncio.sleep(1000)
            return ""

        async with serving(server.asgi()) as here:
            async with await here.connect() as client:
                client.send(call("work"))
                await until(lambda: here.listener._tasks)
            await until(lambda: not len(here.listener))
            may_start.set()
            await all_is_over(here)
            assert not calls

    run_on(loop, check())


def test_a_batch_is_answered_when_its_session_ends(loop):
    async def check():
        async with serving(offer().asgi()) as here, await here.connect() as client:
            opening = json.dumps(initialize("2025-03-26")).encode()
            key = (await client.ask(post(body=opening))).headers["mcp-session-id"]
            line = f"Mcp-Session-Id: {key}"
            ready = json.dumps(notification("notifications/initialized")).encode()
            assert (await client.ask(post(line, body=ready))).status == 202
            batch = [call_in_session(1, "wait", name="a"), call_in_session(2, "wait", name="b")]
            client.send(post(line, body=json.dumps(batch).encode()))
            await until(lambda: here.app.endpoint.waiting)
            async with await here.connect() as other:
                assert (await other.ask(head(line, method="DELETE"))).status == 204
            assert (await client.answer()).status == 404
            await all_is_over(here)

    run_on(loop, check())


def test_a_client_may_leave_before_its_response_becomes_a_stream(loop):
    app = offer().asgi(keep_alive=0.2)

    async def check():
        async with serving(app) as here:
            async with await here.connect() as client:
                key = (await client.ask(post())).headers["mcp-session-id"]
                line = f"Mcp-Session-Id: {key}"
                ready = json.dumps(notification("notifications/initialized")).encode()
                await client.ask(post(line, body=ready))
                work = json.dumps(call_in_session(1, "wait", name="a")).encode()
                client.send(post(line, body=work))
                await until(lambda: app.endpoint.waiting)
            # It is answered as a stream after a while.
            await until(lambda: not app.endpoint.waiting)
            assert not app.state.readers
            async with await here.connect() as other:
                await other.ask(call("free", name="a"))
            await all_is_over(here)

    run_on(loop, check())


# -- the end


def test_a_second_cancellation_ends_connections_and_the_lifespan(loop):
    async def check():
        left = asyncio.Event()

        @asynccontextmanager
        async def lifespan(_):
            yield None
            left.set()

        app = offer(lifespan=lifespan).asgi()
        sockets = listen_on(("127.0.0.1:0",))
        address = sockets[0].getsockname()
        serving = asyncio.create_task(serve_in_loop(app, sockets))
        await until(lambda: app._is_ready)
        client = Client(*await asyncio.open_connection(*address))
        async with client:
            client.send(call("wait", name="a"))
            await until(lambda: app.endpoint.waiting)
            serving.cancel()
            await until(lambda: app.state.is_stopping)
            serving.cancel()
            await asyncio.wait((serving,))
            with suppress(ConnectionError):
                assert await asyncio.wait_for(client.reader.read(), 2) == b""
        await asyncio.wait_for(left.wait(), 2)
        assert app.under_way == 0
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, seconds=2)

    run_on(loop, check())


# -- requests on their way when the server stops


def test_a_connection_that_waits_to_be_accepted_gets_a_response(loop):
    async def check():
        async with serving(offer().asgi()) as here:
            async with await here.connect() as client:
                await client.ask(call("add", a=1, b=2))
            # Nothing of the loop runs between these steps, so that the listener accepts neither.
            clients = [socket.create_connection(here.address) for _ in range(2)]
            for each in clients:
                each.sendall(call("add", a=1, b=2))
                each.setblocking(False)
            here.listener.close()
            for each in clients:
                reader, writer = await asyncio.open_connection(sock=each)
                async with Client(reader, writer) as client:
                    assert (await client.answer()).status == 200
            with pytest.raises(ConnectionRefusedError):
                await here.connect()

    run_on(loop, check())


def test_a_request_that_follows_its_connection_is_answered_while_the_server_stops(loop):
    async def check():
        async with serving(offer().asgi()) as here, await here.connect() as client:
            await until(lambda: len(here.listener) == 1)
            stopping = asyncio.create_task(here.listener.stop())
            await asyncio.sleep(0)
            client.send(call("add", a=1, b=2))
            answer = await client.answer()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            await stopping

    run_on(loop, check())


def test_a_request_of_which_a_part_has_arrived_is_answered_while_the_server_stops(loop):
    async def check():
        async with serving(offer().asgi()) as here, await here.connect() as client:
            request = call("add", a=1, b=2)
            sent = 0
            while here.listener.held == 0:  # it counts what has arrived of a head
                client.send(request[sent : sent + 1])
                sent += 1
                await asyncio.sleep(0)
            assert sent < request.index(b"\r\n\r\n")
            stopping = asyncio.create_task(here.listener.stop())
            await asyncio.sleep(0)
            client.send(request[sent:])
            assert (await client.answer()).status == 200
            await stopping

    run_on(loop, check())
