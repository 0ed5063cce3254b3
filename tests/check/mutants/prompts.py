"""Servers whose prompts are listed wrongly or answered wrongly."""

from collections.abc import Callable
from typing import Any

from check.faults import named
from check.mutants.foundation import Message, mutant, params_of
from check.mutants.spoiling import (
    ABSENT,
    FIRST,
    LATER,
    NULL,
    SECOND,
    Circumstances,
    answer,
    misdeclared,
    refusal,
    undeclared,
    wrong,
)

LIST, GET = "prompts/list", "prompts/get"

undeclared(
    "prompts.capability.declared",
    "prompts",
    also={"prompts.list-changed.capability-required": "it tells of them all the same"},
)
misdeclared(
    "prompts.capability.list-changed",
    "prompts",
    "listChanged",
    also={"prompts.list-changed.capability-required": "an invalid flag declares nothing"},
)
undeclared("prompts.list-changed.capability-required", "prompts", "listChanged")


@answer("prompts.list.array", LIST)
def lists_prompts_by_name(result: dict[str, Any]) -> None:
    result["prompts"] = {each["name"]: each for each in result["prompts"]}


wrong("prompts.item.name", LIST, "prompts.0.name", 7)
wrong(
    "prompts.item.description-and-arguments",
    LIST,
    "prompts.0.arguments",
    {"city": {"required": True}},
)
wrong("prompts.argument.fields", LIST, "prompts.0.arguments", ["city"])
wrong("prompts.item.title", LIST, "prompts.0.title", 7)


# -- one prompt


@answer("prompts.get.messages-array", GET)
def answers_with_one_message(result: dict[str, Any]) -> None:
    result["messages"] = result["messages"][0]


wrong("prompts.get.description", GET, "description", 7)
wrong("prompts.message.role", GET, "messages.0.role", "system")
wrong("prompts.message.content", GET, "messages.0.content", ABSENT)
wrong("prompts.message.content-type", GET, "messages.0.content", {"type": "smell", "data": "roses"})


def content(result: dict[str, Any], type_: str) -> dict[str, Any]:
    found = [each["content"] for each in result["messages"] if each["content"]["type"] == type_]
    return found[0] if found else {}


@answer("prompts.image.base64", GET)
def shows_an_image_without_mime_type(result: dict[str, Any]) -> None:
    content(result, "image").pop("mimeType", None)


@answer("prompts.audio.base64", GET)
def plays_a_sound_that_is_no_base64(result: dict[str, Any]) -> None:
    content(result, "audio")["data"] = "no base64!"


@answer("prompts.resource.members", GET)
def embeds_a_resource_without_uri(result: dict[str, Any]) -> None:
    content(result, "resource").get("resource", {}).pop("uri", None)


refusal("prompts.errors.codes", GET, -32602)


@mutant("prompts.arguments.validated")
def needs_no_arguments(message: Message, request: Message) -> Message:
    if params_of(request).get("name") == "postcard" and "error" in message:
        del message["error"]
        text = {"type": "text", "text": "A postcard from, please."}
        message["result"] = {"messages": [{"role": "user", "content": text}]}
    return message


# -- the same rows, broken in other ways

FLAG = "prompts.list-changed.capability-required"
POSTCARD: Circumstances = {"asked": {"name": "postcard"}}
PLAN: Circumstances = {"asked": {"name": "plan"}}

wrong(
    "prompts.capability.declared",
    "initialize",
    "capabilities.prompts",
    None,
    also={**NULL, FLAG: "it tells of them all the same"},
)


@answer("prompts.capability.declared", "initialize", also={FLAG: "it tells of them all the same"})
def declares_its_prompts_beside_the_capabilities(result: dict[str, Any]) -> None:
    result["prompts"] = result["capabilities"].pop("prompts")


wrong(FLAG, "initialize", "capabilities.prompts", {"list_changed": True})
wrong(
    "prompts.capability.list-changed",
    "initialize",
    "capabilities.prompts.listChanged",
    1,
    also={FLAG: "an invalid flag declares nothing"},
)
wrong(
    "prompts.capability.list-changed",
    "initialize",
    "capabilities.prompts.listChanged",
    {"enabled": True},
)
wrong(FLAG, "initialize", "capabilities.prompts.listChanged", False)
wrong("prompts.list.array", LIST, "prompts", None, LATER)
wrong("prompts.list.array", LIST, "prompts", ABSENT, SECOND)
wrong("prompts.list.array", LIST, "prompts.1", "joke")
wrong("prompts.item.name", LIST, "prompts.1.name", ABSENT)
wrong("prompts.item.name", LIST, "prompts.0.name", None, LATER)
wrong("prompts.item.description-and-arguments", LIST, "prompts.1.description", None)
wrong("prompts.item.description-and-arguments", LIST, "prompts.0.arguments", None, LATER)
wrong("prompts.argument.fields", LIST, "prompts.0.arguments.1.name", ABSENT, FIRST)
wrong("prompts.argument.fields", LIST, "prompts.0.arguments.0.required", "true", FIRST)
wrong("prompts.argument.fields", LIST, "prompts.1.arguments.0.description", None)
wrong("prompts.item.title", LIST, "prompts.1.title", None)
wrong("prompts.item.title", LIST, "prompts.0.title", {"en": "Riddle"}, LATER)
wrong("prompts.get.messages-array", GET, "messages", ABSENT)
wrong("prompts.get.messages-array", GET, "messages", None, POSTCARD)
wrong("prompts.get.messages-array", GET, "messages", "Tell a joke.", SECOND)
wrong("prompts.get.messages-array", GET, "messages.1", "Tell a joke.", POSTCARD)
wrong("prompts.get.description", GET, "description", None)
wrong("prompts.get.description", GET, "description", ["a", "plan"], SECOND)
wrong("prompts.message.role", GET, "messages.1.role", ABSENT, POSTCARD)
wrong("prompts.message.role", GET, "messages.-1.role", None, POSTCARD)
wrong("prompts.message.role", GET, "messages.0.role", "User", PLAN)
wrong("prompts.message.content", GET, "messages.0.content", "Tell a joke.", PLAN)
wrong(
    "prompts.message.content", GET, "messages.0.content", [{"type": "text", "text": "joke"}], SECOND
)
wrong("prompts.message.content", GET, "messages.1.content", None, POSTCARD)
wrong("prompts.message.content-type", GET, "messages.0.content.type", ABSENT, PLAN)
wrong("prompts.message.content-type", GET, "messages.0.content.text", ABSENT, PLAN)
wrong("prompts.message.content-type", GET, "messages.-1.content.text", None, POSTCARD)
SOUND = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
wrong("prompts.message.content-type", GET, "messages.0.content", SOUND, PLAN, revision="2024-11-05")
wrong("prompts.image.base64", GET, "messages.1.content.data", "iVBORw0KGgo", POSTCARD)
wrong("prompts.image.base64", GET, "messages.1.content.mimeType", "png", POSTCARD)
wrong(
    "prompts.image.base64",
    GET,
    "messages.1.content.data",
    "data:image/png;base64,iVBORw0KGgo=",
    POSTCARD,
)
wrong("prompts.audio.base64", GET, "messages.2.content.data", ABSENT, POSTCARD)
wrong("prompts.audio.base64", GET, "messages.2.content.mimeType", None, POSTCARD)
wrong("prompts.audio.base64", GET, "messages.2.content.mimeType", ".wav", POSTCARD)
wrong("prompts.resource.members", GET, "messages.3.content.resource.mimeType", ABSENT, POSTCARD)
wrong("prompts.resource.members", GET, "messages.3.content.resource.text", ABSENT, POSTCARD)
wrong("prompts.resource.members", GET, "messages.3.content.resource", "desk://rules", POSTCARD)
BLOB = {"uri": "desk://rules", "mimeType": "image/png", "blob": "not base64!"}
wrong("prompts.resource.members", GET, "messages.3.content.resource", BLOB, POSTCARD)


def refusing(name: str, code: int, is_meant: Callable[[dict[str, Any]], bool]) -> None:
    """Register a server that refuses some prompts with another code."""

    def change(message: Message, request: Message) -> Message:
        if request.get("method") == GET and "error" in message and is_meant(params_of(request)):
            message["error"]["code"] = code
        return message

    mutant("prompts.errors.codes")(named(name, change))


refusing(
    "calls_an_unknown_prompt_an_unknown_method", -32601, lambda params: "no-such" in params["name"]
)
refusing(
    "calls_a_missing_argument_an_error_of_its_own",
    -32000,
    lambda params: params.get("arguments") == {},
)


@mutant("prompts.errors.codes")
def answers_an_unknown_prompt_with_no_messages(message: Message, request: Message) -> Message:
    if "no-such-prompt" in str(params_of(request).get("name")) and request["method"] == GET:
        del message["error"]
        message["result"] = {"messages": []}
    return message


def needing(name: str, prompt: str, result: dict[str, Any]) -> None:
    """Register a server that answers a prompt without the arguments it requires."""

    def change(message: Message, request: Message) -> Message:
        if params_of(request).get("name") == prompt and "error" in message:
            del message["error"]
            message["result"] = result
        return message

    mutant("prompts.arguments.validated")(named(name, change))


UNDEFINED = {"type": "text", "text": "Plan 3 days in undefined, undefined."}
needing(
    "writes_undefined_for_what_is_missing",
    "plan",
    {"messages": [{"role": "user", "content": UNDEFINED}]},
)
needing("answers_with_no_messages_if_an_argument_is_missing", "postcard", {"messages": []})
