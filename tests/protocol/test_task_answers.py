"""Endpoints and tasks: a task in place of a result, and the progress token that outlives it."""

from typing import Any

import pytest

from accord import types as t
from accord.protocol.endpoint import Endpoint
from accord.protocol.exchange import NotificationReceived, Refused, ResultReceived
from accord.protocol.revisions import REVISIONS
from support.endpoints import ALL_OF_SERVER, STATELESS, error, only, opened, request, result

CORE = "2025-11-25"
NEWEST = REVISIONS[STATELESS[-1]]
TIMES = {"createdAt": "2026-11-16T00:00:00Z", "lastUpdatedAt": "2026-11-16T00:00:00Z"}
STATE = {"taskId": "t", "status": "working", **TIMES}
PROGRESS = t.ProgressParams("p", 1)


def ask(client: Endpoint, revision: str = CORE) -> Any:
    params = t.CallToolParams("x", task=t.TaskMetadata(5), meta={"progressToken": "p"})
    exchange, _ = client.request("tools/call", params, revision=REVISIONS[revision])
    return exchange


def progress(client: Endpoint) -> Any:
    data = b'{"jsonrpc":"2.0","method":"notifications/progress","params":%b}'
    return only(client.receive(data % b'{"progressToken":"p","progress":1}'))


@pytest.mark.requirement("progress.task.same-token")
def test_a_task_in_place_of_a_result_keeps_its_token():
    client = opened(CORE).client
    exchange = ask(client)
    event = only(client.receive(result(exchange.id, {"task": {**STATE, "ttl": 5}})))
    assert isinstance(event, ResultReceived)
    assert isinstance(event.result, t.CreateTaskResult)
    assert event.result.task.ttl == 5
    heard = progress(client)
    assert isinstance(heard, NotificationReceived)
    assert heard.exchange is exchange
    client.conversation.parties["client"].forget_token(exchange)
    assert isinstance(progress(client), Refused)


@pytest.mark.requirement("tasks.undeclared.ignored")
def test_a_result_may_come_although_a_task_was_wanted():
    client = opened(CORE).client
    exchange = ask(client)
    event = only(client.receive(result(exchange.id, {"content": [], "isError": False})))
    assert isinstance(event.result, t.CallToolResult)
    assert isinstance(progress(client), Refused)


def test_an_error_frees_the_token_of_a_call_that_wanted_a_task():
    client = opened(CORE).client
    exchange = ask(client)
    only(client.receive(error(exchange.id, -32601)))
    assert isinstance(progress(client), Refused)


def test_older_revisions_leave_out_the_wish_for_a_task():
    client = opened("2025-06-18").client
    params = t.CallToolParams("x", task=t.TaskMetadata(5))
    exchange, data = client.request("tools/call", params)
    assert b'"task"' not in data
    assert not exchange.is_task


@pytest.mark.requirement("progress.task.same-token")
def test_a_server_reports_progress_after_it_answered_with_a_task():
    server = opened(CORE).server
    params = {"name": "x", "task": {}, "_meta": {"progressToken": "p"}}
    exchange = only(server.receive(request(7, "tools/call", params))).exchange
    exchange.is_task = True
    server.respond(exchange, t.CreateTaskResult(t.Task("t", "working", "a", "b")))
    assert server.notify("notifications/progress", PROGRESS)


# -- the extension


def stateless_client() -> Endpoint:
    client = Endpoint("client")
    client.conversation.begin(NEWEST, server=ALL_OF_SERVER)
    return client


@pytest.mark.requirement("tasks-ext.create.client-handles-both")
def test_a_handle_is_read_in_place_of_the_result_of_a_tool():
    client = stateless_client()
    exchange = ask(client, NEWEST.id)
    handle = {"resultType": "task", **STATE, "ttlMs": None, "pollIntervalMs": 20}
    event = only(client.receive(result(exchange.id, handle)))
    assert isinstance(event.result, t.TaskHandle)
    assert event.result.poll_interval_ms == 20
    assert event.result.ttl_ms is None
