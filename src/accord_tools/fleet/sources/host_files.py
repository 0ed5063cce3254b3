"""The configurations of hosts: where they are for this user, and the servers in them."""

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from accord.client.configuration import find_entries, folder_of, is_disabled
from accord.errors import ConfigurationError
from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.file.document import FleetDocument, read_document
from accord_tools.fleet.file.reader import is_server_name
from accord_tools.hosts.definition import Machine
from accord_tools.hosts.sources.entry_forms import (
    FoundServer,
    convert_entry,
    entries_of_one_host,
    plain_name,
)
from accord_tools.hosts.table import config_files, load_hosts


class HostFile(NamedTuple):
    """A configuration of a host."""

    host: str
    path: Path


def find_host_files(machine: Machine | None = None) -> list[HostFile]:
    """Return the configurations of hosts that this user has; None is this machine."""
    here = machine or Machine.current()
    found = [
        HostFile(host.name, file.path)
        for host in load_hosts().values()
        for file in config_files(host, here, "user")
    ]
    return list(dict.fromkeys(found))


@lru_cache(maxsize=1)
def project_files() -> tuple[str, ...]:
    """Return the files in which hosts keep the servers of a project."""
    listed = [file.path for host in load_hosts().values() for file in host.project]
    return ("mcp.json", *dict.fromkeys(path for path in listed if "*" not in path))


def read_host_file(path: Path, source: str = "") -> list[FoundServer]:
    """Read the servers of a host's configuration, without those that are disabled.

    Args:
        path: of the JSON, TOML or YAML file.
        source: what it is called for people; the path by default.

    Raises:
        FleetError: it cannot be read, or names no servers.
    """
    document = read_document(path)
    where = source or str(path)
    found: list[FoundServer] = []
    disabled: list[str] = []
    for name, members, remark in _entries_of(document):
        if is_disabled(members):
            disabled.append(name)
            continue
        entry, variables = convert_entry(members)
        if "command" in entry or "url" in entry:
            remarks = (remark,) if remark else ()
            found.append(
                FoundServer(
                    name=name if is_server_name(name) else plain_name(name),
                    entry=entry,
                    source=where,
                    remarks=remarks,
                    variables=variables,
                )
            )
    if not found and not disabled:
        raise FleetError(f"{path} names no servers")
    return found


def _entries_of(document: FleetDocument) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yield names, entries and remarks, wherever a host keeps them."""
    data = document.data
    try:
        found = find_entries(str(document.path), data, is_file=True)
    except ConfigurationError as error:
        found = entries_of_one_host(data)
        if not found and "projects" not in data:
            raise FleetError(str(error)) from None
    for name, each in found.items():
        if isinstance(each, Mapping):
            yield str(name), each, ""
    projects = data.get("projects")
    for folder, project in projects.items() if isinstance(projects, Mapping) else ():
        servers = project.get("mcpServers") if isinstance(project, Mapping) else None
        for name, each in servers.items() if isinstance(servers, Mapping) else ():
            if isinstance(each, Mapping):
                usual = {"cwd": str(folder)} if "command" in each else {}
                yield str(name), {**usual, **each}, f"of the project {folder}"


def move_entry(found: FoundServer, source: Path, folder: Path) -> FoundServer:
    """Return a server whose relative paths still hold in another folder."""
    origin = folder_of(source)
    entry = dict(found.entry)
    if "command" in entry and origin != folder.absolute():
        cwd = origin / os.path.expanduser(str(entry.get("cwd", "")))
        entry["cwd"] = relative_path(cwd, folder)
    return msgspec.structs.replace(found, entry=entry)


def relative_path(path: Path, folder: Path) -> str:
    """Return a path relative to a folder if it is below it, else the whole path."""
    try:
        return path.absolute().relative_to(folder.absolute()).as_posix()
    except ValueError:
        return str(path.absolute())
