"""Entries as text to paste, for hosts without a file and for files that cannot be changed."""

from pathlib import Path

from accord_tools.hosts.definition import ConfigFile, Host, Machine, Scope
from accord_tools.hosts.documents.snippets import render_snippet
from accord_tools.hosts.operations.adaptation import AdaptedEntry
from accord_tools.hosts.table.places import default_file


def paste_place(host: Host, machine: Machine, scope: Scope) -> ConfigFile:
    """Return the file that an entry is for; its path is empty if the host has none."""
    found = default_file(host, machine, scope)
    if found is not None:
        return found
    return ConfigFile(host=host, scope=scope, path=Path(), key=host.key, format=host.format)


def paste_text(file: ConfigFile, adapted: AdaptedEntry) -> str:
    """Return an entry as it stands in a file, with the objects around it."""
    name = adapted.entry.name if file.host.container == "map" else 0
    text = render_snippet((*file.key, name), adapted.shaped.value, file.format)
    return text if text.endswith("\n") else f"{text}\n"


def paste_remarks(adapted: AdaptedEntry) -> list[str]:
    """Return what a user who pastes an entry has to know and to do."""
    if adapted.env_file is None:
        return list(adapted.remarks)
    names = ", ".join(adapted.secrets)
    missing = (
        f'{adapted.env_file} is not written by this: put {names} there, as lines KEY="value", '
        "and let only yourself read it (chmod 600)"
    )
    return [*adapted.remarks, missing]
