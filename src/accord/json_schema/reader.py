"""What a JSON Schema says: its references, combinations and types.

References are resolved within the schema alone; nothing is fetched.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from accord.types import JsonObject

Item = TypeVar("Item")

TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")

# A chain of references longer than this is a circle.
_LONGEST_CHAIN: Final = 12

_REF: Final = "#/$defs/"
_BY_NAME: Final = frozenset({"properties", "patternProperties", "dependentSchemas"})
_DATA: Final = frozenset({"enum", "const", "default", "examples", "required"})
# `title` repeats names, mostly, but not that of a constant; `discriminator` is OpenAPI's, and
# points at definitions that are gone.
_NOISE: Final = frozenset({"title", "discriminator"})


def resolve(schema: object, root: Mapping[str, object]) -> JsonObject:
    """Replace the `$ref` of a schema by its target in `root`; keywords beside it take precedence.

    A reference that leads outside, nowhere or in a circle is left out.
    """
    resolved: JsonObject = schema if isinstance(schema, dict) else {}
    for _ in range(_LONGEST_CHAIN):
        reference = resolved.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return resolved
        target = find_by_pointer(root, reference[1:])
        siblings = {key: value for key, value in resolved.items() if key != "$ref"}
        resolved = {**target, **siblings} if isinstance(target, dict) else siblings
    return {key: value for key, value in resolved.items() if key != "$ref"}


def find_by_pointer(document: object, fragment: str) -> object:
    """Return the value that a JSON Pointer in a URI fragment leads to; None if it leads nowhere."""
    fragment = _unquote(fragment)
    if not fragment:
        return document
    if not fragment.startswith("/"):
        return None
    value = document
    for part in fragment[1:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part[:6]) < len(value):
            value = value[int(part[:6])]
        else:
            return None
    return value


def reachable(start: Iterable[Item], following: Callable[[Item], Iterable[Item]]) -> list[Item]:
    """Return what can be reached from some items, with them, each once."""
    found = dict.fromkeys(start)
    waiting = list(found)
    while waiting:
        for each in following(waiting.pop()):
            if each not in found:
                found[each] = None
                waiting.append(each)
    return list(found)


def merge(schemas: Iterable[object]) -> JsonObject:
    """Join schemas that all have to hold; members add up, of other keywords the last one wins."""
    merged: JsonObject = {}
    for schema in schemas:
        for key, value in schema.items() if isinstance(schema, dict) else ():
            known = merged.get(key)
            if key == "properties" and isinstance(known, dict) and isinstance(value, dict):
                merged[key] = {**known, **value}
            elif key == "required" and isinstance(known, list) and isinstance(value, list):
                merged[key] = [*known, *value]
            else:
                merged[key] = value
    return merged


def merge_all_of(schema: JsonObject, root: Mapping[str, object]) -> JsonObject:
    """Join a schema with the members of its `allOf`."""
    members = schema.get("allOf")
    if not isinstance(members, list):
        return schema
    rest = {key: value for key, value in schema.items() if key != "allOf"}
    return merge([rest, *(resolve(each, root) for each in members)])


def alternatives(schema: JsonObject, root: Mapping[str, object]) -> list[JsonObject]:
    """Return the members of `anyOf` or `oneOf`, each joined with the rest of the schema.

    A schema without them has no alternatives.
    """
    for key in ("anyOf", "oneOf"):
        members = schema.get(key)
        if isinstance(members, list) and members:
            rest = {name: value for name, value in schema.items() if name != key}
            return [merge([rest, resolve(each, root)]) for each in members]
    return []


def properties_of(schema: Mapping[str, object]) -> JsonObject:
    """Return the schemas of an object's members by name."""
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def required_names(schema: Mapping[str, object]) -> list[str]:
    """Return the names of the members that an object must have."""
    found = schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def number_at(schema: Mapping[str, object], key: str) -> float | None:
    """Return the number that a keyword holds; None if it holds something else."""
    value = schema.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def declared_types(schema: Mapping[str, object]) -> list[str]:
    """Return the types that the keyword `type` names, none if it is absent."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return [declared]
    if not isinstance(declared, list):
        return []
    return [each for each in declared if isinstance(each, str)]


def likely_types(schema: Mapping[str, object]) -> list[str]:
    """Return the types that a schema names or, if it names none, the one its keywords suggest."""
    declared = [each for each in declared_types(schema) if each in TYPES]
    if declared:
        return declared
    if "properties" in schema or "required" in schema:
        return ["object"]
    return ["array"] if "items" in schema or "prefixItems" in schema else []


def admits(schema: JsonObject, types: Sequence[str], root: Mapping[str, object]) -> bool:
    """Tell whether a schema lets a value of any of these JSON types through."""
    schema = resolve(schema, root)
    if "anyOf" in schema:
        return any(admits(option, types, root) for option in schema["anyOf"])
    if "enum" in schema:
        return any(type_of(value) in types for value in schema["enum"])
    declared = declared_types(schema)
    return not declared or any(each in types for each in declared)


def type_of(value: object) -> str:
    """Return the JSON type of plain data."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list | tuple) else "object"


class SchemaDocument:
    """A schema with the identifiers and anchors in it, which references of any dialect may use."""

    def __init__(self, schema: JsonObject) -> None:
        self._resources: dict[str, JsonObject] = {"": schema}
        self._bases: dict[int, str] = {}
        self._anchors: dict[tuple[str, str], JsonObject] = {}
        self._dynamic: dict[str, list[JsonObject]] = {}
        waiting: list[tuple[object, str]] = [(schema, "")]
        while waiting:
            value, base = waiting.pop()
            if isinstance(value, list):
                waiting += [(each, base) for each in value]
            elif isinstance(value, dict):
                base = self._identify(value, base)
                waiting += [(each, base) for each in value.values()]

    def _identify(self, schema: JsonObject, base: str) -> str:
        for key in ("$id", "id"):
            id_ = schema.get(key)
            if isinstance(id_, str):
                resource, _, anchor = id_.partition("#")
                if resource:
                    base = _join_uri(base, resource)
                    self._resources[base] = schema
                if anchor:
                    self._anchors[base, anchor] = schema
        self._bases[id(schema)] = base
        for key in ("$anchor", "$dynamicAnchor"):
            name = schema.get(key)
            if isinstance(name, str):
                self._anchors[base, name] = schema
                if key == "$dynamicAnchor":
                    self._dynamic.setdefault(name, []).append(schema)
        return base

    def find(self, schema: JsonObject, key: str, reference: str) -> list[JsonObject]:
        """Return the possible targets of a reference, none if it leads outside or nowhere.

        Args:
            schema: the subschema that holds the reference.
            key: the keyword, such as `$ref`.
            reference: its value.
        """
        resource, _, fragment = reference.partition("#")
        base = self._bases.get(id(schema), "")
        base = _join_uri(base, resource) if resource else base
        if key == "$recursiveRef":
            return [*self._resources.values()]
        found: object = self._anchors.get((base, _unquote(fragment)))
        found = found or find_by_pointer(self._resources.get(base), fragment)
        several = self._dynamic.get(fragment, []) if key == "$dynamicRef" else []
        return [*several, *([found] if isinstance(found, dict) and found not in several else [])]


def _unquote(fragment: str) -> str:
    if "%" not in fragment:
        return fragment
    from urllib.parse import unquote  # takes 2 ms, and few references need it

    return unquote(fragment)


def _join_uri(base: str, reference: str) -> str:
    from urllib.parse import urljoin

    try:
        return urljoin(base, reference)
    except ValueError:  # the validator refuses an invalid URI
        return reference


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
    return _readable_names(
        name
        for name in targets
        if name in reachable(targets[name], lambda each: targets.get(each, ()))
    )


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
