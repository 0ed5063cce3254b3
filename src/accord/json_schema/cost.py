"""The cost of validation, estimated before a validator runs: it cannot be stopped.

A validator walks a schema as a tree. References turn a graph into a tree, and a graph of a few
lines can be a tree without end. The estimate counts visits: how often a value meets a subschema.

- References that lead back to themselves without taking the value apart are refused, and so are
  schemas under which one value alone takes too many visits.
- Where every value of an instance is met by a bounded number of subschemas, the size of the
  instance decides.
- Otherwise each instance is walked through, counting, and refused where there are too many visits.

A schema is read as a graph for this: which parts of it apply to the same value, and which to a part
of the value. The keywords of all dialects count, whichever the schema names: too many edges cost
little, too few would hide the cost of a validator. Patterns are assumed to match every name.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Final

import msgspec

from accord.json_schema.reader import SchemaDocument, reachable
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

# A visit takes 20 to 200 ns, so this is a second or two.
_MOST_VISITS: Final = 10_000_000
_MOST_VISITS_PER_VALUE: Final = 1_000_000
# An atom of a pattern takes up to 10 ns for a character, most take less than one.
_MOST_READING: Final = 200_000_000
# Times the 255 levels that an instance may have, this is what a stack holds.
_MOST_DEPTH: Final = 64
# A meta-schema looks at one value of a schema with about as many subschemas.
_META_VISITS: Final = 50
# Steps of the estimate itself, which take up to a microsecond.
_MOST_STEPS: Final = 1_000_000
_MOST_STEPS_AT_FIRST: Final = 100_000

_PART: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\{\d+(?:,\d*)?\}|.", re.DOTALL)
_BACKTRACKING: Final = re.compile(r"\(\?<?[=!]|\\[1-9]|\\k|\(\?P=|\(\?>|[*+?}]\+")
_KEYS: Final = object()
_in_place: Final = attrgetter("in_place")
_number: Final = attrgetter("number")


class SchemaRefused(ValueError):
    """Validating against the schema could take for ever, or overflow the stack."""


class Node(msgspec.Struct, eq=False):
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

    place: str
    visits: int = 1
    atoms: int = 0
    repeats: int = 1
    number: int = 0
    reads_all: bool = False
    in_place: list["Node"] = []
    named: dict[str, "Node"] = {}
    every_property: list["Node"] = []
    other_properties: list["Node"] = []
    keys: list["Node"] = []
    positions: list["Node"] = []
    every_item: list["Node"] = []

    def for_member(self, name: str | None) -> Iterable["Node"]:
        """Return the subschemas of a member; None is a name that no schema mentions."""
        if name in self.named:
            return [*self.every_property, self.named[name]]
        return [*self.every_property, *self.other_properties]

    def for_item(self, index: int) -> Iterable["Node"]:
        """Return the subschemas of an item."""
        return [*self.every_item, *self.positions[index : index + 1]]


class _GraphBuilder:
    """Makes the graph of a schema; refuses one that is too large."""

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._document = SchemaDocument(schema)
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


Counts = dict[Node, int]
"""How often a value meets each of some subschemas, before those in place of them are added."""


class Cost:
    """The cost of validating against one schema.

    Args:
        schema: the schema; true and false cost nothing.

    Raises:
        SchemaRefused: it costs too much for any instance.
    """

    def __init__(self, schema: object) -> None:
        self._root = _GraphBuilder(schema).build() if isinstance(schema, dict) else Node("#")
        _check_in_place(self._root)
        # Of any one value: visits, and atoms that read it. None where it depends on the instance.
        self._per_value = _per_value(self._root)

    def excess(self, instance: object, *, most: int = _MOST_VISITS) -> str | None:
        """Say why an instance takes too long to validate; None if it does not.

        Args:
            instance: the value.
            most: how many visits are not too many.
        """
        if self._per_value is not None:
            visits, atoms = self._per_value
            values, size = _measure(instance, most // visits)
            if values * visits <= most and size * atoms <= _MOST_READING:
                return None
        return _walk(self._root, instance, most)


def _measure(instance: object, enough: int) -> tuple[int, int]:
    """Return how many values an instance has at most, and its size."""
    try:
        text = msgspec.json.encode(instance)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _MOST_VISITS + 1, _MOST_READING + 1
    values = len(text) // 2 + 1
    if values > enough:
        values = text.count(b",") + text.count(b"[") + text.count(b"{") + 1
    return values, len(text)


def _check_in_place(root: Node) -> None:
    """Number the nodes so that each comes before those that apply to the same value.

    Raises:
        SchemaRefused: the references form a circle, or a node costs too much by itself.
    """
    weights: dict[Node, tuple[int, int]] = {}
    for start in reachable([root], _parts):
        path = [(start, iter(start.in_place))] if start not in weights else []
        on_path = {start}
        while path:
            node, rest = path[-1]
            following = next(rest, None)
            if following is None:
                weights[node] = _weigh(node, weights)
                node.number = -len(weights)
                on_path.discard(node)
                path.pop()
            elif following in on_path:
                raise SchemaRefused(
                    f"the reference {following.place!r} leads back to itself and takes no part "
                    "of the value on the way"
                )
            elif following not in weights:
                on_path.add(following)
                path.append((following, iter(following.in_place)))


def _weigh(node: Node, weights: dict[Node, tuple[int, int]]) -> tuple[int, int]:
    """Return visits and depth of the subschemas that apply to one value."""
    inner = [weights[each] for each in node.in_place]
    visits = node.visits + node.repeats * sum(each for each, _ in inner)
    depth = 1 + max((depth for _, depth in inner), default=0)
    if visits > _MOST_VISITS_PER_VALUE:
        raise SchemaRefused(
            f"its references expand to more than {_MOST_VISITS_PER_VALUE} subschemas that apply to "
            f"one value, at {node.place!r}"
        )
    if depth > _MOST_DEPTH:
        raise SchemaRefused(
            f"more than {_MOST_DEPTH} subschemas apply to one value, each within the one before, "
            f"at {node.place!r}"
        )
    return visits, depth


def _parts(node: Node) -> Iterator[Node]:
    """Yield the subschemas of a subschema, whichever value they apply to."""
    yield from node.in_place
    yield from node.named.values()
    yield from node.every_property
    yield from node.other_properties
    yield from node.keys
    yield from node.positions
    yield from node.every_item


class _States:
    """The states of values, by the states of the values around them; each is made once."""

    def __init__(self, root: Node) -> None:
        self._known: dict[frozenset[tuple[Node, int]], _State] = {}
        self.steps = 0
        self.root = self._of({root: 1})

    def _of(self, counts: Counts) -> "_State":
        key = frozenset(counts.items())
        state = self._known.get(key)
        if state is None:
            state = self._known[key] = _State(counts)
            self.steps += len(state.counts) + state.edges
        self.steps += len(counts)
        return state

    def member(self, state: "_State", name: str | None) -> "_State":
        """Return the state of a member of an object; None is a name that no schema mentions."""
        name = name if name in state.names else None
        return state.parts.get(name) or self._add(state, name, lambda node: node.for_member(name))

    def item(self, state: "_State", index: int) -> "_State":
        """Return the state of an item of an array."""
        index = min(index, state.positions)
        return state.parts.get(index) or self._add(state, index, lambda node: node.for_item(index))

    def key(self, state: "_State") -> "_State":
        """Return the state of each name in an object."""
        return state.parts.get(_KEYS) or self._add(state, _KEYS, lambda node: node.keys)

    def _add(
        self, state: "_State", part: object, subschemas: Callable[[Node], Iterable[Node]]
    ) -> "_State":
        met: Counts = {}
        for node, count in state.counts.items():
            for each in subschemas(node):
                met[each] = met.get(each, 0) + count
        made = state.parts[part] = self._of(met)
        return made


class _State:
    """The subschemas that one value meets, and their cost."""

    def __init__(self, counts: Counts) -> None:
        self.counts = dict(counts)
        self.visits = self.reads = self.whole = self.edges = 0
        # Validators repeat subschemas of the same value, but not those of its parts.
        repeated = dict(counts)
        for node in sorted(reachable(counts, _in_place), key=_number):
            once, often = self.counts[node], repeated[node]
            self.visits += often * node.visits
            self.reads += often * (1 + node.atoms)
            self.whole += often * node.reads_all
            self.edges += len(node.in_place)
            for each in node.in_place:
                self.counts[each] = self.counts.get(each, 0) + once
                repeated[each] = repeated.get(each, 0) + often * node.repeats
        self.names = {name for node in self.counts for name in node.named}
        self.positions = max((len(node.positions) for node in self.counts), default=0)
        # By name of a member, index of an item, or _KEYS.
        self.parts: dict[object, _State] = {}


def _per_value(root: Node) -> tuple[int, int] | None:
    """Return the most visits and atoms that any value may take; None if they are unbounded."""
    states = _States(root)
    known = {states.root}
    waiting = [states.root]
    visits = reads = 1
    while waiting:
        state = waiting.pop()
        is_large = states.steps > _MOST_STEPS_AT_FIRST or state.visits > _MOST_VISITS_PER_VALUE
        if is_large or state.whole:
            return None
        visits, reads = max(visits, state.visits), max(reads, state.reads)
        following = {states.key(state), states.member(state, None)}
        following.update(states.member(state, name) for name in state.names)
        following.update(states.item(state, index) for index in range(state.positions + 1))
        waiting += following - known
        known |= following
    return visits, reads


def _walk(root: Node, instance: object, most: int) -> str | None:
    """Count the visits of one instance; say why they are too many, None if they are not."""
    states = _States(root)
    visits = reading = values = 0
    waiting: list[tuple[object, _State]] = [(instance, states.root)]
    while waiting:
        value, state = waiting.pop()
        values += 1
        visits += state.visits
        reading += state.reads * _characters(value)
        if state.whole:
            visits += state.whole * _META_VISITS * count_values(value)
        parts = len(value) if isinstance(value, dict | list | tuple) else 0
        is_long = visits > most or reading > _MOST_READING
        if is_long or values + len(waiting) + parts + states.steps > _MOST_STEPS:
            return "the schema and the size of the value make it take too long"
        if isinstance(value, dict):
            names = states.key(state)
            met = [(each, states.member(state, key)) for key, each in value.items()]
            met += [(key, names) for key in value]
        elif isinstance(value, list | tuple):
            met = [(each, states.item(state, index)) for index, each in enumerate(value)]
        else:
            continue
        waiting += [(each, state) for each, state in met if state.visits]
    return None


def _characters(value: object) -> int:
    """Return how many characters of a value are matched against patterns."""
    if isinstance(value, dict):
        return sum(len(key) for key in value if isinstance(key, str))
    return len(value) if isinstance(value, str) else 0
