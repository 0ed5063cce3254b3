"""Questions in results: answered, left out, answered wrongly, and with states that were altered."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from accord.protocol.jsonrpc import INTERNAL_ERROR
from accord.types import JsonObject
from accord_tools.arguments.changes import other_value
from accord_tools.check.probing.messages import Reply, decode_json
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord_tools.check.scenarios._scenario import bare_scenario, has_failed, is_alive
from accord_tools.check.scenarios.server._rounds import (
    ASKING_METHODS,
    NO_QUESTIONS,
    AskingRequest,
    StatefulRound,
    answer,
    answers_to,
    ask_again,
    ask_first,
    find_asking,
    find_state,
    finish,
    is_asking,
    is_done,
    make_retry,
    open_rounds,
    questions_of,
)
from accord_tools.check.scenarios.server._rounds import has_same_course as _same

_ELICIT: Final = "elicitation/create"
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
            probe.holds(_UNKNOWN, _same(again, regular), why)
    probe.skip(_UNKNOWN, NO_QUESTIONS)


_WRONG: Final[dict[str, JsonObject]] = {
    _ELICIT: {"action": 7, "content": []},
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
    asking = [each for each in await find_asking(probe) if each.kinds == {_ELICIT}]
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
                probe.holds(_ABANDONED, _same(before, after), why)
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
            goes_on = found.goes_on(again) and not _same(again, without)
            why = f"accepts the state of {found.asking} for {other} {other.params.get('arguments')}"
            probe.holds(_BOUND, not goes_on, f"{why}, and answers {again}")
