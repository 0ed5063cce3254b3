"""Sampling: the request to the model of the client, and its result."""

from collections.abc import Iterator
from typing import Final, get_args

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.party import undeclared_tools
from accord.protocol.rules._rule import Finding, Findings, breach_at, check, results
from accord.protocol.rules.body.results import judge_block, known_types
from accord.protocol.rules.body.rounds import (
    ClientAnswer,
    answer_messages,
    answers,
    find_answers,
    find_questions,
    question_messages,
    questions,
)
from accord.protocol.rules.shapes import shapes
from accord.protocol.rules.state import judge_tools
from accord.protocol.rules.values import is_in_force, objects_at, quote
from accord.protocol.violation import CLIENT, SERVER
from accord.types import SamplingContentBlock, ToolUseContent
from accord.types._base import JsonObject, RevisionId, lifetime_of

_CREATE: Final = "sampling/createMessage"
_QUESTIONS: Final = question_messages(_CREATE)
_ROUNDS: Final = question_messages(_CREATE, (RESULT, NOTIFICATION))
_ANSWERS: Final = answer_messages(_CREATE)
_BLOCKS: Final = get_args(SamplingContentBlock)
_CONTEXTS: Final = ("none", "thisServer", "allServers")
_MESSAGES: Final = "messages[]: {role: user|assistant, content: content}"

shapes(
    _QUESTIONS,
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
    within=find_questions(_CREATE),
)
shapes(
    _ANSWERS,
    {
        "sampling.result.role": "body: {role: user|assistant}",
        "sampling.result.model": "model: string",
        "sampling.result.stop-reason": "stopReason: string",
    },
    within=find_answers(_CREATE),
)


# -- the context of servers


def _requested_contexts(step: Step) -> Iterator[tuple[str, str]]:
    for question in questions(step, _CREATE):
        value = question.params.get("includeContext")
        if isinstance(value, str):
            yield question.place, value


@check("sampling.context.avoid", _QUESTIONS)
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


@check("sampling.context.needs-capability", _QUESTIONS)
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


@check("sampling.tools.not-without-capability", _ROUNDS)
def round_offers_tools_where_declared(step: Step, conversation: Conversation) -> Findings:
    declared = conversation.capabilities(CLIENT, step.exchange)
    for question in questions(step, _CREATE):
        found = judge_tools(question.params, declared)
        yield breach_at(found, question.place, "tools") if isinstance(found, str) else found


@check("sampling.tools.capability", _ANSWERS)
def client_accepts_tools_where_declared(step: Step, conversation: Conversation) -> Findings:
    declared = conversation.capabilities(CLIENT, step.exchange if step.kind == REQUEST else None)
    for answer in answers(step, conversation, _CREATE):
        if answer.asked.get("tools") is not None or answer.asked.get("toolChoice") is not None:
            yield undeclared_tools(answer.asked, declared) is None or breach_at(
                f"sends {answer.place} to a question with tools without declaring sampling.tools",
                answer.place,
            )


@check("sampling.tool-results.alone", _QUESTIONS)
def tool_results_have_their_own_message(step: Step, conversation: Conversation) -> Findings:
    for question in questions(step, _CREATE):
        for place, message in objects_at(question.params, "messages"):
            if message.get("role") == "user" and _ids(message, "tool_result", "toolUseId"):
                are_alone = all(block.get("type") == "tool_result" for block in _blocks(message))
                yield are_alone or breach_at(
                    f"sends {place} with tool results and other content",
                    question.place,
                    place,
                    "content",
                )


@check("sampling.tool-use.balanced", _QUESTIONS)
def next_message_has_the_tool_results(step: Step, conversation: Conversation) -> Findings:
    for question in questions(step, _CREATE):
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


@check("sampling.tool-result.id-matches", _QUESTIONS)
def tool_results_answer_earlier_uses(step: Step, conversation: Conversation) -> Findings:
    for question in questions(step, _CREATE):
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


@check("sampling.result.content", _ANSWERS)
def result_has_content(step: Step, conversation: Conversation) -> Findings:
    for answer in answers(step, conversation, _CREATE):
        yield _judge_content(answer, step.revision.id)


def _judge_content(answer: ClientAnswer, revision: RevisionId) -> Finding:
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


@check("sampling.result.content-type", _ANSWERS)
def content_is_of_a_known_type(step: Step, conversation: Conversation) -> Findings:
    for answer in answers(step, conversation, _CREATE):
        content = answer.result.get("content")
        if isinstance(content, dict):
            is_known = content.get("type") in known_types(_BLOCKS, step.revision.id)
            yield is_known or breach_at(
                f"sends {answer.place} with content of type {quote(content.get('type'))}",
                answer.place,
                "content",
                "type",
            )
