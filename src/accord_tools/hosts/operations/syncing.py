"""Servers of one host copied to another."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from accord_tools.hosts.definition import ConfigFile, HostEntry, HostsError, Machine
from accord_tools.hosts.entries.shaping import from_host
from accord_tools.hosts.launching.wrapping import unwrap_entry
from accord_tools.hosts.operations.listing import ListedEntry, list_file
from accord_tools.hosts.operations.plan import PlannedChange, plan_addition, raw_entries
from accord_tools.hosts.writing.destination import find_target, read_file


class SyncPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be written, and which servers are left out, with the reason."""

    planned: tuple[PlannedChange, ...]
    left_out: tuple[str, ...]


def plan_sync(
    source: ConfigFile,
    goals: Iterable[ConfigFile],
    machine: Machine,
    *,
    names: Collection[str] = (),
    is_replacing: bool = False,
) -> SyncPlan:
    """Plan to copy the servers of a file into files of other hosts.

    Args:
        source: where the servers are.
        goals: where they shall be.
        machine: where the hosts run.
        names: only these servers; empty for all.
        is_replacing: whether servers that differ are replaced.

    Raises:
        HostsError: a file cannot be read, or the source lacks one of the names.
    """
    listed = list_file(source)
    if listed.fault:
        raise HostsError(listed.fault)
    missing = [each for each in names if each not in {entry.name for entry in listed.entries}]
    if missing:
        raise HostsError(f"{source.path} has no server {missing[0]!r}")
    chosen = [each for each in listed.entries if not names or each.name in names]
    planned: list[PlannedChange] = []
    left_out: list[str] = []
    for goal in goals:
        known = raw_entries(goal, read_file(find_target(goal.path)))
        for each in chosen:
            found = _plan_one(each, known, goal, machine, is_replacing=is_replacing)
            if isinstance(found, str):
                left_out.append(f"{goal.host.name}: {each.name} is left out: {found}")
            else:
                planned.append(found)
    return SyncPlan(planned=tuple(planned), left_out=tuple(left_out))


def _plan_one(
    listed: ListedEntry,
    known: Mapping[str, Any],
    goal: ConfigFile,
    machine: Machine,
    *,
    is_replacing: bool,
) -> PlannedChange | str:
    """Return the plan for one server, or why there is not one."""
    if listed.entry is None:
        return listed.fault
    if listed.entry.disabled:
        return "it is switched off"
    entry = replace(_without_wrapper(listed.entry), extra={})
    try:
        there = known.get(entry.name)
        if there is not None and not is_replacing and not _is_same(there, entry, goal):
            return "another server has this name there; --replace takes this one"
        return plan_addition(goal, entry, machine, action="sync")
    except HostsError as error:
        return str(error)


def _without_wrapper(entry: HostEntry) -> HostEntry:
    """Return the URL or the command itself where accord makes up for what a host lacks.

    Secrets stay in their file, which every host can launch with.
    """
    found = unwrap_entry(entry)
    return entry if found.env_file is not None else found.entry


def _is_same(known: object, entry: HostEntry, goal: ConfigFile) -> bool:
    try:
        there = from_host(entry.name, known, goal.host)
    except HostsError:
        return False
    return (there.command, there.url, there.env, there.headers) == (
        entry.command,
        entry.url,
        entry.env,
        entry.headers,
    )
