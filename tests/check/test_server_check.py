"""Checks of whole servers: revisions, requirements and reports."""

import asyncio
from collections import Counter

import pytest
from msgspec.structs import replace

from accord.errors import ConnectFailed
from accord.protocol.catalogue import catalogue
from accord.protocol.revisions import REQUESTS, REVISIONS
from accord.testing import run_in_virtual_time
from accord_tools.check.scenarios.server import SCENARIOS
from accord_tools.check.server_check import ServerPlan, check_server, spoken_revisions
from accord_tools.check.verdicts import is_chosen
from accord_tools.reports.text import as_text
from check.mutants.everything import server
from check.mutants.foundation import Between, all_mutants, in_memory
from check.mutants.process import awkward
from support.check_targets import check_target

MUTANTS = all_mutants()
NEW, MIDDLE, OLD = "2025-06-18", "2025-03-26", "2024-11-05"


def checked(subject, **plan):
    async def run():
        async with asyncio.timeout(170):
            return await check_server(subject, ServerPlan(**plan))

    # A server in this process is never slow in virtual time, however busy the machine is.
    is_in_process = subject.carrier is not None
    return run_in_virtual_time(run()) if is_in_process else asyncio.run(run())


def in_process(hook=None):
    def carrier():
        wire = Between(server, {})
        if hook is not None:
            hook(wire)
        return wire

    return check_target(name="everything", carrier=carrier, patience=5, settling=0.05, at_once=32)


def by_id(report):
    return {result.id: result for result in report.results}


def test_only_selects_ids_and_their_beginnings():
    only = ["tools.list", "ping.*", "errors"]
    assert is_chosen("tools.list.method", only)
    assert is_chosen("ping.response.empty", only)
    assert is_chosen("errors.code.parse-error", only)
    assert not is_chosen("tools.listing", only)
    assert not is_chosen("tools.call.method", only)
    assert is_chosen("anything", ())


def test_the_revisions_that_a_server_speaks_are_found():
    assert asyncio.run(spoken_revisions(awkward("none"))) == [OLD, MIDDLE, NEW]


def test_a_server_is_asked_what_it_speaks_and_checked_in_the_same_process(tmp_path):
    launches = tmp_path / "launches"
    counting = ["sh", "-c", 'echo >> "$0"; exec "$@"', str(launches)]
    plain = awkward("none")
    subject = plain.reached_with(command=(*counting, *plain.spec.command))
    report = checked(subject, only=["errors.code.method-not-found"])
    assert [(each.verdict, each.revisions) for each in report.results] == [
        ("pass", (OLD, MIDDLE, NEW))
    ]
    assert len(launches.read_text()) == len(REVISIONS)


def test_a_good_server_passes_and_every_requirement_on_servers_has_a_verdict():
    report = checked(in_process(), revisions=[NEW])
    counts = Counter(result.verdict for result in report.results)
    assert (counts["fail"], counts["warn"]) == (0, 0)
    assert not report.has_failed
    assert report.score == 100
    bound = {"server", "both", "sender", "receiver", "authorization-server"}
    rows = [row for row in catalogue().values() if row.holds_in(NEW) and row.party in bound]
    assert {row.id for row in rows} == set(by_id(report))


def test_only_the_chosen_requirements_are_reported():
    report = checked(in_process(), revisions=[NEW], only=["ping", "errors.code.parse-error"])
    assert {result.id.split(".")[0] for result in report.results} == {"ping", "errors"}
    assert by_id(report)["errors.code.parse-error"].verdict == "pass"


@pytest.mark.parametrize(
    "name",
    [
        "ping.response.empty-says-pong",
        "jsonrpc.error.code-and-message-leaves-the-message-of-errors-out",
        "errors.code.parse-error-says-nothing-to-bad-text",
        "progress.value.increases-does-not-come-forward",
    ],
)
def test_a_violation_is_found_again_when_only_its_requirement_is_checked(name):
    mutant = MUTANTS[name]

    async def run():
        async with mutant.making() as subject, asyncio.timeout(170):
            return await check_server(
                subject, ServerPlan(revisions=[mutant.revision], only=[mutant.id])
            )

    report = asyncio.run(run())
    assert [(result.id, result.verdict in ("fail", "warn")) for result in report.results] == [
        (mutant.id, True)
    ]


def test_scenarios_for_other_requirements_are_not_run():
    tried = []

    async def run():
        plan = ServerPlan(revisions=[NEW], only=["errors.code.parse-error"])
        await check_server(in_process(), plan, step=lambda stage: tried.append(stage.scenario))

    asyncio.run(run())
    assert [each[:10] for each in tried] == ["sends text", ""]


@pytest.mark.parametrize(
    ("id", "most"),
    [
        ("ping.response.empty", 1),
        ("prompts.message.role", 2),
        ("tools.call.structured-conforms", 25),
    ],
)
def test_only_scenarios_that_can_show_a_breach_to_the_monitor_are_run(id, most):
    tried = []

    async def run():
        plan = ServerPlan(revisions=[NEW], only=[id])
        await check_server(in_process(), plan, step=lambda stage: tried.append(stage.scenario))

    run_in_virtual_time(run())
    assert 1 <= len(tried[:-1]) <= most


@pytest.mark.parametrize("revision", [OLD, MIDDLE, NEW, "2025-11-25", "2026-07-28"])
def test_every_scenario_declares_the_requests_that_it_sends(revision):
    harmless = {"initialize", "server/discover", "ping"}
    harmless |= {"tools/list", "resources/list", "prompts/list"}
    sends = {each.name: {*each.sends} for each in SCENARIOS}
    undeclared = []
    stages = [""]

    def hook(wire):
        def record(message):
            name, method = stages[-1], message.get("method")
            is_judged = wire.connection.log.monitor is not None
            if is_judged and name and method in REQUESTS - harmless - sends[name]:
                undeclared.append((name, method))
            return message

        wire.from_client = record

    async def run():
        # One scenario at a time, so that a message belongs to the last one that began.
        subject = replace(in_process(hook), at_once=1)
        plan = ServerPlan(revisions=[revision])
        await check_server(subject, plan, step=lambda stage: stages.append(stage.scenario))

    run_in_virtual_time(run())
    assert len(stages) > sum(each.runs_in(revision) for each in SCENARIOS) / 2
    assert not undeclared


@pytest.mark.parametrize("name", [each.name for each in SCENARIOS if each.is_once])
def test_the_verdict_of_a_scenario_that_runs_once_holds_in_every_revision(name):
    (ids,) = {each.ids for each in SCENARIOS if each.name == name}
    rows = catalogue()
    *older, newest = [row.id for row in REVISIONS.values() if row.handshake]
    # The newest revision is checked first; what it does not have gets no verdict.
    lost = [id for id in ids if not rows[id].holds_in(newest)]
    assert [id for id in lost if any(rows[id].holds_in(revision) for revision in older)] == []


def test_the_worst_verdict_of_all_revisions_counts_and_says_where():
    def hook(wire):
        def from_server(message, request):
            if request.get("method") == "initialize" and "result" in message:
                wire.shared["revision"] = message["result"]["protocolVersion"]
            if request.get("method") == "ping" and wire.shared.get("revision") == MIDDLE:
                message["result"] = {"pong": 1}
            return message

        wire.from_server = from_server

    report = checked(in_process(hook), revisions=[NEW, MIDDLE], only=["ping.response"])
    empty = by_id(report)["ping.response.empty"]
    assert (empty.verdict, empty.revisions) == ("fail", (MIDDLE, NEW))
    assert f"(in {MIDDLE})" in empty.message
    assert by_id(report)["ping.response.prompt"].verdict == "pass"
    assert report.has_failed


def test_a_capability_that_was_not_declared_is_not_applicable():
    results = by_id(checked(awkward("none"), revisions=[NEW], only=["resources", "prompts"]))
    judged = Counter(result.verdict for result in results.values())
    assert set(judged) <= {"not-applicable", "not-exercised"}
    assert results["resources.list.array"].verdict == "not-applicable"


def test_a_violation_has_the_messages_that_show_it():
    mutant = MUTANTS["errors.code.method-not-found-calls-an-unknown-method-an-internal-error"]

    async def run():
        async with mutant.making() as subject:
            return await check_server(subject, ServerPlan(revisions=[NEW], only=[mutant.id]))

    found = by_id(asyncio.run(run()))[mutant.id]
    assert "expected error -32601" in found.message
    shown = [each.message for each in found.evidence if each.message]
    assert any("accord-check/no-such-method" in text for text in shown)
    assert any("-32603" in text for text in shown)
    [marked] = [each for each in found.evidence if each.pointer is not None]
    assert (marked.party, marked.pointer) == ("server", "/error/code")
    assert marked.message[slice(*marked.mark)] == "-32603"


@pytest.mark.parametrize(
    ("name", "proof"),
    [
        (
            "logging.message.min-level-logs-at-any-level",
            ['"method":"logging/setLevel"', '"result":{}', '"method":"notifications/message"'],
        ),
        (
            "lifecycle.version.server-echoes-insists-on-another-revision",
            ['"method":"initialize"', '"protocolVersion":"2025-03-26"'],
        ),
        ("jsonrpc.request.answered-forgets-a-request-among-many", ['"method":"tools/list"']),
        (
            "errors.code.parse-error-calls-bad-text-an-internal-error",
            ['"method": "ping"', '"code":-32603'],
        ),
    ],
)
def test_the_evidence_is_the_request_and_its_wrong_answer_alone(name, proof):
    mutant = MUTANTS[name]

    async def run():
        async with mutant.making() as subject, asyncio.timeout(1700):
            return await check_server(
                subject, ServerPlan(revisions=[mutant.revision], only=[mutant.id])
            )

    (result,) = run_in_virtual_time(run()).results
    shown = [each.message for each in result.evidence if each.message]
    assert len(shown) == len(proof), shown
    for text, part in zip(shown, proof, strict=True):
        assert part in text
    if "server-echoes" in name:
        assert result.evidence[-1].pointer == "/result/protocolVersion"


def test_one_broken_tool_among_many_is_marked_and_shown_alone():
    def hook(wire):
        def from_server(message, request):
            if request.get("method") == "tools/list":
                [tool, *_] = message["result"]["tools"]
                tools = [{**tool, "name": f"tool_{number}"} for number in range(100)]
                tools[50]["inputSchema"] = {"type": "array"}
                message["result"]["tools"] = tools
            return message

        wire.from_server = from_server

    report = checked(in_process(hook), revisions=[NEW], only=["tools.item.input-schema"])
    [found] = report.results
    [shown] = found.evidence
    assert shown.pointer == "/result/tools/50/inputSchema/type"
    assert shown.message[slice(*shown.mark)] == '"array"'
    text = as_text(report)
    assert "     at:      /result/tools/50/inputSchema/type\n" in text
    assert ' >>> "array" <<< ' in text
    assert "tool_49" not in text


def test_the_same_mistake_on_many_connections_is_reported_once():
    def hook(wire):
        def from_server(message, request):
            if request.get("method") == "tools/list":
                for number, tool in enumerate(message["result"]["tools"]):
                    tool["title"] = number
            return message

        wire.from_server = from_server

    report = checked(in_process(hook), revisions=[NEW], only=["tools"])
    broken = [each for each in report.results if each.verdict in ("fail", "warn")]
    assert broken
    for each in broken:
        whys = [shown.why for shown in each.evidence]
        assert len(whys) == len(set(whys)) <= 5
        assert each.message.startswith(whys[0])
        assert "more like it)" in each.message or len(whys) == 1


def test_a_tool_that_destroys_is_not_called():
    called = []

    def hook(wire):
        def from_client(message):
            if message.get("method") == "tools/call":
                called.append(message.get("params", {}).get("name"))
            return message

        wire.from_client = from_client

    report = checked(in_process(hook), revisions=[NEW])
    assert "greet" in called
    assert "delete_everything" not in called
    left_alone = report.setting.not_called
    assert list(left_alone) == ["delete_everything"]
    assert "it may destroy something" in left_alone["delete_everything"]


# -- servers that misbehave: verdicts, never a crash


@pytest.mark.parametrize(
    ("habit", "patience", "reason"),
    [
        ("exits", 30, r"exit code 1.*no configuration"),
        ("floods", 30, "floods the connection"),
        ("hangs", 1, "did not arrive within"),
        ("speaks on stderr", 1, "it answers on standard error, not on standard output"),
    ],
)
def test_a_server_that_never_opens_a_conversation_cannot_be_reached(habit, patience, reason):
    with pytest.raises(ConnectFailed, match=reason):
        checked(awkward(habit, patience=patience, leaving=0.3))


def test_a_server_that_ends_at_once_cannot_be_reached_under_a_chosen_revision():
    with pytest.raises(ConnectFailed, match="no configuration"):
        checked(awkward("exits"), revisions=[NEW])


def test_a_server_that_crashes_in_use_gets_a_verdict():
    report = checked(awkward("crashes"), revisions=[NEW], only=["practice.server"])
    survival = by_id(report)["practice.server.survives-errors"]
    assert survival.verdict == "warn"
    assert "exit code 1" in survival.message


def test_a_server_that_hangs_gets_a_verdict_and_less_patience_from_then_on():
    def hook(wire):
        def from_client(message):
            # Ignores everything after the first odd message.
            wire.shared["deaf"] = wire.shared.get("deaf") or "no-such" in str(message.get("method"))
            return None if wire.shared["deaf"] else message

        wire.from_client = from_client

    async def run():
        async with in_memory(hook, patience=3)() as subject, asyncio.timeout(1700):
            return await check_server(subject, ServerPlan(revisions=[NEW]))

    results = by_id(run_in_virtual_time(run()))
    assert results["jsonrpc.request.answered"].verdict == "fail"
    assert len(results) > 200


def test_a_server_that_answers_under_other_ids_gets_less_patience_from_then_on():
    def hook(wire):
        def from_server(message, request):
            wire.shared["answers"] = wire.shared.get("answers", 0) + ("method" not in message)
            is_spoiled = "method" not in message and wire.shared["answers"] > 40
            return message | {"id": f"re {message['id']}"} if is_spoiled else message

        wire.from_server = from_server

    async def run():
        async with in_memory(hook, patience=3)() as subject:
            report = await check_server(subject, ServerPlan(revisions=[NEW]))
            return report, asyncio.get_running_loop().time()

    report, seconds = run_in_virtual_time(run())
    assert by_id(report)["jsonrpc.response.id-echo"].verdict == "fail"
    # With the whole patience it takes more than 80.
    assert seconds < 60


def test_a_scenario_that_crashes_on_an_odd_answer_is_not_exercised():
    def hook(wire):
        def from_server(message, request):
            if "error" in message:
                message["error"] = "text"
            return message

        wire.from_server = from_server

    report = checked(in_process(hook), revisions=[NEW], only=["errors", "jsonrpc.error"])
    verdicts = {result.id: result.verdict for result in report.results}
    assert verdicts.pop("jsonrpc.error.code-and-message") == "fail"
    assert verdicts["errors.code.method-not-found"] == "not-exercised"
    assert set(verdicts.values()) <= {"fail", "warn", "not-exercised", "not-applicable"}
