"""The commands that show, prune and merge runs."""

import json

import msgspec
import pytest

from accord.cli.main import main
from accord_tools.fleet.commands.history import draw_sparkline
from accord_tools.fleet.history import open_history
from accord_tools.fleet.rendering import render_fleet
from accord_tools.fleet.results import FleetView, RunOrigin, ServerTiming
from fleet.past_runs import SMALL, result, rule, run, summary, view


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def save(*results, path="accord-fleet.sqlite", **more):
    with open_history(path) as history:
        return history.save_run(view(*results, **more), SMALL)


def accord(*words):
    try:
        return main(["fleet", *words])
    except SystemExit as end:
        return end.code


def write_shard(name, *results, **more):
    given = FleetView(run=run(*results, **more), rules=tuple(SMALL.ids))
    with open(name, "w") as file:
        file.write(render_fleet(given, "json"))
    return name


# -- history


def test_runs_are_listed_the_newest_first(capsys):
    branch = RunOrigin(git_commit="0123456789abcdef", git_branch="main", is_dirty=True)
    save(result("a"), result("b", "failed"), exit=1, origin=branch)
    with open_history("accord-fleet.sqlite") as history:
        history.save_run(view(result("a"), exit=2), SMALL, is_finished=False)
    assert accord("history") == 0
    assert capsys.readouterr().out == (
        "run  started           commit     branch  as expected  regressions  exit\n"
        "2    2026-11-16 08:02  -          -       1 of 1       -            2, interrupted\n"
        "1    2026-11-16 08:02  01234567*  main    1 of 2       -            1\n"
    )
    assert accord("history", "--limit", "1", "--format", "json") == 0
    (newest,) = json.loads(capsys.readouterr().out)
    assert (newest["id"], newest["is_finished"]) == (2, False)


def test_a_skipped_server_is_not_counted_as_expected(capsys):
    save(result("a"), result("b", "skipped"), result("c", "failed"))
    assert accord("history", "--format", "json") == 0
    (only,) = json.loads(capsys.readouterr().out)
    assert (only["as_expected"], only["servers"]) == (1, 3)


def test_large_numbers_are_written_without_an_exponent(capsys):
    for start in (10.291, 14.05):
        save(result(timing=ServerTiming(start=start)))
    assert accord("history", "tickets") == 0
    assert "10,291 to 14,050" in capsys.readouterr().out


def test_several_fleets_in_one_history_are_named(capsys):
    save(result("a"), fleet="", file="a.toml")
    save(result("a"), fleet="b")
    assert accord("history") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["fleet", "b", "a.toml"]


def test_a_server_is_shown_over_time(capsys):
    bad = {"verdicts": {rule(0): "fail", rule(1): "pass"}, "state": "failed", "failures": 1}
    counts = {"exercised": 2, "applicable": 8}
    save(result(score=100.0, owner="team-a", tags=("x",), server_version="1", **counts))
    save(result(score=90.0, owner="team-a", tags=("x",), server_version="2", **counts, **bad))
    save(result(state="unreachable", verdicts={}, reasons=("it ended with code 3",)))
    assert accord("history", "tickets") == 0
    assert capsys.readouterr().out == (
        "tickets\n"
        "first seen 2026-11-16 08:02\n"
        "\n"
        "failures   ▁█▁  0 to 1\n"
        "exercised  ██▁  0 to 2\n"
        "score      █▁   90 to 100\n"
        "\n"
        "run 1  2026-11-16 08:02  ok: 0 failures, 2 of 8 exercised, score 100, version 1\n"
        "run 2  2026-11-16 08:02  failed: 1 failure, 2 of 8 exercised, score 90, version 2\n"
        "    version 1 -> 2\n"
        f"    new failure: {rule(0)}: fails, was pass: seen\n"
        "    score down: the score fell from 100.0 to 90.0\n"
        "run 3  2026-11-16 08:02  unreachable: it ended with code 3\n"
        "    unreachable: was failed, is unreachable now: it ended with code 3\n"
    )
    assert accord("history", "tickets", "--format", "json") == 0
    past = json.loads(capsys.readouterr().out)
    assert [each["point"]["run"] for each in past["results"]] == [1, 2, 3]


def test_flaky_requirements_of_a_server_are_named(capsys):
    for verdict in ("pass", "fail", "pass", "fail"):
        save(result(verdicts={rule(0): verdict}))
    assert accord("history", "tickets") == 0
    assert f"\nflaky: {rule(0)}\n" in capsys.readouterr().out


def test_many_changes_at_once_are_counted(capsys):
    save(result(catalog=summary(*"abcdefghijkl")))
    save(result(catalog=summary("z")))
    assert accord("history", "tickets") == 0
    assert "    and 5 more\n" in capsys.readouterr().out


def test_texts_of_servers_do_not_control_the_terminal(capsys):
    name = "ti\x1b[2Jck\u202eets"
    save(result(name, owner="\x1b]0;x\x07", server_version="\x1b[31m", tags=("a\nb",)))
    save(result(name, state="unreachable", verdicts={}, reasons=("\x1b[2J\r\nx",)))
    assert accord("history", name) == 0
    shown = capsys.readouterr().out
    assert "\\x1b[2J" in shown
    assert not {"\x1b", "\r", "\x07", "\u202e"} & set(shown)


def test_a_terminal_without_blocks_gets_other_bars(capsysbinary, monkeypatch):
    import io
    import sys

    save(result(failures=0))
    save(result(failures=3))
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert accord("history", "tickets") == 0
    sys.stdout.flush()
    assert b"failures   _#  0 to 3" in written.getvalue()


def test_the_bars_of_a_line_show_least_and_largest():
    assert draw_sparkline([]) == ""
    assert draw_sparkline([None]) == " "
    assert draw_sparkline([5, 5]) == "▁▁"


def test_a_history_beside_a_named_file_or_of_another_name_is_shown(tmp_path, capsys):
    (tmp_path / "deep").mkdir()
    save(result(), path="deep/accord-fleet.sqlite")
    save(result(), path="runs.sqlite")
    assert accord("history", "--file", "deep/fleet.toml") == 0
    assert accord("history", "--history", "runs.sqlite") == 0
    assert capsys.readouterr().out.count("1 of 1") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("history",), "history accord-fleet.sqlite: there is no such file yet; accord fleet run"),
        (("prune",), "history accord-fleet.sqlite: there is no such file yet"),
        (("history", "--history", "here.sqlite", "ticket"), "did you mean tickets?"),
        (("history", "--history", "here.sqlite", "--format", "xml"), "unknown format 'xml'"),
        (("history", "--limit", "0"), "'0' is not a number of runs, expected 1 or more"),
        (("prune", "--keep", "x"), "'x' is not a number of runs"),
        (("merge",), "merge needs at least one FILE"),
        (("merge", "no.json"), "no.json: No such file or directory; expected a file that accord"),
    ],
)
def test_a_command_that_cannot_be_done_says_why(words, said, capsys, tmp_path):
    save(result(), path="here.sqlite")
    assert accord(*words) == 2
    assert said in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["here.sqlite"]


# -- prune


def test_pruning_says_what_it_removed(capsys):
    for _ in range(5):
        save(result())
    assert accord("prune", "--keep", "2") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("accord-fleet.sqlite: 3 runs removed, 2 kept; ")
    assert " kB before, " in shown
    with open_history("accord-fleet.sqlite") as history:
        assert [each.id for each in history.runs()] == [5, 4]


# -- merge


def test_shards_are_merged_into_one_report(capsys, tmp_path):
    write_shard("1.json", result("a", line=3), left_out=("b",))
    write_shard("2.json", result("b", "failed", line=9), left_out=("a",), exit=1)
    words = ("merge", "2.json", "1.json", "--output", "all.json", "--output", "all.html")
    assert accord(*words) == 1
    assert "1 of 2 as expected" in capsys.readouterr().out
    merged = json.loads((tmp_path / "all.json").read_text())
    assert [each["name"] for each in merged["run"]["results"]] == ["a", "b"]
    assert merged["run"]["left_out"] == []
    assert sorted(merged["rules"]) == sorted(SMALL.ids)
    assert (tmp_path / "all.html").read_text().startswith("<!")
    # What it wrote can be merged again.
    assert accord("merge", "all.json", "--format", "json", "--fail-on", "never") == 0


def test_a_merged_run_is_compared_and_kept(capsys):
    write_shard("1.json", result("a"))
    write_shard("2.json", result("b"))
    words = ("merge", "1.json", "2.json", "--history", "runs.sqlite", "--fail-on", "regression")
    assert accord(*words) == 0
    write_shard("2.json", result("b", verdicts={rule(0): "fail", rule(1): "pass"}))
    assert accord(*words) == 1
    assert "1 regression" in capsys.readouterr().out
    assert accord("merge", "1.json", "2.json", "--against", "2.json") == 0
    with open_history("runs.sqlite") as history:
        assert [(each.id, each.regressions) for each in history.runs()] == [(2, 1), (1, None)]


def test_a_merged_run_of_an_interrupted_shard_is_not_compared_with(capsys):
    write_shard("1.json", result("a"), left_out=("b",))
    write_shard("2.json", left_out=("a", "b"), exit=2)
    words = ("merge", "1.json", "2.json", "--history", "h.sqlite")
    assert accord(*words) == 2
    with open_history("h.sqlite") as history:
        assert [each.is_finished for each in history.runs()] == [False]


def test_files_without_rules_are_refused(capsys):
    with open("1.json", "wb") as file:
        file.write(msgspec.json.encode({"run": run(result())}))
    assert accord("merge", "1.json") == 2
    assert "do not list the rules of their runs" in capsys.readouterr().err
