"""A file or folder to import servers from, in any form that accord knows."""

from pathlib import Path
from typing import Final

from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.file.document import read_document
from accord_tools.fleet.sources.docker import is_docker_server, read_docker_server
from accord_tools.fleet.sources.host_files import move_entry, read_host_file, relative_path
from accord_tools.fleet.sources.jest import is_jest_configuration, read_jest_configuration
from accord_tools.fleet.sources.server import hide_literals
from accord_tools.hosts.sources.found_server import FoundServer
from accord_tools.hosts.sources.registry import is_server_json, read_server_json

_ENDINGS: Final = (".json", ".jsonc", ".yaml", ".yml", ".toml")
_MOST_FILES: Final = 2_000


def read_source(source: Path, folder: Path) -> tuple[list[FoundServer], list[str]]:
    """Read all servers of a file, or of the files of a folder.

    Args:
        source: a host's configuration, a `server.json`, a configuration of mcp-jest, a
            `server.yaml` of the Docker catalogue, or a folder of such files.
        folder: that of the fleet file, which relative paths are made relative to.

    Returns:
        the servers, with placeholders for secrets; and remarks on files that were left out.

    Raises:
        FleetError: there is nothing to import.
    """
    if not source.is_dir():
        return hide_literals(_read_file(source, folder)), []
    files = sorted(each for each in source.rglob("*") if each.suffix.lower() in _ENDINGS)
    found: list[FoundServer] = []
    remarks: list[str] = []
    for file in files[:_MOST_FILES]:
        if "node_modules" in file.parts or file.name in ("package.json", "package-lock.json"):
            continue
        if file.name.startswith("accord-fleet.") or file.name.endswith(".accord.toml"):
            continue  # what accord wrote itself
        try:
            found += _read_file(file, folder)
        except FleetError as error:
            remarks.append(str(error))
    if not found:
        said = f": {remarks[0]}" if remarks else ""
        raise FleetError(f"{source} has no file with servers to import{said}")
    return hide_literals(found), remarks


def _read_file(path: Path, folder: Path) -> list[FoundServer]:
    data = read_document(path).data
    shown = relative_path(path, folder)
    if is_jest_configuration(data):
        return [read_jest_configuration(data, path.stem, shown)]
    if is_server_json(data):
        return read_server_json(data, shown)
    if is_docker_server(data):
        return [read_docker_server(data, shown)]
    return [move_entry(each, path, folder) for each in read_host_file(path, shown)]
