"""An app with a store under other servers that start several processes: any of them serves all."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from accord.sharing.backends.urls import open_backend
from accord.sharing.workers.overview import count_sessions, read_workers
from accord.sharing.workers.worker import Worker
from support.http_server import free_port
from support.http_talk import Response, Talk, call, request, text_of
from support.waiting import LONG, run, until_sync

pytestmark = pytest.mark.integration

TESTS = Path(__file__).parent.parent
REVISION = "2025-11-25"

# Beside the app, a path that says which process answers.
APP = """
import os

from accord import Context
from support.http_offer import offer

server = offer()


@server.tool(description="Count in the state of the session.")
async def visits(ctx: Context) -> int:
    ctx.session.state["visits"] = ctx.session.state.get("visits", 0) + 1
    return ctx.session.state["visits"]


inner = server.asgi(store={store!r}, grace=2, lease=3)


async def app(scope, receive, send):
    if scope["type"] != "http" or scope["path"] != "/process":
        await inner(scope, receive, send)
        return
    body = str(os.getpid()).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({{"type": "http.response.start", "status": 200, "headers": headers}})
    await send({{"type": "http.response.body", "body": body}})
"""


class WorkerTalk(Talk):
    """A client that chooses the process that serves it: it connects until it meets that one.

    Attributes:
        worker: the process that gets the next requests; None for any.
    """

    worker: int | None = None

    async def raw(self, data: bytes) -> Response:
        async with asyncio.timeout(LONG):
            reader, writer = await asyncio.open_connection(self.host, self.port)
            while self.worker is not None and await self._ask(reader, writer) != self.worker:
                writer.close()
                reader, writer = await asyncio.open_connection(self.host, self.port)
        response = Response(reader, writer)
        self._open.append(response)
        writer.write(data)
        return await response.head()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        writer.write(b"GET /process HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return int(await (await Response(reader, writer).head()).body())

    async def find_workers(self, count: int) -> list[int]:
        """Return the processes that serve, once so many were met."""
        found: set[int] = set()
        async with asyncio.timeout(LONG):
            while len(found) < count:
                reader, writer = await asyncio.open_connection(self.host, self.port)
                found.add(await self._ask(reader, writer))
                writer.close()
        return sorted(found)


@contextmanager
def hosted(folder: Path, command: str) -> Iterator[tuple["subprocess.Popen[bytes]", int, str]]:
    """Run an ASGI server with two processes; yield it, its port, and the URL of the store."""
    port, store = free_port(), f"sqlite:///{folder}/store.db"
    (folder / "served.py").write_text(APP.format(store=store))
    words = [each.format(port=port) for each in command.split()]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(TESTS)])},
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,  # so that nothing of it is left behind
        )
    try:
        until_sync(lambda: answers(port) or process.poll() is not None, seconds=3 * LONG)
        assert process.poll() is None, (folder / "log").read_text()
        yield process, port, store
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(LONG)


def answers(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def use(client: WorkerTalk, one: int, other: int) -> None:
    """Use a session on two workers: state, a stream, a question, a change."""
    await client.open(elicitation={})
    for number, client.worker in enumerate((one, other, other, one), 1):
        assert text_of(await client.answer(call(number, "visits"))) == str(number)

    # A stream breaks, and goes on at the other worker.
    client.worker = one
    broken = await client.post(call(5, "hold", token="t", name="gate"))
    assert (await broken.event())["params"]["progress"] == 1
    broken.abort()
    client.worker = other
    resumed = await client.get(Last_Event_ID=broken.last_id)
    assert resumed.status == 200
    client.worker = one
    assert text_of(await client.answer(call(6, "free", name="gate"))) == "freed"
    step, answer = await resumed.rest()
    assert (step["params"]["progress"], text_of(answer)) == (2, "gate")

    # A question is answered at the other worker.
    asking = await client.post(call(7, "ask"))
    question = await asking.event()
    assert question["method"] == "elicitation/create"
    client.worker = other
    result = {"action": "accept", "content": {"name": "Ada"}}
    posted = await client.post({"jsonrpc": "2.0", "id": question["id"], "result": result})
    assert posted.status == 202
    assert text_of((await asking.rest())[-1]) == "hello Ada"


async def listen(client: WorkerTalk, one: int, other: int) -> Response:
    """Listen at one worker to what the other one changes."""
    client.worker = one
    listening = await client.get()
    assert listening.status == 200
    client.worker = other
    await client.answer(request(8, "resources/subscribe", uri="note://a"))
    await client.answer(call(9, "touch", uri="note://a"))
    assert (await listening.event())["params"]["uri"] == "note://a"
    return listening


async def read_store(store: str) -> tuple[list[str], int]:
    """Return the workers that the store knows, and the number of open sessions."""
    backend = open_backend(store, namespace="offer")
    await backend.open()
    try:
        return [each.id for each in await read_workers(backend)], await count_sessions(backend)
    finally:
        await backend.close()


async def take_over(store: str) -> None:
    """Start another worker, and wait until it has taken over from those that are lost."""
    worker = Worker(open_backend(store, namespace="offer"), None, lease=3)
    await worker.start()
    try:
        async with asyncio.timeout(LONG):
            while [each.id for each in await read_workers(worker.backend)] != [worker.id]:
                await asyncio.sleep(0.05)
    finally:
        await worker.stop()


COMMANDS = {
    "uvicorn": "uvicorn --workers 2 --port {port} served:app",
    # Forked after the app was made: what belongs to a process must not have been made with it.
    "gunicorn-uvicorn": (
        "gunicorn -w 2 -k uvicorn_worker.UvicornWorker --preload -b 127.0.0.1:{port} served:app"
    ),
    "gunicorn": "gunicorn -w 2 -k asgi -b 127.0.0.1:{port} served:app",
    "hypercorn": "hypercorn -w 2 --bind 127.0.0.1:{port} served:app",
    "granian": "granian --interface asgi --workers 2 --port {port} served:app",
}


@pytest.mark.parametrize("host", COMMANDS)
def test_each_process_of_another_server_serves_every_session(tmp_path, host):
    with hosted(tmp_path, COMMANDS[host]) as (process, port, store):

        async def scenario():
            client = WorkerTalk(port, revision=REVISION)
            async with client:
                one, other = await client.find_workers(2)
                await use(client, one, other)
                listening = await listen(client, one, other)
                process.terminate()
                with suppress(ConnectionError, asyncio.IncompleteReadError):  # some cut it
                    assert await listening.rest() == []
            assert client.broken() == []
            return one, other

        pids = run(scenario())
        process.wait(LONG)
        until_sync(lambda: all(map(is_gone, pids)))
        if host == "hypercorn":  # once one of its processes has ended, it kills the others
            run(take_over(store))
        # Each worker has left: others have nothing to take over. The session goes on.
        assert run(read_store(store)) == ([], 1), (tmp_path / "log").read_text()
