"""What the page draws in place of a JSON Schema: a tree of fields, as plain data.

Members that have their default value are left out when a model is sent.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

FieldKind: TypeAlias = Literal[
    "text",
    "multiline",
    "number",
    "integer",
    "boolean",
    "null",
    "choice",
    "list",
    "tuple",
    "object",
    "map",
    "union",
    "json",
    "ref",
]
LONGEST_TITLE: Final = 200
LONGEST_DESCRIPTION: Final = 4_000


class FormChoice(msgspec.Struct):
    """One of several values; `value` is its JSON."""

    title: str
    value: str


class FormField(msgspec.Struct):
    """A member of an object."""

    name: str
    model: "FormModel"


class FormOption(msgspec.Struct):
    """One way to fill in a union."""

    title: str
    model: "FormModel"


class FormModel(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A field, with the fields in it.

    Attributes:
        kind: what is drawn.
        default, const: JSON.
        format: the format that a text should have.
        encoding: how a text stands for bytes.
        limits: what values are allowed, in words.
        choices: of `choice`.
        multiple: whether a `choice` is a list of values.
        fields: of `object`.
        items: of `list`, and of what follows the first items of a `tuple`.
        prefix: the first items of a `tuple`.
        values: of `map`, and of other members of an `object`.
        closed: whether an `object` or a `tuple` allows nothing else.
        options: of `union`.
        ref: the key in `defs` of a `ref`.
        defs: the models of references; at the root alone.
        note: what the form cannot show.
        examples: JSON.
    """

    kind: FieldKind
    title: str = ""
    description: str = ""
    required: bool = False
    nullable: bool = False
    default: str | None = None
    const: str | None = None
    format: str = ""
    encoding: str = ""
    limits: list[str] = []
    choices: list[FormChoice] = []
    multiple: bool = False
    fields: list[FormField] = []
    items: "FormModel | None" = None
    prefix: "list[FormModel]" = []
    values: "FormModel | None" = None
    closed: bool = False
    options: list[FormOption] = []
    ref: str = ""
    defs: "dict[str, FormModel]" = {}
    note: str = ""
    examples: list[str] = []
    deprecated: bool = False
    read_only: bool = False

    def add_note(self, text: str) -> None:
        """Add a sentence to what the form cannot show."""
        self.note = f"{self.note} {text}".strip()


def short_text(value: object, most: int) -> str:
    """Return a text that fits a form; empty if the value is not text."""
    if not isinstance(value, str):
        return ""
    text = value if value.isascii() else value.encode("utf-8", "replace").decode()
    return text if len(text) <= most else text[:most] + "..."


def build_form(schema: object) -> FormModel:
    """Return the form for a JSON Schema, whatever it is; what a form cannot show is `json`."""
    from accord_tools.inspector.forms.building import FormBuilder

    return FormBuilder(schema).build()


def prompt_form(arguments: Iterable[Any]) -> FormModel:
    """Return the form for the arguments of a prompt, which are texts."""
    made = FormModel(kind="object", closed=True)
    for each in arguments:
        facts = each if isinstance(each, Mapping) else _facts(each)
        name = facts.get("name")
        if isinstance(name, str):
            field = FormModel(
                kind="text",
                title=short_text(facts.get("title"), LONGEST_TITLE),
                description=short_text(facts.get("description"), LONGEST_DESCRIPTION),
                required=facts.get("required") is True,
            )
            made.fields.append(FormField(name, field))
    return made


def _facts(argument: object) -> dict[str, object]:
    names = ("name", "title", "description", "required")
    return {name: getattr(argument, name, None) for name in names}


def prompt_schema(arguments: Iterable[Any]) -> dict[str, object]:
    """Return the JSON Schema of the arguments of a prompt."""
    form = prompt_form(arguments)
    return {
        "type": "object",
        "properties": {each.name: {"type": "string"} for each in form.fields},
        "required": [each.name for each in form.fields if each.model.required],
        "additionalProperties": {"type": "string"},
    }


def template_form(uri_template: str) -> FormModel:
    """Return the form for the variables of a URI template (RFC 6570)."""
    from accord_tools.inspector.forms.uri_template import variables

    try:
        found = variables(uri_template)
    except ValueError as error:
        note = f"This is not a URI template ({error}); type a URI instead."
        return FormModel(kind="object", note=note)
    fields = [FormField(each.name, each.model()) for each in found]
    return FormModel(kind="object", closed=True, fields=fields)
