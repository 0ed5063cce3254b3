"""Checks of servers without a handshake: correct ones raise no alarm, and neither do odd ones.

Servers that break a requirement are in `check.mutants`.
"""

import asyncio
import base64
import json
import sys
from pathlib import Path

import pytest

from accord.testing import run_in_virtual_time
from accord_tools.check.server_check import ServerPlan, check_server
from accord_tools.check.verdicts import NO_PROBE
from check.mutants.everything import server as everything
from check.mutants.foundation import Between, found, in_memory, params_of
from check.mutants.rounds_server import server as rounds
from check.mutants.schema_server import server as schemas
from check.mutants.stateless_base import CALL, error, result, text
from support.check_targets import check_target

REVISION = "2026-07-28"
HERE = Path(__file__).parent


def check(hook, server=rounds, revision=REVISION):
    return run_in_virtual_time(found(in_memory(hook, server), revision))


def verdicts(hook, server=rounds, only=()):
    async def work():
        async with in_memory(hook, server)() as target:
            report = await check_server(target, ServerPlan(revisions=[REVISION], only=only))
            return {each.id: each for each in report.results}

    return run_in_virtual_time(work())


def nothing(wire: Between) -> None:
    pass


@pytest.mark.parametrize(
    ("server", "revision"),
    [
        pytest.param(everything, REVISION, id="everything"),
        pytest.param(rounds, REVISION, id="rounds"),
        pytest.param(schemas, REVISION, id="schemas"),
        pytest.param(schemas, "2025-11-25", id="schemas-with-a-handshake"),
    ],
)
def test_a_correct_server_raises_no_alarm(server, revision):
    assert check(nothing, server, revision) == {}


def breaches_of_a_process(script, *arguments):
    async def work():
        command = [sys.executable, str(script), *arguments]
        times = {"patience": 8, "settling": 0.1}
        target = check_target(name="process", command=command, **times)
        report = await check_server(target, ServerPlan(revisions=[REVISION]))
        return [each.id for each in report.results if each.verdict in ("fail", "warn")]

    return asyncio.run(work())


def test_a_correct_process_raises_no_alarm():
    assert breaches_of_a_process(HERE / "stateless_process.py", "none") == []


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["rounds_server", "schema_server"])
def test_correct_servers_raise_no_alarm_over_stdio(name):
    assert breaches_of_a_process(HERE / "mutants" / f"{name}.py") == []


# -- servers that are odd, and within their rights


def odd(change):
    """Return a hook that answers some requests by itself; `change` returns None for the others."""

    def hook(wire: Between) -> None:
        def from_client(message):
            answer = change(message) if "id" in message and "method" in message else None
            if answer is None:
                return message
            wire.later(0, lambda: wire.to_client(answer))
            return None

        wire.from_client = from_client

    return hook


def responses_of(message):
    given = params_of(message).get("inputResponses")
    return given if isinstance(given, dict) else {}


@pytest.mark.requirement("mrtr.state.reject-tampered", "mrtr.state.integrity")
def test_a_state_that_nothing_depends_on_may_be_altered():
    def change(message):
        if message["method"] != CALL or params_of(message).get("name") != "get_ticket":
            return None
        if responses_of(message):
            return text(message, "a ticket")
        state = base64.b64encode(b'{"step": 1, "user": "guest"}').decode()
        asked = {"roots": {"method": "roots/list"}}
        return result(message, resultType="input_required", inputRequests=asked, requestState=state)

    names = ["mrtr.state"]
    found = verdicts(odd(change), only=names)
    assert [id for id, each in found.items() if each.verdict in ("fail", "warn")] == []


@pytest.mark.requirement("mrtr.server.protocol-error-on-malformed")
def test_a_server_may_ask_again_when_answers_are_malformed():
    def hook(wire: Between) -> None:
        def from_client(message):
            params = params_of(message)
            given = params.get("inputResponses")
            entries = given.values() if isinstance(given, dict) else [given]
            if "inputResponses" in params and not all(isinstance(each, dict) for each in entries):
                return message | {"params": params | {"inputResponses": {}}}
            return message

        wire.from_client = from_client

    assert check(hook) == {}


@pytest.mark.requirement("elicitation.server.handles-decline")
def test_an_error_that_names_the_refusal_handles_it():
    def change(message):
        refused = {"decline", "cancel"} & {
            each.get("action") for each in responses_of(message).values()
        }
        if message["method"] == CALL and refused:
            return error(message, -32603, "the user declined")
        return None

    assert "elicitation.server.handles-decline" not in check(odd(change))


@pytest.mark.requirement("capability.missing-error-code")
def test_a_tool_may_say_in_its_result_that_it_cannot_ask():
    found = verdicts(nothing, everything, only=["capability", "mrtr.result"])
    assert found["capability.undeclared-not-used"].verdict == "pass"
    assert found["mrtr.result.declared-capabilities-only"].verdict == "pass"


@pytest.mark.requirement("tools.list.not-per-connection")
def test_a_list_that_changes_over_time_is_not_exercised():
    count = [0]

    def hook(wire: Between) -> None:
        def from_server(message, request):
            tools = (message.get("result") or {}).get("tools")
            if request.get("method") == "tools/list" and tools:
                count[0] += 1
                tools.append(tools[0] | {"name": f"get_time_{count[0]}"})
            return message

        wire.from_server = from_server

    found = verdicts(hook, only=["tools.list"])
    assert found["tools.list.not-per-connection"].verdict == "not-exercised"
    assert found["tools.list.deterministic-order"].verdict == "pass"


@pytest.mark.requirement("resources.read.not-found-32602")
def test_reads_of_any_uri_leave_missing_resources_not_exercised():
    def change(message):
        uri = str(params_of(message).get("uri"))
        if message["method"] != "resources/read" or "accord-check" not in uri:
            return None
        contents = [{"uri": uri, "text": "anything"}]
        return result(message, contents=contents, ttlMs=0, cacheScope="private")

    found = verdicts(odd(change), only=["resources.read"])
    assert found["resources.read.not-found-32602"].verdict == "not-exercised"
    assert found["resources.read.no-empty-for-missing"].verdict == "pass"


@pytest.mark.requirement("schema.dialect.default-2020-12")
def test_a_server_that_validates_nothing_is_not_blamed_for_its_dialect():
    def change(message):
        return text(message) if message["method"] == CALL else None

    found = verdicts(odd(change), schemas, only=["schema.dialect", "tools.server"])
    assert found["schema.dialect.default-2020-12"].verdict == "not-exercised"
    assert found["tools.server.validates-inputs"].verdict == "fail"


@pytest.mark.requirement("mrtr.state.expiry")
def test_a_row_without_a_probe_says_so():
    found = verdicts(nothing, only=["mrtr.state"])
    assert found["mrtr.state.expiry"].message == NO_PROBE


@pytest.mark.requirement("jsonrpc.request.answered")
def test_a_server_that_ends_is_reported_without_a_handshake_too():
    def hook(wire: Between) -> None:
        def from_client(message):
            if message.get("method") == "accord-check/no-such-method":
                wire.crash()
                return None
            return message

        wire.from_client = from_client

    assert "jsonrpc.request.answered" in check(hook)


def seals_every_other_state(wire: Between) -> None:
    """Let every other state be readable, and refuse one that was altered."""
    states: dict[str, str] = {}

    def from_server(message, request):
        found = message.get("result")
        if isinstance(found, dict) and "requestState" in found:
            number, state = len(states), found["requestState"]
            shown = {"a": number, "b": "x", "c": "y", "d": "z"}
            found["requestState"] = state if number % 3 == 1 else json.dumps(shown)
            states[found["requestState"]] = state
        return message

    def from_client(message):
        given = params_of(message).get("requestState")
        if given is not None:
            message["params"]["requestState"] = states.get(given, "altered")
        return message

    wire.from_client, wire.from_server = from_client, from_server


def test_states_of_several_kinds_are_all_altered(caplog):
    verdict = verdicts(seals_every_other_state, only=["mrtr.state"])
    for id in ("mrtr.state.reject-tampered", "mrtr.state.untrusted", "mrtr.state.integrity"):
        assert verdict[id].verdict == "pass", verdict[id].message
    assert "the scenario" not in caplog.text
