"""The value in question is marked in every format, and overlapping requirements share an entry."""

import json
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace

from accord.protocol.verdict import Evidence
from accord.protocol.violation import Violation
from accord_tools.reports.html import as_html
from accord_tools.reports.machine_readable import as_json, as_junit
from accord_tools.reports.markdown import as_markdown
from accord_tools.reports.report import Setting, ViolationGroups, build_report
from accord_tools.reports.sarif import as_sarif
from accord_tools.reports.text import as_text
from reports.sample_reports import NEW, verdict

MESSAGE = '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":{"a":[]}}]}}'
VALUE = '{"a":[]}'
MARK = (MESSAGE.index(VALUE), MESSAGE.index(VALUE) + len(VALUE))
POINTER = "/result/tools/0/name"


def violation(id, message=MESSAGE, mark=MARK, pointer=POINTER, why="sends it"):
    return Violation(
        id,
        "server",
        why,
        severity="fail",
        number=5,
        evidence=message,
        place=pointer,
        mark=mark,
    )


def report_of(*violations, **setting):
    groups = ViolationGroups()
    for each in violations:
        groups.add(each)
    results = [
        verdict(
            each.requirement,
            "fail",
            each.why,
            [Evidence(each.why, "server", each.number, each.evidence, each.place, each.mark)],
        )
        for each in violations
    ]
    return build_report(
        results,
        target="x.jsonl",
        revision=NEW,
        judged_by=NEW,
        decidable=(),
        violations=groups.failures_first(),
        setting=Setting(**setting),
    )


@pytest.fixture
def report():
    return report_of(violation("tools.item.name"))


def test_text_marks_the_value_with_signs(report):
    shown = as_text(report)
    assert f"     at:      {POINTER}\n" in shown
    assert f'[{{"name": >>> {VALUE} <<< }}]}}}}\n' in shown
    assert f">>> {VALUE} <<<" in as_markdown(report)


def test_text_on_a_terminal_styles_the_value_also_over_several_lines():
    long = json.dumps({"result": {"text": "word " * 30}})
    start = long.index('"word')
    one = violation("tools.item.name", long, (start, len(long) - 2), "/result/text")
    shown = as_text(report_of(one), width=60, paint=lambda style, text: f"<{style}:{text}>")
    [first, *_] = [line for line in shown.splitlines() if ">>>" in line]
    assert first.split(": ", 1)[1].startswith('{"result": {"text":  <bold yellow:>>> "word word')
    assert "\n              <bold yellow:word word" in shown
    assert ' " <<<>' in shown
    assert shown.count("<bold yellow:") > 2


def test_signs_differ_from_what_the_message_has():
    text = '{"a":">>> <<<","b":1}'
    one = violation("tools.item.name", text, (19, 20), "/b")
    assert '"b": >>>> 1 <<<< }' in as_text(report_of(one))


def test_the_page_highlights_the_value_line_by_line(report):
    shown = as_html(report)
    assert f"at <code>{POINTER}</code>" in shown
    lines = [line.strip() for line in shown.splitlines() if "mark>" in line]
    assert lines == [
        "&#34;name&#34;: <mark>{</mark>",
        "<mark>&#34;a&#34;: []</mark>",
        "<mark>}</mark>",
    ]


def test_signs_of_the_page_in_a_message_have_no_effect():
    text = '{"a":"\x02\x03","b":1}'
    one = violation("tools.item.name", text, (14, 15), "/b")
    assert as_html(report_of(one)).count("<mark>") == 1
    assert as_html(report_of(replace(one, mark=None))).count("<mark>") == 0


def test_json_has_the_pointer_and_where_the_value_is(report):
    [shown] = json.loads(as_json(report))["results"][0]["evidence"]
    assert shown["pointer"] == POINTER
    assert shown["message"][slice(*shown["mark"])] == VALUE


def test_junit_has_the_signs_and_the_pointer(report):
    [failure] = ET.fromstring(as_junit(report)).iter("failure")
    assert f">>> {VALUE} <<<" in failure.text
    assert f"(at {POINTER})" in failure.text


def test_sarif_has_the_pointer_as_a_logical_location(report):
    [location] = sarif_results(report)[0]["locations"]
    assert location["logicalLocations"][1] == {"fullyQualifiedName": POINTER, "kind": "member"}
    assert location["physicalLocation"]["region"] == {"startLine": 1}


def test_sarif_points_to_the_line_of_a_recording():
    report = report_of(violation("tools.item.name"), artifact="x.jsonl")
    [location] = sarif_results(report)[0]["locations"]
    assert location["physicalLocation"]["region"] == {"startLine": 5}


def sarif_results(report):
    [run] = json.loads(as_sarif(report))["runs"]
    return run["results"]


# -- several requirements, one value

WRONG = '{"result":null}'
EXACT, GENERAL = "tools.list.array", "jsonrpc.response.result-member"


@pytest.fixture
def overlapping():
    found = [violation(id, WRONG, (10, 14), "/result", f"by {id}") for id in (GENERAL, EXACT)]
    return report_of(*found)


def test_the_most_specific_requirement_names_the_others(overlapping):
    by_id = {each.id: each for each in overlapping.results}
    assert by_id[EXACT].also == (GENERAL,)
    assert by_id[GENERAL].also == ()
    assert overlapping.count("fail") == 2


@pytest.mark.parametrize("render", [as_text, as_markdown], ids=["text", "markdown"])
def test_text_lists_one_value_once(overlapping, render):
    shown = render(overlapping).replace("\\", "")
    assert f"also: {'   ' if render is as_text else ''}{GENERAL} (server by {GENERAL})" in shown
    assert shown.count("clause: ") == 1
    assert "2 requirements failed" in shown


def test_other_formats_name_them_too(overlapping):
    assert json.loads(as_json(overlapping))["results"][1]["also"] == [GENERAL]
    assert f"\nalso: {GENERAL}" in as_junit(overlapping)
    assert any(f"also: {GENERAL}" in each["message"]["text"] for each in sarif_results(overlapping))
    assert f'<a href="#{GENERAL}">{GENERAL}</a>' in as_html(overlapping)


def test_a_requirement_that_gave_way_is_named_without_a_reason():
    one = replace(violation(EXACT), also=("ping.response.empty",))
    assert "     also:    ping.response.empty\n" in as_text(report_of(one))


@pytest.mark.parametrize(
    "changes",
    [{"place": "/other"}, {"evidence": '{"result":nil_}'}, {"place": None}, {"party": "client"}],
    ids=str,
)
def test_another_value_or_message_is_listed_by_itself(changes):
    first = violation(EXACT, WRONG, (10, 14), "/result")
    second = replace(violation(GENERAL, WRONG, (10, 14), "/result"), **changes)
    report = report_of(first, second)
    assert all(each.also == () for each in report.results)
    assert as_text(report).count("clause: ") == 2


def test_an_object_that_lacks_several_members_has_several_violations():
    first = violation("lifecycle.initialize.client-info")
    report = report_of(first, violation("lifecycle.initialize.client-capabilities"))
    assert as_text(report).count("clause: ") == 2


# -- what was not put to the test


@pytest.fixture
def untried():
    reasons = {f"reason {number}": 7 - number for number in range(6)}
    results = [
        verdict(f"tools.{why.replace(' ', '-')}.{place}", "not-exercised", why)
        for why, count in reasons.items()
        for place in range(count)
    ]
    return build_report(results, target="x", revision=NEW, judged_by=NEW, decidable=())


def test_requirements_that_were_not_tried_are_counted_by_reason(untried):
    [line] = [each for each in as_text(untried).splitlines() if each.startswith("not exercised")]
    assert line == (
        "not exercised (--verbose names them): 7 reason 0, 6 reason 1, 5 reason 2, 4 reason 3,"
        " 5 for other reasons"
    )
    assert "tools.reason-0.0" not in as_text(untried)


def test_verbose_text_names_each_with_its_reason(untried):
    shown = as_text(untried, verbose=True)
    assert "not exercised:\n  reason 0 (7):\n    tools.reason-0.0\n" in shown
    assert all(each.id in shown for each in untried.results)
