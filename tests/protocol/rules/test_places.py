"""Places: violations point to the value in question."""

import json

import msgspec

from accord.protocol.catalogue import catalogue
from accord.protocol.exchange import META_CAPABILITIES, Step
from accord.protocol.jsonrpc import FAULT, NOTIFICATION, REQUEST, RESULT, ErrorBody
from accord.protocol.monitor import Monitor
from accord.protocol.revisions import REVISIONS
from accord.protocol.rules.places import find_place
from accord.trace import Record
from protocol.rules.test_pairs import PAIRS
from support.tables import cases
from support.traces import judge

LATEST = REVISIONS["2025-11-25"]
WHOLE_MESSAGES = {
    "cancellation.request-id.present",
    "completion.capability.declared",
    "elicitation.capability.declared",
    "elicitation.error.undeclared-mode",
    "http.headers.mcp-name",
    "http.post.each-message",
    "http.post.metadata-headers",
    "http.version-header.present",
    "jsonrpc.batch.removed",
    "jsonrpc.batch.send-optional",
    "jsonrpc.client-no-responses",
    "jsonrpc.encoding.utf8",
    "jsonrpc.message.version-2-0",
    "jsonrpc.notification.method-string",
    "jsonrpc.request.answered",
    "jsonrpc.request.method-string",
    "jsonrpc.response.client-sends",
    "jsonrpc.response.result-xor-error",
    "lifecycle.initialize.protocol-version",
    "logging.capability.declared",
    "logging.message.level-and-data",
    "meta.listen.subscription-id",
    "meta.request.protocol-version",
    "ping.periodic",
    "prompts.capability.declared",
    "resources.capability.declared",
    "resources.subscribe.capability-required",
    "resources.updated.uri-param",
    "roots.capability.declared",
    "sampling.capability.declared",
    "subscriptions.ack-first",
    "tasks-ext.capability.client-per-request",
    "tasks-ext.create.result-type-task",
    "tasks-ext.http.mcp-name",
    "tasks.input.related-task",
    "tasks.related.everywhere",
    "tools.capability.declared",
}
"""Requirements on messages that lack their params, on headers, time, and the conversation."""


def step(body, kind=RESULT, error=None):
    return Step("server", kind, "tools/list", LATEST, 1, body, error)


@cases(
    ("body", "names", "pointer"),
    [
        ({"tools": [{}, {"name": 1}]}, ("tools[1]", "name"), "/result/tools/1/name"),
        ({"tools": [{}, {"name": 1}]}, ("tools[1].name",), "/result/tools/1/name"),
        ({"tools": [{}]}, ("tools[0]", "name"), "/result/tools/0"),
        ({"tools": [{}]}, ("tools[7]",), "/result/tools"),
        ({"tools": [{}]}, ("tools[x]",), "/result/tools"),
        ({}, ("",), "/result"),
        (None, ("",), "/result"),
        ([1], ("a",), "/result"),
        ({"a.b": {"c": 1}, "a": 1}, ("a.b.c",), "/result/a.b/c"),
        ({"a/b": {"~": 1}}, ("a/b", "~"), "/result/a~1b/~0"),
        ({"r": {"a[0]": 1}}, ("r['a[0]']",), "/result/r/a[0]"),
        ({"r": {"k": 1}}, ("r['other']",), "/result/r"),
        # an input request is named by its key, its params by their members
        (
            {"inputRequests": {"k": {"params": {"mode": 1}}}},
            ("inputRequests['k']", "mode"),
            "/result/inputRequests/k/params/mode",
        ),
        # keys of _meta are unique enough to stand alone
        ({"_meta": {"x/y": {"z": 1}}}, ("x/y", "z"), "/result/_meta/x~1y/z"),
        # names of sentences
        ({"task": {"taskId": 5}}, ("a new task", "taskId"), "/result/task/taskId"),
        ({"taskId": 5}, ("a new task", "taskId"), "/result/taskId"),
        ({"content": 5}, ("the result of sampling/createMessage.content",), "/result/content"),
        ({"capabilities": {"x": 1}}, ("capabilities", "x"), "/result/capabilities/x"),
        (
            {"_meta": {META_CAPABILITIES: {"x": 1}}},
            ("capabilities", "x"),
            "/result/_meta/io.modelcontextprotocol~1clientCapabilities/x",
        ),
    ],
)
def test_names_lead_to_a_value_or_to_the_nearest_one_around_it(body, names, pointer):
    assert find_place(step(body), names) == pointer


def test_a_message_as_a_whole_has_no_place():
    assert find_place(step({}), ()) is None
    assert find_place(step(None, REQUEST), ("cursor",)) is None


def test_params_and_errors_have_their_own_root():
    assert find_place(step({"cursor": 1}, REQUEST), ("cursor",)) == "/params/cursor"
    assert find_place(step({"uri": 1}, NOTIFICATION), ("uri",)) == "/params/uri"
    error = ErrorBody(-32042, "x", {"elicitations": [{}]})
    assert find_place(step(None, FAULT, error), ("data.elicitations[0]",)) == (
        "/error/data/elicitations/0"
    )
    assert find_place(step(None, FAULT), ("data.x",)) == "/error/data"


def test_a_name_with_a_slash_is_a_pointer_into_the_message():
    assert find_place(step({}), ("/id",)) == "/id"


# -- what the rules say


def record(number, sender, message):
    raw = msgspec.Raw(json.dumps(message).encode())
    return Record(sender=sender, t=float(number), transport="stdio", message=raw, number=number)


def tools_list(tools, *, batch=False):
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}
    monitor = Monitor(revision="2025-03-26" if batch else "2025-11-25")
    monitor.observe(record(1, "client", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
    other = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    return monitor.observe(record(2, "server", [other, answer] if batch else answer))


def hundred_tools(**broken):
    tools = [
        {"name": f"tool_{number}", "description": "x" * 90, "inputSchema": {"type": "object"}}
        for number in range(100)
    ]
    tools[50] |= broken
    return tools


@cases(
    ("broken", "id", "pointer", "value"),
    [
        (
            {"inputSchema": {"type": "array"}},
            "tools.input-schema.type-object",
            "/result/tools/50/inputSchema/type",
            '"array"',
        ),
        (
            {"inputSchema": None},
            "tools.input-schema.not-null",
            "/result/tools/50/inputSchema",
            "null",
        ),
        ({"name": 7}, "tools.item.name", "/result/tools/50/name", "7"),
        ({"name": "a b"}, "tools.name.charset", "/result/tools/50/name", '"a b"'),
        ({"name": "tool_3"}, "tools.name.unique", "/result/tools/50/name", '"tool_3"'),
    ],
)
def test_one_broken_tool_of_a_hundred_is_shown_alone(broken, id, pointer, value):
    [found] = tools_list(hundred_tools(**broken))
    assert (found.requirement, found.place) == (id, pointer)
    assert len(found.evidence) < 400
    assert found.evidence[slice(*found.mark)] == value
    assert "(50 more)" in found.evidence
    assert "(49 more)" in found.evidence
    assert "tool_49" not in found.evidence


def test_a_place_in_a_batch_begins_with_the_index():
    found = {each.requirement: each for each in tools_list(hundred_tools(name=7), batch=True)}
    name = found["tools.item.name"]
    assert name.place == "/1/result/tools/50/name"
    assert name.evidence[slice(*name.mark)] == "7"


def test_a_place_in_a_malformed_part_of_a_batch_begins_with_the_index():
    monitor = Monitor(revision="2025-03-26")
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    found = monitor.observe(record(1, "client", [ping, {"jsonrpc": "1.0", "id": 2, "method": "x"}]))
    assert [(each.requirement, each.place) for each in found] == [
        ("jsonrpc.message.version-2-0", "/1/jsonrpc")
    ]


def test_a_member_that_a_malformed_message_lacks_is_not_pointed_to():
    [found] = Monitor(revision="2025-11-25").observe(record(1, "client", {"id": 2, "method": "x"}))
    assert (found.place, found.mark) == (None, None)


def test_only_violations_that_are_kept_are_searched_for_their_value():
    monitor = Monitor(revision="2025-11-25", kept=1)
    found = []
    for number in (1, 2):
        asked = {"jsonrpc": "2.0", "id": number, "method": "tools/list"}
        answer = {"jsonrpc": "2.0", "id": number, "result": {"tools": [{"inputSchema": {}}]}}
        monitor.observe(record(2 * number, "client", asked))
        found += monitor.observe(record(2 * number + 1, "server", answer))
    names = [each for each in found if each.requirement == "tools.item.name"]
    assert [each.place for each in names] == ["/result/tools/0"] * 2
    assert [each.mark is None for each in names] == [False, True]


def breaches_of_pairs():
    """Yield the violations of the shortest illegal traces, one revision for each."""
    for pair in PAIRS:
        row = catalogue()[pair.requirement]
        revisions = [each for each in pair.revisions or tuple(REVISIONS) if row.holds_in(each)]
        given = {"client": pair.client, "server": pair.server, "opened": pair.opened}
        _, found = judge(pair.illegal, revisions[0], **given) if revisions else (None, [])
        yield from (each for each in found if each.requirement == pair.requirement)


def test_rules_point_to_a_value_unless_they_object_to_a_message_as_a_whole():
    found = list(breaches_of_pairs())
    assert all(each.mark is not None for each in found if each.place is not None)
    whole = {each.requirement for each in found if each.place is None}
    assert whole == WHOLE_MESSAGES
