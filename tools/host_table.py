"""Writes docs/host-table.md from the table of hosts and the table of findings."""

import sys
from pathlib import Path

from accord_tools.hosts.checking.findings import CODES
from accord_tools.hosts.definition import Host
from accord_tools.hosts.table import load_hosts

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "host-table.md"
_HEAD = """\
# Hosts that accord knows

`tools/host_table.py` writes this page from `src/accord_tools/hosts/hosts.toml`, where each
row names its source. Hosts change: `--hosts FILE` replaces a wrong row until it is mended.

In paths, `{config}` is `~/.config` on Linux, `~/Library/Application Support` on macOS and
`%APPDATA%` on Windows; `{xdg}` is `~/.config` on Linux and macOS; `{env:NAME}` is a variable, and
the path is left out if it is not set. The first file that exists is written, else the first.

## Files

| id | host | user's file | project's file | key | format | looked up | in |
|---|---|---|---|---|---|---|---|
"""
_ENTRIES = """
## Entries

A dash: the host has no such entries, and accord writes a bridge (`accord proxy`). Variables: how a
value is filled in from the environment; a dash: it is not, and accord keeps it in its own file.

| id | http | sse | working folder | variables | servers get | when it is used |
|---|---|---|---|---|---|---|
"""
_CODES = """
## Findings of `accord hosts check`

| code | severity | to blame | what it means |
|---|---|---|---|
"""


def _files(host: Host) -> str:
    if not host.user and not host.project:
        return "none: added in the application"
    systems = {system: paths for system, paths in host.user.items() if paths}
    if len({tuple(each) for each in systems.values()}) == 1 and len(systems) == 3:
        return _paths(next(iter(systems.values())))
    return "; ".join(f"{system}: {_paths(paths)}" for system, paths in systems.items())


def _paths(paths: tuple[str, ...]) -> str:
    return ", ".join(f"`{each.replace('{home}', '~')}`" for each in paths)


def _member(host: Host, kind: str) -> str:
    shape = getattr(host, kind)
    if shape is None:
        return "-"
    names = [name for name, field in shape.members.items() if field == "url"]
    type = shape.constants.get("type")
    return f"`{names[0]}`" + (f", type `{type}`" if type else "")


def _variables(host: Host) -> str:
    names = [
        f"`{name}`"
        for shape in (host.stdio, host.http)
        if shape
        for name, field in shape.members.items()
        if field in ("env_names", "bearer_name", "header_names")
    ]
    form = host.placeholders.env or host.placeholders.input
    found = [f"`{form}`"] if form else []
    return ", ".join(dict.fromkeys([*found, *names])) or "-"


def _row(*cells: str) -> str:
    return "| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |\n"


def render() -> str:
    """Return the page."""
    hosts = load_hosts().values()
    parts = [_HEAD]
    for host in hosts:
        project = ", ".join(f"`{each.path}`" for each in host.project) or "-"
        name = host.name + (" (discontinued)" if host.status == "discontinued" else "")
        key = f"`{'.'.join(host.key)}`" if host.key else "-"
        parts.append(
            _row(host.id, name, _files(host), project, key, host.format, host.checked, host.source)
        )
    parts.append(_ENTRIES)
    for host in hosts:
        has_folder = host.stdio is not None and "cwd" in host.stdio.members.values()
        path = "a short PATH" if host.launch.path == "desktop" else "the PATH of the terminal"
        given = path + ("" if host.launch.inherits == "all" else ", few variables")
        folder = "in the entry" if has_folder else "`accord exec`"
        parts.append(
            _row(
                host.id,
                _member(host, "http"),
                _member(host, "sse"),
                folder,
                _variables(host),
                given,
                host.reload,
            )
        )
    parts.append(_CODES)
    parts += [
        _row(f"`{code}`", row.severity, row.blame, row.sentence) for code, row in CODES.items()
    ]
    return "".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text() != render())
    PAGE.write_text(render())
