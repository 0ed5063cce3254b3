"""Reads a fleet file: servers, and what is expected of each."""

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from accord.client.configuration import MEMBERS, find_entries, folder_of, is_disabled, kind_of
from accord.errors import ConfigurationError
from accord_tools.fleet.definition import Fleet, FleetError, FleetServer
from accord_tools.fleet.file.document import FleetDocument, read_document
from accord_tools.fleet.file.entries import check_entry
from accord_tools.fleet.file.settings import (
    LOCK_NAME,
    Section,
    merge_settings,
    read_settings,
    suggest,
)
from accord_tools.hosts.definition import KeyPath
from accord_tools.hosts.entries.literals import find_literals

OWN_TABLES: Final = ("fleet", "defaults", "server")
"""The tables that only fleet files have."""
_FLEET_KEYS: Final = ("name", "rules", "extends")
# Members of hosts beside the servers, which mean nothing here.
_IGNORED: Final = ("$schema", "inputs", "mcp")
_USUAL_MEMBERS: Final = ("command", "args", "env", "cwd", "url", "headers", "type")
# Those of some hosts that are close to the usual ones.
_KNOWN_MEMBERS: Final = frozenset(
    {*_USUAL_MEMBERS, "cmd", "envs", "envFile", "environment", "uri", "env_vars", "env_keys"}
)
_LONGEST_NAME: Final = 100


class _FleetEntry(NamedTuple):
    """An entry, the line it begins at, and the file that has it."""

    document: FleetDocument
    keys: KeyPath
    members: Mapping[str, Any]


class _FleetPart(NamedTuple):
    """What one file says: a fleet is one file, or two if it extends another."""

    document: FleetDocument
    fleet: dict[str, str]
    entries: dict[str, _FleetEntry]
    defaults: dict[str, Any]
    settings: dict[str, dict[str, Any]]


def read_fleet(
    path: Path, *, allow_literals: bool = False, lint_ids: Collection[str] = ()
) -> Fleet:
    """Read a fleet file, or any file of a host that names servers.

    Args:
        path: of the TOML, JSON or YAML file.
        allow_literals: whether values that look like secrets may stand in it.
        lint_ids: the ids of findings that may be accepted; without any, all are.

    Raises:
        FleetError: names the line, the key, and the nearest one that exists.
    """
    part = _read_part(path, lint_ids)
    parts = [part]
    if "extends" in part.fleet:
        parts.insert(0, _read_base(part, lint_ids))
    entries: dict[str, _FleetEntry] = {}
    fleet: dict[str, str] = {}
    for each in parts:
        entries.update(each.entries)
        fleet.update(each.fleet)
    for each in parts:
        _demand_entries(each, entries)
    notes: list[str] = []
    servers = []
    for name, entry in entries.items():
        own = [each.settings.get(name, {}) for each in parts]
        _check_entry(name, entry, allow_literals=allow_literals)
        enabled = [each["enabled"] for each in own if "enabled" in each]
        if enabled[-1:] == [False] or is_disabled(entry.members):
            notes.append(f"server {name!r} is disabled")
            continue
        settings = merge_settings([*(_defaults_of(each, name) for each in parts), *own])
        servers.append(_make_server(name, entry, part, settings))
    if not servers:
        raise FleetError(
            f"{path} names no servers{' that are enabled' if entries else ''}; "
            "accord fleet add NAME -- COMMAND adds one"
        )
    return Fleet(
        path=path,
        folder=folder_of(path),
        servers=tuple(servers),
        name=fleet.get("name", ""),
        rules=fleet.get("rules", "latest"),
        notes=tuple(notes),
    )


def _make_server(
    name: str, entry: _FleetEntry, part: _FleetPart, settings: Mapping[str, Any]
) -> FleetServer:
    is_own = entry.document is part.document
    return FleetServer(
        name=name,
        entry=entry.members,
        line=entry.document.line(*entry.keys) if is_own else None,
        folder=None if is_own else folder_of(entry.document.path),
        **settings,
    )


# -- one file


def _read_part(path: Path, lint_ids: Collection[str]) -> _FleetPart:
    document = read_document(path)
    is_fleet = is_fleet_file(document)
    _refuse_unknown_tables(document, is_fleet=is_fleet)
    fleet = _read_head(document) if is_fleet else {}
    entries = _read_entries(document, is_fleet=is_fleet, may_lack="extends" in fleet)
    defaults: dict[str, Any] = {}
    settings: dict[str, dict[str, Any]] = {}
    if is_fleet:
        section = Section(document, ("defaults",), "defaults")
        defaults = read_settings(section, lint_ids, is_default=True)
        tables = Section(document, ("server",), "server")
        for name in tables.values:
            inner = tables.inner(name, subject=f"server {name!r}")
            settings[name] = read_settings(inner, lint_ids)
    return _FleetPart(document, fleet, entries, defaults, settings)


def _defaults_of(part: _FleetPart, name: str) -> dict[str, Any]:
    """Return the defaults of a file for one server."""
    pattern = part.defaults.get("lock")
    if pattern is None:
        return part.defaults
    # A name may be anything, and must not lead out of the folder.
    safe = quote(name, safe="")
    own = pattern.replace(LOCK_NAME, f"%2E{safe[1:]}" if safe.startswith(".") else safe)
    section = Section(part.document, ("defaults",), "defaults")
    return {**part.defaults, "lock": section.path("lock", own)}


def is_fleet_file(document: FleetDocument) -> bool:
    """Return whether a file was written for accord, and is not that of a host."""
    if document.path.name.startswith("accord-fleet."):
        return True
    data = document.data
    if any(isinstance(data.get(each), Mapping) for each in ("mcp_servers", "context_servers")):
        return False
    return document.form == "toml" or any(each in data for each in OWN_TABLES)


def _refuse_unknown_tables(document: FleetDocument, *, is_fleet: bool) -> None:
    """Refuse a misspelt table; files of hosts have settings of their own, which are ignored."""
    for key, value in document.data.items():
        if is_fleet and key == "servers" and "mcpServers" in document.data:
            _refuse_settings(document, value)
        if key in OWN_TABLES or key in MEMBERS or key in _IGNORED:
            continue
        if _is_server(value) and not any(each in document.data for each in MEMBERS):
            continue  # a server without a member around it
        if not is_fleet and not get_close_matches(str(key), OWN_TABLES, n=1, cutoff=0.8):
            continue
        place = document.place(str(key))
        if _is_server(value):
            raise FleetError(f"{place}: server {key!r} belongs into [mcpServers.{key}]")
        known = [*OWN_TABLES, "mcpServers"]
        raise FleetError(f"{place}: there is no table {key}; {suggest(str(key), known)}")


def _refuse_settings(document: FleetDocument, servers: object) -> None:
    """Refuse `[servers.NAME]` where `[server.NAME]` was meant."""
    for name, value in servers.items() if isinstance(servers, Mapping) else ():
        if isinstance(value, Mapping) and not _is_server(value):
            raise FleetError(
                f"{document.place('servers', str(name))}: [servers.{name}] has neither command nor "
                f"url; what is expected of a server belongs into [server.{name}]"
            )


def _is_server(value: object) -> bool:
    return isinstance(value, Mapping) and any(each in value for each in ("command", "url"))


def _read_head(document: FleetDocument) -> dict[str, str]:
    from accord_tools.fleet.rule_set import find_rule_set

    section = Section(document, ("fleet",), "fleet")
    section.refuse_unknown(_FLEET_KEYS, {})
    found = {key: section.text(key) for key in section.values}
    if "rules" in found:
        folder = document.path.parent
        try:
            find_rule_set(found["rules"], folder)
        except FleetError as error:
            raise section.fault("rules", str(error)) from None
        if (folder / found["rules"]).is_file():
            found["rules"] = str((folder / found["rules"]).absolute())
    return found


def _read_entries(
    document: FleetDocument, *, is_fleet: bool, may_lack: bool
) -> dict[str, _FleetEntry]:
    data = document.data
    if is_fleet:
        data = {key: value for key, value in data.items() if key not in OWN_TABLES}
        if not any(_holds_servers(value) for value in data.values()):
            # An empty list of servers is reported once, with what to do.
            wrong = next((key for key in data if key in ("mcpServers", "servers")), None)
            if wrong is None or data[wrong] == {} or may_lack:
                return {}
    try:
        found = find_entries(str(document.path), data, is_file=True)
    except ConfigurationError as error:
        text = str(error).removeprefix(f"{document.path}").lstrip(": ")
        key = next((each for each in MEMBERS if each in data), "")
        raise FleetError(f"{document.place(key)}: {text}") from None
    entries = {}
    for name, value in found.items():
        keys = _find_keys(document, name, value)
        place = document.place(*keys)
        if not isinstance(name, str) or not is_server_name(name):
            raise FleetError(
                f"{place}: {str(name)[:_LONGEST_NAME]!r} is not a name for a server: expected "
                f"1 to {_LONGEST_NAME} characters, without line breaks and control characters"
            )
        if not isinstance(value, Mapping):
            raise FleetError(
                f"{place}: server {name!r} is {kind_of(value)}, "
                "expected a table with command or url"
            )
        entries[name] = _FleetEntry(document, keys, value)
    return entries


def _holds_servers(value: object) -> bool:
    return isinstance(value, Mapping) and (
        _is_server(value) or any(isinstance(each, Mapping) for each in value.values())
    )


def is_server_name(name: str) -> bool:
    """Return whether a text can be the name of a server: short, and without control characters."""
    return bool(name.strip()) and name.isprintable() and len(name) <= _LONGEST_NAME


def _find_keys(document: FleetDocument, name: object, value: object) -> KeyPath:
    """Return the path of an entry in its file."""
    for member in MEMBERS:
        around = document.data.get(member)
        if isinstance(around, Mapping):
            if around.get(name) is value:
                return (member, str(name))
            nested = around.get("servers")
            if isinstance(nested, Mapping) and nested.get(name) is value:
                return (member, "servers", str(name))
    return (str(name),)


def _check_entry(name: str, entry: _FleetEntry, *, allow_literals: bool) -> None:
    for key in entry.members:
        close = get_close_matches(str(key), _USUAL_MEMBERS, n=1, cutoff=0.8)
        if close and key not in _KNOWN_MEMBERS:
            where = entry.document.place(*entry.keys, str(key))
            raise FleetError(
                f"{where}: server {name!r}: there is no key {key}; did you mean {close[0]}?"
            )
    try:
        check_entry(name, entry.members, folder_of(entry.document.path))
    except ConfigurationError as error:
        member = re.match(rf"{re.escape(f'server {name!r}')}: (\w+)", str(error))
        keys = (*entry.keys, member[1]) if member else entry.keys
        raise FleetError(f"{entry.document.place(*keys)}: {error}") from None
    literal = None if allow_literals else next(find_literals(name, entry.members), None)
    if literal is not None:
        where = entry.document.place(*entry.keys, *literal.keys)
        raise FleetError(
            f"{where}: server {name!r}: {literal.label} has a value that looks like a secret; "
            f'write "${{env:{literal.variable}}}" for it and set that variable, or use '
            "--allow-literals"
        )


# -- two files


def _read_base(part: _FleetPart, lint_ids: Collection[str]) -> _FleetPart:
    document = part.document
    section = Section(document, ("fleet",), "fleet")
    path = section.path("extends")
    if path.is_file() and path.samefile(document.path):
        raise section.fault("extends", "extends names this file itself")
    if not path.is_file():
        raise section.fault("extends", f"extends: {part.fleet['extends']} does not exist")
    base = _read_part(path, lint_ids)
    if "extends" in base.fleet:
        raise section.fault(
            "extends",
            f"extends: {part.fleet['extends']} extends another file itself; "
            "only one may be extended",
        )
    return base


def _demand_entries(part: _FleetPart, entries: Mapping[str, _FleetEntry]) -> None:
    """Refuse expectations of a server that no file names."""
    for name in part.settings:
        if name not in entries:
            place = part.document.place("server", name)
            hint = suggest(name, list(entries)) if entries else "the file names no servers"
            raise FleetError(f"{place}: server {name!r}: there is no such server; {hint}")
