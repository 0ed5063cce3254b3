"""Functions of every kind become signatures; arguments become calls, or errors that help."""

import asyncio
import datetime as dt
import enum
import functools
import pathlib
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import jsonschema_rs
import msgspec
import pytest
from annotated_types import Gt
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, json
from msgspec.structs import astuple
from typing_extensions import TypeAliasType

from accord.errors import RegistrationError, ToolError
from accord.server.schema.plain import encode
from accord.server.schema.signature import ArgumentsError, Signature, inspect
from support.labels import label
from support.tables import cases
from support.type_corpus import NAMED_TUPLES, ROWS, Row

if TYPE_CHECKING:
    from somewhere import Hidden

State = TypeVar("State")


class Context(Generic[State]):
    pass


class Special(Context[int]):
    pass


@dataclass
class Filter:
    """What to look for."""

    text: str
    tags: list[str] = field(default_factory=list)
    below: "Filter | None" = None


class Unit(enum.Enum):
    METRE = "m"
    FOOT = "ft"


def add(a: int, b: int) -> int:
    """Add two numbers.

    Exactly.

    Args:
        a: the first
    """
    return a + b


def taking(annotation: Any, *default: Any) -> Signature:
    def handler(value): ...

    handler.__annotations__ = {"value": annotation}
    handler.__defaults__ = default
    return inspect(handler)


def refusal(signature: Signature, arguments: Any) -> str:
    with pytest.raises(ArgumentsError) as caught:
        signature.bind(json.encode(arguments))
    text = str(caught.value)
    assert len(text) <= 300
    assert "\n" not in text
    return text


# The corpus


@cases("row", ROWS.values(), ids=ROWS)
def test_a_value_fits_its_schema_and_round_trips(row: Row):
    signature = taking(row.annotation)
    assert jsonschema_rs.validator_for(signature.input_schema).is_valid(
        {"value": json.decode(row.data)}
    )
    (value,) = astuple(signature.bind(b'{"value":' + row.data + b"}"))
    assert value == row.value
    assert type(value) is type(row.value)


@cases("row", NAMED_TUPLES.values(), ids=NAMED_TUPLES)
def test_a_named_tuple_is_read_from_an_object(row: Row):
    signature = taking(row.annotation)
    (value,) = astuple(signature.bind(b'{"value":' + row.data + b"}"))
    assert value == row.value
    (item,) = (signature.input_schema["properties"]["value"],)
    assert '"width"' in json.encode(item).decode()


@cases("row", [*ROWS.values(), *NAMED_TUPLES.values()], ids=[*ROWS, *NAMED_TUPLES])
def test_a_value_round_trips_through_a_string(row: Row):
    signature = taking(row.annotation)
    plain = json.decode(row.data)
    text = plain if isinstance(plain, str) else row.data.decode()
    schema = signature.input_schema["properties"]["value"]
    (value,) = astuple(signature.bind_strings({"value": text}))
    may_be_text = schema == {} or {"type": "string"} in schema.get("anyOf", ())
    assert value in (row.value, text) if may_be_text else value == row.value


STRUCTURED = {
    name: row
    for name, row in (ROWS | NAMED_TUPLES).items()
    if isinstance(json.decode(row.data), dict | list) and name not in ("any", "object")
}


@cases("row", STRUCTURED.values(), ids=STRUCTURED)
def test_an_object_or_array_may_arrive_as_a_string(row: Row):
    (value,) = astuple(taking(row.annotation).bind(json.encode({"value": row.data.decode()})))
    assert value == row.value


@cases("row", ROWS.values(), ids=ROWS)
def test_schemas_have_no_titles_or_references(row: Row):
    schema = taking(row.annotation).input_schema
    text = json.encode(schema).decode()
    assert '"title"' not in text
    assert '"discriminator"' not in text
    assert '"required":[]' not in text
    assert ("$ref" in text) == ("$defs" in schema)


def test_only_recursion_keeps_references():
    kept = {name for name, row in ROWS.items() if "$defs" in taking(row.annotation).input_schema}
    assert kept == {
        "recursive dataclass",
        "list of recursive",
        "loose dataclass",
        "list of loose dataclasses",
        "model",
    }


# What is read off a function


def test_a_function_is_described():
    signature = inspect(add)
    assert signature.name == "add"
    assert signature.description == "Add two numbers.\n\nExactly."
    assert not signature.is_async
    assert [(p.name, p.required, p.description) for p in signature.parameters] == [
        ("a", True, "the first"),
        ("b", True, None),
    ]
    assert signature.input_schema == {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "the first"},
            "b": {"type": "integer"},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    }


def test_a_function_without_parameters_takes_an_empty_object():
    def nothing(): ...

    signature = inspect(nothing)
    assert signature.description is None
    empty = {"type": "object", "properties": {}, "additionalProperties": False}
    assert signature.input_schema == empty
    assert all(astuple(signature.bind(raw)) == () for raw in (b"{}", b"", b"null"))
    with pytest.raises(ArgumentsError, match='unknown arguments "a", "b"; the tool takes no'):
        signature.bind(b'{"a": 1, "b": 2}')
    # Prompts and resource templates list no schema.
    assert astuple(signature.bind_strings({"a": "1"})) == ()


def test_missing_annotations_take_any_json():
    def loose(x, y=2): ...

    signature = inspect(loose)
    assert signature.input_schema["properties"] == {"x": {}, "y": {"default": 2}}
    assert astuple(signature.bind(b'{"x":[1,{}]}')) == ([1, {}], 2)


def test_a_schema_admits_no_other_arguments():
    assert inspect(add).input_schema["additionalProperties"] is False


class Desk:
    """A desk."""

    def lift(self, height: int) -> int:
        """Lift it."""
        return height

    async def __call__(self, height: int) -> int:
        return height

    @classmethod
    def build(cls, legs: int) -> int:
        return legs

    @staticmethod
    def paint(colour: str) -> str:
        return colour


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


async def fetch(height: int) -> int:
    """Fetch."""
    return height


@cases(
    ("function", "name", "is_async"),
    [
        (Desk().lift, "lift", False),
        (Desk(), "Desk", True),
        (Desk.build, "build", False),
        (Desk.paint, "paint", False),
        (logged(add), "add", False),
        (logged(fetch), "fetch", True),
        (fetch, "fetch", True),
        (functools.partial(fetch), "fetch", True),
        (functools.lru_cache(add), "add", False),
        (lambda x: x, "<lambda>", False),
    ],
)
def test_anything_callable_has_a_signature(function: Any, name: str, is_async: bool):
    signature = inspect(function)
    assert signature.name == name
    assert signature.is_async is is_async
    arguments = {
        p.name: "x" if p.schema.get("type") == "string" else 3 for p in signature.parameters
    }
    bound = signature.bind(json.encode(arguments))
    result = signature.call(function, bound, None)
    assert (asyncio.run(result) if is_async else result) in (3, 6, "x")


def test_a_callable_object_is_described_by_its_class():
    assert inspect(Desk()).description == "A desk."


def test_arguments_that_a_partial_object_fills_in_are_not_listed():
    def send(text: str, key: str, retries: int = 3) -> tuple[str, str, int]:
        """Send."""
        return text, key, retries

    function = functools.partial(send, key="secret")
    signature = inspect(function)
    assert signature.description == "Send."
    assert list(signature.input_schema["properties"]) == ["text", "retries"]
    assert refusal(signature, {"text": "a", "key": "stolen"}).startswith('unknown argument "key"')
    bound = signature.bind(b'{"text":"a"}')
    assert signature.call(function, bound, None) == ("a", "secret", 3)


def test_positional_and_keyword_only_parameters_are_passed_as_they_must_be():
    def f(a: int, /, b: int = 2, *, c: int, d: int = 4) -> tuple[int, ...]:
        return a, b, c, d

    signature = inspect(f)
    assert signature.call(f, signature.bind(b'{"a":1,"c":3}'), None) == (1, 2, 3, 4)


def test_a_class_may_be_called():
    signature = inspect(Filter)
    assert signature.call(Filter, signature.bind(b'{"text":"a"}'), None) == Filter("a")


def test_parameters_may_have_names_that_python_uses():
    def f(cls: int, field0: int, function: int, bound: int, context: int) -> list[int]:
        return [cls, field0, function, bound, context]

    signature = inspect(f)
    raw = b'{"cls":1,"field0":2,"function":3,"bound":4,"context":5}'
    assert signature.call(f, signature.bind(raw), None) == [1, 2, 3, 4, 5]


# Context


def test_the_context_is_put_in_its_place():
    def first(ctx: Context, a: int): return ctx, a  # fmt: skip

    def middle(a: int, ctx: Context[str], b: int = 2): return a, ctx, b  # fmt: skip

    def optional(a: int, ctx: Context[str] | None = None): return a, ctx  # fmt: skip

    def named(a: int, *, ctx: Annotated[Context, "x"]): return a, ctx  # fmt: skip

    def special(a: int, ctx: Special): return a, ctx  # fmt: skip

    for function in (first, middle, optional, named, special):
        signature = inspect(function, context_type=Context)
        assert "ctx" not in signature.input_schema["properties"]
        result = signature.call(function, signature.bind(b'{"a":1}'), "here")
        assert {1, "here"} <= set(result)


def test_other_types_are_not_the_context():
    def f(a: list[int] | None, b: dict[str, int]): ...

    assert [each.name for each in inspect(f, context_type=Context).parameters] == ["a", "b"]


def test_a_second_context_is_refused():
    def f(a: Context, b: Context): ...

    with pytest.raises(RegistrationError, match='function "f": parameter "b" is a second context'):
        inspect(f, context_type=Context)


def test_a_context_imported_for_type_checkers_only_is_found():
    namespace: dict[str, Any] = {}
    source = "from __future__ import annotations\ndef f(ctx: Context, a: int): ..."
    exec(source, namespace)
    signature = inspect(namespace["f"], context_type=Context)
    assert [each.name for each in signature.parameters] == ["a"]


# Annotations


def test_strings_name_types_of_the_function_around():
    @dataclass
    class Local:
        x: int

    def f(value: "Local", more: "list[Local]"): ...

    (value, more) = astuple(inspect(f).bind(b'{"value":{"x":1},"more":[]}'))
    assert (value, more) == (Local(1), [])


def test_local_classes_may_refer_to_each_other():
    @dataclass
    class Inner:
        x: int

    @dataclass
    class Outer:
        inner: "Inner"

    class Struct(msgspec.Struct, kw_only=True):
        outer: "Outer"
        more: "list[Outer]" = []
        n: "int" = 3

    def f(value: Struct): ...

    signature = inspect(f)
    assert signature.input_schema["properties"]["value"]["properties"]["n"]["default"] == 3
    (value,) = astuple(signature.bind(b'{"value":{"outer":{"inner":{"x":1}}}}'))
    assert value == Struct(outer=Outer(Inner(1)))


def test_strings_name_types_of_the_class_around():
    class Outer:
        Inner = Literal["a"]

        def f(value: "Inner"): ...  # noqa: N805

        schema = inspect(f).input_schema

    assert Outer.schema["properties"]["value"] == {"type": "string", "enum": ["a"]}


def test_string_annotations_may_name_types_in_a_closure():
    def make():
        local = int

        def f(value: "local"):
            return local(value)

        return f

    assert inspect(make()).input_schema["properties"]["value"] == {"type": "integer"}


def test_an_annotation_that_cannot_be_resolved_is_named():
    def f(a: int, b: "Hidden"): ...

    with pytest.raises(RegistrationError) as caught:
        inspect(f)
    assert str(caught.value).startswith(
        'function "f": parameter "b": the annotation "Hidden" cannot be resolved'
    )


@cases("annotation", [object(), Desk, list[Desk], Desk | int, complex, "1 +"])
def test_a_parameter_type_without_a_json_form_is_refused(annotation: Any):
    with pytest.raises(RegistrationError, match='function "handler": parameter "value": '):
        taking(annotation)


def test_a_class_with_unresolvable_fields_is_refused():
    @dataclass
    class Broken:
        x: "Hidden"

    with pytest.raises(RegistrationError, match="'Hidden' is not defined"):
        taking(Broken)


def test_parameters_without_a_name_of_their_own_are_refused():
    def many(*args: int): ...
    def named(**kwargs: int): ...

    with pytest.raises(RegistrationError, match=r'"many": "\*args: int" cannot be described'):
        inspect(many)
    with pytest.raises(RegistrationError, match=r'"named": "\*\*kwargs: int" cannot be described'):
        inspect(named)


def test_a_method_without_its_instance_is_refused():
    with pytest.raises(RegistrationError, match="register the method of an instance"):
        inspect(Desk.lift)


def test_generators_are_refused():
    def plain():
        yield 1

    async def asynchronous():
        yield 1

    for function in (plain, asynchronous):
        with pytest.raises(RegistrationError, match="return a list instead"):
            inspect(function)


def test_a_callable_without_a_signature_is_refused():
    with pytest.raises(RegistrationError, match="cannot be registered"):
        inspect(dict.update)
    with pytest.raises(RegistrationError, match="cannot be registered"):
        inspect(classmethod(add))  # type: ignore[arg-type]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="a statement of Python 3.12")
def test_type_statements_and_type_parameters_are_read():
    namespace: dict[str, Any] = {"datetime": dt.datetime}
    exec(
        "type Ids = list[int]\n"
        "type Json = dict[str, Json] | list[Json] | str | int | None\n"
        "type When = datetime | str\n"
        "type Many[T] = list[T]\n"
        "def f[T: int](a: Ids, b: Json, c: T, d: When = 'now', e: Many[int] = []): ...",
        namespace,
    )
    signature = inspect(namespace["f"])
    properties = signature.input_schema["properties"]
    assert properties["a"] == {"type": "array", "items": {"type": "integer"}}
    assert properties["c"] == {"type": "integer"}
    assert properties["e"]["items"] == {"type": "integer"}
    args = astuple(signature.bind(b'{"a":[1],"b":{"x":[1,"a",{"y":null}]},"c":1}'))
    assert args == ([1], {"x": [1, "a", {"y": None}]}, 1, "now", [])


Many = TypeVar("Many", int, str)
Bound = TypeVar("Bound", bound=int)
Ids = TypeAliasType("Ids", list[int])


@pytest.mark.parametrize(
    ("annotation", "given", "reported"),
    [
        (Many, [], "expected an integer or a string, got an array"),
        (Bound, "a", 'expected an integer, got a string ("a")'),
        (tuple[Ids, Ids], [[1], 2], "expected an array, got an integer (2)"),
    ],
    ids=["one of several", "bound", "an alias twice"],
)
def test_type_variables_and_aliases_have_the_schema_of_their_types(
    annotation: Any, given: Any, reported: str
):
    assert refusal(taking(annotation), {"value": given}).endswith(reported)


# Descriptions and defaults


def test_descriptions_come_from_annotations_before_docstrings():
    def f(
        a: Annotated[int, "plain"],
        b: Annotated[int, Meta(description="meta")],
        c: Annotated[int, types.SimpleNamespace(documentation="doc")],
        d: Filter,
        e: Annotated[Filter, "this one"],
        g: int = 0,
    ):
        """F.

        :param a: not this
        :param g: from the docstring
        :param d: from the docstring too
        """

    said = {p.name: p.description for p in inspect(f).parameters}
    assert said == {
        "a": "plain",
        "b": "meta",
        "c": "doc",
        "d": "from the docstring too",
        "e": "this one",
        "g": "from the docstring",
    }


def test_defaults_are_shown_where_json_can():
    marker = object()

    def f(
        a: int = 1,
        b: dt.date = dt.date(2024, 1, 1),
        c: Unit = Unit.FOOT,
        d: Filter = Filter("x"),  # noqa: B008
        e: Any = marker,
        g: list[int] = [1, 2],  # noqa: B006
    ): ...

    signature = inspect(f)
    shown = {p.name: p.schema.get("default", "none") for p in signature.parameters}
    assert shown == {
        "a": 1,
        "b": "2024-01-01",
        "c": "ft",
        "d": {"text": "x", "tags": [], "below": None},
        "e": "none",
        "g": [1, 2],
    }
    assert astuple(signature.bind(b"{}")) == f.__defaults__
    assert astuple(signature.bind(b"{}"))[4] is marker


def test_none_as_a_default_makes_null_acceptable():
    def f(a: int = None): ...  # noqa: RUF013

    signature = inspect(f)
    assert signature.input_schema["properties"]["a"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "default": None,
    }
    assert astuple(signature.bind(b'{"a":null}')) == (None,)


# Reading arguments


@cases("raw", [b"", b"null", b"{}", msgspec.Raw(b"{}"), msgspec.UNSET, None])
def test_empty_input_and_null_are_an_empty_object(raw: Any):
    def f(a: int = 1): ...

    assert astuple(inspect(f).bind(raw)) == (1,)


def test_an_unknown_argument_is_refused_with_the_one_that_was_meant():
    def delete(path: str, dry_run: bool = False): ...

    assert refusal(inspect(delete), {"path": "a", "dryRun": True}) == (
        'unknown argument "dryRun" (did you mean "dry_run"?)'
    )
    assert refusal(inspect(delete), {"path": "a", "zzz": 1}) == (
        'unknown argument "zzz" (the tool takes path, dry_run)'
    )
    assert refusal(inspect(delete), {"path": 5, "zzz": 1}) == (
        'unknown argument "zzz" (the tool takes path, dry_run); argument "path": expected a '
        "string, got an integer (5)"
    )


def test_whole_numbers_are_integers_however_they_are_written():
    assert astuple(inspect(add).bind(b'{"a":1.0,"b":2e0}')) == (1, 2)
    assert astuple(taking(list[dict[str, int]]).bind(b'{"value":[{"a":1.0}]}')) == ([{"a": 1}],)


@cases("annotation", [str, str | list[str], Any, str | dict[str, int]])
def test_a_string_stays_one_where_a_string_is_wanted(annotation: Any):
    assert astuple(taking(annotation).bind(b'{"value":"[1]"}')) == ("[1]",)


def test_a_string_that_holds_no_object_is_refused():
    assert refusal(taking(int | list[int]), {"value": "five"}) == (
        'argument "value": expected an integer or an array, got a string ("five")'
    )
    assert refusal(taking(list[int]), {"value": "5"}) == (
        'argument "value": expected an array, got a string ("5")'
    )
    assert refusal(taking(list[int]), {"value": "[1"}) == (
        'argument "value": expected an array, got a string ("[1")'
    )


REFUSALS = [
    (pathlib.Path, 5, 'argument "value": expected a string, got an integer (5)'),
    (int, "two", 'argument "value": expected an integer, got a string ("two")'),
    (int, 1.5, 'argument "value": expected an integer, got a number (1.5)'),
    (int, True, 'argument "value": expected an integer, got a boolean (true)'),
    (int, None, 'argument "value": expected an integer, got null'),
    (str, 5, 'argument "value": expected a string, got an integer (5)'),
    (bool, 1, 'argument "value": expected a boolean, got an integer (1)'),
    (float, "x", 'argument "value": expected a number, got a string ("x")'),
    (list[int], {}, 'argument "value": expected an array, got an object'),
    (list[int], [1, "a"], 'argument "value[1]": expected an integer, got a string ("a")'),
    (dict[str, int], {"k": "v"}, 'argument "value.k": expected an integer, got a string ("v")'),
    (tuple[int, str], [1, 2], 'argument "value[1]": expected a string, got an integer (2)'),
    (tuple[int, int], [1], 'argument "value": expected at least 2 items, got an array'),
    (Filter, {}, 'argument "value.text" is missing'),
    (Filter, [], 'argument "value": expected an object, got an array'),
    (
        Filter,
        {"text": "", "below": {"text": 1}},
        'argument "value.below.text": expected a string, got an integer (1)',
    ),
    (Unit, "km", 'argument "value": expected one of "m", "ft", got a string ("km")'),
    (Literal["a"], "b", 'argument "value": expected "a", got a string ("b")'),
    (int | None, "x", 'argument "value": expected an integer or null, got a string ("x")'),
    (
        Filter | None,
        {"text": 1},
        'argument "value.text": expected a string, got an integer (1)',
    ),
    (dt.date, "x", 'argument "value": expected a date like 2024-12-31, got a string ("x")'),
    (
        dt.datetime,
        "x",
        'argument "value": expected a date and time like 2024-12-31T23:59:59Z, got a string ("x")',
    ),
    (bytes, "!", 'argument "value": expected base64 text, got a string ("!")'),
    (Annotated[int, Meta(ge=1)], 0, 'argument "value": expected at least 1, got an integer (0)'),
    (Annotated[int, Meta(le=1)], 2, 'argument "value": expected at most 1, got an integer (2)'),
    (Annotated[int, Meta(gt=1)], 1, 'argument "value": expected more than 1, got an integer (1)'),
    (Annotated[int, Meta(lt=1)], 1, 'argument "value": expected less than 1, got an integer (1)'),
    (
        Annotated[int, Meta(multiple_of=5)],
        7,
        'argument "value": expected a multiple of 5, got an integer (7)',
    ),
    (
        Annotated[str, Meta(min_length=1)],
        "",
        'argument "value": expected at least 1 character, got a string ("")',
    ),
    (
        Annotated[str, Meta(max_length=2)],
        "abc",
        'argument "value": expected at most 2 characters, got a string ("abc")',
    ),
    (
        Annotated[str, Meta(pattern="^a$")],
        "b",
        'argument "value": expected text matching ^a$, got a string ("b")',
    ),
    (
        Annotated[list[int], Meta(max_length=1)],
        [1, 2],
        'argument "value": expected at most 1 item, got an array',
    ),
    (
        Annotated[dict[str, int], Meta(min_length=1)],
        {},
        'argument "value": expected at least 1 member, got an object',
    ),
    (
        dt.date | bool,
        [],
        'argument "value": expected a date like 2024-12-31 or a boolean, got an array',
    ),
]


@cases(("annotation", "value", "text"), REFUSALS, ids=lambda x: str(x)[:40])
def test_an_error_names_the_argument_the_expectation_and_the_value(
    annotation: Any, value: Any, text: str
):
    assert refusal(taking(annotation), {"value": value}) == text


def test_long_values_are_cut():
    text = refusal(taking(int), {"value": "x" * 500})
    assert text.endswith('xxx...")')
    assert len(text) < 120


def test_everything_wrong_is_named_at_once():
    assert refusal(inspect(add), {"b": "x"}) == (
        'argument "a" is missing; argument "b": expected an integer, got a string ("x")'
    )


def test_many_faults_are_cut_to_fit():
    def f(alpha: int, beta: int, gamma: int, delta: int, epsilon: int, zeta: int): ...

    names = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
    assert refusal(inspect(f), dict.fromkeys(names, "a string")).endswith("...")


def test_a_close_match_to_a_missing_argument_is_suggested():
    def f(max_results: int): ...

    assert refusal(inspect(f), {"maxResults": 3}) == (
        'argument "max_results" is missing (did you mean it by "maxResults"?)'
    )
    assert refusal(inspect(f), {"colour": 3}) == (
        'argument "max_results" is missing; unknown argument "colour" (the tool takes max_results)'
    )


def test_arguments_that_are_not_an_object_are_refused():
    for raw in (b"[]", b"5", b'"x"'):
        with pytest.raises(ArgumentsError, match="have to be an object"):
            inspect(add).bind(raw)
    with pytest.raises(ArgumentsError, match="the arguments are not JSON"):
        inspect(add).bind(b"{")


def test_refusals_are_tool_errors():
    assert issubclass(ArgumentsError, ToolError)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["text", "tags", "below", "x"]), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_any_json_is_bound_or_refused(value: Any):
    for annotation in (Filter, list[Filter], dict[str, int] | None, Unit | int, dt.date | str):
        signature = taking(annotation)
        text = ""
        try:
            signature.bind(json.encode({"value": value}))
        except ArgumentsError as error:
            text = str(error)
        assert text == "" or text.startswith('argument "value')
        assert "is wrong" not in text


# Strings


@cases(
    ("annotation", "text", "value"),
    [
        (int, "5", 5),
        (int, " 5 ", 5),
        (float, "1.5", 1.5),
        (bool, "true", True),
        (bool, "False", False),
        (bool, "1", True),
        (bool, "yes", True),
        (bool, "off", False),
        (Unit, "ft", Unit.FOOT),
        (int | None, "null", None),
        (str | None, "null", "null"),
        (dt.date, "2024-01-01", dt.date(2024, 1, 1)),
        (list[int], "[1,2]", [1, 2]),
        (Filter, '{"text":"a"}', Filter("a")),
        (str, "[1]", "[1]"),
        (str, " x ", " x "),
        (Literal[1, 2], "2", 2),
    ],
    ids=label,
)
def test_strings_are_converted_to_the_types_of_parameters(annotation: Any, text: str, value: Any):
    assert astuple(taking(annotation).bind_strings({"value": text})) == (value,)


def test_strings_that_do_not_fit_are_refused_in_the_same_words():
    with pytest.raises(ArgumentsError) as caught:
        inspect(add).bind_strings({"a": "x"})
    assert str(caught.value) == (
        'argument "b" is missing; argument "a": expected an integer, got a string ("x")'
    )


def test_an_empty_string_is_left_out_if_the_parameter_has_a_default():
    def f(a: int = 3, b: str = "x", c: "int | None" = None): ...

    assert astuple(inspect(f).bind_strings({"a": "", "b": "", "c": ""})) == (3, "", None)
    with pytest.raises(ArgumentsError, match="expected an integer, got a string"):
        inspect(add).bind_strings({"a": "", "b": "1"})


def test_names_that_are_not_parameters_are_ignored():
    assert astuple(inspect(add).bind_strings({"a": "1", "b": "2", "c": "3"})) == (1, 2)
    assert astuple(inspect(add).bind_strings({"a": " 1 ", "b": "2", "c": "3"})) == (1, 2)


def test_values_of_templates_may_be_lists_already():
    assert astuple(taking(list[str]).bind_strings({"value": ["a", "b"]})) == (["a", "b"],)


def test_encoding_and_binding_agree_for_raw_members():
    signature = taking(msgspec.Raw)
    assert bytes(astuple(signature.bind(b'{"value":[1, 2]}'))[0]) == b"[1, 2]"
    assert encode({"a": 1}) == b'{"a":1}'


# Fields of classes


@dataclass
class Task:
    title: Annotated[str, "what to do"]
    done: bool = False
    after: "Task | None" = None


@dataclass
class Plan:
    tasks: dict[str, list[Task]]


class Dated(msgspec.Struct):
    task: Annotated[Task, Meta(description="which")]


class Place(msgspec.Struct, array_like=True):
    x: Annotated[int, "to the east"]
    y: int = 1


class Pair(NamedTuple):
    a: int
    b: int


class Limited(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    at_most: Annotated[int, Gt(0), "how many"]


@pytest.mark.parametrize(
    ("annotation", "given", "whole"),
    [
        (Task, {"title": "a"}, {"title": "a", "done": False, "after": None}),
        (
            Plan,
            {"tasks": {"now": [{"title": "a", "done": True}]}},
            {"tasks": {"now": [{"title": "a", "done": True, "after": None}]}},
        ),
        (
            Dated,
            {"task": {"title": "a"}},
            {"task": {"title": "a", "done": False, "after": None}},
        ),
    ],
    ids=["alone", "within others", "described"],
)
def test_a_decoded_dataclass_is_encoded_with_its_defaults(annotation, given, whole):
    signature = taking(annotation)
    (value,) = astuple(signature.bind(json.encode({"value": given})))
    assert isinstance(value, annotation)
    assert json.decode(encode(value)) == whole


def test_only_sequences_are_decoded_from_an_array():
    assert astuple(taking(Place).bind(b'{"value":[3]}')) == (Place(3),)
    reported = 'argument "value": expected an object, got an array'
    assert refusal(taking(Task), {"value": ["a"]}) == reported
    assert refusal(taking(Pair), {"value": [1, 2, 3]}) == reported


@dataclass
class Near:
    x: int = 0


@dataclass
class Far:
    y: int = 0
    x: int = 0


@cases(
    ("annotation", "given", "value"),
    [
        (Near | Far, {"y": 1}, Far(1)),
        (Near | Far, {"x": 1}, Near(1)),
        (Near | Far, {"y": 1, "x": 1}, Far(1, 1)),
        (Annotated[str, Meta(min_length=1)] | dt.date, "2025-01-02", dt.date(2025, 1, 2)),
    ],
    ids=["another key", "one key", "two keys", "limited text"],
)
def test_of_several_types_that_fit_the_closest_is_read(annotation: Any, given: Any, value: Any):
    assert astuple(taking(annotation).bind(json.encode({"value": given}))) == (value,)


def test_a_recursive_dataclass_has_one_definition():
    schema = taking(Task).input_schema
    assert list(schema["$defs"]) == ["Task"]
    after = schema["$defs"]["Task"]["properties"]["after"]
    assert {"$ref": "#/$defs/Task"} in after["anyOf"]


def test_descriptions_and_limits_of_fields_count_like_those_of_parameters():
    shown = taking(Task).input_schema["$defs"]["Task"]["properties"]["title"]
    assert shown == {"type": "string", "description": "what to do"}
    limited = taking(Limited)
    assert limited.input_schema["properties"]["value"] == {
        "type": "object",
        "properties": {
            "atMost": {"type": "integer", "exclusiveMinimum": 0, "description": "how many"}
        },
        "required": ["atMost"],
        "additionalProperties": False,
    }
    assert astuple(limited.bind(b'{"value": {"atMost": 1}}')) == (Limited(at_most=1),)
    for wrong, reported in [
        ('{"atMost": 0}', 'argument "value.atMost": expected more than 0, got an integer (0)'),
        ('{"atMost": 1, "more": 2}', 'argument "value.more" is not known'),
    ]:
        with pytest.raises(ArgumentsError) as caught:
            limited.bind(f'{{"value": {wrong}}}'.encode())
        assert str(caught.value) == reported


class Circle(msgspec.Struct, tag="circle"):
    radius: float


class Square(msgspec.Struct, tag="square"):
    side: float


@cases(
    ("given", "reported"),
    [
        ({"type": "square"}, 'argument "value.side" is missing'),
        ({"radius": 1}, 'argument "value.type" is missing'),
        (
            {"type": "cube", "side": 1},
            'argument "value.type": expected one of "circle", "square", got a string ("cube")',
        ),
        ('{"type": "square", "side": "x"}', 'argument "value.side": expected a number'),
    ],
    ids=["member missing", "mark missing", "unknown mark", "wrong within a text"],
)
def test_an_error_in_a_union_is_that_of_the_member_that_was_meant(given, reported):
    with pytest.raises(ArgumentsError) as caught:
        taking(Circle | Square).bind(json.encode({"value": given}))
    assert reported in str(caught.value)


@dataclass
class Named:
    name: str


@dataclass
class Numbered:
    number: int


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({"number": "a"}, 'argument "value.number": expected an integer, got a string ("a")'),
        ({"name": 1}, 'argument "value.name": expected a string, got an integer (1)'),
        ({}, 'argument "value.name" is missing'),
    ],
    ids=["the second", "the first", "neither"],
)
def test_without_a_tag_the_member_with_the_given_fields_was_meant(given, reported):
    with pytest.raises(ArgumentsError) as caught:
        taking(Named | Numbered).bind(json.encode({"value": given}))
    assert str(caught.value) == reported


@pytest.mark.parametrize(
    ("annotation", "reported"),
    [
        (dict[int, str], "a key: expected int, got str"),
        (dict[Literal["a", "b"], str], "a key: invalid enum value 'c'"),
    ],
    ids=["number", "choice"],
)
def test_a_wrong_key_is_distinguished_from_a_wrong_value(annotation, reported):
    with pytest.raises(ArgumentsError) as caught:
        taking(annotation).bind(b'{"value": {"c": "d"}}')
    assert str(caught.value) == f'argument "value": {reported}'


def test_the_default_of_a_named_tuple_fits_its_schema():
    class Place(NamedTuple):
        x: int
        y: int = 0

    def go(to: Place = Place(1, 2), by: list[Place] = [Place(3)], at: dict[str, Place] = {}): ...  # noqa: B006, B008

    schema = inspect(go).input_schema
    assert schema["properties"]["to"]["default"] == {"x": 1, "y": 2}
    assert schema["properties"]["by"]["default"] == [{"x": 3, "y": 0}]
    assert schema["properties"]["at"]["default"] == {}


def test_choices_are_shown_as_their_author_wrote_them():
    pace = Literal["slow", "quick"]

    def move(pace: pace, unit: Unit | None = None, others: list[Literal["z", pace]] = []): ...  # noqa: B006

    properties = inspect(move).input_schema["properties"]
    assert properties["pace"] == {"type": "string", "enum": ["slow", "quick"]}
    assert {"type": "string", "enum": ["m", "ft"]} in properties["unit"]["anyOf"]
    assert properties["others"]["items"]["enum"] == ["z", "slow", "quick"]
