"""The forms of the inspector: lossless JSON in Node, and the form itself in a real browser."""

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from browser import NODE, Chromium
from form_pages import STATIC, form_server
from inspector_pages import InspectorPage, open_inspector

from accord_tools.inspector.forms.model import build_form

TREE = {
    "type": "object",
    "properties": {
        "value": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
    },
    "required": ["value"],
}
PETS = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}},
            "required": ["kind", "lives"],
        },
        {
            "type": "object",
            "properties": {"kind": {"const": "dog"}, "name": {"type": "string"}},
            "required": ["name"],
        },
    ]
}
# By name: a schema, and values that its form shows without changing them.
CASES: dict[str, tuple[Any, list[str]]] = {
    "recursive tree": (
        {"properties": {"tree": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": TREE}},
        ["{}", '{"tree":{"value":"a","children":[{"value":"b","children":[]},{"value":"c"}]}}'],
    ),
    "union": (PETS, ['{"kind":"dog","name":"Rex"}', '{"kind":"cat","lives":9}', "5", '"x"']),
    "map of lists": (
        {
            "properties": {
                "map": {"additionalProperties": {"type": "array", "items": {"type": "integer"}}}
            }
        },
        ['{"map":{"a":[1,2],"":[],"__proto__":[3],"a.b":[123456789012345678901234567890]}}'],
    ),
    "nullable choice": (
        {"properties": {"n": {"anyOf": [{"enum": [1, 2]}, {"type": "null"}]}}},
        ['{"n":1}', '{"n":null}', '{"n":3}', '{"n":"1"}', "{}"],
    ),
    "tuple": (
        {
            "properties": {
                "t": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}]}
            }
        },
        ['{"t":[1.10,"a"]}', '{"t":[1]}', '{"t":[1,"a",null,[2]]}', '{"t":[]}', '{"t":"x"}'],
    ),
    "numbers": (
        {"properties": {"a": {"type": "number"}, "b": {"type": "integer"}, "c": {}}},
        [
            '{"a":1.10,"b":9007199254740993,"c":1e400}',
            '{"a":-0,"b":123456789012345678901234567890}',
            '{"a":"1","b":true,"c":{"x":[1.0]}}',
            '{"a":null,"b":[1],"c":"text"}',
        ],
    ),
    "hostile names": (
        {
            "properties": {
                each: {"type": "string"}
                for each in ("__proto__", "", "a.b", "a/b", "~", "constructor", "\u202e\x00 x")
            }
        },
        [
            '{"__proto__":"a","":"b","a.b":"c","a/b":"d","~":"e","constructor":"f"}',
            '{"toString":1,"__proto__":{"x":1},"\\u0000":"\\ud800"}',
        ],
    ),
    "texts": (
        {"properties": {"s": {"type": "string"}, "m": {"type": "string", "maxLength": 999}}},
        ['{"s":"one\\ntwo","m":"a\\tb"}', '{"s":5,"m":null}', '{"s":"x","other":[1,2]}'],
    ),
    "many choices": (
        {"properties": {"c": {"type": "array", "items": {"enum": ["a", "b"]}}}},
        ['{"c":["b","a"]}', '{"c":["a","z","a"]}', '{"c":"a"}', '{"c":[]}'],
    ),
    "booleans": (
        {"properties": {"b": {"type": "boolean"}, "n": {"type": "null"}}},
        ['{"b":true,"n":null}', '{"b":false}', '{"b":"yes","n":1}', "{}"],
    ),
    "anything": (True, ["5", '{"a":[{}]}', '"x"', "null"]),
    "nothing": (False, ["5"]),
    "list": ({"type": "array", "items": {"type": "string"}}, ["[]", '["a","b"]', "{}"]),
    "text": ({"type": "string"}, ['"a"', "5"]),
    "names twice": ({"properties": {"a": {"type": "string"}}}, ['{"a":"x","a":"y"}']),
    "wide": (
        {"properties": {f"p{n}": {"type": "integer"} for n in range(200)}},
        ['{"p0":1,"p199":2}'],
    ),
}
USED: dict[str, Any] = {
    "all": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer", "maximum": 10},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": "hi"},
            "lines": {"type": "array", "items": {"type": "string"}},
            "pet": PETS,
            "more": {"additionalProperties": {"type": "string"}},
        },
        "required": ["name", "count"],
    },
    "prompt": {"properties": {"language": {"type": "string"}}, "required": ["language"]},
    "hostile": {
        "title": "<img src=x onerror=alert(1)>",
        "properties": {
            '"><script>alert(1)</script>': {
                "type": "string",
                "title": "\u202etitle\x1b[31m",
                "description": "<b>bold</b> javascript:alert(1)",
                "default": "</textarea><script>",
            },
            "e": {"enum": ["<option>", "\u202e"], "deprecated": True},
        },
        "required": ["e"],
    },
}
# Draws each value, makes an event at each control without changing it, and returns what differs.
ROUND_TRIP = """
const { html, render, Form, json, models } = window;
const place = document.createElement('div');
document.body.append(place);
const settle = () => new Promise((done) => setTimeout(done, 0));
const differences = [];
for (const [name, model, values] of CASES) {
  for (const value of values) {
    let text = value;
    const draw = () => render(html`<${Form} key=${name + value} model=${model} text=${text}
      idPrefix="x" onText=${(next) => { text = next; draw(); }} />`, place);
    draw();
    await settle();
    const count = place.querySelectorAll('input,select,textarea').length;
    if (place.innerText.trim() === '') differences.push([name, value, 'nothing is drawn']);
    for (let index = 0; index < count; index += 1) {
      const control = place.querySelectorAll('input,select,textarea')[index];
      if (!control) { differences.push([name, value, 'a control is gone']); break; }
      if (control.value === '' || control.type === 'checkbox') continue;
      // Typing into a field for texts makes a text, whatever was there.
      if (control.closest('.form-field')?.innerText.includes('JSON of another type')) continue;
      if (control.id.endsWith('-name')) continue;
      const kind = control.tagName === 'SELECT' ? 'change' : 'input';
      control.dispatchEvent(new Event(kind, { bubbles: true }));
      await settle();
      if (text === '' || json.printJson(json.parseJson(text)) !== value) {
        differences.push([name, value, control.id, text]);
        break;
      }
    }
  }
}
render(null, place);
place.remove();
return differences;
"""


def in_node(script: str) -> Any:
    head = (
        f"import {{ parseJson, printJson }} from {json.dumps((STATIC / 'json_text.js').as_uri())};"
    )
    ran = subprocess.run(
        [NODE, "--input-type=module", "-e", head + script],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(ran.stdout)


def test_json_comes_back_as_it_was_typed() -> None:
    texts = [each for _, values in CASES.values() for each in values]
    script = f"""
    const texts = {json.dumps(texts)};
    const printed = texts.map((each) => printJson(parseJson(each)));
    const spread = texts.map((each) => printJson(parseJson(printJson(parseJson(each), 2))));
    console.log(JSON.stringify([printed, spread]));
    """
    printed, spread = in_node(script)
    assert printed == texts
    assert spread == texts


def test_a_fault_of_json_has_a_line_and_a_column() -> None:
    texts = ["", "{", '{"a":1,}', "[1\n2]", "{a:1}", '"x', '"\\x"', "01", "nul", "[" * 2_000]
    script = f"""
    const texts = {json.dumps(texts)};
    console.log(JSON.stringify(texts.map((each) => {{
      try {{ parseJson(each); return null; }} catch (fault) {{ return [fault.line, fault.column]; }}
    }})));
    """
    places = [[1, 1], [1, 2], [1, 8], [2, 1], [1, 2], [1, 1], [1, 2], [1, 2], [1, 1], [1, 1001]]
    assert in_node(script) == places


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    schemas = {name: schema for name, (schema, _) in CASES.items()}
    with form_server(schemas | USED) as found:
        yield found


Run = Callable[..., None]


@pytest.fixture
def run(url: str, in_browser: Any) -> Run:
    """Open the form of a schema in the one browser of all tests, and use it."""

    async def use(
        chromium: Chromium, name: str, work: Callable[[InspectorPage], Any], width: int
    ) -> None:
        page = await open_inspector(chromium, f"{url}#{name}", width=width)
        await page.page.wait_for("window.isReady")
        await work(page)
        assert await page.troubles() == []

    return lambda name, work, width=1280: in_browser(
        lambda chromium: use(chromium, name, work, width)
    )


async def text_of(page: InspectorPage) -> Any:
    """The JSON that the form holds."""
    return json.loads(await page.page.run("return window.text()"))


def test_a_form_changes_nothing_by_itself(run: Run) -> None:
    cases = [
        (name, msgspec.to_builtins(build_form(schema)), values)
        for name, (schema, values) in CASES.items()
    ]

    async def work(page: InspectorPage) -> None:
        found = await page.page.run(f"const CASES = {json.dumps(cases)}; {ROUND_TRIP}")
        assert found == []

    run("text", work)


def test_fields_are_filled_in_by_the_keyboard(run: Run) -> None:
    async def work(page: InspectorPage) -> None:
        await page.page.wait_for("window.text() !== '{}'")
        # Required texts start empty; numbers have no empty value.
        assert await text_of(page) == {"name": ""}
        await page.fill("name", "Ada")
        await page.fill("count", "99999999999999999999")
        await page.page.wait_for("window.errors().length === 1")
        assert await page.page.run("return document.querySelectorAll('.error').length") == 0
        await page.press("Tab")
        await page.sees("expected at most 10")
        assert "99999999999999999999" in await page.page.run("return window.text()")
        # Absent, null and empty are three states.
        await page.use("button", "Null: note")
        assert (await text_of(page))["note"] is None
        await page.use("button", "Send an empty text: note")
        assert (await text_of(page))["note"] == ""
        await page.use("button", "Leave out: note")
        assert "note" not in await text_of(page)
        await page.use("button", "Use the default: note")
        assert (await text_of(page))["note"] == "hi"
        await page.fill("note", "")
        assert "note" not in await text_of(page)

    run("all", work)


def test_a_field_is_red_once_it_was_left_and_has_one_line(run: Run) -> None:
    red = "[...document.querySelectorAll('.error')].map((each) => each.innerText)"

    async def work(page: InspectorPage) -> None:
        await page.page.wait_for("window.errors().length === 1")
        await page.go_to("textbox", "count")
        assert await page.page.run(f"return {red}") == []
        await page.lacks("an empty text is sent")
        await page.press("Tab")
        await page.until(f"{red}.length > 0")
        assert [each.strip() for each in await page.page.run(f"return {red}")] == ["is missing"]
        # What is filled in anew was not left yet.
        await page.use("button", "Clear")
        await page.until(f"{red}.length === 0")

    run("all", work)


def test_items_are_added_moved_and_removed_with_the_focus(run: Run) -> None:
    async def work(page: InspectorPage) -> None:
        await page.use("button", "Add an item: lines")
        assert (await page.focused())[0] == "textbox"
        await page.write("one")
        await page.use("button", "Add an item")
        await page.write("two")
        assert (await text_of(page))["lines"] == ["one", "two"]
        await page.use("button", "Move item 2 up")
        assert (await text_of(page))["lines"] == ["two", "one"]
        await page.has_focused("button", "Move item 1 down")
        await page.use("button", "Remove item 1")
        assert (await text_of(page))["lines"] == ["one"]
        await page.has_focused("button", "Remove item 1")
        await page.press("Enter")
        assert (await text_of(page))["lines"] == []
        await page.has_focused("button", "Add an item")

    run("all", work)


def test_a_union_keeps_the_values_of_its_other_option(run: Run) -> None:
    choose = (
        "const it = document.querySelector('[role=group] > select'); it.value = '{}';"
        "it.dispatchEvent(new Event('change', {{ bubbles: true }}))"
    )

    async def work(page: InspectorPage) -> None:
        await page.page.run(choose.format(1))
        await page.page.wait_for("document.querySelector('.form-option input')")
        await page.page.run(
            "const it = document.querySelector('.form-option input');"
            "it.value = 'Rex'; it.dispatchEvent(new Event('input', { bubbles: true }))"
        )
        assert (await text_of(page))["pet"] == {"kind": "dog", "name": "Rex"}
        await page.page.run(choose.format(0))
        assert (await text_of(page))["pet"] == {"kind": "cat"}
        await page.page.run(choose.format(1))
        assert (await text_of(page))["pet"] == {"kind": "dog", "name": "Rex"}
        await page.page.run(choose.format("absent"))
        assert "pet" not in await text_of(page)

    run("all", work)


def test_json_and_form_are_two_views_of_one_value(run: Run) -> None:
    async def work(page: InspectorPage) -> None:
        await page.use("tab", "Form", "ArrowRight")
        await page.fill("JSON", '{"name": "Ada", "count": 1.50, "unknown": {"a": 1e400}')
        await page.press("Tab")
        await page.sees("column 55")
        await page.use("tab", "JSON", "ArrowLeft")
        await page.sees("The form shows nothing while the JSON has a fault in line 1, column 55")
        await page.use("tab", "Form", "ArrowRight")
        await page.fill("JSON", '{"name": "Ada", "count": 1.50, "unknown": {"a": 1e400}}')
        await page.use("tab", "JSON", "ArrowLeft")
        await page.sees("Not in the schema:")
        await page.fill("name", "Bob")
        text = await page.page.run("return window.text()")
        assert "1.50" in text
        assert "1e400" in text
        assert '"Bob"' in text
        # An error leads to its field.
        await page.sees("expected an integer, got a number (1.5)")
        assert "/count" not in await page.page.text("main")
        await page.use("tab", "Form", "ArrowRight")
        await page.use("button", "/count")
        await page.has_focused("textbox", "count")
        assert await page.page.run("return window.errors().length") == 1

    run("all", work)


def test_typing_never_loses_the_focus_or_the_text(run: Run) -> None:
    async def work(page: InspectorPage) -> None:
        start = json.dumps({"name": 5, "lines": "x", "count": 1})
        await page.page.run(f"put({json.dumps(start)})")
        # A list that is a text is JSON until the focus leaves, also once it is a list.
        await page.fill("lines", '["a", "b"]')
        assert (await text_of(page))["lines"] == ["a", "b"]
        await page.has_focused("textbox", "lines")
        await page.press("Tab")
        await page.has_focused("button", "Leave out: lines")
        await page.press("Tab")
        await page.sees("2 items")
        await page.fill("name", "a text")
        assert (await text_of(page))["name"] == "a text"
        # What is not a number stays as typed, and is sent as a text.
        await page.fill("count", "1e")
        assert (await text_of(page))["count"] == "1e"
        assert await page.page.run("return document.activeElement.value") == "1e"
        await page.press("5")
        assert "1e5" in await page.page.run("return window.text()")
        await page.sees("expected at most 10")

    run("all", work)


def test_fill_buttons_can_be_undone(run: Run) -> None:
    async def work(page: InspectorPage) -> None:
        await page.fill("name", "Ada")
        await page.use("button", "Example")
        await page.page.wait_for("window.text().includes('\"count\": 1')")
        await page.use("button", "Last used")
        await page.page.wait_for("window.text().includes('1.10')")
        await page.use("button", "Undo")
        assert (await text_of(page))["count"] == 1
        await page.use("button", "Clear")
        assert await text_of(page) == {"name": ""}

    run("all", work)


def test_the_server_completes_arguments(run: Run) -> None:
    async def work(page: InspectorPage) -> None:
        await page.fill("language", "py", role="combobox")
        await page.page.wait_for("document.querySelector('datalist option')?.value === 'python'")

    run("prompt", work)


@pytest.mark.parametrize(("name", "width"), [("all", 320), ("hostile", 1280)])
def test_a_form_is_narrow_accessible_and_harmless(run: Run, name: str, width: int) -> None:
    async def work(page: InspectorPage) -> None:
        await page.page.run('put(\'{"pet": {"kind": "dog"}, "lines": ["a"], "more": {"x": "y"}}\')')
        await page.page.wait_for("window.errors().length > 0")
        await page.use("tab", "Form", "End")
        fits = "document.documentElement.scrollWidth <= innerWidth"
        assert await page.page.run(f"return {fits}")
        assert await page.faults() == []
        small = (
            "return [...document.querySelectorAll('main button, main input, main select')]"
            ".filter((each) => { const box = each.getBoundingClientRect();"
            " return box.height < 24 && each.type !== 'checkbox' && each.checkVisibility(); })"
            ".map((each) => each.outerHTML.slice(0, 200))"
        )
        assert await page.page.run(small) == []

    run(name, work, width=width)
