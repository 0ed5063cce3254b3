"""Servers over stdin and stdout as real processes, spoken to in bytes."""

import array
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from support.modern import meta
from support.processes import OPENING, Child, accord_run, python
from support.waiting import LONG, until_sync

SERVERS = Path(__file__).parent / "servers"
NOISY, ENDING, BULK = SERVERS / "noisy.py", SERVERS / "ending.py", SERVERS / "bulk.py"
CHATTY = SERVERS / "chatty.py"

reads_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


def text_of(answer: Any) -> str:
    return answer["result"]["content"][0]["text"]


# -- only messages on stdout


@pytest.mark.requirement(
    "stdio.server.stdout-only-messages",
    "stdio.server.stderr-logging",
    "practice.stdio.log-to-stderr",
)
@pytest.mark.parametrize(
    ("command", "env"),
    [
        pytest.param(accord_run(NOISY), {"NOISY": "1"}, id="accord run"),
        pytest.param(python(NOISY), {}, id="python"),
    ],
)
def test_only_messages_reach_stdout_whatever_is_printed(command: Any, env: Any) -> None:
    # Unbuffered prints before run() reach stdout before it is claimed.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Child(*command, env={**inherited, **env}) as child:
        child.open()
        for id, tool in enumerate(("shout", "shout_inline", "shout_async")):
            child.call(id, tool)
            assert text_of(child.answer_to(id)) == "done"
        child.close_input()
        assert child.wait() == 0
        for line in child.output:
            assert json.loads(line)["jsonrpc"] == "2.0"
        printed = child.stderr
    expected = ["at import", "in a tool", "in a tool, flushed", "written", "to the original"]
    expected += ["to the descriptor", "of a shell", "of a child", "in a thread", "inline", "async"]
    expected += ["at exit"]
    if env:
        expected += ["at import, descriptor", "at import, child"]
    else:
        expected += ["before run", "after run"]
    assert [each for each in expected if each not in printed] == []


def test_clients_in_sequence_share_one_process_behind_a_bridge() -> None:
    # As supergateway does: one process, and each client sends its own initialize.
    with Child(*accord_run(NOISY)) as child:
        for revision in ("2025-06-18", "2025-11-25", "2024-11-05"):
            child.request(0, "initialize", {**OPENING, "protocolVersion": revision})
            assert child.answer_to(0)["result"]["protocolVersion"] == revision
            child.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            child.request(1, "tools/list")
            assert child.answer_to(1)["result"]["tools"]
            child.call(2, "shout")
            assert text_of(child.answer_to(2)) == "done"
        child.close_input()
        assert child.wait() == 0


@pytest.mark.requirement(
    "versioning.dual-era.meta-selects-modern",
    "versioning.dual-era.initialize-selects-legacy",
    "discover.implemented",
    "stateless.interleaved-conversations",
)
def test_requests_of_both_eras_are_served_on_one_pipe() -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    with Child(*accord_run(NOISY)) as child:
        child.request("probe", "server/discover", {"_meta": meta})
        assert "2025-11-25" in child.answer_to("probe")["result"]["supportedVersions"]
        child.request("list", "tools/list", {"_meta": meta})
        assert child.answer_to("list")["result"]["resultType"] == "complete"
        child.open("2025-11-25")
        child.call(1, "shout")
        assert text_of(child.answer_to(1)) == "done"
        child.request(2, "tools/call", {"_meta": meta, "name": "shout"})
        assert child.answer_to(2)["result"]["resultType"] == "complete"


def test_user_code_cannot_read_the_messages() -> None:
    with Child(*accord_run(NOISY)) as child:
        child.open()
        child.call(1, "listen")
        child.request(2, "ping")
        assert text_of(child.answer_to(1)) == "''b''"
        assert child.answer_to(2)["result"] == {}


FORKING = """
import os
from accord import Server
from accord.stdio.server import claim

server = Server("forking")

@server.tool
def fork() -> int:
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            reading, writing = claim()
            os.write(writing, b"NOISE of a child\\n")
            code = len(os.read(reading, 10))
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

server.run()
"""


def test_a_forked_child_can_neither_send_nor_read_messages() -> None:
    with Child(sys.executable, "-W", "ignore", "-c", FORKING) as child:
        child.open()
        child.call(1, "fork")
        child.request(2, "ping")
        assert text_of(child.answer_to(1)) == "0"
        assert child.answer_to(2)["result"] == {}
        child.close_input()
        assert child.wait() == 0
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in child.output)


GUEST = """
import asyncio, os, sys
from accord import Server
from accord.stdio.server import claim

if "claimed" in sys.argv:
    claim()
asyncio.run(Server("guest").serve("stdio"))
pid = os.fork()
if pid == 0:
    print("a child", flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print("its parent", flush=True)
"""


@pytest.mark.parametrize("claimed", [(), ("claimed",)], ids=["free", "claimed"])
def test_stdout_after_a_guest_is_what_it_was_before(claimed: Any) -> None:
    with Child(sys.executable, "-c", GUEST, *claimed) as child:
        child.open()
        child.close_input()
        assert child.wait() == 0
        printed = child.stderr.encode() if claimed else b"\n".join(child.output[1:])
        assert printed.split(b"\n")[:2] == [b"a child", b"its parent"]
        assert len(child.output) == (1 if claimed else 3)
        assert "Traceback" not in child.stderr


# -- input


def test_an_invalid_message_is_answered_and_the_session_goes_on() -> None:
    with Child(*python(BULK)) as child:
        child.open()
        child.write(b"garbage\n\n   \n\xff\xfe\n{}\n")
        codes = [child.receive()["error"]["code"] for _ in range(3)]
        assert codes == [-32700, -32700, -32600]
        child.request(1, "ping")
        assert child.answer_to(1)["result"] == {}


ON_UVLOOP = """
import asyncio, uvloop
from accord import Server

asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
Server("desk").run()
"""


def test_the_loop_may_be_uvloop() -> None:
    with Child(sys.executable, "-W", "ignore", "-c", ON_UVLOOP) as child:
        child.open()
        child.request(1, "ping")
        assert child.answer_to(1)["result"] == {}
        child.close_input()
        assert child.wait() == 0


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b" \n"])
def test_lines_may_end_with_lf_or_crlf(end: bytes) -> None:
    with Child(*python(BULK)) as child:
        child.open()
        child.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}' + end)
        assert child.answer_to(1)["result"] == {}


def test_a_message_may_arrive_byte_by_byte() -> None:
    with Child(*python(BULK)) as child:
        child.open()
        for byte in b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n':
            child.write(bytes([byte]))
        assert child.answer_to(1)["result"] == {}


@reads_proc
def test_a_line_without_end_is_refused_in_bounded_memory() -> None:
    with Child(*python(BULK)) as child:
        child.open()
        before = child.memory("VmHWM")
        chunk = b"x" * (1024 * 1024)
        for _ in range(100):
            child.write(chunk)
        refusal = child.receive()
        assert refusal["id"] is None
        assert refusal["error"]["code"] == -32600
        assert "16777216 bytes" in refusal["error"]["message"]
        child.write(b'\n{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        assert child.answer_to(1)["result"] == {}
        assert child.memory("VmHWM") - before < 40


@pytest.mark.parametrize("size", [200_000, 8_000_000])
def test_long_messages_pass_both_ways(size: int) -> None:
    with Child(*python(BULK)) as child:
        child.open()
        child.call(1, "size", text="x" * size)
        assert text_of(child.answer_to(1)) == str(size)
        child.call(2, "echo", text="y" * size)
        assert len(text_of(child.answer_to(2))) == size


CONNECTION = """
import asyncio, sys
from accord.stdio.server import StdioConnection

async def main():
    connection = StdioConnection()

    def receive(line):
        connection.write(b"%d" % (10 // int(line)))

    for size in sys.argv[1:]:
        connection.write(b"7" * int(size))
    await connection.start(receive, print)
    await connection.ended.wait()
    connection.finish(60)

asyncio.run(main())
"""


def test_a_line_whose_receiver_fails_is_logged_and_the_next_one_is_received() -> None:
    with Child(sys.executable, "-c", CONNECTION) as child:
        child.write(b"0\n5\n")
        assert child.receive() == 2
        child.close_input()
        assert child.wait() == 0
        assert "receiving a message failed" in child.stderr
        assert "ZeroDivisionError" in child.stderr
        assert child.output == [b"2"]


def test_messages_that_are_sent_before_the_input_is_read_arrive_first() -> None:
    with Child(sys.executable, "-c", CONNECTION, "3000000", "10") as child:
        child.write(b"5\n")
        child.close_input()
        assert child.wait() == 0
        assert [len(line) for line in child.output] == [3_000_000, 10, 1]


@pytest.mark.parametrize("source", ["file", "pipe"])
def test_all_requests_of_a_finished_input_are_answered_before_the_exit(source: str) -> None:
    messages = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": OPENING},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *(
            {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "nap"}}
            for id in range(1, 21)
        ),
        {"jsonrpc": "2.0", "id": 21, "method": "ping"},
    ]
    text = b"\n".join(json.dumps(each).encode() for each in messages)
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.seek(0)
        options = {"stdin": file} if source == "file" else {}
        with Child(*python(BULK), **options) as child:
            if source == "pipe":
                child.write(text)
                child.close_input()
            assert child.wait() == 0
            answers = [json.loads(line) for line in child.output]
    assert sorted(each["id"] for each in answers) == list(range(22))
    assert all("result" in each for each in answers)


def test_a_terminal_is_served_and_stays_as_it_was() -> None:
    master, slave = pty.openpty()
    try:
        with Child(*python(BULK), stdin=slave) as child:
            os.write(master, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            assert child.answer_to(1)["result"] == {}
            assert os.get_blocking(slave)
            child.process.send_signal(signal.SIGINT)
            assert child.wait() == 0
    finally:
        os.close(master)
        os.close(slave)


# -- output


@reads_proc
def test_messages_of_a_client_that_does_not_read_wait_and_none_is_lost() -> None:
    with Child(*python(BULK)) as opened:
        opened.open()
        baseline = opened.memory()
    with Child(*python(BULK), reading=False) as child:
        child.request("open", "initialize", OPENING)
        child.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert child.process.stdin is not None
        os.set_blocking(child.process.stdin.fileno(), False)
        sent, left = 0, memoryview(b"")
        quiet_since = time.monotonic()
        while sent < 3000 and time.monotonic() - quiet_since < 0.3:
            if not left:
                sent += 1
                call = {"name": "echo", "arguments": {"text": "x" * 20_000}}
                message = {"jsonrpc": "2.0", "id": sent, "method": "tools/call", "params": call}
                left = memoryview(json.dumps(message).encode() + b"\n")
            written = child.process.stdin.write(left)
            if written is None:
                time.sleep(0.01)
            else:
                left = left[written:]
                quiet_since = time.monotonic()
        assert sent < 1000  # it has stopped reading
        assert child.memory("VmHWM") - baseline < 20
        os.set_blocking(child.process.stdin.fileno(), True)
        child.start_reading()
        child.write(bytes(left))
        assert sorted(child.answer_to(id)["id"] for id in range(1, sent + 1)) == list(
            range(1, sent + 1)
        )


@reads_proc
@pytest.mark.parametrize("tool", ["flood", "flood_in_thread", "flood_heedlessly"])
def test_a_tool_that_logs_much_to_a_client_that_does_not_read_costs_little(tool: str) -> None:
    with Child(*python(BULK), reading=False) as child:
        child.request("open", "initialize", OPENING)
        child.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        child.call(1, tool, count=300, bytes=100_000)
        steady_since, before = time.monotonic(), 0.0
        while time.monotonic() - steady_since < 0.3:
            now = child.memory()
            if now != before:
                steady_since, before = time.monotonic(), now
            time.sleep(0.02)
        assert child.memory("VmHWM") < 60
        child.start_reading()
        assert text_of(child.answer_to(1)) == "done"
        told = sum(b"notifications/message" in line for line in child.output)
        assert told == 300 or tool == "flood_heedlessly"


@reads_proc
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "much", "arguments": {"size": 500_000}}),
        ("tools/call", {"name": "much_in_thread", "arguments": {"size": 500_000}}),
        ("prompts/get", {"name": "much_prompt", "arguments": {"size": "500000"}}),
    ],
)
def test_requests_of_one_read_wait_while_their_answers_are_not_read(
    method: str, params: Any
) -> None:
    count = 250
    with Child(*python(BULK), reading=False) as child:
        child.request("open", "initialize", OPENING)
        child.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        child.request("first", "ping")
        until_sync(lambda: waiting_bytes(child) > 100)
        before = child.memory()
        asked = [
            {"jsonrpc": "2.0", "id": id, "method": method, "params": params} for id in range(count)
        ]
        child.send(*asked)
        until_steady(child)
        assert child.memory("VmHWM") - before < 64
        child.request("last", "ping")
        assert child.process.stdout is not None
        ids: set[Any] = set()
        with open(child.process.stdout.fileno(), "rb", closefd=False) as output:
            while len(ids) < count + 3:
                start = output.readline()[:60]
                ids.add(json.loads(start.partition(b'"id":')[2].partition(b",")[0]))
        assert ids == {"open", "first", "last", *range(count)}


def waiting_bytes(child: Child) -> int:
    """How many bytes of a child's output are unread."""
    assert child.process.stdout is not None
    held = array.array("i", [0])
    fcntl.ioctl(child.process.stdout.fileno(), termios.FIONREAD, held)
    return held[0]


def until_steady(child: Child) -> None:
    """Wait until the memory of a child has not changed for a while."""
    steady_since, before = time.monotonic(), 0.0
    while time.monotonic() - steady_since < 0.5:
        now = child.memory()
        if now != before:
            steady_since, before = time.monotonic(), now
        time.sleep(0.02)


def test_many_answers_to_requests_of_one_read_arrive_whole_and_in_order() -> None:
    size, count = 30_000, 100
    with Child(*python(BULK)) as child:
        child.open()
        asked = {"name": "much", "arguments": {"size": size}}
        child.send(
            *(
                {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": asked}
                for id in range(count)
            )
        )
        answers = [child.receive() for _ in range(count)]
        assert [(each["id"], len(text_of(each))) for each in answers] == [
            (id, size) for id in range(count)
        ]


def test_a_client_that_closes_its_end_with_messages_on_the_way_ends_the_server() -> None:
    with Child(*python(BULK), reading=False) as child:
        child.request("open", "initialize", OPENING)
        child.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        child.call(1, "flood", count=5, bytes=3_000_000)
        until_full(child)
        assert child.process.stdout is not None
        child.process.stdout.close()
        assert child.wait() == 0
        assert "Traceback" not in child.stderr


def until_full(child: Child) -> None:
    """Wait until a child that sends much has filled the pipe of its output."""
    assert child.process.stdout is not None
    output = child.process.stdout.fileno()
    # A write that finds no room for a whole page may leave the rest of the last one unused.
    until_sync(lambda: waiting_bytes(child) > fcntl.fcntl(output, fcntl.F_GETPIPE_SZ) - 8192)


LATE = """
import asyncio, sys
from accord import Server

server = Server("late")

@server.tool(inline=True)
def much(size: int) -> str:
    return "x" * size

@server.tool
async def wait() -> str:
    try:
        await asyncio.sleep(3600)
    finally:
        print("CANCELLED", file=sys.stderr, flush=True)

server.run(grace=60)
"""


def test_an_answer_is_sent_whole_to_a_client_that_reads_it_after_the_end() -> None:
    with Child(sys.executable, "-c", LATE, reading=False) as child:
        child.request("open", "initialize", OPENING)
        child.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        child.call(1, "wait")
        child.call(2, "much", size=5_000_000)
        until_full(child)
        child.process.send_signal(signal.SIGTERM)
        child.until_stderr("CANCELLED")
        child.start_reading()
        assert len(text_of(child.answer_to(2))) == 5_000_000
        assert child.wait() == 0


def test_a_client_that_closes_its_end_ends_the_server() -> None:
    with Child(*python(BULK), reading=False) as child:
        assert child.process.stdout is not None
        child.process.stdout.close()
        child.request(1, "ping")
        assert child.wait() == 0


@pytest.mark.parametrize("configured", [False, True], ids=["default", "root handler"])
def test_an_unread_stderr_delays_no_request(configured: bool) -> None:
    setup = "import logging; logging.basicConfig(); " if configured else ""
    code = f"{setup}import runpy; runpy.run_path({str(CHATTY)!r}, run_name='__main__')"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        calls = [
            {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "fail"}}
            for id in range(1_500)
        ]
        opening = {"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": OPENING}
        opened = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        for message in (opening, opened, *calls):
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            if "id" in message:
                assert json.loads(process.stdout.readline())["id"] == message["id"]
        # Once stderr is read, the first lines arrive, then the number of dropped ones.
        for line in process.stderr:
            if b"log lines were dropped" in line:
                break
        dropped = int(line.split()[0].rpartition(b":")[2])
        assert 0 < dropped < 1_500
        process.stdin.close()
        process.stderr.read()
        assert process.wait(LONG) == 0


def test_a_full_stderr_does_not_delay_the_exit() -> None:
    with subprocess.Popen(
        python(CHATTY),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        opening = {"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": OPENING}
        opened = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        calls = [
            {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "fail"}}
            for id in range(100)
        ]
        lines = [json.dumps(each).encode() + b"\n" for each in (opening, opened, *calls)]
        process.stdin.write(b"".join(lines))
        process.stdin.close()
        assert process.wait(LONG) == 0


PRINTING = """
from accord import Server

server = Server("printing")

@server.tool
def shout() -> str:
    print("loud", flush=True)
    return "done"

server.run()
"""


def test_a_server_without_a_standard_error_serves_and_its_prints_go_nowhere() -> None:
    opening = {"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": OPENING}
    opened = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "shout"}}
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, PRINTING],
        input="".join(json.dumps(each) + "\n" for each in (opening, opened, call)).encode(),
        stdout=subprocess.PIPE,
        timeout=LONG,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["id"] for each in answers] == ["open", 1]
    assert answers[1]["result"]["content"] == [{"type": "text", "text": "done"}]


# -- the end


def ended_by_input(child: Child) -> None:
    child.close_input()


def ended_by_sigint(child: Child) -> None:
    child.process.send_signal(signal.SIGINT)


def ended_by_sigterm(child: Child) -> None:
    child.process.send_signal(signal.SIGTERM)


def ended_by_sighup(child: Child) -> None:
    child.process.send_signal(signal.SIGHUP)


ENDS = [ended_by_input, ended_by_sigint, ended_by_sigterm, ended_by_sighup]
SIGNALS = [ended_by_sigint, ended_by_sigterm, ended_by_sighup]


def test_a_server_under_nohup_outlives_its_terminal() -> None:
    with Child("nohup", *python(ENDING)) as child:
        child.open()
        child.process.send_signal(signal.SIGHUP)
        child.request(1, "ping")
        assert child.answer_to(1)["result"] == {}


@pytest.mark.requirement("stdio.shutdown.server-exits", "practice.shutdown.signals")
@pytest.mark.parametrize("end", ENDS)
def test_an_idle_server_exits_cleanly(end: Any) -> None:
    with Child(*python(ENDING)) as child:
        child.open()
        end(child)
        assert child.wait() == 0
        assert "STOPPED" in child.stderr
        assert "AFTER RUN" in child.stderr
        assert "Traceback" not in child.stderr


@pytest.mark.parametrize("end", ENDS)
def test_a_sync_tool_that_blocks_does_not_delay_the_exit(end: Any) -> None:
    with Child(*python(ENDING)) as child:
        child.open()
        child.call(1, "block")
        child.until_stderr("BLOCKING")
        end(child)
        assert child.wait() == 0
        assert "STOPPED" in child.stderr
        assert "left behind" in child.stderr


@pytest.mark.parametrize("end", ENDS)
def test_running_tools_are_cancelled_when_the_server_stops(end: Any) -> None:
    with Child(*python(ENDING)) as child:
        child.open()
        child.call(1, "cooperate")
        child.call(2, "wait")
        child.until_stderr("WORKING")
        child.until_stderr("WAITING")
        end(child)
        assert child.wait() == 0
        assert "CANCELLED" in child.stderr
        assert "CLEANED UP" in child.stderr
        assert "AFTER RUN" in child.stderr


@pytest.mark.parametrize("end", ENDS)
def test_an_async_tool_that_ignores_its_cancellation_does_not_delay_the_exit(end: Any) -> None:
    with Child(*python(ENDING)) as child:
        child.open()
        child.call(1, "ignore")
        child.until_stderr("IGNORING")
        end(child)
        assert child.wait() == 0
        assert "IGNORED" in child.stderr


@pytest.mark.parametrize("end", ENDS)
def test_a_tool_that_blocks_the_loop_does_not_delay_the_exit(end: Any) -> None:
    with Child(*python(ENDING)) as child:
        child.open()
        child.call(1, "block_loop")
        child.until_stderr("BLOCKING THE LOOP")
        end(child)
        assert child.wait() == 0


@pytest.mark.parametrize("end", SIGNALS)
def test_a_second_signal_ends_at_once(end: Any) -> None:
    with Child(*python(ENDING, "60")) as child:
        child.open()
        child.call(1, "ignore")
        child.until_stderr("IGNORING")
        end(child)
        child.until_stderr("IGNORED")
        end(child)
        assert child.wait() == 0


def test_a_signal_cuts_short_the_wait_for_answers() -> None:
    with Child(*python(ENDING, "60")) as child:
        child.open()
        child.call(1, "wait")
        child.until_stderr("WAITING")
        child.close_input()
        child.process.send_signal(signal.SIGTERM)
        assert child.wait() == 0
        assert "CLEANED UP" in child.stderr


def test_answers_under_way_at_the_end_of_input_are_sent() -> None:
    with Child(*python(ENDING, "10")) as child:
        child.open()
        child.call(1, "soon")
        child.close_input()
        assert text_of(child.answer_to(1)) == "in time"
        assert child.wait() == 0


def test_a_program_may_go_on_after_its_server() -> None:
    program = """
import signal, sys
from accord import Server
Server("brief").run(grace=30)
is_free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
sys.exit(7 if is_free and signal.getitimer(signal.ITIMER_REAL) == (0, 0) else 8)
"""
    with Child(sys.executable, "-c", program) as child:
        child.open()
        child.close_input()
        assert child.wait() == 7


def test_a_thread_left_by_user_code_does_not_delay_the_exit() -> None:
    with Child(*python(ENDING)) as child:
        child.open()
        child.call(1, "leave_a_thread")
        assert text_of(child.answer_to(1)) == "started"
        child.close_input()
        assert child.wait() == 0


@pytest.mark.parametrize("tool", ["block", "block_loop"])
def test_the_server_exits_when_its_parent_dies(tool: str) -> None:
    # The input stays open: the test itself holds its other end.
    parent = f"import subprocess, time; subprocess.Popen({list(python(ENDING))}); time.sleep(60)"
    with Child(sys.executable, "-c", parent) as child:
        child.open()
        child.call(1, "pid")
        server = int(text_of(child.answer_to(1)))
        child.call(2, tool)
        child.until_stderr("BLOCKING")
        child.process.kill()
        assert child.receive() is None  # its stdout is closed
        until_sync(lambda: _is_gone(server))


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except OSError:
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.requirement("practice.startup.fatal-exit-code", "practice.errors.unhandled-exit")
@pytest.mark.parametrize("when", ["fail-at-start", "fail-at-end"])
def test_an_unhandled_error_is_logged_and_exits_with_1(when: str) -> None:
    with Child(*python(ENDING, "0.4", when)) as child:
        child.close_input()
        assert child.wait() == 1
        assert "RuntimeError: cannot" in child.stderr
        assert child.output == []


def test_a_tool_that_calls_exit_ends_only_its_call() -> None:
    with Child(*python(ENDING)) as child:
        child.open()
        child.call(1, "quit_process")
        assert child.answer_to(1)["result"]["isError"] is True
        child.request(2, "ping")
        assert child.answer_to(2)["result"] == {}


def test_a_server_without_stdin_says_so() -> None:
    run = f"runpy.run_path({str(BULK)!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", f"import os, runpy; os.close(0); {run}"],
        capture_output=True,
        timeout=LONG,
        check=False,
    )
    assert done.returncode == 1
    assert b"stdin" in done.stderr


# -- rounds of questions


def ask_again(child: Child, id: int, round: Any = None, **answers: Any) -> Any:
    """Call the tool that asks, with the answers to its last questions."""
    params: dict[str, Any] = {"_meta": meta(), "name": "book"}
    if round is not None:
        params["requestState"] = round["result"]["requestState"]
        params["inputResponses"] = {
            key: {"action": "accept", "content": {"value": value}} for key, value in answers.items()
        }
    child.request(id, "tools/call", params)
    return child.answer_to(id)


@pytest.mark.requirement("stateless.no-connection-affinity", "mrtr.server.no-assumed-retry")
def test_a_server_that_restarts_between_rounds_goes_on_with_the_same_keys() -> None:
    command = python(SERVERS / "rounds.py", "k" * 32)
    with Child(*command) as first:
        asked = ask_again(first, 1)
    with Child(*command) as second:
        asked = ask_again(second, 2, asked, nights=3)
        assert set(asked["result"]["inputRequests"]) == {"sure"}
    with Child(*command) as third:
        done = ask_again(third, 3, asked, sure=True)
        assert text_of(done) == "3 True False"
    with Child(*python(SERVERS / "rounds.py", "o" * 32)) as other:
        refused = ask_again(other, 4, asked, sure=True)
        assert refused["error"]["code"] == -32602
        assert "a key that is not known here" in refused["error"]["message"]
