"""Servers that others describe: read, agreed to by the user, and made ready to launch.

A TARGET that is neither a URL, nor Python, nor a command: an entry of a host or of a file, a
`server.json`, a bundle, an Agent Plugin, a package, an entry of a fleet.
"""

import argparse
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from accord.cli.options import UsageError, did_you_mean
from accord.cli.target import host_of
from accord.cli.terminal import confirm, escape_unprintable, note
from accord.client.configuration import folder_of
from accord.client.server_spec import ServerSpec
from accord_tools.hosts.definition import HostsError, Machine
from accord_tools.hosts.entries.literals import variable_name
from accord_tools.hosts.entries.placeholders import PLACEHOLDER
from accord_tools.hosts.launching.environment import describe_trial, show_command

_PACKAGE: Final = re.compile(r"(?:npm|pypi):|@")
_FLEET_FILES: Final = (".toml", ".json", ".yaml", ".yml")
_BUNDLES: Final = (".mcpb", ".dxt")


def read(options: argparse.Namespace, text: str, *, keeps_placeholders: bool = False) -> ServerSpec:
    """Return the server that a TARGET names, or an entry of `--config` or `--host`.

    Args:
        options: with `config`, `host`, `yes`, `env`, `header` and `cwd`.
        text: TARGET.
        keeps_placeholders: whether nothing is filled in, so that values may be missing. The user is
            asked all the same, unless the command launches nothing (`options.launches`).

    Raises:
        UsageError: there is no such server, it asks for variables that are not set, or the user
            does not agree to launch what others wrote.
    """
    spec = find(options, text, keeps_placeholders=keeps_placeholders)
    if not keeps_placeholders:
        return make_ready(spec, options)
    if spec.is_foreign and options.launches:
        _ask(spec, describe_trial(spec), options)
    _unpack(spec)
    return replace(
        spec,
        env={**spec.env, **dict(options.env)},
        headers={**spec.headers, **dict(options.header)},
        cwd=options.cwd or spec.cwd,
    )


# -- finding


def find(options: argparse.Namespace, text: str, *, keeps_placeholders: bool = False) -> ServerSpec:
    """Return the server that a TARGET names as it was read, with placeholders.

    One of a fleet has them filled in, unless they are to be kept.

    Raises:
        UsageError: there is no such server.
    """
    path, _, name = text.partition("#")
    if options.config:
        return find_in_file(options.config, text)
    if host := host_of(options):
        return demand_in_hosts(text, host)
    if not keeps_placeholders and _is_fleet(Path(path)):
        return _find_in_fleet(Path(path), name, options)
    if Path(path).is_file() and Path(path).suffix.lower() not in _BUNDLES:
        # A file that is the whole target may be anything that was downloaded.
        return replace(find_in_file(path, name, separator="#"), is_foreign=True)
    return _find_elsewhere(text, options)


def find_in_file(file: str, name: str, *, separator: str = "") -> ServerSpec:
    """Return the server of a configuration or a `server.json`, by its name in it.

    Args:
        file: its path.
        name: of the server; may be empty if the file has one only.
        separator: what stands between the two where they are one word.
    """
    from accord_tools.hosts.sources.configuration_file import read_file_entry

    path = Path(file).expanduser().absolute()
    try:
        entry = read_file_entry(path, name)
    except HostsError as error:
        said = str(error)
        if not separator:  # the name is a word of its own
            said = said.replace(f"say which, as in {path}#", "say which after --config FILE, as ")
        raise UsageError(said) from None
    return replace(entry, folder=str(folder_of(path)), source=file)


def demand_in_hosts(name: str, host: str) -> ServerSpec:
    """Return the server of a name in the configuration of a host.

    Raises:
        UsageError: it has none, or several that differ.
    """
    found = find_in_hosts(name, host)
    if found is None:
        names = dict.fromkeys(each.name for each in list_servers(host))
        hint = did_you_mean(name, names) or (f"; it has {', '.join(names)}" if names else "")
        raise UsageError(f"{host} has no server {name!r}{hint}")
    return found


def find_in_hosts(name: str, host: str = "") -> ServerSpec | None:
    """Return the server of a name in the configurations of a host, or of all; None without one.

    Raises:
        UsageError: hosts have different servers of that name.
    """
    found = [each for each in list_servers(host) if each.name == name]
    different = {_identity(each): each for each in reversed(found)}
    if len(different) > 1:
        places = "; ".join(each.source for each in reversed(different.values()))
        raise UsageError(
            f"several hosts have a server {name!r}, and not the same one: {places}; choose one "
            "with --host HOST, or --config FILE"
        )
    # An entry that its user has, too, is the user's own.
    return min(found, key=lambda each: each.is_foreign, default=None)


def _identity(entry: ServerSpec) -> str:
    return repr((entry.command, entry.url, entry.cwd, sorted(entry.env.items()), entry.headers))


def list_servers(host: str = "") -> list[ServerSpec]:
    """Return the servers in the configurations of a host, or of all that are used here."""
    from accord_tools.hosts.operations.listing import list_file
    from accord_tools.hosts.table import config_files, files_in_use, find_host, load_hosts

    known, machine = load_hosts(), Machine.current()
    if host:
        files = config_files(find_host(known, host), machine)
    else:
        files = files_in_use(known.values(), machine)
    return [
        replace(
            each.entry,
            folder=str(folder_of(file.path)) if file.scope == "project" else "",
            source=f"{file.host.name} ({file.path})",
            is_foreign=file.is_shared,
        )
        for file in files
        for each in list_file(file).entries
        if each.entry is not None
    ]


def _find_elsewhere(text: str, options: argparse.Namespace) -> ServerSpec:
    """Return the server of a bundle, an Agent Plugin or a package."""
    from accord_tools.hosts.targets import TargetReader, read_target

    reader = TargetReader(machine=Machine.current(), values=dict(options.env))
    return replace(read_target(text, (), reader), source=text)


def _is_fleet(path: Path) -> bool:
    if path.suffix.lower() not in _FLEET_FILES or not path.is_file():
        return False
    from accord_tools.fleet.definition import FleetError
    from accord_tools.fleet.file.document import read_document
    from accord_tools.fleet.file.reader import is_fleet_file

    try:
        return is_fleet_file(read_document(path))
    except FleetError:
        return False


def _find_in_fleet(path: Path, name: str, options: argparse.Namespace) -> ServerSpec:
    from accord_tools.fleet.file.entries import describe_launch, resolve_server
    from accord_tools.fleet.file.reader import read_fleet
    from accord_tools.fleet.file.trust import TrustStore

    fleet = read_fleet(path)
    servers = {each.name: each for each in fleet.servers}
    if not name and len(servers) > 1:
        names = ", ".join(servers)
        first = next(iter(servers))
        raise UsageError(f"{path} has several servers; say which, as in {path}#{first}: {names}")
    if name and name not in servers:
        hint = did_you_mean(name, servers) or f"; it has {', '.join(servers)}"
        raise UsageError(f"{path} has no server {name!r}{hint}")
    server = servers[name] if name else fleet.servers[0]
    spec = ServerSpec(name=server.name, source=str(path))
    is_agreed = TrustStore().is_trusted(fleet) or _ask(spec, describe_launch(server), options)
    known = {**(os.environ if is_agreed else {}), **dict(options.env)}
    resolved = replace(resolve_server(server, fleet, known), source=str(path))
    _demand_values(resolved, resolved.missing, is_agreed=is_agreed)
    if resolved.not_found:
        raise UsageError(f"{server.name} in {path} needs {', '.join(resolved.not_found)}")
    return resolved


# -- making ready


def make_ready(spec: ServerSpec, options: argparse.Namespace) -> ServerSpec:
    """Return a server with its placeholders filled in and its bundle unpacked.

    Raises:
        UsageError: it asks for variables that are not set, or the user does not agree.
    """
    given = dict(options.env)
    # What others wrote must not choose what it gets of this shell.
    is_agreed = not spec.is_foreign or _ask(spec, describe_trial(spec), options)
    fill = _Filler({**os.environ, **given} if is_agreed else given)
    cwd = os.path.abspath(options.cwd) if options.cwd else fill(spec.cwd or "")
    if spec.folder and spec.command:
        cwd = os.path.normpath(os.path.join(spec.folder, os.path.expanduser(cwd)))
    ready = replace(
        spec,
        command=tuple(map(fill, spec.command)),
        url=fill(spec.url),
        env={**{name: fill(each) for name, each in spec.env.items()}, **given},
        cwd=cwd or None,
        headers={
            **{name.lower(): fill(each) for name, each in spec.headers.items()},
            **dict(options.header),
        },
        transport="sse" if spec.transport == "sse" else None,
        # With placeholders, as it was read.
        shown=spec.shown or (f"-- {show_command(spec.command)}" if spec.command else ""),
    )
    _demand_values(spec, fill.missing, is_agreed=is_agreed)
    _unpack(spec)
    return ready


def _unpack(spec: ServerSpec) -> None:
    if spec.bundle is not None:
        from accord_tools.hosts.bundles.archive import unpack_bundle
        from accord_tools.hosts.bundles.entry import bundle_folder

        unpack_bundle(spec.bundle, bundle_folder(spec.bundle))


def _demand_values(spec: ServerSpec, missing: Iterable[str], *, is_agreed: bool) -> None:
    """Refuse a server that asks for variables which are not set."""
    remedy = "set it in this shell, or with --env NAME=VALUE"
    if not is_agreed:
        remedy = f"{_suspect(spec)}; --env NAME=VALUE lets it have a value"
    if names := ", ".join(missing):
        raise UsageError(f"{spec.name} in {spec.source} asks for {names}: {remedy}")


def _suspect(spec: ServerSpec) -> str:
    what = "package" if _PACKAGE.match(spec.source) else "file"
    return f"others may have written this {what}"


def _ask(spec: ServerSpec, trial: str, options: argparse.Namespace) -> bool:
    """Ask whether a server may be launched or contacted, with the variables that it names.

    Returns:
        Whether the user was asked, and thus saw these variables.

    Raises:
        UsageError: the user declined, or cannot be asked.
    """
    if options.yes:
        return False
    note(escape_unprintable(f"{spec.name} in {spec.source}"))
    note(escape_unprintable(f"  {trial}"))
    if not confirm(f"{_suspect(spec)}; go on? [y/N] "):
        raise UsageError(f"{spec.name} was not launched")
    return True


class _Filler:
    """Fills in placeholders with values, and notes those without one."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.missing: dict[str, None] = {}

    def __call__(self, text: str) -> str:
        return PLACEHOLDER.sub(self._fill, text)

    def _fill(self, found: re.Match[str]) -> str:
        name = found["env"] or variable_name(found["input"])
        value: str | None = self._values.get(name, found["default"])
        if value is None:
            self.missing[name] = None
        return value or ""
