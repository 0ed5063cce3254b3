"""Entries as some hosts write them, brought to the usual members."""

from collections.abc import Mapping
from typing import Any, Final

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
