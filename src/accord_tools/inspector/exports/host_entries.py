"""The server of a session as an entry for a host; secrets are variables that the user sets."""

import re
from typing import Final

import msgspec

from accord.cli.target import RUN_WORDS
from accord.client.server_spec import HttpForm, ServerSpec
from accord.types import JsonObject
from accord_tools.hosts.definition import HostsError, Machine
from accord_tools.hosts.entries.placeholders import NoPlaceholder
from accord_tools.hosts.operations.adaptation import (
    adapt_entry,
    paste_place,
    paste_remarks,
    paste_text,
)
from accord_tools.hosts.server_names import clean_name, command_name, url_name
from accord_tools.hosts.table import load_hosts
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.target_access import has_token, make_safe, placeholder_names

_NAME_MOST: Final = 40
# How the inspector launches a Python file or module.
_VARIABLE: Final = re.compile(r"\$\{env:([A-Za-z_]\w*)\}")


def list_hosts() -> list[JsonObject]:
    """Return all hosts that entries can be made for, by name."""
    found = [{"id": host.id, "title": host.name} for host in load_hosts().values()]
    return sorted(found, key=lambda each: str(each["title"]).lower())


def host_entry(target: ServerSpec, host_id: str) -> JsonObject:
    """Return the entry of a server for a host, and where to paste it.

    Raises:
        ActionRefused: there is no such host, or it cannot use the server.
    """
    host = load_hosts().get(host_id)
    if host is None:
        raise ActionRefused(f"there is no host {host_id!r:.60}", field="host")
    safe = make_safe(target)
    names = placeholder_names(safe)
    machine = _without_values(Machine.current(), names)
    file = paste_place(host, machine, "user")
    entry = _entry(target, safe)
    try:
        try:
            adapted = adapt_entry(entry, host, machine, scope=file.scope)
        except NoPlaceholder:
            adapted = adapt_entry(_with_gaps(entry), host, machine, scope=file.scope)
        text = paste_text(file, adapted)
    except HostsError as error:
        raise ActionRefused(f"{host.name}: {error}", field="host") from None
    remarks = paste_remarks(adapted)
    gaps = [f"<{name}>" for name in names if f"<{name}>" in text]
    if gaps:
        remarks.append(f"put the values in the places of {', '.join(gaps)}")
    others = [name for name in names if f"<{name}>" not in gaps]
    if others:
        remarks.append(f"set {', '.join(others)} where the host finds it")
    place = str(file.path) if file.path.name else f"to paste into {host.name}"
    return {"text": text, "place": place, "remarks": remarks}


def _with_gaps(entry: ServerSpec) -> ServerSpec:
    """Return an entry with `<NAME>` for each variable of its command, for hosts that fill in none.

    Such hosts take the value itself, which the user writes there.
    """
    words = tuple(_VARIABLE.sub(r"<\1>", each) for each in entry.command)
    return msgspec.structs.replace(entry, command=words)


def _without_values(machine: Machine, names: list[str]) -> Machine:
    """Return a machine on which the user's variables have no values that could be written."""
    hidden = {name: f"<{name}>" for name in names}
    return msgspec.structs.replace(machine, environ={**machine.environ, **hidden})


def _name(target: ServerSpec, safe: ServerSpec) -> str:
    """Return the name that `accord add` gives, or that the server has in a host already."""
    if safe.url and target.name == target.shown.partition("://")[2]:
        return url_name(safe.url)
    if " " in target.name and safe.command and not safe.shown:
        return command_name(safe.command)
    return clean_name(target.name.removesuffix(".py"))


def _entry(target: ServerSpec, safe: ServerSpec) -> ServerSpec:
    name = _name(target, safe)[:_NAME_MOST]
    entry = msgspec.structs.replace(safe, name=name, auth=None, shown="")
    if not safe.url:
        command = safe.command
        if command[1:6] == RUN_WORDS:  # as `accord add` writes it
            command = (command[0], "-P", "-m", "accord", "run", *command[6:])
        return msgspec.structs.replace(entry, command=command)
    token = {"Authorization": f"Bearer {safe.auth}"} if has_token(safe) else {}
    form: HttpForm = "sse" if safe.transport == "sse" else "http"
    return msgspec.structs.replace(entry, transport=form, headers={**safe.headers, **token})
