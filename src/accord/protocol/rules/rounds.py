"""Deep rules of multi round trips: results that ask, and requests repeated with answers."""

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.items import Finding, each, may_have, object_of, shown
from accord.protocol.rules.questions import ASK, ROUNDS, fits, round_of
from accord.protocol.violation import CLIENT, SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_RESULT: Final = "an input-required result"


def asking_result(step: Step) -> dict[str, Any] | None:
    """Return a result that asks; None where it does something else."""
    asks = isinstance(step.body, dict) and step.body.get("resultType") == "input_required"
    return step.body if asks else None


# -- the result


@check("mrtr.server-asks-only-this-way", by=SERVER, kind=(REQUEST, RESULT), on=(*ASK, *ROUNDS))
def questions_stand_in_results(step: Step, conversation: "Conversation") -> Outcome:
    if step.kind == REQUEST:
        return f"sends {step.name} as a request, not inside a result"
    result = asking_result(step)
    return True if result is not None and result.get("inputRequests") else None


@check("mrtr.result.only-on-supported-methods", by=SERVER, kind=RESULT)
def only_three_methods_ask(step: Step, conversation: "Conversation") -> Outcome:
    # Of results of tasks/get and its like, tasks-ext.get.result-type-complete says the same.
    if asking_result(step) is None or not step.name or step.name.startswith("tasks/"):
        return None
    return step.name in ROUNDS or f"answers {step.name} with questions"


@check("mrtr.result.has-requests-or-state", by=SERVER, kind=RESULT)
def asking_result_has_questions_or_a_state(step: Step, conversation: "Conversation") -> Outcome:
    result = asking_result(step)
    if result is None:
        return None
    if "inputRequests" not in result and "requestState" not in result:
        return f"sends {_RESULT} without inputRequests and without requestState"
    return each([True, may_have(result, _RESULT, "requestState", "string")])


@check("mrtr.result.input-request-kinds", by=SERVER, kind=RESULT)
def questions_are_of_the_three_kinds(step: Step, conversation: "Conversation") -> Outcome:
    result = asking_result(step)
    if result is None or "inputRequests" not in result:
        return None
    asked = result["inputRequests"]
    if not isinstance(asked, dict):
        return f"sends {_RESULT} whose inputRequests are not an object"
    return each(is_a_question(key, request) for key, request in asked.items())


def is_a_question(key: str, request: Any) -> Finding:
    """Judge one entry of `inputRequests`."""
    place = f"inputRequests[{shown(key)}]"
    if not isinstance(request, dict):
        return f"sends {place}, which is not an object"
    method = request.get("method")
    if method not in ASK:
        return f"sends {place} with method {shown(method)}"
    for name in ("id", "jsonrpc"):
        if name in request:
            return f"sends {place} with {name}"
    optional = method == "roots/list" and "params" not in request
    if not optional and not isinstance(request.get("params"), dict):
        return f"sends {place} without an object params"
    return True


@check("mrtr.result.input-request-keys-unique", by=SERVER, kind=RESULT)
def keys_of_questions_differ(step: Step, conversation: "Conversation") -> Outcome:
    result = asking_result(step)
    text = step.record.message if step.record else None
    if text is None or result is None or not isinstance(result.get("inputRequests"), dict):
        return None
    keys = _keys_as_written(text, "result", "inputRequests")
    doubled = [key for key, times in Counter(keys).items() if times > 1]
    return f"asks two questions under the key {shown(doubled[0])}" if doubled else True


def _keys_as_written(text: Any, *path: str) -> list[str]:
    """Return the keys of an object inside a message, doubled ones doubled."""
    # The message was read before; only where nobody looked can it hold odd bytes or vast numbers.
    plain = bytes(text).decode(errors="replace")
    found = json.loads(plain, object_pairs_hook=tuple, parse_int=str, strict=False)
    for name in path:
        pairs = found if isinstance(found, tuple) else ()
        found = next((value for key, value in reversed(pairs) if key == name), ())
    return [key for key, _ in found] if isinstance(found, tuple) else []


@check("mrtr.result.no-cache-hints", by=SERVER, kind=RESULT)
def asking_result_has_no_cache_hints(step: Step, conversation: "Conversation") -> Outcome:
    result = asking_result(step)
    if result is None:
        return None
    hints = [name for name in ("ttlMs", "cacheScope") if name in result]
    return f"sends {_RESULT} with {hints[0]}" if hints else True


# -- the repeated request


@check("mrtr.client.new-id", by=CLIENT, kind=REQUEST, on=ROUNDS)
def repeated_request_has_a_new_id(step: Step, conversation: "Conversation") -> Outcome:
    earlier = round_of(step, conversation.memory) if conversation.memory else None
    if earlier is None:
        return None
    if step.id in earlier.ids:
        return f"repeats {step.name} under its old id {shown(step.id)}"
    return True


@check("mrtr.client.response-keys-match", by=CLIENT, kind=REQUEST, on=ROUNDS)
def answers_belong_to_the_questions(step: Step, conversation: "Conversation") -> Outcome:
    params = object_of(step.body)
    earlier = round_of(step, conversation.memory) if conversation.memory else None
    if earlier is None or "inputResponses" not in params:
        return None
    given = params["inputResponses"]
    if not isinstance(given, dict):
        return f"repeats {step.name} with inputResponses that are not an object"
    return each(_answers(key, result, earlier.asked) for key, result in given.items())


def _answers(key: str, result: Any, asked: dict[str, Any]) -> Finding:
    place = f"inputResponses[{shown(key)}]"
    if key not in asked:
        return f"sends {place}, which was not asked"
    method = object_of(asked[key]).get("method")
    if isinstance(method, str) and not fits(method, result):
        return f"sends {place}, which is no result of {method}"
    return True
