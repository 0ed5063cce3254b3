from contextlib import nullcontext

import msgspec
import pytest

from accord.errors import InvalidParams
from accord.protocol.bodies import decode_params
from accord.protocol.jsonrpc import Frame
from accord.protocol.revisions import KNOWN, METHODS, REQUESTS, REVISIONS
from accord.types._base import REVISION_IDS, lifetime_of
from schema.official import ABSENT_REASON, PRESENT, definitions_key, schema
from support.tables import cases

NAMES = [method.name for method in METHODS]


def test_rows_of_one_method_have_the_same_params_and_do_not_overlap():
    for method in METHODS:
        for other in METHODS:
            if other is not method and other.name == method.name:
                assert other.params is method.params
                assert other.is_request is method.is_request
                assert not [
                    id for id in REVISIONS if id in method.lifetime and id in other.lifetime
                ]


def test_methods_and_requests_are_distinguished():
    assert set(NAMES) == KNOWN
    assert "ping" in REQUESTS
    assert "notifications/progress" not in REQUESTS
    assert all(name.startswith("notifications/") for name in KNOWN - REQUESTS)
    assert not any(name.startswith("notifications/") for name in REQUESTS)


@cases("method", METHODS, ids=NAMES)
def test_params_have_a_meta(method):
    assert "meta" in {field.name for field in msgspec.structs.fields(method.params)}


@cases("method", METHODS, ids=NAMES)
def test_params_can_be_left_out_exactly_where_nothing_in_them_is_required(method):
    required = any(
        field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
        for field in msgspec.structs.fields(method.params)
    )
    frame = Frame("2.0", 1, method.name)
    expected = pytest.raises(InvalidParams) if required else nullcontext()
    with expected:
        decode_params(frame, method, REVISIONS["2025-11-25"])


@cases("method", METHODS, ids=NAMES)
def test_params_and_result_live_as_long_as_their_method(method):
    for carried in filter(None, (method.params, method.result)):
        for revision in REVISION_IDS:
            assert revision not in method.lifetime or revision in lifetime_of(carried)


# What the published schema of 2026-07-28 leaves to the tasks extension.
EXTENSION = {"tasks/cancel", "tasks/get", "tasks/update", "notifications/tasks"}


def official(revision: str, union: str) -> set[str]:
    loaded = schema(revision)
    definitions = loaded[definitions_key(loaded)]
    found = definitions.get(union, {"anyOf": []})
    members = [definitions[each["$ref"].rsplit("/", 1)[-1]] for each in found.get("anyOf", ())] or [
        found
    ] * ("properties" in found)
    return {each["properties"]["method"]["const"] for each in members}


@pytest.mark.skipif(not PRESENT, reason=ABSENT_REASON)
@cases("revision", REVISION_IDS)
def test_each_revision_has_the_methods_of_its_official_schema(revision):
    row = REVISIONS[revision]
    for party in ("client", "server"):
        for index, kind in ((row.requests, "Request"), (row.notifications, "Notification")):
            named = official(revision, f"{party.capitalize()}{kind}")
            assert set(index[party]) - EXTENSION == named - EXTENSION


@cases(
    ("revision", "sender", "present", "absent"),
    [
        ("2024-11-05", "client", "completion/complete", "server/discover"),
        ("2025-03-26", "server", "sampling/createMessage", "elicitation/create"),
        ("2025-06-18", "server", "elicitation/create", "tasks/get"),
        ("2025-11-25", "server", "tasks/get", "subscriptions/listen"),
        ("2026-07-28", "client", "subscriptions/listen", "initialize"),
        ("2026-07-28", "client", "tasks/update", "tasks/list"),
        ("2026-07-28", "client", "resources/read", "resources/subscribe"),
        ("2026-07-28", "client", "server/discover", "ping"),
    ],
)
def test_methods_come_and_go_with_the_revisions(revision, sender, present, absent):
    requests = REVISIONS[revision].requests[sender]
    assert present in requests
    assert absent not in requests


def test_completion_needs_its_capability_since_there_is_one():
    needed = [row.needed_for("client", "completion/complete") for row in REVISIONS.values()]
    assert needed == [None, "completions", "completions", "completions", "completions"]
