"""The servers of a fleet as a host writes them."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from accord.fleet.definition import Fleet, FleetError
from accord.fleet.file.section import suggest
from accord.hosts.documents.toml_text import format_table
from accord.hosts.sources.entry_forms import convert_entry, normalize_entry
from accord.hosts.sources.found_server import map_texts

_REFERENCE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-([^${}]*))?\}")


class _HostForm(NamedTuple):
    """How a host writes its servers.

    Attributes:
        member: the object around them.
        placeholder: how a variable is written; empty if the host fills in none.
        has_type: whether an entry with a URL says its type.
        has_cwd: whether an entry may name the folder to run in.
    """

    member: str
    placeholder: str
    has_type: bool = False
    has_cwd: bool = False


_HOSTS: Final[Mapping[str, _HostForm]] = {
    "mcpServers": _HostForm("mcpServers", "${env:NAME}", has_type=True, has_cwd=True),
    "claude-desktop": _HostForm("mcpServers", ""),
    "claude-code": _HostForm("mcpServers", "${NAME}", has_type=True),
    "cursor": _HostForm("mcpServers", "${env:NAME}"),
    "vscode": _HostForm("servers", "${env:NAME}", has_type=True, has_cwd=True),
    "windsurf": _HostForm("mcpServers", "${env:NAME}"),
    "zed": _HostForm("context_servers", ""),
    "cline": _HostForm("mcpServers", "", has_type=True, has_cwd=True),
    "gemini-cli": _HostForm("mcpServers", "${NAME}", has_type=True, has_cwd=True),
    "codex": _HostForm("mcp_servers", "", has_cwd=True),
    "copilot-cli": _HostForm("mcpServers", "${NAME}", has_type=True, has_cwd=True),
    "lm-studio": _HostForm("mcpServers", ""),
    "kiro": _HostForm("mcpServers", "${NAME}"),
    "opencode": _HostForm("mcp", "{env:NAME}", has_cwd=True),
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
    form = _HOSTS[host]
    remarks: list[str] = []
    entries = {}
    for server in fleet.servers:
        folder = (server.folder or fleet.folder).absolute()
        entry = _place_entry(server.entry, folder, fleet.folder.absolute(), form)
        if form.placeholder:
            entry = map_texts(entry, lambda text: _rewrite(text, form.placeholder))
        entries[server.name] = _shape(host, form, entry)
        variables = [] if form.placeholder else _variables_in(entries[server.name])
        if variables:
            remarks.append(
                f"server {server.name!r}: {host} does not fill in {', '.join(variables)} there: "
                "write the value yourself"
            )
    if host == "codex":
        tables = [format_table([form.member, name], each) for name, each in entries.items()]
        return ExportedEntries("\n\n".join(tables) + "\n", tuple(remarks))
    text = json.dumps({form.member: entries}, indent=2, ensure_ascii=False)
    return ExportedEntries(text + "\n", tuple(remarks))


def _place_entry(
    members: Mapping[str, Any], folder: Path, fleet_folder: Path, form: _HostForm
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
    if form.has_cwd:
        entry["cwd"] = str(cwd)
        return entry
    if "args" in entry:
        entry["args"] = [
            str(cwd / each) if isinstance(each, str) and each and (cwd / each).is_file() else each
            for each in entry["args"]
        ]
    return entry


def _shape(host: str, form: _HostForm, entry: dict[str, Any]) -> dict[str, Any]:
    if host == "opencode":
        return _opencode_entry(entry)
    if host == "codex":
        return _codex_entry(entry)
    if "url" in entry:
        kind = entry.pop("type", "http")
        if host == "windsurf":
            entry["serverUrl"] = entry.pop("url")
        elif form.has_type:
            kind = "streamableHttp" if host == "cline" and kind != "sse" else kind
            entry = {"type": kind, **entry}
    elif host in ("vscode", "copilot-cli"):
        entry = {"type": "stdio", **entry}
    if host == "copilot-cli":
        entry["tools"] = ["*"]
    return entry


def _opencode_entry(entry: dict[str, Any]) -> dict[str, Any]:
    if "url" in entry:
        return {"type": "remote", "url": entry["url"], "headers": entry.get("headers", {})}
    found = {"type": "local", "command": [entry["command"], *entry.get("args", ())]}
    found |= {"environment": entry["env"]} if entry.get("env") else {}
    return found | ({"cwd": entry["cwd"]} if "cwd" in entry else {})


def _codex_entry(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of Codex, which names variables instead of filling them in."""
    found = {key: value for key, value in entry.items() if key not in ("env", "headers", "type")}
    env: dict[str, str] = entry.get("env", {})
    named = [name for name, text in env.items() if _is_variable(text, name)]
    if named:
        found["env_vars"] = named
    if literal := {name: text for name, text in env.items() if name not in named}:
        found["env"] = literal
    headers: dict[str, str] = dict(entry.get("headers", {}))
    for name in [each for each in headers if each.lower() == "authorization"]:
        bearer = re.fullmatch(r"(?i:bearer) \$\{(?:env:)?(\w+)\}", headers[name])
        if bearer:
            found["bearer_token_env_var"] = bearer[1]
            del headers[name]
    variables = {name: text for name, text in headers.items() if _is_variable(text)}
    if variables:
        found["env_http_headers"] = {
            name: _variables_in(text)[0] for name, text in variables.items()
        }
    if plain := {name: text for name, text in headers.items() if name not in variables}:
        found["http_headers"] = plain
    return found


def _is_variable(text: object, name: str | None = None) -> bool:
    found = _REFERENCE.fullmatch(str(text))
    return found is not None and found[2] is None and (name is None or found[1] == name)


def _variables_in(value: Any) -> list[str]:
    names: list[str] = []

    def note(text: str) -> str:
        names.extend(found[1] for found in _REFERENCE.finditer(text))
        return text

    map_texts(value, note)
    return list(dict.fromkeys(names))


def _rewrite(text: str, placeholder: str) -> str:
    def write(found: re.Match[str]) -> str:
        has_default = found[2] is not None and placeholder == "${NAME}"
        default = f":-{found[2]}" if has_default else ""
        return placeholder.replace("NAME", f"{found[1]}{default}")

    return _REFERENCE.sub(write, text)
