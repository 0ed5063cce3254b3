"""The history keeps whole runs, gives them back as they were, and is never destroyed."""

import gzip
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import zlib
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from accord.protocol.catalogue import catalogue
from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.history import open_history
from accord_tools.fleet.history.database import APPLICATION_ID
from accord_tools.fleet.history.storage import expand, pack
from accord_tools.fleet.results import (
    CatalogFinding,
    RunComparison,
    RunDifference,
    RunOrigin,
    ServerDocuments,
)
from accord_tools.fleet.rule_set import RuleSet, find_rule_set
from fleet.past_runs import (
    SMALL,
    catalog,
    full_view,
    result,
    rule,
    run,
    summary,
    view,
)
from support.tables import cases

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def save(history, *results, **more):
    return history.save_run(view(*results, **more), SMALL)


def report(*ids, mend="Mend it."):
    results = [
        {"id": id, "verdict": "pass", "clause": f"A server does {id}.", "mend": mend} for id in ids
    ]
    return msgspec.json.encode({"target": "x", "results": results})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.sqlite"


@pytest.fixture
def history(path):
    with open_history(path) as opened:
        yield opened


# -- what was saved comes back


def test_a_run_comes_back_as_it_was(path):
    saved = full_view(3, 1)
    with open_history(path) as history:
        id = history.save_run(saved, find_rule_set("latest"))
    with open_history(path) as history:
        assert history.load_run(id) == msgspec.structs.replace(saved.run, id=id)


def test_every_member_of_a_result_comes_back(path):
    given = result(
        state="failed",
        verdicts={rule(0): "fail", rule(1): "warn", rule(2): "not-exercised", "newer.rule": "fail"},
        reasons=("a", "b"),
        remarks=("c",),
        stderr=("\x1b[31m", "=cmd|x", "\u202e", "\0", "\U0001f980"),
        left_processes=("sleep (pid 7)",),
        not_cached="a remote",
        reused_from="2026-11-15T10:00:00+00:00",
        flaky=(rule(1),),
        repeated={rule(0): "pass"},
        load_lag=0.25,
        catalog=summary("add"),
        changed_since="last run",
    )
    saved = view(
        given,
        result("second", "skipped", verdicts={}, reasons=("needs TOKEN",)),
        origin=RunOrigin(git_commit="abc", git_branch="main", is_dirty=True, ci_url="https://x"),
        findings=(CatalogFinding(id="safety.collision", severity="warn", text="two add"),),
        notes=("a note",),
        left_out=("third",),
        exit=1,
    )
    with open_history(path) as history:
        id = history.save_run(saved, SMALL)
    with open_history(path) as history:
        assert history.load_run(id) == msgspec.structs.replace(saved.run, id=id)


def test_documents_come_back_and_texts_of_the_catalogue_are_not_stored(history):
    row = catalogue()["ping.response.prompt"]
    texts = {"id": row.id, "clause": row.text, "mend": row.mend}
    own = msgspec.json.encode({"results": [texts, {"id": row.id, "clause": "Of before."}]})
    given = ServerDocuments(report=own, catalog=catalog("add"))
    id = save(history, result(catalog=summary("add")), documents={"tickets": given})
    found = history.documents("tickets", id)
    assert msgspec.json.decode(found.report)["results"] == [
        texts,
        {"id": row.id, "clause": "Of before.", "mend": row.mend},
    ]
    stored = zlib.decompress(history._db.value("SELECT report FROM results"))
    assert row.text.encode() not in stored
    assert b"Of before." in stored
    assert found.catalog == given.catalog == history.catalog("catalog-add")
    assert history.documents("other", id) == ServerDocuments()
    assert history.catalog("unknown") is None


def test_a_report_of_another_shape_comes_back_unchanged(history):
    for text in (b"not json", b'{"results": 7}', b"[]"):
        id = save(history, result(), documents={"tickets": ServerDocuments(report=text)})
        assert history.documents("tickets", id).report == text


def test_a_catalog_is_called_surface_in_stored_data():
    """As 0.2 wrote it, in the JSON of a run."""
    given = result(catalog=summary("add"), catalog_revision="2025-11-25")
    members = msgspec.to_builtins(given)
    assert members["surface"]["digest"] == "catalog-add"
    assert members["surface_revision"] == "2025-11-25"
    assert not {"catalog", "catalog_revision"} & members.keys()


def test_a_catalog_that_becomes_known_later_is_added(path):
    with open_history(path) as history:
        save(history, result(catalog=summary("add")))
        assert history.catalog("catalog-add") is None
        given = ServerDocuments(catalog=catalog("add"))
        save(history, result(catalog=summary("add")), documents={"tickets": given})
        save(history, result(catalog=summary("add")))
    with open_history(path) as history:
        assert history.catalog("catalog-add") == catalog("add")


def test_halves_of_characters_are_escaped(history):
    id = save(history, result(target="python \udcff.py"), file="\udc80.toml")
    assert history.load_run(id).results[0].target == "python \\udcff.py"


def test_without_a_file_runs_are_kept_in_memory():
    for path in (None, ":memory:"):
        with open_history(path) as history:
            id = save(history, result())
            assert history.load_run(id).results == (result(),)
            assert [each.run for each in history.trends(["tickets"])["tickets"]] == [id]


@cases("stored", [b"", b"\x00\x01", pack("x" * 1000)[:-6], zlib.compress(b"x" * 101_000_000)])
def test_a_damaged_document_is_reported(stored):
    with pytest.raises((ValueError, zlib.error)):
        expand(stored)


# -- which run


def test_the_last_run_is_of_the_same_branch_first(history):
    assert history.last_run("desk", branch="main") is None
    first = save(history, result(), origin=RunOrigin(git_branch="main"))
    second = save(history, result(), origin=RunOrigin(git_branch="work"))
    save(history, result(), fleet="other", origin=RunOrigin(git_branch="main"))
    assert history.last_run("desk", branch="main").id == first
    assert history.last_run("desk", branch="work").id == second
    assert history.last_run("desk", branch="new").id == second
    assert history.last_run("unknown") is None


def test_fleets_without_a_name_are_known_by_their_file(history):
    id = save(history, result(), fleet="", file="here/a.toml")
    assert history.last_run(file="./a.toml").id == id
    assert history.last_run(file="b.toml") is None


def test_an_interrupted_run_is_listed_but_never_the_last(path):
    with open_history(path) as history:
        first = save(history, result())
        second = history.save_run(view(result()), SMALL, is_finished=False)
    with open_history(path) as history:
        assert history.last_run("desk").id == first
        assert history.find_run("last").run.id == first
        assert history.find_run(str(second)).run.id == second
        assert [(e.id, e.is_finished) for e in history.runs()] == [(second, False), (first, True)]
        assert [each.run for each in history.trends(["tickets"])["tickets"]] == [first]


def test_a_run_that_left_servers_out_is_not_compared_with(history):
    whole = save(history, result("a"), result("b"))
    part = save(history, result("a"), left_out=("b",))
    assert history.last_run("desk", names=["a", "b"]).id == whole
    assert history.last_run("desk", names=["a"]).id == part


def test_a_run_is_found_by_number_branch_and_date(history):
    branch = RunOrigin(git_branch="main")
    first = save(history, result(), started="2026-11-15T23:10:00+00:00", origin=branch)
    second = save(history, result(), started="2026-11-16T08:02:00+00:00")
    third = save(history, result(), started="2026-11-16T09:02:00+00:00")
    found = {
        text: history.find_run(text).run.id
        for text in (
            *("1", "last", "branch:main", "2026-11-15", "2026-11-16"),
            *("2026-11-16T08", "2026-11-16 08:02", "2026-11"),
        )
    }
    assert list(found.values()) == [1, third, first, first, third, second, second, third]


@cases(
    ("text", "said"),
    [
        ("77", "there is no run 77 in the history; accord fleet history lists the runs"),
        ("branch:nowhere", "there is no finished run of the branch nowhere; accord fleet history"),
        ("2025-01-01", "there is no finished run of 2025-01-01; "),
        ("lst", "'lst' does not name a run: write its number, last, branch:NAME or a date"),
    ],
)
def test_a_run_that_does_not_exist_is_reported(text, said, history):
    save(history, result())
    with pytest.raises(FleetError) as error:
        history.find_run(text)
    assert said in str(error.value)


def test_runs_are_summarized(tmp_path):
    compared = RunComparison(
        against="run 1",
        differences=(RunDifference(kind="new-failure", server="tickets", text="x"),),
    )
    with open_history(tmp_path / "h.sqlite") as history:
        save(history, result("a"), result("b", "failed"), result("c", "skipped"), exit=1)
        saved = msgspec.structs.replace(view(result("a")), comparison=compared)
        history.save_run(saved, SMALL)
        newest, oldest = history.runs()
        assert (oldest.servers, oldest.as_expected, oldest.exit) == (3, 1, 1)
        assert (oldest.regressions, newest.regressions) == (None, 1)
        assert [history.comparison(each.id) for each in (oldest, newest)] == [None, compared]
        assert [each.id for each in history.runs(limit=1)] == [newest.id]


# -- results of one server


def test_trends_begin_with_the_oldest(path):
    with open_history(path) as history:
        for number in range(5):
            save(history, result(failures=number), result("other"))
        points = history.trends(["tickets", "unknown"], limit=3)
    assert [each.failures for each in points["tickets"]] == [2, 3, 4]
    assert points["unknown"] == ()


def test_a_result_with_the_same_key_is_reused_with_its_documents(tmp_path):
    documents = {"tickets": ServerDocuments(report=report("a"), catalog=catalog("add"))}
    with open_history(tmp_path / "h.sqlite") as history:
        save(history, result(cache_key="k", catalog=summary("add")), documents=documents)
        found = history.find_reusable("tickets", "k", LONG_AGO)
        assert found.result == result(cache_key="k", catalog=summary("add"))
        assert found.started == "2026-11-16T08:02:11+00:00"
        assert found.documents.catalog == catalog("add")
        assert msgspec.json.decode(found.documents.report)["results"][0]["mend"] == "Mend it."
        # A run that reuses it stores nothing twice.
        again = result(cache_key="k", catalog=summary("add"), reused_from=found.started)
        save(history, again, documents={"tickets": found.documents})
        assert not history.documents("tickets", 2).report


@cases(
    ("changes", "since", "is_reused"),
    [
        ({}, LONG_AGO, True),
        ({"state": "failed"}, LONG_AGO, True),
        ({"state": "timed-out"}, LONG_AGO, False),
        ({"state": "unreachable"}, LONG_AGO, False),
        ({"cache_key": "other"}, LONG_AGO, False),
        ({"cache_key": ""}, LONG_AGO, False),
        ({"name": "other"}, LONG_AGO, False),
        ({"reused_from": "2026-11-15T08:00:00+00:00"}, LONG_AGO, False),
        ({}, datetime(2026, 11, 16, 8, 2, 11, tzinfo=UTC), True),
        ({}, datetime(2026, 11, 16, 8, 2, 12, tzinfo=UTC), False),
    ],
)
def test_only_a_result_that_was_made_in_time_is_reused(changes, since, is_reused):
    with open_history(None) as history:
        documents = {changes.get("name", "tickets"): ServerDocuments(report=report("a"))}
        save(history, result(**{"cache_key": "k", **changes}), documents=documents)
        found = history.find_reusable("tickets", "k", since)
        assert (found is not None) == is_reused
        assert history.find_reusable("tickets", "", LONG_AGO) is None


def test_the_time_of_the_last_real_result_is_expected(history):
    save(history, result("a", seconds=9), result("b", seconds=1), result("c", "skipped"))
    save(history, result("a", seconds=3), result("b", seconds=0.1, reused_from="2026-11-16"))
    assert history.expected_seconds() == {"a": 3.0, "b": 1.0}


def flip(history, verdicts, **more):
    for each in verdicts:
        name = {"p": "pass", "f": "fail", "n": "not-exercised"}[each]
        save(history, result(verdicts={rule(0): name, rule(1): "pass"}, **more))


@cases(
    ("verdicts", "is_flaky"),
    [
        ("pppppppppp", False),
        ("pfpppppppp", False),
        ("pfpf", True),
        ("pnpn", True),
        ("pffffffffppp", False),
        ("pfpfpppppppppppp", False),  # long ago
    ],
)
def test_a_verdict_that_changes_thrice_without_cause_is_flaky(verdicts, is_flaky):
    with open_history(None) as history:
        flip(history, verdicts)
        assert history.flaky("tickets") == ((rule(0),) if is_flaky else ())


@pytest.mark.parametrize(
    "cause", [{"server_version": "2"}, {"catalog": summary("b")}, {"revisions": ("2025-06-18",)}]
)
def test_a_verdict_that_changes_with_the_server_is_not_flaky(cause, history):
    for _ in range(4):
        flip(history, "p")
        flip(history, "f", **cause)
    assert history.flaky("tickets") == ()


def test_a_verdict_that_changes_with_the_rules_is_not_flaky(history):
    for number in range(8):
        rules = RuleSet(f"v{number}", frozenset({rule(0), f"more.{number}"}))
        verdict = "pass" if number % 2 else "fail"
        given = view(result(verdicts={rule(0): verdict}), rules=rules)
        history.save_run(given, rules)
    assert history.flaky("tickets") == ()


def test_reused_and_unchecked_results_do_not_make_a_verdict_flaky(history):
    flip(history, "pf")
    save(history, result(state="unreachable", verdicts={}))
    save(history, result(reused_from="2026-11-16", verdicts={rule(0): "pass"}))
    flip(history, "fp")
    assert history.flaky("tickets") == ()
    now = run(result(verdicts={rule(0): "fail", rule(1): "pass"}))
    assert history.flaky("tickets", now=now) == (rule(0),)


# -- size


@pytest.mark.parametrize("runs", [40, pytest.param(200, marks=pytest.mark.thorough)])
def test_runs_of_thirty_servers_stay_small(tmp_path, runs):
    path = tmp_path / "h.sqlite"
    with open_history(path) as history:
        for number in range(runs):
            given = full_view(30, number, with_reports=False)
            history.save_run(given, find_rule_set("latest"))
    per_run = path.stat().st_size / runs
    print(f"{per_run:.0f} bytes for each run of 30 servers")
    assert per_run < 65_000


def test_old_reports_are_dropped_except_the_first_of_each_month(tmp_path):
    with open_history(tmp_path / "h.sqlite") as history:
        days = [f"2026-{month:02}-{day:02}" for month in (8, 9, 10) for day in range(1, 16)]
        for number, day in enumerate(days):
            documents = {"tickets": ServerDocuments(report=report("a", f"only-{number}"))}
            save(history, result(), documents=documents, started=f"{day}T08:00:00+00:00")
        kept = [day for id, day in enumerate(days, 1) if history.documents("tickets", id).report]
    assert kept == ["2026-08-01", "2026-09-01", *days[-20:]]


# -- pruning


def test_pruning_keeps_the_newest_runs_of_each_fleet(path):
    with open_history(path) as history:
        for number in range(12):
            given = {"tickets": ServerDocuments(catalog=catalog(f"add{number}", "x" * 5000))}
            found = result(catalog=summary(f"add{number}"), seconds=number)
            save(history, found, documents=given)
        other = save(history, result("lonely"), fleet="other")
        report = history.prune(2)
        assert (report.removed, report.kept) == (10, 3)
        assert report.size_after < report.size_before
        assert path.stat().st_size == report.size_after
    with open_history(path) as history:
        assert [each.id for each in history.runs()] == [13, 12, 11]
        assert history.load_run(other).results == (result("lonely"),)
        assert history.load_run(12).results[0].seconds == 11
        assert history.catalog("catalog-add3") is None
        assert history.catalog("catalog-add11") is not None
        # Ids are never given twice.
        assert save(history, result()) == 14


def test_pruning_removes_servers_that_no_run_has(history):
    save(history, result("old"))
    save(history, result("new"))
    history.prune(1)
    with pytest.raises(FleetError, match="no server 'old'"):
        history.server_past("old")
    assert history._db.rows("PRAGMA foreign_key_check") == []


# -- one server over time


def test_the_past_of_a_server_says_what_changed_when(history):
    save(history, result(server_version="1"))
    save(history, result(server_version="1"))
    save(history, result(state="failed", verdicts={rule(0): "fail", rule(1): "pass"}))
    save(history, result(state="unreachable", verdicts={}, reasons=("it ended",)))
    past = history.server_past("tickets")
    assert past.first_seen == "2026-11-16T08:02:11+00:00"
    assert [[each.kind for each in e.differences] for e in past.results] == [
        [],
        [],
        ["new-failure"],
        ["unreachable"],
    ]
    newest = history.server_past("tickets", limit=2).results
    assert [each.point.run for each in newest] == [3, 4]
    assert [each.kind for each in newest[0].differences] == ["new-failure"]


def test_a_server_that_is_not_known_is_reported_with_a_near_name(history):
    with pytest.raises(FleetError, match="no server 'x'; it has no servers yet"):
        history.server_past("x")
    save(history, result("tickets"), result("search"))
    with pytest.raises(FleetError, match="no server 'ticket'; did you mean tickets"):
        history.server_past("ticket")
    with pytest.raises(FleetError, match="no server 'zzz'; it has search, tickets"):
        history.server_past("zzz")


def test_the_query_of_the_documentation_finds_a_broken_requirement(history, path):
    docs = (Path(__file__).parents[2] / "docs" / "fleet-history.md").read_text()
    query = re.search(r"```sql\n(.*?)```", docs, re.DOTALL)[1]
    save(history, result("a", verdicts={"tools.call.content-array": "fail"}), result("b"))
    with closing(sqlite3.connect(path)) as db:
        assert db.execute(query).fetchall() == [("2026-11-16T08:02:11+00:00", "a")]


# -- files that cannot be used


def error_of(path, **more):
    with pytest.raises(FleetError) as error:
        open_history(path, **more)
    return str(error.value)


@cases(
    ("statement", "said"),
    [
        (None, "is not a SQLite database; name another file with --history, or use --no-history"),
        ("CREATE TABLE mine (x)", "is a database of another program; name another file"),
        (
            f"PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version=9; CREATE TABLE a (b)",
            "was written by a newer accord (format 9, this one knows up to 2); upgrade accord, or",
        ),
    ],
)
def test_a_file_of_something_else_is_left_alone(statement, said, tmp_path):
    path = tmp_path / "other.sqlite"
    path.unlink(missing_ok=True)
    if statement is None:
        path.write_text("my notes, " * 100)
    else:
        with closing(sqlite3.connect(path)) as db:
            db.executescript(statement)
    before = path.read_bytes()
    assert error_of(path).startswith(f"history {path}: {said}")
    assert path.read_bytes() == before


def test_a_damaged_history_is_left_alone(tmp_path):
    path = tmp_path / "h.sqlite"
    with open_history(path) as history:
        for _ in range(5):
            history.save_run(full_view(4, 1, with_reports=False), find_rule_set("latest"))
    damaged = bytearray(path.read_bytes())
    for page in range(2, len(damaged) // 4096):
        damaged[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    path.write_bytes(damaged)
    said = error_of(path)
    assert f"history {path}: is damaged (" in said
    assert "restore it from a copy, or move it away" in said
    assert path.read_bytes() == damaged


def test_a_place_without_a_folder_is_reported(tmp_path):
    assert "there is no folder" in error_of(tmp_path / "nowhere" / "h.sqlite")
    assert "is a folder" in error_of(tmp_path)
    said = error_of(tmp_path / "h.sqlite", must_exist=True)
    assert "there is no such file yet; accord fleet run makes it" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_a_folder_that_cannot_be_written_is_reported():
    # Below the folder of pytest, which only its owner may enter.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "h.sqlite"
        with open_history(path) as history:
            save(history, result())
        before = path.read_bytes()
        path.chmod(0o444)
        Path(folder).chmod(0o555)
        is_root = os.geteuid() == 0
        try:
            if is_root:
                os.seteuid(65534)
            with pytest.raises(FleetError) as error, open_history(path) as history:
                save(history, result())
            said = str(error.value)
        finally:
            if is_root:
                os.seteuid(0)
            Path(folder).chmod(0o755)
        assert str(path) in said
        assert "cannot be written" in said
        assert "change its permissions" in said
        assert path.read_bytes() == before


def test_a_full_disk_is_reported_and_keeps_the_runs_that_are_there(history):
    save(history, result())
    pages = history._db.value("PRAGMA page_count")
    history._db.value(f"PRAGMA max_page_count = {pages}")
    big = ServerDocuments(report=os.urandom(100_000))
    with pytest.raises(FleetError, match="the disk is full; make room with accord fleet prune"):
        save(history, result(), documents={"tickets": big})
    assert history.load_run(1).results == (result(),)


def test_a_database_that_stays_locked_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("accord_tools.fleet.history.database._BUSY", 0.05)
    path = tmp_path / "h.sqlite"
    with open_history(path) as history:
        save(history, result())
        with sqlite3.connect(path, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(FleetError, match="another program has been writing to it"):
                save(history, result())
            other.execute("ROLLBACK")
        assert len(history.runs()) == 1
        assert save(history, result()) == 2


# -- histories of the older form

DATA = Path(__file__).parent / "data"
SERVERS = ("gone", "tickets", "search", "lonely")


@pytest.fixture
def older(tmp_path):
    """Return a history that accord 0.2 wrote; `history_of_0_2.json` is what it read from it."""
    path = tmp_path / "older.sqlite"
    path.write_bytes(gzip.decompress((DATA / "history_of_0_2.sqlite.gz").read_bytes()))
    return path


def read_all(history):
    """Return everything that a history says, as plain values."""
    runs = history.runs()
    documents = {name: [history.documents(name, e.id) for e in runs] for name in SERVERS}
    found = {
        "runs": [
            {
                "summary": each,
                "run": history.load_run(each.id),
                "comparison": history.comparison(each.id),
                "catalogs": {name: history.documents(name, each.id).catalog for name in SERVERS},
            }
            for each in runs
        ],
        "reports": {
            name: [report_of(e.report) for e in reversed(found) if e.report]
            for name, found in documents.items()
        },
        "pasts": {name: history.server_past(name) for name in SERVERS[1:]},
        "trends": history.trends(SERVERS),
        "expected_seconds": history.expected_seconds(),
        "timings": history.timings_before(99, SERVERS),
    }
    return msgspec.json.decode(msgspec.json.encode(found))


def report_of(text):
    return msgspec.json.decode(text) if text.startswith(b"{") else text.decode()


def schema(path):
    with closing(sqlite3.connect(path)) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        return version, {name for (name,) in db.execute("SELECT name FROM sqlite_master")}


def test_a_history_of_the_older_form_is_converted_and_loses_nothing(older):
    before = older.read_bytes()
    expected = json.loads(gzip.decompress((DATA / "history_of_0_2.json.gz").read_bytes()))
    with open_history(older) as history:
        assert history.notes == (f"{older} has a new form now; {older}.old is the file as it was",)
        assert read_all(history) == expected
    version, names = schema(older)
    assert version == 2
    assert not {"run", "result", "report"} & names
    # The copy is a history that accord 0.2 reads.
    copy = older.with_name("older.sqlite.old")
    assert schema(copy)[0] == 1
    assert copy.stat().st_mode == older.stat().st_mode
    with open_history(older) as history:
        assert history.notes == ()
        assert save(history, result()) == 7
    older.write_bytes(before)
    open_history(older).close()
    assert older.with_name("older.sqlite.old2").is_file()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE verdict_list SET letters = x'00'", "is damaged ("),
        ("DELETE FROM wording", "is damaged (LookupError: row 1 of wording is missing)"),
        ("UPDATE run SET notes = 7", "is damaged ("),
        ("CREATE TABLE results (mine)", "table results already exists"),
        ("DROP TABLE wording; CREATE VIEW wording AS SELECT 1 AS id", "has the view wording"),
    ],
)
def test_an_older_history_that_cannot_be_converted_is_left_alone(older, statement, said):
    with closing(sqlite3.connect(older)) as db:
        db.executescript(f"PRAGMA foreign_keys = OFF; {statement}")
        before = list(db.iterdump())
    assert f"history {older}: " in error_of(older)
    assert said in error_of(older)
    assert schema(older)[0] == 1
    with closing(sqlite3.connect(older)) as db:
        assert list(db.iterdump()) == before
    assert [each.name for each in older.parent.glob("*.old*")] == []


INTERRUPTED = """
import os, pathlib, signal, sys
sys.path.insert(0, {src!r})
from accord_tools.fleet.history import open_history
# The copy is named last of all, before the new tables are committed.
pathlib.Path.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
open_history({path!r})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_conversion_that_is_killed_leaves_the_older_history_working(older):
    src = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(src=src, path=str(older))], check=False
    )
    assert done.returncode == -signal.SIGKILL
    version, names = schema(older)
    assert (version, "run" in names, "runs" in names) == (1, True, False)
    with open_history(older) as history:
        assert [each.id for each in history.runs()] == [6, 5, 4, 3, 2]
    assert [each.name for each in older.parent.glob("*.old*")] == ["older.sqlite.old"]


def test_two_processes_convert_a_history_once(older):
    def work():
        with open_history(older) as history:
            found.append(len(history.runs()))

    found = []
    threads = [Thread(target=work) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [5, 5, 5]
    assert len(list(older.parent.glob("*.old*"))) == 1


def test_a_history_of_json_lines_is_refused_with_what_to_use(tmp_path):
    for is_there in (False, True):
        path = tmp_path / "runs.jsonl"
        if is_there:
            path.write_text("x")
        said = error_of(path)
        assert f"history {path}: JSON lines keep no history any more; name a .sqlite file" in said
        assert "--output FILE.json" in said
    assert path.read_text() == "x"


# -- several at once, and killed ones


def test_two_runs_that_are_saved_at_once_are_both_kept(path):
    def work(number):
        with open_history(path) as history:
            for place in range(8):
                save(history, result(f"server-{number}", seconds=place), result("common"))

    threads = [Thread(target=work, args=(number,)) for number in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    with open_history(path) as history:
        assert history.notes == ()
        assert len(history.runs()) == 24
        for each in history.runs():
            assert len(history.load_run(each.id).results) == 2


ENDLESS = """
import sys
sys.path[:0] = {folders!r}
from accord_tools.fleet.history import open_history
from accord_tools.fleet.rule_set import find_rule_set
from fleet.past_runs import full_view
given, rules = full_view(6, 1, with_reports=False), find_rule_set("latest")
history = open_history({path!r})
while True:
    history.save_run(given, rules)
    print("saved", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_run_leaves_whole_runs_only(path):
    folders = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]
    code = ENDLESS.format(folders=folders, path=str(path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        for _ in range(20):
            assert process.stdout.readline() == b"saved\n"
        process.send_signal(signal.SIGKILL)
    with open_history(path) as history:
        found = history.runs(limit=1000)
        assert len(found) >= 20
        assert {each.servers for each in found} == {6}
        assert len(history.load_run(found[0].id).results) == 6
        assert save(history, result()) == found[0].id + 1
