"""A client for a server under test, with a monitor on the wire."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeGuard, cast, get_args

from accord import Client, Server
from accord.client import ConnectOptions, blocking
from accord.client.connect import connect
from accord.client.options import ClientSettings
from accord.errors import FlowFailed
from accord.http.server.app import HttpApp
from accord.http.server.state import AppState
from accord.runtime.wire import MemoryWire, Wire
from accord.stdio.client import Process
from accord.testing.recording import ProtocolBroken, Recording, TappedWire

if TYPE_CHECKING:
    from accord.auth.oauth import OAuth
    from accord.server.injection import Overrides

TransportName: TypeAlias = Literal["memory", "stdio", "http", "http-stream", "sse"]
TRANSPORTS: Final[tuple[TransportName, ...]] = get_args(TransportName)

AnyServer: TypeAlias = Server[Any]
Maker: TypeAlias = Callable[[], AnyServer]
ServerUnderTest: TypeAlias = AnyServer | HttpApp | Maker | Sequence[str] | str | Path
"""A server, a function that makes one, an app of `Server.asgi`, a command, a file, or a URL."""

_FORMS: Final[Mapping[TransportName, Literal["http", "sse"]]] = {
    "http": "http",
    "http-stream": "http",
    "sse": "sse",
}
PRACTICE: Final = ("practice.*",)

# Coverage measures child processes through these variables.
_PASSED_ON: Final = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")


def connected(
    target: ServerUnderTest,
    *,
    transport: TransportName = "memory",
    allow: Iterable[str] = PRACTICE,
    recording: Recording | None = None,
    overrides: "Overrides | None" = None,
    **options: Any,
) -> "Connected":
    """Connect to a server and judge all messages.

    `async with connected(server) as client` gives an `accord.Client`, and a plain `with` the
    blocking client. On leaving, the connection is closed, and any breach of the protocol by either
    side fails the test.

    Args:
        target: a server or a function that makes one; over stdio also a command or a file, over
            HTTP also what `server.asgi(...)` returns. Over stdio, a server or function has to be at
            the top level of a module, where the child process can find it. A URL is used as it is;
            of the transports only "http" and "sse" matter to it, which choose the form.
        transport: "memory" within this process; "stdio" to a child process; on a socket of
            loopback, "http" for Streamable HTTP, "http-stream" with every answer as an event
            stream, "sse" for the older form with two endpoints.
        allow: ids of requirements that may be broken; `*` matches any part of an id. By default
            those of good practice, which the specification does not demand.
        recording: keeps the messages, to look at or to save.
        overrides: for each function in `Depends(...)`, the one to call instead; for a server in
            this process, and for as long as the connection lasts.
        **options: those of `accord.connect`, such as `revision="2025-06-18"`.

    Raises:
        ProtocolBroken: on leaving; an AssertionError that names requirement, clause and message.
    """
    if transport not in TRANSPORTS:
        raise ValueError(f"transport is {transport!r}, expected one of {', '.join(TRANSPORTS)}")
    chosen = cast("ConnectOptions", options)
    overriding: AbstractContextManager[None] = nullcontext()
    if overrides:
        if transport == "stdio":
            raise ValueError("overrides need a server in this process: use another transport")
        target = _server(target, "with overrides")
        overriding = target.override(overrides)
    return Connected(
        target, transport, tuple(allow), recording or Recording(), chosen, overriding=overriding
    )


class Connected:
    """A connection under test, made when its block is entered."""

    def __init__(
        self,
        target: ServerUnderTest,
        transport: TransportName,
        allow: tuple[str, ...],
        recording: Recording,
        options: ConnectOptions,
        *,
        overriding: AbstractContextManager[None],
    ) -> None:
        self.recording = recording
        self._overriding = overriding
        self._allow = allow
        self._reported = 0
        self._options = options
        self._tapped = _Tapped(target, transport, options, recording)
        self._client: Client | None = None
        self._blocking: blocking.Client | None = None

    async def __aenter__(self) -> Client:
        self._overriding.__enter__()
        try:
            self._client = await connect(self._tapped, **self._options)
        except BaseException:
            self._overriding.__exit__(None, None, None)
            raise
        return self._client

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        assert self._client is not None
        try:
            await self._client.close()
        finally:
            self._overriding.__exit__(None, None, None)
        self._judge(error)

    def __enter__(self) -> blocking.Client:
        self._overriding.__enter__()
        try:
            self._blocking = blocking.connect(self._tapped, **self._options)
        except BaseException:
            self._overriding.__exit__(None, None, None)
            raise
        return self._blocking

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        assert self._blocking is not None
        try:
            self._blocking.close()
        finally:
            self._overriding.__exit__(None, None, None)
        self._judge(error)

    def check(self) -> None:
        """Fail if a message since the last check broke the protocol."""
        broken = self.recording.broken(allow=self._allow)
        fresh, self._reported = broken[self._reported :], len(broken)
        if fresh:
            raise ProtocolBroken(fresh)

    def _judge(self, error: BaseException | None) -> None:
        self.recording.close()
        try:
            self.check()
        except ProtocolBroken as broken:
            if error is None:
                raise
            # The test failed already; a breach of the protocol may be the reason.
            error.add_note(str(broken))


@dataclass(frozen=True)
class _Tapped:
    """A target for `connect` whose wire is recorded."""

    target: ServerUnderTest
    transport: TransportName
    options: ConnectOptions
    recording: Recording

    async def connect_memory(self) -> Wire:
        if _is_url(self.target) or self.transport not in ("memory", "stdio"):
            return self._http_wire()
        return TappedWire(self._wire(), self.recording)

    def _http_wire(self) -> Wire:
        from accord.testing.http_wires import TappedHttpWire

        settings = replace(ClientSettings(**self.options), transport=_FORMS.get(self.transport))
        target = self.target if _is_url(self.target) else _app(self.target, self.transport)
        return TappedHttpWire(target, self.recording, settings)

    def _wire(self) -> Wire:
        if self.transport == "memory":
            return MemoryWire(_server(self.target)._core)
        options = self.options
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        launch: dict[str, Any] = {
            name: options[name]
            for name in ("cwd", "stderr", "exit_grace", "terminate_grace")
            if name in options
        }
        command, more = _command(self.target)
        variables = {**environment, **more, **(options.get("env") or {})}
        return Process(command, env=variables, **launch)


def _server(target: ServerUnderTest, where: str = "in memory") -> AnyServer:
    server: object = target
    if callable(target) and not isinstance(target, Server | HttpApp) and not _is_app(target):
        server = target()
    if not isinstance(server, Server):
        raise TypeError(
            f"{where} a target is a Server or a function that makes one, "
            f"not a {type(server).__name__}"
        )
    return server


def _app(target: ServerUnderTest, transport: TransportName) -> HttpApp:
    if _is_app(target):
        return target
    # Without grace: when the test has ended, results are no longer needed.
    return _server(target, "over HTTP").asgi(
        answers="stream" if transport == "http-stream" else "auto", sse=transport == "sse", grace=0
    )


def _is_app(target: Any) -> TypeGuard[HttpApp]:
    """Tell whether a target is what `server.asgi(...)` returns, also behind a guard or a log."""
    return isinstance(target, HttpApp) or isinstance(getattr(target, "state", None), AppState)


def _is_url(target: ServerUnderTest) -> TypeGuard[str]:
    return isinstance(target, str) and target.startswith(("http://", "https://"))


def _command(target: ServerUnderTest) -> tuple[Sequence[str], Mapping[str, str]]:
    """Return the command that launches a target, and its environment variables."""
    if isinstance(target, str | os.PathLike):
        return [sys.executable, os.fspath(target)], {}
    if isinstance(target, Sequence):
        return target, {}
    file, name = _find_definition(target)
    # The file may import modules that only this process can find, such as its neighbours.
    path = os.pathsep.join(dict.fromkeys(each for each in sys.path if each))
    command = [sys.executable, "-m", "accord", "run", "--stdio", f"{file}:{name}"]
    return command, {"PYTHONPATH": path}


def _find_definition(target: object) -> tuple[str, str]:
    """Return the file of a server or function, and its name there, for a child process."""
    if isinstance(target, Server):
        for module in list(sys.modules.values()):
            for name, value in list(vars(module).items()) if _has_file(module) else ():
                if value is target:
                    return str(module.__file__), name
    else:
        home, name = sys.modules.get(target.__module__), getattr(target, "__qualname__", "<app>")
        if home is not None and _has_file(home) and "<" not in name:
            return str(home.__file__), name
    raise ValueError(
        f"{target!r} cannot be launched over stdio: expected a Server, or a function that makes "
        "one, at the top level of a module"
    )


def _has_file(module: object) -> bool:
    return isinstance(module, ModuleType) and bool(getattr(module, "__file__", None))


# -- tokens for protected servers


def unattended(**options: Any) -> "OAuth":
    """Return an `OAuth` that obtains tokens without a user, for `auth` of a connection.

    For servers with `AuthorizationServer(auto_approve=...)`; tokens are kept in memory.

    Args:
        **options: those of `accord.auth.OAuth`, such as `scopes`.
    """
    from accord.auth.oauth import OAuth
    from accord.auth.tokens import MemoryStore

    options.setdefault("store", MemoryStore())
    return OAuth(open_browser=_follow, **options)


async def _follow(url: str) -> str:
    """Open a URL as a browser would; return the URL of the redirect."""
    from accord.http.client.guarded import HttpRequest, operator_sender

    response = await operator_sender(url)(HttpRequest(method="GET", url=url))
    if response.status in (302, 303) and "location" in response.headers:
        return response.headers["location"]
    came = "a page for a user" if response.is_ok else f"status {response.status}"
    hint = "use AuthorizationServer(auto_approve=...), which asks no user"
    raise FlowFailed("authorization", asked=url.partition("?")[0], came=came, hint=hint)
