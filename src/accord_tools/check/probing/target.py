"""A server under check: how to reach it, as often as a check needs."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from accord.client.server_spec import HttpForm, ServerSpec
from accord.errors import AccordError, ConnectFailed
from accord.http.rules.responses import quote_url
from accord.http.rules.sse import CONTENT_TYPE
from accord.protocol.mirroring import MirroredArgument
from accord.protocol.revisions import HANDSHAKE
from accord.secrets.filter import filter_of, find_given
from accord.stdio.child import Child
from accord.trace import Transport
from accord_tools.check.probing.http_exchange import (
    CONTENT_JSON,
    HttpCarrier,
    RawResponse,
    SseCarrier,
    exchange,
)
from accord_tools.check.probing.messages import MessageLog, initialize_params, new_request
from accord_tools.check.probing.raw_connection import (
    ConnectionEnded,
    MessageTimeout,
    RawCarrier,
    RawConnection,
)
from accord_tools.check.probing.tool_calls import CallLimit

if TYPE_CHECKING:
    from accord.server import Server
    from accord_tools.check.probing.authorization import Granted


# A longer line is a flood, and is cut to this much.
_LONGEST: Final = 64 * 1024 * 1024
_CUT: Final = 64 * 1024
# A server with this many unread bytes, beside a full pipe, no longer reads.
_UNREAD: Final = 64 * 1024
# A signal that arrives just before a process begins to wait may be noticed only after the wait.
_REST: Final = 0.2
_DEAF: Final = "the server no longer reads its input"
# How long a server that is known to stay may take to exit after its input was closed.
_BRIEF: Final = 0.1


class Habits(msgspec.Struct):
    """Facts learned about a server as a process, from one launch for the next.

    Attributes:
        stays: whether it kept running long after its input was closed.
        ignores_signal: whether it kept running long after SIGTERM, too.
        startup_seconds: the most that it took from its launch to its first output.
        ending: how it ended although nothing was asked of it; empty if it did not.
        idled: the seconds that it was left alone for, to see whether it ends.
    """

    stays: bool = False
    ignores_signal: bool = False
    startup_seconds: float = 0.0
    ending: str = ""
    idled: float = 0.0


class StdioCarrier:
    """Launches a server and exchanges bytes with it.

    Attributes:
        child: the process.
        left_by_itself: whether it ended after its input was closed, without a signal.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        leaving: float = 3.0,
        habits: Habits | None = None,
        inherits: bool = True,
    ) -> None:
        self.habits = habits or Habits()
        self.child = Child(
            command,
            env={**(os.environ if inherits else {}), **(env or {})},
            cwd=cwd,
            on_output=self._on_output,
            on_end=self._on_end,
            exit_expected=leaving,
        )
        self.left_by_itself: bool | None = None
        self._leaving = leaving
        self._connection: RawConnection
        self._rest = bytearray()
        self._launched: float | None = None

    @property
    def stderr(self) -> Sequence[str]:
        """The last lines that the server wrote to stderr."""
        return self.child.stderr.lines

    async def open(self, connection: RawConnection) -> None:
        """Launch the server.

        Raises:
            ConnectFailed: the command cannot be started.
        """
        self._connection = connection
        self._launched = asyncio.get_running_loop().time()
        self.child.start()

    def _on_output(self, chunk: bytes) -> None:
        if self._connection.ended is not None:
            self.child.pause_output()
            return
        if self._launched is not None:
            took = asyncio.get_running_loop().time() - self._launched
            self.habits.startup_seconds = max(self.habits.startup_seconds, took)
            self._launched = None
        rest = self._rest
        rest += chunk
        if b"\n" in chunk:
            *lines, last = bytes(rest).split(b"\n")
            rest[:] = last
            for line in lines:
                self._connection.receive(line)
        if len(rest) > _LONGEST:
            self._connection.receive(bytes(rest[:_CUT]))
            rest.clear()
            self._connection.end("the server wrote a line without an end")

    def _on_end(self, reason: str) -> None:
        if self._rest:
            self._connection.receive(bytes(self._rest))
            self._rest.clear()
        self._connection.end(f"the server {reason}")

    async def send(self, data: bytes) -> None:
        """Write a message and the end of its line."""
        await self.write(data + b"\n")

    async def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        self.child.write(data)
        # Queued bytes are written in the next turn of the loop, which may find the pipe broken.
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(self._connection.patience):
                await self.child.writable(_UNREAD)
        except TimeoutError:
            raise ConnectionEnded(_DEAF) from None
        if not self.child.has_open_input:
            code = await self.child.wait(self._leaving)
            raise ConnectionEnded(_DEAF if code is None else f"the server {self.child.state}")

    async def end_input(self, patience: float | None = None) -> bool:
        """Close the server's input; returns whether it exited by itself within this time."""
        self.child.end_input()
        patience = self._leaving if patience is None else patience
        self.left_by_itself = await self.child.wait(patience) is not None
        return self.left_by_itself

    async def exit_after(self, number: int) -> int | None:
        """Send a signal to the server and return its exit code; None when it keeps running."""
        await asyncio.sleep(_REST)
        self.child.signal(number)
        return await self.child.wait(self._leaving)

    async def close(self) -> None:
        """End the server: by closing its input, then by force."""
        if self.child.pid is None:
            return
        if self.child.exit_code is None:
            has_left = await self.end_input(_BRIEF if self.habits.stays else None)
            # The next launch need not wait again.
            self.habits.stays |= not has_left
        began = asyncio.get_running_loop().time()
        grace = _BRIEF if self.habits.ignores_signal else self._leaving
        await self.child.stop(terminate_grace=grace)
        took = asyncio.get_running_loop().time() - began
        self.habits.ignores_signal |= took >= self._leaving


class MemoryCarrier:
    """Reaches a server object in this process, with the messages of stdio."""

    def __init__(self, server: "Server[Any]") -> None:
        self._server = server

    async def open(self, connection: RawConnection) -> None:
        """Begin a session."""
        self._wire = await self._server.connect_memory()
        await self._wire.open(connection.receive, connection.end)

    async def send(self, data: bytes) -> None:
        """Send a message."""
        self._wire.write(data, None)

    async def close(self) -> None:
        """End the session."""
        await self._wire.close()


Form: TypeAlias = HttpForm
# This program begins its messages on standard error with it.
MESSAGE_PREFIX: Final = "accord: "
_STARTING: Final = 30.0
# How long a launched server may take to end after SIGTERM.
_TERMINATE_GRACE: Final = 10.0
# Parts of the time that a server takes to start: within it what was asked for has settled, and
# within twice of it the process has left. Another copy may take four times as long: several may
# start at once, and the machine may be busy.
_SETTLING: Final = 0.1
_LEAVING: Final = 2.0
_STARTING_AGAIN: Final = 4.0
# How many times the patience an answer may take before it is missing: no clause has a time, and
# what a tool reads from may be away for longer.
_GRACE: Final = 3.0


class ServerTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server is, or how to launch it.

    Attributes:
        spec: how it is reached; without a transport, the form of HTTP is found out.
        is_form_found: whether the form was found out, not chosen.
        is_launched: whether the check itself serves it at that URL.
        other_token: a good token of another user of the server.
        foreign_token: a good token of the same issuer, for another server.
        allow_token_in_query: whether the user's token may travel in a URL, where logs keep it.
        granted: the token that an authorization server issued for this check.
        carrier: makes the transport of a connection, in place of the spec; as over stdio.
        patience: seconds to wait for an answer; one within three times of it is late.
        settling: seconds after which nothing more is expected to arrive.
        leaving: seconds that a launched server may take to end, by itself and after each signal.
        at_once: how many scenarios may run at the same time.
        one_at_a_time: whether a launched server cannot run twice at the same time.
        habits: facts learned about a launched server on the way.
        limit: which tools may be called, and how often.
        mirrored: the arguments that headers repeat, by tool; filled in when tools were listed.
    """

    spec: ServerSpec
    is_form_found: bool = False
    is_launched: bool = False
    other_token: str | None = None
    foreign_token: str | None = None
    allow_token_in_query: bool = False
    granted: "Granted | None" = None
    carrier: Callable[[], RawCarrier] | None = None
    patience: float = 5.0
    settling: float = 0.3
    leaving: float = 3.0
    at_once: int = 4
    one_at_a_time: bool = False
    habits: Habits = msgspec.field(default_factory=Habits)
    limit: CallLimit | None = None
    mirrored: dict[str, tuple[MirroredArgument, ...]] = {}

    def reached_with(self, **changes: Any) -> "ServerTarget":
        """Return a copy that is reached in another way, such as with other headers."""
        return replace(self, spec=replace(self.spec, **changes))

    @property
    def is_remote(self) -> bool:
        """Whether the server was there before the check, so that others may be using it."""
        return bool(self.spec.url) and not self.is_launched

    @property
    def transport(self) -> Transport:
        """The transport that the server is reached over."""
        return self.spec.form

    @property
    def bearer(self) -> str:
        """The token that every request carries; empty without one."""
        given = {name.lower(): value for name, value in self.spec.headers.items()}
        scheme, _, token = given.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The credentials that the user gave, the longest first; never part of a report."""
        tokens = (self.bearer, self.other_token or "", self.foreign_token or "")
        spec = self.spec
        return find_given(
            tokens, headers=spec.headers, env=spec.env, url=spec.url, command=spec.command
        )

    def hide_secrets(self, text: str) -> str:
        """Return a text of the server without the credentials that the user gave."""
        return filter_of(self.secrets).hide_any(text)

    def adapt_times(self) -> "ServerTarget":
        """Return a copy with times that suit a server that starts slowly.

        A busy machine makes any server slow, which is not the server's fault.
        """
        return replace(
            self,
            patience=max(self.patience, self.habits.startup_seconds),
            settling=max(self.settling, self.habits.startup_seconds * _SETTLING),
            leaving=max(self.leaving, self.habits.startup_seconds * _LEAVING),
        )

    def connection(self, *, is_judged: bool = True, starting: float = 0.0) -> RawConnection:
        """Return a connection that is opened by `async with`.

        Args:
            is_judged: whether a monitor judges the messages of the server.
            starting: seconds to wait for its first output, at least.
        """
        return RawConnection(
            self.make_carrier(),
            MessageLog(self.transport, "server", is_judged=is_judged),
            patience=self.patience,
            grace=_GRACE,
            starting=max(starting, self.start_patience),
            limit=self.limit,
        )

    @property
    def start_patience(self) -> float:
        """Seconds to wait for the first output of a launched server."""
        return max(self.patience, self.habits.startup_seconds) * _STARTING_AGAIN

    def make_carrier(self) -> RawCarrier:
        """Return what carries messages to the server and back."""
        if self.carrier is not None:
            return self.carrier()
        spec = self.spec
        if spec.server is not None:
            return MemoryCarrier(spec.server)
        if not spec.url:
            return StdioCarrier(
                spec.command,
                env=spec.env,
                cwd=spec.cwd,
                leaving=self.leaving,
                habits=self.habits,
                inherits=spec.inherits,
            )
        if spec.transport == "sse":
            return SseCarrier(spec.url, spec.headers)
        return HttpCarrier(spec.url, spec.headers, self.mirrored)


@asynccontextmanager
async def serve_target(place: str, form: Form, env: Mapping[str, str]) -> AsyncIterator[str]:
    """Serve a Python file or module over HTTP in a process of its own; yields the URL.

    Raises:
        ConnectFailed: it did not start.
    """
    command = [sys.executable, "-P", "-m", "accord.cli.main", "run", place, "--http", "--port", "0"]
    if form == "sse":
        command.append("--sse")
    found: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def look_for_url(line: str) -> None:
        if (url := re.search(r"is served at (http://[^\s,;]+)", line)) and not found.done():
            found.set_result(url[1])

    def give_up(_reason: str) -> None:
        if not found.done():
            found.set_result(None)

    env = {**os.environ, **env}
    child = Child(command, env=env, stderr=look_for_url, on_end=give_up, has_input=False)
    child.start()
    try:
        await asyncio.wait([found], timeout=_STARTING)
        url = found.result() if found.done() else None
        if url is None:
            lines = list(child.stderr.lines)
            raise ConnectFailed(
                _describe_failure(place, lines), command=command, stderr="\n".join(lines)
            )
        yield url.rsplit("/", 1)[0] + "/sse" if form == "sse" else url
    finally:
        await child.stop(terminate_grace=_TERMINATE_GRACE)


def _describe_failure(place: str, lines: Sequence[str]) -> str:
    if lines and lines[-1].startswith(MESSAGE_PREFIX):
        return lines[-1].removeprefix(MESSAGE_PREFIX)
    return f"{place} could not be served over HTTP: {' | '.join(lines) or 'it said nothing'}"


FORM_NAMES: Final = {"http": "Streamable HTTP", "sse": "HTTP with SSE (the older form)"}
_LOCKED: Final = (401, 403)
# A server of Streamable HTTP takes POST at its only path.
_NO_POST: Final = (404, 405, 501)
_OF_NO_HANDSHAKE: Final = (-32020, -32021, -32022)


async def with_form(target: ServerTarget) -> ServerTarget:
    """Return a target whose form is known; it is asked if it has a URL and no form.

    Raises:
        ConnectFailed: nothing listens there.
    """
    if not target.spec.url or target.spec.transport is not None:
        return target
    found = await find_form(target)
    return replace(target.reached_with(transport=found or "http"), is_form_found=True)


async def name_form(target: ServerTarget, error: ConnectFailed) -> ConnectFailed:
    """Return an error that names the form of a server, if the chosen form is not that."""
    if target.is_form_found or target.spec.transport is None:
        return error
    try:
        found = await find_form(target)
    except ConnectFailed:
        return error
    if found in (None, target.spec.transport):
        return error
    return ConnectFailed(
        f"{target.spec.name} speaks {FORM_NAMES[found]}, not {FORM_NAMES[target.spec.transport]}:"
        f" leave out --transport {target.spec.transport}"
    )


async def is_older_form(url: str, headers: Mapping[str, str], seconds: float) -> bool:
    """Ask a URL whether it speaks HTTP with SSE, the older form."""
    spec = ServerSpec(name=quote_url(url), url=url, headers=headers)
    target = ServerTarget(spec=spec, patience=seconds)
    try:
        return await find_form(target) == "sse"
    except AccordError:
        return False


async def find_form(target: ServerTarget) -> Form | None:
    """Ask a URL which form it speaks, with a POST and at most one GET; None if neither.

    Raises:
        ConnectFailed: nothing listens there.
    """
    line = target.reached_with(transport="http").connection(is_judged=False)
    async with line:
        posted = await _post_initialize(line)
        if posted is not None:
            if posted.names[:1] == ["endpoint"]:
                return "sse"  # it answers every method with its stream
            if _is_streamable(posted):
                return "http"
            if posted.status in _LOCKED:
                # Without a token only the usual path shows the form.
                return "sse" if urlsplit(target.spec.url).path.endswith("/sse") else "http"
        return await _listen(line, posted)


async def _post_initialize(line: RawConnection) -> RawResponse | None:
    params = initialize_params([*HANDSHAKE][-1], {})
    message = new_request("initialize", params)
    try:
        async with exchange(line, message) as heard:
            await heard.until(
                lambda heard: bool(heard.answers_to(message["id"]) or heard.names), line.patience
            )
        given = heard.headers.get("mcp-session-id")
        if given is not None:
            async with exchange(line, method="DELETE", mcp_session_id=given):
                pass
    except (ConnectionEnded, MessageTimeout):
        return None
    return heard


def _is_streamable(heard: RawResponse) -> bool:
    if heard.is_ok:
        return heard.content_type in (CONTENT_JSON, CONTENT_TYPE) or bool(heard.answers())
    return heard.code in _OF_NO_HANDSHAKE


async def _listen(line: RawConnection, posted: RawResponse | None) -> Form | None:
    headers = {"accept": CONTENT_TYPE, **line.carrier.headers}
    try:
        async with exchange(line, method="GET", headers=headers) as heard:
            if heard.is_stream:
                await heard.until(lambda heard: bool(heard.names), line.patience)
    except (ConnectionEnded, MessageTimeout, ConnectFailed):
        return None
    is_refused = posted is None or posted.status in _NO_POST
    if heard.is_stream and (heard.names[:1] == ["endpoint"] or is_refused):
        return "sse"
    return None if is_refused else "http"
