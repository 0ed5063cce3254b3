"""Pairs of traces for the tasks extension."""

from support.questions import CALL, CAPABILITIES, DONE
from support.traces import META, C, Pair, S

_EXTENSION = {"extensions": {f"{META}tasks": {}}}
_CLIENT = {**CAPABILITIES, **_EXTENSION}
_TIME = "2026-07-28T10:00:00Z"
_TAG = f"{META}subscriptionId"
_TASK = {
    "taskId": "t1",
    "status": "working",
    "createdAt": _TIME,
    "lastUpdatedAt": _TIME,
    "ttlMs": None,
    "pollIntervalMs": 5,
}
_FORM = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
_ASK = {"method": "elicitation/create", "params": _FORM}
_CALL = C.request(1, "tools/call", CALL)
_FAILURE = {"code": -32603, "message": "no seat"}


def _handle(**members):
    return [_CALL, S.result(1, {**_TASK, "resultType": "task", **members})]


def _get(id=2, **members):
    return [C.request(id, "tasks/get", {"taskId": "t1"}), S.result(id, {**_TASK, **members})]


def _asks(id=2, **asked):
    return _get(id, status="input_required", inputRequests=asked)


def _update(id=3, **given):
    return C.request(id, "tasks/update", {"taskId": "t1", "inputResponses": given})


def _discover(**capabilities):
    versions = {"supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "public"}
    return [
        C.request("d", "server/discover"),
        S.result("d", {**versions, "capabilities": capabilities}),
    ]


_LISTEN = [
    C.request("L", "subscriptions/listen", {"notifications": {"taskIds": ["t1"]}}),
    S.notify(
        "subscriptions/acknowledged",
        {"_meta": {_TAG: "L"}, "notifications": {"taskIds": ["t1"]}},
    ),
]


def _told(name="tasks", **params):
    return S.notify(name, {"_meta": {_TAG: "L"}, **params})


def _without(name):
    return {key: value for key, value in _TASK.items() if key != name}


def _pair(requirement, legal, illegal, variant="", party="server", **more):
    return Pair(
        requirement=requirement,
        legal=legal,
        illegal=illegal,
        client=_CLIENT,
        party=party,
        variant=variant,
        **more,
    )


_DECLINED = {"action": "decline"}
_UNDECLARED = {"_meta": {f"{META}clientCapabilities": CAPABILITIES}}
_MOVING = C.request(5, "tools/call", {**CALL, "_meta": {"progressToken": "p"}})

PAIRS = [
    _pair(
        "tasks-ext.capability.client-per-request",
        [C.request(2, "tasks/get", {"taskId": "t1"})],
        [C.request(2, "tasks/get", {"taskId": "t1", **_UNDECLARED})],
        party="client",
    ),
    _pair(
        "tasks-ext.capability.client-per-request",
        _LISTEN,
        [
            C.request(
                "L", "subscriptions/listen", {"notifications": {"taskIds": ["t1"]}, **_UNDECLARED}
            )
        ],
        party="client",
        variant="listen",
    ),
    _pair(
        "tasks-ext.capability.server",
        [*_discover(tools={}, **_EXTENSION), *_handle()],
        [*_discover(tools={}), *_handle()],
    ),
    _pair(
        "tasks-ext.legacy.capabilities-not-advertised",
        _discover(tools={}, **_EXTENSION),
        _discover(tools={}, **_EXTENSION, tasks={"list": {}}),
    ),
    _pair(
        "tasks-ext.create.result-type-task",
        _handle(),
        [_CALL, S.result(1, {**_TASK, **DONE})],
    ),
    _pair(
        "tasks-ext.create.result-type-task",
        _handle(),
        [_CALL, S.result(1, {**DONE, "resultType": "task"})],
        variant="other",
    ),
    _pair(
        "tasks-ext.task.required-fields",
        _handle(),
        [_CALL, S.result(1, {**_without("ttlMs"), "resultType": "task"})],
    ),
    _pair("tasks-ext.task.required-fields", _get(ttlMs=9), _get(lastUpdatedAt="now"), "time"),
    _pair(
        "tasks-ext.task.required-fields",
        _get(statusMessage="going"),
        _get(pollIntervalMs="often"),
        "interval",
    ),
    _pair("tasks-ext.task.status-values", _get(), _get(status="paused")),
    _pair("tasks-ext.get.result-type-complete", _get(), _get(resultType="task")),
    _pair(
        "tasks-ext.get.result-type-complete",
        [C.request(2, "tasks/cancel", {"taskId": "t1"}), S.result(2, {})],
        [
            C.request(2, "tasks/cancel", {"taskId": "t1"}),
            S.result(2, {"resultType": "input_required", "requestState": "s"}),
        ],
        "cancel",
    ),
    _pair("tasks-ext.get.input-requests", _asks(q=_ASK), _get(status="input_required")),
    _pair("tasks-ext.get.input-requests", _asks(q=_ASK), _asks(), "empty"),
    _pair("tasks-ext.get.input-requests", _asks(q=_ASK), _asks(q={"method": "ping"}), "kind"),
    _pair(
        "tasks-ext.get.completed-has-result",
        _get(status="completed", result=DONE),
        _get(status="completed"),
    ),
    _pair(
        "tasks-ext.get.failed-has-error",
        _get(status="failed", statusMessage="no seat", error=_FAILURE),
        _get(status="failed", statusMessage="no seat"),
    ),
    _pair(
        "tasks-ext.get.failed-has-error",
        _get(status="failed", statusMessage="no seat", error=_FAILURE),
        _get(status="failed", statusMessage="no seat", error={"code": "E", "message": "no"}),
        "code",
    ),
    _pair(
        "tasks-ext.status.failed-message",
        _get(status="failed", statusMessage="no seat", error=_FAILURE),
        _get(status="failed", error=_FAILURE),
    ),
    _pair(
        "tasks-ext.input.keys-unique-for-life",
        [*_handle(), *_asks(q=_ASK), *_asks(3, q=_ASK)],
        [*_handle(), *_asks(q=_ASK), *_asks(3, q={"method": "roots/list"})],
    ),
    _pair(
        "tasks-ext.update.keys-outstanding",
        [*_handle(), *_asks(q=_ASK), _update(q=_DECLINED)],
        [*_handle(), *_asks(q=_ASK), _update(r=_DECLINED)],
        party="client",
    ),
    _pair(
        "tasks-ext.update.keys-outstanding",
        [*_handle(), *_asks(q=_ASK), _update(q=_DECLINED)],
        [*_handle(), *_asks(q=_ASK), _update(q=_DECLINED), _update(4, q=_DECLINED)],
        party="client",
        variant="twice",
    ),
    _pair(
        "tasks-ext.cancel.not-by-notification",
        [*_handle(), C.request(2, "tasks/cancel", {"taskId": "t1"})],
        [*_handle(), C.notify("cancelled", {"requestId": 1})],
        party="client",
    ),
    _pair(
        "tasks-ext.notify.full-state",
        [*_LISTEN, _told(**_TASK)],
        [*_LISTEN, _told(taskId="t1", status="working")],
    ),
    _pair(
        "tasks-ext.notify.full-state",
        [*_LISTEN, _told(**{**_TASK, "status": "completed"}, result=DONE)],
        [*_LISTEN, _told(**{**_TASK, "status": "completed"})],
        "result",
    ),
    _pair(
        "tasks-ext.notify.no-progress-or-logs",
        [*_LISTEN, _told(**_TASK)],
        [*_LISTEN, _MOVING, _told("progress", progressToken="p", progress=1)],
    ),
]
