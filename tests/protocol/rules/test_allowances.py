"""Messages that look odd and are legal: the opening, ids, `_meta`, progress and streams."""

from itertools import permutations
from typing import Any

import pytest

from accord.protocol.monitor import Monitor
from accord.protocol.rules.body.meta import is_forward
from support.traces import INFO, META, C, S, Said, judge, opening, records

LEGACY = "2025-06-18"
TASKS = "2025-11-25"
MODERN = "2026-07-28"
SERVER: Any = {"tools": {"listChanged": True}, "logging": {}}
ASK = C.request(1, "tools/list", {"_meta": {"progressToken": "a"}})
REPORT = S.notify("progress", {"progressToken": "a", "progress": 1})
LOG = S.notify("message", {"level": "info", "data": "hello"})
TAG = {"_meta": {f"{META}subscriptionId": "s"}}
WANTED = {"notifications": {"toolsListChanged": True}}
LISTENED = [
    C.request("s", "subscriptions/listen", WANTED),
    S.notify("subscriptions/acknowledged", {**TAG, **WANTED}),
    S.result("s", TAG),
]


def reported(said: list[Said], revision: str = LEGACY, **more: Any) -> list[str]:
    _, found = judge(said, revision, server=SERVER, **more)
    return [each.requirement for each in found]


def posted(said: Said, stream: str = "s1") -> Said:
    return said.over(method="POST", stream=stream)


# -- messages


def test_a_number_in_a_batch_is_reported_and_the_other_messages_are_judged() -> None:
    batch = C.json([7, ASK.message])
    assert reported([batch], "2025-03-26") == ["jsonrpc.message.version-2-0"]


@pytest.mark.requirement("meta.request.protocol-version", "http.post.metadata-headers")
def test_a_handshake_after_a_failed_discovery_is_not_held_to_the_newest_revision() -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
    shake = {"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": params}
    (said,) = records(
        [C.json(shake).over(method="POST", headers={"accept": "*/*"}, recorded="all")], MODERN
    )
    found = [each.requirement for each in Monitor(revision=MODERN).observe(said)]
    assert [id for id in found if id.startswith(("meta.request", "http.post"))] == []


def test_params_that_are_an_array_are_reported_once() -> None:
    assert reported([C.request(1, "ping", [])]) == ["jsonrpc.request.params-object"]


def test_an_error_without_id_may_follow_an_unreadable_message() -> None:
    said = [C.json({"jsonrpc": "2.0", "id": None, "method": "ping"}), S.error(None, -32600)]
    assert reported(said) == ["jsonrpc.request.id-not-null"]


def test_an_unanswered_request_is_reported_beside_an_open_listen_request() -> None:
    said = [*LISTENED[:2], ASK, C.request(2, "tools/list").at(400)]
    timed = [each.at(each.t or 0) for each in said]
    assert reported(timed, MODERN) == ["jsonrpc.request.answered"]


# -- opening


def test_an_unknown_first_request_without_a_version_is_not_a_misspelt_initialize() -> None:
    said = [C.request(1, "vendor/hello", {}), *opening(LEGACY)]
    assert reported(said, opened=False) == ["lifecycle.initialize.first"]


def test_other_notifications_may_come_before_initialized() -> None:
    ask, answer, initialized = opening(LEGACY)
    assert reported([ask, answer, C.notify("vendor"), initialized], opened=False) == []


def test_a_client_may_ask_for_another_version_after_a_counter_offer() -> None:
    ask, answer, _ = opening(LEGACY)
    params = ask.message["params"] | {"protocolVersion": "2024-11-05"}
    asked = C.request("open", "initialize", params)
    again = C.request("again", "initialize", ask.message["params"])
    assert reported([asked, answer, again], opened=False) == []


def test_a_client_may_ask_again_for_the_version_that_was_granted() -> None:
    ask, answer, _ = opening(LEGACY)
    again = C.request("again", "initialize", ask.message["params"])
    assert reported([ask, answer, again], opened=False) == []


def test_a_second_client_on_the_same_connection_may_initialize_again() -> None:
    for first, second in permutations(("2024-11-05", LEGACY, TASKS), 2):
        tools = {"tools": {}}
        listed = [C.request(0, "tools/list"), S.result(0, {"tools": []})]
        said = [*opening(first, server=tools), *listed, *opening(second, server=tools), *listed]
        assert reported(said, opened=False) == [], (first, second)


def test_an_id_in_flight_stays_taken_when_a_second_client_initializes() -> None:
    said = [C.request(0, "ping"), *opening(LEGACY), C.request(0, "ping")]
    assert reported(said) == ["jsonrpc.request.id-unique"]


def test_a_second_client_that_reuses_its_own_id_is_reported() -> None:
    twice = [C.request(0, "ping"), S.result(0, {}), C.request(0, "ping")]
    assert reported([*opening(LEGACY), *twice]) == ["jsonrpc.request.id-unique"]


def test_initialize_repeated_under_the_id_of_a_refused_one_is_reported() -> None:
    ask, answer, initialized = opening(LEGACY)
    said = [ask, S.error("open", -32602), ask, answer, initialized]
    assert reported(said, opened=False) == ["jsonrpc.request.id-unique"]


def test_an_unknown_capability_may_have_any_value() -> None:
    ask, *rest = opening(LEGACY)
    params = ask.message["params"] | {"capabilities": {"vendor": True}}
    assert reported([C.request("open", "initialize", params), *rest], opened=False) == []


# -- ping


def test_ping_may_be_answered_with_an_error_before_the_opening() -> None:
    assert reported([C.request(1, "ping"), S.error(1), *opening(LEGACY)], opened=False) == []


def test_a_second_ping_under_one_id_may_be_answered_with_an_error() -> None:
    said = [C.request(1, "ping"), C.request(1, "ping"), S.error(1, -32600), S.result(1, {})]
    assert reported(said) == ["jsonrpc.request.id-unique"]


# -- cancellation and progress


def test_a_subscription_may_be_cancelled_after_its_last_answer() -> None:
    said = [*LISTENED, S.notify("cancelled", {"requestId": "s"})]
    assert reported(said, MODERN) == []


@pytest.mark.requirement("cancellation.request-id.previously-issued")
@pytest.mark.parametrize(
    ("method", "is_open", "expected"),
    [
        ("GET", True, []),  # the request may be on its way, on the response to the call
        ("POST", True, ["cancellation.request-id.previously-issued"]),
        ("GET", False, ["cancellation.request-id.previously-issued"]),
    ],
)
def test_a_cancellation_may_overtake_its_request_on_another_stream(
    method: str, is_open: bool, expected: list[str]
) -> None:
    over = {"status": 200, "headers": {"content-type": "text/event-stream"}, "event": "message"}
    called = C.request(1, "tools/call", {"name": "add", "arguments": {}})
    said = [
        called.over(method="POST", stream="s-1"),
        *([] if is_open else [S.error(1).over(method="POST", stream="s-1", **over)]),
        S.notify("cancelled", {"requestId": 7}).over(method=method, stream="s-2", **over),
    ]
    found = reported(said)
    assert [each for each in found if each.startswith("cancellation")] == expected


@pytest.mark.requirement("resources.updated.subscribers-only")
@pytest.mark.parametrize(
    ("method", "seconds", "expected"),
    [
        ("GET", 0.5, []),  # it may have been sent before the subscription ended
        ("GET", 1.5, ["resources.updated.subscribers-only"]),
        ("POST", 0.5, ["resources.updated.subscribers-only"]),
    ],
)
def test_an_update_may_arrive_after_the_end_of_its_subscription_on_another_stream(
    method: str, seconds: float, expected: list[str]
) -> None:
    over = {"status": 200, "headers": {"content-type": "text/event-stream"}, "event": "message"}
    uri = {"uri": "note://a"}
    said = [
        C.request(1, "resources/subscribe", uri).over(method="POST", stream="s-1"),
        S.result(1, {}).over(method="POST", stream="s-1", **over),
        C.request(2, "resources/unsubscribe", uri).over(method="POST", stream="s-2"),
        S.result(2, {}).over(method="POST", stream="s-2", **over).at(2),
        S.notify("resources/updated", uri)
        .over(method=method, stream="s-3", **over)
        .at(2 + seconds),
    ]
    _, found = judge(said, LEGACY, server={"resources": {"subscribe": True}})
    reported = [each.requirement for each in found if each.requirement.startswith("resources")]
    assert reported == expected


def test_a_request_that_waited_too_long_may_be_cancelled() -> None:
    said = [C.request(1, "tools/list").at(0), C.notify("cancelled", {"requestId": 1}).at(400)]
    assert reported(said, MODERN) == ["jsonrpc.request.answered"]


def test_a_task_may_report_progress_after_its_request_is_answered() -> None:
    now = "2025-11-25T10:30:00Z"
    task = {"taskId": "t", "status": "working", "ttl": None, "createdAt": now, "lastUpdatedAt": now}
    params = {"name": "add", "arguments": {}, "task": {}, "_meta": {"progressToken": "a"}}
    said = [C.request(1, "tools/call", params), S.result(1, {"task": task}), REPORT]
    assert "progress.notification.active-only" not in reported(said, TASKS)


@pytest.mark.requirement("tasks.status.terminal-final")
@pytest.mark.parametrize(
    ("stream", "updated", "expected"),
    [
        ("s-2", "10:30:00.842Z", []),  # which of the two came first cannot be seen
        ("s-2", "10:30:00.795Z", []),
        ("s-1", "10:30:00.842Z", ["tasks.status.terminal-final"]),
        ("s-2", "10:30:00.843Z", ["tasks.status.terminal-final"]),
    ],
)
def test_a_late_report_of_a_task_on_another_stream_is_not_judged(
    stream: str, updated: str, expected: list[str]
) -> None:
    began = "2025-11-25T10:30:00.700Z"
    task = {"taskId": "t", "status": "working", "createdAt": began, "lastUpdatedAt": began}
    task |= {"ttl": None}
    over = {"status": 200, "headers": {"content-type": "text/event-stream"}, "event": "message"}
    ended = task | {"status": "cancelled", "lastUpdatedAt": "2025-11-25T10:30:00.842Z"}
    late = task | {"lastUpdatedAt": f"2025-11-25T{updated}"}
    said = [
        C.request(1, "tools/call", {"name": "add", "arguments": {}, "task": {}}),
        S.result(1, {"task": task}),
        C.request(2, "tasks/cancel", {"taskId": "t"}),
        S.result(2, ended).over(stream="s-1", **over),
        S.notify("tasks/status", late).over(stream=stream, **over),
    ]
    found = reported(said, TASKS)
    assert [each for each in found if each == "tasks.status.terminal-final"] == expected


# -- `_meta`, titles and extensions


def test_a_change_that_crosses_the_end_of_its_subscription_is_not_judged() -> None:
    said = [*LISTENED, S.notify("tools/list_changed", TAG)]
    assert "meta.listen.subscription-id" not in reported(said, MODERN)


def test_a_prefix_of_one_label_is_neither_forward_nor_reversed() -> None:
    assert is_forward(["tools"]) is None


def test_an_empty_extensions_object_is_legal() -> None:
    params = {"_meta": {f"{META}clientCapabilities": {"extensions": {}}}}
    assert reported([C.request(1, "tools/list", params)], MODERN) == []


@pytest.mark.parametrize("member", ["arguments", "structured"])
def test_arguments_and_structured_content_are_not_searched_for_meta(member: str) -> None:
    own = {"_meta": 7, "icons": 7, "content": [{"type": "text", "_meta": 7}]}
    params = {"name": "add", "arguments": own if member == "arguments" else {}}
    result: dict[str, Any] = {"content": [{"type": "text", "text": "{}"}], "isError": False}
    if member == "structured":
        result["structuredContent"] = own
    found = reported([C.request(1, "tools/call", params), S.result(1, result)])
    assert not [each for each in found if each.startswith(("meta.", "icons."))]


def test_nested_content_blocks_are_read_to_a_limited_depth() -> None:
    block: dict[str, Any] = {"type": "text", "text": "x", "_meta": 7}
    for _ in range(20):
        block = {"type": "tool_result", "toolUseId": "u", "content": [block]}
    params = {"messages": [{"role": "user", "content": block}], "maxTokens": 1}
    said = [S.request(1, "sampling/createMessage", params)]
    found = reported(said, TASKS, client={"sampling": {"tools": {}}})
    assert "meta.field.more-types" not in found


def test_an_implementation_without_a_title_is_not_judged_by_its_title() -> None:
    monitor, found = judge([ASK], MODERN, server=SERVER)
    assert not found
    assert "title" not in INFO
    assert "meta.title.display-name" not in monitor.tallies


# -- streams


@pytest.mark.parametrize("revision", ["2024-11-05", LEGACY, TASKS])
def test_a_root_needs_no_name(revision: str) -> None:
    answer = C.result("q", {"roots": [{"uri": "file:///home"}]})
    said = [S.request("q", "roots/list"), answer]
    assert reported(said, revision, client={"roots": {}}) == []


def test_headers_that_were_not_recorded_are_not_reported_as_missing() -> None:
    assert reported([posted(ASK)], MODERN) == []


@pytest.mark.parametrize(
    "facts",
    [
        {"method": "GET", "stream": "g", "headers": {"Last-Event-ID": "7"}},
        {"method": "GET", "stream": "s1"},
    ],
    ids=["header", "stream"],
)
def test_a_resumed_stream_may_carry_the_progress_of_its_request(facts: Any) -> None:
    assert reported([posted(ASK), REPORT.over(**facts)]) == []


def test_log_messages_on_a_get_stream_are_not_judged_by_their_request() -> None:
    monitor, found = judge([posted(ASK), LOG.over(method="GET", stream="g")], LEGACY, server=SERVER)
    assert not found
    assert "http.get.unrelated-messages" not in monitor.tallies


def test_log_messages_on_the_stream_of_a_request_are_legal() -> None:
    params = {"_meta": {f"{META}logLevel": "info"}}
    said = [posted(C.request(1, "tools/list", params)), posted(LOG)]
    assert reported(said, MODERN) == []


def test_progress_without_a_stream_is_not_judged_by_streams() -> None:
    monitor, found = judge([posted(ASK), REPORT.over(method="POST")], LEGACY, server=SERVER)
    assert not found
    assert "http.post.related-requests-on-stream" not in monitor.tallies
