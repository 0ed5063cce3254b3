"""Tools whose input schema is written by their author."""

import sys
from typing import Any, NamedTuple

import pytest
from msgspec import UNSET

from accord import Context, Server
from accord.errors import RegistrationError
from accord.types import CallToolResult, TextContent
from support.links import IN_MEMORY, over, text
from support.tables import cases

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


@cases(
    ("schema", "reported"),
    [
        ({"type": "string"}, 'has to say "type": "object"'),
        ({"type": "object", "properties": {"name": {"type": "text"}}}, "input_schema is invalid"),
        ({"type": "object", "properties": {"name": {}}}, '"name" has no default, and input_schema'),
        (
            {"type": "object", "properties": {"name": {}, "age": {}}, "required": ["name"]},
            'has the property "age", and the function does not take it',
        ),
        (
            {"type": "object", "$schema": "https://example.com/dialect"},
            "input_schema: the dialect 'https://example.com/dialect' is not supported",
        ),
        (
            {"type": "object", "properties": {"name": {"$ref": "https://example.com/name.json"}}},
            "input_schema refers to 'https://example.com/name.json', which is not part of it",
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


# -- results

WEATHER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://desk.example/weather",
    "type": "object",
    "properties": {
        "degrees": {"type": "number", "minimum": -90, "x-unit": "C"},
        "place": {"$ref": "#/$defs/place"},
    },
    "required": ["degrees"],
    "if": {"properties": {"degrees": {"maximum": 0}}},
    "then": {"required": ["place"]},
    "$defs": {"place": {"type": "string", "minLength": 2}},
    "x-vendor": {"$ref": "kept as it is"},
}


class Reading(NamedTuple):
    degrees: float
    place: str


def make_weather(schema: Any = WEATHER) -> Server:
    server = Server("desk")

    @server.tool(output_schema=schema)
    def weather(kind: str) -> Any:
        """Return a value of some kind."""
        values = {
            "good": {"degrees": 4, "place": "Oslo"},
            "tuple": Reading(4, "Oslo"),
            "result": CallToolResult(
                [TextContent('{"degrees":4}')], structured_content={"degrees": 4}
            ),
            "error": CallToolResult([], is_error=True),
            "missing": {"place": "Oslo"},
            "condition": {"degrees": -1},
            "reference": {"degrees": 1, "place": "x"},
            "text": "4 C",
            "wrong result": CallToolResult([], structured_content={"degrees": "4"}),
            "no content": CallToolResult([]),
        }
        return values[kind]

    return server


@over("memory", revisions=("2025-03-26", "2025-06-18", "2025-11-25"))
@pytest.mark.requirement("schema.dialect.supports-2020-12", "schema.wire-schemas-valid")
async def test_a_written_output_schema_is_listed_unchanged_where_there_is_one(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(make_weather) as client:
        (tool,) = [tool async for tool in client.tools()]
        good = await client.call_tool("weather", {"kind": "good"})
        assert (await client.call_tool("weather", {"kind": "error"})).is_error
    is_later = accord_link.revision != "2025-03-26"
    assert tool.output_schema == (WEATHER if is_later else None)
    structured = {"degrees": 4, "place": "Oslo"}
    assert good.structured_content == (structured if is_later else UNSET)
    assert text(good) == '{"degrees":4,"place":"Oslo"}'


@over("memory", revisions=("2025-11-25",))
@pytest.mark.parametrize("kind", ["tuple", "result"])
async def test_values_that_fit_a_written_output_schema_are_sent(connect_to: Any, kind: str) -> None:
    async with connect_to(make_weather) as client:
        result = await client.call_tool("weather", {"kind": kind})
    assert result.structured_content["degrees"] == 4


WRONG_RESULTS = [
    ("missing", '"degrees" is a required property'),
    ("condition", '"place" is a required property'),
    ("reference", "at /place"),
    ("text", "at the top"),
    ("wrong result", "at /degrees"),
    ("no content", "lacks the structured content"),
]


@over("memory", revisions=("2025-11-25",))
@pytest.mark.requirement("tools.structured-content.required-with-schema")
@pytest.mark.parametrize(("kind", "reported"), WRONG_RESULTS)
async def test_a_result_that_breaks_its_written_schema_does_not_leave(
    connect_to: Any, kind: str, reported: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect_to(make_weather) as client:
        result = await client.call_tool("weather", {"kind": kind})
    assert result.is_error
    assert text(result).startswith("tool weather failed: its result cannot be sent")
    assert reported in caplog.text


@over("memory", revisions=("2025-11-25",))
async def test_without_the_extra_results_are_checked_as_far_as_possible(
    connect_to: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    schema = {**WEATHER, "title": "a schema that no other test has compiled"}
    async with connect_to(lambda: make_weather(schema)) as client:
        outcomes = {
            kind: (await client.call_tool("weather", {"kind": kind})).is_error
            for kind in ("good", "result", "missing", "reference", "wrong result")
        }
    assert [kind for kind, is_error in outcomes.items() if is_error] == [
        "missing",
        "reference",
        "wrong result",
    ]


@pytest.mark.requirement(
    "schema.dialect.unsupported-reported",
    "schema.ref.unresolved-rejected",
    "schema.ref.no-network-fetch",
)
@pytest.mark.parametrize("has_extra", [True, False])
@pytest.mark.parametrize(
    ("schema", "reported"),
    [
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "output_schema: the dialect"),
        ({"items": {"$ref": "https://example.com/a"}}, "output_schema refers to 'https://ex"),
    ],
)
def test_a_written_output_schema_that_cannot_be_used_is_refused(
    schema: Any, reported: str, has_extra: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_extra:
        monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(RegistrationError, match=reported):
        make_weather(schema)


@pytest.mark.requirement("schema.dialect.validated-as-declared")
async def test_a_written_schema_is_read_in_the_dialect_that_it_declares(connect_to: Any) -> None:
    def pair(values: list[Any]) -> str:
        """Take a text and a number."""
        return str(values)

    server = Server("desk")
    items = [{"type": "string"}, {"type": "integer"}]  # prefixItems in the default dialect
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"values": {"type": "array", "items": items}},
        "required": ["values"],
    }
    server.add_tool(pair, input_schema=schema)
    async with connect_to(server) as client:
        good = await client.call_tool("pair", {"values": ["a", 1]})
        bad = await client.call_tool("pair", {"values": [1, "a"]})
    assert not good.is_error
    assert bad.is_error
    assert "at /values/0" in text(bad)
