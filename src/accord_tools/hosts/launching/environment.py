"""What a server finds that a host launches: variables, PATH and folder, with placeholders filled.

A host that is started from a menu has neither the PATH nor the variables of a terminal.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import join
from typing import Final

import msgspec

from accord.client.server_spec import ServerSpec
from accord_tools.hosts.definition import EntryShape, Host, Machine
from accord_tools.hosts.entries.literals import variable_name

# What launchd gives to an application, and what a session of Linux begins with.
_DESKTOP_PATH: Final = {
    "macos": "/usr/bin:/bin:/usr/sbin:/sbin",
    "linux": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
# Patterns of variables that a session has before any profile of a shell is read.
_SESSION: Final = (
    *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ"),
    *("TMPDIR", "TEMP", "TMP", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_*", "DBUS_*"),
    *("SSH_AUTH_SOCK", "DESKTOP_SESSION", "__CF*", "COMMAND_MODE"),
)
# Folders of these are in the PATH of a terminal only while an environment is active.
_ACTIVE: Final = ("VIRTUAL_ENV", "CONDA_PREFIX")
REFERENCE: Final = re.compile(r"\$\{(env|input):([^{}:]+)(?::-([^{}]*))?\}")
"""A variable or an input that an entry names, and its default."""
INPUT_PREFIX: Final = "ACCORD_INPUT_"


class LaunchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a host launches or reaches the server of one entry.

    Attributes:
        env: all variables that the server sees.
        cwd: the folder it runs in.
        path: the PATH in which its program is looked for.
        notes: what the host does that its user may not expect, sentences.
        command: program and arguments, with placeholders filled in.
        url: likewise.
        headers: likewise.
        missing: variables that placeholders name, and that are set nowhere.
        of_shell: those that this terminal has, but the host has not; their values are used.
        asked: inputs that the host asks its user for, so that no value is known here.
        ignored: variables of the entry that the host leaves out.
        secrets: texts that came from placeholders; never shown.
    """

    env: dict[str, str]
    cwd: Path
    path: str
    notes: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    url: str = ""
    headers: Mapping[str, str] = {}
    missing: tuple[str, ...] = ()
    of_shell: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<LaunchSettings in {self.cwd}: {', '.join(sorted(self.env))}>"


def input_variable(name: str) -> str:
    """Return the variable that gives a check the value of an input.

    >>> input_variable("api-key")
    'ACCORD_INPUT_API_KEY'
    """
    return INPUT_PREFIX + re.sub(r"\W", "_", name).upper()


def host_environment(host: Host, machine: Machine, entry: ServerSpec) -> LaunchSettings:
    """Return exactly what a server gets that this host launches.

    Args:
        host: it decides what is passed on.
        machine: its variables are those of the terminal.
        entry: with placeholders in the form `${env:NAME}` and `${input:NAME}`.
    """
    own = host_variables(host, machine)
    fill = _Placeholders(host, machine, own)
    env = {name: value for name, value in own.items() if _passes_on(host, name)}
    ignored = [name for name in entry.env if _matches(name, host.launch.ignores)]
    given = {name: fill.text("env", each) for name, each in entry.env.items()}
    for name in ignored:
        del given[name]
    if takes_names(host):
        # The host passes on what it has, and nothing in place of what it has not.
        given = {name: each for name, each in given.items() if name not in fill.missing or each}
    if machine.system == "windows":  # names of variables are alike there in any case
        known = {name.upper(): name for name in env}
        given = {known.get(name.upper(), name): each for name, each in given.items()}
    env |= given
    command = tuple(fill.text("command", each) for each in entry.command)
    url = fill.text("url", entry.url)
    headers = {name: fill.text("headers", each) for name, each in entry.headers.items()}
    notes = [f"{host.name} asks its user for {name}" for name in fill.inputs]
    if host.launch.path == "desktop" and machine.system != "windows":
        notes.append(f"{host.name} has the PATH of a desktop: {own['PATH']}")
    return LaunchSettings(
        env=env,
        cwd=_folder(host, machine, fill.text("cwd", entry.cwd or "")),
        path=variable(env, "PATH"),
        notes=tuple(notes),
        command=command,
        url=url,
        headers=headers,
        missing=tuple(fill.missing),
        of_shell=tuple(fill.of_shell),
        asked=tuple(fill.asked),
        ignored=tuple(ignored),
        secrets=tuple(fill.secrets),
    )


def host_variables(host: Host, machine: Machine) -> dict[str, str]:
    """Return the variables that the host itself has."""
    environ = machine.environ
    if host.launch.path == "shell":
        return dict(environ)
    if machine.system == "windows":
        # A desktop of Windows has the variables of its user, as a terminal has.
        name = next((each for each in environ if each.upper() == "PATH"), "PATH")
        return {**environ, name: _without_active(environ.get(name, ""), environ)}
    kept = {name: each for name, each in environ.items() if _matches(name, _SESSION)}
    return {**kept, "HOME": str(machine.home), "PATH": _DESKTOP_PATH[machine.system]}


def variable(env: Mapping[str, str], name: str) -> str:
    """Return the value of a variable whose name may be written in any case; empty without it."""
    found = env.get(name)
    if found is None:
        found = next((each for given, each in env.items() if given.upper() == name.upper()), "")
    return found


def _without_active(path: str, environ: Mapping[str, str]) -> str:
    active = [folder.rstrip("\\/").lower() for name in _ACTIVE if (folder := environ.get(name))]
    parts = path.split(";")
    return ";".join(each for each in parts if not each.lower().startswith(tuple(active)))


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name.upper(), pattern.upper()) for pattern in patterns)


def _passes_on(host: Host, name: str) -> bool:
    model = host.launch
    if model.inherits == "listed" and not _matches(name, model.names):
        return False
    return not _matches(name, model.drops)


def _folder(host: Host, machine: Machine, given: str) -> Path:
    root = Path("C:\\" if machine.system == "windows" else "/")
    folder = {"home": machine.home, "project": machine.project, "root": root}[host.launch.cwd]
    return folder / given if given else folder


class _Placeholders:
    """Fills in the placeholders of one entry, and remembers those without a value."""

    def __init__(self, host: Host, machine: Machine, own: Mapping[str, str]) -> None:
        self._fields = host.placeholders.fields
        self._has_env = bool(host.placeholders.env)
        self._has_input = bool(host.placeholders.input)
        self._named = {field for shape in shapes_of(host) for field in fields_of(shape)}
        # Editors of one family fill in these, too.
        self._has_places = host.placeholders.env == "${env:NAME}"
        self._places = {"workspaceFolder": str(machine.project), "userHome": str(machine.home)}
        self._own = own
        self._environ = machine.environ
        self.missing: dict[str, None] = {}
        self.of_shell: dict[str, None] = {}
        self.asked: dict[str, None] = {}
        self.inputs: dict[str, None] = {}
        self.secrets: dict[str, None] = {}

    def text(self, field: str, given: str) -> str:
        """Return a text of the entry as the server gets it."""

        def fill(found: re.Match[str]) -> str:
            kind, name, default = found.groups()
            if not self._is_filled(field, kind):
                return found[0]
            return self._input(name) if kind == "input" else self._variable(name, default)

        if self._has_places:
            for name, folder in self._places.items():
                given = given.replace(f"${{{name}}}", folder)
        return REFERENCE.sub(fill, given)

    def _is_filled(self, field: str, kind: str) -> bool:
        if kind == "input":
            return self._has_input
        # Hosts that take names of variables in place of texts have no placeholder.
        by_name = {"env": {"env_names"}, "headers": {"header_names", "bearer_name"}}
        is_named = not self._named.isdisjoint(by_name.get(field, ()))
        return is_named or (self._has_env and (field in self._fields or field == "cwd"))

    def _input(self, name: str) -> str:
        self.inputs[name] = None
        value = self._environ.get(input_variable(name))
        if value is None:
            self.asked[name] = None
            return ""
        self.secrets[value] = None
        return value

    def _variable(self, name: str, default: str | None) -> str:
        value = self._own.get(name)
        if value is None and name in self._environ:
            value = self._environ[name]
            self.of_shell[name] = None
        if value is None and default is None:
            self.missing[name] = None
        elif value is not None:
            self.secrets[value] = None
        return default or "" if value is None else value


def shapes_of(host: Host) -> Iterator[EntryShape]:
    """Yield the shapes of all transports that a host offers."""
    yield from (each for each in (host.stdio, host.http, host.sse) if each is not None)


def takes_names(host: Host) -> bool:
    """Return whether entries of a host name variables that it passes on, without a text."""
    return any("env_names" in fields_of(shape) for shape in shapes_of(host))


def fields_of(shape: EntryShape) -> set[str]:
    """Return the fields that a shape has a member for."""
    return {*shape.members.values(), *shape.others.values()}


# -- consent: what it means to try an entry that others may have written


def variables_in(entry: ServerSpec) -> list[str]:
    """Return the variables that the texts of an entry name, wherever they stand."""
    texts = (*entry.command, entry.cwd or "", entry.url, *entry.env.values())
    found = [
        each for text in (*texts, *entry.headers.values()) for each in REFERENCE.finditer(text)
    ]
    names = [each[2] if each[1] == "env" else variable_name(each[2]) for each in found]
    return list(dict.fromkeys(names))


def describe_trial(entry: ServerSpec) -> str:
    """Return what is launched or contacted, and which variables it gets, without secrets."""
    from accord.secrets.filter import display_target

    names = ", ".join(variables_in(entry))
    if entry.url:
        where = display_target(entry.url)
        return f"contacts {where}" + (f", and sends {names} to it" if names else "")
    folder = f" in {entry.cwd}" if entry.cwd else ""
    return f"launches {show_command(entry.command)}{folder}" + (f", with {names}" if names else "")


def show_command(command: Sequence[str]) -> str:
    """Return a command as a shell reads it, with a mask for what looks like a secret."""
    from accord.secrets.filter import display_command

    return join(display_command(command))
