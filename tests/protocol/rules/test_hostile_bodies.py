"""No rule raises on a body of the wrong shape, whatever value is in whatever place."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from importlib import import_module
from itertools import cycle
from typing import Any

import pytest

from accord.protocol.catalogue import catalogue
from accord.protocol.revisions import REVISIONS
from protocol.rules.test_pairs import AREAS
from support.traces import Pair, Said, judge

HOSTILE = (None, True, -1, 1.5, 10**30, "", "\x00ü", [], [[]], [None], {}, {"": {}}, {"type": []})

TIMES = 1  # in each place of a message that several pairs have


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(inner, (*path, key))


def _replace(value: Any, path: tuple[Any, ...], hostile: Any) -> Any:
    if not path:
        return hostile
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _replace(value[path[0]], path[1:], hostile)
    return copy


def _corrupt(said: list[Said], values: Iterator[Any], tried: Counter[Any]) -> Iterator[list[Said]]:
    for index, each in enumerate(said):
        text = json.dumps(each.message, sort_keys=True)
        for path in _places(each.message):
            tried[text, path] += 1
            if path[0] in ("params", "result", "error") and tried[text, path] <= TIMES:
                message = _replace(each.message, path, next(values))
                bare = len(path) == 1 or path[-1] == "_meta"
                yield [*said[:index], Said(each.sender, message, bare=bare), *said[index + 1 :]]


@pytest.mark.parametrize("area", AREAS)
def test_no_rule_raises(area: str) -> None:
    rows = catalogue()
    # Many pairs have the same messages.
    tried: dict[str, Counter[Any]] = defaultdict(Counter)
    for number, pair in enumerate(_pairs_of(area)):
        revisions = [
            id for id in pair.revisions or REVISIONS if rows[pair.requirement].holds_in(id)
        ]
        if not revisions:
            continue
        values = cycle(HOSTILE[number % len(HOSTILE) :] + HOSTILE[: number % len(HOSTILE)])
        for said in _corrupt(list(pair.legal), values, tried[revisions[-1]]):
            judge(said, revisions[-1], client=pair.client, server=pair.server, opened=pair.opened)
    assert tried


def _pairs_of(area: str) -> list[Pair]:
    return list(import_module(f"protocol.rules.pairs.{area}").PAIRS)
