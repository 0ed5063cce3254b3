"""Entries as some hosts and the registry write them, brought to the usual members."""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from accord.client.configuration import URL_MEMBERS
from accord.secrets.recognition import names_secret
from accord_tools.hosts.definition import ConfigFile
from accord_tools.hosts.entries.literals import variable_name
from accord_tools.hosts.entries.shaping import entries_in

# -- servers that were found or imported, before they are written into a file


class FoundServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server, and what is known about it.

    Attributes:
        name: a name for it; made unique before it is written.
        entry: its members in `mcpServers`.
        source: where it was found, for people.
        settings: its table `[server.NAME]`.
        remarks: what could not be taken over, and what to do.
        files: new files beside the fleet file, by their path.
        variables: those that have to be set before it runs.
    """

    name: str
    entry: Mapping[str, Any]
    source: str = ""
    settings: Mapping[str, Any] = {}
    remarks: tuple[str, ...] = ()
    files: Mapping[str, str] = {}
    variables: tuple[str, ...] = ()


def plain_name(text: str) -> str:
    """Return a short name for a server, made of letters, digits, dashes, dots and underscores.

    >>> plain_name("@scope/My Server")
    'my-server'
    """
    last = text.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-._").lower()[:60] or "server"


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value of JSON with every text in it changed; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [map_texts(each, change) for each in value]
    if isinstance(value, Mapping):
        return {str(key): map_texts(each, change) for key, each in value.items()}
    return value


# -- entries of hosts


# Members that say how a server is reached; others are settings of one host.
_KEPT: Final = ("command", "args", "env", "envFile", "cwd", "url", "headers", "type", "auth")
_INPUT: Final = re.compile(r"\$\{input:([^${}]*)\}")
_OTHER_ENV: Final = re.compile(r"(?<!\$)\{env:([A-Za-z_]\w*)\}|\$\{\{\s*secrets\.(\w+)\s*\}\}")
# What entries have almost everywhere; the table of hosts is not needed for them.
_PLAIN: Final = frozenset(
    (*URL_MEMBERS, "command", "args", "env", "environment", "envFile", "cwd", "headers", "type")
)
_USUAL: Final = {
    "program": "command",
    "args": "args",
    "env": "env",
    "cwd": "cwd",
    "url": "url",
    "headers": "headers",
}


class _HostMembers(NamedTuple):
    """Members of hosts: their names (dots lead into objects), and the usual member for each."""

    renamed: Mapping[str, str]
    variable_lists: tuple[str, ...]
    header_variables: tuple[str, ...]
    token_variables: tuple[str, ...]


@lru_cache(maxsize=1)
def _host_members() -> _HostMembers:
    from accord_tools.hosts.table import load_hosts

    pairs: dict[str, str] = {}
    for host in load_hosts().values():
        for shape in filter(None, (host.stdio, host.http, host.sse)):
            pairs |= {**shape.others, **shape.members}
    renamed = {
        member: _USUAL[field]
        for member, field in pairs.items()
        # An object `command` is understood as it is.
        if field in _USUAL and member not in _PLAIN and not member.startswith("command.")
    }

    def members_for(field: str) -> tuple[str, ...]:
        return tuple(member for member, each in pairs.items() if each == field)

    return _HostMembers(
        renamed, members_for("env_names"), members_for("header_names"), members_for("bearer_name")
    )


def normalize_entry(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with `command`, `args`, `env`, `url` and `headers`, whatever its host.

    Codex names variables for headers and tokens, Goose has other words for the same members.
    """
    found = dict(members)
    if found.keys() <= _PLAIN:
        return found
    known = _host_members()
    for member, usual in known.renamed.items():
        value = _take(found, member.split(".")) if usual not in found else None
        if value is not None:
            found[usual] = value
    for member in known.variable_lists:
        listed = found.pop(member, None)
        if isinstance(listed, list) and isinstance(found.get("env", {}), Mapping):
            given = {each: f"${{env:{each}}}" for each in listed if isinstance(each, str)}
            found["env"] = {**given, **found.get("env", {})}
    headers = found.get("headers", {})
    more: dict[str, str] = {}
    for member in known.header_variables:
        by_variable = found.pop(member, None)
        if isinstance(by_variable, Mapping):
            more |= {str(name): f"${{env:{each}}}" for name, each in by_variable.items()}
    for member in known.token_variables:
        token = found.pop(member, None)
        if isinstance(token, str):
            more["Authorization"] = f"Bearer ${{env:{token}}}"
    if more and isinstance(headers, Mapping):
        found["headers"] = {**headers, **more}
    return found


def _take(members: dict[str, Any], keys: list[str]) -> Any:
    """Remove a member, and return its value; one inside an object stays there."""
    if len(keys) == 1:
        return members.pop(keys[0], None)
    value: Any = members
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def convert_entry(members: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return an entry with the usual members and placeholders, and the variables it asks for.

    What a host asks its user for (`${input:key}`) becomes a variable.
    """
    usual = normalize_entry(members)
    command = usual.get("command")
    if isinstance(command, Mapping):
        usual = {**usual, **command, "command": command.get("path")}
    if isinstance(usual.get("command"), list):
        words = usual["command"]
        usual = {**usual, "command": words[:1] and words[0], "args": [*words[1:], *_args(usual)]}
    if "environment" in usual:
        usual["env"] = {**(usual.get("env") or {}), **(usual["environment"] or {})}
    for member in URL_MEMBERS:
        if isinstance(usual.get(member), str):
            usual.setdefault("url", usual[member])
            if member == "httpUrl":
                usual["type"] = "http"
    if usual.get("type") in ("local", "remote", "stdio"):
        del usual["type"]
    if "transport" in usual and "type" not in usual and usual["transport"] != "stdio":
        usual["type"] = usual["transport"]
    entry = {
        key: usual[key]
        for key in _KEPT
        if usual.get(key) is not None and usual[key] not in ({}, [])
    }
    variables: list[str] = []

    def convert(text: str) -> str:
        def from_input(found: re.Match[str]) -> str:
            variables.append(variable_name(found[1]))
            return f"${{env:{variables[-1]}}}"

        text = _INPUT.sub(from_input, text)
        return _OTHER_ENV.sub(lambda found: f"${{env:{found[1] or found[2]}}}", text)

    converted: dict[str, Any] = map_texts(entry, convert)
    return converted, tuple(dict.fromkeys(variables))


def _args(members: Mapping[str, Any]) -> list[Any]:
    found = members.get("args")
    return found if isinstance(found, list) else []


def entries_of_one_host(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a host that keeps them in a list, or under a key of its own."""
    from accord.client.configuration import MEMBERS
    from accord_tools.hosts.table import load_hosts

    for host in load_hosts().values():
        key = host.key[:1]
        is_own = host.container == "list" or not set(key) & set(MEMBERS)
        if key and is_own and key[0] in data:
            file = ConfigFile(
                host=host, scope="user", path=Path(), key=host.key, format=host.format
            )
            return {name: value for name, (_, value) in entries_in(data, file).items()}
    return {}


# -- server.json of the official registry
# Many published files do not fit their own schema: they are read leniently, and what does not fit
# is reported.


_NAME: Final = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
_TEMPLATE: Final = re.compile(r"\{([^{}$]+)\}")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])([A-Z])")
_TYPES: Final = ("npm", "pypi", "oci", "nuget", "mcpb")


def is_server_json(data: Mapping[str, Any]) -> bool:
    """Return whether a document is a `server.json`, or an answer of the registry."""
    if isinstance(data.get("servers"), list):
        return any(isinstance(each, Mapping) and "server" in each for each in data["servers"])
    inner = data.get("server")
    if isinstance(inner, Mapping) and "command" not in inner:
        return isinstance(inner.get("name"), str) and _has_offer(inner)
    return isinstance(data.get("name"), str) and _has_offer(data)


def _has_offer(data: Mapping[str, Any]) -> bool:
    return isinstance(data.get("packages"), list) or isinstance(data.get("remotes"), list)


def read_server_json(data: Mapping[str, Any], source: str) -> list[FoundServer]:
    """Return the servers of a `server.json`: one for each package, and for each remote."""
    if isinstance(data.get("servers"), list):
        found = [read_server_json(each, source) for each in data["servers"] if _is_table(each)]
        return [each for servers in found for each in servers]
    inner = data.get("server")
    return _RegistryReader(inner if isinstance(inner, Mapping) else data, source).servers()


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _get(table: Mapping[str, Any], name: str) -> Any:
    """Return a member; files of before 2025-09 write it in snake case."""
    if name in table:
        return table[name]
    return table.get(_HUMP.sub(lambda found: f"_{found[1].lower()}", name))


def _tables(table: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = _get(table, name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


class _RegistryReader:
    def __init__(self, data: Mapping[str, Any], source: str) -> None:
        self._data = data
        self._source = source
        named = str(data.get("name") or "server")
        self._name = plain_name(named)
        self._common = list(self._faults(named))

    def _faults(self, named: str) -> Iterator[str]:
        if not _NAME.fullmatch(named):
            yield f"name {named!r} does not have the form namespace/name"
        version = self._data.get("version")
        if not isinstance(version, str) or version == "latest" or re.match(r"[\^~<>=]", version):
            yield "version is missing or not exact"
        text = self._data.get("description")
        if not isinstance(text, str) or not 1 <= len(text) <= 100:
            yield "description is missing or longer than 100 characters"

    def servers(self) -> list[FoundServer]:
        packages, remotes = _tables(self._data, "packages"), _tables(self._data, "remotes")
        found = [self._package(each, is_one=len(packages) == 1) for each in packages]
        is_one = len(packages) + len(remotes) == 1
        found += [self._remote(each, is_one=is_one) for each in remotes]
        return found

    def _make(
        self, name: str, entry: Mapping[str, Any], needs: list[str], remarks: list[str]
    ) -> FoundServer:
        needed = list(dict.fromkeys(needs))
        return FoundServer(
            name=name,
            entry=entry,
            source=self._source,
            settings={"needs": needed} if needed else {},
            remarks=(*self._common, *remarks),
            variables=tuple(needed),
        )

    # -- packages

    def _package(self, package: Mapping[str, Any], *, is_one: bool) -> FoundServer:
        kind = str(_get(package, "registryType") or _get(package, "registryName") or "")
        name = self._name if is_one or not kind else f"{self._name}-{plain_name(kind)}"
        needs: list[str] = []
        remarks: list[str] = []
        transport = package.get("transport")
        spoken = transport.get("type") if isinstance(transport, Mapping) else "stdio"
        if kind not in _TYPES:
            remarks.append(f"registryType {kind!r} is not known")
        if kind == "mcpb":
            remarks.append("a bundle: unpack it and take command and args from its manifest.json")
        if spoken not in (None, "stdio"):
            remarks.append(
                f"it speaks {spoken} once it is launched: launch it, and write its url instead"
            )
        before = self._words(_tables(package, "runtimeArguments"), needs, is_runtime=True)
        after = self._words(_tables(package, "packageArguments"), needs, is_runtime=False)
        env = self._env(_tables(package, "environmentVariables"), needs)
        command, args = _launch_line(kind, package, before, after, list(env))
        entry: dict[str, Any] = {"command": command, "args": args}
        if env:
            entry["env"] = env
        return self._make(name, entry, needs, remarks)

    def _words(
        self, arguments: list[Mapping[str, Any]], needs: list[str], *, is_runtime: bool
    ) -> list[str]:
        words: list[str] = []
        for each in arguments:
            label = str(each.get("name") or _get(each, "valueHint") or "argument")
            is_named = each.get("type") == "named"
            value = self._value(each, label, needs, is_own=False)
            if value is not None:
                words += [label, value] if is_named else [value]
            elif is_named and (is_runtime or _get(each, "isRequired") is True):
                words.append(label)
        return words

    def _env(self, variables: list[Mapping[str, Any]], needs: list[str]) -> dict[str, str]:
        env = {}
        for each in variables:
            name = each.get("name")
            if isinstance(name, str) and name:
                value = self._value(each, name, needs, is_own=True)
                if value is not None:
                    env[name] = value
        return env

    # -- remotes

    def _remote(self, remote: Mapping[str, Any], *, is_one: bool) -> FoundServer:
        needs: list[str] = []
        kind = str(remote.get("type") or _get(remote, "transportType") or "streamable-http")
        variables = remote.get("variables")
        inputs = variables if isinstance(variables, Mapping) else {}
        url = self._fill(str(remote.get("url", "")), inputs, needs)
        entry: dict[str, Any] = {"type": "sse" if kind == "sse" else "http", "url": url}
        headers = {}
        for each in _tables(remote, "headers"):
            name = each.get("name")
            if isinstance(name, str) and name:
                value = self._value(each, name, needs, is_own=False)
                if value is not None:
                    headers[name] = value
        if headers:
            entry["headers"] = headers
        remarks = [] if kind in ("streamable-http", "sse") else [f"type {kind!r} is not known"]
        name = self._name if is_one else f"{self._name}-{'sse' if kind == 'sse' else 'remote'}"
        return self._make(name, entry, needs, remarks)

    # -- inputs

    def _value(
        self, given: Mapping[str, Any], label: str, needs: list[str], *, is_own: bool
    ) -> str | None:
        """Return the value of an input, a placeholder for it, or None if it can be left out.

        Args:
            given: the input.
            label: what it is called.
            needs: the variables without which the server cannot run; added to.
            is_own: whether it is a variable itself, so that the placeholder has its name.
        """
        value = given.get("value")
        is_secret = _get(given, "isSecret") is True
        inputs = given.get("variables")
        if value is not None and not is_secret:
            return self._fill(str(value), inputs if isinstance(inputs, Mapping) else {}, needs)
        if value is not None and _TEMPLATE.search(str(value)):
            return self._fill(str(value), inputs if isinstance(inputs, Mapping) else {}, needs)
        default = given.get("default")
        if default is not None and not is_secret:
            return _as_text(default)
        if _get(given, "isRequired") is True or value is not None:
            return self._ask(label, needs, is_own=is_own)
        return None

    def _ask(self, label: str, needs: list[str], *, is_own: bool) -> str:
        variable = variable_name(label) if is_own else variable_name(self._name, label)
        needs.append(variable)
        return f"${{env:{variable}}}"

    def _fill(self, text: str, inputs: Mapping[str, Any], needs: list[str]) -> str:
        """Fill in a template, with placeholders for what only the user knows."""

        def fill(found: re.Match[str]) -> str:
            given = inputs.get(found[1])
            given = given if isinstance(given, Mapping) else {}
            known = given.get("value", given.get("default"))
            is_secret = _get(given, "isSecret") is True or names_secret(found[1])
            if known is not None and not is_secret:
                return _as_text(known)
            return self._ask(found[1], needs, is_own=False)

        return _TEMPLATE.sub(fill, text)


def _as_text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _launch_line(
    kind: str, package: Mapping[str, Any], before: list[str], after: list[str], env: list[str]
) -> tuple[str, list[str]]:
    """Return the program and the arguments that launch a package."""
    identifier = str(package.get("identifier") or package.get("name") or "")
    version = package.get("version")
    exact = version if isinstance(version, str) and version not in ("", "latest") else ""
    hint = _get(package, "runtimeHint")
    program = {"npm": "npx", "pypi": "uvx", "oci": "docker", "nuget": "dnx"}.get(kind, "")
    command = hint if isinstance(hint, str) and hint else program or identifier
    if kind == "npm":
        yes = [] if command != "npx" or {"-y", "--yes"} & set(before) else ["-y"]
        return command, [*yes, *before, f"{identifier}@{exact}" if exact else identifier, *after]
    if kind == "pypi":
        return command, [*before, f"{identifier}=={exact}" if exact else identifier, *after]
    if kind == "oci":
        usual = [each for each in ("run", "-i", "--rm") if each not in before]
        variables = [word for name in env for word in ("-e", name) if name not in before]
        is_pinned = "@" in identifier or ":" in identifier.rpartition("/")[2]
        image = f"{identifier}:{exact}" if exact and not is_pinned else identifier
        return command, [*usual, *variables, *before, image, *after]
    if kind == "nuget":
        yes = [] if "--yes" in before else ["--yes"]
        words = [f"{identifier}@{exact}" if exact else identifier, *yes, *before]
        return command, [*words, "--", *after] if after else words
    return command, [*before, *([identifier] if command != identifier else []), *after]
