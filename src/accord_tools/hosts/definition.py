"""Hosts, their configurations and the entries in them: the types that all parts share."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from accord.client.server_spec import TransportName
from accord.errors import AccordError

KeyPath: TypeAlias = tuple[str | int, ...]
"""Where a value is in a document: keys of objects and indices of lists, from the outside."""
FileFormat: TypeAlias = Literal["json", "json-comments", "jsonc", "toml", "yaml"]
"""How a host reads its file: strict JSON, with comments, with comments and trailing commas ..."""
System: TypeAlias = Literal["linux", "macos", "windows"]
Scope: TypeAlias = Literal["user", "project"]


class HostsError(AccordError):
    """A host, a file of one or an entry is not as it should be; the message says what to do."""


class EntryShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a host writes an entry of one transport.

    Attributes:
        members: the members that accord writes, in their order: name in the file (dots lead into
            objects) to field. Fields are those of a server, and: `program` and `args` (the first
            word of the command and the others), `env_names` (variables passed on under their own
            name), `header_names` (header to variable), `bearer_name` (the variable with the
            token), `timeout_ms`, `enabled` (the contrary of `disabled`), `type`.
        constants: members with a fixed value, such as `type`.
        user_constants: those that only the user's file needs.
        others: further names that the host reads, or once read, to field; never written.
        optional: constants that the host can do without.
        accepted: further values that the host takes for a constant, by its name.
    """

    members: Mapping[str, str]
    constants: Mapping[str, Any] = {}
    user_constants: Mapping[str, Any] = {}
    others: Mapping[str, str] = {}
    optional: tuple[str, ...] = ()
    accepted: Mapping[str, tuple[str, ...]] = {}


class PlaceholderForms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a host fills in; a text in which NAME stands for the name. Empty: it does not.

    Attributes:
        env: the value of a variable of its environment.
        input: a value that it asks its user for, and keeps safe.
        default: the same as `env`, with DEFAULT for a variable that is not set.
        also: further forms that it fills in; read, never written.
        special: a regular expression of text that it would fill in or run although it is meant
            literally; the forms themselves need not be in it.
        fields: the members in which it does so.
    """

    env: str = ""
    input: str = ""
    default: str = ""
    also: tuple[str, ...] = ()
    special: str = ""
    fields: tuple[str, ...] = ("command", "env", "url", "headers")


class LaunchModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a server finds that a host launches.

    Attributes:
        path: `desktop` has the short PATH of an application started from a menu, `shell` the one
            of the terminal that it was started in.
        inherits: `all` variables of the host, or only the `listed` ones.
        names: those that are listed.
        drops: patterns (fnmatch, upper case) of names that are left out.
        ignores: names that the host leaves out even if the entry sets them.
        cwd: the folder it runs in: `home`, `project` (the folder that the host was started in) or
            `root`.
        has_shell: whether the host runs the command through a shell (on Windows `cmd`).
    """

    path: Literal["desktop", "shell"] = "desktop"
    inherits: Literal["all", "listed"] = "all"
    names: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    cwd: Literal["home", "project", "root"] = "home"
    has_shell: bool = False


class ProjectFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file in a project.

    Attributes:
        path: below the folder of the project; * matches any name, such a file is only read.
        key: if it differs from that of the user's file.
        format: if it differs from that of the user's file.
        upward: whether the host looks in the folders around it too, up to that of the repository.
    """

    path: str
    key: tuple[str, ...] = ()
    format: FileFormat | None = None
    upward: bool = False


class Host(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An application that launches servers: a row of the table of hosts.

    Attributes:
        id: its name on the command line.
        name: its name for people.
        aliases: further names on the command line.
        checked: year and month in which the row was looked up, as 2026-11.
        source: where that is from.
        status: whether the host is still made.
        format: of its files.
        key: the path of the object with the servers.
        container: `map` has servers by name, `list` a list in which each has a name.
        user: patterns of the user's file on each system, the first that exists is taken, else the
            first. {home}, {config}, {xdg}, {appdata}, {localappdata} and {env:NAME} are filled in;
            a pattern whose variable is not set is left out; * matches any name.
        further: patterns of files that the host reads too; they are written only if named.
        project_key: where the user's file has servers of one project; {project} is its folder.
        project: files in a project; the first is written.
        traces: patterns of folders or files that show that the host is installed, beside the folder
            of the user's file.
        programs: commands that show that it is installed.
        bare_names: whether a project's file may have servers without the object around them.
        refuses_comments: whether the host skips, or discards, a file with comments.
        refuses_mark: whether it does not read a file that begins with a byte order mark.
        skipped: members with values that mark an entry which is not a server to launch or reach.
        input_list: the path of the list with the values that the host asks for.
        untyped_url: the transport of an entry with a URL that does not name one.
        stdio, http, sse: how entries are written; None if the host has no such transport.
        shared: further members of entries that several hosts have with one meaning: `envFile` (a
            file with variables) and `auth`.
        placeholders: what it fills in.
        name_pattern: what names must match; empty if any name will do.
        reserved: names that it refuses.
        launch: what launched servers find.
        reload: when the host uses a changed file, a sentence.
        approval: what its user has to accept first, a sentence; empty if nothing.
        approves: whether that is so for servers of a project only, or for all.
        command: its own command that adds a server, if the host rewrites the file while it runs;
            NAME, JSON and NAMED_JSON (with the name in it) are filled in.
        link: the kind of link that installs a server (see `entries.links`); empty if it has none.
        notes: what else a user should know, sentences.
    """

    id: str
    name: str
    aliases: tuple[str, ...] = ()
    checked: str
    source: str
    format: FileFormat
    key: tuple[str, ...] = ()
    status: Literal["current", "discontinued"] = "current"
    container: Literal["map", "list"] = "map"
    user: Mapping[System, tuple[str, ...]] = {}
    further: Mapping[System, tuple[str, ...]] = {}
    project_key: tuple[str, ...] = ()
    project: tuple[ProjectFile, ...] = ()
    traces: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    bare_names: bool = False
    refuses_comments: bool = False
    refuses_mark: bool = False
    skipped: Mapping[str, tuple[str, ...]] = {}
    input_list: tuple[str, ...] = ()
    untyped_url: TransportName = "http"
    stdio: EntryShape | None = None
    http: EntryShape | None = None
    sse: EntryShape | None = None
    shared: tuple[Literal["envFile", "auth"], ...] = ()
    placeholders: PlaceholderForms = PlaceholderForms()
    name_pattern: str = ""
    reserved: tuple[str, ...] = ()
    launch: LaunchModel = LaunchModel()
    reload: str = ""
    approval: str = ""
    approves: Literal["project", "all"] = "project"
    command: str = ""
    link: str = ""
    notes: tuple[str, ...] = ()


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The system, home and environment that files of hosts are looked for in.

    Attributes:
        system: the operating system.
        environ: variables, such as APPDATA and XDG_CONFIG_HOME.
        home: the user's folder.
        project: the folder of the project, in which the command was given.
    """

    system: System
    environ: Mapping[str, str]
    home: Path
    project: Path

    @classmethod
    def current(cls, project: Path | None = None) -> "Machine":
        """Return this machine, with the current folder as project."""
        known: dict[str, System] = {"win32": "windows", "darwin": "macos"}
        system = known.get(sys.platform, "linux")
        home = os.environ.get("USERPROFILE" if system == "windows" else "HOME")
        return cls(
            system=system,
            environ=dict(os.environ),
            home=Path(home) if home else Path.home(),
            project=(project or Path.cwd()).absolute(),
        )


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file in which a host keeps servers.

    Attributes:
        host: of which host.
        scope: for all projects of the user, or for one project.
        path: it may not exist yet.
        key: the path of the object with the servers in this file.
        format: of this file.
    """

    host: Host
    scope: Scope
    path: Path
    key: tuple[str, ...]
    format: FileFormat

    @property
    def is_shared(self) -> bool:
        """Whether it is in a project, so that others may have written it."""
        # Some hosts keep servers of one project in the file of the user.
        is_local = self.key[:1] == self.host.project_key[:1] != ()
        return self.scope == "project" and not is_local
