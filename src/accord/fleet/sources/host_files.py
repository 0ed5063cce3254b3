"""The configurations of hosts: where they are for this user, and the servers in them."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from accord.client.configuration import find_entries, folder_of, is_disabled
from accord.errors import ConfigurationError
from accord.fleet.definition import FleetError
from accord.fleet.file.document import FleetDocument, read_document
from accord.fleet.file.reader import is_server_name
from accord.hosts.sources.entry_forms import convert_entry
from accord.hosts.sources.found_server import FoundServer, plain_name

# The files of each host, checked 2026-11. {config} is the folder for configurations of the system,
# {xdg} the one that some programs use on macOS too.
_USER_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "Claude Desktop": (
        "{config}/Claude/claude_desktop_config.json",
        "{localappdata}/Packages/Claude_*/LocalCache/Roaming/Claude/claude_desktop_config.json",
    ),
    "Claude Code": ("{CLAUDE_CONFIG_DIR}/.claude.json", "{home}/.claude.json"),
    "Cursor": ("{home}/.cursor/mcp.json",),
    "VS Code": ("{config}/Code/User/mcp.json", "{config}/Code/User/profiles/*/mcp.json"),
    "VS Code Insiders": ("{config}/Code - Insiders/User/mcp.json",),
    "VSCodium": ("{config}/VSCodium/User/mcp.json",),
    "Windsurf": ("{home}/.codeium/windsurf/mcp_config.json", "{home}/.codeium/mcp_config.json"),
    "Zed": ("{xdg}/zed/settings.json", "{appdata}/Zed/settings.json"),
    "Gemini CLI": ("{home}/.gemini/settings.json",),
    "Qwen Code": ("{home}/.qwen/settings.json",),
    "Codex": ("{CODEX_HOME}/config.toml", "{home}/.codex/config.toml"),
    "Copilot CLI": ("{COPILOT_HOME}/mcp-config.json", "{home}/.copilot/mcp-config.json"),
    "Cline": ("{home}/.cline/data/settings/cline_mcp_settings.json",),
    "LM Studio": ("{home}/.lmstudio/mcp.json",),
    "opencode": ("{xdg}/opencode/opencode.json", "{xdg}/opencode/opencode.jsonc"),
    "Kiro": ("{home}/.kiro/settings/mcp.json",),
    "Amazon Q": ("{home}/.aws/amazonq/mcp.json",),
    "Amp": ("{xdg}/amp/settings.json",),
    "Junie": ("{home}/.junie/mcp/mcp.json",),
    "Goose": ("{xdg}/goose/config.yaml", "{appdata}/Block/goose/config/config.yaml"),
}
PROJECT_FILES: Final = (
    *("mcp.json", ".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json", ".vs/mcp.json"),
    *(".gemini/settings.json", ".qwen/settings.json", ".zed/settings.json", ".roo/mcp.json"),
    *(".amazonq/mcp.json", ".kiro/settings/mcp.json", ".junie/mcp/mcp.json", ".github/mcp.json"),
    *(".codex/config.toml", ".trae/mcp.json", ".factory/mcp.json", ".amp/settings.json"),
    *("opencode.json", "opencode.jsonc"),
)
"""The files in which hosts keep the servers of a project."""


class HostFile(NamedTuple):
    """A configuration of a host."""

    host: str
    path: Path


def find_host_files(
    environ: Mapping[str, str] | None = None, system: str = sys.platform
) -> list[HostFile]:
    """Return the configurations of hosts that this user has.

    Args:
        environ: where HOME, APPDATA and the like are; None is that of this process.
        system: the operating system, as `sys.platform` names it.
    """
    given = os.environ if environ is None else environ
    places = _places(given, system)
    found: list[HostFile] = []
    for host, templates in _USER_FILES.items():
        for template in templates:
            try:
                pattern = template.format_map(places)
            except KeyError:
                continue  # a variable that is not set
            found += [HostFile(host, path) for path in _expand(pattern)]
    return list(dict.fromkeys(found))


def _places(environ: Mapping[str, str], system: str) -> dict[str, str]:
    home = environ.get("USERPROFILE" if system == "win32" else "HOME") or str(Path.home())
    places = {name: value for name, value in environ.items() if value}
    xdg = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    appdata = environ.get("APPDATA") or f"{home}/AppData/Roaming"
    config = {"win32": appdata, "darwin": f"{home}/Library/Application Support"}.get(system, xdg)
    places |= {"home": home, "xdg": xdg, "config": config}
    if system == "win32":
        local = environ.get("LOCALAPPDATA") or f"{home}/AppData/Local"
        places |= {"appdata": appdata, "localappdata": local}
    return places


def _expand(pattern: str) -> list[Path]:
    head, star, _ = pattern.partition("*")
    if not star:
        return [path] if (path := Path(pattern)).is_file() else []
    base = Path(head).parent if not head.endswith("/") else Path(head)
    rest = pattern[len(str(base)) :].lstrip("/")
    return sorted(path for path in base.glob(rest) if path.is_file())


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
    extensions = data.get("extensions")
    listed = data.get("mcpServers")
    if isinstance(listed, list):  # Continue has a list
        rows = {str(each.get("name")): each for each in listed if isinstance(each, Mapping)}
        yield from ((name, each, "") for name, each in rows.items())
    elif isinstance(extensions, Mapping) and "mcpServers" not in data:  # Goose
        for name, each in extensions.items():
            if isinstance(each, Mapping):
                yield str(name), each, ""
    else:
        try:
            found = find_entries(str(document.path), data, is_file=True)
        except ConfigurationError as error:
            if "projects" not in data:
                raise FleetError(str(error)) from None
            found = {}
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
