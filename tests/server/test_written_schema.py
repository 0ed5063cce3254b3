"""Tools whose input schema is written by their author."""

from typing import Any

import pytest

from accord import Context, Server
from accord.errors import RegistrationError
from support.links import IN_MEMORY, text

pytestmark = IN_MEMORY

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"place": {"type": "object", "properties": {"street": {"type": "string"}}}},
    "properties": {
        "name": {"type": "string", "description": "of the person"},
        "place": {"$ref": "#/$defs/place", "description": "where they live"},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def make() -> Server:
    server = Server("desk")

    @server.tool(input_schema=SCHEMA)
    def by_rest(**arguments: Any) -> str:
        """Take everything by `**`."""
        return str(sorted(arguments.items()))

    @server.tool(input_schema=SCHEMA)
    async def by_name(ctx: Context, name: str, place: dict[str, str] | None = None) -> str:
        """Take each argument by its name."""
        return f"{name} {place} {ctx.method}"

    @server.tool(input_schema=SCHEMA, inline=True)
    def mixed(name: str, **rest: Any) -> str:
        """Take one by its name and the others by `**`."""
        return f"{name} {rest}"

    return server


async def test_a_written_schema_is_listed_unchanged(connect_to: Any) -> None:
    async with connect_to(make) as client:
        assert [tool.input_schema async for tool in client.tools()] == [SCHEMA] * 3


async def test_arguments_reach_parameters_and_the_rest(connect_to: Any) -> None:
    given = {"name": "Ann", "place": {"street": "Elm"}}
    async with connect_to(make) as client:
        results = [text(await client.call_tool(n, given)) for n in ("by_rest", "by_name", "mixed")]
    assert results == [
        "[('name', 'Ann'), ('place', {'street': 'Elm'})]",
        "Ann {'street': 'Elm'} tools/call",
        "Ann {'place': {'street': 'Elm'}}",
    ]


@pytest.mark.requirement("tools.server.validates-inputs")
@pytest.mark.parametrize("tool", ["by_rest", "by_name", "mixed"])
@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({}, "name"),
        ({"name": "Ann", "place": {"street": 5}}, "at /place/street"),
        ({"name": "Ann", "more": 1}, "more"),
    ],
)
async def test_arguments_are_validated_against_a_written_schema(
    connect_to: Any, tool: str, given: Any, reported: str
) -> None:
    async with connect_to(make) as client:
        refused = await client.call_tool(tool, given)
    assert refused.is_error
    assert text(refused).startswith("the arguments do not fit the input schema: ")
    assert reported in text(refused)


def one(name: str) -> str:
    """Take one."""
    return name


@pytest.mark.parametrize(
    ("schema", "reported"),
    [
        ({"type": "string"}, 'has to say "type": "object"'),
        ({"type": "object", "properties": {"name": {"type": "text"}}}, "input_schema is invalid"),
        ({"type": "object", "properties": {"name": {}}}, '"name" has no default, and input_schema'),
        (
            {"type": "object", "properties": {"name": {}, "age": {}}, "required": ["name"]},
            'has the property "age", and the function does not take it',
        ),
    ],
)
def test_a_schema_that_does_not_fit_its_function_is_refused(schema: Any, reported: str) -> None:
    with pytest.raises(RegistrationError, match=reported):
        Server("desk").add_tool(one, input_schema=schema)


def test_without_a_written_schema_the_way_to_take_any_arguments_is_named() -> None:
    def takes_any(**arguments: Any) -> str:
        return str(arguments)

    with pytest.raises(RegistrationError, match="or describe them with input_schema"):
        Server("desk").add_tool(takes_any)
