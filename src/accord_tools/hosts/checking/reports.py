"""What checks of files and entries report."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from accord_tools.hosts.checking.findings import Finding, FindingSeverity
from accord_tools.hosts.checking.launch import LaunchFacts
from accord_tools.hosts.definition import ConfigFile, HostEntry, KeyPath
from accord_tools.hosts.documents.document import TextPlace


class FoundEntry(NamedTuple):
    """An entry as it stands in a file."""

    name: str
    keys: KeyPath
    value: Any
    place: TextPlace | None


class FileReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one file.

    Attributes:
        file: which.
        findings: about the file, and about several entries of it.
        entries: the entries under the right key, by name.
    """

    file: ConfigFile
    findings: tuple[Finding, ...] = ()
    entries: Mapping[str, FoundEntry] = {}

    @property
    def worst(self) -> FindingSeverity | None:
        """The severity of the worst finding; None without findings."""
        return worst_of(self.findings)


class EntryReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one entry.

    Attributes:
        file: in which it is.
        name: of the entry.
        findings: the cheapest to see first.
        entry: as accord reads it; None if it cannot be read.
        launched: facts of the conversation; None if the server was not launched.
    """

    file: ConfigFile
    name: str
    findings: tuple[Finding, ...] = ()
    entry: HostEntry | None = None
    launched: LaunchFacts | None = None

    @property
    def worst(self) -> FindingSeverity | None:
        """The severity of the worst finding; None without findings."""
        return worst_of(self.findings)


def worst_of(findings: Iterable[Finding]) -> FindingSeverity | None:
    """Return the severity of the worst finding; None without findings."""
    given = {each.severity for each in findings}
    order: tuple[FindingSeverity, ...] = ("error", "warning", "note")
    return next((each for each in order if each in given), None)
