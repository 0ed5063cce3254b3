"""Elicitation: forms and pages that a server asks the user for, and the answers."""

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from accord.protocol.capabilities import undeclared_mode
from accord.protocol.conversation import Conversation
from accord.protocol.exchange import META_CAPABILITIES, Step, meta_of
from accord.protocol.jsonrpc import FAULT, INVALID_PARAMS, NOTIFICATION, REQUEST, RESULT
from accord.protocol.party import Bounded
from accord.protocol.rules._rule import Breach, Finding, Outcome, check, combine
from accord.protocol.rules.body.rounds import (
    ANSWER_KINDS,
    QUESTION_KINDS,
    ROUND_KINDS,
    ClientAnswer,
    ServerQuestion,
    answer_methods,
    answers,
    find_answers,
    find_questions,
    judge_declared_answer,
    judge_question_in_result,
    question_methods,
    questions,
)
from accord.protocol.rules.shapes import BodyShape, judge_member, shapes
from accord.protocol.rules.values import Located, as_object, describe, quote, request_params
from accord.protocol.syntax import is_uri
from accord.protocol.violation import CLIENT, SERVER, WARN
from accord.types._base import JsonObject

_CREATE: Final = "elicitation/create"
_COMPLETE: Final = "notifications/elicitation/complete"
_QUESTIONS: Final = question_methods(_CREATE)
_ANSWERS: Final = answer_methods(_CREATE)
_URL_ELICITATION_REQUIRED: Final = -32042

_ACTIONS: Final = ("accept", "decline", "cancel")
_PRIMITIVES: Final = ("string", "number", "integer", "boolean")
_FORMATS: Final = ("email", "uri", "date", "date-time")
_ENUM_KEYWORDS: Final = ("enum", "enumNames", "oneOf", "anyOf")

_WORD_BREAKS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_SECRETS: Final = re.compile(
    r"(?:^|_)(?:password|passwd|passphrase|passcode|pin|pin_code|otp|secret|(?:api|secret|private|"
    r"access|ssh)_?key|apikey|token|credentials?|card_?number|credit_?card|cvv|cvc)$"
)
_WEB_ADDRESS: Final = re.compile(r"\bhttps?://", re.IGNORECASE)
_LOOPBACK: Final = re.compile(r"localhost|.*\.localhost|127(?:\.\d{1,3}){3}|::1", re.IGNORECASE)
_EMAIL: Final = re.compile(r"[^@/?&=\s]@[^@/?&=\s]+\.[A-Za-z]{2,}")
_PERSONAL: Final = frozenset(
    {
        *("token", "access_token", "refresh_token", "id_token", "api_key", "apikey"),
        *("password", "passwd", "secret", "client_secret", "email", "ssn", "phone"),
    }
)

shapes(
    {"elicitation.url.required-params": "message: string, url: string"},
    by=SERVER,
    kind=QUESTION_KINDS,
    on=_QUESTIONS,
    within=find_questions(_CREATE, mode="url"),
)
shapes(
    {"elicitation.complete.has-id": "body: {elicitationId: string}"},
    by=SERVER,
    kind=NOTIFICATION,
    on=_COMPLETE,
)
shapes(
    {"elicitation.result.action-present": "body: {action: any}"},
    by=CLIENT,
    kind=ANSWER_KINDS,
    on=_ANSWERS,
    within=find_answers(_CREATE),
)


# -- the capability, and its modes


@check("elicitation.capability.at-least-one-mode", by=CLIENT, kind=REQUEST)
def client_declares_a_mode(step: Step, conversation: Conversation) -> Outcome:
    if step.name == "initialize":
        capabilities = as_object(step.body).get("capabilities")
    else:
        capabilities = meta_of(step.body).get(META_CAPABILITIES)
    modes = as_object(capabilities).get("elicitation")
    if not isinstance(modes, dict):
        return None
    if not modes or any(isinstance(modes.get(mode), dict) for mode in ("form", "url")):
        return True
    return f"declares elicitation with {quote(sorted(modes))}, but neither form nor url"


@check("elicitation.capability-per-request", by=CLIENT, kind=REQUEST, on=_ANSWERS)
def request_with_an_answer_declares_elicitation(step: Step, conversation: Conversation) -> Outcome:
    return judge_declared_answer(step, conversation, _CREATE, "elicitation")


@check("elicitation.asked-by-mrtr", by=SERVER, kind=(REQUEST, RESULT), on=_QUESTIONS)
def elicitation_is_in_a_result(step: Step, conversation: Conversation) -> Outcome:
    return judge_question_in_result(step, _CREATE)


@check("elicitation.mode.supported-only", by=SERVER, kind=ROUND_KINDS, on=_QUESTIONS)
def round_asks_in_a_declared_mode(step: Step, conversation: Conversation) -> Outcome:
    declared = conversation.capabilities(CLIENT, step.exchange)
    if declared is None or "elicitation" not in declared:
        return None
    return combine(
        mode is None or f"asks in mode {mode}, but the client did not declare elicitation.{mode}"
        for question in questions(step, _CREATE)
        for mode in [undeclared_mode(question.params, declared)]
    )


@check("elicitation.error.undeclared-mode", by=CLIENT, kind=(RESULT, FAULT), on=_CREATE)
def client_rejects_an_undeclared_mode(step: Step, conversation: Conversation) -> Outcome:
    mode = undeclared_mode(request_params(step), conversation.capabilities(CLIENT))
    if mode is None:
        return None
    if step.error is not None and step.error.code == INVALID_PARAMS:
        return True
    answer = "a result" if step.error is None else f"error {step.error.code}"
    return f"answers the undeclared mode {mode} with {answer}, expected error {INVALID_PARAMS}"


# -- forms


def _forms(step: Step) -> Iterator[ServerQuestion]:
    for question in questions(step, _CREATE):
        if question.params.get("mode", "form") == "form":
            yield question


def _schemas(step: Step) -> Iterator[Located]:
    for question in _forms(step):
        schema = question.params.get("requestedSchema")
        if isinstance(schema, dict):
            yield f"{question.place}.requestedSchema", schema


def _properties(step: Step) -> Iterator[tuple[str, JsonObject]]:
    for _, schema in _schemas(step):
        for name, property_ in as_object(schema.get("properties")).items():
            if isinstance(property_, dict):
                yield name, property_


def _located_properties(step: Step) -> Iterator[Located]:
    for name, schema in _properties(step):
        yield f"properties[{quote(name)}]", schema


@check("elicitation.form.mode-and-schema", by=SERVER, kind=QUESTION_KINDS, on=_QUESTIONS)
def form_has_its_mode_and_a_schema(step: Step, conversation: Conversation) -> Outcome:
    findings: list[Finding] = []
    for question in questions(step, _CREATE):
        mode = question.params.get("mode", "form")
        if mode == "form":
            findings.append(
                judge_member(question.params, question.place, "requestedSchema", "object")
            )
        elif mode != "url":
            findings.append(f"sends {question.place} with mode {quote(mode)}, expected form or url")
    return combine(findings)


@check("elicitation.schema.flat-primitive", by=SERVER, kind=QUESTION_KINDS, on=_QUESTIONS)
def schema_is_flat(step: Step, conversation: Conversation) -> Outcome:
    findings = [
        judge_member(question.params, question.place, "requestedSchema", "object")
        for question in questions(step, _CREATE)
    ]
    return combine([*findings, *_judge_flat(step, _PRIMITIVES), *_judge_formats(step)])


@check("elicitation.form.flat-primitives", by=SERVER, kind=QUESTION_KINDS, on=_QUESTIONS)
def form_is_flat(step: Step, conversation: Conversation) -> Outcome:
    return combine(_judge_flat(step, (*_PRIMITIVES, "array")))


@check("elicitation.form.formats", by=SERVER, kind=QUESTION_KINDS, on=_QUESTIONS)
def formats_are_known(step: Step, conversation: Conversation) -> Outcome:
    return combine(_judge_formats(step))


def _judge_flat(step: Step, types: tuple[str, ...]) -> Iterator[Finding]:
    for place, schema in _schemas(step):
        if schema.get("type") != "object":
            yield f"sends {place} with type {quote(schema.get('type'))}, expected 'object'"
            continue
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            yield f"sends {place} without properties"
            continue
        yield True
        for name, inner in properties.items():
            type_ = inner.get("type") if isinstance(inner, dict) else inner
            if type_ not in types or not isinstance(inner, dict):
                yield f"sends {place} with property {quote(name)} of type {quote(type_)}"


def _judge_formats(step: Step) -> Iterator[Finding]:
    for place, schema in _located_properties(step):
        if schema.get("type") == "string" and "format" in schema:
            is_known = schema["format"] in _FORMATS
            yield is_known or f"sends {place} with the unknown format {quote(schema['format'])}"


@check("elicitation.enum.enum-names", by=SERVER, kind=QUESTION_KINDS, on=_QUESTIONS)
def choices_are_enums(step: Step, conversation: Conversation) -> Outcome:
    findings: list[Finding] = []
    for place, schema in _located_properties(step):
        if schema.get("type") not in _PRIMITIVES or not _has_choices(schema):
            continue
        if "enum" not in schema or "oneOf" in schema or "anyOf" in schema:
            findings.append(f"sends {place} with choices that are not an enum")
        else:
            findings.append(_judge_enum(schema, place))
    return combine(findings)


@check("elicitation.form.enum-forms", by=SERVER, kind=QUESTION_KINDS, on=_QUESTIONS)
def enums_have_a_known_form(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        _judge_multi_select(schema, place)
        if schema.get("type") == "array"
        else _judge_single_select(schema, place)
        for place, schema in _located_properties(step)
        if schema.get("type") == "array"
        or (schema.get("type") in _PRIMITIVES and _has_choices(schema))
    )


def _has_choices(schema: JsonObject) -> bool:
    return any(keyword in schema for keyword in _ENUM_KEYWORDS)


def _judge_enum(schema: JsonObject, place: str) -> Finding:
    if schema.get("type") != "string" or not _are_strings(schema["enum"]):
        return f"sends {place} with an enum of values that are not strings"
    names = schema["enumNames"] if "enumNames" in schema else schema["enum"]
    if not _are_strings(names) or len(names) != len(schema["enum"]):
        return f"sends {place} with enumNames that do not match its enum"
    return True


def _judge_single_select(schema: JsonObject, place: str) -> Finding:
    if "enum" in schema and "oneOf" not in schema and "anyOf" not in schema:
        return _judge_enum(schema, place)
    is_titled = schema.get("type") == "string" and _are_titled(schema.get("oneOf"))
    return is_titled or f"sends {place} with choices that are not a single-select enum"


def _judge_multi_select(schema: JsonObject, place: str) -> Finding:
    items = as_object(schema.get("items"))
    is_untitled = items.get("type") == "string" and _are_strings(items.get("enum"))
    is_titled = _are_titled(items.get("anyOf"))
    return is_untitled or is_titled or f"sends {place}, an array that is not a multi-select enum"


def _are_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _are_titled(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, dict)
        and isinstance(item.get("const"), str)
        and isinstance(item.get("title"), str)
        for item in value
    )


@check("elicitation.form.no-secrets", by=SERVER, kind=QUESTION_KINDS, on=_QUESTIONS)
def form_does_not_ask_for_secrets(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        not _asks_for_a_secret(name, schema) or f"asks for the secret {quote(name)} in a form"
        for name, schema in _properties(step)
    )


def _asks_for_a_secret(name: str, schema: JsonObject) -> bool:
    if schema.get("type") not in ("string", "integer", "number") or _has_choices(schema):
        return False
    title = schema.get("title")
    names = [name, title if isinstance(title, str) else ""]
    return any(_SECRETS.search(_to_snake_case(text)) for text in names)


def _to_snake_case(text: str) -> str:
    return "_".join(filter(None, _WORD_BREAKS.split(text))).lower()


@check("elicitation.form.no-clickable-urls", by=SERVER, kind=QUESTION_KINDS, on=_QUESTIONS)
def form_has_no_links(step: Step, conversation: Conversation) -> Outcome:
    texts = [(question.place, "message", question.params) for question in _forms(step)]
    for name in ("title", "description"):
        texts += [(place, name, schema) for place, schema in _located_properties(step)]
    return combine(
        _WEB_ADDRESS.search(holder[name]) is None or f"sends {place} with a URL in its {name}"
        for place, name, holder in texts
        if isinstance(holder.get(name), str)
    )


# -- pages to visit


def _pages(step: Step) -> Iterator[ServerQuestion]:
    for question in questions(step, _CREATE):
        if question.params.get("mode") == "url":
            yield question


def _urls(step: Step) -> Iterator[tuple[str, str]]:
    for question in _pages(step):
        url = question.params.get("url")
        if isinstance(url, str):
            yield question.place, url


def _split_url(url: str) -> SplitResult | None:
    if not is_uri(url):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts if parts.hostname else None


@check("elicitation.url.valid-url", by=SERVER, kind=QUESTION_KINDS, on=_QUESTIONS)
def url_is_valid(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        _split_url(url) is not None or f"sends {place} with the invalid URL {quote(url)}"
        for place, url in _urls(step)
    )


@check("elicitation.url.https", by=SERVER, kind=QUESTION_KINDS, on=_QUESTIONS)
def url_is_https(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        parts.scheme == "https"
        or _LOOPBACK.fullmatch(parts.hostname or "") is not None
        or f"sends {place} with a URL of scheme {parts.scheme}, expected https"
        for place, url in _urls(step)
        if (parts := _split_url(url)) is not None
    )


@check("elicitation.url.no-personal-data", by=SERVER, kind=QUESTION_KINDS, on=_QUESTIONS)
def url_has_no_personal_data(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        _judge_privacy(parts, place)
        for place, url in _urls(step)
        if (parts := _split_url(url)) is not None
    )


def _judge_privacy(parts: SplitResult, place: str) -> Finding:
    if parts.username or parts.password:
        return f"sends {place} with credentials in its URL"
    names = {name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    personal = sorted(names & _PERSONAL)
    if personal:
        return f"sends {place} with the parameter {personal[0]} in its URL"
    rest = unquote(f"{parts.path}?{parts.query}#{parts.fragment}")
    return _EMAIL.search(rest) is None or f"sends {place} with an e-mail address in its URL"


@check("elicitation.url.elicitation-id", by=SERVER, kind=QUESTION_KINDS, on=_QUESTIONS)
def page_has_its_own_id(step: Step, conversation: Conversation) -> Outcome:
    memory = conversation.memory
    urls: Bounded[str, object] = Bounded()
    if memory is not None:
        urls = memory.facts.setdefault("elicitation.url.elicitation-id", urls)
    findings: list[Finding] = []
    for question in _pages(step):
        finding = judge_member(question.params, question.place, "elicitationId", "string")
        if finding is True:
            id, url = question.params["elicitationId"], question.params.get("url")
            if urls.setdefault(id, url) != url:
                finding = f"uses the elicitationId {quote(id)} for two pages"
        findings.append(finding)
    return combine(findings)


@check(
    "elicitation.url.no-elicitation-id",
    by=SERVER,
    kind=QUESTION_KINDS,
    on=(*_QUESTIONS, _COMPLETE),
)
def page_has_no_id(step: Step, conversation: Conversation) -> Outcome:
    if step.name == _COMPLETE:
        return f"sends {_COMPLETE}, which this revision does not have"
    return combine(
        "elicitationId" not in question.params or f"sends {question.place} with an elicitationId"
        for question in _pages(step)
    )


_PAGE: Final = BodyShape("elicitationId: string, url: string, message: string")


@check("elicitation.required-error.lists-elicitations", by=SERVER, kind=FAULT)
def error_lists_the_pages(step: Step, conversation: Conversation) -> Outcome:
    if step.error is None or step.error.code != _URL_ELICITATION_REQUIRED:
        return None
    pages = as_object(step.error.data).get("elicitations")
    if not isinstance(pages, list) or not pages:
        return f"sends error {_URL_ELICITATION_REQUIRED} without data.elicitations"
    return combine(
        finding
        for index, page in enumerate(pages)
        for finding in _judge_page(page, f"elicitations[{index}]")
    )


def _judge_page(page: object, place: str) -> Sequence[Finding]:
    if not isinstance(page, dict) or page.get("mode") != "url":
        return [f"sends {place} that is not in mode url"]
    return _PAGE.judge(page, place)


# -- answers


@check("elicitation.result.action-values", by=CLIENT, kind=ANSWER_KINDS, on=_ANSWERS)
def action_is_known(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        _judge_action(answer)
        for answer in answers(step, conversation, _CREATE)
        if "action" in answer.result
    )


def _judge_action(answer: ClientAnswer) -> Finding:
    action = answer.result["action"]
    if action == "reject":
        why = f"sends {answer.place} with action 'reject', expected 'decline'"
        return Breach(why, severity=WARN)
    return action in _ACTIONS or f"sends {answer.place} with the unknown action {quote(action)}"


@check("elicitation.result.content-optional", by=CLIENT, kind=ANSWER_KINDS, on=_ANSWERS)
def content_has_plain_values(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        _judge_content(answer)
        for answer in answers(step, conversation, _CREATE)
        if "content" in answer.result
    )


def _judge_content(answer: ClientAnswer) -> Finding:
    content = answer.result["content"]
    if not isinstance(content, dict):
        return f"sends {answer.place} with content that is not an object"
    for name, value in content.items():
        if not isinstance(value, str | int | float | bool):
            return (
                f"sends content[{quote(name)}] of {answer.place} as {describe(value)}, "
                "expected a string, number or boolean"
            )
    if answer.result.get("action") in ("decline", "cancel", "reject"):
        why = f"sends {answer.place} with content, but the action is not accept"
        return Breach(why, severity=WARN)
    return True


@check("elicitation.result.url-no-content", by=CLIENT, kind=ANSWER_KINDS, on=_ANSWERS)
def accepted_page_has_no_content(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        "content" not in answer.result or f"sends {answer.place} with content for mode url"
        for answer in answers(step, conversation, _CREATE)
        if answer.asked.get("mode") == "url" and answer.result.get("action") == "accept"
    )
