"""Pairs of traces for tasks as 2025-11-25 has them."""

from support.questions import CALL, CAPABILITIES, DONE
from support.traces import META, C, Pair, S, opening

_R = "2025-11-25"
_TIME = "2025-11-25T10:00:00Z"
_TASK = {
    "taskId": "t1",
    "status": "working",
    "createdAt": _TIME,
    "lastUpdatedAt": _TIME,
    "ttl": 60000,
    "pollInterval": 5,
}
_TASKS = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
_SERVER = {"tools": {}, "tasks": _TASKS}
_QUESTIONS = {"sampling": {"createMessage": {}}}
_CLIENT = {**CAPABILITIES, "tasks": {"requests": _QUESTIONS}}
_RELATED = {f"{META}related-task": {"taskId": "t1"}}

_SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 9}
_SAID = {
    "role": "assistant",
    "content": {"type": "text", "text": "!"},
    "model": "m",
    "stopReason": "endTurn",
}
_FORM = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
_TASKED_CALL = {**CALL, "task": {"ttl": 60000}}


def _start(id=1, **members):
    return [
        C.request(id, "tools/call", _TASKED_CALL),
        S.result(id, {"task": {**_TASK, **members}}),
    ]


def _get(id, **members):
    return [
        C.request(id, "tasks/get", {"taskId": "t1"}),
        S.result(id, {**_TASK, **members}),
    ]


def _list(**tool):
    shown = {
        "name": "book",
        "title": "Book",
        "description": "Book a journey.",
        "inputSchema": {"type": "object", "properties": {}, "required": []},
        **tool,
    }
    return [C.request("l", "tools/list"), S.result("l", {"tools": [shown]})]


def _without(name):
    return {key: value for key, value in _TASK.items() if key != name}


def _pair(requirement, legal, illegal, **more):
    more = {"client": _CLIENT, "server": _SERVER, **more}
    return Pair(requirement=requirement, legal=legal, illegal=illegal, **more)


def _undeclared(requirement, said, *, client=_CLIENT, server=_SERVER, **more):
    return Pair(
        requirement=requirement,
        legal=[*opening(_R, client=_CLIENT, server=_SERVER), *said],
        illegal=[*opening(_R, client=client, server=server), *said],
        opened=False,
        **more,
    )


_PLAIN = C.request(1, "tools/call", CALL)
_TASKED = C.request(1, "tools/call", _TASKED_CALL)
_WAITING = [*_start(), *_get(2, status="input_required")]
_FETCH = C.request(3, "tasks/result", {"taskId": "t1"})

PAIRS = [
    _undeclared(
        "tasks.capability.declared",
        _start(),
        server={"tools": {}},
        party="server",
        also=frozenset({"tasks.tool.no-capability-no-task"}),
    ),
    _undeclared(
        "tasks.capability.requestor-respects",
        [S.request(1, "sampling/createMessage", {**_SAMPLE, "task": {}})],
        client={**CAPABILITIES, "tasks": {"requests": {"elicitation": {"create": {}}}}},
        party="server",
    ),
    _undeclared(
        "tasks.capability.none-no-tasks",
        [S.request(1, "sampling/createMessage", {**_SAMPLE, "task": {}})],
        client=CAPABILITIES,
        party="server",
    ),
    _undeclared(
        "tasks.tool.no-capability-no-task",
        [_TASKED],
        server={"tools": {}, "tasks": {"list": {}}},
        party="client",
    ),
    _pair(
        "tasks.tool.forbidden-not-tasked",
        [*_list(execution={"taskSupport": "optional"}), _TASKED],
        [*_list(), _TASKED],
        party="client",
    ),
    _pair(
        "tasks.tool.required-tasked",
        [*_list(execution={"taskSupport": "required"}), _TASKED],
        [*_list(execution={"taskSupport": "required"}), _PLAIN],
        party="client",
    ),
    _pair("tasks.id.string", _start(), _start(taskId=7), party="server"),
    _pair(
        "tasks.id.string",
        [C.request(1, "tasks/list"), S.result(1, {"tasks": [_TASK]})],
        [C.request(1, "tasks/list"), S.result(1, {"tasks": [_without("taskId")]})],
        variant="list",
    ),
    _pair(
        "tasks.id.receiver-generated",
        _start(),
        [
            C.request(1, "tools/call", {**CALL, "task": {"taskId": "t1"}}),
            S.result(1, {"task": _TASK}),
        ],
        party="server",
    ),
    _pair("tasks.id.unique", _start(), [*_start(), *_start(2)], party="server"),
    _pair(
        "tasks.id.unique",
        [_TASKED, S.notify("tasks/status", _TASK), S.result(1, {"task": _TASK})],
        [*_start(), S.notify("tasks/status", _TASK), *_start(2)],
        variant="notified",
    ),
    _pair(
        "tasks.id.string",
        [
            C.request(1, "tools/call", {**_TASKED_CALL, "_meta": {"progressToken": "p"}}),
            S.result(1, {"task": _TASK}),
            S.notify("progress", {"progressToken": "p", "progress": 1, "_meta": _RELATED}),
        ],
        [
            C.request(1, "tools/call", {**_TASKED_CALL, "_meta": {"progressToken": "p"}}),
            S.result(1, {"task": _without("taskId")}),
            S.notify("progress", {"progressToken": "p", "progress": 1}),
        ],
        variant="progress",
    ),
    _pair(
        "tasks.status.valid-transitions",
        [*_start(), *_get(2, status="input_required"), *_get(3), *_get(4, status="completed")],
        [*_start(), *_get(2, status="paused")],
        party="server",
    ),
    _pair(
        "tasks.status.terminal-final",
        [*_start(), *_get(2, status="completed"), *_get(3, status="completed")],
        [*_start(), *_get(2, status="completed"), *_get(3, status="working")],
        party="server",
    ),
    _pair(
        "tasks.status.terminal-final",
        [*_start(), *_get(2, status="cancelled"), *_get(3, status="cancelled")],
        [
            *_start(),
            *_get(2, status="cancelled"),
            S.notify("tasks/status", {**_TASK, "status": "completed"}),
        ],
        variant="notified",
    ),
    _pair(
        "tasks.input.related-task",
        [*_WAITING, _FETCH, S.request("q", "elicitation/create", {**_FORM, "_meta": _RELATED})],
        [*_WAITING, _FETCH, S.request("q", "elicitation/create", _FORM)],
        party="server",
    ),
    _pair(
        "tasks.input.related-task",
        [*_WAITING, _FETCH, S.request("q", "elicitation/create", {**_FORM, "_meta": _RELATED})],
        [
            *_WAITING,
            _FETCH,
            S.request("q", "elicitation/create", {**_FORM, "_meta": {f"{META}related-task": "t1"}}),
        ],
        variant="type",
    ),
    _pair("tasks.times.created-at", _start(), _start(createdAt=1764064800), party="server"),
    _pair("tasks.times.created-at", _start(), _start(createdAt="yesterday"), variant="text"),
    _pair(
        "tasks.times.last-updated-at",
        _start(lastUpdatedAt="2025-11-25T10:00:00.5+01:00"),
        _start(lastUpdatedAt=None),
        party="server",
    ),
    _pair("tasks.ttl.in-get", _get(1, ttl=None), _get(1, ttl="long"), party="server"),
    _pair(
        "tasks.ttl.in-get",
        _get(1),
        [C.request(1, "tasks/get", {"taskId": "t1"}), S.result(1, _without("ttl"))],
        variant="absent",
    ),
    _pair(
        "tasks.ttl.in-get",
        _start(ttl=None),
        [_TASKED, S.result(1, {"task": _without("ttl")})],
        variant="new",
    ),
    _pair(
        "tasks.create.returns-task",
        [*_list(execution={"taskSupport": "optional"}), *_start()],
        [*_list(execution={"taskSupport": "optional"}), _TASKED, S.result(1, DONE)],
        party="server",
    ),
    _pair(
        "tasks.create.returns-task",
        [*_list(execution={"taskSupport": "required"}), *_start()],
        [
            *_list(execution={"taskSupport": "required"}),
            _TASKED,
            S.result(1, {**DONE, "task": None}),
        ],
        variant="null",
    ),
    _pair(
        "tasks.create.returns-task",
        [
            S.request(1, "sampling/createMessage", {**_SAMPLE, "task": {}}),
            C.result(1, {"task": _TASK}),
        ],
        [S.request(1, "sampling/createMessage", {**_SAMPLE, "task": {}}), C.result(1, _SAID)],
        party="client",
        variant="sampling",
    ),
    _pair("tasks.status.starts-working", _start(), _start(status="completed"), party="server"),
    _pair(
        "tasks.status.starts-working",
        [
            S.request(1, "sampling/createMessage", {**_SAMPLE, "task": {}}),
            C.result(1, {"task": _TASK}),
        ],
        [
            S.request(1, "sampling/createMessage", {**_SAMPLE, "task": {}}),
            C.result(1, {"task": {**_TASK, "status": "input_required"}}),
        ],
        party="client",
        variant="sampling",
    ),
    _pair(
        "tasks.result.related-task",
        [*_start(), _FETCH, S.result(3, {**DONE, "_meta": _RELATED})],
        [*_start(), _FETCH, S.result(3, DONE)],
        party="server",
    ),
    _pair(
        "tasks.related.everywhere",
        [
            *_WAITING,
            _FETCH,
            S.request("q", "sampling/createMessage", {**_SAMPLE, "_meta": _RELATED}),
            C.result("q", {**_SAID, "_meta": _RELATED}),
        ],
        [
            *_WAITING,
            _FETCH,
            S.request("q", "sampling/createMessage", {**_SAMPLE, "_meta": _RELATED}),
            C.result("q", _SAID),
        ],
        party="client",
    ),
    _pair(
        "tasks.related.everywhere",
        [
            C.request(1, "tools/call", {**_TASKED_CALL, "_meta": {"progressToken": "p"}}),
            S.result(1, {"task": _TASK}),
            S.notify("progress", {"progressToken": "p", "progress": 1, "_meta": _RELATED}),
        ],
        [
            C.request(1, "tools/call", {**_TASKED_CALL, "_meta": {"progressToken": "p"}}),
            S.result(1, {"task": _TASK}),
            S.notify("progress", {"progressToken": "p", "progress": 1}),
        ],
        party="server",
        variant="progress",
    ),
    _pair(
        "tasks.related.not-on-task-ops",
        _get(1),
        [C.request(1, "tasks/get", {"taskId": "t1", "_meta": _RELATED})],
        party="client",
    ),
    _pair(
        "tasks.related.not-on-task-ops",
        [S.notify("tasks/status", _TASK)],
        [S.notify("tasks/status", {**_TASK, "_meta": _RELATED})],
        party="server",
        variant="notified",
    ),
    _pair(
        "tasks.errors.status-message",
        [*_start(), *_get(2, status="failed", statusMessage="no seat")],
        [*_start(), *_get(2, status="failed")],
        party="server",
    ),
]
