"""A server and how to reach it: the one noun for what users, files and tools name.

Values of variables and headers appear neither in errors nor in what `repr` returns.
"""

import os
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, TypeGuard

import msgspec
from msgspec.structs import replace

from accord.client.connect import Target
from accord.client.options import ConnectOptions
from accord.types import RevisionId

TransportName: TypeAlias = Literal["stdio", "http", "sse"]
HttpForm: TypeAlias = Literal["http", "sse"]
# Shorter values are words such as "true", and masking them would garble messages.
_SECRET_LENGTH: Final = 6
# Options of `connect` that are attributes of a server, under the same name.
_OPTIONS: Final = (
    "env",
    "cwd",
    "headers",
    "transport",
    "auth",
    "timeout",
    "connect_timeout",
    "revision",
)


class NeededValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value that a server needs, and that only its user knows.

    Attributes:
        name: of the variable; the server has `${env:NAME}` in its place.
        key: what its author calls it, if that is another name.
        title: for people.
        description: for people.
        type: one of string, number, boolean, directory and file.
        is_secret: whether it must not be shown.
        is_required: whether the server does not work without it.
        is_multiple: whether it is a list of values.
    """

    name: str
    key: str = ""
    title: str = ""
    description: str = ""
    type: str = "string"
    is_secret: bool = False
    is_required: bool = True
    is_multiple: bool = False


class ServerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A server, and how to reach it: `connect(spec.target, **spec.options)` connects to it.

    As it was read, texts may have placeholders: `${env:NAME}` for a variable, `${input:NAME}` for a
    value that a host asks for.

    Attributes:
        name: its name where it was read; made from the target otherwise.
        command: program and arguments that launch it; empty for a URL.
        url: where it is; empty for a command.
        server: another target of `connect`, such as a Server, in place of command and URL.
        transport: the form of HTTP of a URL; None finds it out.
        env: variables for a launched server, beside those that it inherits.
        env_file: a file with further variables; empty without one.
        inherits: whether it inherits the variables of this process.
        cwd: the folder that it runs in.
        folder: what relative paths of it are relative to; empty for the current folder.
        headers: of every HTTP request.
        auth: the `auth` of `connect`: "oauth", a token, or an object of `accord.auth`.
        timeout: seconds to wait for an answer.
        connect_timeout: seconds to wait for its start.
        revision: the one revision to speak; None negotiates.
        settings: further options of `connect`.
        title: its name for people.
        shown: how people name it, without secrets: a command, a URL or a file.
        source: where it was read: a file, or a host and its file.
        is_foreign: whether others may have written it: it is launched or contacted only once its
            user agreed to that, and gets the variables that its user names, no others.
        disabled: whether its host leaves it out.
        needed: the values that are still to be given.
        missing: variables that are not set, and files that should have their values.
        not_found: the program or the folder, if it does not exist, with what is wrong.
        remarks: what a user should know, sentences.
        secrets: texts that must not be shown, the longest first.
        bundle: the bundle that has to be unpacked before its command works; None without one.
        extra: members that only its host knows; they are kept when it is written again.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    server: Any = None
    transport: HttpForm | None = None
    env: Mapping[str, str] = {}
    env_file: str = ""
    inherits: bool = True
    cwd: str | None = None
    folder: str = ""
    headers: Mapping[str, str] = {}
    auth: Any = None
    timeout: float | None = None
    connect_timeout: float | None = None
    revision: RevisionId | None = None
    settings: Mapping[str, Any] = {}
    title: str = ""
    shown: str = ""
    source: str = ""
    is_foreign: bool = False
    disabled: bool = False
    needed: tuple[NeededValue, ...] = ()
    missing: tuple[str, ...] = ()
    not_found: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    bundle: Any = None
    extra: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        # Logs and tracebacks quote it.
        given = [
            f"{option} {', '.join(map(str, value))}" if isinstance(value, Mapping) else option
            for option, value in self.options.items()
        ]
        return f"<ServerSpec {'; '.join([f'{self.name}: {_describe(self.target)}', *given])}>"

    @property
    def target(self) -> Target:
        """What `connect` takes: the command as a list, the URL, or another target."""
        if self.server is not None:
            target: Target = self.server
            return target
        return self.url or list(self.command)

    @property
    def options(self) -> ConnectOptions:
        """The options of `connect` that the server asks for."""
        found: Any = {name: getattr(self, name) for name in _OPTIONS}
        found = {name: each for name, each in found.items() if each not in (None, {})}
        options: ConnectOptions = found | self.settings
        return options

    @property
    def form(self) -> TransportName:
        """The transport that it is spoken to over: HTTP for a URL that names no form."""
        return self.transport or ("http" if self.url else "stdio")

    @property
    def environment(self) -> dict[str, str]:
        """All variables that a launched server sees, before what launches it leaves any out."""
        return {**(os.environ if self.inherits else {}), **self.env}

    def with_options(self, options: ConnectOptions) -> "ServerSpec":
        """Return the server with other options, whose secrets it masks too."""
        given: dict[str, Any] = {**options}
        found = [given.get("auth")]  # "oauth" is too short for a secret
        for member in ("env", "headers"):
            values = given.get(member)
            found += values.values() if isinstance(values, Mapping) else ()
        secrets = tuple(dict.fromkeys((*self.secrets, *filter(is_secret, found))))
        own = {name: given.pop(name) for name in _OPTIONS if name in given}
        own |= {name: own.get(name) or {} for name in ("env", "headers")}
        return replace(self, **own, settings=given, secrets=secrets)

    def mask(self, text: str) -> str:
        """Return a text without the values of variables and headers, which errors may quote.

        Paths and short values stay readable.
        """
        from accord.secrets.filter import filter_of

        return filter_of(self.secrets).hide_any(text)


def is_secret(value: object) -> TypeGuard[str]:
    """Return whether a value that was given is masked: it is a text, long, and not a path."""
    is_path = str(value)[:1] in ("/", "\\", "~", ".") or str(value)[1:2] == ":"
    return isinstance(value, str) and len(value) >= _SECRET_LENGTH and not is_path


def _describe(target: object) -> str:
    """Return what a target is, without arguments and queries, which may have secrets."""
    if isinstance(target, str):
        from urllib.parse import urlsplit

        parts = urlsplit(target)
        return f"{parts.scheme}://{parts.hostname}" if parts.hostname else target
    if isinstance(target, list | tuple) and target:
        return f"command {target[0]}"
    return type(target).__name__ if not isinstance(target, os.PathLike) else os.fspath(target)
