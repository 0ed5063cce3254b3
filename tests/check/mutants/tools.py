"""Servers whose tools are listed wrongly, called wrongly or answer wrongly."""

from typing import Any

from check.mutants.foundation import (
    Between,
    Message,
    Sent,
    interloper,
    mutant,
    params_of,
    unbreakable,
)
from check.mutants.spoiling import answer, entry, misdeclared, undeclared

LIST, CALL = "tools/list", "tools/call"

undeclared("tools.capability.declared", "tools")
misdeclared(
    "tools.capability.list-changed",
    "tools",
    "listChanged",
    also={"tools.list-changed.capability-required": "an invalid flag declares nothing"},
)
undeclared("tools.list-changed.capability-required", "tools", "listChanged")

# -- the list


@answer("tools.list.array", LIST)
def lists_tools_by_name(result: dict[str, Any]) -> None:
    result["tools"] = {tool["name"]: tool for tool in result["tools"]}


@entry("tools.item.name", LIST, "tools")
def lists_a_tool_without_name(tool: dict[str, Any]) -> None:
    del tool["name"]


@entry("tools.item.description", LIST, "tools")
def lists_a_tool_whose_description_is_a_number(tool: dict[str, Any]) -> None:
    tool["description"] = 7


@entry("tools.item.title", LIST, "tools")
def lists_a_tool_whose_title_is_a_number(tool: dict[str, Any]) -> None:
    tool["title"] = 7


@entry("tools.item.annotations", LIST, "tools")
def lists_hints_in_words(tool: dict[str, Any]) -> None:
    tool["annotations"] = {"readOnlyHint": "yes"}


@entry("tools.item.input-schema", LIST, "tools")
def lists_a_tool_without_schema(tool: dict[str, Any]) -> None:
    del tool["inputSchema"]


@entry("tools.item.input-schema", LIST, "tools")
def lists_a_schema_of_a_string(tool: dict[str, Any]) -> None:
    tool["inputSchema"] = {"type": "string"}


@entry("tools.item.output-schema", LIST, "tools")
def lists_an_output_schema_that_is_none(tool: dict[str, Any]) -> None:
    tool["outputSchema"] = "number"


@answer(
    "tools.output-schema.object",
    LIST,
    also={"tools.call.structured-conforms": "structured content is an object"},
)
def lists_an_output_schema_of_an_array(result: dict[str, Any]) -> None:
    for tool in result["tools"]:
        if tool["name"] == "get_weather":
            tool["outputSchema"] = {"type": "array"}


# -- results


@answer("tools.call.content-array", CALL)
def answers_with_one_block(result: dict[str, Any]) -> None:
    if not result.get("structuredContent") and not result["isError"]:
        result["content"] = result["content"][0]


@answer("tools.call.is-error-flag", CALL)
def writes_the_error_flag_as_a_word(result: dict[str, Any]) -> None:
    if result["isError"] is False:
        result["isError"] = "no"


@answer("tools.call.content-type", CALL)
def answers_with_content_of_a_new_type(result: dict[str, Any]) -> None:
    result["content"].append({"type": "smell", "data": "roses"})


@answer("tools.call.content-type", CALL, revision="2024-11-05")
def answers_with_sounds_before_there_were_any(result: dict[str, Any]) -> None:
    result["content"].append({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"})


@answer("tools.call.structured-conforms", CALL)
def forgets_what_its_schema_requires(result: dict[str, Any]) -> None:
    if "celsius" in (result.get("structuredContent") or {}):
        del result["structuredContent"]["celsius"]
        result["content"] = [{"type": "text", "text": '{"city":"Lima"}'}]


@answer("tools.call.structured-conforms", CALL)
def forgets_the_structured_content(result: dict[str, Any]) -> None:
    result.pop("structuredContent", None)


@answer("tools.structured-content.object", CALL)
def answers_with_a_structured_list(result: dict[str, Any]) -> None:
    if "celsius" in (result.get("structuredContent") or {}):
        result["structuredContent"] = [result["structuredContent"]]


@answer("tools.structured-content.also-text", CALL)
def answers_without_the_text(result: dict[str, Any]) -> None:
    if "celsius" in (result.get("structuredContent") or {}):
        result["content"] = []


undeclared(
    "tools.embedded-resource.capability",
    "resources",
    also={
        "resources.capability.declared": "it has resources and does not declare them",
        "resources.list-changed.capability-required": "it tells of them all the same",
    },
)

# -- calls


@mutant("tools.server.validates-inputs")
def calls_tools_with_anything(message: Message, request: Message) -> Message:
    params = params_of(request)
    if request.get("method") == CALL and params.get("name") in ("greet", "find_suitcase"):
        message.pop("error", None)
        message["result"] = {"content": [{"type": "text", "text": "done"}], "isError": False}
    return message


@mutant("practice.tools.error-as-result")
def says_what_failed_in_words_alone(message: Message, request: Message) -> Message:
    if params_of(request).get("name") == "greet" and message["result"]["isError"]:
        message["result"]["isError"] = False
    return message


@answer("practice.tools.error-as-result", CALL)
def does_not_say_what_failed(result: dict[str, Any]) -> None:
    if result["isError"]:
        result["content"] = []


@mutant("practice.tools.unknown-tool-as-result")
def answers_an_unknown_tool_with_a_result(message: Message, request: Message) -> Message:
    if params_of(request).get("name") == "accord-check-no-such-tool":
        del message["error"]
        message["result"] = {"content": [{"type": "text", "text": "what?"}], "isError": True}
    return message


@mutant("practice.tools.execution-error-as-result")
def answers_a_failed_tool_with_an_error(message: Message, request: Message) -> Message:
    params = params_of(request)
    if params.get("name") == "resolve" and isinstance(params["arguments"].get("riddle"), str):
        del message["result"]
        message["error"] = {"code": -32603, "message": "internal error"}
    return message


@mutant("tools.name.case-sensitive", revision="2025-11-25")
def takes_names_in_any_case(message: Message, request: Message) -> Message:
    if request.get("method") == CALL and params_of(request).get("name", "").isupper():
        del message["error"]
        message["result"] = {"content": [{"type": "text", "text": "ok"}], "isError": False}
    return message


@mutant("tools.errors.input-validation-in-result", revision="2025-11-25")
def answers_wrong_arguments_with_an_error(message: Message, request: Message) -> Message:
    params = params_of(request)
    if params.get("name") == "greet" and message["result"]["isError"]:
        del message["result"]
        message["error"] = {"code": -32602, "message": "invalid arguments"}
    return message


# -- lists that change


def changing_in_silence(name: str, key: str) -> None:
    """Register a server with one entry more after tools were called, without a notification."""

    def changes_in_silence(wire: Between) -> None:
        def from_server(message: Message, request: Message) -> Sent:
            if message.get("method") == f"notifications/{name}/list_changed":
                return None
            calls = [
                each
                for each in wire.requests.values()
                if params_of(each).get("name") == "view_changes"
            ]
            if (
                request.get("method") == f"{name}/list"
                and calls
                and "nextCursor" not in message.get("result", {"nextCursor": ""})
            ):
                listed = message["result"][name]
                listed.append({**listed[0], key: f"{listed[0][key]}-{len(calls)}"})
            return message

        wire.from_server = from_server

    interloper(f"{name}.list-changed.sent")(changes_in_silence)


changing_in_silence("tools", "name")
changing_in_silence("resources", "uri")
changing_in_silence("prompts", "name")

unbreakable(
    "the specification lists both forms, so that neither can be wrong",
    "tools.errors.invalid-arguments-protocol",
    "practice.tools.missing-arguments-as-result",
    "practice.tools.validation-failure-as-result",
)
unbreakable("reported as tools.server.validates-inputs", "practice.server.validates-inputs")
unbreakable(
    "reported as tools.call.structured-conforms", "tools.structured-content.required-with-schema"
)
unbreakable("reported as tools.structured-content.object", "tools.call.structured-content")
unbreakable("a limit that a careful check does not reach", "tools.server.rate-limited")
unbreakable(
    "a habit seen in practice; other ways violate nothing",
    "practice.tools.success-omits-is-error",
    "practice.tools.structured-errors",
    "practice.tools.json-as-text",
    "practice.tools.health-check",
    "practice.tools.descriptive-schemas",
    "practice.schema.structure",
    "practice.schema.types",
    "practice.schema.constraints",
    "practice.capabilities.empty-object",
    "practice.capabilities.tools-common",
    "practice.capabilities.resources-rare",
    "practice.resources.custom-scheme",
    "practice.content.text-item",
)
