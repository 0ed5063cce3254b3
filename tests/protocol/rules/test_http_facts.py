"""What recordings show of HTTP: clean sessions raise no alarm, each mutant just its own."""

from collections import Counter

import msgspec
import pytest

import protocol.rules.http_mutants_later  # noqa: F401  # registers mutants
from accord.protocol.catalogue import catalogue
from accord.protocol.rules.http import HTTP_RULES
from protocol.rules.http_mutants import MUTANTS, Mutant
from protocol.rules.http_sessions import (
    HANDSHAKE_OVER_HTTP,
    STANDALONE,
    Session,
    judge,
    locked,
    older,
    resumed,
    standalone,
    streamable,
)


def _clean() -> dict[str, Session]:
    found = {"older": older(), "standalone": standalone(), "locked": locked(STANDALONE)}
    found["standalone as JSON"] = standalone(is_streamed=False)
    found["standalone with a token"] = standalone(token="masked-3")
    for revision in HANDSHAKE_OVER_HTTP:
        found[revision] = streamable(revision)
        found[f"{revision} as JSON"] = streamable(revision, is_streamed=False)
        found[f"{revision} without session"] = streamable(revision, session=None)
        found[f"{revision} with a token"] = streamable(revision, token="masked-3")
        found[f"{revision} resumed"] = resumed(revision)
        found[f"{revision} locked"] = locked(revision)
        found[f"{revision} older"] = older(revision)
    return found


@pytest.mark.parametrize("name", _clean())
def test_a_session_that_keeps_the_rules_raises_no_alarm(name: str) -> None:
    _, found = judge(_clean()[name])
    assert [str(each) for each in found] == []


@pytest.mark.parametrize("name", _clean())
def test_without_recorded_facts_nobody_is_accused(name: str) -> None:
    session = _clean()[name]
    for label, record in session.items():
        session[label] = msgspec.structs.replace(record, http=None)
    bare = {label: each for label, each in session.items() if each.message or each.raw}
    monitor, found = judge(bare)
    assert [str(each) for each in found] == []
    assert "not-recorded" in {each.verdict for each in monitor.verdicts()}


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_is_found_under_its_requirement_alone(mutant: Mutant) -> None:
    session = mutant.session()
    _, before = judge(session)
    mutant.spoil(session)
    _, found = judge(session)
    # What messages break beside it, such as an answer that nobody asked for, is judged elsewhere.
    judged = {rule.requirement for rule in HTTP_RULES}
    fresh = {each.requirement for each in found} & judged - {each.requirement for each in before}
    assert mutant.requirement in fresh, [str(each) for each in found]
    assert fresh <= {mutant.requirement} | mutant.also, [str(each) for each in found]
    breach = next(each for each in found if each.requirement == mutant.requirement)
    assert breach.severity == catalogue()[mutant.requirement].severity_in(mutant.revision) or (
        breach.severity == "warn"
    )
    assert breach.evidence


def test_every_rule_on_http_has_three_mutants_in_each_of_its_revisions() -> None:
    count = Counter((each.requirement, each.revision) for each in MUTANTS)
    judged = {rule.requirement for rule in HTTP_RULES}
    mutated = {each.requirement for each in MUTANTS}
    assert judged - mutated == set()
    assert {key: many for key, many in count.items() if many < 3} == {}
