import pytest

from accord.protocol.violation import ACCEPT, CLIENT, IGNORE, OTHER, SERVER, Violation


def test_a_violation_reads_as_a_sentence_about_the_party():
    violation = Violation("progress.token.unique", "client", "uses progress token 1 twice")
    assert str(violation) == "progress.token.unique: client uses progress token 1 twice"


def test_a_violation_is_accepted_unless_a_reaction_is_named():
    violation = Violation("progress.token.unique", "client", "x")
    assert violation.reaction is ACCEPT
    assert violation.reaction != IGNORE


@pytest.mark.parametrize(("party", "other"), [(CLIENT, SERVER), (SERVER, CLIENT)])
def test_each_party_has_one_other(party, other):
    assert OTHER[party] == other
