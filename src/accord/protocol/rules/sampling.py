"""Deep rules of sampling: what a server may send to the client's model, and what comes back."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final, get_args

from accord.protocol.capabilities import undeclared_tools
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import REQUEST
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.content import has_its_members
from accord.protocol.rules.items import (
    Finding,
    Placed,
    Shape,
    each,
    has,
    in_force,
    may_have,
    object_of,
    objects,
    shown,
)
from accord.protocol.rules.questions import (
    ANSWERING,
    ASKING,
    IN_ROUNDS,
    Answer,
    Question,
    answering,
    answers,
    answers_with_a_capability,
    asking,
    not_an_object,
    questions,
)
from accord.protocol.violation import CLIENT, SERVER
from accord.types import SamplingContentBlock, ToolUseContent
from accord.types._base import RevisionId, lifetime_of

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_CREATE: Final = "sampling/createMessage"
_ASKING: Final = asking(_CREATE)
_ANSWERING: Final = answering(_CREATE)
_ROLES: Final = ("user", "assistant")
_CONTEXTS: Final = ("none", "thisServer", "allServers")
_CHOICES: Final = ("auto", "required", "none")
_PRIORITIES: Final = ("costPriority", "speedPriority", "intelligencePriority")
_MEMBERS: Final[dict[str, Shape]] = {
    "systemPrompt": "string",
    "modelPreferences": "object",
    "stopSequences": "array",
    "metadata": "object",
    "includeContext": "string",
}


# -- the request


@check("sampling.create.request-fields", by=SERVER, kind=ASKING, on=_ASKING)
def request_has_known_members_of_their_types(step: Step, conversation: "Conversation") -> Outcome:
    findings: list[Finding] = []
    for question in questions(step, _CREATE):
        params, place = object_of(question.params), question.place
        findings += [
            has(params, place, "messages", "array"),
            has(params, place, "maxTokens", "integer"),
            *(may_have(params, place, name, shape) for name, shape in _MEMBERS.items()),
            *_preferences(object_of(params.get("modelPreferences")), place),
            *_other_members(params, place),
            *(_has_role_and_content(*message) for message in _messages(question)),
        ]
    return each(findings)


def _preferences(preferences: dict[str, Any], place: str) -> Iterator[Finding]:
    yield may_have(preferences, f"{place}.modelPreferences", "hints", "array")
    for at, hint in objects(preferences, "hints", f"{place}.modelPreferences."):
        yield may_have(hint, at, "name", "string")
    for name in _PRIORITIES:
        value = preferences.get(name, 0)
        if not _is_number(value) or not 0 <= value <= 1:
            yield f"sends {place} whose {name} is {shown(value)}, not a number from 0 to 1"


def _other_members(params: dict[str, Any], place: str) -> Iterator[Finding]:
    if not _is_number(params.get("temperature", 0)):
        yield f"sends {place} whose temperature is not a number"
    if isinstance(params.get("includeContext"), str) and params["includeContext"] not in _CONTEXTS:
        yield f"sends {place} whose includeContext is {shown(params['includeContext'])}"
    sequences = params.get("stopSequences")
    if isinstance(sequences, list) and not all(isinstance(text, str) for text in sequences):
        yield f"sends {place} whose stopSequences are not strings"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@check("sampling.message.role-and-content", by=SERVER, kind=ASKING, on=_ASKING)
def message_has_role_and_content(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        _has_role_and_content(*message)
        for question in questions(step, _CREATE)
        for message in _messages(question)
    )


def _messages(question: Question) -> Iterator[tuple[str, Any]]:
    messages = object_of(question.params).get("messages")
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        yield f"messages[{index}]", message


def _has_role_and_content(place: str, message: Any) -> Finding:
    if not isinstance(message, dict):
        return f"sends {place}, which is not an object"
    if message.get("role") not in _ROLES:
        return f"sends {place} whose role is {shown(message.get('role'))}"
    if not isinstance(message.get("content"), dict | list):
        return f"sends {place} without content"
    return True


@check("sampling.context.avoid", by=SERVER, kind=ASKING, on=_ASKING)
def context_is_not_asked_for(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        value == "none" or f"asks for the context {shown(value)}"
        for value in _contexts_asked_for(step)
    )


@check("sampling.context.needs-capability", by=SERVER, kind=ASKING, on=_ASKING)
def context_is_asked_of_clients_that_offer_it(step: Step, conversation: "Conversation") -> Outcome:
    declared = conversation.capabilities(CLIENT, step.exchange)
    if declared is None:
        return None
    return each(
        value == "none"
        or "sampling.context" in declared
        or f"asks for the context {shown(value)} of a client without sampling.context"
        for value in _contexts_asked_for(step)
        if value in _CONTEXTS
    )


def _contexts_asked_for(step: Step) -> list[str]:
    values = [
        object_of(question.params).get("includeContext") for question in questions(step, _CREATE)
    ]
    return [value for value in values if isinstance(value, str)]


@check("sampling.tool-choice.values", by=SERVER, kind=ASKING, on=_ASKING)
def tool_choice_is_a_known_one(step: Step, conversation: "Conversation") -> Outcome:
    findings: list[Finding] = []
    for question in questions(step, _CREATE):
        choice = object_of(question.params).get("toolChoice", question)
        if choice is question:
            continue
        mode = choice.get("mode", "auto") if isinstance(choice, dict) else choice
        known = isinstance(choice, dict) and mode in _CHOICES
        findings.append(known or f"sends {question.place} with tool choice {shown(mode)}")
    return each(findings)


# -- tools inside the request


@check("sampling.tools.not-without-capability", by=SERVER, kind=IN_ROUNDS, on=_ASKING)
def round_offers_tools_where_declared(step: Step, conversation: "Conversation") -> Outcome:
    declared = conversation.capabilities(CLIENT, step.exchange)
    if declared is None or "sampling" not in declared:
        return None
    return each(
        name is None or f"sends {name}, but the client did not declare sampling.tools"
        for question in questions(step, _CREATE)
        for name in [undeclared_tools(question.params, declared)]
    )


@check("sampling.tools.capability", by=CLIENT, kind=ANSWERING, on=_ANSWERING)
def client_accepts_tools_where_declared(step: Step, conversation: "Conversation") -> Outcome:
    declared = conversation.capabilities(CLIENT, step.exchange if step.kind == REQUEST else None)
    return each(
        undeclared_tools(answer.asked, declared) is None
        or f"sends {answer.place} to a question with tools, without declaring sampling.tools"
        for answer in answers(step, conversation, _CREATE)
        if answer.asked.get("tools") is not None or answer.asked.get("toolChoice") is not None
    )


@check("sampling.tool-results.alone", by=SERVER, kind=ASKING, on=_ASKING)
def tool_results_stand_alone(step: Step, conversation: "Conversation") -> Outcome:
    findings: list[Finding] = []
    for place, message in _message_objects(step):
        kinds = [block.get("type") for block in _blocks(message)]
        if message.get("role") == "user" and "tool_result" in kinds:
            alone = all(kind == "tool_result" for kind in kinds)
            findings.append(alone or f"sends {place} with tool results and other content")
    return each(findings)


@check("sampling.tool-use.balanced", by=SERVER, kind=ASKING, on=_ASKING)
def tool_uses_are_answered_at_once(step: Step, conversation: "Conversation") -> Outcome:
    findings: list[Finding] = []
    for question in questions(step, _CREATE):
        messages = objects(object_of(question.params), "messages")
        following = [message for _, message in messages[1:]]
        for (place, message), after in zip(messages, [*following, {}], strict=False):
            used = _ids(message, "tool_use", "id") if message.get("role") == "assistant" else []
            given = _ids(after, "tool_result", "toolUseId") if after.get("role") == "user" else []
            missing = [id for id in used if id not in given]
            if used:
                why = f"sends {place} whose tool use {shown(missing[:1])} has no result at once"
                findings.append(why if missing else True)
    return each(findings)


@check("sampling.tool-result.id-matches", by=SERVER, kind=ASKING, on=_ASKING)
def tool_results_answer_earlier_uses(step: Step, conversation: "Conversation") -> Outcome:
    findings: list[Finding] = []
    for question in questions(step, _CREATE):
        used: list[Any] = []
        for place, message in objects(object_of(question.params), "messages"):
            findings += [
                id in used or f"sends {place} with the result of {shown(id)}, which was never used"
                for id in _ids(message, "tool_result", "toolUseId")
            ]
            used += _ids(message, "tool_use", "id")
    return each(findings)


def _message_objects(step: Step) -> Iterator[Placed]:
    for question in questions(step, _CREATE):
        yield from objects(object_of(question.params), "messages")


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    return [block for block in blocks if isinstance(block, dict)]


def _ids(message: dict[str, Any], type_: str, name: str) -> list[Any]:
    return [block.get(name) for block in _blocks(message) if block.get("type") == type_]


# -- the result


@check("sampling.result.role", by=CLIENT, kind=ANSWERING, on=_ANSWERING)
def result_has_a_role(step: Step, conversation: "Conversation") -> Outcome:
    findings = not_an_object(step, _CREATE)
    for answer in answers(step, conversation, _CREATE):
        findings.append(_is_a_role(answer.result.get("role"), answer.place))
    return each(findings)


def _is_a_role(role: Any, place: str) -> Finding:
    if role is None:
        return f"sends {place} without role"
    return role in _ROLES or f"sends {place} whose role is {shown(role)}"


@check("sampling.result.content", by=CLIENT, kind=ANSWERING, on=_ANSWERING)
def result_has_content(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        _has_content(answer, step.revision.id) for answer in answers(step, conversation, _CREATE)
    )


def _has_content(answer: Answer, revision: RevisionId) -> Finding:
    content, place = answer.result.get("content"), answer.place
    if "content" not in answer.result:
        return f"sends {place} without content"
    may_be_several = revision in lifetime_of(ToolUseContent)
    if isinstance(content, list) and not may_be_several:
        return f"sends {place} whose content is an array, not one object"
    if not isinstance(content, dict | list):
        return f"sends {place} whose content is not an object"
    types_judged = in_force("sampling.result.content-type", revision)
    for block in content if isinstance(content, list) else [content]:
        type_ = block.get("type") if isinstance(block, dict) else None
        if type_ in _known_types(revision):
            found = has_its_members(block, f"{place}.content")
            if found is not True:
                return found
        elif not types_judged:
            return f"sends {place} with content of type {shown(type_)}"
    return True


@check("sampling.result.content-type", by=CLIENT, kind=ANSWERING, on=_ANSWERING)
def content_is_of_a_known_type(step: Step, conversation: "Conversation") -> Outcome:
    known = _known_types(step.revision.id)
    return each(
        content.get("type") in known
        or f"sends {answer.place} with content of type {shown(content.get('type'))}"
        for answer in answers(step, conversation, _CREATE)
        if isinstance(content := answer.result.get("content"), dict)
    )


@cache
def _known_types(revision: RevisionId) -> tuple[Any, ...]:
    # A tuple, because a type of any JSON value is looked up in it.
    return tuple(
        block.__struct_config__.tag
        for block in get_args(SamplingContentBlock)
        if revision in lifetime_of(block)
    )


@check("sampling.result.model", by=CLIENT, kind=ANSWERING, on=_ANSWERING)
def result_names_the_model(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        has(answer.result, answer.place, "model", "string")
        for answer in answers(step, conversation, _CREATE)
    )


@check("sampling.result.stop-reason", by=CLIENT, kind=ANSWERING, on=_ANSWERING)
def result_has_a_stop_reason(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        has(answer.result, answer.place, "stopReason", "string")
        for answer in answers(step, conversation, _CREATE)
    )


@check("sampling.capability-per-request", by=CLIENT, kind=REQUEST, on=_ANSWERING)
def request_with_an_answer_declares_sampling(step: Step, conversation: "Conversation") -> Outcome:
    return answers_with_a_capability(step, conversation, _CREATE, "sampling")
