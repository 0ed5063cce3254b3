"""Contract tests of whole servers: good ones pass, and each broken contract is found."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta

from accord import Server, ToolError
from accord.types import ToolAnnotations
from accord_tools.arguments.shape import KnownValues, Shape
from accord_tools.contract import ContractBroken, check_contract
from accord_tools.contract.runner import TestRun, plan_tests, run_tests
from accord_tools.contract.tested_server import CallCommand, ContractRules, TestedServer
from support.waiting import LONG

LOOSE = Path(__file__).parent / "loose.py"
VALID = "count answers valid arguments"
# For each habit: the test that fails, the smallest input, and the answer.
BROKEN = {
    "faulty": (VALID, '{"a": 7}', "error -32603: boom"),
    "misfit": (VALID, '{"a": 40}', '"forty"'),
    "unstructured": (VALID, '{"a": 0, "tag": "0"}', "without structured content"),
    "dies": (VALID, '{"a": 13}', "the connection ended"),
    "hangs": (VALID, '"a"', "no answer within 0.3 s"),
    "image": (VALID, '{"a": 0}', "image/png content is not base64"),
    "block": (VALID, '{"a": 0}', "hologram"),
    "internal": ("count refuses a call without a", '{"tag": "text"}', "error -32603: traceback"),
    "optional": ("count refuses a call without a", '{"tag": "text"}', "accepted: "),
    "typeless": ("count refuses a of a wrong type", '{"a": "text", "tag": "text"}', "accepted: "),
    "boundless": ("count refuses a out of range", '{"a": 101, "tag": "text"}', "accepted: "),
    "additional": ("count refuses an unknown argument", "accord_unknown", "accepted: "),
    "unreadable": ("resource note://1 can be read", "note://1", "error -32603: disk"),
    "prompt": ("prompt hello answers", "hello", "error -32603: boom"),
    "lax-prompt": ("prompt hello refuses a request without name", "hello", "hello None"),
    "completion": ("completion of name of prompt hello answers", "name", "error -32603: boom"),
}


def command(habit: str) -> list[str]:
    return [sys.executable, "-S", "-E", str(LOOSE), habit]


def outcomes(habit: str, **rules) -> list[TestRun]:
    options = {"exit_grace": 0.1, "terminate_grace": 0.1}
    again = CallCommand(after=f" -- {shlex.join(command(habit))}")
    # Only a server that never answers uses up the patience.
    patience = 0.3 if habit == "hangs" else LONG
    with TestedServer(command(habit), options, patience=patience, command=again) as server:
        return run_tests(server, plan_tests(server, ContractRules(**rules))[0])


def failed(ran: list[TestRun]) -> dict[str, str]:
    return {each.test.name: each.outcome.failure.text() for each in ran if each.outcome.failure}


@pytest.mark.parametrize("habit", ["good", "invalid-params"])
def test_a_server_that_keeps_its_contract_passes_every_test(habit):
    ran = outcomes(habit)
    assert failed(ran) == {}
    assert {each.test.name for each in ran} == {
        VALID,
        "count answers arguments at their limits",
        "count refuses a call without a",
        "count refuses a of a wrong type",
        "count refuses a out of range",
        "count refuses tag of a wrong type",
        "count refuses tag out of range",
        "count refuses an unknown argument",
        "delete_all is not called",
        "resource note://1 can be read",
        "template note://{id} answers any value",
        "completion of id of note://{id} answers",
        "prompt hello answers",
        "prompt hello refuses a request without name",
        "completion of name of prompt hello answers",
        "count succeeds for some arguments",
    }


@pytest.mark.parametrize("habit", BROKEN)
def test_a_broken_contract_is_found_with_the_smallest_input(habit):
    name, given, came = BROKEN[habit]
    failures = failed(outcomes(habit))
    assert name in failures
    assert given in failures[name]
    assert came in failures[name]


def test_the_same_run_gives_the_same_outcome_and_another_seed_other_arguments():
    calls = []
    server = Server("seeds")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def find(text: str) -> str:
        """Find a text."""
        calls.append(text)
        return text

    def called(**how):
        calls.clear()
        check_contract(server, **how)
        return list(calls)

    # hypothesis draws from the constants of imported modules, and a first run imports some.
    called()
    first = called()
    assert called() == first
    assert called(seed=7) != first
    assert len(called(examples=5)) == len(first) - 20


def test_the_command_shown_repeats_the_failure():
    (text,) = (text for name, text in failed(outcomes("additional")).items() if "unknown" in name)
    again = text.partition("again:")[2].strip()
    assert again.startswith("accord call count --unchecked --json ")
    words = shlex.split(again)
    done = subprocess.run(
        [sys.executable, "-m", "accord.cli.main", *words[1:]],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert '"n"' in done.stdout  # accepted, as the test said


def test_a_tool_that_is_not_called_gives_the_reason():
    (skipped,) = (each for each in outcomes("good") if each.outcome.verdict == "skip")
    assert skipped.test.subject == "delete_all"
    assert "run with --tool" in skipped.outcome.why


def test_only_chosen_tools_are_called():
    names = [each.test.name for each in outcomes("good", tools=frozenset({"delete_all"}))]
    assert "count is not called" in names
    assert "delete_all answers valid arguments" in names


def test_an_unknown_chosen_tool_is_an_error():
    with pytest.raises(ValueError, match="unknown tool counts; the server has count, delete_all"):
        outcomes("good", tools=frozenset({"counts"}))


def test_check_contract_tests_a_server_in_memory():
    server = Server("desk")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def half(n: Annotated[int, Meta(ge=0)]) -> float:
        """Half a number; odd ones are refused, as a tool may."""
        if n % 2:
            raise ToolError("odd")
        return n / 2

    ran = check_contract(server)
    assert {each.outcome.verdict for each in ran} == {"pass"}


def test_a_broken_contract_is_an_assertion_that_shows_every_failure():
    with pytest.raises(ContractBroken) as raised:
        check_contract(command("completion"))
    assert str(raised.value) == (
        "2 of 16 tests failed\n\n"
        "completion of id of note://{id} answers\n"
        "  sent:     note://{id}, id, nothing typed\n"
        "  expected: a result, or an error other than an internal one\n"
        "  received: error -32603: boom\n\n"
        "completion of name of prompt hello answers\n"
        "  sent:     prompt hello, name, nothing typed\n"
        "  expected: a result, or an error other than an internal one\n"
        "  received: error -32603: boom"
    )


def test_arguments_for_durations_are_short():
    asked = []
    server = Server("naps")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def wait(seconds: Annotated[float, Meta(ge=0, le=600)] = 60) -> str:
        """Wait."""
        asked.append(seconds)
        return "done"

    check_contract(server)
    assert set(asked) == {0.2}


def test_a_server_that_cannot_be_reached_again_fails_the_remaining_tests(tmp_path):
    once = tmp_path / "once"
    start = f"test ! -e {once} && touch {once} && exec {shlex.join(command('dies'))}"
    options = {"exit_grace": 0.1, "terminate_grace": 0.1}
    with TestedServer(["sh", "-c", start], options, patience=LONG) as server:
        ran = run_tests(server, plan_tests(server, ContractRules())[0])
    texts = failed(ran)
    assert "a server that can be reached again" in texts["count refuses a call without a"]


# -- tools of which no call succeeds


def shop(find) -> Server:
    server = Server("shop")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def get_order(order_id: str) -> str:
        """Get an order."""
        return find(order_id)

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def list_orders() -> list[dict[str, str]]:
        """List the orders."""
        return [{"id": "A-17", "state": find("A-17")}]

    return server


def run_in_memory(server: Server, **rules) -> tuple[dict[str, TestRun], TestedServer]:
    with TestedServer(server, patience=LONG) as tested:
        ran = run_tests(tested, plan_tests(tested, ContractRules(**rules))[0])
    return {each.test.name: each for each in ran}, tested


def test_a_tool_without_arguments_that_always_fails_is_a_failure_and_others_a_warning():
    def find(order_id: str) -> str:
        raise ToolError(f"500 for {order_id}")

    ran, tested = run_in_memory(shop(find), examples=5)
    failure = ran["list_orders succeeds for some arguments"].outcome.failure
    assert failure is not None
    assert "a call that succeeds, for no argument is required" in failure.text()
    assert "500 for A-17" in failure.text()
    warned = ran["get_order succeeds for some arguments"].outcome
    assert (warned.verdict, "give examples" in warned.warning) == ("pass", True)
    counts = tested.limit.counts("get_order")
    assert (counts.succeeded, counts.calls - counts.refused) == (0, 0)
    assert [each.name for each in tested.limit.all_counts()] == ["get_order", "list_orders"]


def test_an_argument_takes_a_value_of_an_earlier_result():
    ran, tested = run_in_memory(shop({"A-17": "sent"}.__getitem__), examples=5)
    outcome = ran["get_order succeeds for some arguments"].outcome
    assert (outcome.verdict, outcome.warning) == ("pass", "")
    assert tested.limit.counts("get_order").succeeded >= 1


@pytest.mark.parametrize("key", ["examples", "enum", "default"])
def test_an_argument_takes_the_values_that_its_schema_names(key):
    named = "one" if key == "default" else ["none", "one"]
    schema = {"properties": {"name": {"type": "string", key: named}}, "required": ["name"]}
    shape = Shape({"type": "object", **schema})
    assert {"name": "one"} in shape.likely(KnownValues())


def test_an_argument_takes_the_uri_or_the_path_of_a_resource():
    known = KnownValues()
    known.note_resource({"uri": "file:///a%20b.txt"})
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    assert {"path": "/a b.txt"} in Shape(schema).likely(known)
    assert known.of("uri") == ["file:///a%20b.txt"]
