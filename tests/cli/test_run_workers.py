"""`accord run --http --workers`: options, variables, new code, a store of one's own."""

import os
import signal
from contextlib import closing

import pytest

from cli.conftest import ACCORD
from support.waiting import until_sync
from support.worker_processes import SCRIPT, WorkerServer, is_gone

pytestmark = pytest.mark.integration

KEYS = f"{'a' * 40}\n\n  {'b' * 40}  \n"
VERSION = """\
@server.tool
async def version() -> int:
    "Which code serves."
    return {}
"""


def write(folder, version=1, *, before=""):
    """Write the file of the server, in one step."""
    text = SCRIPT.format(before=before, settings="", after=VERSION.format(version))
    (folder / "desk.new").write_text(text)
    os.replace(folder / "desk.new", folder / "desk.py")


def run(folder, *options, **env):
    return WorkerServer(folder, [*ACCORD, "run", "desk.py", *options], env=env)


HTTP = ("--http", "--port", "0")


def test_sighup_serves_new_code_and_keeps_the_old_if_it_does_not_load(tmp_path):
    write(tmp_path)
    # Otherwise the bytecode of a file that was written in the same second would be used.
    env = {"PYTHONDONTWRITEBYTECODE": "1"}
    with run(tmp_path, *HTTP, "--workers", "2", "--log-level", "info", **env) as server:
        first = server.wait_for_workers(2)
        with closing(server.connect()) as wire:
            assert wire.call("version") == 1
        write(tmp_path, 2)
        server.process.send_signal(signal.SIGHUP)
        assert "INFO accord.http: the workers are replaced one by one" in server.wait_for("replace")
        second = server.wait_for_workers(2, without=first)
        for _ in range(4):
            with closing(server.connect()) as wire:
                assert wire.call("version") == 2
        write(tmp_path, 3, before="1 / 0")
        server.process.send_signal(signal.SIGHUP)
        assert "accord: desk.py:" in server.wait_for("ZeroDivisionError")
        server.wait_for("the workers that were to be replaced go on")
        assert server.wait_for_workers(2) == second
        assert server.stop() == 0
        assert all(map(is_gone, first | second))
    assert server.said.count(" is served at ") == 1


def test_a_file_that_does_not_load_ends_the_command_as_without_workers(tmp_path):
    write(tmp_path, before="1 / 0")
    with run(tmp_path, *HTTP, "--workers", "2") as server:
        assert server.wait() == 2
        assert server.said.count("ZeroDivisionError") == 1
        assert "no worker has become ready" in server.said
        assert not os.listdir(server.temporary)


def test_variables_name_the_workers_and_their_store(tmp_path, accord):
    write(tmp_path)
    keys, store = tmp_path / "keys.txt", f"sqlite:///{tmp_path}/store.db"
    keys.write_text(KEYS)
    env = {
        "ACCORD_TRANSPORT": "http",
        "ACCORD_PORT": "0",
        "ACCORD_WORKERS": "2",
        "ACCORD_STORE": store,
        "ACCORD_STORE_KEYS_FILE": str(keys),
    }
    with run(tmp_path, **env) as server:
        workers = server.wait_for_workers(2)
        # With the same keys, another command can read what the workers have written.
        place = ("store", "stats", store, "--namespace", "desk", "--keys-file", keys)
        shown = [line.split("\t") for line in accord(*place).stdout.splitlines()]
        found = {int(line[4]): line[2] for line in shown if line[0] == "worker"}
        assert found == dict.fromkeys(workers, "alive")
        assert "store.db" not in "".join(os.listdir(server.temporary))
        assert server.stop() == 0
    assert (tmp_path / "store.db").exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--workers", "2"], "--workers is for HTTP; add --http"),
        (["--store", "memory:"], "--store is for HTTP; add --http"),
        (["--http", "--workers", "0"], "'0' is not a number of workers, expected 1 or more, or"),
        (["--http", "--workers", "many"], "'many' is not a number of workers"),
        (
            ["--http", "--workers", "2", "--reload"],
            "--reload and --workers exclude each other: --reload restarts one process",
        ),
        (["--http", "--store-keys-file", "x"], "--store-keys-file seals what is written"),
        (
            ["--http", "--store", "sqlite:///x.db", "--store-keys-file", "missing.txt"],
            "the keys of the store: missing.txt: No such file or directory",
        ),
        (
            ["--http", "--store", "sqlite:///x.db", "--store-keys-file", "empty.txt"],
            "the keys of the store: empty.txt is empty, expected one key on each line",
        ),
        (["--http", "--port", "0", "--store", "ftp:hunter2"], "'ftp:' is not the URL of a store"),
        (
            ["--http", "--port", "0", "--store", "redis://u:hunter2@127.0.0.1:1/0"],
            "make a key with",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(accord, tmp_path, options, why):
    write(tmp_path)
    (tmp_path / "empty.txt").write_text("\n")
    ended = accord("run", "desk.py", *options, cwd=tmp_path)
    assert ended.returncode == 2
    assert why in ended.stderr
    assert "hunter2" not in ended.stderr


def test_a_wrong_variable_is_named(accord, tmp_path):
    write(tmp_path)
    ended = accord("run", "desk.py", "--http", cwd=tmp_path, ACCORD_WORKERS="few")
    assert ended.returncode == 2
    assert "variable ACCORD_WORKERS: 'few' is not a number of workers" in ended.stderr


def test_the_servers_of_a_configuration_are_not_launched_by_each_worker(accord, tmp_path):
    (tmp_path / "mcp.json").write_text('{"mcpServers": {}}')
    ended = accord("run", "mcp.json", "--http", "--workers", "2", cwd=tmp_path)
    assert ended.returncode == 2
    assert "--workers is for Python files" in ended.stderr


def test_a_proxy_does_not_read_the_variables_of_workers(accord, tmp_path):
    variables = {"ACCORD_WORKERS": "few", "ACCORD_STORE": "ftp:", "ACCORD_TRANSPORT": "http"}
    ended = accord("proxy", "http://127.0.0.1:1/mcp", "--port", "0", cwd=tmp_path, **variables)
    assert ended.returncode == 2
    assert "few" not in ended.stderr
    assert "ftp" not in ended.stderr


def test_passwords_of_a_store_are_not_among_the_arguments_of_a_process(tmp_path):
    write(tmp_path)
    store = f"sqlite:///{tmp_path}/secret.db"
    env = {"ACCORD_STORE": store, "ACCORD_STORE_KEYS": "k" * 32}
    with run(tmp_path, *HTTP, "--reload", **env) as server:
        assert server.url
        (child,) = until_sync(lambda: server.workers())
        for pid in (server.process.pid, child):
            with open(f"/proc/{pid}/cmdline") as file:
                shown = file.read()
            assert "secret" not in shown
            assert "kkkk" not in shown
        assert (tmp_path / "secret.db").exists()
        assert server.stop() == 0
