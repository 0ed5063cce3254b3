"""Schemas without references, so that every reader of a schema understands it."""

from collections.abc import Iterable
from typing import Final

from accord.types import JsonObject

_REF: Final = "#/$defs/"
_BY_NAME: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_DATA: Final = frozenset({"enum", "const", "default", "examples", "required"})
# `title` repeats names, mostly, but not that of a constant; `discriminator` is OpenAPI's, and
# points at definitions that are gone.
_NOISE: Final = frozenset({"title", "discriminator"})


def inline(schema: JsonObject, components: dict[str, JsonObject]) -> JsonObject:
    """Replace references by what they refer to; those of a recursion stay, with `$defs`."""
    recursive = _find_recursive(components)
    inliner = _Inliner(components, recursive)
    for _ in components:
        name = _target(schema)
        if name is None or not (name in recursive or _target(components[name])):
            break
        # The outermost schema has to say its type itself.
        schema = {**components[name], **{k: v for k, v in schema.items() if k != "$ref"}}
    inlined = inliner.inline(schema)
    definitions: JsonObject = {}
    while pending := [name for name in inliner.kept if recursive[name] not in definitions]:
        for name in pending:
            definitions[recursive[name]] = inliner.inline(components[name])
    return {**inlined, "$defs": definitions} if definitions else inlined


class _Inliner:
    def __init__(self, components: dict[str, JsonObject], recursive: dict[str, str]) -> None:
        self._components = components
        self._recursive = recursive
        self.kept: dict[str, None] = {}

    def inline(self, schema: JsonObject) -> JsonObject:
        """Return a schema whose references are replaced, except those into a recursion."""
        plain = {
            key: self._inline_keyword(key, value)
            for key, value in schema.items()
            if key != "$ref"
            and (key not in _NOISE or "const" in schema)
            and not (key == "required" and not value)
        }
        target = _target(schema)
        if target is None:
            return _with_type(plain)
        if target in self._recursive:
            self.kept[target] = None
            return {"$ref": _REF + self._recursive[target], **plain}
        return {**self.inline(self._components[target]), **plain}

    def _inline_keyword(self, key: str, value: object) -> object:
        if key in _DATA:
            return value
        if key in _BY_NAME and isinstance(value, dict):
            return {name: self._inline_property(name, each) for name, each in value.items()}
        return self._inline_value(value)

    def _inline_value(self, value: object) -> object:
        if isinstance(value, list):
            return [self._inline_value(each) for each in value]
        return self.inline(value) if isinstance(value, dict) else value

    def _inline_property(self, name: str, schema: object) -> object:
        """Keep the title of a property, unless it only repeats its name."""
        if not isinstance(schema, dict):
            return schema
        title = schema.get("title")
        inlined = self.inline(schema)
        if not isinstance(title, str) or _letters(title) == _letters(name):
            return inlined
        return {"title": title, **inlined}


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _target(schema: JsonObject) -> str | None:
    ref = schema.get("$ref")
    return ref.removeprefix(_REF) if isinstance(ref, str) else None


def _with_type(schema: JsonObject) -> JsonObject:
    """Name the type of a choice: many readers of schemas look for it."""
    values = schema.get("enum")
    if values and "type" not in schema:
        if all(isinstance(value, str) for value in values):
            return {"type": "string", **schema}
        if all(type(value) is int for value in values):
            return {"type": "integer", **schema}
    return schema


def _find_recursive(components: dict[str, JsonObject]) -> dict[str, str]:
    """Find the components that reach themselves, each with a readable name."""
    targets = {name: set(_references(component)) for name, component in components.items()}
    return _readable_names(name for name in targets if name in _reachable(targets[name], targets))


def _reachable(start: set[str], targets: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    pending = list(start)
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += targets.get(name, ())
    return seen


def _references(node: object) -> Iterable[str]:
    if isinstance(node, list):
        for each in node:
            yield from _references(each)
    elif isinstance(node, dict):
        if (target := _target(node)) is not None:
            yield target
        for key, value in node.items():
            if key in _BY_NAME and isinstance(value, dict):
                yield from _references(list(value.values()))
            elif key not in _DATA and key not in _NOISE:
                yield from _references(value)


def _readable_names(names: Iterable[str]) -> dict[str, str]:
    readable: dict[str, str] = {}
    for name in names:
        base = candidate = name.partition(".")[2]
        number = 1
        while candidate in readable.values():
            number += 1
            candidate = f"{base}{number}"
        readable[name] = candidate
    return readable
