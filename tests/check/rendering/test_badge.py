from xml.etree import ElementTree as ET

import pytest

from accord.check.rendering.html import as_badge
from accord.check.report import build_report
from check.reports import NEW, hostile_report, server_report, verdict

SVG = "{http://www.w3.org/2000/svg}"


def of(name, level="MUST"):
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
    root = ET.fromstring(as_badge(of(name)))
    assert root.get("aria-label") == f"MCP conformance: {value}"
    assert [each.text for each in root.iter(f"{SVG}text")] == ["MCP conformance", value]
    assert colour in [each.get("fill") for each in root.iter(f"{SVG}rect")]


def test_coverage_is_rounded_down():
    report = server_report(0)
    exercised, applicable = report.coverage.exercised, report.coverage.applicable
    assert f" {100 * exercised // applicable}% covered" in as_badge(report)
    assert exercised < applicable


def test_the_target_is_escaped_in_the_title():
    root = ET.fromstring(as_badge(hostile_report()))
    assert root.findtext(f"{SVG}title").startswith('x\\x1b[2J\\x9b31m\\u202e\\x00\\n\\ud800"<b>|')
    assert [each.tag for each in root] == [f"{SVG}{e}" for e in ("title", "clipPath", "g", "g")]
