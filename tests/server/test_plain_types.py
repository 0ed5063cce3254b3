"""Plain types: what is made of them later is what would be made at once."""

import logging
from typing import Any, Optional

import pytest

from accord import Server
from accord.json_schema.reader import inline
from accord.server.schema.conversion import Collector, plain_schema
from accord.server.schema.plain import admits_plainly, is_plain, takes_none
from accord.server.schema.signature import inspect
from support.tables import cases

PLAIN = [
    str,
    int,
    bool,
    float,
    Any,
    type(None),
    list[str],
    list[Any],
    dict[str, float],
    str | None,
    None | str,
    Optional[int],  # noqa: UP045
    int | str,
    str | int,
    list[bool] | None,
    dict[str, int] | str | None,
]
OTHER = [
    list,
    bytes,
    object,
    list[list[int]],
    dict[int, str],
    list[int] | list[str],
    list[int] | dict[str, int],
    list["int"],
    set[int],
    tuple[int, str],
    "int",
    None,
]


@cases("type_", PLAIN, ids=repr)
def test_the_schema_of_a_plain_type_is_the_general_one(type_):
    assert is_plain(type_)
    collector = Collector()
    (general,) = collector.schemas([type_])
    assert plain_schema(type_) == plain_schema(type_) == inline(general, collector.components)


@cases("type_", OTHER, ids=repr)
def test_other_types_are_not_plain(type_):
    assert not is_plain(type_)


def test_a_schema_that_was_changed_changes_no_other():
    plain_schema(list[str])["description"] = "words"
    assert plain_schema(list[str]) == {"type": "array", "items": {"type": "string"}}


@cases(
    ("type_", "default", "fits"),
    [
        (int, 1, True),
        (float, 1, True),
        (int, 1.0, False),
        (Any, "x", True),
        (Any, [], False),
        (int | str, "x", True),
        (int | None, "x", False),
        (list[int], [], False),
    ],
)
def test_a_default_fits_for_sure_or_is_looked_at_closely(type_, default, fits):
    assert admits_plainly(type_, default) is fits


def test_only_some_types_take_none():
    assert [takes_none(each) for each in (Any, type(None), int | None, int, list[int])] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_members_of_a_union_are_listed_in_the_order_of_their_author():
    def one(value: int | str) -> None: ...
    def other(value: str | int) -> None: ...

    kinds = [
        [each["type"] for each in inspect(function).input_schema["properties"]["value"]["anyOf"]]
        for function in (one, other)
    ]
    assert kinds == [["integer", "string"], ["string", "integer"]]


def test_names_in_text_are_those_at_registration():
    kind: Any = int
    namespace: dict[str, Any] = {"kind": kind}
    exec("def count(value: 'kind', more: 'list[kind]' = None) -> 'kind': ...", namespace)
    server = Server("desk")
    entry = server.add_tool(namespace["count"], description="Count.")
    namespace["kind"] = str
    assert entry.item.input_schema["properties"] == {
        "value": {"type": "integer"},
        "more": {
            "anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}],
            "default": None,
        },
    }
    assert entry.item.output_schema["properties"] == {"result": {"type": "integer"}}


@pytest.mark.parametrize(
    ("doc", "is_warned"),
    [
        ("Count all the things.", False),
        ("Count.", False),
        ("count", True),
        ("", True),
        ("\n    Args:\n        value: what to count.\n    ", True),
        (":param value: what to count.", True),
        ("Other Parameters\n----------------\nvalue : int\n    What to count.", True),
    ],
)
def test_a_tool_without_description_is_warned_of_at_registration(doc, is_warned, caplog):
    def count(value: int) -> int:
        return value

    count.__doc__ = doc
    with caplog.at_level(logging.WARNING):
        entry = Server("desk").add_tool(count)
    assert ("no description" in caplog.text) is is_warned
    assert (entry.item.description == "count") is is_warned


def test_the_first_call_may_be_wrong_and_the_next_is_right():
    def count(value: int, more: float = 1) -> int: ...

    signature = inspect(count)
    with pytest.raises(Exception, match="value"):
        signature.bind(b"{}")
    bound = signature.bind(b'{"value":"2"}')
    assert signature.call(lambda *given: given, bound, None) == (2, 1)
    other = inspect(count)
    assert other.call(lambda *given: given, bound, None) == (2, 1)
