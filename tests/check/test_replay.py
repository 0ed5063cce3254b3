import pytest

from accord.check.replay import replay
from accord.errors import TraceError
from accord.types import REVISION_IDS
from check.sessions import NEW, line, opening, records_of, request, result


def judged(lines, **options):
    return replay(records_of(lines), target="a session", **options)


def test_a_session_that_keeps_the_rules_has_no_findings():
    report = judged([*opening(), request(2, "ping"), result(2)])
    assert (report.target, report.revision, report.judged_by) == ("a session", NEW, NEW)
    assert report.findings == ()
    assert not report.has_failed
    assert report.score == 100


def test_a_breach_is_found_with_its_record():
    report = judged([*opening(), request(2, "ping"), result(2), request(2, "ping")])
    [finding] = [each for each in report.findings if each.requirement.endswith("id-unique")]
    assert (finding.numbers, finding.party, finding.severity) == ([6], "client", "fail")
    assert report.has_failed
    assert report.score < 100


def test_the_revision_can_be_told():
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


def test_what_a_recording_cannot_show_is_not_counted_as_applicable():
    report = judged(opening())
    human = [each for each in report.results if each.verdict == "not-exercised"]
    assert 0 < report.coverage.exercised < report.coverage.applicable < len(report.results)
    assert len(human) > report.coverage.applicable - report.coverage.exercised


def test_a_recording_without_a_message_cannot_be_judged():
    with pytest.raises(TraceError, match="no message in this recording"):
        judged([line("client", http={"method": "GET"}, transport="http")])


def test_the_caller_is_told_how_far_it_is():
    counts = []
    judged(opening(), seen=counts.append)
    assert counts == [1, 2, 3]
