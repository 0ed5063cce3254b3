"""Edits of YAML: one span changes, every other byte stays."""

import sys

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.documents.document import (
    TextPlace,
    UneditableDocument,
    UnreadableDocument,
    open_document,
)
from accord_tools.hosts.documents.value_texts import BlockStyle, format_scalar
from hosts.document_edits import DocumentEdits
from support.tables import cases

PATH = ("extensions", "desk")
VALUE = {"cmd": "/bin/desk", "args": ["-m", "a: b"], "envs": {"K": "yes"}, "enabled": True}

WITH_MEMBERS = {
    "two": "extensions:\n  a:\n    cmd: x\n",
    "four": "extensions:\n    a:\n        cmd: x\nz: 1\n",
    "crlf": "extensions:\r\n  a:\r\n    cmd: x\r\nz: 1\r\n",
    "mixed": "extensions:\n  a:\r\n    cmd: x\nz: 1\r\n",
    "cr": "extensions:\r  a:\r    cmd: x\rz: 1\r",
    "no end": "extensions:\n  a:\n    cmd: x",
    "remark": "extensions: # all\n  a: # first\n    cmd: x # c\n",
    "comments": "# top\nextensions:\n  # a\n  a:\n    cmd: x\n    # args: []\n  # end\n# z\nz: 1\n",
    "blank lines": "extensions:\n\n  a:\n    cmd: x\n\n  b: {}\n\n\nz: 1\n\n",
    "document": "%YAML 1.1\n--- # start\nextensions:\n  a: 1\n... # end\n",
    "flow": "extensions: {a: {cmd: x}} # c\n",
    "flow in lines": "extensions: {\n  a: {cmd: x}, # c\n  b: 1\n  }\n",
    "flow, trailing comma": "extensions: {a: 1,}\n",
    "flow, comma after comment": "extensions: {\n  a: 1 # c\n  ,\n  b: 2 # d\n  }\n",
    "empty flow": "extensions: {} # c\nz: 1\n",
    "json": '{"extensions": {"a": {"cmd": "x"}}, "z": [1]}\n',
    "block text": "extensions:\n  a:\n    cmd: |\n      x\n       # no\n\n\nz: 1\n",
    "kept block text": "extensions:\n  a: |+\n    x\n\n\nz: 1\n",
    "folded text at the end": "extensions:\n  a: >-\n    x\n    y",
    "long texts": "extensions:\n  a: 'x\n\n    y'\n  b: plain\n    text\n",
    "no value": "extensions:\n  a:\n",
    "quoted keys": "extensions:\n  'a b': 1\n  \"c:d\" : 2\n",
    "anchor elsewhere": "x: &x\n  y: 1\nextensions:\n  a: *x\n  b:\n    <<: *x\n",
    "unicode": 'extensions:\n  ä: "𝄞" # 𝄞\n  é: 𝄞\n',
    "list without indentation": "l:\n- 1\nextensions:\n  a:\n    args:\n    - x\n",
    "indented root": "  extensions:\n    a: 1\n  z: 1\n",
    "tag": "extensions: !!map\n  a: !!str 1\n",
}
WITHOUT_MEMBERS = {
    "empty": "",
    "blank": "\n\n",
    "comment": "# my settings",
    "comment with end": "# my settings\n",
    "document": "---\n",
    "document with end": "---\n# c\n...\n",
    "empty root": "{}\n",
    "null root": "--- ~\n",
    "other key": "z: 1\n",
    "no value": "extensions:\nz: 1\n",
    "no value, comment": "extensions: # none\n  # yet\nz: 1\n",
    "null": "extensions: null # none\n",
    "tilde": "extensions: ~",
    "crlf": "z: 1\r\n",
    "empty flow in flow": "{extensions: {}}\n",
}


EDITS = DocumentEdits("yaml", PATH, VALUE)
add, take = EDITS.add, EDITS.take


@cases("text", WITH_MEMBERS.values(), ids=WITH_MEMBERS)
def test_adding_and_removing_gives_the_same_bytes(text):
    after = add(text)
    assert add(after) == after
    assert take(after) == text


@pytest.mark.parametrize("text", WITH_MEMBERS.values(), ids=WITH_MEMBERS)
def test_the_bytes_are_the_same_without_libyaml(text, monkeypatch):
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert take(add(text)) == text


def test_keys_that_are_not_texts_are_known():
    text = "2: a\n'2': b\non: c\n'on': d\n"
    document = open_document(text, "yaml")
    assert document.find((2,)) == TextPlace(1, 1)
    assert document.find(("2",)) == TextPlace(2, 1)
    assert document.find(("on",)) == TextPlace(4, 1)
    assert take(text, ("2",)) == "2: a\non: c\n'on': d\n"


@cases("text", WITHOUT_MEMBERS.values(), ids=WITHOUT_MEMBERS)
def test_a_container_is_made_where_it_is_absent(text):
    after = add(text)
    assert open_document(take(after), "yaml").data["extensions"] == {}


@cases("text", WITH_MEMBERS.values(), ids=WITH_MEMBERS)
def test_each_member_can_be_removed_and_replaced(text):
    data = yaml.safe_load(text)
    for name in data["extensions"] or ():
        take(text, ("extensions", name))
        add(text, ("extensions", name), VALUE)
        add(text, ("extensions", name), "text")
    take(text, ("extensions",))


def test_a_new_entry_has_the_layout_of_its_neighbours():
    text = "extensions:\n   a:\n      cmd: x # c\n      # more\n   # end\n"
    assert add(text, value={"cmd": "go", "args": ["z"]}) == (
        "extensions:\n   a:\n      cmd: x # c\n      # more\n"
        "   desk:\n      cmd: go\n      args:\n         - z\n   # end\n"
    )


def test_items_are_appended_and_removed():
    text = "mcpServers:\n  - name: a\n    command: x\n  # end\n"
    after = add(text, ("mcpServers", 1), {"name": "b", "env": {"K": "v"}})
    assert after == text.replace("  # end", "  - name: b\n    env:\n      K: v\n  # end")
    assert take(after, ("mcpServers", 1)) == text
    assert take(after, ("mcpServers", 0)) == (
        "mcpServers:\n  - name: b\n    env:\n      K: v\n  # end\n"
    )
    flat = "mcpServers:\n- name: a\n  command: x\n"
    assert add(flat, ("mcpServers", 1), {"name": "b"}) == f"{flat}- name: b\n"
    assert add("", ("mcpServers", 0), {"name": "b"}) == "mcpServers:\n  - name: b\n"
    assert add("mcpServers: []\n", ("mcpServers", 0), {"name": "b"}) == (
        "mcpServers:\n  - name: b\n"
    )
    assert take("mcpServers:\n  - name: b\n", ("mcpServers", 0)) == "mcpServers: []\n"


def test_the_first_member_of_an_item_is_removed():
    text = "l:\n  - name: a\n    command: x\n"
    assert take(text, ("l", 0, "name")) == "l:\n  - command: x\n"
    with pytest.raises(UneditableDocument, match="comments stand below"):
        open_document("l:\n- a: 1 # c\n  b: 2\n", "yaml").remove(("l", 0, "a"))


def test_replacing_changes_only_what_differs():
    text = "extensions:\n  desk:\n    cmd: x # why\n    # note\n    args: [a, b] # list\nz: 1\n"
    value = {"cmd": "/bin/y", "args": ["a", "c"], "on": "no"}
    assert add(text, value={"cmd": "/bin/y", "args": ["a", "c"]}) == (
        text.replace("x #", "/bin/y #").replace("b]", "c]")
    )
    once = add(text, value={"cmd": "x", "args": ["a", "b"], "on": "no"})
    assert once == text.replace("# list", '# list\n    "on": "no"')
    assert yaml.safe_load(add(text, value=value))["extensions"]["desk"] == value


@pytest.mark.parametrize("text", ["a:\n  - x\n  - y: 1\n", "a: [x, {y: 1}]\n"])
def test_items_are_replaced(text):
    add(text, ("a", 0), {"b": [1, {"c": "2"}]})
    add(text, ("a", 1), "z")
    add(text, ("a",), {"b": {"c": []}})


def test_a_comment_goes_with_its_entry_only_if_it_touches():
    text = "s:\n  # all\n\n  # about a\n  a: 1 # one\n  # about b\n  b: 2\n"
    assert take(text, ("s", "a")) == "s:\n  # all\n\n  # about b\n  b: 2\n"
    assert take(text, ("s", "b")) == "s:\n  # all\n\n  # about a\n  a: 1 # one\n"


@cases(
    ("text", "keys", "said"),
    [
        ("x: &x {a: 1}\nextensions: *x\n", PATH, r"written as \*x"),
        ("extensions: &x\n  a: 1\ny: *x\n", PATH, "anchor &x, which is used elsewhere"),
        ("extensions: text\n", PATH, "extensions is a text, and not an object"),
        ("extensions:\n  - 1\n", PATH, "extensions is a list, and not an object"),
        ("extensions: {}\n", ("extensions", 0), "is an object, and not a list"),
        ("l: [1]\n", ("l", 2), "l has 1 items; item 2 cannot be added"),
        ("- 1\n", PATH, "the document is a list"),
        ("extensions:\n  ? a\n  : 1\n", PATH, r"keys with \?"),
        ("extensions: {a: }\n", PATH, "has no value"),
        ("extensions: {a, b: 1}\n", PATH, "a key without a colon"),
        ("x: &x {desk: 1}\nextensions:\n  <<: *x\n", (*PATH, "y"), "by a merge"),
        ("extensions: [a: 1]\n", ("extensions", 0, "b"), "without braces"),
    ],
)
def test_an_edit_that_could_do_harm_is_refused(text, keys, said):
    with pytest.raises(UneditableDocument, match=said):
        open_document(text, "yaml").set(keys, VALUE)


@cases(
    ("text", "keys", "said"),
    [
        ("a: 1\n", ("b",), "is not in the document"),
        ("x: &x {a: 1}\ny:\n  <<: *x\n", ("y", "a"), "by a merge"),
        ("x: &x {a: 1}\ny: *x\n", ("x",), "anchor &x, which is used elsewhere"),
        ("x:\n  y: &y 1\n  w: 2\nz: *y\n", ("x",), "anchor &y, which is used elsewhere"),
        ("? a\n: 1\n? b\n: 2\n", ("a",), r"written with \?"),
    ],
)
def test_a_value_that_others_need_is_not_removed(text, keys, said):
    with pytest.raises(UneditableDocument, match=said):
        open_document(text, "yaml").remove(keys)


def test_aliases_and_merges_are_kept():
    text = "base: &base\n  timeout: 3\nextensions:\n  a:\n    <<: *base\n    cmd: x\n"
    after = add(text)
    assert after.startswith(text)
    assert add(text, ("extensions", "a", "timeout"), 4) == f"{text}    timeout: 4\n"


def test_blank_lines_of_a_text_stay():
    with_blanks = "a: |+\n  x\n\n\nz: 1\n"
    assert take(with_blanks, ("z",)) == "a: |+\n  x\n\n\n"


def test_places_have_line_and_column():
    document = open_document("# c\r\na:\r\n  b:\r\n    - x\r\n    - {y: 1}\r\n", "yaml")
    assert document.find(("a",)) == TextPlace(2, 1)
    assert document.find(("a", "b", 0)) == TextPlace(4, 5)
    assert document.find(("a", "b", 1, "y")) == TextPlace(5, 8)
    assert document.find(("a", "b", 2)) is None
    assert open_document("", "yaml").find(()) is None


TRAPS = r"""
yes No on OFF true False null ~ y n 1 1.5 1e3 1E+3 0x1F 0o7 007 1_000 12:30 2024-01-31 .inf -.INF
.nan + - -y -- --- ... : :a a: a:b # a#b @x `x !x &x *x %x | > ? = << [ ] { } , a,b 'x' "x" None
2024-01-31T10:00:00Z 1:2:3 0b1 +1 -1 /usr/bin C:\x https://x/y?z=1 a=b ~/x $HOME ${env:KEY}
"""
ODD = [
    "", " ", " a", "a ", "a b", "a  b", "a: b", "a #b", "- a", "a\nb", "\t", "\x1b", "\u2028",
    "\x85", "\ufeff", "é", "𝄞", "\U000e0001", "\\", "a\\nb", "? a", "key: {x}", "x" * 300,
]  # fmt: skip


def block_lines(value):
    """Return a value as the lines of a document."""
    return "\n".join(BlockStyle().lines(value))


@cases("text", [*TRAPS.split(), *ODD])
def test_a_text_stays_a_text(text):
    for loader in (yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        for value in ({"k": text}, {text: 1}, [text], {"k": [{"l": text}]}):
            assert yaml.load(block_lines(value), loader) == value
            assert yaml.load(f"- [{format_scalar(text, in_flow=True)}]", loader) == [[text]]
            assert add("a: {b: 1}\n", ("a", "c"), value)


@cases("value", [1, -2.5, 1e20, 1e-7, 1.5e300, True, False, None, [], {}, 10**30])
def test_values_keep_their_type(value):
    assert yaml.safe_load(block_lines([value, {"k": value}])) == [value, {"k": value}]


@cases("value", [object(), {1: 2}, "\ud800", {"a": b"x"}])
def test_a_value_that_yaml_lacks_is_refused(value):
    with pytest.raises(HostsError):
        open_document("", "yaml").set(("a",), value)


BROKEN = [
    ("a: b: c\n", 1, "a text with a colon in it needs quotes"),
    ("a: 1\nb\nc: 2\n", 3, "a : is missing after a key"),
    ("a: [1, 2\nb: 3\n", 2, "a list is not closed"),
    ("a: {b: 1\nc: ]\n", 2, ""),
    ('a: "x\n', 2, "the text ends within quotes"),
    ("a:\n  b: 1\n c: 2\n", 3, "indented unlike its neighbours"),
    ("a:\n\tb: 1\n", 2, "a tab stands here"),
    ("a: @x\n", 1, "@ cannot begin a text"),
    ("a: *x\n", 1, "refers to an anchor that does not exist"),
    ("a: &a [*a]\n", 1, "stands within the value itself"),
    ("a: 1\na: 2\n", 2, "the key 'a' appears twice, first in line 1"),
    ("x:\n  a: 1\n  'a': 2\n", 3, "the key 'a' appears twice"),
    ("a: 1\n---\nb: 2\n", 2, "a second document begins here"),
    ("a: !secret x\n", 1, "a tag stands here that only one program knows"),
    ("a: \x01\n", 1, "a control character"),
    ("- a\nb: 1\n", 2, "the line is indented unlike"),
    ("a: - b\n", 1, "a list cannot begin"),
    ("a: 2024-99-99\n", 1, "a value cannot be read"),
    ("? [a]\n: 1\n", 1, ""),
    ("[" * 100_000, 1, "nested more than 200 levels deep"),
    ("{a: " * 100_000, 1, "nested more than 200 levels deep"),
    ("- " * 100_000, 1, "nested more than 200 levels deep"),
]


@cases(("text", "line", "said"), BROKEN, ids=[each[0][:20] for each in BROKEN])
def test_a_fault_is_explained_with_its_place(text, line, said):
    with pytest.raises(UnreadableDocument) as caught:
        open_document(text, "yaml")
    assert said in str(caught.value)
    assert caught.value.place.line == line


def test_aliases_that_multiply_are_refused():
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(UnreadableDocument, match="more than a million values"):
        open_document("\n".join(lines), "yaml")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(HostsError, match="a file of YAML needs the extra 'yaml'"):
        open_document("a: 1\n", "yaml")


# -- generated documents

KEYS = st.sampled_from(["a", "b", "c c", "x-y", "yes", "1", 'q"', "ä", "#", "k: v"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(st.sampled_from("ab \"'\\#:-é\n{,"), max_size=6)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
REMARK = st.sampled_from(["", "", "", " # c", "  # x: y"])


@st.composite
def blocks(draw, value):
    """Draw a text for a value, with any indentation, comments, quotes and brackets."""
    step = draw(st.sampled_from([1, 2, 2, 4]))
    list_step = draw(st.sampled_from([0, step]))

    def above(indent):
        return draw(st.sampled_from(["", "", "", "\n", f"{' ' * indent}# c\n", "# d\n"]))

    def text_of(value, indent):
        lines = value.split("\n") if isinstance(value, str) else [""]
        if draw(st.booleans()) and all(line.strip() == line and line for line in lines):
            pad = " " * (indent + step)
            return "|-\n" + "".join(f"{pad}{line}\n" for line in lines)
        if isinstance(value, str) and "\n" not in value and draw(st.booleans()):
            quoted = value.replace("'", "''")
            return f"'{quoted}'{draw(REMARK)}\n"
        return f"{format_scalar(value)}{draw(REMARK)}\n"

    def flow(value):
        return yaml.safe_dump(value, default_flow_style=True, width=10**6).strip()

    def inner(value, indent):
        """Return what stands behind a colon."""
        if not isinstance(value, dict | list):
            return " " + text_of(value, indent)
        if not value or draw(st.integers(0, 3)) == 0:
            return f" {flow(value)}{draw(REMARK)}\n"
        deeper = indent + (step if isinstance(value, dict) else list_step)
        return f"{draw(REMARK)}\n" + write(value, deeper)

    def write(value, indent):
        pad = " " * indent
        if isinstance(value, dict):
            return "".join(
                f"{above(indent)}{pad}{format_scalar(key)}:{inner(each, indent)}"
                for key, each in value.items()
            )
        parts = []
        for each in value:
            if isinstance(each, dict) and each:
                lines = write(each, indent + 2).lstrip("\n")
                while lines.lstrip(" ").startswith("#"):
                    lines = lines.split("\n", 1)[1]
                parts.append(f"{above(indent)}{pad}- {lines.lstrip()}")
            elif isinstance(each, list) and each:
                parts.append(f"{above(indent)}{pad}- {flow(each)}\n")
            else:
                parts.append(f"{above(indent)}{pad}-" + inner(each, indent))
        return "".join(parts)

    text = draw(st.sampled_from(["", "", "# top\n", "---\n"])) + write(value, 0)
    text += draw(st.sampled_from(["", "", "\n", "# end\n", "...\n"]))
    text = text.removesuffix("\n") if draw(st.booleans()) else text
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@settings(max_examples=60, deadline=None)
@given(st.data(), st.dictionaries(KEYS, VALUES, min_size=1, max_size=3), VALUES)
def test_any_document_gets_an_entry_and_loses_it_again(data, servers, value):
    document = data.draw(st.permutations([("x", [1]), ("extensions", servers), ("z", {"y": 1})]))
    text = data.draw(blocks(dict(document)))
    assert yaml.safe_load(text) == dict(document)
    after = add(text, value=value)
    assert take(after) == text


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(st.dictionaries(KEYS, VALUES, min_size=1, max_size=2), min_size=1))
def test_any_list_gets_an_item_and_loses_it_again(data, items):
    text = data.draw(blocks({"mcpServers": items, "z": 1}))
    keys = ("mcpServers", len(items))
    assert take(add(text, keys), keys) == text


@settings(max_examples=60, deadline=None)
@given(st.data(), st.dictionaries(KEYS, VALUES, min_size=1, max_size=3), VALUES)
def test_any_entry_of_any_document_is_replaced_or_removed(data, servers, value):
    text = data.draw(blocks({"extensions": servers, "z": {"y": 1}}))
    keys = ("extensions", data.draw(st.sampled_from(list(servers))))
    add(text, keys, value)
    take(text, keys)


def test_a_large_file_is_edited():
    entry = "    cmd: x\n    args:\n      - --a\n      - " + "b" * 900 + " # c\n"
    text = "extensions:\n" + "".join(f"  s{n}:\n{entry}" for n in range(500))
    assert take(add(text)) == text
