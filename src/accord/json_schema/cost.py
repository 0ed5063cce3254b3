"""The cost of validation, estimated before a validator runs: it cannot be stopped.

A validator walks a schema as a tree. References turn a graph into a tree, and a graph of a few
lines can be a tree without end. The estimate counts visits: how often a value meets a subschema.

- References that lead back to themselves without taking the value apart are refused, and so are
  schemas under which one value alone takes too many visits.
- Where every value of an instance is met by a bounded number of subschemas, the size of the
  instance decides.
- Otherwise each instance is walked through, counting, and refused where there are too many visits.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from accord.json_schema.graph import Node, SchemaRefused, build_graph, count_values

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
        self._root = build_graph(schema) if isinstance(schema, dict) else Node("#")
        _check_in_place(self._root)
        # Of any one value: visits, and atoms that read it. None where it depends on the instance.
        self._per_value = _per_value(self._root)

    def excess(self, instance: object) -> str | None:
        """Say why an instance takes too long to validate; None if it does not."""
        if self._per_value is not None:
            visits, atoms = self._per_value
            values, size = _measure(instance, _MOST_VISITS // visits)
            if values * visits <= _MOST_VISITS and size * atoms <= _MOST_READING:
                return None
        return _walk(self._root, instance)


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
    for start in _reachable(root):
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


def _reachable(root: Node) -> list[Node]:
    found = {root: None}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        several = (
            node.in_place,
            node.named.values(),
            node.every_property,
            node.other_properties,
            node.keys,
            node.positions,
            node.every_item,
        )
        for each in several:
            for following in each:
                if following not in found:
                    found[following] = None
                    waiting.append(following)
    return list(found)


class _States:
    """The states of values, by the states of the values around them; each is made once."""

    def __init__(self, root: Node) -> None:
        self._known: dict[frozenset[tuple[Node, int]], _State] = {}
        self.steps = 0
        self.root = self.of({root: 1})

    def of(self, counts: Counts) -> "_State":
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
        met = state.members.get(name)
        if met is None:
            met = state.members[name] = self.of(_member(state.counts, name))
        return met

    def item(self, state: "_State", index: int) -> "_State":
        """Return the state of an item of an array."""
        index = min(index, state.positions)
        met = state.items.get(index)
        if met is None:
            met = state.items[index] = self.of(_item(state.counts, index))
        return met

    def key(self, state: "_State") -> "_State":
        """Return the state of each name in an object."""
        if state.keys is None:
            keys: Counts = {}
            for node, count in state.counts.items():
                _add(keys, node.keys, count)
            state.keys = self.of(keys)
        return state.keys


class _State:
    """The subschemas that one value meets, and their cost."""

    __slots__ = (
        "counts",
        "edges",
        "items",
        "keys",
        "members",
        "names",
        "positions",
        "reads",
        "visits",
        "whole",
    )

    def __init__(self, counts: Counts) -> None:
        self.counts = dict(counts)
        self.visits = self.reads = self.whole = self.edges = 0
        # Validators repeat subschemas of the same value, but not those of its parts.
        repeated = dict(counts)
        for node in _in_order(counts):
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
        self.members: dict[str | None, _State] = {}
        self.items: dict[int, _State] = {}
        self.keys: _State | None = None


def _in_order(nodes: Iterable[Node]) -> list[Node]:
    """Return nodes and those that apply to the same value, in the order of their numbers."""
    found = set(nodes)
    waiting = list(found)
    while waiting:
        following = [each for each in waiting.pop().in_place if each not in found]
        found.update(following)
        waiting += following
    return sorted(found, key=lambda node: node.number)


def _member(counts: Counts, name: str | None) -> Counts:
    met: Counts = {}
    for node, count in counts.items():
        _add(met, node.every_property, count)
        if name in node.named:
            _add(met, [node.named[name]], count)
        else:
            _add(met, node.other_properties, count)
    return met


def _item(counts: Counts, index: int) -> Counts:
    met: Counts = {}
    for node, count in counts.items():
        _add(met, node.every_item, count)
        _add(met, node.positions[index : index + 1], count)
    return met


def _add(met: Counts, nodes: list[Node], count: int) -> None:
    for node in nodes:
        met[node] = met.get(node, 0) + count


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


def _walk(root: Node, instance: object) -> str | None:
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
        is_long = visits > _MOST_VISITS or reading > _MOST_READING
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
