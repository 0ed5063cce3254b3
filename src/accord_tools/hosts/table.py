"""The table of hosts: its rows, read and proven, and where the files of hosts are."""

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from accord_tools.hosts.definition import (
    ConfigFile,
    EntryShape,
    Host,
    HostsError,
    Machine,
    PlaceholderForms,
    ProjectFile,
    Scope,
)
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
        for name in _PLACE_VARIABLE.findall(pattern):
            if name not in _KNOWN_VARIABLES and not re.fullmatch(r"env:[A-Z][A-Z0-9_]*", name):
                yield f"{member}: {{{name}}} is not known in {pattern!r}"
        if not _PLACE_VARIABLE.match(pattern) and not pattern.startswith("/"):
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


# -- places: where the files of hosts are on a machine, and whether a host is installed


_PLACE_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
_PROGRAM_ENDS: Final = (".exe", ".cmd", ".bat", ".com")
_ROOTED: Final = re.compile(r"/|[A-Za-z]:/")
_MOST_MATCHES: Final = 100


def config_files(host: Host, machine: Machine, scope: Scope | None = None) -> list[ConfigFile]:
    """Return the files of a host that exist, those of the user first.

    A file of the user that has servers of the project too is listed once more, with their key.
    """
    found: list[ConfigFile] = []
    if scope != "project":
        paths = [*_user_paths(host, machine), *_further_paths(host, machine)]
        found += [_user_file(host, path) for path in paths if _is_file(path)]
    if scope != "user":
        found += _local_files(host, machine)
        for file in host.project:
            paths = _project_paths(file, machine)
            found += [
                _project_file(host, file, path)
                for path in paths
                if _is_file(path) and not _is_of_user(path, host, machine)
            ]
    unique = {(file.path, file.key): file for file in found}
    return list(unique.values())


def files_in_use(
    hosts: Iterable[Host], machine: Machine, scope: Scope | None = None
) -> list[ConfigFile]:
    """Return the files of hosts that exist; those of a project only for hosts that are installed.

    A file of a project that no installed host reads is that of the first host that would read it.
    Hosts that do not run on this system are left out.
    """
    found: list[ConfigFile] = []
    others: list[ConfigFile] = []
    for host in hosts:
        if host.user and machine.system not in host.user:
            continue
        files = config_files(host, machine, scope)
        is_known = bool(is_installed(host, machine))
        for file in files:
            (found if is_known or file.scope == "user" else others).append(file)
    seen = {file.path for file in found}
    for file in others:
        if file.path not in seen:
            seen.add(file.path)
            found.append(file)
    return found


def default_file(host: Host, machine: Machine, scope: Scope) -> ConfigFile | None:
    """Return the file that entries are written to: the first that exists, else the first.

    None if the host has no file for that scope on this system.
    """
    if scope == "user":
        paths = _user_paths(host, machine)
        chosen = next(filter(_is_file, paths), paths[0] if paths else None)
        return _user_file(host, chosen) if chosen else None
    files = [file for file in host.project if "*" not in file.path]
    places = [(file, path) for file in files for path in _project_paths(file, machine)]
    if not places:
        return None
    file, path = next((each for each in places if _is_file(each[1])), places[0])
    is_own = _is_of_user(path, host, machine)
    return _user_file(host, path) if is_own else _project_file(host, file, path)


def file_at(host: Host, path: Path, machine: Machine) -> ConfigFile:
    """Return a file of a host that its user names: with the key of the host's file of that name.

    Raises:
        HostsError: the host has no files.
    """
    if not host.key:
        raise HostsError(f"{host.name} keeps its servers in the application, not in a file")
    target = Path(os.path.abspath(machine.project / path))
    for known in config_files(host, machine):
        if known.path == target and known.key[:1] != host.project_key[:1]:
            return known
    for file in host.project:
        if re.fullmatch(_as_expression(file.path), "/".join(target.parts[-_depth(file.path) :])):
            return _project_file(host, file, target)
    return _user_file(host, target)


def other_readers(file: ConfigFile, hosts: Iterable[Host]) -> list[str]:
    """Return the names of hosts that read the same file, with another key.

    An entry under one key is not seen by them, and some warn about a key that they do not know.
    """
    found = []
    for host in hosts:
        if host.id == file.host.id:
            continue
        for each in host.project:
            ends = file.path.parts[-_depth(each.path) :]
            is_same = file.scope == "project" and each.path == "/".join(ends)
            if is_same and (each.key or host.key) != file.key:
                found.append(host.name)
                break
    return found


def is_installed(host: Host, machine: Machine) -> str:
    """Return a trace of the host on this machine: a program, a folder or a file; empty if none."""
    for program in host.programs:
        if found := _find_program(program, machine):
            return found
    for pattern in host.traces:
        if pattern.startswith("/Applications/") and machine.system != "macos":
            continue
        for path in expand(pattern, machine):
            if os.path.exists(path):
                return str(path)
    # Folders that every user has say nothing.
    common = {machine.home, *(Path(each) for each in _variables(machine).values())}
    for path in _user_paths(host, machine):
        if _is_file(path):
            return str(path)
        if path.parent not in common and os.path.isdir(path.parent):
            return str(path.parent)
    return ""


def expand(pattern: str, machine: Machine) -> list[Path]:
    """Return the paths that a pattern stands for on a machine.

    Args:
        pattern: with {home} and the like, and * for any name; what is before and at the last *
            must exist, what follows need not.
        machine: where they are.
    """
    text = _fill_in(pattern, machine)
    if text is None:
        return []
    if "*" not in text:
        return [Path(text)]
    head = text[: text.index("*")].rpartition("/")[0]
    found = [Path(head or "/")]
    for part in text[len(head) + 1 :].split("/"):
        if "*" in part:
            found = [each for folder in found for each in _matches(folder, part)]
        else:
            found = [folder / part for folder in found]
    return found


def _matches(folder: Path, part: str) -> list[Path]:
    expression = re.compile(_as_expression(part))
    try:
        names = sorted(each for each in os.listdir(folder) if expression.fullmatch(each))
    except OSError:
        return []
    return [folder / name for name in names[:_MOST_MATCHES]]


def _as_expression(pattern: str) -> str:
    return "[^/]*".join(re.escape(part) for part in pattern.split("*"))


def _fill_in(pattern: str, machine: Machine) -> str | None:
    """Return a pattern with its variables; None if one of them is not set."""
    known = _variables(machine)
    filled = []
    last = 0
    for found in _PLACE_VARIABLE.finditer(pattern):
        name = found[1]
        value = machine.environ.get(name[4:]) if name.startswith("env:") else known.get(name)
        if not value:
            return None
        filled += [pattern[last : found.start()], _with_slashes(value, machine)]
        last = found.end()
    text = "".join([*filled, pattern[last:]])
    if not _ROOTED.match(text):  # a variable with a relative path
        text = f"{_with_slashes(str(machine.project), machine)}/{text}"
    return text


def _variables(machine: Machine) -> Mapping[str, str]:
    home = _with_slashes(str(machine.home), machine)
    environ = machine.environ
    xdg = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    found = {"home": home, "xdg": xdg, "config": xdg}
    if machine.system == "macos":
        found["config"] = f"{home}/Library/Application Support"
    elif machine.system == "windows":
        found["appdata"] = environ.get("APPDATA") or f"{home}/AppData/Roaming"
        found["localappdata"] = environ.get("LOCALAPPDATA") or f"{home}/AppData/Local"
        found["config"] = found["appdata"]
    return {name: _with_slashes(value, machine) for name, value in found.items()}


def _with_slashes(text: str, machine: Machine) -> str:
    text = text.replace("\\", "/") if machine.system == "windows" else text
    return text.rstrip("/")


def _user_paths(host: Host, machine: Machine) -> list[Path]:
    found: list[Path] = []
    for pattern in host.user.get(machine.system, ()):
        paths = expand(pattern, machine)
        found += paths
        if paths and pattern.startswith("{env:"):
            break  # the host reads the file of its variable instead of the usual one
    return found


def _further_paths(host: Host, machine: Machine) -> list[Path]:
    patterns = host.further.get(machine.system, ())
    return [path for pattern in patterns for path in expand(pattern, machine)]


def _user_file(host: Host, path: Path) -> ConfigFile:
    return ConfigFile(host=host, scope="user", path=path, key=host.key, format=host.format)


def _project_file(host: Host, file: ProjectFile, path: Path) -> ConfigFile:
    return ConfigFile(
        host=host,
        scope="project",
        path=path,
        key=file.key or host.key,
        format=file.format or host.format,
    )


def _is_of_user(path: Path, host: Host, machine: Machine) -> bool:
    """Return whether a file of the project is the user's, because the project is the home folder.

    A link in a project to the file of the user is another file: others may have made it.
    """
    if os.path.realpath(machine.project) != os.path.realpath(machine.home):
        return False
    own = [*_user_paths(host, machine), *_further_paths(host, machine)]
    in_home = {each.relative_to(machine.home) for each in own if each.is_relative_to(machine.home)}
    return path.is_relative_to(machine.project) and path.relative_to(machine.project) in in_home


def _local_files(host: Host, machine: Machine) -> Iterator[ConfigFile]:
    """Yield the user's file with the key of the servers of this project."""
    if not host.project_key:
        return
    path = next(filter(_is_file, _user_paths(host, machine)), None)
    if path is None:
        return
    for folder in project_folders(machine):
        name = _with_slashes(str(folder), machine) or "/"
        key = tuple(name if part == "{project}" else part for part in host.project_key)
        yield ConfigFile(host=host, scope="project", path=path, key=key, format=host.format)


def _project_paths(file: ProjectFile, machine: Machine) -> list[Path]:
    folders: Sequence[Path] = project_folders(machine) if file.upward else (machine.project,)
    if "*" not in file.path:
        return [folder / file.path for folder in folders]
    before, _, name = file.path.rpartition("/")
    return [path for folder in folders for path in _matches(folder / before, name)]


def project_folders(machine: Machine) -> list[Path]:
    """Return the folder of the project and those around it, up to that of the repository."""
    found: list[Path] = []
    for folder in (machine.project, *machine.project.parents):
        if folder == machine.home and found:
            break  # a file of the home folder is one of the user
        found.append(folder)
        if os.path.exists(folder / ".git"):
            return found
    return found[:1]  # without a repository, hosts look in the folder itself


def _depth(path: str) -> int:
    return path.count("/") + 1


def _is_file(path: Path) -> bool:
    """Return whether a file, or a link to anything, exists; a folder is not a file."""
    return os.path.lexists(path) and not os.path.isdir(path)


def _find_program(name: str, machine: Machine) -> str:
    is_windows = machine.system == "windows"
    given = machine.environ.get("PATH") or machine.environ.get("Path") or ""
    for folder in given.split(";" if is_windows else ":"):
        if not os.path.isabs(folder):
            continue  # programs of the current folder are not installed ones
        for end in _PROGRAM_ENDS if is_windows else ("",):
            path = os.path.join(folder, name + end)
            if os.path.isfile(path) and (is_windows or os.access(path, os.X_OK)):
                return path
    return ""
