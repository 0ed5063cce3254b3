import base64
import hashlib
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from accord_tools.reports.badge import as_badge
from accord_tools.reports.html import _indent_json, as_html
from accord_tools.reports.report import build_report
from reports.sample_reports import (
    NASTY,
    NEW,
    OLD,
    hostile_report,
    server_report,
    spotless_report,
    verdict,
)

SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "input", "br", "option", "rect", "circle"}


class Elements(HTMLParser):
    """The elements of a page; fails where they are not closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open = []
        self.all = []
        self.texts = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.all.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.all.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def with_class(self, name):
        return [attrs for _, attrs in self.all if name in (attrs.get("class") or "").split()]


REPORTS = {
    "hostile": hostile_report,
    "spotless": spotless_report,
    "three": lambda: server_report(3),
    "sixty": lambda: server_report(60),
    "empty": lambda: build_report([], target="x", revision=None, judged_by=NEW, decidable=()),
}


@pytest.mark.parametrize("name", REPORTS)
def test_every_result_is_in_the_page_once_and_all_elements_are_closed(name):
    report = REPORTS[name]()
    results = Elements(as_html(report)).with_class("result")
    assert sorted(each["id"] for each in results) == sorted(each.id for each in report.results)
    verdicts = [each["data-verdict"] for each in results]
    order = ["fail", "warn", "pass", "not-exercised", "not-applicable"]
    assert verdicts == sorted(verdicts, key=order.index)


def test_few_violations_are_unfolded_and_many_are_not():
    def unfolded(report):
        page = Elements(as_html(report))
        return [each["data-verdict"] for each in page.with_class("result") if "open" in each]

    assert unfolded(server_report(3)) == ["fail"] * 3
    assert unfolded(server_report(60)) == []


def test_the_page_may_run_its_own_script_and_nothing_else():
    page = as_html(hostile_report())
    [policy] = [
        attrs["content"]
        for tag, attrs in Elements(page).all
        if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        [text] = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_the_page_loads_nothing():
    for tag, attrs in Elements(as_html(server_report(60))).all:
        assert tag not in ("link", "img", "iframe", "object", "embed", "audio", "video", "base")
        assert not {"src", "srcset", "style", "onclick", "onerror"} & set(attrs)
    assert "url(" not in as_html(server_report(3))


def test_hostile_text_is_escaped():
    page = Elements(as_html(hostile_report()))
    assert "b" not in [tag for tag, attrs in page.all if "class" in attrs]
    assert '<b>|`@all"' not in as_html(hostile_report())
    assert any("<b>|`@all" in text for text in page.texts)
    assert NASTY not in as_html(hostile_report())


def test_the_summary_has_coverage_before_score_and_how_the_check_was_made():
    page = as_html(server_report(3))
    texts = " ".join("".join(Elements(page).texts).split())
    places = [
        texts.index(each)
        for each in (
            "MCP conformance report my server.py",
            "Failed: 3 requirements failed, 0 warned",
            "Checkedserver",
            "Transportstdio",
            f"Revisions{OLD}, {NEW}",
            "Date2025-07-01 12:00 UTC",
            "Duration12.3 s",
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
    assert text in "".join(Elements(as_html(report)).texts)


def test_a_result_has_clause_revisions_messages_and_the_command_to_repeat_it():
    report = server_report(1)
    [broken] = [each for each in report.results if each.verdict == "fail"]
    text = "".join(Elements(as_html(report)).texts)
    inside = " ".join(text[text.rindex("Clause", 0, text.index(broken.repeat)) :].split())
    assert inside.startswith(f"ClauseMUST: {broken.clause}")
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


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_has_enough_contrast(theme):
    block = re.findall(r":root \{(.*?)\}", as_html(spotless_report()), re.DOTALL)[theme]
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block))
    pairs = [("ink", "card"), ("soft", "card"), ("soft", "page"), ("soft", "code")]
    pairs += [("link", "card"), ("ink", "code")]
    pairs += [(name, f"{name}-back") for name in ("fail", "warn", "pass", "untried", "beside")]
    for text, back in pairs:
        darker, lighter = sorted(luminance(colours[each]) for each in (text, back))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (text, back)


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
        r'<section aria-labelledby="all-([a-z-]+)"><details class="group"\n?( open)?', page
    )
    assert groups
    assert all(bool(is_open) == (name in ("fail", "warn")) for name, is_open in groups)
    assert '<span title="required: a violation fails">MUST</span>' in page
    assert '<span title="binds the server">server</span>' in page
