"""What the entry of a server asks for: variables, files, and what leaves this machine with them."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from accord.client.configuration import URL_MEMBERS
from accord_tools.fleet.definition import FleetServer
from accord_tools.fleet.file.entries import show_entry
from accord_tools.hosts.entries.literals import names_secret
from accord_tools.hosts.sources.entry_forms import normalize_entry

_PLACEHOLDER: Final = re.compile(r"\$\{(?:(env|file):(?!-))?([^${}]*?)(?::-[^${}]*)?\}")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*")
# They stand for folders, and are written in the same way.
_PLACES: Final = (
    "fleet",
    "userHome",
    "workspaceFolder",
    "workspaceFolderBasename",
    "pathSeparator",
)


class _Placeholder(NamedTuple):
    text: str
    kind: str
    name: str


def _find_placeholders(value: object) -> Iterator[_Placeholder]:
    if isinstance(value, str):
        for found in _PLACEHOLDER.finditer(value):
            kind = found[1] or "env"
            if kind == "file" or (_VARIABLE.fullmatch(found[2]) and found[2] not in _PLACES):
                yield _Placeholder(found[0], kind, found[2])
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _find_placeholders(each)
    elif isinstance(value, list):
        for each in value:
            yield from _find_placeholders(each)


def _names_of(server: FleetServer) -> set[str]:
    """Return the variables that a server is meant to see: it sets, uses or needs them."""
    usual = _usual_members(server.entry)
    named = {each.name for each in _find_placeholders(usual) if each.kind == "env"}
    return named | set(_keys(usual, "env", "environment")) | set(server.needs)


def withheld_variables(server: FleetServer, servers: tuple[FleetServer, ...]) -> tuple[str, ...]:
    """Return the secrets of other servers: variables that only their entries name.

    All else that this process sees, a launched server sees as well, as it would in a shell.
    """
    others = {name for each in servers for name in _names_of(each) if names_secret(name)}
    return tuple(sorted(others - _names_of(server)))


def describe_launch(server: FleetServer) -> str:
    """Return what is launched or contacted, and what it gets, for the user to look at."""
    shown = show_entry(server.entry)
    usual = _usual_members(server.entry)
    is_url = any(isinstance(usual.get(each), str) for each in URL_MEMBERS)
    used = [
        each.text
        for each in _find_placeholders(usual)
        # A program sees all variables anyway, and a URL sends what stands in its entry.
        if (is_url or each.kind == "file") and each.text not in shown
    ]
    details = {
        "sets": _keys(usual, "env", "environment"),
        "sets what stands in": [str(usual["envFile"])] if usual.get("envFile") else [],
        "in": [str(usual["cwd"])] if usual.get("cwd") else [],
        "sends": _keys(usual, "headers"),
        "fills in": list(dict.fromkeys(used)),
        "may call": list(server.tools),
        "runs": [each.name for each in server.cases],
    }
    said = [f"{word} {', '.join(listed)}" for word, listed in details.items() if listed]
    if server.allow_writes:
        said.append("may call tools that change something")
    return f"{shown}  ({'; '.join(said)})" if said else shown


def _usual_members(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    usual = normalize_entry(entry)
    command: Any = usual.get("command")
    return {**usual, **command, "command": command.get("path")} if _is_table(command) else usual


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _keys(members: Mapping[str, Any], *names: str) -> list[str]:
    return sorted(
        {str(key) for name in names if _is_table(members.get(name)) for key in members[name]}
    )
