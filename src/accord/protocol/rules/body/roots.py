"""Roots: the answer to `roots/list`, and how roots are offered and asked for."""

from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.body.rounds import (
    ANSWER_KINDS,
    answer_methods,
    answers,
    find_answers,
    judge_declared_answer,
    judge_question_in_result,
    question_methods,
)
from accord.protocol.rules.shapes import shapes
from accord.protocol.rules.values import combine, objects_at, quote
from accord.protocol.syntax import scheme_of
from accord.protocol.violation import CLIENT, SERVER

_LIST: Final = "roots/list"
_ANSWERS: Final = answer_methods(_LIST)

shapes(
    {
        "roots.list.array": "body: {roots: array, roots[]: object}",
        "roots.item.uri": "roots[].uri: string",
        # One document recommends a name, the official one of that revision does not.
        "roots.item.name": "roots[].name?: string",
    },
    by=CLIENT,
    kind=ANSWER_KINDS,
    on=_ANSWERS,
    within=find_answers(_LIST),
)


@check("roots.item.file-uri", by=CLIENT, kind=ANSWER_KINDS, on=_ANSWERS)
def root_is_a_file(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        root["uri"].lower().startswith("file://")
        or f"sends {place} with uri {quote(root['uri'])}, expected the scheme file, got "
        f"{scheme_of(root['uri']) or 'none'}"
        for answer in answers(step, conversation, _LIST)
        for place, root in objects_at(answer.result, "roots")
        if isinstance(root.get("uri"), str)
    )


@check("roots.capability-per-request", by=CLIENT, kind=REQUEST, on=_ANSWERS)
def request_with_roots_declares_them(step: Step, conversation: Conversation) -> Outcome:
    return judge_declared_answer(step, conversation, _LIST, "roots")


@check("roots.asked-by-mrtr", by=SERVER, kind=(REQUEST, RESULT), on=question_methods(_LIST))
def roots_are_requested_in_a_result(step: Step, conversation: Conversation) -> Outcome:
    return judge_question_in_result(step, _LIST)
