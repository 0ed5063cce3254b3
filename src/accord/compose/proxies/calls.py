"""Requests that are passed on to the other server, and their way back.

Three ways, by how each side asks. A server of a handshake revision asks while the call is under
way; where the client has rounds instead, the call waits here, parked, from one round to the next. A
server with rounds answers with questions; they are asked in the way of the client, and the call is
repeated with the answers.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.client.arguments import OwnMeta
from accord.compose.proxies.options import build_capabilities
from accord.compose.proxies.questions import ask_client
from accord.errors import InvalidParams, RequestError
from accord.protocol import shape
from accord.protocol.exchange import META_CAPABILITIES, Exchange
from accord.protocol.party import META_LOG_LEVEL
from accord.protocol.unknown import UnknownMembers, find_unknown
from accord.runtime.forwarding import forward
from accord.server.channels import Channel
from accord.server.context import Context
from accord.types import (
    InputRequests,
    InputRequiredResult,
    ProgressParams,
    TaskHandle,
)

if TYPE_CHECKING:
    from accord.compose.proxies.connection import Connection
    from accord.compose.proxies.upstream import UpstreamServer
    from accord.server.session import Session

_encode: Final = msgspec.json.Encoder().encode
# What each hop says of itself is not passed on.
_OWN_MEMBERS: Final = "io.modelcontextprotocol/"
_PROGRESS: Final = "progressToken"
# How long the other server waits for an answer that a client never brings.
_PARKED_LONGEST: Final = 600.0


class PassedRequest:
    """One request of a client on its way to the other server.

    Args:
        upstream: the other server.
        session: the session that serves the request.
        exchange: the request.
        params: what is sent there.
        via: a member of `_meta` that names the proxies it has passed.
    """

    __slots__ = ("_exchange", "_name", "_params", "_session", "_unknown", "_upstream", "_via")

    def __init__(
        self,
        upstream: "UpstreamServer",
        session: "Session",
        exchange: Exchange,
        params: Any,
        via: dict[str, Any],
    ) -> None:
        self._upstream = upstream
        self._session = session
        self._exchange = exchange
        self._name = exchange.name
        self._params = params
        self._via = via
        self._unknown: UnknownMembers | None = None
        if exchange.raw and exchange.params is not None and exchange.channel is None:
            found = find_unknown(exchange.raw, exchange.params)
            if found is not None and found.members:
                self._unknown = UnknownMembers(type(params), found.members, {})

    async def serve(self) -> Any:
        """Return the result, in the shape of the newest revision, or encoded.

        Raises:
            AccordError: the other server failed, or cannot be reached.
        """
        exchange, upstream = self._exchange, self._upstream
        if exchange.revision.rounds and self._may_ask:
            if exchange.channel is not None:
                return await self._go_on()
            if await upstream.must_park(self._session, exchange):
                return await self._park()
        async with upstream.borrow(self._session, exchange) as connection:
            result, sent = await self._send(connection, self._params)
        if isinstance(result, InputRequiredResult):
            return await self._ask_in_rounds(_Asked.of(result))
        return self._shape(result, sent)

    @property
    def _may_ask(self) -> bool:
        method = self._exchange.method
        return method is not None and method.may_ask

    # -- sending

    async def _send(self, connection: "Connection", params: Any) -> tuple[Any, Exchange]:
        link, exchange = connection.client._link, self._exchange
        level = None if exchange.peer is None else exchange.peer.log_level
        meta: dict[str, Any] = {
            name: value
            for name, value in exchange.meta.items()
            if name != _PROGRESS and not name.startswith(_OWN_MEMBERS)
        }
        meta.update(self._via)
        on_progress: Callable[[ProgressParams], object] | None = None
        if exchange.token is not None:
            on_progress = self._pass_progress
        if self._may_ask:
            meta[_PROGRESS] = next(link._tokens)
        if link.revision.handshake:
            if not connection.is_shared:
                await connection.set_level(level)
        else:
            meta.update(self._introduce(link.revision.id))
        params.meta = OwnMeta(meta) if meta else None
        result, sent = await forward(
            link.dispatcher,
            self._name,
            params,
            timeout=link._usual[0],
            cap=link._usual[1],
            on_progress=on_progress,
            unknown=self._unknown,
        )
        if isinstance(result, TaskHandle):
            how: Any = {}
            result = await connection.client._wait_for_task(params, result, how)
        return result, sent

    def _introduce(self, revision: Any) -> dict[str, Any]:
        """Return what a request without a handshake says of the client behind it."""
        peer = self._exchange.peer
        assert peer is not None
        able = shape.narrow(build_capabilities(peer.capabilities), revision)
        members: dict[str, Any] = {META_CAPABILITIES: msgspec.Raw(_encode(able))}
        if peer.log_level is not None:
            members[META_LOG_LEVEL] = peer.log_level
        return members

    def _pass_progress(self, params: ProgressParams) -> None:
        context: Context[Any] = Context(self._session, self._exchange)
        with contextlib.suppress(ValueError):
            context.progress(params.progress, params.total, message=params.message)

    # -- the way back

    def _shape(self, result: Any, sent: Exchange) -> Any:
        """Return the result with all members that no revision defines."""
        exchange, revision = self._exchange, self._exchange.revision
        if not sent.raw:
            return result
        if not sent.revision.handshake:
            result = _without_own_meta(result)
        if revision.handshake and exchange.channel is None:
            data = _encode(shape.narrow(result, revision.id))
            if len(data) == len(sent.raw):
                return data
        exchange.unknown = find_unknown(sent.raw, result)
        return result

    # -- a server of a handshake revision, a client with rounds

    async def _park(self) -> Any:
        """Begin a call whose questions are answered in later rounds."""
        parked = ParkedCall(self._upstream, self)
        parked.begin(self._session, self._exchange)
        return await self._follow(parked)

    async def _go_on(self) -> Any:
        """Go on with a request that was answered with questions."""
        channel = self._channel
        kept = await channel.once(_PARKED, _begin_anew, str)
        if not kept:
            return await self._ask_in_rounds(None)
        parked = self._upstream.parked.get(kept)
        if parked is None or not parked.is_of(self._session, self._exchange):
            raise InvalidParams(
                f"{self._name}: the call that asked is not under way any more; begin again"
            )
        return await self._follow(parked)

    async def _follow(self, parked: "ParkedCall") -> Any:
        """Wait for the result of a parked call; its questions end this round."""
        channel = self._channel
        await channel.once(_PARKED, lambda: parked.id, str)
        parked.session, parked.exchange = self._session, self._exchange
        try:
            while True:
                await parked.wait()
                if parked.is_done:
                    result, sent = parked.result()
                    return self._shape(result, sent)
                await asyncio.gather(*(self._answer(each) for each in parked.open_questions()))
        except asyncio.CancelledError:
            parked.cancel()
            raise

    async def _answer(self, question: "_Question") -> None:
        try:
            answer = await ask_client(
                self._session, self._exchange, question.name, question.params, key=question.key
            )
        except RequestError as error:
            question.fail(error)
        else:
            question.settle(answer)

    @property
    def _channel(self) -> Channel:
        context: Context[Any] = Context(self._session, self._exchange)
        return context._channel

    # -- a server with rounds

    async def _ask_in_rounds(self, first: "_Asked | None") -> Any:
        """Ask what the other server asks, and repeat the request with the answers."""
        channel = self._channel
        await channel.once(_PARKED, str, str)
        answers: dict[str, Any] = {}
        asked = first
        state: str | None = None
        for turn in count():
            advance = self._advance(answers, state) if first is None or turn else _return(first)
            try:
                asked = await channel.once(f"upstream {turn}", advance, _Asked)
            except _Finished as finished:
                return self._shape(*finished.answer)
            assert asked is not None
            state = asked.state
            keys = [*asked.questions]
            found = await asyncio.gather(
                *(
                    ask_client(
                        self._session,
                        self._exchange,
                        asked.questions[key].method,
                        asked.questions[key].params,
                        key=f"{turn}-{key}",
                    )
                    for key in keys
                )
            )
            answers = dict(zip(keys, found, strict=True))
        raise AssertionError  # the loop ends by a result

    def _advance(self, answers: dict[str, Any], state: str | None) -> Callable[[], Any]:
        async def advance() -> _Asked:
            async with self._upstream.borrow(self._session, self._exchange) as connection:
                params = self._params.__copy__()
                revision = connection.client._link.revision.id
                if answers:
                    params.input_responses = {
                        key: msgspec.Raw(_encode(shape.narrow(answer, revision)))
                        for key, answer in answers.items()
                    }
                params.request_state = state
                result, sent = await self._send(connection, params)
            if isinstance(result, InputRequiredResult):
                return _Asked.of(result)
            raise _Finished((result, sent))

        return advance


_PARKED: Final = "proxied call"


def _begin_anew() -> str:
    return ""


def _return(value: Any) -> Callable[[], Any]:
    return lambda: value


class _Finished(Exception):
    """The other server has answered; ends the rounds."""

    def __init__(self, answer: tuple[Any, Exchange]) -> None:
        super().__init__()
        self.answer = answer


class _Asked(msgspec.Struct):
    """What the other server asked, kept from round to round."""

    questions: InputRequests
    state: str | None = None

    @classmethod
    def of(cls, result: InputRequiredResult) -> "_Asked":
        return cls(result.input_requests or {}, result.request_state)


# -- parked calls


class _Question:
    """A question of the other server that waits for its answer."""

    def __init__(self, key: str, name: str, params: Any) -> None:
        self.key = key
        self.name = name
        self.params = params
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def settle(self, answer: Any) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: RequestError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class ParkedCall:
    """A call under way that outlives the rounds in which its questions are asked.

    Args:
        upstream: the other server.
        request: what is sent there.
    """

    session: "Session"
    exchange: Exchange

    def __init__(self, upstream: "UpstreamServer", request: PassedRequest) -> None:
        self.id = secrets.token_urlsafe(16)
        self._upstream = upstream
        self._request = request
        self._questions: list[_Question] = []
        self._news = asyncio.Event()
        self._task: asyncio.Task[tuple[Any, Exchange]] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._numbers = count(1)
        self._owner: object = None

    def begin(self, session: "Session", exchange: Exchange) -> None:
        """Send the request, and go on by itself from here."""
        self.session, self.exchange = session, exchange
        self._owner = _identity(session, exchange)
        self._upstream.parked[self.id] = self
        self._task = self._upstream.spawn(self._run())
        self._task.add_done_callback(self._end)

    async def _run(self) -> tuple[Any, Exchange]:
        async with self._upstream.borrow(self.session, self.exchange, self) as connection:
            return await self._request._send(connection, self._request._params)

    def _end(self, task: object) -> None:
        self._news.set()
        if self._expiry is not None:
            self._expiry.cancel()
        loop = asyncio.get_running_loop()
        # The round that gets the result may still be on its way.
        loop.call_later(_PARKED_LONGEST, self._upstream.parked.pop, self.id, None)

    def is_of(self, session: "Session", exchange: Exchange) -> bool:
        """Whether the call is one of this caller."""
        return self._owner == _identity(session, exchange)

    # -- called by the connection

    async def ask(self, name: str, params: Any) -> Any:
        """Wait for the answer to a question, which a later round brings."""
        question = _Question(f"upstream-{next(self._numbers)}", name, params)
        self._questions.append(question)
        self._news.set()
        loop = asyncio.get_running_loop()
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = loop.call_later(_PARKED_LONGEST, self.cancel)
        return await question.answer

    # -- called by each round

    async def wait(self) -> None:
        """Wait until there is a result or a question."""
        while not self.is_done and not self.open_questions():
            self._news.clear()
            await self._news.wait()

    @property
    def is_done(self) -> bool:
        return self._task is not None and self._task.done()

    def open_questions(self) -> list[_Question]:
        return [each for each in self._questions if not each.answer.done()]

    def result(self) -> tuple[Any, Exchange]:
        """Return the result, or raise what failed."""
        assert self._task is not None
        self._upstream.parked.pop(self.id, None)
        if self._task.cancelled():
            raise InvalidParams("the call was given up: its questions were not answered in time")
        return self._task.result()

    def cancel(self) -> None:
        """Give the call up."""
        self._upstream.parked.pop(self.id, None)
        if self._task is not None:
            self._task.cancel()


def _identity(session: "Session", exchange: Exchange) -> object:
    principal = session.principal_of(exchange)
    return None if principal is None else principal.identity


def _without_own_meta(result: Any) -> Any:
    """Return a result without what the other server says of itself in it."""
    meta = result.meta
    if meta and any(name.startswith(_OWN_MEMBERS) for name in meta):
        kept = {name: each for name, each in meta.items() if not name.startswith(_OWN_MEMBERS)}
        return msgspec.structs.replace(result, meta=kept or None)
    return result
