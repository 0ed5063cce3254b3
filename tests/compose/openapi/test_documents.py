"""Documents become tools with valid schemas, or say why they do not."""

import json
import logging
import re
import subprocess
import sys

import jsonschema_rs
import pytest

from accord import Server
from accord.compose import openapi
from accord.errors import RegistrationError
from accord.testing import connected
from support.api import document, json_answer, json_body, parameter
from support.tables import cases

BASE = "http://127.0.0.1:1"


def load(described, **options):
    return openapi(described, base_url=BASE, **options)


def tool_of(described, **options):
    source = load(described, **options)
    assert source.skipped == []
    (entry,) = source.entries("tools")
    return entry.item


def argument(schema, *, version="3.1.0", components=None, tool=tool_of):
    """Return the schema that an argument in JSON gets."""
    body = json_body({"type": "object", "properties": {"a": schema}})
    more = {} if components is None else {"components": {"schemas": components}}
    return tool(document(method="post", version=version, requestBody=body, **more)).input_schema


def nest(depth):
    """Return a schema of arrays in arrays."""
    schema = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


# -- reading


def test_a_document_is_read_from_a_file(tmp_path):
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(document()))
    assert [each.key for each in load(path).entries("tools")] == ["call"]
    assert [each.key for each in load(str(path)).entries("tools")] == ["call"]


def test_a_document_in_yaml_is_read_as_its_json_would_be(tmp_path):
    path = tmp_path / "shop.yaml"
    path.write_text(
        "openapi: 3.0.3\ninfo: {title: Shop, version: 2020-01-01}\npaths:\n  /items:\n    get:\n"
        "      operationId: list\n      parameters:\n"
        "      - {name: since, in: query, schema: {type: string, example: 2020-01-01}}\n"
        "      responses:\n        200: {description: fine, content: {application/json: "
        "{schema: {type: object, properties: {a: {type: string}}}}}}\n"
    )
    (entry,) = load(path).entries("tools")
    assert entry.item.input_schema["properties"]["since"]["examples"] == ["2020-01-01"]
    assert entry.item.output_schema["properties"] == {"a": {"type": ["string", "null"]}}


def test_yaml_whose_aliases_stand_for_too_much_is_refused(tmp_path):
    lines = ["openapi: 3.0.3", "info: {title: T, version: '1'}", "paths: {}", "x0: &x0 [a]"]
    for level in range(1, 8):
        aliases = ",".join([f"*x{level - 1}"] * 10)
        lines.append(f"x{level}: &x{level} [{aliases}]")
    path = tmp_path / "shop.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(RegistrationError, match="aliases stand for more than 1000000 values"):
        load(path)


def test_yaml_with_an_alias_is_read_as_if_it_were_written_twice(tmp_path):
    path = tmp_path / "shop.yaml"
    path.write_text(
        "openapi: 3.0.3\ninfo: {title: Shop, version: '1'}\npaths:\n  /a:\n    get: &own\n"
        "      operationId: list\n  /b:\n    get: *own\n"
    )
    assert [each.key for each in load(path).entries("tools")] == ["list", "list_2"]


def test_yaml_without_its_library_is_an_error_that_says_so(tmp_path):
    path = tmp_path / "shop.yaml"
    path.write_text("openapi: 3.0.3")
    code = (
        "import sys; sys.modules['yaml'] = None\nfrom accord.compose import openapi\n"
        f"try: openapi({str(path)!r})\nexcept Exception as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "PyYAML is not installed; run pip install pyyaml" in done.stdout


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"swagger": "2.0"}', "is a document of Swagger 2.0; convert it to OpenAPI 3"),
        ('{"openapi": "4.0"}', "openapi is '4.0', expected a version such as '3.0.3'"),
        ("{}", "openapi is None"),
        ('{"openapi": ', "is not JSON"),
        ("[1]", "is not an OpenAPI document"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_file_that_is_not_a_document_is_refused(tmp_path, text, why):
    path = tmp_path / "shop.json"
    path.write_text(text)
    with pytest.raises(RegistrationError, match=re.escape(why)):
        load(path)


def test_a_file_that_does_not_exist_and_a_url_are_refused(tmp_path):
    with pytest.raises(RegistrationError, match="cannot be read: no such file"):
        load(tmp_path / "none.json")
    with pytest.raises(RegistrationError, match="is a URL; download the document"):
        load("https://example.com/openapi.json")


@cases(
    "url",
    [
        *("api.example.com", "ftp://example.com", "http://", "http://a b"),
        *("http://[::1", "http://api.example.com:99999"),
    ],
)
def test_a_base_url_that_is_not_a_url_is_refused(url):
    with pytest.raises(RegistrationError, match="expected a URL such as"):
        openapi(document(), base_url=url)


def test_a_document_without_a_server_needs_a_base_url():
    with pytest.raises(RegistrationError, match="names no server; give base_url"):
        openapi(document())
    with pytest.raises(RegistrationError, match=re.escape("is '/v1', expected a URL")):
        openapi(document(servers_of_all=[{"url": "/v1"}]))


@pytest.mark.parametrize("options", [{"timeout": 0}, {"max_bytes": -1}, {"timeout": "5"}])
def test_an_option_that_is_not_a_positive_number_is_refused(options):
    with pytest.raises(RegistrationError, match="expected a number of more than 0"):
        load(document(), **options)


def test_an_error_about_a_url_does_not_have_its_password_in_it():
    with pytest.raises(RegistrationError) as caught:
        openapi(document(), base_url="ftp://user:password@example.com")
    assert "password" not in str(caught.value)


def test_the_function_is_found_whatever_was_imported_before():
    code = (
        "import accord.compose.openapi.encoding, accord.compose\n"
        "from accord.compose import openapi\nprint(callable(openapi), accord.compose.openapi)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True <function openapi")


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="did you mean 'timeout'"):
        load(document(), timeot=3)


# -- names and descriptions


def test_names_are_those_that_hosts_allow_and_each_is_given_once():
    paths = {
        "/a": {"get": {"operationId": "repos/get content"}},
        "/b": {"get": {"operationId": "repos_get_content"}},
        "/c/{id}": {"delete": {}},
        "/d": {"get": {"operationId": "x" * 80}, "put": {"operationId": "x" * 70}},
        "/e": {"get": {"operationId": "日本"}},
    }
    names = [each.key for each in load({**document(), "paths": paths}).entries("tools")]
    assert names == [
        "repos_get_content",
        "repos_get_content_2",
        "delete_c_id",
        "x" * 64,
        "x" * 62 + "_2",
        "call",
    ]


def test_names_are_chosen_by_a_mapping_or_a_function():
    assert tool_of(document(), names={"call": "find"}).name == "find"
    assert tool_of(document(), names={"GET /items": "find"}).name == "find"
    assert tool_of(document(), names=lambda operation: operation.path.strip("/")).name == "items"
    assert tool_of(document(), names=lambda operation: None).name == "call"
    with pytest.raises(RegistrationError, match="'a b' for GET /items is not a name of a tool"):
        load(document(), names={"call": "a b"})


def test_chosen_names_go_before_those_of_the_document():
    paths = {
        "/a": {"get": {"operationId": "find"}},
        "/b": {"get": {"operationId": "search"}},
    }
    source = load({**document(), "paths": paths}, names={"search": "find"})
    assert [each.key for each in source.entries("tools")] == ["find_2", "find"]


def test_a_name_for_an_operation_that_does_not_exist_is_refused():
    with pytest.raises(RegistrationError, match="the document has no operation 'cal'"):
        load(document(), names={"cal": "find"})


def test_a_tool_says_what_its_operation_says():
    tool = tool_of(
        document(method="delete", summary="Remove", description="It is gone.", deprecated=True)
    )
    assert (tool.title, tool.description) == ("Remove", "Deprecated. Remove\n\nIt is gone.")
    assert tool.annotations.destructive_hint is True
    assert tool_of(document()).description == "GET /items"


@cases(
    ("method", "hints"),
    [
        ("get", (True, None, None)),
        ("head", (True, None, None)),
        ("post", (False, None, None)),
        ("put", (False, None, True)),
        ("patch", (False, None, None)),
        ("delete", (False, True, True)),
    ],
)
def test_hints_follow_from_the_method(method, hints):
    found = tool_of(document(method=method)).annotations
    assert (found.read_only_hint, found.destructive_hint, found.idempotent_hint) == hints


def test_tags_choose_tools_and_views_rename_them():
    paths = {
        "/pets": {"get": {"operationId": "listPets", "tags": ["pet"]}},
        "/users": {"get": {"operationId": "listUsers", "tags": ["user"]}},
    }
    server = Server("hub")
    server.mount(
        load({**document(), "paths": paths}).only(tags={"pet"}).rename({"listPets": "pets"})
    )
    with connected(server) as client:
        assert [tool.name for tool in client.list_tools().tools] == ["pets"]


# -- schemas


@cases(
    ("old", "new"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "string", "nullable": True, "enum": ["a"]},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {"nullable": True, "allOf": [{"type": "string"}], "description": "d"},
            {"description": "d", "anyOf": [{"allOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        (
            {"nullable": True, "anyOf": [{"type": "string"}]},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
            {"type": "integer", "exclusiveMinimum": 1},
        ),
        (
            {"type": "integer", "maximum": 9, "exclusiveMaximum": False},
            {"type": "integer", "maximum": 9},
        ),
        ({"type": "string", "example": "x"}, {"type": "string", "examples": ["x"]}),
        ({"type": "file", "x-order": 1, "xml": {}, "title": "T"}, {}),
        ({"type": "string", "deprecated": True}, {"type": "string", "deprecated": True}),
        ({"type": "string", "pattern": "[a"}, {"type": "string"}),
        ({"type": "string", "minLength": -1, "maxLength": "9"}, {"type": "string"}),
        ({"type": "string", "enum": [1, 2]}, {"enum": [1, 2]}),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        ({"type": "object", "required": True}, {"type": "object"}),
        ({"items": [{"type": "string"}]}, {"prefixItems": [{"type": "string"}]}),
        ({"nullable": True, "enum": ["a"]}, {"enum": ["a", None]}),
        ({"type": "integer", "multipleOf": 5}, {"type": "integer", "multipleOf": 5}),
        ({"type": "integer", "multipleOf": 0}, {"type": "integer"}),
        (
            {"type": "array", "items": {}, "uniqueItems": True},
            {"type": "array", "items": {}, "uniqueItems": True},
        ),
        ({"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^a"}),
        ({"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
        (
            {"anyOf": [{"type": "string"}], "oneOf": [{"minLength": 2}]},
            {"anyOf": [{"type": "string"}], "allOf": [{"anyOf": [{"minLength": 2}]}]},
        ),
        (True, {}),
        (False, {"not": {}}),
    ],
)
def test_a_schema_of_3_0_becomes_json_schema(old, new):
    assert argument(old, version="3.0.3")["properties"]["a"] == new


def test_a_schema_of_3_1_keeps_its_keywords():
    schema = {
        "type": ["object", "null"],
        "properties": {"b": {"const": 1}},
        "patternProperties": {"^x": {"type": "integer"}},
        "dependentRequired": {"b": ["c"]},
        "if": {"required": ["b"]},
        "then": {"required": ["c"]},
        "exclusiveMinimum": 3,
    }
    found = argument(schema)["properties"]["a"]
    assert found == {**schema, "type": ["null", "object"]}


def test_members_of_answers_alone_are_not_arguments_and_secrets_are_not_answered():
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "readOnly": True},
            "name": {"type": "string"},
            "password": {"type": "string", "writeOnly": True},
        },
        "required": ["id", "name"],
    }
    tool = tool_of(
        document(method="post", requestBody=json_body(schema), responses=json_answer(schema))
    )
    assert list(tool.input_schema["properties"]) == ["name", "password"]
    assert tool.input_schema["required"] == ["name"]
    assert list(tool.output_schema["properties"]) == ["id", "name"]


def test_a_recursive_schema_becomes_a_definition():
    node = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/components/schemas/N"}}},
    }
    schema = argument({"$ref": "#/components/schemas/N"}, components={"N": node})
    assert schema["properties"]["a"] == {"$ref": "#/$defs/N"}
    assert schema["$defs"]["N"]["properties"]["children"]["items"] == {"$ref": "#/$defs/N"}
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"a": {"children": [{"children": []}]}})
    assert not validator.is_valid({"a": {"children": [{"children": 1}]}})


def test_references_in_a_circle_allow_anything():
    circle = {
        "A": {"$ref": "#/components/schemas/B"},
        "B": {"$ref": "#/components/schemas/A"},
    }
    schema = argument({"$ref": "#/components/schemas/A"}, components=circle)
    assert jsonschema_rs.validator_for(schema).is_valid({"a": 1})


def test_members_of_all_of_are_joined_into_arguments():
    schemas = {
        "Base": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
        "Pet": {
            "allOf": [
                {"$ref": "#/components/schemas/Base"},
                {"type": "object", "properties": {"name": {"type": "string"}}},
            ]
        },
    }
    body = json_body({"$ref": "#/components/schemas/Pet"})
    schema = tool_of(
        document(method="post", requestBody=body, components={"schemas": schemas})
    ).input_schema
    assert (list(schema["properties"]), schema["required"]) == (["id", "name"], ["id"])


def test_a_discriminator_says_which_alternative_is_which():
    schemas = {
        "Cat": {"type": "object", "properties": {"kind": {"type": "string"}, "lives": {}}},
        "Dog": {"type": "object", "properties": {"kind": {"type": "string"}, "tricks": {}}},
    }
    pet = {
        "oneOf": [{"$ref": f"#/components/schemas/{name}"} for name in schemas],
        "discriminator": {
            "propertyName": "kind",
            "mapping": {"cat": "#/components/schemas/Cat", "dog": "Dog"},
        },
    }
    schema = argument(pet, components=schemas)
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid({"a": {"kind": "cat"}})
    assert not validator.is_valid({"a": {"kind": "cow"}})


def test_definitions_beyond_a_size_are_left_open():
    schemas = {
        f"S{n}": {
            "type": "object",
            "description": "d" * 500,
            "properties": {"next": {"$ref": f"#/components/schemas/S{n + 1}"}},
        }
        for n in range(100)
    }
    schemas["S100"] = {"type": "object", "properties": {"end": {"type": "string"}}}
    schema = argument({"$ref": "#/components/schemas/S0"}, components=schemas)
    assert 10 < len(schema["$defs"]) < 40
    assert len(json.dumps(schema)) < 20_000
    assert jsonschema_rs.validator_for(schema).is_valid({"a": {"next": {"next": {}}}})


def test_references_to_parameters_bodies_responses_and_path_items_are_followed():
    described = document(method="post")
    described["paths"] = {"/items": {"$ref": "#/components/pathItems/Items"}}
    described["components"] = {
        "pathItems": {
            "Items": {
                "parameters": [{"$ref": "#/components/parameters/Page"}],
                "post": {
                    "operationId": "call",
                    "requestBody": {"$ref": "#/components/requestBodies/Item"},
                    "responses": {"200": {"$ref": "#/components/responses/Item"}},
                },
            }
        },
        "parameters": {"Page": parameter("page", "query", {"type": "integer"})},
        "requestBodies": {"Item": json_body({"$ref": "#/components/schemas/Item"})},
        "responses": {"Item": json_answer({"$ref": "#/components/schemas/Item"})["200"]},
        "schemas": {"Item": {"type": "object", "properties": {"name": {"type": "string"}}}},
    }
    tool = tool_of(described)
    assert list(tool.input_schema["properties"]) == ["page", "name"]
    assert list(tool.output_schema["properties"]) == ["name"]


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        ({"parameters": [parameter("q", "query", {"$ref": "o.yaml#/A"})]}, "leads out of the doc"),
        ({"parameters": [parameter("q", "query", {"$ref": "#/none"})]}, "leads to nothing"),
        ({"parameters": [{"$ref": "#/none"}]}, "leads to nothing"),
        ({"parameters": [{"name": "q", "in": "body"}]}, "a parameter has name 'q' and in 'body'"),
        ({"parameters": [parameter("q", "query", style="odd")]}, "has the style 'odd'"),
        ({"parameters": [parameter("q", "query", {"items": 5, "not": 1, "allOf": [5]})]}, "5 st"),
        ({"parameters": [parameter("a\r\nb", "header")]}, "is not the name of a header"),
        ({"servers": [{"url": "ftp://files.example"}]}, "expected a URL such as"),
        ({"requestBody": {"content": {"nonsense": {}}}}, "its body is 'nonsense', expected"),
        ({"requestBody": {"$ref": "#/components/none"}}, "leads to nothing"),
        ({"parameters": [{"$ref": 5}]}, "a $ref is 5, expected text"),
        ({"parameters": [5]}, "5 stands where an object is expected"),
        ({"parameters": [{"$ref": "#/openapi"}]}, "'3.1.0' stands where an object is expected"),
        (
            {"parameters": [{"$ref": "#/paths/~1items/post/parameters/0"}]},
            "a chain of references leads in a circle",
        ),
        ({"parameters": [parameter("q", "query", nest(2_000))]}, "its schemas nest too deep"),
        (
            {
                "requestBody": json_body({"$ref": "#/components/schemas/A"}),
                "components": {"schemas": {"A": {"items": {"$ref": "#/none"}}}},
            },
            "'#/none' leads to nothing",
        ),
    ],
)
def test_an_operation_that_cannot_be_expressed_is_named_with_the_reason(caplog, operation, why):
    servers = [{"url": "https://api.example"}]
    with caplog.at_level(logging.WARNING, "accord.compose"):
        source = openapi(document(method="post", servers_of_all=servers, **operation))
    assert source.entries("tools") == []
    ((label, reason),) = source.skipped
    assert label == "POST /items"
    assert why in reason
    assert len(caplog.records) == 1
    assert "1 operation is left out: POST /items" in caplog.text


def test_an_answer_that_cannot_be_expressed_leaves_the_tool_without_output_schema():
    assert tool_of(document(responses=json_answer({"$ref": "o.yaml#/A"}))).output_schema is None


@cases(
    ("answer", "properties"),
    [
        ({"type": "array", "items": {"type": "string"}}, ["result"]),
        ({"type": "integer"}, ["result"]),
        ({"type": "object", "properties": {"a": {}}}, ["a"]),
        ({"oneOf": [{"type": "object"}, {"type": "string"}]}, ["result"]),
    ],
)
def test_answers_that_are_not_objects_are_the_member_result(answer, properties):
    schema = tool_of(document(responses=json_answer(answer))).output_schema
    assert (schema["type"], list(schema["properties"])) == ("object", properties)


def test_output_schemas_can_be_left_out():
    answer = json_answer({"type": "object", "properties": {"a": {}}})
    assert tool_of(document(responses=answer), output_schemas=False).output_schema is None


def test_headers_that_the_author_gives_are_not_arguments():
    described = document(
        parameters=[parameter(name, "header") for name in ("X-Version", "Accept", "Host", "Cookie")]
    )
    tool = tool_of(described, headers={"x-version": "1"})
    assert tool.input_schema == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_a_thousand_operations_are_listed():
    paths = {
        f"/things{n}/{{id}}": {
            "get": {
                "operationId": f"get{n}",
                "parameters": [parameter("id", "path", required=True), parameter("q", "query")],
            }
        }
        for n in range(1_000)
    }
    server = Server("many")
    server.mount(load({**document(), "paths": paths}))
    with connected(server) as client:
        assert len(client.list_tools().tools) == 1_000


def test_parts_of_paths_that_are_not_operations_are_named_and_the_others_are_tools():
    paths = {
        "x-owner": {"get": {"operationId": "extension"}},
        "/number": 5,
        "/gone": {"$ref": "#/none"},
        "/text": {"get": "text"},
        "/items": {"get": {"operationId": "list"}},
    }
    source = load({**document(), "paths": paths})
    assert [each.key for each in source.entries("tools")] == ["list"]
    assert [tuple(each) for each in source.skipped] == [
        ("* /number", "5 stands where an object is expected"),
        ("* /gone", "the reference '#/none' leads to nothing"),
        ("GET /text", "the operation is not an object"),
    ]


def test_servers_that_cannot_be_read_are_passed_over_for_the_next():
    described = document(servers_of_all=[5, {}, {"url": "https://api.example/v1"}])
    (entry,) = openapi(described).entries("tools")
    assert entry.key == "call"


def test_a_summary_that_the_description_repeats_is_given_once():
    tool = tool_of(document(summary="Find pets", description="Find pets of a shop."))
    assert tool.description == "Find pets of a shop."


@cases(
    ("version", "expected"),
    [
        ("3.0.3", {"$ref": "#/$defs/N", "description": "its own"}),
        ("3.1.0", {"$ref": "#/$defs/N", "description": "its own", "minProperties": 1}),
    ],
)
def test_members_beside_a_reference_count_as_the_version_says(version, expected):
    node = {"type": "object", "properties": {"b": {"type": "string"}}}
    beside = {"$ref": "#/components/schemas/N", "description": "its own", "minProperties": 1}
    found = argument(beside, version=version, components={"N": node})
    assert found["properties"]["a"] == expected


def test_definitions_of_one_name_in_two_places_stay_apart():
    described = document(
        method="post",
        requestBody=json_body(
            {
                "type": "object",
                "properties": {
                    "a": {"$ref": "#/components/schemas/N"},
                    "b": {"$ref": "#/components/more/N"},
                },
            }
        ),
        components={
            "schemas": {"N": {"type": "object", "properties": {"x": {}}}},
            "more": {"N": {"type": "object", "properties": {"y": {}}}},
        },
    )
    schema = tool_of(described).input_schema
    assert schema["properties"] == {"a": {"$ref": "#/$defs/N"}, "b": {"$ref": "#/$defs/N2"}}
    assert [list(schema["$defs"][name]["properties"]) for name in ("N", "N2")] == [["x"], ["y"]]


def test_a_body_whose_references_lead_in_a_circle_takes_anything():
    circle = {
        "A": {"$ref": "#/components/schemas/B"},
        "B": {"$ref": "#/components/schemas/A"},
    }
    body = json_body({"$ref": "#/components/schemas/A"})
    described = document(method="post", requestBody=body, components={"schemas": circle})
    validator = jsonschema_rs.validator_for(tool_of(described).input_schema)
    assert validator.is_valid({"body": [1]})
    assert not validator.is_valid({})


def test_a_value_of_a_discriminator_that_leads_nowhere_is_passed_over():
    pet = {
        "oneOf": [{"$ref": "#/components/schemas/Cat"}],
        "discriminator": {"propertyName": "kind", "mapping": {"cow": 5, "cat": "Cat"}},
    }
    cat = {"type": "object", "properties": {"kind": {"type": "string"}}}
    validator = jsonschema_rs.validator_for(argument(pet, components={"Cat": cat}))
    assert validator.is_valid({"a": {"kind": "cat"}})
    assert not validator.is_valid({"a": {"kind": "cow"}})


@cases(
    ("body", "properties"),
    [
        ({"properties": {"a": {}}, "additionalProperties": True}, ["body"]),
        ({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}, ["body"]),
        ({"properties": {"a": {}}, "anyOf": [{"properties": {"b": {}}}]}, ["body"]),
        ({"properties": {"a": {}}, "oneOf": [True]}, ["body"]),
        ({"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}]}, ["a", "b"]),
    ],
)
def test_a_body_is_split_into_arguments_when_its_members_are_all_known(body, properties):
    tool = tool_of(document(method="post", requestBody=json_body(body)))
    assert list(tool.input_schema["properties"]) == properties


def test_a_body_that_is_one_argument_has_the_description_of_the_body():
    body = {**json_body({"type": "array", "items": {"type": "string"}}), "description": "All tags"}
    tool = tool_of(document(method="post", requestBody=body))
    assert tool.input_schema["properties"]["body"]["description"] == "All tags"


def test_a_body_without_content_and_a_path_parameter_without_a_place_are_not_arguments():
    described = document(
        method="post", parameters=[parameter("id", "path", required=True)], requestBody={}
    )
    assert tool_of(described).input_schema["properties"] == {}


def test_names_that_are_equal_once_they_are_cleaned_get_a_number():
    described = [parameter(name, "query") for name in ("a[b]", "a b", "a(b)", "a{b}")]
    found = tool_of(document(parameters=described)).input_schema["properties"]
    assert list(found) == ["a_b", "a_b_query", "a_b_query_2", "a_b_query_3"]


def test_patterns_are_checked_without_the_library_for_schemas_too():
    described = document(
        parameters=[
            parameter("fine", "query", {"type": "string", "pattern": "^a"}),
            parameter("broken", "query", {"type": "string", "pattern": "[a"}),
        ]
    )
    code = (
        "import asyncio, json, sys; sys.modules['jsonschema_rs'] = None\n"
        "from accord.compose import openapi\n"
        f"(entry,) = openapi({described!r}, base_url={BASE!r}).entries('tools')\n"
        "print(json.dumps(entry.item.input_schema['properties']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {
        "fine": {"type": "string", "pattern": "^a"},
        "broken": {"type": "string"},
    }
