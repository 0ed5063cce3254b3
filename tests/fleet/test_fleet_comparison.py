"""What counts as a regression, as a table of pairs of results and the differences between them."""

import msgspec
import pytest

from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.history import compare_runs, merge_runs, open_history
from accord_tools.fleet.history.comparison import ComparisonContext, classify_verdicts
from accord_tools.fleet.history.exports import export_from_json
from accord_tools.fleet.results import (
    CatalogChange,
    CatalogFinding,
    FailedTest,
    RunOrigin,
    ServerDocuments,
    ServerTiming,
    StageResult,
    TestCounts,
)
from accord_tools.fleet.rule_set import RuleSet
from fleet.past_runs import SMALL, breach, catalog, result, rule, run, summary, view
from support.tables import cases

NAMES = {
    "p": "pass",
    "f": "fail",
    "w": "warn",
    "e": "not-exercised",
    "a": "not-applicable",
    "F": "accepted fail",
    "W": "accepted warn",
}


def compare(before, after, **more):
    """Return the differences of two results as pairs of kind and subject."""
    rules = {"before_rules": SMALL.ids, "after_rules": SMALL.ids}
    context = ComparisonContext(**rules, **more)
    found = compare_runs(run(*before), run(*after), context)
    return [(each.kind, each.subject) for each in found.differences]


def outcomes(**names):
    return TestCounts(names=names)


def judged(letters, **more):
    """Return a result; "pf": the first rule passes, the second fails."""
    return result(verdicts={rule(at): NAMES[each] for at, each in enumerate(letters)}, **more)


def with_tests(**names):
    return result(tests=outcomes(**names))


def offers(*tools):
    return result(catalog=summary(*tools))


def accepted(verdict="fail"):
    given = breach(rule(0), verdict, accepted="known")
    return result(verdicts={rule(0): verdict}, breaches=(given,))


# -- verdicts

# Rows are before, columns after.
TABLE = """
      p      f            w            e              a      F     W
p     -      new-failure  new-warning  coverage-lost  -      -     -
f     fixed  -            fixed        coverage-lost  fixed  -     -
w     fixed  new-failure  -            coverage-lost  fixed  -     -
e     -      new-failure  new-warning  -              -      -     -
a     -      new-failure  new-warning  -              -      -     -
F     -      new-failure  -            coverage-lost  -      -     -
W     -      new-failure  new-warning  coverage-lost  -      -     -
"""


def pairs():
    columns, *rows = TABLE.strip().splitlines()
    for row in rows:
        before, *kinds = row.split()
        for after, kind in zip(columns.split(), kinds, strict=True):
            yield pytest.param(before, after, None if kind == "-" else kind, id=before + after)


@cases(("before", "after", "kind"), list(pairs()))
def test_a_change_of_a_verdict_has_its_class(before, after, kind):
    found, text = classify_verdicts(NAMES[before], NAMES[after])
    assert found == kind
    assert bool(text) == (kind is not None)


# -- whole results

OK = result()
FAST, SLOW = ServerTiming(start=0.3), ServerTiming(start=0.9)
DOWN = result(state="unreachable", verdicts={}, reasons=("it ended with code 3",))
LATE = result(state="timed-out", verdicts={rule(0): "not-exercised"})
SKIPPED = result(state="skipped", verdicts={}, reasons=("needs TOKEN",))
STARTED = StageResult(name="start", state="passed")
NO_CATALOG = StageResult(name="surface", state="failed", text="tools/list fails")
NO_TESTS = StageResult(name="test", state="failed", text="no hypothesis")

CASES = {
    "nothing changed": (OK, OK, []),
    "a failure": (judged("p"), judged("f"), [("new-failure", rule(0))]),
    "accepted from the start": (judged("p"), accepted(), []),
    "accepted later": (judged("f"), accepted(), []),
    "no longer accepted": (accepted(), judged("f"), [("new-failure", rule(0))]),
    "not asked before": (judged("p"), judged("pf"), []),
    "not asked any more": (judged("pp"), judged("p"), []),
    "coverage of one": (judged("pp"), judged("pe"), [("coverage-lost", rule(1))]),
    "no check any more": (OK, result(state="failed", verdicts={}), [("coverage-lost", "")]),
    "check switched off": (OK, result(verdicts={}, stages=(STARTED,)), []),
    "check prevented": (
        OK,
        result(state="failed", verdicts={}, stages=(STARTED, NO_CATALOG)),
        [("coverage-lost", "")],
    ),
    "score much lower": (result(score=99.0), result(score=97.9), [("score-down", "")]),
    "score a little lower": (result(score=99.0), result(score=98.0), []),
    "score higher": (result(score=90.0), result(score=99.0), []),
    "score unknown": (result(score=90.0), result(score=None), []),
    "unreachable": (OK, DOWN, [("unreachable", "")]),
    "out of time": (OK, LATE, [("unreachable", "")]),
    "still down": (DOWN, LATE, []),
    "reachable again": (DOWN, OK, [("reachable", "")]),
    "reachable and failing": (DOWN, result(state="failed"), [("reachable", "")]),
    "skipped": (OK, SKIPPED, [("skipped", "")]),
    "skipped while down": (DOWN, SKIPPED, [("skipped", "")]),
    "still skipped": (SKIPPED, SKIPPED, []),
    "no longer skipped": (SKIPPED, OK, []),
    "down after skipped": (SKIPPED, DOWN, []),
    "test fails": (with_tests(a="pass"), with_tests(a="fail"), [("test-failing", "a")]),
    "test mended": (with_tests(a="fail"), with_tests(a="pass"), [("test-fixed", "a")]),
    "test skipped": (with_tests(a="pass"), with_tests(a="skip"), [("coverage-lost", "a")]),
    "new test fails": (
        with_tests(a="pass"),
        with_tests(a="pass", b="fail"),
        [("test-failing", "b")],
    ),
    "test removed": (with_tests(a="pass", b="fail"), with_tests(a="pass"), []),
    "first tests": (OK, with_tests(a="fail"), []),
    "tests could not run": (
        with_tests(a="pass"),
        result(stages=(STARTED, NO_TESTS)),
        [("coverage-lost", "")],
    ),
    "tests switched off": (with_tests(a="pass"), result(stages=(STARTED,)), []),
    "tool removed": (offers("add", "sub"), offers("add"), [("surface-breaking", "tool sub")]),
    "tool added": (offers("add"), offers("add", "sub"), [("surface-changed", "tool sub")]),
    "catalog not listed": (offers("add"), OK, []),
}


@cases(("before", "after", "expected"), list(CASES.values()), ids=list(CASES))
def test_two_results_have_their_differences(before, after, expected):
    assert compare([before], [after]) == expected


def test_regressions_are_those_that_fail_a_build():
    expected = {
        "a failure": True,
        "coverage of one": True,
        "score much lower": True,
        "unreachable": True,
        "test fails": True,
        "tool removed": True,
        "tool added": False,
        "skipped": False,
        "reachable again": False,
        "test mended": False,
    }
    for name, is_regression in expected.items():
        before, after, _ = CASES[name]
        found = compare_runs(run(before), run(after))
        assert bool(found.regressions) == is_regression, name


def test_differences_say_why():
    found = compare_runs(run(OK), run(DOWN))
    assert found.differences[0].text == "was ok, is unreachable now: it ended with code 3"
    found = compare_runs(run(judged("p")), run(judged("f")))
    assert found.differences[0].text == "fails, was pass: seen"
    failure = FailedTest(name="a", kind="case", summary="said 5")
    later = result(tests=TestCounts(names={"a": "fail"}, failures=(failure,)))
    found = compare_runs(run(with_tests(a="pass")), run(later))
    assert found.differences[0].text == "fails, was pass: said 5"


def test_a_required_server_that_is_skipped_is_a_regression():
    found = compare_runs(run(OK), run(SKIPPED), ComparisonContext(required=["tickets"]))
    assert [each.kind for each in found.regressions] == ["unreachable"]


def test_a_server_that_ran_out_of_time_lost_no_coverage():
    late = result(state="timed-out", verdicts={rule(0): "fail", rule(1): "not-exercised"})
    assert compare([OK], [late]) == [("unreachable", ""), ("new-failure", rule(0))]


# -- rules


def test_a_new_rule_that_fails_is_not_a_regression():
    newer = RuleSet("newer", SMALL.ids | {"tools.new"})
    before = run(result(score=99.0))
    failing = result(score=80.0, verdicts={rule(0): "pass", rule(1): "pass", "tools.new": "fail"})
    found = compare_runs(
        before,
        run(failing, rules=newer),
        ComparisonContext(before_rules=SMALL.ids, after_rules=newer.ids),
    )
    assert found.differences == ()
    assert found.new_rules == ("tools.new",)
    assert found.dropped_rules == ()


def test_a_rule_that_only_the_older_set_has_is_listed():
    older = RuleSet("older", SMALL.ids | {"tools.old"})
    before = run(result(verdicts={rule(0): "pass", "tools.old": "pass"}), rules=older)
    after = run(result(verdicts={rule(0): "pass", "tools.old": "fail"}))
    found = compare_runs(
        before, after, ComparisonContext(before_rules=older.ids, after_rules=SMALL.ids)
    )
    assert found.differences == ()
    assert found.dropped_rules == ("tools.old",)


def test_rules_that_are_not_known_are_taken_from_the_verdicts():
    before = run(judged("p"))
    after = run(judged("pf"))
    found = compare_runs(before, after)
    assert found.differences == ()
    assert found.new_rules == (rule(1),)


def test_new_tests_of_a_newer_accord_are_not_regressions():
    before = run(with_tests(a="pass"), accord="1.0")
    after = run(with_tests(a="pass", b="fail"), accord="1.1")
    assert compare_runs(before, after).differences == ()


# -- flaky verdicts


def test_a_flaky_verdict_is_marked_and_fails_no_build():
    before, after = judged("p"), judged("f")
    found = compare_runs(
        run(msgspec.structs.replace(before, score=100.0)),
        run(msgspec.structs.replace(after, score=90.0)),
        ComparisonContext(flaky={"tickets": [rule(0)]}),
    )
    assert [(each.kind, each.is_flaky) for each in found.differences] == [
        ("new-failure", True),
        ("score-down", True),
    ]
    assert found.regressions == ()


def test_a_score_that_fell_for_other_reasons_too_is_a_regression():
    found = compare_runs(
        run(result(score=100.0)),
        run(result(score=90.0, verdicts={rule(0): "fail", rule(1): "fail"})),
        ComparisonContext(flaky={"tickets": [rule(0)]}),
    )
    assert [each.subject for each in found.regressions] == [rule(1), ""]


# -- times


@cases(
    ("earlier", "before", "after", "is_slower"),
    [
        (0.3, 0.9, 0.95, True),
        (0.3, 0.3, 0.95, False),  # once
        (0.3, 0.9, 0.31, False),  # it recovered
        (0.01, 0.15, 0.16, False),  # less than 200 ms
        (2.0, 2.5, 2.6, False),  # less than 1.5 times
        (0.3, 0.9, 0.9, False),  # the same measurement, reused
        (None, 0.9, 0.95, False),
    ],
)
def test_a_server_is_slower_if_it_was_slow_twice(earlier, before, after, is_slower):
    found = compare(
        [result(timing=ServerTiming(start=before))],
        [result(timing=ServerTiming(start=after))],
        earlier={"tickets": ServerTiming(start=earlier)},
    )
    assert found == ([("slower", "the start")] if is_slower else [])


@cases(
    ("cpu", "lag", "found"),
    [
        ((0.3, 0.31, 0.3), 0.0, []),  # the machine was slow, not the server
        ((0.3, 0.9, 0.9), 2.0, [("slower", "the start (CPU time)")]),
        ((None, 0.9, 0.9), 0.0, [("slower", "the start")]),  # an older history
        ((None, None, None), 0.3, []),
    ],
)
def test_a_busy_machine_makes_no_server_slower(cpu, lag, found):
    base, before, after = (
        ServerTiming(start=start, start_cpu=used)
        for start, used in zip((1.2, 4.0, 2.3), cpu, strict=True)
    )
    compared = compare(
        [result(timing=before)],
        [result(timing=after, load_lag=lag)],
        earlier={"tickets": base},
    )
    assert compared == found


@pytest.mark.parametrize(("lag", "is_slower"), [(0.0, True), (0.3, False)])
def test_slow_calls_count_only_on_a_machine_that_was_not_busy(lag, is_slower):
    slow = [result(timing=ServerTiming(ping_95=time), load_lag=lag) for time in (0.9, 0.95)]
    base = {"tickets": ServerTiming(ping_95=0.1)}
    assert bool(compare(slow[:1], slow[1:], earlier=base)) == is_slower


@pytest.mark.parametrize(("tool", "is_slower"), [("add", True), ("sub", False)])
def test_only_calls_of_the_same_tool_are_compared(tool, is_slower):
    slow = [result(timing=ServerTiming(call_95=time, tool=tool)) for time in (0.9, 0.95)]
    base = {"tickets": ServerTiming(call_95=0.1, tool="add")}
    assert bool(compare(slow[:1], slow[1:], earlier=base)) == is_slower


# -- catalogs

BREAKING = CatalogChange(kind="breaking", subject="tool add", what="argument b removed")
TEXT = CatalogChange(kind="text", subject="tool sub", what="description changed")


def compare_with_changes(*changes):
    catalogs = {"catalog-add": catalog("add"), "catalog-sub": catalog("sub")}
    return compare(
        [offers("add")],
        [offers("sub")],
        catalogs=catalogs.get,
        find_changes=lambda before, after: changes,
    )


def test_changes_of_a_catalog_have_their_class():
    assert compare_with_changes(TEXT, BREAKING) == [
        ("surface-breaking", "tool add"),
        ("surface-changed", "tool sub"),
    ]
    assert compare_with_changes() == [("surface-changed", "")]


def test_thousands_of_changes_are_counted():
    found = compare_with_changes(*[TEXT] * 10_000)
    assert len(found) == 51
    assert found[-1] == ("surface-changed", "")


def test_catalogs_that_are_not_known_are_compared_by_their_entries():
    found = compare(
        [offers("add")],
        [offers("sub")],
        catalogs=lambda digest: None,
        find_changes=lambda before, after: pytest.fail("without catalogs"),
    )
    assert found == [("surface-breaking", "tool add"), ("surface-changed", "tool sub")]


# -- servers that come and go


def test_servers_appear_and_disappear():
    found = compare_runs(run(result("a"), result("b")), run(result("a"), result("c")))
    assert [(each.kind, each.server) for each in found.differences] == [
        ("disappeared", "b"),
        ("appeared", "c"),
    ]


def test_servers_that_were_left_out_did_not_disappear():
    whole = run(result("a"), result("b"))
    part = run(result("a"), left_out=("b",))
    assert compare_runs(whole, part).differences == ()
    assert compare_runs(part, whole).differences == ()


def test_servers_that_got_worse_come_first():
    before = [result(name, tests=outcomes(t="fail")) for name in "abc"]
    after = [result(name, tests=outcomes(t="pass")) for name in "abc"]
    after[2] = result("c", verdicts={rule(0): "fail", rule(1): "pass"}, tests=outcomes(t="pass"))
    found = compare_runs(run(*before), run(*after))
    assert [(each.server, each.kind) for each in found.differences] == [
        ("c", "new-failure"),
        ("c", "test-fixed"),
        ("a", "test-fixed"),
        ("b", "test-fixed"),
    ]


def test_the_other_run_is_named():
    assert compare_runs(run(OK, id=12), run(OK)).against == "run 12 of 2026-11-16 08:02"
    assert compare_runs(run(OK), run(OK)).against == "the run of 2026-11-16 08:02"


# -- with a history


def test_a_history_compares_with_all_that_it_knows():
    with open_history(None) as history:
        documents = {"tickets": ServerDocuments(catalog=catalog("add"))}
        base = {"catalog": summary("add")}
        for start in (0.3, 0.9):
            saved = view(result(**base, timing=ServerTiming(start=start)), documents=documents)
            history.save_run(saved, SMALL)
        for verdict in ("fail", "pass"):
            given = result(**base, timing=SLOW, verdicts={rule(0): verdict, rule(1): "pass"})
            history.save_run(view(given, documents=documents), SMALL)
        now = view(
            result(
                catalog=summary("sub"),
                timing=ServerTiming(start=0.95),
                verdicts={rule(0): "pass", rule(1): "fail"},
            ),
            documents={"tickets": ServerDocuments(catalog=catalog("sub"))},
        )
        seen = []

        def find_changes(before, after):
            seen.append((before, after))
            return [BREAKING]

        found = history.compare(history.load_run(2), now, SMALL, find_changes=find_changes)
        assert [each.kind for each in found.differences] == [
            "new-failure",
            "surface-breaking",
            "slower",
        ]
        assert seen == [(catalog("add"), catalog("sub"))]
        assert found.against == "run 2 of 2026-11-16 08:02"


# -- runs in files


def export(given, **more):
    return msgspec.json.encode({"run": given, "comparison": None, "trends": {}, **more})


def test_an_exported_run_is_read_again():
    given = run(judged("f"), result("b", catalog=summary("add")), exit=1)
    assert export_from_json(export(given)).run == given
    assert export_from_json(export(given, rules=["a", "b"])).rules == {"a", "b"}
    assert export_from_json(export(given, rules={"ids": ["a"]})).rules == {"a"}
    assert export_from_json(export(given, rules=7)).rules is None


def test_members_of_a_newer_accord_are_ignored():
    members = msgspec.to_builtins(run(OK))
    members["weather"] = "fair"
    members["results"][0]["mood"] = {"good": True}
    assert export_from_json(export(members, more=1)).run == run(OK)


@cases(
    ("text", "said"),
    [
        ("", "a.json: is not JSON ("),
        ("{", "a.json: is not JSON ("),
        ("[]", "a.json: has no member 'run'; expected a file that accord fleet run --output"),
        ('{"results": []}', "a.json: has no member 'run'"),
        ('{"run": {}}', "member 'run': Object missing required field `fleet`"),
        (export(run(OK, started="yesterday")), "member 'run': Invalid isoformat string"),
        (
            export(run(OK)).replace(b'"state":"ok"', b'"state":"fine"'),
            "member 'run': Invalid enum value 'fine' - at `$.results[0].state`; another version",
        ),
    ],
)
def test_other_json_is_reported(text, said):
    with pytest.raises(FleetError) as error:
        export_from_json(text, "a.json")
    assert said in str(error.value)


# -- shards


def test_shards_are_put_together():
    finding = CatalogFinding(id="safety.collision", severity="warn", text="two add")
    first = run(
        *(result("a"), result("c")),
        left_out=("b", "d"),
        seconds=10.0,
        jobs=2,
        findings=(finding,),
        notes=("x",),
        origin=RunOrigin(git_commit="abc", host="one"),
    )
    second = run(
        result("b", "failed"),
        left_out=("a", "c", "d"),
        started="2026-11-16T08:02:15+00:00",
        seconds=20.0,
        jobs=4,
        exit=1,
        findings=(finding,),
        notes=("x",),
        origin=RunOrigin(git_commit="abc", host="two", is_dirty=True),
    )
    found = merge_runs([first, second])
    assert [each.name for each in found.results] == ["a", "c", "b"]
    assert found.left_out == ("d",)
    assert (found.started, found.seconds) == (first.started, 24.0)
    assert (found.jobs, found.exit) == (6, 1)
    assert found.findings == (finding,)
    assert found.notes[0] == "x"
    assert found.origin == RunOrigin(git_commit="abc", is_dirty=True)
    assert merge_runs([first]) == first


def test_results_of_shards_are_in_the_order_of_the_file():
    shards = [run(result("a", line=3), result("d", line=20)), run(result("c", line=9))]
    assert [each.name for each in merge_runs(shards).results] == ["a", "c", "d"]


@cases(
    ("other", "said"),
    [
        (run(result("b"), fleet="other"), "one is of the fleet 'desk', another 'other'"),
        (run(result("b"), file_digest="x"), "of the fleet file '', another 'x'"),
        (run(result("b"), rules=RuleSet("x", SMALL.ids)), "judged by the rules 'small', another"),
        (run(result("a")), "two of the runs have a result of a; name each shard once"),
    ],
)
def test_runs_that_do_not_belong_together_are_refused(other, said):
    with pytest.raises(FleetError) as error:
        merge_runs([run(result("a")), other])
    assert said in str(error.value)


def test_nothing_cannot_be_put_together():
    with pytest.raises(FleetError, match="no runs"):
        merge_runs([])
