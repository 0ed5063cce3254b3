import re
from xml.etree import ElementTree as ET

import pytest

from accord_tools.reports.badge import as_badge
from accord_tools.reports.html import _indent_json, as_html
from accord_tools.reports.report import build_report
from reports.page_elements import PageElements
from reports.sample_reports import (
    NEW,
    OLD,
    hostile_report,
    server_report,
    spotless_report,
    verdict,
)

SVG = "{http://www.w3.org/2000/svg}"

REPORTS = {
    "hostile": hostile_report,
    "spotless": spotless_report,
    "three": lambda: server_report(3),
    "sixty": lambda: server_report(60),
    "empty": lambda: build_report([], target="x", revision=None, judged_by=NEW, decidable=()),
}


@pytest.mark.parametrize("name", REPORTS)
def test_every_result_is_in_the_page_once(name):
    report = REPORTS[name]()
    results = PageElements(as_html(report)).with_class("result")
    assert sorted(each["id"] for each in results) == sorted(each.id for each in report.results)
    verdicts = [each["data-verdict"] for each in results]
    order = ["fail", "warn", "pass", "not-exercised", "not-applicable"]
    assert verdicts == sorted(verdicts, key=order.index)


def test_few_violations_are_unfolded_and_many_are_not():
    def unfolded(report):
        page = PageElements(as_html(report))
        return [each["data-verdict"] for each in page.with_class("result") if "open" in each]

    assert unfolded(server_report(3)) == ["fail"] * 3
    assert unfolded(server_report(60)) == []


def test_the_summary_has_coverage_before_score_and_how_the_check_was_made():
    page = as_html(server_report(3))
    texts = PageElements(page).text
    places = [
        texts.index(each)
        for each in (
            "MCP conformance report my server.py",
            "Failed: 3 requirements failed, 0 warned",
            "Checked server",
            "Transport stdio",
            f"Revisions {OLD}, {NEW}",
            "Date 2025-07-01 12:00 UTC",
            "Duration 12.3 s",
            "Coverage",
            "Score",
            "How coverage and score are made",
        )
    ]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (server_report(0), "Passed: no failures in the "),
        (
            build_report([], target="x", revision=NEW, judged_by=NEW, decidable=()),
            "Nothing was put to",
        ),
        (spotless_report(), f"not named, judged by {NEW}"),
    ],
    ids=["passed", "empty", "unnamed"],
)
def test_the_summary_has_the_verdict_or_the_revision(report, text):
    assert text in PageElements(as_html(report)).text


def test_a_result_has_clause_revisions_messages_and_the_command_to_repeat_it():
    report = server_report(1)
    [broken] = [each for each in report.results if each.verdict == "fail"]
    text = PageElements(as_html(report)).text
    inside = text[text.rindex("Clause", 0, text.index(broken.repeat)) :]
    assert inside.startswith(f"Clause MUST : {broken.clause}")
    assert f"{NEW} ✕ Failed {OLD} ✕ Failed" in inside
    assert 'client message (record 12) { "jsonrpc": "2.0", "id": 7,' in inside
    assert broken.repeat in inside


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('{"a":[1,{"b":"x,{"}],"c":{}}', "QaQ: [|1,|{|QbQ: Qx,{Q|}|],|QcQ: {}|}"),
        ('{"n":1.50e+3, "s":"\\\\\\"]"}', "QnQ: 1.50e+3,|QsQ: Q\\\\\\Q]Q|}"),
        ("[]", "[]"),
        ('{"cut":["off', "{|QcutQ: [|Qoff"),
        ("}{", "}{"),
        ("two\nlines", "two|lines"),
        ("", ""),
    ],
)
def test_messages_are_indented_and_stay_exact(text, lines):
    shown = [line.strip().replace('"', "Q") for line in _indent_json(text)]
    assert "|".join(shown).endswith(lines)
    if text.startswith(("{", "[")):
        assert "".join("".join(_indent_json(text)).split()) == "".join(text.split())


def graded(name, level="MUST"):
    results = [] if name is None else [verdict("tools.item.title", name, level=level)]
    return build_report(results, target="x", revision=NEW, judged_by=NEW, decidable=())


@pytest.mark.parametrize(
    ("name", "value", "colour"),
    [
        ("pass", "100/100 · 100% covered", "#1a7f37"),
        ("warn", "50/100 · 100% covered", "#8a5a00"),
        ("fail", "0/100 · 100% covered", "#b42318"),
        (None, "not tested", "#5c6370"),
    ],
)
def test_the_badge_has_score_and_coverage_in_the_colour_of_the_verdict(name, value, colour):
    root = ET.fromstring(as_badge(graded(name)))
    assert root.get("aria-label") == f"MCP conformance: {value}"
    assert [each.text for each in root.iter(f"{SVG}text")] == ["MCP conformance", value]
    assert colour in [each.get("fill") for each in root.iter(f"{SVG}rect")]


def test_coverage_is_rounded_down():
    report = server_report(0)
    exercised, applicable = report.coverage.exercised, report.coverage.applicable
    assert f" {100 * exercised // applicable}% covered" in as_badge(report)
    assert exercised < applicable


def test_the_target_is_escaped_in_the_title_of_the_badge():
    root = ET.fromstring(as_badge(hostile_report()))
    assert root.findtext(f"{SVG}title").startswith('x\\x1b[2J\\x9b31m\\u202e\\x00\\n\\ud800"<b>|')
    assert [each.tag for each in root] == [f"{SVG}{e}" for e in ("title", "clipPath", "g", "g")]


def test_only_violations_are_unfolded_groups_and_marks_have_words_for_the_pointer():
    page = as_html(server_report(3))
    groups = re.findall(
        r'<section aria-labelledby="all-([a-z-]+)" data-counted><details class="group"( open)?',
        page,
    )
    assert groups
    assert all(bool(is_open) == (name in ("fail", "warn")) for name, is_open in groups)
    assert '<span title="required: a violation fails">MUST</span>' in page
    assert '<span title="binds the server">server</span>' in page
