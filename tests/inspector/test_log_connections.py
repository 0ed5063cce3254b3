"""The log on real connections: it equals the trace file, and has the verdicts of its check."""

import io
import os
import stat
from pathlib import Path

import pytest

from accord import Server, connect, trace
from accord.client.options import ClientSettings
from accord.runtime.wire import MemoryWire
from accord.testing.connection import TappedWire
from accord.testing.http_wires import TappedHttpWire
from accord_tools.check.trace_check import replay
from accord_tools.inspector.log.logged_conversation import current_call
from accord_tools.inspector.log.message_log import InspectedLog, write_trace
from inspector.logged import ask, call, make_session, opened, rows_of
from support.running import on_a_loop

server = Server("adder")


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Tapped:
    """A target for `connect` whose messages go into a log."""

    def __init__(self, session, transport):
        self.conversation = session.part(InspectedLog).conversation("main")
        self._transport = transport

    async def connect_memory(self):
        if self._transport == "memory":
            return TappedWire(MemoryWire(server._core), self.conversation)
        answers = "stream" if self._transport == "http-stream" else "auto"
        app = server.asgi(answers=answers, grace=0)
        return TappedHttpWire(app, self.conversation, ClientSettings())


async def talk(session, transport):
    """Connect, list and call a tool, and end."""
    tapped = Tapped(session, transport)
    client = await connect(tapped)
    await client.list_tools()
    token = current_call.set("call-1")
    await client.call_tool("add", {"a": 1, "b": 2, "password": "hunter2"})
    current_call.reset(token)
    await client.close()
    tapped.conversation.close()


@on_a_loop
async def check_rows(transport):
    session = make_session()
    await talk(session, transport)
    rows = await rows_of(session, call="call-1")
    main = [row for row in rows if row["kind"] != "http"]
    assert [row["method"] for row in main] == ["tools/call", "tools/call"]
    assert main[0]["pair"] == main[1]["n"]
    assert (await ask(session, "log.summary"))["counters"]["fail"] == 0


@pytest.mark.parametrize("transport", ["memory", "http", "http-stream"])
def test_rows_of_a_call_are_found_on_each_transport(transport):
    check_rows(transport)


@pytest.mark.parametrize("transport", ["memory", "http"])
def test_log_and_trace_file_are_equal_and_have_the_same_verdicts(transport, tmp_path):
    path = tmp_path / "session.jsonl"
    session = make_session(record=path)

    @on_a_loop
    async def main():
        await talk(session, transport)
        session.part(InspectedLog).conversation("main").observe("server", b"a stray line")
        await session.close()

    main()
    log = session.part(InspectedLog)
    written = path.read_bytes()
    assert b"hunter2" not in written
    if os.name != "nt":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    part = [each for n in range(1, log.next_number) if (each := log.get(n)) and each.part == 1]
    assert [each.to_record().encode() for each in part] == written.splitlines()
    # The second connection has a file of its own.
    other = (tmp_path / "session-2.jsonl").read_bytes()
    assert b"".join(write_trace(log)) == other
    assert summary_of(log, part) == verdicts_of(written)


def summary_of(log, entries):
    return {
        (breach.requirement, breach.severity, breach.party, each.number)
        for each in entries
        for breach in each.breaches
    }


def verdicts_of(data):
    report = replay(trace.read(io.BytesIO(data)), target="the trace")
    return {
        (each.violation.requirement, each.severity, each.violation.party, number)
        for each in report.violations
        for number in each.numbers
    }


@on_a_loop
async def test_a_recording_without_messages_is_removed(tmp_path):
    session = make_session(record=tmp_path / "session.jsonl")
    session.part(InspectedLog)
    await session.close()

    assert list(tmp_path.iterdir()) == []


@on_a_loop
async def test_messages_after_the_end_make_no_new_file(tmp_path):
    session = make_session(record=tmp_path / "session.jsonl")
    first = opened(session)
    second = opened(session)
    first.observe("client", call())
    second.close()
    second.observe("client", call())
    await session.close()
    second.observe("client", call())

    files = sorted(tmp_path.iterdir())
    assert [each.name for each in files] == ["session-2.jsonl", "session.jsonl"]
    assert [len(each.read_text().splitlines()) for each in files] == [3, 3]


@on_a_loop
async def test_a_full_disk_ends_the_recording_only(tmp_path):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    session = make_session(record=full)
    conversation = opened(session)
    for id in range(200):
        conversation.observe("client", call(id, name="x" * 100))
    await session.close()

    assert "the recording ended early" in (await ask(session, "log.summary"))["trouble"]
    assert len(await rows_of(session, 1000)) == 203


@on_a_loop
async def test_a_file_that_exists_is_left_alone(tmp_path):
    path = tmp_path / "session.jsonl"
    path.write_text("mine")
    session = make_session(record=path)
    opened(session).observe("client", call())
    shown = await ask(session, "log.summary")
    await session.close()

    assert path.read_text() == "mine"
    assert shown["record"] == "session-2.jsonl"
    assert len((tmp_path / "session-2.jsonl").read_text().splitlines()) == 4
