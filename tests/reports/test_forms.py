"""What every form of a report says, and that no text of a peer breaks out of any."""

import json
from hashlib import sha256
from xml.etree import ElementTree as ET

import msgspec
import pytest
from msgspec.structs import replace

from accord.cli.terminal import escape_unprintable
from accord.protocol.catalogue import RULE_SET, catalogue
from accord.protocol.violation import Violation
from accord_tools.check.scenarios.client import CLIENT_SCENARIOS
from accord_tools.check.scenarios.server import SCENARIOS
from accord_tools.check.trace_check import replay
from accord_tools.reports.clauses import page_of
from accord_tools.reports.delivery import FORMS, render
from accord_tools.reports.report import Report, ViolationGroups, build_report
from accord_tools.reports.text import as_text
from accord_tools.reports.wording import summary
from check.sessions import opening, records_of
from reports.sample_reports import (
    NASTY,
    NEW,
    hostile_report,
    server_report,
    spotless_report,
    verdict,
)
from support.tables import cases

BROKEN, HELD = "jsonrpc.request.answered", "jsonrpc.request.id-not-null"
MEND, OTHER = catalogue()[BROKEN].mend, catalogue()[HELD].mend
LACKING = "http.client.protocol-version-header"


def broken_report():
    """Return a report in which one requirement is broken in two ways, and another one held."""
    groups = ViolationGroups()
    for why in ("leaves a request unanswered", "answers a request twice"):
        groups.add(Violation(BROKEN, "server", why, severity="fail", number=1))
    return build_report(
        [verdict(BROKEN, "fail", "leaves a request unanswered"), verdict(HELD, "pass", "held")],
        target="x.jsonl",
        revision=NEW,
        judged_by=NEW,
        decidable=(),
        violations=groups.failures_first(),
    )


def lacking_report():
    """Return the report of a recording that does not say what HTTP said."""
    lines = [{**each, "transport": "http"} for each in opening()]
    return replay(records_of(lines), target="a session")


def complete_report():
    return replay(records_of(opening()), target="a session")


def older_report():
    """Return a report that another accord made, by rules of its own."""
    return replace(server_report(), rules="2031-02")


@cases(
    ("make", "form", "said", "absent"),
    [
        (broken_report, "text", f" mend:    {MEND}\n", OTHER),
        (broken_report, "markdown", "  - mend: ", OTHER),
        (broken_report, "html", f'<h3>How to mend it</h3><p class="mend">{MEND}</p>', OTHER),
        (broken_report, "junit", f"\nmend: {MEND}", OTHER),
        (broken_report, "sarif", f"To mend it: {MEND}", None),
        (broken_report, "sarif", f"\\nmend: {MEND}", None),
        (lacking_report, "text", "not-recorded", None),
        (lacking_report, "markdown", "not-recorded", None),
        (lacking_report, "html", "Not recorded", None),
        (lacking_report, "junit", "not-recorded: the recording does not show what HTTP said", None),
        # Code scanning has only what was put to the test.
        (lacking_report, "sarif", "2.1.0", LACKING),
        (complete_report, "text", "area", "not-recorded"),
        (complete_report, "markdown", "area", "not-recorded"),
        (complete_report, "html", "Area", "Not recorded"),
        (older_report, "text", "\nrules: 2031-02\n", None),
        (older_report, "markdown", "\n- rules: 2031-02\n", None),
        (older_report, "html", "<dt>Rules</dt><dd>2031-02</dd>", None),
        (older_report, "json", '"rules": "2031-02"', None),
        (older_report, "junit", '<property name="rules" value="2031-02" />', None),
        (older_report, "sarif", '"ruleSet": "2031-02"', None),
    ],
)
def test_a_form_says_what_mends_what_was_not_recorded_and_by_which_rules(make, form, said, absent):
    text = render(make(), form)
    assert said in text
    assert absent is None or absent not in text


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_requirement_that_is_broken_in_two_ways_is_mended_once(form):
    assert render(broken_report(), form).count("mend:") == 1
    assert render(broken_report(), form).count("why: ") == 2


def test_json_has_the_remedy_of_each_requirement_and_what_was_not_recorded():
    shown = json.loads(render(broken_report(), "json"))
    assert [each["mend"] for each in shown["results"]] == [MEND, OTHER]
    lacking = lacking_report()
    assert lacking.count("not-recorded") > 10
    counts = json.loads(render(lacking, "json"))["counts"]
    assert counts["not-recorded"] == lacking.count("not-recorded")


def test_each_suite_of_junit_names_the_rule_set():
    suites = list(ET.fromstring(render(older_report(), "junit")))
    assert suites
    assert all(len(suite.findall("./properties/property")) == 1 for suite in suites)


def test_requirements_without_facts_are_neither_applicable_nor_violations():
    made = lacking_report()
    lacking = {each.id for each in made.results if each.verdict == "not-recorded"}
    assert LACKING in lacking
    assert lacking.isdisjoint(each.violation.requirement for each in made.violations)
    open_ones = [each for each in made.results if each.verdict in ("pass", "fail", "warn")]
    assert made.coverage.exercised == len(open_ones)


# -- the rule set


@pytest.mark.parametrize("make", [hostile_report, server_report, spotless_report])
def test_a_report_has_the_rule_set_it_was_made_by(make):
    assert make().rules == RULE_SET


def test_the_last_line_names_the_rule_set():
    assert summary(older_report()).endswith(" by rules 2031-02")
    assert as_text(older_report(), quiet=True).endswith(" by rules 2031-02\n")


def test_a_report_that_was_stored_without_a_rule_set_was_made_by_the_first_one():
    stored = json.loads(msgspec.json.encode(older_report()))
    del stored["rules"]
    assert msgspec.convert(stored, Report).rules == "2026-11"


def test_the_date_is_looked_at_when_scenarios_decide_other_requirements():
    """What scenarios provoke can fail a check that passed: see tests/protocol/test_rule_set.py.

    Set the digest to the new one when RULE_SET was looked at.
    """
    decided = {f"server {id}" for each in SCENARIOS for id in each.ids}
    decided |= {f"client {id}" for each in CLIENT_SCENARIOS for id in each.ids}
    digest = sha256("\n".join(sorted(decided)).encode()).hexdigest()[:16]
    assert (RULE_SET, digest) == ("2026-11", "7eb6f5f91f3b1340")


# -- texts of peers


def is_harmless(text):
    return all(each.isprintable() or each == "\n" for each in text)


@pytest.mark.parametrize("form", FORMS)
def test_texts_of_peers_and_names_of_tools_are_escaped(form):
    names = {NASTY: "it was not chosen", "book": "it books"} | {
        f"tool-{number}": "it was not chosen" for number in range(8)
    }
    report = hostile_report()
    shown = render(replace(report, setting=replace(report.setting, not_called=names)), form)
    assert is_harmless(shown)
    if form in ("text", "html"):
        assert "tool-4 and 3 more (it was not chosen); book (it books)" in shown
    if form in ("markdown", "json"):
        assert "it books" in shown


def test_characters_that_control_a_terminal_are_escaped():
    assert escape_unprintable("a\x1b[0m\u202eb\n\ud800") == "a\\x1b[0m\\u202eb\\n\\ud800"
    assert escape_unprintable("grüß dich, 世界") == "grüß dich, 世界"


def test_the_summary_is_one_harmless_line():
    shown = summary(hostile_report())
    assert is_harmless(shown)
    assert "\n" not in shown
    assert "1 requirement failed, 2 warned, 4 of 5 applicable exercised, score 50 of 100" in shown


@cases(
    ("anchor", "page"),
    [
        ("2025-06-18/basic/transports", "2025-06-18/basic/transports"),
        ("2026-07-28/basic/patterns/index", "2026-07-28/basic/patterns"),
        ("2025-03-26: 1.2.2", None),
        ("practice: Text Content", None),
        (None, None),
    ],
)
def test_an_anchor_that_is_a_path_has_a_page(anchor, page):
    assert page_of(anchor) == (page and f"https://modelcontextprotocol.io/specification/{page}")
