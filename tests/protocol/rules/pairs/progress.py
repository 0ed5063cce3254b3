"""Pairs of progress."""

from typing import Any

from support.traces import META, C, Pair, S, Said

TOOLS: Any = {"tools": {}}
ANSWER = S.result(1, {"tools": [], "ttlMs": 0, "cacheScope": "private"})


def _ask(id: int = 1, token: Any = "a") -> Said:
    return C.request(id, "tools/list", {"_meta": {"progressToken": token}})


ASK = _ask()


def _report(progress: Any = 1, **more: Any) -> Said:
    """A report; a member that is ... is left out."""
    params = {"progressToken": "a", "progress": progress} | more
    return S.notify("progress", {name: value for name, value in params.items() if value is not ...})


def _pair(requirement: str, legal: list[Said], illegal: list[Said], **more: Any) -> Pair:
    return Pair(requirement=requirement, legal=legal, illegal=illegal, server=TOOLS, **more)


TASK_ID = "786512e2-9e0d-44bd-8f29-789f320fe840"
RELATED = {f"{META}related-task": {"taskId": TASK_ID}}


def _task(status: str, **more: Any) -> dict[str, Any]:
    return {
        "taskId": TASK_ID,
        "status": status,
        "createdAt": "2025-11-25T10:30:00Z",
        "lastUpdatedAt": "2025-11-25T10:30:00Z",
        "ttl": 60000,
        "pollInterval": 5000,
        **more,
    }


TASKED = [
    C.request(1, "tools/list"),
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
    C.request(
        2,
        "tools/call",
        {
            "name": "build",
            "arguments": {},
            "task": {"ttl": 60000},
            "_meta": {"progressToken": "a"},
        },
    ),
    S.result(2, {"task": _task("working")}),
]
DONE = [
    C.request(3, "tasks/get", {"taskId": TASK_ID}),
    S.result(3, _task("completed")),
]


def _for_task(requirement: str, illegal: list[Said], variant: str = "") -> Pair:
    return Pair(
        requirement=requirement,
        legal=[*TASKED, _report(_meta=RELATED)],
        illegal=[*TASKED, *illegal],
        server={"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}},
        party="server",
        variant=variant,
    )


PAIRS = [
    _pair(
        "progress.token.in-meta",
        [ASK],
        [C.request(1, "tools/list", {"progressToken": "a"})],
        party="client",
    ),
    _pair("progress.token.type", [_ask(token=7)], [_ask(token=1.5)], party="client"),
    _pair("progress.token.type", [_ask(token="a")], [_ask(token=None)], variant="null"),
    _pair(
        "progress.token.type",
        [ASK, _report()],
        [ASK, _report(progressToken=True)],
        party="server",
        variant="report",
    ),
    _pair(
        "progress.token.unique",
        [ASK, _ask(2, "b")],
        [ASK, _ask(2, "a")],
        party="client",
    ),
    _pair(
        "progress.notification.token",
        [ASK, _report()],
        [ASK, _report(progressToken=...)],
        party="server",
    ),
    _pair(
        "progress.notification.progress",
        [ASK, _report(0.5)],
        [ASK, _report(progress=...)],
        party="server",
    ),
    _pair(
        "progress.notification.progress",
        [ASK, _report(0.5)],
        [ASK, _report("half")],
        variant="string",
    ),
    _pair(
        "progress.notification.total",
        [ASK, _report(total=10)],
        [ASK, _report(total="10")],
        party="server",
    ),
    _pair(
        "progress.notification.message",
        [ASK, _report(message="reading")],
        [ASK, _report(message=["reading"])],
        party="server",
    ),
    _pair(
        "progress.notification.method-name",
        [ASK, _report()],
        [ASK, S.notify("Progress", {"progressToken": "a", "progress": 1})],
        party="server",
    ),
    _pair(
        "progress.notification.method-name",
        [ASK, _report()],
        [
            ASK,
            S.json(
                {
                    "jsonrpc": "2.0",
                    "method": "$/progress",
                    "params": {"progressToken": "a", "progress": 1},
                }
            ),
        ],
        variant="foreign",
    ),
    _pair(
        "progress.notification.active-only",
        [ASK, _report()],
        [ASK, _report(progressToken="b")],
        party="server",
    ),
    _pair(
        "progress.notification.active-only",
        [ASK, _report(), ANSWER],
        [ASK, ANSWER, _report()],
        variant="answered",
    ),
    _pair(
        "progress.notification.active-only",
        [ASK, _report()],
        [ASK, _report(progressToken=...)],
        revisions=("2026-07-28",),
        variant="missing",
    ),
    _pair(
        "progress.value.increases",
        [ASK, _report(1), _report(2)],
        [ASK, _report(1), _report(1)],
        party="server",
    ),
    _pair(
        "progress.stops-after-completion",
        [ASK, _report(1, total=2), _report(2, total=2)],
        [ASK, _report(2, total=2), _report(3, total=2)],
        party="server",
        severity="warn",
    ),
    _pair(
        "progress.server-only",
        [ASK, _report()],
        [ASK, C.notify("progress", {"progressToken": "a", "progress": 1})],
        party="client",
    ),
    _for_task("progress.task.same-token", [_report(progressToken="b", _meta=RELATED)]),
    _for_task("progress.task.stops-at-terminal", [*DONE, _report(_meta=RELATED)]),
    _for_task(
        "progress.task.stops-at-terminal",
        [
            S.notify("tasks/status", _task("failed", statusMessage="no space")),
            _report(_meta=RELATED),
        ],
        "notified",
    ),
]
