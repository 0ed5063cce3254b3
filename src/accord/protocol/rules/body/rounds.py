"""Questions of servers and answers of clients, the multi round trips that carry them, and roots.

A question is a request of the server, or an entry of `inputRequests`; its answer is a result of the
client, or an entry of `inputResponses` in a repeated request or in `tasks/update`.
"""

import json
from collections import Counter
from hashlib import sha256
from typing import Final

import msgspec

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT, Kind
from accord.protocol.party import Memory, Round
from accord.protocol.rules._rule import (
    Finding,
    Findings,
    Messages,
    Outcome,
    breach_at,
    check,
    combine,
    messages,
    requests,
    results,
)
from accord.protocol.rules.shapes import Within, judge_member, shapes
from accord.protocol.rules.values import as_object, memory_of, objects_at, quote, request_params
from accord.protocol.syntax import scheme_of
from accord.protocol.violation import CLIENT, SERVER
from accord.types._base import JsonObject

_ROUND_METHODS: Final = ("tools/call", "resources/read", "prompts/get")
_INPUT_METHODS: Final = ("elicitation/create", "sampling/createMessage", "roots/list")
_RESULT: Final = "an input-required result"
_RESULTS: Final = results(by=SERVER)

# The members that distinguish the answers to the three kinds of questions.
_ANSWER_MEMBERS: Final[dict[str, frozenset[str]]] = {
    "elicitation/create": frozenset({"action"}),
    "sampling/createMessage": frozenset({"role", "content", "model", "stopReason"}),
    "roots/list": frozenset({"roots"}),
}


class ServerQuestion(msgspec.Struct, frozen=True):
    """One question of a server: its params, empty for any other JSON value, and its place."""

    params: JsonObject
    place: str


class ClientAnswer(msgspec.Struct, frozen=True):
    """One answer of a client, the params of its question if they are known, and its place."""

    result: JsonObject
    asked: JsonObject
    place: str


# -- questions


def question_messages(
    method: str, kinds: tuple[Kind, ...] = (REQUEST, RESULT, NOTIFICATION)
) -> Messages:
    """Return the messages that can carry a question of this kind."""
    return messages(kinds, (method, *_ROUND_METHODS, "tasks/get", "notifications/tasks"), by=SERVER)


def questions(step: Step, method: str) -> list[ServerQuestion]:
    """Return the questions of one kind in a message of a server."""
    if step.kind == REQUEST:
        return [ServerQuestion(as_object(step.body), method)] if step.name == method else []
    return [
        ServerQuestion(as_object(request.get("params")), f"inputRequests[{quote(key)}]")
        for key, request in as_object(as_object(step.body).get("inputRequests")).items()
        if isinstance(request, dict) and request.get("method") == method
    ]


def find_questions(method: str, **members: str) -> Within:
    """Return a finder of the params of questions of one kind, for shapes.

    Args:
        method: the kind of question.
        members: values that the params of the question have.
    """
    return lambda step, _: [
        (question.place, question.params)
        for question in questions(step, method)
        if members.items() <= question.params.items()
    ]


# -- answers


def answer_messages(method: str, kinds: tuple[Kind, ...] = (REQUEST, RESULT)) -> Messages:
    """Return the messages that can carry an answer of this kind."""
    return messages(kinds, (method, *_ROUND_METHODS, "tasks/update", "tasks/result"), by=CLIENT)


def answers(step: Step, conversation: Conversation, method: str) -> list[ClientAnswer]:
    """Return the answers to one kind of question in a message of a client."""
    if step.kind == RESULT:
        return _answer_in_result(step, conversation, method)
    found = []
    for key, result in as_object(as_object(step.body).get("inputResponses")).items():
        request = _find_question(step, conversation, key)
        if request is None or request.get("method") != method or not _fits(method, result):
            continue
        place = f"inputResponses[{quote(key)}]"
        found.append(ClientAnswer(result, as_object(request.get("params")), place))
    return found


def find_answers(method: str) -> Within:
    """Return a finder of the answers to one kind of question, for shapes."""
    return lambda step, conversation: [
        (answer.place, answer.result) for answer in answers(step, conversation, method)
    ]


def _answer_in_result(step: Step, conversation: Conversation, method: str) -> list[ClientAnswer]:
    if not isinstance(step.body, dict):
        return []
    params = request_params(step)
    if step.name == method:
        became_task = "task" in params and isinstance(step.body.get("task"), dict)
        place = f"the result of {method}"
        return [] if became_task else [ClientAnswer(step.body, params, place)]
    task = memory_of(conversation).tasks.get((step.sender, str(params.get("taskId"))))
    if task is None or task.request is None or task.request.name != method:
        return []
    return [ClientAnswer(step.body, as_object(task.request.params), "the result of the task")]


def _fits(method: str, result: object) -> bool:
    """Tell whether an answer fits this kind of question, and not only another."""
    if not isinstance(result, dict):
        return False
    own = _ANSWER_MEMBERS.get(method, frozenset())
    foreign = frozenset().union(*_ANSWER_MEMBERS.values()) - own
    return not own.isdisjoint(result) or foreign.isdisjoint(result)


def _find_question(step: Step, conversation: Conversation, key: str) -> JsonObject | None:
    """Return the question that an entry of `inputResponses` answers; None if it is unknown."""
    memory = memory_of(conversation)
    asked = (
        memory.tasks.get((SERVER, str(as_object(step.body).get("taskId"))))
        if step.name == "tasks/update"
        else _find_round(step.name, step.body, memory)
    )
    found = None if asked is None else asked.asked.get(key)
    return found if isinstance(found, dict) else None


# -- rounds that are remembered


def _find_round(name: str, body: object, memory: Memory) -> Round | None:
    """Return the round of questions after which a request is repeated; None for a first one."""
    params = as_object(body)
    state = params.get("requestState")
    if state is None and "inputResponses" not in params:
        return None
    found = memory.rounds.get(f"state {state}") if isinstance(state, str) else None
    return found or memory.rounds.get(_digest(name, params))


def learn_rounds(step: Step, memory: Memory) -> None:
    """Note a result with questions, by its state and by the request that it answers."""
    if step.kind != RESULT or step.exchange is None:
        return
    result = _input_required(step)
    if result is None:
        return
    earlier = _find_round(step.name, step.exchange.params, memory)
    ids = (*(earlier.ids if earlier else ()), step.exchange.id)
    asked = Round(ids=ids, asked=as_object(result.get("inputRequests")))
    state = result.get("requestState")
    if isinstance(state, str):
        memory.rounds[f"state {state}"] = asked
    memory.rounds[_digest(step.name, request_params(step))] = asked


def _digest(name: str, params: JsonObject) -> str:
    changing = ("_meta", "inputResponses", "requestState")
    lasting = {key: value for key, value in params.items() if key not in changing}
    return f"{name} {sha256(json.dumps(lasting, sort_keys=True).encode()).hexdigest()}"


def _input_required(step: Step) -> JsonObject | None:
    """Return a result with questions; None for any other."""
    has_questions = as_object(step.body).get("resultType") == "input_required"
    return as_object(step.body) if has_questions else None


# -- rules: the result


@check(
    "mrtr.server-asks-only-this-way",
    messages((REQUEST, RESULT), (*_INPUT_METHODS, *_ROUND_METHODS), by=SERVER),
    at="/method",
)
def questions_are_in_results(step: Step, conversation: Conversation) -> Outcome:
    if step.kind == REQUEST:
        return f"sends {step.name} as a request, expected it in inputRequests of a result"
    result = _input_required(step)
    return True if result is not None and result.get("inputRequests") else None


@check("mrtr.result.only-on-supported-methods", _RESULTS, at="resultType")
def only_three_methods_have_questions(step: Step, conversation: Conversation) -> Outcome:
    # Results of tasks/get and the like are judged by tasks-ext.get.result-type-complete.
    if _input_required(step) is None or not step.name or step.name.startswith("tasks/"):
        return None
    return step.name in _ROUND_METHODS or f"answers {step.name} with {_RESULT}"


@check("mrtr.result.has-requests-or-state", _RESULTS)
def result_has_questions_or_a_state(step: Step, conversation: Conversation) -> Outcome:
    result = _input_required(step)
    if result is None:
        return None
    if "inputRequests" not in result and "requestState" not in result:
        return breach_at(f"sends {_RESULT} without inputRequests and without requestState", "")
    return judge_member(result, _RESULT, "requestState", "string", required=False) or True


@check("mrtr.result.input-request-kinds", _RESULTS, at="inputRequests")
def questions_are_of_the_three_kinds(step: Step, conversation: Conversation) -> Outcome:
    result = _input_required(step)
    if result is None or "inputRequests" not in result:
        return None
    asked = result["inputRequests"]
    if not isinstance(asked, dict):
        return f"sends {_RESULT} with inputRequests that are not an object"
    return combine(judge_input_request(key, request) for key, request in asked.items())


def judge_input_request(key: str, request: object) -> Finding:
    """Judge one entry of `inputRequests`."""
    place = f"inputRequests[{quote(key)}]"
    if not isinstance(request, dict):
        return breach_at(f"sends {place}, which is not an object", place)
    method = request.get("method")
    if method not in _INPUT_METHODS:
        return breach_at(f"sends {place} with method {quote(method)}", place, "method")
    for name in ("id", "jsonrpc"):
        if name in request:
            return breach_at(f"sends {place} with {name}", place, name)
    optional = method == "roots/list" and "params" not in request
    if not optional and not isinstance(request.get("params"), dict):
        return breach_at(f"sends {place} without params that are an object", place, "params")
    return True


@check("mrtr.result.input-request-keys-unique", _RESULTS, at="inputRequests")
def keys_of_questions_differ(step: Step, conversation: Conversation) -> Outcome:
    result = _input_required(step)
    text = step.record.message if step.record else None
    if text is None or result is None or not isinstance(result.get("inputRequests"), dict):
        return None
    keys = _written_keys(bytes(text), "result", "inputRequests")
    repeated = [key for key, times in Counter(keys).items() if times > 1]
    return f"asks two questions under the key {quote(repeated[0])}" if repeated else True


def _written_keys(text: bytes, *path: str) -> list[str]:
    """Return the keys of an object inside a message, repeated ones repeated."""
    # The message was decoded before; members that nothing reads may hold odd bytes or numbers.
    found = json.loads(
        text.decode(errors="replace"), object_pairs_hook=tuple, parse_int=str, strict=False
    )
    for name in path:
        pairs = found if isinstance(found, tuple) else ()
        found = next((value for key, value in reversed(pairs) if key == name), ())
    return [key for key, _ in found] if isinstance(found, tuple) else []


@check("mrtr.result.no-cache-hints", _RESULTS)
def result_with_questions_has_no_cache_hints(step: Step, conversation: Conversation) -> Outcome:
    result = _input_required(step)
    if result is None:
        return None
    hints = [name for name in ("ttlMs", "cacheScope") if name in result]
    return breach_at(f"sends {_RESULT} with {hints[0]}", hints[0]) if hints else True


# -- rules: the repeated request


@check("mrtr.client.new-id", requests(_ROUND_METHODS, by=CLIENT), at="/id")
def repeated_request_has_a_new_id(step: Step, conversation: Conversation) -> Outcome:
    earlier = _find_round(step.name, step.body, memory_of(conversation))
    if earlier is None:
        return None
    if step.id in earlier.ids:
        return f"repeats {step.name} under its old id {quote(step.id)}"
    return True


@check(
    "mrtr.client.response-keys-match",
    requests(_ROUND_METHODS, by=CLIENT),
    at="inputResponses",
)
def answers_belong_to_questions(step: Step, conversation: Conversation) -> Outcome:
    params = as_object(step.body)
    earlier = _find_round(step.name, step.body, memory_of(conversation))
    if earlier is None or "inputResponses" not in params:
        return None
    given = params["inputResponses"]
    if not isinstance(given, dict):
        return f"repeats {step.name} with inputResponses that are not an object"
    return combine(_judge_answer(key, result, earlier.asked) for key, result in given.items())


def _judge_answer(key: str, result: object, asked: JsonObject) -> Finding:
    place = f"inputResponses[{quote(key)}]"
    if key not in asked:
        return breach_at(f"sends {place}, which was not asked", place)
    method = as_object(asked[key]).get("method")
    if isinstance(method, str) and not _fits(method, result):
        return breach_at(f"sends {place}, which is not a result of {method}", place)
    return True


# -- rules: each of the three kinds of questions

_IN_RESULTS: Final = {
    "elicitation.asked-by-mrtr": "elicitation/create",
    "roots.asked-by-mrtr": "roots/list",
}
_DECLARED: Final = {
    "elicitation.capability-per-request": "elicitation/create",
    "sampling.capability-per-request": "sampling/createMessage",
    "roots.capability-per-request": "roots/list",
}


def _bind_in_result(requirement: str, method: str) -> None:
    @check(requirement, question_messages(method, (REQUEST, RESULT)), at="/method")
    def question_is_in_a_result(step: Step, conversation: Conversation) -> Outcome:
        if step.kind == REQUEST:
            return f"sends {method} as a request, expected it in inputRequests of a result"
        return True if questions(step, method) else None


def _bind_declared(requirement: str, method: str) -> None:
    capability = method.partition("/")[0]

    @check(requirement, answer_messages(method, (REQUEST,)), at="inputResponses")
    def request_with_an_answer_declares_it(step: Step, conversation: Conversation) -> Outcome:
        if not answers(step, conversation, method):
            return None
        if capability in (conversation.capabilities(CLIENT, step.exchange) or ()):
            return True
        return f"answers {method} in a request that does not declare {capability}"


for _requirement, _method in _IN_RESULTS.items():
    _bind_in_result(_requirement, _method)
for _requirement, _method in _DECLARED.items():
    _bind_declared(_requirement, _method)


# -- rules: roots

_ROOTS: Final = "roots/list"

shapes(
    answer_messages(_ROOTS),
    {
        "roots.list.array": "body: {roots: array, roots[]: object}",
        "roots.item.uri": "roots[].uri: string",
        # One document recommends a name, the official one of that revision does not.
        "roots.item.name": "roots[].name?: string",
    },
    within=find_answers(_ROOTS),
)


@check("roots.item.file-uri", answer_messages(_ROOTS))
def root_is_a_file(step: Step, conversation: Conversation) -> Findings:
    for answer in answers(step, conversation, _ROOTS):
        for place, root in objects_at(answer.result, "roots"):
            uri = root.get("uri")
            if isinstance(uri, str):
                yield uri.lower().startswith("file://") or breach_at(
                    f"sends {place} with uri {quote(uri)}, expected the scheme file, "
                    f"got {scheme_of(uri) or 'none'}",
                    *(answer.place, place, "uri"),
                )
