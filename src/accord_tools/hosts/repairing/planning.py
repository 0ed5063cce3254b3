"""All repairs of a file: each is found in the text that the ones before it leave."""

from collections.abc import Collection, Iterator
from typing import Final

from accord_tools.hosts.checking.entries import inspect_entry
from accord_tools.hosts.checking.files import check_bytes, check_file, check_together
from accord_tools.hosts.checking.findings import Finding
from accord_tools.hosts.definition import ConfigFile, Host, HostsError, Machine
from accord_tools.hosts.documents.document import UneditableDocument
from accord_tools.hosts.repairing.repair import Repair, StaleRepair
from accord_tools.hosts.writing.destination import find_target, read_file

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
) -> Iterator[Finding]:
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
    from accord_tools.hosts.table.places import config_files

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
