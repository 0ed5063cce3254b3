"""Calls that outlive the rounds in which their questions are asked."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from accord.errors import InvalidParams, RequestError, UrlElicitationRequired
from accord.protocol.exchange import Exchange
from accord.types import ProgressParams

if TYPE_CHECKING:
    from accord.compose.proxies.calls import PassedRequest
    from accord.compose.proxies.connection import Connection
    from accord.compose.proxies.upstream import UpstreamServer
    from accord.server.session import Session

Answer: TypeAlias = tuple[Any, Exchange | None]
"""A result, and the exchange that it was received in; None where it is that of a task."""
Work: TypeAlias = Callable[["Connection"], Awaitable[Answer]]
"""Sends a request, or waits for a task, and returns the answer."""


class CallOver(Exception):
    """The call in which a question was to be asked is over; another one may ask it."""


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
