"""Prompts: how they are listed, and what the messages of one look like."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.content import (
    blob_is_base64,
    has_its_members,
    holds_a_resource,
    is_encoded,
    is_of_known_type,
)
from accord.protocol.rules.items import (
    Finding,
    Placed,
    array_in_result,
    capability_flag,
    complete_result,
    each,
    has,
    in_force,
    listed,
    may_have,
    shown,
)
from accord.protocol.syntax import is_mime_type
from accord.protocol.violation import SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_LIST: Final = "prompts/list"
_GET: Final = "prompts/get"

# Each of these has a requirement of its own for what it carries.
_JUDGED_APART: Final = ("image", "audio", "resource")


@check(
    "prompts.capability.list-changed", by=SERVER, kind=RESULT, on=("initialize", "server/discover")
)
def list_changed_is_a_flag(step: Step, conversation: "Conversation") -> Outcome:
    return capability_flag(step, "prompts", "listChanged")


# -- lists


@check("prompts.list.array", by=SERVER, kind=RESULT, on=_LIST)
def list_has_a_prompts_array(step: Step, conversation: "Conversation") -> Outcome:
    return array_in_result(step, "prompts")


@check("prompts.item.name", by=SERVER, kind=RESULT, on=_LIST)
def prompt_has_a_name(step: Step, conversation: "Conversation") -> Outcome:
    return each(has(item, place, "name", "string") for place, item in listed(step, "prompts"))


@check("prompts.item.title", by=SERVER, kind=RESULT, on=_LIST)
def title_is_text(step: Step, conversation: "Conversation") -> Outcome:
    return each(may_have(item, place, "title", "string") for place, item in listed(step, "prompts"))


@check("prompts.item.description-and-arguments", by=SERVER, kind=RESULT, on=_LIST)
def description_is_text_and_arguments_an_array(step: Step, conversation: "Conversation") -> Outcome:
    prompts = listed(step, "prompts")
    return each(
        (
            *(may_have(item, place, "description", "string") for place, item in prompts),
            *(may_have(item, place, "arguments", "array") for place, item in prompts),
        )
    )


@check("prompts.argument.fields", by=SERVER, kind=RESULT, on=_LIST)
def argument_has_its_fields(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        finding for place, item in listed(step, "prompts") for finding in _arguments(item, place)
    )


def _arguments(prompt: dict[str, Any], place: str) -> Iterator[Finding]:
    arguments = prompt.get("arguments")
    for index, argument in enumerate(arguments if isinstance(arguments, list) else ()):
        at = f"{place}.arguments[{index}]"
        if not isinstance(argument, dict):
            yield f"sends {at}, which is not an object"
            continue
        yield has(argument, at, "name", "string")
        yield may_have(argument, at, "description", "string")
        yield may_have(argument, at, "required", "boolean")


# -- one prompt


@check("prompts.get.messages-array", by=SERVER, kind=RESULT, on=_GET)
def result_has_a_messages_array(step: Step, conversation: "Conversation") -> Outcome:
    return array_in_result(step, "messages")


@check("prompts.get.description", by=SERVER, kind=RESULT, on=_GET)
def description_is_text(step: Step, conversation: "Conversation") -> Outcome:
    return may_have(complete_result(step) or {}, "a prompt", "description", "string")


@check("prompts.message.role", by=SERVER, kind=RESULT, on=_GET)
def message_has_a_role(step: Step, conversation: "Conversation") -> Outcome:
    return each(_role(message, place) for place, message in listed(step, "messages"))


def _role(message: dict[str, Any], place: str) -> Finding:
    if "role" not in message:
        return f"sends {place} without role"
    if message["role"] in ("user", "assistant"):
        return True
    return f"sends {place} with role {shown(message['role'])}"


@check("prompts.message.content", by=SERVER, kind=RESULT, on=_GET)
def message_has_content(step: Step, conversation: "Conversation") -> Outcome:
    findings = [
        has(message, place, "content", "object") for place, message in listed(step, "messages")
    ]
    if not in_force("prompts.message.content-type", step.revision.id):
        findings += _content_types(step)
    return each(findings)


@check("prompts.message.content-type", by=SERVER, kind=RESULT, on=_GET)
def content_is_of_a_known_type(step: Step, conversation: "Conversation") -> Outcome:
    return each(_content_types(step))


def _content(step: Step) -> list[Placed]:
    return [
        (f"{place}.content", message["content"])
        for place, message in listed(step, "messages")
        if isinstance(message.get("content"), dict)
    ]


def _content_types(step: Step) -> Iterator[Finding]:
    for place, block in _content(step):
        found = is_of_known_type(block, place, step.revision.id)
        if found is True and block["type"] not in _JUDGED_APART:
            found = has_its_members(block, place)
        yield found


@check("prompts.image.base64", by=SERVER, kind=RESULT, on=_GET)
def image_is_base64_with_a_mime_type(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        is_encoded(block, place) for place, block in _content(step) if block.get("type") == "image"
    )


@check("prompts.audio.base64", by=SERVER, kind=RESULT, on=_GET)
def audio_is_base64_with_a_mime_type(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        is_encoded(block, place) for place, block in _content(step) if block.get("type") == "audio"
    )


@check("prompts.resource.members", by=SERVER, kind=RESULT, on=_GET)
def embedded_resource_has_its_members(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        _resource(block, place)
        for place, block in _content(step)
        if block.get("type") == "resource"
    )


def _resource(block: dict[str, Any], place: str) -> Finding:
    found = has(block, place, "resource", "object")
    if found is not True:
        return found
    resource, place = block["resource"], f"{place}.resource"
    for found in (holds_a_resource(resource, place), has(resource, place, "mimeType", "string")):
        if found is not True:
            return found
    if not is_mime_type(resource["mimeType"]):
        return f"sends {place} with mimeType {shown(resource['mimeType'])}, which is no MIME type"
    return blob_is_base64(resource, place) or True
