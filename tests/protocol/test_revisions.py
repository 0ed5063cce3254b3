import msgspec
import pytest

from accord.protocol.revisions import (
    BEFORE_HANDSHAKE,
    HANDSHAKE,
    R2024_11_05,
    REVISIONS,
    Method,
    Revision,
    in_order,
    later_than,
    negotiate,
    newest,
)
from accord.types import EmptyParams, EmptyResult
from accord.types._base import REVISION_IDS, Lifetime
from support.tables import cases

ASK = Method(name="ask", by=("server",), params=EmptyParams, result=EmptyResult, needs="answers")
TELL = Method(name="notifications/tell", by=("client", "server"), params=EmptyParams)
LATE = Method(
    name="late",
    by=("client",),
    params=EmptyParams,
    result=EmptyResult,
    lifetime=Lifetime(since="2025-06-18"),
    needs="late",
    needs_lifetime=Lifetime(since="2025-11-25"),
)
ROW = Revision(id="2024-11-05", methods=(ASK, TELL, LATE))


def test_a_method_with_a_result_is_a_request():
    assert ASK.is_request
    assert not TELL.is_request
    assert repr(ASK) == "Method('ask')"


def test_methods_are_found_by_kind_and_sender():
    assert ROW.requests == {"client": {}, "server": {"ask": ASK}}
    assert ROW.notifications == {
        "client": {"notifications/tell": TELL},
        "server": {"notifications/tell": TELL},
    }


def test_a_method_is_found_in_its_lifetime_only():
    assert "late" not in ROW.requests["client"]
    assert "late" in ROW.evolve("2025-06-18").requests["client"]


def test_a_capability_is_needed_in_its_own_lifetime_only():
    assert ROW.needed_for("server", "ask") == "answers"
    assert ROW.needed_for("client", "ask") is None
    assert ROW.evolve("2025-06-18").needed_for("client", "late") is None
    assert ROW.evolve("2025-11-25").needed_for("client", "late") == "late"


def test_without_server_requests_a_server_still_notifies():
    row = ROW.evolve("2026-07-28", server_requests=False)
    assert row.requests["server"] == {}
    assert list(row.notifications["server"]) == ["notifications/tell"]


def test_a_revision_evolves_without_changing_the_one_before():
    later = R2024_11_05.evolve("2025-03-26", batching=True)
    assert (later.id, later.batching, R2024_11_05.batching) == ("2025-03-26", True, False)
    assert later.methods is R2024_11_05.methods
    assert repr(later) == "Revision('2025-03-26')"


@cases("row", REVISIONS.values(), ids=str)
def test_indexes_are_made_once(row):
    assert row.requests is row.requests
    assert row.notifications is row.notifications


OPENED = [row.id for row in REVISIONS.values() if row.handshake]

FEATURES = {
    #                     24-11  25-03  25-06  25-11  26-07
    "handshake":         (True,  True,  True,  True,  False),
    "batching":          (False, True,  False, False, False),
    "server_requests":   (True,  True,  True,  True,  False),
    "rounds":            (False, False, False, False, True),
    "result_type":       (False, False, False, False, True),
    "cache_hints":       (False, False, False, False, True),
    "tasks":             (False, False, False, True,  False),
    "priming_event":     (False, False, False, True,  False),
    "streamable_http":   (False, True,  True,  True,  True),
    "version_header":    (False, False, True,  True,  True),
    "not_found_code":    (-32002, -32002, -32002, -32002, -32602),
    "reserved_codes":    (False, False, False, False, True),
}  # fmt: skip


def test_every_revision_id_has_its_row_in_order():
    assert tuple(REVISIONS) == REVISION_IDS
    assert [row.id for row in REVISIONS.values()] == list(REVISION_IDS)


@cases("feature", FEATURES)
def test_features_come_and_go_with_the_revisions(feature):
    assert tuple(getattr(row, feature) for row in REVISIONS.values()) == FEATURES[feature]


def test_the_table_of_features_is_complete():
    fields = {field.name for field in msgspec.structs.fields(BEFORE_HANDSHAKE)}
    assert fields - {"id", "methods"} == set(FEATURES)


@pytest.mark.requirement("lifecycle.version.server-echoes")
@cases("requested", OPENED)
def test_the_revision_asked_for_is_chosen_where_it_is_supported(requested):
    assert negotiate(requested, REVISION_IDS).id == requested


@pytest.mark.requirement("lifecycle.version.server-offers-other")
@cases("requested", ["1999-01-01", "2026-07-28", "2099-01-01", ""])
def test_otherwise_the_newest_with_a_handshake_is_offered(requested):
    assert negotiate(requested, REVISION_IDS).id == OPENED[-1]
    assert negotiate(requested, ["2025-03-26", "2024-11-05"]).id == "2025-03-26"


def test_nothing_can_be_negotiated_without_a_handshake():
    with pytest.raises(ValueError, match="no supported revision has a handshake"):
        negotiate("2025-06-18", ["2026-07-28"])


@pytest.mark.parametrize(
    ("id", "later"),
    [
        ("2025-06-18", ["2025-11-25", "2026-07-28"]),
        ("2026-07-28", []),
        ("2025-12-01", ["2026-07-28"]),
    ],
)
def test_later_revisions_follow_a_revision(id, later):
    assert [row.id for row in later_than(id)] == later


def test_before_the_handshake_the_newest_revision_with_one_is_assumed():
    assert list(HANDSHAKE) == [row.id for row in REVISIONS.values() if row.handshake]
    assert HANDSHAKE[newest(HANDSHAKE)] is BEFORE_HANDSHAKE


def test_revisions_are_ordered_by_their_age():
    assert in_order(reversed(REVISIONS)) == list(REVISIONS)
    assert newest(REVISIONS) == list(REVISIONS)[-1]
