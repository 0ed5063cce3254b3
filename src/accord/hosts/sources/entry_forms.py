"""Entries as some hosts write them, brought to the usual members."""

import re
from collections.abc import Mapping
from typing import Any, Final

from accord.client.server_entry import URL_MEMBERS
from accord.hosts.entries.literals import variable_name
from accord.hosts.sources.found_server import map_texts

# Members that say how a server is reached; others are settings of one host.
_KEPT: Final = ("command", "args", "env", "envFile", "cwd", "url", "headers", "type", "auth")
_INPUT: Final = re.compile(r"\$\{input:([^${}]*)\}")
_OTHER_ENV: Final = re.compile(r"(?<!\$)\{env:([A-Za-z_]\w*)\}|\$\{\{\s*secrets\.(\w+)\s*\}\}")
_RENAMED: Final = {"cmd": "command", "uri": "url", "envs": "env", "http_headers": "headers"}
_NAMED_VARIABLES: Final = ("env_vars", "env_keys")


def normalize_entry(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with `command`, `args`, `env`, `url` and `headers`, whatever its host.

    Codex names variables for headers and tokens, Goose has other words for the same members.
    """
    found = dict(members)
    for name, usual in _RENAMED.items():
        if name in found and usual not in found:
            found[usual] = found.pop(name)
    for name in _NAMED_VARIABLES:
        listed = found.pop(name, None)
        if isinstance(listed, list) and isinstance(found.get("env", {}), Mapping):
            given = {each: f"${{env:{each}}}" for each in listed if isinstance(each, str)}
            found["env"] = {**given, **found.get("env", {})}
    headers = found.get("headers", {})
    more: dict[str, str] = {}
    by_variable = found.pop("env_http_headers", None)
    if isinstance(by_variable, Mapping):
        more |= {str(name): f"${{env:{each}}}" for name, each in by_variable.items()}
    token = found.pop("bearer_token_env_var", None)
    if isinstance(token, str):
        more["Authorization"] = f"Bearer ${{env:{token}}}"
    if more and isinstance(headers, Mapping):
        found["headers"] = {**headers, **more}
    return found


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
