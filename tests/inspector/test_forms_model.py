from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from accord.types import PromptArgument
from accord_tools.inspector.forms import building
from accord_tools.inspector.forms.building import (
    MOST_CHOICES,
    MOST_FIELDS,
    MOST_MEMBERS,
    MOST_OPTIONS,
)
from accord_tools.inspector.forms.model import build_form, prompt_form, prompt_schema, template_form
from support.tables import cases


def form(schema: object) -> Any:
    """The model as the page gets it."""
    return msgspec.to_builtins(build_form(schema))


def field(schema: object) -> Any:
    """The model of a member with the schema."""
    return form({"type": "object", "properties": {"a": schema}})["fields"][0]["model"]


@cases(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"kind": "text"}),
        ({"type": "string", "maxLength": 121}, {"kind": "multiline", "limits": [
            "at most 121 characters"]}),
        ({"type": "string", "format": "date"}, {"kind": "text", "format": "date"}),
        ({"type": "string", "contentMediaType": "text/html"},
         {"kind": "multiline", "format": "text/html"}),
        ({"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"},
         {"kind": "text", "encoding": "base64", "format": "image/png"}),
        ({"type": "integer", "minimum": 1, "maximum": 10.0}, {"kind": "integer", "limits": [
            "1 to 10"]}),
        ({"type": ["integer", "number"]}, {"kind": "number"}),
        ({"type": "boolean", "default": False}, {"kind": "boolean", "default": "false"}),
        ({"type": "null"}, {"kind": "null"}),
        ({"type": ["null"]}, {"kind": "null"}),
        ({"enum": [None]}, {"kind": "null"}),
        ({"anyOf": [{"type": "null"}]}, {"kind": "null"}),
        ({"type": ["string", "null"]}, {"kind": "text", "nullable": True}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "title": "A", "default": None},
         {"kind": "text", "nullable": True, "title": "A", "default": "null"}),
        ({"pattern": "^a"}, {"kind": "text", "limits": ["matches ^a"]}),
        ({}, {"kind": "json"}),
        (True, {"kind": "json"}),
        (False, {"kind": "json", "note": "No value fits here."}),
        ({"const": 5}, {"kind": "choice", "const": "5", "choices": [
            {"title": "5", "value": "5"}]}),
        ({"enum": [1, 2, None]}, {"kind": "choice", "nullable": True, "choices": [
            {"title": "1", "value": "1"}, {"title": "2", "value": "2"}]}),
        ({"enum": ["a"], "enumNames": ["Aah"]}, {"kind": "choice", "const": '"a"', "choices": [
            {"title": "Aah", "value": '"a"'}]}),
        ({"oneOf": [{"const": "a", "title": "Aah"}, {"const": "b"}, {"type": "null"}]},
         {"kind": "choice", "nullable": True, "choices": [
             {"title": "Aah", "value": '"a"'}, {"title": "b", "value": '"b"'}]}),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "Aah"}, {"const": "b"}]}},
         {"kind": "choice", "multiple": True, "choices": [
             {"title": "Aah", "value": '"a"'}, {"title": "b", "value": '"b"'}]}),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 1},
         {"kind": "list", "items": {"kind": "text", "required": True},
          "limits": ["at least 1 item", "each item once"]}),
        ({"type": "array"}, {"kind": "list", "items": {"kind": "json", "required": True}}),
        ({"type": "array", "items": False}, {"kind": "list", "closed": True}),
        ({"type": "array", "prefixItems": [{"type": "integer"}, True], "minItems": 1,
          "items": False},
         {"kind": "tuple", "closed": True, "limits": ["at least 1 item"],
          "prefix": [{"kind": "integer", "required": True}, {"kind": "json"}]}),
        ({"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "string"}},
         {"kind": "tuple", "prefix": [{"kind": "integer"}], "items": {"kind": "text"}}),
        ({"type": "object"}, {"kind": "map", "values": {"kind": "json"}}),
        ({"type": "object", "additionalProperties": False}, {"kind": "object", "closed": True}),
        ({"type": "object", "additionalProperties": {"type": "array", "items": {
            "type": "string"}}},
         {"kind": "map", "values": {
             "kind": "list", "items": {"kind": "text", "required": True}}}),
        ({"patternProperties": {"^x-": {"type": "string"}}},
         {"kind": "map", "values": {"kind": "text"},
          "note": "Members whose names match ^x- have schemas of their own."}),
        ({"type": "string", "deprecated": True, "readOnly": True, "examples": ["a", 1]},
         {"kind": "text", "deprecated": True, "read_only": True, "examples": ['"a"', "1"]}),
        ({"type": "string", "not": {"const": "a"}},
         {"kind": "text", "note": "Rules that are checked but not drawn: not."}),
        ({"type": "strin"},
         {"kind": "json", "note": "The schema names a type that does not exist."}),
        ({"$ref": "https://example.com/a"},
         {"kind": "json",
          "note": "The schema refers to https://example.com/a, which is not part of it."}),
        (5, {"kind": "json", "note": "The schema here is invalid."}),
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_becomes_a_field(schema, expected):
    assert field(schema) == expected


def test_members_keep_their_names_and_presence():
    names = ["__proto__", "", "a.b", "a/b", "\u202e", "constructor"]
    made = form(
        {"type": "object", "properties": {each: {} for each in names}, "required": ["", "more"]}
    )
    assert [each["name"] for each in made["fields"]] == [*names, "more"]
    required = [each["name"] for each in made["fields"] if each["model"].get("required")]
    assert required == ["", "more"]


def test_a_root_without_members_takes_no_arguments():
    assert form({"type": "object"}) == {"kind": "object"}
    assert form({"type": "object", "additionalProperties": True})["kind"] == "map"


def test_values_that_are_long_or_not_json_are_left_out():
    assert field({"type": "string", "default": "x" * 20_000}) == {"kind": "text"}
    assert field({"type": "string", "examples": [float("nan"), object()]})["kind"] == "text"
    assert field({"anyOf": [{"type": "null", "title": "x"}, {"enum": [None]}]}) == {"kind": "null"}


def test_a_reference_that_contradicts_its_neighbours_is_json():
    made = form(
        {
            "properties": {"a": {"$ref": "#/$defs/T", "type": "integer"}},
            "$defs": {"T": {"type": "string"}},
        }
    )
    assert "cannot show" in made["fields"][0]["model"]["note"]


def test_members_beside_named_ones_have_a_model():
    schema = {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}
    assert form(schema)["values"] == {"kind": "integer"}


def test_a_recursive_schema_becomes_a_reference_that_is_defined_once():
    tree = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
    }
    made = form({"properties": {"tree": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": tree}})
    inner = made["fields"][0]["model"]
    inside = inner["fields"][0]["model"]["items"]
    assert inside == {"kind": "ref", "ref": "d1", "required": True}
    assert made["defs"] == {"d1": inner}


def test_a_root_may_refer_to_itself():
    made = form({"properties": {"next": {"$ref": "#"}, "name": {"type": "string"}}})
    assert made["fields"][0]["model"]["fields"][0]["model"]["ref"] == "d1"
    assert made["defs"].keys() == {"d1"}


@cases(
    "schema",
    [
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}},
        {"allOf": [{"$ref": "#"}]},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
    ],
    ids=str,
)
def test_a_reference_that_leads_back_to_itself_is_json(schema):
    text = msgspec.json.encode(build_form(schema)).decode()
    assert '"json"' in text
    assert "leads back" in text or "cannot show" in text


def test_keywords_beside_a_reference_count():
    made = field({"$ref": "#/$defs/T", "title": "Outer", "default": "x"})
    assert made["kind"] == "json"
    schema = {
        "properties": {"a": {"$ref": "#/$defs/T", "title": "Outer", "maxLength": 5}},
        "$defs": {"T": {"type": "string", "title": "Inner", "description": "text", "maxLength": 9}},
    }
    assert form(schema)["fields"][0]["model"] == {
        "kind": "text",
        "title": "Outer",
        "description": "text",
        "limits": ["at most 5 characters"],
    }


def test_schemas_that_all_hold_are_joined():
    made = form(
        {
            "allOf": [
                {"$ref": "#/$defs/Base"},
                {"properties": {"y": {"type": "integer"}}, "required": ["y"]},
                True,
            ],
            "$defs": {
                "Base": {
                    "type": "object",
                    "properties": {"x": {"type": "string"}, "y": {"minimum": 1}},
                    "required": ["x"],
                }
            },
        }
    )
    assert made["fields"] == [
        {"name": "x", "model": {"kind": "text", "required": True}},
        {"name": "y", "model": {"kind": "integer", "required": True, "limits": ["at least 1"]}},
    ]


@cases(
    ("members", "kind", "limits"),
    [
        ([{"type": "number"}, {"type": "integer"}], "integer", None),
        ([{"type": ["string", "null"]}, {"type": "string"}], "text", None),
        ([{"type": "string"}, {"type": "integer"}], "json", None),
        ([{"enum": [1, 2]}, {"enum": [2, 3]}], "choice", None),
        ([{"enum": [1]}, {"enum": [2]}], "json", None),
        ([{"enum": 1}, {"enum": [2]}], "json", None),
        ([{"type": "integer", "minimum": 1}, {"minimum": 3, "maximum": 9}], "integer", ["3 to 9"]),
        ([{"type": "integer", "minimum": "1"}, {"minimum": 3}], "json", None),
        ([{"type": "array", "items": {}}, {"items": {"type": "string"}}], "json", None),
        ([{"additionalProperties": False}, {"additionalProperties": True}], "object", None),
        ([{"additionalProperties": {}}, {"additionalProperties": True}], "map", None),
        ([{"additionalProperties": {}}, {"additionalProperties": {"title": "a"}}], "json", None),
        ([{"properties": 5}, {"properties": {"a": {}}}], "json", None),
        ([{"required": 5}, {"required": ["a"]}], "json", None),
        ([{"allOf": [{"type": "string"}]}, {"allOf": [{"minLength": 2}]}], "text", [
            "at least 2 characters"]),
        ([{"allOf": [{"type": "string"}]}, {"allOf": 5}], "json", None),
        ([5], "json", None),
        ([{"$ref": "#/nowhere"}], "json", None),
        ([{"minLength": 1}] * 200, "json", None),
    ],
    ids=lambda each: str(each)[:60],
)  # fmt: skip
def test_schemas_are_joined_where_that_is_plain(members, kind, limits):
    made = field({"allOf": members})
    assert (made["kind"], made.get("limits")) == (kind, limits)


def test_options_are_titled_by_what_tells_them_apart():
    made = form(
        {
            "oneOf": [
                {"title": "Fish", "type": "object"},
                {"properties": {"kind": {"const": "cat"}}},
                {"$ref": "#/$defs/Dog"},
                {"type": "array", "items": {"type": "string"}},
                {"type": "string"},
                {"type": "string", "minLength": 5},
                {"enum": [5]},
                True,
            ],
            "$defs": {"Dog": {"type": "object", "properties": {"name": {}}}},
        }
    )
    titles = [each["title"] for each in made["options"]]
    assert titles == ["Fish", "cat", "Dog", "list of text", "text", "text (2)", "5", "JSON"]


def test_a_type_list_is_a_union():
    made = field({"type": ["string", "integer", "null"], "maxLength": 3, "minimum": 2})
    assert made["nullable"]
    assert [each["model"] for each in made["options"]] == [
        {"kind": "text", "limits": ["at most 3 characters"]},
        {"kind": "integer", "limits": ["at least 2"]},
    ]


def test_an_option_has_what_stands_beside_the_options():
    made = form(
        {
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "anyOf": [{"properties": {"b": {}}}, {"type": "string"}],
        }
    )
    first, second = (each["model"] for each in made["options"])
    assert [each["name"] for each in first["fields"]] == ["b", "a"]
    assert second["kind"] == "json"


def test_options_that_are_only_rules_are_noted():
    made = form({"properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"]}, {}]})
    assert len(made["fields"]) == 2
    assert made["note"] == "Has to fit exactly one of 2 further rules (oneOf)."


@cases(
    ("schema", "note"),
    [
        ({"enum": [*range(MOST_CHOICES + 1)], "type": "integer"}, "too many to offer"),
        ({"enum": ["a", "x" * 20_000]}, "too long"),
        ({"anyOf": [{"minLength": n} for n in range(MOST_OPTIONS + 1)]}, "too many for a form"),
        ({"properties": {str(n): {} for n in range(10_000)}}, "too many for a form"),
        ({"type": "array", "prefixItems": [{}] * (MOST_MEMBERS + 1)}, "Too many items"),
        ({"properties": {"a": {}}, "patternProperties": {"a": {}, "b": {}}}, "names match a, b"),
    ],
    ids=lambda each: str(each)[:40],
)
def test_a_part_that_is_too_large_is_noted(schema, note):
    assert note in field(schema)["note"]


def test_two_hundred_members_are_drawn():
    schema = {"properties": {str(n): {"type": "string"} for n in range(200)}}
    assert len(form(schema)["fields"]) == 200


def deep() -> object:
    schema: object = {"type": "string"}
    for _ in range(2_000):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


def doubling(pair: object) -> object:
    made = {
        f"d{n}": pair({"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"})
        for n in range(60)
    }
    return {"$ref": "#/$defs/d0", "$defs": made}


@cases(
    "schema",
    [
        deep(),
        doubling(lambda a, b: {"properties": {"a": a, "b": b}}),
        doubling(lambda a, b: {"anyOf": [a, b]}),
        doubling(lambda a, b: {"allOf": [a, b]}),
        {"properties": {str(n): {"properties": {str(m): {} for m in range(99)}}
                        for n in range(200)}},
    ],
    ids=["deep", "members", "options", "joined", "wide"],
)  # fmt: skip
def test_a_hostile_schema_has_a_form_of_bounded_size(schema):
    text = msgspec.json.encode(build_form(schema))
    assert text.count(b'"kind"') <= 2 * MOST_FIELDS


keywords = st.sampled_from(
    ["type", "properties", "items", "anyOf", "oneOf", "allOf", "enum", "const", "$ref", "required",
     "prefixItems", "additionalProperties", "title", "minimum", "minLength", "pattern"]
)  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["a", "#", "string", "#/a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keywords, inner, max_size=4),
    max_leaves=12,
)


@given(anything)
def test_any_value_in_place_of_a_schema_has_a_form(schema):
    msgspec.json.encode(build_form(schema))


def test_the_examples_of_limits_hold():
    import doctest

    assert doctest.testmod(building).failed == 0
    assert building.limits_of({"minimum": 0.5, "multipleOf": 0.25}, "number") == [
        "at least 0.5",
        "a multiple of 0.25",
    ]
    assert building.limits_of({"maximum": 5, "exclusiveMinimum": 1}, "number") == [
        "at most 5",
        "more than 1",
    ]
    assert building.limits_of({"exclusiveMaximum": 1}, "number") == ["less than 1"]
    assert building.limits_of({"minItems": 2, "maxItems": 2}, "array") == ["2 items"]
    assert building.limits_of({"minItems": 2, "maxItems": 5}, "array") == ["2 to 5 items"]
    assert building.limits_of({"propertyNames": {"pattern": "^a"}}, "object") == ["names match ^a"]


def test_the_arguments_of_a_prompt_are_texts():
    arguments = [
        {"name": "code", "description": "to review", "required": True},
        PromptArgument(name="language", title="Language"),
        {"title": "no name"},
    ]
    assert msgspec.to_builtins(prompt_form(arguments))["fields"] == [
        {"name": "code", "model": {"kind": "text", "description": "to review", "required": True}},
        {"name": "language", "model": {"kind": "text", "title": "Language"}},
    ]
    assert prompt_schema(arguments)["required"] == ["code"]


def test_the_variables_of_a_template_are_fields():
    made = msgspec.to_builtins(template_form("file:///{path}{/more*}{?page,size:3}{#part}"))
    shown = {each["name"]: each["model"] for each in made["fields"]}
    assert list(shown) == ["path", "more", "page", "size", "part"]
    assert [name for name, each in shown.items() if each.get("required")] == ["path", "more"]
    assert shown["more"]["kind"] == "list"
    assert shown["page"]["description"] == "a parameter of the query"
    assert shown["size"]["limits"] == ["the first 3 characters are used"]


def test_a_template_that_is_wrong_is_noted():
    assert "never closed" in template_form("file:///{path").note
