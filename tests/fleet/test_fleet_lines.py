"""The lines of keys: exact for every way to write TOML and JSON."""

import json
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.client.configuration import parse_json, without_comments
from accord_tools.fleet.file.document import find_json_places, find_toml_lines

TOML = '''\
# a = 1
top = 1 # a comment with [brackets] and "quotes"
[a]
b = "x # not a comment"
  c.d = 'one'
c . "e.f" = 2
"quoted \\u0041" = 3
'literal "key"' = 4

[a.list]
items = [
  1, # ] not the end
  "two ]",
  [3, 4],
  { x = 5, y.z = "}" },
]
text = """
[not.a.table]
key = "no"
\\""" still """
raw = \'\'\'
[nor.this]
\'\'\'\'
after = 1979-05-27T07:32:00Z
[[rows]]
n = 1
[rows.inner]
k = true
[[rows]]
n = 2
[[rows.deep]]
q = inf
[[rows.deep]]
q = nan
[x.y.z]
[x]
w = { }
'''


def test_the_line_of_every_key_of_toml_is_found():
    tomllib.loads(TOML)
    lines = find_toml_lines(TOML)
    numbers = {text: number for number, text in enumerate(TOML.splitlines(), 1)}
    expected = {
        ("top",): 2,
        ("a",): 3,
        ("a", "b"): 4,
        ("a", "c"): 5,
        ("a", "c", "d"): 5,
        ("a", "c", "e.f"): 6,
        ("a", "quoted A"): 7,
        ("a", 'literal "key"'): 8,
        ("a", "list"): 10,
        ("a", "list", "items"): 11,
        ("a", "list", "items", 0): 12,
        ("a", "list", "items", 1): 13,
        ("a", "list", "items", 2): 14,
        ("a", "list", "items", 2, 0): 14,
        ("a", "list", "items", 2, 1): 14,
        ("a", "list", "items", 3): 15,
        ("a", "list", "items", 3, "x"): 15,
        ("a", "list", "items", 3, "y"): 15,
        ("a", "list", "items", 3, "y", "z"): 15,
        ("a", "list", "text"): 17,
        ("a", "list", "raw"): 21,
        ("a", "list", "after"): numbers["after = 1979-05-27T07:32:00Z"],
    }
    assert {keys: line for keys, line in lines.items() if keys[0] in ("top", "a")} == expected
    second = numbers["n = 2"]
    assert lines[("rows", 1, "n")] == second
    assert lines[("rows", 0)] == lines[("rows",)] == numbers["n = 1"] - 1
    assert lines[("rows", 0, "inner", "k")] == numbers["k = true"]
    assert lines[("rows", 1, "deep", 1, "q")] == numbers["q = nan"]
    assert lines[("x", "w")] == numbers["w = { }"]
    assert lines[("x", "y", "z")] == numbers["[x.y.z]"]


JSON = """\
{ // "a": 0
  "a": {"b": 1,
    "c\\u0041": [1, {"d": "}"},
      [ ]],
  }, /* "x": {
  */ "e": "text \\" , ]", "f": null,
}"""


def test_the_place_of_every_member_of_json_is_found():
    text = without_comments(JSON)
    spans, repeated = find_json_places(text)
    assert {keys: span.line for keys, span in spans.items()} == {
        (): 1,
        ("a",): 2,
        ("a", "b"): 2,
        ("a", "cA"): 3,
        ("a", "cA", 0): 3,
        ("a", "cA", 1): 3,
        ("a", "cA", 1, "d"): 3,
        ("a", "cA", 2): 4,
        ("e",): 6,
        ("f",): 6,
    }
    assert repeated == []
    assert parse_json(JSON) == json.loads(text)
    assert {
        keys: json.loads(text[span.start : span.end]) for keys, span in spans.items() if keys
    } == {keys: found_at(parse_json(JSON), keys) for keys in spans if keys}


def found_at(value, keys):
    for key in keys:
        value = value[key]
    return value


def test_a_repeated_member_is_found():
    assert find_json_places('{"a": 1,\n"a": 2}').repeated == [(("a",), 2)]


KEYS = st.text(max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=30, deadline=None)
@given(VALUES, st.sampled_from([None, 0, 2]))
def test_every_value_of_json_is_at_its_place(value, indent):
    text = json.dumps(value, indent=indent)
    spans, _ = find_json_places(text)
    for keys, span in spans.items():
        assert json.loads(text[span.start : span.end]) == found_at(value, keys)
        assert text.count("\n", 0, span.key) + 1 == span.line


@pytest.mark.parametrize("end", ["\n", ""])
def test_an_empty_table_and_the_end_of_the_file_are_understood(end):
    assert find_toml_lines(f"a = {{}}\n[b]{end}") == {("a",): 1, ("b",): 2}
    assert find_toml_lines("") == {}
