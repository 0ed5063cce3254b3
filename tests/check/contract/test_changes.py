"""Locked surfaces: what changed is named, entry by entry and member by member."""

import json

import pytest

from accord.check.contract.changes import LockError, changes, read_lock, written_lock

TOOL = {"name": "add", "description": "Add.", "inputSchema": {"properties": {"a": {}}}}
BEFORE = {
    "server": "desk",
    "tools": [TOOL, {"name": "drop", "inputSchema": {}}],
    "resources": [{"uri": "note://1", "name": "one"}],
    "prompts": [],
}


def texts(after, before=BEFORE):
    return [each.text() for each in changes(before, after)]


def test_nothing_changed_is_no_change():
    assert texts(json.loads(json.dumps(BEFORE))) == []
    assert texts({**BEFORE, "tools": BEFORE["tools"][::-1]}) == []


def test_added_removed_and_changed_entries_are_told_apart():
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


def test_true_is_not_1():
    tool = {"name": "t", "inputSchema": {"default": 1}}
    other = {"name": "t", "inputSchema": {"default": True}}
    found = changes({"server": "s", "tools": [tool]}, {"server": "s", "tools": [other]})
    assert [each.what for each in found] == ["inputSchema.default changed"]


def test_the_same_surface_gives_the_same_text(tmp_path):
    text = written_lock(BEFORE, "2025-06-18")
    assert text == written_lock(dict(reversed(BEFORE.items())), "2025-06-18")
    (tmp_path / "a.lock").write_text(text)
    assert read_lock(tmp_path / "a.lock") == {"revision": "2025-06-18", **BEFORE}


def test_a_lock_that_cannot_be_read_is_said_so(tmp_path):
    with pytest.raises(LockError, match=r"there is no .*a\.lock; accord lock writes it"):
        read_lock(tmp_path / "a.lock")
    (tmp_path / "b.lock").write_text("{")
    with pytest.raises(LockError, match=r"b\.lock is no JSON"):
        read_lock(tmp_path / "b.lock")
    (tmp_path / "c.lock").write_text("[]")
    with pytest.raises(LockError, match=r"c\.lock is no lock file"):
        read_lock(tmp_path / "c.lock")
    with pytest.raises(LockError, match="directory"):
        read_lock(tmp_path)
