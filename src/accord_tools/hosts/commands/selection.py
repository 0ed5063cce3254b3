"""Which hosts and files a command is about."""

import argparse
import os
from typing import TYPE_CHECKING, Final

from accord.cli.options import UsageError, did_you_mean, one_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from accord_tools.hosts.checking.findings import FileReport
    from accord_tools.hosts.definition import ConfigFile, Host, Machine, Scope

HOST: Final = "--host HOST  a host, such as cursor, vscode or codex; may be repeated\n"
FILES: Final = f"""\
{HOST}\
--scope S     user: for all your projects, or project: files in this folder (default: both)
--file PATH   this file, in the form of the one --host, wherever it is
--hosts FILE  more hosts than accord knows, as a file of TOML
"""


def read_hosts(options: argparse.Namespace) -> "dict[str, Host]":
    """Return the hosts that accord knows, with those of `--hosts`."""
    from accord_tools.hosts.table import load_hosts

    return load_hosts(options.hosts)


def named_hosts(options: argparse.Namespace, hosts: "Mapping[str, Host]") -> "list[Host]":
    """Return the hosts of `--host`."""
    from accord_tools.hosts.table import find_host

    return list(
        {host.id: host for host in (find_host(hosts, each) for each in options.host)}.values()
    )


def scope_of(options: argparse.Namespace) -> "Scope | None":
    """Return the value of `--scope`; None if it is not given."""
    scopes: tuple[Scope, ...] = ("user", "project")
    return None if options.scope is None else one_of(options.scope, scopes, "scope")


def existing_files(
    options: argparse.Namespace, hosts: "Mapping[str, Host]", machine: "Machine"
) -> "list[ConfigFile]":
    """Return the files of hosts that exist, of both scopes unless the options say otherwise."""
    from accord_tools.hosts.table import config_files, files_in_use

    chosen = named_hosts(options, hosts)
    if options.file is not None:
        return [file_of(options, hosts, machine)]
    scope = scope_of(options)
    if not chosen:
        return files_in_use(hosts.values(), machine, scope)
    return [file for host in chosen for file in config_files(host, machine, scope)]


def file_of(
    options: argparse.Namespace, hosts: "Mapping[str, Host]", machine: "Machine"
) -> "ConfigFile":
    """Return the file of `--file`, which needs to be that of one host."""
    from accord_tools.hosts.table import file_at

    chosen = named_hosts(options, hosts)
    if len(chosen) != 1:
        raise UsageError("--file needs one --host, which says how the file is written")
    return file_at(chosen[0], options.file.expanduser().absolute(), machine)


def unique_files(files: "Iterable[ConfigFile]") -> "list[ConfigFile]":
    """Return files without those that another host reads, too, at the same key."""
    return list({_identity(file): file for file in reversed(list(files))}.values())[::-1]


def is_same_file(file: "ConfigFile", others: "Iterable[ConfigFile]") -> bool:
    """Return whether a file, links followed, is one of several."""
    return _identity(file) in map(_identity, others)


def _identity(file: "ConfigFile") -> tuple[str, tuple[str, ...]]:
    return os.path.realpath(file.path), file.key


def files_to_write(
    options: argparse.Namespace, hosts: "Mapping[str, Host]", machine: "Machine"
) -> "list[ConfigFile]":
    """Return the files that a server is to be added to."""
    from accord_tools.hosts.table import default_file, is_installed

    if options.file is not None:
        return [file_of(options, hosts, machine)]
    scope = scope_of(options) or "user"
    chosen = named_hosts(options, hosts)
    if chosen and options.all:
        raise UsageError("either --host or --all")
    found = chosen or [each for each in hosts.values() if is_installed(each, machine)]
    if not found:
        raise UsageError(
            f"no host was found in {machine.home}; say which with --host: {_list(hosts)}"
        )
    files = []
    for host in found:
        file = default_file(host, machine, scope)
        if file is not None:
            files.append(file)
        elif chosen:
            raise UsageError(_explain_no_file(host, scope))
    if not files:
        raise UsageError(
            f"none of {', '.join(each.name for each in found)} has a file of scope {scope}"
        )
    return files


def _explain_no_file(host: "Host", scope: str) -> str:
    if not host.user and not host.project:
        return f"{host.name} has no file to write: accord add --print {host.id} shows what to paste"
    other = "user" if scope == "project" else "project"
    return f"{host.name} has no file of scope {scope} on this system; try --scope {other}"


def _list(names: "Iterable[str]") -> str:
    return ", ".join(sorted(names))


def demand_names(names: "Sequence[str]", files: "Sequence[FileReport]") -> None:
    """Refuse a name that no file has."""
    known = {name for report in files for name in report.entries}
    known |= {each.entry for report in files for each in report.findings if each.entry}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"; there are {', '.join(sorted(known))}"
            raise UsageError(f"no host has a server {name!r}{hint if known else ''}")
