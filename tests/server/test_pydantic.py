"""Pydantic's models, types and fields in signatures and results."""

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

import jsonschema_rs
import msgspec
import pytest
from msgspec import json
from msgspec.structs import astuple
from pydantic import (
    AfterValidator,
    AnyUrl,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    StringConstraints,
    computed_field,
    field_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from accord.errors import RegistrationError
from accord.server.schema.conversion import schema_of
from accord.server.schema.results import ResultError, ReturnType
from accord.server.schema.signature import ArgumentsError, Signature, inspect
from support.labels import label
from support.tables import cases


class Address(BaseModel):
    street: str = Field(description="without number", min_length=1)
    number: int = Field(ge=1)

    @field_validator("number")
    @classmethod
    def _lucky(cls, number: int) -> int:
        if number == 13:
            raise ValueError("no house has this number")
        return number


class Person(BaseModel):
    """Somebody."""

    name: str
    home: Address | None = None
    friends: list["Person"] = []


class Written(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    first: int = Field(1, serialization_alias="firstOne", validation_alias="eins")

    @computed_field
    @property
    def double(self) -> int:
        return self.first * 2


def even(value: int) -> int:
    if value % 2:
        raise ValueError("has to be even")
    return value


def taking(annotation: Any, *default: Any) -> Signature:
    def handler(value): ...

    handler.__annotations__ = {"value": annotation}
    handler.__defaults__ = default
    return inspect(handler)


def bound(annotation: Any, value: Any) -> Any:
    return astuple(taking(annotation).bind(json.encode({"value": value})))[0]


def refusal(annotation: Any, value: Any) -> str:
    with pytest.raises(ArgumentsError) as caught:
        bound(annotation, value)
    text = str(caught.value)
    assert len(text) <= 300
    assert "pydantic" not in text
    assert "\n" not in text
    return text


def test_a_model_is_described_without_references_or_titles():
    assert schema_of(Address) == {
        "type": "object",
        "properties": {
            "street": {"type": "string", "description": "without number", "minLength": 1},
            "number": {"type": "integer", "minimum": 1},
        },
        "required": ["street", "number"],
    }


def test_a_recursive_model_keeps_its_reference():
    schema = schema_of(list[Person])
    assert list(schema["$defs"]) == ["Person"]
    home = schema["$defs"]["Person"]["properties"]["home"]
    assert home["anyOf"][0]["properties"]["number"] == {"type": "integer", "minimum": 1}
    assert jsonschema_rs.validator_for(schema).is_valid([{"name": "a", "friends": []}])


def test_a_recursive_model_is_an_object_as_a_result_too():
    returns = ReturnType(Person)
    assert returns.output_schema["type"] == "object"
    assert "friends" in returns.output_schema["properties"]
    assert returns.convert(Person(name="a")).structured_content["name"] == "a"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    age: Annotated[int, AfterValidator(lambda age: 1 // age)]


@cases(
    ("given", "reported"),
    [
        ({"kind": "cat"}, 'argument "value.lives" is missing'),
        ({"kind": "cow"}, 'argument "value.kind": expected one of "cat", "dog"'),
        ({"kind": "cat", "lives": "x"}, 'argument "value.lives": expected an integer'),
    ],
    ids=["missing", "unknown", "wrong"],
)
@cases(
    "annotation",
    [Cat | Dog, Annotated[Cat | Dog, Field(discriminator="kind")]],
    ids=["plain", "discriminated"],
)
def test_places_in_unions_of_models_are_those_in_the_value(annotation, given, reported):
    with pytest.raises(ArgumentsError) as caught:
        taking(annotation).bind(json.encode({"value": given}))
    assert reported in str(caught.value)


class Coded(BaseModel):
    code: str = Field(pattern="^[A-Z]{3}$", title="Code of the country")
    other_code: str = Field("", title="Other Code")


def test_the_title_of_a_field_stays_unless_it_is_its_name():
    def function(coded: Coded, again: Annotated[Coded | None, Field(title="Once more")] = None): ...

    properties = inspect(function).input_schema["properties"]
    assert "title" not in properties["coded"]
    assert properties["coded"]["properties"]["code"]["title"] == "Code of the country"
    assert "title" not in properties["coded"]["properties"]["other_code"]
    assert properties["again"]["title"] == "Once more"


@cases(
    ("annotation", "value", "text"),
    [
        (
            Address,
            {"street": "a", "number": 0},
            'argument "value.number": expected at least 1, got an integer (0)',
        ),
        (Address, {"number": 1}, 'argument "value.street" is missing'),
        (
            Address,
            {"street": "a", "number": 13},
            'argument "value.number": no house has this number',
        ),
        (
            list[Address],
            [{"street": "a", "number": "4"}, {"street": "a", "number": 13}],
            'argument "value[1].number": no house has this number',
        ),
        (Address, 5, 'argument "value": expected an object, got an integer (5)'),
        (
            Person,
            {"name": "a", "home": {"street": "", "number": 1}},
            'argument "value.home.street": expected at least 1 character, got a string ("")',
        ),
        (Annotated[int, AfterValidator(even)], 3, 'argument "value": has to be even'),
        (
            Annotated[int, Field(ge=1, le=3)],
            4,
            'argument "value": expected at most 3, got an integer (4)',
        ),
        (
            Coded,
            {"code": "b"},
            'argument "value.code": expected text matching ^[A-Z]{3}$, got a string ("b")',
        ),
        (
            Annotated[str, StringConstraints(pattern="^a")],
            "b",
            'argument "value": expected text matching ^a, got a string ("b")',
        ),
    ],
    ids=label,
)
def test_refusals_are_worded_as_for_any_other_type(annotation: Any, value: Any, text: str):
    assert refusal(annotation, value) == text


def test_models_follow_the_rules_of_pydantic():
    assert bound(Address, {"street": "a", "number": "4"}) == Address(street="a", number=4)


def test_a_model_may_arrive_as_a_string():
    assert bound(Address, '{"street":"a","number":4}') == Address(street="a", number=4)
    assert bound(Person | None, '{"name":"a"}') == Person(name="a")


@cases(
    ("annotation", "given", "value"),
    [
        (Annotated[int, AfterValidator(even)], 4, 4),
        (Annotated[int, BeforeValidator(len)], "abc", 3),
        (Annotated[str, StringConstraints(to_upper=True)], "a", "A"),
        (Annotated[Decimal, Field(max_digits=3)], "1.25", Decimal("1.25")),
        (Annotated[int, Field(strict=True)], 4, 4),
        (AnyUrl, "https://a.b/", AnyUrl("https://a.b/")),
        (SecretStr, "x", SecretStr("x")),
        (RootModel[list[int]], [1], RootModel[list[int]]([1])),
    ],
    ids=label,
)
def test_metadata_that_only_pydantic_follows_is_left_to_it(annotation: Any, given: Any, value: Any):
    assert bound(annotation, given) == value


def test_a_field_may_be_the_default():
    def f(
        a: int = Field(3, ge=1, description="how many"),
        b: list[int] = Field(default_factory=list, max_length=2),  # noqa: B008
        c: str = Field(min_length=1),
        d: Annotated[int, Field(alias="from")] = 5,
    ): ...

    signature = inspect(f)
    assert signature.input_schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 1, "description": "how many", "default": 3},
            "b": {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
            "c": {"type": "string", "minLength": 1},
            "from": {"type": "integer", "default": 5},
        },
        "required": ["c"],
        "additionalProperties": False,
    }
    assert [parameter.name for parameter in signature.parameters] == ["a", "b", "c", "from"]
    assert astuple(signature.bind(b'{"c":"x","from":1}')) == (3, [], "x", 1)
    first, second = (astuple(signature.bind(b'{"c":"x"}'))[1] for _ in range(2))
    assert first is not second


def test_a_field_says_more_than_limits():
    annotation = Annotated[
        str,
        Field(
            description="d",
            examples=["a"],
            pattern="^a",
            json_schema_extra={"x-hint": 1},
            title="noise",
        ),
    ]
    assert schema_of(annotation) == {
        "type": "string",
        "description": "d",
        "examples": ["a"],
        "pattern": "^a",
        "x-hint": 1,
    }


def test_a_field_may_limit_both_members_of_a_union():
    schema = schema_of(Annotated[int | str, Field(ge=1, min_length=2)])
    assert {"type": "integer", "minimum": 1} in schema["anyOf"]
    assert {"type": "string", "minLength": 2} in schema["anyOf"]


def test_a_field_that_contradicts_itself_is_refused():
    with pytest.raises(RegistrationError, match="Cannot set both"):
        schema_of(Annotated[int, Field(ge=1), Field(gt=1)])


def test_models_and_fields_may_stand_inside_other_types():
    @dataclass
    class Letter:
        to: Address
        copies: Annotated[int, Field(ge=0)] = 0

    letter = bound(Letter, {"to": {"street": "a", "number": 1}})
    assert letter == Letter(Address(street="a", number=1))
    choice = bound(dict[str, Address | int], {"a": {"street": "a", "number": 1}, "b": 2})
    assert choice == {"a": Address(street="a", number=1), "b": 2}


def test_a_pydantic_dataclass_is_validated():
    @pydantic_dataclass
    class Even:
        n: Annotated[int, AfterValidator(even)]

    assert bound(Even, {"n": 2}) == Even(2)
    assert refusal(Even, {"n": 1}) == 'argument "value.n": has to be even'


def test_validators_in_the_fields_of_other_classes_count():
    @dataclass
    class Even:
        n: Annotated[int, AfterValidator(even)]

    assert bound(Even, {"n": 2}) == Even(2)
    assert "has to be even" in refusal(Even, {"n": 1})


def test_a_value_that_pydantic_refuses_is_refused_with_its_reason():
    class Odd: ...

    with pytest.raises(RegistrationError, match='"value": Unable to generate pydantic-core schema'):
        taking(Annotated[Odd, AfterValidator(even)])

    class Hooked(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)
        odd: Odd

    with pytest.raises(RegistrationError, match="Cannot generate a JsonSchema"):
        taking(Hooked)


def test_strings_are_converted_for_pydantic_too():
    assert astuple(taking(Annotated[int, AfterValidator(even)]).bind_strings({"value": "4"})) == (
        4,
    )


# Results


def test_a_model_is_written_as_its_schema_says():
    returns = ReturnType(Written)
    assert set(returns.output_schema["properties"]) == {"firstOne", "double"}
    result = returns.convert(Written(eins=3))
    assert result.structured_content == {"firstOne": 3, "double": 6}
    assert jsonschema_rs.validator_for(returns.output_schema).is_valid(result.structured_content)


def test_a_root_model_that_is_not_an_object_is_wrapped():
    result = ReturnType(RootModel[list[int]]).convert(RootModel[list[int]]([1]))
    assert result.structured_content == {"result": [1]}


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_a_model_that_breaks_its_schema_is_refused():
    broken = Address.model_construct(street="a", number="x")
    with pytest.raises(ResultError) as caught:
        ReturnType(Address).convert(broken)
    assert str(caught.value) == ('the result at "number": expected an integer, got a string ("x")')
    with pytest.raises(ResultError, match=r'at "\[0\].number": expected at least 1'):
        ReturnType(list[Address]).convert([Address.model_construct(street="a", number=0)])


def test_values_of_pydantic_are_written_anywhere():
    class Page(msgspec.Struct):
        url: AnyUrl
        owner: Address

    page = Page(AnyUrl("https://a.b/"), Address(street="a", number=1))
    assert ReturnType(Page).convert(page).structured_content == {
        "url": "https://a.b/",
        "owner": {"street": "a", "number": 1},
    }
    (text,) = (block.text for block in ReturnType(Any).convert(page).content)
    assert json.decode(text)["url"] == "https://a.b/"


def test_dates_and_choices_of_models_fit_their_schema():
    class Event(BaseModel):
        when: dt.datetime
        day: dt.date
        length: dt.timedelta
        price: Decimal
        kind: Literal["a", "b"]

    event = Event(
        when=dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        day=dt.date(2024, 1, 1),
        length=dt.timedelta(days=1, seconds=5),
        price=Decimal("1.5"),
        kind="a",
    )
    returns = ReturnType(Event)
    plain = returns.convert(event).structured_content
    assert jsonschema_rs.validator_for(returns.output_schema).is_valid(plain)
    assert bound(Event, plain) == event
