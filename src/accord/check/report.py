"""What a check found: one result per requirement, the breaches folded, coverage and a score.

Results and coverage come from the verdicts of a monitor; the rendering stands in `render.py`.
"""

from collections.abc import Collection, Iterable, Sequence
from math import floor
from typing import Final

import msgspec

from accord.protocol.catalogue import Level
from accord.protocol.monitor import Verdict, VerdictName
from accord.protocol.violation import FAIL, Party, Severity, Violation
from accord.types import RevisionId

__all__ = ["SCORE_RULE", "Coverage", "Finding", "Findings", "Report", "build"]

_CREDIT: Final[dict[str, float]] = {"pass": 1, "warn": 0.5, "fail": 0}
_HEAVY: Final[tuple[Level, ...]] = ("MUST", "MUST NOT")
_HEAVY_WEIGHT: Final = 3
SCORE_RULE: Final = (
    "over the exercised requirements: a pass counts 1, a warning 0.5, a failure 0;"
    f" MUST and MUST NOT weigh {_HEAVY_WEIGHT}, all others 1"
)

# A recording may repeat one mistake with ever new values; a few of them and the count suffice.
_DISTINCT_PER_REQUIREMENT: Final = 10
_NUMBERS_PER_FINDING: Final = 5


class Coverage(msgspec.Struct, frozen=True):
    """How many requirements could be decided here, and how many were put to the test."""

    applicable: int
    exercised: int


class Finding(msgspec.Struct):
    """One breach and its repetitions: same requirement, same party, same reason."""

    requirement: str
    party: Party
    why: str
    severity: Severity
    evidence: str | None
    numbers: list[int]
    count: int = 0


class Findings:
    """Breaches as they come, folded so that their number does not matter."""

    def __init__(self) -> None:
        self._folded: dict[tuple[str, str, str, str], Finding] = {}
        self._distinct: dict[str, int] = {}

    def add(self, violation: Violation) -> None:
        """Count one breach."""
        finding = self._finding(violation)
        finding.count += 1
        if violation.number is not None and len(finding.numbers) < _NUMBERS_PER_FINDING:
            finding.numbers.append(violation.number)

    def _finding(self, violation: Violation) -> Finding:
        id_, why, severity = violation.requirement, violation.why, violation.severity or FAIL
        key = (id_, violation.party, why, severity)
        if key not in self._folded:
            if self._distinct.get(id_, 0) >= _DISTINCT_PER_REQUIREMENT:
                why = "breaks it in further ways, not listed one by one"
                key = (id_, violation.party, why, severity)
            else:
                self._distinct[id_] = self._distinct.get(id_, 0) + 1
        return self._folded.setdefault(
            key, Finding(id_, violation.party, why, severity, violation.evidence, [])
        )

    def sorted(self) -> list[Finding]:
        """Return the failures, then the warnings, each as they came."""
        return sorted(self._folded.values(), key=lambda finding: finding.severity != FAIL)


class Report(msgspec.Struct, frozen=True):
    """All that a check has to say.

    `revision` is None where nobody named one; `judged_by` is then the one that was taken.
    """

    target: str
    revision: RevisionId | None
    judged_by: RevisionId
    score: float | None
    coverage: Coverage
    results: tuple[Verdict, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def has_failed(self) -> bool:
        """Whether any requirement was broken in a way that is more than a warning."""
        return self.count("fail") > 0 or any(each.severity == FAIL for each in self.findings)

    def count(self, verdict: VerdictName) -> int:
        """Return how many requirements got this verdict."""
        return sum(result.verdict == verdict for result in self.results)

    def breaches(self, severity: Severity) -> int:
        """Return how often requirements were broken, repetitions included."""
        return sum(each.count for each in self.findings if each.severity == severity)


def build(
    results: Sequence[Verdict],
    *,
    target: str,
    revision: RevisionId | None,
    judged_by: RevisionId,
    decidable: Collection[str],
    findings: Iterable[Finding] = (),
) -> Report:
    """Make a report of verdicts: count the coverage and the score.

    Args:
        results: one verdict per requirement.
        target: what was checked.
        revision: the revision that the parties spoke, None where nobody named one.
        judged_by: the revision whose requirements were applied.
        decidable: the requirements that a check of this kind can decide at all.
        findings: the breaches, folded.
    """
    exercised = [result for result in results if result.verdict in _CREDIT]
    untried = [
        result for result in results if result.verdict == "not-exercised" and result.id in decidable
    ]
    return Report(
        target=target,
        revision=revision,
        judged_by=judged_by,
        score=_score(exercised),
        coverage=Coverage(len(exercised) + len(untried), len(exercised)),
        results=tuple(results),
        findings=tuple(findings),
    )


def _score(exercised: Sequence[Verdict]) -> float | None:
    total = sum(_weight(result) for result in exercised)
    if not total:
        return None
    earned = sum(_weight(result) * _CREDIT[result.verdict] for result in exercised)
    # Rounded down: only a recording without any breach has 100.
    return floor(1000 * earned / total) / 10


def _weight(result: Verdict) -> int:
    return _HEAVY_WEIGHT if result.level in _HEAVY else 1
