"""Facts about a target that several parts need: how to reach it again, and its secrets.

A text for other programs has `${env:NAME}` in place of each secret, never the value.
"""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

import msgspec

from accord.cli.target import RUN_WORDS, ServerPlace, locate
from accord.client.server_spec import ServerSpec
from accord.http.client.auth import Bearer
from accord.protocol.revisions import REVISIONS, find_revision
from accord.secrets.filter import find_given
from accord.secrets.recognition import names_secret
from accord.stdio.client import environment
from accord.types import RevisionId
from accord_tools.check.probing.target import ServerTarget
from accord_tools.hosts.entries.literals import replace_literals, variable_name

if TYPE_CHECKING:
    from accord_tools.inspector.live.live_connection import LiveConnection
    from accord_tools.inspector.session import InspectedSession


# A shorter text stands in other texts by chance.
_SHORTEST: Final = 6
_QUERY_PAIR: Final = re.compile(r"([?&])([^=&#]+)=([^&#]*)")
# What these headers say is not secret.
_HARMLESS: Final = frozenset({"accept", "accept-language", "content-type", "origin", "user-agent"})
TOKEN_VARIABLE: Final = "TOKEN"  # noqa: S105  # the name of a variable
"""The variable that exported commands read the bearer token from."""


# -- reaching it again


DEFAULT_TIMEOUT: Final = 60.0
DEFAULT_START: Final = 30.0


def launch_environment(target: ServerSpec) -> dict[str, str]:
    """Return all variables that a launched server sees."""
    return environment(target.environment)


def reload_folders(session: "InspectedSession") -> tuple[Path, ...]:
    """Return the folders in which a change launches the server of a session anew."""
    return code_folders(session.target) if session.options.reloads else ()


def code_folders(target: ServerSpec) -> tuple[Path, ...]:
    """Return the folders with the code of a server in Python.

    There are none for an installed package, and for an entry of a host.
    """
    if target.source:
        return ()
    if target.command[1:6] == RUN_WORDS:
        return _folders_of(locate(target.command[-1]))
    for word in target.command[1:]:
        file = Path(target.cwd or "", word)
        if file.suffix == ".py" and file.is_file():
            return _only_own([file.absolute().parent])
    return ()


def _folders_of(place: ServerPlace) -> tuple[Path, ...]:
    if place.file is not None:
        packages = place.module.count(".")
        return (place.file.absolute().parents[max(0, packages - 1)],)
    from importlib.machinery import PathFinder

    top = place.module.partition(".")[0]
    spec = PathFinder.find_spec(top, [os.getcwd(), *sys.path])
    if spec is None:
        return ()
    found = spec.submodule_search_locations or (os.path.dirname(spec.origin or ""),)
    return _only_own([Path(each).absolute() for each in found if each])


def _only_own(folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders that are not those of installed packages."""
    installed = ("site-packages", "dist-packages")
    return tuple(each for each in folders if not {*each.parts}.intersection(installed))


def server_target(target: ServerSpec) -> ServerTarget:
    """Return a target as the checks take it."""
    # The same variables as the connection of the page.
    env = launch_environment(target)
    return ServerTarget(spec=msgspec.structs.replace(target, env=env, inherits=False))


def _link(session: "InspectedSession") -> "LiveConnection | None":
    if session.kind != "live":
        return None
    from accord_tools.inspector.live.live_connection import LiveConnection

    return session.part(LiveConnection)


def current_target(session: "InspectedSession") -> ServerSpec:
    """Return the target of a session with the headers that a person added on the page."""
    link = _link(session)
    if link is None or not session.target.url:
        return session.target
    headers = {**session.target.headers, **dict(link.settings.headers)}
    return msgspec.structs.replace(session.target, headers=headers, auth=link.auth)


def spoken_revision(session: "InspectedSession") -> RevisionId:
    """Return the revision of the page's connection, the chosen one, or the newest."""
    link = _link(session)
    client = None if link is None else link.current
    chosen = session.target.revision if link is None else link.settings.revision
    row = find_revision(chosen if client is None else client.revision)
    return [*REVISIONS.values()][-1].id if row is None else row.id


async def request_credentials(session: "InspectedSession") -> dict[str, str]:
    """Return the header with the token that the page's connection uses; empty without one.

    Raises:
        AuthError: a token is needed and could not be obtained.
    """
    target = current_target(session)
    auth = target.auth
    if not target.url or auth is None or auth == "oauth":
        return {}
    giver = Bearer(auth) if isinstance(auth, str) else auth
    token = await giver.token(target.url)
    return {} if token is None else {"authorization": f"Bearer {token}"}


# -- secrets


def make_safe(target: ServerSpec) -> ServerSpec:
    """Return a target with a placeholder in place of each secret.

    Its `auth` is the placeholder of a token, or "oauth"; `shown` names a file or module.
    """
    command = replace_literals("server", {"command": list(target.command)})["command"]
    headers = {name.lower(): value for name, value in target.headers.items()}
    authorization = headers.pop("authorization", "")
    is_named = not target.url and target.shown and not target.shown.startswith("-")
    has_token = bool(authorization) or isinstance(target.auth, str | Bearer)
    return ServerSpec(
        name=target.name,
        command=tuple(command),
        url=_safe_url(target.url),
        transport=target.transport,
        headers={
            name: value if name in _HARMLESS else f"${{env:{variable_name(name)}}}"
            for name, value in headers.items()
        },
        env={name: f"${{env:{name}}}" for name in given_variables(target)},
        cwd=target.cwd,
        auth=f"${{env:{TOKEN_VARIABLE}}}" if has_token else "oauth" if target.auth else None,
        shown=target.shown if is_named else "",
    )


def has_token(safe: ServerSpec) -> bool:
    """Return whether requests to a safe target carry a bearer token of the user."""
    return safe.auth not in (None, "oauth")


def given_variables(target: ServerSpec) -> tuple[str, ...]:
    """Return the names of the variables that the user gave for a launched server."""
    return tuple(name for name, value in target.env.items() if os.environ.get(name) != value)


def _safe_url(url: str) -> str:
    safe: str = replace_literals("server", {"url": url})["url"] if url else ""

    def replace(found: re.Match[str]) -> str:
        sign, name, value = found.groups()
        if value.startswith("${env:") or (len(value) < _SHORTEST and not names_secret(name)):
            return found[0]
        return f"{sign}{name}=${{env:{variable_name('url', name)}}}"

    base, mark, fragment = safe.partition("#")
    return f"{_QUERY_PAIR.sub(replace, base)}{mark}{fragment}"


def find_secrets(target: ServerSpec) -> tuple[str, ...]:
    """Return the credentials that the user gave for a target, the longest first."""
    found: list[str] = []
    if isinstance(target.auth, Bearer):
        found.append(_token_of(target.auth))
    elif isinstance(target.auth, str) and target.auth != "oauth":
        found.append(target.auth)
    env = target.environment
    return find_given(
        found, headers=target.headers, env=env, url=target.url, command=target.command
    )


def _token_of(auth: Bearer) -> str:
    """Return the token of the user; it is there without waiting."""
    asking = auth.token("")
    try:
        asking.send(None)
    except StopIteration as done:
        return str(done.value or "")
    finally:
        asking.close()
    return ""


_NAMED_PLACEHOLDER: Final = re.compile(r"\$\{env:([A-Za-z_]\w*)\}")


def quote_for_shell(text: str) -> str:
    """Return a text as one word of a shell; placeholders become variables.

    >>> print(quote_for_shell("it's"), quote_for_shell("--key=${env:API_KEY}"))
    'it'"'"'s' --key="$API_KEY"
    """
    parts = _NAMED_PLACEHOLDER.split(text)
    words = [
        f'"${part}"' if number % 2 else (quote(part) if part else "")
        for number, part in enumerate(parts)
    ]
    return "".join(words) or "''"


def quote_for_python(text: str) -> str:
    """Return an expression of Python for a text; placeholders become `os.environ[...]`.

    >>> print(quote_for_python("Bearer ${env:TOKEN}"))
    "Bearer " + os.environ["TOKEN"]
    """
    parts = _NAMED_PLACEHOLDER.split(text)
    words = [
        f'os.environ["{part}"]' if number % 2 else _python_text(part)
        for number, part in enumerate(parts)
        if part or len(parts) == 1
    ]
    return " + ".join(words)


def _python_text(text: str) -> str:
    shown = repr(text)
    is_plain = shown[0] == "'" and '"' not in shown and "\\" not in shown
    return f'"{shown[1:-1]}"' if is_plain else shown


def has_placeholder(text: str) -> bool:
    """Return whether a text has a place for a secret."""
    return _NAMED_PLACEHOLDER.search(text) is not None


def placeholder_names(safe: ServerSpec) -> list[str]:
    """Return the variables that have to be set before an exported text works."""
    texts = [safe.url, *safe.command, *safe.headers.values()]
    found = dict.fromkeys(name for text in texts for name in _NAMED_PLACEHOLDER.findall(text))
    if has_token(safe):
        found[TOKEN_VARIABLE] = None
    return [*found, *(name for name in safe.env if name not in found)]


def connection_options(safe: ServerSpec, revision: str = "") -> list[str]:
    """Return the options of accord's commands that reach the same server in the same way."""
    words: list[str] = []
    if revision:
        words += ["--revision", revision]
    for name in safe.env:
        words += ["--env", quote_for_shell(f"{name}=${{env:{name}}}")]
    if safe.cwd:
        words += ["--cwd", quote(safe.cwd)]
    for name, value in safe.headers.items():
        words += ["--header", quote_for_shell(f"{name}: {value}")]
    if has_token(safe):
        words += ["--bearer", f'"${TOKEN_VARIABLE}"']
    elif safe.auth == "oauth":
        words.append("--oauth")
    return words


def target_word(safe: ServerSpec) -> str:
    """Return the target of a command line; empty for a command, which stands after `--`."""
    return quote_for_shell(safe.url) if safe.url else quote(safe.shown) if safe.shown else ""


def command_end(safe: ServerSpec) -> str:
    """Return `--` and the command, for a target that is one."""
    if target_word(safe):
        return ""
    return " -- " + " ".join(map(quote_for_shell, safe.command))


def check_words(safe: ServerSpec) -> tuple[str, str]:
    """Return the command line of a check, up to where options go, and what follows them."""
    words = ["accord check server", target_word(safe), *connection_options(safe)]
    return " ".join(filter(None, words)), command_end(safe)
