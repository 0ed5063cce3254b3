"""Completion: the reference that is completed, and the values of the result."""

from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.shapes import judge_member, shapes
from accord.protocol.rules.values import (
    Finding,
    as_object,
    complete_result,
    is_in_force,
    quote,
)
from accord.protocol.violation import CLIENT, SERVER

_METHOD: Final = "completion/complete"
_MOST_VALUES: Final = 100
_NAME_MEMBERS: Final = {"ref/prompt": "name", "ref/resource": "uri"}

shapes(
    {"completion.request.context": "context?: {arguments?: {*: string}}"},
    by=CLIENT,
    kind=REQUEST,
    on=_METHOD,
)
shapes(
    {
        "completion.result.values": "completion: {values: array, values[]: string}",
        "completion.result.total-and-has-more": (
            "completion.total?: integer, completion.hasMore?: boolean"
        ),
    },
    by=SERVER,
    kind=RESULT,
    on=_METHOD,
)


@check("completion.ref.types", by=CLIENT, kind=REQUEST, on=_METHOD)
def ref_names_a_prompt_or_a_resource(step: Step, conversation: Conversation) -> Outcome:
    if step.body is not None and not isinstance(step.body, dict):
        return None
    params = as_object(step.body)
    found = judge_member(params, _METHOD, "ref", "object")
    if found is not True:
        return found
    ref = params["ref"]
    type_ = ref.get("type")
    if not isinstance(type_, str) or type_ not in _NAME_MEMBERS:
        return f"sends {_METHOD} with a ref of type {quote(type_)}"
    return judge_member(ref, f"a ref of type {type_}", _NAME_MEMBERS[type_], "string")


@check("completion.result.max-100", by=SERVER, kind=RESULT, on=_METHOD)
def values_are_at_most_100(step: Step, conversation: Conversation) -> Outcome:
    found = _judge_count(step)
    if isinstance(found, str) and is_in_force("completion.values-max-100", step.revision.id):
        return None
    return found


@check("completion.values-max-100", by=SERVER, kind=RESULT, on=_METHOD)
def values_keep_the_limit_of_the_schema(step: Step, conversation: Conversation) -> Outcome:
    return _judge_count(step)


def _judge_count(step: Step) -> Finding:
    values = as_object((complete_result(step) or {}).get("completion")).get("values")
    if not isinstance(values, list):
        return None
    return len(values) <= _MOST_VALUES or f"sends {len(values)} values, more than {_MOST_VALUES}"
