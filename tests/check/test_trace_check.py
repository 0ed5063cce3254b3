import pytest

from accord.errors import TraceError
from accord.types import REVISION_IDS
from accord_tools.check.trace_check import replay
from check.sessions import NEW, line, opening, records_of, request, result
from protocol.rules.http_sessions import JSON, Talk, initialize, notice, opened
from protocol.rules.http_sessions import request as http_request
from protocol.rules.http_sessions import result as http_result


def judged(lines, **options):
    return replay(records_of(lines), target="a session", **options)


def test_a_session_that_keeps_the_rules_has_no_violations():
    report = judged([*opening(), request(2, "ping"), result(2)])
    assert (report.target, report.revision, report.judged_by) == ("a session", NEW, NEW)
    assert report.violations == ()
    assert not report.has_failed
    assert report.score == 100


def test_a_violation_is_found_with_its_record():
    report = judged([*opening(), request(2, "ping"), result(2), request(2, "ping")])
    [group] = [
        each for each in report.violations if each.violation.requirement.endswith("id-unique")
    ]
    assert (group.numbers, group.violation.party, group.severity) == ([6], "client", "fail")
    assert report.has_failed
    assert report.score < 100


def test_the_revision_can_be_chosen():
    report = judged(opening(), revision=REVISION_IDS[0])
    assert report.revision == REVISION_IDS[0]


def test_without_a_handshake_the_revision_is_unknown_but_the_session_is_judged():
    report = judged([request(2, "ping"), result(2)])
    assert report.revision is None
    assert report.judged_by in REVISION_IDS


def test_every_requirement_of_the_revision_has_one_result():
    report = judged(opening())
    ids = [each.id for each in report.results]
    assert len(ids) == len(set(ids))
    assert set(ids) >= {"jsonrpc.request.id-not-null", "auth.token.short-lived"}


def test_requirements_that_a_recording_cannot_show_are_not_counted_as_applicable():
    report = judged(opening())
    human = [each for each in report.results if each.verdict == "not-exercised"]
    assert 0 < report.coverage.exercised < report.coverage.applicable < len(report.results)
    assert len(human) > report.coverage.applicable - report.coverage.exercised


def test_a_recording_without_a_message_cannot_be_judged():
    with pytest.raises(TraceError, match="no message in this recording"):
        judged([line("client", http={"method": "GET"}, transport="http")])


def test_the_caller_receives_the_progress():
    counts = []
    judged(opening(), seen=counts.append)
    assert counts == [1, 2, 3]


def test_only_chosen_requirements_of_a_recording_are_reported():
    lines = [*opening(), request(2, "ping"), result(2, pong=1), request(2, "ping")]
    report = judged(lines, only=["ping"])
    assert {each.id.split(".")[0] for each in report.results} == {"ping"}
    assert [each.violation.requirement for each in report.violations] == ["ping.response.empty"]


# -- a client that began again


def over_http(lines, session=None, status=200):
    """Return records over HTTP; those of the client have their session id."""
    headers = {"content-type": "application/json"}
    if session is not None:
        headers["mcp-session-id"] = session
    return [
        {
            **each,
            "transport": "http",
            "http": {"method": "POST", "headers": headers}
            if each["from"] == "client"
            else {"method": "POST", "status": status, "headers": headers},
        }
        for each in lines
    ]


def session_of(name, *lines):
    """Return the records of a session from its opening, which has no session id yet."""
    asked, answered, confirmed = opening()
    return [
        *over_http([asked]),
        *over_http([answered, confirmed, *lines], name),
    ]


LOST = over_http([request(2, "ping"), line("server")], "one", 404)


def test_a_client_that_began_again_has_several_conversations():
    lines = [
        *session_of("one", request(3, "ping"), result(3)),
        *LOST,
        *session_of("two", request(3, "ping"), result(3)),
    ]
    report = judged(lines)
    assert report.violations == ()
    found = {each.id: each for each in report.results}
    assert found["ping.response.empty"].message == "held 2 times"


def test_violations_of_all_conversations_are_counted():
    lines = [
        *session_of("one", request(3, "ping"), result(3, pong=1)),
        *LOST,
        *session_of("two", request(3, "ping"), result(3)),
        *over_http([request(4, "ping"), result(4, pong=1)], "one"),
    ]
    report = judged(lines)
    [group] = report.violations
    assert (group.violation.requirement, group.count) == ("ping.response.empty", 2)


def test_a_second_opening_over_one_pipe_is_not_a_new_conversation():
    report = judged([*opening(), *opening()])
    assert not report.has_failed


def test_a_second_opening_in_a_session_is_not_a_new_conversation():
    report = judged([*session_of("one"), *over_http(opening(), "one")])
    assert not report.has_failed


def test_a_late_answer_belongs_to_the_conversation_of_its_request():
    talk = Talk(NEW)
    for session in ("s-1", "s-2"):
        talk.session = None
        talk.ask(f"init {session}", "POST", initialize(NEW), MCP_Protocol_Version=None)
        head = {"mcp-session-id": session}
        talk.head(f"opened {session}", f"init {session}", 200, JSON, opened(NEW), headers=head)
        talk.session = session
        talk.open()
        talk.ask(f"ready {session}", "POST", notice("initialized"))
        talk.head(f"accepted {session}", f"ready {session}", 202, None)
        if session == "s-1":
            talk.ask("slow", "POST", http_request(2, "ping"))
            talk.ask("lost", "POST", http_request(3, "ping"))
            talk.head("lost answer", "lost", 404, None)
    talk.head("late", "slow", 200, JSON, http_result(2))
    report = replay(talk.records.values(), target="two conversations")
    assert [str(each.violation) for each in report.violations] == []
