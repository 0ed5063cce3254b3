"""Servers launched before their entries are written, the way the hosts will launch them."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from accord_tools.hosts.checking.entries import check_entry
from accord_tools.hosts.checking.reports import EntryReport
from accord_tools.hosts.definition import Machine
from accord_tools.hosts.launching.consent import variables_in
from accord_tools.hosts.operations.plan import PlannedChange
from accord_tools.hosts.sources.found_server import map_texts
from accord_tools.hosts.writing.secret_files import write_env_file


async def rehearse(
    planned: Sequence[PlannedChange], machine: Machine, *, seconds: float
) -> list[EntryReport]:
    """Check the entries of plans, one after the other; returns a report for each.

    Args:
        planned: additions.
        machine: where the hosts run.
        seconds: how long one server may take.
    """
    reports = []
    for plan in planned:
        if plan.adapted is None:
            continue
        with _trial_value(plan) as value:
            reports.append(
                await check_entry(
                    plan.file,
                    plan.name,
                    (*plan.file.key, plan.name),
                    value,
                    machine,
                    seconds=seconds,
                    granted=variables_in(plan.adapted.entry),
                )
            )
    return reports


@contextlib.contextmanager
def _trial_value(plan: PlannedChange) -> Iterator[Any]:
    """Yield the entry as it will be; secrets are in a file for the time of the trial."""
    adapted = plan.adapted
    assert adapted is not None
    value = adapted.shaped.value
    if adapted.env_file is None:
        yield value
        return
    path, trial = str(adapted.env_file), Path(f"{adapted.env_file}.trial")
    write_env_file(trial, adapted.secrets)
    try:
        yield map_texts(value, lambda text: str(trial) if text == path else text)
    finally:
        trial.unlink(missing_ok=True)
