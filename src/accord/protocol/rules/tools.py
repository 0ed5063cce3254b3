"""Tools: how they are listed, and what their results look like."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import MissingExtra
from accord.json_schema.validation import UNDECIDED, compile_schema
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.content import has_its_members, is_of_known_type
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
    object_of,
    objects,
    params_of,
    questions,
    shown,
)
from accord.protocol.violation import SERVER
from accord.trace import MASK

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_LIST: Final = "tools/list"
_CALL: Final = "tools/call"
_LONGEST_NAME: Final = 128
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]*")
_DRAFT_07: Final = "http://json-schema.org/draft-07/schema#"
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

# Neither says that a schema is wrong: it names a dialect or a document that we do not have.
_NOT_OURS_TO_JUDGE: Final = ("Unknown meta-schema", "is not present in a registry")


@check(
    "tools.capability.list-changed", by=SERVER, kind=RESULT, on=("initialize", "server/discover")
)
def list_changed_is_a_flag(step: Step, conversation: "Conversation") -> Outcome:
    return capability_flag(step, "tools", "listChanged")


@check("tools.list.array", by=SERVER, kind=RESULT, on=_LIST)
def list_has_a_tools_array(step: Step, conversation: "Conversation") -> Outcome:
    return array_in_result(step, "tools")


# -- one tool of a list


@check("tools.item.name", by=SERVER, kind=RESULT, on=_LIST)
def tool_has_a_name(step: Step, conversation: "Conversation") -> Outcome:
    return each(has(tool, place, "name", "string") for place, tool in listed(step, "tools"))


@check("tools.item.description", by=SERVER, kind=RESULT, on=_LIST)
def tool_has_a_description(step: Step, conversation: "Conversation") -> Outcome:
    return each(has(tool, place, "description", "string") for place, tool in listed(step, "tools"))


@check("tools.item.title", by=SERVER, kind=RESULT, on=_LIST)
def title_is_text(step: Step, conversation: "Conversation") -> Outcome:
    return each(may_have(tool, place, "title", "string") for place, tool in listed(step, "tools"))


@check("tools.item.annotations", by=SERVER, kind=RESULT, on=_LIST)
def annotations_are_hints(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        finding for place, tool in listed(step, "tools") for finding in _annotations(place, tool)
    )


def _annotations(place: str, tool: dict[str, Any]) -> Iterator[Finding]:
    yield may_have(tool, place, "annotations", "object")
    hints, place = object_of(tool.get("annotations")), f"{place}.annotations"
    yield may_have(hints, place, "title", "string")
    for name in _HINTS:
        yield may_have(hints, place, name, "boolean")


@check("tools.item.input-schema", by=SERVER, kind=RESULT, on=_LIST)
def tool_has_an_input_schema(step: Step, conversation: "Conversation") -> Outcome:
    return each(_input_schema(place, tool, step) for place, tool in listed(step, "tools"))


def _input_schema(place: str, tool: dict[str, Any], step: Step) -> Finding:
    if "inputSchema" not in tool:
        return f"sends {place} without inputSchema"
    if in_force("tools.input-schema.not-null", step.revision.id):
        return isinstance(tool["inputSchema"], dict) or None
    found = has(tool, place, "inputSchema", "object")
    if found is not True:
        return found
    schema = tool["inputSchema"]
    return _is_for_objects(schema, f"{place}.inputSchema") or _is_old_schema(
        schema, f"{place}.inputSchema"
    )


@check("tools.input-schema.not-null", by=SERVER, kind=RESULT, on=_LIST)
def input_schema_is_an_object(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        may_have(tool, place, "inputSchema", "object") for place, tool in listed(step, "tools")
    )


@check("tools.input-schema.type-object", by=SERVER, kind=RESULT, on=_LIST)
def input_schema_is_for_objects(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        _is_for_objects(schema, place) or True for place, schema in _schemas(step, "inputSchema")
    )


@check("tools.item.output-schema", by=SERVER, kind=RESULT, on=_LIST)
def output_schema_is_a_schema(step: Step, conversation: "Conversation") -> Outcome:
    findings = [
        may_have(tool, place, "outputSchema", "object") for place, tool in listed(step, "tools")
    ]
    if not in_force("schema.wire-schemas-valid", step.revision.id):
        findings += [
            _is_old_schema(schema, place)
            for place, schema in _schemas(step, "outputSchema")
            if _is_for_objects(schema, place) is None
        ]
    return each(findings)


@check("tools.output-schema.object", by=SERVER, kind=RESULT, on=_LIST)
def output_schema_is_for_objects(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        _is_for_objects(schema, place) or True for place, schema in _schemas(step, "outputSchema")
    )


def _schemas(step: Step, member: str) -> list[Placed]:
    return [
        (f"{place}.{member}", tool[member])
        for place, tool in listed(step, "tools")
        if isinstance(tool.get(member), dict)
    ]


def _is_for_objects(schema: dict[str, Any], place: str) -> str | None:
    if schema.get("type") == "object":
        return None
    return f"sends {place} whose type is {shown(schema.get('type'))}, not 'object'"


@check("tools.task-support.values", by=SERVER, kind=RESULT, on=_LIST)
def task_support_is_a_known_word(step: Step, conversation: "Conversation") -> Outcome:
    return each(_task_support(place, tool) for place, tool in listed(step, "tools"))


def _task_support(place: str, tool: dict[str, Any]) -> Finding:
    found = may_have(tool, place, "execution", "object")
    if found is not True:
        return found
    if "taskSupport" not in tool["execution"]:
        return None
    support = tool["execution"]["taskSupport"]
    if support in ("forbidden", "optional", "required"):
        return True
    return f"sends {place} with taskSupport {shown(support)}"


# -- names


def _names(step: Step) -> list[tuple[str, str]]:
    return [
        (place, tool["name"])
        for place, tool in listed(step, "tools")
        if isinstance(tool.get("name"), str)
    ]


@check("tools.name.length", by=SERVER, kind=RESULT, on=_LIST)
def name_has_1_to_128_characters(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        1 <= len(name) <= _LONGEST_NAME or f"sends {place} whose name has {len(name)} characters"
        for place, name in _names(step)
    )


@check("tools.name.charset", by=SERVER, kind=RESULT, on=_LIST)
def name_has_plain_characters(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        _NAME.fullmatch(name) is not None
        or f"names {place} {shown(name)}, with more than letters, digits and _-."
        for place, name in _names(step)
    )


@check("tools.name.unique", by=SERVER, kind=RESULT, on=_LIST)
def name_is_given_once(step: Step, conversation: "Conversation") -> Outcome:
    names = Counter(name for _, name in _names(step))
    before = _names_before(step, conversation)
    return each(
        (count == 1 and name not in before) or f"lists more than one tool named {shown(name)}"
        for name, count in names.items()
    )


def _names_before(step: Step, conversation: "Conversation") -> frozenset[str]:
    """The names on the pages that led to this one."""
    cursor = params_of(step).get("cursor")
    if conversation.memory is None or not isinstance(cursor, str):
        return frozenset()
    return conversation.memory.tool_pages.get(cursor, frozenset())


# -- schemas


@check("schema.wire-schemas-valid", by=SERVER, kind=RESULT, on=_LIST)
def tool_schemas_are_valid(step: Step, conversation: "Conversation") -> Outcome:
    return each(_schema_of_tool(step))


def _schema_of_tool(step: Step) -> Iterator[Finding]:
    for place, schema in _schemas(step, "inputSchema"):
        if _is_for_objects(schema, place) is None:
            yield _is_schema(schema, place)
    only_objects = in_force("tools.output-schema.object", step.revision.id)
    for place, schema in _schemas(step, "outputSchema"):
        if not only_objects or _is_for_objects(schema, place) is None:
            yield _is_schema(schema, place)
    if not in_force("tools.item.output-schema", step.revision.id):
        for place, tool in listed(step, "tools"):
            yield may_have(tool, place, "outputSchema", "object")


@check("schema.wire-schemas-valid", by=SERVER, kind=REQUEST, on="elicitation/create")
def requested_schema_is_valid(step: Step, conversation: "Conversation") -> Outcome:
    return _requested_schema(object_of(step.body), "a question")


@check("schema.wire-schemas-valid", by=SERVER, kind=REQUEST, on="sampling/createMessage")
def schemas_of_offered_tools_are_valid(step: Step, conversation: "Conversation") -> Outcome:
    return each(_offered_schemas(object_of(step.body), "a question"))


@check("schema.wire-schemas-valid", by=SERVER, kind=RESULT)
def schemas_in_questions_are_valid(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        finding
        for place, _, params in questions(step)
        for finding in (_requested_schema(params, place), *_offered_schemas(params, place))
    )


def _offered_schemas(params: dict[str, Any], place: str) -> Iterator[Finding]:
    for at, tool in objects(params, "tools", f"{place}."):
        if isinstance(tool.get("inputSchema"), dict):
            yield _is_schema(tool["inputSchema"], f"{at}.inputSchema")


def _requested_schema(params: dict[str, Any], place: str) -> Finding:
    schema = params.get("requestedSchema")
    return _is_schema(schema, f"{place}.requestedSchema") if isinstance(schema, dict) else None


def _is_schema(schema: dict[str, Any], place: str) -> Finding:
    try:
        compile_schema(schema)
    except MissingExtra:
        return None
    except ValueError as error:
        if any(reason in str(error) for reason in _NOT_OURS_TO_JUDGE):
            return None
        return f"sends {place}, which is no valid JSON Schema: {error}"
    return True


def _is_old_schema(schema: dict[str, Any], place: str) -> Finding:
    """Judge where no dialect is fixed: what either of the two in use allows is allowed."""
    found = _is_schema(schema, place)
    if isinstance(found, str) and "$schema" not in schema:
        older = _is_schema({"$schema": _DRAFT_07, **schema}, place)
        return found if isinstance(older, str) else older
    return found


# -- results


@check("tools.call.content-array", by=SERVER, kind=RESULT, on=_CALL)
def result_has_a_content_array(step: Step, conversation: "Conversation") -> Outcome:
    result = complete_result(step)
    if result is None:
        return None if isinstance(step.body, dict) else array_in_result(step, "content")
    return has(result, "a tool result", "content", "array")


@check("tools.call.is-error-flag", by=SERVER, kind=RESULT, on=_CALL)
def result_says_whether_it_is_an_error(step: Step, conversation: "Conversation") -> Outcome:
    result = complete_result(step)
    return None if result is None else has(result, "a tool result", "isError", "boolean")


@check("tools.call.content-type", by=SERVER, kind=RESULT, on=_CALL)
def content_is_of_a_known_type(step: Step, conversation: "Conversation") -> Outcome:
    return each(_block(place, block, step) for place, block in _content(step))


def _content(step: Step) -> list[tuple[str, Any]]:
    content = (complete_result(step) or {}).get("content")
    return [
        (f"content[{index}]", block)
        for index, block in enumerate(content if isinstance(content, list) else ())
    ]


def _block(place: str, block: Any, step: Step) -> Finding:
    found = is_of_known_type(block, place, step.revision.id)
    return has_its_members(block, place) if found is True else found


@check("tools.embedded-resource.capability", by=SERVER, kind=RESULT, on=_CALL)
def who_embeds_resources_has_resources(step: Step, conversation: "Conversation") -> Outcome:
    declared = conversation.parties[SERVER].capabilities
    if declared is None or all(
        object_of(block).get("type") != "resource" for _, block in _content(step)
    ):
        return None
    return "resources" in declared or "embeds a resource without declaring resources"


@check("tools.call.structured-content", by=SERVER, kind=RESULT, on=_CALL)
def result_has_structured_content(step: Step, conversation: "Conversation") -> Outcome:
    # What is no object is reported as tools.structured-content.object.
    return isinstance((complete_result(step) or {}).get("structuredContent"), dict) or None


@check("tools.structured-content.object", by=SERVER, kind=RESULT, on=_CALL)
def structured_content_is_an_object(step: Step, conversation: "Conversation") -> Outcome:
    return may_have(complete_result(step) or {}, "a tool result", "structuredContent", "object")


@check("tools.structured-content.also-text", by=SERVER, kind=RESULT, on=_CALL)
def structured_content_stands_in_a_text_too(step: Step, conversation: "Conversation") -> Outcome:
    result = complete_result(step) or {}
    if not _is_structured(result, step):
        return None
    accepted = _same_as(result["structuredContent"])
    for _, block in _content(step):
        text = object_of(block).get("text")
        if isinstance(text, str) and (_parsed(text) in accepted or [text] in accepted):
            return True
    return "sends structured content without the same JSON in a text block"


def _same_as(structured: Any) -> list[list[Any]]:
    """What says the same: a value that had to be wrapped in an object may stand as it is."""
    wrapped = structured.values() if isinstance(structured, dict) and len(structured) == 1 else ()
    return [[structured], *([value] for value in wrapped)]


def _is_structured(result: dict[str, Any], step: Step) -> bool:
    if in_force("tools.structured-content.object", step.revision.id):
        return isinstance(result.get("structuredContent"), dict)
    return "structuredContent" in result


def _parsed(text: str) -> list[Any]:
    try:
        return [msgspec.json.decode(text)]
    except (msgspec.DecodeError, ValueError, RecursionError):
        return []


@check("tools.call.structured-conforms", by=SERVER, kind=RESULT, on=_CALL)
def structured_content_conforms_to_its_schema(step: Step, conversation: "Conversation") -> Outcome:
    result = complete_result(step)
    name = params_of(step).get("name")
    if result is None or conversation.memory is None or not isinstance(name, str):
        return None
    schema = conversation.memory.tools.get(name, {}).get("outputSchema")
    if not isinstance(schema, dict) or result.get("isError") is True:
        return None
    if "structuredContent" not in result:
        return f"sends no structured content for {shown(name)}, which has an outputSchema"
    return (
        _conforms(result["structuredContent"], schema, name)
        if _is_structured(result, step)
        else None
    )


def _conforms(content: Any, schema: dict[str, Any], name: str) -> Finding:
    try:
        wrong = compile_schema(schema)(content)
    except (MissingExtra, ValueError):
        return None
    if wrong is None:
        return True
    if wrong.startswith(UNDECIDED) or _is_masked(content):
        return None
    return f"sends structured content that breaks the outputSchema of {shown(name)}: {wrong}"


def _is_masked(value: Any) -> bool:
    """Tell whether a recording keeps a part of it secret."""
    if isinstance(value, str):
        return MASK.search(value) is not None
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_is_masked(each) for each in inner)
