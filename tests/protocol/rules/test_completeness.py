"""Every requirement that traffic can decide has a rule, and every rule has a pair of traces."""

from accord.protocol.catalogue import catalogue
from accord.protocol.monitor import JUDGED_HERE
from accord.protocol.revisions import REVISIONS
from accord.protocol.rules import complete
from accord.protocol.rules._rule import RULES
from accord.protocol.rules.http import HTTP_RULES, NEEDED_BY_MESSAGES, needed_facts
from protocol.rules.test_pairs import PAIRS
from support.tables import cases

MISSION = ("2024-11-05", "2025-03-26", "2025-06-18")


@cases("revision", REVISIONS)
def test_every_wire_requirement_has_a_rule(revision: str) -> None:
    ruled = {rule.requirement for rule in complete(revision).rules} | JUDGED_HERE
    wire = {
        row.id for row in catalogue().values() if row.check == "wire" and row.holds_in(revision)
    }
    assert wire - ruled - UNDECIDABLE.keys() == set()


def test_the_catalogue_marks_exactly_the_rows_that_recordings_can_decide() -> None:
    for revision in REVISIONS:
        complete(revision)  # registers all rules
    http = {rule.requirement for rule in HTTP_RULES} | NEEDED_BY_MESSAGES.keys()
    messages = ({rule.requirement for rule in RULES} | JUDGED_HERE) - http
    marked: dict[str | None, set[str]] = {"http": set(), "messages": set(), None: set()}
    for row in catalogue().values():
        marked[row.recording].add(row.id)
    assert marked["http"] == http
    assert marked["messages"] == messages


def test_a_row_that_needs_http_facts_says_which() -> None:
    for row in catalogue().values():
        assert (needed_facts(row.id) is not None) == (row.recording == "http"), row.id


@cases("revision", REVISIONS)
def test_every_rule_has_its_pair_of_traces(revision: str) -> None:
    paired = {
        pair.requirement for pair in PAIRS if pair.revisions is None or revision in pair.revisions
    }
    ruled = {rule.requirement for rule in complete(revision).rules} | {
        id for id in JUDGED_HERE if catalogue()[id].holds_in(revision)
    }
    # What breaks it breaks deprecated.include-context.not-used too, which is reported instead.
    superseded = {"sampling.context.avoid"} if revision == "2026-07-28" else set()
    assert ruled - paired == superseded


def test_undecidable_requirements_are_of_later_revisions_and_have_no_rule() -> None:
    for revision in MISSION:
        assert not [id for id in UNDECIDABLE if catalogue()[id].holds_in(revision)]
    assert {rule.requirement for rule in RULES}.isdisjoint(UNDECIDABLE)


@cases("revision", REVISIONS)
def test_endpoints_enforce_a_state_rule_in_exactly_the_revisions_of_the_catalogue(
    revision: str,
) -> None:
    complete(revision)
    disagreeing = [
        rule.requirement
        for rule in RULES
        if not rule.deep
        and (revision in rule.lifetime) != catalogue()[rule.requirement].holds_in(revision)
    ]
    assert disagreeing == []


UNDECIDABLE = {
    "elicitation.url.third-party-credentials-stay": "a recording does not show credentials",
    "elicitation.complete.same-client": "a recording has one client and does not show the others",
}
"""Rows of later revisions that are marked `wire` although no recording alone can decide them."""
