"""Questions that take the place of a result: they are answered, and the request is repeated.

The callbacks of the connection answer, all questions of one result at the same time. A repeat is a
request of its own: the same params with the answers, and with the state that came with the
questions. Nothing of it is kept for any other request. `SingleRounds` returns the questions to its
caller instead.
"""

import asyncio
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack, cast

import msgspec

from accord.client.options import CallOptions, OwnMeta, check_meta
from accord.errors import (
    ConnectionClosed,
    HeaderMismatch,
    InternalError,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    refuse_unknown,
)
from accord.protocol import shape
from accord.protocol.exchange import META_CAPABILITIES, Exchange
from accord.protocol.party import capability_paths, undeclared_mode, undeclared_tools
from accord.protocol.violation import SERVER, Violation
from accord.runtime.tasks import is_pressed
from accord.runtime.wire import CALL_HEADERS
from accord.types import (
    CallToolParams,
    CallToolResult,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
    EmptyParams,
    GetPromptParams,
    GetPromptResult,
    InputRequest,
    InputRequests,
    InputRequiredResult,
    ListRootsResult,
    ReadResourceParams,
    ReadResourceResult,
    TaskHandle,
)

if TYPE_CHECKING:
    from accord.client.client import Client
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


# -- rounds one by one: questions are returned to the caller instead of being answered

Answer: TypeAlias = ElicitResult | CreateMessageResult | ListRootsResult


class RoundOptions(CallOptions, total=False):
    """Options of one round, beside those of any call.

    `answers` are those to the questions of the last round, by their keys; `state` is the
    `request_state` that came with these. `capabilities` say which questions may be asked, if these
    are others than the callbacks of the connection answer.
    """

    answers: Mapping[str, Answer] | None
    state: str | None
    capabilities: ClientCapabilities | None


class SingleRounds:
    """Sends requests of which each is one round; `Client.rounds` describes them."""

    def __init__(self, client: "Client") -> None:
        self._client = client

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        **how: Unpack[RoundOptions],
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; return its result, or the questions that it asks before."""
        params = CallToolParams(name, msgspec.Raw(_encode(dict(arguments or {}))))
        reply: Any
        try:
            reply = await self._send("tools/call", params, how)
        except HeaderMismatch:
            # http.param-headers.mismatch-client-relists
            from accord.client.link import learn_anew

            link = self._client._link
            if link.transport is None or not await learn_anew(link, name):
                raise
            reply = await self._send("tools/call", params, how)
        if isinstance(reply, TaskHandle):  # the server decided so; all questions were answered
            from accord.client.tasks import wait_for_handle

            reply = await wait_for_handle(self._client._link, params, reply, _options_of_call(how))
        schema = self._client._link.outputs.get(name)
        result: CallToolResult | InputRequiredResult = reply
        if schema is not None and isinstance(result, CallToolResult):
            schema.check(result)
        return result

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, **how: Unpack[RoundOptions]
    ) -> GetPromptResult | InputRequiredResult:
        """Fill in a prompt; return it, or the questions that it asks before."""
        filled = None if arguments is None else dict(arguments)
        reply: GetPromptResult | InputRequiredResult = await self._send(
            "prompts/get", GetPromptParams(name, filled), how
        )
        return reply

    async def read_resource(
        self, uri: str, **how: Unpack[RoundOptions]
    ) -> ReadResourceResult | InputRequiredResult:
        """Read a resource; return it, or the questions that it asks before."""
        reply: ReadResourceResult | InputRequiredResult = await self._send(
            "resources/read", ReadResourceParams(uri), how
        )
        return reply

    async def _send(self, method: str, params: Any, options: RoundOptions) -> Any:
        link = self._client._link
        revision = link.revision
        if not revision.rounds:
            raise LocalProtocolError(
                f"{method}: in revision {revision.id}, which was negotiated, servers ask while a "
                "request is under way; give callbacks, such as on_elicit"
            )
        refuse_unknown("a call", options, RoundOptions.__annotations__)
        answers = options.get("answers")
        if answers is not None:
            params.input_responses = {
                key: msgspec.Raw(_encode(shape.narrow(answer, revision.id)))
                for key, answer in answers.items()
            }
        params.request_state = options.get("state")
        how = _options_of_call(options)
        declared = options.get("capabilities")
        if declared is not None:
            meta = {META_CAPABILITIES: msgspec.to_builtins(shape.narrow(declared, revision.id))}
            how["meta"] = OwnMeta({**check_meta(how.get("meta") or {}), **meta})
        return await link.ask(method, params, how, answers=False)


def _options_of_call(options: RoundOptions) -> CallOptions:
    """Return the options that calls without rounds have, too."""
    names = CallOptions.__annotations__
    return cast("CallOptions", {name: options[name] for name in names if name in options})  # type: ignore[literal-required]  # names of the same type
