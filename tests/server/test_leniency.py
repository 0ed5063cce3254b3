"""Arguments that arrive as text, as hosts send them, and strict tools that refuse them."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import msgspec
import pytest

from accord import Server, ToolError
from accord.errors import RegistrationError
from accord.server.schema.signature import ArgumentsError, inspect
from accord.testing import connected
from support.tables import cases
from support.waiting import in_loop


@dataclass
class Point:
    x: int
    y: float = 0.0


def read(type_: Any, value: Any, *, is_strict: bool = False) -> Any:
    def handler(value: type_) -> None:
        """Take it."""

    bound = inspect(handler, is_strict=is_strict).bind(msgspec.json.encode({"value": value}))
    return bound.field0  # type: ignore[attr-defined]


READ: list[tuple[Any, Any, Any]] = [
    (int, "5", 5),
    (int, " -5 ", -5),
    (int, "5.0", 5),
    (float, "1.5", 1.5),
    (float, "2", 2.0),
    (bool, "true", True),
    (bool, "False", False),
    (int | None, "7", 7),
    (int | None, "null", None),
    (Literal[1, 2], "2", 2),
    (list[int], ["1", "2"], [1, 2]),
    (list[int], "[1, 2]", [1, 2]),
    (list[int], '["1", 2]', [1, 2]),
    (dict[str, float], {"a": "1.5"}, {"a": 1.5}),
    (Point, {"x": "1", "y": "2.5"}, Point(1, 2.5)),
    (Point, '{"x": "1"}', Point(1)),
    (Point | None, {"x": "3"}, Point(3)),
    (list[Point], [{"x": "1"}], [Point(1)]),
    (bool | int, "true", True),
    (bool | int, "3", 3),
]


@cases(("type_", "given", "expected"), READ)
def test_text_is_read_where_the_schema_admits_no_text(
    type_: Any, given: Any, expected: Any
) -> None:
    found = read(type_, given)
    assert found == expected
    assert type(found) is type(expected)


@cases(("type_", "given", "expected"), READ)
def test_a_strict_tool_refuses_text(type_: Any, given: Any, expected: Any) -> None:
    with pytest.raises(ArgumentsError, match='argument "value'):
        read(type_, given, is_strict=True)


@cases(
    ("type_", "given"),
    [(str, "5"), (str | int, "5"), (str | None, "null"), (Any, "true"), (list[str], ["1"])],
)
def test_text_stays_text_where_text_is_admitted(type_: Any, given: Any) -> None:
    assert read(type_, given) == given


@cases(
    ("type_", "given", "message"),
    [
        (int, "five", r'expected an integer, got a string \("five"\)'),
        (int, "5.5", r'expected an integer, got a string \("5.5"\)'),
        (int, "true", r'expected an integer, got a string \("true"\)'),
        (int, "NaN", r'expected an integer, got a string \("NaN"\)'),
        (int, True, r"expected an integer, got a boolean"),
        (bool, "1", r'expected a boolean, got a string \("1"\)'),
        (bool, 1, r"expected a boolean, got an integer"),
        (str, 5, r"expected a string, got an integer"),
        (list[int], ["a"], r'argument "value\[0\]": expected an integer'),
        (Point, {"x": "a"}, r'argument "value\.x": expected an integer'),
    ],
)
def test_other_mistakes_are_refused_as_before(type_: Any, given: Any, message: str) -> None:
    with pytest.raises(ArgumentsError, match=message):
        read(type_, given)


def test_a_fraction_keeps_its_digits_when_another_argument_is_text() -> None:
    assert read(Decimal, "0.10") == Decimal("0.10")


@in_loop
async def test_a_written_schema_is_as_lenient_unless_the_tool_is_strict() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 1}, "s": {"type": "string"}},
        "required": ["n"],
    }
    server = Server("desk")

    def add(n: int, s: str = "") -> str:
        """Add."""
        return f"{n + 1}{s}"

    server.add_tool(add, input_schema=schema)
    server.add_tool(add, name="strict", input_schema=schema, strict=True)
    async with connected(server) as client:
        result = await client.call_tool("add", {"n": "1", "s": "5"}, result_type=str)
        assert result == "25"
        for tool, n in (("add", "0"), ("strict", "1")):
            with pytest.raises(ToolError, match="the arguments do not fit the input schema"):
                await client.call_tool(tool, {"n": n}, result_type=str)


@in_loop
async def test_the_server_decides_for_tools_that_do_not() -> None:
    server = Server("desk", strict=True)

    def add(n: int) -> int:
        """Add."""
        return n + 1

    server.add_tool(add)
    server.add_tool(add, name="lenient", strict=False)
    async with connected(server) as client:
        assert await client.call_tool("lenient", {"n": "1"}, result_type=int) == 2
        with pytest.raises(ToolError, match="expected an integer, got a string"):
            await client.call_tool("add", {"n": "1"}, result_type=int)


def test_strict_is_a_boolean() -> None:
    with pytest.raises(RegistrationError, match="strict"):
        Server("x").add_tool(read, strict="yes")  # type: ignore[arg-type]
