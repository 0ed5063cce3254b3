"""The sentence that says how to mend a breach, in every format."""

import json
from xml.etree import ElementTree as ET

import pytest

from accord.protocol.catalogue import catalogue
from accord.protocol.violation import Violation
from accord_tools.reports.html import as_html
from accord_tools.reports.machine_readable import as_json, as_junit
from accord_tools.reports.markdown import as_markdown
from accord_tools.reports.report import ViolationGroups, build_report
from accord_tools.reports.sarif import as_sarif
from accord_tools.reports.text import as_text
from reports.sample_reports import NEW, verdict

BROKEN = "jsonrpc.request.answered"
HELD = "jsonrpc.request.id-not-null"


@pytest.fixture
def report():
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


@pytest.mark.parametrize("render", [as_text, as_markdown], ids=["text", "markdown"])
def test_text_says_once_how_to_mend_a_broken_requirement(report, render):
    shown = render(report)
    assert shown.count(catalogue()[BROKEN].mend) == 1
    assert shown.count("why: ") == 2
    assert catalogue()[HELD].mend not in shown


def test_the_page_says_how_to_mend_a_broken_requirement_alone(report):
    shown = as_html(report)
    assert f'<h3>How to mend it</h3><p class="mend">{catalogue()[BROKEN].mend}</p>' in shown
    assert catalogue()[HELD].mend not in shown


def test_json_has_the_sentence_for_each_requirement(report):
    shown = json.loads(as_json(report))
    assert [each["mend"] for each in shown["results"]] == [
        catalogue()[BROKEN].mend,
        catalogue()[HELD].mend,
    ]


def test_junit_has_the_sentence_in_the_failure(report):
    root = ET.fromstring(as_junit(report))
    assert f"\nmend: {catalogue()[BROKEN].mend}" in root.find(".//failure").text
    assert catalogue()[HELD].mend not in as_junit(report)


def test_sarif_has_the_sentence_in_the_help_of_the_rule_and_in_each_result(report):
    [run] = json.loads(as_sarif(report))["runs"]
    mend = catalogue()[BROKEN].mend
    assert f"To mend it: {mend}" in run["tool"]["driver"]["rules"][0]["help"]["text"]
    assert f"mend: {mend}" in run["results"][0]["message"]["text"].splitlines()
