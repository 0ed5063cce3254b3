"""The results of one server over time, and what changed when."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from accord.protocol.verdict import VerdictName
from accord_tools.fleet.history.comparison import (
    ComparisonContext,
    Differences,
    SharedRules,
    compare_results,
)
from accord_tools.fleet.results import RunDifference, ServerResult, TrendPoint


class PastResult(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a server, and how it differs from the one before it."""

    point: TrendPoint
    server_version: str = ""
    commit: str = ""
    is_finished: bool = True
    reasons: tuple[str, ...] = ()
    differences: tuple[RunDifference, ...] = ()


class ServerPast(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one server over time, the oldest first."""

    name: str
    first_seen: str
    owner: str
    tags: tuple[str, ...]
    flaky: tuple[str, ...]
    results: tuple[PastResult, ...]


def as_point(row: Any) -> TrendPoint:
    """Return a row of a result, joined with that of its run, as a point of a trend."""
    return msgspec.convert({**dict(row), "is_reused": bool(row["reused_from"])}, TrendPoint)


def describe_past(
    pairs: Sequence[tuple[Any, ServerResult]],
    limit: int,
    find_rules: Callable[[str], Collection[str]],
    context: ComparisonContext,
) -> tuple[PastResult, ...]:
    """Return the newest results of a server, each compared with the one before it.

    Args:
        pairs: rows of results, joined with those of their runs, and the results; the oldest first.
        limit: how many; what is older is only compared with.
        find_rules: returns the ids of a set of rules by its digest.
        context: for all comparisons.
    """

    def compare(before: tuple[Any, ServerResult], after: tuple[Any, ServerResult]) -> Differences:
        old, new = (row["rules_digest"] for row, _ in (before, after))
        is_same = old == new
        ids = None if is_same else frozenset(find_rules(old)).intersection(find_rules(new))
        shared = SharedRules(ids, is_same, before[0]["accord"] == after[0]["accord"])
        return compare_results(before[1], after[1], shared, context)

    differences = [(), *(tuple(compare(*both)) for both in pairwise(pairs))]
    found = [
        PastResult(
            point=as_point(row),
            server_version=result.server_version,
            commit=row["git_commit"],
            is_finished=bool(row["is_finished"]),
            reasons=result.reasons,
            differences=changes,
        )
        for (row, result), changes in zip(pairs, differences, strict=True)
    ]
    return tuple(found[-limit:])


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
