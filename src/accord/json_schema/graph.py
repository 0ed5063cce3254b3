"""A schema as a graph: which parts of it apply to the same value, and which to a part of the value.

The keywords of all dialects count, whichever the schema names: too many edges cost little, too few
would hide the cost of a validator. Patterns are assumed to match every name.
"""

import re
from typing import Final

from accord.json_schema.reader import Document
from accord.types import JsonObject

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
# Keywords that take longer than a visit of about 50 ns count as several.
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
        visits: the cost of one value, without the subschemas.
        atoms: how many parts its pattern has, each of which may read each character.
        in_place: the subschemas of the same value.
        repeats: how often a validator goes through `in_place`.
        named, every_property, other_properties, keys: the subschemas of an object's members.
        positions, every_item: the subschemas of an array's items.
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


def build_graph(schema: JsonObject) -> Node:
    """Return the graph of a schema.

    Raises:
        SchemaRefused: it is too large.
    """
    return _GraphBuilder(schema).build()


class _GraphBuilder:
    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._document = Document(schema)
        self._nodes: dict[int, Node] = {}
        self._waiting: list[tuple[Node, JsonObject]] = []
        self._definitions: set[int] = set()
        self._atoms = 0

    def build(self) -> Node:
        root = self._node(self._schema, "#")
        while self._waiting:
            node, schema = self._waiting.pop()
            self._fill(node, schema)
        return root

    def _node(self, schema: JsonObject, place: str) -> Node:
        node = self._nodes.get(id(schema))
        if node is None:
            node = self._nodes[id(schema)] = Node(place)
            if len(self._nodes) > _MOST_NODES:
                raise SchemaRefused(f"has more than {_MOST_NODES} subschemas")
            self._waiting.append((node, schema))
        return node

    def _nodes_of(self, node: Node, schemas: object) -> list[Node]:
        """Return the nodes of those that are schemas; true and false cost nothing."""
        values = schemas if isinstance(schemas, list) else [schemas]
        return [self._node(each, node.place) for each in values if isinstance(each, dict)]

    def _nodes_of_values(self, node: Node, schemas: object) -> list[Node]:
        return self._nodes_of(node, [*schemas.values()]) if isinstance(schemas, dict) else []

    def _fill(self, node: Node, schema: JsonObject) -> None:
        get = schema.get
        for key in _ONE + _SEVERAL:
            node.in_place += self._nodes_of(node, get(key))
        for key in _BY_NAME:
            node.in_place += self._nodes_of_values(node, get(key))
        self._add_references(node, schema)
        if node.in_place and any(isinstance(get(key), dict | bool) for key in _UNEVALUATED):
            # A validator walks a branch once or twice more to find what it has evaluated.
            node.repeats = 3
        named = get("properties")
        if isinstance(named, dict):
            node.named = {
                name: self._node(each, node.place)
                for name, each in named.items()
                if isinstance(each, dict)
            }
        node.every_property = self._nodes_of_values(node, get("patternProperties"))
        node.every_property += self._nodes_of(node, get("unevaluatedProperties"))
        node.other_properties = self._nodes_of(node, get("additionalProperties"))
        node.keys = self._nodes_of(node, get("propertyNames"))
        items = get("items")
        before = items if isinstance(items, list) else get("prefixItems")
        node.positions = self._nodes_of(node, before) if isinstance(before, list) else []
        node.every_item = self._nodes_of(node, items) if isinstance(items, dict) else []
        for key in _EVERY_ITEM:
            node.every_item += self._nodes_of(node, get(key))
        self._weigh(node, schema)

    def _add_references(self, node: Node, schema: JsonObject) -> None:
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

    def _weigh(self, node: Node, schema: JsonObject) -> None:
        by_pattern = schema.get("patternProperties")
        patterns = [*by_pattern] if isinstance(by_pattern, dict) else []
        for text in (schema.get("pattern"), *patterns):
            if isinstance(text, str):
                node.atoms += _count_atoms(text)
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


def count_values(value: object) -> int:
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


def _count_atoms(pattern: str) -> int:
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
