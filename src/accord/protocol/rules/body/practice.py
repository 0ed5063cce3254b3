"""Practices of servers in use. Only advice can be broken; the rest is observed or not."""

from collections.abc import Iterator
from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.rules._rule import Findings, Outcome, breach_at, check, results
from accord.protocol.rules.body.offers import has_custom_scheme
from accord.protocol.rules.values import (
    as_object,
    complete_result,
    declared_in,
    parse_json,
    quote,
    result_objects,
)
from accord.protocol.syntax import is_uri
from accord.protocol.violation import SERVER
from accord.types._base import JsonObject

_LISTS: Final = results("tools/list", by=SERVER)
_OPENINGS: Final = results("initialize", by=SERVER)
_CALLS: Final = results("tools/call", by=SERVER)
_TYPES: Final = ("string", "number", "boolean", "object", "array")
_CONSTRAINTS: Final = ("enum", "minLength", "minimum", "maximum", "items")


# -- results


@check("practice.tools.success-omits-is-error", _CALLS)
def success_has_no_error_flag(step: Step, conversation: Conversation) -> Outcome:
    result = complete_result(step)
    return (result is not None and "isError" not in result) or None


@check("practice.tools.json-as-text", _CALLS)
def data_is_json_in_a_text(step: Step, conversation: Conversation) -> Outcome:
    return any(_is_json(block.get("text")) for _, block in result_objects(step, "content")) or None


def _is_json(text: object) -> bool:
    is_structure = isinstance(text, str) and text.lstrip().startswith(("{", "["))
    return is_structure and bool(parse_json(str(text)))


@check("practice.content.text-item", _CALLS)
def content_is_text(step: Step, conversation: Conversation) -> Outcome:
    blocks = result_objects(step, "content")
    return (bool(blocks) and all(block.get("type") == "text" for _, block in blocks)) or None


# -- input schemas


@check("practice.tools.descriptive-schemas", _LISTS)
def parameters_are_described(step: Step, conversation: Conversation) -> Findings:
    # A tool without description is judged by tools.item.description.
    for _, tool in result_objects(step, "tools"):
        yield "description" in tool or None
    for place, name, schema in _parameters(step):
        yield bool(schema.get("description")) or (
            breach_at(
                f"sends {place} with the parameter {quote(name)} without a description",
                *(place, "inputSchema", "properties", name),
            )
        )


def _parameters(step: Step) -> Iterator[tuple[str, str, JsonObject]]:
    for place, tool in result_objects(step, "tools"):
        properties = as_object(as_object(tool.get("inputSchema")).get("properties"))
        for name, schema in properties.items():
            if isinstance(schema, dict):
                yield place, name, schema


@check("practice.schema.structure", _LISTS)
def schema_has_the_usual_structure(step: Step, conversation: Conversation) -> Findings:
    for _, tool in result_objects(step, "tools"):
        schema = as_object(tool.get("inputSchema"))
        properties = as_object(schema.get("properties"))
        is_described = all("description" in as_object(inner) for inner in properties.values())
        is_usual = schema.get("type") == "object" and isinstance(schema.get("required"), list)
        yield (is_usual and bool(properties) and is_described) or None


@check("practice.schema.types", _LISTS)
def parameters_have_the_usual_types(step: Step, conversation: Conversation) -> Outcome:
    types = [schema.get("type") for _, _, schema in _parameters(step)]
    return (bool(types) and all(type_ in _TYPES for type_ in types)) or None


@check("practice.schema.constraints", _LISTS)
def parameters_have_constraints(step: Step, conversation: Conversation) -> Outcome:
    return (
        any(name in schema for _, _, schema in _parameters(step) for name in _CONSTRAINTS) or None
    )


# -- capabilities and URIs


@check("practice.capabilities.empty-object", _OPENINGS)
def support_is_an_empty_object(step: Step, conversation: Conversation) -> Outcome:
    return {} in (declared_in(step) or {}).values() or None


@check("practice.capabilities.tools-common", _OPENINGS)
def server_has_tools(step: Step, conversation: Conversation) -> Outcome:
    return "tools" in (declared_in(step) or ()) or None


@check("practice.capabilities.resources-rare", _OPENINGS)
def server_has_no_resources(step: Step, conversation: Conversation) -> Outcome:
    declared = declared_in(step)
    return (declared is not None and "resources" not in declared) or None


@check("practice.resources.custom-scheme", results("resources/list", by=SERVER))
def resources_have_schemes_of_their_own(step: Step, conversation: Conversation) -> Outcome:
    uris = [item.get("uri") for _, item in result_objects(step, "resources")]
    return (
        any(isinstance(uri, str) and has_custom_scheme(uri) and is_uri(uri) for uri in uris) or None
    )
