"""An entry of a host's configuration: how the host launches or reaches a server."""

from pathlib import Path
from typing import Any, Final

import msgspec

from accord.cli.options import UsageError, did_you_mean
from accord.hosts.definition import HostEntry

# The members under which hosts keep their servers.
_MEMBERS: Final = ("mcpServers", "servers", "context_servers", "mcp")


def read_entry(file: Path, name: str) -> HostEntry:
    """Read an entry from the configuration of a host.

    Args:
        file: its JSON file.
        name: of the entry; may be empty if the file has one server only.

    Raises:
        UsageError: the file has no such entry, or cannot be read.
    """
    try:
        known = _servers(msgspec.json.decode(file.read_bytes()))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise UsageError(f"{file} is not JSON: {error}") from None
    if not known:
        raise UsageError(f"{file} names no servers; expected a member {' or '.join(_MEMBERS)}")
    if not name and len(known) == 1:
        name = next(iter(known))
    if name not in known:
        hint = did_you_mean(name, known) or f"; it has {', '.join(known)}"
        raise UsageError(f"{file} has no server {name!r}{hint}" if name else f"say which{hint}")
    return _entry(file, name, known[name])


def _servers(document: object) -> dict[str, Any]:
    if not isinstance(document, dict):
        return {}
    for member in _MEMBERS:
        found = _as_object(document.get(member))
        found = _as_object(found.get("servers")) or found
        if found:
            return found
    return {}


def _as_object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _entry(file: Path, name: str, entry: object) -> HostEntry:
    members = _as_object(entry)
    where = f"{file}, server {name!r}"
    command: Any = members.get("command")
    words: Any = members.get("args", [])
    if isinstance(command, dict):  # a host that keeps path, args and env in one object
        members = {**members, **command}
        command, words = command.get("path"), command.get("args", [])
    url = members.get("url") or members.get("serverUrl")
    if isinstance(command, list) and command:
        command, words = command[0], command[1:]
    if isinstance(url, str) and not command:
        headers = _texts(where, "headers", members.get("headers"))
        return HostEntry(name=name, transport="http", url=url, headers=headers)
    if not isinstance(command, str) or not command:
        raise UsageError(f"{where} has neither a command nor a url")
    if not isinstance(words, list) or not all(isinstance(each, str) for each in words):
        raise UsageError(f"{where}: args is not a list of strings")
    cwd = members.get("cwd")
    return HostEntry(
        name=name,
        command=(command, *words),
        env=_texts(where, "env", members.get("env")),
        cwd=cwd if isinstance(cwd, str) else None,
    )


def _texts(where: str, member: str, given: object) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
        raise UsageError(f"{where}: {member} is not an object of strings")
    return given
