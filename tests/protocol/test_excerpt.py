"""Excerpts: a long message is shortened around one value, and its own text is kept."""

import json

from accord.protocol.verdict import excerpt, make_pointer, split_pointer
from support.tables import cases

TOOLS = [
    {"name": f"tool_{number}", "description": "does " * 30, "inputSchema": {"type": "object"}}
    for number in range(100)
]
LONG = json.dumps({"jsonrpc": "2.0", "id": 5, "result": {"tools": TOOLS, "nextCursor": "x"}})


def marked(text, pointer):
    found = excerpt(text, pointer)
    assert found.mark is not None
    return found.text[slice(*found.mark)]


def test_a_short_message_is_shown_whole_with_its_value_marked():
    text = '{ "a" : [1, {"b" : 1.50e+3}] }'
    found = excerpt(text, "/a/1/b")
    assert found.text == text
    assert found.text[slice(*found.mark)] == "1.50e+3"


def test_a_long_list_is_shortened_around_one_member_of_one_item():
    found = excerpt(LONG, "/result/tools/50/name")
    assert found.text == (
        '{"jsonrpc": "2.0","id": 5,"result": {"tools": [(50 more),'
        '{"name": "tool_50","description": "...","inputSchema": {"type": "object"}}'
        ',(49 more)],"nextCursor": "x"}}'
    )
    assert found.text[slice(*found.mark)] == '"tool_50"'


@cases(
    ("pointer", "start", "end"),
    [
        ("/result/tools", "[{...},{...},{...},{...},(96 more)]", "]"),
        ("/result", '{"tools": [...],"nextCursor": "x"}', "}"),
        ("/result/tools/0", '{"name": "tool_0", "desc', "}}"),
        ("/id", "5", "5"),
        ("/result/nextCursor", '"x"', '"x"'),
    ],
)
def test_a_value_of_any_kind_is_marked(pointer, start, end):
    value = marked(LONG, pointer)
    assert value.startswith(start)
    assert value.endswith(end)


def test_a_long_value_is_shortened_itself():
    text = json.dumps({"id": 1, "result": {"text": "a" * 1000, "number": 1}})
    assert marked(text, "/result/text") == f'"{"a" * 239}..."'
    wide = json.dumps({"result": {f"member-{number:03}": "b" * 20 for number in range(100)}})
    value = marked(wide, "/result")
    assert value.startswith('{"member-000": "bbbb')
    assert value.endswith(" more)}")
    assert len(value) < 300
    digits = json.dumps({"result": int("9" * 1000)})
    assert marked(digits, "/result") == "9" * 240 + "..."


def test_an_object_of_many_members_shows_the_first_and_the_nearest():
    text = json.dumps({f"m{number}": number for number in range(100)})
    found = excerpt(text, "/m50")
    assert found.text == (
        '{"m0": 0,"m1": 1,"m2": 2,"m3": 3,...,"m46": 46,"m47": 47,"m48": 48,"m49": 49,'
        '"m50": 50,"m51": 51,"m52": 52,"m53": 53,"m54": 54,...}'
    )


def test_a_deep_value_leaves_out_its_surroundings_until_it_fits():
    found = excerpt(*nested(20))
    assert len(found.text) <= 600
    assert found.text[slice(*found.mark)] == "1"
    assert found.text.startswith('{...,"level-19": {...,"level-18": ')


def test_of_a_very_deep_value_only_the_nearest_surroundings_are_left():
    found = excerpt(*nested(200))
    assert len(found.text) <= 606
    assert found.text[slice(*found.mark)] == "1"
    assert found.text.startswith("...")
    assert '"level-0": {"end": 1},...' in found.text
    assert found.text.endswith("...")


def nested(depth):
    """Return a message with a value at this depth, and the pointer to it."""
    value, path = {"end": 1}, ["end"]
    for number in range(depth):
        name = f"level-{number}"
        value = {"before": "b" * 50, name: value, "after": "a" * 50, "x" * 70: 1}
        path.insert(0, name)
    return json.dumps(value), make_pointer(path)


def test_no_part_of_a_string_beside_the_value_is_shown():
    secret = "k" * 500
    assert "kk" not in excerpt(json.dumps({"secret": secret, "id": 1}), "/id").text


def test_of_equal_names_the_last_one_counts():
    assert marked('{"a": 1, "a": 2}', "/a") == "2"
    assert marked(f'{{"a": 1, "a": 2, "b": "{"x" * 500}"}}', "/a") == "2"


@cases(
    "pointer", ["/nothing", "/result/tools/100", "/result/tools/x", "/id/x", "/result/tools/0/0"]
)
def test_a_long_message_without_the_value_is_cut(pointer):
    found = excerpt(LONG, pointer)
    assert found == (f"{LONG[:400]}...", None)


@cases("text", ["not JSON", "", '{"a": [1', '{"a"', "{", '{"a": ' + "[" * 99999])
def test_text_that_is_not_json_is_not_marked(text):
    assert excerpt(text, "/a/0").mark is None
    assert excerpt(text, "/a/0").text.startswith(text[:100])


def test_without_a_pointer_the_beginning_is_shown():
    assert excerpt("x" * 400) == ("x" * 400, None)
    assert excerpt("x" * 401) == ("x" * 400 + "...", None)
    assert excerpt('{"a": 1}', "").mark is None


def test_pointers_escape_their_signs():
    names = ["a/b", "~", "", "0"]
    assert make_pointer(names) == "/a~1b/~0//0"
    assert split_pointer(make_pointer(names)) == names
    assert marked('{"a/b": {"~": {"": [7]}}}', make_pointer(names)) == "7"
