"""Servers with tasks under check: the correct ones raise no alarm, and most rows are decided."""

import json

import pytest

from accord import Context, Server
from accord.testing import run_in_virtual_time
from accord.types import ToolAnnotations
from accord_tools.check.scenarios.server.tasks import why_guessable
from accord_tools.check.server_check import ServerPlan, check_server
from check.mutants.between_http import over_http
from check.mutants.foundation import in_memory
from check.mutants.question_server import server as questions
from check.mutants.task_server import make_known, make_plain, make_server
from check.mutants.tasks_operations import served

REVISION = "2025-11-25"
NEWEST = "2026-07-28"


async def _check(making, only, revision):
    async with making() as target:
        return await check_server(target, ServerPlan(revisions=[revision], only=only))


def _verdicts(making, only=(), revision=REVISION):
    report = run_in_virtual_time(_check(making, only, revision))
    return {each.id: each.verdict for each in report.results}


def _alarms(found):
    return {id for id, name in found.items() if name in ("fail", "warn")}


def _leave(_):
    pass


@pytest.mark.parametrize(
    ("make", "revision"),
    [
        (make_known, REVISION),
        (make_plain, REVISION),
        (make_server, NEWEST),
        (make_plain, NEWEST),
        (lambda: questions, REVISION),
    ],
)
def test_correct_server_raises_no_alarm(make, revision):
    assert _alarms(_verdicts(in_memory(_leave, make()), revision=revision)) == set()


@pytest.mark.parametrize("is_guarded", [False, True])
def test_correct_server_with_tasks_over_http_raises_no_alarm(is_guarded):
    found = _verdicts(served(_leave, is_guarded=is_guarded), ["tasks.security", "tasks.http"])
    assert _alarms(found) == set()
    decided = {
        "tasks.security.foreign-rejected": is_guarded,
        "tasks.security.list-own-only": is_guarded,
        "tasks.security.unguessable-ids": not is_guarded,
        "tasks.http.no-sse-for-get": True,
    }
    assert {id: found[id] == "pass" for id in decided} == decided


def test_correct_server_with_the_extension_is_tested_in_every_row_that_it_can_show():
    found = _verdicts(in_memory(_leave, make_server()), ["tasks-ext"], NEWEST)
    assert {id for id, name in found.items() if name == "not-exercised"} == set()
    # It takes tokens of two users.
    open_rows = {id for id, name in found.items() if name == "not-applicable"}
    assert open_rows == {"tasks-ext.security.authorize-each"}


def test_subscriptions_over_http_are_heard_to_keep_every_rule():
    found = _verdicts(over_http(_leave), ["subscriptions"], NEWEST)
    assert {id for id, name in found.items() if name != "pass"} == {
        # The server ends no subscription by itself.
        "subscriptions.graceful-end-result",
        "subscriptions.graceful-end-carries-id",
        "subscriptions.teardown-cancelled-notification",
    }


def test_correct_server_with_tasks_is_tested_in_every_row_that_it_can_show():
    found = _verdicts(in_memory(_leave, make_known()), ["tasks"])
    open_rows = {id for id, name in found.items() if name == "not-exercised"}
    assert open_rows == {
        # It declares tasks, has few of them, and asks for none.
        "tasks.undeclared.ignored",
        "tasks.list.paginated",
        "tasks.list.next-cursor",
        "tasks.capability.requestor-respects",
        "tasks.capability.none-no-tasks",
        # Those who ask for tasks keep these.
        "tasks.input.requestor-calls-result",
        "tasks.poll-interval-respected",
        "tasks.poll-until-terminal",
        "tasks.notify.not-relied-on",
        # It takes a person.
        "tasks.security.limits",
        "tasks.security.audit",
    }


@pytest.mark.parametrize(
    "ids",
    [
        ["task-7", "task-8", "task-9"],
        ["9", "10", "11"],
        ["t-1764064800000", "t-1764064800031", "t-1764064800099"],
        ["018f3a2c00000001-a", "018f3a2c00000002-a", "018f3a2c00000003-a"],
        ["same", "same", "same"],
    ],
)
def test_ids_that_count_up_can_be_guessed(ids):
    assert why_guessable(ids) is not None


@pytest.mark.parametrize(
    "ids",
    [
        # Version 4, and version 7 of one millisecond.
        ["5b2c7a1e-0f0e-4a43-9c6e-1f2d3c4b5a69", "6b2c7a1e-7f0e-4a43-9c6e-1f2d3c4b5a60"],
        ["0190a6f0-8c00-7a31-8f11-2b3c4d5e6f70", "0190a6f0-8c00-7a32-9e22-9a8b7c6d5e4f"],
        ["task_q8Zr1LxT0v", "task_0aB9kdPw3M"],
    ],
)
def test_random_ids_cannot_be_guessed(ids):
    assert why_guessable(ids) is None


# -- correct servers that raised an alarm, or broke the check


def repeats_what_it_was_answered(wire):
    """Let the results of tools quote the last answer of the client, with its `_meta`."""
    answered, quoted = [], {}

    def from_client(message):
        if "method" not in message:
            answered.append(message["result"])
        return message

    def from_server(message, request):
        content = message.get("result", {}).get("content")
        if request.get("method") in ("tools/call", "tasks/result") and content and answered:
            # The result of a task stays what it was.
            task = request["params"].get("taskId", request["id"])
            content[0]["text"] = quoted.setdefault(task, json.dumps(answered[-1]))
        return message

    wire.from_client, wire.from_server = from_client, from_server


def test_a_task_that_asks_may_quote_the_answer_that_names_it():
    server = Server("asking", revisions=[REVISION])

    @server.tool(annotations=ToolAnnotations(read_only_hint=True), task="optional")
    async def get_seat(ctx: Context) -> str:
        """Ask for the seat."""
        return str(await ctx.elicit("Which row?", int))

    making = in_memory(repeats_what_it_was_answered, server)
    found = _verdicts(making, ["tasks.result"])
    assert _alarms(found) == set()
    assert found["tasks.result.exact"] == "pass"
