from xml.etree import ElementTree as ET

import pytest

from accord.check.rendering.machine_readable import as_junit
from check.reports import hostile_report, server_report


@pytest.fixture
def report():
    return hostile_report()


def test_junit_has_a_suite_per_area_and_a_case_per_requirement(report):
    root = ET.fromstring(as_junit(report))
    assert root.tag == "testsuites"
    assert root.attrib | {"name": ""} == {
        "name": "",
        "tests": "6",
        "failures": "1",
        "errors": "0",
        "skipped": "2",
    }
    assert [suite.get("name") for suite in root] == ["jsonrpc", "tools", "roots"]
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert list(cases["jsonrpc.request.id-not-null"]) == []
    failure = cases["tools.call.content-array"].find("failure")
    assert failure.get("type") == "MUST"
    assert "record 3: server sends x\\x1b[2J" in failure.text
    assert (
        "warning: sends no text"
        in cases["tools.structured-content.also-text"].find("system-out").text
    )
    assert (
        cases["tools.item.title"].find("skipped").get("message")
        == "not-exercised: no message put this to the test"
    )
    assert cases["roots.item.name"].find("skipped").get("message") == "not-applicable"


def test_junit_has_the_duration_and_the_command_to_repeat_a_check():
    root = ET.fromstring(as_junit(server_report(1)))
    assert root.get("time") == "12.345"
    told = [case.findtext("failure") or case.findtext("system-out") for case in root.iter()]
    assert sum("\nagain: accord check server 'my server.py'" in (each or "") for each in told) == 1
