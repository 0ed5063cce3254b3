"""Runs in files: the JSON that a run writes, read again, and several of them put together."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.results import CatalogFinding, FleetRun, RunOrigin, ServerResult

_ADVICE: Final = "expected a file that accord fleet run --output FILE.json wrote"


class ExportedRun(NamedTuple):
    """A run of a file, and the ids of its rules if the file has them."""

    run: FleetRun
    rules: frozenset[str] | None = None


def read_export(path: Path) -> ExportedRun:
    """Read a run from the JSON that a run wrote.

    Raises:
        FleetError: the file cannot be read, or is something else.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise FleetError(f"{path}: {error.strerror or error}; {_ADVICE}") from None
    return export_from_json(text, str(path))


def export_from_json(text: str | bytes, source: str = "the run") -> ExportedRun:
    """Return the run in the JSON that a run wrote. Members that are not known are ignored.

    Args:
        text: the JSON.
        source: the file, for errors.

    Raises:
        FleetError: it is not such JSON.
    """
    try:
        members = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FleetError(f"{source}: is not JSON ({error}); {_ADVICE}") from None
    if not isinstance(members, dict) or not isinstance(members.get("run"), dict):
        raise FleetError(f"{source}: has no member 'run'; {_ADVICE}")
    try:
        run = msgspec.convert(members["run"], FleetRun)
        read_moment(run.started)
    except ValueError as error:  # what msgspec raises is one as well
        raise FleetError(
            f"{source}: member 'run': {error}; another version of accord may have written it"
        ) from None
    rules = members.get("rules")
    ids = rules.get("ids") if isinstance(rules, dict) else rules
    is_known = isinstance(ids, list) and all(isinstance(each, str) for each in ids)
    return ExportedRun(run=run, rules=frozenset(ids) if ids and is_known else None)


def merge_runs(runs: Sequence[FleetRun]) -> FleetRun:
    """Return one run with the results of several, such as the shards of a fleet.

    Raises:
        FleetError: they are not of one fleet, were judged by other rules, or name a server twice.
    """
    if not runs:
        raise FleetError("there are no runs to put together; name at least one file")
    first = runs[0]
    for each in runs[1:]:
        _demand_same(first, each)
    results = tuple(sorted(_join_results(runs), key=lambda each: each.line or 0))
    names = {each.name for each in results}
    left_out = dict.fromkeys(name for each in runs for name in each.left_out)
    versions = sorted({each.accord for each in runs})
    notes = list(dict.fromkeys(note for each in runs for note in each.notes))
    if len(versions) > 1:
        notes.append(f"made by several versions of accord: {', '.join(versions)}")
    if len(runs) > 1:
        notes.append("servers were compared with each other only within each of the merged runs")
    return msgspec.structs.replace(
        first,
        id=0,
        started=min((each.started for each in runs), key=read_moment),
        seconds=_duration(runs),
        results=results,
        findings=_join_findings(runs),
        jobs=sum(each.jobs for each in runs),
        exit=max(each.exit for each in runs),
        origin=_join_origins(runs),
        notes=tuple(notes),
        left_out=tuple(name for name in left_out if name not in names),
    )


def _demand_same(first: FleetRun, other: FleetRun) -> None:
    for what, one, two in (
        ("of the fleet", first.fleet, other.fleet),
        ("of the fleet file", first.file_digest, other.file_digest),
        ("judged by the rules", first.rules.version, other.rules.version),
        ("judged by the rules", first.rules.digest, other.rules.digest),
    ):
        if one != two:
            raise FleetError(
                f"the runs do not belong together: one is {what} {one!r}, another {two!r}; "
                "make all shards from the same file with the same accord"
            )


def _join_results(runs: Iterable[FleetRun]) -> Iterable[ServerResult]:
    seen: set[str] = set()
    for each in runs:
        for result in each.results:
            if result.name in seen:
                raise FleetError(
                    f"two of the runs have a result of {result.name}; name each shard once"
                )
            seen.add(result.name)
            yield result


def _join_findings(runs: Iterable[FleetRun]) -> tuple[CatalogFinding, ...]:
    return tuple(dict.fromkeys(each for run in runs for each in run.findings))


def _join_origins(runs: Sequence[FleetRun]) -> RunOrigin:
    """Return where the runs were made; what differs is left out."""
    first = runs[0].origin
    same = {
        name: getattr(first, name)
        for name in RunOrigin.__struct_fields__
        if len({getattr(each.origin, name) for each in runs}) == 1
    }
    return RunOrigin(**{**same, "is_dirty": any(each.origin.is_dirty for each in runs)})


def _duration(runs: Sequence[FleetRun]) -> float:
    """Return the seconds from the first start to the last end."""
    starts = [read_moment(each.started).timestamp() for each in runs]
    ends = [start + each.seconds for start, each in zip(starts, runs, strict=True)]
    return max(ends) - min(starts)


def read_moment(text: str) -> datetime:
    """Return the moment of an ISO 8601 time; without a time zone it is in UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
