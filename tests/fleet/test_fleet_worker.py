"""A worker: its stages, what it reports of servers that fail, and what it never says."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accord.client.server_spec import ServerSpec
from accord.protocol.verdict import Evidence
from accord.protocol.violation import Violation
from accord.secrets.filter import HIDDEN, SecretFilter
from accord_tools.contract.lock_file import format_lock
from accord_tools.fleet.catalogs import summarize_catalog
from accord_tools.fleet.results import (
    CatalogChange,
    FailedTest,
    ServerTiming,
    StageResult,
    TestCounts,
)
from accord_tools.fleet.worker.channel import MaskedStream, mask_message
from accord_tools.fleet.worker.job import (
    DECODER,
    WorkerJob,
    WorkerProgress,
    WorkerReport,
    encode_job,
)
from accord_tools.reports.report import Coverage, Report, RequirementResult, ViolationGroup
from fleet.fleet_server import HOSTILE, SCHEMA
from fleet.jobs import command, job, marked_processes
from support.tables import cases
from support.waiting import LONG, until_sync

SECRET = "sk-planted-4711-abcdef"


class Worked:
    """A worker that has ended: its messages, and all that it wrote."""

    def __init__(self, work: WorkerJob, **env: str) -> None:
        ran = subprocess.Popen(
            [sys.executable, "-P", "-m", "accord_tools.fleet.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **env},
        )
        with ran:
            assert ran.stdin is not None
            assert ran.stdout is not None
            assert ran.stderr is not None
            ran.stdin.write(encode_job(work))
            ran.stdin.flush()
            self.output = ran.stdout.read()
            self.stderr = ran.stderr.read()
            self.code = ran.wait(LONG)
        self.messages = [DECODER.decode(line) for line in self.output.splitlines()]
        self.report = WorkerReport()
        for each in self.messages:
            if isinstance(each, WorkerReport):
                self.report = self.report.with_part(each)

    @property
    def stages(self) -> dict[str, str]:
        return {each.name: each.state for each in self.report.stages}

    def text(self, stage: str) -> str:
        return next(each.text for each in self.report.stages if each.name == stage)


# -- whole workers


def test_every_stage_is_done_and_no_secret_leaves_the_worker(tmp_path: Path) -> None:
    cases = tmp_path / "cases.toml"
    cases.write_text(
        'target = "ignored.py"\ncontract = false\n'
        '[[case]]\nname = "refuses"\ncall = "get_number"\nexpect = { error = "never said" }\n'
    )
    lock = tmp_path / "lock.json"
    lock.write_text(format_lock({"server": "raw", "tools": []}, "2025-06-18"))
    server = ServerSpec(
        name="echo",
        command=command("echo", SECRET),
        shown="echo",
        env={"FLEET_PLANTED": SECRET},
        secrets=(SECRET,),
    )
    work = WorkerJob(
        server=server, cases=(cases,), lock=lock, only=("ping.response.empty",), patience=2
    )
    worked = Worked(work)
    assert worked.code == 0
    assert worked.stages == dict.fromkeys(
        ("start", "surface", "check", "test", "measure", "stop"), "passed"
    )
    report = worked.report
    assert report.is_complete
    assert (report.revision, report.transport) == ("2025-06-18", "stdio")
    assert report.report is not None
    assert [each.verdict for each in report.report.results] == ["pass"]
    assert report.report.setting.command is None
    assert (report.tests.failed, dict(report.tests.names)) == (1, {"refuses": "fail"})
    assert report.timing.start
    assert report.timing.ping_95
    assert any(each.subject == "tool get_number" for each in report.changes)
    progress = [each for each in worked.messages if isinstance(each, WorkerProgress)]
    assert {each.stage for each in progress} == set(worked.stages)
    # It repeats the secret in its name, version, tools, errors, standard error and arguments.
    assert HIDDEN in report.server_name
    assert HIDDEN in "".join(report.stderr)
    assert HIDDEN in str(report.catalog)
    assert HIDDEN in report.tests.failures[0].summary
    for written in (worked.output, worked.stderr):
        assert SECRET.encode() not in written
        assert SECRET[:12].encode() not in written


def test_an_unchanged_catalog_needs_no_check() -> None:
    catalog = {
        "server": "raw",
        "tools": [
            {
                "name": "get_number",
                "description": "Returns the number that it gets.",
                "inputSchema": SCHEMA,
                "annotations": {"readOnlyHint": True},
            }
        ],
    }
    digest = summarize_catalog(catalog).digest
    worked = Worked(job("raw", checks=True, reuse_if=digest, reuse_version="1.0"))
    assert worked.report.is_reusable
    assert worked.report.catalog == catalog
    assert set(worked.stages.values()) == {"passed", "reused"}


def test_a_process_that_a_server_leaves_is_named_and_ended() -> None:
    for kind, mark in (("leaves-child", "mark-child"), ("leaves-daemon", "mark-daemon")):
        worked = Worked(job(kind, measure=True), FLEET_MARK=f"{mark}-{os.getpid()}")
        assert worked.stages["stop"] == "passed"
        # The child is seen when the server has stopped; the one of its own session each time.
        (left,) = worked.report.left_processes
        expected = "(pid " if kind == "leaves-child" else "(2 processes, the first with pid "
        assert left.startswith(f"sleep 300 {expected}")
        until_sync(lambda mark=mark: not list(marked_processes(f"{mark}-{os.getpid()}")))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "stage", "state", "text"),
    [
        ("raw", "check", "passed", ""),
        ("good", "check", "passed", ""),
        ("crash-at-start", "start", "failed", "cannot open database"),
        ("exit-zero", "start", "failed", "ended with exit code 0"),
        ("needs-variable", "start", "failed", "FLEET_TEST_KEY is not set"),
        ("silent", "start", "failed", "no answer to initialize"),
        ("wrong-id", "start", "failed", "no answer to initialize"),
        ("crash-on-call", "measure", "failed", "exit code 7"),
        ("hang-on-call", "measure", "passed", "only pings"),
        ("rubbish", "stop", "passed", ""),
        ("huge-line", "stop", "passed", ""),
        ("flood-stderr", "stop", "passed", ""),
        ("flood-stdout", "measure", "failed", "floods"),
        ("slow-start", "stop", "passed", ""),
        ("many-tools", "stop", "passed", ""),
        ("hostile", "stop", "passed", ""),
        ("changing", "stop", "passed", ""),
        ("ignores-terminate", "stop", "failed", "after SIGTERM, and was killed"),
    ],
)
def test_each_kind_of_server_is_a_row(kind: str, stage: str, state: str, text: str) -> None:
    work = job(
        kind,
        checks=True,
        contract=True,
        measure=True,
        only=("ping",),
        revisions=("2025-06-18",),
        patience=1.0,
        time=8.0,
    )
    worked = Worked(work)
    assert worked.code == 0
    assert worked.stages[stage] == state
    assert text in worked.text(stage)
    assert bool(worked.report.unreachable) == (stage == "start")
    if kind == "slow-start":
        assert (worked.report.timing.start or 0) > 0.8
    if kind == "hostile":
        assert {each["title"] for each in (worked.report.catalog or {})["tools"]} == {*HOSTILE}
    if kind == "failing-test":
        assert worked.report.tests.failed == 1


def test_a_server_that_does_not_start_is_unreachable_for_its_cause() -> None:
    report = Worked(job("explains-first")).report
    assert report.unreachable.endswith("; it said: Error: FLEET_TEST_KEY is not set")
    assert report.stderr[0] == "Error: FLEET_TEST_KEY is not set"
    assert report.stderr[-1] == "Node.js v20.20.2"


def test_no_test_begins_that_would_not_end_in_the_time_of_the_server() -> None:
    worked = Worked(job("slow-tests", contract=True, calls=1, patience=3.0, time=6.0))
    tests = worked.report.tests
    assert worked.stages["test"] == "timed-out"
    # A third test would begin at 4.4 s of 4.8 s, and the worker would be ended while it runs.
    assert tests.passed + tests.failed <= 2
    assert tests.no_time


@pytest.mark.skipif(sys.platform != "linux", reason="other systems show no CPU time")
def test_the_cpu_time_of_a_start_leaves_out_what_the_server_waits_for() -> None:
    timing = Worked(job("slow-start")).report.timing
    assert timing.start is not None
    assert timing.start_cpu is not None
    assert timing.start > 0.8
    assert 0 < timing.start_cpu < timing.start


@pytest.mark.thorough
def test_a_server_may_take_longer_to_end_on_a_busy_machine() -> None:
    script = Path(__file__).with_name("busy_stop_process.py")
    ran = subprocess.run(
        [sys.executable, str(script), *command("slow-end")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LONG,
        check=True,
    )
    stage = DECODER.decode(ran.stdout)
    assert isinstance(stage, WorkerReport)
    assert [(each.name, each.state, each.text) for each in stage.stages] == [("stop", "passed", "")]


# -- joining parts


def test_parts_of_a_report_are_joined() -> None:
    start = WorkerReport(
        stages=(StageResult(name="start", state="passed"),),
        timing=ServerTiming(start=0.5, start_cpu=0.0),
        server_name="x",
        load_lag=0.2,
    )
    later = WorkerReport(
        stages=(StageResult(name="measure", state="passed"),),
        timing=ServerTiming(ping_median=0.1),
        left_processes=("a",),
        is_complete=True,
    )
    whole = WorkerReport().with_part(start).with_part(later)
    assert [each.name for each in whole.stages] == ["start", "measure"]
    assert whole.timing == ServerTiming(start=0.5, start_cpu=0.0, ping_median=0.1)
    assert (whole.server_name, whole.load_lag, whole.is_complete) == ("x", 0.2, True)
    assert whole.left_processes == ("a",)


# -- masks


def report_with(text: str) -> WorkerReport:
    result = RequirementResult(
        "tools.list.pass",
        "MUST",
        "server",
        ("2025-06-18",),
        "pass",
        f"says {text}",
        [Evidence("why", "server", message=f'{{"a": "{text}", "b": 1}}', mark=(2, 5))],
        by_revision={"2025-06-18": "pass"},
        clause="the clause of a pass",
    )
    group = ViolationGroup(
        Violation("tools.list.pass", "server", f"says {text}", evidence=text, mark=(0, 3)),
        "fail",
        [],
    )
    report = Report(
        target="x",
        revision="2025-06-18",
        judged_by="2025-06-18",
        score=1.0,
        coverage=Coverage(1, 1),
        results=(result,),
        violations=(group,),
    )
    return WorkerReport(
        stages=(StageResult(name="start", state="passed", text=text),),
        report=report,
        tests=TestCounts(
            failures=(FailedTest(name=text, kind="tool", summary=text, repeat=text),),
            names={text: "pass"},
        ),
        catalog={"tools": [{"name": text, "inputSchema": {"properties": {text: {"x": [text]}}}}]},
        changes=(CatalogChange(kind="text", subject=text, what=text, before=text, after=text),),
        server_name=text,
        server_version=text,
        stderr=(text,),
        left_processes=(text,),
        unreachable=text,
        lock_problem=text,
    )


def test_every_text_of_a_report_is_masked() -> None:
    hide = SecretFilter([SECRET]).hide
    masked = mask_message(report_with(f"it is {SECRET} here"), hide)
    line = msgspec.json.encode(masked)
    assert SECRET.encode() not in line
    assert line.count(HIDDEN.encode()) == 22
    assert DECODER.decode(line) == masked
    assert masked.report is not None
    # Places in a text that was changed lead nowhere.
    assert masked.report.results[0].evidence[0].mark is None
    assert masked.report.violations[0].violation.mark is None


@cases("secret", ["passed-by-nobody", "2025-06-18", "server", "tools.list.pass", "fail-over-99"])
def test_words_of_our_own_stay_whatever_the_secret_is(secret: str) -> None:
    report = report_with("text")
    masked = mask_message(report, SecretFilter([secret]).hide)
    assert masked == report
    assert DECODER.decode(msgspec.json.encode(masked)) == report


def test_a_text_that_did_not_change_keeps_its_mark() -> None:
    report = report_with("text")
    assert mask_message(report, SecretFilter([SECRET]).hide) is report


def test_a_catalog_is_not_masked_at_the_ends_of_its_texts() -> None:
    hide = SecretFilter(["test-token-4711"]).hide
    report = WorkerReport(catalog={"name": "run_test"}, stderr=("cut here: test",))
    masked = mask_message(report, hide)
    assert masked.catalog == {"name": "run_test"}
    assert masked.stderr == (f"cut here: {HIDDEN}",)


def test_lines_of_standard_error_are_masked_even_if_they_come_in_pieces() -> None:
    class Lines(list[str]):
        def write(self, text: str) -> None:
            self.append(text)

        def flush(self) -> None:
            """Do nothing."""

    lines = Lines()
    stream: Any = MaskedStream(lines, SecretFilter([SECRET]).hide)  # type: ignore[arg-type]
    stream.write(f"token: {SECRET[:7]}")
    stream.flush()
    stream.write(f"{SECRET[7:]}\nnext")
    assert lines == [f"token: {HIDDEN}\n"]


@pytest.mark.thorough
def test_ten_thousand_tools_are_masked_in_a_moment() -> None:
    tools = [
        {"name": f"tool_{n}", "description": f"Does {n}.", "inputSchema": SCHEMA}
        for n in range(10_000)
    ]
    secrets = [f"{number}-value-of-a-variable-{number}" for number in range(30)]
    report = WorkerReport(catalog={"tools": tools})
    began = time.process_time()
    mask_message(report, SecretFilter(secrets).hide)
    assert time.process_time() - began < 10


@pytest.mark.thorough
def test_contract_tests_that_had_no_time_are_counted_and_the_stage_timed_out() -> None:
    worked = Worked(job("slow-calls", contract=True, time=6.0))
    assert worked.stages["test"] == "timed-out"
    tests = worked.report.tests
    assert tests.passed
    assert tests.no_time
    assert not tests.skipped
    assert list(tests.names.values()).count("no-time") == tests.no_time
    said = f"6 s, was over before {tests.no_time} of {len(tests.names)} tests began"
    assert said in worked.text("test")


@pytest.mark.thorough
def test_the_stage_test_fails_where_the_generator_of_arguments_is_missing(tmp_path: Path) -> None:
    (tmp_path / "hypothesis.py").write_text("raise ImportError('not here')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    worked = Worked(job("raw", contract=True), PYTHONPATH=path)
    assert worked.stages["test"] == "failed"
    assert "needs the extra 'test'" in worked.text("test")
    assert "contract = false" in worked.text("test")
