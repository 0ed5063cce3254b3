"""A server of a file: a host's configuration, an agent plugin, or a `server.json`."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from accord.cli.options import did_you_mean
from accord.client.server_spec import HttpForm, ServerSpec
from accord_tools.hosts.definition import FileFormat, HostsError, Machine
from accord_tools.hosts.launching.installation import wrap_entry
from accord_tools.hosts.server_names import clean_name
from accord_tools.hosts.targets import TargetReader, complete_target, expand_home

_URL: Final = re.compile(r"https?://", re.IGNORECASE)
_FORMATS: Final[Mapping[str, FileFormat]] = {
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
}


def read_configuration_file(path: Path, fragment: str, reader: TargetReader) -> ServerSpec:
    """Return a server of a host's configuration, of an agent plugin, or of a `server.json`.

    Args:
        path: of the JSON, TOML or YAML file.
        fragment: the name of the server; may be empty if the file has one only.
        reader: what targets are read with.

    Raises:
        HostsError: it cannot be read, or has no such server.
    """
    data = _read_document(path)
    published = _read_published(path, data, fragment)
    if published is not None:
        return published
    name, members = _find_members(path, data, fragment)
    return _read_entry(path, name, members, reader)


def _read_published(path: Path, data: Mapping[str, Any], fragment: str) -> ServerSpec | None:
    """Return a server of a `server.json`; None if the file is not one."""
    from accord_tools.hosts.sources.entry_forms import is_server_json, read_server_json

    if not is_server_json(data):
        return None
    found = {each.name: each for each in read_server_json(data, str(path))}
    server = _choose(path, found, fragment)
    if _URL.match(str(server.entry.get("command", ""))):
        raise HostsError(f"{path}: {server.name} is a bundle: download it, and add the file")
    title = data.get("title") or data.get("name")
    entry = entry_from_members(server.name, server.entry)
    target = complete_target(entry, title=str(title or ""), remarks=server.remarks)
    return msgspec.structs.replace(target, is_foreign=True)


def read_file_entry(path: Path, name: str = "") -> ServerSpec:
    """Return a server of a configuration or a `server.json` as it is there: relative paths stay.

    Args:
        path: of the JSON, TOML or YAML file.
        name: of the server; may be empty if the file has one only.

    Raises:
        HostsError: it cannot be read, or has no such server.
    """
    from accord_tools.hosts.sources.entry_forms import convert_entry

    data = _read_document(path)
    published = _read_published(path, data, name)
    if published is not None:
        return published
    name, members = _find_members(path, data, name)
    try:
        entry = entry_from_members(name, convert_entry(members)[0])
    except HostsError as error:
        raise HostsError(f"{path}, server {error}") from None
    return msgspec.structs.replace(entry, name=name)


def _find_members(
    path: Path, data: Mapping[str, Any], fragment: str
) -> tuple[str, Mapping[str, Any]]:
    from accord.client.configuration import find_entries
    from accord.errors import ConfigurationError
    from accord_tools.hosts.sources.entry_forms import entries_of_one_host

    try:
        entries = find_entries(str(path), data, is_file=True)
    except ConfigurationError as error:
        entries = entries_of_one_host(data)
        if not entries:
            raise HostsError(str(error)) from None
    members = _choose(path, {str(name): each for name, each in entries.items()}, fragment)
    name = fragment or next(iter(map(str, entries)))
    if not isinstance(members, Mapping):
        raise HostsError(f"{path}: the entry {name} is not an object")
    return name, members


def _read_entry(
    path: Path, name: str, members: Mapping[str, Any], reader: TargetReader
) -> ServerSpec:
    from accord.client.configuration import folder_of
    from accord_tools.hosts.sources.entry_forms import convert_entry

    folder = folder_of(reader.machine.project / path)
    converted, _ = convert_entry(_fill_plugin(members, folder, name))
    entry = entry_from_members(clean_name(name), converted)
    remarks = [] if clean_name(name) == name else [f"hosts refuse {name!r}: it has another name"]
    if entry.command:
        entry = _complete_paths(entry, folder, reader.machine)
        file = converted.get("envFile")
        if isinstance(file, str):
            env_file = folder / expand_home(file, reader.machine)
            entry = wrap_entry(entry, reader.find_accord(), env_file=env_file)
    return complete_target(entry, title=name, remarks=remarks)


def _fill_plugin(members: Mapping[str, Any], folder: Path, name: str) -> Mapping[str, Any]:
    """Fill in the folders of an agent plugin."""
    from accord.private_files import user_folder
    from accord_tools.hosts.sources.entry_forms import map_texts

    def fill(text: str) -> str:
        if "${PLUGIN_DATA}" in text:
            data = user_folder() / "plugins" / clean_name(name)
            text = text.replace("${PLUGIN_DATA}", str(data))
        return text.replace("${PLUGIN_ROOT}", str(folder))

    filled: Mapping[str, Any] = map_texts(members, fill)
    return filled


def _complete_paths(entry: ServerSpec, folder: Path, machine: Machine) -> ServerSpec:
    """Return an entry whose paths do not depend on the folder of its file."""
    from accord_tools.hosts.launching.command import complete_path

    cwd = None if entry.cwd is None else os.path.normpath(folder / expand_home(entry.cwd, machine))
    base = folder if cwd is None else Path(cwd)
    words = tuple(complete_path(each, machine, base) for each in entry.command)
    return msgspec.structs.replace(entry, command=words, cwd=cwd)


def _read_document(path: Path) -> dict[str, Any]:
    from accord_tools.hosts.documents.document import open_content
    from accord_tools.hosts.writing.destination import read_file

    content = read_file(path)
    if content is None:
        raise HostsError(f"there is no file {path}")
    document = open_content(path, content, _FORMATS.get(path.suffix, "jsonc")).document
    if not isinstance(document.data, dict):
        raise HostsError(f"{path} is not an object with servers")
    return document.data


def _choose(path: Path, found: Mapping[str, Any], fragment: str) -> Any:
    if fragment:
        if fragment not in found:
            raise HostsError(f"{path} has no server {fragment!r}{_suggest(fragment, found)}")
        return found[fragment]
    if not found:
        raise HostsError(f"{path} names no servers")
    if len(found) > 1:
        raise HostsError(
            f"{path} has {len(found)} servers; say which, as in {path}#{next(iter(found))}: "
            f"{', '.join(found)}"
        )
    return next(iter(found.values()))


def _suggest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    return did_you_mean(name, names) or (f"; it has {', '.join(names)}" if names else "")


def entry_from_members(name: str, members: Mapping[str, Any]) -> ServerSpec:
    """Return an entry from its usual members: command, args, env, cwd, url, headers and type.

    Raises:
        HostsError: it has neither a command nor a URL, or a member of the wrong kind.
    """
    command, url = members.get("command"), members.get("url")
    env, headers = _texts(name, "env", members), _texts(name, "headers", members)
    if isinstance(url, str) and url and not command:
        if not _URL.match(url) and not url.startswith("${"):
            raise HostsError(f"{name}: url begins with neither http:// nor https://")
        token = members.get("auth")
        if isinstance(token, str) and token.lower() != "oauth":
            headers = {"Authorization": f"Bearer {token}", **headers}
        transport: HttpForm = "sse" if members.get("type") == "sse" else "http"
        return ServerSpec(name=clean_name(name), transport=transport, url=url, headers=headers)
    args = members.get("args", [])
    if not isinstance(command, str) or not command:
        raise HostsError(f"{name} has neither a command nor a url")
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise HostsError(f"{name}: args is not a list of texts")
    cwd = members.get("cwd")
    return ServerSpec(
        name=clean_name(name),
        command=(command, *args),
        env=env,
        cwd=cwd if isinstance(cwd, str) else None,
    )


def _texts(name: str, member: str, members: Mapping[str, Any]) -> dict[str, str]:
    given = members.get(member, {})
    if not isinstance(given, Mapping):
        raise HostsError(f"{name}: {member} is not an object of texts")
    found: dict[str, str] = {}
    for key, value in given.items():
        if isinstance(value, bool):
            value = "true" if value else "false"
        if value is not None and not isinstance(value, str | int | float):
            raise HostsError(f"{name}: {member}.{key} is not a text")
        found |= {} if value is None else {str(key): str(value)}
    return found
