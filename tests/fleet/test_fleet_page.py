import re

import pytest
from msgspec.structs import replace

from accord.protocol.catalogue import catalogue
from accord_tools.fleet.definition import ServerLimits
from accord_tools.fleet.rendering.html import as_html
from accord_tools.fleet.results import (
    CatalogChange,
    FleetView,
    RequirementBreach,
    RunComparison,
    ServerResult,
)
from fleet.views import (
    EVIL,
    IDS,
    breach,
    desk_view,
    failing_server,
    hostile_view,
    large_view,
    run_of,
    server,
    trend,
    unreachable,
)
from reports.page_elements import PageElements, section_text
from support.tables import cases

SIZE = 2_000_000


@pytest.fixture(scope="module")
def desk():
    return as_html(desk_view())


@pytest.fixture(scope="module")
def hostile():
    return as_html(hostile_view())


def test_the_summary_line_and_the_facts_come_first(desk):
    text = PageElements(desk).text
    places = [
        text.index(each)
        for each in (
            "MCP fleet report desk servers",
            "4 of 30 need attention; 25 of 30 as expected; 1 skipped; 3 regressions",
            "Fleet file accord-fleet.toml",
            "Date 2026-11-17 08:02 UTC",
            "Duration 2 min 23 s, 4 workers",
            "accord 0.9.0",
            "Rule set 2026-11 (",
            "Requirements tried 5,653 of 7,273",
            "Commit 4f1c2a9d77e0 (main, with changes that are not committed)",
            "Compared with run 56 of 2026-11-16 08:02",
            "4/30 Need attention servers",
            "the entry 'old' is disabled",
        )
    ]
    assert places == sorted(places)


def rows_of(page):
    return re.findall(r"<tbody data-row.*?</tbody>", page, re.DOTALL)


def test_the_table_has_every_server_the_worst_first(desk):
    texts = [PageElements(row).text for row in rows_of(desk)]
    assert len(texts) == 30
    assert [text.split()[0] for text in texts[:5]] == [
        *("tickets", "people-and-places-with-a-long-name", "broken", "slow", "secret")
    ]
    assert texts[0] == (
        "tickets ✕ Failed ✕ 4 ! 2 219 of 279 93 38 of 39 39 2 regressions, changed risky text"
        " 4 requirements fail, 0 may"
        " team-a · internal, billing · start 950 ms · 28,083 tokens · version 1.9.0"
    )
    assert texts[2].startswith("broken ⊘ Unreachable – –")
    assert texts[2].endswith(" the server ended with exit code 1 before its first answer team-b")
    assert "no time for 413" in texts[3]


def test_a_count_within_its_limit_is_grey_and_names_the_limit(desk):
    [row] = [row for row in rows_of(desk) if "chat<" in row]
    assert PageElements(row).text.startswith(
        "chat ~ Within the limits 2 of 3 allowed ! 1 236 of 296 96.5 60 of 64 4 may fail, 9 skipped"
    )
    assert not {"pass", "fail"} & set(re.findall(r'class="mark ([\w-]+)"', row))
    assert "is-fail" not in row
    over = as_html(
        FleetView(run=run_of([server("x", failures=4, expect=ServerLimits(failures=3))]))
    )
    assert 'class="is-fail" data-name="failures"' in rows_of(over)[0]
    assert "✕ 4 of 3 allowed" in PageElements(rows_of(over)[0]).text


def test_each_state_that_is_not_expected_has_a_colour_of_its_own(desk):
    bar = re.findall(r'<rect class="fill-([\w-]+)" x=', desk)
    assert bar == ["fail", "unreachable", "warn", "not-applicable", "pass"]


def test_the_owner_with_the_most_tasks_is_first(desk):
    text = section_text(desk, "owners")
    order = [
        "✕ 2 to do team-b",
        "✕ 1 to do platform",
        "✕ 1 to do team-a",
        "✓ Nothing to do no owner",
    ]
    places = [text.index(each) for each in order]
    assert places == sorted(places)
    own = text[places[2] : places[3]]
    assert "✕ Failed tickets 4 requirements fail, 0 may 2 regressions" in own
    assert catalogue()[failing_server("tickets").breaches[0].requirement].mend in own
    nameless = as_html(FleetView(run=run_of([server("x", owner="")])))
    assert 'id="owners"' not in nameless


def test_a_changed_text_that_may_be_dangerous_is_red(desk):
    said = 'safety.instruction the description says "do not tell the user"'
    assert f"✕ Changed tickets tool list: description changed {said}" in section_text(
        desk, "changes"
    )
    assert f"✕ Text tool list description changed {said}" in section_text(desk, "drift")
    harmless = failing_server("x")
    page = as_html(FleetView(run=run_of([replace(harmless, findings=())])))
    assert "! Text tool list description changed" in section_text(page, "drift")


def test_a_long_reason_is_unfolded_by_a_click_and_not_cut():
    reason = "the reason " + "is long " * 100
    page = as_html(FleetView(run=run_of([unreachable("x", reasons=(reason,))])))
    [row] = rows_of(page)
    assert reason.strip() in PageElements(row).text
    assert '<details class="text">' in row
    assert "characters)" not in page


def test_coverage_stands_before_the_score(desk):
    heads = re.findall(r'<th scope="col"[^>]*>([A-Z][a-z]+)</th>', desk)
    assert heads[:6] == ["Server", "State", "Failures", "Warnings", "Coverage", "Score"]


def test_reused_results_are_marked_with_their_date(desk):
    [row] = [row for row in rows_of(desk) if "clock<" in row]
    assert "of yesterday 14:02" in PageElements(row).text
    assert "reused, of yesterday 14:02" in PageElements(desk).text


@cases(
    ("made", "shown"),
    [
        ("2026-11-17T02:00:00Z", "of today 02:00"),
        ("2026-11-16T23:30:00+01:00", "of yesterday 22:30"),
        ("2026-11-10T09:00:00Z", "of 2026-11-10 09:00"),
        ("some time", "of some time"),
    ],
)
def test_the_age_of_a_reused_result_is_relative_to_the_run(made, shown):
    page = as_html(FleetView(run=run_of([server("x", reused_from=made)])))
    assert f'<span class="under">{shown}</span>' in page


def test_columns_without_a_comparison_or_trends_are_left_out():
    page = as_html(FleetView(run=run_of([server("x")])))
    assert ">Change</th>" not in page
    assert ">Trend</th>" not in page
    assert 'id="changes"' not in page


def test_areas_have_counts_with_a_sign(desk):
    text = section_text(desk, "areas")
    assert "Requirements of each area: ✕ failed" in text
    [row] = re.findall(r'<th scope="row"><a href="#server-2">tickets</a></th>(.*?)</tr>', desk)
    assert '<td class="f">✕4</td>' in row
    assert '<td class="w">!2</td>' in row
    assert '<td class="p">✓14</td>' in row
    # An accepted breach is not a failure of its area.
    [row] = re.findall(r'wiki</a></th>((?:<td class="[a-z]*">.*?)+)</tr>', desk)
    assert 'class="f"' not in row


def test_a_pending_or_accepted_breach_is_shown_and_does_not_count():
    breaches = (breach(3, accepted="vendor works on it"), breach(4, "warn", is_pending=True))
    verdicts = {each.requirement: each.verdict for each in breaches}
    result = server("x", breaches=breaches, verdicts=verdicts, accepted=1)
    page = as_html(FleetView(run=run_of([result])))
    assert '<td class="a">~2</td>' in page
    assert "accepted: vendor works on it" in section_text(page, "details")
    assert "newer than the set of rules, does not count" in section_text(page, "details")
    assert 'id="breaks"' not in page


def test_the_requirement_that_most_servers_break_is_first_with_its_clause(desk):
    results = [server(name, breaches=(breach(20),)) for name in ("a", "b")]
    results.append(server("c", breaches=(breach(30), breach(20, "warn"))))
    text = section_text(as_html(FleetView(run=run_of(results))), "breaks")
    assert text.startswith(f"What breaks most 2 ✕ 3 servers {IDS[20]}")
    assert text.index("3 servers") < text.index("1 server ")
    assert "a , b , c" in text
    assert "The authorization server guards its fetches against SSRF." in section_text(
        desk, "breaks"
    )


def test_regressions_stand_before_fixes_and_flaky_changes_are_neither(desk):
    text = section_text(desk, "changes")
    parts = [
        "Compared with run 56",
        "Regressions 3",
        f"New failure tickets {IDS[12]} passed before, fails now",
        "Unreachable broken",
        "Fixed 1",
        "Other changes 3",
        "Changed tickets",
        "New warning mail",
        "flaky",
        "New rules, which are never regressions (1)",
    ]
    places = [text.index(each) for each in parts]
    assert places == sorted(places)


def test_equal_runs_are_said_to_be_equal():
    page = as_html(FleetView(run=run_of([server("x")]), comparison=RunComparison(against="run 1")))
    assert "Nothing differs from run 1." in section_text(page, "changes")
    assert "1 of 1 as expected; no regressions" in PageElements(page).text


def test_drift_has_a_diff_of_what_changed(desk):
    text = section_text(desk, "drift")
    assert "✕ Risky text tickets 2 changes 1 breaking, 1 text since the last run" in text
    assert "<ins>+   &#34;title&#34;</ins>" in desk
    assert "<del>- &#34;Lists the tickets that are open.&#34;</del>" in desk


def test_a_huge_change_is_shown_in_part():
    before = '"' + "x" * 100_000 + '"'
    after = "[" + ",".join(["1"] * 1000) + "]"
    change = CatalogChange(
        kind="text", subject="tool x", what="changed", before=before, after=after
    )
    page = as_html(FleetView(run=run_of([server("x", changes=(change,) * 500)])))
    assert len(page) < 500_000
    assert "and 300 more; the JSON form has them all" in section_text(page, "drift")


def test_findings_about_the_whole_fleet_are_first(desk):
    text = section_text(desk, "findings")
    order = ["safety.collision", "surface.description-short", "safety.instruction"]
    assert sorted(order, key=text.index) == order
    assert "! Warning safety.collision 1 finding the fleet as a whole" in text
    assert "i Hint safety.instruction" in text


def test_trends_are_steps_with_lines_where_the_rules_changed():
    points = trend(lambda run: 2 if run < 3 else 0, runs=6, broken_at=(4,), rules_at=(3,))
    page = as_html(FleetView(run=run_of([server("x")]), trends={"x": points}))
    [drawing] = re.findall(r'<g id="t0">(.*?)</g>', page)
    paths = dict(re.findall(r'<path class="(\w+)" d="([^"]+)"/>', drawing))
    assert paths["steps"] == "M0 20h4V20h4V20h4V36h4M20 36h4"
    assert paths["rules"] == "M12 0V40"
    assert paths["gap"] == "M16 0h4v40h-4z"
    [label] = [each for each in PageElements(page).attributes("aria-label") if "runs" in each]
    assert label == (
        "6 runs since 2026-09-01 08:00 UTC; failures: first 2, last 0; between 0 and 2;"
        " coverage: first 180 of 240, last 181 of 240; not checked in 1 run; rules changed 1 time"
    )
    assert page.count('href="#t0"') == 1


def test_only_the_last_50_runs_are_drawn():
    page = as_html(
        FleetView(run=run_of([server("x")]), trends={"x": trend(lambda run: 0, runs=300)})
    )
    assert 'viewBox="0 0 200 40"' in page


def test_details_have_stages_breaches_tests_output_and_what_was_left(desk):
    text = section_text(desk, "details")
    own = text[text.index("tickets") : text.index("people-and-places")]
    for part in (
        "Target python tickets.py",
        "Calls of add median 20 ms, 95 % within 50 ms",
        "Still running after it was stopped sleep (pid 71)",
        "✓ start passed",
        "Requirements broken (6)",
        "answers with breach number 46 2025-06-18, 2025-11-25",
        "✕ case create refuses an empty title expected an error, got a result",
        "accord test cases/tickets.accord.toml --only 'create refuses'",
        f"Verdicts that change without cause {IDS[50]}",
        "First and last lines of stderr starting ready",
    ):
        assert part in own
    assert "✕ start failed 400 ms: exit code 1" in text
    assert "Why it was skipped SEARCH_TOKEN is not set" in text


def test_names_of_two_servers_that_look_alike_stay_apart():
    page = as_html(FleetView(run=run_of([server("a b"), server("a  b")])))
    assert {attrs["id"] for attrs in PageElements(page).with_class("server")} == {
        "server-0",
        "server-1",
    }


def test_filters_name_tags_and_owners_by_number(hostile):
    page = PageElements(hostile)
    [row] = [attrs for _, attrs in page.all if attrs.get("data-state") == "failed"]
    assert (row["data-tag"], row["data-owner"]) == ("0,1", "0")
    assert all(
        re.fullmatch(r"\d*|[a-z-]+", attrs["value"])
        for tag, attrs in page.all
        if tag in ("option", "input") and "value" in attrs
    )


def test_tables_have_captions_and_scopes_and_drawings_have_words(desk):
    page = PageElements(desk)
    tags = [tag for tag, _ in page.all]
    assert tags.count("table") == tags.count("caption") == 2
    assert all("scope" in attrs for tag, attrs in page.all if tag == "th")
    for tag, attrs in page.all:
        if tag == "svg":
            assert attrs.get("aria-hidden") == "true" or attrs["role"] == "img"
            assert attrs.get("aria-hidden") == "true" or attrs["aria-label"]


def test_a_page_of_100_servers_and_50_runs_is_smaller_than_2_mb():
    view = large_view(100, 50)
    page = as_html(view)
    assert len(page.encode()) < SIZE
    assert len(rows_of(page)) == 100
    assert "more; the JSON form has them all" in page


def test_a_page_full_of_long_texts_is_smaller_than_2_mb():
    text = EVIL * 200
    broken = RequirementBreach(requirement=IDS[0], verdict="fail", level="MUST", message=text)
    results = [
        ServerResult(
            name=f"{place}{text}",
            state="failed",
            reasons=(text,) * 100,
            breaches=(broken,) * 300,
            changes=(CatalogChange(kind="text", subject=text, what=text, after=text),) * 100,
            stderr=(text,) * 100,
            server_version=text,
        )
        for place in range(60)
    ]
    page = as_html(FleetView(run=run_of(results)))
    assert len(page.encode()) < SIZE
    assert len(rows_of(page)) == 60


def test_servers_of_a_site_link_to_their_own_pages():
    page = as_html(FleetView(run=run_of([failing_server("x")])), links={"x": 'servers/x".html'})
    assert '<a href="servers/x&#34;.html">all requirements</a>' in page


def test_a_link_to_a_log_is_made_of_web_addresses_only():
    view = FleetView(run=run_of([server("one")]))
    origin = replace(view.run.origin, ci_url="javascript:alert(1)")
    page = as_html(replace(view, run=replace(view.run, origin=origin)))
    assert "javascript:" not in page
