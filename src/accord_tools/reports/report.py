"""The report of a check: one result per requirement, grouped violations, coverage and a score.

The other modules of this package turn it into text, HTML and other formats.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import floor
from typing import Final, Literal, TypeAlias

import msgspec

from accord.protocol.catalogue import RULE_SET, Level, catalogue
from accord.protocol.revisions import in_order, newest
from accord.protocol.verdict import Evidence, Verdict, VerdictName, specificity
from accord.protocol.violation import FAIL, Party, Severity, Violation
from accord.types import RevisionId
from accord.version import __version__
from accord_tools.reports.clauses import clause_of
from accord_tools.reports.tool_calls import ToolCounts

CheckedParty: TypeAlias = Literal["server", "client", "both"]

# The worst first: it counts where revisions differ, and reports begin with it.
VERDICTS: Final[tuple[VerdictName, ...]] = (
    "fail",
    "warn",
    "pass",
    "not-exercised",
    "not-recorded",
    "not-applicable",
)

_CREDIT: Final[dict[str, float]] = {"pass": 1, "warn": 0.5, "fail": 0}
EXERCISED: Final = frozenset(_CREDIT)
"""The verdicts which say that a requirement was put to the test."""
_HEAVY: Final[tuple[Level, ...]] = ("MUST", "MUST NOT")
_HEAVY_WEIGHT: Final = 3
# The highest score of a target that broke a MUST or MUST NOT.
HIGHEST_WITH_FAILURE: Final = 79
SCORE_RULE: Final = (
    "over the exercised requirements: a pass counts 1, a warning 0.5, a failure 0;"
    f" MUST and MUST NOT weigh {_HEAVY_WEIGHT}, all others 1;"
    f" a failed MUST or MUST NOT caps it at {HIGHEST_WITH_FAILURE}"
)

# A recording may repeat one mistake with new values each time; a few examples are enough.
_DISTINCT_PER_REQUIREMENT: Final = 10
_NUMBERS_PER_GROUP: Final = 5


class Coverage(msgspec.Struct, frozen=True):
    """How many requirements could be decided here, and how many were put to the test."""

    applicable: int
    exercised: int


class ViolationGroup(msgspec.Struct):
    """A violation and its repetitions: same requirement, same party, same reason.

    Attributes:
        violation: the first one.
        severity: whether it fails or warns.
        numbers: of the first records that show it.
        count: how often it was seen.
        also: less specific requirements that the same value of the same message breaks.
        beside: the most specific one; None if it is this one.
    """

    violation: Violation
    severity: Severity
    numbers: list[int]
    count: int = 0
    also: tuple[str, ...] = ()
    beside: str | None = None


class ViolationGroups:
    """Groups violations as they arrive, so that repetitions cost no memory."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str, str, str], ViolationGroup] = {}
        self._distinct: dict[str, int] = {}

    def add(self, violation: Violation) -> None:
        """Count one violation."""
        group = self._group(violation)
        group.count += 1
        if violation.number is not None and len(group.numbers) < _NUMBERS_PER_GROUP:
            group.numbers.append(violation.number)

    def _group(self, violation: Violation) -> ViolationGroup:
        id, severity = violation.requirement, violation.severity or FAIL
        key = (id, violation.party, violation.why, severity)
        if key not in self._groups:
            if self._distinct.get(id, 0) >= _DISTINCT_PER_REQUIREMENT:
                why = "breaks it in further ways, not listed one by one"
                key = (id, violation.party, why, severity)
                violation = msgspec.structs.replace(violation, why=why)
            else:
                self._distinct[id] = self._distinct.get(id, 0) + 1
        return self._groups.setdefault(key, ViolationGroup(violation, severity, []))

    def failures_first(self) -> list[ViolationGroup]:
        """Return the failures, then the warnings, each in the order of arrival."""
        return _failures_first(self._groups.values())


def _failures_first(groups: Iterable[ViolationGroup]) -> list[ViolationGroup]:
    return sorted(groups, key=lambda group: group.severity != FAIL)


def name_overlaps(groups: Iterable[ViolationGroup], revision: RevisionId) -> list[ViolationGroup]:
    """Find violations that are about the same value of the same message.

    The most specific requirement names the others, see `specificity`.
    """
    by_value: dict[object, list[ViolationGroup]] = {}
    for each in groups:
        each.also, each.beside = each.violation.also, None
        found = each.violation
        value: object = id(each)
        # An object is the place of what it lacks, and it may lack several members.
        if found.place is not None and not _marks_object(found):
            value = (found.party, found.place, found.evidence, *each.numbers, each.count)
        by_value.setdefault(value, []).append(each)
    for same in by_value.values():
        first, *others = sorted(
            same, key=lambda each: specificity(each.violation.requirement, revision)
        )
        for each in others:
            first.also = tuple(dict.fromkeys((*first.also, each.violation.requirement, *each.also)))
            each.beside = first.violation.requirement
    return [each for same in by_value.values() for each in same]


def _marks_object(violation: Violation) -> bool:
    start = (violation.mark or (0, 0))[0]
    return (violation.evidence or "").startswith("{", start)


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """How a check was made, for the report.

    Attributes:
        party: the party that was checked.
        transport: the transport of the messages.
        revisions: the revisions that were checked; empty means `judged_by` of the report.
        at: the date, in any format.
        seconds: the duration.
        command: the command line that repeats the check, up to where options go.
        command_end: the part after the options, such as a command after `--`.
        artifact: the file in which tools for source code show violations.
        calls: the limit of calls for each tool; None if the check calls no tools.
        tools: each tool of the server with the number of its calls and of their answers.
        not_called: the tools that were not called, with the reasons.
        notes: further remarks on how the check was made.
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
    tools: tuple[ToolCounts, ...] = ()
    not_called: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()

    @property
    def call_counts(self) -> dict[str, int]:
        """How many calls each tool got that was called."""
        return {each.name: each.calls for each in self.tools if each.calls}

    @property
    def never_succeeded(self) -> list[str]:
        """The tools that answered every call with an error."""
        return [each.name for each in self.tools if each.never_succeeded]

    def repeat(self, id: str, revision: RevisionId) -> str | None:
        """Return the command line that checks one requirement again, if `command` is known."""
        if self.command is None:
            return None
        return f"{self.command} --only {id} --revision {revision}{self.command_end}"


class RequirementResult(Verdict, frozen=True, kw_only=True):
    """The verdict on one requirement, with its clause and how to check it again.

    Attributes:
        by_revision: the verdict under each revision checked; `verdict` is the worst of them.
        clause: the text of the requirement.
        mend: what the author of the party at fault should change.
        also: less specific requirements that the same value of the same message breaks.
        anchor: the page of the specification.
        repeat: the command line that checks only this requirement.
    """

    by_revision: dict[RevisionId, VerdictName] = msgspec.field(default_factory=dict)
    clause: str = ""
    mend: str | None = None
    also: tuple[str, ...] = ()
    anchor: str | None = None
    repeat: str | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a check found.

    Without a revision in the messages `revision` is None and `judged_by` the default. If several
    revisions were checked, both are the newest. `rules` is the date of the rule set.
    """

    target: str
    revision: RevisionId | None
    judged_by: RevisionId
    score: float | None
    coverage: Coverage
    results: tuple[RequirementResult, ...]
    violations: tuple[ViolationGroup, ...] = ()
    setting: Setting = Setting()
    version: str = __version__
    # What reports were judged by that were stored without it.
    rules: str = "2026-11"

    @property
    def has_failed(self) -> bool:
        """Whether any requirement failed; warnings do not count."""
        return self.count("fail") > 0 or any(each.severity == FAIL for each in self.violations)

    @property
    def is_capped(self) -> bool:
        """Whether the score is limited because a MUST or MUST NOT failed."""
        return self.score == HIGHEST_WITH_FAILURE and any(map(_is_heavy_failure, self.results))

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
    violations: Iterable[ViolationGroup] = (),
    setting: Setting | None = None,
    by_revision: Mapping[str, dict[RevisionId, VerdictName]] | None = None,
) -> Report:
    """Make a report of verdicts, with coverage and score.

    Args:
        results: one verdict per requirement.
        target: what was checked.
        revision: the revision that the parties spoke; None if they named none.
        judged_by: the revision whose requirements were applied.
        decidable: the requirements that a check of this kind can decide at all.
        violations: the violations, grouped.
        setting: how the check was made.
        by_revision: for each requirement its verdicts; by default the one under `judged_by`.
    """
    setting, by_revision = setting or Setting(), by_revision or {}
    found = name_overlaps(violations, judged_by)
    also = {each.violation.requirement: each.also for each in found if each.also}
    score, covered = rate(results, decidable)
    return Report(
        target=target,
        revision=revision,
        judged_by=judged_by,
        score=score,
        coverage=covered,
        results=tuple(
            _describe(
                each,
                by_revision.get(each.id, {judged_by: each.verdict}),
                setting,
                also.get(each.id, ()),
            )
            for each in results
        ),
        violations=tuple(_failures_first(found)),
        setting=setting
        if setting.revisions
        else msgspec.structs.replace(setting, revisions=(judged_by,)),
        rules=RULE_SET,
    )


def merge_revisions(
    found: Mapping[RevisionId, Sequence[Verdict]],
    *,
    target: str,
    party: Party,
    setting: Setting | None = None,
) -> Report:
    """Make one report of verdicts under several revisions: the worst one counts.

    Args:
        found: the verdicts by revision; there is at least one.
        target: what was checked.
        party: the party that was checked.
        setting: how the check was made; party and revisions are filled in.
    """
    checked = tuple(in_order(found))
    by_id: dict[str, dict[RevisionId, Verdict]] = {}
    for revision, verdicts in found.items():
        for verdict in verdicts:
            by_id.setdefault(verdict.id, {})[revision] = verdict
    results = [_worst(by_revision) for by_revision in by_id.values()]
    return build_report(
        results,
        target=target,
        revision=checked[-1],
        judged_by=checked[-1],
        decidable=checkable(results),
        violations=_violations(results, party),
        setting=msgspec.structs.replace(setting or Setting(), party=party, revisions=checked),
        by_revision={
            id: {revision: known[revision].verdict for revision in in_order(known)}
            for id, known in by_id.items()
        },
    )


def replace_results(report: Report, newer: Mapping[str, RequirementResult]) -> Report:
    """Return the report of one party with other results for some requirements."""
    results = [newer.get(each.id, each) for each in report.results]
    party = report.setting.party
    return build_report(
        results,
        target=report.target,
        revision=report.revision,
        judged_by=report.judged_by,
        decidable=checkable(results),
        violations=_violations(results, "server" if party == "both" else party),
        setting=report.setting,
        by_revision={each.id: each.by_revision for each in results},
    )


def rank(verdict: Verdict) -> int:
    """Return the place of a verdict among others: the worst is 0."""
    return VERDICTS.index(verdict.verdict)


def _worst(by_revision: Mapping[RevisionId, Verdict]) -> Verdict:
    """Return the worst verdict on a requirement, and in its message where it holds."""
    worst = min(by_revision.values(), key=rank)
    where = tuple(in_order(by_revision))
    affected = [id for id in where if by_revision[id].verdict == worst.verdict]
    message = worst.message
    if worst.verdict in ("fail", "warn") and len(affected) < len(where):
        message = f"{message} (in {', '.join(affected)})"
    return msgspec.structs.replace(worst, revisions=where, message=message)


def _violations(results: Iterable[Verdict], party: Party) -> list[ViolationGroup]:
    """Return the violations of a merged report, the failures first."""
    found = []
    for each in results:
        if each.verdict in ("fail", "warn"):
            shown = _last_message(each) or Evidence(each.message, party)
            violation = Violation(
                each.id,
                party,
                each.message,
                evidence=shown.message,
                place=shown.pointer,
                mark=shown.mark,
            )
            found.append(ViolationGroup(violation, each.verdict, [], count=1))
    return _failures_first(found)


def _last_message(verdict: Verdict) -> Evidence | None:
    """Return the message that shows a violation: the one with its place, else the last one."""
    messages = [each for each in verdict.evidence if each.message]
    marked = [each for each in messages if each.pointer is not None]
    return next(iter([*marked, *reversed(messages)]), None)


def _describe(
    verdict: Verdict,
    by_revision: dict[RevisionId, VerdictName],
    setting: Setting,
    also: tuple[str, ...],
) -> RequirementResult:
    shown = newest(id for id, name in by_revision.items() if name == verdict.verdict)
    clause = clause_of(verdict.id, shown)
    return RequirementResult(
        **{name: getattr(verdict, name) for name in Verdict.__struct_fields__},
        by_revision=by_revision,
        clause=clause.text,
        mend=clause.mend or None,
        also=also,
        anchor=clause.anchor,
        repeat=setting.repeat(verdict.id, shown),
    )


def checkable(results: Iterable[Verdict]) -> set[str]:
    """Return the requirements that a program can decide, of those with a verdict."""
    rows = catalogue()
    return {each.id for each in results if each.id in rows and rows[each.id].check != "human"}


def rate(results: Sequence[Verdict], decidable: Collection[str]) -> tuple[float | None, Coverage]:
    """Return score and coverage of verdicts; the score is None if nothing was put to the test."""
    exercised = [each for each in results if each.verdict in EXERCISED]
    untried = sum(each.verdict == "not-exercised" and each.id in decidable for each in results)
    coverage = Coverage(len(exercised) + untried, len(exercised))
    total = sum(_weight(result) for result in exercised)
    if not total:
        return None, coverage
    earned = sum(_weight(result) * _CREDIT[result.verdict] for result in exercised)
    # Rounded down: only a check without any violation has 100.
    found = floor(1000 * earned / total) / 10
    is_broken = any(map(_is_heavy_failure, exercised))
    return min(found, HIGHEST_WITH_FAILURE) if is_broken else found, coverage


def _is_heavy_failure(result: Verdict) -> bool:
    return result.verdict == "fail" and result.level in _HEAVY


def _weight(result: Verdict) -> int:
    return _HEAVY_WEIGHT if result.level in _HEAVY else 1
