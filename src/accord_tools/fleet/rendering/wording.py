"""The words and counts that all forms of a fleet's report share."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from accord.protocol.catalogue import AREAS
from accord.protocol.revisions import newest
from accord.types import REVISION_IDS
from accord_tools.fleet.results import (
    STATES,
    CatalogFinding,
    CatalogSummary,
    DifferenceKind,
    FleetRun,
    FleetView,
    RequirementBreach,
    RunComparison,
    RunDifference,
    ServerResult,
    ServerState,
    StageState,
    is_warning,
)
from accord_tools.reports.clauses import Clause, clause_of
from accord_tools.reports.wording import area_of, plural

STATE_WORDS: Final[dict[ServerState, str]] = {
    "ok": "as expected",
    "failed": "failed",
    "unreachable": "unreachable",
    "timed-out": "timed out",
    "skipped": "skipped",
}
STAGE_WORDS: Final[dict[StageState, str]] = {
    "passed": "passed",
    "failed": "failed",
    "timed-out": "timed out",
    "skipped": "skipped",
    "reused": "reused",
}
DIFFERENCE_WORDS: Final[dict[DifferenceKind, str]] = {
    "new-failure": "new failure",
    "fixed": "fixed",
    "new-warning": "new warning",
    "coverage-lost": "coverage lost",
    "score-down": "score down",
    "test-failing": "test fails",
    "test-fixed": "test mended",
    "unreachable": "unreachable",
    "reachable": "reachable again",
    "skipped": "skipped",
    "surface-breaking": "breaking change",
    "surface-changed": "changed",
    "slower": "slower",
    "appeared": "new server",
    "disappeared": "server gone",
}
FIXES: Final = frozenset({"fixed", "test-fixed", "reachable"})
DRIFT: Final = frozenset({"surface-breaking", "surface-changed"})


class FleetSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in numbers.

    Attributes:
        headline: for people, such as "28 of 30 as expected; 2 regressions".
        servers: how many.
        as_expected: how many of them were checked and are as expected.
        attention: how many are not as expected, without those that were skipped.
        states: how many are in each state.
        failures: how many requirements failed and count, over all servers.
        warnings: likewise.
        accepted: likewise.
        exercised: how many requirements were put to the test, over all servers.
        applicable: how many apply, over all servers.
        regressions: how many differences are regressions; None if there is no comparison.
        fixes: how many differences are fixes, likewise.
        drift: how many servers offer something else than before.
        findings: how many findings are warnings that are not accepted.
        hints: how many findings are only hints, and not accepted.
        reused: how many results were made by an earlier run.
    """

    headline: str
    servers: int
    as_expected: int
    attention: int
    states: Mapping[str, int]
    failures: int
    warnings: int
    accepted: int
    exercised: int
    applicable: int
    regressions: int | None
    fixes: int | None
    drift: int
    findings: int
    hints: int
    reused: int


def summarize(view: FleetView) -> FleetSummary:
    """Return a run in numbers."""
    results, comparison = view.run.results, view.comparison
    states = Counter(result.state for result in results)
    counted = [each for each in all_findings(view.run) if not each.accepted]
    warnings = sum(map(is_warning, counted))
    return FleetSummary(
        headline=headline(view),
        servers=len(results),
        as_expected=states["ok"],
        attention=sum(not result.is_as_expected for result in results),
        states={state: states[state] for state in STATES},
        failures=sum(result.failures for result in results),
        warnings=sum(result.warnings for result in results),
        accepted=sum(result.accepted for result in results),
        exercised=sum(result.exercised for result in results),
        applicable=sum(result.applicable for result in results),
        regressions=None if comparison is None else len(comparison.regressions),
        fixes=None if comparison is None else sum(e.kind in FIXES for e in comparison.differences),
        drift=sum(bool(result.changes) for result in results),
        findings=warnings,
        hints=len(counted) - warnings,
        reused=sum(bool(result.reused_from) for result in results),
    )


def all_findings(run: FleetRun) -> list[CatalogFinding]:
    """Return all findings, those about several servers first."""
    return [*run.findings, *(each for result in run.results for each in result.findings)]


def headline(view: FleetView) -> str:
    """Return a run in one line; servers that were skipped are named, they are not "as expected"."""
    results, comparison = view.run.results, view.comparison
    states = Counter(result.state for result in results)
    parts = [f"{states['ok']} of {len(results)} as expected"]
    parts += [f"{states['skipped']} skipped"] if states["skipped"] else []
    if comparison is not None:
        count = len(comparison.regressions)
        parts.append(plural(count, "regression") if count else "no regressions")
    return "; ".join(parts)


def fleet_title(run: FleetRun) -> str:
    """Return the name of the fleet, else its file."""
    return run.fleet or run.file or "fleet"


def outcome_state(run: FleetRun) -> str:
    """Return the verdict on a run, in the words of verdicts: what its colour is named after."""
    if any(not result.is_as_expected for result in run.results):
        return "fail"
    return "pass" if any(result.state == "ok" for result in run.results) else "not-exercised"


# -- one server


def coverage_text(result: ServerResult) -> str:
    """Return how many requirements were put to the test."""
    return f"{result.exercised} of {result.applicable}" if result.applicable else "none"


def coverage_percent(result: ServerResult) -> int | None:
    """Return the percentage of requirements that were put to the test, rounded down."""
    return 100 * result.exercised // result.applicable if result.applicable else None


def score_text(score: float | None) -> str:
    """Return a score as text."""
    return "none" if score is None else f"{score:g}"


def tests_text(result: ServerResult) -> str:
    """Return how many tests passed, of those that ran, and how many did not run."""
    tests = result.tests
    ran = tests.passed + tests.failed
    parts = [f"{tests.passed} of {ran}"] if ran else []
    parts += [f"no time for {tests.no_time}"] if tests.no_time else []
    parts += [f"{tests.skipped} skipped"] if tests.skipped else []
    return ", ".join(parts) or "none"


def offer_text(catalog: CatalogSummary) -> str:
    """Return what a server offers, counted."""
    counts = {
        "tool": catalog.tools,
        "resource": catalog.resources,
        "template": catalog.templates,
        "prompt": catalog.prompts,
    }
    return ", ".join(plural(count, noun) for noun, count in counts.items() if count) or "nothing"


def seconds_text(seconds: float | None) -> str:
    """Return a duration for people."""
    if seconds is None:
        return "none"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def timing_text(median: float | None, most: float | None) -> str:
    """Return how long something takes; empty if it was not measured."""
    if median is None:
        return ""
    worst = "" if most is None else f", 95 % within {seconds_text(most)}"
    return f"median {seconds_text(median)}{worst}"


def server_cells(
    result: ServerResult, view: FleetView, differences: Iterable[RunDifference]
) -> dict[str, str]:
    """Return what a table says about a server; what is not known is empty."""
    has_check, catalog, start = bool(result.applicable), result.catalog, result.timing.start
    return {
        "server": result.name,
        "state": STATE_WORDS[result.state],
        "failures": str(result.failures) if has_check else "",
        "warnings": str(result.warnings) if has_check else "",
        "coverage": coverage_text(result) if has_check else "",
        "score": score_text(result.score) if has_check else "",
        "tests": tests_text(result) if result.tests.is_wanted else "",
        "start": "" if start is None else seconds_text(start),
        "tools": "" if catalog is None else f"{catalog.tools:,}",
        "tokens": "" if catalog is None else f"{catalog.tokens:,}",
        "version": result.server_version,
        "result": reused_text(result, view.run),
        "change": change_text(differences) if view.comparison else "",
    }


def counted_breaches(result: ServerResult) -> list[RequirementBreach]:
    """Return the breaches of a server: failures first, those that do not count last."""
    return sorted(result.breaches, key=lambda each: (not each.counts, each.verdict != "fail"))


# -- dates


def parse_date(text: str) -> datetime | None:
    """Return an ISO 8601 date in UTC; None if the text is something else."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def date_text(text: str) -> str:
    """Return an ISO 8601 date for people."""
    found = parse_date(text)
    return text if found is None else f"{found:%Y-%m-%d %H:%M} UTC"


def reused_text(result: ServerResult, run: FleetRun) -> str:
    """Return when a reused result was made, such as "of yesterday 14:02"; empty if it is new."""
    made, started = parse_date(result.reused_from), parse_date(run.started)
    if made is None or started is None:
        return f"of {result.reused_from}" if result.reused_from else ""
    days = {started.date(): "today", started.date() - timedelta(days=1): "yesterday"}
    return f"of {days.get(made.date(), f'{made:%Y-%m-%d}')} {made:%H:%M}"


# -- what differs from the run before


def differences_by_server(view: FleetView) -> dict[str, list[RunDifference]]:
    """Return the differences of each server."""
    found: dict[str, list[RunDifference]] = {}
    for each in view.comparison.differences if view.comparison else ():
        found.setdefault(each.server, []).append(each)
    return found


def group_differences(
    comparison: RunComparison,
) -> tuple[Sequence[RunDifference], list[RunDifference], list[RunDifference]]:
    """Return what got worse, what got better, and what else differs."""
    fixed = [each for each in comparison.differences if each.kind in FIXES]
    others = [
        each for each in comparison.differences if not each.is_regression and each.kind not in FIXES
    ]
    return comparison.regressions, fixed, others


def change_text(differences: Iterable[RunDifference]) -> str:
    """Return the differences of one server in a few words."""
    counts: Counter[str] = Counter()
    for each in differences:
        if each.kind in ("appeared", "unreachable", "reachable", "skipped"):
            counts[DIFFERENCE_WORDS[each.kind]] = 1
        elif each.is_regression:
            counts["regression"] += 1
        elif each.kind in FIXES:
            counts["fixed"] += 1
        elif each.kind in DRIFT:
            counts["changed"] = 1
        elif each.is_flaky:
            counts["flaky"] += 1
    words = []
    for word, count in counts.items():
        if word == "regression":
            words.append(plural(count, word))
        else:
            words.append(f"{count} {word}" if word in ("fixed", "flaky") else word)
    return ", ".join(words) or "same"


def difference_text(each: RunDifference) -> str:
    """Return what differs in a sentence that names the requirement, test or entry."""
    is_named = not each.subject or each.subject in each.text
    return each.text if is_named else f"{each.subject}: {each.text}"


def find_risks(result: ServerResult) -> dict[str, list[CatalogFinding]]:
    """Return what may be dangerous in the entries of a server, by entry.

    A change of such an entry matters more than a change of words.
    """
    found: dict[str, list[CatalogFinding]] = {}
    for each in result.findings:
        if each.id.startswith("safety.") and each.subject and not each.accepted:
            found.setdefault(each.subject, []).append(each)
    return found


# -- areas and requirements


def count_by_area(result: ServerResult) -> dict[str, Counter[str]]:
    """Count the verdicts of a server in each area; breaches that do not count are `accepted`."""
    excused = {each.requirement for each in result.breaches if not each.counts}
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for id, verdict in result.verdicts.items():
        if verdict != "not-applicable":
            is_excused = id in excused and verdict in ("fail", "warn")
            found[area_of(id)]["accepted" if is_excused else verdict] += 1
    return found


def order_areas(found: Iterable[str]) -> list[str]:
    """Return areas as the specification goes, each once."""
    order = {area: place for place, area in enumerate(AREAS)}
    return sorted(set(found), key=lambda area: (order.get(area, len(order)), area))


class BrokenRequirement(NamedTuple):
    """A requirement, and the servers in which it fails or warns."""

    id: str
    level: str
    clause: Clause
    failing: list[str]
    warning: list[str]


def most_broken(run: FleetRun) -> list[BrokenRequirement]:
    """Return the requirements that are broken, that of most servers first."""
    found: dict[str, list[tuple[str, RequirementBreach]]] = defaultdict(list)
    for result in run.results:
        for breach in result.breaches:
            if breach.counts:
                found[breach.requirement].append((result.name, breach))
    rows = []
    for id, breaches in found.items():
        revisions = [revision for _, breach in breaches for revision in breach.revisions]
        clause = clause_of(id, newest(revisions or REVISION_IDS))
        failing = [name for name, breach in breaches if breach.verdict == "fail"]
        warning = [name for name, breach in breaches if breach.verdict == "warn"]
        rows.append(BrokenRequirement(id, breaches[0][1].level, clause, failing, warning))
    return sorted(
        rows, key=lambda each: (-len(each.failing) - len(each.warning), -len(each.failing), each.id)
    )


# -- groups of findings: what is said about several entries of a server is said once


# Before it a finding says what is wrong, after it what to change.
_ADVICE: Final = "; "


class FindingGroup(NamedTuple):
    """Findings with one id about one server.

    Attributes:
        id: of the findings.
        server: which; empty is the fleet as a whole.
        subjects: the entries; with what is wrong in each, where that differs.
        text: what is wrong and what to change, as far as it is the same for all.
    """

    id: str
    server: str
    subjects: tuple[str, ...]
    text: str


def counted_findings(run: FleetRun) -> list[CatalogFinding]:
    """Return the warnings that are not accepted, those about several servers first."""
    return list(filter(is_warning, all_findings(run)))


def group_findings(findings: Iterable[CatalogFinding]) -> list[FindingGroup]:
    """Return findings in groups, in the order of the first of each."""
    groups: dict[tuple[str, str, str], list[CatalogFinding]] = {}
    for each in findings:
        # A finding about no entry stands alone.
        key = each.text.partition(_ADVICE)[2] or each.text if each.subject else each.text
        groups.setdefault((each.server, each.id, key), []).append(each)
    return [_make_group(found) for found in groups.values()]


def _make_group(found: list[CatalogFinding]) -> FindingGroup:
    first = found[0]
    if all(each.text == first.text for each in found):
        named = tuple(dict.fromkeys(each.subject for each in found if each.subject))
        return FindingGroup(first.id, first.server, named, first.text)
    parts = [(each.subject, *each.text.partition(_ADVICE)) for each in found]
    subjects = tuple(f"{subject} ({wrong})" for subject, wrong, _, _ in parts)
    return FindingGroup(first.id, first.server, subjects, parts[0][3])
