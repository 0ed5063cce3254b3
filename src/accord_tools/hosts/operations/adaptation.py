"""One server, fitted to a host: what the host lacks is made up for by a wrapper or a bridge."""

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from accord.client.server_spec import ServerSpec
from accord.errors import MissingExtra
from accord_tools.hosts.definition import ConfigFile, Host, HostsError, Machine, Scope
from accord_tools.hosts.documents.document import render_snippet
from accord_tools.hosts.entries.literals import LiteralSecret, find_literals
from accord_tools.hosts.entries.placeholders import NoPlaceholder
from accord_tools.hosts.entries.shaping import ShapedEntry, to_host
from accord_tools.hosts.launching.command import settle_command
from accord_tools.hosts.launching.installation import (
    AccordCommand,
    accord_command,
    bridge_entry,
    wrap_entry,
)
from accord_tools.hosts.table import default_file
from accord_tools.hosts.writing.secret_files import secret_file

_VARIABLE: Final = re.compile(r"\$\{env:([A-Za-z_]\w*)\}")


class AdaptedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A server as one host needs it.

    Attributes:
        entry: what the host launches or connects to.
        shaped: the same as the host writes it.
        remarks: what was changed, and why.
        secrets: variables that go into `env_file` and not into the host's file.
        env_file: the file that `accord exec` reads them from; None without secrets.
    """

    entry: ServerSpec
    shaped: ShapedEntry
    remarks: tuple[str, ...] = ()
    secrets: Mapping[str, str] = {}
    env_file: Path | None = None

    def __repr__(self) -> str:
        return f"<AdaptedEntry {self.entry.name}>"  # never the secrets


def adapt_entry(
    entry: ServerSpec,
    host: Host,
    machine: Machine,
    *,
    scope: Scope = "user",
    allow_literals: bool = False,
) -> AdaptedEntry:
    """Return a server so that a host can use it.

    Args:
        entry: the server.
        host: for which host.
        machine: where the host runs.
        scope: whose file it is for; that of a project is read by others, too.
        allow_literals: write values that look like secrets into the file as they are.

    Raises:
        HostsError: the host cannot use it; the message says why and what to do.
    """
    return _Adaptation(entry, host, machine, scope, allow_literals=allow_literals).run()


class _Adaptation:
    def __init__(
        self,
        entry: ServerSpec,
        host: Host,
        machine: Machine,
        scope: Scope,
        *,
        allow_literals: bool,
    ) -> None:
        self._entry = entry
        self._host = host
        self._machine = machine
        self._scope = scope
        self._allow_literals = allow_literals
        self._remarks: list[str] = []
        self._secrets: dict[str, str] = {}
        self._accord: AccordCommand | None = None

    def run(self) -> AdaptedEntry:
        if self._entry.command:
            self._settle()
        if getattr(self._host, self._entry.form) is None:
            self._bridge(f"{self._host.name} has no entries for {self._describe_transport()}")
        self._keep_secrets()
        self._keep_ignored()
        try:
            to_host(self._entry, self._host, scope=self._scope)
        except NoPlaceholder as missing:
            if self._entry.url:
                self._bridge(str(missing))
                self._keep_secrets()
            self._resolve_variables()
        env_file = self._wrap()
        shaped = to_host(self._entry, self._host, scope=self._scope)
        return AdaptedEntry(
            entry=self._entry,
            shaped=shaped,
            remarks=tuple(dict.fromkeys([*self._remarks, *shaped.remarks])),
            secrets=self._secrets,
            env_file=env_file,
        )

    def _settle(self) -> None:
        cwd = Path(self._entry.cwd) if self._entry.cwd else None
        words = self._entry.command
        if self._scope == "project" and self._host.launch.cwd == "project" and cwd is None:
            words = tuple(self._shorten_path(each) for each in words)
        settled = settle_command(words, self._machine, scope=self._scope, cwd=cwd)
        env = {**settled.env, **self._entry.env}
        self._entry = replace(self._entry, command=settled.words, env=env)
        self._remarks += settled.remarks

    def _shorten_path(self, word: str) -> str:
        """Return a path in the project as others have it, too: relative to the project."""
        # Windows looks for programs in the folder of the host, not in that of the server.
        if self._machine.system == "windows" or not os.path.isabs(word):
            return word
        try:
            return str(Path(word).relative_to(self._machine.project))
        except ValueError:
            return word

    def _describe_transport(self) -> str:
        names = {"http": "URLs", "sse": "the older HTTP with SSE", "stdio": "commands"}
        return names[self._entry.form]

    def _bridge(self, why: str) -> None:
        """Let accord connect to the URL, and the host to accord."""
        if not self._entry.url:
            raise HostsError(f"{why}: serve it over HTTP and add its URL")
        if not any(map(find_spec, ("httptools", "aiohttp"))):
            missing = MissingExtra("http", needed_for="`accord proxy`, which would connect to it,")
            raise HostsError(f"{why}; {missing}")
        self._entry = bridge_entry(self._entry, self._use_accord())
        self._remarks.append(f"{why}: the entry launches `accord proxy`, which connects to it")

    def _use_accord(self) -> AccordCommand:
        if self._accord is None:
            self._accord = accord_command(self._machine)
            self._remarks += self._accord.remarks
        return self._accord

    # -- secrets

    def _keep_secrets(self) -> None:
        """Take values that look like secrets out of the entry."""
        if self._allow_literals:
            return
        for literal in find_literals(self._entry.name, _members(self._entry)):
            if literal.keys[0] != "env":
                raise HostsError(_advise_literal(literal, self._host))
            if self._scope == "project":
                name = literal.keys[1]
                raise HostsError(
                    f"{literal.label} looks like a secret, and files of a project are shared: say "
                    f"--env {name}, and let each user set {name}"
                )
            self._move_variable(str(literal.keys[1]), self._entry.env[str(literal.keys[1])])

    def _keep_ignored(self) -> None:
        """Let accord set the variables that the host would leave out."""
        ignored = [
            name
            for name in self._entry.env
            if any(fnmatchcase(name.upper(), each.upper()) for each in self._host.launch.ignores)
        ]
        if ignored and self._scope == "user" and not self._entry.url:
            for name in ignored:
                self._move_variable(name, self._entry.env[name])

    def _move_variable(self, name: str, value: str) -> None:
        self._secrets[name] = value
        rest = {key: text for key, text in self._entry.env.items() if key != name}
        self._entry = replace(self._entry, env=rest)

    def _resolve_variables(self) -> None:
        """Look up variables that the host does not fill in."""
        for name, text in self._entry.env.items():
            if "${env:" not in text:
                continue
            if self._scope == "project":
                raise HostsError(
                    f"{self._host.name} does not fill in variables, so {name} cannot be kept out "
                    "of a project's file: use --scope user"
                )
            self._move_variable(name, _VARIABLE.sub(self._look_up, text))

    def _look_up(self, found: re.Match[str]) -> str:
        value = self._machine.environ.get(found[1])
        if value is None:
            raise HostsError(
                f"{found[1]} is not set. {self._host.name} does not fill in variables, so accord "
                f"keeps the value in a file of its own: set {found[1]} for this command, or say "
                f"--env {found[1]}=VALUE"
            )
        return value

    # -- what the host cannot express

    def _wrap(self) -> Path | None:
        """Let `accord exec` set the folder and the secrets, if the host cannot."""
        shape = self._host.stdio
        is_placed = shape is None or "cwd" in shape.members.values()
        folder = None if is_placed or self._entry.url else self._entry.cwd
        cwd = Path(folder) if folder else None
        env_file = secret_file(self._entry.name) if self._secrets else None
        if cwd is None and env_file is None:
            return None
        if cwd is not None:
            self._remarks.append(
                f"{self._host.name} cannot set the folder: `accord exec` changes to {cwd}"
            )
        if env_file is not None:
            names = ", ".join(self._secrets)
            verb, it = ("is", "it") if len(self._secrets) == 1 else ("are", "them")
            self._remarks.append(
                f"{names} {verb} kept in {env_file}, which only you can read, and `accord exec` "
                f"sets {it}"
            )
        self._entry = wrap_entry(self._entry, self._use_accord(), cwd=cwd, env_file=env_file)
        return env_file


def _members(entry: ServerSpec) -> dict[str, Any]:
    return {
        "command": list(entry.command),
        "env": dict(entry.env),
        "url": entry.url,
        "headers": dict(entry.headers),
    }


def _advise_literal(literal: LiteralSecret, host: Host) -> str:
    where = literal.label
    if literal.keys[0] == "headers":
        shown = literal.instead.replace("${env:", "${")
        return (
            f"{where} looks like a secret. Say --header '{literal.keys[1]}: {shown}' and set "
            f"{literal.variable}, or write it into the file of {host.name} with --literal-secrets"
        )
    if literal.keys[0] == "url":
        return (
            f"{where} has a part that looks like a secret. Write ${{{literal.variable}}} in its "
            f"place (in single quotes) and set {literal.variable}, or write it into the file of "
            f"{host.name} with --literal-secrets"
        )
    return (
        f"{where} looks like a secret, and other users of this machine can see it there. Give it "
        f"as a variable (--env {literal.variable}) if the server takes it so, or keep it with "
        "--literal-secrets"
    )


# -- text to paste, for hosts without a file and for files that cannot be changed


def paste_place(host: Host, machine: Machine, scope: Scope) -> ConfigFile:
    """Return the file that an entry is for; its path is empty if the host has none."""
    found = default_file(host, machine, scope)
    if found is not None:
        return found
    return ConfigFile(host=host, scope=scope, path=Path(), key=host.key, format=host.format)


def paste_text(file: ConfigFile, adapted: AdaptedEntry) -> str:
    """Return an entry as it stands in a file, with the objects around it."""
    name = adapted.entry.name if file.host.container == "map" else 0
    text = render_snippet((*file.key, name), adapted.shaped.value, file.format)
    return text if text.endswith("\n") else f"{text}\n"


def paste_remarks(adapted: AdaptedEntry) -> list[str]:
    """Return what a user who pastes an entry has to know and to do."""
    if adapted.env_file is None:
        return list(adapted.remarks)
    names = ", ".join(adapted.secrets)
    missing = (
        f'{adapted.env_file} is not written by this: put {names} there, as lines KEY="value", '
        "and let only yourself read it (chmod 600)"
    )
    return [*adapted.remarks, missing]
