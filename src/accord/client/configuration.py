"""The configuration of a host: the servers that a file such as mcp.json names.

Each is read into a `ServerSpec`, with variables filled in. Values of variables and headers appear
in no error.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

from msgspec.structs import replace

from accord.client.options import ConnectOptions
from accord.client.server_spec import ServerSpec, is_secret
from accord.errors import ConfigurationError

_COMMAND_TYPES: Final = frozenset({"stdio", "local"})
_URL_TYPES: Final = frozenset(
    {"http", "streamable-http", "streamableHttp", "streamable_http", "remote", "sse"}
)
URL_MEMBERS: Final = ("url", "serverUrl", "httpUrl")
_ENV_MEMBERS: Final = ("env", "environment")
_REFERENCE: Final = re.compile(r"\$\{([^${}]*)\}")
_PARTS: Final = re.compile(r"(?:(\w+):(?!-))?(.*?)(?::-(.*))?", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")


def _suggest_member(members: Mapping[str, Any]) -> str:
    """Return what may have been meant by an entry without a target."""
    several = next((name for name in ("mcpServers", "servers") if name in members), None)
    if several is not None:
        return f": it is not an entry but has {several}, a whole configuration"
    from difflib import get_close_matches

    for name in members:
        close = get_close_matches(name, ("command", *URL_MEMBERS), n=1, cutoff=0.75)
        if close:
            return f"; did you mean {close[0]} by {name}?"
    return ""


class EntryReader:
    """Reads the members of one entry."""

    KINDS: ClassVar[Mapping[str, str]] = {"env": "${env:NAME}", "input": "${input:NAME}"}
    """The kinds of placeholders, and how each is written."""

    def __init__(
        self, where: str, folder: Path, variables: Mapping[str, str], *, has_folder: bool
    ) -> None:
        self._where = where
        self._folder = folder
        self._variables = variables
        self._has_folder = has_folder
        self._secrets: list[str] = []

    def read(self, name: str, members: Mapping[str, Any]) -> ServerSpec:
        command = members.get("command")
        if isinstance(command, Mapping):  # older entries of Zed: path, args and env in one object
            members = {**members, **command, "command": command.get("path")}
            command = members["command"]
        url_member = next((each for each in URL_MEMBERS if members.get(each) is not None), None)
        is_url = self._is_url(members, has_command=command is not None, url_member=url_member)
        if is_url:
            assert url_member is not None
            url = self._text(url_member, members[url_member])
            if not url.lower().startswith(("http://", "https://")):
                raise self._fault(url_member, "a URL that begins with http:// or https://")
            spec, options = ServerSpec(name=name, url=url), self._url_options(members)
        else:
            options = self._command_options(members)
            spec = ServerSpec(name=name, command=self._command(members, options))
        return replace(spec, secrets=tuple(filter(is_secret, self._secrets))).with_options(options)

    def _is_url(
        self, members: Mapping[str, Any], *, has_command: bool, url_member: str | None
    ) -> bool:
        if has_command and url_member is not None:
            raise ConfigurationError(f"{self._where} has both command and {url_member}: keep one")
        if not has_command and url_member is None:
            raise ConfigurationError(
                f"{self._where} has neither command nor url{_suggest_member(members)}"
            )
        kind = _kind_member(members)
        if kind is None:
            return url_member is not None
        given = members[kind]
        allowed = _URL_TYPES if url_member is not None else _COMMAND_TYPES
        if given not in allowed:
            what = "url" if url_member is not None else "command"
            raise ConfigurationError(
                f"{self._where}: {kind} is {str(given)[:40]!r}, expected one of "
                f"{', '.join(sorted(allowed))} in an entry with {what}"
            )
        return url_member is not None

    # -- a server that is launched

    def _command(self, members: Mapping[str, Any], options: ConnectOptions) -> tuple[str, ...]:
        command = members["command"]
        words = self._texts("command", command) if isinstance(command, list | tuple) else None
        if words is None:
            words = [self._text("command", command)]
        words += self._texts("args", members.get("args"))
        if not words or not words[0]:
            raise self._fault("command", "the name or the path of a program")
        program = os.path.expanduser(words[0])
        if os.path.dirname(program):
            # As the system does: relative to the folder that the server runs in.
            program = os.path.join(options.get("cwd") or self._folder, program)
        return (program, *words[1:])

    def _command_options(self, members: Mapping[str, Any]) -> ConnectOptions:
        options = ConnectOptions()
        cwd = members.get("cwd")
        if cwd is not None:
            options["cwd"] = str(self._path("cwd", cwd))
        elif self._has_folder:
            options["cwd"] = str(self._folder)
        env: dict[str, str] = {}
        if members.get("envFile") is not None:
            env.update(self.read_env_file(self._path("envFile", members["envFile"])))
        for member in _ENV_MEMBERS:
            env.update(self._texts_by_name(member, members.get(member)))
        if env:
            options["env"] = env
        return options

    def read_env_file(self, path: Path) -> dict[str, str]:
        """Return the variables of a file with one `NAME=value` in each line.

        Raises:
            ConfigurationError: it cannot be read.
        """
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise ConfigurationError(f"{self._where}: envFile {path}: {reason}") from None
        found = {}
        for line in text.splitlines():
            name, equals, content = line.strip().removeprefix("export ").partition("=")
            if equals and not name.startswith("#"):
                content = content.strip()
                if len(content) > 1 and content[0] == content[-1] and content[0] in "\"'":
                    content = content[1:-1]
                found[name.strip()] = content
        return found

    # -- a server at a URL

    def _url_options(self, members: Mapping[str, Any]) -> ConnectOptions:
        options = ConnectOptions()
        headers = self._texts_by_name("headers", members.get("headers"))
        if headers:
            options["headers"] = headers
        kind = _kind_member(members)
        if kind is not None and members[kind] == "sse":
            options["transport"] = "sse"
        auth = members.get("auth")
        if isinstance(auth, str):  # others have settings for one host
            options["auth"] = self._text("auth", auth)
        return options

    # -- values

    def _text(self, member: str, value: object) -> str:
        if not isinstance(value, str):
            raise self._fault(member, "a text", value)
        return _REFERENCE.sub(lambda found: self._expand(member, found), value)

    def _texts(self, member: str, value: object) -> list[str]:
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            raise self._fault(member, "a list of texts", value)
        return [self._text(f"{member}[{place}]", each) for place, each in enumerate(value)]

    def _texts_by_name(self, member: str, value: object) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self._fault(member, "an object of texts", value)
        found = {}
        for name, each in value.items():
            if each is None:
                continue  # VS Code leaves such variables out
            is_number = isinstance(each, int | float) and not isinstance(each, bool)
            text = str(each) if is_number else self._text(f"{member}.{name}", each)
            found[str(name)] = text
        return found

    def _path(self, member: str, value: object) -> Path:
        return self._folder / Path(self._text(member, value)).expanduser()

    def _expand(self, member: str, found: re.Match[str]) -> str:
        parts = _PARTS.fullmatch(found[1])
        assert parts is not None  # it matches everything
        kind, name, default = parts.groups()
        place = self.find_place(name) if kind is None and default is None else None
        if place is not None:
            return place
        if kind is None and not _NAME.fullmatch(name):
            return found[0]  # the business of a shell
        if kind is not None and kind not in self.KINDS:
            known = ["${NAME:-default}", *self.KINDS.values()]
            raise ConfigurationError(
                f"{self._where}: {member} has ${{{kind}:...}}, which only its host can fill in; "
                f"known are ${{NAME}}, {', '.join(known[:-1])} and {known[-1]}"
            )
        value = self.find_value(kind, name)
        if value or (value is not None and default is None):
            self._secrets.append(value)
            return value
        return default if default is not None else self.replace_missing(member, kind, name)

    def find_place(self, name: str) -> str | None:
        """Return the folder or the sign that a placeholder such as `${workspaceFolder}` names."""
        return _PLACES[name](self._folder) if name in _PLACES else None

    def find_value(self, kind: str | None, name: str) -> str | None:
        """Return the value for a placeholder; None if it is not known.

        Args:
            kind: one of `KINDS`; None for `${NAME}`.
            name: of the variable.
        """
        value = self._variables.get(f"input:{name}" if kind == "input" else name)
        return os.environ.get(name) if value is None and kind != "input" else value

    def replace_missing(self, member: str, kind: str | None, name: str) -> str:
        """Return the text for a placeholder without a value and without a default.

        Raises:
            ConfigurationError: always, unless a subclass knows better.
        """
        if kind == "input":
            raise ConfigurationError(
                f"{self._where}: {member} needs ${{input:{name}}}, which its host asks the user "
                f'for: read_configuration(..., variables={{"input:{name}": ...}}) fills it in'
            )
        raise ConfigurationError(
            f"{self._where}: {member} needs the variable {name}, which is not set; "
            f"set it, or write ${{{name}:-default}}"
        )

    def _fault(self, member: str, expected: str, value: object = "") -> ConfigurationError:
        came = "" if isinstance(value, str) else f" is {kind_of(value)},"
        return ConfigurationError(f"{self._where}: {member}{came or ':'} expected {expected}")


_PLACES: Final[Mapping[str, Callable[[Path], str]]] = {
    "userHome": lambda folder: os.path.expanduser("~"),
    "workspaceFolder": str,
    "workspaceFolderBasename": lambda folder: folder.name,
    "pathSeparator": lambda folder: os.sep,
    "/": lambda folder: os.sep,
}


def _kind_member(members: Mapping[str, Any]) -> str | None:
    return next(
        (each for each in ("type", "transport") if isinstance(members.get(each), str)), None
    )


def kind_of(value: object) -> str:
    """Return what a value is, without saying it: it may be a secret."""
    names = {list: "a list", str: "a text", bool: "a boolean", int: "a number"}
    names |= {float: "a number", type(None): "null"}
    if isinstance(value, dict):
        return "an object"
    return names.get(type(value), f"a {type(value).__name__}")


# -- the servers of a configuration

Configuration: TypeAlias = str | os.PathLike[str] | Mapping[str, Any]
"""The path of a JSON file, or what such a file contains; in Python also targets by name."""

# The members under which hosts keep their servers; a file that several of them read may have two.
_SHARED: Final = ("mcpServers", "servers")
# Those of one host each; elsewhere they may have settings of another kind.
MEMBERS: Final = (*_SHARED, "context_servers", "mcp_servers", "amp.mcpServers", "mcp")
"""The members under which hosts keep their servers, the usual ones first."""

# Hosts keep the file of a project in a folder of their own, and launch servers from the project.
_HOST_FOLDERS: Final = frozenset(
    ".amazonq .amp .cursor .factory .gemini .github .qwen .roo .trae .vs .vscode .zed".split()  # noqa: SIM905
)
_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA: Final = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)


def read_configuration(
    source: Configuration,
    *,
    folder: str | os.PathLike[str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> dict[str, ServerSpec]:
    """Read the servers of a host's configuration, without those that are disabled.

    Args:
        source: the path of a JSON file, or a dictionary. The servers are those of its member
            `mcpServers` or `servers`; without such a member every member is a server. Comments and
            trailing commas are allowed. In a dictionary a server may also be a target of `connect`.
        folder: what relative paths of `command` and `cwd` are relative to, and where servers run by
            default: the folder of the file, or the one around it for a file in `.vscode`, `.cursor`
            and the like; without a file, the current folder.
        variables: values for `${NAME}` that come before those of the environment; "input:key" is
            the name for `${input:key}`.

    Raises:
        ConfigurationError: says in which file, entry and member, and what is expected.
    """
    entries, faults = read_servers(source, folder=folder, variables=variables)
    for fault in faults.values():
        raise fault
    return entries


def read_entry(
    name: str,
    value: object,
    *,
    folder: str | os.PathLike[str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> ServerSpec:
    """Read one server: the members of an entry, or anything that `connect` takes as target.

    Args:
        name: of the entry.
        value: its members, such as `command` and `args` or `url`; or a target, taken as it is.
        folder: as for `read_configuration`.
        variables: as for `read_configuration`.

    Raises:
        ConfigurationError: a member is missing or wrong, or a variable is not set.
    """
    if isinstance(value, ServerSpec):
        return replace(value, name=name)
    if not isinstance(value, Mapping):
        return ServerSpec(name=name, server=value, cwd=None if folder is None else str(folder))
    reader = EntryReader(
        f"server {name!r}",
        Path.cwd() if folder is None else Path(folder).absolute(),
        variables or {},
        has_folder=folder is not None,
    )
    return reader.read(name, value)


def read_servers(
    source: Configuration,
    *,
    folder: str | os.PathLike[str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> tuple[dict[str, ServerSpec], dict[str, ConfigurationError]]:
    """Read a configuration entry by entry; returns the entries, and what is wrong with the others.

    Raises:
        ConfigurationError: the source as a whole cannot be read.
    """
    where: str = "the configuration"
    document: object = source
    is_file = not isinstance(source, Mapping)
    if not isinstance(source, Mapping):
        file = _check_file(source)
        where, document = str(file), _read_json(file)
        folder = folder_of(file) if folder is None else folder
    entries: dict[str, ServerSpec] = {}
    faults: dict[str, ConfigurationError] = {}
    for name, value in find_entries(where, document, is_file=is_file).items():
        try:
            if not isinstance(name, str) or not name:
                raise ConfigurationError(f"the name {name!r} is not a text")
            if is_file and not isinstance(value, Mapping):
                raise ConfigurationError(
                    f"server {name!r} is {kind_of(value)}, expected an object with command or url"
                )
            if isinstance(value, Mapping) and is_disabled(value):
                continue
            entries[name] = read_entry(name, value, folder=folder, variables=variables)
        except ConfigurationError as error:
            faults[str(name)] = ConfigurationError(f"{where}: {error}")
    return entries, faults


# -- the file


def _check_file(source: object) -> Path:
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            "a configuration is the path of a JSON file or a dictionary, "
            f"not a {type(source).__name__}"
        )
    text = os.fspath(source)
    if text.lower().startswith(("http://", "https://")) or text.endswith(".py"):
        raise ConfigurationError(
            f"{text[:200]!r} is one server, not a configuration: connect() takes it, "
            'or give it a name, as {"crm": ' + repr(text[:200]) + "}"
        )
    return Path(text).expanduser()


def _read_json(file: Path) -> object:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{file} is not UTF-8 text") from None
    try:
        return parse_json(text)
    except ValueError as error:
        raise ConfigurationError(f"{file} is not JSON: {error}") from None


def parse_json(text: str) -> object:
    """Return what a text of JSON contains, which may have comments and trailing commas.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return json.loads(text, object_pairs_hook=_Object)
    except ValueError:
        return json.loads(without_comments(text), object_pairs_hook=_Object)


def without_comments(text: str) -> str:
    """Return a text of JSON with spaces in place of comments and trailing commas.

    Everything else stays at its place, so that errors name the right line.
    """
    return _COMMA.sub(_blank, _COMMENT.sub(_blank, text))


def _blank(found: re.Match[str]) -> str:
    return found[1] if found[1] is not None else re.sub(r"[^\n]", " ", found[0])


class _Object(dict[str, Any]):
    """An object that knows which of its members appears twice."""

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        super().__init__(members)
        self.repeated: str | None = None
        if len(self) < len(members):
            names = [name for name, _ in members]
            self.repeated = next(name for name in names if names.count(name) > 1)


def folder_of(file: Path) -> Path:
    """Return the folder that hosts launch the servers of a file from."""
    folder = file.absolute().parent
    return folder.parent if folder.name in _HOST_FOLDERS else folder


def find_entries(where: str, document: object, *, is_file: bool) -> Mapping[Any, Any]:
    """Return the entries of a configuration by name, as they are in it.

    Args:
        where: what messages call the configuration.
        document: what it contains.
        is_file: whether it was read from a file, so that an entry is not a target.

    Raises:
        ConfigurationError: it names no servers, or one name twice.
    """
    if not isinstance(document, Mapping):
        raise ConfigurationError(f"{where} is {kind_of(document)}, expected an object")
    found: dict[Any, Any] = {}
    has_member = False
    for member in MEMBERS:
        servers = _read_member(where, document, member, is_file=is_file)
        if servers is not None and (member in _SHARED or not has_member):
            has_member = True
            for name, value in servers.items():
                if name in found and found[name] != value:
                    raise _repetition(where, name)
                found[name] = value
    if has_member:
        return found
    found = {name: each for name, each in document.items() if isinstance(each, Mapping)}
    if not any(_is_entry(each) for each in found.values()) and (found or is_file):
        raise ConfigurationError(
            f"{where} names no servers: expected a member {' or '.join(_SHARED)}, "
            "or servers by name, each with command or url"
        )
    return found if is_file else document


def _read_member(
    where: str, document: Mapping[str, Any], member: str, *, is_file: bool
) -> Mapping[str, Any] | None:
    """Return the object whose members are servers, if this one of the document is such."""
    servers = document.get(member)
    if not isinstance(servers, Mapping):
        if is_file and servers is not None and member in _SHARED:
            raise ConfigurationError(
                f"{where}: {member} is {kind_of(servers)}, expected an object, servers by name"
            )
        return None
    if _is_entry(servers):
        return None  # a server that has such a name
    nested = servers.get("servers")
    if isinstance(nested, Mapping) and not _is_entry(nested):
        servers = nested
    if isinstance(servers, _Object) and servers.repeated is not None:
        raise _repetition(where, servers.repeated)
    return servers


def _repetition(where: str, name: object) -> ConfigurationError:
    return ConfigurationError(f"{where} has two servers {name!r}: keep one of them")


def _is_entry(value: Mapping[str, Any]) -> bool:
    return any(isinstance(value.get(each), str | list) for each in ("command", *URL_MEMBERS)) or (
        isinstance(value.get("command"), Mapping) and "path" in value["command"]
    )


def is_disabled(value: Mapping[str, Any]) -> bool:
    """Return whether an entry says that its host leaves it out."""
    return value.get("disabled") is True or value.get("enabled") is False
