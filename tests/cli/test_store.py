"""`accord store`: what it shows of a store that a server uses, and what it asks of workers."""

import asyncio
import json
import re
import time

import pytest

from accord import Server, connect
from accord.cli.store import _duration
from accord.principal import Principal
from accord.sharing import SqliteBackend
from accord.sharing.workers import names
from accord.types import Implementation
from support.http_server import bounded
from support.waiting import LONG, run, until_sync

KEY = "k" * 32


class Deployment:
    """A server with a store, and a client with a session."""

    def __init__(self, folder, port, server):
        self.url = f"sqlite:///{folder}/store.db"
        self.keys = folder / "keys.txt"
        self.keys.write_text(f"{KEY}\n")
        self.port = port
        self.server = server
        self.place = (self.url, "--namespace", "desk", "--keys-file", self.keys)


@pytest.fixture
def deployment(tmp_path):
    server = Server("desk")
    store = f"sqlite:///{tmp_path}/store.db"
    app = server.asgi(store=store, store_keys=[KEY], principal=lambda _: Principal("ann"))
    with bounded(app) as port:
        yield Deployment(tmp_path, port, server)


def with_session(deployment, look):
    """Call something while a client has a session."""

    async def scenario():
        url = f"http://127.0.0.1:{deployment.port}/mcp"
        info = Implementation(name="probe\x1b[2J", version="7")
        async with connect(url, revision="2025-11-25", client_info=info):
            return await asyncio.to_thread(look)

    return run(scenario())


# -- stats


def test_stats_of_a_pipe_are_lines_with_tabs(accord, deployment):
    ended = accord("store", "stats", *deployment.place)
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = [line.split("\t") for line in ended.stdout.splitlines()]
    assert ["engine", "SQLite"] in lines
    assert ["sessions", "0"] in lines
    (worker,) = [line for line in lines if line[0] == "worker"]
    kind, id, state, _, pid, started, _ = worker
    assert (kind, id, state) == ("worker", deployment.server._core.worker.id, "alive")
    assert int(pid) > 0
    assert abs(int(started) - time.time()) < 2 * LONG


def test_stats_as_json_have_the_counts_of_workers(accord, deployment):
    def look():
        return json.loads(accord("store", "stats", *deployment.place, "--format", "json").stdout)

    found = with_session(deployment, look)
    assert found["store"]["sessions"] == 1
    (worker,) = found["workers"]
    assert worker["state"] == "alive"
    until_sync(lambda: look()["workers"][0]["counts"])
    assert look()["workers"][0]["counts"]["store_operations"] > 0


def test_stats_on_a_terminal_are_a_table(on_terminal, deployment):
    code, shown = on_terminal("store", "stats", *deployment.place, NO_COLOR="1")
    assert code == 0
    lines = shown.splitlines()
    assert re.fullmatch(r"engine +SQLite", lines[1])
    assert re.match(r"WORKER +STATE +HOST +PROCESS +UP +VERSION", lines[-2])
    assert lines[-1].startswith(f"{deployment.server._core.worker.id}  alive")
    assert all(len(line) <= 80 for line in lines[-2:])


def test_a_lost_worker_is_shown_as_lost(accord, deployment):
    async def forget():
        backend = SqliteBackend(deployment.url.removeprefix("sqlite:///"), namespace="desk")
        await backend.open()
        await backend.add(names.WORKERS, ["zz"], ttl=60)
        await backend.put(names.takeover_of("zz"), b"x", ttl=60)  # so that it stays in the index
        await backend.close()

    run(forget())
    ended = accord("store", "stats", *deployment.place)
    assert ["worker", "zz", "lost"] in [line.split("\t")[:3] for line in ended.stdout.splitlines()]


# -- sessions


def test_sessions_of_a_pipe_are_lines_with_tabs(accord, deployment):
    ended = with_session(deployment, lambda: accord("store", "sessions", *deployment.place))
    assert (ended.returncode, ended.stderr) == (0, "")
    (line,) = ended.stdout.splitlines()
    id, principal, client, revision, age, workers, _ = line.split("\t")
    assert re.fullmatch(r"\w{8}", id)
    assert (principal, revision, workers) == ("ann", "2025-11-25", "1")
    assert client == r"probe\x1b[2J 7"
    assert int(age) < 2 * LONG


def test_sessions_on_a_terminal_are_a_table(on_terminal, deployment):
    code, shown = with_session(
        deployment, lambda: on_terminal("store", "sessions", *deployment.place, NO_COLOR="1")
    )
    assert code == 0
    head, line = shown.splitlines()
    assert " ".join(head.split()) == "ID PRINCIPAL CLIENT REVISION AGE WORKERS LISTENING"
    assert head.index("REVISION") == line.index("2025-11-25")


def test_a_limit_says_how_many_sessions_are_left_out(accord, deployment):
    def look():
        return with_session(
            deployment, lambda: accord("store", "sessions", *deployment.place, "--limit", "1")
        )

    ended = with_session(deployment, look)
    assert len(ended.stdout.splitlines()) == 1
    assert "1 of 2 sessions are shown; --limit shows more" in ended.stderr


def test_sessions_as_json_have_their_number(accord, deployment):
    ended = with_session(
        deployment, lambda: accord("store", "sessions", *deployment.place, "--format", "json")
    )
    found = json.loads(ended.stdout)
    assert found["count"] == 1
    (session,) = found["sessions"]
    assert session["principal"] == "ann"
    assert session["subscriptions"] == 0


# -- drain


def test_a_drained_worker_is_not_ready(accord, deployment):
    id = deployment.server._core.worker.id
    ended = accord("store", "drain", *deployment.place, "--worker", id[:6])
    assert ended.returncode == 0
    assert re.fullmatch(f"worker {id} on .+ was asked to drain\n", ended.stdout)
    until_sync(lambda: deployment.server._core.worker.unready_reason)
    assert deployment.server._core.worker.unready_reason == "the worker is draining"


def test_all_workers_are_asked_to_drain_if_none_is_named(accord, deployment):
    ended = accord("store", "drain", *deployment.place, "--format", "json")
    assert json.loads(ended.stdout) == {"drained": [deployment.server._core.worker.id]}
    until_sync(lambda: deployment.server._core.worker.is_draining)


def test_a_worker_that_is_not_there_is_not_drained(accord, deployment):
    ended = accord("store", "drain", *deployment.place, "--worker", "nothing")
    assert ended.returncode == 1
    assert (
        f"there is no worker nothing; there are {deployment.server._core.worker.id}" in ended.stderr
    )
    assert not deployment.server._core.worker.is_draining


# -- what does not fit


def test_sealed_values_need_the_keys(accord, deployment):
    place = deployment.place[:3]

    def look():
        return accord("store", "stats", *place), accord("store", "sessions", *place)

    for ended in with_session(deployment, look):
        assert ended.returncode == 0
        assert "cannot be read; sealed ones need --keys-file or ACCORD_STORE_KEYS" in ended.stderr
    ended = accord("store", "stats", *place, ACCORD_STORE_KEYS=f"{'x' * 32}")
    assert ended.returncode == 2
    assert "\talive\t" in accord("store", "stats", *place, ACCORD_STORE_KEYS=KEY).stdout


def test_another_namespace_is_empty_and_the_error_says_what_to_name(accord, deployment):
    for kind in ("stats", "sessions", "drain"):
        what = "sessions" if kind == "sessions" else "workers"
        ended = accord("store", kind, deployment.url, "--keys-file", deployment.keys)
        assert ended.returncode == 0
        assert f"there are no {what} in the namespace accord; --namespace" in ended.stderr


def test_the_url_can_be_in_a_variable(accord, deployment):
    ended = accord("store", "stats", *deployment.place[1:], ACCORD_STORE=deployment.url)
    assert "\talive\t" in ended.stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "the URL of the store is missing; or set ACCORD_STORE"),
        (["sqlite:///nothing.db"], "there is no file nothing.db"),
        (["ftp://host"], "'ftp:' is not the URL of a store"),
        (["redis://127.0.0.1:1/0"], "127.0.0.1:1"),
        (["memory:", "--format", "xml"], "unknown format 'xml'"),
    ],
)
def test_a_store_that_cannot_be_opened_gives_exit_code_2(accord, tmp_path, words, why):
    ended = accord("store", "stats", *words, cwd=tmp_path)
    assert ended.returncode == 2
    assert why in ended.stderr
    assert not (tmp_path / "nothing.db").exists()


def test_durations_have_two_units():
    seconds = (0, 59.9, 60, 3725, 90_061, 864_000)
    assert [*map(_duration, seconds)] == ["0s", "59s", "1m", "1h 2m", "1d 1h", "10d"]
