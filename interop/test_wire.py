"""A monitor on every wire: accord breaks nothing; what foreign peers break is known by name."""

import conftest
import pytest
from sessions import AS_CLIENT, AS_SERVER, WITH_EVERYTHING, Pairing, Session

PAIRINGS = [*AS_SERVER, *AS_CLIENT, *WITH_EVERYTHING]
# The scenario does this on purpose, to see it refused.
ON_PURPOSE = {"pagination.cursor.opaque"}
pytestmark = pytest.mark.parametrize("pairing", PAIRINGS, ids=str)


def test_accord_breaks_no_requirement(session: Session, pairing: Pairing) -> None:
    ours = [str(each) for each in session.breaches if each.party != pairing.foreign]
    assert not ours


def test_every_line_on_the_wire_is_a_message(session: Session, pairing: Pairing) -> None:
    assert len(session.records) > 40
    assert [each.raw for each in session.records if each.message is None] == []


def test_what_the_foreign_peer_breaks_is_known(
    session: Session, pairing: Pairing, findings: dict[str, dict[str, str]]
) -> None:
    known = findings.get(pairing.peer, {})
    for breach in session.breaches:
        foreign = breach.party == pairing.foreign and breach.requirement not in ON_PURPOSE
        if foreign and breach.requirement not in known:
            # Their next release may break something else: that is news, not our failure.
            key = (pairing.peer, breach.requirement)
            conftest.unknown.setdefault(key, f"{breach.why} ({pairing.revision})")
