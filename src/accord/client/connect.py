"""From a target to a connected client: find the transport, open it, agree on a revision."""

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Generator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard, Unpack

from accord.client.client import Client
from accord.client.link import Link
from accord.client.negotiation import (
    Negotiation,
    NothingInCommon,
    TargetKey,
    supported_revisions,
)
from accord.client.options import ClientSettings, ConnectOptions
from accord.errors import (
    AccordError,
    AuthError,
    ConnectFailed,
    ConnectionClosed,
    MethodNotFound,
    RegistrationError,
    RequestError,
    RequestTimeout,
    refuse_unknown,
)
from accord.http.client.auth import Auth, Authorizer, Bearer
from accord.http.client.sender import HttpClientOptions
from accord.protocol.revisions import HANDSHAKE, newest
from accord.runtime.wire import Wire
from accord.stdio.client import Process

if TYPE_CHECKING:
    from accord.http.client.wire import HttpWire

Target: TypeAlias = Sequence[str] | str | os.PathLike[str] | Any
"""A command as a list, a file with a server, a URL, or a server object."""

# Tokens are longer.
_LONGEST_TYPO: Final = 7
# A few lines of a terminal or a log; the whole stderr is an attribute of the error.
_MESSAGE: Final = 300


def connect(target: Target, **options: Unpack[ConnectOptions]) -> "Connecting":
    """Connect to a server.

    Use it as `async with connect(...) as client`, or as `client = await connect(...)` with
    `await client.close()` later, from any task. What is declared to the server follows from the
    callbacks given. Callbacks may be sync or async; one that fails is logged and breaks nothing.

    Args:
        target: a command as a list, a path to a Python file with a server, a URL, or a `Server`.
        **options: all by keyword.

            revision: the one revision to speak; revisions: those to choose from (default: all, the
            newest that the server speaks). client_info: our name and version.

            on_sample, on_elicit, on_elicit_url, roots: answer the server's requests.
            sampling_tools, sampling_context: whether on_sample handles tools and includeContext.
            on_log, on_progress, on_tools_changed, on_resources_changed, on_prompts_changed,
            on_resource_updated, on_elicitation_complete: called with its notifications.

            timeout (60 s): silence after which a request is cancelled; progress extends it.
            cap (3,600 s): how long a request may take in all. connect_timeout (30 s).
            probe_timeout (a third of it): how long a launched server may take to say whether it
            speaks a revision without handshake, before it is opened by `initialize`.
            limits: how large one message may be. empty_pages (100): how many pages of a list in
            a row may have no new entry before reading it fails. rounds (10): how often a request
            may be answered with questions. cache: whether results are kept while they are fresh.
            middleware: async functions around every request, the first outermost
            (`accord.client.ClientMiddleware`).

            For launched servers: env, in addition to what is inherited
            (`accord.stdio.client.INHERITED`: paths and language, no secrets), cwd, stderr
            ("keep" the last lines for errors, "forward" them, or a function called with each),
            exit_grace (2 s) and terminate_grace (2 s) when closing.

            For URLs: headers of every request, or a function that returns them; transport ("http"
            or "sse", by default the first that the server speaks); http, how requests are sent;
            auth, a bearer token, "oauth" to obtain one as the server asks for it, or an object such
            as `accord.auth.OAuth(...)`: tokens go to this server alone, and while a person is asked
            to sign in no timeout runs;
            on_renewed, called after the server lost its session and a new one was begun: log level
            and subscriptions are restored, everything else that the server knew is gone.

    Raises:
        ConnectFailed: there is no connection; says at which point and why.
        Unauthorized, Forbidden, FlowFailed: the server refuses access.
        ValueError: a revision that does not exist, or roots that are not folders.
    """
    _refuse_several(target)
    refuse_unknown("connect()", options, ConnectOptions.__annotations__)
    settings = ClientSettings(**options)
    settings.offered_revisions()
    return Connecting(target, settings)


def _refuse_several(target: object) -> None:
    """Refuse the configuration of a host, which names several servers."""
    if isinstance(target, Mapping):
        servers = target.get("mcpServers") or target.get("servers")
        named = f" ({', '.join(map(str, servers))})"[:100] if isinstance(servers, Mapping) else ""
        raise TypeError(
            f"connect() takes one server, not a configuration{named}: write "
            "`async with connect_all(configuration) as clients`, then `clients[name]`"
        )


class Connecting:
    """A connection that is made when it is awaited or entered."""

    def __init__(self, target: Target, settings: ClientSettings) -> None:
        self._target = target
        self._settings = settings
        self._client: Client | None = None

    if not TYPE_CHECKING:  # type checkers should not take it for a client

        def __getattr__(self, name: str) -> object:
            raise AttributeError(
                f"nothing is connected yet, so there is no {name}: write "
                "`async with connect(...) as client`, or `client = await connect(...)`"
            )

        def __enter__(self) -> object:
            raise TypeError(
                "connect() needs asyncio: write `async with connect(...) as client`; without "
                "asyncio, `with accord.client.blocking.connect(...) as client`"
            )

        def __exit__(self, *_: object) -> None:
            """Never reached; `with` looks for it before it enters."""

    def __await__(self) -> Generator[object, None, Client]:
        return open_client(self._target, self._settings).__await__()

    async def __aenter__(self) -> Client:
        self._client = await self
        return self._client

    async def __aexit__(self, *_: object) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


async def open_client(target: Target, settings: ClientSettings) -> Client:
    """Connect to a target; raises as `connect` does."""
    negotiation = Negotiation(settings, _target_key(target, settings))
    ends = asyncio.get_running_loop().time() + settings.connect_timeout
    while True:
        wire = await _wire(target, settings)
        link = Link(wire, settings)
        failure: AccordError | None = None
        try:
            async with asyncio.timeout_at(ends) as link.deadline:
                await link.open()
                opening = await negotiation.open(link)
            link.deadline = None  # it knows the task, and would keep a forgotten client alive
        except AccordError as error:
            if not negotiation.restarts(error):
                failure = _explain(error, link, negotiation.awaited)
        except TimeoutError:
            what = f"no answer to {negotiation.awaited} within {settings.connect_timeout:g} s"
            failure = _failure(what, link)
        except BaseException:
            await link.close()
            raise
        else:
            return Client(link, opening)
        # The failure describes the state before closing: whether the server was still running.
        await link.close()
        if failure is not None:
            raise failure


# -- finding the transport


async def _wire(target: Target, settings: ClientSettings) -> Wire:
    if hasattr(target, "connect_memory"):
        wire: Wire = await target.connect_memory()
        return wire
    if _is_url(target):
        return http_wire(target, settings)
    return Process(
        _command(target),
        env=settings.env,
        cwd=settings.cwd,
        stderr=settings.stderr,
        exit_grace=settings.exit_grace,
        terminate_grace=settings.terminate_grace,
        line_limit=settings.limits.message_bytes,
    )


def _target_key(target: Target, settings: ClientSettings) -> TargetKey:
    """Return what a server is remembered by."""
    if hasattr(target, "connect_memory"):
        return None
    if _is_url(target):
        return (str(target).partition("#")[0].partition("?")[0],)
    return (*map(str, _command(target)), str(settings.cwd or ""))


def _is_url(target: Target) -> TypeGuard[str]:
    return isinstance(target, str) and target[:8].lower().startswith(("http://", "https://"))


def http_wire(url: str, settings: ClientSettings) -> "HttpWire":
    """Return the wire to a URL."""
    from accord.http.client.carrier import HttpTarget
    from accord.http.client.wire import HttpWire

    return HttpWire(
        HttpTarget(
            url=url,
            headers=settings.headers,
            form=settings.transport,
            options=settings.http or HttpClientOptions(),
            limits=settings.limits,
            authorizer=_authorizer(settings.auth),
        )
    )


def _authorizer(auth: Auth | None) -> Authorizer | None:
    if auth is None:
        return None
    if not isinstance(auth, str):
        return auth
    if auth != "oauth":
        if len(auth) <= _LONGEST_TYPO and _is_like_oauth(auth):
            raise ValueError(f'auth={auth!r} would be sent as a token; did you mean "oauth"?')
        return Bearer(auth)
    # Loaded by name: clients do without that layer unless it is asked for.
    authorizer: Authorizer = import_module("accord.auth").OAuth()
    return authorizer


def _is_like_oauth(token: str) -> bool:
    from difflib import get_close_matches  # few tokens are short

    return bool(get_close_matches(token.lower(), ["oauth"]))


def _command(target: Target) -> Sequence[str]:
    if isinstance(target, str | os.PathLike):
        path = Path(target)
        if path.suffix != ".py":
            raise ConnectFailed(
                f"{str(target)[:200]!r} is neither a URL nor a Python file; "
                f"{suggest_target(str(target))}",
                phase="starting",
            )
        if not path.is_file():
            hint = '; a command is a list, such as ["python", "server.py"]'
            raise ConnectFailed(
                f"there is no file {str(target)[:200]!r}{hint if ' ' in str(target) else ''}",
                phase="starting",
            )
        return [
            sys.executable,
            "-P",
            "-m",
            "accord.cli.main",
            "run",
            "--stdio",
            str(path.absolute()),
        ]
    if isinstance(target, Sequence) and all(isinstance(part, str | os.PathLike) for part in target):
        return target
    raise TypeError(
        f"a target is a command as a list, a path to a Python file, a URL or a Server, "
        f"not a {type(target).__name__}"
    )


def suggest_target(target: str) -> str:
    """Return what the user may have meant by a text that is not a target."""
    if "://" in target:
        return "URLs begin with http:// or https://"
    if re.fullmatch(r"[\w.-]+:\d{1,5}(/\S*)?", target):
        return f"is it http://{target[:100]}?"
    return 'a command is a list, such as ["python", "server.py"]'


# -- describing failures


def _explain(error: AccordError, link: Link, awaited: str) -> AccordError:
    if isinstance(error, ConnectFailed | AuthError):
        return error
    if isinstance(error, NothingInCommon):
        return _failure(str(error), link)
    if isinstance(error, RequestTimeout):
        return _failure(f"no answer to {awaited} in time", link)
    if isinstance(error, ConnectionClosed):
        process = _process(link)
        reason = str(error) if process is None else process.child.state
        return _failure(f"{reason} before it answered {awaited}", link)
    if isinstance(error, RequestError):
        supported = supported_revisions(error)
        offered = ", ".join(link.settings.offered_revisions())
        if awaited == "server/discover" and error.code == MethodNotFound.default_code:
            older = f"{newest(HANDSHAKE)} or older"
            why = f"so it speaks {older}, and we offered {offered} alone: {error}"
            return _failure(f"refused server/discover, {why}", link)
        more = f"; it supports {str(supported)[:80]}, we offered {offered}" if supported else ""
        return _failure(f"refused {awaited}: {error}{more}", link)
    if isinstance(error, RegistrationError):  # of a server in this process
        return _failure(f"did not start: {error}", link)
    return _failure(f"answered {awaited} wrongly: {error}", link)


def _failure(what: str, link: Link) -> ConnectFailed:
    wire = _process(link)
    if wire is None:
        place = getattr(getattr(link.wire, "inner", link.wire), "place", "the server")
        return ConnectFailed(f"{place}: {what}"[:_MESSAGE], phase="initialize")
    child = wire.child
    message = f"{_shorten(shlex.join(child.command), 100)}: {_shorten(what, 150)}; it said: "
    room = _MESSAGE - len(message)
    said = child.stderr.summarize(room) or _shorten(link.callbacks.stray, room)
    message = message + said if said else message.removesuffix("; it said: ")
    return ConnectFailed(
        message,
        command=child.command,
        exit_code=child.exit_code,
        phase="initialize" if wire.has_spoken or child.exit_code is None else "starting",
        stderr="\n".join(child.stderr.lines),
    )


def _process(link: Link) -> Process | None:
    """Return the process behind a wire, also behind one that records."""
    wire = getattr(link.wire, "inner", link.wire)
    return wire if isinstance(wire, Process) else None


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
