"""The servers that `accord inspect` is about: from the command line, or from a configuration."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from accord.cli.connection import connect_spec
from accord.cli.options import UsageError, did_you_mean, one_of
from accord.cli.target import RUN_WORDS, ServerPlace, locate, names_file
from accord.client.server_spec import ServerSpec

_URL: Final = re.compile(r"https?://", re.IGNORECASE)
# A name as hosts have them; neither a file, nor module:object, nor a path.
_NAME: Final = re.compile(r"[\w.@ -]+")
_TRANSPORTS: Final = ("http", "sse")


def read_targets(options: argparse.Namespace) -> list[ServerSpec]:
    """Return the servers that the command line names.

    Raises:
        UsageError: one of them cannot be found.
    """
    words = options.words or ([""] if options.config else [])
    found = [_read_target(each, options) for each in words]
    if options.command:
        found.append(_target_of_command(options.command, options))
    return [_complete(each, options) for each in found]


def _complete(target: ServerSpec, options: argparse.Namespace) -> ServerSpec:
    """Return a target with the options that hold for all."""
    target = connect_spec(options, target)
    if not target.url:
        return replace(target, auth=None)
    if options.transport is not None:
        return replace(target, transport=one_of(options.transport, _TRANSPORTS, "transport"))
    return target


def _read_target(given: str, options: argparse.Namespace) -> ServerSpec:
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


def _target_of_url(url: str, options: argparse.Namespace) -> ServerSpec:
    from accord.secrets.filter import display_target

    shown = display_target(url)
    try:
        _ = urlsplit(url).port  # what reads the parts of a wrong URL fails here
    except ValueError as error:
        raise UsageError(f"{shown} is not a URL: {error}") from None
    return ServerSpec(
        name=shown.partition("://")[2] or shown,
        shown=shown,
        url=url,
        headers=dict(options.header),
    )


def _target_of_command(command: Sequence[str], options: argparse.Namespace) -> ServerSpec:
    from accord_tools.hosts.launching.environment import show_command

    return ServerSpec(
        name=_name_command(command),
        shown=f"-- {show_command(command)}",
        command=tuple(command),
        env=dict(options.env),
        cwd=options.cwd,
    )


def _target_of_place(place: ServerPlace, options: argparse.Namespace) -> ServerSpec:
    return ServerSpec(
        name=place.shown,
        shown=f"{place.shown}:{place.object}" if place.object else place.shown,
        command=(sys.executable, *RUN_WORDS, place.target),
        env=dict(options.env),
        cwd=options.cwd,
    )


def _name_command(command: Sequence[str]) -> str:
    """Return a short name of a command: its program, and what that runs."""
    program = os.path.basename(command[0])
    following = next((each for each in command[1:] if not each.startswith("-")), "")
    is_path = os.path.isabs(following)
    return f"{program} {os.path.basename(following) if is_path else following}".strip()


# -- servers that others describe


def _target_of_spec(spec: ServerSpec, options: argparse.Namespace) -> ServerSpec:
    from accord_tools.targets.reading import make_ready

    spec = make_ready(spec, options)
    return replace(spec, shown=_target_of_url(spec.url, options).shown) if spec.url else spec


def _find_by_name(given: str) -> "ServerSpec | None":
    """Return the server of any host that has this name; None if it cannot be one."""
    from accord_tools.targets.reading import find_in_hosts

    return find_in_hosts(given) if _NAME.fullmatch(given) else None


def _suggest_entries(name: str) -> str:
    from accord_tools.targets.reading import list_servers

    known = {each.name for each in list_servers()} if _NAME.fullmatch(name) else ()
    return did_you_mean(name, known)
