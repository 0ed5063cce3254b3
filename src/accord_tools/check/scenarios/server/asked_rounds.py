"""Rounds: a request is answered with questions, and sent again with the answers.

Answers are given, left out or wrong, and states are altered.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from accord.protocol.jsonrpc import INTERNAL_ERROR
from accord.types import JsonObject
from accord_tools.arguments.samples import other_value
from accord_tools.check.probing.messages import (
    CAPABILITY_OF,
    INPUT_REQUIRED,
    Reply,
    answer_to,
    decode_json,
    input_requests_of,
    params_of,
)
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import bare_scenario, call, has_failed, is_alive

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


# -- questions in results

# Requests that ask back, of which a scenario tries so many.
_TRIED: Final = 3
_UNNEEDED: Final = "no round depends on its state, as far as the check can see"

# -- answers that are missing, unknown or malformed

_AGAIN: Final = "mrtr.server.ask-again-when-missing"
_UNKNOWN: Final = "mrtr.server.ignore-unknown-responses"
_PARSED: Final = "mrtr.server.validate-responses"
_AS_ERROR: Final = "mrtr.server.protocol-error-on-malformed"


@bare_scenario(_AGAIN, era="stateless", sends=ASKING_METHODS)
async def leaves_answers_out(probe: Probe) -> None:
    asking = await find_asking(probe)
    async with open_rounds(probe) as connection:
        for request in asking[:_TRIED]:
            for count in (0, 1):
                await _leave_out(probe, connection, request, count)
    probe.skip(_AGAIN, NO_QUESTIONS)


async def _leave_out(
    probe: Probe, connection: RawConnection, request: AskingRequest, count: int
) -> None:
    """Answer only so many of the questions of a round."""
    reply = await ask_first(connection, request)
    if reply is None or (count and len(questions_of(reply)) <= count):
        return
    given = dict([*answers_to(reply, connection).items()][:count])
    again = await answer(connection, request, reply, given)
    if is_asking(again):
        probe.passes(_AGAIN)
    elif again.is_error or again.is_failed_call:
        evidence = probe.last_evidence()
        if await _refuses_all_answers(connection, request):
            probe.skip(_AGAIN, "the server refuses the answers even if none is missing")
            return
        what = f"{request} without {'an answer' if count else 'answers'}"
        why = f"answers {what} with {again}, expected the questions again"
        probe.holds(_AGAIN, condition=False, why=why, evidence=evidence)
    else:
        probe.skip(_AGAIN, "the server goes on without the answers")


async def _refuses_all_answers(connection: RawConnection, request: AskingRequest) -> bool:
    """Return whether a round with all of its answers fails too."""
    reply = await ask_first(connection, request)
    whole = await answer(connection, request, reply) if reply is not None else None
    return whole is not None and (whole.is_error or whole.is_failed_call)


@bare_scenario(_UNKNOWN, era="stateless", sends=ASKING_METHODS)
async def adds_answers_to_questions_never_asked(probe: Probe) -> None:
    asking = await find_asking(probe)
    async with open_rounds(probe) as connection:
        for request in asking[:_TRIED]:
            reply = await ask_first(connection, request)
            if reply is None:
                continue
            regular = await answer(connection, request, reply)
            reply = await ask_first(connection, request)
            if reply is None or regular.is_error:
                continue
            unknown = {"accord-check-never-asked": {"action": "accept", "content": {}}}
            given = answers_to(reply, connection) | unknown
            again = await answer(connection, request, reply, given)
            why = f"answers {request} with one more answer than it asked for with {again}"
            probe.holds(_UNKNOWN, has_same_course(again, regular), why)
    probe.skip(_UNKNOWN, NO_QUESTIONS)


_WRONG: Final[dict[str, JsonObject]] = {
    "elicitation/create": {"action": 7, "content": []},
    "sampling/createMessage": {"role": 7, "content": "none"},
    "roots/list": {"roots": "accord-check"},
}


def _malformed_answers(reply: Reply) -> Iterator[tuple[str, object]]:
    """Return what is malformed, and answers of that kind."""
    questions = questions_of(reply)
    yield "inputResponses that are an array", [{}]
    yield "inputResponses that are a text", "accord-check"
    yield "an answer that is a number", dict.fromkeys(questions, 7)
    wrong = {key: _WRONG.get(str(each.get("method")), {}) for key, each in questions.items()}
    yield "an answer whose members have other types", wrong


@bare_scenario(_PARSED, _AS_ERROR, era="stateless", sends=ASKING_METHODS)
async def sends_malformed_answers(probe: Probe) -> None:
    asking = await find_asking(probe)
    async with open_rounds(probe) as connection:
        for request in asking[:_TRIED]:
            for number in range(4):
                reply = await ask_first(connection, request)
                if reply is None:
                    break
                what, given = [*_malformed_answers(reply)][number]
                again = await answer(connection, request, reply, given)
                _judge_malformed(probe, again, f"{what} for {request}")
        await is_alive(probe, connection, "malformed answers")
    probe.skip((_PARSED, _AS_ERROR), NO_QUESTIONS)


def _judge_malformed(probe: Probe, reply: Reply, what: str) -> None:
    if is_asking(reply):
        # It counts them as missing.
        probe.passes(_PARSED)
        return
    probe.holds(_PARSED, has_failed(reply), f"accepts {what}, and answers {reply}")
    if reply.is_error:
        probe.passes(_AS_ERROR)
    elif reply.is_failed_call:
        probe.fail(_AS_ERROR, f"answers {what} with {reply}, expected a JSON-RPC error")


# -- users who refuse

_DECLINED: Final = "elicitation.server.handles-decline"
_ASSUMED: Final = "elicitation.server.not-assumed-to-succeed"
_REFUSAL: Final = re.compile("declin|cancel|refus|reject|accept", re.IGNORECASE)


@bare_scenario(_DECLINED, _ASSUMED, era="stateless", sends=ASKING_METHODS)
async def declines_what_it_is_asked(probe: Probe) -> None:
    asking = [each for each in await find_asking(probe) if each.kinds == {"elicitation/create"}]
    async with open_rounds(probe) as connection:
        for request in asking[:_TRIED]:
            accepted = await _accept_in_two_ways(connection, request)
            if accepted:
                for action in ("decline", "cancel"):
                    await _refuse(probe, connection, request, action, accepted)
    probe.skip((_DECLINED, _ASSUMED), "no tool that may be called asks the user")


async def _accept_in_two_ways(connection: RawConnection, request: AskingRequest) -> list[Reply]:
    """Return the results of answers that differ; empty if the request does not succeed."""
    found: list[Reply] = []
    for is_other in (False, True):
        reply = await ask_first(connection, request)
        if reply is None:
            return []
        given = answers_to(reply, connection)
        for key, question in questions_of(reply).items() if is_other else ():
            schema = msgspec.convert(question.get("params") or {}, dict).get("requestedSchema")
            other = other_value(schema, given[key].get("content"))
            if other is not None:
                given[key] = given[key] | {"content": other}
        found.append(await answer(connection, request, reply, given))
    return found if all(is_asking(each) or is_done(each) for each in found) else []


async def _refuse(
    probe: Probe,
    connection: RawConnection,
    request: AskingRequest,
    action: str,
    accepted: list[Reply],
) -> None:
    reply = await ask_first(connection, request)
    if reply is None:
        return
    given = {key: {"action": action} for key in questions_of(reply)}
    what = f"{request} whose user chose {action}"
    try:
        again = await answer(connection, request, reply, given)
    except ConnectionEnded as error:
        probe.fail(_DECLINED, f"ends after {what}: {error}")
        raise
    # A tool can say what happened, so an error that does not is a case that was forgotten.
    is_forgotten = request.method == "tools/call" and again.code == INTERNAL_ERROR
    is_named = _REFUSAL.search(str(again.error.get("message"))) is not None
    probe.holds(_DECLINED, not is_forgotten or is_named, f"answers {what} with {again}")
    one, other = (each.result.get("content") for each in accepted)
    if one in (other, None) or not is_done(again):
        probe.skip(_ASSUMED, "the result does not show what the user answered")
    else:
        is_same = again.result.get("content") in (one, other)
        why = f"answers {what} as if the user had accepted: {again}"
        probe.holds(_ASSUMED, not is_same, why)


# -- rounds without an answer

_ABANDONED: Final = "mrtr.server.no-assumed-retry"
_ROUNDS: Final = 3


@bare_scenario(_ABANDONED, era="stateless", sends=ASKING_METHODS)
async def never_comes_back(probe: Probe) -> None:
    asking = await find_asking(probe)
    async with open_rounds(probe) as connection:
        for request in asking[:_TRIED]:
            before = await finish(connection, request)
            if before is None or before.is_error:
                continue
            try:
                for _ in range(_ROUNDS):
                    await connection.ask(request.method, request.params)
                after = await finish(connection, request)
            except (MessageTimeout, ConnectionEnded) as error:
                why = f"after {_ROUNDS} rounds of {request} that stayed unanswered: {error}"
                probe.fail(_ABANDONED, f"answers no more {why}")
                connection.end("the server answers no further request")
                return
            if after is not None:
                why = f"answers {request} with {after} after {_ROUNDS} rounds without answers"
                probe.holds(_ABANDONED, has_same_course(before, after), why)
    probe.skip(_ABANDONED, NO_QUESTIONS)


# -- states that were altered, or belong to another request

_TAMPERED: Final = "mrtr.state.reject-tampered"
_UNTRUSTED: Final = "mrtr.state.untrusted"
_INTEGRITY: Final = "mrtr.state.integrity"
_BOUND: Final = "mrtr.state.bind-request"
_LARGE: Final = 100_000


class Alteration(NamedTuple):
    """The requirement that it breaks to accept it, what was altered, and the altered state."""

    id: str
    what: str
    state: str


def _alterations(state: str) -> Iterator[Alteration]:
    for share in (0.4, 0.9):
        place = int(len(state) * share)
        # Another letter or digit: an id in a store is not found, and a seal does not fit.
        changed = "x" if state[place : place + 1] not in ("x", "X") else "k"
        altered = state[:place] + changed + state[place + 1 :]
        what = f"a state with one other character after {share:.0%} of it"
        yield Alteration(_TAMPERED, what, altered)
    shorter = state[: len(state) * 2 // 3]
    yield Alteration(_TAMPERED, "a state without its end", shorter)
    for name, altered in _altered_values(state):
        yield Alteration(_INTEGRITY, f"a state with another {name}", altered)
    yield Alteration(_UNTRUSTED, "a text that is not its state", "accord-check")
    yield Alteration(_UNTRUSTED, "a long text that is not its state", "A" * _LARGE)


def _altered_values(state: str) -> Iterator[tuple[str, str]]:
    """Return readable states with another value each."""
    for decode, encode in _READABLE:
        value = decode(state)
        if isinstance(value, dict):
            for name, member in [*value.items()][:4]:
                if isinstance(member, str | int | float):
                    other = f"{member}x" if isinstance(member, str) else member + 1
                    yield name, encode(value | {name: other})


def _from_base64(text: str) -> Any:
    try:
        data = base64.urlsafe_b64decode(text.replace("+", "-").replace("/", "_") + "==")
    except (binascii.Error, ValueError):
        return None
    return decode_json(data)


def _to_base64(value: object) -> str:
    return base64.b64encode(msgspec.json.encode(value)).decode()


_READABLE: Final[tuple[tuple[Callable[[str], Any], Callable[[object], str]], ...]] = (
    (decode_json, lambda value: msgspec.json.encode(value).decode()),
    (_from_base64, _to_base64),
)


@bare_scenario(_TAMPERED, _UNTRUSTED, _INTEGRITY, _BOUND, era="stateless", sends=ASKING_METHODS)
async def alters_and_moves_states(probe: Probe) -> None:
    ids = (_TAMPERED, _UNTRUSTED, _INTEGRITY, _BOUND)
    asking = await find_asking(probe)
    async with open_rounds(probe) as connection:
        found = await _most_stateful(connection, asking)
        if found is not None:
            await _alter(probe, connection, found)
            for other in _other_requests(probe, found.asking, asking):
                await _try_elsewhere(probe, connection, found, other)
            probe.skip(_INTEGRITY, "the state is not readable")
            await is_alive(probe, connection, "states that it did not make")
    probe.skip(ids, _UNNEEDED if asking else NO_QUESTIONS)


async def _most_stateful(
    connection: RawConnection, asking: list[AskingRequest]
) -> StatefulRound | None:
    """Return a round that depends on its state, or else any that has one."""
    best: StatefulRound | None = None
    for request in asking:
        found = await find_state(connection, request)
        if found is not None and found.is_needed:
            return found
        best = best or found
    return best


async def _alter(probe: Probe, connection: RawConnection, found: StatefulRound) -> None:
    done: set[str] = set()
    while reply := await found.reach(connection):
        # Each state is new, may be used only once, and need not be readable as the one before was.
        left = [
            each
            for each in _alterations(str(reply.result["requestState"]))
            if each.what not in done
        ]
        if not left:
            return
        id, what, state = left[0]
        done.add(what)
        given = answers_to(reply, connection) or None
        again = await ask_again(connection, make_retry(connection, found.asking, given, state))
        if again.is_error or found.is_needed:
            why = f"accepts {what} for {found.asking}, and answers {again}"
            probe.holds(id, not found.goes_on(again), why)


def _other_requests(
    probe: Probe, request: AskingRequest, asking: list[AskingRequest]
) -> list[AskingRequest]:
    found = [each for each in asking if each.params.get("name") != request.params.get("name")]
    schemas = {tool.name: tool.tool.get("inputSchema") for tool in probe.facts.callable_tools()}
    schema = schemas.get(str(request.params.get("name")))
    arguments = other_value(schema, request.params.get("arguments"))
    if request.method == "tools/call" and arguments is not None:
        params = request.params | {"arguments": arguments}
        found.insert(0, msgspec.structs.replace(request, params=params))
    return found[:3]


async def _try_elsewhere(
    probe: Probe, connection: RawConnection, found: StatefulRound, other: AskingRequest
) -> None:
    """Send the state and the answers of one request with another one."""
    own = answers_to(await connection.ask(other.method, other.params), connection)
    # The other one may have questions of its own; a state may be used only once.
    for more in ({}, own) if own else ({},):
        reply = await found.reach(connection)
        if reply is None:
            return
        given = {**answers_to(reply, connection), **more} or None
        # The answers alone may be enough for it.
        without = await ask_again(connection, make_retry(connection, other, given))
        state = reply.result["requestState"]
        again = await ask_again(connection, make_retry(connection, other, given, state))
        if again.is_error or found.is_needed:
            goes_on = found.goes_on(again) and not has_same_course(again, without)
            why = f"accepts the state of {found.asking} for {other} {other.params.get('arguments')}"
            probe.holds(_BOUND, not goes_on, f"{why}, and answers {again}")
