"""Completion: what is asked for, and the values that come back."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.items import (
    Finding,
    complete_result,
    each,
    has,
    in_force,
    may_have,
    object_of,
    shown,
)
from accord.protocol.violation import CLIENT, SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_METHOD: Final = "completion/complete"
_MOST: Final = 100
_NAMED_BY: Final = {"ref/prompt": "name", "ref/resource": "uri"}


@check("completion.ref.types", by=CLIENT, kind=REQUEST, on=_METHOD)
def ref_names_a_prompt_or_a_resource(step: Step, conversation: "Conversation") -> Outcome:
    if step.body is not None and not isinstance(step.body, dict):
        return None
    params = object_of(step.body)
    found = has(params, "a completion request", "ref", "object")
    if found is not True:
        return found
    ref = params["ref"]
    type_ = ref.get("type")
    if not isinstance(type_, str) or type_ not in _NAMED_BY:
        return f"asks for completion of a ref of type {shown(type_)}"
    return has(ref, f"a ref of type {type_}", _NAMED_BY[type_], "string")


@check("completion.request.context", by=CLIENT, kind=REQUEST, on=_METHOD)
def context_holds_resolved_arguments(step: Step, conversation: "Conversation") -> Outcome:
    return each(_context(object_of(step.body)))


def _context(params: dict[str, Any]) -> Iterator[Finding]:
    yield may_have(params, "a completion request", "context", "object")
    context = object_of(params.get("context"))
    yield may_have(context, "a context", "arguments", "object")
    arguments = object_of(context.get("arguments"))
    for name in arguments:
        yield may_have(arguments, "context.arguments", name, "string")


def _completion(step: Step) -> dict[str, Any]:
    return object_of((complete_result(step) or {}).get("completion"))


@check("completion.result.values", by=SERVER, kind=RESULT, on=_METHOD)
def result_has_values(step: Step, conversation: "Conversation") -> Outcome:
    result = complete_result(step)
    if result is None:
        return None
    found = has(result, "a result of completion/complete", "completion", "object")
    if found is True:
        found = has(result["completion"], "a completion", "values", "array")
    if found is not True:
        return found
    return (
        each(
            isinstance(value, str) or f"sends values[{index}], which is not a string"
            for index, value in enumerate(result["completion"]["values"])
        )
        or True
    )


@check("completion.result.max-100", by=SERVER, kind=RESULT, on=_METHOD)
def values_are_at_most_100(step: Step, conversation: "Conversation") -> Outcome:
    found = _count(step)
    if isinstance(found, str) and in_force("completion.values-max-100", step.revision.id):
        return None
    return found


@check("completion.values-max-100", by=SERVER, kind=RESULT, on=_METHOD)
def values_keep_the_limit_of_the_schema(step: Step, conversation: "Conversation") -> Outcome:
    return _count(step)


def _count(step: Step) -> Finding:
    values = _completion(step).get("values")
    if not isinstance(values, list):
        return None
    return len(values) <= _MOST or f"sends {len(values)} values, more than {_MOST}"


@check("completion.result.total-and-has-more", by=SERVER, kind=RESULT, on=_METHOD)
def total_is_an_integer_and_has_more_a_flag(step: Step, conversation: "Conversation") -> Outcome:
    completion = _completion(step)
    return each(
        (
            may_have(completion, "a completion", "total", "integer"),
            may_have(completion, "a completion", "hasMore", "boolean"),
        )
    )
