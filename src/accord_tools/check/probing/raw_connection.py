"""A raw connection to a server under check: sends anything, valid or not, and keeps all messages.

No rule of the protocol is enforced here. Missing answers and closed connections are exceptions, so
that a scenario can make verdicts of them.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeAlias

import msgspec

from accord.errors import AccordError
from accord.protocol.revisions import find_revision
from accord.protocol.violation import OTHER
from accord.trace import HttpFacts, Party
from accord.types import JsonObject, RevisionId
from accord_tools.check.probing.messages import (
    EVERYTHING_STATELESS,
    ROUNDS,
    MessageLog,
    Reply,
    answer_round,
    answer_to,
    decode_json,
    initialize_params,
    input_requests_of,
    is_request,
    is_same_id,
    new_notification,
    new_request,
    objects_in,
    params_of,
    stamp,
)
from accord_tools.check.probing.tool_calls import CallLimit

if TYPE_CHECKING:
    from accord.protocol.verdict import Evidence


class MessageTimeout(AccordError):
    """A message did not arrive in time.

    Attributes:
        method: of the request without an answer; empty if another message is missing.
        has_started: whether the server sent anything at all on this connection.
        is_garbled: whether something arrived meanwhile that may be the answer: text that is not
            JSON, or an answer under an unknown id.
    """

    def __init__(
        self,
        text: str,
        *,
        method: str = "",
        has_started: bool = True,
        is_garbled: bool = False,
    ) -> None:
        super().__init__(text)
        self.method = method
        self.has_started = has_started
        self.is_garbled = is_garbled


class ConnectionEnded(AccordError):
    """The server closed the connection, or exited.

    Attributes:
        has_started: whether the server sent anything at all on this connection.
    """

    def __init__(self, text: str, *, has_started: bool = True) -> None:
        super().__init__(text)
        self.has_started = has_started


class AuthorizationRequired(ConnectionEnded):
    """The server answers nothing without authorization."""


class SentRequests:
    """The requests of a connection by their ids; a number and its text are two ids."""

    def __init__(self) -> None:
        self._requests: dict[tuple[type, Any], JsonObject] = {}
        self._answered: set[tuple[type, Any]] = set()
        # How much was garbled when each request was sent.
        self._before: dict[tuple[type, Any], int] = {}
        self._garbled = 0

    def add(self, message: JsonObject) -> None:
        """Note a request that is about to be sent."""
        id = message["id"]
        self._requests[type(id), id] = message
        self._before[type(id), id] = self._garbled

    def get(self, id: Any) -> JsonObject:
        """Return the request with an id; empty if it is unknown."""
        return self._requests.get((type(id), id), {})

    def method_of(self, id: Any) -> str:
        """Return the method of the request with an id; empty if it is unknown."""
        return str(self.get(id).get("method", ""))

    def tool_of(self, id: Any) -> str | None:
        """Return the tool that the request with an id calls."""
        name = params_of(self.get(id)).get("name")
        is_call = self.method_of(id) == "tools/call"
        return name if is_call and isinstance(name, str) else None

    def tool_answered(self, id: Any) -> str | None:
        """Return the tool whose call was answered; None if that was noted before."""
        key = (type(id), id)
        if key in self._answered:
            return None
        self._answered.add(key)
        return self.tool_of(id)

    def note_arrival(self, found: object) -> None:
        """Note text that is not JSON, which is None, and answers under unknown ids."""
        self._garbled += found is None or any(map(self._is_stray, objects_in(found)))

    def missing(self, id: Any, error: MessageTimeout, *, has_started: bool) -> MessageTimeout:
        """Return the failure of a request that has no answer, with all that is known of it."""
        return MessageTimeout(
            str(error),
            method=self.method_of(id),
            has_started=has_started,
            is_garbled=self._garbled > self._before.get((type(id), id), self._garbled),
        )

    def _is_stray(self, message: JsonObject) -> bool:
        id = message.get("id")
        if "method" in message:
            return False
        return not isinstance(id, str | int | float) or (type(id), id) not in self._requests


EVERYTHING: Final[Mapping[str, object]] = {
    "roots": {"listChanged": True},
    "sampling": {},
    "elicitation": {},
}
# No check makes a server send as many messages on one connection.
_FLOOD: Final = 20_000
# The first answer may take this many times the patience.
_STARTING: Final = 4


class RawCarrier(Protocol):
    """The transport of a raw connection."""

    async def open(self, connection: "RawConnection") -> None:
        """Make the connection; pass each message to `connection.receive`."""

    async def send(self, data: bytes) -> None:
        """Send these bytes as one message."""

    async def close(self) -> None:
        """End the connection within a bounded time."""


Respond: TypeAlias = Callable[["RawConnection", JsonObject], Coroutine[Any, Any, None]]
"""Answers a request of the peer, in place of `answer_to`."""


class RawConnection:
    """A connection to a server under check.

    Args:
        carrier: the transport.
        log: records and judges the messages.
        patience: seconds to wait for an answer.
        grace: how many times the patience an answer may take before it counts as missing.
        starting: seconds to wait for the first message; four times the patience by default.
        me: the party that the checker plays.
        limit: counts the calls of tools; None allows all.

    Attributes:
        received: every message of the peer, in order.
        opening: the server's result of initialize, or of server/discover.
        opening_proof: the exchange that it was the result of, as evidence.
        is_stateless: whether every request names its revision and the client's capabilities.
        follows_rounds: whether the questions of a result are answered, and the request repeated.
        ended: why the connection ended; None while it is open.
        asked: the methods of all requests and questions of the peer.
        late: names of tools that answered after the patience, or not at all, with the seconds.
        proof: returns the evidence of the last request; None before the first one.
        first_answer: seconds from the first message to the first one of the peer.
        lived: seconds from the first message to the end of the connection.
    """

    def __init__(
        self,
        carrier: RawCarrier,
        log: MessageLog,
        *,
        patience: float = 5.0,
        grace: float = 1.0,
        starting: float | None = None,
        me: Party = "client",
        limit: CallLimit | None = None,
    ) -> None:
        self.carrier: Any = carrier
        self.me: Party = me
        self.log = log
        self.patience = patience
        self.limit = limit
        self.asked: set[str] = set()
        self.late: dict[str, float] = {}
        self.proof: Callable[[], list[Evidence]] | None = None
        self.first_answer = 0.0
        self.lived = 0.0
        self._grace = grace
        self._starting = patience * _STARTING if starting is None else starting
        self._first_sent: float | None = None
        self._requests = SentRequests()
        self.received: list[JsonObject] = []
        self.opening: JsonObject = {}
        self.opening_proof: list[Evidence] = []
        self.revision: RevisionId | None = None
        self.client_capabilities: Mapping[str, object] = {}
        self.is_stateless = False
        self.follows_rounds = True
        self.ended: str | None = None
        self.respond: Respond | None = None
        self._has_received = False
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        await self.carrier.open(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection within a bounded time; may be repeated."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.patience)
        await self.carrier.close()
        self.log.close()

    # -- receiving, called by the carrier

    def receive(self, data: bytes, http: HttpFacts | None = None) -> None:
        """Take a message of the peer."""
        self._note_first_message()
        if self.log.count >= _FLOOD:
            self.end(f"the server floods the connection: more than {_FLOOD} messages")
            return
        found = self.log.take(OTHER[self.me], data, http)
        self._requests.note_arrival(found)
        for message in objects_in(found):
            self.received.append(message)
            if is_request(message):
                self.asked.add(str(message["method"]))
                self._answer(message)
            for question in input_requests_of(message).values():
                self.asked.add(str(question.get("method")))
        self._changed.set()

    def _note_first_message(self) -> None:
        if not self._has_received and self._first_sent is not None:
            self.first_answer = asyncio.get_running_loop().time() - self._first_sent
        self._has_received = True

    def receive_refusal(self, data: bytes, answer: bytes, http: HttpFacts) -> None:
        """Take the refusal of a message by an HTTP status.

        The refusal of a request answers it even without an id; the refusal of a notification is
        not an answer.
        """
        self._note_first_message()
        sent, found = decode_json(data), decode_json(answer)
        if not isinstance(sent, dict) or not isinstance(sent.get("method"), str):
            self.receive(answer, http)
            return
        id = sent.get("id")
        if isinstance(found, dict) and "id" in sent and is_same_id(found.get("id"), id):
            self.receive(answer, http)
            return
        self.log.take(OTHER[self.me], answer, http)
        if isinstance(id, str | int):
            error = found.get("error") if isinstance(found, dict) else None
            if not isinstance(error, dict):
                error = {"message": f"HTTP status {http.status}"}
            self.received.append({"jsonrpc": "2.0", "id": id, "error": error})
            self._changed.set()

    def end(self, why: str) -> None:
        """Record that no more messages will arrive."""
        if self.ended is None and self._first_sent is not None:
            self.lived = asyncio.get_running_loop().time() - self._first_sent
        self.ended = self.ended or why
        self._changed.set()

    def _answer(self, question: JsonObject) -> None:
        if self.respond is None:
            self._spawn(self.send(answer_to(question, self.client_capabilities)))
        else:
            self._spawn(self.respond(self, question))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish_task)

    def _finish_task(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the connection ended, which every waiting caller learns by itself

    # -- sending

    async def send(self, message: object) -> None:
        """Send a message, or bytes as they are.

        Raises:
            ConnectionEnded: the connection is closed.
            CallRefused: it calls a tool that may not be called, or not again.
        """
        self.claim(message)
        await self._send(message)

    def claim(self, message: object) -> None:
        """Count the calls of tools in a message that is about to be sent.

        Raises:
            CallRefused: one of them is not allowed.
        """
        if self.limit is not None:
            self.limit.claim_all(decode_json(message) if isinstance(message, bytes) else message)

    async def _send(self, message: object) -> None:
        data = message if isinstance(message, bytes) else msgspec.json.encode(message)
        if self.ended is not None:
            raise ConnectionEnded(self.ended, has_started=self._has_received)
        if self._first_sent is None:
            self._first_sent = asyncio.get_running_loop().time()
        if not getattr(self.carrier, "takes_down", False):
            self.log.take(self.me, data)
        await self.carrier.send(data)

    async def notify(self, method: str, params: object = None) -> None:
        """Send a notification."""
        await self.send(new_notification(method, params))

    def request(
        self,
        method: str,
        params: object = None,
        *,
        id: Any = None,
        capabilities: Mapping[str, object] | None = None,
    ) -> JsonObject:
        """Return a request as this conversation sends it.

        Without a handshake it declares `capabilities`, by default the usual ones.
        """
        if self.is_stateless:
            declared = self.client_capabilities if capabilities is None else capabilities
            params = stamp(str(self.revision), params, declared)
        return new_request(method, params, id=id)

    async def begin(
        self,
        method: str,
        params: object = None,
        *,
        id: Any = None,
        capabilities: Mapping[str, object] | None = None,
    ) -> Any:
        """Send a request and return its id without waiting for the answer."""
        message = self.request(method, params, id=id, capabilities=capabilities)
        self.claim(message)
        await self.begin_uncounted(message)
        return message["id"]

    async def begin_uncounted(self, message: JsonObject) -> None:
        """Send a request without counting it: one that goes on with an earlier call."""
        id = message["id"]
        self._requests.add(message)
        self.proof = partial(self.log.evidence_of_exchange, id)
        try:
            await self._send(message)
        except MessageTimeout as error:
            # Over HTTP the request may be accepted only with its answer.
            self._note_late(id, self.longest)
            raise self._requests.missing(id, error, has_started=self._has_received) from None

    async def start(self, method: str, params: object = None, *, id: Any = None) -> Any:
        """Send a request in a task of its own, and return its id.

        Over HTTP a request may be accepted only with its answer, so this is how several requests
        run at once. `reply_to` raises if it could not be sent.

        Raises:
            CallRefused: it calls a tool that may not be called, or not again.
        """
        message = self.request(method, params, id=id)
        # Not in the task, where a refused call would look like a lost answer.
        self.claim(message)
        self._spawn(self.begin_uncounted(message))
        # Lets the task write now, so that messages arrive in order over a pipe.
        await asyncio.sleep(0)
        return message["id"]

    async def ask(
        self,
        method: str,
        params: object = None,
        *,
        id: Any = None,
        patience: float | None = None,
        capabilities: Mapping[str, object] | None = None,
    ) -> Reply:
        """Send a request and wait for its answer.

        Raises:
            MessageTimeout: it did not arrive in time.
            ConnectionEnded: the connection ended first.
        """
        used = await self.begin(method, params, id=id, capabilities=capabilities)
        return await self.reply_to(used, patience=patience, what=method)

    async def reply_to(
        self, id: Any, *, patience: float | None = None, what: str = "the request"
    ) -> Reply:
        """Wait for the answer to a request; questions in its place are answered first.

        Raises:
            MessageTimeout: it did not arrive in time.
            ConnectionEnded: the connection ended first.
        """
        reply = await self._next_reply(id, patience, what)
        request = self._requests.get(id)
        for _ in range(ROUNDS):
            if not request or not self.is_stateless or not self.follows_rounds:
                break
            repeat = answer_round(request, reply, self.client_capabilities)
            if repeat is None:
                break
            # The same call of a tool goes on, so it is not counted again.
            await self.begin_uncounted(repeat)
            reply = await self._next_reply(repeat["id"], patience, what)
        self._count_answer(id, reply)
        return reply

    def _count_answer(self, id: Any, reply: Reply) -> None:
        tool = self._requests.tool_answered(id)
        if tool is not None and self.limit is not None:
            self.limit.note_answer(tool, is_error=reply.is_error or reply.is_failed_call)

    async def _next_reply(self, id: Any, patience: float | None, what: str) -> Reply:
        self.proof = partial(self.log.evidence_of_exchange, id)
        wait = self.longest if patience is None else patience
        began = asyncio.get_running_loop().time()
        try:
            found = await self.until(
                lambda message: "method" not in message and is_same_id(message.get("id"), id),
                f"an answer to {what}",
                patience=wait,
            )
        except MessageTimeout as error:
            if patience is None:
                self._note_late(id, wait)
            raise self._requests.missing(id, error, has_started=self._has_received) from None
        took = asyncio.get_running_loop().time() - began
        if took > self.patience:
            self._note_late(id, took)
        return Reply(found)

    @property
    def longest(self) -> float:
        """Seconds after which an answer counts as missing."""
        # Before its first message a server has to start.
        return self.patience * self._grace if self._has_received else self._starting

    def _note_late(self, id: Any, seconds: float) -> None:
        tool = self._requests.tool_of(id)
        if tool is not None:
            self.late[tool] = seconds

    async def until(
        self,
        is_wanted: Callable[[JsonObject], bool],
        what: str,
        *,
        since: int = 0,
        patience: float | None = None,
    ) -> JsonObject:
        """Wait for a message of the server; messages from number `since` on count too.

        Raises:
            MessageTimeout: it did not arrive in time.
            ConnectionEnded: the connection ended first.
        """
        if patience is None:
            patience = self.patience if self._has_received else self._starting
        place = since
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        while True:
            self._changed.clear()
            while place < len(self.received):
                if is_wanted(self.received[place]):
                    return self.received[place]
                place += 1
            if self.ended is not None:
                why = f"{self.ended}, while {what} was expected"
                raise ConnectionEnded(why, has_started=self._has_received)
            if not await self._wait_for_change(deadline):
                why = f"{what} did not arrive within {patience:.3g} s"
                raise MessageTimeout(why, has_started=self._has_received)

    def messages(self, method: str, since: int = 0) -> list[JsonObject]:
        """Return the messages of the peer with a method, from number `since` on."""
        return [each for each in self.received[since:] if each.get("method") == method]

    def point_at(self, *messages: object) -> None:
        """Choose the messages, sent or received, that prove the next verdict."""
        self.proof = partial(self.log.evidence_of, messages)

    async def collect(self, seconds: float) -> list[JsonObject]:
        """Wait for some seconds and return the messages of that time."""
        place = len(self.received)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self.ended is None and loop.time() < deadline:
            await self._wait_for_change(deadline)
            self._changed.clear()
        return self.received[place:]

    async def _wait_for_change(self, deadline: float) -> bool:
        """Wait until something arrives, or the connection ends; return False if nothing does."""
        if self._changed.is_set():
            return True
        # A timer, not a timeout: Python 3.11 stops tracing frames into which an error was thrown.
        known = len(self.received)
        loop = asyncio.get_running_loop()
        timer = loop.call_at(deadline, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            timer.cancel()
        # On a busy machine a message and the end of the time may be noticed together.
        has_changed = self.ended is not None or len(self.received) > known
        return has_changed or loop.time() < deadline

    async def begin_conversation(
        self, revision: str, *, capabilities: Mapping[str, object] | None = None
    ) -> Reply:
        """Do the handshake; in a revision without one, ask what the server supports."""
        if not self.be_stateless(revision, capabilities):
            return await self.initialize(revision, capabilities=capabilities)
        reply = await self.ask("server/discover")
        self.opening = reply.result
        self.opening_proof = self.log.evidence_of_exchange(reply.id)
        return reply

    def be_stateless(self, revision: str, capabilities: Mapping[str, object] | None = None) -> bool:
        """Name the revision in every request from now on; return False if it has a handshake."""
        row = find_revision(revision)
        if row is None or row.handshake:
            return False
        self.is_stateless = True
        self.revision = row.id
        self.client_capabilities = EVERYTHING_STATELESS if capabilities is None else capabilities
        if hasattr(self.carrier, "agree"):
            self.carrier.agree(revision)
        return True

    async def initialize(
        self,
        revision: str,
        *,
        capabilities: Mapping[str, object] | None = None,
        is_confirmed: bool = True,
    ) -> Reply:
        """Do the handshake; send initialized too unless `is_confirmed` is False."""
        self.client_capabilities = EVERYTHING if capabilities is None else capabilities
        params = initialize_params(revision, self.client_capabilities)
        reply = await self.ask("initialize", params)
        self.opening = reply.result
        self.opening_proof = self.log.evidence_of_exchange(reply.id)
        self.revision = self.opening.get("protocolVersion")
        if hasattr(self.carrier, "agree"):
            self.carrier.agree(self.revision)
        if is_confirmed and not reply.is_error:
            await self.notify("notifications/initialized")
            if hasattr(self.carrier, "listen"):
                self.carrier.listen()
        return reply
