"""What it means to try an entry that others may have written, so that its user can agree to it."""

from collections.abc import Mapping, Sequence
from shlex import join
from typing import Any

from accord_tools.check.probing.secret_filter import display_target
from accord_tools.hosts.definition import HostEntry
from accord_tools.hosts.entries.literals import find_literals, replace_literal, variable_name
from accord_tools.hosts.launching.environment import REFERENCE


def variables_in(entry: HostEntry) -> list[str]:
    """Return the variables that the texts of an entry name, wherever they stand."""
    texts = (*entry.command, entry.cwd or "", entry.url, *entry.env.values())
    found = [
        each for text in (*texts, *entry.headers.values()) for each in REFERENCE.finditer(text)
    ]
    names = [each[2] if each[1] == "env" else variable_name(each[2]) for each in found]
    return list(dict.fromkeys(names))


def describe_trial(entry: HostEntry) -> str:
    """Return what is launched or contacted, and which variables it gets, without secrets."""
    names = ", ".join(variables_in(entry))
    if entry.url:
        where = display_target(entry.url)
        return f"contacts {where}" + (f", and sends {names} to it" if names else "")
    folder = f" in {entry.cwd}" if entry.cwd else ""
    return f"launches {show_command(entry.command)}{folder}" + (f", with {names}" if names else "")


def show_command(command: Sequence[str]) -> str:
    """Return a command as a shell reads it, with placeholders for what looks like a secret."""
    entry: Mapping[str, Any] = {"command": command[0], "args": list(command[1:])}
    for literal in list(find_literals("server", entry)):
        entry = replace_literal(entry, literal)
    return join([entry["command"], *entry["args"]])
