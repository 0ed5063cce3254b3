"""accord's own client under check: every transport and revision, without violations."""

import asyncio
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from accord import connect
from accord.client.negotiation import KNOWN_SERVERS
from accord.protocol.catalogue import catalogue
from accord.testing import run_in_virtual_time
from accord_tools.check.client_check import UNSEEN, ClientPlan, _faulty_servers, check_client
from accord_tools.check.verdicts import NO_PROBE
from check.client import everything

HERE = Path(__file__).parent
NEW, OLD, OLDEST = "2025-06-18", "2025-03-26", "2024-11-05"
LATER, STATELESS = "2025-11-25", "2026-07-28"


def checked(over, revision, scenarios=(), **how):
    async def client(place):
        # As in a process of its own.
        KNOWN_SERVERS.clear()
        return await everything.run(place.url or place.command, revision, **how)

    plan = ClientPlan(
        command=["{server}" if over == "stdio" else "{url}"],
        transport="sse" if over == "sse" else "http",
        revisions=[] if revision == "any" else [revision],
        client=client,
        timeout=30,
        at_once=4,
        scenarios=scenarios,
    )
    # Relays are processes, and blocking clients threads: both take real time.
    is_real = over == "stdio" or how.get("is_blocking")
    return (asyncio.run if is_real else run_in_virtual_time)(check_client(plan))


def breaches(report):
    return {each.id: each.message for each in report.results if each.verdict in ("fail", "warn")}


def thorough(*given):
    return pytest.param(*given, marks=pytest.mark.thorough)


@pytest.mark.parametrize(
    ("over", "revision", "form"),
    [
        ("stdio", NEW, "async"),
        ("sse", OLDEST, "async"),
        ("http", OLD, "blocking"),
        ("http", NEW, "async"),
        thorough("stdio", OLDEST, "async"),
        thorough("stdio", OLD, "async"),
        thorough("stdio", NEW, "blocking"),
        thorough("sse", OLD, "async"),
        thorough("sse", NEW, "blocking"),
        thorough("http", OLD, "async"),
        thorough("http", NEW, "blocking"),
    ],
)
def test_the_client_exercises_every_requirement_and_violates_none(over, revision, form, caplog):
    caplog.set_level(logging.CRITICAL)
    report = checked(over, revision, is_blocking=form == "blocking")
    assert breaches(report) == {}
    # What only a client does that cannot answer.
    failing = checked(over, revision, ("SendsEveryRequest",), mood="failing")
    assert breaches(failing) == {}
    left = unseen(report) & unseen(failing)
    assert left == {id for id in left if catalogue()[id].check == "human"}


@pytest.mark.parametrize(
    ("over", "revision", "mood"),
    [
        ("http", STATELESS, "willing"),
        ("http", LATER, "able"),
        thorough("stdio", STATELESS, "able"),
        thorough("http", STATELESS, "able"),
        thorough("http", STATELESS, "failing"),
        thorough("http", LATER, "willing"),
        thorough("stdio", STATELESS, "willing"),
        thorough("stdio", LATER, "able"),
        thorough("http", "any", "willing"),
        thorough("stdio", "any", "willing"),
    ],
)
def test_the_client_violates_nothing_under_later_revisions(over, revision, mood, caplog):
    caplog.set_level(logging.CRITICAL)
    report = checked(over, revision, mood=mood)
    assert breaches(report) == {}
    unprobed = {each.id for each in report.results if each.message == NO_PROBE}
    assert {id for id in unprobed if not id.startswith("auth.")} == set()


def test_the_client_exercises_every_requirement_of_the_revision_without_a_handshake(caplog):
    caplog.set_level(logging.CRITICAL)
    reports = [checked("http", STATELESS, mood=mood) for mood in ("willing", "able")]
    reports.append(checked("stdio", STATELESS))
    left = set.intersection(*map(unseen, reports))
    rows = {id for id in left if catalogue()[id].check != "human" and not id.startswith("auth.")}
    # What this program does not do: it fetches no icons, polls nothing and sends no traces.
    assert rows - set(UNSEEN) == {
        "caching.client.negative-is-zero",
        "caching.client.poll-with-jitter",
        "caching.client.refetch-when-stale",
        "elicitation.result.url-no-content",
        "icons.consumer.no-credentials",
        "icons.consumer.no-cross-origin-redirect",
        "icons.consumer.reject-unsafe-scheme",
        "icons.consumer.same-origin",
        "icons.src-required",
        "otel.value-formats",
        "result.type.unknown-is-invalid",
        "tasks-ext.cancel.not-by-notification",
    }


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ("mrtr.client.echo-state", {"AsksInRounds"}),
        ("stdio.crash", {"Crashes"}),
        ("caching.client.absent-is-zero", {"LetsResultsBeKept", "NamesOddLifetimes"}),
        ("sampling.result.role", {"AsksInRounds", "AsksForUndeclared"}),
        ("http.version-header", set()),
    ],
)
def test_only_servers_that_can_see_a_chosen_requirement_are_met(only, names):
    plan = ClientPlan(command=["{server}"], revisions=[STATELESS], only=[only])
    servers = _faulty_servers(plan, {"stateless"})
    met = {type(each).__name__ for each in servers}
    assert met == names


def test_a_client_of_one_era_meets_no_faulty_server_of_the_other():
    plan = ClientPlan(command=["{url}"])
    handshake, stateless = (
        {type(each).__name__ for each in _faulty_servers(plan, {era})}
        for era in ("handshake", "stateless")
    )
    assert "SendsEveryRequest" in handshake - stateless
    assert "AsksInRounds" in stateless - handshake
    assert "RefusesDiscoveryWithAnotherCode" not in handshake | stateless


def unseen(report):
    return {each.id for each in report.results if each.verdict == "not-exercised"}


def test_a_report_covers_only_the_chosen_revisions(caplog):
    caplog.set_level(logging.CRITICAL)

    async def client(place):
        async with connect(place.url) as client:
            await client.list_tools()
        return 0

    plan = ClientPlan(
        command=["{url}"],
        revisions=[NEW],
        client=client,
        timeout=20,
        scenarios=["ChoosesNewestRevision"],
    )
    report = asyncio.run(check_client(plan))
    assert report.setting.revisions == (NEW,)
    verdicts = {each.id: each.verdict for each in report.results}
    assert verdicts["stdio.client.supported"] == "not-applicable"
    assert verdicts["sampling.result.role"] == "not-applicable"
    assert verdicts["lifecycle.version.client-prefers-latest"] == "pass"


def test_requirements_that_only_a_person_can_see_are_reported_as_not_exercised(caplog):
    caplog.set_level(logging.CRITICAL)
    report = checked("stdio", NEW, ("DeclaresNoCapabilities",))
    verdicts = {each.id: (each.verdict, each.message) for each in report.results}
    said = ("not-exercised", "it takes a person to see this")
    assert verdicts["tools.consent.before-invocation"] == said


def test_a_client_without_capabilities_refuses_requests_with_errors(caplog):
    caplog.set_level(logging.CRITICAL)
    report = checked("stdio", NEW, ("SendsInvalidRequests",), mood="silent")
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
    done = subprocess.run([*command, *client], capture_output=True, timeout=120, check=False)
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
        scenarios=["none"],
        revisions=["2025-06-18"],
    )
    assert breaches(asyncio.run(check_client(plan)))["http.client.accept-both"]


def test_a_client_that_starts_slowly_still_gets_its_whole_timeout():
    async def client(place):
        await asyncio.sleep(1.0)
        return await everything.run(place.url, NEW)

    plan = ClientPlan(
        command=["{url}"], revisions=[NEW], client=client, timeout=0.9, scenarios=["none"]
    )
    verdicts = {each.id: each.verdict for each in run_in_virtual_time(check_client(plan)).results}
    assert verdicts["http.client.accept-both"] == "pass"


def test_the_url_may_be_part_of_an_argument():
    script = "import sys; sys.exit(0 if sys.argv[1].startswith('--to=http://127') else 9)"
    plan = ClientPlan(command=[sys.executable, "-c", script, "--to={url}"], scenarios=["none"])
    with pytest.raises(Exception, match="exit code 0"):
        asyncio.run(check_client(plan))
