"""A schema as a graph: which parts of it apply to the same value, and which to a part of the value.

The keywords of all dialects count, whatever the schema says it is: too many edges cost a little,
too few would hide what a validator does. Patterns are taken to match every name.
"""

import re
from typing import Any, Final
from urllib.parse import unquote, urljoin

__all__ = ["Node", "SchemaRefused", "build", "count_values"]

_ONE: Final = ("not", "if", "then", "else")
_SEVERAL: Final = ("allOf", "anyOf", "oneOf")
_BY_NAME: Final = ("dependentSchemas", "dependencies")
_EVERY_ITEM: Final = ("contains", "unevaluatedItems", "additionalItems")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")
_META_SCHEMAS: Final = ("http://json-schema.org/", "https://json-schema.org/")

# Real schemas have hundreds; each costs a validator a compiled object.
_MOST_NODES: Final = 20_000
# Validators before 0.60 compile definitions within one another: 3,000 overflow the stack.
_MOST_DEFINITIONS: Final = 1_000
# Compiling an atom of a pattern takes 0.3 µs.
_MOST_PATTERN_ATOMS: Final = 1_000_000
# What stands for the time that one visit takes, some 50 ns, where a keyword takes more.
_BACKTRACKING_VISITS: Final = 2_000
_REGEX_VISITS: Final = 20_000
_COMPARISON_VISITS: Final = 4
_SCALARS_PER_VISIT: Final = 16

_PART: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\{\d+(?:,\d*)?\}|.", re.DOTALL)
_BACKTRACKING: Final = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k|\(\?P=|\(\?>|[*+?}]\+")


class SchemaRefused(ValueError):
    """Validating against the schema could take for ever, or overflow the stack."""


class Node:
    """One subschema.

    Attributes:
        place: the reference that led to it, for messages.
        visits: what looking at one value costs, without the subschemas.
        atoms: how many parts its pattern has, each of which may look at each character.
        in_place: what applies to the same value.
        repeats: how often a validator goes through `in_place`.
        named, every_property, other_properties, keys: what applies to the members of an object.
        positions, every_item: what applies to the items of an array.
        reads_all: whether it goes through the whole value by rules that are not in the graph.
    """

    __slots__ = (
        "atoms",
        "every_item",
        "every_property",
        "in_place",
        "keys",
        "named",
        "number",
        "other_properties",
        "place",
        "positions",
        "reads_all",
        "repeats",
        "visits",
    )

    def __init__(self, place: str) -> None:
        self.place = place
        self.visits = 1
        self.atoms = 0
        self.repeats = 1
        self.number = 0
        self.reads_all = False
        self.in_place: list[Node] = []
        self.named: dict[str, Node] = {}
        self.every_property: list[Node] = []
        self.other_properties: list[Node] = []
        self.keys: list[Node] = []
        self.positions: list[Node] = []
        self.every_item: list[Node] = []


def build(schema: dict[str, Any]) -> Node:
    """Return the graph of a schema.

    Raises:
        SchemaRefused: it is too large.
    """
    return _Builder(schema).build()


class _Builder:
    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        self._document = _Document(schema)
        self._nodes: dict[int, Node] = {}
        self._waiting: list[tuple[Node, dict[str, Any]]] = []
        self._definitions: set[int] = set()
        self._atoms = 0

    def build(self) -> Node:
        root = self._node(self._schema, "#")
        while self._waiting:
            node, schema = self._waiting.pop()
            self._fill(node, schema)
        return root

    def _node(self, schema: dict[str, Any], place: str) -> Node:
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = Node(place)
            if len(self._nodes) > _MOST_NODES:
                raise SchemaRefused(f"has more than {_MOST_NODES} subschemas")
            self._waiting.append((node, schema))
        return node

    def _all(self, node: Node, schemas: Any) -> list[Node]:
        """Return the nodes of those that are schemas; true and false cost nothing."""
        values = schemas if isinstance(schemas, list) else [schemas]
        return [self._node(each, node.place) for each in values if isinstance(each, dict)]

    def _mapped(self, node: Node, schemas: Any) -> list[Node]:
        return self._all(node, [*schemas.values()]) if isinstance(schemas, dict) else []

    def _fill(self, node: Node, schema: dict[str, Any]) -> None:
        get = schema.get
        for key in _ONE + _SEVERAL:
            node.in_place += self._all(node, get(key))
        for key in _BY_NAME:
            node.in_place += self._mapped(node, get(key))
        self._refer(node, schema)
        if node.in_place and any(isinstance(get(key), dict | bool) for key in _UNEVALUATED):
            # What a branch has evaluated is found out by going through it once more, or twice.
            node.repeats = 3
        named = get("properties")
        if isinstance(named, dict):
            node.named = {
                name: self._node(each, node.place)
                for name, each in named.items()
                if isinstance(each, dict)
            }
        node.every_property = self._mapped(node, get("patternProperties"))
        node.every_property += self._all(node, get("unevaluatedProperties"))
        node.other_properties = self._all(node, get("additionalProperties"))
        node.keys = self._all(node, get("propertyNames"))
        items = get("items")
        before = items if isinstance(items, list) else get("prefixItems")
        node.positions = self._all(node, before) if isinstance(before, list) else []
        node.every_item = self._all(node, items) if isinstance(items, dict) else []
        for key in _EVERY_ITEM:
            node.every_item += self._all(node, get(key))
        self._weigh(node, schema)

    def _refer(self, node: Node, schema: dict[str, Any]) -> None:
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = schema.get(key)
            if not isinstance(reference, str):
                continue
            targets = self._document.find(schema, key, reference)
            self._definitions.update(map(id, targets))
            if len(self._definitions) > _MOST_DEFINITIONS:
                raise SchemaRefused(f"refers to more than {_MOST_DEFINITIONS} definitions")
            node.in_place += [self._node(each, reference[:100]) for each in targets]
            node.reads_all = node.reads_all or reference.startswith(_META_SCHEMAS)

    def _weigh(self, node: Node, schema: dict[str, Any]) -> None:
        by_pattern = schema.get("patternProperties")
        patterns = [*by_pattern] if isinstance(by_pattern, dict) else []
        for text in (schema.get("pattern"), *patterns):
            if isinstance(text, str):
                node.atoms += _atoms(text)
                if _BACKTRACKING.search(text):
                    node.visits += _BACKTRACKING_VISITS
        self._atoms += node.atoms
        if self._atoms > _MOST_PATTERN_ATOMS:
            raise SchemaRefused(f"has patterns of more than {_MOST_PATTERN_ATOMS} atoms in all")
        if schema.get("format") == "regex":
            node.visits += _REGEX_VISITS
        allowed = schema.get("enum")
        if isinstance(allowed, list):
            scalars = sum(not isinstance(each, dict | list) for each in allowed)
            node.visits += scalars // _SCALARS_PER_VISIT
            node.visits += (sum(map(count_values, allowed)) - scalars) * _COMPARISON_VISITS
        node.visits += (count_values(schema.get("const")) - 1) * _COMPARISON_VISITS


class _Document:
    """Finds what references mean."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._resources: dict[str, dict[str, Any]] = {"": schema}
        self._bases: dict[int, str] = {}
        self._anchors: dict[tuple[str, str], dict[str, Any]] = {}
        self._dynamic: dict[str, list[dict[str, Any]]] = {}
        waiting: list[tuple[Any, str]] = [(schema, "")]
        while waiting:
            value, base = waiting.pop()
            if isinstance(value, list):
                waiting += [(each, base) for each in value]
            elif isinstance(value, dict):
                base = self._identify(value, base)
                waiting += [(each, base) for each in value.values()]

    def _identify(self, schema: dict[str, Any], base: str) -> str:
        for key in ("$id", "id"):
            id_ = schema.get(key)
            if isinstance(id_, str):
                resource, _, anchor = id_.partition("#")
                if resource:
                    base = _joined(base, resource)
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

    def find(self, schema: dict[str, Any], key: str, reference: str) -> list[dict[str, Any]]:
        """Return what a reference may mean; nothing where it leads outside or nowhere."""
        resource, _, fragment = reference.partition("#")
        base = self._bases.get(id(schema), "")
        base = _joined(base, resource) if resource else base
        if key == "$recursiveRef":
            return [*self._resources.values()]
        found = self._point(base, unquote(fragment))
        several = self._dynamic.get(fragment, []) if key == "$dynamicRef" else []
        return [*several, *([found] if isinstance(found, dict) and found not in several else [])]

    def _point(self, base: str, fragment: str) -> Any:
        value: Any = self._resources.get(base)
        if not fragment.startswith("/"):
            return self._anchors.get((base, fragment)) if fragment else value
        for part in fragment[1:].split("/"):
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict):
                value = value.get(part)
            elif isinstance(value, list) and part.isdecimal() and int(part[:6]) < len(value):
                value = value[int(part[:6])]
            else:
                return None
        return value


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:  # what is no URI is the validator's to refuse
        return reference


def count_values(value: Any) -> int:
    """Count a value and all that it holds."""
    count, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        count += 1
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return count


def _atoms(pattern: str) -> int:
    """Count the parts of a pattern, as often as they are repeated by a number."""
    groups: list[list[int]] = [[]]
    for part in _PART.findall(pattern):
        if part == "(":
            groups.append([])
        elif part == ")" and len(groups) > 1:
            inner = sum(groups.pop())
            groups[-1].append(inner)
        elif len(part) > 1 and part[0] == "{" and groups[-1]:
            times = max(int(each[:9]) for each in part[1:-1].split(",") if each)
            groups[-1][-1] = min(groups[-1][-1] * max(times, 1), _MOST_PATTERN_ATOMS + 1)
        else:
            groups[-1].append(1)
    return sum(map(sum, groups))
