"""A breach that looks like several: which requirement is named, and which ones are not."""

from typing import Any

import pytest

from support.tables import cases
from support.traces import C, S, Said, judge

REVISION = "2025-06-18"
ROOTS = {"roots": {"listChanged": True}}
UPDATED = "resources/updated"


def reported(said: list[Said], revision: str = REVISION, **more: Any) -> list[str]:
    server = {"tools": {}, "resources": {"subscribe": True}}
    return [each.requirement for each in judge(said, revision, server=server, **more)[1]]


def notified_then_asked(method: str, code: int, text: str) -> list[Said]:
    """A notification and a request, and an error without id that may answer either."""
    return [
        C.notify("roots/list_changed"),
        C.request(1, method),
        S.error(None, code, text),
    ]


@pytest.mark.requirement("jsonrpc.notification.not-answered")
@cases(
    ("method", "code", "text", "requirement"),
    [
        ("ping", -32601, "not found", "jsonrpc.notification.not-answered"),
        (
            "ping",
            -32000,
            "no notifications/roots/list_changed",
            "jsonrpc.notification.not-answered",
        ),
        ("ping", -32000, "no", "jsonrpc.response.id-echo"),
        ("org.example/own", -32601, "not found", "jsonrpc.response.id-echo"),
    ],
)
def test_an_error_without_id_after_a_request_may_still_answer_the_notification_before_it(
    method: str, code: int, text: str, requirement: str
) -> None:
    assert reported(notified_then_asked(method, code, text), client=ROOTS) == [requirement]


@pytest.mark.requirement("jsonrpc.notification.not-answered")
@pytest.mark.parametrize(
    ("said", "requirement"),
    [
        ([C.notify("roots/list_changed")], "jsonrpc.notification.not-answered"),
        ([C.notify("roots/list_changed"), C.request(1, "ping")], "jsonrpc.response.id-echo"),
        ([C.request(1, "ping"), C.notify("roots/list_changed")], "jsonrpc.response.id-echo"),
    ],
)
def test_a_result_without_id_answers_a_notification_if_no_request_waits(
    said: list[Said], requirement: str
) -> None:
    assert reported([*said, S.result(None, {})], client=ROOTS)[:1] == [requirement]  # type: ignore[arg-type]  # an id that is not allowed


@pytest.mark.requirement("jsonrpc.response.id-echo")
def test_an_answer_to_a_later_request_shows_that_a_notification_was_not_answered() -> None:
    said = [
        C.notify("roots/list_changed"),
        C.request(1, "ping"),
        S.result(1, {}),
        C.request(2, "ping"),
        S.error(None, -32601, "not found"),
    ]
    assert reported(said, client=ROOTS) == ["jsonrpc.response.id-echo"]


@pytest.mark.requirement("jsonrpc.batch.receive")
def test_an_error_without_id_refuses_a_whole_batch() -> None:
    batch = C.batch(C.request(1, "ping"), C.request(2, "ping"))
    said = [batch, S.error(None, -32600, "no batches")]
    assert reported(said, "2025-03-26") == []


@pytest.mark.requirement("jsonrpc.notification.no-id")
def test_a_report_with_an_id_is_not_a_request_for_progress() -> None:
    said = [S.request("own", "notifications/progress", {"progressToken": 1, "progress": 1})]
    assert reported(said) == ["jsonrpc.notification.no-id"]


@pytest.mark.requirement("resources.updated.uri-param")
def test_an_update_of_something_else_than_a_uri_is_reported_once() -> None:
    assert reported([S.notify(UPDATED, {"uri": "board"})]) == ["resources.updated.uri-param"]


@pytest.mark.requirement("jsonrpc.response.result-member")
def test_a_subscription_counts_although_its_answer_is_not_an_object() -> None:
    said = [
        C.request(1, "resources/subscribe", {"uri": "desk://board"}),
        S.result(1, True),
        S.notify(UPDATED, {"uri": "desk://board"}),
    ]
    assert reported(said, "2025-11-25") == ["jsonrpc.response.result-member"]


def asked_for_progress(*reports: dict[str, Any]) -> list[Said]:
    params = {"name": "add", "_meta": {"progressToken": 1}}
    return [C.request(1, "tools/call", params), *(S.notify("progress", each) for each in reports)]


@pytest.mark.requirement("progress.value.increases")
def test_the_last_report_a_second_time_is_a_value_that_does_not_increase() -> None:
    last = {"progressToken": 1, "progress": 3, "total": 3}
    assert reported(asked_for_progress(last, last)) == ["progress.value.increases"]


@pytest.mark.requirement("progress.token.type")
def test_a_token_that_is_null_is_a_token_of_another_type() -> None:
    report = {"progressToken": None, "progress": 3}
    assert reported(asked_for_progress(report)) == ["progress.token.type"]
