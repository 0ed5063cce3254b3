"""How a handler asks the client: on the wire, or through rounds of one request.

A `Channel` belongs to one exchange. `Duplex` sends a request of its own and waits for the answer;
it serves every revision in which servers may send requests. `Rounds`, in the module `rounds`,
answers the request with questions, and serves the others.
"""

import asyncio
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from accord.errors import MissingCapability, lower_first
from accord.protocol.exchange import Exchange
from accord.runtime.handlers import Unwound

if TYPE_CHECKING:
    from accord.server.session import Session
    from accord.types import InputRequiredResult, JsonObject

QUESTION_META: Final[ContextVar[Callable[[], dict[str, str]] | None]] = ContextVar(
    "question_meta", default=None
)
"""Returns members for the `_meta` of the requests that a server sends while it serves one."""


class Channel(Protocol):
    """How the handler of one request speaks back to the client."""

    async def ask(self, name: str, params: Any, *, key: str | None, timeout: float) -> Any:
        """Ask the client and return its answer, decoded.

        Args:
            name: the method of the question.
            params: its params.
            key: the name of the question within the request, where the author chose one.
            timeout: seconds to wait, where the answer is waited for.

        Raises:
            RequestError: the client answered with an error.
            ValueError: the key was used before.
        """

    async def once(self, key: str, function: Callable[[], Any], type_: Any) -> Any:
        """Call a function, or return what it returned in an earlier round."""

    def finish(self, result: Any) -> Any:
        """Return what the request is answered with, once its handler has returned this."""

    def release(self) -> None:
        """Note that the request was cancelled and gets no answer."""


class Duplex:
    """Asks by requests of the server, and waits for their answers."""

    def __init__(self, session: "Session", exchange: Exchange) -> None:
        self._session = session
        self._exchange = exchange
        self._kept = KeptResults()

    async def ask(self, name: str, params: Any, *, key: str | None, timeout: float) -> Any:
        origin = self._exchange.origin
        if origin is not None and not origin.can_ask:
            raise MissingCapability("answers are plain JSON here, so nothing can be asked")
        more = QUESTION_META.get()
        if more is not None and params is not None:
            params.meta = {**(params.meta or {}), **more()}
        if getattr(params, "task", None) is not None:
            from accord.server.tasks.asking import ask_as_task

            return await ask_as_task(self._session, self._exchange, name, params, timeout)
        return await self._session.dispatcher.request(
            name, params, timeout=timeout, within=self._exchange
        )

    async def once(self, key: str, function: Callable[[], Any], type_: Any) -> Any:
        return await self._kept.call(key, function, type_)

    def finish(self, result: Any) -> Any:
        return result

    def release(self) -> None:
        return None


class KeptResults:
    """What functions returned that are called once for a request.

    Args:
        results: by key, as JSON; those of earlier rounds.
    """

    def __init__(self, results: dict[str, msgspec.Raw] | None = None) -> None:
        self._results = {} if results is None else results
        self._locks: dict[str, asyncio.Lock] = {}

    async def call(self, key: str, function: Callable[[], Any], type_: Any) -> Any:
        """Call a function and keep its result; return what is kept under the key.

        The value is always read from JSON, so that it is the same in the first round and in later
        ones. Tasks that call it at the same time wait for the first.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            if key not in self._results:
                value = function()
                if inspect.isawaitable(value):
                    value = await value
                try:
                    self._results[key] = msgspec.Raw(msgspec.json.encode(value))
                except (TypeError, ValueError) as error:
                    raise TypeError(
                        f"once({key!r}): the result has to be JSON: {lower_first(error)}"
                    ) from None
        return msgspec.json.decode(self._results[key], type=type_)


def _is_unwound(error: BaseException) -> bool:
    """Whether an exception says no more than that questions are to be asked."""
    if isinstance(error, BaseExceptionGroup):
        return all(_is_unwound(each) for each in error.exceptions)
    return isinstance(error, Unwound)


def without_unwound(error: BaseException) -> BaseException:
    """Return the failure within a group of tasks of which others asked questions."""
    if isinstance(error, BaseExceptionGroup):
        rest = error.split(Unwound)[1]
        return error if rest is None else rest
    return error


def find_questions(error: BaseException, exchange: Exchange) -> "InputRequiredResult | None":
    """Return the questions to which a handler was unwound; None if it failed by itself."""
    channel = exchange.channel
    if channel is None or not exchange.revision.rounds:
        return None
    if not _is_unwound(error):
        return None
    questions: InputRequiredResult = channel.questions()
    return questions


def missing_capability(path: str) -> MissingCapability:
    """Return the error for a capability that the client did not declare, by its dotted path."""
    required: JsonObject = {}
    for name in reversed(path.split(".")):
        required = {name: required}
    return MissingCapability(
        f"the client did not declare {path}", data={"requiredCapabilities": required}
    )
