from dataclasses import dataclass, field
from datetime import date, time
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest

from accord.errors import RegistrationError, ToolError
from accord.server.schema.forms import form_of
from support.tables import cases


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Order(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=2, max_length=20, title="Your name")]
    count: Annotated[int, msgspec.Meta(ge=1, le=9, description="how many")] = 1
    price: float = 1.5
    size: Size = Size.SMALL
    how: Literal["sent", "fetched"] = "sent"
    gift: bool = False
    day: Annotated[date | None, msgspec.Meta(description="when")] = None


@dataclass
class Nested:
    parts: list[str] = field(default_factory=list)


class Typed(TypedDict):
    name: str


@pytest.mark.requirement("elicitation.schema.flat-primitive", "elicitation.enum.enum-names")
def test_fields_become_a_flat_schema_of_primitives() -> None:
    schema, _ = form_of(Order)
    assert schema["type"] == "object"
    assert schema["required"] == ["name"]
    properties = schema["properties"]
    assert properties["name"] == {
        "type": "string",
        "title": "Your name",
        "minLength": 2,
        "maxLength": 20,
    }
    assert properties["count"] == {
        "type": "integer",
        "description": "how many",
        "default": 1,
        "minimum": 1,
        "maximum": 9,
    }
    assert properties["price"] == {"type": "number", "default": 1.5}
    assert properties["size"]["enum"] == ["small", "large"]
    assert properties["how"]["enum"] == ["sent", "fetched"]
    assert properties["gift"] == {"type": "boolean", "default": False}
    assert properties["day"] == {"type": "string", "format": "date", "description": "when"}
    assert {field["type"] for field in properties.values()} <= {
        "string",
        "number",
        "integer",
        "boolean",
    }


def test_answers_are_read_into_the_type() -> None:
    _, read = form_of(Order)
    answer = read({"name": "Ann", "count": 2, "size": "large", "day": "2025-06-18"})
    assert answer == Order("Ann", 2, size=Size.LARGE, day=date(2025, 6, 18))
    _, read_typed = form_of(Typed)
    assert read_typed({"name": "Ann"}) == {"name": "Ann"}


def test_an_answer_is_written_with_the_fields_that_were_left_empty() -> None:
    @dataclass
    class Seat:
        row: int
        window: bool = False

    _, read = form_of(Seat)
    assert msgspec.json.encode(read({"row": 7})) == b'{"row":7,"window":false}'


@pytest.mark.requirement("elicitation.answers.validated")
@pytest.mark.parametrize("content", [{}, {"name": "A"}, {"name": "Ann", "count": 10}])
def test_answers_that_do_not_fit_are_refused(content: Any) -> None:
    _, read = form_of(Order)
    with pytest.raises(ToolError, match="does not fit Order"):
        read(content)


def test_a_field_that_is_not_flat_is_named_in_the_error() -> None:
    with pytest.raises(RegistrationError, match=r"Nested\.parts cannot be asked for"):
        form_of(Nested)


@pytest.mark.parametrize(
    ("type_", "reported"),
    [
        (dict, "dict cannot be a form"),
        (list, "list cannot be asked for"),
        (bytes | str, "cannot be"),
    ],
    ids=["dict", "list", "union"],
)
def test_a_type_without_fields_or_single_value_is_refused(type_: Any, reported: str) -> None:
    with pytest.raises(RegistrationError, match=reported):
        form_of(type_)


@pytest.mark.requirement("elicitation.schema.flat-primitive")
@cases(
    ("type_", "field", "given", "answer"),
    [
        pytest.param(str, {"type": "string"}, "Ann", "Ann", id="text"),
        pytest.param(bool, {"type": "boolean"}, True, True, id="boolean"),
        pytest.param(
            Annotated[int, msgspec.Meta(ge=1)],
            {"type": "integer", "minimum": 1},
            3,
            3,
            id="number with a limit",
        ),
        pytest.param(
            Size, {"type": "string", "enum": ["small", "large"]}, "large", Size.LARGE, id="choice"
        ),
        pytest.param(
            date, {"type": "string", "format": "date"}, "2025-06-18", date(2025, 6, 18), id="date"
        ),
        pytest.param(
            Literal[3, 1, 2],
            {"type": "integer", "minimum": 1, "maximum": 3},
            2,
            2,
            id="choice of numbers",
        ),
        pytest.param(
            time, {"type": "string"}, "10:30:00", time(10, 30), id="a format that forms lack"
        ),
    ],
)
def test_one_value_is_a_form_with_one_field(
    type_: Any, field: Any, given: Any, answer: Any
) -> None:
    schema, read = form_of(type_)
    assert schema == {"type": "object", "properties": {"value": field}, "required": ["value"]}
    assert read({"value": given}) == answer
    with pytest.raises(ToolError, match="the answer does not fit"):
        read({})


@pytest.mark.requirement("elicitation.form.no-secrets")
def test_a_form_that_asks_for_a_secret_is_warned_about_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    written = {
        "type": "object",
        "properties": {
            "deskCardNumber": {"type": "string"},
            "pin": {"type": "string", "enum": ["a"]},
        },
    }

    @dataclass
    class Login:
        user: str
        desk_password: str

    for _ in range(2):
        form_of(Login)
        form_of(written)
    assert [record.getMessage() for record in caplog.records] == [
        f"a form asks for the secret {name!r}, and the client sees the answer; use ctx.elicit_url"
        for name in ("desk_password", "deskCardNumber")
    ]
