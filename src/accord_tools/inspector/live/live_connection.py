"""The connection of a session to its server: made, lost and made again, with a log.

The page shows the address of a sign-in in place of a browser, and advice about a connection that
failed.
"""

import asyncio
import dataclasses
import re
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from shlex import join
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from accord.client.client import Client
from accord.client.connect import connect
from accord.client.options import ConnectOptions
from accord.client.server_spec import ServerSpec
from accord.errors import AccordError, AuthError, ConnectFailed, FlowFailed, Forbidden, Unauthorized
from accord.http.client.sender import HttpClientOptions
from accord.secrets.masks import Secrets
from accord.types import Implementation, RevisionId
from accord.version import __version__
from accord_tools.hosts.checking.launch import advise_program, advise_start
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.live.capture import (
    Captured,
    CapturingObserver,
    InspectedTarget,
    capture,
)
from accord_tools.inspector.log.message_log import InspectedLog
from accord_tools.inspector.target_access import (
    DEFAULT_START,
    DEFAULT_TIMEOUT,
    find_secrets,
    reload_folders,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from accord.http.client.auth import Auth
    from accord_tools.inspector.session import InspectedSession

LinkState: TypeAlias = Literal["connecting", "ready", "failed", "closed"]

_STDERR_SHOWN: Final = 15
# A person wants to see soon that a server is gone, and a server that restarts comes back soon.
_PATIENCE: Final = 3.0
# The body of a refusal in its message.
_QUOTED_BODY: Final = re.compile(r"(?<=HTTP 401): .*? (?=\(it wants authorization\))", re.DOTALL)
# How long the wire may take to end when the session is over.
_CLOSING: Final = 5.0


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a person may change about a connection.

    Attributes:
        revision: the one revision to speak; None negotiates.
        timeout: seconds to wait for an answer.
        headers: sent with every HTTP request, in addition to those of the command line.
    """

    revision: RevisionId | None = None
    timeout: float = 60.0
    headers: tuple[tuple[str, str], ...] = ()


class ConnectionFailure(msgspec.Struct, frozen=True):
    """Why there is no connection, for the person."""

    message: str
    advice: str = ""
    stderr: tuple[str, ...] = ()
    is_about_access: bool = False


class LiveConnection:
    """The connection of a session. Other parts register what they need from it.

    Attributes:
        state: how it is.
        failure: why the connection failed or ended.
        settings: what the person chose.
        note: what happened last without the person, such as a restart.
        options: functions that return options for `connect`: callbacks and roots.
        on_ready: called with each new client.
        on_closed: called when a connection is over.
        on_task_notice: called with each notification about a task.
    """

    def __init__(self, session: "InspectedSession") -> None:
        # Made first, so that it is closed after the connection.
        session.part(InspectedLog)
        target = session.target
        self._session = session
        self.settings = LinkSettings(
            revision=target.revision, timeout=target.timeout or DEFAULT_TIMEOUT
        )
        self.state: LinkState = "connecting"
        self.failure: ConnectionFailure | None = None
        self.note = ""
        self.began = time.time()
        self.started_seconds: float | None = None
        self.opening = Captured()
        self.options: list[Callable[[], ConnectOptions]] = []
        self.on_ready: list[Callable[[Client], object]] = []
        self.on_closed: list[Callable[[], object]] = []
        self.on_task_notice: list[Callable[[bytes], object]] = []
        self._auth = with_questions(session, target.auth)
        self._client: Client | None = None
        self._observer: CapturingObserver | None = None
        self._work: asyncio.Task[Any] | None = None
        self._turn = asyncio.Lock()
        self._stderr: deque[str] = deque(maxlen=_STDERR_SHOWN)
        self._is_wired = False
        self._trouble = ""

    # -- for other parts

    @property
    def client(self) -> Client:
        """The connected client.

        Raises:
            ActionRefused: the session is not connected.
        """
        if self._client is not None and self.state == "ready":
            return self._client
        advice = "wait a moment" if self.state == "connecting" else "connect first"
        raise ActionRefused(f"there is no connection ({self.state}): {advice}")

    @property
    def current(self) -> Client | None:
        """The connected client, if there is one."""
        return self._client if self.state == "ready" else None

    @property
    def auth(self) -> "Auth | None":
        """What authorizes requests; sign-ins are questions of the page."""
        return self._auth

    def use_auth(self, auth: "Auth | None") -> None:
        """Authorize the next connections with something else; connect again to use it."""
        self._auth = with_questions(self._session, auth)

    def hide(self, text: str) -> str:
        """Return a text without the credentials that the command line gave, and others like them.

        Servers repeat them, on stderr for example.
        """
        return self._secrets.mask_text(text)

    @cached_property
    def _secrets(self) -> Secrets:
        return Secrets(find_secrets(self._session.target))

    def note_outcome(self, trouble: str) -> None:
        """Note whether the server could be reached: over HTTP each request is on its own."""
        if self.state == "ready" and trouble != self._trouble:
            self.note = trouble or ("" if self.note == self._trouble else self.note)
            self._trouble = trouble
            self._session.mark("session")

    # -- what the person does

    def start(self) -> None:
        """Begin to connect for the first time."""
        self.connect(self.settings)

    def connect(self, settings: LinkSettings) -> None:
        """Connect, in place of the connection that there is; returns at once.

        Raises:
            ActionRefused: a header cannot be sent.
        """
        self._wire_parts()
        self.settings = settings
        self.started_seconds = None
        # At once, so that nothing is sent over the connection that is about to end.
        self._change("connecting")
        self._begin(self._reconnect())

    def disconnect(self) -> None:
        """End the connection; returns at once."""
        self._change("closed")
        self._begin(self._end())

    def restart(self, note: str = "") -> None:
        """Connect again with the same settings; a launched server is started anew."""
        self.note = note
        self.connect(self.settings)

    async def close(self) -> None:
        """End the connection with the session."""
        work, self._work = self._work, None
        if work is not None:
            work.cancel()
            await asyncio.wait([work], timeout=_CLOSING)
        await self._end()
        self._change("closed")

    # -- work

    def _begin(self, work: Any) -> None:
        if self._work is not None:
            self._work.cancel()
        self._work = self._session.spawn(work)

    def _wire_parts(self) -> None:
        if not self._is_wired:
            self._is_wired = True
            from accord_tools.inspector.live.session_parts import wire_parts

            wire_parts(self._session)

    def _change(self, state: LinkState, failure: ConnectionFailure | None = None) -> None:
        self.state, self.failure = state, failure
        self._session.mark("session")
        self._session.mark_app()

    async def _reconnect(self) -> None:
        async with self._turn:
            await self._end_client()
            self.opening = Captured()
            self._stderr.clear()
            started = time.monotonic()
            try:
                client = await self._open()
            except AccordError as error:
                self._close_observer()
                self._change("failed", self._explain(error))
                return
            except (ValueError, TypeError) as error:
                self._close_observer()
                self._change("failed", ConnectionFailure(str(error), "correct it, then connect"))
                return
            except BaseException:
                self._close_observer()
                raise
            self.started_seconds = time.monotonic() - started
            self._client = client
            if client.is_closed:  # it ended in the same moment
                self._lose(f"{self._session.target.name}: the server has ended")
                return
            self._change("ready")
            for call in self.on_ready:
                call(client)

    async def _open(self) -> Client:
        options = self._connect_options()
        transport = self._session.target.transport or "http"
        log = self._session.part(InspectedLog)
        logged = log.conversation("main", transport if self._session.target.url else "stdio")
        observer = self._observer = CapturingObserver(logged, self._take_task_notice)

        def on_lost(why: str, code: int | None) -> None:
            if self._observer is observer and self.state == "ready":
                self._lose(why)

        target = InspectedTarget(
            self._session.target,
            options,
            observer,
            on_lost=on_lost,
            on_retry=self._stderr.clear,
        )
        with capture() as self.opening:
            return await connect(target, **options)

    def _connect_options(self) -> ConnectOptions:
        target, settings = self._session.target, self.settings
        options: ConnectOptions = {
            "revision": settings.revision,
            "timeout": settings.timeout,
            "connect_timeout": self._start_timeout(),
            "client_info": Implementation("accord-inspect", __version__),
            "env": target.environment,
            "cwd": target.cwd,
            "stderr": self._take_stderr,
            "transport": target.transport,
            # What is shown is what the server says now.
            "cache": False,
        }
        if target.url:
            options["headers"] = {**target.headers, **dict(settings.headers)} or None
            options["http"] = HttpClientOptions(patience=_PATIENCE)
            options["auth"] = self._auth
        for more in self.options:
            options.update(more())
        return options

    def _start_timeout(self) -> float:
        """Return the seconds to start in: those of the command line, or more if the page says."""
        target = self._session.target
        least = target.connect_timeout or DEFAULT_START
        chosen = self.settings.timeout
        return max(least, chosen) if chosen > (target.timeout or DEFAULT_TIMEOUT) else least

    def _take_task_notice(self, data: bytes) -> None:
        for call in self.on_task_notice:
            call(data)

    def _take_stderr(self, line: str) -> None:
        self._stderr.append(line)
        self._session.part(InspectedLog).add_stderr(line)

    # -- ends

    def _lose(self, why: str) -> None:
        """Note that the server has ended, or that the connection broke."""
        client, self._client = self._client, None
        if client is not None:
            self._session.spawn(client.close())
        advice = "connect again" if self._session.target.url else "restart it"
        if self._stderr:
            why = why.partition("; it said: ")[0]  # the lines are shown as they are
        self._change("closed", ConnectionFailure(why, advice, tuple(self._stderr)))
        self._close_observer()
        self._tell_closed()

    async def _end(self) -> None:
        async with self._turn:
            await self._end_client()

    async def _end_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            # The end of a process takes its time; calls are over at once.
            self._tell_closed()
            with suppress(AccordError):
                await client.close()
        self._close_observer()

    def _close_observer(self) -> None:
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.close()

    def _tell_closed(self) -> None:
        for call in self.on_closed:
            call()

    def _explain(self, error: AccordError) -> ConnectionFailure:
        message, _, quoted = str(error).partition("; it said: ")
        stderr = tuple(self._stderr)
        if isinstance(error, ConnectFailed) and not stderr:
            stderr = tuple(error.stderr.splitlines()[-_STDERR_SHOWN:])
        if quoted and not stderr:
            message = str(error)
        target = self._session.target
        if is_own_run(target):
            # The user named a file or module, not the command that runs it.
            message = message.replace(f"{join(target.command)}:", f"{target.name}:")
        reloads = bool(reload_folders(self._session))
        advice = advise_connection(target, error, stderr, reloads=reloads)
        if stderr and is_own_run(target) and stderr[-1].startswith(RUN_ERROR):
            message, stderr = stderr[-1].removeprefix(RUN_ERROR), stderr[:-1]
        if isinstance(error, Unauthorized) and error.challenge:
            # The challenge says all that the body does, and shorter.
            message = _QUOTED_BODY.sub(" ", message)
        message = self._session.options.advise(message)
        return ConnectionFailure(message, advice, stderr, isinstance(error, AuthError))


# -- sign-in for servers with OAuth


def with_questions(session: "InspectedSession", auth: "Auth | None") -> "Auth | None":
    """Return the same authorization, with sign-ins as questions of the page.

    Args:
        session: the session that shows them.
        auth: as for `connect`; what is not OAuth stays as it is.
    """
    if auth is None or (isinstance(auth, str) and auth != "oauth"):
        return auth
    from accord.auth import OAuth

    oauth = OAuth() if isinstance(auth, str) else auth
    if not isinstance(oauth, OAuth):
        return auth

    async def open_browser(url: str) -> str | bool | None:
        from accord_tools.inspector.live.page_questions import AskedQuestions

        if urlsplit(url).scheme not in ("http", "https"):
            came = "an address that is not http or https"
            raise FlowFailed("authorization", asked="the authorization server", came=came)
        return await session.part(AskedQuestions).sign_in(url)

    # Tokens are kept by the store, which both share.
    return dataclasses.replace(oauth, open_browser=open_browser)


# -- what to do about a connection that failed, in the words of `accord doctor`


RUN_ERROR: Final = "accord: "
"""How `accord run` begins the line that says why it ends."""
# What `accord run` says about servers of other libraries.
_ANY_COMMAND: Final = "a command works with any: -- "
# Parts of messages in lower case, and what to do about them; the first that fits.
_ADDRESS_ADVICE: Final = (
    (("connection refused",), "start the server, and check that it listens at {place}"),
    (("not known", "no address associated"), "correct the name of the host: {place}"),
    (("does not speak tls",), "write http:// in place of https://"),
    (
        ("certificate", "ssl"),
        "mend the certificate of the server, or trust it: SSL_CERT_FILE=FILE accord inspect ...",
    ),
    (("redirects",), "start accord inspect with the URL that the server redirects to"),
    (("http 404", "http 405"), "check the path of the URL: {path} serves no MCP"),
    (
        ("http 403",),
        "check the credentials, and that the server allows requests with the host {place}",
    ),
    (("http 5",), "look at what the server itself has logged, then connect again"),
    (("we offered",), "choose another revision, or let it be negotiated"),
    (("closed the connection",), "check the scheme of the URL: does {place} want https://?"),
    ((" within ", "timed out"), "check that {place} answers; --timeout gives it more time"),
)


def is_own_run(target: ServerSpec) -> bool:
    """Return whether `accord run` launches the server: the user named a file or module."""
    return bool(target.command and target.shown) and not target.shown.startswith("-")


def advise_connection(
    target: ServerSpec, error: AccordError, stderr: Sequence[str], *, reloads: bool = False
) -> str:
    """Return what to do about a connection that failed."""
    if isinstance(error, AuthError):
        return _advise_access(error)
    text = str(error)
    if target.url:
        return _advise_address(target, text)
    if "was not found" in text or "may not be executed" in text:
        return advise_program(target.command[0] if target.command else "")
    if "no answer to" in text:
        return "check that the command serves MCP over stdio; a first start may need more time"
    if "we offered" in text:
        return "choose another revision, or let it be negotiated"
    exited = isinstance(error, ConnectFailed) and error.exit_code is not None
    if exited or stderr:
        if is_own_run(target) and stderr and stderr[-1].startswith(RUN_ERROR):
            return _advise_run(stderr[-1], reloads=reloads)
        advice = advise_start(stderr, ())
        return f"{advice}; it starts anew when its code changes" if reloads else advice
    return "look at the messages in the log"


def _advise_run(said: str, *, reloads: bool) -> str:
    _, sign, command = said.partition(_ANY_COMMAND)
    if sign:  # a server of another library
        return f"start accord inspect -- {command}"
    return "mend the code; it starts anew then" if reloads else "mend the code, then restart"


def _advise_access(error: AuthError) -> str:
    if isinstance(error, FlowFailed):
        return error.hint or "go through the steps of the authorization pane"
    if isinstance(error, Forbidden):
        return "ask for the scopes that the server names, in the authorization pane"
    return "start accord inspect with --oauth or --bearer, or use the authorization pane"


def _advise_address(target: ServerSpec, text: str) -> str:
    place = urlsplit(target.url).netloc.rpartition("@")[2]
    lower = text.lower()
    for signs, advice in _ADDRESS_ADVICE:
        if any(each in lower for each in signs):
            return advice.format(place=place, path=urlsplit(target.url).path or "/")
    return f"check that {place} serves MCP at this path"
