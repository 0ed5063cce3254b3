"""Edits of JSON: one span changes, every other byte stays."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_tools.hosts.documents.document import (
    TextPlace,
    UneditableDocument,
    UnreadableDocument,
    open_document,
)
from hosts.document_edits import DocumentEdits
from support.tables import cases

PATH = ("mcpServers", "desk")
VALUE = {"command": "/bin/desk", "args": ["-m", 'a "b"'], "env": {"K": "v"}}

# Texts in which the container has members, so that adding and removing gives the same bytes.
WITH_MEMBERS = {
    "two": '{\n  "mcpServers": {\n    "a": {\n      "command": "x"\n    }\n  }\n}\n',
    "four": '{\n    "mcpServers": {\n        "a": {}\n    },\n    "theme": "dark"\n}\n',
    "tabs": '{\n\t"mcpServers": {\n\t\t"a": {}\n\t}\n}\n',
    "crlf": '{\r\n  "mcpServers": {\r\n    "a": {}\r\n  }\r\n}\r\n',
    "cr": '{\r  "mcpServers": {\r    "a": {}\r  }\r}\r',
    "mixed": '{\n  "mcpServers": {\r\n    "a": {}\n  }\r\n}\n',
    "no end": '{\n  "mcpServers": {\n    "a": {}\n  }\n}',
    "one line": '{"mcpServers": {"a": {"command": "x"}}, "b": [1, 2]}',
    "dense": '{"mcpServers":{"a":{"command":"x"},"b":{}}}',
    "one line with blanks": '{ "mcpServers": { "a": 1 , "b": 2 } }',
    "one line within": '{\n  "mcpServers": {"a": {}}\n}\n',
    "remark": '{\n  "mcpServers": {\n    "a": {} // first\n  }\n}\n',
    "block remark": '{\n  "mcpServers": {\n    "a": {} /* over\n    lines */\n  }\n}\n',
    "comment after": '{\n  "mcpServers": {\n    "a": {}\n    // "old": {},\n  }\n}\n',
    "comment before": '{\n  "mcpServers": {\n    // note\n    "a": {}\n  }\n}\n',
    "trailing comma": '{\n  "mcpServers": {\n    "a": {},\n  },\n}\n',
    "trailing comma, remark": '{\n  "mcpServers": {\n    "a": {}, // x\n    // y\n  }\n}\n',
    "comma in next line": '{\n  "mcpServers": {\n    "a": {} // x\n    , // y\n  }\n}\n',
    "comma first": '{\n  "mcpServers": {\n    "a": {}\n  , "b": {}\n  }\n}\n',
    "trailing comma in line": '{"mcpServers": {"a": {},},}',
    "blank lines": '{\n\n  "mcpServers": {\n\n    "a": {},\n\n    "b": {}\n\n  }\n\n}\n\n',
    "brace in line": '{ "mcpServers": {\n  "a": {},\n  "b": {} /* c */ } }',
    "brackets in strings": '{"x": "}{][,//", "mcpServers": {"}\\"": "/*"}, "y": "*/"}',
    "not indented": '{\n"mcpServers": {\n"a": {}\n}\n}\n',
    "allman": '{\n  "mcpServers":\n  {\n    "a":\n    {\n      "command": "x"\n    }\n  }\n}\n',
    "unicode": '{\n  "mcpServers": {\n    "ä\\u00e9 𝄞": {"k": "\u2028"}\n  }\n}\n',
}
WITHOUT_MEMBERS = {
    "empty text": "",
    "blank": " \n\n",
    "comment only": "// my servers\n",
    "comment without end": "/* my servers */",
    "empty object": "{}",
    "empty object in lines": "{\n}\n",
    "empty object with comment": "{\n  // nothing yet\n}\n",
    "other members": '{\n  "theme": "dark"\n}\n',
    "empty container": '{\n  "mcpServers": {}\n}\n',
    "empty container in lines": '{\n  "mcpServers": {\n  }\n}\n',
    "empty container with comment": '{\n  "mcpServers": { // none\n    // yet\n  }\n}\n',
    "null": '{\n  "mcpServers": null\n}\n',
    "one line": '{"mcpServers": {}}',
    "one line with comment": '{"a": 1, "mcpServers": {/* c */}}',
}


EDITS = DocumentEdits("jsonc", PATH, VALUE)
add, take = EDITS.add, EDITS.take


@cases("text", WITH_MEMBERS.values(), ids=WITH_MEMBERS)
def test_adding_and_removing_gives_the_same_bytes(text):
    after = add(text)
    assert add(after) == after
    assert take(after) == text


@cases("text", WITHOUT_MEMBERS.values(), ids=WITHOUT_MEMBERS)
def test_a_container_is_made_where_it_is_absent(text):
    after = add(text)
    left = take(after)
    assert open_document(left, "jsonc").data["mcpServers"] == {}
    assert add(left) == after or text.strip() in ("", "{}") or "c */" in text


@cases("text", WITH_MEMBERS.values(), ids=WITH_MEMBERS)
def test_each_member_can_be_removed(text):
    data = open_document(text, "jsonc").data
    for key in data["mcpServers"]:
        take(text, ("mcpServers", key))
    for key in data:
        take(text, (key,))


def test_a_new_entry_has_the_layout_of_its_neighbours():
    text = '{\n\t"mcpServers": {\n\t\t"a": {\n\t\t\t"command": "x"\n\t\t} // first\n\t}\n}\n'
    assert add(text, value={"command": "y"}) == (
        '{\n\t"mcpServers": {\n\t\t"a": {\n\t\t\t"command": "x"\n\t\t}, // first\n'
        '\t\t"desk": {\n\t\t\t"command": "y"\n\t\t}\n\t}\n}\n'
    )


def test_a_trailing_comma_is_kept_as_the_style():
    text = '{\n  "mcpServers": {\n    "a": 1,\n  },\n}\n'
    assert add(text, value=2) == '{\n  "mcpServers": {\n    "a": 1,\n    "desk": 2,\n  },\n}\n'


def test_an_empty_text_becomes_a_document():
    assert add("", value={"command": "x"}) == (
        '{\n  "mcpServers": {\n    "desk": {\n      "command": "x"\n    }\n  }\n}\n'
    )


def test_replacing_a_text_changes_its_span_alone():
    text = '{"mcpServers": {"desk": {"command": "x", /* why */ "args": [ ]}}} // end'
    value = {"command": "other", "args": []}
    assert add(text, value=value) == text.replace('"x"', '"other"')


def test_a_new_member_keeps_comments_in_the_entry():
    text = '{\n  "a": {\n    "b": 1, // one\n    "c": [] // two\n  }\n}\n'
    after = add(text, ("a",), {"b": 1, "c": [], "d": True})
    assert after == text.replace("[] // two", '[], // two\n    "d": true')
    assert add(after, ("a",), {"b": 1, "c": []}) == text


def test_replacing_as_a_whole_keeps_the_layout():
    text = '{\n  "a": {"b": 1, "c": 2},\n  "d": {\n    "e": 1\n  }\n}\n'
    assert add(text, ("a",), {"x": 1}) == text.replace('"b": 1, "c": 2', '"x": 1')
    assert add(text, ("d",), {"x": 1}) == text.replace('"e": 1', '"x": 1')


def test_a_comment_goes_with_its_member_only_if_it_touches():
    text = (
        '{\n  "s": {\n    // about all\n\n    // about a\n    /* more */\n    "a": 1, // one\n'
        '    // about b\n    "b": 2\n  }\n}\n'
    )
    assert take(text, ("s", "a")) == (
        '{\n  "s": {\n    // about all\n\n    // about b\n    "b": 2\n  }\n}\n'
    )
    assert take(text, ("s", "b")) == (
        '{\n  "s": {\n    // about all\n\n    // about a\n    /* more */\n'
        '    "a": 1 // one\n  }\n}\n'
    )


@pytest.mark.parametrize(
    ("key", "after"),
    [
        ("a", '{\n  "b": 2,\n\n  "c": 3\n}'),
        ("b", '{\n  "a": 1,\n\n  "c": 3\n}'),
        ("c", '{\n  "a": 1,\n\n  "b": 2\n}'),
    ],
)
def test_removing_leaves_no_blank_line_behind(key, after):
    assert take('{\n  "a": 1,\n\n  "b": 2,\n\n  "c": 3\n}', (key,)) == after


def test_items_of_a_list_are_appended_and_removed():
    text = '{"l": [{"name": "a"}], "m": [\n  1, // one\n  2\n]}'
    after = add(text, ("l", 1), {"name": "b"})
    assert after == text.replace('"a"}', '"a"}, {"name": "b"}')
    assert take(after, ("l", 1)) == text
    after = add(text, ("m", 2), 3)
    assert after == text.replace("2\n", "2,\n  3\n")
    assert take(after, ("m", 2)) == text
    assert take(text, ("m", 0)).endswith('"m": [\n  2\n]}')


def test_places_have_line_and_column():
    document = open_document('// c\r\n{\r\n  "a": [1,\r\n {"b": 2}]}', "json")
    assert document.find(()) == TextPlace(2, 1)
    assert document.find(("a",)) == TextPlace(3, 3)
    assert document.find(("a", 1, "b")) == TextPlace(4, 3)
    assert document.find(("a", 2)) is None
    assert document.find(("x", "y")) is None


@cases(
    ("text", "keys", "reason"),
    [
        ('{"mcpServers": "x"}', PATH, "mcpServers is a text, and not an object"),
        ("[1]", PATH, "the document is a list, and not an object"),
        ('{"mcpServers": {}}', ("mcpServers", 0), "is an object, and not a list"),
        ('{"l": [1]}', ("l", 3), "l has 1 items; item 3 cannot be added"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(text, keys, reason):
    with pytest.raises(UneditableDocument, match=reason):
        open_document(text, "json").set(keys, VALUE)


@cases("keys", [(), ("b",), ("a", "b"), ("l", 1)])
def test_an_absent_value_cannot_be_removed(keys):
    with pytest.raises(UneditableDocument, match="is not in the document"):
        open_document('{"a": 1, "l": [0]}', "json").remove(keys)


BROKEN = [
    ('{"a": 1\n "b": 2}', 1, 8, "a comma is missing here, between two members"),
    ("[1 2]", 1, 3, "a comma is missing here, between two items"),
    ('{"a": "b', 1, 7, "the text ends within a string"),
    ('{"a": "b\n}', 1, 7, "its line ends before"),
    ("{'a': 1}", 1, 2, "a quote ' begins here; JSON has double quotes only"),
    ("{a: 1}", 1, 2, "the key 'a' needs double quotes"),
    ('{"a" 1}', 1, 6, "a colon is missing"),
    ('{"a" = 1}', 1, 6, "= stands here"),
    ('{"a": 1', 1, 8, "the object that begins in line 1 is not closed; } is missing"),
    ('{"a": [1}', 1, 9, "is closed by ]"),
    ('{"a": 1,, "b": 2}', 1, 8, "two commas"),
    ('{, "a": 1}', 1, 2, "a comma stands before the first value"),
    ('{"a": }', 1, 7, "a value is missing before }"),
    ('{"a": 1}}', 1, 9, "one bracket too many"),
    ('{"a": 1} {"b": 2}', 1, 10, "only one value may stand in a file"),
    ('{"a": "\\x"}', 1, 8, "a backslash itself is written"),
    ('{"a": "\\u12"}', 1, 8, "four hexadecimal digits"),
    ('{"a": "\t"}', 1, 8, "a tab stands in a string"),
    ('{"a": "\x1b"}', 1, 8, "a control character stands in a string"),
    ('{"a": 01}', 1, 7, "begins with 0"),
    ('{"a": +1}', 1, 7, "begins with +"),
    ('{"a": 0x1}', 1, 7, "decimal numbers only"),
    ('{"a": .5}', 1, 7, "is not a number"),
    ('{"a": 1.}', 1, 7, "is not a number"),
    ('{"a": NaN}', 1, 7, "NaN is not a value of JSON"),
    ('{"a": True}', 1, 7, "JSON writes True as true"),
    ('{"a": yes}', 1, 7, "needs double quotes"),
    ('{"a": 1} /* end', 1, 10, "never ends"),
    ('{\n# c\n"a": 1}', 2, 1, "# is not known in JSON"),
    ('{"a": 1 / 2}', 1, 9, "a single /"),
    ("{\u201ca\u201d: 1}", 1, 2, "a quote that JSON does not know"),
    ('{"a":\u00a01}', 1, 6, "U+00A0 (NO-BREAK SPACE)"),
    ('{"a": 1,\n<<<<<<< HEAD\n"b": 2}', 2, 1, "a conflict of git"),
    ('{"a": 1,\r\n"b": 2,\r\n"a": 3}', 3, 1, "appears twice in this object, first in line 1"),
    ('{"a": {"\\u0062": 1, "b": 2}}', 1, 21, "the key 'b' appears twice"),
    ('{"a": 1 // c\n"b": 2', 1, 8, "a comma is missing"),
    ('{"a": :}', 1, 7, "a value cannot begin with :"),
    ('{"a": 1: 2}', 1, 8, "where a comma is expected"),
    ("[,]", 1, 2, "a comma stands before the first value"),
    ("[1,,]", 1, 3, "two commas"),
    ('{"a"}', 1, 2, "a colon is missing"),
    ("{[1]: 2}", 1, 2, "where a key in double quotes is expected"),
    ('["a", "b"', 1, 10, "] is missing"),
    ("\ufeff{}", 1, 1, "an invisible character"),
    ("hello", 1, 1, "needs double quotes"),
    ("[" * 100_000, 1, 201, "nested more than 200 levels deep"),
    ('{"a":' * 100_000, 1, 1001, "nested more than 200 levels deep"),
]


@cases(("text", "line", "column", "said"), BROKEN, ids=[each[0][:20] for each in BROKEN])
def test_a_fault_is_explained_with_its_place(text, line, column, said):
    with pytest.raises(UnreadableDocument) as caught:
        open_document(text, "json")
    assert said in str(caught.value)
    assert caught.value.place == TextPlace(line, column)


# Corner cases in the manner of test suites for parsers of JSON.
VALID = [
    "0",
    "-0",
    "1e400",
    "-1.5E+3",
    '""',
    '"\\ud800"',
    '"\\/\\b\\f\\n\\r\\t\\u0000"',
    "[[[]]]",
    '{"": {"": []}}',
    "9" * 5000,
    " \t\r\n null \r",
    '["// no", "/* no */"]',
    "[1,]",
    '{"a": 1,}',
    "/**/[]//",
    "[1,/* c */]",
    "[/*,*/1]//,",
    '"\\\\"',
    '{"a":"\\\\", "b":"\\""}',
    "[" * 200 + "]" * 200,
]


@cases("text", VALID, ids=[each[:12] for each in VALID])
def test_valid_texts_are_read(text):
    document = open_document(text, "json")
    if "/*" not in text and ",]" not in text and ",}" not in text and len(text) < 5000:
        assert document.data == json.loads(text)


@cases("text", ["[1}", "[/]", "[1/**2]", "tru", '"a', "[1,2", "-", "1 2", "{1:2}"])
def test_invalid_texts_are_refused(text):
    with pytest.raises(UnreadableDocument):
        open_document(text, "json")


def test_a_large_file_is_edited():
    entry = {"command": "https://x/y", "args": ["--a", "b" * 40], "env": {"A": "1", "B": '"'}}
    data = {"mcpServers": {f"s{n}": entry for n in range(27_000)}}
    text = "// big\n" + json.dumps(data, indent=2)
    assert len(text) > 5_000_000
    after = open_document(text, "json").set(PATH, VALUE).apply(text)
    assert open_document(after, "json").remove(PATH).apply(after) == text


# -- generated documents

KEYS = st.sampled_from(["a", "b", "c c", 'q"', "ä", "//", "}", "", "mcpServers"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-99, 99)
    | st.floats(-9, 9, width=16)
    | st.text(st.sampled_from('ab"\\/,:{}[]*é\n\t'), max_size=6)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
SPACES = st.sampled_from(
    [
        "",
        "",
        " ",
        " ",
        "\n",
        "\n\t",
        "\r\n  ",
        " /* c */ ",
        "/*,*/",
        " // x\n",
        " // {\r\n",
        "\n\n  // y\n  ",
    ]
)


@st.composite
def jsonc(draw, value):
    """Draw a text for a value, with any blanks, comments, line ends and trailing commas."""

    def space():
        return draw(SPACES)

    def write(value):
        if isinstance(value, dict):
            items = [
                f"{json.dumps(key)}{space()}:{space()}{write(each)}" for key, each in value.items()
            ]
            return "{" + join(items) + "}"
        if isinstance(value, list):
            return "[" + join([write(each) for each in value]) + "]"
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    def join(items):
        if not items:
            return space()
        last = draw(st.sampled_from(["", "", ","])) + space()
        return ",".join(f"{space()}{each}{space()}" for each in items) + last

    return space() + write(value) + space()


@settings(max_examples=60, deadline=None)
@given(st.data(), st.dictionaries(KEYS, VALUES, min_size=1, max_size=4), VALUES)
def test_any_document_gets_an_entry_and_loses_it_again(data, servers, value):
    text = data.draw(jsonc({"x": 1, "mcpServers": servers, "y": [2]}))
    after = add(text, value=value)
    assert take(after) == text


@settings(max_examples=60, deadline=None)
@given(st.data(), st.dictionaries(KEYS, VALUES, min_size=1, max_size=4), VALUES)
def test_any_member_of_any_document_is_replaced_or_removed(data, servers, value):
    text = data.draw(jsonc({"mcpServers": servers, "y": {"z": servers}}))
    keys = ("mcpServers", data.draw(st.sampled_from(list(servers))))
    edit = open_document(text, "jsonc").set(keys, value)
    add(text, keys, value)
    take(text, keys)
    assert edit.end <= len(text)
