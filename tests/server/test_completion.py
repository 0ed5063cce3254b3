"""Completion: completers, suggestions without one, and how many values are sent."""

import asyncio
import doctest
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Literal

import pytest

from accord.errors import InvalidParams, RegistrationError
from accord.server.entries import completion as module
from accord.server.entries.completion import Completions, match_values, trim
from accord.server.entries.prompts import build_prompt
from accord.server.entries.registry import Registry, Resources
from accord.server.entries.resources import build_resource
from accord.server.schema.signature import inspect
from accord.types import Completion, PromptReference, ResourceTemplateReference
from support.tables import cases


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Level(Enum):
    ONE = 1
    TWO = 2


def order(
    dish: str,
    size: Size = Size.SMALL,
    level: Level | None = None,
    way: Literal["fried", "boiled", "Frozen"] = "fried",
    hot: bool = False,
    count: int = 1,
    mixed: Literal["a", 1, None] | Size = "a",  # noqa: PYI061
) -> str:
    return dish


def row(table: Literal["users", "orders"], id: int) -> str:
    return table


@pytest.fixture
def completions() -> Completions:
    prompts: Registry = Registry("prompt")
    prompts.add(build_prompt(order, signature=inspect(order)))
    resources = Resources()
    resources.add(build_resource("db://{table}/{id}", row, signature=inspect(row)))
    resources.add(build_resource("db://all", lambda: "", signature=inspect(lambda: "")))
    return Completions(prompts, resources)


def ask(
    completions: Completions, argument: str, typed: str = "", known: Mapping[str, str] = {}
) -> Any:
    return completions.find(completions.entry_of(PromptReference("order")), argument)(typed, known)


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(module).failed == 0


# -- without a completer


@pytest.mark.requirement("completion.result.values")
@pytest.mark.parametrize(
    ("argument", "typed", "expected"),
    [
        ("size", "", ["small", "large"]),
        ("size", "l", ["large", "small"]),
        ("size", "LA", ["large"]),
        ("size", "x", []),
        ("level", "", ["1", "2"]),
        ("way", "fr", ["fried", "Frozen"]),
        ("way", "oi", ["boiled"]),
        ("hot", "", ["true", "false"]),
        ("hot", "t", ["true"]),
        ("mixed", "", ["a", "1", "small", "large"]),
        ("count", "", []),
        ("dish", "", []),
    ],
)
def test_arguments_with_few_values_need_no_completer(
    completions: Completions, argument: str, typed: str, expected: list[str]
) -> None:
    assert ask(completions, argument, typed) == expected


def test_variables_with_few_values_need_no_completer(completions: Completions) -> None:
    ref = ResourceTemplateReference("db://{table}/{id}")
    assert completions.find(completions.entry_of(ref), "table")("o", {}) == ["orders"]
    assert completions.find(completions.entry_of(ref), "id")("", {}) == []


def test_a_template_may_be_named_by_a_uri_that_it_makes(completions: Completions) -> None:
    ref = ResourceTemplateReference("db://users/1")
    assert completions.find(completions.entry_of(ref), "table")("u", {}) == ["users"]


@pytest.mark.requirement("completion.server.care")
@cases(
    ("typed", "expected"),
    [
        ("", ["Anna", "Hannah", "ANNE", "Bob"]),
        ("an", ["Anna", "ANNE", "Hannah"]),
        ("AN", ["Anna", "ANNE", "Hannah"]),
        ("ann", ["Anna", "ANNE", "Hannah"]),
        ("nn", ["Anna", "Hannah", "ANNE"]),
        ("zz", []),
    ],
)
def test_values_that_begin_with_the_text_precede_those_that_contain_it(
    typed: str, expected: list[str]
) -> None:
    assert match_values(["Anna", "Hannah", "ANNE", "Bob"], typed) == expected


# -- with a source


class Named:
    def __call__(self, typed: str, known: Mapping[str, str]) -> list[str]:
        return [typed, *known.values()]


@pytest.mark.requirement("completion.request.context")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (lambda typed, known: [typed, known["a"]], ["t", "known"]),
        (lambda typed: [typed], ["t"]),
        (lambda typed, known=None: [typed, known["a"]], ["t", "known"]),
        (lambda *args: [args[0], args[1]["a"]], ["t", "known"]),
        (Named(), ["t", "known"]),
        (Named().__call__, ["t", "known"]),
        (["two", "three", "four"], ["two", "three"]),
        (("two", "three", "four"), ["two", "three"]),
        (Size, []),
        (Literal["two", "x"], ["two"]),
    ],
)
def test_a_source_is_a_function_or_the_values(
    completions: Completions, source: Any, expected: list[str]
) -> None:
    completions.add("order", "dish", source)
    assert ask(completions, "dish", "t", {"a": "known"}) == expected


def test_an_enum_suggests_its_values(completions: Completions) -> None:
    completions.add("order", "dish", Level)
    assert ask(completions, "dish", "") == ["1", "2"]


def test_a_registered_completer_takes_precedence_over_the_type(completions: Completions) -> None:
    completions.add("order", "size", ["huge"])
    assert ask(completions, "size", "") == ["huge"]


def test_an_async_completer_returns_an_awaitable(completions: Completions) -> None:
    async def both(typed: str, known: Mapping[str, str]) -> list[str]:
        return [typed]

    async def one(typed: str) -> list[str]:
        return [typed]

    for function in (both, one):
        completions.add("order", "dish", function)
        waiting = ask(completions, "dish", "t")
        assert asyncio.iscoroutine(waiting)
        assert asyncio.run(waiting) == ["t"]


def test_variables_of_templates_have_sources_of_their_own(completions: Completions) -> None:
    completions.add("db://{table}/{id}", "id", ["1", "2"])
    ref = ResourceTemplateReference("db://{table}/{id}")
    assert completions.find(completions.entry_of(ref), "id")("", {}) == ["1", "2"]
    assert completions.find(completions.entry_of(ref), "table")("", {}) == ["users", "orders"]


@pytest.mark.parametrize(
    ("register", "why"),
    [
        (lambda c: c.add("gone", "a", []), "prompt 'gone' .* not registered yet"),
        (lambda c: c.add("x://{gone}", "gone", []), "template .* not registered yet"),
        (lambda c: c.add("db://all", "a", []), "not registered yet"),
        (lambda c: c.add("order", "sauce", []), "has no argument 'sauce' .* has 'dish',"),
        (lambda c: c.add("db://{table}/{id}", "x", []), "no argument 'x'"),
        (lambda c: c.add("order", "dish", "soup"), "expected a list of texts"),
        (lambda c: c.add("order", "dish", [1, 2]), "expected a list of texts"),
        (lambda c: c.add("order", "dish", lambda: ["a"]), "cannot be called with"),
        (lambda c: c.add("order", "dish", lambda a, b, c: []), "cannot be called with"),
    ],
)
def test_mistakes_are_reported_at_registration(
    completions: Completions, register: Callable[[Completions], None], why: str
) -> None:
    with pytest.raises(RegistrationError, match=why):
        register(completions)


def test_a_built_in_function_without_a_signature_is_accepted(
    completions: Completions,
) -> None:
    completions.add("order", "dish", max)
    assert ask(completions, "dish", "b", "a") == "b"  # type: ignore[arg-type]


# -- references


@pytest.mark.requirement("completion.errors.codes", "completion.ref.types")
@pytest.mark.parametrize(
    ("ref", "argument"),
    [
        (PromptReference("gone"), "dish"),
        (PromptReference("order"), "sauce"),
        (PromptReference(""), ""),
        (ResourceTemplateReference("db://{gone}"), "gone"),
        (ResourceTemplateReference("db://{table}/{id}"), "name"),
        (ResourceTemplateReference("db://all"), "table"),
        (ResourceTemplateReference("order"), "dish"),
        (PromptReference("db://{table}/{id}"), "table"),
    ],
)
def test_an_unknown_reference_is_invalid(
    completions: Completions, ref: PromptReference | ResourceTemplateReference, argument: str
) -> None:
    with pytest.raises(InvalidParams) as caught:
        completions.find(completions.entry_of(ref), argument)
    assert caught.value.code == -32602


def test_a_disabled_prompt_is_not_completed(completions: Completions) -> None:
    completions.add("order", "dish", ["soup"])
    completions._prompts.disable("order")
    with pytest.raises(InvalidParams):
        ask(completions, "dish")
    completions.add("order", "dish", ["cake"])
    completions._prompts.enable("order")
    assert ask(completions, "dish") == ["cake"]


# -- how much is sent


@pytest.mark.requirement(
    "completion.result.max-100",
    "completion.values-max-100",
    "completion.result.total-and-has-more",
)
@cases(
    ("count", "kept", "has_more"),
    [(0, 0, False), (1, 1, False), (100, 100, False), (101, 100, True), (5000, 100, True)],
)
def test_at_most_100_values_are_sent_with_their_total(
    count: int, kept: int, has_more: bool
) -> None:
    values = [str(at) for at in range(count)]
    assert trim(values) == Completion(values=values[:kept], total=count, has_more=has_more)
    assert trim(value for value in values) == trim(values)


@cases(
    ("given", "expected"),
    [
        (Completion(["a"]), Completion(["a"], None, False)),
        (Completion(["a"], total=1), Completion(["a"], 1, False)),
        (Completion(["a"], total=7), Completion(["a"], 7, True)),
        (Completion(["a"], has_more=True), Completion(["a"], None, True)),
        (Completion(["a"] * 101), Completion(["a"] * 100, None, True)),
        (Completion(["a"] * 101, total=5000), Completion(["a"] * 100, 5000, True)),
        (None, Completion([], 0, False)),
    ],
)
def test_total_and_has_more_of_a_completer_are_kept(
    given: Completion | None, expected: Completion
) -> None:
    assert trim(given) == expected


@cases("values", ["soup", b"soup", {"a": 1}, [1], ["a", None], Completion([1])])  # type: ignore[list-item]
def test_values_that_are_not_texts_raise_a_type_error(values: Any) -> None:
    with pytest.raises(TypeError, match="expected a"):
        trim(values)
