"""The timeline: requests as lanes, and what happened while each was open."""

import json

import pytest

from accord.trace import HttpFacts
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.log.message_log import InspectedLog
from accord_tools.inspector.log.timeline import LANES_MOST
from accord_tools.inspector.log.trace_session import open_trace
from inspector.logged import answer, ask, call, make_session, message, opened
from support.running import on_a_loop


def marks_of(lane):
    return [each["kind"] for each in lane["marks"]]


async def lanes_of(session, **params):
    """Return the lanes after that of the handshake."""
    return (await ask(session, "log.timeline", **params))["lanes"][1:]


@on_a_loop
async def test_a_request_has_a_lane_to_its_answer():
    session = make_session()
    talk = opened(session)
    talk.observe("client", call(1))
    talk.observe("server", answer(1))
    talk.observe("client", call(2))
    talk.observe("server", message(id=2, error={"code": -32602, "message": "no"}))
    talk.observe("client", call(3))
    found = await ask(session, "log.timeline")
    opening, first, second, third = found["lanes"]
    assert (opening["method"], first["method"], first["brief"]) == (
        "initialize",
        "tools/call",
        "add",
    )
    assert [each["state"] for each in found["lanes"]] == ["answered", "answered", "error", "open"]
    assert found["t0"] == opening["start"] <= opening["end"] <= first["start"] <= first["end"]
    assert third["end"] is None
    assert found["t1"] >= third["start"] >= second["end"]
    assert found["total"] == 4
    assert found["has_times"]


@on_a_loop
async def test_requests_of_the_server_have_lanes_of_their_own():
    session = make_session()
    talk = opened(session)
    talk.observe("client", call(1))
    talk.observe("server", message(id=1, method="elicitation/create", params={"message": "Who?"}))
    talk.observe("client", message(id=1, result={"action": "decline"}))
    talk.observe("server", answer(1))
    outer, inner = await lanes_of(session)
    assert (outer["sender"], inner["sender"]) == ("client", "server")
    assert (inner["brief"], inner["state"]) == ("Who?", "answered")
    assert [(each["kind"], each["n"]) for each in outer["marks"]] == [("question", inner["n"])]


@on_a_loop
async def test_progress_and_cancellation_are_marks_of_their_request():
    session = make_session()
    talk = opened(session)
    talk.observe("client", call(1, _meta={"progressToken": "a"}))
    talk.observe("client", call(2))
    for value in (1, 2):
        told = {"progressToken": "a", "progress": value}
        talk.observe("server", message(method="notifications/progress", params=told))
    talk.observe("client", message(method="notifications/cancelled", params={"requestId": 1}))
    first, second = await lanes_of(session)
    assert marks_of(first) == ["progress", "progress", "cancelled"]
    assert (first["state"], first["end"]) == ("cancelled", first["marks"][-1]["t"])
    assert (second["state"], second["marks"]) == ("open", [])


@on_a_loop
async def test_an_answer_after_a_cancellation_ends_the_lane():
    session = make_session()
    talk = opened(session)
    talk.observe("client", call(1))
    talk.observe("client", message(method="notifications/cancelled", params={"requestId": 1}))
    talk.observe("server", answer(1))
    (lane,) = await lanes_of(session)
    assert (lane["state"], marks_of(lane)) == ("answered", ["cancelled"])


@on_a_loop
async def test_a_cancelled_question_within_a_request_over_http_ends_alone():
    session = make_session()
    talk = opened(session, "http")
    sent = HttpFacts(method="POST", path="/mcp", exchange="e1")
    came = HttpFacts(status=200, exchange="e1")
    talk.observe("client", call(1), http=sent)
    asked = message(id="q", method="elicitation/create", params={"message": "Who?"})
    talk.observe("server", asked, http=came)
    told = message(method="notifications/cancelled", params={"requestId": "q"})
    talk.observe("server", told, http=came)
    outer, inner = await lanes_of(session)
    assert (outer["state"], inner["state"]) == ("open", "cancelled")
    assert marks_of(outer) == ["question", "cancelled"]
    assert marks_of(inner) == ["cancelled"]


@on_a_loop
async def test_a_line_of_stderr_is_marked_while_one_request_is_open():
    session = make_session()
    log, talk = session.part(InspectedLog), opened(session)
    log.add_stderr("before")
    talk.observe("client", call(1))
    log.add_stderr("within one")
    talk.observe("client", call(2))
    log.add_stderr("within two")
    talk.observe("server", answer(1))
    log.add_stderr("within the other")
    talk.observe("server", answer(2))
    log.add_stderr("after")
    assert [marks_of(each) for each in await lanes_of(session)] == [["stderr"], ["stderr"]]


@on_a_loop
async def test_a_batch_of_requests_is_one_lane():
    session = make_session()
    talk = opened(session)
    both = [json.loads(call(1)), json.loads(call(2))]
    talk.observe("client", json.dumps(both).encode())
    talk.observe("server", json.dumps([json.loads(answer(1)), json.loads(answer(2))]).encode())
    told = json.loads(message(method="notifications/cancelled", params={"requestId": 9}))
    talk.observe("client", json.dumps([told]).encode())
    (lane,) = await lanes_of(session)
    assert (lane["method"], lane["state"]) == ("batch", "answered")


@on_a_loop
async def test_a_filter_chooses_lanes_and_the_newest_are_shown():
    session = make_session()
    talk = opened(session)
    for number in range(1, 6):
        talk.observe("client", call(number, name=f"tool-{number}"))
        talk.observe("server", answer(number))
    talk.observe("server", message(id=1, method="ping"))
    found = await ask(session, "log.timeline", count=2)
    assert (found["total"], found["start"], len(found["lanes"])) == (7, 5, 2)
    (ping,) = (await ask(session, "log.timeline", filter={"sender": "server"}))["lanes"]
    assert ping["method"] == "ping"
    (third,) = (await ask(session, "log.timeline", filter={"text": "tool-3"}))["lanes"]
    assert third["brief"] == "tool-3"
    with pytest.raises(ActionRefused, match="expected 0 to 500"):
        await ask(session, "log.timeline", count=LANES_MOST + 1)


@on_a_loop
async def test_a_recording_without_times_is_shown_in_its_order():
    session = make_session("trace")
    talk = opened(make_session())
    talk.observe("client", call(1))
    lines = []
    for number in range(1, 5):
        record = json.loads(talk._owner.get(number).to_record().encode())
        record.pop("t", None)
        lines.append(json.dumps(record).encode())
    await open_trace(session, b"\n".join(lines))
    found = await ask(session, "log.timeline")
    assert not found["has_times"]
    assert [(each["start"], each["end"]) for each in found["lanes"]] == [(1, 2), (4, None)]
    assert found["t1"] == 4


@on_a_loop
async def test_a_long_log_has_lanes_and_marks_within_bounds():
    session = make_session()
    talk = opened(session)
    for number in range(LANES_MOST + 100):
        talk.observe("client", call(number, _meta={"progressToken": number}))
    told = {"progressToken": LANES_MOST + 99, "progress": 1}
    for _ in range(200):
        talk.observe("server", message(method="notifications/progress", params=told))
    found = await ask(session, "log.timeline")
    assert len(found["lanes"]) == LANES_MOST
    assert len(found["lanes"][-1]["marks"]) == 40
