"""Files as texts, checks of edits, differences for people, and snippets to paste."""

import json
import tomllib

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.documents.difference import show_difference
from accord_tools.hosts.documents.document import (
    Edit,
    UneditableDocument,
    UnreadableDocument,
    join_edits,
    open_document,
    read_text_file,
    render_snippet,
)
from accord_tools.hosts.documents.value_texts import format_flow, format_json, format_value
from accord_tools.hosts.documents.verification import ABSENT, verify_edit
from support.tables import cases

# -- the bytes of a file


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["a", "é𝄞", "\n", "\r\n", "\r", "\ufeff", " ", "\u2028"])))
def test_any_text_comes_back_as_the_same_bytes(parts):
    for mark in (b"", b"\xef\xbb\xbf"):
        data = mark + "".join(parts).encode()
        file = read_text_file(data)
        assert file.encode(file.text) == data


def test_a_mark_is_kept():
    file = read_text_file(b"\xef\xbb\xbf{}")
    assert (file.text, file.has_mark) == ("{}", True)
    assert file.encode("{ }") == b"\xef\xbb\xbf{ }"


@cases(
    ("data", "said"),
    [
        (b'{"a": "\xff"}', r"byte 7 is not UTF-8 \(0xff\)"),
        (b"\xef\xbb\xbf\xff", "byte 3 is not UTF-8"),
        ("{}".encode("utf-16"), "UTF-16"),
        ("{}".encode("utf-32"), "UTF-32"),
        ("{}".encode("utf-16-le"), "byte 1 is 0"),
        (b"\xef\xbb\xbfa\0", "byte 4 is 0"),
    ],
)
def test_other_encodings_are_refused_with_the_byte(data, said):
    with pytest.raises(HostsError, match=said):
        read_text_file(data)


def test_half_of_a_pair_cannot_be_written():
    with pytest.raises(HostsError, match=r"U\+D800"):
        read_text_file(b"").encode("a\ud800")


# -- the check of an edit

SAME = {
    "json": '{"a": {"x": 1, "y": 2}, "b": [1, 2]}',
    "toml": "b = [1, 2]\n[a]\nx = 1\ny = 2\n",
    "yaml": "a:\n  x: 1\n  y: 2\nb: [1, 2]\n",
}


@pytest.mark.parametrize("format", SAME)
def test_a_comment_may_change_and_nothing_else(format):
    text = SAME[format]
    comment = "// c\n" if format == "json" else "# c\n"
    verify_edit(text, comment + text, format, {})
    for wrong in (text.replace("2", "3"), text.replace("x", "z"), text.replace("1, 2", "1")):
        with pytest.raises(UneditableDocument, match="change it by hand"):
            verify_edit(text, wrong, format, {})


@pytest.mark.parametrize("format", SAME)
def test_the_change_itself_has_to_be_there(format):
    text = SAME[format]
    with pytest.raises(UneditableDocument):
        verify_edit(text, text, format, {("a", "x"): 5})
    with pytest.raises(UneditableDocument):
        verify_edit(text, text, format, {("a", "x"): ABSENT})
    with pytest.raises(UneditableDocument):
        verify_edit(text, text, format, {("a", "none", "deep"): ABSENT})


@cases(
    ("before", "after"),
    [
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'),
        ('{"a": 1}', '{"a": 1.0}'),
        ('{"a": 1}', '{"a": true}'),
        ('{"a": 1}', '{"a": 1, "a": 1}'),
        ('{"a": 1}', '{"a": 1'),
        ('{"a": null}', "{}"),
        ("[1, 2]", "[2, 1]"),
    ],
)
def test_order_and_types_count(before, after):
    with pytest.raises(UneditableDocument):
        verify_edit(before, after, "json", {})


def test_several_changes_are_checked_at_once():
    before = '{"a": {"x": 1}, "b": 1}'
    after = '{"a": {"x": 2, "y": {"z": [1]}}}'
    changes = {("a", "x"): 2, ("a", "y", "z", 0): 1, ("b",): ABSENT}
    verify_edit(before, after, "json", changes)


def test_a_table_of_toml_is_gone_with_the_last_one_in_it():
    verify_edit("[a.b.c]\nx = 1\n", "", "toml", {("a", "b", "c"): ABSENT})
    with pytest.raises(UneditableDocument):
        verify_edit("[a.b.c]\nx = 1\n[a.d]\n", "", "toml", {("a", "b", "c"): ABSENT})


def test_an_empty_text_is_an_empty_object():
    verify_edit("", '{"a": {"b": 1}}', "json", {("a", "b"): 1})
    verify_edit("# c\n", "a: {b: 1}", "yaml", {("a", "b"): 1})


SIGNS = {
    "json": '{}[]",:/*\n\r\t 1a\\',
    "toml": "[]{}\"'=.#\n\r\t ,a1\\",
    "yaml": "{}[]\"':-#\n\r\t ,a1\\|>&*!?~+",
}
TEXTS = {
    "json": '{ // c\n  "s": {"a": [1, {"x": null}], /* d */ "b": "c",},\n  "t": 1\n}\n',
    "toml": '# c\n[s]\na = [1, {x = 2}] # d\n\n[s.b]\nx.y = "c"\n\n[[t]]\nz = 1\n',
    "yaml": "# c\ns: # d\n  a: [1, {x: }]\n  b: &b\n    - c: |\n        d\n    - e\n\nt: *b\n",
}


@pytest.mark.parametrize("format", SIGNS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_text_is_refused_or_changed_as_asked(format, data):
    text = TEXTS[format]
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        new = data.draw(st.text(st.sampled_from(SIGNS[format]), max_size=2))
        text = text[:at] + new + text[at + data.draw(st.integers(0, 2)) :]
    keys = data.draw(st.sampled_from([("s", "a"), ("s", "n"), ("s", "b", "x"), ("t",), ("n", "m")]))
    try:
        document = open_document(text, format)
        changed = document.set(keys, {"k": [1]}).apply(text)
        verify_edit(text, changed, format, {keys: {"k": [1]}})
        left = open_document(changed, format).remove(keys).apply(changed)
        verify_edit(changed, left, format, {keys: ABSENT})
    except (UnreadableDocument, UneditableDocument):
        return


# -- differences


def plain(line):
    return line


def test_a_difference_has_three_lines_around_it():
    before = "".join(f"{n}\n" for n in range(1, 11))
    assert show_difference("f.json", before, before.replace("5\n", "five\nsix\n"), plain) == (
        "--- f.json\n+++ f.json\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+six\n 6\n 7\n 8\n"
    )
    assert show_difference("f", before, before, plain) == ""


def test_changes_far_apart_are_shown_apart():
    before = "".join(f"{n}\n" for n in range(40))
    after = before.replace("5\n", "five\n", 1).replace("33\n", "x\n")
    assert show_difference("f", before, after, plain).count("@@ -") == 2


def test_new_and_deleted_files_are_named():
    assert show_difference("f", None, "a\n", plain) == "--- /dev/null\n+++ f\n@@ -0,0 +1,1 @@\n+a\n"
    assert show_difference("f", "a\n", None, plain) == "--- f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n"


def test_secrets_are_masked_and_control_characters_are_shown():
    shown = show_difference(
        "a\x1b[2J",
        "x\r\n",
        'x\r\n"K": "s3cret \x1b[31m\u202e"\r\n',
        lambda line: line.replace("s3cret", "masked-0"),
    )
    assert shown.splitlines()[0] == "--- a\\x1b[2J"
    assert '+"K": "masked-0 \\x1b[31m\\u202e"' in shown
    assert "s3cret" not in shown
    assert "\r" not in shown


def test_a_missing_line_end_is_named():
    assert "\\ no line end at the end of the file" in show_difference("f", "a", "b\n", plain)


def test_a_large_change_is_shown_without_comparing():
    shown = show_difference("f", "a\n" + "b\n" * 3000 + "z\n", "a\n" + "c\n" * 3000 + "z\n", plain)
    assert shown.count("\n-b") == shown.count("\n+c") == 3000


# -- snippets

VALUE = {"command": "x", "args": ["a b", "-y"], "env": {"K": "no"}}


@pytest.mark.parametrize("keys", [("mcpServers", "desk"), ("servers", 3), ("a", "b", "c")])
def test_a_snippet_is_a_document(keys):
    wrapped = VALUE
    for key in reversed(keys):
        wrapped = [wrapped] if isinstance(key, int) else {key: wrapped}
    assert json.loads(render_snippet(keys, VALUE, "json")) == wrapped
    assert tomllib.loads(render_snippet(keys, VALUE, "toml")) == wrapped
    assert yaml.safe_load(render_snippet(keys, VALUE, "yaml")) == wrapped


def test_a_value_is_rendered_alone():
    assert json.loads(format_json(VALUE)) == VALUE
    assert tomllib.loads(f"x = {format_value(VALUE)}")["x"] == VALUE
    assert yaml.safe_load(format_flow(VALUE)) == VALUE
    assert [format_flow(each) for each in ("a", "no", [], 1)] == ["a", '"no"', "[]", "1"]


@cases("format", ["json", "toml", "yaml"])
@cases("value", [{"a": object()}, {1: 2}])
def test_a_value_without_notation_is_refused(format, value):
    with pytest.raises(HostsError):
        render_snippet(("a",), value, format)


def test_invisible_characters_are_escaped_in_json():
    text = "a\x7f\u202e\u2028\ufeff\ud800\U000e0001é𝄞"
    written = format_json({"k": text})
    assert json.loads(written)["k"] == text
    assert written.replace("\n", "").isprintable()


def test_several_edits_become_one():
    text = "abcdef"
    edits = [Edit(4, 5, "E"), Edit(1, 2, ""), Edit(2, 2, "1"), Edit(2, 2, "2")]
    assert join_edits(text, edits).apply(text) == "a12cdEf"
    assert join_edits(text, []).apply(text) == text
