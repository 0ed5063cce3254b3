"""Registries: order, unique keys, announced changes, and changes from several threads."""

import doctest
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from accord.errors import RegistrationError
from accord.server.entries import entry as module
from accord.server.entries.entry import EntryKind, FunctionEntry, source_location
from accord.server.entries.registry import Registry
from support.tables import cases


def first() -> None: ...


def second() -> None: ...


class Entry(FunctionEntry, frozen=True):
    key: str
    kind: EntryKind = "tools"
    function: Callable[..., Any] = first
    signature: Any = None
    item: Any = None


def filled(*keys: str) -> Registry:
    registry: Registry = Registry("tool")
    for key in keys:
        registry.add(Entry(key))
    return registry


def keys(registry: Registry) -> list[str]:
    return [entry.key for entry in registry]


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(module).failed == 0


def test_entries_are_found_by_key_and_come_in_order_of_registration() -> None:
    registry = filled("b", "a", "c")
    found = registry.get("a")
    assert found is not None
    assert found.key == "a"
    assert registry.get("d") is None
    assert keys(registry) == ["b", "a", "c"]
    assert len(registry) == 3


@pytest.mark.requirement("tools.name.unique")
def test_a_key_that_is_taken_is_refused_and_both_places_are_named() -> None:
    registry = filled()
    registry.add(Entry("add", function=first))
    with pytest.raises(RegistrationError) as caught:
        registry.add(Entry("add", function=second))
    message = str(caught.value)
    assert "tool 'add'" in message
    assert f"{__file__}:{first.__code__.co_firstlineno}" in message
    assert f"{__file__}:{second.__code__.co_firstlineno}" in message
    found = registry.get("add")
    assert found is not None
    assert found.function is first


@pytest.mark.requirement("tools.name.case-sensitive")
def test_keys_that_differ_in_case_are_two() -> None:
    assert keys(filled("add", "Add")) == ["add", "Add"]


def test_a_replacement_takes_the_place_of_the_old_entry() -> None:
    registry = filled("a", "b", "c")
    numbers = [number for number, _ in registry.snapshot()]
    registry.add(Entry("b", function=second), replace=True)
    found = registry.get("b")
    assert found is not None
    assert found.function is second
    assert keys(registry) == ["a", "b", "c"]
    assert [number for number, _ in registry.snapshot()] == numbers


def test_replace_registers_an_entry_that_did_not_exist() -> None:
    registry = filled("a")
    registry.add(Entry("b"), replace=True)
    assert keys(registry) == ["a", "b"]


def test_a_replacement_of_a_disabled_entry_stays_disabled() -> None:
    registry = filled("a")
    registry.disable("a")
    registry.add(Entry("a", function=second), replace=True)
    assert registry.get("a") is None
    registry.enable("a")
    found = registry.get("a")
    assert found is not None
    assert found.function is second


def test_a_removed_entry_is_gone_and_its_key_is_free() -> None:
    registry = filled("a", "b")
    assert registry.remove("a").key == "a"
    assert registry.get("a") is None
    assert "a" not in registry
    registry.add(Entry("a"))
    assert keys(registry) == ["b", "a"]


def test_numbers_are_never_used_again() -> None:
    registry = filled("a", "b")
    (_, (last, _)) = registry.snapshot()
    registry.remove("b")
    registry.add(Entry("b"))
    assert registry.snapshot()[-1][0] > last


def test_a_disabled_entry_is_hidden_but_keeps_its_key_and_its_place() -> None:
    registry = filled("a", "b", "c")
    registry.disable("b")
    assert registry.get("b") is None
    assert keys(registry) == ["a", "c"]
    assert len(registry) == 2
    assert "b" in registry
    assert not registry.is_enabled("b")
    with pytest.raises(RegistrationError):
        registry.add(Entry("b"))
    registry.enable("b")
    assert registry.is_enabled("b")
    assert keys(registry) == ["a", "b", "c"]


@cases("operation", ["remove", "enable", "disable", "is_enabled"])
def test_changing_an_unknown_entry_raises_a_key_error(operation: str) -> None:
    registry = filled("a")
    with pytest.raises(KeyError, match="no tool is registered as 'x'"):
        getattr(registry, operation)("x")


def test_nothing_is_switched_when_one_of_several_does_not_exist() -> None:
    registry = filled("a", "b")
    with pytest.raises(KeyError):
        registry.disable("a", "x")
    assert keys(registry) == ["a", "b"]


def test_every_visible_change_is_announced_once_and_counted() -> None:
    registry = filled("a", "b")
    reported: list[int] = []
    registry.changed = lambda: reported.append(registry.generation)
    start = registry.generation
    registry.add(Entry("c"))
    registry.add(Entry("c"), replace=True)
    registry.disable("a", "b")
    registry.enable("a")
    registry.remove("c")
    assert reported == [start + 1, start + 2, start + 3, start + 4, start + 5]


def test_invisible_changes_are_not_announced() -> None:
    registry = filled("a", "b")
    registry.disable("a")
    reported: list[int] = []
    registry.changed = lambda: reported.append(1)
    generation = registry.generation
    registry.disable("a")
    registry.enable("b")
    registry.disable()
    registry.add(Entry("a", function=second), replace=True)
    registry.remove("a")
    with pytest.raises(RegistrationError):
        registry.add(Entry("b"))
    assert reported == []
    assert registry.generation == generation


def test_the_hook_may_use_the_registry() -> None:
    seen: list[list[str]] = []
    registry: Registry = Registry("tool", changed=lambda: seen.append(keys(registry)))
    registry.add(Entry("a"))
    registry.add(Entry("b"))
    assert seen == [["a"], ["a", "b"]]


def test_iterating_is_not_disturbed_by_changes() -> None:
    registry = filled("a", "b", "c")
    seen = []
    for entry in registry:
        registry.remove(entry.key)
        seen.append(entry.key)
    assert seen == ["a", "b", "c"]
    assert len(registry) == 0


def test_a_snapshot_is_kept_until_something_changes() -> None:
    registry = filled("a")
    snapshot = registry.snapshot()
    assert registry.snapshot() is snapshot
    registry.add(Entry("b"))
    assert registry.snapshot() is not snapshot
    assert [entry.key for _, entry in snapshot] == ["a"]


def test_threads_may_change_a_registry_at_the_same_time() -> None:
    reported: list[None] = []
    registry: Registry = Registry("tool", changed=lambda: reported.append(None))

    def work(worker: int) -> None:
        for at in range(100):
            key = f"{worker}.{at}"
            registry.add(Entry(key))
            registry.snapshot()
            registry.disable(key)
            registry.enable(key)
            if at % 2:
                registry.remove(key)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(registry) == 8 * 50
    assert registry.generation == len(reported) == 8 * (300 + 50)
    numbers = [number for number, _ in registry.snapshot()]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 400


class Thing:
    def method(self) -> None: ...

    def __call__(self) -> None: ...


@functools.wraps(second)
def decorated() -> None: ...


LINE = second.__code__.co_firstlineno
HERE = f"{__file__}:{LINE}"


@cases(
    ("thing", "place"),
    [
        (second, HERE),
        (decorated, HERE),
        (functools.partial(second), HERE),
        (functools.partial(decorated), HERE),
        (Thing().method, f"{__file__}:{Thing.method.__code__.co_firstlineno}"),
        (Thing(), f"{__name__}.Thing"),
        (Thing, f"{__name__}.Thing"),
    ],
    ids=["function", "decorated", "partial", "both", "method", "object", "class"],
)
def test_the_place_of_a_function_is_its_line_or_its_name(thing: Any, place: str) -> None:
    assert source_location(thing) == place
