"""What servers ask clients for: elicitation by forms and URLs, and sampling."""

import re
from collections.abc import Iterator
from typing import Final, get_args
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import FAULT, INVALID_PARAMS, NOTIFICATION, REQUEST, RESULT
from accord.protocol.party import Bounded, undeclared_mode, undeclared_tools
from accord.protocol.questions import asks_for_secret
from accord.protocol.rules._rule import (
    Breach,
    Finding,
    Findings,
    Outcome,
    breach_at,
    check,
    messages,
    notifications,
    requests,
    results,
)
from accord.protocol.rules.body.results import judge_block, known_types
from accord.protocol.rules.body.rounds import (
    ClientAnswer,
    ServerQuestion,
    answer_messages,
    answers,
    find_answers,
    find_questions,
    question_messages,
    questions,
)
from accord.protocol.rules.shapes import BodyShape, judge_member, shapes
from accord.protocol.rules.state import judge_mode, judge_tools
from accord.protocol.rules.values import (
    Located,
    as_object,
    declared_in,
    describe,
    is_in_force,
    memory_of,
    objects_at,
    quote,
    request_params,
)
from accord.protocol.syntax import is_uri
from accord.protocol.violation import CLIENT, SERVER, WARN
from accord.types import SamplingContentBlock, ToolUseContent
from accord.types._base import JsonObject, RevisionId, lifetime_of

# -- elicitation

_CREATE: Final = "elicitation/create"
_COMPLETIONS: Final = notifications("notifications/elicitation/complete", by=SERVER)
_QUESTIONS: Final = question_messages(_CREATE)
_ROUNDS: Final = question_messages(_CREATE, (RESULT, NOTIFICATION))
_ANSWERS: Final = answer_messages(_CREATE)
_URL_ELICITATION_REQUIRED: Final = -32042

_ACTIONS: Final = ("accept", "decline", "cancel")
_PRIMITIVES: Final = ("string", "number", "integer", "boolean")
_FORMATS: Final = ("email", "uri", "date", "date-time")
_ENUM_KEYWORDS: Final = ("enum", "enumNames", "oneOf", "anyOf")

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
    _QUESTIONS,
    {"elicitation.url.required-params": "message: string, url: string"},
    within=find_questions(_CREATE, mode="url"),
)
shapes(_COMPLETIONS, {"elicitation.complete.has-id": "body: {elicitationId: string}"})
shapes(
    _ANSWERS,
    {"elicitation.result.action-present": "body: {action: any}"},
    within=find_answers(_CREATE),
)


# -- the capability, and its modes


@check("elicitation.capability.at-least-one-mode", requests(by=CLIENT))
def client_declares_a_mode(step: Step, conversation: Conversation) -> Outcome:
    modes = (declared_in(step) or {}).get("elicitation")
    if not isinstance(modes, dict):
        return None
    if not modes or any(isinstance(modes.get(mode), dict) for mode in ("form", "url")):
        return True
    why = f"declares elicitation with {quote(sorted(modes))}, but neither form nor url"
    return breach_at(why, "capabilities", "elicitation")


@check("elicitation.mode.supported-only", _ROUNDS)
def round_asks_in_a_declared_mode(step: Step, conversation: Conversation) -> Findings:
    declared = conversation.capabilities(CLIENT, step.exchange)
    for question in questions(step, _CREATE):
        found = judge_mode(question.params, declared)
        yield breach_at(found, question.place, "mode") if isinstance(found, str) else found


@check("elicitation.error.undeclared-mode", messages((RESULT, FAULT), _CREATE, by=CLIENT))
def client_rejects_an_undeclared_mode(step: Step, conversation: Conversation) -> Outcome:
    mode = undeclared_mode(request_params(step), conversation.capabilities(CLIENT))
    if mode is None:
        return None
    if step.error is not None and step.error.code == INVALID_PARAMS:
        return True
    answer = "a result" if step.error is None else f"error {step.error.code}"
    return f"answers the undeclared mode {mode} with {answer}, expected error {INVALID_PARAMS}"


# -- forms


def _questions(step: Step, mode: str) -> Iterator[ServerQuestion]:
    for question in questions(step, _CREATE):
        if question.params.get("mode", "form") == mode:
            yield question


def _schemas(step: Step) -> Iterator[Located]:
    for question in _questions(step, "form"):
        schema = question.params.get("requestedSchema")
        if isinstance(schema, dict):
            yield f"{question.place}.requestedSchema", schema


def _properties(step: Step) -> Iterator[tuple[str, str, JsonObject]]:
    """Yield the properties of forms: their names, places and schemas."""
    for place, schema in _schemas(step):
        for name, property_ in as_object(schema.get("properties")).items():
            if isinstance(property_, dict):
                yield name, f"{place}.properties[{quote(name)}]", property_


@check("elicitation.form.mode-and-schema", _QUESTIONS)
def form_has_its_mode_and_a_schema(step: Step, conversation: Conversation) -> Findings:
    for question in questions(step, _CREATE):
        mode = question.params.get("mode", "form")
        if mode == "form":
            if not conversation.current.handshake:
                # Before, this is a part of elicitation.create.method.
                yield judge_member(question.params, question.place, "message", "string")
            yield judge_member(question.params, question.place, "requestedSchema", "object")
        elif mode != "url":
            why = f"sends {question.place} with mode {quote(mode)}, expected form or url"
            yield breach_at(why, question.place, "mode")


@check("elicitation.schema.flat-primitive", _QUESTIONS)
def schema_is_flat(step: Step, conversation: Conversation) -> Findings:
    for question in questions(step, _CREATE):
        yield judge_member(question.params, question.place, "requestedSchema", "object")
    yield from _judge_flat(step, _PRIMITIVES)
    yield from formats_are_known(step, conversation)


@check("elicitation.form.flat-primitives", _QUESTIONS)
def form_is_flat(step: Step, conversation: Conversation) -> Findings:
    yield from _judge_flat(step, (*_PRIMITIVES, "array"))


def _judge_flat(step: Step, types: tuple[str, ...]) -> Findings:
    for place, schema in _schemas(step):
        if schema.get("type") != "object":
            why = f"sends {place} with type {quote(schema.get('type'))}, expected 'object'"
            yield breach_at(why, place, "type")
            continue
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            yield breach_at(f"sends {place} without properties", place, "properties")
            continue
        yield True
        for name, inner in properties.items():
            type_ = inner.get("type") if isinstance(inner, dict) else inner
            if type_ not in types or not isinstance(inner, dict):
                why = f"sends {place} with property {quote(name)} of type {quote(type_)}"
                yield breach_at(why, place, "properties", name)


@check("elicitation.form.formats", _QUESTIONS)
def formats_are_known(step: Step, conversation: Conversation) -> Findings:
    for _, place, schema in _properties(step):
        if schema.get("type") == "string" and "format" in schema:
            is_known = schema["format"] in _FORMATS
            yield is_known or breach_at(
                f"sends {place} with the unknown format {quote(schema['format'])}", place, "format"
            )


@check("elicitation.enum.enum-names", _QUESTIONS)
def choices_are_enums(step: Step, conversation: Conversation) -> Findings:
    for _, place, schema in _properties(step):
        if schema.get("type") in _PRIMITIVES and _has_choices(schema):
            is_enum = "enum" in schema and "oneOf" not in schema and "anyOf" not in schema
            yield (
                _judge_enum(schema, place)
                if is_enum
                else breach_at(f"sends {place} with choices that are not an enum", place)
            )


@check("elicitation.form.enum-forms", _QUESTIONS)
def enums_have_a_known_form(step: Step, conversation: Conversation) -> Findings:
    for _, place, schema in _properties(step):
        if schema.get("type") == "array":
            yield _judge_multi_select(schema, place)
        elif schema.get("type") in _PRIMITIVES and _has_choices(schema):
            yield _judge_single_select(schema, place)


def _has_choices(schema: JsonObject) -> bool:
    return any(keyword in schema for keyword in _ENUM_KEYWORDS)


def _judge_enum(schema: JsonObject, place: str) -> Finding:
    if schema.get("type") != "string" or not _are_strings(schema["enum"]):
        why = f"sends {place} with an enum of values that are not strings"
        return breach_at(why, place, "enum")
    names = schema["enumNames"] if "enumNames" in schema else schema["enum"]
    if not _are_strings(names) or len(names) != len(schema["enum"]):
        why = f"sends {place} with enumNames that do not match its enum"
        return breach_at(why, place, "enumNames")
    return True


def _judge_single_select(schema: JsonObject, place: str) -> Finding:
    if "enum" in schema and "oneOf" not in schema and "anyOf" not in schema:
        return _judge_enum(schema, place)
    is_titled = schema.get("type") == "string" and _are_titled(schema.get("oneOf"))
    return is_titled or breach_at(
        f"sends {place} with choices that are not a single-select enum", place
    )


def _judge_multi_select(schema: JsonObject, place: str) -> Finding:
    items = as_object(schema.get("items"))
    is_untitled = items.get("type") == "string" and _are_strings(items.get("enum"))
    is_titled = _are_titled(items.get("anyOf"))
    return (
        is_untitled
        or is_titled
        or breach_at(f"sends {place}, an array that is not a multi-select enum", place)
    )


def _are_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _are_titled(value: object) -> bool:
    return isinstance(value, list) and all(
        _are_strings([as_object(item).get("const"), as_object(item).get("title")]) for item in value
    )


@check("elicitation.form.no-secrets", _QUESTIONS)
def form_does_not_ask_for_secrets(step: Step, conversation: Conversation) -> Findings:
    for name, place, schema in _properties(step):
        yield not asks_for_secret(name, schema) or breach_at(
            f"asks for the secret {quote(name)} in a form", place
        )


@check("elicitation.form.no-clickable-urls", _QUESTIONS)
def form_has_no_links(step: Step, conversation: Conversation) -> Findings:
    texts = [(form.place, "message", form.params) for form in _questions(step, "form")]
    for name in ("title", "description"):
        texts += [(place, name, schema) for _, place, schema in _properties(step)]
    for place, name, holder in texts:
        if isinstance(holder.get(name), str):
            has_link = _WEB_ADDRESS.search(holder[name]) is not None
            yield not has_link or breach_at(f"sends {place} with a URL in its {name}", place, name)


# -- pages to visit


def _urls(step: Step) -> Iterator[tuple[str, str, SplitResult | None]]:
    """Yield the URLs of pages: their places, texts, and parts if they are valid."""
    for question in _questions(step, "url"):
        url = question.params.get("url")
        if isinstance(url, str):
            yield question.place, url, _split_url(url)


def _split_url(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts if is_uri(url) and parts.hostname else None


@check("elicitation.url.valid-url", _QUESTIONS)
def url_is_valid(step: Step, conversation: Conversation) -> Findings:
    for place, url, parts in _urls(step):
        yield parts is not None or breach_at(
            f"sends {place} with the invalid URL {quote(url)}", place, "url"
        )


@check("elicitation.url.https", _QUESTIONS)
def url_is_https(step: Step, conversation: Conversation) -> Findings:
    for place, _, parts in _urls(step):
        if parts is not None:
            is_local = _LOOPBACK.fullmatch(parts.hostname or "") is not None
            yield (
                parts.scheme == "https"
                or is_local
                or breach_at(
                    f"sends {place} with a URL of scheme {parts.scheme}, expected https",
                    place,
                    "url",
                )
            )


@check("elicitation.url.no-personal-data", _QUESTIONS)
def url_has_no_personal_data(step: Step, conversation: Conversation) -> Findings:
    for place, _, parts in _urls(step):
        if parts is not None:
            yield _judge_privacy(parts, place)


def _judge_privacy(parts: SplitResult, place: str) -> Finding:
    if parts.username or parts.password:
        return breach_at(f"sends {place} with credentials in its URL", place, "url")
    names = {name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    personal = sorted(names & _PERSONAL)
    if personal:
        why = f"sends {place} with the parameter {personal[0]} in its URL"
        return breach_at(why, place, "url")
    rest = unquote(f"{parts.path}?{parts.query}#{parts.fragment}")
    return _EMAIL.search(rest) is None or breach_at(
        f"sends {place} with an e-mail address in its URL", place, "url"
    )


@check("elicitation.url.elicitation-id", _QUESTIONS)
def page_has_its_own_id(step: Step, conversation: Conversation) -> Findings:
    facts = memory_of(conversation).facts
    urls: Bounded[str, object] = facts.setdefault("elicitation.url.elicitation-id", Bounded())
    for question in _questions(step, "url"):
        finding = judge_member(question.params, question.place, "elicitationId", "string")
        if finding is True:
            id, url = question.params["elicitationId"], question.params.get("url")
            if urls.setdefault(id, url) != url:
                why = f"uses the elicitationId {quote(id)} for two pages"
                finding = breach_at(why, question.place, "elicitationId")
        yield finding


@check("elicitation.url.no-elicitation-id", _QUESTIONS)
def page_has_no_id(step: Step, conversation: Conversation) -> Findings:
    for question in _questions(step, "url"):
        has_id = "elicitationId" in question.params
        yield not has_id or breach_at(
            f"sends {question.place} with an elicitationId", question.place, "elicitationId"
        )


@check("elicitation.url.no-elicitation-id", _COMPLETIONS, at="/method")
def completion_is_not_sent(step: Step, conversation: Conversation) -> Outcome:
    return f"sends {step.name}, which this revision does not have"


_PAGE: Final = BodyShape("elicitationId: string, url: string, message: string")


@check(
    "elicitation.required-error.lists-elicitations",
    messages(FAULT, by=SERVER),
    at="/error",
)
def error_lists_the_pages(step: Step, conversation: Conversation) -> Findings:
    if step.error is None or step.error.code != _URL_ELICITATION_REQUIRED:
        return
    pages = as_object(step.error.data).get("elicitations")
    if not isinstance(pages, list) or not pages:
        yield f"sends error {_URL_ELICITATION_REQUIRED} without data.elicitations"
        return
    for index, page in enumerate(pages):
        place = f"data.elicitations[{index}]"
        if as_object(page).get("mode") == "url":
            yield from _PAGE.judge(page, place)
        else:
            yield breach_at(f"sends {place} that is not in mode url", place)


# -- answers


@check("elicitation.result.action-values", _ANSWERS)
def action_is_known(step: Step, conversation: Conversation) -> Findings:
    for answer in answers(step, conversation, _CREATE):
        action = answer.result.get("action")
        if action == "reject":
            why = f"sends {answer.place} with action 'reject', expected 'decline'"
            yield Breach(why, severity=WARN, at=(answer.place, "action"))
        elif "action" in answer.result:
            is_known = action in _ACTIONS
            yield is_known or breach_at(
                f"sends {answer.place} with the unknown action {quote(action)}",
                answer.place,
                "action",
            )


@check("elicitation.result.content-optional", _ANSWERS)
def content_has_plain_values(step: Step, conversation: Conversation) -> Findings:
    for answer in answers(step, conversation, _CREATE):
        if "content" in answer.result:
            yield _judge_content(answer)


def _judge_content(answer: ClientAnswer) -> Finding:
    content = answer.result["content"]
    if not isinstance(content, dict):
        why = f"sends {answer.place} with content that is not an object"
        return breach_at(why, answer.place, "content")
    for name, value in content.items():
        if not isinstance(value, str | int | float | bool):
            return breach_at(
                f"sends content[{quote(name)}] of {answer.place} as {describe(value)}, "
                "expected a string, number or boolean",
                *(answer.place, "content", name),
            )
    if answer.result.get("action") in ("decline", "cancel", "reject"):
        why = f"sends {answer.place} with content, but the action is not accept"
        return Breach(why, severity=WARN, at=(answer.place, "content"))
    return True


@check("elicitation.result.url-no-content", _ANSWERS)
def accepted_page_has_no_content(step: Step, conversation: Conversation) -> Findings:
    for answer in answers(step, conversation, _CREATE):
        if answer.asked.get("mode") == "url" and answer.result.get("action") == "accept":
            has_content = "content" in answer.result
            yield not has_content or breach_at(
                f"sends {answer.place} with content for mode url", answer.place, "content"
            )


# -- sampling

_SAMPLING_CREATE: Final = "sampling/createMessage"
_SAMPLING_QUESTIONS: Final = question_messages(_SAMPLING_CREATE)
_SAMPLING_ROUNDS: Final = question_messages(_SAMPLING_CREATE, (RESULT, NOTIFICATION))
_SAMPLING_ANSWERS: Final = answer_messages(_SAMPLING_CREATE)
_BLOCKS: Final = get_args(SamplingContentBlock)
_CONTEXTS: Final = ("none", "thisServer", "allServers")
_MESSAGES: Final = "messages[]: {role: user|assistant, content: content}"

shapes(
    _SAMPLING_QUESTIONS,
    {
        "sampling.create.request-fields": f"""
            messages: array, maxTokens: integer,
            systemPrompt?: string, temperature?: number, metadata?: object,
            stopSequences?: array, stopSequences[]: string,
            includeContext?: {"|".join(_CONTEXTS)},
            modelPreferences?: {{
                hints?: array, hints[].name?: string,
                costPriority?: fraction, speedPriority?: fraction, intelligencePriority?: fraction
            }},
            {_MESSAGES}
        """,
        "sampling.message.role-and-content": _MESSAGES,
        "sampling.tool-choice.values": "toolChoice?: {mode?: auto|required|none}",
    },
    within=find_questions(_SAMPLING_CREATE),
)
shapes(
    _SAMPLING_ANSWERS,
    {
        "sampling.result.role": "body: {role: user|assistant}",
        "sampling.result.model": "model: string",
        "sampling.result.stop-reason": "stopReason: string",
    },
    within=find_answers(_SAMPLING_CREATE),
)


# -- the context of servers


def _requested_contexts(step: Step) -> Iterator[tuple[str, str]]:
    for question in questions(step, _SAMPLING_CREATE):
        value = question.params.get("includeContext")
        if isinstance(value, str):
            yield question.place, value


@check("sampling.context.avoid", _SAMPLING_QUESTIONS)
def context_is_not_requested(step: Step, conversation: Conversation) -> Findings:
    for place, value in _requested_contexts(step):
        if value in _CONTEXTS:
            yield value == "none" or breach_at(
                f"asks for the context {quote(value)}", place, "includeContext"
            )


@check("deprecated.include-context.not-used", results(by=SERVER))
def deprecated_context_is_not_requested(step: Step, conversation: Conversation) -> Findings:
    for place, value in _requested_contexts(step):
        yield value not in ("thisServer", "allServers") or breach_at(
            f"sends {place} with includeContext {quote(value)}, which is deprecated",
            place,
            "includeContext",
        )


@check("sampling.context.needs-capability", _SAMPLING_QUESTIONS)
def context_is_requested_where_declared(step: Step, conversation: Conversation) -> Findings:
    declared = conversation.capabilities(CLIENT, step.exchange)
    for place, value in _requested_contexts(step):
        if declared is not None and value in _CONTEXTS:
            yield (value == "none" or "sampling.context" in declared) or breach_at(
                f"asks for the context {quote(value)}, "
                "but the client did not declare sampling.context",
                *(place, "includeContext"),
            )


# -- tools


@check("sampling.tools.not-without-capability", _SAMPLING_ROUNDS)
def round_offers_tools_where_declared(step: Step, conversation: Conversation) -> Findings:
    declared = conversation.capabilities(CLIENT, step.exchange)
    for question in questions(step, _SAMPLING_CREATE):
        found = judge_tools(question.params, declared)
        yield breach_at(found, question.place, "tools") if isinstance(found, str) else found


@check("sampling.tools.capability", _SAMPLING_ANSWERS)
def client_accepts_tools_where_declared(step: Step, conversation: Conversation) -> Findings:
    declared = conversation.capabilities(CLIENT, step.exchange if step.kind == REQUEST else None)
    for answer in answers(step, conversation, _SAMPLING_CREATE):
        if answer.asked.get("tools") is not None or answer.asked.get("toolChoice") is not None:
            yield undeclared_tools(answer.asked, declared) is None or breach_at(
                f"sends {answer.place} to a question with tools without declaring sampling.tools",
                answer.place,
            )


@check("sampling.tool-results.alone", _SAMPLING_QUESTIONS)
def tool_results_have_their_own_message(step: Step, conversation: Conversation) -> Findings:
    for question in questions(step, _SAMPLING_CREATE):
        for place, message in objects_at(question.params, "messages"):
            if message.get("role") == "user" and _ids(message, "tool_result", "toolUseId"):
                are_alone = all(block.get("type") == "tool_result" for block in _blocks(message))
                yield are_alone or breach_at(
                    f"sends {place} with tool results and other content",
                    question.place,
                    place,
                    "content",
                )


@check("sampling.tool-use.balanced", _SAMPLING_QUESTIONS)
def next_message_has_the_tool_results(step: Step, conversation: Conversation) -> Findings:
    for question in questions(step, _SAMPLING_CREATE):
        messages = objects_at(question.params, "messages")
        following = [*(message for _, message in messages[1:]), {}]
        for (place, message), after in zip(messages, following, strict=False):
            used = _ids(message, "tool_use", "id") if message.get("role") == "assistant" else []
            given = _ids(after, "tool_result", "toolUseId") if after.get("role") == "user" else []
            missing = [id for id in used if id not in given]
            if used:
                yield not missing or breach_at(
                    f"sends {place} with tool use {quote(missing[0])} "
                    "and no result in the next message",
                    *(question.place, place),
                )


@check("sampling.tool-result.id-matches", _SAMPLING_QUESTIONS)
def tool_results_answer_earlier_uses(step: Step, conversation: Conversation) -> Findings:
    for question in questions(step, _SAMPLING_CREATE):
        used: list[object] = []
        for place, message in objects_at(question.params, "messages"):
            for id in _ids(message, "tool_result", "toolUseId"):
                yield id in used or breach_at(
                    f"sends {place} with a result of {quote(id)}, which was not used",
                    question.place,
                    place,
                )
            used += _ids(message, "tool_use", "id")


def _blocks(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [content]
    return [block for block in blocks if isinstance(block, dict)]


def _ids(message: JsonObject, type_: str, name: str) -> list[object]:
    return [block.get(name) for block in _blocks(message) if block.get("type") == type_]


# -- the result


@check("sampling.result.content", _SAMPLING_ANSWERS)
def result_has_content(step: Step, conversation: Conversation) -> Findings:
    for answer in answers(step, conversation, _SAMPLING_CREATE):
        yield _judge_sampled_content(answer, step.revision.id)


def _judge_sampled_content(answer: ClientAnswer, revision: RevisionId) -> Finding:
    content, place = answer.result.get("content"), answer.place
    if "content" not in answer.result:
        return breach_at(f"sends {place} without content", place)
    may_be_array = revision in lifetime_of(ToolUseContent)
    if isinstance(content, list) and not may_be_array:
        why = f"sends {place} with an array as content, expected one object"
        return breach_at(why, place, "content")
    if not isinstance(content, dict | list):
        return breach_at(f"sends {place} with content that is not an object", place, "content")
    for block in content if isinstance(content, list) else [content]:
        type_ = block.get("type") if isinstance(block, dict) else None
        if type_ in known_types(_BLOCKS, revision):
            found = judge_block(block, f"{place}.content")
            if found is not True:
                return found
        elif not is_in_force("sampling.result.content-type", revision):
            why = f"sends {place} with content of type {quote(type_)}"
            return breach_at(why, place, "content", "type")
    return True


@check("sampling.result.content-type", _SAMPLING_ANSWERS)
def content_is_of_a_known_type(step: Step, conversation: Conversation) -> Findings:
    for answer in answers(step, conversation, _SAMPLING_CREATE):
        content = answer.result.get("content")
        if isinstance(content, dict):
            is_known = content.get("type") in known_types(_BLOCKS, step.revision.id)
            yield is_known or breach_at(
                f"sends {answer.place} with content of type {quote(content.get('type'))}",
                answer.place,
                "content",
                "type",
            )
