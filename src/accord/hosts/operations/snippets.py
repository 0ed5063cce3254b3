"""Entries as text to paste, for hosts without a file and for files that cannot be changed."""

from pathlib import Path

from accord.hosts.definition import ConfigFile, Host, HostEntry, Machine, Scope
from accord.hosts.documents.snippets import render_snippet
from accord.hosts.operations.adaptation import adapt_entry
from accord.hosts.table.places import default_file


def paste_place(host: Host, machine: Machine, scope: Scope) -> ConfigFile:
    """Return the file that an entry is for; its path is empty if the host has none."""
    found = default_file(host, machine, scope)
    if found is not None:
        return found
    return ConfigFile(host=host, scope=scope, path=Path(), key=host.key, format=host.format)


def paste_text(
    file: ConfigFile, entry: HostEntry, machine: Machine, *, allow_literals: bool = False
) -> str:
    """Return an entry as it stands in a file, with the objects around it.

    Raises:
        HostsError: the host cannot use the server.
    """
    adapted = adapt_entry(
        entry, file.host, machine, scope=file.scope, allow_literals=allow_literals
    )
    name = entry.name if file.host.container == "map" else 0
    text = render_snippet((*file.key, name), adapted.shaped.value, file.format)
    return text if text.endswith("\n") else f"{text}\n"
