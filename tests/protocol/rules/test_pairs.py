"""The shortest legal trace of a rule raises no alarm, its shortest illegal one just this alarm."""

from importlib import import_module
from pathlib import Path

import pytest

from accord.protocol.catalogue import catalogue
from accord.protocol.revisions import REVISIONS
from support.tables import cases
from support.traces import Pair, judge

AREAS = sorted(path.stem for path in Path(__file__).with_name("pairs").glob("[a-z]*.py"))
PAIRS: list[Pair] = [
    pair for area in AREAS for pair in import_module(f"protocol.rules.pairs.{area}").PAIRS
]


def _cases() -> list[object]:
    cases = []
    for pair in PAIRS:
        row = catalogue()[pair.requirement]
        for revision in pair.revisions or tuple(REVISIONS):
            if row.holds_in(revision):
                name = "-".join(filter(None, (pair.requirement, pair.variant, revision)))
                cases.append(pytest.param(pair, revision, id=name))
    return cases


@cases(("pair", "revision"), _cases())
def test_shortest_legal_trace_raises_no_alarm(pair: Pair, revision: str) -> None:
    monitor, found = judge(
        pair.legal, revision, client=pair.client, server=pair.server, opened=pair.opened
    )
    # Some practices contradict a requirement; servers that follow them are reported for that alone.
    tolerated = pair.also if pair.observed else pair.provoked
    assert [str(each) for each in found if each.requirement not in tolerated] == []
    assert monitor.tallies[pair.requirement].exercised > 0, "the trace does not test the rule"


@cases(("pair", "revision"), _cases())
def test_shortest_illegal_trace_breaks_just_this_rule(pair: Pair, revision: str) -> None:
    monitor, found = judge(
        pair.illegal, revision, client=pair.client, server=pair.server, opened=pair.opened
    )
    reported = {violation.requirement for violation in found}
    if pair.observed:
        assert reported <= pair.also
        assert pair.requirement not in monitor.tallies
        return
    severity = pair.severity or catalogue()[pair.requirement].severity_in(revision)
    if severity is None:
        assert reported <= pair.also
        assert monitor.tallies[pair.requirement].hint
        return
    assert pair.requirement in reported, f"not reported; got {[str(each) for each in found]}"
    assert reported <= {pair.requirement} | pair.also | pair.provoked, [str(each) for each in found]
    breach = next(each for each in found if each.requirement == pair.requirement)
    assert breach.severity == severity
    assert pair.party in (None, breach.party)
    assert breach.number is not None
    assert breach.evidence
