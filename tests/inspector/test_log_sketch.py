"""The few words of the list: they are right for usual messages, and hostile ones do no harm."""

import json

from accord.trace import HttpFacts
from accord_tools.inspector.log.log_entry import (
    BRIEF_MOST,
    brief_of_http,
    describe_result,
    sketch_message,
)
from support.tables import cases

VALUES = [None, True, 0, -1.5, 10**30, "", "a\x1b[31m\u202eb", "x" * 5000, [], [1], {}, {"a": [{}]}]
METHODS = [
    "completion/complete",
    "initialize",
    "notifications/cancelled",
    "notifications/message",
    "notifications/progress",
    "resources/read",
    "tasks/get",
    "tools/call",
]
MEMBERS = [
    *("_meta", "name", "uri", "progress", "total", "message", "level", "data", "reason"),
    *("requestId", "progressToken", "taskId", "status", "protocolVersion", "clientInfo", "ref"),
]
RESULTS = {
    "tools/call": {"content": [{"type": "text", "text": "3"}], "isError": True},
    "tools/list": {"tools": [{}, {}], "nextCursor": "c"},
    "resources/read": {"contents": [{"uri": "a:b", "mimeType": "text/plain", "text": "x"}]},
    "initialize": {"protocolVersion": "2025-06-18", "serverInfo": {"name": "s", "version": "1"}},
    "prompts/get": {"messages": [{}]},
    "ping": {},
}


@cases(
    ("method", "words"),
    [
        ("tools/call", "error: 3"),
        ("tools/list", "2 tools, more follow"),
        ("resources/read", "1 content: text/plain"),
        ("initialize", "2025-06-18, server s 1"),
        ("prompts/get", "1 message"),
        ("ping", ""),
    ],
)
def test_a_result_is_described_by_its_method(method, words):
    assert describe_result(method, json.dumps(RESULTS[method]).encode())[0] == words


def test_any_value_in_any_member_is_described():
    for value in VALUES:
        for method in [*METHODS, *VALUES]:
            for params in (dict.fromkeys(MEMBERS, value), value):
                body = {"method": method, "id": value, "params": params}
                sketch = sketch_message(json.dumps(body).encode())
                assert len(sketch.brief) <= BRIEF_MOST
        for members in ({"error": value}, {"error": {"code": value, "message": value}}, value):
            assert len(sketch_message(json.dumps(members).encode()).brief) <= BRIEF_MOST
        assert sketch_message(json.dumps([value, [value]]).encode()).kind == "batch"


def test_any_value_in_any_result_is_described():
    for value in VALUES:
        for method, result in RESULTS.items():
            for members in (value, dict.fromkeys(result, value)):
                brief, _ = describe_result(method, json.dumps(members).encode())
                assert len(brief) <= BRIEF_MOST
        for task in ({"taskId": value}, {"task": value}, {"task": {"taskId": value}}):
            describe_result("tools/call", json.dumps(task).encode())


@cases(
    ("facts", "words"),
    [
        (HttpFacts(method="GET", path="/mcp"), "GET /mcp"),
        (HttpFacts(method="DELETE", path="/mcp", status=405), "status 405"),
        (HttpFacts(method="POST", ended="server"), "POST the server ends the response"),
        (HttpFacts(event="endpoint", data="/m?s=1"), "event endpoint /m?s=1"),
        (HttpFacts(retry=50), "retry after 50 ms"),
    ],
)
def test_http_without_a_message_is_described(facts, words):
    assert brief_of_http(facts) == words
