import pytest

from accord.protocol.methods import Method
from accord.protocol.revisions import R2024_11_05, REVISIONS, Revision
from accord.types import EmptyParams, EmptyResult
from accord.types._base import Lifetime

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


@pytest.mark.parametrize("row", REVISIONS.values(), ids=str)
def test_indexes_are_made_once(row):
    assert row.requests is row.requests
    assert row.notifications is row.notifications
