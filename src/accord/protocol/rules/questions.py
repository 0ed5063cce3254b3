"""What servers ask of clients and what clients answer, however it travels.

A question is a request of the server, or an entry of `inputRequests`; its answer is a result of the
client, or an entry of `inputResponses` in a repeated request or in `tasks/update`.
"""

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.monitor_memory import Round
from accord.protocol.rules._rule import Outcome
from accord.protocol.rules.items import Finding, in_force, object_of, params_of, shown
from accord.protocol.violation import CLIENT, SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation
    from accord.protocol.monitor_memory import Memory

ROUNDS: Final = ("tools/call", "resources/read", "prompts/get")
"""The methods that may be answered with questions."""

ASK: Final = ("elicitation/create", "sampling/createMessage", "roots/list")
"""What may be asked."""

ASKING: Final = (REQUEST, RESULT, NOTIFICATION)
IN_ROUNDS: Final = (RESULT, NOTIFICATION)
"""The kinds of messages that carry questions where servers send no requests."""
ANSWERING: Final = (REQUEST, RESULT)

# By these members the answers to the three questions are told from each other.
_MARKS: Final[dict[str, frozenset[str]]] = {
    "elicitation/create": frozenset({"action"}),
    "sampling/createMessage": frozenset({"role", "content", "model", "stopReason"}),
    "roots/list": frozenset({"roots"}),
}


class Question(msgspec.Struct, frozen=True):
    """One question, its params as plain JSON of any shape, and its place in the message."""

    method: str
    params: Any
    place: str


class Answer(msgspec.Struct, frozen=True):
    """One answer, the params of its question where they are known, and its place."""

    result: dict[str, Any]
    asked: dict[str, Any]
    place: str


def asking(method: str) -> tuple[str, ...]:
    """Return the methods under which a question of this kind can stand in a message of a server."""
    return (method, *ROUNDS, "tasks/get", "notifications/tasks")


def answering(method: str) -> tuple[str, ...]:
    """Return the methods under which an answer of this kind can stand in a message of a client."""
    return (method, *ROUNDS, "tasks/update", "tasks/result")


def questions(step: Step, method: str) -> list[Question]:
    """Return the questions of one kind that a message of a server asks."""
    if step.kind == REQUEST:
        return [Question(method, step.body, method)] if step.name == method else []
    return [
        Question(method, request.get("params"), f"inputRequests[{shown(key)}]")
        for key, request in object_of(object_of(step.body).get("inputRequests")).items()
        if isinstance(request, dict) and request.get("method") == method
    ]


def answers(step: Step, conversation: "Conversation", method: str) -> list[Answer]:
    """Return the answers to one kind of question in a message of a client."""
    if step.kind == RESULT:
        return _answer_in_result(step, conversation, method)
    found = []
    for key, result in object_of(object_of(step.body).get("inputResponses")).items():
        request = asked_under(step, conversation, key)
        if request is None or request.get("method") != method or not fits(method, result):
            continue
        place = f"inputResponses[{shown(key)}]"
        found.append(Answer(result, object_of(request.get("params")), place))
    return found


def _answer_in_result(step: Step, conversation: "Conversation", method: str) -> list[Answer]:
    if not isinstance(step.body, dict):
        return []
    params = params_of(step)
    if step.name == method:
        became_task = "task" in params and isinstance(step.body.get("task"), dict)
        return [] if became_task else [Answer(step.body, params, f"the result of {method}")]
    memory = conversation.memory
    known = None if memory is None else memory.tasks.get((step.sender, str(params.get("taskId"))))
    if known is None or known.request is None or known.request.name != method:
        return []
    return [Answer(step.body, object_of(known.request.params), "the result of the task")]


def fits(method: str, result: Any) -> bool:
    """Tell whether an answer is one to this kind of question, and not plainly to another."""
    if not isinstance(result, dict):
        return False
    own = _MARKS.get(method, frozenset())
    others = frozenset().union(*_MARKS.values()) - own
    return not own.isdisjoint(result) or others.isdisjoint(result)


def asked_under(step: Step, conversation: "Conversation", key: str) -> dict[str, Any] | None:
    """Return the question that an entry of `inputResponses` answers; None where there is none."""
    memory = conversation.memory
    if memory is None:
        return None
    if step.name == "tasks/update":
        id = str(object_of(step.body).get("taskId"))
        task = memory.tasks.get((SERVER, id))
        found = None if task is None else task.asked.get(key)
    else:
        earlier = round_of(step, memory)
        found = None if earlier is None else earlier.asked.get(key)
    return found if isinstance(found, dict) else None


# -- questions in results, remembered


def round_of(step: Step, memory: "Memory") -> Round | None:
    """Return the round of questions after which this request is repeated; None for a first one."""
    params = object_of(step.body)
    state = params.get("requestState")
    if state is None and "inputResponses" not in params:
        return None
    found = memory.rounds.get(f"state {state}") if isinstance(state, str) else None
    return found or memory.rounds.get(_requested(step.name, params))


def learn_rounds(step: Step, memory: "Memory") -> None:
    """Take note of a result that asks, under its state and under what was requested."""
    if step.kind != RESULT or step.exchange is None or not isinstance(step.body, dict):
        return
    if step.body.get("resultType") != "input_required":
        return
    request = Step(
        sender=step.exchange.sender,
        kind=REQUEST,
        name=step.name,
        revision=step.revision,
        body=step.exchange.params,
    )
    earlier = round_of(request, memory)
    ids = (*(earlier.ids if earlier else ()), step.exchange.id)
    asked = Round(ids=ids, asked=object_of(step.body.get("inputRequests")))
    state = step.body.get("requestState")
    if isinstance(state, str):
        memory.rounds[f"state {state}"] = asked
    memory.rounds[_requested(step.name, params_of(step))] = asked


def _requested(name: str, params: dict[str, Any]) -> str:
    of_this_try = ("_meta", "inputResponses", "requestState")
    lasting = {key: value for key, value in params.items() if key not in of_this_try}
    return f"{name} {sha256(json.dumps(lasting, sort_keys=True).encode()).hexdigest()}"


# -- clauses that hold for all three kinds of questions alike


def not_an_object(step: Step, method: str) -> list[Finding]:
    """Judge that an answer is an object, where no requirement on all results does."""
    if step.kind != RESULT or step.name != method or isinstance(step.body, dict):
        return []
    if in_force("jsonrpc.response.result-member", step.revision.id):
        return []
    return [f"answers {method} with what is not an object"]


def asked_by_round(step: Step, method: str) -> Outcome:
    """Judge that a question stands in a result, where servers send no requests."""
    if step.kind == REQUEST:
        return f"sends {method} as a request, not inside a result"
    return True if questions(step, method) else None


def answers_with_a_capability(
    step: Step, conversation: "Conversation", method: str, capability: str
) -> Outcome:
    """Judge that a request which answers a question declares that it can."""
    if not answers(step, conversation, method):
        return None
    if capability in (conversation.capabilities(CLIENT, step.exchange) or ()):
        return True
    return f"answers {method} in a request that does not declare {capability}"
