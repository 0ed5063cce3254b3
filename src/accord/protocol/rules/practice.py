"""What servers in use were seen to do. Only advice can be broken; the rest is observed or not."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.items import Finding, complete_result, each, listed, object_of, shown
from accord.protocol.rules.resources import is_custom
from accord.protocol.syntax import is_uri
from accord.protocol.violation import SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_LIST: Final = "tools/list"
_CALL: Final = "tools/call"
_TYPES: Final = frozenset({"string", "number", "boolean", "object", "array"})
_CONSTRAINTS: Final = ("enum", "minLength", "minimum", "maximum", "items")


# -- results


@check("practice.tools.success-omits-is-error", by=SERVER, kind=RESULT, on=_CALL)
def success_has_no_error_flag(step: Step, conversation: "Conversation") -> Outcome:
    result = complete_result(step)
    return (result is not None and "isError" not in result) or None


@check("practice.tools.json-as-text", by=SERVER, kind=RESULT, on=_CALL)
def data_is_json_in_a_text(step: Step, conversation: "Conversation") -> Outcome:
    return any(_is_json(block.get("text")) for _, block in listed(step, "content")) or None


def _is_json(text: Any) -> bool:
    if not isinstance(text, str) or not text.lstrip().startswith(("{", "[")):
        return False
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


@check("practice.content.text-item", by=SERVER, kind=RESULT, on=_CALL)
def content_is_text(step: Step, conversation: "Conversation") -> Outcome:
    blocks = listed(step, "content")
    return (bool(blocks) and all(block.get("type") == "text" for _, block in blocks)) or None


# -- input schemas


@check("practice.tools.descriptive-schemas", by=SERVER, kind=RESULT, on=_LIST)
def parameters_are_described(step: Step, conversation: "Conversation") -> Outcome:
    # A tool without description is reported as tools.item.description.
    described = ("description" in tool or None for _, tool in listed(step, "tools"))
    parameters = (
        bool(schema.get("description"))
        or f"sends {place}, whose parameter {shown(name)} has no description"
        for place, name, schema in _parameters(step)
    )
    return each((*described, *parameters))


def _parameters(step: Step) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for place, tool in listed(step, "tools"):
        properties = object_of(object_of(tool.get("inputSchema")).get("properties"))
        for name, schema in properties.items():
            if isinstance(schema, dict):
                yield place, name, schema


@check("practice.schema.structure", by=SERVER, kind=RESULT, on=_LIST)
def schema_has_the_usual_structure(step: Step, conversation: "Conversation") -> Outcome:
    return each(_is_usual(object_of(tool.get("inputSchema"))) for _, tool in listed(step, "tools"))


def _is_usual(schema: dict[str, Any]) -> Finding:
    properties = object_of(schema.get("properties"))
    is_described = all("description" in object_of(each_) for each_ in properties.values())
    is_usual = schema.get("type") == "object" and isinstance(schema.get("required"), list)
    return (is_usual and bool(properties) and is_described) or None


@check("practice.schema.types", by=SERVER, kind=RESULT, on=_LIST)
def parameters_have_the_usual_types(step: Step, conversation: "Conversation") -> Outcome:
    types = [schema.get("type") for _, _, schema in _parameters(step)]
    return (bool(types) and all(type_ in _TYPES for type_ in map(_name, types))) or None


def _name(type_: Any) -> str:
    return type_ if isinstance(type_, str) else ""


@check("practice.schema.constraints", by=SERVER, kind=RESULT, on=_LIST)
def parameters_have_constraints(step: Step, conversation: "Conversation") -> Outcome:
    return (
        any(name in schema for _, _, schema in _parameters(step) for name in _CONSTRAINTS) or None
    )


# -- capabilities and URIs


def _capabilities(step: Step) -> dict[str, Any] | None:
    declared = object_of(step.body).get("capabilities")
    return declared if isinstance(declared, dict) else None


@check("practice.capabilities.empty-object", by=SERVER, kind=RESULT, on="initialize")
def support_is_an_empty_object(step: Step, conversation: "Conversation") -> Outcome:
    return any(value == {} for value in (_capabilities(step) or {}).values()) or None


@check("practice.capabilities.tools-common", by=SERVER, kind=RESULT, on="initialize")
def server_has_tools(step: Step, conversation: "Conversation") -> Outcome:
    return "tools" in (_capabilities(step) or {}) or None


@check("practice.capabilities.resources-rare", by=SERVER, kind=RESULT, on="initialize")
def server_has_no_resources(step: Step, conversation: "Conversation") -> Outcome:
    declared = _capabilities(step)
    return (declared is not None and "resources" not in declared) or None


@check("practice.resources.custom-scheme", by=SERVER, kind=RESULT, on="resources/list")
def resources_have_schemes_of_their_own(step: Step, conversation: "Conversation") -> Outcome:
    uris = [item.get("uri") for _, item in listed(step, "resources")]
    return any(isinstance(uri, str) and is_custom(uri) and is_uri(uri) for uri in uris) or None
