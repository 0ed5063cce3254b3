"""Questions that take the place of a result: they are answered, and the request is repeated.

The callbacks of the connection answer, all questions of one result at the same time. A repeat is a
request of its own: the same params with the answers, and with the state that came with the
questions. Nothing of it is kept for any other request.
"""

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.client.options import CallOptions
from accord.errors import ConnectionClosed, InternalError, RemoteProtocolError, RequestTimeout
from accord.protocol import shape
from accord.protocol.exchange import Exchange
from accord.protocol.party import capability_paths, undeclared_mode, undeclared_tools
from accord.protocol.violation import SERVER, Violation
from accord.runtime.tasks import is_pressed
from accord.runtime.wire import CALL_HEADERS
from accord.types import (
    CreateMessageRequest,
    ElicitRequest,
    EmptyParams,
    InputRequest,
    InputRequests,
    InputRequiredResult,
)

if TYPE_CHECKING:
    from accord.client.link import Link

# A server asks a few things at a time; a flood of questions would start a thread for each.
_QUESTIONS_MOST: Final = 100
# How long to wait before a request is repeated to which the server has no question, or the same.
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0

_CAPABILITIES: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
_encode: Final = msgspec.json.Encoder().encode


async def answer_and_repeat(
    link: "Link",
    name: str,
    params: Any,
    how: CallOptions,
    asked: InputRequiredResult,
    *,
    started: float,
) -> Any:
    """Answer questions and repeat the request until it has a result.

    The time that users need does not count as silence (`timeout`); the `cap` holds for all of it.

    Args:
        link: the connection.
        name: the method.
        params: the params of the request; the answers and the state are put into them.
        how: the options of the call.
        asked: the questions that it was answered with.
        started: when it was first sent, on the loop's clock.

    Raises:
        RemoteProtocolError: the server asks what it may not ask, or asks on and on.
        RequestTimeout: it took too long in all.
        ConnectionClosed: the connection was closed while a question waited for its answer.
    """
    _, cap = link.deadlines(how)
    ends = inf if cap is None else started + cap
    again = how.copy()
    repeated = _describe(name, params)
    before: InputRequests | None = None
    for count in range(link.settings.rounds):
        if asked.input_requests:
            if asked.input_requests == before:
                # It waits for something else, such as a page that the user has opened.
                await asyncio.sleep(_pause(count, ends - link.loop.time()))
            before = asked.input_requests
            params.input_responses = await answer_all(link, repeated, before, ends)
        elif asked.request_state is not None:
            await asyncio.sleep(_pause(count, ends - link.loop.time()))
            params.input_responses = None
        else:
            raise _breach(
                "mrtr.result.has-requests-or-state",
                f"answers {repeated} with neither questions nor state",
            )
        # mrtr.client.echo-state, mrtr.client.no-invented-state
        params.request_state = asked.request_state
        left = ends - link.loop.time()
        if left <= 0:
            raise RequestTimeout(f"{repeated}: no result within {cap:g} s in all (cap)")
        again["cap"] = left
        result = await link.ask(name, params, again, answers=False, is_direct=True)
        if not isinstance(result, InputRequiredResult):
            return result
        asked = result
    raise RemoteProtocolError(
        f"{repeated}: the server asked {link.settings.rounds} times and asks again; "
        "connect(..., rounds=...) allows more"
    )


def _pause(count: int, left: float) -> float:
    return min(_FIRST_PAUSE * 2.0**count, _LONGEST_PAUSE, left)


def _describe(name: str, params: Any) -> str:
    about: object = getattr(params, "name", None) or getattr(params, "uri", None)
    return f"{name} of {about!r:.100}"


# -- answering


async def answer_all(
    link: "Link", repeated: str, questions: InputRequests, ends: float
) -> dict[str, msgspec.Raw]:
    """Answer all questions of one result at the same time; the first failure ends the others."""
    if len(questions) > _QUESTIONS_MOST:
        raise RemoteProtocolError(
            f"{repeated}: the server asks {len(questions)} questions at once, "
            f"more than {_QUESTIONS_MOST}"
        )
    declared = capability_paths(link.callbacks.capabilities)
    for key, question in questions.items():
        _check_declared(repeated, key, question, declared)
    tasks = {
        key: link.side.spawn(_answer(link, question), "accord-question")
        for key, question in questions.items()
    }
    try:
        done, _ = await asyncio.wait(
            tasks.values(),
            timeout=None if ends == inf else ends - link.loop.time(),
            return_when=asyncio.FIRST_EXCEPTION,
        )
    finally:
        for task in tasks.values():
            task.cancel()
            if task.done() and not task.cancelled():
                task.exception()  # one failure is raised; the others count as noticed
    for task in tasks.values():
        if task in done:
            _raise_failure(link, repeated, task)
    if len(done) < len(tasks):
        raise RequestTimeout(f"{repeated}: its questions were not answered in time (cap)")
    return {key: task.result() for key, task in tasks.items()}


def _raise_failure(link: "Link", repeated: str, task: asyncio.Task[msgspec.Raw]) -> None:
    if not task.cancelled():
        error = task.exception()
        if error is not None:
            raise error
    elif link.is_closed:
        raise ConnectionClosed(f"{repeated}: {link.dispatcher.closed}")
    else:
        raise InternalError(f"{repeated}: the callback for a question was cancelled")


async def _answer(link: "Link", question: InputRequest) -> msgspec.Raw:
    CALL_HEADERS.set(None)  # those of this call are not for calls that a callback makes
    revision = link.endpoint.revision
    method = question.__struct_config__.tag
    params = question.params or EmptyParams()
    exchange = Exchange(0, str(method), SERVER, revision, None)
    # Callbacks bound the bytes of all questions that wait; a question counts as a message.
    link.callbacks.latest = _encode(question)
    try:
        answer = link.callbacks.request(exchange, params, link.dispatcher)
        if asyncio.iscoroutine(answer):
            answer = await answer
        return msgspec.Raw(_encode(shape.narrow(answer, revision.id)))
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        # Such an exception of a task ends the loop, and with it every other call.
        if isinstance(error, KeyboardInterrupt) and is_pressed():
            raise
        why = f"the callback for {method} raised {type(error).__name__}"
        raise InternalError(why) from error


# -- what a server may ask


def _check_declared(
    repeated: str, key: str, question: InputRequest, declared: frozenset[str]
) -> None:
    """Refuse a question that we did not declare to answer.

    Raises:
        RemoteProtocolError: its kind, its mode or its tools were not declared.
    """
    method = str(question.__struct_config__.tag)
    needed: str | None = _CAPABILITIES[method]
    if needed in declared:
        needed = None
        if isinstance(question, ElicitRequest):
            mode = undeclared_mode(question.params, declared)
            needed = mode and f"elicitation.{mode}"
        elif isinstance(question, CreateMessageRequest):
            needed = undeclared_tools(question.params, declared) and "sampling.tools"
    if needed is not None:
        raise _breach(
            "mrtr.result.declared-capabilities-only",
            f"answers {repeated} with the question {key!r:.60} ({method}), which needs {needed}; "
            "this client did not declare it",
        )


def _breach(requirement: str, why: str) -> RemoteProtocolError:
    violation = Violation(requirement, SERVER, why)
    return RemoteProtocolError(str(violation), [violation])
