import asyncio
import json

import pytest

from accord.inspector.actions import Action, perform
from accord.inspector.changes import Changes
from accord.inspector.definition import InspectOptions, InspectTarget, Refused
from accord.inspector.forms import form_actions
from accord.inspector.session import Session

RUN = {
    "forms.validate": form_actions.validate,
    "forms.example": form_actions.make_example,
    "forms.expand": form_actions.expand_template,
}
PARAMS = {
    "forms.validate": form_actions.ValidateParams,
    "forms.example": form_actions.ExampleParams,
    "forms.expand": form_actions.ExpandParams,
}
TEMPLATE = "file:///{path}{?page,tags*}"


def ask(action, **params):
    async def main():
        target = InspectTarget(title="x")
        session = Session(0, target, "live", options=InspectOptions(), changes=Changes())
        asked = Action(action, PARAMS[action], RUN[action], ("live",))
        return await perform(session, asked, json.dumps(params).encode())

    return asyncio.run(main())


def test_a_text_that_is_not_json_has_a_line_and_a_column():
    found = ask("forms.validate", kind="text", text="{\n  x}")
    assert (found.syntax.line, found.syntax.column) == (2, 3)


def test_a_name_that_comes_twice_is_an_error():
    found = ask("forms.validate", kind="text", text='{"a": 1, "a": 2}')
    assert "more than once" in found.errors[0].message


@pytest.mark.parametrize(
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
    assert json.loads(found["text"]) == {"path": "text"}


def test_a_thing_without_a_schema_has_no_example():
    with pytest.raises(Refused, match="no schema"):
        ask("forms.example", kind="text", name="x")


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
    with pytest.raises(Refused, match=why):
        ask("forms.expand", name=template, text=values)
