"""Servers as processes: where they listen, and how they end."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin

import pytest

from support.http_server import free_port
from support.http_talk import call, initialize, notification, text_of
from support.waiting import LONG, run, until_sync

TESTS = Path(__file__).parent.parent

SERVED = """
import sys
from support.http_offer import offer

server = offer()

if __name__ == "__main__":
    server.run("http", port=0, grace=float(sys.argv[1]))
"""
MOUNTED = """
import sys
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from support.http_offer import offer

app = Starlette(routes=[Mount("/x", offer().asgi(sse=True))])
uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""


STUBBORN = """
import asyncio
import sys
import threading
import time
from accord import Server

server = Server("stubborn")

@server.tool
async def block_the_loop() -> str:
    print("begun", file=sys.stderr, flush=True)
    time.sleep(600)
    return "awake"

@server.tool
async def swallow() -> str:
    print("begun", file=sys.stderr, flush=True)
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

@server.tool
async def leave_a_thread() -> str:
    threading.Thread(target=time.sleep, args=(600,)).start()
    print("begun", file=sys.stderr, flush=True)
    return "left"

@server.tool
async def use_another_executor() -> str:
    print("begun", file=sys.stderr, flush=True)
    await asyncio.to_thread(time.sleep, 600)
    return "awake"

@server.tool
async def work(seconds: float) -> str:
    print("begun", file=sys.stderr, flush=True)
    await asyncio.sleep(seconds)
    return "worked"

if __name__ == "__main__":
    server.run("http", port=0, grace=float(sys.argv[1]))
    print("run has returned", file=sys.stderr, flush=True)
"""


class Running:
    """A server process and its output."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def port(self) -> int:
        found = until_sync(lambda: re.search(r"http://\S+?:(\d+)/mcp", self.log))
        return int(found[1])

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(LONG)


@contextmanager
def running(tmp_path: Path, *command: str, code: str = SERVED) -> Iterator[Running]:
    (tmp_path / "served.py").write_text(code)
    log = tmp_path / "log"
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [sys.executable, *command],
            env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{TESTS}"},
            cwd=tmp_path,
            stdout=out,
            stderr=out,
        )
    try:
        yield Running(process, log)
    finally:
        process.kill()
        process.wait()


RUN = ("served.py", "1")
PATIENT = ("served.py", "60")
ACCORD_RUN = ("-c", "from accord.cli.main import main; raise SystemExit(main())", "run")
ACCORD_HTTP = (*ACCORD_RUN, "served.py", "--http", "--port")


@pytest.mark.requirement("http.server.bind-localhost")
@pytest.mark.parametrize("command", [RUN, (*ACCORD_HTTP, "0")], ids=["run", "accord run"])
def test_a_server_listens_on_loopback_by_default(tmp_path, talk, command):
    async def scenario(port):
        async with talk(port) as client:
            await client.open()
            assert text_of(await client.answer(call(1, "add", a=1, b=2))) == "3"

    with running(tmp_path, *command) as server:
        assert f"offer is served at http://127.0.0.1:{server.port}/mcp" in server.log
        # 0100007F is 127.0.0.1 in hexadecimal: it listens nowhere else.
        table = Path(f"/proc/{server.process.pid}/net/tcp").read_text()
        port = f":{server.port:04X}"
        listening = [line.split()[1] for line in table.splitlines() if f"{port} 00000000" in line]
        assert listening == [f"0100007F{port}"]
        run(scenario(server.port))
        assert server.end() == 0


def test_listening_elsewhere_warns_that_a_setting_is_needed(tmp_path):
    with running(tmp_path, *ACCORD_HTTP, "0", "--host", "0.0.0.0") as server:
        until_sync(lambda: "--public-url or --allowed-host" in server.log)


def test_both_forms_are_announced_if_both_are_served(tmp_path):
    with running(tmp_path, *ACCORD_HTTP, "0", "--sse") as server:
        at = f"http://127.0.0.1:{server.port}"
        told = f"offer is served at {at}/mcp, and in the older form at {at}/sse; Ctrl-C ends"
        until_sync(lambda: told in server.log)


def test_an_address_that_is_taken_is_named(tmp_path):
    with running(tmp_path, *RUN) as server:
        port = str(server.port)
        refused = subprocess.run(
            [sys.executable, *ACCORD_HTTP, port],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            cwd=tmp_path,
            capture_output=True,
            timeout=LONG,
            check=False,
        )
        assert refused.returncode == 2
        assert (
            f"cannot listen on 127.0.0.1:{port}: address already in use" in refused.stderr.decode()
        )


async def has_begun(client, *names):
    """Wait until the server has begun all of these."""
    history = ""
    while not all(f"{each} begins" in history for each in names):
        history = text_of(await client.answer(call("history", "history")))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopping_lets_calls_finish_and_ends_listening_streams(tmp_path, talk, number):
    async def scenario(server):
        async with talk(server.port) as client:
            await client.open()
            listening = await client.get()
            silent = asyncio.create_task(client.answer(call(2, "block", seconds=0.5)))
            await has_begun(client, "block")
            streaming = await client.post(call(1, "count", token="t", to=5, pause=0.05))
            await streaming.event()
            server.process.send_signal(number)
            assert await listening.rest() == []
            assert text_of((await streaming.rest())[-1]) == "5"
            assert text_of(await silent) == "slept"

    with running(tmp_path, *PATIENT) as server:
        run(scenario(server))
        assert server.process.wait(LONG) == 0
        assert "Traceback" not in server.log


def test_a_call_longer_than_the_grace_period_is_ended(tmp_path, talk):
    async def scenario(server):
        async with talk(server.port) as client:
            await client.open()
            streaming = await client.post(call(1, "hold", token="t", name="for ever"))
            await streaming.event()
            silent = asyncio.create_task(client.post(call(2, "wait", name="silent")))
            blocked = asyncio.create_task(client.post(call(3, "block", seconds=60)))
            await has_begun(client, "silent", "block")
            server.process.send_signal(signal.SIGTERM)
            assert await streaming.rest() == []
            for waiting in (silent, blocked):
                response = await waiting
                assert response.status == 503
                assert "stopping" in await response.error()

    with running(tmp_path, *RUN) as server:
        run(scenario(server))
        assert server.process.wait(LONG) == 0
        assert "Traceback" not in server.log
        assert "left behind" in server.log


def test_a_stopping_server_opens_no_new_sessions(tmp_path, talk):
    async def scenario(server):
        async with talk(server.port) as client:
            await client.open()
            # Connections that are open already are served to the end.
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = client._head("GET", "/readyz", {"Connection": "keep-alive"})
            writer.write(head)
            assert b" 200 " in await reader.readline()
            streaming = await client.post(call(1, "hold", token="t", name="stop"))
            await streaming.event()
            server.process.send_signal(signal.SIGTERM)
            said = b" 200 "
            while b" 200 " in said:  # until the server handles the signal
                while (await reader.readline()).strip():
                    pass
                await reader.read(100)
                writer.write(head)
                try:
                    said = await reader.readline()
                except ConnectionError:
                    said = b""
            assert said == b"" or b" 503 " in said
            assert not streaming._reader.at_eof()  # which it does long before the end
            writer.close()

    with running(tmp_path, "served.py", "3") as server:
        run(scenario(server))
        assert server.process.wait(LONG) == 0


STUBBORN_RUN = ("served.py", "1.5")
ENDING = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


@pytest.mark.parametrize(
    "tool", ["block_the_loop", "swallow", "leave_a_thread", "use_another_executor"]
)
@pytest.mark.parametrize("command", [STUBBORN_RUN, (*ACCORD_HTTP, "0")], ids=["run", "accord run"])
def test_a_tool_that_hangs_does_not_keep_the_process_alive(tmp_path, talk, tool, command):
    async def scenario(server):
        async with talk(server.port) as client:
            await client.open()
            calling = asyncio.create_task(client.post(call(1, tool)))
            while "begun" not in server.log:
                await asyncio.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            while server.process.poll() is None:
                await asyncio.sleep(0.01)
            await asyncio.gather(calling, return_exceptions=True)

    with running(tmp_path, *command, code=STUBBORN) as server:
        run(scenario(server), seconds=LONG)
        assert server.process.wait(LONG) == 0
        assert "Traceback" not in server.log


@pytest.mark.parametrize("number", ENDING)
def test_each_stop_signal_lets_calls_finish(tmp_path, talk, number):
    async def scenario(server):
        async with talk(server.port) as client:
            await client.open()
            calling = asyncio.create_task(client.answer(call(1, "work", seconds=0.3)))
            while "begun" not in server.log:
                await asyncio.sleep(0.01)
            server.process.send_signal(number)
            assert text_of(await calling) == "worked"

    with running(tmp_path, *PATIENT, code=STUBBORN) as server:
        run(scenario(server))
        assert server.process.wait(LONG) == 0
        assert "run has returned" in server.log
        assert "Traceback" not in server.log


def test_a_second_signal_ends_the_process_at_once(tmp_path, talk):
    async def scenario(server):
        async with talk(server.port) as client:
            await client.open()
            listening = await client.get()
            held = await client.post(call(1, "hold", token="t", name="x"))
            await held.event()
            server.process.send_signal(signal.SIGINT)
            assert await listening.rest() == []  # the first signal has been handled
            server.process.send_signal(signal.SIGINT)
            while server.process.poll() is None:
                await asyncio.sleep(0.01)
            held.abort()

    with running(tmp_path, *PATIENT) as server:
        run(scenario(server), seconds=LONG / 2)
        assert server.process.wait(LONG) == 0


@pytest.mark.parametrize("grace", ["0.5", "0"])
def test_stuck_uploads_leave_no_traceback_at_the_end(tmp_path, talk, grace):
    async def scenario(server):
        async with talk(server.port) as client:
            await client.open()
            head = {"Content_Length": "50000", "Content_Type": "application/json"}
            stuck = []
            for size in (0, 1, 40_000):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(client._head("POST", "/mcp", head) + b" " * size)
                stuck.append((reader, writer))
            _, silent = await asyncio.open_connection("127.0.0.1", server.port)
            silent.write(b"POST /mcp HT")
            await client.answer(call(1, "add", a=1, b=2))
            server.process.send_signal(signal.SIGTERM)
            for reader, writer in stuck:
                async with asyncio.timeout(LONG):
                    with contextlib.suppress(ConnectionError):
                        said = await reader.read()
                        assert not said or b" 503 " in said
                writer.close()
            silent.close()

    with running(tmp_path, "served.py", grace) as server:
        run(scenario(server))
        assert server.process.wait(LONG) == 0
        assert "Traceback" not in server.log
        assert "Exception" not in server.log


def test_a_process_that_outlives_its_terminal_goes_on(tmp_path, talk):
    async def scenario(server):
        server.process.send_signal(signal.SIGHUP)
        async with talk(server.port) as client:
            await client.open()
            assert text_of(await client.answer(call(1, "add", a=1, b=2))) == "3"

    ignoring = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    executing = "os.execv(sys.executable, [sys.executable, 'served.py', '1'])"
    nohup = ("-c", f"{ignoring}; {executing}")
    with running(tmp_path, *nohup) as server:
        assert server.port
        run(scenario(server))
        assert server.end() == 0


def test_a_server_may_run_in_a_thread(tmp_path, talk):
    code = """
import threading
from support.http_offer import offer

thread = threading.Thread(target=offer().run, args=("http",), kwargs={"port": 0}, daemon=True)
thread.start()
thread.join()
"""

    async def scenario(server):
        async with talk(server.port) as client:
            await client.open()
            assert text_of(await client.answer(call(1, "add", a=1, b=2))) == "3"

    with running(tmp_path, "served.py", code=code) as server:
        run(scenario(server))


def test_listeners_do_not_keep_another_asgi_server_from_stopping(tmp_path, talk):
    port = free_port()

    async def scenario():
        async with talk(port, path="/x/mcp") as client:
            while True:
                try:
                    await client.open()
                    break
                except OSError:
                    await asyncio.sleep(0.05)
            listening = await client.get()
            older = await client.send("GET", path="/x/sse")
            client.path = urljoin("/x/sse", await older.event())
            await client.post(initialize("2024-11-05"))
            await older.event()
            await client.post(notification("notifications/initialized"))
            await client.post(call(1, "count", token="t", to=2, pause=1))
            await older.event()
            server.process.send_signal(signal.SIGTERM)
            assert await listening.rest() == []
            assert text_of((await older.rest())[-1]) == "2"  # calls under way finish first

    with running(tmp_path, "served.py", str(port), code=MOUNTED) as server:
        run(scenario())
        server.process.wait(LONG)
        assert "Traceback" not in server.log


def test_lifespans_are_left_in_the_task_they_were_entered_in(talk):
    from contextlib import asynccontextmanager

    from accord import Server
    from support.http_server import bounded, serving

    tasks = []

    @asynccontextmanager
    async def lifespan(server):
        tasks.append(asyncio.current_task())
        try:
            yield
        finally:
            tasks.append(asyncio.current_task())

    async def scenario(port):
        async with talk(port) as client:
            assert (await client.post(initialize())).status == 200

    for how in (bounded, serving):
        with how(Server("lasting", lifespan=lifespan).asgi()) as port:
            run(scenario(port))
        entered, left = tasks[-2:]
        assert entered is left
