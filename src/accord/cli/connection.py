"""A connection to a server for the length of one command."""

import argparse
import os
import re
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from accord.cli.options import (
    UsageError,
    add_bearer,
    add_env,
    add_header,
    given_token,
    one_of,
    seconds,
    spoken_revision,
    spoken_revisions,
)
from accord.cli.target import command_of
from accord.cli.terminal import complain, note
from accord.errors import (
    ConnectFailed,
    ConnectionClosed,
    FlowFailed,
    Forbidden,
    MissingExtra,
    RemoteProtocolError,
    RequestError,
    Unauthorized,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from accord.auth import OAuth
    from accord.client import Client, ConnectOptions
    from accord.transports.http_authorization import Auth


_STDERR_SHOWN: Final = 15
_SECRET: Final = "ACCORD_CLIENT_SECRET"  # noqa: S105  # the name of a variable
_Grant: TypeAlias = Literal["authorization_code", "client_credentials", "device"]
_MEANT: Final[dict[str, _Grant]] = {
    "authorization-code": "authorization_code",
    "client-credentials": "client_credentials",
    "device": "device",
}
_GRANTS: Final = tuple(_MEANT)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what every command has that talks to a server."""
    add_env(parser, "server")
    parser.add_argument("--cwd", metavar="DIR", type=Path, help="the folder the server runs in")
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=seconds,
        help="seconds to wait for the server to start, and for each answer (default: 30 and 60)",
    )
    parser.add_argument(
        "--revision", metavar="R", help=f"the revision to speak: {', '.join(spoken_revisions())}"
    )
    add_auth_options(parser)


def add_auth_options(parser: argparse.ArgumentParser, then: str = "and keep it") -> None:
    """Add the options for headers, tokens and OAuth; `then` says what becomes of a token."""
    add_header(parser)
    add_bearer(parser)
    parser.add_argument(
        "--oauth",
        action="store_true",
        help=f"obtain a token as the server asks for it, {then}",
    )
    parser.add_argument(
        "--client-id",
        metavar="ID",
        help=f"with --oauth: a client that was registered by hand; {_SECRET} may hold its secret",
    )
    parser.add_argument(
        "--issuer",
        metavar="URL",
        help="with --oauth: the only authorization server to trust; required with a secret",
    )
    parser.add_argument(
        "--redirect-uri",
        metavar="URI",
        help="with --oauth: where on this machine that client is registered to be sent back to",
    )
    parser.add_argument(
        "--scope",
        metavar="S",
        action="append",
        help="with --oauth: a scope to ask for; may be repeated",
    )
    parser.add_argument(
        "--grant",
        metavar="G",
        help=f"with --oauth: {', '.join(_GRANTS)} (default: {_GRANTS[0]})",
    )


def auth_of(options: argparse.Namespace) -> "Auth | None":
    """Return what the command line says about authorization, for `connect`.

    Raises:
        UsageError: it contradicts itself, or names what does not exist.
    """
    if options.bearer is not None and options.oauth:
        raise UsageError("either --bearer or --oauth, not both")
    if options.oauth:
        return oauth_of(options)
    for name in ("client_id", "issuer", "redirect_uri", "scope", "grant"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name.replace('_', '-')} goes with --oauth")
    token = given_token(options)
    if token is None:
        return None
    from accord.transports.http_authorization import Bearer

    try:
        return Bearer(token)
    except ValueError as error:
        raise UsageError(f"--bearer: {error}") from None


def oauth_of(
    options: argparse.Namespace, *, name: str = "accord command line", is_kept: bool = True
) -> "OAuth":
    """Return how a token is obtained, as the command line says.

    Args:
        options: the parsed command line, with what `add_auth_options` added.
        name: what a person reads when asked for consent.
        is_kept: whether tokens outlive this process, and earlier ones are used.
    """
    try:
        from accord.auth import MemoryStore, OAuth
    except ImportError:
        raise MissingExtra("auth", needed_for="obtaining a token") from None
    grant = one_of(options.grant or _GRANTS[0], _GRANTS, "grant")
    try:
        return OAuth(
            client_name=name,
            store=None if is_kept else MemoryStore(),
            client_id=options.client_id,
            # Never an argument: every user of this machine can read those.
            client_secret=os.environ.get(_SECRET) if options.client_id else None,
            issuer=options.issuer,
            redirect_uri=options.redirect_uri,
            scopes=options.scope,
            grant=_MEANT[grant],
        )
    except ValueError as error:
        raise UsageError(f"--oauth: {in_options(str(error))}") from None


class _Stderr:
    """What the server prints to stderr, kept until it is shown."""

    def __init__(self) -> None:
        self.kept: deque[str] = deque(maxlen=_STDERR_SHOWN)
        self.is_live = False

    def __call__(self, line: str) -> None:
        if self.is_live:
            note(line)
        else:
            self.kept.append(line)

    def show(self) -> None:
        while self.kept:
            note(self.kept.popleft())


def talk(
    options: argparse.Namespace,
    target: str,
    following: list[str],
    work: "Callable[[Client], Awaitable[int]]",
    *,
    shows_stderr: bool = False,
    **callbacks: Any,
) -> int:
    """Connect to the target, do the work, and return the exit code.

    Args:
        options: the parsed command line, with what `add_options` added.
        target: what was named; empty where a command stands after `--`.
        following: the words after it, for advice.
        work: what to do; returns the exit code.
        shows_stderr: whether what the server says on stderr is shown although all is well.
        callbacks: for `connect`.
    """
    import asyncio

    def run(found: Any, settings: "ConnectOptions") -> int:
        return asyncio.run(_talk(found, settings, work, shows_stderr=shows_stderr))

    return reach(options, target, following, run, **callbacks)


def reach(
    options: argparse.Namespace,
    target: str,
    following: list[str],
    run: "Callable[[Any, ConnectOptions], int]",
    **callbacks: Any,
) -> int:
    """Find out how the target is reached, hand that over, and complain where it cannot be.

    Args:
        options: the parsed command line, with what `add_options` added.
        target: what was named; empty where a command stands after `--`.
        following: the words after it, for advice.
        run: takes what `connect` takes; returns the exit code.
        callbacks: for `connect`.
    """
    stderr = _Stderr()
    found = command_of(target, following, options.command)
    settings = _settings(options, stderr, callbacks)
    try:
        return run(found, settings)
    except ConnectFailed as error:
        stderr.is_live = False
        return _unreachable(error, stderr, is_ours=found is not options.command)
    except (Unauthorized, FlowFailed) as error:
        complain(in_options(str(error)))
        return 2
    except Forbidden as error:
        complain(str(error))
        return 1
    except (ConnectionClosed, RemoteProtocolError, RequestError) as error:
        complain(str(error))
        stderr.show()
        return 2 if isinstance(error, ConnectionClosed) else 1


async def _talk(
    target: Any,
    settings: "ConnectOptions",
    work: "Callable[[Client], Awaitable[int]]",
    *,
    shows_stderr: bool,
) -> int:
    from accord.client import connect

    try:
        connecting = connect(target, **settings)
    except ValueError as error:
        raise UsageError(str(error)) from None
    async with connecting as client:
        stderr = settings["stderr"]
        if shows_stderr and isinstance(stderr, _Stderr):
            stderr.show()
            stderr.is_live = True
        return await work(client)


def _settings(
    options: argparse.Namespace, stderr: _Stderr, callbacks: dict[str, Any]
) -> "ConnectOptions":
    if options.cwd is not None and not options.cwd.is_dir():
        raise UsageError(f"--cwd: there is no folder {options.cwd}")
    settings: ConnectOptions = {
        # A command typed in a shell is expected to see the shell's variables.
        "env": {**os.environ, **dict(options.env)},
        "cwd": options.cwd,
        "stderr": stderr,
        **callbacks,  # type: ignore[typeddict-item]  # callbacks of ours, by their names there
    }
    if options.revision is not None:
        settings["revision"] = spoken_revision(options.revision)
    auth = auth_of(options)
    if auth is not None:
        settings["auth"] = auth
    if options.header:
        settings["headers"] = dict(options.header)
    if options.timeout is not None:
        settings["timeout"] = settings["connect_timeout"] = options.timeout
    return settings


def _unreachable(error: ConnectFailed, stderr: _Stderr, *, is_ours: bool) -> int:
    said = error.stderr.splitlines()
    if is_ours and error.exit_code == 2 and said and said[-1].startswith("accord: "):
        # `accord run` has named the cause already.
        note(said[-1])
        return 2
    cause, quotes, quoted = str(error).partition("; it said: ")
    complain(cause if said else f"{cause}{quotes}{quoted}")
    stderr.kept = deque(stderr.kept or said, maxlen=_STDERR_SHOWN)
    stderr.show()
    return 2


# -- advice of the library, in the options of the command line

# From parameters in Python to options in a shell, the longest first.
_WORDS: Final = tuple(
    (re.compile(advice), typed)
    for advice, typed in (
        (
            r'pass auth="oauth" to obtain a token, or auth="\.\.\." with one',
            "add --oauth to obtain a token, or --bearer TOKEN",
        ),
        (
            r"pass OAuth\(client_id=\.\.\.\), with redirect URI (\S+), and OAuth\(redirect_.*\)",
            r"name it: --client-id ID --redirect-uri \1",
        ),
        (r"pass OAuth\(client_id=\.\.\.\)", "name it: --client-id ID"),
        (r"another redirect_port or redirect_uri", "another --redirect-uri"),
        (
            r"^redirect_uri is (.*), and no redirect_port beside it$",
            r"--redirect-uri is \1",
        ),
        (
            r"OAuth\(grant='client_credentials'\) or 'device', pass open_browser=,",
            "--grant client-credentials or --grant device,",
        ),
        (r"OAuth\(grant='client_credentials'\)", "--grant client-credentials"),
        (
            r"^client_secret needs issuer=: add OAuth\(issuer='https://\.\.\.'\)",
            "the secret in ACCORD_CLIENT_SECRET needs --issuer URL",
        ),
        (r"OAuth\(issuer='([^']*)'\) trusts", r"--issuer \1 trusts"),
        (r"OAuth\(scopes=\[\.\.\.\]\)", "--scope S"),
        (r'auth="\.\.\."', "--bearer TOKEN"),
        (r", or allow more time with OAuth\(timeout=\.\.\.\)", ""),
        (
            r"pass OAuth\(store=FileStore\(path\)\) with .*, or OAuth\(store=MemoryStore\(\)\)",
            "let it be written, or give a token with --bearer TOKEN",
        ),
        (
            r"keep tokens where files can be locked: OAuth\(store=FileStore\(path\)\)",
            "give a token with --bearer TOKEN: files cannot be locked there",
        ),
        (r"\bin trust=\[\.\.\.\]", "in OAuth(trust=[...])"),
    )
)
# What is left has no option, and may have another call within.
_OF_PROGRAMS: Final = re.compile(r"\b(?:OAuth|ClientKey)\((?:[^()]|\([^()]*\))*\)")


def in_options(text: str) -> str:
    """Replace the parameters in an error message by options of the command line.

    What has no option is marked as something for a program.

    >>> in_options("ask for other scopes with OAuth(scopes=[...])")
    'ask for other scopes with --scope S'
    """
    for advice, typed in _WORDS:
        text = advice.sub(typed, text)
    return _OF_PROGRAMS.sub(r"\g<0> in a program", text)
