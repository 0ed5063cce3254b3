"""How a run differs from an earlier one: what got worse, what got better, what is new.

Only requirements that both sets of rules contain, and that both runs asked for, are compared: a
new rule is never a regression. Results of a server that could not be checked say nothing about
its requirements; that it can no longer be checked is the difference.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import msgspec

from accord.protocol.verdict import VerdictName
from accord.types import JsonObject
from accord_tools.fleet.results import (
    CatalogChange,
    CatalogSummary,
    DifferenceKind,
    FleetRun,
    RunComparison,
    RunDifference,
    ServerResult,
    ServerTiming,
    StageName,
)

# -- catalogs

FindCatalog: TypeAlias = Callable[[str], JsonObject | None]
"""Returns a catalog by its digest; None if it is unknown."""
FindChanges: TypeAlias = Callable[[JsonObject, JsonObject], Sequence[CatalogChange]]
"""Returns the differences between two catalogs."""

# Of each kind; a server may change thousands of tools at once.
_MOST: Final = 50
_BREAKING: Final = "surface-breaking"
_CATALOG_KINDS: Final[tuple[DifferenceKind, ...]] = (_BREAKING, "surface-changed")


def compare_catalogs(
    server: str,
    before: CatalogSummary | None,
    after: CatalogSummary | None,
    catalogs: FindCatalog | None,
    find_changes: FindChanges | None,
) -> Iterator[RunDifference]:
    """Yield the differences: breaking ones first, then others that a client may notice."""
    if before is None or after is None or before.digest == after.digest:
        return
    old, new = (catalogs and catalogs(each.digest) for each in (before, after))
    if find_changes is not None and old is not None and new is not None:
        changes = list(find_changes(old, new))
    else:
        changes = list(_compare_entries(before, after))
    for kind in _CATALOG_KINDS:
        found = [each for each in changes if (each.kind == "breaking") == (kind == _BREAKING)]
        for each in found[:_MOST]:
            text = f"{each.subject}: {each.what}"
            yield RunDifference(kind=kind, server=server, subject=each.subject, text=text)
        if len(found) > _MOST:
            text = f"and {len(found) - _MOST} further changes"
            yield RunDifference(kind=kind, server=server, text=text)
    if not changes:
        yield RunDifference(kind="surface-changed", server=server, text="the catalog changed")


def _compare_entries(before: CatalogSummary, after: CatalogSummary) -> Iterator[CatalogChange]:
    """Compare digests of entries, where the catalogs themselves are not known."""
    for subject in sorted(before.entries.keys() | after.entries.keys()):
        old, new = before.entries.get(subject), after.entries.get(subject)
        if new is None:
            yield CatalogChange(kind="breaking", subject=subject, what="removed")
        elif old is None:
            yield CatalogChange(kind="compatible", subject=subject, what="added")
        elif old != new:
            yield CatalogChange(kind="compatible", subject=subject, what="changed")


# -- results and runs

# A score may move this much without being called worse.
_SCORE: Final = 1.0
# Slower means more than this many times the time, and more than this many seconds.
_TIMES: Final = 1.5
_SECONDS: Final = 0.2
_CHECKED: Final = ("ok", "failed")
_EXERCISED: Final = ("pass", "fail", "warn", "accepted fail", "accepted warn")
_WORSE: Final = ("new-failure", "new-warning")
_OPEN: Final = ("not-exercised", "not-recorded")

Differences: TypeAlias = Iterator[RunDifference]


class ComparisonContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a comparison needs beside the runs.

    Attributes:
        before_rules: the ids of the earlier rule set; None takes those that it has verdicts on.
        after_rules: likewise, of the later one.
        flaky: requirements whose verdicts change without cause, by server.
        earlier: how fast servers were before the earlier run, by server; slow is what was slow in
            both runs.
        required: servers that may not be skipped.
        catalogs: returns a catalog by its digest, None where it is unknown.
        find_changes: what differs between two catalogs; without it only entries are compared.
    """

    before_rules: Collection[str] | None = None
    after_rules: Collection[str] | None = None
    flaky: Mapping[str, Collection[str]] = {}
    earlier: Mapping[str, ServerTiming] = {}
    required: Collection[str] = ()
    catalogs: FindCatalog | None = None
    find_changes: FindChanges | None = None


class SharedRules(NamedTuple):
    """What the makings of two results have in common.

    Attributes:
        ids: requirements that both sets of rules contain; None compares all.
        has_same_rules: whether the sets are equal, so that scores may be compared.
        has_same_accord: whether one version of accord made both, so that tests are the same.
    """

    ids: frozenset[str] | None = None
    has_same_rules: bool = True
    has_same_accord: bool = True


def compare_runs(
    before: FleetRun,
    after: FleetRun,
    context: ComparisonContext = ComparisonContext(),  # noqa: B008  # frozen
) -> RunComparison:
    """Return how a run differs from an earlier one."""
    old, new = _ids(before, context.before_rules), _ids(after, context.after_rules)
    shared = SharedRules(
        old & new, before.rules.digest == after.rules.digest, before.accord == after.accord
    )
    return RunComparison(
        against=name_run(before),
        differences=tuple(_compare_all(before, after, shared, context)),
        new_rules=tuple(sorted(new - old)),
        dropped_rules=tuple(sorted(old - new)),
    )


def name_run(run: FleetRun) -> str:
    """Return the name of a run for people, such as "run 12 of 2026-11-16 08:02"."""
    when = short_time(run.started)
    return f"run {run.id} of {when}" if run.id else f"the run of {when}"


def short_time(started: str) -> str:
    """Return date and time of day of an ISO 8601 time."""
    return started.replace("T", " ")[:16]


def _ids(run: FleetRun, given: Collection[str] | None) -> frozenset[str]:
    if given is not None:
        return frozenset(given)
    return frozenset(id for each in run.results for id in each.verdicts)


def _compare_all(
    before: FleetRun, after: FleetRun, shared: SharedRules, context: ComparisonContext
) -> Differences:
    old = {each.name: each for each in before.results}
    new = {each.name: each for each in after.results}
    found: list[list[RunDifference]] = []
    for name, result in new.items():
        if name in old:
            found.append(list(compare_results(old[name], result, shared, context)))
        elif name not in before.left_out:
            found.append([RunDifference(kind="appeared", server=name, text="is new")])
    found += [
        [RunDifference(kind="disappeared", server=name, text="is no longer in the fleet")]
        for name in old
        if name not in new and name not in after.left_out
    ]
    # Servers that got worse come first, and of each server what got worse.
    found.sort(key=lambda group: not any(each.is_regression for each in group))
    for group in found:
        yield from sorted(group, key=lambda each: not each.is_regression)


def compare_results(
    before: ServerResult, after: ServerResult, shared: SharedRules, context: ComparisonContext
) -> Differences:
    """Yield the differences between two results of one server."""
    yield from _compare_states(before, after, context)
    if before.state == "skipped" or after.state == "skipped":
        return
    verdicts = list(_compare_verdicts(before, after, shared.ids, context))
    yield from verdicts
    if shared.has_same_rules:
        yield from _compare_scores(before, after, verdicts)
    yield from _compare_tests(before, after, has_same_accord=shared.has_same_accord)
    yield from compare_catalogs(
        after.name, before.catalog, after.catalog, context.catalogs, context.find_changes
    )
    yield from _compare_times(before, after, context.earlier.get(after.name))


def _compare_states(
    before: ServerResult, after: ServerResult, context: ComparisonContext
) -> Differences:
    was, now = before.state in _CHECKED, after.state in _CHECKED
    why = f": {after.reasons[0]}" if after.reasons else ""
    if after.state == "skipped":
        if before.state != "skipped":
            kind: DifferenceKind = "unreachable" if after.name in context.required else "skipped"
            text = f"was {before.state}, is skipped now{why}"
            yield RunDifference(kind=kind, server=after.name, text=text)
    elif was and not now:
        text = f"was {before.state}, is {after.state} now{why}"
        yield RunDifference(kind="unreachable", server=after.name, text=text)
    elif now and not was and before.state != "skipped":
        text = f"was {before.state}, is {after.state} now"
        yield RunDifference(kind="reachable", server=after.name, text=text)


# -- requirements


def _compare_verdicts(
    before: ServerResult,
    after: ServerResult,
    rules: frozenset[str] | None,
    context: ComparisonContext,
) -> Differences:
    old, new = _find_verdicts(before), _find_verdicts(after)
    flaky = {*context.flaky.get(after.name, ()), *after.flaky}
    messages = {each.requirement: each.message for each in after.breaches}
    exercised = sum(each in _EXERCISED for each in old.values())
    if not new and exercised and after.state in _CHECKED and not _is_left_out(after, "check"):
        text = f"not one of the {exercised} requirements that were exercised was put to the test"
        yield RunDifference(kind="coverage-lost", server=after.name, text=text)
        return
    for id in sorted(old.keys() & new.keys()):
        if rules is not None and id not in rules:
            continue
        kind, text = classify_verdicts(old[id], new[id])
        # A server that ran out of time did not reach all of them, which is said already.
        if kind is None or (kind == "coverage-lost" and after.state not in _CHECKED):
            continue
        said = f": {messages[id]}" if kind in _WORSE and id in messages else ""
        yield RunDifference(
            kind=kind,
            server=after.name,
            subject=id,
            text=f"{text}{said}",
            is_flaky=id in flaky,
        )


def _is_left_out(result: ServerResult, stage: StageName) -> bool:
    """Return whether a stage was not asked for, rather than prevented by one that failed."""
    states = {each.name: each.state for each in result.stages}
    return bool(states) and stage not in states and not {"failed", "timed-out"} & {*states.values()}


def _find_verdicts(result: ServerResult) -> dict[str, str]:
    """Return the verdicts; those that are accepted say so."""
    accepted = {
        each.requirement: f"accepted {each.verdict}" for each in result.breaches if each.accepted
    }
    breached = {each.requirement: each.verdict for each in result.breaches if not each.accepted}
    return {**result.verdicts, **breached, **accepted}


def classify_verdicts(before: str, after: str) -> tuple[DifferenceKind | None, str]:
    """Return what a change of one verdict is, and a text; None if nothing is to be reported.

    Args:
        before: a verdict, or "accepted fail" or "accepted warn".
        after: likewise.
    """
    if before == after:
        return None, ""
    is_end = before == f"accepted {after}"
    was = "was accepted" if before.startswith("accepted") else f"was {before}"
    if after == "fail":
        return "new-failure", "fails, and is no longer accepted" if is_end else f"fails, {was}"
    if after == "warn" and before != "fail" and before != "accepted fail":
        return "new-warning", "warns, and is no longer accepted" if is_end else f"warns, {was}"
    if before in _EXERCISED and after in _OPEN:
        return "coverage-lost", f"is no longer put to the test, {was}"
    if before == "fail" and not after.startswith("accepted"):
        now = {"pass": "passes", "warn": "only warns"}.get(after, "no longer applies")
        return "fixed", f"{now}, failed before"
    if before == "warn" and not after.startswith("accepted"):
        return "fixed", f"{'passes' if after == 'pass' else 'no longer applies'}, warned before"
    return None, ""


def _compare_scores(
    before: ServerResult, after: ServerResult, verdicts: Collection[RunDifference]
) -> Differences:
    if before.score is None or after.score is None:
        return
    if before.score - after.score > _SCORE:
        worse = [each for each in verdicts if each.kind in _WORSE]
        yield RunDifference(
            kind="score-down",
            server=after.name,
            text=f"the score fell from {before.score:.1f} to {after.score:.1f}",
            is_flaky=bool(worse) and all(each.is_flaky for each in worse),
        )


# -- tests


def _compare_tests(
    before: ServerResult, after: ServerResult, *, has_same_accord: bool
) -> Differences:
    old, new = before.tests.names, after.tests.names
    if not old:
        return
    stage = next((each for each in after.stages if each.name == "test"), None)
    if not new and stage is not None and stage.state == "failed":
        text = f"the {len(old)} tests could not be run: {stage.text}"
        yield RunDifference(kind="coverage-lost", server=after.name, text=text)
        return
    summaries = {each.name: each.summary for each in after.tests.failures}
    for name, outcome in new.items():
        was = old.get(name)
        kind: DifferenceKind
        if outcome == "fail" and was != "fail":
            if was is None and not has_same_accord:
                continue  # a newer accord may make more tests
            kind, text = "test-failing", "fails" if was is None else f"fails, was {was}"
            text += f": {summaries[name]}" if name in summaries else ""
        elif outcome == "pass" and was == "fail":
            kind, text = "test-fixed", "passes, failed before"
        elif outcome == "skip" and was in ("pass", "fail"):
            kind, text = "coverage-lost", f"is skipped, was {was}"
        else:
            continue
        yield RunDifference(kind=kind, server=after.name, subject=name, text=text)


# -- times


def _compare_times(
    before: ServerResult, after: ServerResult, earlier: ServerTiming | None
) -> Differences:
    if earlier is None:
        return
    timings = (earlier, before.timing, after.timing)
    has_cpu = all(each.start_cpu is not None for each in timings)
    is_busy = before.was_busy or after.was_busy
    for what, name in _TIMINGS.items():
        if name == "call_95" and len({each.tool for each in timings}) > 1:
            continue
        # How long a user waits is also the doing of the machine and of what else runs on it.
        if name != "start_cpu" and (is_busy or (name == "start" and has_cpu)):
            continue
        base, first, second = (getattr(each, name) for each in timings)
        if base is None or first is None or second is None:
            continue
        # Equal to the last digit: a reused result, not a second measurement.
        is_new = first != second or name == "start_cpu"
        if is_new and _is_slower(base, first) and _is_slower(base, second):
            text = (
                f"{what} took {base * 1000:.0f} ms, then {first * 1000:.0f} ms and now "
                f"{second * 1000:.0f} ms"
            )
            yield RunDifference(kind="slower", server=after.name, subject=what, text=text)


def _is_slower(base: float, now: float) -> bool:
    return now > base * _TIMES and now - base > _SECONDS


# Each with the attribute of the timing.
_TIMINGS: Final = {
    "the start (CPU time)": "start_cpu",
    "the start": "start",
    "a slow call (95 %)": "call_95",
    "a slow ping (95 %)": "ping_95",
}


# -- flaky requirements: their verdicts change although nothing else did

# A verdict that changed this often, within the runs that are looked at, changes by chance.
_CHANGES: Final = 3


class ServerObservation(NamedTuple):
    """The verdicts of one run by requirement, and all that could explain different ones."""

    causes: tuple[object, ...]
    verdicts: Mapping[str, VerdictName]


def observe(result: ServerResult, rules: str, accord: str) -> ServerObservation:
    """Return what a result says about verdicts.

    Args:
        result: of a run.
        rules: the digest of the run's set of rules.
        accord: the version that made it.
    """
    catalog = "" if result.catalog is None else result.catalog.digest
    causes = (result.server_version, catalog, rules, accord, result.revisions)
    return ServerObservation(causes, result.verdicts)


def find_flaky(observations: Sequence[ServerObservation]) -> tuple[str, ...]:
    """Return the requirements whose verdicts change by chance.

    Args:
        observations: of one server, in the order of time.
    """
    changes: Counter[str] = Counter()
    for before, after in pairwise(observations):
        if before.causes == after.causes:
            both = before.verdicts.keys() & after.verdicts.keys()
            changes.update(id for id in both if before.verdicts[id] != after.verdicts[id])
    return tuple(sorted(id for id, count in changes.items() if count >= _CHANGES))
