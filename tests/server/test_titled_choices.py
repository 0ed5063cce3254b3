"""Choices with titles and of several values: in forms, in arguments, in models of pydantic."""

import datetime as dt
import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from accord import Choices, Context, Server
from accord.errors import RegistrationError, ToolError
from accord.server.schema.conversion import schema_of
from accord.server.schema.forms import form_of
from support.links import IN_MEMORY, over, text
from support.tables import cases

pytestmark = IN_MEMORY

SIZES = Choices({"s": "Small", "l": "Large"})
TITLED = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]


@dataclass
class Order:
    size: Annotated[str, SIZES]
    sizes: Annotated[list[str], SIZES, msgspec.Meta(min_length=1, max_length=2)]
    extras: list[Literal["egg", "ham"]]
    sauce: Annotated[str | None, Choices(["red", "white"])] = None
    spare: Annotated[list[str], SIZES] = field(default_factory=list)


GOOD = {"size": "s", "sizes": ["l"], "extras": ["ham"]}


@pytest.mark.requirement("elicitation.form.enum-forms", "elicitation.form.flat-primitives")
def test_each_kind_of_choice_has_its_form() -> None:
    form, _ = form_of(Order)
    assert form["properties"] == {
        "size": {"type": "string", "oneOf": TITLED},
        "sizes": {"type": "array", "items": {"anyOf": TITLED}, "minItems": 1, "maxItems": 2},
        "extras": {"type": "array", "items": {"type": "string", "enum": ["egg", "ham"]}},
        "sauce": {"type": "string", "enum": ["red", "white"]},
        "spare": {"type": "array", "items": {"anyOf": TITLED}},
    }


def test_answers_of_choices_are_read_into_the_type() -> None:
    _, read = form_of(Order)
    assert read(GOOD) == Order("s", ["l"], ["ham"])


@pytest.mark.requirement("elicitation.answers.validated")
@cases(
    ("changed", "reported"),
    [
        ({"size": "m"}, 'size: expected "s" or "l", got a string \\("m"\\)'),
        ({"sizes": ["s", "m"]}, r"sizes\[1\]: expected"),
        ({"sizes": []}, "length >= 1"),
        ({"extras": ["milk"]}, "milk"),
        ({"sauce": "blue"}, 'sauce: expected one of "red", "white"'),
    ],
)
def test_a_value_outside_its_choices_is_refused(changed: dict[str, Any], reported: str) -> None:
    _, read = form_of(Order)
    with pytest.raises(ToolError, match=reported):
        read(GOOD | changed)


def test_a_model_of_pydantic_shows_and_enforces_choices() -> None:
    class Wish(pydantic.BaseModel):
        size: Annotated[str, SIZES]
        sizes: Annotated[list[str], SIZES]

    form, read = form_of(Wish)
    assert form["properties"] == {
        "size": {"type": "string", "oneOf": TITLED},
        "sizes": {"type": "array", "items": {"anyOf": TITLED}},
    }
    assert read({"size": "s", "sizes": ["l"]}) == Wish(size="s", sizes=["l"])
    with pytest.raises(ToolError, match="expected one of s, l, got 'm'"):
        read({"size": "m", "sizes": []})


@pytest.mark.parametrize(
    ("choices", "field_", "value"),
    [
        (SIZES, {"type": "string", "oneOf": TITLED}, "l"),
        (Choices(["a", "b"]), {"type": "string", "enum": ["a", "b"]}, "a"),
        (
            Choices({"s": "Small", "l": "Large"}, several=True),
            {"type": "array", "items": {"anyOf": TITLED}},
            ["s", "l"],
        ),
    ],
)
def test_choices_alone_are_a_form_with_one_field(choices: Any, field_: Any, value: Any) -> None:
    form, read = form_of(choices)
    assert form == {"type": "object", "properties": {"value": field_}, "required": ["value"]}
    assert read({"value": value}) == value


def test_a_form_written_by_hand_is_sent_unchanged_and_its_answer_is_validated() -> None:
    written = {
        "type": "object",
        "properties": {"old": {"type": "string", "enum": ["a"], "enumNames": ["A"]}},
        "required": ["old"],
    }
    form, read = form_of(written)
    assert form is written
    assert read({"old": "a"}) == {"old": "a"}
    for wrong in ({}, {"old": "b"}, {"old": 1}):
        with pytest.raises(ToolError, match="does not fit the form: old"):
            read(wrong)
    with pytest.raises(RegistrationError, match='has "type": "object" and "properties"'):
        form_of({"type": "string"})


@pytest.mark.parametrize("items", [list[str], list[Literal[1, 2]], list[dict[str, str]]])
def test_a_list_that_is_not_a_choice_cannot_be_asked_for(items: Any) -> None:
    with pytest.raises(RegistrationError, match=r"write list\[Literal"):
        form_of(items)


@cases("options", [[], {}, "ab", [1], {"a": 1}])
def test_choices_without_texts_are_refused(options: Any) -> None:
    with pytest.raises(RegistrationError, match="Choices takes"):
        Choices(options)


def test_choices_on_another_type_are_refused() -> None:
    with pytest.raises(RegistrationError, match=r"Choices annotates str or list\[str\], not int"):
        schema_of(Annotated[int, SIZES])


def serve() -> Server:
    server = Server("desk")

    @server.tool
    def take(
        size: Annotated[str, SIZES, "of the cup"],
        extras: Annotated[list[str], SIZES, "on the side"],
    ) -> str:
        """Take an order."""
        return f"{size} {extras}"

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask for one size."""
        return str(await ctx.elicit("Which size?", SIZES))

    @server.tool
    async def ask_for_several(ctx: Context) -> str:
        """Ask for several sizes."""
        return str(await ctx.elicit("Which sizes?", Choices(["s", "l"], several=True)))

    return server


async def test_an_argument_outside_its_choices_is_refused(connect_to: Any) -> None:
    async with connect_to(serve) as client:
        tools = {tool.name: tool async for tool in client.tools()}
        good = await client.call_tool("take", {"size": "s", "extras": ["l"]})
        bad = await client.call_tool("take", {"size": "m", "extras": ["l"]})
    assert tools["take"].input_schema["properties"]["size"]["oneOf"] == TITLED
    assert text(good) == "s ['l']"
    assert bad.is_error
    assert 'argument "size"' in text(bad)


@over("memory", revisions=("2025-06-18", "2025-11-25"))
@pytest.mark.requirement(
    "elicitation.form.enum-forms", "elicitation.enum.enum-names", "elicitation.form.mode-and-schema"
)
async def test_titles_are_sent_in_the_form_of_the_revision(
    accord_link: Any, connect_to: Any
) -> None:
    seen = []

    def answer(params: Any) -> Any:
        assert params.mode is None
        seen.append(params.requested_schema["properties"]["value"])
        return {"value": "l"}

    async with connect_to(serve, on_elicit=answer) as client:
        assert text(await client.call_tool("ask")) == "l"
    expected = {
        "2025-06-18": {"type": "string", "enum": ["s", "l"], "enumNames": ["Small", "Large"]},
        "2025-11-25": {"type": "string", "oneOf": TITLED},
    }
    assert seen == [expected[accord_link.revision]]


@over("memory", revisions=("2025-06-18", "2025-11-25"))
async def test_a_choice_of_several_is_asked_for_where_the_revision_has_it(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(serve, on_elicit=lambda params: {"value": ["l"]}) as client:
        result = await client.call_tool("ask_for_several")
    if accord_link.revision == "2025-11-25":
        assert text(result) == "['l']"
    else:
        assert result.is_error
        assert text(result).startswith("revision 2025-06-18 has no form for a choice of several")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Wishes:
    colours: list[Colour] = field(default_factory=lambda: [Colour.BLUE])
    sizes: Annotated[list[str], SIZES] = field(default_factory=lambda: ["l"])
    colour: Colour = Colour.RED
    size: Annotated[str, SIZES] = "s"
    letter: Literal["a", "b"] = "b"
    mail: Annotated[str, msgspec.Meta(extra_json_schema={"format": "email"})] = "a@b.example"
    page: Annotated[str | None, msgspec.Meta(extra_json_schema={"format": "uri"})] = None
    day: dt.date = dt.date(2026, 1, 2)
    time: dt.datetime | None = None
    code: Annotated[str, msgspec.Meta(pattern="^a")] = "a"


class StructWishes(msgspec.Struct, rename={"colours": "colors"}):
    colours: list[Colour] = msgspec.field(default_factory=lambda: [Colour.BLUE])


WISHES = {
    "colours": {
        "type": "array",
        "items": {"type": "string", "enum": ["red", "blue"]},
        "default": ["blue"],
    },
    "sizes": {"type": "array", "items": {"anyOf": TITLED}, "default": ["l"]},
    "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
    "size": {"type": "string", "oneOf": TITLED, "default": "s"},
    "letter": {"type": "string", "enum": ["a", "b"], "default": "b"},
    "mail": {"type": "string", "format": "email", "default": "a@b.example"},
    "page": {"type": "string", "format": "uri"},
    "day": {"type": "string", "format": "date", "default": "2026-01-02"},
    "time": {"type": "string", "format": "date-time"},
    "code": {"type": "string", "default": "a"},
}


@pytest.mark.requirement(
    "elicitation.form.enum-forms", "elicitation.form.formats", "elicitation.form.flat-primitives"
)
def test_defaults_and_formats_are_shown_in_a_form() -> None:
    form, read = form_of(Wishes)
    assert form == {"type": "object", "properties": WISHES}
    assert read({"colours": ["red"]}) == Wishes(colours=[Colour.RED])
    with pytest.raises(ToolError, match="code"):
        read({"code": "b"})
    struct_form, _ = form_of(StructWishes)
    assert struct_form["properties"] == {"colors": WISHES["colours"]}


def test_choices_alone_may_have_a_default() -> None:
    form, _ = form_of(Choices({"s": "Small", "l": "Large"}, default="l"))
    assert form["properties"]["value"] == {"type": "string", "oneOf": TITLED, "default": "l"}
    form, _ = form_of(Choices(["a", "b"], several=True, default=["b"]))
    assert form["properties"]["value"]["default"] == ["b"]


@cases(
    ("several", "default", "reported"),
    [
        (False, "c", "'c' is not among the choices"),
        (True, ["a", "c"], "'c' is not among the choices"),
        (True, "a", "expected a list"),
        (False, ["a"], "expected one value"),
    ],
)
def test_a_default_outside_the_choices_is_refused(
    several: bool, default: Any, reported: str
) -> None:
    with pytest.raises(RegistrationError, match=reported):
        Choices(["a", "b"], several=several, default=default)


@pytest.mark.requirement("elicitation.form.flat-primitives", "elicitation.form.formats")
@cases(
    ("written", "reported"),
    [
        ({"type": "object", "properties": {}}, "'x' cannot be asked for"),
        ({"$ref": "#/$defs/a"}, "'x' cannot be asked for"),
        (True, "'x' cannot be asked for"),
        ({"type": "array", "items": {"type": "string"}}, "a list in a form is a choice"),
        ({"type": "string", "format": "hostname"}, "'x': format is 'hostname', expected date"),
        ({"type": "string", "pattern": "^a"}, "'x': forms have no pattern"),
    ],
)
def test_a_written_field_that_clients_cannot_show_is_refused(written: Any, reported: str) -> None:
    with pytest.raises(RegistrationError, match=reported):
        form_of({"type": "object", "properties": {"x": written}})


@pytest.mark.requirement("elicitation.form.enum-forms")
@cases(
    "written",
    [
        {"type": "string", "enum": ["a"], "enumNames": ["A"], "default": "a"},
        {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
        {"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 1},
        {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "maxItems": 1},
        {"type": "string", "format": "date-time", "minLength": 1},
        {"type": "number", "minimum": 0, "default": 1},
        {"type": "boolean", "default": True},
    ],
)
def test_a_written_field_of_any_form_is_sent_unchanged(written: Any) -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"x": written},
    }
    assert form_of(schema)[0] is schema


@over("memory", revisions=("2025-06-18", "2025-11-25"))
async def test_defaults_are_sent_where_the_revision_has_them(
    accord_link: Any, connect_to: Any
) -> None:
    class Wish(msgspec.Struct):
        size: Annotated[str, SIZES] = "s"
        count: int = 2
        late: bool = True

    server = Server("desk")

    @server.tool
    async def wish(ctx: Context) -> int:
        """Ask."""
        return (await ctx.elicit("What?", Wish)).count

    seen = []

    def answer(params: Any) -> Any:
        seen.append(params.requested_schema["properties"])
        return {}

    async with connect_to(server, on_elicit=answer) as client:
        assert text(await client.call_tool("wish")) == "2"
    defaults = [{"default"} & set(field) for field in seen[0].values()]
    older = [set(), set(), {"default"}]  # where booleans alone had one
    assert defaults == (older if accord_link.revision == "2025-06-18" else [{"default"}] * 3)
