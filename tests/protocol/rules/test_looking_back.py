"""Rules that look back follow a chain of messages."""

from support.questions import CALL, CAPABILITIES
from support.traces import META, C, S, Said, judge

TAG = f"{META}subscriptionId"


def _reported(said: list[Said], revision: str = "2026-07-28") -> list[str]:
    _, found = judge(said, revision, client=CAPABILITIES, server={"tools": {}})
    return [violation.requirement for violation in found]


def _asked(id: int, state: str) -> Said:
    return S.result(id, {"resultType": "input_required", "requestState": state})


def _call(id: int, **members: object) -> Said:
    return C.request(id, "tools/call", {**CALL, **members})


def test_an_id_stays_used_over_all_rounds_of_a_request() -> None:
    said = [_call(1), _asked(1, "a"), _call(2, requestState="a"), _asked(2, "b")]
    assert _reported([*said, _call(3, requestState="b")]) == []
    assert _reported([*said, _call(1, requestState="b")]) == ["mrtr.client.new-id"]


def test_a_new_request_may_use_an_old_id() -> None:
    assert _reported([_call(1), _asked(1, "a"), _call(1)]) == []


def test_answers_without_a_state_are_matched_by_the_params_of_the_request() -> None:
    asked = {"inputRequests": {"q": {"method": "roots/list"}}, "requestState": "a"}
    said = [_call(1), S.result(1, {"resultType": "input_required", **asked})]
    strange = _call(2, inputResponses={"r": {"roots": []}})
    assert _reported([*said, strange]) == ["mrtr.client.response-keys-match"]


def test_answers_to_unknown_questions_are_not_judged() -> None:
    assert _reported([_call(2, inputResponses={"r": 7}, requestState="x")]) == []


def test_repeated_keys_are_found_beside_a_number_of_5000_digits() -> None:
    roots = '{"method":"roots/list"}'
    info = f'{{"{META}serverInfo":{{"name":"someone","version":"1"}}}}'
    text = (
        f'{{"jsonrpc":"2.0","id":1,"more":{"1" * 5000},"result":{{"resultType":"input_required",'
        f'"inputRequests":{{"a":{roots},"a":{roots}}},"_meta":{info}}}}}'
    )
    assert "mrtr.result.input-request-keys-unique" in _reported([_call(1), S.text(text)])


def _listen(id: str) -> Said:
    return C.request(id, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})


def _acknowledged(**meta: object) -> Said:
    params = {"notifications": {"toolsListChanged": True}}
    return S.notify("subscriptions/acknowledged", {**params, "_meta": meta} if meta else params)


def _changed(id: str) -> Said:
    return S.notify("tools/list_changed", {"_meta": {TAG: id}})


def test_an_acknowledgement_without_id_counts_if_only_one_request_waits() -> None:
    lone = [_listen("L"), _acknowledged(), _changed("L")]
    assert _reported(lone) == ["subscriptions.ack-carries-id"]
    two = [_listen("L"), _listen("M"), _acknowledged(), _changed("L")]
    assert _reported(two) == ["subscriptions.ack-carries-id", "subscriptions.nothing-before-ack"]


def test_a_repeated_listen_request_needs_a_new_acknowledgement() -> None:
    first = [_listen("L"), _acknowledged(**{TAG: "L"}), S.result("L", {"_meta": {TAG: "L"}})]
    assert _reported([*first, _listen("L"), _changed("L")]) == ["subscriptions.nothing-before-ack"]


def test_progress_in_a_subscription_is_reported() -> None:
    moving = C.request(5, "tools/call", {**CALL, "_meta": {"progressToken": "p"}})
    progress = {"_meta": {TAG: "L"}, "progressToken": "p", "progress": 1}
    said = [_listen("L"), _acknowledged(**{TAG: "L"}), moving, S.notify("progress", progress)]
    assert _reported(said) == ["subscriptions.only-requested-kinds"]


def test_progress_without_a_task_is_judged_by_the_rules_of_progress() -> None:
    said = [S.notify("progress", {"progressToken": "p", "progress": 1})]
    assert _reported(said, "2025-11-25") == ["progress.notification.active-only"]


def test_cancelling_the_request_of_a_completed_task_is_legal() -> None:
    task = {
        "resultType": "task",
        "taskId": "t1",
        "status": "completed",
        "createdAt": "2026-07-28T10:00:00Z",
        "lastUpdatedAt": "2026-07-28T10:00:00Z",
        "ttlMs": 1,
    }
    client = {"extensions": {f"{META}tasks": {}}}
    said = [_call(1), S.result(1, task), C.notify("cancelled", {"requestId": 1})]
    _, found = judge(said, "2026-07-28", client=client)
    assert [str(violation) for violation in found] == []
