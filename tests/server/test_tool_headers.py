"""Arguments that headers repeat over HTTP: what authors write, and what is refused."""

import sys
from typing import Annotated, Literal

import pytest

from accord import Choices, Header, Server
from accord.errors import RegistrationError
from support.tables import cases


def register(annotation, **details):
    def tool(region):
        """Do nothing."""

    tool.__annotations__["region"] = annotation
    return Server("any").add_tool(tool, **details)


@pytest.mark.requirement("tools.x-mcp-header.token-syntax", "tools.x-mcp-header.not-empty")
@cases(
    "annotation",
    [
        Annotated[str, Header("Region")],
        Annotated[int, Header("Region")],
        Annotated[bool, Header("Region")],
        Annotated[str, "Where.", Header("Region")],
        Annotated[Literal["eu", "us"], Header("Region")],
        Annotated[str, Choices(["eu", "us"]), Header("Region")],
    ],
)
def test_an_annotation_names_the_header(annotation):
    entry = register(annotation)
    assert entry.item.input_schema["properties"]["region"]["x-mcp-header"] == "Region"
    assert [each.header for each in entry.facts.mirrored] == ["Mcp-Param-Region"]


def test_a_written_schema_names_the_header():
    region = {"type": "string", "x-mcp-header": "Region"}
    schema = {"type": "object", "properties": {"region": region}, "required": ["region"]}
    entry = register(str, input_schema=schema)
    assert entry.item.input_schema["properties"]["region"] == region
    assert [each.names for each in entry.facts.mirrored] == [("region",)]


def test_most_tools_have_none():
    assert register(str).facts.mirrored == ()


@cases(
    ("annotation", "why"),
    [
        (Annotated[float, Header("Region")], "on type 'number'"),
        (Annotated[list[str], Header("Region")], "on type 'array'"),
        (Annotated[str | None, Header("Region")], "expected string, integer or boolean"),
        (list[Annotated[str, Header("Region")]], "not reached through properties alone"),
    ],
)
def test_an_argument_that_no_header_can_repeat_is_refused(annotation, why):
    with pytest.raises(RegistrationError, match=why) as caught:
        register(annotation)
    assert "tool 'tool': inputSchema.properties.region" in str(caught.value)


def test_two_arguments_have_two_headers():
    def tool(a: Annotated[str, Header("Region")], b: Annotated[str, Header("REGION")]):
        """Do nothing."""

    with pytest.raises(RegistrationError, match="is used twice"):
        Server("any").add_tool(tool)


@cases("name", ["", "two words", "a:b", "é", "a\n"])
def test_the_name_of_a_header_is_a_token(name):
    with pytest.raises(RegistrationError, match="letters, digits and hyphens"):
        Header(name)


def test_a_header_shows_its_name():
    assert repr(Header("Region")) == "Header('Region')"


def test_a_model_of_pydantic_names_the_header():
    pydantic = pytest.importorskip("pydantic")
    assert "pydantic" in sys.modules

    class Place(pydantic.BaseModel):
        region: Annotated[str, Header("Region")]

    entry = register(Place)
    assert entry.facts.mirrored[0].names == ("region", "region")
