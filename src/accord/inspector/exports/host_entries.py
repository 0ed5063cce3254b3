"""The server of a session as an entry for a host; secrets are variables that the user sets."""

from typing import Final

import msgspec

from accord.hosts.definition import HostEntry, HostsError, Machine
from accord.hosts.operations.adaptation import adapt_entry
from accord.hosts.operations.snippets import paste_place, paste_remarks, paste_text
from accord.hosts.server_names import clean_name
from accord.hosts.table.rows import load_hosts
from accord.inspector.definition import InspectTarget, Refused
from accord.inspector.exports.target_words import placeholder_names
from accord.inspector.target_access import TOKEN_VARIABLE, SafeTarget, make_safe
from accord.types import JsonObject

_NAME_MOST: Final = 40


def list_hosts() -> list[JsonObject]:
    """Return all hosts that entries can be made for, by name."""
    found = [{"id": host.id, "title": host.name} for host in load_hosts().values()]
    return sorted(found, key=lambda each: str(each["title"]).lower())


def host_entry(target: InspectTarget, host_id: str) -> JsonObject:
    """Return the entry of a server for a host, and where to paste it.

    Raises:
        Refused: there is no such host, or it cannot use the server.
    """
    host = load_hosts().get(host_id)
    if host is None:
        raise Refused(f"there is no host {host_id!r:.60}", field="host")
    safe = make_safe(target)
    machine = _without_values(Machine.current(), placeholder_names(safe))
    file = paste_place(host, machine, "user")
    try:
        adapted = adapt_entry(_entry(target, safe), host, machine, scope=file.scope)
        text = paste_text(file, adapted)
        remarks = paste_remarks(adapted)
    except HostsError as error:
        raise Refused(f"{host.name}: {error}", field="host") from None
    names = placeholder_names(safe)
    if names:
        remarks.append(f"set {', '.join(names)} where the host finds it")
    place = str(file.path) if file.path.name else f"to paste into {host.name}"
    return {"text": text, "place": place, "remarks": remarks}


def _without_values(machine: Machine, names: list[str]) -> Machine:
    """Return a machine on which the user's variables have no values that could be written."""
    hidden = {name: f"<{name}>" for name in names}
    return msgspec.structs.replace(machine, environ={**machine.environ, **hidden})


def _entry(target: InspectTarget, safe: SafeTarget) -> HostEntry:
    name = clean_name(target.title)[:_NAME_MOST]
    if not safe.url:
        env = {each: f"${{env:{each}}}" for each in safe.env}
        return HostEntry(name=name, command=safe.command, env=env, cwd=safe.cwd)
    headers = dict(safe.headers)
    if safe.has_token:
        headers["Authorization"] = f"Bearer ${{env:{TOKEN_VARIABLE}}}"
    is_older = target.transport == "sse"
    return HostEntry(
        name=name, transport="sse" if is_older else "http", url=safe.url, headers=headers
    )
