"""What the page draws in place of a JSON Schema: a tree of fields, as plain data.

Members that have their default value are left out when a model is sent.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from accord.protocol.uri_template import Value, parse

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
    try:
        found = variables(uri_template)
    except ValueError as error:
        note = f"This is not a URI template ({error}); type a URI instead."
        return FormModel(kind="object", note=note)
    fields = [FormField(each.name, each.model()) for each in found]
    return FormModel(kind="object", closed=True, fields=fields)


_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
# A URI without these is not the one that the template describes.
_NEEDED: Final = ("", "+", "/", ".")
_PLACES: Final = {
    "+": "slashes and other signs stay as typed",
    "#": "the fragment, after #",
    ".": "begins with a dot",
    "/": "a part of the path",
    ";": "a parameter of the path",
    "?": "a parameter of the query",
    "&": "a parameter of the query",
}


class TemplateVariable(msgspec.Struct, frozen=True):
    """A variable of a template.

    Attributes:
        name: of the variable.
        operator: the sign that its expression begins with.
        longest: how many characters are used; None for all.
        exploded: whether it may have several values.
    """

    name: str
    operator: str
    longest: int | None
    exploded: bool

    def model(self) -> FormModel:
        """Return the field of this variable."""
        limits = [] if self.longest is None else [f"the first {self.longest} characters are used"]
        note = _PLACES.get(self.operator, "")
        required = self.operator in _NEEDED
        if self.exploded:
            items = FormModel(kind="text", required=True)
            return FormModel(kind="list", items=items, required=required, description=note)
        return FormModel(kind="text", required=required, description=note, limits=limits)


def variables(template: str) -> list[TemplateVariable]:
    """Return the variables of a template, each once, in order.

    Raises:
        ValueError: the text is not a template.
    """
    parse(template)
    found: dict[str, TemplateVariable] = {}
    for operator, names in _EXPRESSION.findall(template):
        for each in names.split(","):
            exploded = each.endswith("*")
            name, _, digits = each.removesuffix("*").partition(":")
            longest = int(digits) if digits else None
            found.setdefault(name, TemplateVariable(name, operator, longest, exploded))
    return list(found.values())


def expand(template: str, values: Mapping[str, object]) -> str:
    """Return the URI that a template makes of values: texts, numbers, and lists or maps of them.

    Raises:
        ValueError: the text is not a template, or a value cannot stand in a URI.
    """
    return parse(template).expand(
        {name: _value(name, each) for name, each in values.items() if each is not None}
    )


def _value(name: str, value: object) -> Value:
    if isinstance(value, list):
        return [_text(name, each) for each in value]
    if isinstance(value, dict):
        return {key: _text(name, each) for key, each in value.items()}
    return _text(name, value)


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, msgspec.Raw):
        # A number as typed, or else a text that no URI can hold.
        text = bytes(value).decode()
        if text.startswith('"'):
            raise ValueError(f"variable {name!r} holds half a character")
        return text
    if not isinstance(value, str | int | float):
        raise ValueError(f"variable {name!r}: expected text, or a list of texts")  # noqa: TRY004
    return str(value)
