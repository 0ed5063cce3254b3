"""Repairs: certain changes of one file, computed on its bytes and verified.

Each repair of a file is found in the text that the ones before it leave.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from accord_tools.hosts.definition import ConfigFile, Host, HostsError, KeyPath, Machine
from accord_tools.hosts.documents.document import Document, Edit, UneditableDocument, open_document
from accord_tools.hosts.documents.values import ABSENT, find_value, is_same
from accord_tools.hosts.writing.destination import find_target, read_file

if TYPE_CHECKING:
    from accord_tools.hosts.checking.findings import Finding


class StaleRepair(HostsError):
    """The file has other values than the check saw, so that the repair is no longer certain."""


class RepairStep(NamedTuple):
    """A value of a document before and after a repair; ABSENT if it does not exist."""

    keys: KeyPath
    before: Any
    after: Any


class KeyRename(NamedTuple):
    """A key of the outermost object that gets another name; its value stays as it is."""

    before: str
    after: str


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one file that mends a finding without a guess.

    Attributes:
        code: of the finding.
        title: what is done, a sentence.
        file: which is changed.
        entry: the name of the entry; empty if it is about the file.
        steps: the values that change, in order.
        instead: coarser changes with the same outcome, if the text does not allow the others.
        rename: a key that is renamed first; if the text does not allow it, `steps` do the same.
    """

    code: str
    title: str
    file: ConfigFile
    entry: str = ""
    steps: tuple[RepairStep, ...] = ()
    instead: tuple[RepairStep, ...] = ()
    rename: KeyRename | None = None

    def compute(self, data: bytes | None) -> bytes | None:
        """Return the bytes of the file after the repair; the same bytes if nothing is to do.

        Args:
            data: of the file; None if it does not exist.

        Raises:
            StaleRepair: the values to change are others than those that were checked.
            UneditableDocument: the text does not allow the change.
        """
        from accord_tools.hosts.documents.document import read_text_file

        known = read_text_file(data or b"")
        after = self._change_text(known.text)
        if after == known.text:
            return data
        return known.encode(after)

    def _change_text(self, text: str) -> str:
        if self.rename is not None:
            renamed = _rename_key(text, self.file, self.rename)
            if renamed is not None:
                return renamed
        try:
            return _apply(text, self.file, self.steps)
        except UneditableDocument:
            if not self.instead:
                raise
            return _apply(text, self.file, self.instead)


def _apply(text: str, file: ConfigFile, changes: Iterable[RepairStep]) -> str:
    from accord_tools.hosts.documents.verification import verify_edit

    for keys, before, after in changes:
        document = open_document(text, file.format)
        now = find_value(document.data, keys)
        if is_same(now, after):
            continue
        if not is_same(now, before):
            where = ".".join(map(str, keys))
            raise StaleRepair(f"{file.path}: {where} has changed since the check; check again")
        edit = document.remove(keys) if after is ABSENT else document.set(keys, after)
        changed = edit.apply(text)
        verify_edit(text, changed, file.format, {keys: after})
        text = changed
    return text


def _rename_key(text: str, file: ConfigFile, rename: KeyRename) -> str | None:
    """Return the text with a key renamed in its place; None if that is not possible."""
    document = open_document(text, file.format)
    data = document.data
    if not isinstance(data, Mapping) or rename.before not in data or rename.after in data:
        return text if isinstance(data, Mapping) and rename.after in data else None
    offset = _offset_of(document, (rename.before,))
    before, after = (f'"{each}"' if file.format.startswith("json") else each for each in rename)
    if offset is None or not text.startswith(before, offset):
        return None
    changed = Edit(offset, offset + len(before), after).apply(text)
    expected = {rename.after if name == rename.before else name: data[name] for name in data}
    read = open_document(changed, file.format).data
    if not is_same(read, expected):
        return None
    return changed


def _offset_of(document: Document, keys: KeyPath) -> int | None:
    place = document.find(keys)
    if place is None:
        return None
    start = 0
    for _ in range(place.line - 1):
        start = document.text.find("\n", start) + 1
    return start + place.column - 1


def change_entry(
    code: str,
    title: str,
    file: ConfigFile,
    name: str,
    keys: KeyPath,
    values: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> Repair:
    """Return the repair that changes the members of an entry.

    Args:
        code: of the finding.
        title: what is done.
        file: with the entry.
        name: of the entry.
        keys: where it is.
        values: the entry before and after.
    """
    before, after = values
    return Repair(
        code=code,
        title=f"{name}: {title}",
        file=file,
        entry=name,
        steps=tuple(_member_changes(keys, before, after)),
        instead=(RepairStep(keys, before, after),),
    )


def _member_changes(
    keys: KeyPath, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterable[RepairStep]:
    for name, value in after.items():
        known = before.get(name, ABSENT)
        if not is_same(known, value):
            yield RepairStep((*keys, name), known, value)
    # An object that is never empty keeps its layout.
    for name in before:
        if name not in after:
            yield RepairStep((*keys, name), before[name], ABSENT)


def combine_repairs(
    repairs: Sequence[Repair], skip: Callable[[Repair, HostsError], object] = lambda *_: None
) -> Callable[[bytes | None], bytes | None]:
    """Return the function that makes several repairs of one file, in order.

    Args:
        repairs: all of one file.
        skip: called with each that is no longer possible, and why; the others are made.
    """

    def compute(data: bytes | None) -> bytes | None:
        for each in repairs:
            try:
                data = each.compute(data)
            except (StaleRepair, UneditableDocument) as error:
                skip(each, error)
        return data

    return compute


# -- all repairs of a file; checks, which are imported late, find them


# A repair may show the next fault: a missing type after a wrong key.
_ROUNDS: Final = 200


def find_repairs(
    file: ConfigFile,
    machine: Machine,
    *,
    names: Collection[str] = (),
    data: bytes | None = None,
) -> list[Repair]:
    """Return the repairs of a file, in the order in which they are made.

    `combine_repairs` makes one function of them. Nothing is launched, and nothing is written.

    Args:
        file: of a host.
        machine: where it is.
        names: of the only entries to repair; empty repairs all, and the file itself.
        data: the bytes of the file; by default they are read.

    Raises:
        HostsError: the file cannot be read.
    """
    if data is None:
        data = read_file(find_target(file.path))
    found: list[Repair] = []
    refused: set[tuple[str, str, str]] = set()
    for _ in range(_ROUNDS):
        step = _next_repair(file, machine, data, names, refused)
        if step is None:
            return found
        repair, data = step
        found.append(repair)
    return found


def _next_repair(
    file: ConfigFile,
    machine: Machine,
    data: bytes | None,
    names: Collection[str],
    refused: set[tuple[str, str, str]],
) -> tuple[Repair, bytes] | None:
    """Return a repair that changes the file, and the bytes after it; None if all are made."""
    for finding in _findings(file, machine, data, names):
        repair = finding.repair
        if repair is None:
            continue
        key = (repair.code, repair.entry, repair.title)
        if key in refused:
            continue
        refused.add(key)  # once is enough
        try:
            after = repair.compute(data)
        except (StaleRepair, UneditableDocument):
            continue
        if after is not None and after != data:
            return repair, after
    return None


def _findings(
    file: ConfigFile, machine: Machine, data: bytes | None, names: Collection[str]
) -> "Iterator[Finding]":
    from accord_tools.hosts.checking.entries import inspect_entry
    from accord_tools.hosts.checking.files import check_bytes

    if data is None:
        return
    report = check_bytes(file, data, machine)
    for finding in report.findings:
        if not names or finding.entry in names:
            yield finding
    for name, found in report.entries.items():
        if not names or name in names:
            yield from inspect_entry(file, found, machine).findings


def find_host_repairs(host: Host, machine: Machine, *, names: Collection[str] = ()) -> list[Repair]:
    """Return the repairs of all files of a host, and of entries in a file that it does not read.

    A file that cannot be read is left out; its check says why.
    """
    from accord_tools.hosts.checking.files import check_file, check_together
    from accord_tools.hosts.table import config_files

    files = config_files(host, machine)
    found: list[Repair] = []
    if not names:
        together = check_together([check_file(each, machine) for each in files], machine)
        found += [each.repair for each in together if each.repair is not None]
    for file in files:
        try:
            found += find_repairs(file, machine, names=names)
        except HostsError:
            continue
    return found
