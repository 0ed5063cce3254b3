"""Entries in the form of each host: written, and read back, as the table of hosts says."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from accord.client.server_spec import ServerSpec, TransportName
from accord_tools.hosts.definition import ConfigFile, EntryShape, Host, HostsError, KeyPath, Scope
from accord_tools.hosts.entries.placeholders import (
    PlaceholderWriter,
    read_placeholders,
    single_variable,
)

_TRANSPORTS: Final[Mapping[str, TransportName]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "remote": "http",
    "streamablehttp": "http",
    "sse": "sse",
}
_TITLES: Final = {"stdio": "commands", "http": "URLs (streamable HTTP)", "sse": "URLs (HTTP+SSE)"}
# What hosts call the same members; read if an entry has nothing that its own host reads.
_USUAL: Final = (
    *(("command", "program"), ("cmd", "program"), ("args", "args"), ("cwd", "cwd")),
    *(("env", "env"), ("environment", "env"), ("envs", "env"), ("url", "url"), ("uri", "url")),
    *(("httpUrl", "url"), ("serverUrl", "url"), ("baseUrl", "url"), ("headers", "headers")),
    *(("http_headers", "headers"), ("disabled", "disabled")),
)
_TYPES: Final = ("type", "transport")
_BEARER: Final = "(?i:bearer) +"


class ShapedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as a host writes it.

    Attributes:
        value: the object for the file.
        remarks: what the host cannot express, sentences.
        inputs: objects for the list of values that the host asks for.
    """

    value: dict[str, Any]
    remarks: tuple[str, ...] = ()
    inputs: tuple[dict[str, Any], ...] = ()


def to_host(entry: ServerSpec, host: Host, *, scope: Scope) -> ShapedEntry:
    """Return an entry in the form of a host.

    Its `extra` is written as it is: leave it out if the entry is from another host.

    Args:
        entry: the server.
        host: the row of the host.
        scope: of the file that it is for.

    Raises:
        NoPlaceholder: the host cannot fill in a variable of the entry.
        ReservedText: the host would change a text that is meant literally.
        HostsError: the host does not offer the transport, or refuses the name.
    """
    check_name(entry.name, host)
    shape: EntryShape | None = getattr(host, entry.form)
    if shape is None:
        offered = [title for kind, title in _TITLES.items() if getattr(host, kind)]
        raise HostsError(
            f"{host.name} takes no {_TITLES[entry.form]}; it takes {' and '.join(offered)}"
        )
    writer = PlaceholderWriter(host)
    fields = _write_fields(entry, shape, writer)
    members: dict[str, Any] = {}
    for member, field in shape.members.items():
        if field in fields and field != "name":
            _put(members, member.split("."), fields[field])
    fixed = {**shape.constants, **(shape.user_constants if scope == "user" else {})}
    named = {member: entry.name for member, field in shape.members.items() if field == "name"}
    value: dict[str, Any] = {
        **named,
        **{key: fixed[key] for key in _TYPES if key in fixed},
        **members,
        **{key: each for key, each in fixed.items() if key not in members and key not in _TYPES},
    }
    kept = {key for key in value if key in members}
    remarks = [*writer.remarks, *_lacks(entry, host, shape)]
    return ShapedEntry(
        value=_merge(value, entry.extra, kept),
        remarks=tuple(dict.fromkeys(remarks)),
        inputs=tuple(_input(name) for name in writer.inputs),
    )


def check_name(name: str, host: Host) -> None:
    """Prove that a host takes a name.

    Raises:
        HostsError: it does not; the message says which names it takes.
    """
    if not name.strip() or any(not each.isprintable() for each in name):
        raise HostsError(f"{name!r} is not a name for a server")
    if name in host.reserved:
        raise HostsError(f"{host.name} keeps the name {name!r} for itself: choose another one")
    if host.name_pattern and not re.fullmatch(host.name_pattern, name):
        raise HostsError(
            f"{host.name} does not take the name {name!r}: it must match {host.name_pattern}"
        )


def _input(name: str) -> dict[str, Any]:
    return {"type": "promptString", "id": name, "description": name, "password": True}


def _write_fields(
    entry: ServerSpec, shape: EntryShape, writer: PlaceholderWriter
) -> dict[str, Any]:
    """Return the values of all fields that the entry has, as the host writes them."""
    wanted = set(shape.members.values())
    found: dict[str, Any] = {}
    if entry.form == "stdio":
        words = [writer.write(each, "command", "the command") for each in entry.command]
        if not words:
            raise HostsError(f"the entry {entry.name!r} has no command")
        found |= {"program": words[0], "args": words[1:], "command": words}
        if entry.cwd is not None and "cwd" in wanted:
            found["cwd"] = writer.write(entry.cwd, "command", "cwd")
        found |= _write_env(entry.env, wanted, writer)
    else:
        found["url"] = writer.write(entry.url, "url", "the URL")
        found |= _write_headers(entry.headers, wanted, writer)
        if "env_names" in wanted and writer.variables:
            found["env_names"] = list(writer.variables)
    if entry.timeout is not None:
        found["timeout"] = max(1, math.ceil(entry.timeout))
        found["timeout_ms"] = max(1, math.ceil(entry.timeout * 1000))
    if entry.disabled:
        found |= {"disabled": True, "enabled": False}
    return found


def _write_env(
    env: Mapping[str, str], wanted: set[str], writer: PlaceholderWriter
) -> dict[str, Any]:
    names: list[str] = []
    values: dict[str, str] = {}
    for name, text in env.items():
        if "env_names" in wanted and single_variable(text) == name:
            names.append(name)
        else:
            values[name] = writer.write(text, "env", f"env.{name}")
    found: dict[str, Any] = {"env_names": names} if names else {}
    return found | ({"env": values} if values else {})


def _write_headers(
    headers: Mapping[str, str], wanted: set[str], writer: PlaceholderWriter
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    names: dict[str, str] = {}
    values: dict[str, str] = {}
    for name, text in headers.items():
        bearer = single_variable(text, _BEARER) if name.lower() == "authorization" else None
        variable = single_variable(text)
        if "bearer_name" in wanted and bearer:
            found["bearer_name"] = bearer
        elif "header_names" in wanted and variable:
            names[name] = variable
        else:
            values[name] = writer.write(text, "headers", f"the header {name}")
    found |= {"header_names": names} if names else {}
    return found | ({"headers": values} if values else {})


def _lacks(entry: ServerSpec, host: Host, shape: EntryShape) -> Iterator[str]:
    """Yield what the host cannot express."""
    wanted = set(shape.members.values())
    if entry.form == "stdio":
        if entry.cwd is not None and "cwd" not in wanted:
            yield f"{host.name} cannot set the folder that a server runs in: cwd is left out"
        ignored = [name for name in entry.env if name.upper() in host.launch.ignores]
        if ignored:
            yield f"{host.name} ignores the variables {', '.join(ignored)} of an entry"
        if entry.env and not wanted & {"env", "env_names"}:
            yield f"{host.name} cannot set variables for a server: env is left out"
    else:
        if entry.env:
            yield f"{host.name} launches nothing for a URL: env is left out"
        if entry.headers and "headers" not in wanted:
            yield f"{host.name} cannot send headers: they are left out"
        if entry.form == "sse" and host.sse == host.http:
            yield f"{host.name} finds out itself whether a URL is streamable HTTP or HTTP+SSE"
    if entry.timeout is not None:
        if not wanted & {"timeout", "timeout_ms"}:
            yield f"{host.name} has no timeout for a server: it is left out"
        elif "timeout" in wanted and entry.timeout != max(1, math.ceil(entry.timeout)):
            yield f"{host.name} takes whole seconds: the timeout is rounded up"
    if entry.disabled and not wanted & {"disabled", "enabled"}:
        yield f"{host.name} switches servers off in the application: the entry is switched on"


def _put(members: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        members = members.setdefault(key, {})
    members[keys[-1]] = value


def _merge(value: dict[str, Any], extra: Mapping[str, Any], kept: set[str]) -> dict[str, Any]:
    """Return an object with further members; they replace fixed ones, but not those kept."""
    merged = dict(value)
    for key, each in extra.items():
        if isinstance(merged.get(key), dict) and isinstance(each, Mapping):
            merged[key] = {**each, **merged[key]}
        elif key not in kept:
            merged[key] = each
    return merged


def from_host(name: str, value: Any, host: Host) -> ServerSpec:
    """Read an entry of a host, also one with members that the host does not know.

    Args:
        name: of the entry in the file.
        value: the entry.
        host: the row of the host.

    Raises:
        HostsError: it is not an entry at all.
    """
    if not isinstance(value, Mapping):
        raise HostsError(f"the entry {name!r} of {host.name} is not an object")
    rest: dict[str, Any] = dict(value)
    pairs = _readable_members(host)
    fields = _read_fields(rest, pairs)
    if not {"program", "command", "url"} & set(fields):
        fields |= _read_fields(rest, [*_USUAL])
    if not {"program", "command", "url"} & set(fields):
        raise HostsError(f"the entry {name!r} of {host.name} has neither a command nor a URL")
    if fields.get("name") not in (None, name):
        rest["name"] = fields["name"]
    kind = _take_type(rest, fields)
    transport = _transport(kind, fields, value, host)
    shape: EntryShape | None = getattr(host, transport)
    for key, each in {**shape.constants, **shape.user_constants}.items() if shape else ():
        if rest.get(key) == each:
            del rest[key]
    return ServerSpec(
        name=name,
        transport=None if transport == "stdio" else transport,
        timeout=_seconds(fields),
        disabled=fields.get("disabled") is True or fields.get("enabled") is False,
        extra=rest,
        **(_command(fields, host) if transport == "stdio" else _url(fields, host)),
    )


def _readable_members(host: Host) -> list[tuple[str, str]]:
    shapes = [shape for shape in (host.stdio, host.http, host.sse) if shape]
    members = [pair for shape in shapes for pair in shape.members.items()]
    others = [pair for shape in shapes for pair in shape.others.items()]
    return list(dict.fromkeys([*members, *others]))


def _read_fields(rest: dict[str, Any], pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Take the values of fields out of an entry; what is not of the right type stays."""
    found: dict[str, Any] = {}
    for member, field in pairs:
        keys = member.split(".")
        holder: Any = rest
        for key in keys[:-1]:
            inner = holder.get(key) if isinstance(holder, dict) else None
            if isinstance(inner, dict):  # a copy: the value itself is not changed
                inner = holder[key] = dict(inner)
            holder = inner
        if not isinstance(holder, dict) or keys[-1] not in holder or field in found:
            continue
        if _fits(field, holder[keys[-1]]):
            found[field] = holder.pop(keys[-1])
            if not holder and len(keys) > 1:
                rest.pop(keys[0], None)
    return found


def _fits(field: str, value: Any) -> bool:
    if field in ("program", "command"):
        words = value if isinstance(value, list) else [value]
        return all(isinstance(each, str) for each in words) and any(words[:1])
    if field in ("args", "env_names"):
        return isinstance(value, list)
    if field in ("env", "headers", "header_names"):
        return isinstance(value, dict)
    if field in ("timeout", "timeout_ms"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if field in ("disabled", "enabled"):
        return isinstance(value, bool)
    return isinstance(value, str)


def _take_type(rest: dict[str, Any], fields: dict[str, Any]) -> TransportName | None:
    """Return the transport that an entry names, and take the member out."""
    given = fields.get("type")
    for key in _TYPES:
        if given is None and isinstance(rest.get(key), str) and _as_transport(rest[key]):
            given = rest.pop(key)
    return _as_transport(given) if isinstance(given, str) else None


def _as_transport(text: str) -> TransportName | None:
    return _TRANSPORTS.get(re.sub(r"[-_ ]", "", text.lower()))


def _transport(
    kind: TransportName | None, fields: dict[str, Any], value: Mapping[str, Any], host: Host
) -> TransportName:
    has_command = "program" in fields or "command" in fields
    if "url" not in fields or (has_command and kind in (None, "stdio")):
        return "stdio"

    def reads(shape: EntryShape | None) -> bool:
        pairs = {**shape.others, **shape.members} if shape else {}
        return any(field == "url" and member in value for member, field in pairs.items())

    if reads(host.http) != reads(host.sse):
        return "http" if reads(host.http) else "sse"  # whatever the type says
    return kind if kind in ("http", "sse") else host.untyped_url


def _command(fields: dict[str, Any], host: Host) -> dict[str, Any]:
    given = fields.get("program", fields.get("command"))
    words = [*(given if isinstance(given, list) else [given]), *fields.get("args", ())]
    env = {name: f"${{env:{name}}}" for name in _names(fields.get("env_names"))}
    env |= _texts(fields.get("env"), "env", host)
    cwd = fields.get("cwd")
    return {
        "command": tuple(read_placeholders(_text(each), "command", host) for each in words),
        "env": env,
        "cwd": None if cwd is None else read_placeholders(cwd, "command", host),
    }


def _url(fields: dict[str, Any], host: Host) -> dict[str, Any]:
    headers = _texts(fields.get("headers"), "headers", host)
    for name, variable in (fields.get("header_names") or {}).items():
        headers[str(name)] = f"${{env:{variable}}}"
    if "bearer_name" in fields:
        headers["Authorization"] = f"Bearer ${{env:{fields['bearer_name']}}}"
    return {"url": read_placeholders(fields["url"], "url", host), "headers": headers}


def _names(given: Any) -> list[str]:
    """Return the names of a list, in which some hosts have objects with a name."""
    found = [each.get("name") if isinstance(each, dict) else each for each in given or ()]
    return [each for each in found if isinstance(each, str)]


def _texts(given: Any, field: str, host: Host) -> dict[str, str]:
    return {
        str(name): read_placeholders(_text(each), field, host)
        for name, each in (given or {}).items()
        if each is not None
    }


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _seconds(fields: dict[str, Any]) -> float | None:
    if "timeout" in fields:
        return float(fields["timeout"])
    return fields["timeout_ms"] / 1000 if "timeout_ms" in fields else None


def entries_in(document_data: Any, file: ConfigFile) -> dict[str, tuple[KeyPath, Any]]:
    """Return the raw entries of a file by name, each with its path in the document.

    Args:
        document_data: the value of the document.
        file: says where the entries are.
    """
    found: dict[str, tuple[KeyPath, Any]] = {}
    for name, keys, value in _raw_entries(document_data, file):
        if not _is_skipped(value, file.host):
            found.setdefault(name, (keys, value))
    return found


def _raw_entries(data: Any, file: ConfigFile) -> Iterator[tuple[str, KeyPath, Any]]:
    holder = data
    for key in file.key:
        holder = holder.get(key) if isinstance(holder, Mapping) else None
    if isinstance(holder, Mapping):
        for name, value in holder.items():
            yield str(name), (*file.key, name), value
    elif isinstance(holder, list):
        for at, value in enumerate(holder):
            if isinstance(value, Mapping) and isinstance(value.get("name"), str):
                yield value["name"], (*file.key, at), value
    elif holder is None and file.host.bare_names and file.scope == "project":
        for name, value in data.items() if isinstance(data, Mapping) else ():
            if isinstance(value, Mapping) and {"command", "url"} & set(value):
                yield str(name), (name,), value


def _is_skipped(value: Any, host: Host) -> bool:
    return isinstance(value, Mapping) and any(
        value.get(member) in values for member, values in host.skipped.items()
    )
