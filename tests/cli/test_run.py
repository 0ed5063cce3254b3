import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from cli.conftest import ACCORD, PLAIN
from cli.servers import UNGUARDED

OPENING = [
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


def call(id_, name, **arguments):
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


def lines_of(*messages):
    return "".join(json.dumps(message) + "\n" for message in messages)


def test_only_messages_reach_stdout_whatever_the_code_prints(accord, good):
    done = accord("run", good, data=lines_of(*OPENING, call(1, "add", a=1)))
    assert done.returncode == 0
    opening, answer = map(json.loads, done.stdout.splitlines())
    assert opening["result"]["serverInfo"]["name"] == "desk"
    assert answer["result"]["structuredContent"] == {"result": 3}
    assert "printed at import" in done.stderr
    assert "printed in a tool" in done.stderr


def test_output_of_children_and_raw_descriptors_at_import_stays_off_the_wire(accord, tmp_path):
    path = tmp_path / "noisy.py"
    path.write_text(
        "import os, subprocess, sys, atexit\n"
        "os.write(1, b'raw\\n')\n"
        "subprocess.run([sys.executable, '-c', 'print(\"child\")'])\n"
        "atexit.register(print, 'at exit')\n"
        "sys.stdout.write('unfinished')\n"
        "from accord import Server\nserver = Server('noisy')\n"
    )
    done = accord("run", path, data=lines_of(*OPENING))
    assert done.returncode == 0
    assert json.loads(done.stdout)["id"] == 0
    for text in ("raw", "child", "at exit", "unfinished"):
        assert text in done.stderr


def test_a_file_that_serves_itself_without_a_guard_works_and_is_served_once(accord, tmp_path):
    path = tmp_path / "unguarded.py"
    path.write_text(UNGUARDED)
    done = accord("run", path, data=lines_of(*OPENING, call(1, "add", a=1, b=1)))
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [0, 1]


def test_the_code_sees_its_own_name_in_argv_and_not_our_arguments(accord, tmp_path):
    path = tmp_path / "argv.py"
    path.write_text(
        "import sys\nfrom accord import Server\n"
        "server = Server('argv', instructions=str(sys.argv))\n"
    )
    done = accord("run", path, "--grace", "1", data=lines_of(*OPENING))
    assert json.loads(done.stdout)["result"]["instructions"] == str([str(path)])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_exit_code_0(good, number):
    process = subprocess.Popen(
        [*ACCORD, "run", good],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdin.write(lines_of(*OPENING).encode())
    process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(number)
    process.communicate(timeout=120)
    assert process.returncode == 0


def test_a_server_that_fails_to_start_ends_with_exit_code_1(accord, tmp_path):
    path = tmp_path / "failing.py"
    path.write_text(
        "from contextlib import asynccontextmanager\nfrom accord import Server\n"
        "@asynccontextmanager\nasync def life(server):\n"
        "    raise OSError('no database')\n    yield\n"
        "server = Server('failing', lifespan=life)\n"
    )
    done = accord("run", path, data="")
    assert (done.returncode, done.stdout) == (1, "")
    assert "OSError: no database" in done.stderr


def test_a_terminal_shows_that_the_server_is_running(good):
    main_end, terminal = os.openpty()
    process = subprocess.Popen(
        [*ACCORD, "run", good],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=PLAIN,
        text=True,
    )
    os.close(terminal)
    killer = threading.Timer(60, process.kill)
    killer.start()
    lines = process.stderr.readline() + process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    killer.cancel()
    os.close(main_end)
    assert "accord: serving desk on stdin and stdout, one message a line; Ctrl-C ends" in lines


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_closed_stream_is_exit_code_2(good, closed):
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *ACCORD, "run", good],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "accord: stdin or stdout is closed; a server needs both" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "run needs a TARGET: a Python file or module with a Server"),
        (["good.py", "more"], "run takes one TARGET; unexpected more"),
        (["python", "good.py"], "run takes only the file, without python: accord run good.py"),
        (["--", "python", "good.py"], "run serves a Python file or module, not a command"),
        (
            ["good.py", "--grace", "soon"],
            "argument --grace: 'soon' is not a number of seconds",
        ),
        (["good.py", "--grace", "-1"], "argument --grace: '-1' is not a number of seconds"),
        (["good.py", "--wat"], "there is no option --wat"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(accord, good, args, said):
    done = accord("run", *args, cwd=good.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"accord: {said}")
    assert done.stderr.count("\n") == 1


def test_connect_serves_a_file_the_same_way(good):
    code = (
        "import asyncio, sys\nfrom accord import connect\n"
        "async def main():\n"
        "    async with connect(sys.argv[1]) as client:\n"
        "        print(await client.call_tool('add', {'a': 1}, result_type=int))\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, good], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "3\n")
