"""The audit finds each kind of fault in a history that was correct before."""

import copy
from typing import Any

import pytest

from support.scale.audit import check_client
from support.scale.calls import Call
from support.scale.history import explain_call
from support.scale.ledger import Step
from support.scale.raw_client import RawClient
from support.scale.recordings import Attempt, SeenEvent, StreamView

pytestmark = pytest.mark.integration

KEY = "c/1"


def log(run: str, number: int, at: float, key: str = KEY) -> SeenEvent:
    params = {"level": "info", "data": f"{key}|{run}|{number}"}
    message = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
    return SeenEvent(at, 1, 0, f"{run}-{number}", message)


def response(run: str, total: int, at: float) -> SeenEvent:
    result = {"content": [{"type": "text", "text": f"{KEY}|{run}|{total}"}]}
    return SeenEvent(at, 1, 0, f"{run}-end", {"jsonrpc": "2.0", "id": 1, "result": result})


def history(*runs: tuple[str, int], tool: str = "repeatable") -> tuple[Call, list[Step]]:
    """A call that ran so often, each run with so many events that were seen; the last one ended."""
    view, steps, at = StreamView("view"), [], 0.0
    for run, total in runs:
        steps.append(Step(KEY, run, 1, "begin", None, at))
        for number in range(1, total + 1):
            at += 1.0
            steps.append(Step(KEY, run, 1, "send", number, at - 0.5))
            view.seen.append(log(run, number, at))
    last, total = runs[-1]
    steps.append(Step(KEY, last, 1, "end", total, at))
    view.seen.append(response(last, total, at + 1))
    call = Call(KEY, 1, "tools/call", tool, view, outcome="answered")
    call.responses.append(view.seen[-1].message)
    return call, steps


@pytest.mark.parametrize("runs", [[("a", 3)], [("a", 2), ("b", 4)], [("a", 0), ("b", 3)]])
def test_a_whole_stream_is_explained(runs: Any) -> None:
    assert explain_call(*history(*runs)) == []


def drop(call: Call, steps: list[Step]) -> None:
    del call.view.seen[3]


def double(call: Call, steps: list[Step]) -> None:
    call.view.seen.insert(1, copy.deepcopy(call.view.seen[0]))


def double_with_new_id(call: Call, steps: list[Step]) -> None:
    double(call, steps)
    call.view.seen[1].id = "other"


def swap(call: Call, steps: list[Step]) -> None:
    call.view.seen[0], call.view.seen[1] = call.view.seen[1], call.view.seen[0]


def mix_runs(call: Call, steps: list[Step]) -> None:
    seen = call.view.seen
    seen[1], seen[2] = seen[2], seen[1]


def lose_tail(call: Call, steps: list[Step]) -> None:
    del call.view.seen[-2]


def add_foreign(call: Call, steps: list[Step]) -> None:
    call.view.seen.insert(0, log("z", 1, 0.5, key="other/1"))


def forget_sending(call: Call, steps: list[Step]) -> None:
    steps.remove(next(step for step in steps if step.what == "send"))


def answer_twice(call: Call, steps: list[Step]) -> None:
    call.responses.append(call.responses[0])


def answer_other_id(call: Call, steps: list[Step]) -> None:
    call.responses[0] = {**call.responses[0], "id": 2}


def answer_with_earlier_run(call: Call, steps: list[Step]) -> None:
    call.responses[0] = response("a", 2, 9.0).message


def run_twice(call: Call, steps: list[Step]) -> None:
    call.tool = "stream"


FAULTS = [
    drop,
    double,
    double_with_new_id,
    swap,
    mix_runs,
    lose_tail,
    add_foreign,
    forget_sending,
    answer_twice,
    answer_other_id,
    answer_with_earlier_run,
    run_twice,
]


@pytest.mark.parametrize("break_history", FAULTS)
def test_a_fault_in_a_stream_is_found(break_history: Any) -> None:
    call, steps = history(("a", 2), ("b", 4))
    break_history(call, steps)
    assert explain_call(call, steps) != []


def client_with(call: Call) -> RawClient:
    client = RawClient(1, name="c")
    client.calls.append(call)
    return client


def rules(client: RawClient, steps: list[Step], *, has_faults: bool = False) -> set[str]:
    return {each.rule for each in check_client(client, {KEY: steps}, has_faults=has_faults)}


def test_a_client_that_saw_everything_has_no_problem() -> None:
    call, steps = history(("a", 3))
    assert rules(client_with(call), steps) == set()


@pytest.mark.parametrize("outcome", ["lost", "late", "open", "unknown", "refused", "cancelled"])
def test_a_call_without_a_response_is_found(outcome: str) -> None:
    call, steps = history(("a", 3))
    call.outcome = outcome
    assert "I1" in rules(client_with(call), steps, has_faults=True)


def test_a_refusal_before_the_first_event_is_a_problem_only_without_faults() -> None:
    call, _ = history(("a", 3))
    call.outcome, call.status, call.view.seen, call.responses = "refused", 503, [], []
    assert rules(client_with(call), [], has_faults=True) == set()
    assert rules(client_with(call), []) == {"I1"}


def test_a_lost_worker_is_a_problem_only_without_faults() -> None:
    call, steps = history(("a", 3))
    error = {"code": -32603, "message": "m", "data": {"reason": "worker-lost"}}
    call.responses[0] = {"jsonrpc": "2.0", "id": 1, "error": error}
    assert rules(client_with(call), steps, has_faults=True) == set()
    assert rules(client_with(call), steps) == {"I1"}


@pytest.mark.parametrize("got", ["c/1|a|1@other", "c/2|a|1@c", "c/1|a|2@c"])
def test_an_answer_that_reached_another_question_is_found(got: str) -> None:
    call = Call(KEY, 1, "tools/call", "ask", StreamView("view"), outcome="cancelled")
    call.was_cancelled = True
    steps = [
        Step(KEY, "a", 1, "begin", None, 0.0),
        Step(KEY, "a", 1, "ask", 1, 1.0),
        Step(KEY, "a", 1, "answer", got, 2.0),
    ]
    assert rules(client_with(call), steps) == {"I4"}
    steps[-1] = steps[-1]._replace(value="c/1|a|1@c")
    assert rules(client_with(call), steps) == set()


def test_a_session_that_a_worker_does_not_know_is_found() -> None:
    call, steps = history(("a", 3))
    client = client_with(call)
    client.attempts.append(Attempt(1, "POST", "quick", 0.0, status=404, worker=1))
    assert rules(client, steps) == {"404"}
    client.is_deleted = True
    assert rules(client, steps) == set()
