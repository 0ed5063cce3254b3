"""Whatever two endpoints do, a monitor finds nothing wrong; one illegal step, and it does."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from accord.protocol.revisions import REVISIONS
from accord.trace import Record
from support.endpoints import (
    HANDSHAKE,
    NOTHING_OF_CLIENT,
    NOTHING_OF_SERVER,
    STATELESS,
    error,
    notification,
    request,
    result,
)
from support.walks import Walk, walked

CHOICES = some.lists(some.integers(0, 10_000), max_size=60)
FEW_CHOICES = some.lists(some.integers(0, 10_000), max_size=15)
PARTIES = some.sampled_from(["client", "server"])
NOTHING = {"client": NOTHING_OF_CLIENT, "server": NOTHING_OF_SERVER}


def alarms(walk: Walk) -> list[tuple[str, str | None]]:
    return [(str(alarm), alarm.evidence) for alarm in walk.alarms]


@settings(deadline=None, derandomize=True, max_examples=200)
@given(revision=some.sampled_from(HANDSHAKE), choices=CHOICES, at=PARTIES, ready=some.booleans())
def test_a_legal_conversation_never_alarms_a_monitor(revision, choices, at, ready):
    walk = walked(revision, choices, at=at, ready=ready)
    walk.settle()
    assert alarms(walk) == []


@settings(deadline=None, derandomize=True, max_examples=50)
@given(revision=some.sampled_from(HANDSHAKE), choices=CHOICES, at=PARTIES)
def test_nor_does_one_in_which_nothing_was_declared(revision, choices, at):
    walk = walked(revision, choices, at=at, ready=True, **NOTHING)
    walk.settle()
    assert alarms(walk) == []


@settings(deadline=None, derandomize=True, max_examples=50)
@given(revision=some.sampled_from(STATELESS), choices=CHOICES, at=PARTIES)
def test_nor_does_one_without_handshake(revision, choices, at):
    walk = walked(revision, choices, at=at)
    walk.settle()
    assert alarms(walk) == []


# One step too far: its party, its message, what it breaks.

ECHO = dict.fromkeys(HANDSHAKE, "jsonrpc.response.id-echo") | {
    "2025-11-25": "jsonrpc.error.id-echoed-or-unreadable"
}
CALL = {"name": "add", "arguments": {"a": 1}}
TOKEN = CALL | {"_meta": {"progressToken": "illegal"}}


def progress(value: Any, token: Any = "illegal") -> bytes:
    return notification("progress", {"progressToken": token, "progress": value, "total": 100})


def without_version(data: bytes) -> bytes:
    message = json.loads(data)
    del message["jsonrpc"]
    return json.dumps(message).encode()


Steps = list[tuple[str, bytes]]
ILLEGAL: dict[str, tuple[str | dict[str, str], Callable[[str], Steps]]] = {
    "an id in flight": (
        "jsonrpc.request.id-unique",
        lambda _: [("client", request("x", "tools/list")), ("client", request("x", "ping"))],
    ),
    "an id of before": (
        "jsonrpc.request.id-unique",
        lambda _: [
            ("server", request("x", "ping")),
            ("client", result("x", {})),
            ("server", request("x", "ping")),
        ],
    ),
    "an answer to nothing": (ECHO, lambda _: [("server", result("x", {}))]),
    "an error to nothing": (ECHO, lambda _: [("client", error("x"))]),
    "an answer of another type of id": (
        ECHO,
        lambda _: [("client", request(7_000, "ping")), ("server", result("7000", {}))],
    ),
    "a second answer": (
        "jsonrpc.request.answered",
        lambda _: [
            ("client", request("x", "ping")),
            ("server", result("x", {})),
            ("server", result("x", {})),
        ],
    ),
    "progress that stands still": (
        "progress.value.increases",
        lambda _: [
            ("client", request("x", "tools/call", TOKEN)),
            ("server", progress(2)),
            ("server", progress(2)),
        ],
    ),
    "progress that falls": (
        "progress.value.increases",
        lambda _: [
            ("client", request("x", "tools/call", TOKEN)),
            ("server", progress(2)),
            ("server", progress(1.5)),
        ],
    ),
    "progress on nothing": (
        "progress.notification.active-only",
        lambda _: [("server", progress(1))],
    ),
    "progress after the answer": (
        "progress.notification.active-only",
        lambda _: [
            ("client", request("x", "tools/call", TOKEN)),
            ("server", result("x", {"content": [], "isError": False})),
            ("server", progress(1)),
        ],
    ),
    "a token for two requests": (
        "progress.token.unique",
        lambda _: [
            ("client", request("x", "tools/call", TOKEN)),
            ("client", request("y", "tools/call", TOKEN)),
        ],
    ),
    "cancelling what was never asked": (
        "cancellation.request-id.previously-issued",
        lambda _: [("client", notification("cancelled", {"requestId": "x", "reason": "r"}))],
    ),
    "cancelling what the other asked": (
        "cancellation.request-id.previously-issued",
        lambda _: [
            ("server", request("x", "ping")),
            ("client", notification("cancelled", {"requestId": "x", "reason": "r"})),
        ],
    ),
    "a method of another revision": (
        "lifecycle.capabilities.only-declared",
        lambda _: [("client", request("x", "server/discover"))],
    ),
    "a method of the other party": (
        "lifecycle.capabilities.only-declared",
        lambda _: [("server", request("x", "tools/list"))],
    ),
    "no version": (
        "jsonrpc.message.version-2-0",
        lambda _: [("client", without_version(request("x", "ping")))],
    ),
    "a request without id": (
        "jsonrpc.request.id-present",
        lambda _: [("client", b'{"jsonrpc":"2.0","method":"tools/list"}')],
    ),
    "a notification with id": (
        "jsonrpc.notification.no-id",
        lambda _: [("client", request("x", "notifications/roots/list_changed"))],
    ),
    "id null": (
        "jsonrpc.request.id-not-null",
        lambda _: [("server", b'{"jsonrpc":"2.0","id":null,"method":"ping"}')],
    ),
    "a fraction as id": (
        "jsonrpc.request.id-string-or-integer",
        lambda _: [("client", b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}')],
    ),
    "result and error": (
        "jsonrpc.response.result-xor-error",
        lambda _: [
            ("client", request("x", "ping")),
            ("server", b'{"jsonrpc":"2.0","id":"x","result":{},"error":{"code":1,"message":""}}'),
        ],
    ),
    "a fraction as code": (
        "jsonrpc.error.code-integer",
        lambda _: [
            ("client", request("x", "ping")),
            ("server", b'{"jsonrpc":"2.0","id":"x","error":{"code":1.5,"message":"m"}}'),
        ],
    ),
    "a batch": (
        {id: "jsonrpc.batch.removed" for id in HANDSHAKE if not REVISIONS[id].batching},
        lambda _: [("client", b"[%b]" % request("x", "ping"))],
    ),
    "text": ("stdio.server.stdout-only-messages", lambda _: [("server", b"listening on stdio")]),
}
STEPS = [
    pytest.param(revision, name, id=f"{name}-{revision}")
    for name, (requirement, _) in ILLEGAL.items()
    for revision in HANDSHAKE
    if not isinstance(requirement, dict) or revision in requirement
]


def taken(walk: Walk, steps: Steps) -> tuple[str, list]:
    """The party of the last step, and what the monitor says to it."""
    found = []
    for number, (sender, data) in enumerate(steps):
        if data[:1] in b"{[":
            found = walk.watch(sender, data)
        else:
            found = walk.monitor.observe(Record(sender=sender, raw=data.decode()))
        if number < len(steps) - 1:
            assert [str(violation) for violation in found] == []
    return steps[-1][0], found


@pytest.mark.parametrize(("revision", "name"), STEPS)
@settings(deadline=None, derandomize=True, max_examples=3)
@given(choices=FEW_CHOICES, at=PARTIES)
def test_one_illegal_step_is_reported_as_what_it_breaks(revision, name, choices, at):
    walk = walked(revision, choices, at=at, ready=True)
    walk.settle()
    requirement, steps = ILLEGAL[name]
    culprit, found = taken(walk, steps(revision))
    expected = requirement[revision] if isinstance(requirement, dict) else requirement
    assert expected in [violation.requirement for violation in found]
    assert {violation.party for violation in found} == {culprit}


@pytest.mark.parametrize("revision", HANDSHAKE)
@pytest.mark.parametrize(
    ("sender", "name", "params"),
    [
        ("client", "tools/list", None),
        ("client", "prompts/list", None),
        ("client", "resources/list", None),
        ("client", "logging/setLevel", {"level": "info"}),
        ("server", "roots/list", None),
    ],
)
@settings(deadline=None, derandomize=True, max_examples=3)
@given(choices=FEW_CHOICES, at=PARTIES)
def test_the_use_of_an_undeclared_capability_is_reported(
    revision, sender, name, params, choices, at
):
    walk = walked(revision, choices, at=at, ready=True, **NOTHING)
    walk.settle()
    culprit, found = taken(walk, [(sender, request("x", name, params))])
    broken = {violation.requirement for violation in found}
    assert broken & {"lifecycle.capabilities.respected", "lifecycle.capabilities.declared"}
    assert {violation.party for violation in found} == {culprit}


@pytest.mark.parametrize("revision", HANDSHAKE)
@settings(deadline=None, derandomize=True, max_examples=5)
@given(pings=some.integers(0, 5))
def test_a_request_before_the_opening_is_reported(revision, pings):
    walk = Walk(revision)
    for _ in range(pings):
        walk.ask("client", "ping")
    walk.watch("client", request("early", "tools/list"))
    walk.open()
    walk.settle()
    assert "lifecycle.initialize.first" in [alarm.requirement for alarm in walk.alarms]
