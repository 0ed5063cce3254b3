"""Where the files of hosts are on a machine, and whether a host is installed on it."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from accord_tools.hosts.definition import ConfigFile, Host, HostsError, Machine, ProjectFile, Scope

_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
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
    for found in _VARIABLE.finditer(pattern):
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
