"""Entries made ready to launch: placeholders filled in, programs found, secrets known."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from json import dumps
from pathlib import Path
from shlex import join
from typing import Any, ClassVar, Final, NamedTuple

from msgspec.structs import replace

from accord.client.configuration import URL_MEMBERS, EntryReader
from accord.client.server_spec import HttpForm, ServerSpec
from accord.errors import ConfigurationError
from accord.secrets.filter import SecretFilter, display_target, find_given
from accord.secrets.recognition import names_secret
from accord_tools.fleet.definition import Fleet, FleetError, FleetServer
from accord_tools.hosts.entries.literals import find_literals
from accord_tools.hosts.sources.entry_forms import normalize_entry

# Shorter literals are words.
_LITERAL_LENGTH: Final = 8
_LONGEST_LINE: Final = 64 * 1024
_PLAIN: Final = re.compile(r"[a-z]+|[+-]?[\d._,]+|(?i:true|false|yes|no|on|off|null|none)")
_PATH_START: Final = re.compile(r"/|~/|\.{1,2}[/\\]|[A-Za-z]:[\\/]|\\\\")
_HTTP_TYPES: Final = frozenset({"http", "streamable-http", "streamableHttp", "streamable_http"})


class FleetEntryReader(EntryReader):
    """Reads an entry of a fleet; collects what is missing instead of stopping at the first.

    Args:
        where: what messages call the entry.
        folder: what relative paths are relative to.
        environ: the variables.
        fleet_folder: what `${fleet}` stands for.

    Attributes:
        filled_in: the values that placeholders stood for.
        missing: variables that are not set, and files that cannot be read.
    """

    KINDS: ClassVar[Mapping[str, str]] = {
        "env": "${env:NAME}",
        "file": "${file:PATH}",
        "input": "${input:NAME}",
    }

    def __init__(
        self, where: str, folder: Path, environ: Mapping[str, str], fleet_folder: Path
    ) -> None:
        super().__init__(where, folder, {}, has_folder=True)
        self._base = folder
        self._environ = environ
        self._fleet_folder = fleet_folder
        self.filled_in: list[str] = []
        self.missing: list[str] = []

    def find_place(self, name: str) -> str | None:
        """Return the folder that a placeholder names; `${fleet}` is that of the fleet file."""
        return str(self._fleet_folder) if name == "fleet" else super().find_place(name)

    def find_value(self, kind: str | None, name: str) -> str | None:
        """Return the value of a variable, or the first line of a file.

        An empty variable is one that is not set: services that run builds leave it so.
        """
        if kind == "input":
            return None
        value = self._first_line(name) if kind == "file" else self._environ.get(name)
        if value:
            self.filled_in.append(value)
        return value or None

    def _first_line(self, name: str) -> str | None:
        try:
            path = self._base / Path(name).expanduser()
            if not path.is_file():
                return None  # a pipe or a device may never end
            with path.open(encoding="utf-8-sig") as file:
                return file.readline(_LONGEST_LINE).strip()
        except (OSError, UnicodeDecodeError, ValueError):
            return None

    def replace_missing(self, member: str, kind: str | None, name: str) -> str:
        """Note what is missing, and go on."""
        said = {
            "file": f"the file {name}, or a first line in it",
            "input": f"${{input:{name}}}, which only a host can ask for: write ${{env:NAME}}",
        }
        self._miss(said.get(kind or "", name))
        return ""

    def read_env_file(self, path: Path) -> dict[str, str]:
        """Return the variables of a file; none if it cannot be read, which is noted."""
        try:
            return super().read_env_file(path)
        except ConfigurationError:
            self._miss(f"the file {path}, which envFile names")
            return {}

    def _miss(self, what: str) -> None:
        if what not in self.missing:
            self.missing.append(what)


def resolve_server(
    server: FleetServer, fleet: Fleet, environ: Mapping[str, str] | None = None
) -> ServerSpec:
    """Fill in the placeholders of a server's entry, and find its program.

    Args:
        server: the server.
        fleet: whose folder relative paths are relative to.
        environ: the variables; None takes those of this process.

    Returns:
        how to reach it, never shown or stored as it is; `missing` names everything that it lacks,
        and `secrets` has the longest first.

    Raises:
        FleetError: the entry is wrong.
    """
    environ = os.environ if environ is None else environ
    entry = normalize_entry(server.entry)
    folder = (server.folder or fleet.folder).absolute()
    where = f"server {server.name!r}"
    reader = FleetEntryReader(where, folder, environ, fleet.folder.absolute())
    try:
        read = _read_entry(reader, server.name, entry)
    except ConfigurationError as error:
        raise FleetError(f"{fleet.path}: {error}") from None
    is_set = {**environ, **read.env}
    missing = [*reader.missing]
    missing += [each for each in server.needs if not is_set.get(each) and each not in missing]
    not_found: list[str] = []
    command = read.command
    if command:
        found = _find_launched(command[0], is_set.get("PATH"), read.cwd or str(folder))
        command, not_found = (found[0], *command[1:]), found[1]
    headers, auth = _split_auth(read)
    literals = [each.value for each in find_literals(server.name, entry)]
    secrets = _secrets_of(
        [*reader.filled_in, *literals, *_auth_values(read.auth)],
        env=read.env,
        headers=headers,
        url=read.url,
        environ=environ,
        folder=folder,
    )
    return replace(
        read,
        command=command,
        transport=None if command else _transport_of(entry),
        headers=headers,
        auth=auth,
        secrets=secrets,
        shown=_show(entry, SecretFilter(secrets)),
        missing=tuple(missing),
        not_found=tuple(not_found),
    )


def check_entry(name: str, entry: Mapping[str, Any], folder: Path) -> None:
    """Check the members of an entry, whatever the values of its variables.

    Raises:
        ConfigurationError: a member is missing or wrong.
    """
    reader = FleetEntryReader(f"server {name!r}", folder.absolute(), {}, folder.absolute())
    _read_entry(reader, name, normalize_entry(entry))


def _read_entry(reader: FleetEntryReader, name: str, entry: Mapping[str, Any]) -> ServerSpec:
    """Return how an entry is reached; without a command and a URL if a variable is missing."""
    try:
        return reader.read(name, entry)
    except ConfigurationError:
        # Without a value for its placeholder a URL is wrong, and that is not the mistake.
        if not reader.missing:
            raise
        return ServerSpec(name=name)


def _find_launched(program: str, path: str | None, cwd: str) -> tuple[str, list[str]]:
    """Return the program to launch, and what is missing for that."""
    found, why = find_program(program, path, cwd)
    missing = [] if os.path.isdir(cwd) else [f"the folder {cwd}, in which it should run"]
    return found, [*missing, *([why] if why else [])]


def find_program(program: str, path: str | None, cwd: str) -> tuple[str, str]:
    """Return a program as an absolute path, and why it cannot be run, if it cannot.

    Args:
        program: its name, or a path relative to `cwd`.
        path: the folders to look in for a name; None is the usual ones.
        cwd: the folder it runs in.
    """
    if not program:
        return program, "a program to launch"
    if os.path.dirname(program):
        full = os.path.abspath(os.path.join(cwd, program))
        if shutil.which(full) is not None:
            return full, ""
        said = "is not executable" if os.path.isfile(full) else "does not exist"
        return full, f"the program {full}, which {said}"
    found = shutil.which(program, path=path)
    if found is None:
        first, *rest = program.split() or [""]
        if rest and shutil.which(first, path=path) is not None:
            return program, f"args: write command = {dumps(first)} and args = {dumps(rest)}"
        return program, f"the program {program}, which is not on the PATH"
    return os.path.abspath(os.path.join(cwd, found)), ""


def _transport_of(entry: Mapping[str, Any]) -> HttpForm | None:
    kind = entry.get("type") or entry.get("transport")
    return "sse" if kind == "sse" else "http" if kind in _HTTP_TYPES else None


def _split_auth(read: ServerSpec) -> tuple[dict[str, str], str | None]:
    """Return the headers, with a token of `auth`, and whether a user has to sign in."""
    headers = dict(read.headers)
    if read.auth == "oauth":
        return headers, "oauth"
    for token in _auth_values(read.auth):
        headers.setdefault("Authorization", f"Bearer {token}")
    return headers, None


def _auth_values(auth: object) -> list[str]:
    if not isinstance(auth, str) or auth == "oauth" or not auth.strip():
        return []
    scheme, _, rest = auth.strip().partition(" ")
    return [rest.strip() if scheme.lower() == "bearer" else auth.strip()]


# -- secrets


def _secrets_of(
    given: Iterable[str],
    *,
    env: Mapping[str, str],
    headers: Mapping[str, str],
    url: str,
    environ: Mapping[str, str],
    folder: Path,
) -> tuple[str, ...]:
    """Return what must not appear in any output, the longest first."""
    named = [value for name, value in environ.items() if names_secret(name)]
    named += [value for name, value in env.items() if names_secret(name) or _is_uncommon(value)]
    found = find_given([*given, *named], headers=headers, env=env, url=url)
    return tuple(each for each in found if not _is_path(each, folder))


def _is_uncommon(value: str) -> bool:
    """Return whether a literal of an environment may be a secret although nothing says so."""
    if len(value) < _LITERAL_LENGTH or _PLAIN.fullmatch(value):
        return False
    is_url = re.match(r"[a-z][a-z0-9+.-]*://", value, re.IGNORECASE) is not None
    return not is_url or bool(find_given(url=value))


def _is_path(text: str, folder: Path) -> bool:
    """Return whether a text is a path that could exist; a key may begin like one."""
    first = text.partition(os.pathsep)[0] if _PATH_START.match(text) else ""
    if not first or "\n" in text or "\0" in text:
        return False
    path = folder / os.path.expanduser(first)
    try:
        return path.exists() or (path.parent.is_dir() and path.parent != path.parent.parent)
    except (OSError, ValueError):
        return False


# -- for people


def show_entry(entry: Mapping[str, Any]) -> str:
    """Return the command or URL of an entry, with placeholders and without secrets."""
    usual = normalize_entry(entry)
    hidden = [each.value for each in find_literals("", usual)]
    return _show(usual, SecretFilter(hidden))


def _show(entry: Mapping[str, Any], filter: SecretFilter) -> str:
    """Return the command or URL as the file has it: placeholders say more than masks."""
    url = next((entry[each] for each in URL_MEMBERS if isinstance(entry.get(each), str)), None)
    if url is not None:
        return filter.hide(display_target(url))
    command: Any = entry.get("command")
    if isinstance(command, Mapping):
        entry = {**entry, **command}
        command = command.get("path")
    words = [*(command if isinstance(command, list) else [command]), *(entry.get("args") or [])]
    return filter.hide(join(str(each) for each in words if each is not None))


# -- what an entry asks for: variables, files, and what leaves this machine with them

_PLACEHOLDER: Final = re.compile(r"\$\{(?:(env|file):(?!-))?([^${}]*?)(?::-[^${}]*)?\}")
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*")
# They stand for folders, and are written in the same way.
_PLACES: Final = (
    "fleet",
    "userHome",
    "workspaceFolder",
    "workspaceFolderBasename",
    "pathSeparator",
)


class _Placeholder(NamedTuple):
    text: str
    kind: str
    name: str


def _find_placeholders(value: object) -> Iterator[_Placeholder]:
    if isinstance(value, str):
        for found in _PLACEHOLDER.finditer(value):
            kind = found[1] or "env"
            if kind == "file" or (_VARIABLE.fullmatch(found[2]) and found[2] not in _PLACES):
                yield _Placeholder(found[0], kind, found[2])
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _find_placeholders(each)
    elif isinstance(value, list):
        for each in value:
            yield from _find_placeholders(each)


def _names_of(server: FleetServer) -> set[str]:
    """Return the variables that a server is meant to see: it sets, uses or needs them."""
    usual = _usual_members(server.entry)
    named = {each.name for each in _find_placeholders(usual) if each.kind == "env"}
    return named | set(_keys(usual, "env", "environment")) | set(server.needs)


def withheld_variables(server: FleetServer, servers: tuple[FleetServer, ...]) -> tuple[str, ...]:
    """Return the secrets of other servers: variables that only their entries name.

    All else that this process sees, a launched server sees as well, as it would in a shell.
    """
    others = {name for each in servers for name in _names_of(each) if names_secret(name)}
    return tuple(sorted(others - _names_of(server)))


def describe_launch(server: FleetServer) -> str:
    """Return what is launched or contacted, and what it gets, for the user to look at."""
    shown = show_entry(server.entry)
    usual = _usual_members(server.entry)
    is_url = any(isinstance(usual.get(each), str) for each in URL_MEMBERS)
    used = [
        each.text
        for each in _find_placeholders(usual)
        # A program sees all variables anyway, and a URL sends what stands in its entry.
        if (is_url or each.kind == "file") and each.text not in shown
    ]
    details = {
        "sets": _keys(usual, "env", "environment"),
        "sets what stands in": [str(usual["envFile"])] if usual.get("envFile") else [],
        "in": [str(usual["cwd"])] if usual.get("cwd") else [],
        "sends": _keys(usual, "headers"),
        "fills in": list(dict.fromkeys(used)),
        "may call": list(server.tools),
        "runs": [each.name for each in server.cases],
    }
    said = [f"{word} {', '.join(listed)}" for word, listed in details.items() if listed]
    if server.allow_writes:
        said.append("may call tools that change something")
    return f"{shown}  ({'; '.join(said)})" if said else shown


def _usual_members(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    usual = normalize_entry(entry)
    command: Any = usual.get("command")
    return {**usual, **command, "command": command.get("path")} if _is_table(command) else usual


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _keys(members: Mapping[str, Any], *names: str) -> list[str]:
    return sorted(
        {str(key) for name in names if _is_table(members.get(name)) for key in members[name]}
    )
