"""The hosts on a machine, with their files and the servers in them."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from accord.client.server_spec import ServerSpec
from accord_tools.hosts.definition import ConfigFile, Host, HostsError, Machine
from accord_tools.hosts.documents.document import open_content
from accord_tools.hosts.entries.shaping import entries_in, from_host
from accord_tools.hosts.table import (
    config_files,
    default_file,
    files_in_use,
    is_installed,
)
from accord_tools.hosts.writing.destination import find_target, read_file


class ListedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A server in a file.

    Attributes:
        name: its name.
        line: where it stands, beginning with 1.
        value: what the file has.
        entry: the same in the common form; None if it cannot be read.
        fault: why not.
    """

    name: str
    line: int
    value: Any
    entry: ServerSpec | None = None
    fault: str = ""


class ListedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a host, with its servers, or why it cannot be read."""

    file: ConfigFile
    exists: bool = True
    entries: tuple[ListedEntry, ...] = ()
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
    entries = []
    for name, (keys, value) in entries_in(document.data, file).items():
        place = document.find(keys)
        entries.append(_list_entry(file, name, place.line if place else 1, value))
    return ListedFile(file=file, entries=tuple(entries))


def _list_entry(file: ConfigFile, name: str, line: int, value: Any) -> ListedEntry:
    if not isinstance(value, Mapping):
        return ListedEntry(name=name, line=line, value=value, fault="it is not an object")
    try:
        entry = from_host(name, value, file.host)
    except HostsError as error:
        return ListedEntry(name=name, line=line, value=value, fault=str(error))
    return ListedEntry(name=name, line=line, value=value, entry=entry)
