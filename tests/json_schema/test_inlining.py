"""References in schemas are replaced; those of a recursion stay."""

from accord.json_schema.reader import inline


def test_a_reference_is_replaced_by_its_target():
    components = {"Leaf": {"type": "object", "title": "Leaf", "required": []}}
    schema = {"type": "array", "items": {"$ref": "#/$defs/Leaf", "description": "one"}}
    assert inline(schema, components) == {
        "type": "array",
        "items": {"type": "object", "description": "one"},
    }


def test_the_title_of_a_property_stays_unless_it_repeats_the_name():
    properties = {
        "row_number": {"type": "integer", "title": "Row Number"},
        "row": {"type": "integer", "title": "Row from the front"},
        "any": True,
    }
    assert inline({"properties": properties}, {}) == {
        "properties": {
            "row_number": {"type": "integer"},
            "row": {"title": "Row from the front", "type": "integer"},
            "any": True,
        }
    }


def test_data_in_a_schema_is_not_taken_for_a_schema():
    schema = {"default": {"$ref": "#/$defs/x"}, "enum": [{"title": "a"}]}
    assert inline(schema, {}) == schema


def test_a_choice_gets_the_type_of_its_values():
    assert inline({"enum": ["a"]}, {})["type"] == "string"
    assert inline({"enum": [1]}, {})["type"] == "integer"
    assert "type" not in inline({"enum": [1, "a"]}, {})


def test_the_outermost_schema_is_not_a_reference():
    components = {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}
    schema = inline({"$ref": "#/$defs/Node"}, {"1.Node": components["Node"]} | components)
    assert schema["type"] == "object"
    assert "$defs" in schema


def test_two_recursive_types_of_one_name_stay_apart():
    components = {
        "1.Tree": {"type": "array", "items": {"$ref": "#/$defs/1.Tree"}},
        "2.Tree": {"type": "object", "additionalProperties": {"$ref": "#/$defs/2.Tree"}},
    }
    schema = inline({"anyOf": [{"$ref": "#/$defs/1.Tree"}, {"$ref": "#/$defs/2.Tree"}]}, components)
    assert schema["anyOf"] == [{"$ref": "#/$defs/Tree"}, {"$ref": "#/$defs/Tree2"}]
    assert set(schema["$defs"]) == {"Tree", "Tree2"}
