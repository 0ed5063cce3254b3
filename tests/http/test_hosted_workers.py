"""`server.asgi(store=...)` under the process managers of other servers."""

import json
import re
import sys
from contextlib import closing

import pytest

from support.http_server import free_port
from support.http_talk import call, initialize
from support.waiting import until_sync
from support.worker_processes import SCRIPT, CallingClient, WorkerServer

pytestmark = pytest.mark.integration

APP = 'app = server.asgi(store="sqlite:///store.db", metrics=True)'


@pytest.mark.parametrize(
    "command",
    [
        "uvicorn desk:app --workers 2 --log-level warning --port {port}",
        "hypercorn desk:app --workers 2 --bind 127.0.0.1:{port}",
        "granian desk:app --interface asgi --workers 2 --log-level warning --port {port}",
    ],
    ids=lambda command: command.split()[0],
)
def test_any_worker_of_another_server_serves_a_session(tmp_path, command):
    (tmp_path / "desk.py").write_text(SCRIPT.format(before="", settings="", after=APP))
    port = free_port()
    words = command.format(port=port).split()
    with WorkerServer(tmp_path, [sys.executable, "-m", *words]) as server:
        until_sync(lambda: is_ready(port))
        with closing(CallingClient(port)) as client:
            _, headers = client.post(json.dumps(initialize()).encode())
        session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
        seen = set()

        def ask():
            with closing(CallingClient(port)) as client:
                answer, _ = client.post(json.dumps(call(1, "pid")).encode(), **session)
            seen.add(answer["result"]["structuredContent"]["result"])
            return len(seen) == 2

        until_sync(ask)
        until_sync(lambda: len(workers_in_metrics(port)) == 2)
        server.process.terminate()
        server.wait()


def is_ready(port):
    with closing(CallingClient(port)) as client:
        try:
            return client.get("/readyz")[0] == 200
        except OSError:
            return False


def workers_in_metrics(port):
    with closing(CallingClient(port)) as client:
        _, text = client.get("/metrics")
    return set(re.findall(r'worker="(\w+)"', text.decode()))
