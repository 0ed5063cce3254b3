"""Limits of the rules that no pair of traces shows: how often they report, and what they skip."""

import sys
from typing import Any

import msgspec
import pytest

from accord.protocol.monitor import Monitor
from protocol.rules.pairs._samples import CACHE, TEXT, TOOL, asked, called, discovered, tools
from support.tables import cases
from support.traces import META, C, S, Said, judge, opening, records

NEWEST_WITH_HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
STRUCTURED = {**TOOL, "outputSchema": {"type": "object", "required": ["n"]}}


def reported(said: list[Said], revision: str = NEWEST_WITH_HANDSHAKE, **more: Any) -> list[str]:
    server = {"tools": {"listChanged": True}, "logging": {}}
    return [each.requirement for each in judge(said, revision, server=server, **more)[1]]


def test_a_mistake_in_every_item_is_reported_five_times() -> None:
    nameless = {"description": "Add.", "inputSchema": {"type": "object"}}
    assert reported(tools(*[nameless] * 50)) == ["tools.item.name"] * 5


def test_a_result_that_is_an_array_is_reported_once() -> None:
    said = [C.request(1, "tools/list"), S.result(1, [TOOL])]
    assert reported(said) == ["jsonrpc.response.result-member"]


def test_a_task_in_place_of_a_result_is_not_judged_as_a_result() -> None:
    task = {"taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "ttl": None}
    task["lastUpdatedAt"] = task["createdAt"]
    params = {"name": "add", "arguments": {}, "task": {}}
    monitor, _ = judge(asked("tools/call", params, {"task": task}), NEWEST_WITH_HANDSHAKE)
    assert "tools.call.content-array" not in monitor.tallies


def test_an_output_schema_is_forgotten_when_the_tools_change() -> None:
    remembered = [*tools(STRUCTURED), *called(TEXT)]
    assert reported(remembered) == ["tools.call.structured-conforms"]
    changed = [*tools(STRUCTURED), S.notify("tools/list_changed"), *called(TEXT)]
    assert reported(changed) == []


def test_values_masked_in_a_recording_are_not_judged_by_the_schema() -> None:
    def issued(*codes: Any) -> list[Said]:
        content = {"n": {"codes": list(codes)}}
        text = {"type": "text", "text": msgspec.json.encode(content).decode()}
        return [*tools(tool), *called(text, structuredContent=content)]

    codes = {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}}
    schema = {"properties": {"n": {"properties": {"codes": codes}}}, "type": "object"}
    tool = {**TOOL, "outputSchema": schema}
    assert reported(issued("abc", "masked-12")) == []
    assert reported(issued("abc", "12", 7)) == ["tools.call.structured-conforms"]


def test_a_log_message_below_the_level_is_reported_while_other_requests_are_open() -> None:
    said = [
        *asked("logging/setLevel", {"level": "error"}, {}),
        C.request(2, "tools/call", {"name": "add", "arguments": {}}),
        S.notify("message", {"level": "info", "data": "hello"}),
    ]
    assert reported(said) == ["logging.session-wide"]


def test_the_type_of_a_result_without_request_is_not_judged_by_extensions() -> None:
    stray = S.result(9, {"resultType": "later"})
    monitor = Monitor(revision=STATELESS)
    found = [
        each.requirement
        for record in records([stray], STATELESS)
        for each in monitor.observe(record)
    ]
    assert "result.type.from-known-set" not in found


@pytest.mark.parametrize(("client", "breaches"), [(TASKS, 0), ({}, 1)])
def test_a_task_is_a_legal_result_only_for_clients_with_the_tasks_extension(
    client: Any, breaches: int
) -> None:
    now = "2026-01-01T00:00:00Z"
    task = {"resultType": "task", "taskId": "t", "status": "working", "ttlMs": None}
    task |= {"createdAt": now, "lastUpdatedAt": now}
    said = [
        *discovered(STATELESS, {"tools": {}, **TASKS}),
        *asked("tools/call", {"name": "add", "arguments": {}}, task),
    ]
    found = reported(said, STATELESS, client=client)
    assert found.count("result.type.from-known-set") == breaches


def test_nested_schemas_are_read_to_a_limited_depth() -> None:
    schema: dict[str, Any] = {"type": "string", "x-mcp-header": ""}
    for _ in range(40):
        schema = {"type": "object", "properties": {"a": schema}}
    said = asked("tools/list", None, {"tools": [{**TOOL, "inputSchema": schema}], **CACHE})
    assert reported(said, STATELESS) == []


def test_schemas_are_not_judged_without_an_installed_validator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    invalid = {"type": "object", "required": "never compiled before"}
    unknown = {**TOOL, "inputSchema": invalid, "outputSchema": invalid}
    assert reported([*tools(unknown), *called(TEXT, structuredContent={})]) == [
        "tools.structured-content.also-text"
    ]


def test_a_log_message_after_the_error_of_its_request_is_reported() -> None:
    call = C.request(1, "tools/call", {"name": "add", "_meta": {f"{META}logLevel": "info"}})
    log = S.notify("message", {"level": "info", "data": "hello"})
    assert reported([call, S.error(1), log], STATELESS) == ["logging.own-stream-only"]


@cases(
    ("sender", "member", "value", "requirement"),
    [
        ("client", "protocolVersion", 5, "initialize.protocol-version"),
        ("client", "capabilities", [], "initialize.client-capabilities"),
        ("client", "clientInfo", "x", "initialize.client-info"),
        ("client", "clientInfo", {"name": 5, "version": "1"}, "implementation.name-and-version"),
        ("server", "protocolVersion", 5, "initialize-result.protocol-version"),
        ("server", "capabilities", [], "initialize-result.server-capabilities"),
        ("server", "serverInfo", "x", "initialize-result.server-info"),
        ("server", "serverInfo", {"name": "x", "version": 1}, "implementation.name-and-version"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_member_of_the_opening_with_another_type_is_reported(
    sender: str, member: str, value: Any, requirement: str
) -> None:
    client, server, _ = opening(NEWEST_WITH_HANDSHAKE)
    broken, holder = (client, "params") if sender == "client" else (server, "result")
    broken.message[holder][member] = value
    monitor = Monitor(revision=NEWEST_WITH_HANDSHAKE)
    found = [
        (each.requirement, each.party)
        for record in records([client, server], NEWEST_WITH_HANDSHAKE)
        for each in monitor.observe(record)
    ]
    assert (f"lifecycle.{requirement}", sender) in found


@cases(
    ("transport", "recorded", "breaches"),
    [("http", "all", 1), ("http", (), 0), ("http", ("accept", "mcp-name"), 0), ("sse", "all", 0)],
    ids=["http", "headers not recorded", "some headers recorded", "sse"],
)
def test_missing_headers_are_reported_only_if_headers_of_a_post_were_recorded(
    transport: str, recorded: Any, breaches: int
) -> None:
    headers = {"accept": "*/*"}
    said = [C.request(1, "tools/list").over(method="POST", headers=headers, recorded=recorded)]
    monitor = Monitor(revision=STATELESS)
    found = [
        each.requirement
        for record in records(said, STATELESS)
        for each in monitor.observe(msgspec.structs.replace(record, transport=transport))
    ]
    assert found.count("http.post.metadata-headers") == breaches


def test_structured_content_that_is_an_array_is_not_held_against_the_schema() -> None:
    said = [*tools(STRUCTURED), *called(TEXT, structuredContent=[1])]
    assert "tools.call.structured-conforms" not in reported(said)


FORM = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
TASK_CAPABILITIES = {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}, "cancel": {}}}


def started(status: str) -> list[Said]:
    at = "2026-01-01T00:00:00Z"
    task = {"taskId": "t", "status": status, "createdAt": at, "lastUpdatedAt": at, "ttl": None}
    params = {"name": "add", "arguments": {}, "task": {}}
    return asked("tools/call", params, {"task": task})


def reported_of_tasks(said: list[Said]) -> set[str]:
    client = {"elicitation": {}}
    found = judge(said, NEWEST_WITH_HANDSHAKE, client=client, server=TASK_CAPABILITIES)[1]
    return {each.requirement for each in found}


def test_a_question_beside_an_open_call_may_belong_to_that_call() -> None:
    question = S.request("q", "elicitation/create", FORM)
    another = C.request(2, "tools/call", {"name": "add", "arguments": {}})
    rule = "tasks.input.related-task"
    assert rule in reported_of_tasks([*started("input_required"), question])
    assert rule not in reported_of_tasks([*started("input_required"), another, question])


def test_a_question_is_not_blamed_on_a_task_that_waits_for_no_input() -> None:
    question = S.request("q", "elicitation/create", FORM)
    assert "tasks.input.related-task" not in reported_of_tasks([*started("working"), question])


def test_a_request_beside_a_task_is_cancelled_as_a_request() -> None:
    another = C.request(2, "tools/call", {"name": "add", "arguments": {}})
    rule = "cancellation.not-for-tasks-2025"
    said = [*started("working"), another, C.notify("cancelled", {"requestId": 2})]
    assert rule not in reported_of_tasks(said)
    said[-1] = C.notify("cancelled", {"requestId": 1})
    assert rule in reported_of_tasks(said)


def test_a_cancellation_may_cross_the_answer_that_makes_a_task() -> None:
    rule = "cancellation.not-for-tasks-2025"
    created = [each.at(1) for each in started("working")]
    cancel = C.notify("cancelled", {"requestId": 1})
    assert rule not in reported_of_tasks([*created, cancel.at(1.5)])
    assert rule in reported_of_tasks([*created, cancel.at(60)])


def test_an_integer_in_an_array_is_not_mirrored_in_a_header() -> None:
    items = {"type": "integer", "x-mcp-header": "Size"}
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": items}}}
    call = C.request(2, "tools/call", {"name": "add", "arguments": {"a": [2**60]}})
    said = [*tools({**TOOL, "inputSchema": schema}), call]
    assert "tools.x-mcp-header.safe-integers" not in reported(said, STATELESS)
