"""Variables of URI templates (RFC 6570) as fields, and URIs made of what was filled in."""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from accord.protocol.uri_template import Value, parse
from accord_tools.inspector.forms.model import FormModel

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
