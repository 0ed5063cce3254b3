import asyncio
import json

import pytest

from accord.client.server_spec import ServerSpec
from accord_tools.inspector.actions import load_actions, perform
from accord_tools.inspector.definition import ActionRefused, InspectOptions
from accord_tools.inspector.forms import form_actions
from accord_tools.inspector.session import Changes, InspectedSession
from support.tables import cases

TEMPLATE = "file:///{path}{?page,tags*}"


def ask(action, **params):
    async def main():
        target = ServerSpec(name="x")
        session = InspectedSession(0, target, "live", options=InspectOptions(), changes=Changes())
        return await perform(session, load_actions()[action], json.dumps(params).encode())

    return asyncio.run(main())


def test_a_text_that_is_not_json_has_a_line_and_a_column():
    found = ask("forms.validate", kind="text", text="{\n  x}")
    assert (found.syntax.line, found.syntax.column) == (2, 3)


def test_a_name_that_comes_twice_is_an_error():
    found = ask("forms.validate", kind="text", text='{"a": 1, "a": 2}')
    assert "more than once" in found.errors[0].message


@cases(
    ("text", "places"),
    [
        ('{"path": "a"}', []),
        ('{"path": "a", "tags": ["x"], "page": "1"}', []),
        ('{"path": "a", "tags": "x"}', []),
        ('{"tags": [1], "more": "x"}', ["/more", "/path", "/tags/0"]),
    ],
)
def test_the_variables_of_a_template_are_validated(text, places):
    found = ask("forms.validate", kind="templates", name=TEMPLATE, text=text)
    assert sorted(each.pointer for each in found.errors) == places


def test_a_template_that_is_wrong_is_not_validated():
    found = ask("forms.validate", kind="templates", name="file:///{x", text="{}")
    assert found.errors == []


def test_an_example_of_a_template_fits():
    found = ask("forms.example", kind="templates", name=TEMPLATE)
    assert json.loads(found.text) == {"path": "text"}


def test_an_example_obeys_patterns_formats_choices_and_sizes():
    made = form_actions.example_for(
        {
            "type": "object",
            "properties": {
                "zip": {"type": "string", "pattern": r"^\d{5}$"},
                "day": {"type": "string", "format": "date"},
                "country": {"enum": ["PE", "JP"]},
                "count": {"type": "integer", "minimum": 3, "maximum": 9, "multipleOf": 4},
                "skus": {
                    "type": "array",
                    "minItems": 2,
                    "uniqueItems": True,
                    "items": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$", "minLength": 6},
                },
            },
            "required": ["zip", "day", "country", "count", "skus"],
        }
    )
    assert made.errors == []
    assert json.loads(made.text) == {
        "zip": "12345",
        "day": "2025-01-31",
        "country": "PE",
        "count": 4,
        "skus": ["AB-123", "BC-234"],
    }


def test_a_pattern_without_an_example_is_said_with_its_place():
    pattern = "^(?=.*[A-Z])(?=.*[0-9]).{8,}$"
    schema = {"properties": {"key": {"type": "string", "pattern": pattern}}, "required": ["key"]}
    made = form_actions.example_for(schema)
    assert [each.pointer for each in made.errors] == ["/key"]
    assert pattern in made.errors[0].message


def test_a_thing_without_a_schema_has_no_example():
    with pytest.raises(ActionRefused, match="no schema"):
        ask("forms.example", kind="text", name="x")


@cases(
    ("values", "uri"),
    [
        ('{"path": "a b/c"}', "file:///a%20b%2Fc"),
        ('{"path": 1.10, "page": true}', "file:///1.10?page=true"),
        ('{"path": "a", "tags": ["x", 2]}', "file:///a?tags=x&tags=2"),
        ('{"path": "a", "tags": {"x": "y"}, "page": null}', "file:///a?x=y"),
        ("{}", "file:///"),
    ],
)
def test_a_template_is_expanded(values, uri):
    assert ask("forms.expand", name=TEMPLATE, text=values) == {"uri": uri}


@cases(
    ("template", "values", "why"),
    [
        (TEMPLATE, "{", "line 1"),
        (TEMPLATE, "[]", "are an object"),
        (TEMPLATE, '{"path": [[]]}', "expected text"),
        (TEMPLATE, '{"path": "\\ud800"}', "half a character"),
        ("{", "{}", "never closed"),
    ],
)
def test_a_template_that_cannot_be_expanded_says_why(template, values, why):
    with pytest.raises(ActionRefused, match=why):
        ask("forms.expand", name=template, text=values)


def test_a_long_text_is_validated_as_well():
    found = ask("forms.validate", kind="text", text="[" + "1," * 50_000 + "]")
    assert found.syntax.message == "expected a value"


def test_the_schemas_of_a_connected_server_are_used():
    from inspector.live_page import live_page

    async def main():
        async with live_page() as page:
            await page.until_listed("tools")
            await page.until_listed("prompts")
            tool = {"kind": "tools", "name": "greet"}
            wrong = await page.ask("forms.validate", **tool, text="{}")
            example = await page.ask("forms.example", **tool)
            right = await page.ask("forms.validate", **tool, text=example["text"])
            prompts = (await page.ask("catalog.list", kind="prompts", start=0, count=9))["entries"]
            prompt = {"kind": "prompts", "name": prompts[0]["name"]}
            number = await page.ask("forms.validate", **prompt, text='{"x": 1}')
            flight = (await page.ask("forms.example", kind="tools", name="book"))["text"]
            await page.ask("calls.tool", name="book", arguments=flight, confirmed=True)
            question = await page.question()
            asked = {"kind": "question", "name": question["id"]}
            answer = await page.ask("forms.validate", **asked, text="[]")
            return wrong, right, number, answer

    wrong, right, number, answer = asyncio.run(main())
    assert [each["message"] for each in wrong["errors"]] == ["is missing"]
    assert right == {"errors": [], "syntax": None}
    assert {"pointer": "/x", "message": "expected a string, got an integer (1)"} in number["errors"]
    assert "expected an object" in answer["errors"][0]["message"]
