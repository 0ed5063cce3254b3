"""The hosts on a machine, with their files and the servers in them."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from accord.client.server_spec import ServerSpec
from accord_tools.hosts.definition import ConfigFile, Host, HostsError, KeyPath, Machine
from accord_tools.hosts.documents.document import Document, TextPlace, open_content
from accord_tools.hosts.entries.shaping import entries_in, from_host
from accord_tools.hosts.table import (
    config_files,
    default_file,
    files_in_use,
    is_installed,
)
from accord_tools.hosts.writing.destination import find_target, read_file


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A server as it stands in a file.

    Attributes:
        name: its name there.
        keys: where it is in the document.
        value: what the file has.
        place: where that is in the text; None if it is not written in one place.
        entry: the same in the common form; None if it cannot be read.
        fault: why not.
    """

    name: str
    keys: KeyPath
    value: Any
    place: TextPlace | None = None
    entry: ServerSpec | None = None
    fault: str = ""

    @property
    def line(self) -> int:
        """The line of the text that it begins at, from 1 on."""
        return self.place.line if self.place else 1


class ListedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a host, with its servers, or why it cannot be read."""

    file: ConfigFile
    exists: bool = True
    entries: tuple[FileEntry, ...] = ()
    fault: str = ""


class ListedHost(msgspec.Struct, frozen=True, kw_only=True):
    """A host, with the trace that shows that it is installed, and its files."""

    host: Host
    trace: str
    files: tuple[ListedFile, ...] = ()


def list_hosts_in_use(hosts: Iterable[Host], machine: Machine) -> list[ListedHost]:
    """Return the hosts that are installed, or have a file that only they read."""
    listed = list(hosts)
    used = {file.host.id for file in files_in_use(listed, machine)}
    return list_hosts(
        [each for each in listed if each.id in used or is_installed(each, machine)], machine
    )


def list_hosts(hosts: Iterable[Host], machine: Machine) -> list[ListedHost]:
    """Return hosts with their files; the user's file is listed even if it is not there yet."""
    found = []
    for host in hosts:
        files = [list_file(file) for file in config_files(host, machine)]
        trace = is_installed(host, machine)
        if not any(each.file.scope == "user" for each in files):
            usual = default_file(host, machine, "user")
            if usual is not None and not usual.path.exists():
                files.insert(0, ListedFile(file=usual, exists=False))
        found.append(ListedHost(host=host, trace=trace, files=tuple(files)))
    return found


def list_file(file: ConfigFile) -> ListedFile:
    """Return the servers of a file, or why it cannot be read."""
    try:
        content = read_file(find_target(file.path))
        if content is None:
            return ListedFile(file=file, exists=False)
        document = open_content(file.path, content, file.format).document
    except HostsError as error:
        return ListedFile(file=file, fault=str(error))
    return ListedFile(file=file, entries=tuple(read_entries(document, file).values()))


def read_entries(document: Document, file: ConfigFile) -> dict[str, FileEntry]:
    """Return the servers of a document by name, those that cannot be read among them."""
    found = entries_in(document.data, file)
    return {name: _read_entry(name, *each, document, file) for name, each in found.items()}


def _read_entry(
    name: str, keys: KeyPath, value: Any, document: Document, file: ConfigFile
) -> FileEntry:
    entry, fault = None, "it is not an object"
    if isinstance(value, Mapping):
        try:
            entry, fault = from_host(name, value, file.host), ""
        except HostsError as error:
            fault = str(error)
    place = document.find(keys)
    return FileEntry(name=name, keys=keys, value=value, place=place, entry=entry, fault=fault)
