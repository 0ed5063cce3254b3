"""Servers whose tools are listed wrongly, called wrongly or answer wrongly."""

from collections.abc import Callable
from typing import Any

import msgspec

from check.faults import named
from check.mutants.foundation import (
    Between,
    Message,
    Sent,
    interloper,
    mutant,
    params_of,
    unbreakable,
)
from check.mutants.spoiling import (
    ABSENT,
    FIRST,
    LATER,
    NULL,
    SECOND,
    Circumstances,
    answer,
    misdeclared,
    undeclared,
    wrong,
)

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


wrong("tools.item.name", LIST, "tools.0.name", ABSENT)
wrong("tools.item.description", LIST, "tools.0.description", 7)
wrong("tools.item.title", LIST, "tools.0.title", 7)
wrong("tools.item.annotations", LIST, "tools.0.annotations", {"readOnlyHint": "yes"})
wrong("tools.item.input-schema", LIST, "tools.0.inputSchema", ABSENT)
wrong("tools.item.input-schema", LIST, "tools.0.inputSchema", {"type": "string"})
wrong("tools.item.output-schema", LIST, "tools.0.outputSchema", "number")


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


wrong("tools.call.structured-conforms", CALL, "structuredContent", ABSENT)


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


MUTANT_HOOKS: dict[str, Callable[[Between], None]] = {}


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
    MUTANT_HOOKS[f"{name}.list-changed.sent"] = changes_in_silence


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

# -- the same rows, broken in other ways

WEATHER: Circumstances = {"asked": {"name": "get_weather"}}
PASS: Circumstances = {"asked": {"name": "show_pass"}}
HEALTH: Circumstances = {"asked": {"name": "health_status"}}
FAILED: Circumstances = {"where": lambda result: result.get("isError") is True}
ANY_FLAG = {"tools.list-changed.capability-required": "an invalid flag declares nothing"}
TWENTY_FIVE_11 = {"revision": "2025-11-25"}
wrong("tools.capability.declared", "initialize", "capabilities.tools", None, also=NULL)
wrong(
    "tools.capability.list-changed",
    "initialize",
    "capabilities.tools.listChanged",
    1,
    also=ANY_FLAG,
)
wrong(
    "tools.capability.list-changed",
    "initialize",
    "capabilities.tools.listChanged",
    {"enabled": True},
)
wrong(
    "tools.list-changed.capability-required", "initialize", "capabilities.tools.listChanged", False
)


@answer("tools.capability.declared", "initialize")
def declares_its_tools_beside_the_capabilities(result: dict[str, Any]) -> None:
    result["tools"] = result["capabilities"].pop("tools")


wrong(
    "tools.list-changed.capability-required",
    "initialize",
    "capabilities.tools",
    {"list_changed": True},
)
wrong("tools.list.array", LIST, "tools", None, LATER)
wrong("tools.list.array", LIST, "tools", ABSENT, SECOND)
wrong("tools.list.array", LIST, "tools.1", "greet")
wrong("tools.item.name", LIST, "tools.1.name", None)
wrong("tools.item.name", LIST, "tools.-1.name", 7, LATER)
wrong("tools.item.description", LIST, "tools.0.description", None, LATER)
wrong("tools.item.description", LIST, "tools.-1.description", {"en": "look"}, SECOND)
wrong("tools.item.title", LIST, "tools.1.title", None)
wrong("tools.item.title", LIST, "tools.0.title", {"en": "Look"}, LATER)
wrong("tools.item.annotations", LIST, "tools.1.annotations", ["readOnlyHint"])
wrong("tools.item.annotations", LIST, "tools.1.annotations.idempotentHint", None)
wrong("tools.item.annotations", LIST, "tools.0.annotations.title", 7, LATER)
wrong("tools.item.input-schema", LIST, "tools.1.inputSchema", None)
wrong("tools.item.input-schema", LIST, "tools.0.inputSchema", {}, LATER)
wrong("tools.item.input-schema", LIST, "tools.2.inputSchema.required", "city")
wrong("tools.item.output-schema", LIST, "tools.2.outputSchema", None)
wrong("tools.item.output-schema", LIST, "tools.0.outputSchema", True, LATER)
wrong(
    "tools.item.output-schema",
    LIST,
    "tools.1.outputSchema",
    {"type": "object", "properties": []},
    FIRST,
)
wrong("tools.output-schema.object", LIST, "tools.1.outputSchema", {"properties": {}}, FIRST)
wrong(
    "tools.output-schema.object", LIST, "tools.1.outputSchema", {"type": ["object", "null"]}, FIRST
)
wrong("tools.call.content-array", CALL, "content", ABSENT, HEALTH)
wrong("tools.call.content-array", CALL, "content", None, FAILED)
wrong("tools.call.content-array", CALL, "content", "ok", {**HEALTH, "since": 2}, areas=["tools"])
wrong("tools.call.is-error-flag", CALL, "isError", None, HEALTH)
wrong("tools.call.is-error-flag", CALL, "isError", 0, SECOND)
wrong("tools.call.content-type", CALL, "content.-1.type", ABSENT, PASS)
wrong("tools.call.content-type", CALL, "content.0", "ok", HEALTH)
wrong("tools.call.content-type", CALL, "content.0.text", 7, HEALTH)
wrong("tools.call.content-type", CALL, "content.1.data", "not base64!", PASS)
wrong("tools.call.content-type", CALL, "content.1.mimeType", ABSENT, PASS)
wrong("tools.call.content-type", CALL, "content.3.name", ABSENT, PASS)
wrong("tools.call.content-type", CALL, "content.4.resource.uri", ABSENT, PASS)
LINK = {"type": "resource_link", "uri": "desk://rules", "name": "rules"}
wrong("tools.call.content-type", CALL, "content.0", LINK, HEALTH, revision="2025-03-26")
wrong(
    "tools.call.structured-conforms",
    CALL,
    "structuredContent.celsius",
    "warm",
    WEATHER,
    also={"tools.structured-content.also-text": "the text is the right one"},
)
wrong(
    "tools.call.structured-conforms",
    CALL,
    "structuredContent.celsius",
    None,
    WEATHER,
    also={"tools.structured-content.also-text": "the text is the right one"},
)
wrong("tools.structured-content.object", CALL, "structuredContent", '{"city":"Lima"}', WEATHER)
wrong("tools.structured-content.object", CALL, "structuredContent", None, WEATHER)
wrong("tools.structured-content.also-text", CALL, "content.0.text", "14.5 degrees", WEATHER)
wrong("tools.structured-content.also-text", CALL, "content.0.text", '{"city":"Nara"}', WEATHER)
wrong(
    "tools.embedded-resource.capability",
    "initialize",
    "capabilities.resources",
    None,
    also={
        **NULL,
        "resources.capability.declared": "it has resources and does not declare them",
        "resources.list-changed.capability-required": "it tells of them all the same",
    },
)


@mutant("tools.embedded-resource.capability", revision="2025-11-25")
def embeds_a_resource_of_another_server(message: Message, request: Message) -> Message:
    result = message.get("result", {})
    if request.get("method") == "initialize" and result:
        for name in ("resources", "completions"):
            result["capabilities"].pop(name, None)
    if str(request.get("method")).startswith(("resources/", "completion/")):
        message.pop("result", None)
        message["error"] = {"code": -32601, "message": "method not found"}
    if "resources" in str(message.get("method")):
        message["method"] = "notifications/org.example/resources"
    return message


# -- calls, broken in other ways


def taking(name: str, takes: Callable[[dict[str, Any]], bool]) -> None:
    """Register a server that calls a tool although some arguments are wrong."""

    def change(message: Message, request: Message) -> Message:
        params = params_of(request)
        if params.get("name") == "greet" and takes(params.get("arguments") or {}):
            message["result"] = {"content": [{"type": "text", "text": "done"}], "isError": False}
        return message

    mutant("tools.server.validates-inputs")(named(name, change))


taking("does_not_miss_an_argument", lambda arguments: "name" not in arguments)
taking("takes_an_object_for_text", lambda arguments: isinstance(arguments.get("name"), dict))
taking("takes_null_for_text", lambda arguments: arguments.get("name", "") is None)


@mutant("tools.server.validates-inputs")
def takes_values_that_are_not_in_the_enum(message: Message, request: Message) -> Message:
    params = params_of(request)
    city = (params.get("arguments") or {}).get("city")
    if params.get("name") == "get_weather" and isinstance(city, str) and city != "Lima":
        content = {"city": city, "celsius": 14.5}
        text = {"type": "text", "text": msgspec.json.encode(content).decode()}
        message["result"] = {"content": [text], "structuredContent": content, "isError": False}
    return message


@mutant("tools.server.validates-inputs")
def takes_numbers_out_of_range(message: Message, request: Message) -> Message:
    params = params_of(request)
    number = (params.get("arguments") or {}).get("number")
    if params.get("name") == "find_suitcase" and isinstance(number, int) and number > 999:
        text = {"type": "text", "text": f"suitcase {number} is here"}
        message["result"] = {"content": [text], "isError": False}
    return message


@mutant("practice.tools.error-as-result")
def explains_failures_by_an_empty_text(message: Message, request: Message) -> Message:
    if (message.get("result") or {}).get("isError") is True:
        message["result"]["content"] = [{"type": "text", "text": "  "}]
    return message


def unknown(name: str, result: dict[str, Any], **settings: Any) -> None:
    """Register a server that answers a call of an unknown tool with a result."""

    def change(message: Message, request: Message) -> Message:
        if params_of(request).get("name") == "accord-check-no-such-tool":
            del message["error"]
            message["result"] = result
        return message

    mutant("practice.tools.unknown-tool-as-result", **settings)(named(name, change))


unknown("does_nothing_for_an_unknown_tool", {"content": [], "isError": False})
unknown(
    "answers_an_unknown_tool_with_an_empty_result",
    {},
    also={"tools.call.content-array": "an empty result has no content"},
)


def failing(name: str, code: int) -> None:
    """Register a server that answers a failed tool with an error of this code."""

    def change(message: Message, request: Message) -> Message:
        params = params_of(request)
        if params.get("name") == "resolve" and isinstance(params["arguments"].get("riddle"), str):
            del message["result"]
            message["error"] = {"code": code, "message": "riddle"}
        return message

    mutant("practice.tools.execution-error-as-result")(named(name, change))


failing("answers_a_failed_tool_with_an_error_of_its_own", -32000)
failing("answers_a_failed_tool_with_the_code_zero", 0)
failing("answers_a_failed_tool_as_an_unknown_method", -32601)


@mutant("tools.name.case-sensitive", revision="2025-11-25")
def calls_a_tool_in_other_case_and_says_so(message: Message, request: Message) -> Message:
    name = params_of(request).get("name", "")
    if request.get("method") == CALL and name.isupper():
        del message["error"]
        text = f"{name} is {name.lower()} here: ok"
        message["result"] = {"content": [{"type": "text", "text": text}]}
    return message


@interloper("tools.name.case-sensitive", revision="2025-11-25", of="from_client")
def folds_names_before_it_looks_for_tools(message: Message) -> Sent:
    params = params_of(message)
    if message.get("method") == CALL and isinstance(params.get("name"), str):
        return message | {"params": params | {"name": params["name"].lower()}}
    return message


def refusing(name: str, code: int, is_meant: Callable[[dict[str, Any]], bool]) -> None:
    """Register a server that answers some wrong arguments with an error."""

    def change(message: Message, request: Message) -> Message:
        params = params_of(request)
        is_failed = (message.get("result") or {}).get("isError") is True
        if params.get("name") == "greet" and is_failed and is_meant(params.get("arguments") or {}):
            del message["result"]
            message["error"] = {"code": code, "message": "invalid arguments"}
        return message

    mutant("tools.errors.input-validation-in-result", revision="2025-11-25")(named(name, change))


refusing("answers_a_missing_argument_with_an_error", -32602, lambda arguments: not arguments)
refusing("answers_an_invalid_argument_with_an_error", -32603, lambda arguments: bool(arguments))

# -- lists that change, announced wrongly


def announcing(name: str, announcement: str) -> None:
    """Register a server that announces a changed list by another name."""

    def announces_by_another_name(wire: Between) -> None:
        changes = MUTANT_HOOKS[f"{name}.list-changed.sent"]
        changes(wire)
        usual = wire.from_server

        def from_server(message: Message, request: Message) -> Sent:
            if message.get("method") == f"notifications/{name}/list_changed":
                return message | {"method": announcement}
            return usual(message, request)

        wire.from_server = from_server

    announces_by_another_name.__name__ = f"announces_by_{announcement.rpartition('/')[2]}"
    interloper(f"{name}.list-changed.sent")(announces_by_another_name)


for _name in ("tools", "resources", "prompts"):
    announcing(_name, f"notifications/{_name}/listChanged")
    announcing(_name, f"notifications/{_name}_changed")

# -- what 2025-11-25 adds

wrong("tools.name.length", LIST, "tools.0.name", "n" * 129, FIRST, **TWENTY_FIVE_11)
wrong("tools.name.length", LIST, "tools.1.name", "", FIRST, **TWENTY_FIVE_11)
wrong("tools.name.length", LIST, "tools.2.name", "n" * 400, FIRST, **TWENTY_FIVE_11)
wrong("tools.name.charset", LIST, "tools.0.name", "health status", FIRST, **TWENTY_FIVE_11)
wrong("tools.name.charset", LIST, "tools.1.name", "desk/greet", FIRST, **TWENTY_FIVE_11)
wrong("tools.name.charset", LIST, "tools.2.name", "grüßen", FIRST, **TWENTY_FIVE_11)
wrong("tools.name.unique", LIST, "tools.2.name", "health_status", FIRST, **TWENTY_FIVE_11)
wrong("tools.name.unique", LIST, "tools.0.name", "health_status", LATER, **TWENTY_FIVE_11)
wrong("tools.name.unique", LIST, "tools.*.name", "look", LATER, **TWENTY_FIVE_11)
wrong("tools.input-schema.not-null", LIST, "tools.0.inputSchema", None, **TWENTY_FIVE_11)
wrong("tools.input-schema.not-null", LIST, "tools.1.inputSchema", [], LATER, **TWENTY_FIVE_11)
wrong("tools.input-schema.not-null", LIST, "tools.2.inputSchema", True, **TWENTY_FIVE_11)
wrong("tools.input-schema.type-object", LIST, "tools.0.inputSchema.type", ABSENT, **TWENTY_FIVE_11)
wrong("tools.input-schema.type-object", LIST, "tools.1.inputSchema.type", "array", **TWENTY_FIVE_11)
wrong("tools.input-schema.type-object", LIST, "tools.0.inputSchema", {}, LATER, **TWENTY_FIVE_11)
wrong(
    "tools.task-support.values",
    LIST,
    "tools.0.execution",
    {"taskSupport": "maybe"},
    **TWENTY_FIVE_11,
)
wrong(
    "tools.task-support.values",
    LIST,
    "tools.1.execution",
    {"taskSupport": True},
    LATER,
    **TWENTY_FIVE_11,
)
wrong(
    "tools.task-support.values", LIST, "tools.1.execution", {"taskSupport": None}, **TWENTY_FIVE_11
)
wrong("tools.task-support.values", LIST, "tools.1.execution", "optional", **TWENTY_FIVE_11)
wrong(
    "schema.wire-schemas-valid",
    LIST,
    "tools.1.inputSchema.properties",
    {"city": {"type": "text"}},
    **TWENTY_FIVE_11,
)
wrong(
    "schema.wire-schemas-valid",
    LIST,
    "tools.0.inputSchema.required",
    {"city": True},
    LATER,
    **TWENTY_FIVE_11,
)
wrong(
    "schema.wire-schemas-valid",
    LIST,
    "tools.1.outputSchema.properties.city",
    {"minLength": -1},
    FIRST,
    **TWENTY_FIVE_11,
)
ICON = {"src": "https://example.com/icon.png"}
wrong("icons.src-required", LIST, "tools.0.icons", [{"mimeType": "image/png"}], **TWENTY_FIVE_11)
wrong("icons.src-required", LIST, "tools.1.icons", ICON, LATER, **TWENTY_FIVE_11)
wrong("icons.src-required", LIST, "tools.0.icons", [ICON, {"src": "icon.png"}], **TWENTY_FIVE_11)
wrong("icons.src-required", "initialize", "serverInfo.icons", [{"src": 7}], **TWENTY_FIVE_11)
wrong(
    "icons.src-required",
    "prompts/list",
    "prompts.0.icons",
    ["https://example.com/icon.png"],
    **TWENTY_FIVE_11,
)
wrong(
    "icons.src-required",
    "resources/list",
    "resources.1.icons",
    [{"src": "javascript:alert(1)"}],
    **TWENTY_FIVE_11,
)
wrong(
    "icons.src-required",
    CALL,
    "content.3.icons",
    [{"src": "file:///etc/icon.png"}],
    PASS,
    **TWENTY_FIVE_11,
)
