import msgspec
import pytest

from accord.protocol.revisions import (
    BEFORE_HANDSHAKE,
    REVISIONS,
    SPOKEN,
    in_order,
    later_than,
    negotiate,
    newest,
)
from accord.types._base import REVISION_IDS

HANDSHAKE = [row.id for row in REVISIONS.values() if row.handshake]

FEATURES = {
    #                     24-11  25-03  25-06  25-11  26-07
    "handshake":         (True,  True,  True,  True,  False),
    "batching":          (False, True,  False, False, False),
    "server_requests":   (True,  True,  True,  True,  False),
    "rounds":            (False, False, False, False, True),
    "result_type":       (False, False, False, False, True),
    "cache_hints":       (False, False, False, False, True),
    "priming_event":     (False, False, False, True,  False),
    "streamable_http":   (False, True,  True,  True,  True),
    "version_header":    (False, False, True,  True,  True),
    "not_found_code":    (-32002, -32002, -32002, -32002, -32602),
}  # fmt: skip


def test_every_revision_id_has_its_row_in_order():
    assert tuple(REVISIONS) == REVISION_IDS
    assert [row.id for row in REVISIONS.values()] == list(REVISION_IDS)


@pytest.mark.parametrize("feature", FEATURES)
def test_features_come_and_go_with_the_revisions(feature):
    assert tuple(getattr(row, feature) for row in REVISIONS.values()) == FEATURES[feature]


def test_the_table_of_features_is_complete():
    fields = {field.name for field in msgspec.structs.fields(BEFORE_HANDSHAKE)}
    assert fields - {"id", "methods"} == set(FEATURES)


def test_before_the_handshake_the_newest_revision_with_one_is_assumed():
    assert BEFORE_HANDSHAKE.id == HANDSHAKE[-1]


@pytest.mark.requirement("lifecycle.version.server-echoes")
@pytest.mark.parametrize("requested", HANDSHAKE)
def test_the_revision_asked_for_is_chosen_where_it_is_supported(requested):
    assert negotiate(requested, REVISION_IDS).id == requested


@pytest.mark.requirement("lifecycle.version.server-offers-other")
@pytest.mark.parametrize("requested", ["1999-01-01", "2026-07-28", "2099-01-01", ""])
def test_otherwise_the_newest_with_a_handshake_is_offered(requested):
    assert negotiate(requested, REVISION_IDS).id == HANDSHAKE[-1]
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


def test_the_spoken_revisions_are_those_with_a_handshake_oldest_first():
    assert list(SPOKEN) == [row.id for row in REVISIONS.values() if row.handshake]
    assert SPOKEN[newest(SPOKEN)] is BEFORE_HANDSHAKE


def test_revisions_are_ordered_by_their_age():
    assert in_order(reversed(REVISIONS)) == list(REVISIONS)
    assert newest(REVISIONS) == list(REVISIONS)[-1]
