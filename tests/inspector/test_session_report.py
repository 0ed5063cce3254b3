"""The report of a session: that of `accord check trace`, for all kinds of sessions."""

import io
import json

import pytest

from accord import trace
from accord_tools.check.trace_check import replay
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.exports import export_actions  # noqa: F401  # defines the actions
from accord_tools.inspector.exports.session_files import write_reports
from accord_tools.inspector.log.message_log import InspectedLog
from accord_tools.inspector.log.trace_session import open_trace
from accord_tools.reports.html import as_html
from inspector.logged import answer, call, make_session, message, opened
from inspector.reached_servers import download
from support.running import on_a_loop

SECRET = "hunter2-and-more"


@pytest.mark.parametrize("kind", ["live", "watch"])
@on_a_loop
async def test_the_report_is_that_of_the_saved_trace(kind):
    session = make_session(kind)
    # The trace has the newest connection alone, so its lines have other numbers than the rows.
    opened(session)
    talk = opened(session)
    arguments = {"password": SECRET}
    talk.observe("client", call(1, arguments=arguments))
    session.part(InspectedLog).add_stderr("a line")
    talk.observe("server", json.dumps({"id": 1, "result": {}}).encode())
    talk.observe("client", message(method="notifications/cancelled"))
    page = await download(session, "export.session", format="report")
    saved = await download(session, "export.session", format="trace")
    expected = replay(trace.read(io.BytesIO(saved)), target=session.target.name)
    assert expected.results
    assert page.decode() == as_html(expected)
    assert SECRET.encode() not in page


@on_a_loop
async def test_a_recording_has_the_report_of_its_file():
    source = make_session()
    talk = opened(source)
    talk.observe("client", call(1))
    talk.observe("server", answer(1))
    saved = await download(source, "export.session", format="trace")
    session = make_session("trace")
    await open_trace(session, saved)
    page = await download(session, "export.session", format="report")
    assert page.decode() == as_html(replay(trace.read(io.BytesIO(saved)), target="a server"))


@on_a_loop
async def test_a_log_without_messages_has_no_report(tmp_path):
    session = make_session()
    session.part(InspectedLog).add_stderr("a line")
    with pytest.raises(ActionRefused, match="no message"):
        await download(session, "export.session", format="report")
    assert write_reports([session], tmp_path / "report.html") == []
    assert list(tmp_path.iterdir()) == []


@on_a_loop
async def test_an_existing_report_is_left_alone(tmp_path):
    (tmp_path / "report.html").write_text("mine")
    session = make_session()
    opened(session)
    (file,) = write_reports([session], tmp_path / "report.html")
    assert file == tmp_path / "report-2.html"
    assert (tmp_path / "report.html").read_text() == "mine"
