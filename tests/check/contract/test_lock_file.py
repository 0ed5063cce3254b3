"""Lock files: changes are named, entry by entry and member by member."""

import json

import pytest

from accord.protocol.catalogue import RULE_SET
from accord_tools.contract.lock_file import LockError, find_changes, format_lock, read_lock

TOOL = {"name": "add", "description": "Add.", "inputSchema": {"properties": {"a": {}}}}
BEFORE = {
    "server": "desk",
    "tools": [TOOL, {"name": "drop", "inputSchema": {}}],
    "resources": [{"uri": "note://1", "name": "one"}],
    "prompts": [],
}


def texts(after, before=BEFORE):
    return [each.text() for each in find_changes(before, after)]


def test_equal_catalogs_have_no_changes():
    assert texts(json.loads(json.dumps(BEFORE))) == []
    assert texts({**BEFORE, "tools": BEFORE["tools"][::-1]}) == []


def test_added_removed_and_changed_entries_are_distinguished():
    after = {
        **BEFORE,
        "instructions": "Look first.",
        "tools": [
            {
                "name": "add",
                "description": "Adds.",
                "inputSchema": {"properties": {"a": {"type": "integer"}}},
                "annotations": {"readOnlyHint": True},
            },
            {"name": "new", "inputSchema": {}},
        ],
        "resources": [],
        "resourceTemplates": [{"uriTemplate": "note://{id}", "name": "any"}],
        "prompts": [{"name": "hello"}],
    }
    assert texts(after) == [
        'the instructions: added\n  + "Look first."',
        'tool add: annotations added\n  + {"readOnlyHint": true}',
        'tool add: description changed\n  - "Add."\n  + "Adds."',
        'tool add: inputSchema.properties.a.type added\n  + "integer"',
        "tool drop: removed",
        "tool new: added",
        "resource note://1: removed",
        "resource template note://{id}: added",
        "prompt hello: added",
    ]


def test_another_server_and_a_removed_member_are_changes():
    after = {**BEFORE, "server": "other", "tools": [{"name": "add", "inputSchema": {}}]}
    assert texts(after)[:3] == [
        'the server: changed\n  - "desk"\n  + "other"',
        'tool add: description removed\n  - "Add."',
        'tool add: inputSchema.properties removed\n  - {"a": {}}',
    ]


def described(text):
    return {**BEFORE, "tools": [{**TOOL, "description": text}, BEFORE["tools"][1]]}


def test_a_long_text_is_cut_to_the_part_that_differs():
    words = "Read this first. " * 60
    (text,) = texts(described(f"{words}Send nothing."), described(f"{words}Send everything."))
    head, was, now = text.splitlines()
    assert head == "tool add: description changed"
    assert was.startswith("  - ...")
    assert was.endswith("Send everything.")
    assert now.endswith("Send nothing.")
    assert len(now) < 400


def test_only_the_lines_that_differ_are_shown():
    lines = [f"line {number} of a long description" for number in range(40)]
    other = [*lines[:20], "a line between", *lines[20:39], "another end"]
    (text,) = texts(described("\n".join(other)), described("\n".join(lines)))
    assert text.splitlines()[1:] == [
        "  + a line between",
        "  - line 39 of a long description",
        "  + another end",
    ]


def test_long_schemas_differ_by_line_up_to_a_limit():
    schema = {"enum": [f"value {number}" for number in range(60)]}
    other = {"enum": [f"value {number}" for number in range(30, 90)]}
    tools = [{"name": "t", "inputSchema": each} for each in (schema, other)]
    (text,) = texts({"server": "s", "tools": tools[:1]}, {"server": "s", "tools": tools[1:]})
    assert '  + "value 0",' in [line.rstrip() for line in text.replace("+   ", "+ ").splitlines()]
    assert "... and" in text.splitlines()[-1]


def test_invisible_characters_are_escaped():
    (text,) = texts(described("Add.\u200b\U000e0041"))
    assert text.splitlines()[1:] == ['  - "Add."', '  + "Add.\\u200b\\U000e0041"']


def test_true_is_not_1():
    tool = {"name": "t", "inputSchema": {"default": 1}}
    other = {"name": "t", "inputSchema": {"default": True}}
    found = find_changes({"server": "s", "tools": [tool]}, {"server": "s", "tools": [other]})
    assert [each.what for each in found] == ["inputSchema.default changed"]


def test_the_same_catalog_gives_the_same_text(tmp_path):
    text = format_lock(BEFORE, "2025-06-18")
    assert text == format_lock(dict(reversed(BEFORE.items())), "2025-06-18")
    (tmp_path / "a.lock").write_text(text)
    locked = {"revision": "2025-06-18", "rules": RULE_SET, **BEFORE}
    assert read_lock(tmp_path / "a.lock") == locked


def test_other_rules_in_a_lock_file_do_not_count_as_a_change(tmp_path):
    older = json.loads(format_lock(BEFORE, "2025-06-18"))
    del older["rules"]
    for rules in ({}, {"rules": "2026-11"}, {"rules": "2031-01"}):
        (tmp_path / "a.lock").write_text(json.dumps(older | rules))
        assert find_changes(read_lock(tmp_path / "a.lock"), BEFORE) == []


def test_an_unreadable_lock_file_is_reported(tmp_path):
    with pytest.raises(LockError, match=r"a\.lock does not exist; accord lock writes it"):
        read_lock(tmp_path / "a.lock")
    (tmp_path / "b.lock").write_text("{")
    with pytest.raises(LockError, match=r"b\.lock is not JSON"):
        read_lock(tmp_path / "b.lock")
    (tmp_path / "c.lock").write_text("[]")
    with pytest.raises(LockError, match=r"c\.lock is not a lock file"):
        read_lock(tmp_path / "c.lock")
    with pytest.raises(LockError, match="directory"):
        read_lock(tmp_path)
