"""Tools: how they are listed, and their results."""

import re
from collections.abc import Iterator
from typing import Final

from accord.errors import MissingExtra
from accord.json_schema.validation import UNDECIDED, compile_schema
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
from accord.protocol.rules.body.results import judge_block, judge_type
from accord.protocol.rules.body.rounds import questions
from accord.protocol.rules.shapes import judge_member, shapes
from accord.protocol.rules.values import (
    Located,
    as_object,
    complete_result,
    is_in_force,
    memory_of,
    objects_at,
    parse_json,
    quote,
    request_params,
    result_objects,
)
from accord.protocol.violation import SERVER
from accord.trace import is_masked
from accord.types._base import JsonObject

_LISTS: Final = results("tools/list", by=SERVER)
_CALLS: Final = results("tools/call", by=SERVER)
_QUESTIONS: Final = ("elicitation/create", "sampling/createMessage")
_LONGEST_NAME: Final = 128
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]*")
_DRAFT_07: Final = "http://json-schema.org/draft-07/schema#"

# These errors are about a dialect or a document that is not available, not about the schema.
_UNDECIDABLE: Final = ("Unknown meta-schema", "is not present in a registry")

shapes(
    _LISTS,
    {
        "tools.list.array": "body: {tools: array, tools[]: object}",
        "tools.item.name": "tools[].name: string",
        "tools.item.description": "tools[].description: string",
        "tools.item.title": "tools[].title?: string",
        "tools.item.annotations": """
            tools[].annotations?: {
                title?: string, readOnlyHint?: boolean, destructiveHint?: boolean,
                idempotentHint?: boolean, openWorldHint?: boolean
            }
        """,
        "tools.input-schema.not-null": "tools[].inputSchema?: object",
        "tools.task-support.values": (
            "tools[].execution?: {taskSupport?: forbidden|optional|required}"
        ),
    },
)
shapes(
    _CALLS,
    {
        "tools.call.content-array": "body: {content: array}",
        "tools.call.is-error-flag": "isError: boolean",
        "tools.structured-content.object": "structuredContent?: object",
    },
)


# -- schemas of a listed tool


@check("tools.item.input-schema", _LISTS)
def tool_has_an_input_schema(step: Step, conversation: Conversation) -> Findings:
    for place, tool in result_objects(step, "tools"):
        schema = tool.get("inputSchema")
        if "inputSchema" not in tool:
            yield breach_at(f"sends {place} without inputSchema", place)
        elif is_in_force("tools.input-schema.not-null", step.revision.id):
            yield isinstance(schema, dict) or None
        elif isinstance(schema, dict):
            yield _reject_other_type(schema, f"{place}.inputSchema") or _judge_old_schema(
                schema, f"{place}.inputSchema"
            )
        else:
            yield judge_member(tool, place, "inputSchema", "object")


@check("tools.item.output-schema", _LISTS)
def output_schema_is_a_schema(step: Step, conversation: Conversation) -> Findings:
    for place, tool in result_objects(step, "tools"):
        yield judge_member(tool, place, "outputSchema", "object", required=False)
    if not is_in_force("schema.wire-schemas-valid", step.revision.id):
        for place, schema in _schemas(step, "outputSchema"):
            if _reject_other_type(schema, place) is None:
                yield _judge_old_schema(schema, place)


@check("tools.input-schema.type-object", _LISTS)
def input_schema_is_of_an_object(step: Step, conversation: Conversation) -> Findings:
    for place, schema in _schemas(step, "inputSchema"):
        yield _reject_other_type(schema, place) or True


@check("tools.output-schema.object", _LISTS)
def output_schema_is_of_an_object(step: Step, conversation: Conversation) -> Findings:
    for place, schema in _schemas(step, "outputSchema"):
        yield _reject_other_type(schema, place) or True


def _schemas(step: Step, member: str) -> Iterator[Located]:
    for place, tool in result_objects(step, "tools"):
        if isinstance(tool.get(member), dict):
            yield f"{place}.{member}", tool[member]


def _reject_other_type(schema: JsonObject, place: str) -> Breach | None:
    if schema.get("type") == "object":
        return None
    why = f"sends {place} with type {quote(schema.get('type'))}, expected 'object'"
    return breach_at(why, place, "type")


# -- names


def _names(step: Step) -> Iterator[tuple[str, str]]:
    for place, tool in result_objects(step, "tools"):
        if isinstance(tool.get("name"), str):
            yield place, tool["name"]


@check("tools.name.length", _LISTS)
def name_has_1_to_128_characters(step: Step, conversation: Conversation) -> Findings:
    for place, name in _names(step):
        is_short = 1 <= len(name) <= _LONGEST_NAME
        yield is_short or breach_at(
            f"sends {place} with a name of {len(name)} characters", place, "name"
        )


@check("tools.name.charset", _LISTS)
def name_has_allowed_characters(step: Step, conversation: Conversation) -> Findings:
    for place, name in _names(step):
        yield _NAME.fullmatch(name) is not None or breach_at(
            f"sends {place} with name {quote(name)}, expected only letters, digits, _, - and .",
            place,
            "name",
        )


@check("tools.name.unique", _LISTS)
def name_is_unique(step: Step, conversation: Conversation) -> Findings:
    cursor = request_params(step).get("cursor")
    on_earlier_pages: frozenset[str] = frozenset()
    if isinstance(cursor, str):
        on_earlier_pages = memory_of(conversation).tool_pages.get(cursor, on_earlier_pages)
    places: dict[str, list[str]] = {}
    for place, name in _names(step):
        places.setdefault(name, []).append(place)
    for name, found in places.items():
        yield (len(found) == 1 and name not in on_earlier_pages) or breach_at(
            f"lists more than one tool with the name {quote(name)}", found[-1], "name"
        )


# -- valid schemas


@check("schema.wire-schemas-valid", _LISTS)
def tool_schemas_are_valid(step: Step, conversation: Conversation) -> Findings:
    for place, schema in _schemas(step, "inputSchema"):
        if _reject_other_type(schema, place) is None:
            yield _judge_schema(schema, place)
    only_objects = is_in_force("tools.output-schema.object", step.revision.id)
    for place, schema in _schemas(step, "outputSchema"):
        if not only_objects or _reject_other_type(schema, place) is None:
            yield _judge_schema(schema, place)
    if not is_in_force("tools.item.output-schema", step.revision.id):
        for place, tool in result_objects(step, "tools"):
            yield judge_member(tool, place, "outputSchema", "object", required=False)


@check("schema.wire-schemas-valid", requests(_QUESTIONS, by=SERVER))
@check("schema.wire-schemas-valid", results(by=SERVER))
def schemas_in_questions_are_valid(step: Step, conversation: Conversation) -> Findings:
    for question in questions(step, "elicitation/create"):
        schema = question.params.get("requestedSchema")
        if isinstance(schema, dict):
            yield _judge_schema(schema, f"{question.place}.requestedSchema")
    for question in questions(step, "sampling/createMessage"):
        for place, tool in objects_at(question.params, "tools", f"{question.place}."):
            if isinstance(tool.get("inputSchema"), dict):
                yield _judge_schema(tool["inputSchema"], f"{place}.inputSchema")


def _judge_schema(schema: JsonObject, place: str) -> Finding:
    try:
        compile_schema(schema)
    except MissingExtra:
        return None
    except ValueError as error:
        if any(reason in str(error) for reason in _UNDECIDABLE):
            return None
        return breach_at(f"sends {place}, which is not a valid JSON Schema: {error}", place)
    return True


def _judge_old_schema(schema: JsonObject, place: str) -> Finding:
    """Judge a schema of a revision without a fixed dialect: either of two dialects will do."""
    found = _judge_schema(schema, place)
    if isinstance(found, Breach) and "$schema" not in schema:
        older = _judge_schema({"$schema": _DRAFT_07, **schema}, place)
        return found if isinstance(older, Breach) else older
    return found


# -- results


@check("tools.call.content-type", _CALLS)
def content_is_of_a_known_type(step: Step, conversation: Conversation) -> Findings:
    for place, block in _content(step):
        found = judge_type(block, place, step.revision.id)
        yield judge_block(as_object(block), place) if found is True else found


def _content(step: Step) -> list[tuple[str, object]]:
    content = (complete_result(step) or {}).get("content")
    blocks = content if isinstance(content, list) else ()
    return [(f"content[{index}]", block) for index, block in enumerate(blocks)]


@check("tools.embedded-resource.capability", _CALLS)
def server_that_embeds_resources_declares_them(step: Step, conversation: Conversation) -> Outcome:
    declared = conversation.server.capabilities
    types = [as_object(block).get("type") for _, block in _content(step)]
    if declared is None or "resource" not in types:
        return None
    return "resources" in declared or breach_at(
        "embeds a resource without declaring resources", f"content[{types.index('resource')}]"
    )


@check("tools.call.structured-content", _CALLS)
def result_has_structured_content(step: Step, conversation: Conversation) -> Outcome:
    # Other values are judged by tools.structured-content.object.
    return isinstance((complete_result(step) or {}).get("structuredContent"), dict) or None


@check("tools.structured-content.also-text", _CALLS, at="structuredContent")
def structured_content_is_also_text(step: Step, conversation: Conversation) -> Outcome:
    result = complete_result(step) or {}
    if not _is_structured(result, step):
        return None
    structured = result["structuredContent"]
    accepted = [[structured]]
    if isinstance(structured, dict) and len(structured) == 1:
        # A text may also hold the only value inside.
        accepted.append([*structured.values()])
    for _, block in _content(step):
        text = as_object(block).get("text")
        if isinstance(text, str) and (parse_json(text) in accepted or [text] in accepted):
            return True
    return "sends structuredContent without the same JSON in a text block"


def _is_structured(result: JsonObject, step: Step) -> bool:
    if is_in_force("tools.structured-content.object", step.revision.id):
        return isinstance(result.get("structuredContent"), dict)
    return "structuredContent" in result


@check("tools.call.structured-conforms", _CALLS, at="structuredContent")
def structured_content_conforms_to_its_schema(step: Step, conversation: Conversation) -> Outcome:
    result = complete_result(step)
    name = request_params(step).get("name")
    if result is None or not isinstance(name, str):
        return None
    schema = memory_of(conversation).tools.get(name, {}).get("outputSchema")
    # An error needs no structured content; a flag of another type has its own requirement.
    if not isinstance(schema, dict) or result.get("isError", False) is not False:
        return None
    if "structuredContent" not in result:
        return (
            f"answers a call of {quote(name)}, which has an outputSchema, without structuredContent"
        )
    if not _is_structured(result, step):
        return None
    return _judge_conformance(result["structuredContent"], schema, name)


def _judge_conformance(content: object, schema: JsonObject, name: str) -> Finding:
    try:
        wrong = compile_schema(schema)(content)
    except (MissingExtra, ValueError):
        return None
    if wrong is None:
        return True
    if wrong.startswith(UNDECIDED) or is_masked(content):
        return None
    return f"sends structuredContent that does not match the outputSchema of {quote(name)}: {wrong}"
