"""Requests that are passed on to the other server, and their way back.

Three ways, by how each side asks. A server of a handshake revision asks while the call is under
way; where the client has rounds instead, the call waits here, parked, from one round to the next. A
server with rounds answers with questions; they are asked in the way of the client, and the call is
repeated with the answers.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec

from accord.client.options import OwnMeta
from accord.compose.proxies.connection import CallInFlight, CallOver, ask_client
from accord.compose.proxies.options import build_capabilities
from accord.errors import InvalidParams, RequestError, UrlElicitationRequired, lower_first
from accord.protocol import shape
from accord.protocol.exchange import META_CAPABILITIES, Exchange
from accord.protocol.party import META_LOG_LEVEL
from accord.protocol.unknown import UnknownMembers, find_unknown, known_members
from accord.server.context import Context
from accord.server.questions.channels import Channel
from accord.types import (
    CreateTaskResult,
    InputRequests,
    InputRequiredResult,
    LoggingLevel,
    ProgressParams,
    RevisionId,
    TaskHandle,
    TaskMetadata,
)

if TYPE_CHECKING:
    from accord.compose.proxies.connection import Connection
    from accord.compose.proxies.upstream import UpstreamServer
    from accord.server.session import Session


# -- calls that outlive the rounds in which their questions are asked

Answer: TypeAlias = tuple[Any, Exchange | None]
"""A result, and the exchange that it was received in; None where it is that of a task."""
Work: TypeAlias = Callable[["Connection"], Awaitable[Answer]]
"""Sends a request, or waits for a task, and returns the answer."""


class Question:
    """A question of the other server that waits for its answer."""

    def __init__(self, key: str, name: str, params: Any) -> None:
        self.key = key
        self.name = name
        self.params = params
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def settle(self, answer: Any) -> None:
        """Bring the answer."""
        if not self.answer.done():
            self.answer.set_result(answer)

    def fail(self, error: Exception) -> None:
        """Report that there is no answer."""
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # marked as retrieved: the other server may have given it up


class ParkedCall:
    """A call under way that outlives the rounds in which its questions are asked.

    Args:
        upstream: the other server.
        request: the request that begins it.

    Attributes:
        request: the latest request of the client for it.
        is_followed: whether that one waits for it now.
    """

    def __init__(self, upstream: "UpstreamServer", request: "PassedRequest") -> None:
        self.id = secrets.token_urlsafe(16)
        self.request = request
        self.is_followed = True
        self._upstream = upstream
        self._questions: list[Question] = []
        self._news = asyncio.Event()
        self._task: asyncio.Task[Answer] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._numbers = count(1)
        self._owner = _identity(request.session, request.exchange)

    def begin(self, work: Work) -> None:
        """Do the work, which goes on by itself from here."""
        self._upstream.parked[self.id] = self
        self._task = self._upstream.spawn(self._run(work))
        self._task.add_done_callback(self._end)

    async def _run(self, work: Work) -> Answer:
        request = self.request
        async with self._upstream.borrow(request.session, request.exchange, self) as connection:
            return await work(connection)

    def _end(self, task: object) -> None:
        self._stop_expiry()
        self._news.set()
        for question in self.open_questions():
            question.fail(CallOver())
        loop = asyncio.get_running_loop()
        # The round that gets the result may still be on its way.
        limit = self._upstream.policy.round_timeout
        loop.call_later(limit, self._upstream.parked.pop, self.id, None)

    def is_of(self, session: "Session", exchange: Exchange) -> bool:
        """Whether the call is one of this caller."""
        return self._owner == _identity(session, exchange)

    # -- called by the connection

    async def ask(self, name: str, params: Any) -> Any:
        """Wait for the answer to a question, which a later round brings.

        Raises:
            CallOver: the call is over.
            RequestError: the client refused.
        """
        question = Question(f"upstream-{next(self._numbers)}", name, params)
        self._questions.append(question)
        self._news.set()
        self._stop_expiry()
        limit = self._upstream.policy.round_timeout
        self._expiry = asyncio.get_running_loop().call_later(limit, self.cancel)
        try:
            return await question.answer
        finally:
            # The other server may have given the question up.
            self._questions.remove(question)
            if not self._questions:
                self._stop_expiry()

    def _stop_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def pass_progress(self, params: ProgressParams) -> None:
        """Pass progress to the client, if it waits for the call now."""
        if self.is_followed and self.request.exchange.token is not None:
            self.request.pass_progress(params)

    # -- called by each round

    def enter(self, request: "PassedRequest") -> None:
        """Let the call be that of another request."""
        self.request, self.is_followed = request, True

    def leave(self, request: "PassedRequest") -> None:
        """Note that a request does not wait any more."""
        if self.request is request:
            self.is_followed = False

    async def wait(self) -> None:
        """Wait until there is a result or a question."""
        while not self.is_done and not self.open_questions():
            self._news.clear()
            await self._news.wait()

    @property
    def is_done(self) -> bool:
        """Whether there is a result."""
        return self._task is not None and self._task.done()

    def open_questions(self) -> list[Question]:
        """Return the questions without an answer."""
        return [each for each in self._questions if not each.answer.done()]

    def result(self) -> Answer:
        """Return the result, or raise what failed."""
        assert self._task is not None
        if self._task.cancelled():
            self._upstream.parked.pop(self.id, None)
            raise InvalidParams("the call was given up: its questions were not answered in time")
        if not self.needs_pages:
            self._upstream.parked.pop(self.id, None)
        return self._task.result()

    @property
    def needs_pages(self) -> bool:
        """Whether it is to be made again after the user has visited pages."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return False
        error = self._task.exception()
        return isinstance(error, RequestError) and error.code == UrlElicitationRequired.default_code

    def cancel(self) -> None:
        """Give the call up."""
        self._upstream.parked.pop(self.id, None)
        if self._task is not None:
            self._task.cancel()


def _identity(session: "Session", exchange: Exchange) -> object:
    principal = session.principal_of(exchange)
    return None if principal is None else principal.identity


# -- what a request brings along that is passed on as it is

# What each hop says of itself is not passed on.
OWN_MEMBERS: Final = "io.modelcontextprotocol/"
PROGRESS: Final = "progressToken"
_TASKS: Final = "io.modelcontextprotocol/tasks"
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_meta: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode


class Passing(NamedTuple):
    """What is passed on of a request, beside its params.

    Attributes:
        meta: the members of its `_meta` that are not about one hop, encoded.
        unknown: members of the params that no revision defines.
    """

    meta: dict[str, Any]
    unknown: UnknownMembers | None


def read_passing(exchange: Exchange, kind: type) -> Passing:
    """Read what is passed on of a request.

    Args:
        exchange: the request.
        kind: the type of the params that are sent.

    Raises:
        InvalidParams: it cannot be read.
    """
    raw = exchange.raw
    if raw is msgspec.UNSET or not raw:
        return Passing({}, None)
    try:
        members = _members(raw)
        own = members.get("_meta")
        meta = {} if own is None else _meta(own) or {}
    except ValueError as error:
        raise InvalidParams(f"{exchange.name}: {lower_first(error)}") from None
    kept = {
        name: value
        for name, value in meta.items()
        if name != PROGRESS and not name.startswith(OWN_MEMBERS)
    }
    received: Any = type(exchange.params)
    known = known_members(received)
    if members.keys() <= known.keys():
        return Passing(kept, None)
    unknown = {name: value for name, value in members.items() if name not in known}
    return Passing(kept, UnknownMembers(kind, unknown, {}))


@lru_cache(maxsize=256)
def introduce(
    declared: frozenset[str], level: LoggingLevel | None, revision: RevisionId
) -> dict[str, Any]:
    """Return what a request without a handshake says of the client behind it.

    Args:
        declared: what the client can answer.
        level: the log messages that it wants.
        revision: that of the request.
    """
    able = build_capabilities(declared)
    able.extensions = {_TASKS: {}}  # the proxy waits for tasks by itself
    encoded = msgspec.json.encode(shape.narrow(able, revision))
    members: dict[str, Any] = {META_CAPABILITIES: msgspec.Raw(encoded)}
    return members if level is None else {**members, META_LOG_LEVEL: level}


# -- requests

_encode: Final = msgspec.json.Encoder().encode


class PassedRequest:
    """One request of a client on its way to the other server.

    Args:
        upstream: the other server.
        session: the session that serves the request.
        exchange: the request.
        params: what is sent there.
        passing: what it brings along.
        is_task: whether the other server answers it as a task alone.
    """

    __slots__ = (
        "_is_task",
        "_name",
        "_params",
        "_passing",
        "_upstream",
        "exchange",
        "session",
    )

    def __init__(
        self,
        upstream: "UpstreamServer",
        session: "Session",
        exchange: Exchange,
        params: Any,
        passing: Passing,
        *,
        is_task: bool = False,
    ) -> None:
        self._upstream = upstream
        self.session = session
        self.exchange = exchange
        self._name = exchange.name
        self._params = params
        self._passing = passing
        self._is_task = is_task

    async def serve(self) -> Any:
        """Return the result, in the shape of the newest revision, or encoded.

        Raises:
            AccordError: the other server failed, or cannot be reached.
        """
        exchange, upstream = self.exchange, self._upstream
        connection = upstream.find_open(self.session, exchange)
        is_usable = connection is not None and (
            connection.has_rounds or not exchange.revision.rounds
        )
        if connection is not None and is_usable and exchange.channel is None:
            # Nearly all calls; those that go on with a question have a channel.
            return await self._serve_on(connection)
        if exchange.revision.rounds and self._may_ask:
            is_open = exchange.channel is not None
            if is_open or await upstream.must_park(self.session, exchange):
                return await self._serve_in_rounds()
        async with upstream.borrow(self.session, exchange) as borrowed:
            result, sent = await self._send(borrowed, self._params)
        return await self._finish(result, sent)

    async def _serve_on(self, connection: "Connection") -> Any:
        call = CallInFlight(self.session, self.exchange)
        connection.calls[call] = None
        try:
            result, sent = await self._send(connection, self._params)
        finally:
            del connection.calls[call]
        if result.__class__ is InputRequiredResult or result.__class__ is TaskHandle:
            return await self._finish(result, sent)
        return self._shape(result, sent)

    async def _finish(self, result: Any, sent: Exchange | None) -> Any:
        """Return the result, or go on with the questions or the task that come in place of it."""
        if isinstance(result, TaskHandle):
            parked = self._park_task(self._params, result)
            await self._channel.once(_PARKED, lambda: parked.id, str)
            return await self._follow(parked)
        if isinstance(result, InputRequiredResult):
            return await self._ask_in_rounds(_Asked.of(result))
        return self._shape(result, sent)

    @property
    def _may_ask(self) -> bool:
        method = self.exchange.method
        return method is not None and method.may_ask

    # -- sending

    async def _send(
        self, connection: "Connection", params: Any, parked: ParkedCall | None = None
    ) -> Answer:
        link, exchange = connection.client._link, self.exchange
        peer = exchange.peer
        level = None if peer is None else peer.log_level
        meta: dict[str, Any] = {**self._passing.meta}
        on_progress: Callable[[ProgressParams], object] | None = None
        if parked is not None:
            on_progress = parked.pass_progress
        elif exchange.token is not None:
            on_progress = self.pass_progress
        if self._may_ask:
            meta[PROGRESS] = next(link._tokens)
        if link.revision.handshake:
            if connection.lacks_level(level):
                await connection.set_level(level)
        else:
            assert peer is not None
            meta.update(introduce(peer.capabilities, level, link.revision.id))
        params.meta = OwnMeta(meta) if meta else None
        if self._is_task and link.has_tasks:  # tasks.tool.required-tasked
            params.task = TaskMetadata()
        result, sent = await link.dispatcher.forward(
            self._name,
            params,
            timeout=link._usual[0],
            cap=link._usual[1],
            on_progress=on_progress,
            unknown=self._passing.unknown,
        )
        if isinstance(result, CreateTaskResult):
            return await self._wait_for_task(connection, params, result)
        return result, sent

    async def _wait_for_task(
        self, connection: "Connection", params: Any, answer: TaskHandle | CreateTaskResult
    ) -> Answer:
        from accord.client.tasks import wait_for_handle

        result = await wait_for_handle(connection.client._link, params, answer, {})
        # It was received with the task, not as the answer to the call.
        return _without_own_meta(result), None

    def pass_progress(self, params: ProgressParams) -> None:
        """Pass the progress of the other server to the client, where it wants to know."""
        context: Context[Any] = Context(self.session, self.exchange)
        with contextlib.suppress(ValueError):
            context.progress(params.progress, params.total, message=params.message)

    # -- the way back

    def _shape(self, result: Any, sent: Exchange | None) -> Any:
        """Return the result with all members that no revision defines."""
        exchange, revision = self.exchange, self.exchange.revision
        if sent is None or not sent.raw:
            return result
        if revision.handshake and sent.revision.handshake and exchange.channel is None:
            data = _encode(shape.narrow(result, revision.id))
            if len(data) == len(sent.raw):
                return data
        exchange.unknown = find_unknown(sent.raw, result)
        return result if sent.revision.handshake else _without_own_meta(result)

    # -- a server of a handshake revision, a client with rounds

    async def _serve_in_rounds(self) -> Any:
        """Serve one of the requests that a client with rounds repeats for one call."""
        kept = await self._channel.once(_PARKED, self._park, str)
        if not kept:
            return await self._ask_in_rounds(None)
        parked = self._find_parked(kept)
        if parked.needs_pages:
            self._begin(parked)
        return await self._follow(parked)

    async def _park(self) -> str:
        """Begin a call whose questions are answered in later rounds, if there can be any."""
        if not await self._upstream.must_park(self.session, self.exchange):
            return ""
        parked = ParkedCall(self._upstream, self)
        self._begin(parked)
        return parked.id

    def _begin(self, parked: ParkedCall) -> None:
        parked.begin(lambda connection: self._send(connection, self._params, parked))

    def _park_task(self, params: Any, handle: TaskHandle) -> ParkedCall:
        """Wait for a task that a server without handshakes has begun; it may ask."""
        parked = ParkedCall(self._upstream, self)
        parked.begin(lambda connection: self._wait_for_task(connection, params, handle))
        return parked

    def _find_parked(self, id: str) -> ParkedCall:
        parked = self._upstream.parked.get(id)
        if parked is None or not parked.is_of(self.session, self.exchange):
            raise InvalidParams(
                f"{self._name}: the call that asked is not under way any more; begin again"
            )
        return parked

    async def _follow(self, parked: ParkedCall) -> Any:
        """Wait for the result of a parked call; its questions end this round."""
        parked.enter(self)
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
        finally:
            parked.leave(self)

    async def _answer(self, question: Question) -> None:
        try:
            answer = await ask_client(
                self.session, self.exchange, question.name, question.params, key=question.key
            )
        except RequestError as error:
            question.fail(error)
        else:
            question.settle(answer)

    @property
    def _channel(self) -> Channel:
        context: Context[Any] = Context(self.session, self.exchange)
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
            if asked.parked:
                return await self._follow(self._find_parked(asked.parked))
            state = asked.state
            keys = [*asked.questions]
            found = await asyncio.gather(
                *(
                    ask_client(
                        self.session,
                        self.exchange,
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
            async with self._upstream.borrow(self.session, self.exchange) as connection:
                params = self._params.__copy__()
                revision = connection.client._link.revision.id
                if answers:
                    params.input_responses = {
                        key: msgspec.Raw(_encode(shape.narrow(answer, revision)))
                        for key, answer in answers.items()
                    }
                params.request_state = state
                result, sent = await self._send(connection, params)
            if isinstance(result, TaskHandle):
                return _Asked({}, parked=self._park_task(params, result).id)
            if isinstance(result, InputRequiredResult):
                return _Asked.of(result)
            raise _Finished((result, sent))

        return advance


_PARKED: Final = "proxied call"


def _return(value: Any) -> Callable[[], Any]:
    return lambda: value


class _Finished(Exception):
    """The other server has answered; ends the rounds."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class _Asked(msgspec.Struct):
    """What the other server asked, kept from round to round; or the task that it has begun."""

    questions: InputRequests
    state: str | None = None
    parked: str | None = None

    @classmethod
    def of(cls, result: InputRequiredResult) -> "_Asked":
        return cls(result.input_requests or {}, result.request_state)


def _without_own_meta(result: Any) -> Any:
    """Return a result without what the other server says of itself in it."""
    meta = result.meta
    if not meta:
        return result
    kept = {name: each for name, each in meta.items() if not name.startswith(OWN_MEMBERS)}
    if len(kept) < len(meta):
        result = result.__copy__()
        result.meta = kept or None
    return result
