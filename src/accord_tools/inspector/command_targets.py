"""The servers that `accord inspect` is about: from the command line, or from a configuration."""

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from accord.cli.connection import auth_of
from accord.cli.options import UsageError, did_you_mean, known_revision, one_of
from accord.cli.target import ServerPlace, locate
from accord.cli.terminal import confirm, note
from accord_tools.inspector.definition import InspectTarget

if TYPE_CHECKING:
    from accord_tools.hosts.definition import HostEntry

_URL: Final = re.compile(r"https?://", re.IGNORECASE)
# A name as hosts have them; neither a file, nor module:object, nor a path.
_NAME: Final = re.compile(r"[\w.@ -]+")
_TRANSPORTS: Final = ("http", "sse")
_TIMEOUT: Final = 60.0


class NamedEntry(NamedTuple):
    """An entry of a configuration, and where it is.

    Attributes:
        entry: in the common form.
        folder: what its paths are relative to; empty leaves them to the current folder.
        place: the host and file, for people.
        is_foreign: whether others may have written it, and the user did not name the file.
    """

    entry: "HostEntry"
    folder: str
    place: str
    is_foreign: bool = False


def read_targets(options: argparse.Namespace) -> list[InspectTarget]:
    """Return the servers that the command line names.

    Raises:
        UsageError: one of them cannot be found.
    """
    if options.cwd is not None and not os.path.isdir(options.cwd):
        raise UsageError(f"--cwd: there is no folder {options.cwd}")
    common = _read_common(options)
    if options.config:
        names = options.words or [""]
        found = [_target_of_entry(_find_in_file(options.config, each), options) for each in names]
    else:
        found = [_read_target(each, options) for each in options.words]
    if options.command:
        found.append(_target_of_command(options.command, options))
    return [_with_common(each, common) for each in found]


def _read_common(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings that hold for all targets."""
    common: dict[str, Any] = {"auth": auth_of(options)}
    if options.revision is not None:
        common["revision"] = known_revision(options.revision)
    if options.timeout is not None:
        common["timeout"] = common["start_timeout"] = options.timeout
    if options.transport is not None:
        common["transport"] = one_of(options.transport, _TRANSPORTS, "transport")
    return common


def _with_common(target: InspectTarget, common: Mapping[str, Any]) -> InspectTarget:
    from msgspec.structs import replace

    only_http = ("auth", "transport")
    return replace(
        target,
        **{name: value for name, value in common.items() if target.url or name not in only_http},
    )


def _read_target(given: str, options: argparse.Namespace) -> InspectTarget:
    if _URL.match(given):
        return _target_of_url(given, options)
    if "://" in given:
        raise UsageError(f"{given}: the URL of a server begins with http:// or https://")
    if options.host:
        return _target_of_entry(_find_in_hosts(given, options.host), options)
    try:
        place = locate(given)
    except UsageError as error:
        entry = _find_in_hosts(given, "") if _NAME.fullmatch(given) else None
        if entry is None:
            raise UsageError(f"{error}{_suggest_entries(given)}") from None
        return _target_of_entry(entry, options)
    is_name = place.file is None and not place.object
    if is_name and (entry := _find_in_hosts(given, "")) is not None:
        if given not in sys.stdlib_module_names:
            raise UsageError(
                f"{given} is a module, and a server of {entry.place}; write {given}:OBJECT for the "
                "module, or name the host with --host"
            )
        return _target_of_entry(entry, options)
    return _target_of_place(place, options)


# -- what the user typed


def _target_of_url(url: str, options: argparse.Namespace) -> InspectTarget:
    from accord.secrets.filter import display_target

    shown = display_target(url)
    try:
        _ = urlsplit(url).port  # what reads the parts of a wrong URL fails here
    except ValueError as error:
        raise UsageError(f"{shown} is not a URL: {error}") from None
    return InspectTarget(
        title=shown.partition("://")[2] or shown,
        shown=shown,
        url=url,
        headers=dict(options.header),
    )


def _target_of_command(command: Sequence[str], options: argparse.Namespace) -> InspectTarget:
    from accord_tools.hosts.launching.environment import show_command

    return InspectTarget(
        title=_name_command(command),
        shown=f"-- {show_command(command)}",
        command=tuple(command),
        env=_environment(options),
        cwd=options.cwd,
        folders=() if options.no_reload else _folders_of_command(command, options.cwd),
    )


def _target_of_place(place: ServerPlace, options: argparse.Namespace) -> InspectTarget:
    # -P: a file in the current folder must not hide a module of the same name.
    run = (sys.executable, "-P", "-m", "accord.cli.main", "run", "--stdio", place.target)
    folders = () if options.no_reload else _folders_of(place)
    return InspectTarget(
        title=place.shown,
        shown=f"{place.shown}:{place.object}" if place.object else place.shown,
        command=run,
        env=_environment(options),
        cwd=options.cwd,
        folders=folders,
    )


def _folders_of(place: ServerPlace) -> tuple[Path, ...]:
    """Return the folders with the code of a server; none for an installed package."""
    if place.file is not None:
        packages = place.module.count(".")
        return (place.file.absolute().parents[max(0, packages - 1)],)
    from importlib.machinery import PathFinder

    top = place.module.partition(".")[0]
    spec = PathFinder.find_spec(top, [os.getcwd(), *sys.path])
    if spec is None:
        return ()
    found = spec.submodule_search_locations or (os.path.dirname(spec.origin or ""),)
    return _only_own([Path(each).absolute() for each in found if each])


def _folders_of_command(command: Sequence[str], cwd: str | None) -> tuple[Path, ...]:
    """Return the folder of the Python file that a command runs; none for an installed one."""
    for word in command[1:]:
        file = Path(cwd or "", word)
        if file.suffix == ".py" and file.is_file():
            return _only_own([file.absolute().parent])
    return ()


def _only_own(folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders that are not those of installed packages."""
    installed = ("site-packages", "dist-packages")
    return tuple(each for each in folders if not {*each.parts}.intersection(installed))


def _environment(options: argparse.Namespace) -> dict[str, str] | None:
    """Return the variables of a launched server; None inherits those of this shell."""
    return {**os.environ, **dict(options.env)} if options.env else None


def _name_command(command: Sequence[str]) -> str:
    """Return a short name of a command: its program, and what that runs."""
    program = os.path.basename(command[0])
    following = next((each for each in command[1:] if not each.startswith("-")), "")
    is_path = os.path.isabs(following)
    return f"{program} {os.path.basename(following) if is_path else following}".strip()


# -- entries of configurations


def target_of_entry(options: argparse.Namespace) -> InspectTarget:
    """Return the server of `--config` or `--host` that TARGET names.

    Raises:
        UsageError: there is no such server, or it asks for variables that are not set.
    """
    if options.config:
        named: NamedEntry | None = _find_in_file(options.config, options.target)
    else:
        named = _find_in_hosts(options.target, options.host)
    return _target_of_entry(named, options)


def _find_in_file(path: str, name: str) -> NamedEntry:
    from accord.client.configuration import folder_of
    from accord_tools.hosts.definition import HostsError
    from accord_tools.hosts.sources.configuration_file import read_file_entry

    file = Path(path).expanduser().absolute()
    try:
        entry = read_file_entry(file, name)
    except HostsError as error:
        # Here the name is a word of its own.
        said = str(error).replace(f"say which, as in {file}#", "say which after --config FILE, as ")
        raise UsageError(said) from None
    return NamedEntry(entry, str(folder_of(file)), str(path))


def _find_in_hosts(name: str, host: str) -> NamedEntry | None:
    """Return the entry of a name in the configurations of hosts.

    Raises:
        UsageError: hosts have different servers of that name, or the named host has none.
    """
    found = [each for each in _list_entries(host) if each.entry.name == name]
    if host and not found:
        names = dict.fromkeys(each.entry.name for each in _list_entries(host))
        hint = did_you_mean(name, names) or (f"; it has {', '.join(names)}" if names else "")
        raise UsageError(f"{host} has no server {name!r}{hint}")
    different = {_identity(each): each for each in reversed(found)}
    if len(different) > 1:
        places = "; ".join(each.place for each in reversed(different.values()))
        raise UsageError(
            f"several hosts have a server {name!r}, and not the same one: {places}; choose one "
            "with --host HOST, or --config FILE"
        )
    # An entry that its user has, too, is the user's own.
    return min(found, key=lambda each: each.is_foreign, default=None)


def _identity(named: NamedEntry) -> str:
    entry = named.entry
    return repr((entry.command, entry.url, entry.cwd, sorted(entry.env.items()), entry.headers))


def _list_entries(host: str) -> list[NamedEntry]:
    from accord.client.configuration import folder_of
    from accord_tools.hosts.definition import Machine
    from accord_tools.hosts.operations.listing import list_file
    from accord_tools.hosts.table import config_files, files_in_use, find_host, load_hosts

    known, machine = load_hosts(), Machine.current()
    if host:
        files = config_files(find_host(known, host), machine)
    else:
        files = files_in_use(known.values(), machine)
    found = []
    for file in files:
        folder = str(folder_of(file.path)) if file.scope == "project" else ""
        place = f"{file.host.name} ({file.path})"
        entries = [each.entry for each in list_file(file).entries]
        found += [
            NamedEntry(each, folder, place, file.is_shared) for each in entries if each is not None
        ]
    return found


def _suggest_entries(name: str) -> str:
    if not _NAME.fullmatch(name):
        return ""
    return did_you_mean(name, {each.entry.name for each in _list_entries("")})


def _target_of_entry(named: NamedEntry | None, options: argparse.Namespace) -> InspectTarget:
    from accord_tools.hosts.launching.environment import show_command

    assert named is not None
    entry = named.entry
    values = {**os.environ, **dict(options.env)}
    is_agreed = not named.is_foreign or _ask_to_try(named, options)
    # What others wrote must not choose what it gets of this shell.
    known = values if is_agreed else dict(options.env)
    remedy = "set it in this shell, or with --env NAME=VALUE"
    if not is_agreed:
        remedy = "others may have written this file; --env NAME=VALUE lets it have a value"
    fill = _PlaceholderReader(known, f"{entry.name} in {named.place}", remedy)
    if entry.url:
        url = fill.text(entry.url)
        headers = {name.lower(): fill.text(each) for name, each in entry.headers.items()}
        fill.demand_values()
        target = _target_of_url(url, options)
        return InspectTarget(
            title=entry.name,
            shown=target.shown,
            url=url,
            headers={**headers, **dict(options.header)},
            transport="sse" if entry.transport == "sse" else None,
            timeout=entry.timeout or _TIMEOUT,
        )
    command = tuple(fill.text(each) for each in entry.command)
    env = {name: fill.text(each) for name, each in entry.env.items()}
    cwd = options.cwd or fill.text(entry.cwd or "") or None
    fill.demand_values()
    if named.folder:
        cwd = os.path.normpath(os.path.join(named.folder, os.path.expanduser(cwd or "")))
    return InspectTarget(
        title=entry.name,
        # With placeholders, as the entry has them.
        shown=f"-- {show_command(entry.command)}",
        command=command,
        env={**values, **env, **dict(options.env)},
        cwd=cwd,
        timeout=entry.timeout or _TIMEOUT,
    )


def _ask_to_try(named: NamedEntry, options: argparse.Namespace) -> bool:
    """Ask whether an entry may be launched or contacted, with the variables that it names.

    Returns:
        Whether the user was asked, and thus saw these variables.

    Raises:
        UsageError: the user declined, or cannot be asked.
    """
    from accord.cli.terminal import escape_unprintable
    from accord_tools.hosts.launching.environment import describe_trial

    if options.yes:
        return False
    note(escape_unprintable(f"{named.entry.name} in {named.place}"))
    note(escape_unprintable(f"  {describe_trial(named.entry)}"))
    if not confirm("others may have written this file; go on? [y/N] "):
        raise UsageError(f"{named.entry.name} was not launched")
    return True


class _PlaceholderReader:
    """Fills in the placeholders of one entry, and notes those without a value."""

    def __init__(self, values: Mapping[str, str], place: str, remedy: str) -> None:
        self._values = values
        self._place = place
        self._remedy = remedy
        self._missing: dict[str, None] = {}

    def text(self, given: str) -> str:
        """Return a text of the entry with the values of this shell."""
        from accord_tools.hosts.entries.literals import variable_name
        from accord_tools.hosts.entries.placeholders import PLACEHOLDER

        def fill(found: re.Match[str]) -> str:
            name = found["env"] or variable_name(found["input"])
            default: str | None = found["default"]
            value = self._values.get(name, default)
            if value is None:
                self._missing[name] = None
            return value or ""

        return PLACEHOLDER.sub(fill, given)

    def demand_values(self) -> None:
        """Refuse an entry that asks for variables which are not set."""
        if self._missing:
            names = ", ".join(self._missing)
            raise UsageError(f"{self._place} asks for {names}: {self._remedy}")
