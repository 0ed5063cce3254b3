"""Traffic of another client on the page: over HTTP, over stdio, and in a flood."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from accord import Server, connect
from accord_tools.inspector.live.session_facts import observed_facts
from accord_tools.inspector.log import watched
from accord_tools.inspector.log.message_log import InspectedLog
from accord_tools.inspector.log.watched import TrafficBuffer, WatchedTraffic, watch_http
from accord_tools.watch.watcher import Copy
from check.watching.between import INITIALIZE, LIST, OPENED, READY, SCRIPTED, line
from inspector.logged import ask, make_session, opening, rows_of
from support.http_server import serving
from support.waiting import LONG, in_loop, until

PAGE = [sys.executable, str(Path(__file__).parent / "watching_page.py")]
TOOLS = {"jsonrpc": "2.0", "id": 2, "result": {"tools": [{"name": "t", "inputSchema": {}}]}}


def desk():
    server = Server("desk")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return server


@in_loop
async def test_clients_of_a_proxy_are_shown_and_judged_apart(tmp_path):
    session = make_session("watch", record=tmp_path / "it.jsonl")
    with serving(desk().asgi(grace=0)) as own:
        port = await watch_http(session, f"http://127.0.0.1:{own}/mcp", 0, {"x-key": "secret-1"})
        assert observed_facts(session)["state"] == "connecting"
        assert f"127.0.0.1:{port}/mcp" in observed_facts(session)["note"]
        for _ in range(2):
            client = await connect(f"http://127.0.0.1:{port}/mcp", revision="2025-11-25")
            await client.call_tool("add", {"a": 1, "b": 2})
            await client.close()
        await until(lambda: session.part(InspectedLog).counters.messages >= 10)
        assert observed_facts(session)["state"] == "ready"
        await session.close()

    rows = await rows_of(session, method="tools/call")
    assert [row["conversation"] for row in rows] == ["main", "main", "client-2", "client-2"]
    assert (await ask(session, "log.summary"))["counters"]["fail"] == 0
    facts = observed_facts(session)
    assert (facts["state"], facts["transport"], facts["server"]["name"]) == (
        "closed",
        "http",
        "desk",
    )
    assert len(list(tmp_path.iterdir())) == 2
    shown = await ask(session, "log.detail", n=1)
    assert "secret-1" not in str(shown)


def talk(process):
    """Open a conversation as a host does, and list tools."""
    for message, is_answered in ((INITIALIZE, True), (READY, True), (LIST, True)):
        process.stdin.write(line(message))
        process.stdin.flush()
        if is_answered:
            process.stdout.readline()


def launch(path, *command):
    return subprocess.Popen(
        [*PAGE, str(path), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_page_beside_a_command_sees_what_passes(tmp_path):
    answers = [json.dumps(each) for each in (OPENED, {"jsonrpc": "2.0", "method": "x"}, TOOLS)]
    process = launch(tmp_path / "rows.json", *SCRIPTED, *answers)
    talk(process)
    _, errors = process.communicate(timeout=LONG)

    assert process.returncode == 0, errors
    made = json.loads((tmp_path / "rows.json").read_bytes())
    assert [row["method"] for row in made["rows"]] == [
        "initialize",
        "initialize",
        "notifications/initialized",
        "x",
        "tools/list",
        "tools/list",
    ]
    assert made["rows"][5]["severity"] == "fail"
    assert made["facts"]["state"] == "closed"
    assert made["facts"]["server"] == {"name": "s", "version": "1"}


def test_the_exit_and_signals_are_those_of_the_command(tmp_path):
    waiting = "import sys, time; print('up', flush=True); time.sleep(600)"
    process = launch(tmp_path / "rows.json", sys.executable, "-S", "-E", "-c", waiting)
    assert process.stdout.readline() == b"up\n"
    os.kill(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=LONG)

    assert process.returncode == 256 - signal.SIGTERM, errors
    made = json.loads((tmp_path / "rows.json").read_bytes())
    assert [row["kind"] for row in made["rows"]] == ["text"]


def test_a_page_that_fails_does_not_end_the_traffic(tmp_path):
    process = launch(tmp_path / "no-folder" / "rows.json", *SCRIPTED, json.dumps(OPENED))
    process.stdin.write(line(INITIALIZE))
    process.stdin.flush()

    assert json.loads(process.stdout.readline()) == OPENED
    process.communicate(timeout=LONG)
    assert process.returncode == 0


@in_loop
async def test_a_flood_arrives_in_order_and_never_piles_up(monkeypatch):
    monkeypatch.setattr(watched, "_WAITING_MOST", 50)
    session = make_session("watch")
    buffer = TrafficBuffer("it")
    most = 0

    def fill():
        for sender, data in opening():
            buffer.watcher.take(Copy(sender, data, buffer.watcher.now()))
        for id in range(1_000):
            data = b'{"jsonrpc":"2.0","method":"notifications/x","params":{"n":%d}}' % id
            buffer.watcher.take(Copy("server", data, buffer.watcher.now()))

    filling = threading.Thread(target=fill)
    filling.start()
    filling.join(LONG)
    # The watcher waits until the loop takes what it has.
    await until(lambda: len(buffer._records) == 50)
    session.part(WatchedTraffic).attach(buffer)
    log = session.part(InspectedLog)
    while log.counters.messages < 1_003:
        most = max(most, len(buffer._records))
        await until(lambda seen=log.last: log.last > seen or log.counters.messages >= 1_003)
    await session.close()

    assert most <= 50
    bodies = [json.loads(log.get(number).body) for number in range(4, 1_004)]
    assert [each["params"]["n"] for each in bodies] == list(range(1_000))
    assert log.counters.missed == 0


@in_loop
async def test_messages_that_could_not_be_taken_are_counted():
    session = make_session("watch")
    buffer = TrafficBuffer("it")
    session.part(WatchedTraffic).attach(buffer)
    for sender, data in opening():
        buffer.watcher.take(Copy(sender, data, 0.0))
    buffer.watcher.drop()
    buffer.watcher.take(Copy("server", b"{}", 0.0))
    await session.close()

    shown = await ask(session, "log.summary")
    assert shown["counters"]["missed"] == 2
    assert "too fast" in shown["trouble"]
