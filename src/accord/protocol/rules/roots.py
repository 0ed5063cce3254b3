"""Deep rules of roots: the answer to `roots/list`, and how roots are offered and asked for."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.items import Placed, each, has, may_have, object_of, objects, shown
from accord.protocol.rules.questions import (
    ANSWERING,
    answering,
    answers,
    answers_with_a_capability,
    asked_by_round,
    asking,
    not_an_object,
)
from accord.protocol.syntax import scheme_of
from accord.protocol.violation import CLIENT, SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_LIST = "roots/list"


@check("roots.capability.list-changed", by=CLIENT, kind=REQUEST, on="initialize")
def list_changed_is_a_boolean(step: Step, conversation: "Conversation") -> Outcome:
    declared = object_of(object_of(object_of(step.body).get("capabilities")).get("roots"))
    return may_have(declared, "the capability roots", "listChanged", "boolean")


@check("roots.list.array", by=CLIENT, kind=ANSWERING, on=answering(_LIST))
def result_has_an_array_of_roots(step: Step, conversation: "Conversation") -> Outcome:
    findings = not_an_object(step, _LIST)
    for answer in answers(step, conversation, _LIST):
        findings.append(has(answer.result, answer.place, "roots", "array"))
        roots = answer.result.get("roots")
        for index, root in enumerate(roots if isinstance(roots, list) else ()):
            if not isinstance(root, dict):
                findings.append(f"sends roots[{index}], which is not an object")
    return each(findings)


@check("roots.item.uri", by=CLIENT, kind=ANSWERING, on=answering(_LIST))
def root_has_a_uri(step: Step, conversation: "Conversation") -> Outcome:
    return each(has(root, place, "uri", "string") for place, root in _roots(step, conversation))


@check("roots.item.file-uri", by=CLIENT, kind=ANSWERING, on=answering(_LIST))
def root_is_a_file(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        root["uri"].lower().startswith("file://")
        or f"sends {place} with uri {shown(root['uri'])}, whose scheme is "
        f"{scheme_of(root['uri']) or 'missing'}, not file"
        for place, root in _roots(step, conversation)
        if isinstance(root.get("uri"), str)
    )


# One document recommends a name, the official one of that revision does not: none is asked for.
@check("roots.item.name", by=CLIENT, kind=ANSWERING, on=answering(_LIST))
def name_of_a_root_is_text(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        may_have(root, place, "name", "string") for place, root in _roots(step, conversation)
    )


@check("roots.capability-per-request", by=CLIENT, kind=REQUEST, on=answering(_LIST))
def request_with_roots_declares_them(step: Step, conversation: "Conversation") -> Outcome:
    return answers_with_a_capability(step, conversation, _LIST, "roots")


@check("roots.asked-by-mrtr", by=SERVER, kind=(REQUEST, RESULT), on=asking(_LIST))
def roots_are_asked_for_in_a_result(step: Step, conversation: "Conversation") -> Outcome:
    return asked_by_round(step, _LIST)


def _roots(step: Step, conversation: "Conversation") -> Iterator[Placed]:
    for answer in answers(step, conversation, _LIST):
        yield from objects(answer.result, "roots")
