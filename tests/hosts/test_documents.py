"""Edits of JSON, TOML and YAML: one span changes, every other byte stays."""

import json
import sys

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.documents.document import (
    UneditableDocument,
    UnreadableDocument,
    open_document,
)
from accord_tools.hosts.documents.value_texts import BlockStyle, format_scalar
from accord_tools.hosts.documents.verification import verify_edit
from hosts import document_texts as texts
from hosts.document_texts import ABSENT, PATHS, VALUE
from hosts.drawn_documents import ENTRIES, KEYS, VALUES, blocks, documents
from support.tables import cases


def change(format, text, keys, value):
    """Return a text with a value set, or removed; another reader has verified it."""
    document = open_document(text, format)
    edit = document.remove(keys) if value is ABSENT else document.set(keys, value)
    after = edit.apply(text)
    verify_edit(text, after, format, {keys: value})
    return after


def add(format, text, value=VALUE):
    return change(format, text, PATHS[format], value)


def take(format, text):
    return change(format, text, PATHS[format], ABSENT)


def rows(table):
    """Return a table by formats as rows, and their ids."""
    found = []
    for format, inner in table.items():
        pairs = inner.items() if isinstance(inner, dict) else [(row[0][:20], row) for row in inner]
        for name, row in pairs:
            columns = row if isinstance(row, tuple) else (row,)
            found.append((f"{format} {name}", (format, *columns)))
    return {"rows": [row for _, row in found], "ids": [name for name, _ in found]}


@cases(("format", "text"), **rows(texts.WITH_MEMBERS))
def test_adding_and_removing_gives_the_same_bytes(format, text):
    after = add(format, text)
    assert add(format, after) == after
    assert take(format, after) == text


@pytest.mark.parametrize("text", texts.WITH_MEMBERS["yaml"].values(), ids=str)
def test_the_bytes_are_the_same_without_libyaml(text, monkeypatch):
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert take("yaml", add("yaml", text)) == text


@cases(("format", "text"), **rows(texts.WITHOUT_MEMBERS))
def test_a_container_is_made_where_it_is_absent(format, text):
    after = add(format, text)
    assert open_document(after, format).find(PATHS[format]) is not None
    left = take(format, after)
    assert open_document(left, format).data.get(PATHS[format][0], {}) == {}


@cases(("format", "text"), **rows(texts.WITH_MEMBERS))
def test_each_member_can_be_removed_and_replaced(format, text):
    data = open_document(text, format).data
    around = PATHS[format][0]
    for name, members in (data[around] or {}).items():
        change(format, text, (around, name), ABSENT)
        if format != "toml":
            change(format, text, (around, name), VALUE)
            change(format, text, (around, name), "text")
            continue
        for key in members:
            open_document(text, format).remove((around, name, key))
    for key in [around] if format == "yaml" else data:
        change(format, text, (key,), ABSENT)


@cases(("format", "text", "keys", "value", "after"), **rows(texts.EDITS))
def test_an_edit_changes_one_place_in_the_style_of_the_text(format, text, keys, value, after):
    assert change(format, text, keys, value) == after


@cases(("format", "text", "keys", "value", "said"), **rows(texts.REFUSED))
def test_an_edit_that_could_do_harm_is_refused(format, text, keys, value, said):
    document = open_document(text, format)
    with pytest.raises(UneditableDocument, match=said):
        document.remove(keys) if value is ABSENT else document.set(keys, value)


@cases("text", ["a:\n  - x\n  - y: 1\n", "a: [x, {y: 1}]\n"])
def test_items_are_replaced(text):
    change("yaml", text, ("a", 0), {"b": [1, {"c": "2"}]})
    change("yaml", text, ("a", 1), "z")
    change("yaml", text, ("a",), {"b": {"c": []}})


@cases("format", texts.PLACES)
def test_places_have_line_and_column(format):
    text, places = texts.PLACES[format]
    document = open_document(text, format)
    assert {keys: document.find(keys) for keys in places} == places


def test_an_empty_text_has_no_places():
    assert [open_document("", format).find(()) for format in ("json", "yaml")] == [None, None]


@cases(
    ("format", "text", "line", "column", "said"),
    [
        (format, *(row if len(row) == 4 else (row[0], row[1], None, row[2])))
        for format, faults in texts.BROKEN.items()
        for row in faults
    ],
    ids=[f"{format} {row[0][:20]}" for format, faults in texts.BROKEN.items() for row in faults],
)
def test_a_fault_is_explained_with_its_place(format, text, line, column, said):
    with pytest.raises(UnreadableDocument) as caught:
        open_document(text, format)
    place = caught.value.place
    assert said in str(caught.value)
    assert place.line == line
    # Versions of Python differ about TOML.
    assert column is None or abs(place.column - column) <= (format == "toml")


@pytest.mark.parametrize("format", PATHS)
def test_a_large_file_is_edited(format):
    long = "b" * 900
    around = PATHS[format][0]
    if format == "toml":
        entry = f'command = "x"\nargs = ["--a", "{long}"] # c\n\n'
        text = "".join(f"[{around}.s{n}]\n{entry}" for n in range(500))
    elif format == "yaml":
        entry = f"    cmd: x\n    args:\n      - --a\n      - {long} # c\n"
        text = f"{around}:\n" + "".join(f"  s{n}:\n{entry}" for n in range(500))
    else:
        entry = {"command": "https://x/y", "args": ["--a", long[:40]], "env": {"B": '"'}}
        servers = {f"s{n}": entry for n in range(30_000)}
        text = "// big\n" + json.dumps({around: servers}, indent=2)
        assert len(text) > 5_000_000
    after = open_document(text, format).set(PATHS[format], VALUE).apply(text)
    assert open_document(after, format).remove(PATHS[format]).apply(after) == text


# -- one format


@cases("text", texts.VALID, ids=[each[:12] for each in texts.VALID])
def test_valid_texts_of_json_are_read(text):
    document = open_document(text, "json")
    if "/*" not in text and ",]" not in text and ",}" not in text and len(text) < 5000:
        assert document.data == json.loads(text)


@cases("text", texts.INVALID)
def test_invalid_texts_of_json_are_refused(text):
    with pytest.raises(UnreadableDocument):
        open_document(text, "json")


def block_lines(value):
    """Return a value as the lines of a document of YAML."""
    return "\n".join(BlockStyle().lines(value))


@cases("text", [*texts.TRAPS.split(), *texts.ODD])
def test_a_text_stays_a_text_in_yaml(text):
    for loader in (yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        for value in ({"k": text}, {text: 1}, [text], {"k": [{"l": text}]}):
            assert yaml.load(block_lines(value), loader) == value
            assert yaml.load(f"- [{format_scalar(text, in_flow=True)}]", loader) == [[text]]
            assert change("yaml", "a: {b: 1}\n", ("a", "c"), value)


@cases("value", [1, -2.5, 1e20, 1e-7, 1.5e300, True, False, None, [], {}, 10**30])
def test_values_keep_their_type_in_yaml(value):
    assert yaml.safe_load(block_lines([value, {"k": value}])) == [value, {"k": value}]


@cases("value", [object(), {1: 2}, "\ud800", {"a": b"x"}])
def test_a_value_that_yaml_lacks_is_refused(value):
    with pytest.raises(HostsError):
        open_document("", "yaml").set(("a",), value)


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


@pytest.mark.parametrize("format", PATHS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_document_gets_an_entry_and_loses_it_again(format, data):
    _, text = data.draw(documents(format))
    after = add(format, text, data.draw(ENTRIES[format]))
    assert take(format, after) == text


@pytest.mark.parametrize("format", PATHS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_entry_of_any_document_is_replaced_or_removed(format, data):
    names, text = data.draw(documents(format))
    keys = (PATHS[format][0], data.draw(st.sampled_from(names)))
    change(format, text, keys, data.draw(ENTRIES[format]))
    change(format, text, keys, ABSENT)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(st.dictionaries(KEYS["yaml"], VALUES["yaml"], min_size=1), min_size=1))
def test_any_list_of_yaml_gets_an_item_and_loses_it_again(data, items):
    text = data.draw(blocks({"mcpServers": items, "z": 1}))
    keys = ("mcpServers", len(items))
    assert change("yaml", change("yaml", text, keys, VALUE), keys, ABSENT) == text
