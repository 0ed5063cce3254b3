"""Servers that behave like those of other projects: allowed behaviour raises no alarm."""

import asyncio
import gc
import sys
from pathlib import Path

import pytest

from accord.errors import ConnectFailed
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.server_facts import ServerFacts
from accord_tools.check.server_check import ServerPlan, check_server
from check.foreign_http import serving
from check.mutants.foundation import all_mutants
from support.check_targets import check_target

FOREIGN = Path(__file__).parent / "foreign.py"
NEW, MIDDLE, OLD = "2025-06-18", "2025-03-26", "2024-11-05"


def foreign(*words, **settings):
    """Return a server of this kind; it starts within milliseconds."""
    command = [sys.executable, "-S", "-E", str(FOREIGN), *words]
    times = {"patience": 5, "settling": 0.1, "leaving": 2}
    return check_target(name=words[0], command=command, **{**times, **settings})


def check(subject, *revisions, only=()):
    async def run():
        async with asyncio.timeout(170):
            return await check_server(subject, ServerPlan(revisions=revisions, only=only))

    return asyncio.run(run())


def breaches(report):
    return {
        each.id: f"{each.verdict}: {each.message}"
        for each in report.results
        if each.verdict in ("fail", "warn")
    }


def by_id(report):
    return {each.id: each for each in report.results}


# -- a request to the client that all calls wait for


def test_a_server_whose_calls_wait_for_its_own_request_is_not_reported_as_silent():
    report = check(foreign("asks first", patience=2), NEW)
    assert breaches(report) == {}
    assert by_id(report)["jsonrpc.request.answered"].verdict == "pass"


# -- answers after the patience of the check


def test_a_late_tool_and_a_late_resource_are_not_violations():
    report = check(foreign("late", "2.5", patience=2), NEW)
    assert breaches(report) == {}
    assert by_id(report)["resources.contents.uri"].verdict == "pass"
    assert "took longer than" in report.setting.not_called["search_users"]


def test_a_tool_and_a_resource_that_never_answer_are_not_exercised():
    report = check(foreign("late", "never", patience=2), NEW)
    results = by_id(report)
    assert breaches(report) == {}
    assert results["resources.contents.uri"].verdict == "not-exercised"
    assert "resources/read did not arrive within" in results["resources.contents.uri"].message
    assert "search_users" in report.setting.not_called


# -- revisions


def test_a_revision_that_the_server_does_not_speak_is_not_checked():
    with pytest.raises(ConnectFailed, match=f"does not speak {NEW}; it speaks {MIDDLE}"):
        check(foreign("one revision"), NEW)
    report = check(foreign("one revision"), MIDDLE, only=["lifecycle.version"])
    assert breaches(report) == {}


def test_the_error_names_all_chosen_revisions_that_the_server_does_not_speak():
    with pytest.raises(ConnectFailed, match=f"does not speak {OLD}, {NEW}; it speaks {MIDDLE}"):
        check(foreign("one revision"), OLD, MIDDLE, NEW)


def test_the_error_for_a_server_that_refuses_its_own_revision_names_it():
    for revisions in ((), (NEW,)):
        with pytest.raises(ConnectFailed) as caught:
            check(foreign("modern", "refuse"), *revisions)
        told = str(caught.value)
        assert "modern names 2026-07-28 as supported, but refuses to begin a conversation" in told
        assert "--transport" not in told


def test_a_server_without_a_handshake_is_checked():
    report = check(foreign("modern", "discover"), only=["discover"])
    assert report.setting.revisions == ("2026-07-28",)
    with pytest.raises(ConnectFailed, match=f"does not speak {NEW}; it speaks 2026-07-28"):
        check(foreign("modern", "discover"), NEW)


@pytest.mark.parametrize("revisions", [(), (NEW,)])
def test_a_server_that_never_answers_initialize_cannot_be_reached(revisions):
    with pytest.raises(ConnectFailed, match="an answer to initialize did not arrive within"):
        check(foreign("deaf", patience=0.3), *revisions)


# -- levels


def test_a_declared_capability_without_its_methods_is_one_breach_of_the_right_clause():
    report = check(foreign("no reading"), NEW)
    found = breaches(report)
    assert list(found) == ["lifecycle.capabilities.respected"]
    assert (
        "declares resources and does not know resources/list"
        in found["lifecycle.capabilities.respected"]
    )
    proof = by_id(report)["lifecycle.capabilities.respected"].evidence
    shown = [each.message for each in proof if each.message]
    assert len(shown) == 2
    assert '"method":"resources/list"' in shown[0]
    assert "-32601" in shown[1]


# -- batches


def test_a_failure_on_an_unknown_notification_in_a_batch_is_not_blamed_on_batches():
    report = check(foreign("plain"), MIDDLE, only=["jsonrpc.batch"])
    told = by_id(report)["jsonrpc.batch.receive"]
    assert told.verdict == "fail"
    assert "a batch with an unknown notification (it answers plain batches)" in (told.message)


# -- copies


@pytest.mark.parametrize("revisions", [(), (NEW,)])
def test_a_server_that_owns_a_port_is_launched_one_at_a_time(revisions, tmp_path):
    subject = foreign("one port", str(tmp_path / "port"))
    report = check(subject, *revisions, only=["lifecycle", "tools"])
    assert breaches(report) == {}
    (note,) = report.setting.notes
    assert "launched one at a time" in note
    assert "in use" in note
    assert report.setting.revisions == (revisions or (OLD, MIDDLE, NEW))
    silent = [each.message for each in report.results if "did not start" in each.message]
    assert silent == []


def test_a_server_whose_second_copy_waits_for_the_first_is_launched_one_at_a_time(tmp_path):
    subject = foreign("one lock", str(tmp_path / "lock"), patience=2)
    report = check(subject, NEW, only=["lifecycle"])
    assert breaches(report) == {}
    assert "launched one at a time" in report.setting.notes[0]


def test_the_option_launches_a_server_one_at_a_time(tmp_path):
    subject = foreign("one port", str(tmp_path / "port"), one_at_a_time=True, at_once=1)
    report = check(subject, NEW, only=["lifecycle", "jsonrpc"])
    assert breaches(report) == {}
    assert report.setting.notes == ()


# -- servers that take long to start


def test_a_copy_that_starts_slowly_is_not_reported_as_silent(tmp_path):
    subject = foreign("slow copies", str(tmp_path / "launches"), patience=3)
    ids = ["ping.response.prompt", "lifecycle.errors.handled"]
    report = check(subject, NEW, only=ids)
    assert breaches(report) == {}
    assert "one more copy of the server did not start" in (
        by_id(report)["lifecycle.errors.handled"].message
    )


def test_patience_grows_with_the_time_a_server_takes_to_start():
    subject = foreign("plain", patience=5)
    assert (subject.start_patience, subject.adapt_times().patience) == (20, 5)
    subject.habits.startup_seconds = 16.0
    assert (subject.start_patience, subject.adapt_times().patience) == (64, 16)


def test_a_server_that_hung_before_gets_the_same_time_to_start():
    subject = foreign("plain", patience=5)
    probe = Probe(subject, ServerFacts(revision=NEW, transport="stdio"), subject.connection())
    for _ in range(4):
        probe.lose_patience()
    assert probe.target.patience == 1
    assert asyncio.run(probe._launch(is_judged=False)).longest == 20


# -- processes


def test_a_process_that_ends_late_gets_a_warning():
    subject = foreign("ends at 1.0", "7", patience=2, leaving=30)
    found = breaches(check(subject, NEW, only=["errors", "practice.server"]))
    assert list(found) == ["practice.server.survives-errors"]
    assert "ends after a request of JSON-RPC 1.0" in found["practice.server.survives-errors"]


@pytest.mark.requirement("cancellation.races", "practice.server.survives-errors")
def test_a_server_that_ends_by_itself_is_not_blamed_for_its_end():
    subject = foreign("no database", "1.5", patience=5)
    report = check(subject, NEW, only=["cancellation", "errors.code.parse-error"])
    assert breaches(report) == {}
    (note,) = report.setting.notes
    assert "ends by itself (the server ended with exit code 1" in note


# -- over HTTP


def test_a_refusal_in_plain_text_is_not_a_violation():
    with serving() as server:
        report = check(check_target(name="text", url=server.url, settling=0.1), NEW)
    results = by_id(report)
    assert results["jsonrpc.message.version-2-0"].verdict == "pass"
    assert "expected error -32601" in results["errors.code.method-not-found"].message
    assert {id: told for id, told in breaches(report).items() if told.startswith("fail")} == {}


@pytest.mark.requirement("auth.http.oauth-flow", "auth.prm.server", "auth.token.validated")
def test_a_server_with_keys_of_its_own_is_not_held_to_the_rules_of_oauth():
    with serving(asks_for_key=True) as server:
        report = check(check_target(name="keys", url=server.url, settling=0.1), NEW, only=["auth"])
    found = breaches(report)
    # HTTP itself asks for the header of the second one.
    assert list(found) == ["auth.http.oauth-flow", "auth.challenge.www-authenticate"]
    assert found["auth.http.oauth-flow"].startswith(
        "warn: asks for something that it does not name"
    )


def test_the_evidence_of_a_foreign_origin_is_its_request():
    mutant = all_mutants()["http.origin.validated-welcomes-every-origin"]

    async def run():
        async with mutant.making() as subject, asyncio.timeout(170):
            return await check_server(subject, ServerPlan(revisions=[NEW], only=[mutant.id]))

    shown = by_id(asyncio.run(run()))[mutant.id].evidence[1:]
    assert [each.party for each in shown] == ["client", "server"]
    assert "origin: " in shown[0].why
    assert '"method":"initialize"' in shown[0].message
    assert '"protocolVersion"' in shown[1].message


def test_a_server_over_http_that_does_not_answer_leaves_no_task_behind():
    told = []

    async def run(server):
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: told.append(context["message"])
        )
        async with check_target(name="silent", url=server.url).connection(is_judged=False) as line:
            await line.initialize(NEW)
            await line.start("tools/call", {"name": "get_time", "arguments": {}})
            assert await asyncio.to_thread(server.reached.wait, 30)
        # A task without a reference is reported when it is collected.
        del line
        gc.collect()

    with serving("tools/call") as server:
        asyncio.run(asyncio.wait_for(run(server), 60))
    assert told == []
