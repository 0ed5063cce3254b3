"""Prompts: how they are listed, and the messages of one; and the completion of arguments."""

from collections.abc import Iterator
from typing import Final

import msgspec

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.rules._rule import (
    Breach,
    Finding,
    Findings,
    Outcome,
    breach_at,
    check,
    requests,
    results,
)
from accord.protocol.rules.body.results import (
    judge_blob,
    judge_block,
    judge_mime_type,
    judge_type,
)
from accord.protocol.rules.shapes import judge_member, shapes
from accord.protocol.rules.values import (
    Located,
    as_object,
    complete_result,
    is_in_force,
    quote,
    result_objects,
)
from accord.protocol.violation import CLIENT, SERVER

_PROMPTS: Final = results("prompts/get", by=SERVER)

# The members of these have requirements of their own.
_JUDGED_SEPARATELY: Final = ("image", "audio", "resource")

shapes(
    results("prompts/list", by=SERVER),
    {
        "prompts.list.array": "body: {prompts: array, prompts[]: object}",
        "prompts.item.name": "prompts[].name: string",
        "prompts.item.title": "prompts[].title?: string",
        "prompts.item.description-and-arguments": (
            "prompts[].description?: string, prompts[].arguments?: array"
        ),
        "prompts.argument.fields": (
            "prompts[].arguments[]: {name: string, description?: string, required?: boolean}"
        ),
    },
)
shapes(
    _PROMPTS,
    {
        "prompts.get.messages-array": "body: {messages: array, messages[]: object}",
        "prompts.get.description": "description?: string",
        "prompts.message.role": "messages[].role: user|assistant",
    },
)


@check("prompts.message.content", _PROMPTS)
def message_has_content(step: Step, conversation: Conversation) -> Findings:
    for place, message in result_objects(step, "messages"):
        yield judge_member(message, place, "content", "object")
    if not is_in_force("prompts.message.content-type", step.revision.id):
        yield from content_is_of_a_known_type(step, conversation)


@check("prompts.message.content-type", _PROMPTS)
def content_is_of_a_known_type(step: Step, conversation: Conversation) -> Findings:
    for place, block in _blocks(step):
        found = judge_type(block, place, step.revision.id)
        if found is True and block["type"] not in _JUDGED_SEPARATELY:
            found = judge_block(block, place)
        yield found


def _blocks(step: Step, type_: str | None = None) -> Iterator[Located]:
    for place, message in result_objects(step, "messages"):
        block = message.get("content")
        if isinstance(block, dict) and type_ in (None, block.get("type")):
            yield f"{place}.content", block


def _bind_media(requirement: str, type_: str) -> None:
    @check(requirement, _PROMPTS)
    def block_is_base64_with_a_mime_type(step: Step, conversation: Conversation) -> Findings:
        for place, block in _blocks(step, type_):
            found = judge_block(block, place)
            yield judge_mime_type(block["mimeType"], place) if found is True else found


_bind_media("prompts.image.base64", "image")
_bind_media("prompts.audio.base64", "audio")


@check("prompts.resource.members", _PROMPTS)
def embedded_resource_has_its_members(step: Step, conversation: Conversation) -> Findings:
    for place, block in _blocks(step, "resource"):
        resource, inside = block.get("resource"), f"{place}.resource"
        found = judge_block(block, place)
        if found is True and isinstance(resource, dict):
            found = judge_member(resource, inside, "mimeType", "string")
            if found is True:
                found = judge_mime_type(resource["mimeType"], inside)
            if found is True:
                found = judge_blob(resource, inside) or True
        yield found


# -- completion: the reference, and the values of the result

_COMPLETE: Final = "completion/complete"
_COMPLETIONS: Final = results(_COMPLETE, by=SERVER)
_MOST_VALUES: Final = 100
_REFERENCES: Final = {"ref/prompt": "name", "ref/resource": "uri"}

shapes(
    requests(_COMPLETE, by=CLIENT),
    {"completion.request.context": "context?: {arguments?: {*: string}}"},
)
shapes(
    _COMPLETIONS,
    {
        "completion.result.values": "completion: {values: array, values[]: string}",
        "completion.result.total-and-has-more": (
            "completion.total?: integer, completion.hasMore?: boolean"
        ),
    },
)


@check("completion.ref.types", requests(_COMPLETE, by=CLIENT))
def ref_names_a_prompt_or_a_resource(step: Step, conversation: Conversation) -> Outcome:
    if step.body is not None and not isinstance(step.body, dict):
        return None
    params = as_object(step.body)
    found = judge_member(params, _COMPLETE, "ref", "object")
    if found is not True:
        return found
    ref = params["ref"]
    type_ = ref.get("type")
    if not isinstance(type_, str) or type_ not in _REFERENCES:
        return breach_at(f"sends {_COMPLETE} with a ref of type {quote(type_)}", "ref", "type")
    found = judge_member(ref, f"a ref of type {type_}", _REFERENCES[type_], "string")
    at = ("ref", _REFERENCES[type_])
    return msgspec.structs.replace(found, at=at) if isinstance(found, Breach) else found


@check("completion.result.max-100", _COMPLETIONS)
def values_are_at_most_100(step: Step, conversation: Conversation) -> Outcome:
    found = _judge_count(step)
    if isinstance(found, Breach) and is_in_force("completion.values-max-100", step.revision.id):
        return None
    return found


@check("completion.values-max-100", _COMPLETIONS)
def values_keep_the_limit_of_the_schema(step: Step, conversation: Conversation) -> Outcome:
    return _judge_count(step)


def _judge_count(step: Step) -> Finding:
    values = as_object((complete_result(step) or {}).get("completion")).get("values")
    if not isinstance(values, list):
        return None
    return len(values) <= _MOST_VALUES or breach_at(
        f"sends {len(values)} values, more than {_MOST_VALUES}", "completion.values"
    )
