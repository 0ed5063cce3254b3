"""Arguments made from schemas: valid and invalid ones as intended."""

import json

import hypothesis
import pytest

from accord.json_schema.validation import compile_schema
from accord_tools.arguments.generation import Found, NothingGenerated, smallest_failure, strategy_of
from accord_tools.arguments.shape import Shape
from accord_tools.contract.tested_server import Failure


def of(properties, *required, **more):
    return {"type": "object", "properties": properties, "required": list(required), **more}


SCHEMAS = {
    "empty": {"type": "object"},
    "texts": of({"t": {"type": "string", "minLength": 2, "maxLength": 4}}, "t"),
    "pattern": of({"t": {"type": "string", "pattern": "^[a-c]{2,3}$"}}),
    "formats": of(
        {
            name: {"type": "string", "format": name}
            for name in ("date", "date-time", "uuid", "ipv4", "ipv6", "email", "uri")
        },
        "date",
    ),
    "integers": of({"n": {"type": "integer", "exclusiveMinimum": 3, "maximum": 5}}, "n"),
    "steps": of({"n": {"type": "integer", "multipleOf": 5, "minimum": 1}}, "n"),
    "number steps": of({"n": {"type": "number", "multipleOf": 0.5, "minimum": 1, "maximum": 9}}),
    "numbers": of({"n": {"type": "number", "minimum": 0, "exclusiveMaximum": 1}}, "n"),
    "choices": of({"c": {"enum": ["a", 1, None]}, "k": {"const": "k"}}, "c", "k"),
    "lists": of({"l": {"type": "array", "items": {"type": "integer"}, "minItems": 1}}, "l"),
    "sets": of({"l": {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True}}),
    "tuples": of(
        {"l": {"type": "array", "prefixItems": [{"type": "null"}], "items": False, "minItems": 1}}
    ),
    "maps": of({"m": {"type": "object", "additionalProperties": {"type": "integer"}}}, "m"),
    "unions": of({"u": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}),
    "exclusive": of({"u": {"oneOf": [{"type": "integer"}, {"type": "string"}]}}, "u"),
    "kinds": of({"u": {"type": ["integer", "boolean"]}}, "u"),
    "joined": of({"j": {"allOf": [{"type": "integer"}, {"minimum": 3}]}}, "j"),
    "anything": of({"x": True, "y": {}}, "x"),
    "nested": of({"o": of({"n": {"type": "integer"}}, "n", additionalProperties=False)}, "o"),
    "references": of(
        {"r": {"$ref": "#/$defs/R"}}, "r", **{"$defs": {"R": {"type": "integer", "minimum": 1}}}
    ),
    "recursion": of(
        {"tree": {"$ref": "#/$defs/T"}},
        **{"$defs": {"T": of({"next": {"$ref": "#/$defs/T"}, "n": {"type": "integer"}}, "n")}},
    ),
    "untyped": {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_generated_arguments_fit_the_schema(name):
    misfit = compile_schema(SCHEMAS[name])
    drawn = []

    @hypothesis.settings(max_examples=30, database=None, derandomize=True, deadline=None)
    @hypothesis.given(strategy_of(SCHEMAS[name]))
    def draw(value):
        drawn.append(value)

    draw()
    # A later filter drops arguments that do not fit; hardly any may need it.
    fitting = [each for each in drawn if misfit(each) is None]
    assert len(fitting) == len(drawn)
    assert json.loads(json.dumps(drawn)) == drawn


@pytest.mark.parametrize("name", SCHEMAS)
def test_plain_and_boundary_arguments_fit_and_invalid_ones_do_not(name):
    shape = Shape(SCHEMAS[name])
    misfit = compile_schema(SCHEMAS[name])
    assert misfit(shape.plain) is None
    made = shape.boundaries()
    assert made[0] == shape.plain
    assert [each for each in made if misfit(each) is not None] == []
    assert len({json.dumps(each, sort_keys=True) for each in made}) == len(made)
    for _, broken in shape.invalid():
        assert broken
        assert [each for each in broken if misfit(each) is None] == []


def test_each_kind_of_invalid_arguments_is_made():
    schema = of(
        {
            "n": {"type": "integer", "minimum": 0, "maximum": 9},
            "t": {"type": "string", "minLength": 2, "maxLength": 3},
            "l": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
            "c": {"enum": ["red", "blue"]},
            "o": of({"inner": {"type": "boolean"}}, "inner"),
        },
        "n",
        "o",
        additionalProperties=False,
    )
    made = dict(Shape(schema).invalid())
    assert set(made) == {
        "a call without n",
        "n of a wrong type",
        "n out of range",
        "t of a wrong type",
        "t out of range",
        "l of a wrong type",
        "l out of range",
        "c of a wrong type",
        "c out of range",
        "a call without o",
        "o of a wrong type",
        "a call without o.inner",
        "o.inner of a wrong type",
        "an unknown argument",
    }
    assert [each["n"] for each in made["n out of range"]] == [-1, 10]
    assert [each["t"] for each in made["t out of range"]] == ["x", "xxxx"]
    assert [len(each["l"]) for each in made["l out of range"]] == [0, 3]


def test_boundary_arguments_lie_at_each_limit():
    schema = of({"n": {"type": "integer", "minimum": -3, "exclusiveMaximum": 9}}, "n")
    assert [each["n"] for each in Shape(schema).boundaries()] == [1, 0, -1, -3, 8]


def test_limits_within_choices_references_and_items_are_found():
    shape = Shape(
        {
            "type": "object",
            "$defs": {"code": {"type": "string", "pattern": "^[0-9]{3}$"}},
            "properties": {
                "page": {
                    "anyOf": [{"type": "integer", "minimum": 2, "maximum": 9}, {"type": "null"}]
                },
                "size": {"allOf": [{"type": "integer"}, {"minimum": 5}]},
                "codes": {"type": "array", "items": {"$ref": "#/$defs/code"}, "maxItems": 2},
            },
        }
    )
    found = shape.boundaries()
    assert {each.get("page") for each in found} >= {2, 9, None}
    assert 5 in {each.get("size") for each in found}
    assert 2 in {len(each.get("codes", ())) for each in found}
    invalid = dict(shape.invalid())
    assert {each["page"] for each in invalid["page out of range"]} == {1, 10}
    assert {each["size"] for each in invalid["size out of range"]} == {4}
    assert [len(each["codes"]) for each in invalid["codes out of range"]] == [3]


def test_an_invalid_or_unsatisfiable_schema_is_reported():
    with pytest.raises(ValueError, match="nonsense"):
        Shape({"type": "nonsense"})
    with pytest.raises(ValueError, match="no value was found that fits its schema"):
        Shape(of({"n": {"type": "integer", "minimum": 3, "maximum": 2}}, "n"))


def test_the_smallest_failing_input_is_found():
    def attempt(value):
        is_bad = value["n"] >= 1234 and "q" in value["t"]
        return Found("error", Failure(expected="", came="")) if is_bad else None

    schema = of({"n": {"type": "integer"}, "t": {"enum": ["abc", "xqx", "q"]}}, "n", "t")
    found = smallest_failure(schema, attempt, is_valid=lambda _: True, examples=200, seed=0)
    assert found is not None
    assert found.arguments in ({"n": 1234, "t": "xqx"}, {"n": 1234, "t": "q"})


def test_failures_of_another_kind_do_not_mix_into_the_search():
    def attempt(value):
        if value["n"] >= 1000:
            return Found("end", Failure(expected="", came="dead"))
        return Found("error", Failure(expected="", came="odd")) if value["n"] == 1 else None

    schema = of({"n": {"type": "integer", "minimum": 2}}, "n")
    found = smallest_failure(schema, attempt, is_valid=lambda _: True, examples=100, seed=0)
    assert (found.kind, found.arguments) == ("end", {"n": 1000})


def test_an_intermittent_failure_is_still_reported():
    seen = []

    def attempt(value):
        seen.append(value)
        return Found("error", Failure(expected="", came="once")) if len(seen) == 3 else None

    schema = of({"n": {"type": "integer"}}, "n")
    found = smallest_failure(schema, attempt, is_valid=lambda _: True, examples=20, seed=0)
    assert found.arguments == seen[2]


def test_the_search_for_a_smaller_input_costs_few_waits():
    waits = []

    def attempt(value):
        if len(value["t"]) > 3:
            waits.append(value)
            return Found("silence", Failure(expected="", came=""))
        return None

    schema = of({"t": {"type": "string"}}, "t")
    assert smallest_failure(schema, attempt, is_valid=lambda _: True, examples=50, seed=0)
    assert len(waits) <= 5


def test_an_error_explains_why_no_arguments_were_generated():
    schema = of({"n": False}, "n")
    with pytest.raises(NothingGenerated):
        smallest_failure(schema, lambda _: None, is_valid=lambda _: True, examples=5, seed=0)
