import json
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

from accord import __version__
from accord_tools.reports.machine_readable import as_json, as_junit
from accord_tools.reports.report import SCORE_RULE, Setting, build_report
from accord_tools.reports.sarif import as_sarif
from reports.sample_reports import NASTY, NEW, OLD, hostile_report, server_report, spotless_report


def test_json_has_the_agreed_members():
    shown = json.loads(as_json(hostile_report()))
    assert shown["target"] == f"{NASTY}.jsonl"
    assert (shown["revision"], shown["score"]) == (NEW, 50)
    assert shown["coverage"] == {"applicable": 5, "exercised": 4}
    agreed = {"id", "level", "party", "revisions", "verdict", "message", "evidence"}
    for each in shown["results"]:
        assert set(each) == agreed | {"by_revision", "clause", "mend", "also", "anchor", "repeat"}
    assert shown["results"][2]["evidence"] == [
        {"why": f"sends {NASTY}", "party": "server", "number": 3, "message": NASTY}
    ]
    assert shown["results"][2]["clause"].startswith("The result of tools/call has")
    assert shown["results"][2]["repeat"] is None


def test_json_has_how_a_server_was_checked():
    shown = json.loads(as_json(server_report()))
    assert (shown["party"], shown["transport"]) == ("server", "stdio")
    assert shown["revisions"] == [OLD, NEW]
    assert (shown["at"], shown["seconds"]) == ("2025-07-01 12:00 UTC", 12.345)
    assert (shown["accord"], shown["score_rule"]) == (__version__, SCORE_RULE)
    first = shown["results"][0]
    assert set(first["by_revision"]) == set(first["revisions"]) == {OLD, NEW}
    assert first["repeat"] == (
        f"accord check server 'my server.py' --only {first['id']} --revision {NEW}"
    )


def test_json_has_null_for_unknown_values():
    report = build_report([], target="x", revision=None, judged_by=NEW, decidable=())
    shown = json.loads(as_json(report))
    assert (shown["revision"], shown["score"]) == (None, None)


def test_junit_has_a_suite_per_area_and_a_case_per_requirement():
    root = ET.fromstring(as_junit(hostile_report()))
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


def run_of(report):
    log = json.loads(as_sarif(report))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    [run] = log["runs"]
    return run


def test_each_violation_is_a_result_with_the_level_of_its_verdict():
    report = server_report(60)
    run = run_of(report)
    assert (run["tool"]["driver"]["name"], run["tool"]["driver"]["version"]) == (
        "accord",
        __version__,
    )
    levels = {each["ruleId"]: each["level"] for each in run["results"]}
    assert levels == {
        each.id: {"fail": "error", "warn": "warning"}[each.verdict]
        for each in report.results
        if each.verdict in ("fail", "warn")
    }
    assert {"error", "warning"} == set(levels.values())


def test_each_requirement_that_was_exercised_is_a_rule_with_help():
    report = server_report(3)
    run = run_of(report)
    rules = run["tool"]["driver"]["rules"]
    exercised = [each for each in report.results if each.verdict in ("pass", "fail", "warn")]
    assert [rule["id"] for rule in rules] == [each.id for each in exercised]
    for rule, result in zip(rules, exercised, strict=True):
        assert result.clause in rule["help"]["text"]
        assert rule["shortDescription"]["text"] == result.clause
        assert rule["defaultConfiguration"]["level"] in ("error", "warning")
        assert set(rule["properties"]["tags"]) == {"mcp", result.id.split(".")[0], result.level}
    pages = [rule["helpUri"] for rule in rules if "helpUri" in rule]
    assert pages
    assert all(each.startswith("https://modelcontextprotocol.io/") for each in pages)
    for each in run["results"]:
        assert rules[each["ruleIndex"]]["id"] == each["ruleId"]


def test_results_have_the_messages_and_the_command_to_repeat_the_check():
    first = run_of(server_report(1))["results"][0]
    told = first["message"]["text"].splitlines()
    assert told[0] == "answers with breach number 0"
    assert told[1].startswith('client: {"jsonrpc":"2.0","id":7')
    assert told[-1].startswith("again: accord check server 'my server.py' --only ")


@pytest.mark.parametrize(
    ("artifact", "uri"), [("my server.py", "my%20server.py"), (None, "mcp-server")]
)
def test_results_point_to_the_top_of_one_file(artifact, uri):
    report = server_report(1, setting=Setting(artifact=artifact))
    [location] = run_of(report)["results"][0]["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 1},
    }


def test_a_violation_keeps_its_fingerprint_if_the_message_changes():
    one, other = (
        run_of(server_report(count))["results"][0]["partialFingerprints"] for count in (1, 2)
    )
    assert one == other
    prints = [
        json.dumps(each["partialFingerprints"]) for each in run_of(server_report(60))["results"]
    ]
    assert len(set(prints)) == len(prints)


def test_a_report_without_violations_has_no_results():
    run = run_of(spotless_report())
    assert run["results"] == []
    assert run["invocations"] == [{"executionSuccessful": True}]


def test_hostile_text_is_escaped():
    text = as_sarif(hostile_report())
    assert "\\u001b" not in text
    assert "\\ud800" not in text.replace("\\\\ud800", "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see [here](https://evil.example)", r"see \[here\](https://evil.example)"),
        (r"\[a\](b)", r"\\\[a\\\](b)"),
        ('{"a": [1, [2]], "b": "(c)"}', '{"a": [1, [2]], "b": "(c)"}'),
    ],
)
def test_a_text_of_a_server_is_not_shown_as_a_link(text, shown):
    report = server_report(1)
    first = report.results[0]
    evidence = [replace(each, message=text) for each in first.evidence]
    results = [replace(first, message=text, evidence=evidence), *report.results[1:]]
    told = run_of(replace(report, results=results))["results"][0]["message"]["text"].splitlines()
    assert told[0] == shown
    assert told[1].endswith(f": {shown}")
