"""Links and commands with which a host installs a server itself; a secret is in neither."""

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from accord.client.server_spec import ServerSpec
from accord_tools.hosts.definition import Host, HostsError
from accord_tools.hosts.entries.literals import find_literals
from accord_tools.hosts.entries.placeholders import PLACEHOLDER, single_variable
from accord_tools.hosts.entries.shaping import ShapedEntry, check_name, to_host

# The programs that Goose takes in a link.
_GOOSE_PROGRAMS: Final = ("jbang", "npx", "uvx", "goosed", "docker")


def install_link(entry: ServerSpec, host: Host) -> str:
    """Return a link that opens the host and offers to install a server.

    Raises:
        HostsError: the host has no such links, a literal of the entry looks like a secret, or the
            link of the host cannot express the entry.
    """
    write = _LINKS.get(host.link)
    if write is None:
        raise HostsError(f"{host.name} has no links that install a server")
    _refuse_secrets(entry)
    return write(entry, host)


def install_command(entry: ServerSpec, host: Host) -> tuple[str, ...]:
    """Return the host's own command that adds a server for the user.

    Raises:
        HostsError: the host has no such command, or a literal of the entry looks like a secret:
            other users of the machine could read it in the list of processes.
    """
    if not host.command:
        raise HostsError(f"{host.name} has no command that adds a server")
    _refuse_secrets(entry)
    value = to_host(entry, host, scope="user").value
    filled = {
        "NAME": entry.name,
        "JSON": _compact(value),
        "NAMED_JSON": _compact({"name": entry.name, **value}),
    }
    return tuple(filled.get(word, word) for word in host.command.split())


def _refuse_secrets(entry: ServerSpec) -> None:
    members = {
        "command": list(entry.command),
        "env": dict(entry.env),
        "headers": dict(entry.headers),
        "url": entry.url,
    }
    found = next(find_literals(entry.name, members), None)
    if found is not None:
        raise HostsError(
            f"{found.label} of {entry.name!r} looks like a secret, and links and commands are kept "
            f"in histories: use ${{env:{found.variable}}} instead"
        )


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shape_for(entry: ServerSpec, host: Host) -> ShapedEntry:
    return to_host(msgspec.structs.replace(entry, extra={}), host, scope="user")


def _cursor_link(entry: ServerSpec, host: Host) -> str:
    return "cursor://anysphere.cursor-deeplink/mcp/install?" + _name_and_config(entry, host)


def _lm_studio_link(entry: ServerSpec, host: Host) -> str:
    return "lmstudio://add_mcp?" + _name_and_config(entry, host)


def _name_and_config(entry: ServerSpec, host: Host) -> str:
    text = _compact(_shape_for(entry, host).value).encode()
    config = base64.b64encode(text).decode("ascii")
    return urlencode({"name": entry.name, "config": config}, quote_via=quote)


def _vscode_link(entry: ServerSpec, host: Host) -> str:
    return f"vscode:mcp/install?{_named_json(entry, host)}"


def _insiders_link(entry: ServerSpec, host: Host) -> str:
    return f"vscode-insiders:mcp/install?{_named_json(entry, host)}"


def _visual_studio_link(entry: ServerSpec, host: Host) -> str:
    return f"https://vs-open.link/mcp-install?{_named_json(entry, host)}"


def _raycast_link(entry: ServerSpec, host: Host) -> str:
    return f"raycast://mcp/install?{quote(_compact(_shape_for(entry, host).value), safe='')}"


def _named_json(entry: ServerSpec, host: Host) -> str:
    shaped = _shape_for(entry, host)
    inputs = {"inputs": list(shaped.inputs)} if shaped.inputs else {}
    return quote(_compact({"name": entry.name, **shaped.value, **inputs}), safe="")


def _goose_link(entry: ServerSpec, host: Host) -> str:
    check_name(entry.name, host)
    pairs: list[tuple[str, str]] = []
    if entry.form == "stdio":
        pairs += _goose_command(entry)
    elif entry.form == "http":
        if entry.headers:
            raise HostsError("a link of Goose cannot have headers: write the entry into its file")
        pairs += [("url", entry.url), ("type", "streamable_http")]
    else:
        raise HostsError("Goose no longer takes URLs with HTTP+SSE")
    pairs += [("id", entry.name), ("name", entry.name), ("description", entry.name)]
    return f"goose://extension?{urlencode(pairs, quote_via=quote)}"


def _goose_command(entry: ServerSpec) -> list[tuple[str, str]]:
    """Return the parts of a command; Goose takes some programs only, by name."""
    if not entry.command:
        raise HostsError(f"the entry {entry.name!r} has no command")
    program = PurePosixPath(PureWindowsPath(entry.command[0]).name).name
    for end in (".exe", ".cmd"):
        program = program.removesuffix(end)
    if program not in _GOOSE_PROGRAMS:
        raise HostsError(
            f"a link of Goose takes the programs {', '.join(_GOOSE_PROGRAMS)} only, not "
            f"{program!r}: write the entry into its file"
        )
    if any(PLACEHOLDER.search(word) for word in entry.command):
        raise HostsError("a link of Goose cannot have variables in the command")
    pairs = [("cmd", program), *(("arg", word) for word in entry.command[1:])]
    for name, text in entry.env.items():
        if single_variable(text) != name:
            raise HostsError(
                f"a link of Goose can ask for {name}, but cannot set it: write the entry into "
                "its file"
            )
        pairs.append(("env", f"{name}={name}"))
    return pairs


_LINKS: Final[Mapping[str, Callable[[ServerSpec, Host], str]]] = {
    "cursor": _cursor_link,
    "vscode": _vscode_link,
    "vscode-insiders": _insiders_link,
    "visual-studio": _visual_studio_link,
    "lm-studio": _lm_studio_link,
    "goose": _goose_link,
    "raycast": _raycast_link,
}
