"""What a check found: one result per requirement, the breaches folded, coverage and a score.

Results and coverage come from verdicts; the forms a report takes stand in `rendering`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import floor
from typing import Final, Literal, TypeAlias

import msgspec

from accord.check.spec_pages import anchor
from accord.protocol.catalogue import Level, catalogue
from accord.protocol.monitor import Evidence, Verdict, VerdictName
from accord.protocol.violation import FAIL, Party, Severity, Violation
from accord.types import RevisionId
from accord.version import __version__

CheckedParty: TypeAlias = Literal["server", "client", "both"]

# The worst first: it is the one that counts where revisions differ, and the one to read first.
VERDICTS: Final[tuple[VerdictName, ...]] = (
    "fail",
    "warn",
    "pass",
    "not-exercised",
    "not-applicable",
)

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


class ViolationGroup(msgspec.Struct):
    """One breach and its repetitions: same requirement, same party, same reason."""

    requirement: str
    party: Party
    why: str
    severity: Severity
    evidence: str | None
    numbers: list[int]
    count: int = 0


class ViolationGroups:
    """Breaches as they come, folded so that their number does not matter."""

    def __init__(self) -> None:
        self._folded: dict[tuple[str, str, str, str], ViolationGroup] = {}
        self._distinct: dict[str, int] = {}

    def add(self, violation: Violation) -> None:
        """Count one breach."""
        finding = self._finding(violation)
        finding.count += 1
        if violation.number is not None and len(finding.numbers) < _NUMBERS_PER_FINDING:
            finding.numbers.append(violation.number)

    def _finding(self, violation: Violation) -> ViolationGroup:
        id_, why, severity = violation.requirement, violation.why, violation.severity or FAIL
        key = (id_, violation.party, why, severity)
        if key not in self._folded:
            if self._distinct.get(id_, 0) >= _DISTINCT_PER_REQUIREMENT:
                why = "breaks it in further ways, not listed one by one"
                key = (id_, violation.party, why, severity)
            else:
                self._distinct[id_] = self._distinct.get(id_, 0) + 1
        return self._folded.setdefault(
            key, ViolationGroup(id_, violation.party, why, severity, violation.evidence, [])
        )

    def sorted(self) -> list[ViolationGroup]:
        """Return the failures, then the warnings, each as they came."""
        return sorted(self._folded.values(), key=lambda finding: finding.severity != FAIL)


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """How a check was made, as far as a report tells it.

    Attributes:
        party: whose deeds were judged.
        transport: what the messages travelled over.
        revisions: those that were checked; empty leaves it at the one judged by.
        at: when, in whatever form the caller writes dates.
        seconds: how long it took.
        command: the command line that makes the same check again, up to where options go.
        command_end: what comes after the options, such as a command after `--`.
        artifact: the file that tools for source code are to show breaches in.
        calls: how many calls each tool of a server might get; None where none could be made.
        called: how many calls each of its tools got.
        not_called: its tools that were left alone, with the reasons.
        notes: what else is to be known of how the check was made.
    """

    party: CheckedParty = "both"
    transport: str | None = None
    revisions: tuple[RevisionId, ...] = ()
    at: str | None = None
    seconds: float | None = None
    command: str | None = None
    command_end: str = ""
    artifact: str | None = None
    calls: int | None = None
    called: Mapping[str, int] = {}
    not_called: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()

    def repeat(self, id: str, revision: RevisionId) -> str | None:
        """Return the command line that checks one requirement again; None where there is none."""
        if self.command is None:
            return None
        return f"{self.command} --only {id} --revision {revision}{self.command_end}"


class RequirementResult(Verdict, frozen=True, kw_only=True):
    """What is said of one requirement, and what there is to know about it.

    Attributes:
        by_revision: the verdict under each revision checked; `verdict` is the worst of them.
        clause: what the requirement says.
        anchor: the place in the specification.
        repeat: the command line that checks just this one again.
    """

    by_revision: dict[RevisionId, VerdictName] = msgspec.field(default_factory=dict)
    clause: str = ""
    anchor: str | None = None
    repeat: str | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that a check has to say.

    `revision` is None where nobody named one; `judged_by` is then the one that was taken. Where
    several were checked, both are the newest.
    """

    target: str
    revision: RevisionId | None
    judged_by: RevisionId
    score: float | None
    coverage: Coverage
    results: tuple[RequirementResult, ...]
    findings: tuple[ViolationGroup, ...] = ()
    setting: Setting = Setting()
    version: str = __version__

    @property
    def has_failed(self) -> bool:
        """Whether any requirement was broken in a way that is more than a warning."""
        return self.count("fail") > 0 or any(each.severity == FAIL for each in self.findings)

    def count(self, verdict: VerdictName) -> int:
        """Return how many requirements got this verdict."""
        return sum(result.verdict == verdict for result in self.results)


def build_report(
    results: Sequence[Verdict],
    *,
    target: str,
    revision: RevisionId | None,
    judged_by: RevisionId,
    decidable: Collection[str],
    findings: Iterable[ViolationGroup] = (),
    setting: Setting | None = None,
) -> Report:
    """Make a report of verdicts: count the coverage and the score.

    Args:
        results: one verdict per requirement.
        target: what was checked.
        revision: the revision that the parties spoke, None where nobody named one.
        judged_by: the revision whose requirements were applied.
        decidable: the requirements that a check of this kind can decide at all.
        findings: the breaches, folded.
        setting: how the check was made.
    """
    setting = setting or Setting()
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
        results=tuple(_described(each, judged_by, setting) for each in results),
        findings=tuple(findings),
        setting=setting
        if setting.revisions
        else msgspec.structs.replace(setting, revisions=(judged_by,)),
    )


def merge_revisions(
    found: Mapping[RevisionId, Sequence[Verdict]],
    *,
    target: str,
    party: Party,
    setting: Setting | None = None,
) -> Report:
    """Make one report of the verdicts under several revisions: the worst on each row counts.

    Args:
        found: the verdicts by revision; there is at least one.
        target: what was checked.
        party: who was checked.
        setting: how the check was made; party and revisions are filled in.
    """
    newest = max(found)
    by_id: dict[str, dict[RevisionId, Verdict]] = {}
    for revision, verdicts in found.items():
        for verdict in verdicts:
            by_id.setdefault(verdict.id, {})[revision] = verdict
    results = [_joined(by_revision) for by_revision in by_id.values()]
    rows = catalogue()
    return build_report(
        results,
        target=target,
        revision=newest,
        judged_by=newest,
        decidable={each.id for each in results if rows[each.id].check != "human"},
        findings=_findings(results, party),
        setting=msgspec.structs.replace(
            setting or Setting(), party=party, revisions=tuple(sorted(found))
        ),
    )


def _joined(by_revision: Mapping[RevisionId, Verdict]) -> RequirementResult:
    worst = min(by_revision.values(), key=lambda each: VERDICTS.index(each.verdict))
    where = tuple(sorted(by_revision))
    touched = [id for id in where if by_revision[id].verdict == worst.verdict]
    message = worst.message
    if worst.verdict in ("fail", "warn") and len(touched) < len(where):
        message = f"{message} (in {', '.join(touched)})"
    return RequirementResult(
        id=worst.id,
        level=worst.level,
        party=worst.party,
        revisions=where,
        verdict=worst.verdict,
        message=message,
        evidence=worst.evidence,
        by_revision={id: by_revision[id].verdict for id in where},
    )


def _findings(results: Iterable[Verdict], party: Party) -> list[ViolationGroup]:
    """Return the breaches, the failures first."""
    found = [
        ViolationGroup(
            requirement=each.id,
            party=party,
            why=each.message,
            severity="fail" if each.verdict == "fail" else "warn",
            evidence=_last_message(each.evidence),
            numbers=[],
            count=1,
        )
        for each in results
        if each.verdict in ("fail", "warn")
    ]
    return sorted(found, key=lambda finding: finding.severity != FAIL)


def _last_message(evidence: Sequence[Evidence]) -> str | None:
    messages = [f"{each.party}: {each.message}" for each in evidence if each.message]
    return messages[-1] if messages else None


def _described(verdict: Verdict, judged_by: RevisionId, setting: Setting) -> RequirementResult:
    row = catalogue().get(verdict.id)
    by_revision: dict[RevisionId, VerdictName] = (
        verdict.by_revision
        if isinstance(verdict, RequirementResult)
        else {judged_by: verdict.verdict}
    )
    touched = [id for id, name in by_revision.items() if name == verdict.verdict]
    shown = max(touched, default=judged_by)
    return RequirementResult(
        id=verdict.id,
        level=verdict.level,
        party=verdict.party,
        revisions=verdict.revisions,
        verdict=verdict.verdict,
        message=verdict.message,
        evidence=verdict.evidence,
        by_revision=by_revision,
        clause="not in the catalogue" if row is None else row.text,
        anchor=None if row is None else anchor(row, shown),
        repeat=setting.repeat(verdict.id, shown),
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
