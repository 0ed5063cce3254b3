"""The servers of a fleet as a host writes them."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from accord.client.server_spec import ServerSpec
from accord_tools.fleet.definition import Fleet, FleetError
from accord_tools.fleet.file.settings import suggest
from accord_tools.hosts.definition import EntryShape, Host, HostsError, PlaceholderForms
from accord_tools.hosts.documents.document import render_snippet
from accord_tools.hosts.documents.value_texts import format_pair, format_table
from accord_tools.hosts.entries.placeholders import NoPlaceholder
from accord_tools.hosts.entries.shaping import to_host
from accord_tools.hosts.sources.entry_forms import convert_entry, map_texts, normalize_entry
from accord_tools.hosts.table import load_hosts

_REFERENCE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-([^${}]*))?\}")
# What is written for a host that fills in nothing: its user puts the value there.
_OWN_FORMS: Final = PlaceholderForms(env="${env:NAME}", default="${env:NAME:-DEFAULT}")
_USUAL: Final = Host(
    id="mcpServers",
    name="the usual form",
    checked="2026-11",
    source="the members that most hosts read",
    format="json",
    key=("mcpServers",),
    stdio=EntryShape(members={"command": "program", "args": "args", "env": "env", "cwd": "cwd"}),
    http=EntryShape(members={"url": "url", "headers": "headers"}, constants={"type": "http"}),
    sse=EntryShape(members={"url": "url", "headers": "headers"}, constants={"type": "sse"}),
    shared=("envFile", "auth"),
    placeholders=_OWN_FORMS,
)
_HOSTS: Final[Mapping[str, Host]] = {
    _USUAL.id: _USUAL,
    **{id: host for id, host in load_hosts().items() if host.user},
}
HOSTS: Final = tuple(_HOSTS)
"""The hosts that entries can be written for; `mcpServers` is the shape that most of them read."""


class ExportedEntries(NamedTuple):
    """A text to put into a host's file, and what the host cannot take over."""

    text: str
    remarks: tuple[str, ...]


def export_fleet(fleet: Fleet, host: str = "mcpServers") -> ExportedEntries:
    """Return the servers of a fleet in the form of a host.

    Args:
        fleet: the fleet.
        host: one of `HOSTS`.

    Raises:
        FleetError: the host is not known.
    """
    if host not in _HOSTS:
        raise FleetError(f"there is no host {host!r}; {suggest(host, HOSTS)}")
    row = _HOSTS[host]
    remarks: list[str] = []
    entries: dict[str, dict[str, Any]] = {}
    for server in fleet.servers:
        folder = (server.folder or fleet.folder).absolute()
        members = _place_entry(server.entry, folder, fleet.folder.absolute(), row)
        try:
            entries[server.name], found = _write_entry(server.name, members, row)
        except HostsError as error:
            found = [f"left out: {error}"]
        remarks += [f"server {server.name!r}: {each}" for each in found]
    return ExportedEntries(_write_text(row, entries), tuple(remarks))


def _place_entry(
    members: Mapping[str, Any], folder: Path, fleet_folder: Path, host: Host
) -> dict[str, Any]:
    """Return an entry that works wherever the host runs."""
    converted, _ = convert_entry(normalize_entry(members))
    entry: dict[str, Any] = map_texts(
        converted, lambda text: text.replace("${fleet}", str(fleet_folder))
    )
    if "command" not in entry:
        return entry
    cwd = folder / os.path.expanduser(str(entry.pop("cwd", "")))
    if os.path.dirname(entry["command"]):
        entry["command"] = str(cwd / os.path.expanduser(entry["command"]))
    if host.stdio and "cwd" in host.stdio.members.values():
        entry["cwd"] = str(cwd)
        return entry
    if "args" in entry:
        entry["args"] = [
            str(cwd / each) if isinstance(each, str) and each and (cwd / each).is_file() else each
            for each in entry["args"]
        ]
    return entry


def _write_entry(
    name: str, members: Mapping[str, Any], host: Host
) -> tuple[dict[str, Any], list[str]]:
    """Return an entry as the host writes it, and what it cannot take over."""
    texts: dict[str, Any] = map_texts(dict(members), _with_env)
    others = {key: texts[key] for key in ("envFile", "auth") if key in texts}
    is_url = "url" in texts
    entry = ServerSpec(
        name=name,
        transport=None if not is_url else "sse" if texts.get("type") == "sse" else "http",
        command=() if is_url else (texts["command"], *map(str, texts.get("args", ()))),
        env={key: str(each) for key, each in texts.get("env", {}).items()},
        cwd=texts.get("cwd"),
        url=texts.get("url", ""),
        headers={key: str(each) for key, each in texts.get("headers", {}).items()},
        extra={key: each for key, each in others.items() if key in host.shared},
    )
    remarks = [
        f"{host.id} has no {key}: it is left out" for key in others if key not in host.shared
    ]
    try:
        shaped = to_host(entry, host, scope="user")
    except NoPlaceholder:
        open_host = msgspec.structs.replace(host, placeholders=_OWN_FORMS)
        shaped = to_host(entry, open_host, scope="user")
        variables = ", ".join(_variables_in(shaped.value))
        remarks.append(f"{host.id} does not fill in {variables} there: write the value yourself")
    inputs = [each["id"] for each in shaped.inputs]
    if inputs:
        remarks.append(f"add {', '.join(inputs)} to the inputs of the file")
    return shaped.value, [*remarks, *shaped.remarks]


def _with_env(text: str) -> str:
    """Return a text with `${env:NAME}` for each variable."""

    def write(found: re.Match[str]) -> str:
        return f"${{env:{found[1]}}}" if found[2] is None else f"${{env:{found[1]}:-{found[2]}}}"

    return _REFERENCE.sub(write, text)


def _variables_in(value: Any) -> list[str]:
    names: list[str] = []

    def note(text: str) -> str:
        names.extend(found[1] for found in _REFERENCE.finditer(text))
        return text

    map_texts(value, note)
    return list(dict.fromkeys(names))


def _write_text(host: Host, entries: Mapping[str, dict[str, Any]]) -> str:
    """Return the text of a file with entries alone."""
    if host.format == "toml":
        return "\n\n".join(_toml_table(host, name, each) for name, each in entries.items()) + "\n"
    data: Any = list(entries.values()) if host.container == "list" else dict(entries)
    if host.format == "yaml":
        return render_snippet(host.key, data, "yaml")
    for key in reversed(host.key):
        data = {key: data}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _toml_table(host: Host, name: str, entry: Mapping[str, Any]) -> str:
    if host.container == "map":
        return format_table([*host.key, name], entry)
    lines = [f"[[{'.'.join(host.key)}]]", *(format_pair(key, each) for key, each in entry.items())]
    return "\n".join(lines)
