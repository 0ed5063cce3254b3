"""A connection for messages that a person types, apart from the one of the page."""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from accord.errors import AccordError
from accord.protocol.revisions import REVISIONS, find_revision
from accord.trace import HttpFacts, Party, Transport
from accord.types import JsonObject, RevisionId
from accord_tools.check.probing.messages import initialize_params
from accord_tools.check.probing.target import with_form
from accord_tools.inspector.actions import action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.log.message_log import MAIN, InspectedLog
from accord_tools.inspector.raw.lines import HeaderChanges, HttpMethod, RawLine, StdioLine
from accord_tools.inspector.raw.templates import (
    CLIENT_INFO,
    RawTemplate,
    build_templates,
    name_client,
)
from accord_tools.inspector.session import InspectedSession
from accord_tools.inspector.target_access import (
    current_target,
    request_credentials,
    server_target,
    spoken_revision,
)

if TYPE_CHECKING:
    from accord_tools.inspector.log.logged_conversation import LoggedConversation


log = logging.getLogger("accord_tools.inspector")

RawState: TypeAlias = Literal["closed", "opening", "open", "ended"]
HANDSHAKE_ID: Final = 1
"""The id of the first request; a template uses it again."""
# Seconds to wait for the answer to it.
_ANSWER: Final = 30.0


class RawConsole:
    """Sends what a person typed, on a connection of its own.

    Attributes:
        state: of the connection.
        reason: why it ended or could not be made, or the last problem.
        conversation: its name in the log; empty before the first one.
        transport: of the connection; None before the first one.
        revision: what the connection speaks.
    """

    def __init__(self, session: InspectedSession) -> None:
        self.state: RawState = "closed"
        self.reason = ""
        self.conversation = ""
        self.transport: Transport | None = None
        self.revision: RevisionId = spoken_revision(session)
        self._session = session
        self._count = 0
        self._line: RawLine | None = None
        self._log: LoggedConversation | None = None
        self._answer: asyncio.Future[JsonObject] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    # -- what the page does

    async def open(self, *, handshake: bool, revision: RevisionId | None = None) -> None:
        """Begin to open a connection; one that is open is closed first.

        Raises:
            ActionRefused: the revision is not known.
        """
        if revision is not None and find_revision(revision) is None:
            known = ", ".join(REVISIONS)
            raise ActionRefused(f"{revision!r} is not one of {known}", field="revision")
        await self.shut()
        async with self._lock:
            self._count += 1
            self.conversation = f"raw-{self._count}"
            self.revision = revision or spoken_revision(self._session)
            self._change("opening")
            self._opening = self._session.spawn(self._open(handshake=handshake))

    async def send(
        self, text: str, headers: HeaderChanges = (), method: HttpMethod = "POST"
    ) -> None:
        """Send a text as it is.

        Raises:
            ActionRefused: no connection is open, or the text cannot be sent.
        """
        if self._line is None or self.state != "open":
            raise ActionRefused("no raw connection is open; open one first")
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise ActionRefused("the text has half of a surrogate pair", field="text") from None
        await self._line.send(data, headers, method)

    async def shut(self) -> None:
        """Close the connection, if there is one; also one that is being opened."""
        opening, self._opening = self._opening, None
        if opening is not None and not opening.done():
            opening.cancel()
            await asyncio.wait([opening])
        async with self._lock:
            await self._release()
            if self.state in ("opening", "open"):
                self._change("closed")

    async def close(self) -> None:
        """End with the session."""
        await self.shut()

    def templates(self) -> list[RawTemplate]:
        """Return messages with one fault each, for the revision and transport."""
        transport = self.transport
        if transport is None:
            target = self._session.target
            transport = (target.transport or "http") if target.url else "stdio"
        return build_templates(self.revision, transport)

    # -- opening

    async def _open(self, *, handshake: bool) -> None:
        try:
            line = self._line = await self._make_line()
            self.transport = line.transport
            log_of_session = self._session.part(InspectedLog)
            self._log = log_of_session.conversation(self.conversation, line.transport)
            await line.open()
            if find_revision(self.revision) is not None and not REVISIONS[self.revision].handshake:
                line.agree(self.revision)
            if handshake:
                await self._shake_hands(line)
        except AccordError as error:
            # Not `_release`, which would end this task: the line is left to the next `shut`.
            self._change("ended", str(error))
            return
        if self.state == "opening":
            self._change("open", self.reason)

    async def _make_line(self) -> RawLine:
        target = current_target(self._session)
        if not target.url:
            return StdioLine(target, self)
        from accord_tools.inspector.raw.http_lines import HttpLine, SseLine

        headers = {**target.headers, **await request_credentials(self._session)}
        form = target.transport or self._known_form()
        if form is None:
            subject = server_target(target).reached_with(headers=headers)
            form = (await with_form(subject)).spec.transport
        return (SseLine if form == "sse" else HttpLine)(target.url, headers, self)

    def _known_form(self) -> Transport | None:
        """Return the form of HTTP that the page's connection speaks; None without one."""
        main = self._session.part(InspectedLog).main
        if main is None or main.name != MAIN or main.revision is None:
            return None
        return main.transport

    async def _shake_hands(self, line: RawLine) -> None:
        row = REVISIONS[self.revision]
        request: JsonObject = {"jsonrpc": "2.0", "id": HANDSHAKE_ID}
        if row.handshake:
            params = initialize_params(row.id, {}) | {"clientInfo": CLIENT_INFO}
            request |= {"method": "initialize", "params": params}
        else:
            request |= {"method": "server/discover", "params": name_client(row.id)}
        self._answer = asyncio.get_running_loop().create_future()
        await line.send(msgspec.json.encode(request))
        try:
            async with asyncio.timeout(_ANSWER):
                answer = await self._answer
        except TimeoutError:
            self.reason = f"no answer to {request['method']} within {_ANSWER:.0f} s"
            return
        finally:
            self._answer = None
        result = answer.get("result")
        if self.state != "opening":
            return
        if not isinstance(result, dict):
            self.reason = self.reason or f"{request['method']} was refused"
            return
        if row.handshake:
            agreed = find_revision(result.get("protocolVersion"))
            if agreed is not None:
                self.revision = agreed.id
                line.agree(agreed.id)
            done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await line.send(msgspec.json.encode(done))

    async def _release(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            try:
                await line.close()
            except AccordError as error:
                log.debug("a raw connection did not end cleanly: %s", error)
        conversation, self._log = self._log, None
        if conversation is not None:
            conversation.close()

    def _change(self, state: RawState, reason: str = "") -> None:
        self.state = state
        self.reason = reason
        self._session.mark("raw")

    # -- what travels, called by the line

    def observe(self, sender: Party, data: bytes | None, http: HttpFacts | None = None) -> None:
        """Put what a party sent into the log."""
        if self._log is not None:
            self._log.observe(sender, data, http=http)
        if sender == "server" and self._answer is not None:
            if data is not None:
                self._look_for_answer(data)
            elif http is not None and http.is_refusal:
                self._give_up(f"the server refused with status {http.status}")

    def _look_for_answer(self, data: bytes) -> None:
        try:
            message: Any = msgspec.json.decode(data)
        except (ValueError, RecursionError):
            return
        is_answer = isinstance(message, dict) and message.get("id") == HANDSHAKE_ID
        waiting = self._answer
        if is_answer and "method" not in message and waiting is not None and not waiting.done():
            waiting.set_result(message)

    def add_stderr(self, line: str) -> None:
        """Put a line of the launched server into the log."""
        self._session.part(InspectedLog).add_stderr(line)

    def end(self, reason: str) -> None:
        """Note that the server ended the connection."""
        self._give_up(reason)
        self._change("ended", reason)

    def report(self, problem: str) -> None:
        """Note a problem with one message; the connection stays."""
        self._give_up(problem)
        self.reason = problem
        self._session.mark("raw")

    def _give_up(self, reason: str) -> None:
        """Wait for the answer to the handshake no longer."""
        if self._answer is not None and not self._answer.done():
            self.reason = reason
            self._answer.set_result({})


@action("raw.get")
async def get_raw(session: InspectedSession) -> object:
    """Return the state of the raw connection, and the templates for it."""
    console = session.part(RawConsole)
    return {
        "state": console.state,
        "reason": console.reason,
        "conversation": console.conversation,
        "transport": console.transport,
        "revision": console.revision,
        "templates": console.templates(),
    }


@action("raw.open")
async def open_raw(
    session: InspectedSession, *, handshake: bool = True, revision: RevisionId | None = None
) -> None:
    """Begin to open a raw connection."""
    await session.part(RawConsole).open(handshake=handshake, revision=revision)


@action("raw.send")
async def send_raw(
    session: InspectedSession,
    *,
    text: str,
    headers: tuple[tuple[str, str | None], ...] = (),
    http_method: HttpMethod | None = None,
) -> None:
    """Send a text as it is."""
    await session.part(RawConsole).send(text, headers, http_method or "POST")


@action("raw.close")
async def close_raw(session: InspectedSession) -> None:
    """Close the raw connection."""
    await session.part(RawConsole).shut()
