"""Facts about a target that several parts need: how to reach it again, and its secrets.

A text for other programs has `${env:NAME}` in place of each secret, never the value.
"""

import os
import re
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.http.client.auth import Bearer
from accord.protocol.revisions import REVISIONS, find_revision
from accord.secrets.filter import HIDDEN, find_given
from accord.secrets.recognition import names_secret
from accord.stdio.client import environment
from accord.types import RevisionId
from accord_tools.check.probing.target import ServerTarget
from accord_tools.hosts.entries.literals import find_literals, replace_literal, variable_name
from accord_tools.inspector.definition import InspectTarget

if TYPE_CHECKING:
    from accord_tools.inspector.live.live_connection import LiveConnection
    from accord_tools.inspector.session import InspectedSession


# A shorter text stands in other texts by chance.
_SHORTEST: Final = 6
# Rounds of looking for secrets: a URL shows one after another.
_ROUNDS: Final = 20
_QUERY_PAIR: Final = re.compile(r"([?&])([^=&#]+)=([^&#]*)")
_PLACEHOLDER: Final = re.compile(r"\$\{env:[A-Za-z_]\w*\}")
# What these headers say is not secret.
_HARMLESS: Final = frozenset({"accept", "accept-language", "content-type", "origin", "user-agent"})
TOKEN_VARIABLE: Final = "TOKEN"  # noqa: S105  # the name of a variable
"""The variable that exported commands read the bearer token from."""


# -- reaching it again


def launch_environment(target: InspectTarget) -> dict[str, str]:
    """Return all variables that a launched server sees."""
    return environment(os.environ if target.env is None else target.env)


def server_target(target: InspectTarget) -> ServerTarget:
    """Return a target as the checks take it."""
    return ServerTarget(
        name=target.title,
        command=tuple(target.command),
        url=target.url,
        form=target.transport,
        headers=dict(target.headers),
        # The same variables as the connection of the page.
        env=launch_environment(target),
        inherits=False,
        cwd=target.cwd,
    )


def _link(session: "InspectedSession") -> "LiveConnection | None":
    if session.kind != "live":
        return None
    from accord_tools.inspector.live.live_connection import LiveConnection

    return session.part(LiveConnection)


def current_target(session: "InspectedSession") -> InspectTarget:
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


class SafeTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A target without secrets: `${env:NAME}` stands for each.

    Attributes:
        command: launches it.
        url: where it is.
        headers: of every request, without the one for the token.
        env: names of the variables that the user gave for it.
        cwd: the folder it runs in.
        has_token: whether requests carry a bearer token of the user.
        has_sign_in: whether a token is obtained by signing in.
        shown: how a command line names it: a URL, a file or module; empty for a command.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    headers: Mapping[str, str] = {}
    env: tuple[str, ...] = ()
    cwd: str | None = None
    has_token: bool = False
    has_sign_in: bool = False
    shown: str = ""


def make_safe(target: InspectTarget) -> SafeTarget:
    """Return a target with a placeholder in place of each secret."""
    command = _replace_secrets({"command": list(target.command)})["command"]
    headers = {name.lower(): value for name, value in target.headers.items()}
    authorization = headers.pop("authorization", "")
    is_named = not target.url and target.shown and not target.shown.startswith("-")
    return SafeTarget(
        command=tuple(command),
        url=_safe_url(target.url),
        headers={
            name: value if name in _HARMLESS else f"${{env:{variable_name(name)}}}"
            for name, value in headers.items()
        },
        env=given_variables(target),
        cwd=target.cwd,
        has_token=bool(authorization) or isinstance(target.auth, str | Bearer),
        has_sign_in=target.auth is not None and not isinstance(target.auth, str | Bearer),
        shown=target.shown if is_named else "",
    )


def mask_command(command: Sequence[str]) -> list[str]:
    """Return the words of a command as a person may see them, with a mask for each secret.

    >>> mask_command(["srv", "--api-key", "abc123xyz", "--port=1", "--token=s3cret99"])
    ['srv', '--api-key', 'masked-0', '--port=1', '--token=masked-0']
    """
    words: list[str] = _replace_secrets({"command": list(command)})["command"]
    return [
        _PLACEHOLDER.sub(HIDDEN, word) if word != given else word
        for given, word in zip(command, words, strict=True)
    ]


def given_variables(target: InspectTarget) -> tuple[str, ...]:
    """Return the names of the variables that the user gave for a launched server."""
    given = target.env or {}
    return tuple(name for name, value in given.items() if os.environ.get(name) != value)


def _replace_secrets(entry: dict[str, Any]) -> dict[str, Any]:
    for _ in range(_ROUNDS):
        found = list(find_literals("server", entry))
        if not found:
            break
        for literal in found:
            entry = replace_literal(entry, literal)
    return entry


def _safe_url(url: str) -> str:
    safe: str = _replace_secrets({"url": url})["url"] if url else ""

    def replace(found: re.Match[str]) -> str:
        sign, name, value = found.groups()
        if value.startswith("${env:") or (len(value) < _SHORTEST and not names_secret(name)):
            return found[0]
        return f"{sign}{name}=${{env:{variable_name('url', name)}}}"

    base, mark, fragment = safe.partition("#")
    return f"{_QUERY_PAIR.sub(replace, base)}{mark}{fragment}"


def find_secrets(target: InspectTarget) -> tuple[str, ...]:
    """Return the credentials that the user gave for a target, the longest first."""
    found: list[str] = []
    if isinstance(target.auth, Bearer):
        found.append(_token_of(target.auth))
    elif isinstance(target.auth, str) and target.auth != "oauth":
        found.append(target.auth)
    env = os.environ if target.env is None else target.env
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


def placeholder_names(safe: SafeTarget) -> list[str]:
    """Return the variables that have to be set before an exported text works."""
    texts = [safe.url, *safe.command, *safe.headers.values()]
    found = dict.fromkeys(name for text in texts for name in _NAMED_PLACEHOLDER.findall(text))
    if safe.has_token:
        found[TOKEN_VARIABLE] = None
    return [*found, *(name for name in safe.env if name not in found)]


def connection_options(safe: SafeTarget, revision: str = "") -> list[str]:
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
    if safe.has_token:
        words += ["--bearer", f'"${TOKEN_VARIABLE}"']
    elif safe.has_sign_in:
        words.append("--oauth")
    return words


def target_word(safe: SafeTarget) -> str:
    """Return the target of a command line; empty for a command, which stands after `--`."""
    return quote_for_shell(safe.url) if safe.url else quote(safe.shown) if safe.shown else ""


def command_end(safe: SafeTarget) -> str:
    """Return `--` and the command, for a target that is one."""
    if target_word(safe):
        return ""
    return " -- " + " ".join(map(quote_for_shell, safe.command))


def check_words(safe: SafeTarget) -> tuple[str, str]:
    """Return the command line of a check, up to where options go, and what follows them."""
    words = ["accord check server", target_word(safe), *connection_options(safe)]
    return " ".join(filter(None, words)), command_end(safe)
