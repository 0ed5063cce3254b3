"""Recordings on the page: they are read, judged as `accord check trace` judges, and described."""

from pathlib import Path

import pytest

from accord.trace import read
from accord_tools.check.trace_check import replay
from accord_tools.inspector.definition import ActionRefused, InspectOptions
from accord_tools.inspector.inspection import Inspection
from accord_tools.inspector.live.session_facts import observed_facts
from accord_tools.inspector.log import trace_session
from accord_tools.inspector.log.message_log import InspectedLog, write_trace
from accord_tools.inspector.log.trace_session import open_trace
from inspector.logged import answer, ask, call, make_session, opening, rows_of
from support.running import on_a_loop
from support.tables import cases
from support.waiting import until

TRACES = Path(__file__).parents[2] / "examples" / "traces"
ALL = sorted(path.name for path in TRACES.glob("*.jsonl"))


def line(sender, data):
    return b'{"from":"%s","transport":"stdio","message":%s}\n' % (sender.encode(), data)


OPENING = b"".join(line(*each) for each in opening())
SHORT = OPENING + line("client", call()) + line("server", answer())


@cases("name", ALL)
def test_verdicts_are_those_of_the_trace_check(name):
    session = make_session("trace")

    @on_a_loop
    async def main():
        await open_trace(session, TRACES / name)

    main()
    log = session.part(InspectedLog)
    report = replay(read(TRACES / name), target=name)
    assert report.violations or "clean" in name
    found = {(breach.requirement, breach.severity, n) for n, breach in breaches_of(log)}
    assert found == {
        (each.violation.requirement, each.severity, number)
        for each in report.violations
        for number in each.numbers
    }
    broken = {each.id for each in report.results if each.verdict in ("fail", "warn")}
    assert set(log.broken) == broken
    held = log.held.difference(log.broken)
    passed = {each.id for each in report.results if each.verdict == "pass"}
    # A breach that is less exact than another one counts as put to the test, and not as kept.
    assert held <= passed


def breaches_of(log):
    for number in range(log.first_kept, log.next_number):
        for breach in log.get(number).breaches:
            yield number, breach


@on_a_loop
async def test_a_recording_names_both_parties_and_the_revision():
    session = make_session("trace")
    await open_trace(session, SHORT)

    facts = observed_facts(session)

    assert (facts["state"], facts["error"], facts["can_send"]) == ("ready", None, False)
    assert facts["revision"] == "2025-06-18"
    assert facts["server"] == {"name": "a server", "version": "2"}
    assert facts["server_capabilities"] == '{"tools": {}}'
    assert facts["counters"]["messages"] == 5


@on_a_loop
async def test_a_broken_line_is_named_and_the_rows_before_it_are_shown():
    session = make_session("trace")
    await open_trace(session, SHORT + b"no JSON\n")

    facts = observed_facts(session)

    assert facts["state"] == "failed"
    assert "line 6" in facts["error"]["message"]
    assert len(await rows_of(session)) == 5


@pytest.mark.parametrize("source", [b"", b"\n\n", Path("no-such-file.jsonl")])
def test_a_recording_that_cannot_be_read_is_explained(source):
    session = make_session("trace")

    @on_a_loop
    async def main():
        await open_trace(session, source)

    main()
    assert observed_facts(session)["state"] == "failed"
    assert observed_facts(session)["error"]["message"]


@on_a_loop
async def test_a_trace_is_written_as_it_was_read(tmp_path):
    name = "2025-06-18-faulty.jsonl"
    session = make_session("trace", record=tmp_path / "never")
    await open_trace(session, TRACES / name)

    written = b"".join(write_trace(session.part(InspectedLog)))

    assert written == b"".join(each.encode() + b"\n" for each in read(TRACES / name))
    assert list(tmp_path.iterdir()) == []


@on_a_loop
async def test_masks_of_a_recording_stay_and_other_secrets_are_masked():
    session = make_session("trace")
    http = b'{"method":"POST","headers":{"mcp-session-id":"masked-7","x-key":"abc"}}'
    row = b'{"from":"client","transport":"http","message":%s,"http":%s}\n' % (call(), http)
    await open_trace(session, row)

    lines = (await ask(session, "log.detail", n=1))["http"]["lines"]

    assert ["mcp-session-id", "masked-7"] in lines
    assert ["x-key", "masked-1"] in lines


@on_a_loop
async def test_times_since_the_epoch_are_shown_as_such():
    session = make_session("trace")
    lines = enumerate(SHORT.splitlines(keepends=True), 1_790_000_000)
    rows = [b'{"t":%d,%s' % (t, each[1:]) for t, each in lines]
    await open_trace(session, b"".join(rows))

    shown = await rows_of(session)

    assert [row["at"] for row in shown[:2]] == [1_790_000_000, 1_790_000_001]
    assert [row["t"] for row in shown] == [0, 1, 2, 3, 4]
    assert shown[4]["took"] == 1


@on_a_loop
async def test_a_recording_larger_than_the_log_keeps_its_end_and_all_verdicts(monkeypatch):
    monkeypatch.setattr(trace_session, "_RECORDS_AT_ONCE", 7)
    session = make_session("trace", keep_bytes=20_000)
    calls = [line("client", call(n)) + line("server", answer(n)) for n in range(1, 51)]
    await open_trace(session, OPENING + b"".join(calls))

    log = session.part(InspectedLog)

    assert log.kept_bytes <= 20_000
    assert log.first_kept > 1
    assert log.counters.dropped == log.first_kept - 1
    assert observed_facts(session)["server"]["name"] == "a server"
    with pytest.raises(ActionRefused, match="row 1 has left the log"):
        await ask(session, "log.detail", n=1)


@on_a_loop
async def test_the_text_of_a_recording_opens_in_a_session_of_its_own():
    inspection = Inspection(InspectOptions())
    made = await ask(inspection.lobby, "trace.open", name="mine.jsonl", text=SHORT.decode())
    session = inspection.find(made["target"])
    await until(lambda: observed_facts(session)["state"] == "ready")

    assert (session.target.name, session.kind) == ("mine.jsonl", "trace")
    assert len(await rows_of(session)) == 5
    with pytest.raises(ActionRefused, match="the recording is empty"):
        await ask(inspection.lobby, "trace.open", name="", text=" ")
    with pytest.raises(ActionRefused, match="shows a recording"):
        await ask(session, "log.clear")
    await inspection.close()
