"""Questions through rounds: a request is answered with questions, and repeated with the answers.

At a question without an answer the handler is unwound. The reply holds every question that was
asked until then, and a sealed state with the answers so far. The client repeats the request with
the answers, and the handler runs again from its start: questions that have an answer return it.
Nothing is kept for a client that never comes back.
"""

from asyncio import Lock
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from os import urandom
from time import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import (
    ElicitationRefused,
    InvalidParams,
    RequestError,
    StoreUnavailable,
    lower_first,
)
from accord.protocol.exchange import Exchange
from accord.runtime.handlers import Unwound
from accord.server.questions.channels import KeptResults
from accord.server.questions.sealing import StateContent
from accord.server.questions.url_elicitation import KEPT_PAGE
from accord.types import (
    CallToolParams,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitParams,
    ElicitRequest,
    ElicitResult,
    GetPromptParams,
    InputRequest,
    InputRequests,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    ReadResourceParams,
)

if TYPE_CHECKING:
    import asyncio

    from accord.server.session import Session

# So many turns of the loop without a further question end a round: tasks that ask at the same
# time have asked by then.
_QUIET_TURNS: Final = 3
_CLAIMER_BYTES: Final = 12
_QUESTIONS: Final[dict[str, tuple[str, type[InputRequest], Any]]] = {
    "elicitation/create": ("elicit", ElicitRequest, ElicitResult),
    "sampling/createMessage": ("sample", CreateMessageRequest, CreateMessageResult),
    "roots/list": ("roots", ListRootsRequest, ListRootsResult),
}
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class Rounds:
    """The questions of one request, and the answers that came with it.

    Args:
        session: the session that serves the request.
        exchange: the request.
        params: its params.

    Raises:
        InvalidParams: the state that came with it cannot be used.
    """

    def __init__(
        self,
        session: "Session",
        exchange: Exchange,
        params: CallToolParams | GetPromptParams | ReadResourceParams,
    ) -> None:
        self._seal = session.server.state_seal
        self._shared_pages = session.server.shared_pages
        self._loop = session.loop
        self._exchange = exchange
        principal = session.principal_of(exchange)
        self._content = StateContent(
            server=session.server.info.name,
            method=exchange.name,
            digest=_digest(params),
            principal=None if principal is None else principal.identity,
            expires_at=0.0,
        )
        self._opened: StateContent | None = None
        self._claimer: bytes | None = None
        self._claiming = Lock()
        self._answers: dict[str, msgspec.Raw] = {}
        if params.request_state is not None:
            self._opened = self._seal.open(params.request_state, self._content)
            self._answers.update(self._opened.answers)
            exchange.progress = self._opened.progress  # its caller has heard of that much
            self._content.kept.update(self._opened.kept)
        self._answers.update(params.input_responses or {})
        self._kept = KeptResults(self._content.kept)
        self._used_keys: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._asked: InputRequests = {}
        self._waiting: list[asyncio.Future[Any]] = []
        self._quiet_turns = 0
        # The tool of a later round, which is looked at; none where it has kept something.
        self._repeated: tuple[Session, str] | None = None
        if isinstance(params, CallToolParams) and self._opened is not None:
            has_kept = any(not key.startswith(KEPT_PAGE) for key in self._opened.kept)
            self._repeated = None if has_kept else (session, params.name)

    @property
    def has_to_claim(self) -> bool:
        """Whether other workers may have used the state that came with the request."""
        return self._seal.is_shared and self._opened is not None and self._claimer is None

    async def claim(self) -> None:
        """Make sure that the state serves this request alone, before an answer in it is used.

        Raises:
            InvalidParams: it was used before.
            InternalError: the store does not answer, so that this cannot be known.
        """
        async with self._claiming:
            if self.has_to_claim:
                assert self._opened is not None
                self._claimer = urandom(_CLAIMER_BYTES)
                try:
                    await self._seal.claim(self._opened, self._claimer)
                except RequestError:
                    self._claimer = None
                    raise
                await self._load_pages(self._opened.kept)

    async def _load_pages(self, kept: dict[str, msgspec.Raw]) -> None:
        """Learn which of the pages that the user was asked to visit are complete."""
        pages = [bytes(kept[key]) for key in kept if key.startswith(KEPT_PAGE)]
        if pages and self._shared_pages is not None:
            with suppress(StoreUnavailable):  # the handler asks for them once more
                await self._shared_pages.load(msgspec.json.decode(each) for each in pages)

    # -- called by the context

    async def ask(self, name: str, params: Any, *, key: str | None, timeout: float) -> Any:
        if self.has_to_claim:
            await self.claim()
        prefix, request, result = _QUESTIONS[name]
        key = key or self._derive_key(prefix, params)
        if key in self._used_keys:
            raise ValueError(f"two questions of one request have the key {key!r}")
        self._used_keys.add(key)
        answer = self._answers.get(key)
        if answer is not None:
            if self._repeated is not None:
                from accord.server.questions.repetition import warn_of_repetition

                warn_of_repetition(*self._repeated)
            self._content.answers[key] = answer
            return _decode_answer(key, answer, result)
        self._asked[key] = request(params)
        future = self._loop.create_future()
        self._waiting.append(future)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._end_turn)
        self._quiet_turns = 0
        return await future

    def _derive_key(self, prefix: str, params: Any) -> str:
        """Name a question by what it asks, so that its answer cannot reach another one."""
        digest = sha256(_encode(params)).hexdigest()[:8]
        self._counts[digest] += 1
        count = self._counts[digest]
        return f"{prefix}-{digest}" if count == 1 else f"{prefix}-{digest}-{count}"

    def _end_turn(self) -> None:
        """Unwind the handler, unless it has just asked something else."""
        self._quiet_turns += 1
        if self._quiet_turns < _QUIET_TURNS:
            self._loop.call_soon(self._end_turn)
            return
        for future in self._waiting:
            if not future.done():
                future.set_exception(Unwound())

    async def once(self, key: str, function: Callable[[], Any], type_: Any) -> Any:
        if self.has_to_claim:
            await self.claim()
        return await self._kept.call(key, function, type_)

    def keep(self, key: str, make: Callable[[], str]) -> str:
        """Return a text that is the same in every round; also from a worker thread."""
        kept = self._content.kept.setdefault(key, msgspec.Raw(msgspec.json.encode(make())))
        return msgspec.json.decode(kept, type=str)

    # -- called at the end of the handler

    def require_pages(self, pages: dict[str, ElicitParams]) -> ElicitationRefused | None:
        """Ask for pages without which the handler cannot go on; returns the user's refusal."""
        for key, page in pages.items():
            answer = self._answers.get(key)
            if answer is not None:
                action = _decode_answer(key, answer, ElicitResult).action
                if action != "accept":
                    return ElicitationRefused(action)
            self._asked[key] = ElicitRequest(page)
        return None

    def finish(self, result: Any) -> Any:
        """Return the questions if there are any: no result of a handler can stand without them."""
        return self.questions() if self._asked else result

    def questions(self) -> InputRequiredResult:
        """Return what the request is answered with."""
        content = self._content
        content.expires_at = time() + self._seal.lifetime
        content.progress = self._exchange.progress
        return InputRequiredResult(
            input_requests=self._asked, request_state=self._seal.seal(content)
        )

    def release(self) -> None:
        if self._opened is not None:
            self._seal.release(self._opened.nonce, self._claimer)


def _decode_answer(key: str, answer: msgspec.Raw, result: Any) -> Any:
    try:
        return msgspec.json.decode(answer, type=result)
    except (ValueError, RecursionError) as error:
        raise InvalidParams(f"inputResponses[{key!r}]: {lower_first(error)}") from None


def _digest(params: CallToolParams | GetPromptParams | ReadResourceParams) -> str:
    """Digest what the client has to repeat: the name and the arguments, in any spelling."""
    if isinstance(params, CallToolParams):
        given = params.arguments
        arguments = None if given is msgspec.UNSET else msgspec.json.decode(given)
        repeated: Any = [params.name, arguments or {}]
    elif isinstance(params, GetPromptParams):
        repeated = [params.name, params.arguments or {}]
    else:
        repeated = params.uri
    return sha256(_encode(repeated)).hexdigest()
