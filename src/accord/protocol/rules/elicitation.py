"""Deep rules of elicitation: the forms that a server asks for, and the answers of the user."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from accord.protocol.capabilities import undeclared_mode
from accord.protocol.exchange import META_CAPABILITIES, Step, meta_of
from accord.protocol.jsonrpc import FAULT, INVALID_PARAMS, REQUEST, RESULT
from accord.protocol.rules._rule import Breach, Outcome, check
from accord.protocol.rules.items import Finding, Placed, each, has, object_of, params_of, shown
from accord.protocol.rules.questions import (
    ANSWERING,
    ASKING,
    IN_ROUNDS,
    Answer,
    Question,
    answering,
    answers,
    answers_with_a_capability,
    asked_by_round,
    asking,
    not_an_object,
    questions,
)
from accord.protocol.violation import CLIENT, SERVER, WARN

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

CREATE: Final = "elicitation/create"
_ASKING: Final = asking(CREATE)
_ANSWERING: Final = answering(CREATE)

_ACTIONS: Final = ("accept", "decline", "cancel")
_PRIMITIVES: Final = ("string", "number", "integer", "boolean")
_FORMATS: Final = ("email", "uri", "date", "date-time")
_CHOICES: Final = ("enum", "enumNames", "oneOf", "anyOf")

_WORD_BREAKS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_SECRETS: Final = re.compile(
    r"(?:^|_)(?:password|passwd|passphrase|passcode|pin|pin_code|otp|secret|(?:api|secret|private|"
    r"access|ssh)_?key|apikey|token|credentials?|card_?number|credit_?card|cvv|cvc)$"
)
_WEB_ADDRESS: Final = re.compile(r"\bhttps?://", re.IGNORECASE)


# -- the capability, and the way to ask


@check("elicitation.capability.at-least-one-mode", by=CLIENT, kind=REQUEST)
def client_offers_a_mode(step: Step, conversation: "Conversation") -> Outcome:
    if step.name == "initialize":
        capabilities = object_of(step.body).get("capabilities")
    else:
        capabilities = meta_of(step.body).get(META_CAPABILITIES)
    modes = object_of(capabilities).get("elicitation")
    if not isinstance(modes, dict):
        return None
    if not modes or any(isinstance(modes.get(mode), dict) for mode in ("form", "url")):
        return True
    return f"declares elicitation with {shown(sorted(modes))}, but neither form nor url"


@check("elicitation.capability-per-request", by=CLIENT, kind=REQUEST, on=_ANSWERING)
def request_with_an_answer_declares_elicitation(
    step: Step, conversation: "Conversation"
) -> Outcome:
    return answers_with_a_capability(step, conversation, CREATE, "elicitation")


@check("elicitation.asked-by-mrtr", by=SERVER, kind=(REQUEST, RESULT), on=_ASKING)
def elicitation_is_asked_in_a_result(step: Step, conversation: "Conversation") -> Outcome:
    return asked_by_round(step, CREATE)


@check("elicitation.mode.supported-only", by=SERVER, kind=IN_ROUNDS, on=_ASKING)
def round_asks_in_a_declared_mode(step: Step, conversation: "Conversation") -> Outcome:
    declared = conversation.capabilities(CLIENT, step.exchange)
    if declared is None or "elicitation" not in declared:
        return None
    return each(
        mode is None or f"asks in mode {mode}, but the client did not declare elicitation.{mode}"
        for question in questions(step, CREATE)
        for mode in [undeclared_mode(question.params, declared)]
    )


@check("elicitation.error.undeclared-mode", by=CLIENT, kind=(RESULT, FAULT), on=CREATE)
def client_refuses_an_undeclared_mode(step: Step, conversation: "Conversation") -> Outcome:
    mode = undeclared_mode(params_of(step), conversation.capabilities(CLIENT))
    if mode is None:
        return None
    refused = step.error is not None and step.error.code == INVALID_PARAMS
    got = "a result" if step.error is None else f"error {step.error.code}"
    return refused or f"answers {got} to mode {mode}, which it did not declare, not -32602"


# -- the form


@check("elicitation.form.mode-and-schema", by=SERVER, kind=ASKING, on=_ASKING)
def form_has_its_mode_and_a_schema(step: Step, conversation: "Conversation") -> Outcome:
    findings: list[Finding] = []
    for question in questions(step, CREATE):
        params = object_of(question.params)
        mode = params.get("mode", "form")
        if mode == "form":
            findings.append(has(params, question.place, "requestedSchema", "object"))
        elif mode != "url":
            findings.append(f"sends {question.place} with mode {shown(mode)}")
    return each(findings)


@check("elicitation.schema.flat-primitive", by=SERVER, kind=ASKING, on=_ASKING)
def schema_is_flat(step: Step, conversation: "Conversation") -> Outcome:
    findings: list[Finding] = []
    for question in questions(step, CREATE):
        params = object_of(question.params)
        findings.append(has(params, question.place, "requestedSchema", "object"))
    findings += _flat(step, _PRIMITIVES)
    findings += _formats(step)
    return each(findings)


@check("elicitation.form.flat-primitives", by=SERVER, kind=ASKING, on=_ASKING)
def form_is_flat(step: Step, conversation: "Conversation") -> Outcome:
    return each(_flat(step, (*_PRIMITIVES, "array")))


@check("elicitation.form.formats", by=SERVER, kind=ASKING, on=_ASKING)
def formats_are_known(step: Step, conversation: "Conversation") -> Outcome:
    return each(_formats(step))


@check("elicitation.enum.enum-names", by=SERVER, kind=ASKING, on=_ASKING)
def choices_are_enums(step: Step, conversation: "Conversation") -> Outcome:
    findings: list[Finding] = []
    for place, schema in _places(step):
        if schema.get("type") not in _PRIMITIVES or not _is_choice(schema):
            continue
        if "enum" not in schema or "oneOf" in schema or "anyOf" in schema:
            findings.append(f"sends {place} with a choice that is no enum")
        else:
            findings.append(_is_legacy_enum(schema, place))
    return each(findings)


@check("elicitation.form.enum-forms", by=SERVER, kind=ASKING, on=_ASKING)
def choices_have_one_of_the_known_forms(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        _is_multiple_choice(schema, place)
        if schema.get("type") == "array"
        else _is_single_choice(schema, place)
        for place, schema in _places(step)
        if schema.get("type") == "array"
        or (schema.get("type") in _PRIMITIVES and _is_choice(schema))
    )


@check("elicitation.form.no-secrets", by=SERVER, kind=ASKING, on=_ASKING)
def form_asks_for_no_secrets(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        not _asks_for_a_secret(name, schema)
        or f"asks for {shown(name)} in a form, which names a secret"
        for name, schema in _properties(step)
    )


@check("elicitation.form.no-clickable-urls", by=SERVER, kind=ASKING, on=_ASKING)
def form_holds_no_links(step: Step, conversation: "Conversation") -> Outcome:
    findings: list[Finding] = []
    for question in _forms(step):
        message = object_of(question.params).get("message")
        if isinstance(message, str):
            shows = _WEB_ADDRESS.search(message) is not None
            findings.append(f"sends {question.place} whose message has a URL" if shows else True)
    for place, schema in _places(step):
        texts = [schema.get(name) for name in ("title", "description")]
        shows = any(isinstance(text, str) and _WEB_ADDRESS.search(text) for text in texts)
        findings.append(f"sends {place} whose description has a URL" if shows else True)
    return each(findings)


def _forms(step: Step) -> Iterator[Question]:
    for question in questions(step, CREATE):
        if object_of(question.params).get("mode", "form") == "form":
            yield question


def _schemas(step: Step) -> Iterator[Placed]:
    for question in _forms(step):
        schema = object_of(question.params).get("requestedSchema")
        if isinstance(schema, dict):
            yield f"{question.place}.requestedSchema", schema


def _properties(step: Step) -> Iterator[tuple[str, dict[str, Any]]]:
    for _, schema in _schemas(step):
        for name, each_ in object_of(schema.get("properties")).items():
            if isinstance(each_, dict):
                yield name, each_


def _places(step: Step) -> Iterator[Placed]:
    for name, schema in _properties(step):
        yield f"properties[{shown(name)}]", schema


def _is_choice(schema: dict[str, Any]) -> bool:
    return any(word in schema for word in _CHOICES)


def _flat(step: Step, types: tuple[str, ...]) -> Iterator[Finding]:
    for place, schema in _schemas(step):
        if schema.get("type") != "object":
            yield f"sends {place} whose type is {shown(schema.get('type'))}, not object"
            continue
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            yield f"sends {place} without properties"
            continue
        yield True
        for name, inner in properties.items():
            type_ = inner.get("type") if isinstance(inner, dict) else inner
            if type_ not in types or not isinstance(inner, dict):
                yield f"sends {place} whose property {shown(name)} is of type {shown(type_)}"


def _formats(step: Step) -> Iterator[Finding]:
    for place, schema in _places(step):
        if schema.get("type") == "string" and "format" in schema:
            known = schema["format"] in _FORMATS
            yield known or f"sends {place} with format {shown(schema['format'])}"


def _is_legacy_enum(schema: dict[str, Any], place: str) -> Finding:
    if schema.get("type") != "string" or not _are_strings(schema["enum"]):
        return f"sends {place} with an enum of other values than strings"
    names = schema.get("enumNames", schema["enum"])
    if not _are_strings(names) or len(names) != len(schema["enum"]):
        return f"sends {place} whose enumNames do not name its enum"
    return True


def _is_single_choice(schema: dict[str, Any], place: str) -> Finding:
    if "enum" in schema and "oneOf" not in schema and "anyOf" not in schema:
        return _is_legacy_enum(schema, place)
    titled = schema.get("type") == "string" and _are_titled(schema.get("oneOf"))
    return titled or f"sends {place} with a choice that has no known form"


def _is_multiple_choice(schema: dict[str, Any], place: str) -> Finding:
    items = object_of(schema.get("items"))
    untitled = items.get("type") == "string" and _are_strings(items.get("enum"))
    titled = _are_titled(items.get("anyOf"))
    return untitled or titled or f"sends {place}, an array that is no choice of several"


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _are_titled(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, dict)
        and isinstance(item.get("const"), str)
        and isinstance(item.get("title"), str)
        for item in value
    )


def _asks_for_a_secret(name: str, schema: dict[str, Any]) -> bool:
    if schema.get("type") not in ("string", "integer", "number"):
        return False
    if _is_choice(schema):
        return False
    title = schema.get("title")
    names = [name, title if isinstance(title, str) else ""]
    return any(_SECRETS.search(_snake(text)) for text in names)


def _snake(text: str) -> str:
    return "_".join(filter(None, _WORD_BREAKS.split(text))).lower()


# -- the answer


@check("elicitation.result.action-present", by=CLIENT, kind=ANSWERING, on=_ANSWERING)
def answer_has_an_action(step: Step, conversation: "Conversation") -> Outcome:
    findings = not_an_object(step, CREATE)
    for answer in answers(step, conversation, CREATE):
        findings.append("action" in answer.result or f"sends {answer.place} without action")
    return each(findings)


@check("elicitation.result.action-values", by=CLIENT, kind=ANSWERING, on=_ANSWERING)
def action_is_a_known_one(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        _is_an_action(answer)
        for answer in answers(step, conversation, CREATE)
        if "action" in answer.result
    )


def _is_an_action(answer: Answer) -> Finding:
    action = answer.result["action"]
    if action == "reject":
        return Breach("refuses with 'reject', which is written 'decline'", severity=WARN)
    return action in _ACTIONS or f"sends {answer.place} with action {shown(action)}"


@check("elicitation.result.content-optional", by=CLIENT, kind=ANSWERING, on=_ANSWERING)
def content_holds_plain_values(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        _is_plain_content(answer)
        for answer in answers(step, conversation, CREATE)
        if "content" in answer.result
    )


def _is_plain_content(answer: Answer) -> Finding:
    content = answer.result["content"]
    if not isinstance(content, dict):
        return f"sends {answer.place} whose content is not an object"
    for name, value in content.items():
        if not isinstance(value, str | int | float | bool):
            return f"sends {answer.place} whose {shown(name)} is no string, number or boolean"
    if answer.result.get("action") in ("decline", "cancel", "reject"):
        return Breach(f"sends {answer.place} with content that was not accepted", severity=WARN)
    return True


@check("elicitation.result.url-no-content", by=CLIENT, kind=ANSWERING, on=_ANSWERING)
def accepted_page_has_no_content(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        "content" not in answer.result or f"sends {answer.place} with content for a visited page"
        for answer in answers(step, conversation, CREATE)
        if answer.asked.get("mode") == "url" and answer.result.get("action") == "accept"
    )
