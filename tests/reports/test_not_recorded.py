"""A recording that lacks facts says so in every format of a report."""

import json

from accord_tools.check.trace_check import replay
from accord_tools.reports.html import as_html
from accord_tools.reports.machine_readable import as_json, as_junit
from accord_tools.reports.markdown import as_markdown
from accord_tools.reports.sarif import as_sarif
from accord_tools.reports.text import as_text
from check.sessions import opening, records_of

ID = "http.client.protocol-version-header"


def report():
    lines = [{**each, "transport": "http"} for each in opening()]
    return replay(records_of(lines), target="a session")


def test_every_format_has_the_verdict_not_recorded():
    made = report()
    assert made.count("not-recorded") > 10
    assert json.loads(as_json(made))["counts"]["not-recorded"] == made.count("not-recorded")
    why = "not-recorded: the recording does not show what HTTP said"
    assert why in as_junit(made)
    assert "Not recorded" in as_html(made)
    assert "not-recorded" in as_text(made)
    assert "not-recorded" in as_markdown(made)
    # Code scanning has only what was put to the test.
    assert ID not in as_sarif(made)


def test_requirements_without_facts_are_neither_applicable_nor_violations():
    made = report()
    lacking = {each.id for each in made.results if each.verdict == "not-recorded"}
    assert ID in lacking
    assert lacking.isdisjoint(each.violation.requirement for each in made.violations)
    open_ones = [each for each in made.results if each.verdict in ("pass", "fail", "warn")]
    assert made.coverage.exercised == len(open_ones)


def test_reports_without_such_a_verdict_do_not_mention_it():
    made = replay(records_of(opening()), target="a session")
    assert made.count("not-recorded") == 0
    for text in (as_text(made), as_markdown(made)):
        assert "not-recorded" not in text
    assert "Not recorded" not in as_html(made)
