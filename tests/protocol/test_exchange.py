import pytest

from accord.protocol.exchange import Exchange, member, meta_of
from accord.protocol.revisions import R2026_07_28
from accord.types import CancelledParams, EmptyParams, ProgressParams
from support.tables import cases


@pytest.mark.parametrize(("name", "lasting"), [("subscriptions/listen", True), ("ping", False)])
def test_only_subscriptions_stay_open_by_design(name, lasting):
    assert Exchange(1, name, "client", R2026_07_28, None).is_lasting is lasting


@cases(
    ("body", "name", "value"),
    [
        ({"requestId": 1}, "requestId", 1),
        ({"requestId": 1}, "reason", None),
        (CancelledParams(request_id="a"), "requestId", "a"),
        (ProgressParams(progress_token=3, progress=1), "progressToken", 3),
        (EmptyParams(meta={"a": 1}), "_meta", {"a": 1}),
        (EmptyParams(), "cursor", None),
        (None, "cursor", None),
        ([1], "cursor", None),
    ],
    ids=str,
)
def test_members_are_read_by_their_wire_name_from_json_and_from_types(body, name, value):
    assert member(body, name) == value


@cases(
    ("body", "meta"),
    [
        ({"_meta": {"a": 1}}, {"a": 1}),
        ({"_meta": [1]}, {}),
        ({}, {}),
        (EmptyParams(meta={"a": 1}), {"a": 1}),
        (EmptyParams(), {}),
        (None, {}),
        ("text", {}),
    ],
    ids=str,
)
def test_meta_is_always_an_object(body, meta):
    assert meta_of(body) == meta
