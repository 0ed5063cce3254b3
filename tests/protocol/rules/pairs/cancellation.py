"""Pairs of cancellation."""

from typing import Any

from accord.protocol.revisions import REVISIONS
from support.traces import META, C, Pair, S, Said, opening

TOOLS: Any = {"tools": {}}
ASK = C.request(1, "tools/list")
ANSWER = S.result(1, {"tools": [], "ttlMs": 0, "cacheScope": "private"})
CANCEL = C.notify("cancelled", {"requestId": 1})
LISTEN = C.request("listen", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
HEARD = S.notify(
    "subscriptions/acknowledged",
    {
        "_meta": {f"{META}subscriptionId": "listen"},
        "notifications": {"toolsListChanged": True},
    },
)


def _pair(requirement: str, legal: list[Said], illegal: list[Said], **more: Any) -> Pair:
    return Pair(requirement=requirement, legal=legal, illegal=illegal, server=TOOLS, **more)


TASK = {
    "taskId": "786512e2-9e0d-44bd-8f29-789f320fe840",
    "status": "working",
    "createdAt": "2025-11-25T10:30:00Z",
    "lastUpdatedAt": "2025-11-25T10:30:00Z",
    "ttl": 60000,
    "pollInterval": 5000,
}
TASK_ID = {"taskId": TASK["taskId"]}
TASKED = [
    ASK,
    S.result(
        1,
        {
            "tools": [
                {
                    "name": "build",
                    "title": "Build",
                    "description": "Build it.",
                    "inputSchema": {"type": "object"},
                    "execution": {"taskSupport": "optional"},
                }
            ]
        },
    ),
    C.request(2, "tools/call", {"name": "build", "arguments": {}, "task": {"ttl": 60000}}),
    S.result(2, {"task": TASK}),
]

PAIRS = [
    _pair(
        "cancellation.notification.either-party",
        [ASK, CANCEL],
        [ASK, C.notify("canceled", {"requestId": 1})],
    ),
    _pair(
        "cancellation.notification.either-party",
        [S.request(1, "ping"), S.notify("cancelled", {"requestId": 1})],
        [ASK, C.json({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}})],
        variant="foreign",
    ),
    _pair("cancellation.request-id.present", [ASK, CANCEL], [ASK, C.notify("cancelled", {})]),
    _pair(
        "cancellation.request-id.present",
        [ASK, CANCEL],
        [ASK, C.notify("cancelled", {"requestId": [1]})],
        variant="array",
    ),
    _pair(
        "cancellation.request-id.present",
        [ASK, CANCEL],
        [ASK, C.notify("cancelled")],
        variant="params",
    ),
    _pair("cancellation.request-id-required", [ASK, CANCEL], [ASK, C.notify("cancelled", {})]),
    _pair(
        "cancellation.reason.optional",
        [ASK, C.notify("cancelled", {"requestId": 1, "reason": "too slow"})],
        [ASK, C.notify("cancelled", {"requestId": 1, "reason": 7})],
    ),
    _pair(
        "cancellation.request-id.previously-issued",
        [ASK, CANCEL],
        [ASK, C.notify("cancelled", {"requestId": 2})],
        party="client",
    ),
    _pair(
        "cancellation.request-id.previously-issued",
        [ASK, CANCEL],
        [ASK, C.notify("cancelled", {"requestId": {}})],
        party="client",
        revisions=("2025-11-25",),
        variant="object",
    ),
    *[
        Pair(
            requirement="cancellation.initialize.excluded",
            legal=[*opening(revision, server=TOOLS), ASK, CANCEL],
            illegal=[
                opening(revision)[0],
                C.notify("cancelled", {"requestId": "open"}),
                *opening(revision)[1:],
            ],
            opened=False,
            revisions=(revision,),
            party="client",
        )
        for revision, row in REVISIONS.items()
        if row.handshake
    ],
    _pair(
        "cancellation.server-only-for-listen",
        [LISTEN, HEARD, S.notify("cancelled", {"requestId": "listen"})],
        [ASK, S.notify("cancelled", {"requestId": 1})],
        party="server",
    ),
    _pair(
        "cancellation.server-names-listen",
        [LISTEN, HEARD, S.notify("cancelled", {"requestId": "listen"})],
        [LISTEN, HEARD, S.notify("cancelled", {"requestId": "other"})],
        party="server",
    ),
    _pair("cancellation.names-own-pending", [ASK, CANCEL], [ASK, CANCEL, CANCEL], party="client"),
    _pair(
        "cancellation.names-own-pending",
        [
            ASK.at(0),
            ANSWER.at(1),
            CANCEL.at(2),
            C.request(2, "tools/list").at(3),
            C.notify("cancelled", {"requestId": 2}).at(4),
        ],
        [ASK.at(0), ANSWER.at(1), CANCEL.at(60)],
        party="client",
        variant="answered",
    ),
    Pair(
        requirement="cancellation.not-for-tasks-2025",
        legal=[
            *TASKED,
            C.request(3, "tasks/cancel", TASK_ID),
            S.result(3, TASK | {"status": "cancelled"}),
        ],
        illegal=[*TASKED, C.notify("cancelled", {"requestId": 2})],
        server={"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}},
        party="client",
    ),
]
