"""The configuration of a host: the servers that a file such as mcp.json names."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from accord.client.server_entry import URL_MEMBERS, EntryReader, ServerEntry, kind_of
from accord.errors import ConfigurationError

Configuration: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
"""The path of a JSON file, or what such a file contains; in Python also targets by name."""

# The members under which hosts keep their servers; a file that several of them read may have two.
_SHARED: Final = ("mcpServers", "servers")
# Those of one host each; elsewhere they may have settings of another kind.
MEMBERS: Final = (*_SHARED, "context_servers", "mcp_servers", "amp.mcpServers", "mcp")
"""The members under which hosts keep their servers, the usual ones first."""

# Hosts keep the file of a project in a folder of their own, and launch servers from the project.
_HOST_FOLDERS: Final = frozenset(
    ".amazonq .amp .cursor .factory .gemini .github .qwen .roo .trae .vs .vscode .zed".split()  # noqa: SIM905
)
_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA: Final = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)


def read_configuration(
    source: Configuration,
    *,
    folder: str | os.PathLike[str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> dict[str, ServerEntry]:
    """Read the servers of a host's configuration, without those that are disabled.

    Args:
        source: the path of a JSON file, or a dictionary. The servers are those of its member
            `mcpServers` or `servers`; without such a member every member is a server. Comments and
            trailing commas are allowed. In a dictionary a server may also be a target of `connect`.
        folder: what relative paths of `command` and `cwd` are relative to, and where servers run by
            default: the folder of the file, or the one around it for a file in `.vscode`, `.cursor`
            and the like; without a file, the current folder.
        variables: values for `${NAME}` that come before those of the environment; "input:key" is
            the name for `${input:key}`.

    Raises:
        ConfigurationError: says in which file, entry and member, and what is expected.
    """
    entries, faults = read_servers(source, folder=folder, variables=variables)
    for fault in faults.values():
        raise fault
    return entries


def read_entry(
    name: str,
    value: object,
    *,
    folder: str | os.PathLike[str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> ServerEntry:
    """Read one server: the members of an entry, or anything that `connect` takes as target.

    Args:
        name: of the entry.
        value: its members, such as `command` and `args` or `url`; or a target, taken as it is.
        folder: as for `read_configuration`.
        variables: as for `read_configuration`.

    Raises:
        ConfigurationError: a member is missing or wrong, or a variable is not set.
    """
    if isinstance(value, ServerEntry):
        return replace(value, name=name)
    if not isinstance(value, Mapping):
        return ServerEntry(name, value, {} if folder is None else {"cwd": folder})
    reader = EntryReader(
        f"server {name!r}",
        Path.cwd() if folder is None else Path(folder).absolute(),
        variables or {},
        has_folder=folder is not None,
    )
    return reader.read(name, value)


def read_servers(
    source: Configuration,
    *,
    folder: str | os.PathLike[str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> tuple[dict[str, ServerEntry], dict[str, ConfigurationError]]:
    """Read a configuration entry by entry; returns the entries, and what is wrong with the others.

    Raises:
        ConfigurationError: the source as a whole cannot be read.
    """
    where: str = "the configuration"
    document: object = source
    is_file = not isinstance(source, Mapping)
    if not isinstance(source, Mapping):
        file = _check_file(source)
        where, document = str(file), _read_json(file)
        folder = folder_of(file) if folder is None else folder
    entries: dict[str, ServerEntry] = {}
    faults: dict[str, ConfigurationError] = {}
    for name, value in find_entries(where, document, is_file=is_file).items():
        try:
            if not isinstance(name, str) or not name:
                raise ConfigurationError(f"the name {name!r} is not a text")
            if is_file and not isinstance(value, Mapping):
                raise ConfigurationError(
                    f"server {name!r} is {kind_of(value)}, expected an object with command or url"
                )
            if isinstance(value, Mapping) and is_disabled(value):
                continue
            entries[name] = read_entry(name, value, folder=folder, variables=variables)
        except ConfigurationError as error:
            faults[str(name)] = ConfigurationError(f"{where}: {error}")
    return entries, faults


# -- the file


def _check_file(source: object) -> Path:
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            "a configuration is the path of a JSON file or a dictionary, "
            f"not a {type(source).__name__}"
        )
    text = os.fspath(source)
    if text.lower().startswith(("http://", "https://")) or text.endswith(".py"):
        raise ConfigurationError(
            f"{text[:200]!r} is one server, not a configuration: connect() takes it, "
            'or give it a name, as {"crm": ' + repr(text[:200]) + "}"
        )
    return Path(text).expanduser()


def _read_json(file: Path) -> object:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} is not UTF-8 text") from None
    try:
        return parse_json(text)
    except ValueError as error:
        raise ConfigurationError(f"{file} is not JSON: {error}") from None


def parse_json(text: str) -> object:
    """Return what a text of JSON contains, which may have comments and trailing commas.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return json.loads(text, object_pairs_hook=_Object)
    except ValueError:
        return json.loads(without_comments(text), object_pairs_hook=_Object)


def without_comments(text: str) -> str:
    """Return a text of JSON with spaces in place of comments and trailing commas.

    Everything else stays at its place, so that errors name the right line.
    """
    return _COMMA.sub(_blank, _COMMENT.sub(_blank, text))


def _blank(found: re.Match[str]) -> str:
    return found[1] if found[1] is not None else re.sub(r"[^\n]", " ", found[0])


class _Object(dict[str, Any]):
    """An object that knows which of its members appears twice."""

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        super().__init__(members)
        self.repeated: str | None = None
        if len(self) < len(members):
            names = [name for name, _ in members]
            self.repeated = next(name for name in names if names.count(name) > 1)


def folder_of(file: Path) -> Path:
    """Return the folder that hosts launch the servers of a file from."""
    folder = file.absolute().parent
    return folder.parent if folder.name in _HOST_FOLDERS else folder


def find_entries(where: str, document: object, *, is_file: bool) -> Mapping[Any, Any]:
    """Return the entries of a configuration by name, as they are in it.

    Args:
        where: what messages call the configuration.
        document: what it contains.
        is_file: whether it was read from a file, so that an entry is not a target.

    Raises:
        ConfigurationError: it names no servers, or one name twice.
    """
    if not isinstance(document, Mapping):
        raise ConfigurationError(f"{where} is {kind_of(document)}, expected an object")
    found: dict[Any, Any] = {}
    has_member = False
    for member in MEMBERS:
        servers = _read_member(where, document, member, is_file=is_file)
        if servers is not None and (member in _SHARED or not has_member):
            has_member = True
            for name, value in servers.items():
                if name in found and found[name] != value:
                    raise _repetition(where, name)
                found[name] = value
    if has_member:
        return found
    found = {name: each for name, each in document.items() if isinstance(each, Mapping)}
    if not any(_is_entry(each) for each in found.values()) and (found or is_file):
        raise ConfigurationError(
            f"{where} names no servers: expected a member {' or '.join(_SHARED)}, "
            "or servers by name, each with command or url"
        )
    return found if is_file else document


def _read_member(
    where: str, document: Mapping[str, Any], member: str, *, is_file: bool
) -> Mapping[str, Any] | None:
    """Return the object whose members are servers, if this one of the document is such."""
    servers = document.get(member)
    if not isinstance(servers, Mapping):
        if is_file and servers is not None and member in _SHARED:
            raise ConfigurationError(
                f"{where}: {member} is {kind_of(servers)}, expected an object, servers by name"
            )
        return None
    if _is_entry(servers):
        return None  # a server that has such a name
    nested = servers.get("servers")
    if isinstance(nested, Mapping) and not _is_entry(nested):
        servers = nested
    if isinstance(servers, _Object) and servers.repeated is not None:
        raise _repetition(where, servers.repeated)
    return servers


def _repetition(where: str, name: object) -> ConfigurationError:
    return ConfigurationError(f"{where} has two servers {name!r}: keep one of them")


def _is_entry(value: Mapping[str, Any]) -> bool:
    return any(isinstance(value.get(each), str | list) for each in ("command", *URL_MEMBERS)) or (
        isinstance(value.get("command"), Mapping) and "path" in value["command"]
    )


def is_disabled(value: Mapping[str, Any]) -> bool:
    """Return whether an entry says that its host leaves it out."""
    return value.get("disabled") is True or value.get("enabled") is False
