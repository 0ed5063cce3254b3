"""`server.json` of the official registry: its packages and remotes as entries of a fleet.

Many published files do not fit their own schema: they are read leniently, and what does not fit is
reported.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from accord_tools.hosts.entries.literals import names_secret, variable_name
from accord_tools.hosts.sources.found_server import FoundServer, plain_name

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
