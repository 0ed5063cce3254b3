"""Planned changes of hosts' files: shown and rehearsed first, then written as one."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from accord.client.server_spec import ServerSpec
from accord_tools.hosts.definition import ConfigFile, HostsError, Machine
from accord_tools.hosts.documents.difference import show_difference
from accord_tools.hosts.documents.document import UneditableDocument, open_content, read_text_file
from accord_tools.hosts.entries.shaping import entries_in, from_host
from accord_tools.hosts.launching.installation import unwrap_entry
from accord_tools.hosts.operations.adaptation import AdaptedEntry, adapt_entry
from accord_tools.hosts.operations.edits import remove_entry, set_entry
from accord_tools.hosts.operations.listing import FileEntry, list_file
from accord_tools.hosts.operations.secrets import mask_for
from accord_tools.hosts.writing.change import FileChange
from accord_tools.hosts.writing.destination import find_target, read_file
from accord_tools.hosts.writing.journal import ChangeAction, Journal
from accord_tools.hosts.writing.secret_files import format_env_file, parse_env_file, secret_file

if TYPE_CHECKING:
    from accord_tools.hosts.checking.findings import EntryReport


class PlannedChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be done to one file of a host, and to files that belong to it.

    Attributes:
        file: the host's file.
        name: of the server.
        before: what the file contains now; None if it does not exist.
        after: what it shall contain; None if it shall not exist.
        changes: how to write it.
        adapted: the entry that is written, if it is one.
        secrets: values that must not be shown.
        remarks: what a user should know before it is written.
    """

    file: ConfigFile
    name: str
    before: bytes | None
    after: bytes | None
    changes: tuple[FileChange, ...] = ()
    adapted: AdaptedEntry | None = None
    secrets: Mapping[str, str] = {}
    remarks: tuple[str, ...] = ()

    @property
    def is_needed(self) -> bool:
        """Whether the host's file changes."""
        return self.before != self.after

    @property
    def difference(self) -> str:
        """The change as a diff, without secrets."""
        secrets = self.adapted.secrets.values() if self.adapted else ()
        mask: Callable[[str], str] = mask_for(self.file, self.before, self.after, secrets=secrets)
        before, after = (
            None if each is None else read_text_file(each).text
            for each in (self.before, self.after)
        )
        return show_difference(str(self.file.path), before, after, mask)


def plan_addition(
    file: ConfigFile,
    entry: ServerSpec,
    machine: Machine,
    *,
    action: ChangeAction = "add",
    allow_literals: bool = False,
) -> PlannedChange:
    """Plan to write a server into the file of a host.

    Members that only the host knows, of an entry that has the name already, are kept.

    Raises:
        HostsError: the file cannot be read or changed, the host refuses a file like it, or cannot
            use the server.
    """
    before = read_file(find_target(file.path))
    known = raw_entries(file, before).get(entry.name)
    if isinstance(known, Mapping):
        entry = replace(entry, extra={**_extra_of(file, entry.name, known), **entry.extra})
    adapted = adapt_entry(
        entry, file.host, machine, scope=file.scope, allow_literals=allow_literals
    )
    compute = set_entry(file, entry.name, adapted.shaped)
    after = compute(before)
    change = FileChange(
        path=file.path,
        host=file.host.id,
        name=entry.name,
        action=action if known is None or action != "add" else "change",
        mode=0o600 if file.scope == "user" else 0o644,
        compute=compute,
    )
    return PlannedChange(
        file=file,
        name=entry.name,
        before=before,
        after=after,
        changes=(*_secret_change(adapted, file, action), change),
        adapted=adapted,
        secrets=adapted.secrets,
        remarks=(*adapted.remarks, *_file_remarks(file, after or b"", machine)),
    )


def _file_remarks(file: ConfigFile, content: bytes, machine: Machine) -> list[str]:
    """Return what may keep the host from reading a file as it is, whatever its entries are.

    Raises:
        UneditableDocument: the host is known to refuse such a file, so that an entry is useless.
    """
    from accord_tools.hosts.checking.files import check_bytes

    found = check_bytes(file, content, machine).findings
    faults = [each for each in found if each.code in ("file-comments", "file-mark")]
    for each in faults:
        if each.severity == "error":
            raise UneditableDocument(f"{file.path}: {each.message}; {each.change} first")
    return [each.message for each in faults]


def _extra_of(file: ConfigFile, name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return from_host(name, value, file.host).extra
    except HostsError:
        return {}


def _secret_change(
    adapted: AdaptedEntry, file: ConfigFile, action: ChangeAction
) -> list[FileChange]:
    if adapted.env_file is None:
        return []
    path, secrets = adapted.env_file, dict(adapted.secrets)

    def add_variables(before: bytes | None) -> bytes:
        # Entries of other hosts may need further variables.
        return format_env_file({**parse_env_file(before or b"", str(path)), **secrets})

    return [
        FileChange(
            path=path,
            host=file.host.id,
            name=adapted.entry.name,
            action=action,
            compute=add_variables,
        )
    ]


def plan_removal(
    file: ConfigFile, name: str, journal: Journal, *, is_secret_kept: bool = False
) -> PlannedChange:
    """Plan to remove a server from the file of a host.

    Args:
        file: the file.
        name: of the server.
        journal: earlier changes, to get back the very bytes of before.
        is_secret_kept: whether another entry still needs the file with its secrets.

    Raises:
        HostsError: the file cannot be read or changed, or has no such server.
    """
    before = read_file(find_target(file.path))
    if before is None:
        raise HostsError(f"there is no file {file.path}")
    value = raw_entries(file, before).get(name)
    compute = remove_entry(file, name, journal)
    changes = [
        FileChange(path=file.path, host=file.host.id, name=name, action="remove", compute=compute)
    ]
    secrets = secret_file(name)
    if not is_secret_kept and uses_secrets_of(value, name) and secrets.exists():
        changes.append(
            FileChange(
                path=secrets,
                host=file.host.id,
                name=name,
                action="remove",
                compute=lambda _: None,
            )
        )
    return PlannedChange(
        file=file, name=name, before=before, after=compute(before), changes=tuple(changes)
    )


def uses_secrets_of(value: Any, name: str) -> bool:
    """Return whether an entry needs the secrets that are kept for servers of a name."""
    return str(secret_file(name)) in _texts_in(value)


def _texts_in(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for each in value.values() for text in _texts_in(each)]
    if isinstance(value, list):
        return [text for each in value for text in _texts_in(each)]
    return [value] if isinstance(value, str) else []


def raw_entries(file: ConfigFile, content: bytes | None) -> dict[str, Any]:
    """Return the entries of a file as they are in it.

    Raises:
        HostsError: the file cannot be read.
    """
    if content is None:
        return {}
    document = open_content(file.path, content, file.format).document
    return {name: value for name, (_, value) in entries_in(document.data, file).items()}


def combine(planned: Sequence[PlannedChange]) -> list[PlannedChange]:
    """Return plans in which each file appears once: several entries may go into one file."""
    by_file: dict[Any, list[PlannedChange]] = {}
    for plan in planned:
        by_file.setdefault(find_target(plan.file.path), []).append(plan)
    return [each[0] if len(each) == 1 else _join(each) for each in by_file.values()]


def _join(planned: Sequence[PlannedChange]) -> PlannedChange:
    first = planned[0]
    changes = merge_changes(planned)
    target = find_target(first.file.path)
    own = next(each for each in changes if find_target(each.path) == target)
    return replace(
        first,
        name=", ".join(dict.fromkeys(each.name for each in planned)),
        after=own.compute(first.before),
        changes=tuple(changes),
        secrets={name: text for each in planned for name, text in each.secrets.items()},
        remarks=tuple(dict.fromkeys(text for each in planned for text in each.remarks)),
    )


def merge_changes(planned: Sequence[PlannedChange]) -> list[FileChange]:
    """Return the changes of several plans; each file is written once.

    Two hosts may read the same file, and several entries may go into one file.
    """
    merged: dict[Any, FileChange] = {}
    for plan in planned:
        for change in plan.changes:
            target = find_target(change.path)
            earlier = merged.get(target)
            if earlier is not None:
                names = dict.fromkeys([*earlier.name.split(", "), change.name])
                change = replace(
                    change,
                    name=", ".join(names),
                    compute=_after(earlier.compute, change.compute),
                )
            merged[target] = change
    return list(merged.values())


def _after(
    first: Callable[[bytes | None], bytes | None], second: Callable[[bytes | None], bytes | None]
) -> Callable[[bytes | None], bytes | None]:
    return lambda before: second(first(before))


# -- rehearsal: servers launched before their entries are written, as the hosts will


async def rehearse(
    planned: Sequence[PlannedChange], machine: Machine, *, seconds: float
) -> "list[EntryReport]":
    """Check the entries of plans, one after the other; returns a report for each.

    Args:
        planned: additions.
        machine: where the hosts run.
        seconds: how long one server may take.
    """
    from accord_tools.hosts.checking.entries import check_entry
    from accord_tools.hosts.launching.environment import variables_in

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
    from accord_tools.hosts.sources.entry_forms import map_texts
    from accord_tools.hosts.writing.secret_files import write_env_file

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


# -- servers of one host copied to another


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
    listed: FileEntry,
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


def _without_wrapper(entry: ServerSpec) -> ServerSpec:
    """Return the URL or the command itself where accord makes up for what a host lacks.

    Secrets stay in their file, which every host can launch with.
    """
    found = unwrap_entry(entry)
    return entry if found.env_file else found


def _is_same(known: object, entry: ServerSpec, goal: ConfigFile) -> bool:
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
