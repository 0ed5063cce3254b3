"""accord's own client under check: every transport, every revision, nothing to complain of."""

import asyncio
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from accord.check.client_check import ClientPlan, check_client
from accord.protocol.catalogue import catalogue
from check.client import everything

HERE = Path(__file__).parent
# What no client can be brought to, or what ours never does: it reports no progress, and nothing
# makes it fail; names of metadata are the users'.
UNSEEN = {
    "cancellation.sender.ignores-late",  # the answer may win the race against the cancellation
    "completion.request.context",
    "errors.code.internal-error",
    "errors.invalid-params.data-details",
    "meta.field.more-types",
    "meta.key.label-grammar",
    "meta.prefix.reserved",
    "meta.title.display-name",
    "jsonrpc.batch.send-optional",
    "roots.errors",
}
NEVER_REPORTS = "progress."


def checked(over, revision, plays=(), **how):
    async def client(place):
        return await everything.run(place.url or place.command, revision, **how)

    plan = ClientPlan(
        command=["{server}" if over == "stdio" else "{url}"],
        transport="sse" if over == "sse" else "http",
        revisions=[revision],
        client=client,
        timeout=30,
        at_once=4,
        plays=plays,
    )
    return asyncio.run(check_client(plan))


def breaches(report):
    return {each.id: each.message for each in report.results if each.verdict in ("fail", "warn")}


@pytest.mark.parametrize(
    ("over", "revision"),
    [
        ("stdio", "2025-06-18"),
        ("sse", "2024-11-05"),
        pytest.param("stdio", "2024-11-05", marks=pytest.mark.thorough),
        pytest.param("stdio", "2025-03-26", marks=pytest.mark.thorough),
        pytest.param("sse", "2025-03-26", marks=pytest.mark.thorough),
        pytest.param("sse", "2025-06-18", marks=pytest.mark.thorough),
        ("http", "2025-03-26"),
        ("http", "2025-06-18"),
    ],
)
def test_the_client_is_exercised_in_everything_and_breaks_nothing(over, revision, caplog):
    caplog.set_level(logging.CRITICAL)
    report = checked(over, revision)
    assert breaches(report) == {}
    unseen = {
        each.id
        for each in report.results
        if each.verdict == "not-exercised" and catalogue()[each.id].check != "human"
    }
    assert {each for each in unseen - UNSEEN if not each.startswith(NEVER_REPORTS)} == set()


def test_a_client_that_answers_no_questions_says_so(caplog):
    caplog.set_level(logging.CRITICAL)
    report = checked("stdio", "2025-06-18", ("AsksTheImpossible",), has_callbacks=False)
    verdicts = {each.id: each.verdict for each in report.results}
    assert breaches(report) == {}
    assert verdicts["roots.errors"] == verdicts["sampling.errors"] == "pass"
    assert verdicts["sampling.result.role"] == "not-applicable"


@pytest.mark.parametrize("place", ["{url}", "{server}"])
def test_a_command_is_checked_from_the_command_line(place, tmp_path):
    kept = tmp_path / "report.json"
    command = [sys.executable, "-m", "accord.cli.main", "check", "client"]
    wanted = ["--only", "ping", "--only", "lifecycle.shutdown", "--revision", "2025-06-18"]
    client = [sys.executable, str(HERE / "everything.py"), "2025-06-18", place]
    done = subprocess.run(
        [*command, *wanted, "--format", "json", "--output", str(kept), "--", *client],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(kept.read_text())
    verdicts = {each["id"]: each["verdict"] for each in report["results"]}
    assert verdicts["ping.response.prompt"] == "pass"
    assert "fail" not in verdicts.values()
    assert not any(id.startswith("tools") for id in verdicts)


def test_a_client_that_never_connects_cannot_be_checked():
    command = [sys.executable, "-m", "accord.cli.main", "check", "client", "--"]
    client = [sys.executable, "-c", "import sys; sys.exit('no such server')", "{url}"]
    done = subprocess.run([*command, *client], capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert b"never connected" in done.stderr
    assert b"no such server" in done.stderr


def test_a_client_that_never_ends_is_stopped_and_judged():
    script = (
        "import sys, time, urllib.request as u;"
        "u.urlopen(u.Request(sys.argv[1], b'{}', {'Accept': 'application/json'}));time.sleep(60)"
    )
    plan = ClientPlan(
        command=[sys.executable, "-c", f"try:\n {script}\nexcept OSError: time.sleep(60)", "{url}"],
        timeout=1.0,
        plays=["none"],
        revisions=["2025-06-18"],
    )
    assert breaches(asyncio.run(check_client(plan)))["http.client.accept-both"]


def test_the_place_of_the_server_may_be_part_of_a_word():
    script = "import sys; sys.exit(0 if sys.argv[1].startswith('--to=http://127') else 9)"
    plan = ClientPlan(command=[sys.executable, "-c", script, "--to={url}"], plays=["none"])
    with pytest.raises(Exception, match="exit code 0"):
        asyncio.run(check_client(plan))
