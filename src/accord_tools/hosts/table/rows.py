"""The table of hosts: its rows, read and proven."""

import difflib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from accord_tools.hosts.definition import EntryShape, Host, HostsError, PlaceholderForms
from accord_tools.hosts.writing.destination import find_target, read_file

TABLE: Final = Path(__file__).with_name("hosts.toml")
"""The table that comes with accord."""
SYSTEMS: Final = ("linux", "macos", "windows")
FIELDS: Final = frozenset(
    (
        *("name", "type", "command", "program", "args", "env", "env_names", "cwd", "url"),
        *("headers", "header_names", "bearer_name", "timeout", "timeout_ms"),
        *("disabled", "enabled"),
    )
)
"""What a member of a shape may stand for."""
LINKS: Final = frozenset(
    ("cursor", "vscode", "vscode-insiders", "visual-studio", "lm-studio", "goose", "raycast")
)
"""The kinds of links that `entries.links` knows."""

_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
_KNOWN_VARIABLES: Final = ("home", "config", "xdg", "appdata", "localappdata")
_ID: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_SHAPES: Final = ("stdio", "http", "sse")


def load_hosts(extra: Path | None = None) -> dict[str, Host]:
    """Return the hosts by id.

    Args:
        extra: a further table; its rows are added, or take the place of those with the same id.

    Raises:
        HostsError: a table cannot be read, or a row has a fault.
    """
    hosts = dict(_known_hosts())
    if extra is not None:
        hosts |= read_table(extra)
        _check_names(extra, hosts.values())
    return hosts


@lru_cache(maxsize=1)
def _known_hosts() -> dict[str, Host]:
    return read_table(TABLE)


def find_host(hosts: Mapping[str, Host], given: str) -> Host:
    """Return the host that is meant by an id, a name or an alias.

    Raises:
        HostsError: there is no such host; the message names similar ones.
    """
    plain = _plain(given)
    for host in hosts.values():
        if plain in map(_plain, (host.id, host.name, *host.aliases)):
            return host
    known = {_plain(each): host.id for host in hosts.values() for each in _names_of(host)}
    near = difflib.get_close_matches(plain, known, n=3)
    meant = list(dict.fromkeys(known[each] for each in near))
    help = f"did you mean {' or '.join(meant)}?" if meant else f"known are {', '.join(hosts)}"
    raise HostsError(f"there is no host {given!r}; {help}")


def _names_of(host: Host) -> tuple[str, ...]:
    return (host.id, host.name, *host.aliases)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def read_table(path: Path) -> dict[str, Host]:
    """Return the rows of a table alone.

    Raises:
        HostsError: it cannot be read, or a row has a fault.
    """
    import tomllib

    content = read_file(find_target(path))
    if content is None:
        raise HostsError(f"{path}: cannot be read: No such file or directory")
    try:
        data = tomllib.loads(content.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HostsError(f"{path}: is not valid TOML: {error}") from None
    unknown = sorted(set(data) - {"hosts", "shapes"})
    if unknown:
        raise HostsError(f"{path}: {unknown[0]!r} is not known; a row is a table [hosts.ID]")
    rows, shapes = data.get("hosts", {}), data.get("shapes", {})
    if not isinstance(rows, dict) or not isinstance(shapes, dict):
        raise HostsError(f"{path}: hosts and shapes must be tables")
    if path != TABLE:  # a table of a user may use the shapes of ours
        shapes = {**_known_shapes(), **shapes}
    found = {id: _read_row(path, id, row, shapes) for id, row in rows.items()}
    _check_names(path, found.values())
    return found


@lru_cache(maxsize=1)
def _known_shapes() -> dict[str, Any]:
    import tomllib

    shapes: dict[str, Any] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["shapes"]
    return shapes


def _read_row(path: Path, id: str, row: Any, shapes: Mapping[str, Any]) -> Host:
    where = f"{path}: host {id!r}"
    if not _ID.fullmatch(id):
        raise HostsError(f"{where}: an id has small letters, digits and single hyphens")
    if not isinstance(row, dict):
        raise HostsError(f"{where}: a row must be a table")
    given = {**row, "id": id}
    for member in ("user", "further"):
        if isinstance(given.get(member), list):
            given[member] = dict.fromkeys(SYSTEMS, given[member])
    for member in _SHAPES:
        name = given.get(member)
        if isinstance(name, str):
            if name not in shapes:
                raise HostsError(f"{where}: {member}: there is no shape {name!r}")
            given[member] = shapes[name]
    try:
        host = msgspec.convert(given, Host)
    except msgspec.ValidationError as error:
        raise HostsError(f"{where}: {_readable(str(error))}") from None
    fault = next(iter(_faults(host)), None)
    if fault:
        raise HostsError(f"{where}: {fault}")
    return host


def _readable(message: str) -> str:
    """Return a message of a fault that begins with the member."""
    found = re.fullmatch(r"(.*?) - at (?:`key` in )?`\$\.?(.*)`", message)
    if found is None:
        return message
    return f"{found[2].replace('[...]', '')}: {found[1]}"


def _faults(host: Host) -> Iterable[str]:
    """Yield what is wrong with a row, although its types fit."""
    if not re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", host.checked):
        yield f"checked: {host.checked!r} is not a year and a month, as in 2026-11"
    if not host.source.strip():
        yield "source: say where the facts are from"
    if not host.name.strip():
        yield "name: must not be empty"
    try:
        re.compile(host.name_pattern)
    except re.error as error:
        yield f"name_pattern: is not a regular expression: {error}"
    if host.link and host.link not in LINKS:
        yield f"link: {host.link!r} is not one of {', '.join(sorted(LINKS))}"
    if (host.user or host.project) and not host.key:
        yield "key: a host with files needs the path of the object with the servers"
    if not any((host.stdio, host.http, host.sse)):
        yield "stdio, http, sse: one of them is needed"
    for kind in _SHAPES:
        yield from _shape_faults(kind, getattr(host, kind))
    yield from _path_faults(host)
    yield from _placeholder_faults(host.placeholders)


def _shape_faults(kind: str, shape: EntryShape | None) -> Iterable[str]:
    if shape is None:
        return
    for member, field in {**shape.members, **shape.others}.items():
        if field not in FIELDS:
            yield f"{kind}: {member}: {field!r} is not one of {', '.join(sorted(FIELDS))}"
    needed = ("program", "command") if kind == "stdio" else ("url",)
    if not set(needed) & set(shape.members.values()):
        yield f"{kind}: members: one of them must be {' or '.join(needed)}"


def _path_faults(host: Host) -> Iterable[str]:
    patterns = [("traces", each) for each in host.traces]
    for member in ("user", "further"):
        for system, listed in getattr(host, member).items():
            patterns += [(f"{member}.{system}", each) for each in listed]
    patterns += [("project", each.path) for each in host.project]
    for member, pattern in patterns:
        if not pattern.isprintable():
            yield f"{member}: {pattern!r} has control characters"
        if member == "project":
            continue
        for name in _VARIABLE.findall(pattern):
            if name not in _KNOWN_VARIABLES and not re.fullmatch(r"env:[A-Z][A-Z0-9_]*", name):
                yield f"{member}: {{{name}}} is not known in {pattern!r}"
        if not _VARIABLE.match(pattern) and not pattern.startswith("/"):
            yield f"{member}: {pattern!r} must begin with {{home}} or the like"
    for file in host.project:
        if file.path.startswith(("/", "~", "{")) or ".." in file.path.split("/"):
            yield f"project: {file.path!r} must be below the folder of the project"


def _placeholder_faults(forms: PlaceholderForms) -> Iterable[str]:
    for member in ("env", "input", "default"):
        form = getattr(forms, member)
        if form and "NAME" not in form:
            yield f"placeholders.{member}: {form!r} must have NAME in it"
    try:
        re.compile(forms.special)
    except re.error as error:
        yield f"placeholders.special: is not a regular expression: {error}"


def _check_names(path: Path, hosts: Iterable[Host]) -> None:
    owners: dict[str, str] = {}
    for host in hosts:
        for name in set(map(_plain, _names_of(host))):
            owner = owners.setdefault(name, host.id)
            if owner != host.id:
                raise HostsError(f"{path}: host {host.id!r}: {owner!r} has the name {name!r} too")
