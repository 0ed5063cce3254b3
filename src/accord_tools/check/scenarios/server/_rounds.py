"""Rounds as a scenario drives them: a request is answered with questions, and sent again."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from accord.types import JsonObject
from accord_tools.check.probing.messages import (
    CAPABILITY_OF,
    INPUT_REQUIRED,
    Reply,
    answer_to,
    input_requests_of,
    params_of,
)
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import call, has_failed

ASKING_METHODS: Final = ("tools/call", "resources/read", "prompts/get")
"""The requests that may be answered with questions, as `find_asking` sends them."""

NO_QUESTIONS: Final = "nothing that may be asked for is answered with questions"
# So many requests that ask back show how a server goes on.
_ASKING: Final = 6
_ENTRIES: Final = 10
_STAGES: Final = 3


class AskingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that the server answers with questions.

    Attributes:
        method: its method.
        params: its parameters, without `_meta`.
        kinds: the methods of the questions of its first round.
    """

    method: str
    params: JsonObject
    kinds: frozenset[str]

    def __str__(self) -> str:
        return f"{self.method} of {self.params.get('name') or self.params.get('uri')}"


class _Found(msgspec.Struct, kw_only=True, weakref=True):
    lock: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    asking: list[AskingRequest] | None = None


_found: "WeakKeyDictionary[Probe, _Found]" = WeakKeyDictionary()


@asynccontextmanager
async def open_rounds(probe: Probe, *, is_judged: bool = False) -> AsyncIterator[RawConnection]:
    """Borrow a connection that leaves the questions of results to the scenario."""
    async with probe.borrow(is_judged=is_judged) as connection:
        connection.follows_rounds = False
        try:
            yield connection
        finally:
            connection.follows_rounds = True


async def find_asking(probe: Probe) -> list[AskingRequest]:
    """Return requests that the server answers with questions, found out once for each revision.

    It borrows a connection, so the scenario must not hold one.
    """
    known = _found.setdefault(probe, _Found())
    async with known.lock:
        if known.asking is None:
            known.asking = await _find_asking(probe)
    return known.asking


async def _find_asking(probe: Probe) -> list[AskingRequest]:
    found: list[AskingRequest] = []
    async with open_rounds(probe, is_judged=True) as connection:
        for method, params in _candidates(probe):
            reply = await connection.ask(method, params)
            kinds = frozenset(map(_method_of, questions_of(reply).values()))
            if kinds:
                found.append(AskingRequest(method=method, params=params, kinds=kinds))
    # One of each kind first.
    first = [*{(each.method, each.kinds): each for each in reversed(found)}.values()][::-1]
    return [*first, *(each for each in found if each not in first)][:_ASKING]


def _candidates(probe: Probe) -> list[tuple[str, JsonObject]]:
    facts = probe.facts
    found: list[tuple[str, JsonObject]] = []
    if facts.is_asking:
        found += [("tools/call", tool.params) for tool in facts.callable_tools()]
    for prompt in facts.prompts[:_ENTRIES]:
        listed = prompt.get("arguments")
        names = [each.get("name") for each in (listed if isinstance(listed, list) else ())]
        params = {"name": prompt.get("name"), "arguments": {str(name): "1" for name in names}}
        found.append(("prompts/get", params))
    found += [("resources/read", {"uri": each.get("uri")}) for each in facts.resources[:_ENTRIES]]
    return found


def questions_of(reply: Reply) -> dict[str, JsonObject]:
    """Return the questions of an answer by their keys; empty if it has none."""
    return input_requests_of(reply.message)


def is_asking(reply: Reply) -> bool:
    """Return whether an answer asks for another round."""
    return reply.result.get("resultType") == INPUT_REQUIRED


def is_done(reply: Reply) -> bool:
    """Return whether a request succeeded, as far as its answer says."""
    return not is_asking(reply) and not has_failed(reply)


def _method_of(question: Mapping[str, object]) -> str:
    return str(question.get("method"))


def mode_of(question: Mapping[str, object]) -> object:
    """Return the mode in which a question of a form or a page is asked."""
    return params_of(question).get("mode", "form")


def missing_capability(
    question: Mapping[str, object], declared: Mapping[str, Any]
) -> JsonObject | None:
    """Return the capability that a question needs and that was not declared; None if it was."""
    method = _method_of(question)
    name = CAPABILITY_OF.get(method)
    if name is None:
        return None
    if name not in declared:
        return {name: {}}
    settings = declared[name]
    if method == "elicitation/create":
        mode = mode_of(question)
        is_declared = mode in settings or (mode == "form" and not settings)
        return None if is_declared else {name: {str(mode): {}}}
    wants_tools = method == "sampling/createMessage" and "tools" in params_of(question)
    return {name: {"tools": {}}} if wants_tools and "tools" not in settings else None


def answers_to(reply: Reply, connection: RawConnection) -> JsonObject:
    """Return valid answers to the questions of a result, by their keys."""
    declared = connection.client_capabilities
    answers = {key: answer_to(each, declared) for key, each in questions_of(reply).items()}
    return {key: each["result"] for key, each in answers.items() if "result" in each}


def make_retry(
    connection: RawConnection, asking: AskingRequest, responses: object, state: object = None
) -> JsonObject:
    """Return a request again with these answers and this state; None leaves either out."""
    params = dict(asking.params)
    if responses is not None:
        params["inputResponses"] = responses
    if state is not None:
        params["requestState"] = state
    return connection.request(asking.method, params)


async def ask_again(connection: RawConnection, message: JsonObject) -> Reply:
    """Send a request that goes on with an earlier one, and wait for its answer."""
    await connection.begin_uncounted(message)
    return await connection.reply_to(message["id"], what=str(message["method"]))


async def ask_exactly(connection: RawConnection, message: JsonObject) -> Reply:
    """Send a request with nothing added to it, and wait for its answer."""
    connection.claim(message)
    return await ask_again(connection, message)


async def ask_first(connection: RawConnection, asking: AskingRequest) -> Reply | None:
    """Begin a request anew; None if the server asks nothing this time."""
    reply = await connection.ask(asking.method, asking.params)
    return reply if questions_of(reply) else None


async def answer(
    connection: RawConnection, asking: AskingRequest, reply: Reply, responses: object = None
) -> Reply:
    """Answer a round with these answers, valid ones by default, and with its own state."""
    given = answers_to(reply, connection) if responses is None else responses
    state = reply.result.get("requestState")
    return await ask_again(connection, make_retry(connection, asking, given, state))


async def finish(connection: RawConnection, asking: AskingRequest) -> Reply | None:
    """Begin a request and answer every round of it; None if it never ends."""
    reply = await connection.ask(asking.method, asking.params)
    for _ in range(_STAGES):
        if not is_asking(reply):
            return reply
        reply = await answer(connection, asking, reply)
    return None if is_asking(reply) else reply


class StatefulRound(msgspec.Struct, frozen=True, kw_only=True):
    """A round of a request whose result has a state.

    Attributes:
        asking: the request.
        stage: how many rounds are answered before this one.
        without: the answer to the round without its state.
        regular: the answer to the round with its state.
    """

    asking: AskingRequest
    stage: int
    without: Reply
    regular: Reply

    @property
    def is_needed(self) -> bool:
        """Whether the server goes on only with the state."""
        return not has_same_course(self.without, self.regular)

    async def reach(self, connection: RawConnection) -> Reply | None:
        """Begin anew and return the result with a fresh state; None if it cannot be reached."""
        reply = await ask_first(connection, self.asking)
        for _ in range(self.stage):
            if reply is None or not is_asking(reply):
                return None
            reply = await answer(connection, self.asking, reply)
        return reply if reply is not None and is_asking(reply) else None

    def goes_on(self, reply: Reply) -> bool:
        """Return whether a server goes on as it does with the right state, and only then."""
        return self.is_needed and has_same_course(reply, self.regular)


async def find_state(connection: RawConnection, asking: AskingRequest) -> StatefulRound | None:
    """Return a round that depends on its state; else one that has a state; None without one."""
    best: StatefulRound | None = None
    for stage in range(_STAGES):
        found = StatefulRound(asking=asking, stage=stage, without=Reply({}), regular=Reply({}))
        replies: list[Reply] = []
        for has_state in (False, True):
            reply = await found.reach(connection)
            if reply is None or not isinstance(reply.result.get("requestState"), str):
                return best
            state = reply.result["requestState"] if has_state else None
            responses = answers_to(reply, connection)
            again = make_retry(connection, asking, responses or None, state)
            replies.append(await ask_again(connection, again))
        without, regular = replies
        if not is_asking(regular) and not is_done(regular):
            return best
        found = msgspec.structs.replace(found, without=without, regular=regular)
        if found.is_needed:
            return found
        best = best or found
    return best


def has_same_course(one: Reply, other: Reply) -> bool:
    """Return whether two answers are both errors, or ask the same, or both end the request."""
    if one.is_error or other.is_error:
        return one.is_error and other.is_error
    if is_asking(one) or is_asking(other):
        same = [*map(_asked_for, (one, other))]
        return is_asking(one) and is_asking(other) and same[0] == same[1]
    return has_failed(one) == has_failed(other)


def _asked_for(reply: Reply) -> list[JsonObject]:
    """Return what is asked, without keys, which may differ each time."""
    found = questions_of(reply).values()
    return sorted(found, key=lambda each: msgspec.json.encode(each, order="deterministic"))


MakeResult: TypeAlias = Callable[[JsonObject], "JsonObject | None"]
"""Returns the result for a question; None for the usual one."""


async def call_and_answer(
    probe: Probe, connection: RawConnection, tool: ToolCall, make: MakeResult
) -> Reply | None:
    """Call a tool and answer its questions, whether they are requests or parts of results.

    Without an answer of the tool, a verdict is recorded and None returned.
    """

    def answer_question(question: JsonObject) -> JsonObject:
        usual = answer_to(question, connection.client_capabilities)
        made = make(question)
        return usual if made is None else {**usual, "result": made}

    async def respond(connection: RawConnection, question: JsonObject) -> None:
        await connection.send(answer_question(question))

    connection.respond = respond
    connection.follows_rounds = False
    try:
        reply = await call(probe, connection, tool)
        for _ in range(_STAGES):
            if reply is None or not questions_of(reply):
                break
            answers = {key: answer_question(each) for key, each in questions_of(reply).items()}
            given = {key: each["result"] for key, each in answers.items() if "result" in each}
            request = AskingRequest(method="tools/call", params=tool.params, kinds=frozenset())
            reply = await answer(connection, request, reply, given)
    finally:
        connection.respond = None
        connection.follows_rounds = True
    return reply
