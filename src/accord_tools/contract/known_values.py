"""Values that a server accepts: those of its schemas, its resources and its earlier results."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import unquote, urlsplit

from accord.json_schema.reader import properties_of, required_names, resolve
from accord.types import JsonObject

# Values of one name, and names.
_MOST_VALUES: Final = 5
_MOST_NAMES: Final = 500
_DEEPEST: Final = 4
# The end of a name such as order_id or orderId, which an earlier result may call id.
_LAST_WORD: Final = re.compile(r"(?:_|-|(?<=[a-z])(?=[A-Z]))([A-Za-z]+)$")


class KnownValues:
    """Values that a server showed, by the names it gave them."""

    def __init__(self) -> None:
        self._values: dict[str, list[object]] = {}

    def note(self, found: object, depth: int = 0) -> None:
        """Keep the texts and numbers in a value, at any depth up to a limit."""
        if depth > _DEEPEST:
            return
        for each in found if isinstance(found, list) else ():
            self.note(each, depth + 1)
        for name, value in found.items() if isinstance(found, dict) else ():
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                self._keep(str(name), value)
            else:
                self.note(value, depth + 1)

    def note_text(self, text: str) -> None:
        """Keep the values in a text that is JSON."""
        with suppress(ValueError, RecursionError):
            self.note(json.loads(text))

    def note_resource(self, resource: Mapping[str, object]) -> None:
        """Keep the URI of a resource, and the path of a file."""
        uri = str(resource.get("uri"))
        self._keep("uri", uri)
        with suppress(ValueError):
            parts = urlsplit(uri)
            if parts.scheme == "file":
                self._keep("path", unquote(parts.path))

    def _keep(self, name: str, value: object) -> None:
        if name not in self._values and len(self._values) >= _MOST_NAMES:
            return
        values = self._values.setdefault(name, [])
        if value not in values and len(values) < _MOST_VALUES:
            values.append(value)

    def of(self, name: str) -> list[object]:
        """Return the values for an argument of this name."""
        last = _LAST_WORD.search(name)
        return [
            *self._values.get(name, ()),
            *(self._values.get(last[1].lower(), ()) if last else ()),
        ]


def likely_arguments(
    schema: Mapping[str, object], plain: JsonObject, known: KnownValues
) -> Iterator[JsonObject]:
    """Yield arguments that a tool is likely to accept; not all need be valid.

    Args:
        schema: the input schema of the tool.
        plain: valid arguments, with as many members as possible.
        known: values that the server showed.
    """
    least = {name: plain[name] for name in required_names(schema) if name in plain}
    yield from (least, plain)
    yield from (
        each for each in _list(schema.get("examples"))[:_MOST_VALUES] if isinstance(each, dict)
    )
    values = {
        name: [*_named_values(resolve(rule, schema)), *known.of(name)]
        for name, rule in properties_of(schema).items()
    }
    values = {name: each for name, each in values.items() if each}
    for base in (least, plain):
        chosen = {name: each for name, each in values.items() if name in base}
        for number in range(max(map(len, chosen.values()), default=0)):
            yield {**base, **{name: each[number % len(each)] for name, each in chosen.items()}}


def _named_values(rule: Mapping[str, object]) -> list[object]:
    """Return the values that a schema names itself."""
    found = [value for key in ("examples", "enum") for value in _list(rule.get(key))]
    return ([rule["default"]] if "default" in rule else []) + found[:_MOST_VALUES]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
