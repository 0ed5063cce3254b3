"""Workers side by side: order, limits, early ends, and verdicts that a busy machine caused."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from accord.client.server_spec import ServerSpec
from accord.protocol.verdict import Verdict, VerdictName
from accord_tools.check.verdicts import chosen_requirements
from accord_tools.fleet.commands.run import shard
from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.results import FailedTest, TestCounts
from accord_tools.fleet.running.pool import (
    PoolRun,
    count_cores,
    default_jobs,
    find_doubtful,
    make_repetition,
    replace_doubtful,
    run_all,
)
from accord_tools.fleet.running.worker_process import DoubtfulVerdicts, WorkerOutcome
from accord_tools.fleet.worker.job import WorkerJob, WorkerProgress, WorkerReport
from accord_tools.reports.report import merge_revisions
from fleet.jobs import MARK, STATES, job, marked_processes
from support.tables import cases
from support.waiting import in_loop, run, until

CLOSED = "http://127.0.0.1:9/mcp"


def states(ran: PoolRun) -> dict[str, str]:
    return {name: each.ended for name, each in ran.outcomes.items()}


@in_loop
async def test_servers_that_fail_in_any_way_are_rows_beside_good_ones() -> None:
    work = [
        job("raw"),
        job("crash-at-start"),
        job("stubborn", time=2.0),
        WorkerJob(server=ServerSpec(name="missing", command=("/no/such/program",))),
    ]
    seen: list[str] = []
    progress: dict[str, list[WorkerProgress]] = {}
    ran = await run_all(
        work,
        jobs=2,
        on_progress=lambda name, each: progress.setdefault(name, []).append(each),
        on_result=lambda outcome: seen.append(outcome.name),
    )
    assert list(ran.outcomes) == ["raw", "crash-at-start", "stubborn", "missing"]
    assert sorted(seen) == sorted(ran.outcomes)
    assert states(ran) == {
        "raw": "finished",
        "crash-at-start": "finished",
        "stubborn": "timed-out",
        "missing": "finished",
    }
    assert not ran.is_interrupted
    found = {name: each.report for name, each in ran.outcomes.items()}
    assert found["raw"].is_complete
    assert "cannot open database: no such file" in found["crash-at-start"].unreachable
    assert "exit code 1" in found["crash-at-start"].unreachable
    assert "'/no/such/program' was not found" in found["missing"].unreachable
    late = ran.outcomes["stubborn"]
    assert late.text.startswith("was not finished within 2 s, and was ended")
    if late.stage is not None:  # on a busy machine the worker itself may take that long to start
        assert "was ended in the stage start; a larger time" in late.text
        assert [(each.name, each.state) for each in late.report.stages] == [("start", "timed-out")]
    assert [each.stage for each in progress["raw"]] == ["start", "surface"]


def test_a_worker_that_crashes_and_prints_rubbish_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Python imports this before anything of ours.
    (tmp_path / "sitecustomize.py").write_text(
        "import os\n"
        "os.write(1, b'rubbish\\n{}\\n')\n"
        "os.write(2, b'the token is sk-planted-4711-abcdef\\n')\n"
        "os._exit(5)\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    ran = run(run_all([job("raw", secrets=("sk-planted-4711-abcdef",))]))
    outcome = ran.outcomes["raw"]
    assert (outcome.ended, outcome.stage) == ("crashed", None)
    assert outcome.text == (
        "the worker ended with exit code 5; 2 lines of its output are not messages; "
        "it said: the token is masked-0"
    )


@in_loop
async def test_one_result_can_end_all_others() -> None:
    work = [job("stubborn"), job("exit-zero"), *(job("raw", name=f"raw-{n}") for n in range(3))]
    ran = await run_all(work, jobs=2, is_enough=lambda outcome: bool(outcome.report.unreachable))
    assert states(ran)["stubborn"] == "interrupted"
    assert len(ran.outcomes) < len(work)
    assert not ran.is_interrupted


@in_loop
async def test_a_cancelled_run_returns_what_is_there() -> None:
    results: list[str] = []
    work = [job("exit-zero"), job("hang-on-call", measure=True), job("raw", name="never")]
    order = {"exit-zero": 3.0, "hang-on-call": 2.0, "never": 1.0}
    task = asyncio.ensure_future(
        run_all(
            work,
            jobs=1,
            expected_seconds=order,
            on_result=lambda outcome: results.append(outcome.name),
            on_progress=lambda _, each: each.stage == "measure" and task.cancel(),
        )
    )
    ran = await task
    assert ran.is_interrupted
    assert states(ran) == {"exit-zero": "finished", "hang-on-call": "interrupted"}
    assert results == ["exit-zero", "hang-on-call"]
    outcome = ran.outcomes["hang-on-call"]
    assert (outcome.stage, outcome.text) == ("measure", "was interrupted in the stage measure")
    assert [each.name for each in outcome.report.stages] == ["start", "surface", "measure"]
    assert outcome.report.catalog is not None


@in_loop
async def test_the_slowest_begin_first_and_unknown_ones_before_them() -> None:
    begun: list[str] = []
    work = [job("exit-zero", name=name) for name in ("fast", "slow", "new")]
    await run_all(
        work,
        jobs=1,
        expected_seconds={"fast": 1.0, "slow": 9.0},
        on_progress=lambda name, _: begun.append(name),
        is_enough=lambda _: len(begun) == 2,
    )
    assert begun == ["new", "slow"]


@in_loop
async def test_servers_of_one_host_wait_for_each_other() -> None:
    running: set[str] = set()
    most = 0

    def begin(name: str, _: WorkerProgress) -> None:
        nonlocal most
        running.add(name)
        most = max(most, len(running))

    servers = [ServerSpec(name=f"s{n}", url=CLOSED, shown=CLOSED) for n in range(2)]
    ran = await run_all(
        [WorkerJob(server=each) for each in servers],
        on_progress=begin,
        on_result=lambda outcome: running.discard(outcome.name),
    )
    assert most == 1
    assert {each.report.unreachable for each in ran.outcomes.values()} == {
        f"{CLOSED}: no connection: connection refused"
    }


def test_the_number_of_workers_follows_the_cores() -> None:
    assert 1 <= default_jobs() <= 8
    assert default_jobs() == min(8, 2 * count_cores())


# -- verdicts that a busy machine may have caused


def outcome_with(verdicts: Mapping[str, tuple[VerdictName, str]], lag: float) -> WorkerOutcome:
    rows = chosen_requirements("server", "2025-06-18", list(verdicts))
    found = [
        Verdict(row.id, row.level, row.party, ("2025-06-18",), *verdicts[row.id], [])
        for row in rows
    ]
    report = merge_revisions({"2025-06-18": found}, target="x", party="server")
    return WorkerOutcome(
        name="x",
        ended="finished",
        report=WorkerReport(report=report, load_lag=lag, is_complete=True),
        seconds=2.0,
    )


PING, EMPTY = "ping.response.prompt", "ping.response.empty"
SILENT = "falls silent: an answer to ping did not arrive within 15 s"


@cases(
    ("verdict", "message", "lag", "is_doubtful"),
    [
        ("fail", SILENT, 0.3, True),
        ("fail", SILENT, 0.05, False),
        ("pass", SILENT, 0.3, False),
        ("fail", "answers with a result that is not empty", 0.3, False),
        ("fail", "keeps running after its input was closed", 0.3, True),
    ],
)
def test_only_waiting_in_vain_on_a_busy_machine_is_doubtful(
    verdict: VerdictName, message: str, lag: float, *, is_doubtful: bool
) -> None:
    outcome = outcome_with({PING: (verdict, message), EMPTY: ("pass", "held")}, lag)
    assert find_doubtful(outcome).requirements == ((PING,) if is_doubtful else ())


def outcome_of_tests(lag: float, **failures: str) -> WorkerOutcome:
    """An outcome with tests that failed with these summaries, and one that passed."""
    tests = TestCounts(
        passed=1,
        failed=len(failures),
        failures=tuple(
            FailedTest(name=name, kind="tool", summary=said) for name, said in failures.items()
        ),
        names={"fine": "pass", **dict.fromkeys(failures, "fail")},
    )
    report = WorkerReport(tests=tests, load_lag=lag, is_complete=True)
    return WorkerOutcome(name="x", ended="finished", report=report, seconds=2.0)


def test_a_test_that_waited_in_vain_on_a_busy_machine_is_doubtful_until_it_is_repeated() -> None:
    waited = "expected a result; received no answer within 5 s"
    quiet = outcome_of_tests(0.05, late=waited)
    assert not any(find_doubtful(quiet))
    first = outcome_of_tests(0.3, late=waited, hangs=waited, wrong="expected 1; received 2")
    assert find_doubtful(first).tests == ("late", "hangs")
    first = msgspec.structs.replace(first, doubtful=find_doubtful(first))
    second = outcome_of_tests(0.0, hangs=waited)
    tests = msgspec.structs.replace(
        second.report.tests, names={"late": "pass", "hangs": "fail", "fine": "fail"}
    )
    report = msgspec.structs.replace(second.report, tests=tests)
    both = replace_doubtful(first, msgspec.structs.replace(second, report=report))
    assert both.report.tests.names == {
        "fine": "pass",
        "late": "pass",
        "hangs": "fail",
        "wrong": "fail",
    }
    assert (both.report.tests.passed, both.report.tests.failed) == (2, 2)
    assert {each.name for each in both.report.tests.failures} == {"wrong", "hangs"}
    assert both.repeated == {"late": "fail", "hangs": "fail"}
    assert not any(both.doubtful)
    # What the repetition did not reach stays doubtful.
    nothing = WorkerOutcome(name="x", ended="timed-out", report=WorkerReport())
    assert replace_doubtful(first, nothing).doubtful == first.doubtful


def test_the_second_verdict_counts_and_the_first_is_kept_beside_it() -> None:
    first = outcome_with({PING: ("fail", SILENT), EMPTY: ("pass", "held")}, 0.3)
    first = msgspec.structs.replace(first, doubtful=find_doubtful(first))
    second = outcome_with({PING: ("pass", "held")}, 0.0)
    both = replace_doubtful(first, second)
    assert both.repeated == {PING: "fail"}
    assert both.seconds == 4.0
    report = both.report.report
    assert report is not None
    assert {each.id: each.verdict for each in report.results} == {PING: "pass", EMPTY: "pass"}
    assert (report.score, report.violations) == (100.0, ())
    assert first.report.report is not None
    assert first.report.report.score != 100.0


def test_a_second_check_without_a_verdict_changes_nothing() -> None:
    first = outcome_with({PING: ("fail", SILENT)}, 0.3)
    first = msgspec.structs.replace(first, doubtful=find_doubtful(first))
    silent = outcome_with({PING: ("not-exercised", "no occasion")}, 0.0)
    assert replace_doubtful(first, silent).report == first.report
    crashed = WorkerOutcome(name="x", ended="crashed", report=WorkerReport())
    assert replace_doubtful(first, crashed) == first


@in_loop
async def test_some_requirements_can_be_checked_again_alone() -> None:
    work = job("raw", lock=None, revisions=("2025-06-18",), contract=True, measure=True)
    ran = await run_all([make_repetition(work, DoubtfulVerdicts(requirements=(EMPTY,)))])
    outcome = ran.outcomes["raw"]
    assert [each.name for each in outcome.report.stages] == ["start", "check"]
    assert outcome.report.report is not None
    assert [(each.id, each.verdict) for each in outcome.report.report.results] == [(EMPTY, "pass")]


@in_loop
async def test_some_tests_can_be_run_again_alone() -> None:
    work = job("raw", contract=True, checks=True, measure=True)
    chosen = "get_number answers valid arguments"
    ran = await run_all([make_repetition(work, DoubtfulVerdicts(tests=(chosen,)))])
    report = ran.outcomes["raw"].report
    assert [each.name for each in report.stages] == ["start", "test"]
    assert report.tests.names == {chosen: "pass"}


# -- shards


def test_every_server_belongs_to_one_shard() -> None:
    names = [f"server-{number}" for number in range(100)]
    parts = [shard(names, f"{number}/5") for number in range(1, 6)]
    assert sorted(name for part in parts for name in part) == sorted(names)
    assert all(parts)
    assert shard(names, "1/1") == names
    assert shard(names[::2], "2/5") == [name for name in names[::2] if name in parts[1]]


@cases("part", ["", "0/5", "6/5", "2", "a/b", "2/0", "-1/5", "2/5/7"])
def test_a_shard_that_does_not_exist_is_refused(part: str) -> None:
    with pytest.raises(FleetError, match="expected NUMBER/COUNT, such as 2/5"):
        shard(["a"], part)


# -- thirty at once


@pytest.mark.thorough
@in_loop
async def test_thirty_servers_of_all_kinds_are_thirty_rows(tmp_path: Path) -> None:
    mark = f"thirty-{tmp_path.name}"
    secret = "sk-planted-4711-abcdef"
    work = [
        job(
            name.rstrip("-0123456789"),
            name=name,
            env={MARK: mark, "FLEET_PLANTED": secret},
            secrets=(secret,),
            checks=True,
            contract=True,
            measure=True,
            only=("ping", "tools.list"),
            revisions=("2025-06-18",),
            patience=1.0,
            time=120.0 if name in ("many-tools", "flood-stdout") else 30.0,
        )
        for name in STATES
    ]
    ran = await run_all(work)
    assert list(ran.outcomes) == list(STATES)
    assert secret.encode() not in msgspec.json.encode(ran)
    for name, outcome in ran.outcomes.items():
        is_reached = STATES[name] not in ("unreachable", "skipped")
        assert outcome.ended == "finished", (name, outcome.text)
        assert bool(outcome.report.unreachable) != is_reached, name
        assert (outcome.report.report is not None) == is_reached, name
    await until(lambda: not list(marked_processes(mark)))
