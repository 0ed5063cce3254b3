"""Actions on arguments that a person fills in: validate them, and make an example."""

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from accord_tools.arguments.samples import sample
from accord_tools.inspector.actions import READ, action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.forms.errors import (
    FormError,
    TextFault,
    find_errors,
    parse_text,
    read_text,
    write_text,
)
from accord_tools.inspector.forms.model import expand, prompt_schema, variables

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession

FormKind: TypeAlias = Literal["tools", "prompts", "templates", "question", "text"]

_INDENT: Final = 2
# A text that takes some milliseconds is looked at in a thread.
_LONG_TEXT: Final = 50_000
_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}


class SyntaxFault(msgspec.Struct):
    """Where a text is not JSON."""

    line: int
    column: int
    message: str


class Validated(msgspec.Struct):
    """What is wrong with a text."""

    errors: list[FormError]
    syntax: SyntaxFault | None = None


@action("forms.validate", kinds=READ)
async def validate(
    session: "InspectedSession", *, kind: FormKind, text: str, name: str = ""
) -> Validated:
    """Return what is wrong with arguments, by place."""
    schema = _schema_of(session, kind, name)
    if len(text) < _LONG_TEXT:
        return _find_faults(text, schema)
    return await asyncio.to_thread(_find_faults, text, schema)


def _find_faults(text: str, schema: object | None) -> Validated:
    try:
        parsed = read_text(text)
    except TextFault as fault:
        return Validated([], SyntaxFault(fault.line, fault.column, fault.message))
    errors = [
        FormError("", f"an object has the name {name!r} more than once; the last one counts")
        for name in parsed.duplicates
    ]
    return Validated(errors if schema is None else errors + find_errors(schema, parsed.value))


class Example(msgspec.Struct):
    """Arguments as JSON, and what of them does not fit the schema."""

    text: str
    errors: list[FormError] = []


@action("forms.example")
async def make_example(session: "InspectedSession", *, kind: FormKind, name: str) -> Example:
    """Return arguments that fit a schema, and where none could be made."""
    schema = _schema_of(session, kind, name)
    if schema is None:
        raise ActionRefused(f"{name!r} has no schema to make an example of", field="name")
    return await asyncio.to_thread(example_for, schema)


def example_for(schema: object) -> Example:
    """Make arguments for a schema, validated before they are shown."""
    made = sample(schema)
    return Example(write_text(made, indent=_INDENT), find_errors(schema, made))


@action("forms.expand")
async def expand_template(session: "InspectedSession", *, name: str, text: str) -> dict[str, str]:
    """Return the URI that a template makes of its variables."""
    try:
        values = parse_text(text)
    except TextFault as fault:
        raise ActionRefused(str(fault), field="text") from None
    if not isinstance(values, dict):
        raise ActionRefused("the variables of a template are an object", field="text")
    try:
        return {"uri": expand(name, values)}
    except ValueError as error:
        raise ActionRefused(str(error), field="text") from None


def _schema_of(session: "InspectedSession", kind: FormKind, name: str) -> Any:
    """Return the schema of what is filled in; None if it is not known."""
    if kind == "text" or session.kind != "live":
        return None
    if kind == "templates":
        return _template_schema(name)
    if kind == "question":
        return _live(session, "page_questions", "AskedQuestions").schema_of(name)
    found = _live(session, "server_catalog", "ServerCatalog").schema_of(kind, name)
    if kind == "prompts":
        return prompt_schema(found) if isinstance(found, list | tuple) else found or _TEXTS
    return found


def _live(session: "InspectedSession", module: str, name: str) -> Any:
    # The connection is a part of live sessions alone; recordings never load it.
    return session.part(getattr(import_module(f"accord_tools.inspector.live.{module}"), name))


def _template_schema(template: str) -> dict[str, object] | None:
    try:
        found = variables(template)
    except ValueError:
        return None
    text = {"type": "string"}
    several = {"type": "array", "items": text}
    return {
        "type": "object",
        "properties": {
            each.name: {"anyOf": [several, text]} if each.exploded else text for each in found
        },
        "required": [each.name for each in found if each.model().required],
        "additionalProperties": False,
    }
