"""Every form of a report names the rule set, the one that the report was made by."""

import json
from hashlib import sha256
from xml.etree import ElementTree as ET

import msgspec
import pytest
from msgspec.structs import replace

from accord.protocol.catalogue import RULE_SET
from accord_tools.check.scenarios.client import CLIENT_SCENARIOS
from accord_tools.check.scenarios.server import SCENARIOS
from accord_tools.reports.html import as_html
from accord_tools.reports.machine_readable import as_json, as_junit
from accord_tools.reports.markdown import as_markdown
from accord_tools.reports.report import Report
from accord_tools.reports.sarif import as_sarif
from accord_tools.reports.text import as_text
from accord_tools.reports.wording import summary
from reports.sample_reports import hostile_report, server_report, spotless_report


@pytest.fixture
def report():
    """Return a report that another accord made, by rules of its own."""
    return replace(server_report(), rules="2031-02")


@pytest.mark.parametrize("make", [hostile_report, server_report, spotless_report])
def test_a_report_has_the_rule_set_it_was_made_by(make):
    assert make().rules == RULE_SET


def test_text_names_the_rule_set(report):
    assert "\nrules: 2031-02\n" in as_text(report)
    assert summary(report).endswith(" by rules 2031-02")
    assert as_text(report, quiet=True).endswith(" by rules 2031-02\n")


def test_markdown_names_the_rule_set(report):
    assert "\n- rules: 2031-02\n" in as_markdown(report)


def test_html_names_the_rule_set(report):
    assert "<dt>Rules</dt><dd>2031-02</dd>" in as_html(report)


def test_json_names_the_rule_set(report):
    assert json.loads(as_json(report))["rules"] == "2031-02"


def test_junit_names_the_rule_set_in_each_suite(report):
    suites = list(ET.fromstring(as_junit(report)))
    assert suites
    for suite in suites:
        (found,) = suite.findall("./properties/property")
        assert found.attrib == {"name": "rules", "value": "2031-02"}


def test_sarif_names_the_rule_set(report):
    (run,) = json.loads(as_sarif(report))["runs"]
    assert run["properties"]["ruleSet"] == "2031-02"


def test_a_report_that_was_stored_without_a_rule_set_was_made_by_the_first_one(report):
    stored = json.loads(msgspec.json.encode(report))
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
