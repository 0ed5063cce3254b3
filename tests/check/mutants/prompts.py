"""Servers whose prompts are listed wrongly or answered wrongly."""

from typing import Any

from check.mutants.foundation import Message, mutant, params_of
from check.mutants.spoiling import answer, entry, misdeclared, refusal, undeclared

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


@entry("prompts.item.name", LIST, "prompts")
def lists_a_prompt_whose_name_is_a_number(prompt: dict[str, Any]) -> None:
    prompt["name"] = 7


@entry("prompts.item.description-and-arguments", LIST, "prompts")
def lists_arguments_by_name(prompt: dict[str, Any]) -> None:
    prompt["arguments"] = {"city": {"required": True}}


@entry("prompts.argument.fields", LIST, "prompts")
def lists_an_argument_that_is_a_name(prompt: dict[str, Any]) -> None:
    prompt["arguments"] = ["city"]


@entry("prompts.item.title", LIST, "prompts")
def lists_a_prompt_whose_title_is_a_number(prompt: dict[str, Any]) -> None:
    prompt["title"] = 7


# -- one prompt


@answer("prompts.get.messages-array", GET)
def answers_with_one_message(result: dict[str, Any]) -> None:
    result["messages"] = result["messages"][0]


@answer("prompts.get.description", GET)
def describes_a_prompt_by_a_number(result: dict[str, Any]) -> None:
    result["description"] = 7


@entry("prompts.message.role", GET, "messages")
def lets_the_system_speak(message: dict[str, Any]) -> None:
    message["role"] = "system"


@entry("prompts.message.content", GET, "messages")
def says_nothing(message: dict[str, Any]) -> None:
    del message["content"]


@entry("prompts.message.content-type", GET, "messages")
def speaks_in_content_of_a_new_type(message: dict[str, Any]) -> None:
    message["content"] = {"type": "smell", "data": "roses"}


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
