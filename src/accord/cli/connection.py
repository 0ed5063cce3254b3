"""The connection of a command to a server: options, authorization, errors."""

import argparse
import os
import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from accord.cli.options import (
    CREDENTIALS,
    CWD,
    ENTRY,
    ENV,
    TARGET,
    UsageError,
    bearer_token,
    known_revision,
    one_of,
)
from accord.cli.target import read_target
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
from accord.types import REVISION_IDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from accord.auth import OAuth
    from accord.client import Client, ConnectOptions
    from accord.client.server_spec import ServerSpec
    from accord.http.client.auth import Auth
    from accord.stdio.child import StderrSink


_STDERR_SHOWN: Final = 15
_SECRET: Final = "ACCORD_CLIENT_SECRET"  # noqa: S105  # the name of a variable
_Grant: TypeAlias = Literal["authorization_code", "client_credentials", "device"]
_GRANT_VALUES: Final[dict[str, _Grant]] = {
    "authorization-code": "authorization_code",
    "client-credentials": "client_credentials",
    "device": "device",
}
_GRANTS: Final = tuple(_GRANT_VALUES)


def auth_options(then: str = "and keep it") -> str:
    """Return the options for headers, tokens and OAuth; `then` says what happens to a token."""
    return f"""\
authorization:
{CREDENTIALS}
--oauth             obtain a token as the server asks for it, {then}
--client-id ID      with --oauth: a client that was registered by hand; {_SECRET}
                    may hold its secret
--issuer URL        with --oauth: the only authorization server to trust; required with a secret
--redirect-uri URI  with --oauth: the redirect URI of that client, on this machine
--assume-pkce       with --oauth: use PKCE although the metadata of the authorization server does
                    not mention it
--scope S           with --oauth: a scope to ask for; may be repeated
--grant G           with --oauth: {", ".join(_GRANTS)} (default: {_GRANTS[0]})
"""


_TIMES: Final = "seconds to wait for the server to start, and for each answer (default: 30 and 60)"


def target_options(
    target: str = TARGET,
    *,
    entry: str = ENTRY,
    timeout: str = _TIMES,
    revision: bool = True,
    auth: str | None = None,
) -> str:
    """Return the options of a command that takes a TARGET: which server, and how it is reached.

    Args:
        target: the arguments, where they are not one TARGET.
        entry: the options for entries of configurations.
        timeout: what `--timeout` means; empty without it.
        revision: whether one revision can be chosen.
        auth: the options for headers and tokens, where they are not the usual ones.
    """
    lines = [target.strip(), "connection:", entry.strip(), ENV.strip(), CWD.strip()]
    lines += [f"--timeout S   {timeout}"] if timeout else []
    lines += [f"--revision R  the revision to speak: {', '.join(REVISION_IDS)}"] if revision else []
    return "\n".join([*lines, auth_options() if auth is None else auth])


def auth_of(options: argparse.Namespace) -> "Auth | None":
    """Return the `auth` of `connect` that the command line asks for."""
    if options.bearer is not None and options.oauth:
        raise UsageError("either --bearer or --oauth, not both")
    if options.oauth:
        return oauth_of(options)
    for name in ("client_id", "issuer", "redirect_uri", "assume_pkce", "scope", "grant"):
        if getattr(options, name) not in (None, [], False):
            raise UsageError(f"--{name.replace('_', '-')} needs --oauth")
    token = bearer_token(options)
    if token is None:
        return None
    from accord.http.client.auth import Bearer

    try:
        return Bearer(token)
    except ValueError as error:
        raise UsageError(f"--bearer: {error}") from None


def oauth_of(
    options: argparse.Namespace, *, name: str = "accord command line", is_kept: bool = True
) -> "OAuth":
    """Return the `OAuth` that the command line asks for.

    `name` is what the user is asked to consent to; `is_kept` whether tokens are stored and reused.
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
            # Not an option: every user of this machine can read the arguments of a process.
            client_secret=os.environ.get(_SECRET) if options.client_id else None,
            issuer=options.issuer,
            redirect_uri=options.redirect_uri,
            pkce="assume" if options.assume_pkce else "require",
            scopes=options.scope or None,
            grant=_GRANT_VALUES[grant],
        )
    except ValueError as error:
        raise UsageError(f"--oauth: {advise_in_options(str(error))}") from None


class KeptLines:
    """The last lines that the server printed to stderr, kept until they are shown.

    Once `is_live` is set, further lines are shown at once.
    """

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


def run_with_client(
    options: argparse.Namespace,
    work: "Callable[[Client], Awaitable[int]]",
    *,
    shows_stderr: bool = False,
    **callbacks: Any,
) -> int:
    """Connect to the target, do the work, and return the exit code.

    Args:
        options: the parsed command line, with the options of `TARGET` and `CONNECTION`.
        work: called with the client; returns the exit code.
        shows_stderr: whether the server's stderr is shown even if nothing fails.
        callbacks: for `connect`.
    """
    import asyncio

    async def connect_and_work(found: Any, settings: "ConnectOptions") -> int:
        from accord.client import connect

        try:
            connecting = connect(found, **settings)
        except ValueError as error:
            raise UsageError(str(error)) from None
        async with connecting as client:
            stderr = settings["stderr"]
            if shows_stderr and isinstance(stderr, KeptLines):
                stderr.show()
                stderr.is_live = True
            return await work(client)

    def run(found: Any, settings: "ConnectOptions") -> int:
        return asyncio.run(connect_and_work(found, settings))

    return run_with_target(options, run, **callbacks)


def run_with_target(
    options: argparse.Namespace, run: "Callable[[Any, ConnectOptions], int]", **callbacks: Any
) -> int:
    """Find out how to reach the target, call `run` with the arguments of `connect`, report errors.

    The other arguments are those of `run_with_client`.
    """
    stderr = KeptLines()
    spec = connect_spec(options, read_target(options))
    settings: ConnectOptions = {**connect_options(spec, stderr), **callbacks}  # type: ignore[typeddict-item]  # by their names there
    try:
        return run(spec.target, settings)
    except ConnectFailed as error:
        stderr.is_live = False
        return report_unreachable(error, stderr)
    except (Unauthorized, FlowFailed) as error:
        complain(advise_in_options(str(error)))
        return 2
    except Forbidden as error:
        complain(str(error))
        return 1
    except (ConnectionClosed, RemoteProtocolError, RequestError) as error:
        complain(str(error))
        stderr.show()
        return 2 if isinstance(error, ConnectionClosed) else 1


def connect_spec(options: argparse.Namespace, spec: "ServerSpec") -> "ServerSpec":
    """Return a server with the options of the connection: authorization, revision and times."""
    from msgspec.structs import replace

    if options.cwd is not None and not os.path.isdir(options.cwd):
        raise UsageError(f"--cwd: there is no folder {options.cwd}")
    chosen: dict[str, Any] = {"auth": auth_of(options)}
    if options.revision is not None:
        chosen["revision"] = known_revision(options.revision)
    if options.timeout is not None:
        chosen["timeout"] = chosen["connect_timeout"] = options.timeout
    return replace(spec, **{name: each for name, each in chosen.items() if each is not None})


def connect_options(spec: "ServerSpec", stderr: "StderrSink") -> "ConnectOptions":
    """Return the options of `connect` for a server that a command reaches."""
    # Users expect that a command typed in a shell sees the shell's variables.
    return {**spec.options, "env": spec.environment, "stderr": stderr}


def report_unreachable(error: ConnectFailed, stderr: KeptLines) -> int:
    """Print why a server could not be reached, and what it printed; return the exit code."""
    said = error.stderr.splitlines()
    if error.exit_code == 2 and said and said[-1].startswith("accord: "):
        # `accord run` has named the cause already.
        note(said[-1])
        return 2
    cause, quotes, quoted = str(error).partition("; it said: ")
    complain(cause if said else f"{cause}{quotes}{quoted}")
    stderr.kept = deque(stderr.kept or said, maxlen=_STDERR_SHOWN)
    stderr.show()
    return 2


# -- error messages of the library, with options instead of parameters

# Advice with Python parameters, and the same with options; the longest first.
_REPLACEMENTS: Final = tuple(
    (re.compile(advice), typed)
    for advice, typed in (
        (
            r'pass auth="oauth" to obtain a token, or auth="\.\.\." with one',
            "add --oauth to obtain a token, or --bearer TOKEN",
        ),
        (r'pass auth="\.\.\." with a token;', "give a token with --bearer TOKEN;"),
        (
            r"pass OAuth\(client_id=\.\.\.\), with redirect URI (\S+), and OAuth\(redirect_.*\)",
            r"name it: --client-id ID --redirect-uri \1",
        ),
        (r"pass OAuth\(client_id=\.\.\.\)", "name it: --client-id ID"),
        (r"another redirect_port or redirect_uri", "another --redirect-uri"),
        (r"^redirect_uri is (.*), and no redirect_port beside it$", r"--redirect-uri is \1"),
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
        (r"pass OAuth\(pkce='assume'\)", "add --assume-pkce"),
        (r"OAuth\(scopes=\[\.\.\.\]\)", "--scope S"),
        (r'auth="\.\.\."', "--bearer TOKEN"),
        (r", or allow more time with OAuth\(timeout=\.\.\.\)", ""),
        (
            r"pass OAuth\(store=FileStore\(path\)\) with .*, or OAuth\(store=MemoryStore\(\)\)",
            "make it writable, or give a token with --bearer TOKEN",
        ),
        (
            r"keep tokens where files can be locked: OAuth\(store=FileStore\(path\)\)",
            "give a token with --bearer TOKEN: files cannot be locked there",
        ),
        (
            r"HttpClientOptions\(verify=\.\.\.\) sets which certificates are trusted",
            "the variable SSL_CERT_FILE may name a file with certificates to trust",
        ),
        (r"\bin trust=\[\.\.\.\]", "in OAuth(trust=[...])"),
    )
)
# Calls that have no option; they may contain another call.
_PYTHON_CALL: Final = re.compile(r"\b(?:OAuth|ClientKey)\((?:[^()]|\([^()]*\))*\)")


def advise_in_options(text: str) -> str:
    """Replace the parameters in an error message by options of the command line.

    Parameters without an option are marked "in a program".

    >>> advise_in_options("ask for other scopes with OAuth(scopes=[...])")
    'ask for other scopes with --scope S'
    """
    for advice, typed in _REPLACEMENTS:
        text = advice.sub(typed, text)
    return _PYTHON_CALL.sub(r"\g<0> in a program", text)
