"""Prompts: how they are listed, and the messages of one."""

from collections.abc import Iterator
from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.body.content import (
    judge_blob,
    judge_block,
    judge_media,
    judge_mime_type,
    judge_resource,
    judge_type,
)
from accord.protocol.rules.shapes import judge_member, shapes
from accord.protocol.rules.values import Finding, Located, combine, is_in_force, result_objects
from accord.protocol.violation import SERVER
from accord.types._base import JsonObject

_GET: Final = "prompts/get"

# The members of these have requirements of their own.
_JUDGED_SEPARATELY: Final = ("image", "audio", "resource")

shapes(
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
    by=SERVER,
    kind=RESULT,
    on="prompts/list",
)
shapes(
    {
        "prompts.get.messages-array": "body: {messages: array, messages[]: object}",
        "prompts.get.description": "description?: string",
        "prompts.message.role": "messages[].role: user|assistant",
    },
    by=SERVER,
    kind=RESULT,
    on=_GET,
)


@check("prompts.message.content", by=SERVER, kind=RESULT, on=_GET)
def message_has_content(step: Step, conversation: Conversation) -> Outcome:
    findings = [
        judge_member(message, place, "content", "object")
        for place, message in result_objects(step, "messages")
    ]
    if not is_in_force("prompts.message.content-type", step.revision.id):
        findings += _judge_types(step)
    return combine(findings)


@check("prompts.message.content-type", by=SERVER, kind=RESULT, on=_GET)
def content_is_of_a_known_type(step: Step, conversation: Conversation) -> Outcome:
    return combine(_judge_types(step))


def _blocks(step: Step, type_: str | None = None) -> list[Located]:
    return [
        (f"{place}.content", message["content"])
        for place, message in result_objects(step, "messages")
        if isinstance(message.get("content"), dict)
        and type_ in (None, message["content"].get("type"))
    ]


def _judge_types(step: Step) -> Iterator[Finding]:
    for place, block in _blocks(step):
        found = judge_type(block, place, step.revision.id)
        if found is True and block["type"] not in _JUDGED_SEPARATELY:
            found = judge_block(block, place)
        yield found


@check("prompts.image.base64", by=SERVER, kind=RESULT, on=_GET)
def image_is_base64_with_a_mime_type(step: Step, conversation: Conversation) -> Outcome:
    return combine(judge_media(block, place) for place, block in _blocks(step, "image"))


@check("prompts.audio.base64", by=SERVER, kind=RESULT, on=_GET)
def audio_is_base64_with_a_mime_type(step: Step, conversation: Conversation) -> Outcome:
    return combine(judge_media(block, place) for place, block in _blocks(step, "audio"))


@check("prompts.resource.members", by=SERVER, kind=RESULT, on=_GET)
def embedded_resource_has_its_members(step: Step, conversation: Conversation) -> Outcome:
    return combine(_judge_embedded(block, place) for place, block in _blocks(step, "resource"))


def _judge_embedded(block: JsonObject, place: str) -> Finding:
    found = judge_member(block, place, "resource", "object")
    if found is not True:
        return found
    resource, place = block["resource"], f"{place}.resource"
    for found in (
        judge_resource(resource, place),
        judge_member(resource, place, "mimeType", "string"),
    ):
        if found is not True:
            return found
    found = judge_mime_type(resource["mimeType"], place)
    return judge_blob(resource, place) or True if found is True else found
