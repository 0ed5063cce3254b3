"""The servers that `accord inspect` is about: from the command line, or from a configuration."""

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from accord.cli.connection import auth_of
from accord.cli.options import UsageError, did_you_mean, known_revision, one_of
from accord.cli.target import ServerPlace, locate, names_file
from accord_tools.inspector.definition import InspectTarget

if TYPE_CHECKING:
    from accord.client.server_spec import ServerSpec

_URL: Final = re.compile(r"https?://", re.IGNORECASE)
# A name as hosts have them; neither a file, nor module:object, nor a path.
_NAME: Final = re.compile(r"[\w.@ -]+")
_TRANSPORTS: Final = ("http", "sse")
_TIMEOUT: Final = 60.0


def read_targets(options: argparse.Namespace) -> list[InspectTarget]:
    """Return the servers that the command line names.

    Raises:
        UsageError: one of them cannot be found.
    """
    if options.cwd is not None and not os.path.isdir(options.cwd):
        raise UsageError(f"--cwd: there is no folder {options.cwd}")
    common = _read_common(options)
    words = options.words or ([""] if options.config else [])
    found = [_read_target(each, options) for each in words]
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
    if options.config or options.host or names_file(given):
        from accord_tools.targets.reading import find

        return _target_of_spec(find(options, given), options)
    if _URL.match(given):
        return _target_of_url(given, options)
    try:
        place = locate(given)
    except UsageError as error:
        entry = _find_by_name(given)
        if entry is None:
            raise UsageError(f"{error}{_suggest_entries(given)}") from None
        return _target_of_spec(entry, options)
    is_name = place.file is None and not place.object
    if is_name and (entry := _find_by_name(given)) is not None:
        if given not in sys.stdlib_module_names:
            raise UsageError(
                f"{given} is a module, and a server of {entry.source}; write {given}:OBJECT for "
                "the module, or name the host with --host"
            )
        return _target_of_spec(entry, options)
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


# -- servers that others describe


def _target_of_spec(spec: "ServerSpec", options: argparse.Namespace) -> InspectTarget:
    from accord_tools.targets.reading import make_ready

    spec = make_ready(spec, options)
    if spec.url:
        shown = _target_of_url(spec.url, options).shown
        return InspectTarget(
            title=spec.name,
            shown=shown,
            url=spec.url,
            headers=spec.headers,
            transport=spec.transport,
            timeout=spec.timeout or _TIMEOUT,
        )
    return InspectTarget(
        title=spec.name,
        shown=spec.shown,
        command=spec.command,
        env=spec.environment,
        cwd=spec.cwd,
        timeout=spec.timeout or _TIMEOUT,
    )


def _find_by_name(given: str) -> "ServerSpec | None":
    """Return the server of any host that has this name; None if it cannot be one."""
    from accord_tools.targets.reading import find_in_hosts

    return find_in_hosts(given) if _NAME.fullmatch(given) else None


def _suggest_entries(name: str) -> str:
    from accord_tools.targets.reading import list_servers

    known = {each.name for each in list_servers()} if _NAME.fullmatch(name) else ()
    return did_you_mean(name, known)
