"""Entries as some hosts write them, brought to the usual members."""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from accord.client.configuration import URL_MEMBERS
from accord_tools.hosts.definition import ConfigFile
from accord_tools.hosts.entries.literals import variable_name
from accord_tools.hosts.entries.shaping import entries_in
from accord_tools.hosts.sources.found_server import map_texts

# Members that say how a server is reached; others are settings of one host.
_KEPT: Final = ("command", "args", "env", "envFile", "cwd", "url", "headers", "type", "auth")
_INPUT: Final = re.compile(r"\$\{input:([^${}]*)\}")
_OTHER_ENV: Final = re.compile(r"(?<!\$)\{env:([A-Za-z_]\w*)\}|\$\{\{\s*secrets\.(\w+)\s*\}\}")
# What entries have almost everywhere; the table of hosts is not needed for them.
_PLAIN: Final = frozenset(
    (*URL_MEMBERS, "command", "args", "env", "environment", "envFile", "cwd", "headers", "type")
)
_USUAL: Final = {
    "program": "command",
    "args": "args",
    "env": "env",
    "cwd": "cwd",
    "url": "url",
    "headers": "headers",
}


class _HostMembers(NamedTuple):
    """Members of hosts: their names (dots lead into objects), and the usual member for each."""

    renamed: Mapping[str, str]
    variable_lists: tuple[str, ...]
    header_variables: tuple[str, ...]
    token_variables: tuple[str, ...]


@lru_cache(maxsize=1)
def _host_members() -> _HostMembers:
    from accord_tools.hosts.table.rows import load_hosts

    pairs: dict[str, str] = {}
    for host in load_hosts().values():
        for shape in filter(None, (host.stdio, host.http, host.sse)):
            pairs |= {**shape.others, **shape.members}
    renamed = {
        member: _USUAL[field]
        for member, field in pairs.items()
        # An object `command` is understood as it is.
        if field in _USUAL and member not in _PLAIN and not member.startswith("command.")
    }

    def members_for(field: str) -> tuple[str, ...]:
        return tuple(member for member, each in pairs.items() if each == field)

    return _HostMembers(
        renamed, members_for("env_names"), members_for("header_names"), members_for("bearer_name")
    )


def normalize_entry(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with `command`, `args`, `env`, `url` and `headers`, whatever its host.

    Codex names variables for headers and tokens, Goose has other words for the same members.
    """
    found = dict(members)
    if found.keys() <= _PLAIN:
        return found
    known = _host_members()
    for member, usual in known.renamed.items():
        value = _take(found, member.split(".")) if usual not in found else None
        if value is not None:
            found[usual] = value
    for member in known.variable_lists:
        listed = found.pop(member, None)
        if isinstance(listed, list) and isinstance(found.get("env", {}), Mapping):
            given = {each: f"${{env:{each}}}" for each in listed if isinstance(each, str)}
            found["env"] = {**given, **found.get("env", {})}
    headers = found.get("headers", {})
    more: dict[str, str] = {}
    for member in known.header_variables:
        by_variable = found.pop(member, None)
        if isinstance(by_variable, Mapping):
            more |= {str(name): f"${{env:{each}}}" for name, each in by_variable.items()}
    for member in known.token_variables:
        token = found.pop(member, None)
        if isinstance(token, str):
            more["Authorization"] = f"Bearer ${{env:{token}}}"
    if more and isinstance(headers, Mapping):
        found["headers"] = {**headers, **more}
    return found


def _take(members: dict[str, Any], keys: list[str]) -> Any:
    """Remove a member, and return its value; one inside an object stays there."""
    if len(keys) == 1:
        return members.pop(keys[0], None)
    value: Any = members
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def convert_entry(members: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return an entry with the usual members and placeholders, and the variables it asks for.

    What a host asks its user for (`${input:key}`) becomes a variable.
    """
    usual = normalize_entry(members)
    command = usual.get("command")
    if isinstance(command, Mapping):
        usual = {**usual, **command, "command": command.get("path")}
    if isinstance(usual.get("command"), list):
        words = usual["command"]
        usual = {**usual, "command": words[:1] and words[0], "args": [*words[1:], *_args(usual)]}
    if "environment" in usual:
        usual["env"] = {**(usual.get("env") or {}), **(usual["environment"] or {})}
    for member in URL_MEMBERS:
        if isinstance(usual.get(member), str):
            usual.setdefault("url", usual[member])
            if member == "httpUrl":
                usual["type"] = "http"
    if usual.get("type") in ("local", "remote", "stdio"):
        del usual["type"]
    if "transport" in usual and "type" not in usual and usual["transport"] != "stdio":
        usual["type"] = usual["transport"]
    entry = {
        key: usual[key]
        for key in _KEPT
        if usual.get(key) is not None and usual[key] not in ({}, [])
    }
    variables: list[str] = []

    def convert(text: str) -> str:
        def from_input(found: re.Match[str]) -> str:
            variables.append(variable_name(found[1]))
            return f"${{env:{variables[-1]}}}"

        text = _INPUT.sub(from_input, text)
        return _OTHER_ENV.sub(lambda found: f"${{env:{found[1] or found[2]}}}", text)

    converted: dict[str, Any] = map_texts(entry, convert)
    return converted, tuple(dict.fromkeys(variables))


def _args(members: Mapping[str, Any]) -> list[Any]:
    found = members.get("args")
    return found if isinstance(found, list) else []


def entries_of_one_host(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a host that keeps them in a list, or under a key of its own."""
    from accord.client.configuration import MEMBERS
    from accord_tools.hosts.table.rows import load_hosts

    for host in load_hosts().values():
        key = host.key[:1]
        is_own = host.container == "list" or not set(key) & set(MEMBERS)
        if key and is_own and key[0] in data:
            file = ConfigFile(
                host=host, scope="user", path=Path(), key=host.key, format=host.format
            )
            return {name: value for name, (_, value) in entries_in(data, file).items()}
    return {}
