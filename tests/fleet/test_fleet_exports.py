import json
import re
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree as ET

import msgspec
import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace

from accord.protocol.catalogue import RULE_SET
from accord_tools.fleet.rendering import render_fleet
from accord_tools.fleet.rendering.badge import server_badge
from accord_tools.fleet.rendering.text import as_text
from accord_tools.fleet.rendering.wording import DIFFERENCE_WORDS, change_text, summarize
from accord_tools.fleet.results import (
    CatalogFinding,
    DifferenceKind,
    FleetView,
    RuleSetStamp,
    RunComparison,
    RunDifference,
    ServerResult,
    StageResult,
    TestCounts,
)
from accord_tools.fleet.rule_set import find_rule_set
from accord_tools.reports.delivery import FORMS, form_of
from fleet.views import (
    IDS,
    breach,
    desk_view,
    failing_server,
    hostile_view,
    large_view,
    run_of,
    server,
    unreachable,
)
from support.tables import cases

SVG = "{http://www.w3.org/2000/svg}"


def small_view(*results, **members):
    return FleetView(run=run_of(results), **members)


@cases("form", FORMS)
@cases("view", [desk_view(), hostile_view(), small_view()], ids=["desk", "hostile", "empty"])
def test_every_form_can_be_made_of_every_view_and_written(form, view):
    assert render_fleet(view, form).encode()[-1:] in (b"\n", b"")


@cases(
    ("name", "form"),
    [
        ("fleet.html", "html"),
        ("fleet.sarif.json", "sarif"),
        ("fleet.json", "json"),
        ("A.SVG", "badge"),
        ("out.txt", "text"),
        ("fleet.prom", None),
        ("fleet.csv", None),
        ("fleet", None),
    ],
)
def test_the_longest_ending_of_a_file_names_its_form(name, form):
    assert form_of(Path(name)) == form


def test_every_kind_of_difference_has_words():
    assert set(DIFFERENCE_WORDS) == set(get_args(DifferenceKind))


@cases(
    ("kinds", "text"),
    [
        ((), "same"),
        (("new-failure", "coverage-lost", "fixed"), "2 regressions, 1 fixed"),
        (("unreachable",), "unreachable"),
        (("surface-changed", "surface-changed"), "changed"),
        (("appeared",), "new server"),
        (("skipped",), "skipped"),
    ],
)
def test_the_change_of_a_server_is_said_in_a_few_words(kinds, text):
    assert change_text([RunDifference(kind=each, server="x", text="") for each in kinds]) == text


@pytest.mark.parametrize("form", ["text", "json", "junit", "sarif", "markdown", "html"])
def test_every_form_names_the_rule_set(form):
    view = small_view(server("x"))
    rules = RuleSetStamp(version="2031-02", digest=view.run.rules.digest)
    assert "2031-02" in render_fleet(replace(view, run=replace(view.run, rules=rules)), form)


def test_the_newest_rule_set_of_fleets_is_that_of_the_checker():
    """If this fails, write the ids of the new set into accord_tools/fleet/rules/RULE_SET.txt."""
    assert find_rule_set("latest").version == RULE_SET


# -- JSON


@pytest.mark.parametrize("view", [desk_view(), hostile_view()], ids=["desk", "hostile"])
def test_json_has_the_agreed_members_and_can_be_read_back(view):
    text = render_fleet(view, "json")
    assert text.isascii()
    shown = json.loads(text)
    assert set(shown) == {"summary", "run", "comparison", "trends", "rules"}
    read = msgspec.json.decode(text, type=FleetView)
    assert [each.state for each in read.run.results] == [each.state for each in view.run.results]
    assert read.comparison.against == view.comparison.against.replace("\ud800", "\\ud800")


def test_json_is_complete_without_documents():
    view = desk_view()
    read = msgspec.json.decode(render_fleet(view, "json"), type=FleetView)
    assert read == replace(view, documents={})


def test_json_sums_the_run_up():
    summary = json.loads(render_fleet(desk_view(), "json"))["summary"]
    assert summary["headline"] == "25 of 30 as expected; 1 skipped; 3 regressions"
    assert (summary["servers"], summary["as_expected"], summary["regressions"]) == (30, 25, 3)
    assert summary["states"] == {
        "failed": 2,
        "unreachable": 1,
        "timed-out": 1,
        "skipped": 1,
        "ok": 25,
    }
    assert (summary["fixes"], summary["drift"], summary["reused"]) == (1, 1, 1)


def test_json_names_the_rules_of_a_known_set_even_if_the_view_does_not():
    shown = json.loads(render_fleet(small_view(server("x")), "json"))
    assert shown["rules"] == IDS
    assert json.loads(render_fleet(hostile_view(), "json"))["rules"] == []


# -- JUnit


def suites_of(view):
    root = ET.fromstring(render_fleet(view, "junit"))
    return {suite.get("name"): suite for suite in root}, root


def test_junit_has_a_suite_per_server_and_a_case_per_requirement_and_test():
    result = failing_server("x")
    suites, root = suites_of(small_view(result, server("y")))
    assert root.get("name") == "accord: desk servers"
    assert list(suites) == ["x", "y"]
    cases = {case.get("name"): case for case in suites["x"].iter("testcase")}
    assert len(cases) == 1 + 300 + 2
    failure = cases[result.breaches[0].requirement].find("failure")
    assert failure.get("message") == result.breaches[0].message
    assert "\nmend: " in failure.text
    assert cases["test: create refuses an empty title"].find("failure") is not None
    assert "again: accord test" in cases["test: create refuses an empty title"][0].text
    assert suites["x"].get("failures") == "6"
    assert suites["y"].get("failures") == "0"


def test_junit_fails_only_where_the_run_does():
    allowed = server("allowed", failures=2, state="ok")
    accepted = server("accepted", breaches=(breach(5, accepted="why"), breach(6, is_pending=True)))
    suites, root = suites_of(small_view(allowed, accepted))
    assert root.get("failures") == "0"
    out = [each.text for each in suites["accepted"].iter("system-out")]
    assert any("(accepted: why)" in each for each in out)
    assert any("newer than the set of rules" in each for each in out)


def test_junit_says_why_a_server_could_not_be_checked():
    skipped = ServerResult(name="s", state="skipped", reasons=("TOKEN is not set",))
    suites, _ = suites_of(small_view(unreachable("u"), skipped))
    failure = suites["u"].find("testcase/failure")
    assert failure.get("message") == "the server ended with exit code 1 before its first answer"
    assert "start: failed, 0.4 s, exit code 1" in failure.text
    assert "stderr: Error: Cannot find module 'zod'" in failure.text
    assert suites["s"].find("testcase/skipped").get("message") == "TOKEN is not set"


def test_junit_keeps_hostile_texts_and_equal_names_apart():
    text = render_fleet(hostile_view(), "junit")
    suites, root = suites_of(hostile_view())
    assert len(suites) == 3
    assert {each.tag for each in root.iter()} <= {
        *("testsuites", "testsuite", "properties", "property"),
        *("testcase", "failure", "skipped", "system-out"),
    }
    assert all(each.isprintable() or each == "\n" for each in text)
    both = small_view(server("a\n"), server("a\\n"))
    assert list(suites_of(both)[0]) == ["a\\n", "a\\n (1)"]


# -- SARIF


def runs_of(view):
    log = json.loads(render_fleet(view, "sarif"))
    assert log["version"] == "2.1.0"
    for run in log["runs"]:
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        assert len(rules) == len(set(rules))
        for result in run["results"]:
            assert result["ruleId"] in rules
            assert result["message"]["text"]
            if "ruleIndex" in result:
                assert rules[result["ruleIndex"]] == result["ruleId"]
    return log["runs"]


def place_of(result):
    place = result["locations"][0]["physicalLocation"]
    return place["artifactLocation"]["uri"], place["region"]["startLine"]


def test_sarif_has_a_run_per_server_that_points_to_its_line():
    view = small_view(failing_server("tickets"), server("y", warnings=1), unreachable("z"))
    first, second, third = runs_of(view)
    assert {place_of(result) for result in first["results"]} == {("accord-fleet.toml", 12)}
    levels = sorted(result["level"] for result in first["results"])
    assert levels == ["error"] * 4 + ["note"] + ["warning"] * 3
    assert [place_of(result) for result in second["results"]] == [("accord-fleet.toml", 1)]
    assert third["invocations"][0]["executionSuccessful"] is False
    assert third["results"][0]["message"]["text"].startswith("z: the server ended with exit code 1")


def test_sarif_takes_the_report_of_a_server_if_there_is_one():
    view = desk_view()
    view = replace(view, run=replace(view.run, results=(failing_server("tickets"),)))
    run = runs_of(view)[0]
    texts = [result["message"]["text"] for result in run["results"]]
    assert any('"jsonrpc":"2.0"' in text for text in texts)
    assert {place_of(result) for result in run["results"]} == {("accord-fleet.toml", 12)}
    assert run["properties"]["target"] == "tickets"


def test_sarif_does_not_count_accepted_breaches():
    view = small_view(server("x", breaches=(breach(5, accepted="why"), breach(6))))
    [run] = runs_of(view)
    assert [result.get("suppressions") for result in run["results"]] == [
        [{"kind": "external", "justification": "why"}],
        None,
    ]


def test_sarif_runs_have_ids_of_their_own_and_large_fleets_are_one_run():
    names = ["a", "a/b", "a-b", "a b", "ä"]
    ids = [run["automationDetails"]["id"] for run in runs_of(small_view(*map(server, names)))]
    assert len(set(ids)) == len(names)
    assert all(re.fullmatch(r"accord/fleet/[\w-]+/", id) for id in ids)
    many = [server(f"s{place}", failures=1) for place in range(21)]
    [run] = runs_of(small_view(*many))
    assert len(run["results"]) == 21
    assert (
        len({each["partialFingerprints"]["accordRequirement/v1"] for each in run["results"]}) == 21
    )


def test_sarif_keeps_hostile_texts_as_texts():
    text = render_fleet(hostile_view(), "sarif")
    assert text.isascii()
    runs = runs_of(hostile_view())
    assert len(runs) == 4
    for run in runs:
        for result in run["results"]:
            assert "[a](http" not in result["message"]["text"]


# -- Markdown


def tokens_of(text):
    parser = MarkdownIt("commonmark").enable("table")
    for token in parser.parse(text):
        yield token
        yield from token.children or ()


def test_markdown_has_headline_table_regressions_and_failures():
    text = render_fleet(desk_view(), "markdown")
    parts = [
        "### accord fleet: desk servers",
        "**25 of 30 as expected; 1 skipped; 3 regressions**",
        "| tickets | ❌ failed | 4 | 2 | 219 of 279 | 93 | 38 of 39 | 2 regressions, changed |",
        "| clock | ✅ as expected, of yesterday 14:02 |",
        "#### Regressions",
        f"- **tickets**: new failure: {IDS[12]}: passed before, fails now",
        "#### Fixed",
        "<details><summary>tickets: failed, 4 failures</summary>",
        "<summary>2 findings</summary>",
    ]
    places = [text.index(each) for each in parts]
    assert places == sorted(places)


def test_markdown_lets_no_text_of_a_server_break_out():
    text = render_fleet(hostile_view(), "markdown")
    assert all(each.isprintable() or each == "\n" for each in text)
    kinds = [token.type for token in tokens_of(text)]
    assert not {"link_open", "image", "html_inline", "fence", "code_block"} & set(kinds)
    blocks = [token.content for token in tokens_of(text) if token.type == "html_block"]
    allowed = r"</details>\n?|<details><summary>(?:[^<]*)</summary>\n?"
    assert all(re.fullmatch(allowed, block) for block in blocks)
    # Three servers, eight columns each: no pipe makes another cell.
    assert kinds.count("td_open") == 3 * 8
    plain = re.sub(r"`+ .*? `+", "", text)
    assert not re.search(r"@\w|https?:|www\.|[^&]#\d", plain)


def test_markdown_is_cut_at_one_megabyte_with_a_note():
    results = [
        server(f"server {place}", failures=40, reasons=("why " * 60,) * 60) for place in range(100)
    ]
    text = render_fleet(small_view(*results), "markdown")
    assert len(text.encode()) <= 1_000_000
    assert "*The report is longer than 1 MB and was cut here.*" in text
    assert text.count("<details>") == text.count("</details>")


# -- text


def test_text_has_the_table_reasons_regressions_and_the_headline():
    text = as_text(desk_view())
    parts = [
        "server  ",
        "clock                             as expected         0         0  224 of 284",
        "tickets: failed\n  4 requirements fail, 0 may\n",
        "    again: accord test cases/tickets.accord.toml",
        "broken: unreachable\n",
        "  stderr: Error: Cannot find module 'zod'",
        "regressions (3):\n",
        f"  tickets: new failure: {IDS[12]}: passed before, fails now",
        "fixed (1):",
        "findings (2):",
        "note: the entry 'old' is disabled",
    ]
    places = [text.index(each) for each in parts]
    assert places == sorted(places)
    assert text.endswith("\n25 of 30 as expected; 1 skipped; 3 regressions\n")


@pytest.mark.parametrize(
    ("width", "marked"),
    [(None, "1.4.0    of yesterday 14:02  same\n"), (70, "\nreused: clock (of yesterday 14:02)\n")],
)
def test_text_marks_reused_results_on_every_terminal(width, marked):
    assert marked in as_text(desk_view(), width=width)


@pytest.mark.parametrize("width", [50, 60, 80, 100, 200])
def test_text_fits_the_terminal(width):
    lines = as_text(desk_view(), width=width).splitlines()
    assert max(len(line) for line in lines if "again: " not in line) <= width
    assert lines[0].startswith("server")
    assert "failures" in lines[0]


def test_a_narrow_terminal_leaves_out_the_least_important_columns():
    heads = [as_text(desk_view(), width=width).split("\n", 1)[0] for width in (60, 100, 200)]
    assert ["coverage" in head for head in heads] == [True, True, True]
    assert ["score" in head for head in heads] == [False, True, True]
    assert ["version" in head for head in heads] == [False, False, True]


def test_text_is_painted_by_state():
    painted = as_text(desk_view(), paint=lambda style, text: f"<{style}|{text}>")
    assert "<bold red|unreachable>" in painted
    assert "<green|as expected>" in painted
    assert painted.endswith("<bold red|25 of 30 as expected; 1 skipped; 3 regressions>\n")
    plain = re.sub(r"<[a-z ]+\|(.*?)>", r"\1", painted)
    assert plain == as_text(desk_view())


def test_quiet_text_has_only_what_is_not_as_expected():
    text = as_text(desk_view(), is_quiet=True)
    assert text.startswith("tickets: failed\n")
    assert "mail" not in text
    assert text.endswith("desk servers: 25 of 30 as expected; 1 skipped; 3 regressions\n")
    assert as_text(small_view(server("x")), is_quiet=True) == "desk servers: 1 of 1 as expected\n"


def test_long_lists_are_cut_unless_text_is_verbose():
    view = small_view(server("x", failures=30))
    assert "and 20 more (--verbose names them)" in as_text(view)
    assert "more (" not in as_text(view, is_verbose=True)


def test_text_obeys_no_server():
    text = as_text(hostile_view(), width=80)
    assert all(each.isprintable() or each == "\n" for each in text)


def test_wide_letters_keep_the_columns_of_the_table():
    lines = as_text(small_view(server("日本"), server("abcd"))).splitlines()
    assert lines[1].index("as expected") + 2 == lines[2].index("as expected")


# -- badges


def badge_of(view, result=None):
    root = ET.fromstring(render_fleet(view, "badge"))
    return [each.text for each in root.iter(f"{SVG}text")], root


def test_the_badge_of_the_fleet_counts_servers_as_expected():
    texts, root = badge_of(desk_view())
    assert texts == ["MCP fleet", "25/30"]
    title = root.findtext(f"{SVG}title")
    assert title == (
        "desk servers: 25 of 30 as expected; 1 skipped; 3 regressions, 2026-11-17 08:02 UTC"
    )
    texts, root = badge_of(hostile_view())
    assert {each.tag for each in root.iter()} == {
        f"{SVG}{tag}" for tag in ("svg", "title", "clipPath", "rect", "g", "text")
    }


@pytest.mark.parametrize(
    ("result", "value", "verdict"),
    [
        (server("x"), "0 failures, 180/240", "pass"),
        (server("x", warnings=1), "0 failures, 180/240", "warn"),
        (server("x", failures=1), "1 failure, 180/240", "fail"),
        (server("x", failures=1, state="ok"), "1 failure, 180/240", "warn"),
        (unreachable("x"), "unreachable", "not-exercised"),
        (ServerResult(name="x", state="timed-out"), "timed out", "not-exercised"),
        (ServerResult(name="x", state="ok"), "not tested", "not-exercised"),
    ],
)
def test_the_badge_of_a_server_has_failures_and_coverage(result, value, verdict):
    badge = server_badge(result, run_of([result]))
    assert (badge.label, badge.value, badge.verdict) == ("MCP", value, verdict)
    assert badge.title.endswith("2026-11-17 08:02 UTC")
    endpoint = json.loads(badge.as_endpoint())
    assert (endpoint["schemaVersion"], endpoint["message"]) == (1, value)
    assert endpoint["color"].startswith("#")


def test_the_date_of_a_reused_result_is_in_the_title_of_its_badge():
    result = server("x", reused_from="2026-11-16T14:02:00Z")
    assert server_badge(result, run_of([result])).title.endswith("of yesterday 14:02")


# -- edges


def test_a_run_without_comparison_has_no_regressions_to_count():
    summary = summarize(small_view(server("x")))
    assert (summary.regressions, summary.headline) == (None, "1 of 1 as expected")


def test_large_fleets_are_rendered_in_every_form():
    view = large_view(30, 5)
    for form in FORMS:
        assert render_fleet(view, form)


def test_accepted_findings_do_not_count():
    finding = CatalogFinding(id="surface.x", severity="warn", text="y", server="x", accepted="why")
    view = small_view(server("x", findings=(finding,)))
    assert summarize(view).findings == 0
    assert "surface.x" not in as_text(view)
    assert "surface.x" not in render_fleet(view, "markdown")


def test_tests_that_could_not_run_are_skipped_cases():
    result = server(
        "x",
        tests=TestCounts(skipped=2, names={"a": "skip"}),
        stages=(StageResult(name="test", state="skipped", text="hypothesis is not installed"),),
    )
    view = small_view(result, comparison=RunComparison(against="run 1"))
    [case] = [case for case in suites_of(view)[0]["x"] if case.get("name") == "test: a"]
    assert case.find("skipped") is not None
